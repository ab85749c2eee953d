//! The pooler under test: the engines of one process, each with a port into the simulated network.
//!
//! Owns what the runtime owns in production: sockets by handle, mailboxes, helpers, timers. Keeps the rules of
//! `weir_engine::port` and checks that the engines keep theirs. The checker "the port's rules are kept" is here and in
//! [`crate::io`], "limits hold" in [`crate::limits`].

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use weir_admin::{ChangeError, Refusals};
use weir_base::{ClientAddr, ConnId, Span, Time, WorkerId};
use weir_config::{Config, PasswordSource, Successor};
use weir_engine::Message;
use weir_engine::port::{Gone, Input, PrintedPassword, Secured, Signal, Work, WorkResult};
use weir_engine::{Engine, Setup, StatementMemory};
use weir_pgwire::sql::steps_taken;

use crate::budget::Budget;
use crate::check::{Checker, Violation};
use crate::context::{Context, Event};
use crate::guarantees::Guarantees;
use crate::io::{Handoff, SimIo, Socket, Sockets};
use crate::lending::{LONGEST_DELIVERY, Waits};
use crate::limits::{Allowed, broken_client_limit};
use crate::names::DnsAnswer;
use crate::network::{End, Owner, SocketEvent};
use crate::postgres::login::password_of;
use crate::rng::Rng;
use crate::salts;
use crate::scenario::Pooling;

/// The wall clock when a run begins, in microseconds since 1970.
const WALL: u64 = 1_700_000_000_000_000;

/// All engines of the process.
pub(crate) struct Pooler {
    nodes: Vec<Node>,
    shared: Shared,
}

/// The names in a client's startup packet.
pub(crate) struct LoginNames {
    pub(crate) database: String,
    pub(crate) user: String,
}

/// One worker.
struct Node {
    engine: Engine,
    sockets: Sockets,
    budget: Budget,
    /// The deadline for which a tick is scheduled.
    tick: Time,
    /// Randomness of helpers, delays and probes.
    rng: Rng,
    /// Randomness of the worker's load.
    loads: Rng,
}

/// State shared by the workers.
struct Shared {
    config: Arc<Config>,
    reloads: Vec<Arc<Config>>,
    allowed: Allowed,
    clients: BTreeMap<u32, LoginNames>,
    accepting: bool,
    ended: bool,
    /// When the last message from one engine to another arrives; messages keep their order.
    last_arrival: BTreeMap<(u16, u16), Time>,
    accepted: u32,
    /// How many messages from one engine to another are on their way.
    messages: u32,
    /// Server connections in transit between two workers, with database and user.
    in_transit: Vec<(End, (String, String))>,
    /// Server connections that ended so recently that some worker may not know it, and when.
    gone: Vec<(Time, (String, String))>,
    waits: Waits,
    guarantees: Guarantees,
    /// After how many inputs in a thousand a client is frozen and thawed.
    freezes: u32,
    /// After how many inputs in a thousand clients are to move between two workers, and which.
    moves: u32,
    movers: Rng,
    rng: Rng,
    /// For what programs print.
    printed: Rng,
}

impl Pooler {
    /// The process; `None`: a run without a pooler.
    pub(crate) fn new(pooling: Option<Pooling>, rng: &Rng) -> Pooler {
        let Some(Pooling { workers, config, reloads }) = pooling else {
            let config = Arc::new(Config::default());
            let shared = Shared::new(config, Vec::new(), rng.fork("pooler", 0));
            return Pooler { nodes: Vec::new(), shared: Shared { ended: true, ..shared } };
        };
        let process_key = rng.fork("process", 0).bytes();
        let statement_memory = StatementMemory::default();
        let node = |worker: u16| Node {
            engine: Engine::new(Setup {
                worker: WorkerId(worker),
                workers,
                config: Arc::clone(&config),
                seed: rng.fork("engine", u64::from(worker)).bytes(),
                process_key,
                old_process: None,
                statement_memory: statement_memory.clone(),
                wall_at_start: WALL,
                version: "weir simulated",
                uid: 0,
                host_name: "db1".into(),
                pools_per_turn: 1,
            }),
            sockets: Sockets::default(),
            budget: Budget::default(),
            tick: Time::NEVER,
            rng: rng.fork("worker", u64::from(worker)),
            loads: rng.fork("loads", u64::from(worker)),
        };
        Pooler { nodes: (0..workers).map(node).collect(), shared: Shared::new(config, reloads, rng.fork("pooler", 0)) }
    }

    /// The clients of the run, by number. `operated`: an operator is among them and may shrink pools below the
    /// settings.
    pub(crate) fn expect(&mut self, clients: BTreeMap<u32, LoginNames>, operated: bool) {
        self.shared.clients = clients;
        self.shared.allowed.operated = operated;
    }

    /// Whether the process has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.shared.ended
    }

    /// Schedules the engines' initial deadlines.
    pub(crate) fn start(&mut self, ctx: &mut Context) {
        for worker in 0..self.nodes.len() {
            self.schedule(ctx, worker);
        }
    }

    /// A client connects; `false` if the process does not listen.
    pub(crate) fn arrive(&mut self, ctx: &mut Context, arrived: u32) -> bool {
        if self.shared.ended || !self.shared.accepting {
            return false;
        }
        // The first worker accepts all connections.
        let worker = 0;
        let sockets = &mut self.nodes[worker].sockets;
        let conn = sockets.reserve();
        let end = ctx.net.accept(arrived, Owner::Engine(0, conn));
        sockets.fill(conn, end, Socket::client());
        self.shared.accepted += 1;
        let port = 1024 + (self.shared.accepted % 60_000) as u16;
        let from = if self.shared.accepted.is_multiple_of(5) {
            ClientAddr::Unix { pid: self.shared.accepted, uid: 1000 }
        } else {
            ClientAddr::Tcp(SocketAddr::from((Ipv4Addr::new(10, 1, 0, 1), port)))
        };
        self.handle(ctx, worker, Input::Accepted { conn, from });
        true
    }

    /// An event of an engine's socket.
    pub(crate) fn socket_event(
        &mut self,
        ctx: &mut Context,
        worker: u16,
        conn: ConnId,
        event: &SocketEvent,
        bytes: &[u8],
    ) {
        let worker = usize::from(worker);
        let Some(end) = self.nodes[worker].sockets.end(conn) else { return };
        ctx.affected.handling = ctx.affected.is_from(end);
        match event {
            SocketEvent::Bytes => {
                self.nodes[worker].sockets.received(conn, bytes);
                self.handle(ctx, worker, Input::Bytes { conn, bytes });
            }
            SocketEvent::Drained => self.handle(ctx, worker, Input::Drained { conn }),
            SocketEvent::Connected => {
                let local = format!("10.9.0.1:{}", 2000 + conn.slot);
                let remote = self.nodes[worker].sockets.remote(conn);
                self.handle(ctx, worker, Input::Connected { conn, local, remote });
            }
            SocketEvent::ConnectFailed => {
                self.nodes[worker].sockets.remove(conn);
                self.handle(ctx, worker, Input::ConnectFailed { conn, error: "Connection refused".to_owned() });
            }
            SocketEvent::Eof if self.ends_paused(ctx, worker, conn, end) => {}
            SocketEvent::Eof | SocketEvent::Error => {
                self.nodes[worker].sockets.remove(conn);
                ctx.close(end);
                let cause = if *event == SocketEvent::Eof { Gone::Eof } else { Gone::Error };
                self.handle(ctx, worker, Input::Closed { conn, cause });
            }
            SocketEvent::Ending => self.handle(ctx, worker, Input::Ending { conn }),
            SocketEvent::Arrived(_) => {}
        }
        ctx.affected.handling = false;
    }

    /// The other end has sent all. Returns whether the connection stays: the engine has paused it.
    fn ends_paused(&mut self, ctx: &mut Context, worker: usize, conn: ConnId, end: End) -> bool {
        self.handle(ctx, worker, Input::Ending { conn });
        let Some(end) = self.nodes[worker].sockets.end(conn).filter(|now| *now == end) else { return true };
        ctx.net.ends_again(end)
    }

    /// A signal reaches the process.
    pub(crate) fn signal(&mut self, ctx: &mut Context, signal: Signal) {
        if !self.nodes.is_empty() {
            self.handle(ctx, 0, Input::Signal(signal));
        }
    }

    /// An event of the engines themselves.
    pub(crate) fn step(&mut self, ctx: &mut Context, event: Event) {
        match event {
            Event::Tick { worker, at } => {
                let worker = usize::from(worker);
                if self.nodes[worker].tick == at {
                    self.nodes[worker].tick = Time::NEVER;
                    self.handle(ctx, worker, Input::Tick);
                }
            }
            Event::JobDone { worker, job, result } => {
                self.handle(ctx, usize::from(worker), Input::JobDone { job, result: *result });
            }
            Event::Resolved { worker, found } => {
                let DnsAnswer { name, addresses, ttl } = *found;
                self.handle(ctx, usize::from(worker), Input::Resolved { name, addresses, ttl });
            }
            Event::Detached { worker, conn } => self.detached(ctx, worker, conn),
            Event::Handshaken { worker, conn, failure } => self.handshaken(ctx, usize::from(worker), conn, failure),
            Event::Message { from, to, message, socket } => {
                self.message(ctx, from, usize::from(to), *message, socket.map(|socket| *socket))
            }
            _ => {}
        }
    }

    fn detached(&mut self, ctx: &mut Context, worker: u16, conn: ConnId) {
        let Some(end) = self.nodes[usize::from(worker)].sockets.end(conn) else { return };
        if ctx.net.backlog(end) > 0 {
            // The socket leaves when no bytes wait on it.
            let delay = self.nodes[usize::from(worker)].rng.span(1, 5_000);
            return ctx.queue.after(delay, Event::Detached { worker, conn });
        }
        // Until the socket has a new handle, its events are not delivered.
        ctx.net.set_owner(end, Owner::None);
        self.handle(ctx, usize::from(worker), Input::Detached { conn });
    }

    /// After the handshake bytes pass unencrypted: encryption is the runtime's part.
    fn handshaken(&mut self, ctx: &mut Context, worker: usize, conn: ConnId, failure: Option<&str>) {
        let sockets = &mut self.nodes[worker].sockets;
        let Some(end) = sockets.end(conn) else { return };
        if let Some(error) = failure {
            sockets.remove(conn);
            ctx.close(end);
            return self.handle(ctx, worker, Input::TlsFailed { conn, error: error.to_owned() });
        }
        sockets.handshake_done(conn);
        ctx.resume(end);
        let description = "TLSv1.3/TLS_AES_256_GCM_SHA384".to_owned();
        let tls = Secured { description, certificate: None, alpn: None, binding: Some(vec![7; 32]) };
        self.handle(ctx, worker, Input::Secured { conn, tls: Box::new(tls) });
    }

    /// Starts a TLS handshake. One that starts with received bytes fails: no modelled client sends a ClientHello.
    fn start_handshake(&mut self, ctx: &mut Context, worker: u16, conn: ConnId, received: &[u8]) {
        let rng = &mut self.nodes[usize::from(worker)].rng;
        let unlucky = ctx.rules.faulty && rng.chance(50);
        let failure =
            if received.is_empty() { unlucky.then_some("peer is incompatible") } else { Some("corrupt message") };
        let delay = rng.span(50, 200_000);
        ctx.queue.after(delay, Event::Handshaken { worker, conn, failure });
    }

    fn message(&mut self, ctx: &mut Context, from: WorkerId, to: usize, message: Message, socket: Option<Handoff>) {
        if self.shared.ended {
            socket.into_iter().for_each(|(end, _)| ctx.close(end));
            return;
        }
        self.shared.messages -= 1;
        let sockets = &mut self.nodes[to].sockets;
        let end = socket.as_ref().map(|(end, _)| *end);
        self.shared.in_transit.retain(|(in_transit, _)| Some(*in_transit) != end);
        let conn = socket.map(|(end, turn)| {
            let conn = sockets.reserve();
            sockets.fill(conn, end, turn);
            ctx.net.set_owner(end, Owner::Engine(to as u16, conn));
            ctx.resume(end);
            conn
        });
        self.handle(ctx, to, Input::Message { from, message, socket: conn });
        // The connection may have broken in transit.
        if let (Some(conn), Some(end)) = (conn, end)
            && !ctx.net.is_open(end)
            && self.nodes[to].sockets.end(conn).is_some()
        {
            self.nodes[to].sockets.remove(conn);
            self.handle(ctx, to, Input::Closed { conn, cause: Gone::Error });
        }
    }

    /// Passes an input to an engine and executes its requests.
    fn handle(&mut self, ctx: &mut Context, worker: usize, input: Input<'_>) {
        if self.shared.ended {
            return;
        }
        let now = ctx.now();
        if ctx.trace.is_on() {
            let text = describe(&input);
            ctx.port(|| format!("w{worker} {text}"));
        }
        let node = &mut self.nodes[worker];
        let length = if let Input::Bytes { bytes, .. } = &input { bytes } else { &[][..] };
        let mut io = SimIo::new(worker as u16, ctx, &mut node.sockets, length);
        node.budget.received(length.len());
        let before = steps_taken();
        node.engine.handle(now, input, &mut io);
        let steps = steps_taken() - before;
        let requests = io.finish();
        if let Some(what) = node.budget.spent(steps) {
            ctx.violated(Checker::TurnsAreShort, || format!("w{worker}: {what}"));
        }
        let deadline = node.engine.next_deadline();
        ctx.trace.hash(&[now.micros(), worker as u64, deadline.micros()], &[]);
        for (job, work) in requests.helps {
            self.help(ctx, worker as u16, job, work);
        }
        for (to, message, socket) in requests.posts {
            self.post(ctx, worker as u16, to, message, socket);
        }
        for conn in requests.detaches {
            let delay = self.nodes[worker].rng.span(1, 500);
            ctx.queue.after(delay, Event::Detached { worker: worker as u16, conn });
        }
        for found in requests.looks {
            let delay = self.nodes[worker].rng.span(50, 2_000_000);
            ctx.queue.after(delay, Event::Resolved { worker: worker as u16, found: Box::new(found) });
        }
        for (conn, received) in requests.handshakes {
            self.start_handshake(ctx, worker as u16, conn, &received);
        }
        self.shared.accepting = requests.accept.unwrap_or(self.shared.accepting);
        if requests.exit.is_some() {
            return self.exit(ctx);
        }
        self.check_limits(ctx, worker);
        self.check_waits(ctx, worker, requests.adopted);
        self.check_pool_full(ctx, &requests.pool_full);
        self.probe(ctx, worker);
        if self.nodes.len() > 1 && self.nodes[worker].loads.chance(50) {
            let percent = self.nodes[worker].loads.below(101) as u8;
            self.handle(ctx, worker, Input::Load(percent));
        }
        self.move_clients(ctx);
        for conn in requests.blocked {
            if self.nodes[worker].sockets.end(conn).is_some() {
                self.handle(ctx, worker, Input::Blocked { conn });
            }
        }
        self.schedule(ctx, worker);
    }

    /// At random: clients move between two workers, as if one were busy and the other were not.
    fn move_clients(&mut self, ctx: &mut Context) {
        let (workers, shared) = (self.nodes.len() as u64, &mut self.shared);
        if workers < 2 || !shared.movers.chance(shared.moves) {
            return;
        }
        let from = shared.movers.below(workers);
        let to = (from + 1 + shared.movers.below(workers - 1)) % workers;
        let [from, to] = [from, to].map(|worker| WorkerId(worker as u16));
        ctx.port(|| format!("clients are to move from w{} to w{}", from.0, to.0));
        self.nodes[0].engine.want_moves(from, to);
        self.handle(ctx, 0, Input::Load(50));
    }

    /// At random: checks the engine's accounting and the client limits, and freezes and thaws a client.
    fn probe(&mut self, ctx: &mut Context, worker: usize) {
        let node = &mut self.nodes[worker];
        if node.rng.chance(30) {
            node.engine.inspect().check();
            self.check_refusals(ctx);
            let inside = self.nodes.iter().flat_map(|node| node.engine.inspect().inside());
            if let Some(what) = broken_client_limit(inside, &self.shared.config) {
                ctx.violated(Checker::LimitsHold, || what);
            }
            self.check_client_counts(ctx);
        }
        let node = &mut self.nodes[worker];
        if node.rng.chance(self.shared.freezes)
            && let Some(conn) = node.sockets.any(&mut node.rng)
            && node.engine.refreeze(conn)
        {
            ctx.port(|| format!("w{worker} froze and thawed {conn:?}"));
        }
    }

    /// While no message is on its way, worker 0 counts the clients that there are.
    fn check_client_counts(&self, ctx: &mut Context) {
        if self.shared.messages > 0 {
            return;
        }
        let add = |sum: (u32, u32), next: (u32, u32)| (sum.0 + next.0, sum.1 + next.1);
        let there = self.nodes.iter().map(|node| node.engine.inspect().clients()).fold((0, 0), add);
        let counted = self.nodes[0].engine.inspect().clients_counted();
        if there != counted {
            let what = || format!("{there:?} clients, all and under limits, and {counted:?} are counted");
            ctx.violated(Checker::LimitsHold, what);
        }
    }

    /// How many connected clients have moved to another worker.
    pub(crate) fn moved(&self) -> u64 {
        self.nodes.iter().map(|node| node.engine.inspect().clients_moved()).sum()
    }

    /// Schedules the engine's next tick, if it is not scheduled.
    fn schedule(&mut self, ctx: &mut Context, worker: usize) {
        let node = &mut self.nodes[worker];
        let deadline = node.engine.next_deadline();
        if deadline >= node.tick || deadline == Time::NEVER {
            return;
        }
        node.tick = deadline;
        // A sleeping thread wakes up slightly late.
        let late = node.rng.span(1, 1_000);
        ctx.queue.at(deadline + late, Event::Tick { worker: worker as u16, at: deadline });
    }

    fn help(&mut self, ctx: &mut Context, worker: u16, job: u64, work: Work) {
        let answer = match work {
            Work::SaltServer { password, salt, iterations } | Work::SaltClient { password, salt, iterations } => {
                WorkResult::Salted(salts::salted(&password, &salt, iterations))
            }
            Work::CheckPassword(_) => WorkResult::Checked(Err("no user is known here".to_owned())),
            Work::ServerPassword { source, refused, .. } => self.shared.print_password(&source, refused.as_deref()),
            // No pool of the simulator's has the setting.
            Work::AskPatroni(_) => WorkResult::Patroni(Err("there is no Patroni".to_owned())),
            Work::NameOfUser(uid) => WorkResult::UserName(Some(format!("user{uid}"))),
            Work::LoadConfig(_, running) => {
                WorkResult::Config(self.shared.load().map(|read| Successor::new(&running, read)))
            }
            Work::ApplyTls(config) => {
                WorkResult::Config(weir_config::apply_tls(&config).map(|config| Arc::new(config).into()))
            }
            Work::ChangeConfig(..) => WorkResult::Changed(Err(ChangeError::Fixed)),
            Work::RecordConfig(_) => WorkResult::Recorded(None),
        };
        let delay = self.nodes[usize::from(worker)].rng.span(50, 100_000);
        ctx.queue.after(delay, Event::JobDone { worker, job, result: Box::new(answer) });
    }

    fn post(&mut self, ctx: &mut Context, from: u16, to: WorkerId, message: Message, socket: Option<Handoff>) {
        if usize::from(to.0) >= self.nodes.len() {
            return ctx.violated(Checker::PortIsKept, || format!("w{from} posts to {to:?}, which does not exist"));
        }
        let delay = self.nodes[usize::from(from)].rng.span(1, LONGEST_DELIVERY.micros());
        let last = self.shared.last_arrival.entry((from, to.0)).or_insert(Time::START);
        let at = (ctx.now() + delay).max(*last);
        *last = at;
        if let Some((end, turn)) = &socket
            && let Some(started) = turn.started()
        {
            self.shared.in_transit.push((*end, started.clone()));
        }
        let socket = socket.map(Box::new);
        let event = Event::Message { from: WorkerId(from), to: to.0, message: Box::new(message), socket };
        self.shared.messages += 1;
        ctx.queue.at(at, event);
    }

    fn exit(&mut self, ctx: &mut Context) {
        self.check_refusals(ctx);
        ctx.note(|| "the pooler's process ends".to_owned());
        self.shared.ended = true;
        for node in &mut self.nodes {
            node.sockets.take_all().for_each(|end| ctx.close(end));
        }
    }

    /// Compares refusals as sent to clients with the engines' counters.
    fn check_refusals(&self, ctx: &mut Context) {
        let mut counted = Refusals::default();
        self.nodes.iter().for_each(|node| counted.add(&node.engine.inspect().refusals()));
        if let Some(what) = ctx.refused.differs(&counted) {
            ctx.violated(Checker::RefusalsAreCounted, || what);
        }
    }

    /// Checks waits across workers, if there are several.
    fn check_waits(&mut self, ctx: &mut Context, worker: usize, adopted: bool) {
        let alone = self.nodes.len() < 2;
        let (now, shared) = (ctx.now(), &mut self.shared);
        let node = &mut self.nodes[worker];
        // A worker that is alone knows what is gone when its turn has ended.
        let delivery = if alone { Span::ZERO } else { LONGEST_DELIVERY };
        shared.gone.retain(|(at, _)| *at + delivery + delivery >= now);
        shared.gone.extend(node.sockets.take_gone().into_iter().map(|what| (now, what)));
        if adopted {
            shared.guarantees.unsettle(now);
        }
        if let Some(Violation { checker, what }) = shared.guarantees.observe(worker, &node.engine, &shared.config, now)
        {
            ctx.violated(checker, || what);
        }
        if alone {
            return;
        }
        if adopted {
            shared.waits.unsettle(now);
        }
        if let Some(Violation { checker, what }) = shared.waits.observe(worker, &node.engine, now) {
            ctx.violated(checker, || what);
        }
    }

    /// When a client is refused because its pool is full, the pool must have had all its connections, as far as the
    /// refusing worker could know.
    fn check_pool_full(&self, ctx: &mut Context, pool_full: &[u32]) {
        for number in pool_full {
            let LoginNames { database, user } = &self.shared.clients[number];
            let elsewhere = self.shared.in_transit.iter().map(|(_, what)| what);
            let elsewhere = elsewhere.chain(self.shared.gone.iter().map(|(_, what)| what));
            let elsewhere = elsewhere.map(|(database, user)| (database.as_str(), user.as_str()));
            let servers: Vec<(&str, &str)> =
                self.nodes.iter().flat_map(|node| node.sockets.servers()).chain(elsewhere).collect();
            let count = |database: &str, user: &str| servers.iter().filter(|s| **s == (database, user)).count();
            if let Some(what) = self.shared.allowed.not_full(database, user, count) {
                let what = format!("c{number} was refused because of a full pool: {what}");
                ctx.violated(Checker::RefusalsAreCounted, || what);
            }
        }
    }

    /// Compares the server connections of each pool, over all workers, with its limits.
    fn check_limits(&mut self, ctx: &mut Context, worker: usize) {
        if !self.nodes[worker].sockets.take_started() {
            return;
        }
        let in_transit = self.shared.in_transit.iter().map(|(_, (database, user))| (database.as_str(), user.as_str()));
        let servers = self.nodes.iter().flat_map(|node| node.sockets.servers()).chain(in_transit);
        if let Some(what) = self.shared.allowed.broken(servers) {
            ctx.violated(Checker::LimitsHold, || what);
        }
        let most = self.shared.allowed.logins(self.nodes.len());
        let logins = self.nodes[worker].sockets.logins();
        if let Some((place, count)) = logins.into_iter().find(|(_, count)| *count > most) {
            ctx.violated(Checker::LimitsHold, || format!("{count} concurrent logins at {place}, with {most} allowed"));
        }
    }
}

impl Shared {
    fn new(config: Arc<Config>, mut reloads: Vec<Arc<Config>>, mut rng: Rng) -> Shared {
        reloads.reverse();
        let mut shared = Shared {
            config: Arc::clone(&config),
            reloads,
            allowed: Allowed::default(),
            clients: BTreeMap::new(),
            accepting: true,
            ended: false,
            last_arrival: BTreeMap::new(),
            accepted: 0,
            messages: 0,
            in_transit: Vec::new(),
            gone: Vec::new(),
            waits: Waits::default(),
            guarantees: Guarantees::default(),
            freezes: *rng.pick(&[0, 20, 300]),
            moves: *rng.fork("moves", 0).pick(&[0, 10, 100]),
            movers: rng.fork("movers", 0),
            printed: rng.fork("printed", 0),
            rng,
        };
        shared.allowed.note(&config);
        shared
    }

    /// What the program of a pool prints: the password of the user that it names, or one that was printed earlier and is
    /// not valid any more.
    fn print_password(&mut self, source: &PasswordSource, refused: Option<&str>) -> WorkResult {
        const OLD: &str = "of yesterday";
        let is_new = refused == Some(OLD) || self.printed.chance(700);
        let PasswordSource::Command(command) = source else {
            return WorkResult::Password(Err("no service".to_owned()));
        };
        let password = if is_new { password_of(&command.argv[0]).into() } else { OLD.into() };
        WorkResult::Password(Ok(PrintedPassword { password, is_new, about: None, overdue: None }))
    }

    fn load(&mut self) -> Result<Arc<Config>, String> {
        if self.rng.chance(100) {
            return Err("weir.toml:7: an error".to_owned());
        }
        if let Some(config) = self.reloads.pop() {
            self.allowed.note(&config);
            self.config = config;
        }
        Ok(Arc::clone(&self.config))
    }
}

/// An input for the transcript; the lines of their senders show the bytes.
fn describe(input: &Input<'_>) -> String {
    match input {
        Input::Bytes { conn, bytes } => format!("{} bytes from {conn:?}", bytes.len()),
        Input::Message { from, socket, .. } => format!("message from w{}, socket {socket:?}", from.0),
        other => format!("{other:?}"),
    }
}
