//! The life of a server connection: connecting, logging in, up, gone.
//!
//! ```text
//! connecting → login → idle ⇄ (checking | agreeing) → linked → (resetting) → idle → … → closed
//! ```
//!
//! Owns our logins at servers and what becomes of a link whose server is lost. Must not decide when servers are wanted.

use weir_base::{Peer, Time};
use weir_pool::{Acquire, Release};
use weir_session::server_login::{Credentials, LoginTold, ServerLogin};
use weir_session::{OwnError, Refusal};

use crate::peers::{Doing, Entry, Phase, ServerSlot, ServerState};
use crate::pools::Welcome;
use crate::port::{Io, Level, Work};
use crate::{Engine, Job, Todo};

impl Engine {
    /// A connect of ours succeeded.
    pub(crate) fn connected<I: Io>(&mut self, peer: Peer, local: String, io: &mut I) {
        if self.peers.cancel(peer).is_some() {
            return self.cancel_connected(peer, io);
        }
        let Some(server) = self.peers.server(peer) else { return };
        server.local = local;
        let pool = self.pools.get(server.pool);
        let listed = self.config.auth.users.get(&pool.user).and_then(|text| weir_auth::Secret::parse(text).ok());
        let mut credentials = Credentials {
            user: pool.user.clone(),
            database: pool.config.database.as_str().into(),
            password: pool.config.password.clone(),
            md5: None,
            keys: None,
        };
        if credentials.password.is_none() {
            match listed {
                Some(weir_auth::Secret::Plain(password)) => credentials.password = Some(password),
                Some(weir_auth::Secret::Md5(hex)) => credentials.md5 = Some(hex),
                _ => {}
            }
            credentials.password = credentials.password.or_else(|| pool.learnt.password.clone());
            credentials.keys.clone_from(&pool.learnt.keys);
        }
        let mut buffer = Vec::new();
        let login = ServerLogin::begin(credentials, &self.shared.params, &mut buffer);
        server.state = ServerState::Login(Box::new(login));
        io.send(peer, &buffer);
    }

    /// A connect of ours failed; the handle is dead.
    pub(crate) fn connect_failed<I: Io>(&mut self, now: Time, peer: Peer, error: &str, io: &mut I) {
        match self.peers.take(peer) {
            Entry::Cancel(cancel) => self.cancel_over(&cancel, io),
            Entry::Server(server) => {
                let target = &self.pools.get(server.pool).config.target;
                let message = format!("could not connect to server {target}: {error}");
                self.login_failed(now, server.pool, peer, OwnError { sqlstate: "08006".into(), message }, io);
            }
            Entry::Client(client) => self.peers.put(peer, Entry::Client(client)),
            Entry::Free => {}
        }
    }

    /// A server that is logging in sent something.
    pub(crate) fn login_bytes<I: Io>(&mut self, now: Time, mut server: Box<ServerSlot>, bytes: &[u8], io: &mut I) {
        let nonce = self.random_bytes();
        let ServerState::Login(login) = &mut server.state else {
            return self.peers.put(server.peer, Entry::Server(server));
        };
        let mut buffer = Vec::new();
        let told = login.feed(bytes, nonce, &self.shared.params, &mut buffer);
        if !buffer.is_empty() {
            io.send(server.peer, &buffer);
        }
        self.login_told(now, server, told, io);
    }

    fn login_told<I: Io>(&mut self, now: Time, mut server: Box<ServerSlot>, told: LoginTold, io: &mut I) {
        match told {
            LoginTold::Wait => self.peers.put(server.peer, Entry::Server(server)),
            LoginTold::Failed(error) => {
                io.close(server.peer);
                self.login_failed(now, server.pool, server.peer, error, io);
            }
            LoginTold::Salt { password, salt, iterations } => {
                let pool = self.pools.get(server.pool);
                let key = (password.clone(), salt.clone(), iterations);
                let known = pool.salted.as_ref().filter(|(known, _)| *known == key).map(|(_, salted)| *salted);
                if let Some(salted) = known {
                    return self.server_salted_now(now, server, &salted, io);
                }
                let job = self.next_id();
                self.jobs.insert(job, Job::ServerSalt(server.peer));
                io.help(job, Work::SaltPassword { password, salt, iterations });
                server.salting = Some(key);
                self.peers.put(server.peer, Entry::Server(server));
            }
            LoginTold::Ready(mut welcome) => {
                let slot = self.pools.get_mut(server.pool);
                if let Some(known) = &slot.welcome {
                    welcome.server.share_params(&known.params);
                }
                slot.last_error = None;
                slot.welcome =
                    Some(Welcome { params: welcome.server.params().clone(), reported: welcome.reported.into() });
                server.state = ServerState::Up(welcome.server, Doing::Idle);
                server.connected_at = now;
                server.linked_at = now;
                if self.config.log.connections {
                    let target = &slot.config.target;
                    io.log(
                        Level::Info,
                        format_args!(
                            "S-{:#x}: {}/{}@{target} new connection to server (from {})",
                            server.id, slot.name, slot.user, server.local
                        ),
                    );
                }
                self.server_up(now, server, io);
            }
        }
    }

    /// A server has logged in; the pool says for whom.
    fn server_up<I: Io>(&mut self, now: Time, mut server: Box<ServerSlot>, io: &mut I) {
        let (peer, ix) = (server.peer, server.pool);
        let proof = server.up().and_then(|(up, _)| up.prove_clean());
        self.peers.put(peer, Entry::Server(server));
        let Some(proof) = proof else { return self.close_server(now, peer, "unclean server", io) };
        match self.pools.get_mut(ix).pool.connected(peer, proof, now) {
            Release::Next { client, waited, check } => {
                self.pools.get_mut(ix).stats.wait_time += waited.micros();
                self.grant(now, client, peer, check, io);
            }
            Release::Idle => {}
            Release::Close(reason) => {
                if let Some(server) = self.peers.take_server(peer) {
                    self.goodbye(server, reason.text(), io);
                }
            }
        }
        self.todo.push_back(Todo::Settle(ix));
    }

    /// A helper has hashed the password of a login of ours.
    pub(crate) fn server_salted<I: Io>(&mut self, now: Time, peer: Peer, salted: &[u8; 32], io: &mut I) {
        let Some(mut server) = self.peers.take_server(peer) else { return };
        let key = server.salting.take();
        self.pools.get_mut(server.pool).salted = key.map(|key| (key, *salted));
        self.server_salted_now(now, server, salted, io);
    }

    fn server_salted_now<I: Io>(&mut self, now: Time, mut server: Box<ServerSlot>, salted: &[u8; 32], io: &mut I) {
        let ServerState::Login(login) = &mut server.state else {
            return self.peers.put(server.peer, Entry::Server(server));
        };
        let mut buffer = Vec::new();
        let told = login.salted(salted, &mut buffer);
        io.send(server.peer, &buffer);
        self.login_told(now, server, told, io);
    }

    /// A server's connection has ended, or is being ended because the server can't be trusted; it is out of the table.
    pub(crate) fn server_gone<I: Io>(&mut self, now: Time, mut server: Box<ServerSlot>, io: &mut I) {
        let (peer, ix) = (server.peer, server.pool);
        let Some(doing) = server.doing() else {
            let message = "server closed the connection during the login".to_owned();
            return self.login_failed(now, ix, peer, OwnError { sqlstate: "08006".into(), message }, io);
        };
        if self.config.log.disconnections {
            let age = now.since(server.connected_at).micros() / 1_000_000;
            io.log(Level::Info, format_args!("S-{:#x}: closing because: server conn crashed? (age={age}s)", server.id));
        }
        self.pools.get_mut(ix).pool.lost(peer, now);
        self.todo.push_back(Todo::Settle(ix));
        let Some(client) = server.link else { return };
        let Some(mut client) = self.peers.take_client(client) else { return };
        client.link = None;
        client.cut = server.up().is_some_and(|(up, _)| up.is_mid_message());
        if matches!(doing, Doing::Checking | Doing::Agreeing) && matches!(client.phase, Phase::Ready(_)) {
            // Nothing of the client's was sent yet: it may have another server, in its old place in the queue.
            let (peer, since) = (client.peer, client.request_at);
            self.peers.put(peer, Entry::Client(client));
            return self.requeue(now, ix, peer, since, io);
        }
        let told = server.last_words.as_ref().is_some_and(|words| !matches!(words, Refusal::ServerUnexpected));
        if told {
            // It has read the server's own words.
            io.close(client.peer);
            return self.depart(now, client, "server conn crashed?", io);
        }
        let refusal = server.last_words.unwrap_or(Refusal::ServerLost);
        self.refuse(now, client, refusal, io);
    }

    fn requeue<I: Io>(&mut self, now: Time, ix: u32, client: Peer, since: Time, io: &mut I) {
        match self.pools.get_mut(ix).pool.requeue(client, since, now) {
            Acquire::Granted { server, check } => self.grant(now, client, server, check, io),
            Acquire::Queued => {}
            Acquire::Refused(why) => {
                let refusal = self.refusal(ix, why);
                self.refuse_handle(now, client, refusal, io);
            }
        }
    }

    /// Closes a server that is up, with no client that should hear of it, and tells the pool.
    pub(crate) fn close_server<I: Io>(&mut self, now: Time, server: Peer, why: &str, io: &mut I) {
        let Some(slot) = self.peers.take_server(server) else { return };
        let ix = slot.pool;
        self.pools.get_mut(ix).pool.lost(server, now);
        self.todo.push_back(Todo::Settle(ix));
        self.goodbye(slot, why, io);
    }

    /// Closes a server that the pool has forgotten.
    pub(crate) fn goodbye<I: Io>(&mut self, server: Box<ServerSlot>, why: &str, io: &mut I) {
        if matches!(server.state, ServerState::Up(..)) {
            self.shared.scratch.clear();
            weir_pgwire::put_front::terminate(&mut self.shared.scratch);
            io.send(server.peer, &self.shared.scratch);
        }
        io.close(server.peer);
        if self.config.log.disconnections {
            io.log(Level::Info, format_args!("S-{:#x}: closing because: {why}", server.id));
        }
    }

    /// A server is closed at its release.
    pub(crate) fn doom(&mut self, server: Peer) {
        if let Some(server) = self.peers.server(server) {
            server.doomed = true;
        }
    }
}
