//! A whole engine through its port: the fuzzer makes the clients' and servers' bytes, cuts, habits and closes.
//!
//! What must hold: no panic; the rules of the port; what an engine itself asserts between inputs ([`Engine::check`]);
//! no client that sent a valid startup packet receives an unexpected reply; and no row for one client reaches another
//! one, as long as its server has sent only valid replies.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use weir_base::{ClientAddr, ConnId, Host, PoolMode, Span, Target, Time, WorkerId};
use weir_config::{Config, Method, PoolConfig, SslMode};
use weir_engine::port::{Gone, Input, Signal, WorkResult};
use weir_engine::{Engine, Setup, StatementMemory};
use weir_pgwire::startup::{self, First};
use weir_pgwire::{backend, put_back, put_front};

use crate::backend::Backend;
use crate::contract::{Contract, Stream, is_readable};
use crate::port::Port;
use crate::requests::{any_message, request};
use crate::tape::Tape;

const FRONT_TAGS: &[u8] = b"QPBDECSHFdcfXpz";
const BACK_TAGS: &[u8] = b"Z12C3DEnTtGHdcSNAIVsWRKvz";
/// The most connections of a run.
const MAX_CONNECTIONS: usize = 24;

struct Client {
    conn: ConnId,
    /// A text that only this client's queries hold.
    mark: String,
    waiting: Vec<u8>,
    asked: Stream,
    received: Stream,
    contract: Contract,
    /// Whether the client's login is complete.
    welcome: bool,
    /// The client has sent an invalid message; the replies that it may receive are unknown.
    odd: bool,
    blocked: bool,
}

struct ServerEnd {
    conn: ConnId,
    backend: Backend,
    /// The bytes that arrived before its startup packet was complete.
    first: Vec<u8>,
    started: bool,
    waiting: Vec<u8>,
}

struct World<'a> {
    tape: Tape<'a>,
    engine: Engine,
    port: Port,
    now: Time,
    clients: Vec<Client>,
    servers: Vec<ServerEnd>,
    made: usize,
}

/// Runs the steps of the tape.
pub(crate) fn whole_engine(data: &[u8]) {
    let mut tape = Tape::new(data);
    let config =
        config(1 + tape.byte() % 2, tape.one(&[PoolMode::Transaction, PoolMode::Session, PoolMode::Statement]));
    let setup = Setup {
        worker: WorkerId(0),
        workers: 1,
        config: Arc::new(config),
        seed: [1; 32],
        process_key: [2; 32],
        old_process: None,
        statement_memory: StatementMemory::default(),
        wall_at_start: 0,
        version: "weir",
        uid: 700,
        host_name: "db1".into(),
        pools_per_turn: 1,
    };
    let (engine, now) = (Engine::new(setup), Time::START + Span::from_secs(1));
    let mut world =
        World { tape, engine, port: Port::default(), now, clients: Vec::new(), servers: Vec::new(), made: 0 };
    world.arrive(true);
    world.arrive(true);
    let mut steps = 0;
    while !world.tape.is_over() && steps < 400 && !world.port.exited {
        steps += 1;
        world.step();
    }
}

/// One pool of `size` servers with `trust` for all users.
fn config(size: u8, mode: PoolMode) -> Config {
    let mut config = Config { admin_users: vec!["admin".into()], ..Config::default() };
    config.policy.mode = mode;
    config.auth.method = Method::Trust;
    config.auth.failure_delay = Span::ZERO;
    config.auth.users = Arc::new([("ann", "secret"), ("admin", "secret")].into_iter().collect());
    config.tls.server.mode = SslMode::Disable;
    config.limits.size = size.into();
    config.limits.min_size = 0;
    let target = Target { host: Host::Ip(Ipv4Addr::LOCALHOST.into()), port: 5432 };
    let pool = PoolConfig {
        name: "db".into(),
        targets: vec![target],
        database: "db".into(),
        policy: config.policy.clone(),
        limits: config.limits.clone(),
        ..PoolConfig::default()
    };
    config.pools.insert("db".into(), Arc::new(pool));
    config
}

impl World<'_> {
    fn step(&mut self) {
        let kind = self.tape.byte();
        let (index, kind) = (usize::from(kind >> 6), kind & 0x3f);
        match kind % 20 {
            0..=3 => self.ask(index),
            4 => self.send_odd(index),
            5 => {
                let size = usize::from(self.tape.byte());
                self.client_sends(index, size);
            }
            6..=8 => self.client_sends(index, usize::MAX),
            9 => self.answer(index, 1),
            10 => self.answer(index, 5),
            11 => {
                let size = usize::from(self.tape.byte());
                self.server_sends(index, size);
            }
            12 | 13 => self.server_sends(index, usize::MAX),
            14 => self.send_unexpected(index),
            15 => self.greet(),
            16 => self.pass(),
            17 => self.leave(index),
            18 => self.block(index),
            _ => self.unusual(),
        }
    }

    /// One input, and the port calls that follow from it.
    fn input(&mut self, input: Input<'_>) {
        self.engine.handle(self.now, input, &mut self.port);
        loop {
            if let Some((message, socket)) = self.port.messages.pop_front() {
                self.engine.handle(self.now, Input::Message { from: WorkerId(0), message, socket }, &mut self.port);
            } else if let Some(conn) = self.port.detaches.pop_front() {
                self.engine.handle(self.now, Input::Detached { conn }, &mut self.port);
            } else {
                break;
            }
        }
        self.engine.inspect().check();
        for (conn, bytes) in std::mem::take(&mut self.port.sent) {
            self.received(conn, &bytes);
        }
        let port = &self.port;
        self.clients.retain(|client| port.is_alive(client.conn));
        self.servers.retain(|server| port.is_alive(server.conn));
    }

    fn bytes(&mut self, conn: ConnId, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.port.input.clear();
            self.port.input.extend_from_slice(bytes);
            self.input(Input::Bytes { conn, bytes });
        }
    }

    /// Delivers sent bytes to their connection.
    fn received(&mut self, conn: ConnId, bytes: &[u8]) {
        if let Some(server) = self.servers.iter_mut().find(|server| server.conn == conn) {
            server.receives(bytes);
        } else if let Some(client) = self.clients.iter_mut().find(|client| client.conn == conn) {
            client.receives(bytes);
        }
    }

    /// A client connects; if `good`, with a valid startup packet.
    fn arrive(&mut self, good: bool) {
        if self.made == MAX_CONNECTIONS {
            return;
        }
        self.made += 1;
        let conn = self.port.conn();
        let mark = format!("client {};", self.made);
        self.clients.push(Client {
            conn,
            mark,
            waiting: Vec::new(),
            asked: Stream::default(),
            received: Stream::default(),
            contract: Contract::default(),
            welcome: false,
            odd: !good,
            blocked: false,
        });
        let from = ClientAddr::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 4000)));
        self.input(Input::Accepted { conn, from });
        let mut first = Vec::new();
        if good {
            put_front::startup(&mut first, &[("user", "ann"), ("database", "db")], 0);
        } else {
            let (user, database) = (self.tape.one(&["ann", "admin", "eve"]), self.tape.one(&["db", "pgbouncer", "x"]));
            let minor = u16::from(self.tape.byte());
            put_front::startup(
                &mut first,
                &[("user", user), ("database", database), ("options", "-c geqo=off")],
                minor,
            );
            first.extend_from_slice(self.tape.some());
        }
        self.bytes(conn, &first);
    }

    fn client(&mut self, index: usize) -> Option<&mut Client> {
        let count = self.clients.len().max(1);
        self.clients.get_mut(index % count)
    }

    fn server(&mut self, index: usize) -> Option<&mut ServerEnd> {
        let count = self.servers.len().max(1);
        self.servers.get_mut(index % count)
    }

    fn ask(&mut self, index: usize) {
        let mut tape = self.tape;
        if let Some(client) = self.client(index) {
            let mark = client.mark.clone();
            request(&mut tape, &mark, &mut client.waiting);
        }
        self.tape = tape;
    }

    fn send_odd(&mut self, index: usize) {
        let mut tape = self.tape;
        if let Some(client) = self.client(index) {
            match tape.flag() {
                true => any_message(&mut tape, FRONT_TAGS, &mut client.waiting),
                false => client.waiting.extend_from_slice(tape.some()),
            }
        }
        self.tape = tape;
    }

    fn client_sends(&mut self, index: usize, size: usize) {
        let Some(conn) = self.client(index).map(|client| client.conn) else { return };
        if !self.port.is_read(conn) {
            return;
        }
        let Some(client) = self.client(index) else { return };
        let size = size.min(client.waiting.len());
        let piece: Vec<u8> = client.waiting.drain(..size).collect();
        client.sends(&piece);
        self.bytes(conn, &piece);
    }

    fn answer(&mut self, index: usize, times: usize) {
        let mut tape = self.tape;
        if let Some(server) = self.server(index).filter(|server| server.started) {
            for _ in 0..times {
                let said = server.backend.answer(&mut tape);
                server.waiting.extend_from_slice(&said);
            }
        }
        self.tape = tape;
    }

    fn server_sends(&mut self, index: usize, size: usize) {
        let Some(conn) = self.server(index).map(|server| server.conn) else { return };
        if !self.port.is_read(conn) {
            return;
        }
        let Some(server) = self.server(index) else { return };
        let size = size.min(server.waiting.len());
        let piece: Vec<u8> = server.waiting.drain(..size).collect();
        self.bytes(conn, &piece);
    }

    /// A server sends an unexpected message.
    fn send_unexpected(&mut self, index: usize) {
        let mut tape = self.tape;
        if let Some(server) = self.server(index) {
            server.backend.lied = true;
            match tape.flag() {
                true => any_message(&mut tape, BACK_TAGS, &mut server.waiting),
                false => server.waiting.extend_from_slice(tape.some()),
            }
        }
        self.tape = tape;
    }

    /// A requested connect succeeds or fails.
    fn greet(&mut self) {
        let Some(conn) = self.port.connects.pop_front().filter(|conn| self.port.is_alive(*conn)) else { return };
        if self.tape.below(8) == 7 || self.servers.len() == MAX_CONNECTIONS {
            self.port.end(conn);
            return self.input(Input::ConnectFailed { conn, error: "refused".into() });
        }
        self.servers.push(ServerEnd {
            conn,
            backend: Backend::default(),
            first: Vec::new(),
            started: false,
            waiting: Vec::new(),
        });
        self.input(Input::Connected { conn, local: "127.0.0.1:5000".into(), remote: None });
    }

    /// Time passes, and every deadline is honoured.
    fn pass(&mut self) {
        let span =
            self.tape.one(&[Span::from_millis(1), Span::from_millis(300), Span::from_secs(20), Span::from_secs(900)]);
        let end = self.now + span;
        let mut ticks = 0;
        while self.engine.next_deadline() <= end && ticks < 200 {
            ticks += 1;
            self.now = self.now.max(self.engine.next_deadline());
            self.input(Input::Tick);
        }
        self.now = self.now.max(end);
    }

    /// A connection ends.
    fn leave(&mut self, index: usize) {
        let client = self.tape.flag();
        let conn = if client { self.client(index).map(|c| c.conn) } else { self.server(index).map(|s| s.conn) };
        let Some(conn) = conn else { return };
        // A paused connection's end of file is not read, but its reset is reported.
        let cause = if self.port.is_read(conn) { Gone::Eof } else { Gone::Error };
        self.port.end(conn);
        self.input(Input::Closed { conn, cause });
    }

    /// A client's socket becomes full, or writable again.
    fn block(&mut self, index: usize) {
        let Some(client) = self.client(index) else { return };
        client.blocked = !client.blocked;
        let (conn, blocked) = (client.conn, client.blocked);
        self.input(if blocked { Input::Blocked { conn } } else { Input::Drained { conn } });
    }

    fn unusual(&mut self) {
        match self.tape.below(8) {
            0 | 1 => self.arrive(true),
            2 | 3 => self.arrive(false),
            4 => self.input(Input::Signal(Signal::Reload)),
            5 => {
                let size = 1 + self.tape.byte() % 3;
                let Some(job) = self.port.jobs.pop_front() else { return };
                let result = match self.tape.flag() {
                    true => WorkResult::Config(Ok(Arc::new(config(size, PoolMode::Transaction)).into())),
                    false => WorkResult::Config(Err("a mistake".into())),
                };
                self.input(Input::JobDone { job, result });
            }
            6 => {
                let signal = self.tape.one(&[Signal::Pause, Signal::Resume]);
                self.input(Input::Signal(signal));
            }
            _ => {
                let conns: Vec<ConnId> = self.clients.iter().map(|client| client.conn).collect();
                conns.into_iter().for_each(|conn| {
                    let _ = self.engine.refreeze(conn);
                });
            }
        }
    }
}

impl Client {
    /// Records the requests that it is about to send.
    fn sends(&mut self, piece: &[u8]) {
        // Bytes after a Terminate or an invalid message are not read.
        let bytes = [self.asked.held(), piece].concat();
        self.odd |= !is_readable(&bytes);
        if !self.odd {
            let asks = self.asked.push(piece);
            asks.into_iter().for_each(|ask| self.contract.ask(ask));
        }
    }

    fn receives(&mut self, bytes: &[u8]) {
        if self.odd {
            return;
        }
        for message in self.received.push(bytes) {
            if !self.welcome {
                self.welcome = message.tag == b'Z';
                continue;
            }
            let asked = self.contract.reply(message.tag);
            assert!(asked, "{} did not ask for {:?}", self.mark, char::from(message.tag));
            if message.tag == b'D' {
                self.check_row(&message.body);
            }
        }
    }

    /// A row with a mark belongs to this client.
    fn check_row(&self, row: &[u8]) {
        let Some(text) = backend::data_row(row).ok().and_then(|mut values| values.next().flatten()) else { return };
        let marked = text.windows(2).position(|two| two == b"--").map(|at| &text[at + 2..]);
        let own = marked.is_none_or(|rest| rest.starts_with(self.mark.as_bytes()));
        assert!(own, "{} receives a row of another client: {:?}", self.mark, String::from_utf8_lossy(text));
    }
}

impl ServerEnd {
    fn receives(&mut self, bytes: &[u8]) {
        if self.started {
            self.backend.receive(bytes);
            return;
        }
        self.first.extend_from_slice(bytes);
        match startup::first(&self.first) {
            Ok(None) => {}
            Ok(Some((First::Startup(_), used))) => {
                assert_eq!(used, self.first.len(), "nothing may follow before the login is accepted");
                self.started = true;
                put_back::auth_ok(&mut self.waiting);
                put_back::parameter_status(&mut self.waiting, "TimeZone", "UTC");
                put_back::backend_key_data(&mut self.waiting, 77, &[1, 2, 3, 4]);
                put_back::ready(&mut self.waiting, b'I');
            }
            // Whether a host that sends nothing is there: any byte says so.
            Ok(Some((First::Ssl, used))) => {
                self.first.drain(..used);
                self.waiting.push(b'N');
            }
            Ok(Some((First::Cancel { .. }, _))) => {}
            other => panic!("a server received {other:?}"),
        }
    }
}
