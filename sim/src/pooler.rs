//! The pooler under test: the engines of one process, each behind a port made of the simulated network.
//!
//! Owns what the runtime owns in production: sockets by handle, turns, mailboxes, helpers, timers. It keeps the rules
//! of `weir_engine::port`, and checks that the engines keep theirs; the checker "the port's rules are kept" sits here and in
//! [`crate::io`], "limits hold" in [`crate::limits`].

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use weir_admin::{ChangeError, Refusals};
use weir_base::{ClientAddr, Peer, Time, WorkerId};
use weir_config::Config;
use weir_engine::Message;
use weir_engine::port::{Answer, Gone, Input, Secured, Signal, Work};
use weir_engine::{Engine, Setup, StatementMemory};

use crate::check::{Checker, Violation};
use crate::context::{Context, Event};
use crate::io::{Carried, SimIo, Slots, Turn};
use crate::lending::{MESSAGE_DELAY, Queues};
use crate::limits::{Allowed, crowded};
use crate::names::Found;
use crate::network::{End, Happening, Owner};
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

/// Whom a client says to be.
pub(crate) struct Who {
    pub(crate) database: String,
    pub(crate) user: String,
}

/// One worker.
struct Node {
    engine: Engine,
    slots: Slots,
    /// The tick that is scheduled.
    tick: Time,
    /// The chance in what its machine does for it.
    rng: Rng,
    /// The chance in how busy it is.
    loads: Rng,
}

/// What the workers share.
struct Shared {
    config: Arc<Config>,
    reloads: Vec<Arc<Config>>,
    allowed: Allowed,
    clients: BTreeMap<u32, Who>,
    accepting: bool,
    ended: bool,
    /// When the last message from one engine to another arrives: they keep their order.
    last_arrival: BTreeMap<(u16, u16), Time>,
    accepted: u32,
    /// Server connections that are between two workers: what they were started for.
    travelling: Vec<(End, (String, String))>,
    /// Those that ended so lately that not every worker has heard of it, and when.
    gone: Vec<(Time, (String, String))>,
    queues: Queues,
    /// After how many turns in a thousand a client is frozen and thawed.
    freezes: u32,
    rng: Rng,
}

impl Pooler {
    /// The process; without a plan there is none.
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
                statement_memory: statement_memory.clone(),
                wall_at_start: WALL,
                version: "weir simulated",
                uid: 0,
            }),
            slots: Slots::default(),
            tick: Time::NEVER,
            rng: rng.fork("worker", u64::from(worker)),
            loads: rng.fork("loads", u64::from(worker)),
        };
        Pooler { nodes: (0..workers).map(node).collect(), shared: Shared::new(config, reloads, rng.fork("pooler", 0)) }
    }

    /// Who will come, by their numbers. An operator among them may make pools smaller than the settings do.
    pub(crate) fn expect(&mut self, clients: BTreeMap<u32, Who>, operated: bool) {
        self.shared.clients = clients;
        self.shared.allowed.operated = operated;
    }

    /// Whether the process has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.shared.ended
    }

    /// Begins: deadlines that the engines have from their birth are kept.
    pub(crate) fn start(&mut self, ctx: &mut Context) {
        for worker in 0..self.nodes.len() {
            self.schedule(ctx, worker);
        }
    }

    /// A client connects; `false` if nobody listens.
    pub(crate) fn arrive(&mut self, ctx: &mut Context, conn: u32) -> bool {
        if self.shared.ended || !self.shared.accepting {
            return false;
        }
        // The first worker accepts for all.
        let worker = 0;
        let slots = &mut self.nodes[worker].slots;
        let peer = slots.reserve();
        let end = ctx.net.accept(conn, Owner::Engine(0, peer));
        slots.fill(peer, end, Turn::client());
        self.shared.accepted += 1;
        let port = 1024 + (self.shared.accepted % 60_000) as u16;
        let from = if self.shared.accepted.is_multiple_of(5) {
            ClientAddr::Unix { pid: self.shared.accepted, uid: 1000 }
        } else {
            ClientAddr::Tcp(SocketAddr::from((Ipv4Addr::new(10, 1, 0, 1), port)))
        };
        self.handle(ctx, worker, Input::Accepted { peer, from });
        true
    }

    /// Something happened to a connection of an engine.
    pub(crate) fn happened(&mut self, ctx: &mut Context, worker: u16, peer: Peer, happening: &Happening, bytes: &[u8]) {
        let worker = usize::from(worker);
        let Some(end) = self.nodes[worker].slots.end(peer) else { return };
        ctx.misled.hearing = ctx.misled.is_from(end);
        match happening {
            Happening::Bytes => {
                self.nodes[worker].slots.heard(peer, bytes);
                self.handle(ctx, worker, Input::Bytes { peer, bytes });
            }
            Happening::Drained => self.handle(ctx, worker, Input::Drained { peer }),
            Happening::Connected => {
                let local = format!("10.9.0.1:{}", 2000 + peer.slot);
                let remote = self.nodes[worker].slots.remote(peer);
                self.handle(ctx, worker, Input::Connected { peer, local, remote });
            }
            Happening::ConnectFailed => {
                self.nodes[worker].slots.remove(peer);
                self.handle(ctx, worker, Input::ConnectFailed { peer, error: "Connection refused".to_owned() });
            }
            Happening::Eof | Happening::Error => {
                self.nodes[worker].slots.remove(peer);
                ctx.close(end);
                let cause = if *happening == Happening::Eof { Gone::Eof } else { Gone::Error };
                self.handle(ctx, worker, Input::Closed { peer, cause });
            }
            Happening::Ending => self.handle(ctx, worker, Input::Ending { peer }),
            Happening::Arrived(_) => {}
        }
        ctx.misled.hearing = false;
    }

    /// A signal reaches the process.
    pub(crate) fn signal(&mut self, ctx: &mut Context, signal: Signal) {
        if !self.nodes.is_empty() {
            self.handle(ctx, 0, Input::Signal(signal));
        }
    }

    /// An event of the engines' own has come.
    pub(crate) fn step(&mut self, ctx: &mut Context, event: Event) {
        match event {
            Event::Tick { worker, at } => {
                let worker = usize::from(worker);
                if self.nodes[worker].tick == at {
                    self.nodes[worker].tick = Time::NEVER;
                    self.handle(ctx, worker, Input::Tick);
                }
            }
            Event::Helped { worker, job, answer } => {
                self.handle(ctx, usize::from(worker), Input::Helped { job, answer: *answer });
            }
            Event::Found { worker, found } => {
                let Found { name, addresses, ttl } = *found;
                self.handle(ctx, usize::from(worker), Input::Resolved { name, addresses, ttl });
            }
            Event::Detached { worker, peer } => self.detached(ctx, worker, peer),
            Event::Handshaken { worker, peer, failure } => self.handshaken(ctx, usize::from(worker), peer, failure),
            Event::Message { from, to, message, socket } => {
                self.message(ctx, from, usize::from(to), *message, socket.map(|socket| *socket))
            }
            _ => {}
        }
    }

    fn detached(&mut self, ctx: &mut Context, worker: u16, peer: Peer) {
        let Some(end) = self.nodes[usize::from(worker)].slots.end(peer) else { return };
        if ctx.net.backlog(end) > 0 {
            // It leaves when nothing waits for it.
            let delay = self.nodes[usize::from(worker)].rng.span(1, 5_000);
            return ctx.queue.after(delay, Event::Detached { worker, peer });
        }
        // Until it has a new handle nobody hears of it.
        ctx.net.set_owner(end, Owner::Nobody);
        self.handle(ctx, usize::from(worker), Input::Detached { peer });
    }

    /// Within the encryption bytes pass as they are: what it hides is the runtime's business.
    fn handshaken(&mut self, ctx: &mut Context, worker: usize, peer: Peer, failure: Option<&str>) {
        let slots = &mut self.nodes[worker].slots;
        let Some(end) = slots.end(peer) else { return };
        if let Some(error) = failure {
            slots.remove(peer);
            ctx.close(end);
            return self.handle(ctx, worker, Input::TlsFailed { peer, error: error.to_owned() });
        }
        slots.shaken(peer);
        ctx.resume(end);
        let description = "TLSv1.3/TLS_AES_256_GCM_SHA384".to_owned();
        let tls = Secured { description, certificate: None, alpn: None, binding: Some(vec![7; 32]) };
        self.handle(ctx, worker, Input::Secured { peer, tls: Box::new(tls) });
    }

    /// Begins a handshake. One that begins with bytes of ours is garbage, since nobody here encrypts.
    fn shake(&mut self, ctx: &mut Context, worker: u16, peer: Peer, received: &[u8]) {
        let rng = &mut self.nodes[usize::from(worker)].rng;
        let unlucky = ctx.rules.faulty && rng.chance(50);
        let failure =
            if received.is_empty() { unlucky.then_some("peer is incompatible") } else { Some("corrupt message") };
        let delay = rng.span(50, 200_000);
        ctx.queue.after(delay, Event::Handshaken { worker, peer, failure });
    }

    fn message(&mut self, ctx: &mut Context, from: WorkerId, to: usize, message: Message, socket: Option<Carried>) {
        if self.shared.ended {
            socket.into_iter().for_each(|(end, _)| ctx.close(end));
            return;
        }
        let slots = &mut self.nodes[to].slots;
        let end = socket.as_ref().map(|(end, _)| *end);
        self.shared.travelling.retain(|(travelling, _)| Some(*travelling) != end);
        let peer = socket.map(|(end, turn)| {
            let peer = slots.reserve();
            slots.fill(peer, end, turn);
            ctx.net.set_owner(end, Owner::Engine(to as u16, peer));
            ctx.resume(end);
            peer
        });
        self.handle(ctx, to, Input::Message { from, message, socket: peer });
        // It may have broken on its way.
        if let (Some(peer), Some(end)) = (peer, end)
            && !ctx.net.is_open(end)
            && self.nodes[to].slots.end(peer).is_some()
        {
            self.nodes[to].slots.remove(peer);
            self.handle(ctx, to, Input::Closed { peer, cause: Gone::Error });
        }
    }

    /// Lets an engine handle an input, and does what it asked for.
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
        let mut io = SimIo::new(worker as u16, ctx, &mut node.slots, length);
        node.engine.handle(now, input, &mut io);
        let wishes = io.finish();
        let deadline = node.engine.next_deadline();
        ctx.trace.hash(&[now.micros(), worker as u64, deadline.micros()], &[]);
        for (job, work) in wishes.helps {
            self.help(ctx, worker as u16, job, work);
        }
        for (to, message, socket) in wishes.posts {
            self.post(ctx, worker as u16, to, message, socket);
        }
        for peer in wishes.detaches {
            let delay = self.nodes[worker].rng.span(1, 500);
            ctx.queue.after(delay, Event::Detached { worker: worker as u16, peer });
        }
        for found in wishes.looks {
            let delay = self.nodes[worker].rng.span(50, 2_000_000);
            ctx.queue.after(delay, Event::Found { worker: worker as u16, found: Box::new(found) });
        }
        for (peer, received) in wishes.handshakes {
            self.shake(ctx, worker as u16, peer, &received);
        }
        self.shared.accepting = wishes.accept.unwrap_or(self.shared.accepting);
        if wishes.exit.is_some() {
            return self.exit(ctx);
        }
        self.check_limits(ctx, worker);
        self.check_queues(ctx, worker, wishes.adopted);
        self.check_full(ctx, &wishes.crowded_out);
        self.probe(ctx, worker);
        if self.nodes.len() > 1 && self.nodes[worker].loads.chance(50) {
            let percent = self.nodes[worker].loads.below(101) as u8;
            self.handle(ctx, worker, Input::Load(percent));
        }
        for peer in wishes.blocked {
            if self.nodes[worker].slots.end(peer).is_some() {
                self.handle(ctx, worker, Input::Blocked { peer });
            }
        }
        self.schedule(ctx, worker);
    }

    /// Now and then an engine has to show that its books are right, and that a client survives being frozen.
    fn probe(&mut self, ctx: &mut Context, worker: usize) {
        let node = &mut self.nodes[worker];
        if node.rng.chance(30) {
            node.engine.check();
            self.check_refusals(ctx);
            let inside = self.nodes.iter().flat_map(|node| node.engine.inside());
            if let Some(what) = crowded(inside, &self.shared.config) {
                ctx.violated(Checker::LimitsHold, || what);
            }
        }
        let node = &mut self.nodes[worker];
        if node.rng.chance(self.shared.freezes)
            && let Some(peer) = node.slots.any(&mut node.rng)
            && node.engine.refreeze(peer)
        {
            ctx.port(|| format!("w{worker} froze and thawed {peer:?}"));
        }
    }

    /// Schedules the engine's next tick, if it is not scheduled.
    fn schedule(&mut self, ctx: &mut Context, worker: usize) {
        let node = &mut self.nodes[worker];
        let deadline = node.engine.next_deadline();
        if deadline >= node.tick || deadline == Time::NEVER {
            return;
        }
        node.tick = deadline;
        // A sleeping thread wakes up a little late.
        let late = node.rng.span(1, 1_000);
        ctx.queue.at(deadline + late, Event::Tick { worker: worker as u16, at: deadline });
    }

    fn help(&mut self, ctx: &mut Context, worker: u16, job: u64, work: Work) {
        let answer = match work {
            Work::SaltServer { password, salt, iterations } | Work::SaltClient { password, salt, iterations } => {
                Answer::Salted(salts::salted(&password, &salt, iterations))
            }
            Work::NameOfUser(uid) => Answer::UserName(Some(format!("user{uid}"))),
            Work::LoadConfig => Answer::Config(self.shared.load()),
            Work::ChangeConfig(_) => Answer::Changed(Err(ChangeError::Fixed)),
        };
        let delay = self.nodes[usize::from(worker)].rng.span(50, 100_000);
        ctx.queue.after(delay, Event::Helped { worker, job, answer: Box::new(answer) });
    }

    fn post(&mut self, ctx: &mut Context, from: u16, to: WorkerId, message: Message, socket: Option<Carried>) {
        if usize::from(to.0) >= self.nodes.len() {
            return ctx.violated(Checker::PortIsKept, || format!("w{from} posts to {to:?}, who does not exist"));
        }
        let delay = self.nodes[usize::from(from)].rng.span(1, MESSAGE_DELAY.micros());
        let last = self.shared.last_arrival.entry((from, to.0)).or_insert(Time::START);
        let at = (ctx.now() + delay).max(*last);
        *last = at;
        if let Some((end, turn)) = &socket
            && let Some(started) = turn.started()
        {
            self.shared.travelling.push((*end, started.clone()));
        }
        let socket = socket.map(Box::new);
        let event = Event::Message { from: WorkerId(from), to: to.0, message: Box::new(message), socket };
        ctx.queue.at(at, event);
    }

    fn exit(&mut self, ctx: &mut Context) {
        self.check_refusals(ctx);
        ctx.note(|| "the pooler's process ends".to_owned());
        self.shared.ended = true;
        for node in &mut self.nodes {
            node.slots.take_all().for_each(|end| ctx.close(end));
        }
    }

    /// What clients were refused with against what the engines have counted.
    fn check_refusals(&self, ctx: &mut Context) {
        let mut counted = Refusals::default();
        self.nodes.iter().for_each(|node| counted.add(&node.engine.refusals()));
        if let Some(what) = ctx.refused.differs(&counted) {
            ctx.violated(Checker::RefusalsAreCounted, || what);
        }
    }

    /// Who waits while others have servers: only where there are others.
    fn check_queues(&mut self, ctx: &mut Context, worker: usize, adopted: bool) {
        if self.nodes.len() < 2 {
            return;
        }
        let (now, shared) = (ctx.now(), &mut self.shared);
        let node = &mut self.nodes[worker];
        shared.gone.retain(|(at, _)| *at + MESSAGE_DELAY + MESSAGE_DELAY >= now);
        shared.gone.extend(node.slots.take_gone().into_iter().map(|what| (now, what)));
        if adopted {
            shared.queues.unsettle(now);
        }
        if let Some(Violation { checker, what }) = shared.queues.look(worker, &node.engine, now) {
            ctx.violated(checker, || what);
        }
    }

    /// Whoever was told that a pool is full: as many connections of it as it may have were there, as far as the worker could
    /// know that told so.
    fn check_full(&self, ctx: &mut Context, crowded_out: &[u32]) {
        for number in crowded_out {
            let Who { database, user } = &self.shared.clients[number];
            let elsewhere = self.shared.travelling.iter().map(|(_, what)| what);
            let elsewhere = elsewhere.chain(self.shared.gone.iter().map(|(_, what)| what));
            let elsewhere = elsewhere.map(|(database, user)| (database.as_str(), user.as_str()));
            let servers: Vec<(&str, &str)> =
                self.nodes.iter().flat_map(|node| node.slots.servers()).chain(elsewhere).collect();
            let count = |database: &str, user: &str| servers.iter().filter(|s| **s == (database, user)).count();
            if let Some(what) = self.shared.allowed.not_full(database, user, count) {
                let what = format!("c{number} was told that its pool is full: {what}");
                ctx.violated(Checker::RefusalsAreCounted, || what);
            }
        }
    }

    /// Server connections of each pool, over all workers, against the pool's limit.
    fn check_limits(&mut self, ctx: &mut Context, worker: usize) {
        if !self.nodes[worker].slots.take_started() {
            return;
        }
        let travelling = self.shared.travelling.iter().map(|(_, (database, user))| (database.as_str(), user.as_str()));
        let servers = self.nodes.iter().flat_map(|node| node.slots.servers()).chain(travelling);
        if let Some(what) = self.shared.allowed.broken(servers) {
            ctx.violated(Checker::LimitsHold, || what);
        }
        let most = self.shared.allowed.logins(self.nodes.len());
        let logins = self.nodes[worker].slots.logins();
        if let Some((place, count)) = logins.into_iter().find(|(_, count)| *count > most) {
            ctx.violated(Checker::LimitsHold, || format!("{count} logins at once at {place}, with {most} allowed"));
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
            travelling: Vec::new(),
            gone: Vec::new(),
            queues: Queues::default(),
            freezes: *rng.pick(&[0, 20, 300]),
            rng,
        };
        shared.allowed.note(&config);
        shared
    }

    fn load(&mut self) -> Result<Arc<Config>, String> {
        if self.rng.chance(100) {
            return Err("weir.toml:7: a mistake".to_owned());
        }
        if let Some(config) = self.reloads.pop() {
            self.allowed.note(&config);
            self.config = config;
        }
        Ok(Arc::clone(&self.config))
    }
}

/// An input for the transcript; bytes are shown by those who sent them.
fn describe(input: &Input<'_>) -> String {
    match input {
        Input::Bytes { peer, bytes } => format!("{} bytes from {peer:?}", bytes.len()),
        Input::Message { from, socket, .. } => format!("message from w{}, socket {socket:?}", from.0),
        other => format!("{other:?}"),
    }
}
