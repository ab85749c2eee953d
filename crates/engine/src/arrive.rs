//! From the first packet of a client to one that may ask, on the worker where its pool lives.
//!
//! Owns the order: encryption refused, startup packet, the way to the right worker, the proof of identity, what the
//! client is told about its server. A login that can only fail takes the same steps as one that can succeed.

use std::sync::Arc;

use weir_auth::{ScramPolicy, Secret, StandIn, exchange};
use weir_base::{ClientAddr, Peer, Time, WorkerId};
use weir_config::Config;
use weir_pgwire::tag::front;
use weir_pgwire::{HEAD, Head, put_back};
use weir_pool::Acquire;
use weir_session::hello::{self, Hello, Opening};
use weir_session::login::{Login, MAX_PASSWORD, Next, Salt};
use weir_session::{Client, Params, Refusal};

use crate::console::Console;
use crate::mail::{Letter, Mail, Traveller};
use crate::peers::{ClientSlot, Entry, Journey, LoginPhase, Pause, Phase, SaltedKey};
use crate::pools::Welcome;
use crate::port::{Io, Level, Work};
use crate::timers::Who;
use crate::{Engine, Job, Todo};

/// The most hashed passwords that are kept.
const MAX_SALTED: usize = 4096;
/// How often a client may ask for encryption: once for each kind.
const ENCRYPTION_ASKS: u8 = 2;
/// How many clients more than `max_clients` may be at the door, to be told so or to cancel.
const AT_THE_DOOR: u32 = 100;
/// `scram_iterations`.
const ITERATIONS: u32 = 4096;
/// A `PoolIx` for clients that have no pool.
pub(crate) const NO_POOL: u32 = u32::MAX;

/// How unknown users are made to look: like most of the known ones.
pub(crate) fn policy(key: [u8; 32], config: &Config) -> ScramPolicy {
    let verifiers = config.auth.users.iter().filter(|(_, secret)| secret.starts_with("SCRAM-SHA-256$")).count();
    let stand_in = if verifiers * 2 > config.auth.users.len() { StandIn::Verifier } else { StandIn::Password };
    ScramPolicy { key, iterations: ITERATIONS, stand_in }
}

impl Engine {
    pub(crate) fn accepted<I: Io>(&mut self, now: Time, peer: Peer, from: ClientAddr, io: &mut I) {
        if self.all_clients >= self.config.max_clients.saturating_add(AT_THE_DOOR) {
            // Too many even to be told so.
            return io.close(peer);
        }
        self.all_clients += 1;
        let id = self.next_id();
        let client = self.new_client(now, peer, id, from, Phase::Opening { asks_left: ENCRYPTION_ASKS });
        self.seat(client);
    }

    fn new_client(&mut self, now: Time, peer: Peer, id: u64, addr: ClientAddr, phase: Phase) -> Box<ClientSlot> {
        Box::new(ClientSlot {
            peer,
            id,
            addr,
            phase,
            pool: NO_POOL,
            link: None,
            waiting: Vec::new(),
            pause: Pause::default(),
            cut: false,
            user: "".into(),
            connected_at: now,
            request_at: now,
            armed: Time::NEVER,
            secret: self.random_bytes(),
        })
    }

    /// Puts a client into the table, with its wake-up.
    pub(crate) fn seat(&mut self, mut client: Box<ClientSlot>) {
        let deadline = self.client_deadline(&client);
        self.timers.arm(Who::Peer(client.peer), deadline, &mut client.armed);
        self.peers.put(client.peer, Entry::Client(client));
    }

    /// A client that worker 0 sent here.
    pub(crate) fn arrived<I: Io>(&mut self, now: Time, peer: Peer, traveller: Traveller, io: &mut I) {
        let mut client = self.new_client(now, peer, traveller.id, traveller.addr, Phase::Gone);
        client.connected_at = traveller.connected_at;
        client.waiting = traveller.leftover;
        self.begin_login(now, client, traveller.hello, io);
    }

    pub(crate) fn canceller_arrived(&mut self, now: Time, peer: Peer, id: u64, addr: ClientAddr) {
        let client = self.new_client(now, peer, id, addr, Phase::Canceller);
        self.seat(client);
    }

    /// Bytes of a client that is not logged in yet, all of them in its buffer.
    pub(crate) fn arriving<I: Io>(&mut self, now: Time, mut client: Box<ClientSlot>, io: &mut I) {
        match &mut client.phase {
            Phase::Opening { .. } => self.opening(now, client, io),
            Phase::Login(_) => self.password(now, client, io),
            // What it sends ahead waits until it is logged in.
            _ => self.wait_more(client, io),
        }
    }

    fn wait_more<I: Io>(&mut self, mut client: Box<ClientSlot>, io: &mut I) {
        self.pause_client(&mut client, io);
        self.seat(client);
    }

    fn opening<I: Io>(&mut self, now: Time, mut client: Box<ClientSlot>, io: &mut I) {
        let Phase::Opening { asks_left } = client.phase else { return self.seat(client) };
        match hello::open(&client.waiting, asks_left > 0) {
            Opening::More => self.seat(client),
            Opening::NoEncryption { used } => {
                client.waiting.drain(..used);
                client.phase = Phase::Opening { asks_left: asks_left - 1 };
                io.send(client.peer, b"N");
                self.seat(client);
            }
            Opening::Cancel { pid, secret } => self.cancel_request(now, client, pid, secret, io),
            Opening::Refuse(refusal) => self.refuse(now, client, refusal, io),
            Opening::Startup { hello, used } => {
                client.waiting.drain(..used);
                client.user = hello.user.as_str().into();
                self.admit(now, client, hello, io);
            }
        }
    }

    /// A startup packet is there: is there room, and where does the client belong?
    fn admit<I: Io>(&mut self, now: Time, mut client: Box<ClientSlot>, hello: Box<Hello>, io: &mut I) {
        let console = weir_admin::is_console(&hello.database);
        if self.all_clients > self.config.max_clients && !console {
            return self.refuse(now, client, Refusal::TooManyClients, io);
        }
        if self.draining.is_some() && !console {
            return self.refuse(now, client, Refusal::ShuttingDown, io);
        }
        let home = match self.config.pools.get(&hello.database) {
            _ if console => self.worker,
            Some(pool) => self.home_of(&hello.database, pool.user.as_deref().unwrap_or(&hello.user)),
            None => return self.refuse(now, client, Refusal::NoSuchDatabase(hello.database.clone()), io),
        };
        if home == self.worker {
            return self.begin_login(now, client, hello, io);
        }
        let leftover = std::mem::take(&mut client.waiting);
        client.phase = Phase::Moving(Box::new(Journey::Startup(hello, leftover)));
        io.detach(client.peer);
        self.seat(client);
    }

    /// A client's socket is free to travel.
    pub(crate) fn detached<I: Io>(&mut self, peer: Peer, io: &mut I) {
        let Some(mut client) = self.peers.take_client(peer) else { return };
        let Phase::Moving(journey) = std::mem::replace(&mut client.phase, Phase::Gone) else { return };
        let (to, letter) = match *journey {
            Journey::Startup(hello, leftover) => {
                let user = self.config.pools.get(&hello.database).and_then(|p| p.user.clone());
                let to = self.home_of(&hello.database, user.as_deref().unwrap_or(&hello.user));
                let (id, addr, connected_at) = (client.id, client.addr, client.connected_at);
                (to, Letter::Client(Traveller { hello, leftover, id, addr, connected_at }))
            }
            Journey::Cancel { pid, secret } => {
                (crate::cancel::worker_of(pid), Letter::Cancel { pid, secret, id: client.id, addr: client.addr })
            }
        };
        io.post(to, Mail(letter), Some(peer));
    }

    fn begin_login<I: Io>(&mut self, now: Time, mut client: Box<ClientSlot>, hello: Box<Hello>, io: &mut I) {
        client.user = hello.user.as_str().into();
        let console = weir_admin::is_console(&hello.database);
        if let Err(refusal) = self.check_hello(&hello, console) {
            return self.refuse(now, client, refusal, io);
        }
        let secret = self.config.auth.users.get(&hello.user).and_then(|text| Secret::parse(text).ok());
        let method = match self.config.auth.method {
            weir_config::Method::Trust => weir_auth::Method::Trust,
            weir_config::Method::Plain => weir_auth::Method::Plain,
            weir_config::Method::Md5 => weir_auth::Method::Md5,
            weir_config::Method::ScramSha256 => weir_auth::Method::ScramSha256,
        };
        let plan = exchange(method, &hello.user, secret.as_ref());
        let salt = Salt { md5: self.random_bytes(), nonce: self.random_bytes() };
        let mut buffer = Vec::new();
        hello.write_negotiation(&mut buffer);
        let (login, next) = Login::begin(&hello.user, plan, secret.as_ref(), salt, &mut buffer);
        if !buffer.is_empty() {
            io.send(client.peer, &buffer);
        }
        let phase =
            LoginPhase { hello, login: Some(login), learnt: Default::default(), console, job: None, salting: None };
        client.phase = Phase::Login(Box::new(phase));
        self.login_step(now, client, next, io);
    }

    /// Whether anything in a startup packet stands against its client.
    fn check_hello(&self, hello: &Hello, console: bool) -> Result<(), Refusal> {
        if console {
            let listed = |users: &[String]| users.contains(&hello.user);
            return match listed(&self.config.admin_users) || listed(&self.config.stats_users) {
                true => Ok(()),
                false => Err(Refusal::NoSuchUser(hello.user.clone())),
            };
        }
        if !self.config.pools.contains_key(&hello.database) {
            return Err(Refusal::NoSuchDatabase(hello.database.clone()));
        }
        hello.wanted(&self.shared.params, &self.config.ignore_startup_parameters).map(drop)
    }

    /// A password message, if there is a whole one.
    fn password<I: Io>(&mut self, now: Time, mut client: Box<ClientSlot>, io: &mut I) {
        let head = match Head::parse(&client.waiting) {
            Ok(None) => return self.seat(client),
            Ok(Some(head)) if head.tag == front::TERMINATE => return self.client_leaves(now, client, io),
            Ok(Some(head)) if head.tag == front::PASSWORD && head.total() <= MAX_PASSWORD => head,
            _ => {
                let refusal = Refusal::Protocol("a password was expected".into());
                return self.refuse(now, client, refusal, io);
            }
        };
        if client.waiting.len() < head.total() {
            return self.seat(client);
        }
        let Phase::Login(phase) = &mut client.phase else { return self.seat(client) };
        if phase.job.is_some() {
            return self.wait_more(client, io);
        }
        let mut buffer = Vec::new();
        let Some(login) = &mut phase.login else { return self.seat(client) };
        let next = login.message(&client.waiting[HEAD..head.total()], &self.policy, &mut buffer);
        client.waiting.drain(..head.total());
        if !buffer.is_empty() {
            io.send(client.peer, &buffer);
        }
        self.login_step(now, client, next, io);
    }

    fn login_step<I: Io>(&mut self, now: Time, mut client: Box<ClientSlot>, next: Next, io: &mut I) {
        match next {
            Next::Wait => {
                if !client.waiting.is_empty() {
                    // Its next message may be here already.
                    self.todo.push_back(Todo::Feed(client.peer));
                }
                self.seat(client);
            }
            Next::Refused(refusal) => self.refuse(now, client, refusal, io),
            Next::Salt { password, salt, iterations } => self.salt(now, client, (password, salt, iterations), io),
            Next::Accepted(learnt) => {
                if let Phase::Login(phase) = &mut client.phase {
                    phase.learnt = learnt;
                    phase.login = None;
                }
                self.proven(now, client, io);
            }
        }
    }

    fn salt<I: Io>(&mut self, now: Time, mut client: Box<ClientSlot>, key: SaltedKey, io: &mut I) {
        if let Some(salted) = self.salted.get(&key).copied() {
            return self.go_on_salted(now, client, &salted, io);
        }
        let job = self.next_id();
        self.jobs.insert(job, Job::ClientSalt(client.peer));
        io.help(job, Work::SaltPassword { password: key.0.clone(), salt: key.1.clone(), iterations: key.2 });
        if let Phase::Login(phase) = &mut client.phase {
            phase.job = Some(job);
            phase.salting = Some(key);
        }
        self.wait_more(client, io);
    }

    /// A helper has hashed the password of a client's login.
    pub(crate) fn client_salted<I: Io>(&mut self, now: Time, peer: Peer, salted: &[u8; 32], io: &mut I) {
        let Some(mut client) = self.peers.take_client(peer) else { return };
        self.unpause_client(&mut client, io);
        if let Phase::Login(phase) = &mut client.phase {
            phase.job = None;
            if let Some(key) = phase.salting.take() {
                if self.salted.len() >= MAX_SALTED {
                    self.salted.clear();
                }
                self.salted.insert(key, *salted);
            }
        }
        self.go_on_salted(now, client, salted, io);
    }

    fn go_on_salted<I: Io>(&mut self, now: Time, mut client: Box<ClientSlot>, salted: &[u8; 32], io: &mut I) {
        let Phase::Login(phase) = &mut client.phase else { return self.seat(client) };
        let Some(login) = &mut phase.login else { return self.seat(client) };
        let mut buffer = Vec::new();
        let next = login.salted(salted, &mut buffer);
        if !buffer.is_empty() {
            io.send(client.peer, &buffer);
        }
        self.login_step(now, client, next, io);
    }

    /// The client is who it says it is.
    fn proven<I: Io>(&mut self, now: Time, mut client: Box<ClientSlot>, io: &mut I) {
        let Phase::Login(phase) = std::mem::replace(&mut client.phase, Phase::Gone) else { return self.seat(client) };
        if phase.console {
            return self.open_console(now, client, &phase.hello, io);
        }
        let Some(config) = self.config.pools.get(&phase.hello.database).cloned() else {
            return self.refuse(now, client, Refusal::NoSuchDatabase(phase.hello.database.clone()), io);
        };
        let own = config.user.is_none() || config.user.as_deref() == Some(&phase.hello.user);
        let user = config.user.clone().unwrap_or_else(|| phase.hello.user.clone());
        let ix = self.pool_of(&phase.hello.database, &config, &user, now);
        client.pool = ix;
        self.count_client(ix, 1);
        let slot = self.pools.get_mut(ix);
        if own {
            // The newest proof is the best one: a changed password replaces the old.
            let learnt = &phase.learnt;
            slot.learnt.password = learnt.password.clone().or(slot.learnt.password.take());
            slot.learnt.keys = learnt.keys.clone().or(slot.learnt.keys.take());
        }
        if let Some(welcome) = slot.welcome.clone() {
            return self.welcome(now, client, phase, &welcome, io);
        }
        client.request_at = now;
        client.phase = Phase::Welcome(phase);
        match slot.pool.acquire(client.peer, now) {
            Acquire::Granted { server, check } => {
                let peer = client.peer;
                self.wait_more(client, io);
                self.grant(now, peer, server, check, io);
            }
            Acquire::Queued => self.wait_more(client, io),
            Acquire::Refused(why) => {
                let refusal = self.refusal(ix, why);
                self.refuse(now, client, refusal, io);
            }
        }
        self.todo.push_back(Todo::Settle(ix));
    }

    /// Tells a client what it may know of its server; from now on it may ask.
    pub(crate) fn welcome<I: Io>(
        &mut self,
        now: Time,
        mut client: Box<ClientSlot>,
        phase: Box<LoginPhase>,
        welcome: &Welcome,
        io: &mut I,
    ) {
        let table = &self.shared.params;
        let mut wanted = match phase.hello.wanted(table, &self.config.ignore_startup_parameters) {
            Ok(wanted) => wanted,
            Err(refusal) => return self.refuse(now, client, refusal, io),
        };
        table.fill(&mut wanted, &welcome.params);
        let params: Arc<Params> = if wanted == *welcome.params { welcome.params.clone() } else { Arc::new(wanted) };
        let mut buffer = Vec::with_capacity(512);
        put_back::auth_ok(&mut buffer);
        for (name, value) in welcome.reported.iter() {
            put_back::parameter_status(&mut buffer, name, table.get(&params, name).unwrap_or(value));
        }
        let secret = if phase.hello.minor >= 2 { &client.secret[..] } else { &client.secret[..4] };
        put_back::backend_key_data(&mut buffer, crate::cancel::pid_of(self.worker, client.peer), secret);
        put_back::ready(&mut buffer, b'I');
        io.send(client.peer, &buffer);
        let slot = self.pools.get(client.pool);
        client.phase = Phase::Ready(Client::new(client.id, slot.mode(), params));
        client.request_at = now;
        if self.config.log.connections {
            io.log(
                Level::Info,
                format_args!(
                    "C-{:#x}: {}/{}@{} login attempt: db={} user={} tls=no",
                    client.id, slot.name, client.user, client.addr, slot.name, client.user
                ),
            );
        }
        let peer = client.peer;
        self.unpause_client(&mut client, io);
        let ahead = !client.waiting.is_empty();
        self.seat(client);
        if ahead {
            self.todo.push_back(Todo::Feed(peer));
        }
    }

    fn open_console<I: Io>(&mut self, now: Time, mut client: Box<ClientSlot>, hello: &Hello, io: &mut I) {
        let role = match self.config.admin_users.contains(&hello.user) {
            true => weir_admin::Role::Admin,
            false => weir_admin::Role::Stats,
        };
        let mut buffer = Vec::new();
        put_back::auth_ok(&mut buffer);
        let version = format!("1.25.2/{}", self.version);
        let fixed = [("server_version", version.as_str()), ("client_encoding", "UTF8"), ("server_encoding", "UTF8")];
        let more =
            [("DateStyle", "ISO"), ("TimeZone", "GMT"), ("standard_conforming_strings", "on"), ("is_superuser", "on")];
        for (name, value) in fixed.into_iter().chain(more) {
            put_back::parameter_status(&mut buffer, name, value);
        }
        put_back::backend_key_data(&mut buffer, crate::cancel::pid_of(self.worker, client.peer), &client.secret[..4]);
        put_back::ready(&mut buffer, b'I');
        io.send(client.peer, &buffer);
        client.phase = Phase::Console(Box::new(Console::new(role, hello.database.clone())));
        client.request_at = now;
        let ahead = !client.waiting.is_empty();
        let peer = client.peer;
        self.seat(client);
        if ahead {
            self.todo.push_back(Todo::Feed(peer));
        }
    }

    /// A client that was counted is gone, wherever it was.
    pub(crate) fn uncount_client<I: Io>(&mut self, io: &mut I) {
        if self.worker == WorkerId(0) {
            self.client_uncounted();
        } else {
            io.post(WorkerId(0), Mail(Letter::ClientGone), None);
        }
    }

    /// Worker 0's book of clients.
    pub(crate) fn client_uncounted(&mut self) {
        self.all_clients = self.all_clients.saturating_sub(1);
    }
}
