//! The life of a server connection: connecting, logging in, up, gone.
//!
//! ```text
//! connecting → (asking → shaking) → login → (probing) → (greeting) → idle
//! idle → (checking) → (agreeing) → linked → (resetting → (restoring)) → idle → … → closed
//! ```
//!
//! Owns our logins at servers, from the connect to the first client, and what becomes of a link whose server is lost. Must
//! not decide when servers are wanted, nor which is tried next (`places`).

use std::net::IpAddr;
use std::sync::Arc;

use weir_auth::Trust;
use weir_base::{Host, Peer, Time};
use weir_pool::Acquire;
use weir_session::server_login::{Credentials, ServerLogin, ServerLoginStep};
use weir_session::{Refusal, ServerError};

use crate::Engine;
use crate::backends::hosts::{Fitness, fitness};
use crate::common::{FollowUp, Job};
use crate::entry::reported::{Reported, Welcome};
use crate::log::log;
use crate::peers::{ClientPhase, Entry, ServerPhase, ServerSlot, ServerState};
use crate::port::{Handshake, Io, Level, Work};
use crate::traffic::wire::Wire;
use weir_config::{Encryption, LoginFailure};

impl Engine {
    /// A connect of ours succeeded.
    pub(crate) fn connected<I: Io>(&mut self, peer: Peer, local: String, remote: Option<IpAddr>, io: &mut I) {
        if self.peers.cancel(peer).is_some() {
            return self.cancel_connected(peer, io);
        }
        let Some(server) = self.peers.server(peer) else { return };
        server.local = local;
        server.remote = remote;
        // The answer that it was reached by may not be the last one any more.
        server.marked_for_close |= self.backends.dns.has_vanished(server);
        // A Unix socket is never encrypted, as with libpq and PgBouncer.
        if server.attempt.encryption == Encryption::Off || matches!(server.target.host, Host::SocketDir(_)) {
            return self.begin_server_login(peer, io);
        }
        server.state = ServerState::Asking;
        ask_for_encryption(peer, io);
    }

    /// A server's answer to the question whether it can encrypt.
    fn encryption_answer<I: Io>(&mut self, now: Time, mut server: Box<ServerSlot>, bytes: &[u8], io: &mut I) {
        let peer = server.peer;
        let error = match read_answer(bytes) {
            Ok(true) => {
                server.state = ServerState::Shaking;
                let (host, mode) = (server.target.host.clone(), self.common.config().tls.server.mode);
                self.peers.put(peer, Entry::Server(server));
                return io.start_tls(peer, Handshake::Connect { host, mode, direct: false });
            }
            Ok(false) if server.attempt.encryption == Encryption::Preferred => {
                self.peers.put(peer, Entry::Server(server));
                return self.begin_server_login(peer, io);
            }
            Ok(false) => "server refused SSL",
            Err(error) => error,
        };
        io.close(peer);
        self.login_failed(now, server, ours(error.to_owned()), LoginFailure::Other, io);
    }

    /// The connection to a server is there, encrypted if it has to be: the login begins.
    fn begin_server_login<I: Io>(&mut self, peer: Peer, io: &mut I) {
        let Some(server) = self.peers.server(peer) else { return };
        let pool = self.pools.get(server.pool);
        let listed =
            self.common.config().auth.users.get(&pool.user).and_then(|text| weir_auth::Secret::parse(text).ok());
        let listed = listed.or_else(|| pool.asked.clone());
        let mut credentials = Credentials {
            user: pool.user.clone(),
            database: pool.config.database.as_str().into(),
            password: pool.config.password.clone().filter(|_| pool.is_own()),
            md5: None,
            keys: None,
            require: pool.config.require_auth,
            trust: Trust {
                verified: server.tls.as_ref().is_some_and(|tls| tls.certificate.is_some()),
                expects_request: pool.config.password.is_some() && pool.is_own(),
            },
            startup: pool.config.startup.clone(),
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
        let binding = server.tls.as_ref().and_then(|tls| tls.binding.as_deref());
        let mut buffer = Vec::new();
        let login = ServerLogin::begin(credentials, binding, &self.sessions.params, &mut buffer);
        server.state = ServerState::Login(Box::new(login));
        io.send(peer, &buffer);
    }

    /// A server's handshake is done.
    pub(crate) fn server_secured<I: Io>(&mut self, server: Box<ServerSlot>, io: &mut I) {
        let peer = server.peer;
        self.peers.put(peer, Entry::Server(server));
        self.begin_server_login(peer, io);
    }

    /// A server's handshake failed; its connection is gone.
    pub(crate) fn server_tls_failed<I: Io>(&mut self, now: Time, server: Box<ServerSlot>, error: &str, io: &mut I) {
        let message = format!("TLS handshake with server {} failed: {error}", server.target);
        self.login_failed(now, server, ours(message), LoginFailure::Handshake, io);
    }

    /// A connect of ours failed; the handle is dead.
    pub(crate) fn connect_failed<I: Io>(&mut self, now: Time, peer: Peer, error: &str, io: &mut I) {
        match self.peers.take(peer) {
            Entry::Cancel(cancel) => self.cancel_over(&cancel, io),
            Entry::Server(server) => {
                let error = ours(format!("could not connect to server {}: {error}", server.target));
                self.fail_line(now, &server.target, &error, false);
                self.login_failed(now, server, error, LoginFailure::Other, io);
            }
            Entry::Client(client) => self.peers.put(peer, Entry::Client(client)),
            Entry::Free => {}
        }
    }

    /// A server that is logging in sent something.
    pub(crate) fn login_bytes<I: Io>(&mut self, now: Time, mut server: Box<ServerSlot>, bytes: &[u8], io: &mut I) {
        if matches!(server.state, ServerState::Asking) {
            return self.encryption_answer(now, server, bytes, io);
        }
        let nonce = self.common.random_bytes();
        let ServerState::Login(login) = &mut server.state else {
            return self.peers.put(server.peer, Entry::Server(server));
        };
        let mut buffer = Vec::new();
        let told = login.feed(bytes, nonce, &self.sessions.params, &mut buffer);
        if !buffer.is_empty() {
            io.send(server.peer, &buffer);
        }
        self.login_told(now, server, told, io);
    }

    fn login_told<I: Io>(&mut self, now: Time, mut server: Box<ServerSlot>, told: ServerLoginStep, io: &mut I) {
        match told {
            ServerLoginStep::Wait => self.peers.put(server.peer, Entry::Server(server)),
            ServerLoginStep::Failed(error) => {
                io.close(server.peer);
                let encrypted = server.tls.is_some();
                let ending =
                    if error.sqlstate == "28000" { LoginFailure::Refused { encrypted } } else { LoginFailure::Other };
                self.login_failed(now, server, error, ending, io);
            }
            ServerLoginStep::HashPassword { password, salt, iterations } => {
                let pool = self.pools.get(server.pool);
                let key = (password.clone(), salt.clone(), iterations);
                let known = pool.salted.as_ref().filter(|(known, _)| *known == key).map(|(_, salted)| *salted);
                if let Some(salted) = known {
                    return self.server_salted_now(now, server, &salted, io);
                }
                let job = self.common.begin_job(Job::ServerSalt(server.peer));
                io.help(job, Work::SaltServer { password, salt, iterations });
                server.salting = Some(key);
                self.peers.put(server.peer, Entry::Server(server));
            }
            ServerLoginStep::Ready(welcome) => {
                let process = welcome.server.cancel_key().pid;
                server.state = ServerState::Up(welcome.server, ServerPhase::CheckingRole);
                server.reported = welcome.reported;
                server.connected_at = now;
                server.linked_at = now;
                if self.common.config().log.connections {
                    let text = format_args!("new connection to server (from {})", server.local);
                    self.log_server(Level::Info, &server, text, io);
                }
                self.log_server(Level::Debug, &server, format_args!("logged in, server process {process}"), io);
                self.probe(now, server, io);
            }
        }
    }

    /// A server has logged in: is it good for its pool?
    fn probe<I: Io>(&mut self, now: Time, mut server: Box<ServerSlot>, io: &mut I) {
        let attrs = self.pools.get(server.pool).config.session_attrs;
        let any = server.attempt.any;
        let Some(role) = server.up().map(|(up, _)| up.role()) else { return };
        match fitness(attrs, any, role) {
            Fitness::Fits => self.greet(now, server, io),
            Fitness::Unfit(why) => self.unfit(now, server, why, io),
            Fitness::Ask { query, .. } => self.introduce(server, query, ServerPhase::CheckingRole, io),
        }
    }

    /// Sends a query of ours to a server that its pool does not have yet; `server_connect_timeout` covers it.
    fn introduce<I: Io>(&mut self, mut server: Box<ServerSlot>, query: &str, next: ServerPhase, io: &mut I) {
        let peer = server.peer;
        if let Some((up, phase)) = server.up() {
            *phase = next;
            up.own_query(query, &mut self.sessions.scratch, &mut Wire::new(io, Peer::NONE, peer, &[], None));
        }
        self.peers.put(peer, Entry::Server(server));
    }

    fn unfit<I: Io>(&mut self, now: Time, server: Box<ServerSlot>, why: &str, io: &mut I) {
        self.terminate(server.peer, io);
        self.login_failed(now, server, ours(why.to_owned()), LoginFailure::Other, io);
    }

    /// A server is good for its pool: the query that each begins with, if there is one.
    fn greet<I: Io>(&mut self, now: Time, server: Box<ServerSlot>, io: &mut I) {
        let pool = self.pools.get(server.pool).config.clone();
        match &pool.connect_query {
            Some(query) => self.introduce(server, query, ServerPhase::ConnectQuery, io),
            None => self.server_up(now, server, io),
        }
    }

    /// A query of ours has ended on a server that its pool does not have yet.
    pub(crate) fn introduced<I: Io>(
        &mut self,
        now: Time,
        mut server: Box<ServerSlot>,
        outcome: Result<(), ServerError>,
        io: &mut I,
    ) {
        let probing = server.phase() == Some(ServerPhase::CheckingRole);
        let found = server.up().is_some_and(|(up, _)| up.found_row());
        let role = server.up().map(|(up, _)| up.role()).unwrap_or_default();
        match (probing, outcome) {
            (true, Err(error)) => {
                self.terminate(server.peer, io);
                self.login_failed(now, server, error, LoginFailure::Other, io);
            }
            (true, Ok(())) => {
                let attrs = self.pools.get(server.pool).config.session_attrs;
                match fitness(attrs, server.attempt.any, role) {
                    Fitness::Ask { row, why, .. } if row != found => self.unfit(now, server, why, io),
                    Fitness::Unfit(why) => self.unfit(now, server, why, io),
                    _ => self.greet(now, server, io),
                }
            }
            (false, outcome) => {
                // As with PgBouncer, the query may fail.
                if let Err(error) = outcome {
                    let text = format_args!("error while executing connect_query: {}", error.message);
                    self.log_server(Level::Warning, &server, text, io);
                }
                self.server_up(now, server, io);
            }
        }
    }

    /// A server has logged in; the pool says for whom.
    fn server_up<I: Io>(&mut self, now: Time, mut server: Box<ServerSlot>, io: &mut I) {
        let (peer, ix) = (server.peer, server.pool);
        let Some((up, phase)) = server.up() else { return };
        *phase = ServerPhase::Idle;
        let Some(proof) = up.prove_clean() else {
            self.terminate(peer, io);
            let error = ours("connect_query left a transaction open".to_owned());
            return self.login_failed(now, server, error, LoginFailure::Other, io);
        };
        let slot = self.pools.get_mut(ix);
        if let Some(known) = &slot.welcome {
            up.share_params(&known.params);
        }
        let params = up.params().clone();
        let mut reported = std::mem::take(&mut server.reported);
        for (name, value) in &mut reported {
            // connect_query may have changed it.
            if let Some(has) = self.sessions.params.get(&params, name).filter(|has| has != value) {
                has.clone_into(value);
            }
        }
        slot.last_error = None;
        slot.failing_since = Time::NEVER;
        slot.places.succeeded();
        slot.welcome = Some(Welcome { params, reported: Arc::new(Reported::new(&self.sessions.params, reported)) });
        let marked_for_close = server.marked_for_close;
        self.peers.put(peer, Entry::Server(server));
        if marked_for_close {
            return self.close_server(now, peer, RECONFIGURED, io);
        }
        let answer = self.pools.get_mut(ix).pool.connected(peer, proof, now);
        self.passed_on(now, ix, peer, answer, io);
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
        let Some(phase) = server.phase().filter(|_| !server.is_new()) else {
            let shaking = matches!(server.state, ServerState::Shaking);
            let ending = if shaking { LoginFailure::Handshake } else { LoginFailure::Other };
            let error = match server.fatal_error.take() {
                Some(Refusal::ServerDown { sqlstate, message }) => ServerError { sqlstate, message },
                _ => ours("server closed the connection during the login".to_owned()),
            };
            return self.login_failed(now, server, error, ending, io);
        };
        if self.common.config().log.disconnections {
            let age = now.since(server.connected_at).micros() / 1_000_000;
            let text = format_args!("closing because: server conn crashed? (age={age}s)");
            self.log_server(Level::Info, &server, text, io);
        }
        self.pools.get_mut(ix).pool.lost(peer, now);
        self.common.follow_up(FollowUp::PollPool(ix));
        match phase {
            ServerPhase::AuthQuery(query) => return self.auth_query_lost(now, query, server.fatal_error, io),
            ServerPhase::Lending { request, .. } => return self.lending_failed(ix, request, io),
            _ => {}
        }
        let Some(client) = server.link else { return };
        let Some(mut client) = self.peers.take_client(client) else { return };
        client.link = None;
        client.cut = server.up().is_some_and(|(up, _)| up.is_mid_message());
        if matches!(phase, ServerPhase::Checking | ServerPhase::SyncingParameters)
            && matches!(client.phase, ClientPhase::Ready(_))
        {
            // Nothing of the client's was sent yet: it may have another server, in its old place in the queue.
            let (peer, since) = (client.peer, client.request_at);
            let cancelled = client.ready().is_some_and(|session| session.is_cancelled());
            self.peers.put(peer, Entry::Client(client));
            if cancelled {
                return self.go_on(peer, io);
            }
            return self.requeue(now, ix, peer, since, io);
        }
        let told = server.fatal_error.as_ref().is_some_and(|words| !matches!(words, Refusal::ServerUnexpected));
        if told {
            // It has read the server's own words.
            io.close(client.peer);
            return self.depart(now, client, "server conn crashed?", io);
        }
        let refusal = server.fatal_error.unwrap_or(Refusal::ServerLost);
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
        self.common.follow_up(FollowUp::PollPool(ix));
        let phase = slot.phase();
        self.goodbye(slot, why, io);
        match phase {
            Some(ServerPhase::AuthQuery(query)) => self.auth_query_lost(now, query, None, io),
            Some(ServerPhase::Lending { request, .. }) => self.lending_failed(ix, request, io),
            _ => {}
        }
    }

    /// Closes a server that the pool has forgotten.
    pub(crate) fn goodbye<I: Io>(&mut self, server: Box<ServerSlot>, why: &str, io: &mut I) {
        match server.state {
            ServerState::Up(..) => self.terminate(server.peer, io),
            _ => io.close(server.peer),
        }
        if self.common.config().log.disconnections {
            let age = self.common.now().since(server.connected_at).micros() / 1_000_000;
            self.log_server(Level::Info, &server, format_args!("closing because: {why} (age={age}s)"), io);
        }
    }

    /// Says goodbye to a server that has logged in.
    fn terminate<I: Io>(&mut self, server: Peer, io: &mut I) {
        self.sessions.scratch.clear();
        weir_pgwire::put_front::terminate(&mut self.sessions.scratch);
        io.send(server, &self.sessions.scratch);
        io.close(server);
    }

    /// A login at the server failed; its connection is gone, or being closed.
    pub(crate) fn login_failed<I: Io>(
        &mut self,
        now: Time,
        server: Box<ServerSlot>,
        error: ServerError,
        ending: LoginFailure,
        io: &mut I,
    ) {
        let slot = self.pools.get(server.pool);
        let (name, user, place) = (&slot.name, &slot.user, &server.target);
        log(Level::Warning, format_args!("{name}/{user}@{place}: server login failed: {}", error.message), io);
        let again = server.attempt.encryption.other(self.common.config().tls.server.mode, ending);
        let slot = self.pools.get_mut(server.pool);
        let (failure, told) = slot.places.failed(&slot.config, server.attempt, error, again);
        slot.note_failure(told, false, now);
        slot.pool.connect_failed(server.peer, failure, now);
        self.common.follow_up(FollowUp::PollPool(server.pool));
    }

    /// A server is closed at its release.
    pub(crate) fn mark_for_close(&mut self, server: Peer) {
        if let Some(server) = self.peers.server(server) {
            server.marked_for_close = true;
        }
    }
}

/// Why a server is closed whose address or login is not what it was (PgBouncer's words).
pub(crate) const RECONFIGURED: &str = "database configuration changed";

/// Sends the question whether a server can encrypt; one byte answers it (PostgreSQL documentation, "SSL Session
/// Encryption").
pub(crate) fn ask_for_encryption<I: Io>(peer: Peer, io: &mut I) {
    let mut buffer = Vec::new();
    weir_pgwire::put_front::ssl_request(&mut buffer);
    io.send(peer, &buffer);
}

/// Whether a server can encrypt. Anything beyond that one byte was sent before the handshake, perhaps by somebody else
/// (CVE-2021-23222), and costs the connection. The words are PgBouncer's.
pub(crate) fn read_answer(bytes: &[u8]) -> Result<bool, &'static str> {
    match bytes {
        [b'S'] => Ok(true),
        [b'N'] => Ok(false),
        [b'S' | b'N', ..] => Err("received unencrypted data after SSL response"),
        _ => Err("bad sslreq answer"),
    }
}

/// An error of ours, where no server has said anything.
fn ours(message: String) -> ServerError {
    ServerError { sqlstate: "08006".into(), message }
}
