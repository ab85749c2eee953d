//! An engine in memory: a port that copies, clients of one habit, and servers that answer at once.
//!
//! Invariant: all that a round begins is over at its end, so that each round costs the same.

use std::fmt;
use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_base::{ClientAddr, ConnId, Host, PoolMode, Span, Target, Time, WorkerId};
use weir_config::{Config, Method, PoolConfig, SslMode};
use weir_engine::Message;
use weir_engine::port::{About, Handshake, Input, Io, Level, Response, Work};
use weir_engine::{Engine, Setup, StatementMemory};
use weir_pgwire::{Of, ResultColumn, ResultColumnType, put_back, put_front};

/// A client's requests, repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Habit {
    Simple,
    Transaction,
    Extended,
    Prepared,
    /// As simple, with another value each time.
    Literal,
}

impl Habit {
    /// The pieces to be sent, an answer awaited after each.
    fn asks(self) -> Vec<Vec<u8>> {
        let simple = |text: &str| {
            let mut bytes = Vec::new();
            put_front::query(&mut bytes, text);
            bytes
        };
        let select = "SELECT abalance FROM pgbench_accounts WHERE aid = 4711;";
        match self {
            Habit::Simple | Habit::Literal => vec![simple(select)],
            Habit::Transaction => vec![simple("BEGIN;"), simple(select), simple("COMMIT;")],
            Habit::Extended => {
                let mut bytes = Vec::new();
                put_front::parse_text(&mut bytes, b"", "SELECT abalance FROM pgbench_accounts WHERE aid = $1;", &[]);
                run_portal(&mut bytes, b"");
                vec![bytes]
            }
            Habit::Prepared => {
                let mut bytes = Vec::new();
                run_portal(&mut bytes, b"P_0");
                vec![bytes]
            }
        }
    }

    /// A client's messages before the first request.
    fn before(self) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        put_front::parse_text(&mut bytes, b"P_0", "SELECT abalance FROM pgbench_accounts WHERE aid = $1;", &[]);
        put_front::sync(&mut bytes);
        (self == Habit::Prepared).then_some(bytes)
    }
}

/// Messages as libpq sends them.
fn run_portal(bytes: &mut Vec<u8>, statement: &[u8]) {
    put_front::bind(bytes, b"", statement, &[Some(b"4711")]);
    put_front::describe(bytes, Of::Portal, b"");
    put_front::execute(bytes, b"", 0);
    put_front::sync(bytes);
}

/// Requests that a server has not answered.
#[derive(Default)]
struct Server {
    asked: Vec<u8>,
    in_transaction: bool,
    /// Parse messages that the server received.
    parses: u32,
}

/// The engine's port: bytes for clients are copied and forgotten, bytes for servers kept until they are answered.
#[derive(Default)]
struct Port {
    input: Vec<u8>,
    conns: Vec<Option<Server>>,
    /// Servers that have unanswered requests.
    owing: Vec<ConnId>,
    /// The bytes for clients, in one buffer that is reused.
    to_clients: Vec<u8>,
    connecting: Option<ConnId>,
}

impl Port {
    fn conn(&mut self, server: Option<Server>) -> ConnId {
        self.conns.push(server);
        ConnId::new(u32::try_from(self.conns.len() - 1).unwrap_or(u32::MAX), 1)
    }

    fn write(&mut self, to: ConnId, bytes: &[u8]) {
        match &mut self.conns[to.slot as usize] {
            Some(server) => {
                if server.asked.is_empty() {
                    self.owing.push(to);
                }
                server.asked.extend_from_slice(bytes);
            }
            None => {
                self.to_clients.clear();
                self.to_clients.extend_from_slice(bytes);
                black_box(&self.to_clients);
            }
        }
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
    fn connect(&mut self, _: &Target) -> ConnId {
        let conn = self.conn(Some(Server::default()));
        self.connecting = Some(conn);
        conn
    }
    fn look_up(&mut self, _: &Arc<str>) {}
    fn close(&mut self, _: ConnId) {}
    fn pause(&mut self, _: ConnId) {}
    fn resume(&mut self, _: ConnId) {}
    fn detach(&mut self, _: ConnId) {}
    fn post(&mut self, _: WorkerId, _: Message, _: Option<ConnId>) {}
    fn submit_job(&mut self, _: u64, _: Work) {}
    fn start_tls(&mut self, _: ConnId, _: Handshake) {}
    fn logs(&self, level: Level) -> bool {
        level >= Level::Info
    }
    fn log(&mut self, _: Level, _: About<'_>, _: fmt::Arguments<'_>) {}
    fn apply_config(&mut self, _: &Arc<Config>) {}
    fn accept(&mut self, _: bool) {}
    fn answer(&mut self, _: u64, _: Response) {}
    fn exit(&mut self, _: i32) {}
}

/// An engine, its clients, and the clock that runs within its turns only.
pub(super) struct World {
    engine: Engine,
    port: Port,
    clients: Vec<ConnId>,
    asks: Vec<Vec<u8>>,
    /// Whether each request has another value.
    varies: bool,
    answer: Vec<u8>,
    /// How long the engine's turns took, and how many there were.
    spent: Duration,
    turns: u32,
    transactions: u32,
}

impl World {
    /// Clients are logged in, servers are open, and what a client sends once has been sent.
    pub(super) fn new(habit: Habit, mode: PoolMode, clients: usize, servers: u32, statements: u32) -> World {
        let mut config = config(servers, mode);
        config.track_statements = statements;
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
            uid: 0,
            host_name: "db1".into(),
            pools_per_turn: 256,
        };
        let mut world = World {
            engine: Engine::new(setup),
            port: Port::default(),
            clients: Vec::new(),
            asks: habit.asks(),
            varies: habit == Habit::Literal,
            answer: Vec::new(),
            spent: Duration::ZERO,
            turns: 0,
            transactions: 0,
        };
        (0..clients).for_each(|_| world.log_in());
        for ask in habit.before().into_iter().chain(habit.asks()) {
            world.ask_all(&ask);
        }
        world.reset_clock();
        world
    }

    /// Every client has one transaction.
    pub(super) fn round(&mut self) {
        let mut asks = std::mem::take(&mut self.asks);
        if self.varies {
            asks.iter_mut().for_each(|ask| vary(ask));
        }
        if let [ask] = asks.as_slice() {
            self.ask_all(ask);
        } else {
            // A transaction of several queries is one client's after the other's, as far as there are servers.
            for first in (0..self.clients.len()).step_by(20) {
                for ask in &asks {
                    let group = first..self.clients.len().min(first + 20);
                    self.ask(group, ask);
                }
            }
        }
        self.asks = asks;
        self.transactions += u32::try_from(self.clients.len()).unwrap_or(u32::MAX);
    }

    /// The most Parse messages that a server was sent.
    pub(super) fn most_parses(&self) -> u32 {
        self.port.conns.iter().flatten().map(|server| server.parses).max().unwrap_or_default()
    }

    pub(super) fn reset_clock(&mut self) {
        (self.spent, self.turns, self.transactions) = (Duration::ZERO, 0, 0);
    }

    /// What reading the clock costs is taken off.
    pub(super) fn nanoseconds_a_transaction(&self) -> f64 {
        let clock = clock_cost() * f64::from(self.turns);
        #[allow(clippy::cast_precision_loss)]
        let spent = self.spent.as_nanos() as f64;
        (spent - clock) / f64::from(self.transactions.max(1))
    }

    fn ask_all(&mut self, ask: &[u8]) {
        self.ask(0..self.clients.len(), ask);
    }

    fn ask(&mut self, clients: Range<usize>, ask: &[u8]) {
        for at in clients {
            self.bytes(self.clients[at], ask);
        }
        self.servers_answer();
    }

    fn servers_answer(&mut self) {
        loop {
            if let Some(conn) = self.port.connecting.take() {
                self.let_in(conn);
            }
            let Some(conn) = self.port.owing.pop() else { return };
            let mut answer = std::mem::take(&mut self.answer);
            answer.clear();
            if let Some(server) = &mut self.port.conns[conn.slot as usize] {
                server.answer(&mut answer);
            }
            self.bytes(conn, &answer);
            self.answer = answer;
        }
    }

    fn bytes(&mut self, conn: ConnId, bytes: &[u8]) {
        self.port.input.clear();
        self.port.input.extend_from_slice(bytes);
        let began = Instant::now();
        turn(&mut self.engine, &mut self.port, Input::Bytes { conn, bytes });
        self.spent += began.elapsed();
        self.turns += 1;
    }

    fn log_in(&mut self) {
        let conn = self.port.conn(None);
        let from = ClientAddr::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 4000)));
        turn(&mut self.engine, &mut self.port, Input::Accepted { conn, from });
        let mut startup = Vec::new();
        put_front::startup(&mut startup, &[("user", "ann"), ("database", "db")], 0);
        self.bytes(conn, &startup);
        self.servers_answer();
        self.clients.push(conn);
    }

    fn let_in(&mut self, conn: ConnId) {
        let local = "127.0.0.1:5000".into();
        turn(&mut self.engine, &mut self.port, Input::Connected { conn, local, remote: None });
        self.port.owing.retain(|owing| *owing != conn);
        if let Some(server) = &mut self.port.conns[conn.slot as usize] {
            server.asked.clear();
        }
        let mut bytes = Vec::new();
        put_back::auth_ok(&mut bytes);
        put_back::parameter_status(&mut bytes, "TimeZone", "UTC");
        put_back::backend_key_data(&mut bytes, 77, &[1, 2, 3, 4]);
        put_back::ready(&mut bytes, b'I');
        self.bytes(conn, &bytes);
    }
}

/// One turn of the engine. A function of its own, by whose name callgrind knows what to count.
#[inline(never)]
fn turn(engine: &mut Engine, port: &mut Port, input: Input<'_>) {
    engine.handle(Time::START + Span::from_secs(1), input, port);
}

/// How many transactions a run of `asked` plays, those before its clock begins included.
pub(super) fn played(asked: u32, clients: usize) -> u64 {
    let clients = u32::try_from(clients).unwrap_or(1);
    let rounds = asked.div_ceil(clients);
    u64::from(rounds + rounds.div_ceil(10)) * u64::from(clients)
}

/// Nanoseconds that reading the clock twice adds to an interval: the least of many tries, since only the clock's own
/// time is to be subtracted.
fn clock_cost() -> f64 {
    const TIMES: u32 = 100;
    let one = || -> Duration { (0..TIMES).map(|_| black_box(Instant::now()).elapsed()).sum() };
    let least = (0..100).map(|_| one()).min().unwrap_or_default();
    #[allow(clippy::cast_precision_loss)]
    let nanoseconds = least.as_nanos() as f64;
    nanoseconds / f64::from(TIMES)
}

impl Server {
    /// Answers all requests: PostgreSQL's documentation, section 55.2.
    fn answer(&mut self, out: &mut Vec<u8>) {
        let asked = std::mem::take(&mut self.asked);
        let mut rest = asked.as_slice();
        while let [tag, length @ ..] = rest {
            let Some(length) = length.first_chunk().map(|bytes| u32::from_be_bytes(*bytes) as usize) else { break };
            self.answer_one(*tag, rest.get(5..=length).unwrap_or_default(), out);
            rest = rest.get(length + 1..).unwrap_or_default();
        }
        self.asked = asked;
        self.asked.clear();
    }

    fn answer_one(&mut self, tag: u8, body: &[u8], out: &mut Vec<u8>) {
        match tag {
            b'Q' if body.starts_with(b"BEGIN") => self.complete("BEGIN", true, out),
            b'Q' if body.starts_with(b"COMMIT") => self.complete("COMMIT", false, out),
            // What a client has left (`mode = "auto"`): nothing.
            b'Q' if body.starts_with(b"SET TRANSACTION") => {
                put_back::command_complete(out, "SET");
                describe(out);
                self.complete("SELECT 0", false, out);
            }
            b'Q' => {
                describe(out);
                row(out);
                put_back::ready(out, if self.in_transaction { b'T' } else { b'I' });
            }
            b'P' => {
                self.parses += 1;
                put_back::parse_complete(out);
            }
            b'B' => put_back::bind_complete(out),
            b'D' => describe(out),
            b'E' => row(out),
            b'C' => put_back::close_complete(out),
            b'S' => put_back::ready(out, b'I'),
            other => unreachable!("a message {:?}, which no habit sends", char::from(other)),
        }
    }

    fn complete(&mut self, command: &str, in_transaction: bool, out: &mut Vec<u8>) {
        self.in_transaction = in_transaction;
        put_back::command_complete(out, command);
        put_back::ready(out, if in_transaction { b'T' } else { b'I' });
    }
}

fn describe(out: &mut Vec<u8>) {
    put_back::row_description(out, &[ResultColumn { name: "abalance", kind: ResultColumnType::Int4 }]);
}

fn row(out: &mut Vec<u8>) {
    put_back::data_row(out, &[Some(b"0")]);
    put_back::command_complete(out, "SELECT 1");
}

/// Counts the last number of a query up.
fn vary(ask: &mut [u8]) {
    for digit in ask.iter_mut().rev().skip_while(|byte| !byte.is_ascii_digit()).take_while(|byte| byte.is_ascii_digit())
    {
        *digit = if *digit == b'9' { b'0' } else { *digit + 1 };
        if *digit != b'0' {
            break;
        }
    }
}

/// One pool, `db`, that trusts all users.
fn config(servers: u32, mode: PoolMode) -> Config {
    let mut config = Config::default();
    config.policy.mode = mode;
    config.auth.method = Method::Trust;
    config.auth.users = Arc::new([("ann", "secret")].into_iter().collect());
    config.tls.server.mode = SslMode::Disable;
    config.limits.size = servers;
    config.limits.server_check_delay = Span::from_secs(3600);
    config.log.connections = false;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_habit_is_answered_and_leaves_nothing_behind() {
        let habits = [Habit::Simple, Habit::Transaction, Habit::Extended, Habit::Prepared];
        for (habit, mode) in habits.into_iter().flat_map(|it| [(it, PoolMode::Transaction), (it, PoolMode::Auto)]) {
            let mut world = World::new(habit, mode, 7, 3, 10);
            (0..10).for_each(|_| world.round());
            assert_eq!(world.transactions, 70, "{habit:?}");
            let owed: usize = world.port.conns.iter().flatten().map(|server| server.asked.len()).sum();
            assert_eq!(owed, 0, "{habit:?}");
            // At least a client's piece and a server's for each query: no client was left waiting.
            assert!(world.turns >= 140, "{habit:?}: {} turns", world.turns);
            assert!(habit != Habit::Prepared || world.most_parses() == 1, "it is prepared already");
        }
    }
}
