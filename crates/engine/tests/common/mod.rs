//! An engine in memory: its calls are recorded, the rules of its port are checked, and the tests play its clients and
//! servers.

#![allow(dead_code)]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::sync::Arc;

use weir_base::{ClientAddr, ConnId, Host, PoolMode, Span, Target, Time, WorkerId};
use weir_config::{Config, Method, PoolConfig, SslMode, Successor};
use weir_engine::Message;
use weir_engine::port::{About, Gone, Handshake, Input, Io, Level, OfferedState, Response, Signal, Work, WorkResult};
use weir_engine::{Engine, Setup, StatementMemory};
use weir_pgwire::{ResultColumn, ResultColumnType, put_back, put_front};

/// A call of the engine other than a send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Call {
    Connect(ConnId),
    Close(ConnId),
    Pause(ConnId),
    Resume(ConnId),
    Detach(ConnId),
    StartTls(ConnId, Handshake),
    SubmitJob(u64),
    Accept(bool),
    SharedServersEnded,
    Exit(i32),
}

/// The operating system's user of the process.
pub(crate) const OWN_UID: u32 = 700;

/// How many pools adopt a configuration in a turn.
pub(crate) const PER_TURN: usize = 2;

/// The port.
#[derive(Default)]
pub(crate) struct Port {
    input: Vec<u8>,
    slots: u32,
    alive: BTreeSet<ConnId>,
    paused: BTreeSet<ConnId>,
    sent: BTreeMap<ConnId, Vec<u8>>,
    pub(crate) asked: Vec<Call>,
    target: Option<Target>,
    servers: BTreeSet<ConnId>,
    lookups: usize,
    pub(crate) answers: Vec<(u64, Response)>,
    pub(crate) messages: VecDeque<(WorkerId, Message, Option<ConnId>)>,
    /// What was given to another process.
    pub(crate) given: Vec<(Vec<u8>, Option<ConnId>)>,
    /// What another process was offered, or why not.
    pub(crate) offered: Vec<Result<OfferedState, &'static str>>,
    /// The lines of the log, where a test wants them.
    pub(crate) logged: Option<Vec<String>>,
    /// The configuration in force when another one was requested.
    running: Arc<Config>,
}

impl Port {
    fn conn(&mut self) -> ConnId {
        self.slots += 1;
        let conn = ConnId::new(self.slots, 1);
        self.alive.insert(conn);
        self.sent.insert(conn, Vec::with_capacity(4096));
        conn
    }

    fn write(&mut self, to: ConnId, bytes: &[u8]) {
        assert!(self.alive.contains(&to), "bytes for a dead handle {to:?}");
        self.sent.entry(to).or_default().extend_from_slice(bytes);
    }

    fn end(&mut self, conn: ConnId) {
        assert!(self.alive.remove(&conn), "a dead handle {conn:?} is closed");
        self.paused.remove(&conn);
    }
}

impl Io for Port {
    fn forward(&mut self, to: ConnId, range: Range<usize>) {
        let input = std::mem::take(&mut self.input);
        self.write(to, &input[range]);
        self.input = input;
    }
    fn send(&mut self, to: ConnId, bytes: &[u8]) {
        self.write(to, bytes);
    }
    fn look_up(&mut self, _: &Arc<str>) {
        self.lookups += 1;
    }
    fn connect(&mut self, to: &Target) -> ConnId {
        let conn = self.conn();
        self.servers.insert(conn);
        self.target = Some(to.clone());
        self.asked.push(Call::Connect(conn));
        conn
    }
    fn close(&mut self, conn: ConnId) {
        self.end(conn);
        self.asked.push(Call::Close(conn));
    }
    fn pause(&mut self, conn: ConnId) {
        assert!(self.alive.contains(&conn) && self.paused.insert(conn), "{conn:?} is paused already, or dead");
        self.asked.push(Call::Pause(conn));
    }
    fn resume(&mut self, conn: ConnId) {
        assert!(self.alive.contains(&conn) && self.paused.remove(&conn), "{conn:?} is not paused, or dead");
        self.asked.push(Call::Resume(conn));
    }
    fn detach(&mut self, conn: ConnId) {
        self.asked.push(Call::Detach(conn));
    }
    fn post(&mut self, to: WorkerId, message: Message, socket: Option<ConnId>) {
        if let Some(conn) = socket {
            self.end(conn);
        }
        self.messages.push_back((to, message, socket));
    }
    fn submit_job(&mut self, job: u64, work: Work) {
        // Nothing waits for a configuration to be recorded.
        if let Work::LoadConfig(_, running) | Work::ChangeConfig(_, _, running) = &work {
            self.running = running.clone();
        }
        if !matches!(work, Work::RecordConfig(_)) {
            self.asked.push(Call::SubmitJob(job));
        }
    }
    fn start_tls(&mut self, conn: ConnId, handshake: Handshake) {
        self.asked.push(Call::StartTls(conn, handshake));
    }
    fn logs(&self, level: Level) -> bool {
        level > Level::Noise
    }
    fn log(&mut self, _: Level, _: About<'_>, text: fmt::Arguments<'_>) {
        self.logged.iter_mut().for_each(|lines| lines.push(text.to_string()));
    }
    fn apply_config(&mut self, _: &Arc<Config>) {}
    fn accept(&mut self, on: bool) {
        self.asked.push(Call::Accept(on));
    }
    fn answer(&mut self, number: u64, response: Response) {
        self.answers.push((number, response));
    }
    fn export(&mut self, _: u64, value: Vec<u8>, socket: Option<ConnId>) {
        socket.into_iter().for_each(|conn| self.end(conn));
        self.given.push((value, socket));
    }
    fn upgrade_prepared(&mut self, answer: Result<OfferedState, &'static str>) {
        self.offered.push(answer);
    }
    fn shared_servers_ended(&mut self) {
        self.asked.push(Call::SharedServersEnded);
    }
    fn exit(&mut self, status: i32) {
        self.asked.push(Call::Exit(status));
    }
}

/// One worker's engine, its port, and the time.
pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) port: Port,
    pub(crate) now: Time,
    worker: WorkerId,
}

/// A configuration with one pool, `db`, of `size` servers; every listed user is trusted.
pub(crate) fn config(size: u32) -> Config {
    let admin_users = vec!["admin".into()];
    let mut config = Config { admin_users, ..Config::default() };
    config.policy.mode = PoolMode::Transaction;
    config.auth.method = Method::Trust;
    config.auth.failure_delay = Span::ZERO;
    config.auth.users = Arc::new([("ann", "secret"), ("admin", "secret")].into_iter().collect());
    // Tests that need TLS set the mode.
    config.tls.server.mode = SslMode::Disable;
    config.limits.size = size;
    config.limits.min_size = 0;
    config.limits.server_check_delay = Span::from_secs(3600);
    config.log.connections = false;
    config.log.disconnections = false;
    config.log.pooler_errors = false;
    add_pool(&mut config, "db", size);
    config
}

pub(crate) fn add_pool(config: &mut Config, name: &str, size: u32) {
    let mut limits = config.limits.clone();
    limits.size = size;
    let target = Target { host: Host::Ip(Ipv4Addr::LOCALHOST.into()), port: 5432 };
    let pool = PoolConfig {
        name: name.into(),
        targets: vec![target],
        database: name.into(),
        policy: config.policy.clone(),
        limits,
        ..PoolConfig::default()
    };
    config.pools.insert(name.into(), Arc::new(pool));
}

impl World {
    pub(crate) fn new(config: Config) -> World {
        World::with_workers(config, 1)
    }

    pub(crate) fn with_workers(config: Config, workers: u16) -> World {
        World::worker(config, workers, 0)
    }

    /// One of several workers.
    pub(crate) fn worker(config: Config, workers: u16, worker: u16) -> World {
        let worker = WorkerId(worker);
        let setup = Setup {
            worker,
            workers,
            config: Arc::new(config),
            seed: [1; 32],
            process_key: [2; 32],
            old_process: None,
            statement_memory: StatementMemory::default(),
            wall_at_start: 0,
            version: "weir test",
            uid: OWN_UID,
            host_name: "db1".into(),
            pools_per_turn: PER_TURN,
        };
        World { engine: Engine::new(setup), port: Port::default(), now: Time::START + Span::from_secs(1), worker }
    }

    /// One input, and the engine's messages to itself that follow.
    pub(crate) fn input(&mut self, input: Input<'_>) {
        self.engine.handle(self.now, input, &mut self.port);
        while let Some(at) = self.port.messages.iter().position(|(to, ..)| *to == self.worker) {
            let (_, message, socket) = self.port.messages.remove(at).expect("it is there");
            // A socket that a worker sends itself may get the handle that it had.
            self.port.alive.extend(socket);
            self.engine.handle(self.now, Input::Message { from: self.worker, message, socket }, &mut self.port);
        }
        self.engine.inspect().check();
    }

    pub(crate) fn bytes(&mut self, conn: ConnId, bytes: &[u8]) {
        assert!(!self.port.paused.contains(&conn), "a paused connection delivers nothing");
        self.port.input.clear();
        self.port.input.extend_from_slice(bytes);
        self.input(Input::Bytes { conn, bytes });
    }

    /// [`World::bytes`] without the checks, which allocate.
    pub(crate) fn bytes_only(&mut self, conn: ConnId, bytes: &[u8]) {
        self.port.input.clear();
        self.port.input.extend_from_slice(bytes);
        self.engine.handle(self.now, Input::Bytes { conn, bytes }, &mut self.port);
    }

    /// One message of the engine to itself, as an input, without the checks; `false` if there is none.
    pub(crate) fn deliver_message(&mut self) -> bool {
        let Some((_, message, socket)) = self.port.messages.pop_front() else { return false };
        self.engine.handle(self.now, Input::Message { from: WorkerId(0), message, socket }, &mut self.port);
        true
    }

    /// An input without the checks and without the messages that follow.
    pub(crate) fn input_only(&mut self, input: Input<'_>) {
        self.engine.handle(self.now, input, &mut self.port);
    }

    /// Many clients that are ready; the pool has a server already. Without the checks, which walk over all clients.
    pub(crate) fn idle_clients(&mut self, size: usize) -> Vec<ConnId> {
        let mut startup = Vec::new();
        put_front::startup(&mut startup, &[("user", "ann"), ("database", "db")], 0);
        let one = |world: &mut World| {
            let conn = world.port.conn();
            let from = ClientAddr::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 4000)));
            world.input_only(Input::Accepted { conn, from });
            world.bytes_only(conn, &startup);
            let welcome = world.port.sent.remove(&conn).unwrap_or_default();
            assert!(welcome.ends_with(&ready(b'I')), "it is welcome");
            conn
        };
        (0..size).map(|_| one(self)).collect()
    }

    /// [`World::pass`] without the checks, which walk over all clients.
    pub(crate) fn pass_only(&mut self, span: Span) {
        let end = self.now + span;
        while self.engine.next_deadline() <= end {
            self.now = self.now.max(self.engine.next_deadline());
            self.input_only(Input::Tick);
            while self.deliver_message() {}
        }
        self.now = end;
    }

    pub(crate) fn gone(&mut self, conn: ConnId) {
        self.port.end(conn);
        self.input(Input::Closed { conn, cause: Gone::Eof });
    }

    /// A connection breaks, whether it is paused or not.
    pub(crate) fn reset(&mut self, conn: ConnId) {
        self.port.end(conn);
        self.input(Input::Closed { conn, cause: Gone::Error });
    }

    /// A server can't be reached.
    pub(crate) fn refuse_connect(&mut self, server: ConnId, error: &str) {
        self.port.end(server);
        self.input(Input::ConnectFailed { conn: server, error: error.into() });
    }

    pub(crate) fn signal(&mut self, signal: Signal) {
        self.input(Input::Signal(signal));
    }

    /// Time passes, and every deadline is handled.
    pub(crate) fn pass(&mut self, span: Span) {
        let end = self.now + span;
        while self.engine.next_deadline() <= end {
            self.now = self.now.max(self.engine.next_deadline());
            self.input(Input::Tick);
        }
        self.now = end;
    }

    /// The bytes sent to a connection since the last call.
    pub(crate) fn received(&mut self, conn: ConnId) -> Vec<u8> {
        self.port.sent.get_mut(&conn).map(std::mem::take).unwrap_or_default()
    }

    /// Drops the bytes sent to a connection, and keeps the buffer.
    pub(crate) fn forget(&mut self, conn: ConnId) {
        self.port.sent.get_mut(&conn).into_iter().for_each(Vec::clear);
    }

    /// How many messages of the engine are not delivered yet.
    pub(crate) fn messages(&self) -> usize {
        self.port.messages.len()
    }

    /// The open connections that the engine has begun.
    pub(crate) fn servers(&self) -> Vec<ConnId> {
        self.port.servers.iter().filter(|conn| self.is_open(**conn)).copied().collect()
    }

    /// Drops what is recorded of the engine's calls, and its memory.
    pub(crate) fn drop_records(&mut self) {
        let port = &mut self.port;
        port.sent.retain(|conn, _| port.alive.contains(conn));
        port.sent.values_mut().for_each(|bytes| *bytes = Vec::new());
        port.servers.retain(|conn| port.alive.contains(conn));
        (port.asked, port.input, port.messages) = (Vec::new(), Vec::new(), VecDeque::new());
    }

    pub(crate) fn is_open(&self, conn: ConnId) -> bool {
        self.port.alive.contains(&conn)
    }

    pub(crate) fn is_paused(&self, conn: ConnId) -> bool {
        self.port.paused.contains(&conn)
    }

    pub(crate) fn has_exited(&self) -> bool {
        self.port.asked.iter().any(|asked| matches!(asked, Call::Exit(_)))
    }

    /// The connect that the engine has just begun, for a pool or a request to cancel; probes of unresponsive hosts get
    /// no answer.
    pub(crate) fn connecting(&mut self) -> Option<ConnId> {
        let engine = &self.engine;
        let alive = &self.port.alive;
        let asked = std::mem::take(&mut self.port.asked).into_iter();
        let is_over = |asked: &Call| matches!(asked, Call::Connect(conn) if engine.inspect().is_probe(*conn) || !alive.contains(conn));
        self.port.asked = asked.filter(|asked| !is_over(asked)).collect();
        let at = self.port.asked.iter().position(|asked| matches!(asked, Call::Connect(_)))?;
        let Call::Connect(conn) = self.port.asked.remove(at) else { return None };
        Some(conn)
    }

    /// The target of the engine's last connect.
    pub(crate) fn last_target(&self) -> Option<Target> {
        self.port.target.clone()
    }

    /// How many look-ups the engine has requested.
    pub(crate) fn lookups(&self) -> usize {
        self.port.lookups
    }

    /// A connect fails.
    pub(crate) fn fail(&mut self, server: ConnId, error: &str) {
        self.port.end(server);
        self.input(Input::ConnectFailed { conn: server, error: error.into() });
    }

    /// Whether this handshake was requested, once.
    pub(crate) fn shook(&mut self, conn: ConnId, handshake: &Handshake) -> bool {
        let begun = Call::StartTls(conn, handshake.clone());
        self.port.asked.iter().filter(|asked| **asked == begun).count() == 1
    }

    /// A handshake fails.
    pub(crate) fn shake_fails(&mut self, conn: ConnId) {
        self.port.end(conn);
        self.input(Input::TlsFailed { conn, error: "no shared cipher".into() });
    }

    /// A client that has connected and sent nothing.
    pub(crate) fn visitor(&mut self) -> ConnId {
        self.visitor_from(ClientAddr::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 4000))))
    }

    /// A client that connects from this address.
    pub(crate) fn visitor_from(&mut self, from: ClientAddr) -> ConnId {
        let conn = self.port.conn();
        self.input(Input::Accepted { conn, from });
        conn
    }

    /// A socket that came with a message gets its handle here.
    pub(crate) fn socket(&mut self) -> ConnId {
        self.port.conn()
    }

    /// A client that has sent its startup packet.
    pub(crate) fn arrival(&mut self, user: &str, database: &str) -> ConnId {
        let conn = self.visitor();
        let mut startup = Vec::new();
        put_front::startup(&mut startup, &[("user", user), ("database", database)], 0);
        self.bytes(conn, &startup);
        conn
    }

    /// A socket that comes from another process, under its handle here.
    pub(crate) fn arrived_socket(&mut self) -> ConnId {
        self.port.conn()
    }

    /// A client that is ready; what it received so far is dropped.
    pub(crate) fn client(&mut self) -> ConnId {
        let conn = self.arrival("ann", "db");
        if let Some(server) = self.connecting() {
            self.log_in(server);
        }
        assert!(self.received(conn).ends_with(&ready(b'I')), "it is welcome");
        conn
    }

    /// A server accepts the login.
    pub(crate) fn log_in(&mut self, server: ConnId) {
        self.begin_login(server);
        if says(self.port.sent.get(&server).map_or(&[][..], Vec::as_slice), "pg_stat_get_activity") {
            self.received(server);
            self.bytes(server, &backend_start(Some("1700000000000000")));
        }
    }

    /// A server connects and logs in; it is not asked yet which backend it is.
    pub(crate) fn begin_login(&mut self, server: ConnId) {
        self.input(Input::Connected { conn: server, local: "127.0.0.1:5000".into(), remote: None });
        let mut bytes = Vec::new();
        put_back::auth_ok(&mut bytes);
        put_back::parameter_status(&mut bytes, "TimeZone", "UTC");
        put_back::backend_key_data(&mut bytes, 77, &[1, 2, 3, 4]);
        put_back::ready(&mut bytes, b'I');
        self.received(server);
        self.bytes(server, &bytes);
    }

    /// Connects the next server that is requested.
    pub(crate) fn server(&mut self) -> ConnId {
        let server = self.connecting().expect("a server is requested");
        self.log_in(server);
        server
    }

    /// The job that was passed to a helper last.
    pub(crate) fn requested_help(&mut self) -> Option<u64> {
        let at = self.port.asked.iter().position(|asked| matches!(asked, Call::SubmitJob(_)))?;
        let Call::SubmitJob(job) = self.port.asked.remove(at) else { return None };
        Some(job)
    }

    /// Whether the engine has requested to detach a client's socket.
    pub(crate) fn is_detaching(&self, conn: ConnId) -> bool {
        self.port.asked.contains(&Call::Detach(conn))
    }

    pub(crate) fn config_read(&mut self, config: Config) {
        let job = self.requested_help().expect("a helper was asked");
        let read = Successor::new(&self.port.running, Arc::new(config));
        self.input(Input::JobDone { job, result: WorkResult::Config(Ok(read)) });
    }
}

/// A server says when its backend began, or that it does not know.
pub(crate) fn backend_start(start: Option<&str>) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_back::parse_complete(&mut bytes);
    put_back::bind_complete(&mut bytes);
    let column = |name| ResultColumn { name, kind: ResultColumnType::Text };
    put_back::row_description(&mut bytes, &[column("pid"), column("start")]);
    if let Some(start) = start {
        put_back::data_row(&mut bytes, &[Some(b"77"), Some(start.as_bytes())]);
    }
    bytes.extend(done(if start.is_some() { "SELECT 1" } else { "SELECT 0" }, b'I'));
    bytes
}

pub(crate) fn query(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_front::query(&mut bytes, text);
    bytes
}

pub(crate) fn done(tag: &str, status: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_back::command_complete(&mut bytes, tag);
    put_back::ready(&mut bytes, status);
    bytes
}

pub(crate) fn ready(status: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_back::ready(&mut bytes, status);
    bytes
}

/// A client's first message.
pub(crate) fn startup(user: &str, database: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_front::startup(&mut bytes, &[("user", user), ("database", database)], 0);
    bytes
}

/// A client's password.
pub(crate) fn password(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_front::password(&mut bytes, text.as_bytes());
    bytes
}

/// A client of the Unix socket, of this user of the operating system.
pub(crate) fn unix(uid: u32) -> ClientAddr {
    ClientAddr::Unix { pid: 9, uid }
}

/// Whether bytes contain a text.
pub(crate) fn says(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}
