//! State shared by all actors: the event queue and the clock, the network, the trace, and the first violation.

use std::collections::BTreeSet;
use std::fmt;

use weir_base::{ConnId, OnDirty, PoolMode, Span, Time, WorkerId};
use weir_engine::Message;
use weir_engine::port::{Signal, WorkResult};

use crate::cancel_requests::CancelRequests;
use crate::check::{Checker, Violation};
use crate::conditions::Conditions;
use crate::io::Handoff;
use crate::names::{DnsAnswer, Names};
use crate::network::{Address, End, Net, NetEvent, Owner, Written};
use crate::queue::Queue;
use crate::refused::Refused;
use crate::rng::Rng;
use crate::trace::{Detail, Trace};

/// An event of the simulation.
pub(crate) enum Event {
    /// An event of the network.
    Net(NetEvent),
    /// A timer of an actor; the number is the actor's own reason.
    Wake(Owner, u32),
    /// A message reaches an engine.
    Message { from: WorkerId, to: u16, message: Box<Message>, socket: Option<Box<Handoff>> },
    /// A helper has finished for an engine.
    JobDone { worker: u16, job: u64, result: Box<WorkResult> },
    /// A name has been looked up for an engine.
    Resolved { worker: u16, found: Box<DnsAnswer> },
    /// A socket has left an engine's loop.
    Detached { worker: u16, conn: ConnId },
    /// A TLS handshake is over; `failure` is the reason if it failed.
    Handshaken { worker: u16, conn: ConnId, failure: Option<&'static str> },
    /// An engine's deadline.
    Tick { worker: u16, at: Time },
    /// An action of the operator or a fault, by its number.
    Act(u32),
    /// The operator sends the pooler a signal.
    Signal(Signal),
}

/// What this run guarantees its clients: the checkers' expectations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Whether a pooler is between clients and servers.
    pub(crate) pooled: bool,
    /// How the pooler shares servers.
    pub(crate) mode: PoolMode,
    /// What the pooler does with state left behind.
    pub(crate) on_dirty: OnDirty,
    /// Whether clients listen as in a session, or are warned that they do not.
    pub(crate) listens: bool,
    /// Whether there are faults: then a connection may break at any time, and clients may be refused.
    pub(crate) faulty: bool,
    /// How long a client may wait for an answer beyond what its statements take.
    pub(crate) answer_timeout: Span,
    /// The most clients that may be logged in at once.
    pub(crate) max_clients: usize,
    /// The pools that want a primary, each a bit by its number.
    pub(crate) primaries: u32,
}

impl Default for Rules {
    /// No pooler and no faults.
    fn default() -> Rules {
        Rules {
            pooled: false,
            mode: PoolMode::Session,
            on_dirty: OnDirty::Keep,
            listens: false,
            faulty: false,
            answer_timeout: Span::from_secs(3_000),
            max_clients: usize::MAX,
            primaries: 0,
        }
    }
}

/// Everything that actors share.
pub(crate) struct Context {
    pub(crate) queue: Queue<Event>,
    pub(crate) net: Net,
    pub(crate) names: Names,
    pub(crate) trace: Trace,
    pub(crate) rules: Rules,
    pub(crate) violation: Option<Violation>,
    pub(crate) counts: Counts,
    pub(crate) affected: Affected,
    /// The longest batch with a statement that is stored, in bytes: a server is sent it whole.
    pub(crate) longest_stored: usize,
    pub(crate) refused: Refused,
    pub(crate) cancel_requests: CancelRequests,
    /// The pooler closes its clients, and takes no others.
    pub(crate) drained: bool,
    /// The ends of clients that have logged in.
    logged_in: Vec<End>,
}

/// Clients that may have received anything from a hostile server: their replies are not checked.
#[derive(Default)]
pub(crate) struct Affected {
    /// Connections whose server has misbehaved.
    conns: BTreeSet<u32>,
    clients: BTreeSet<u32>,
    /// The input that an engine is handling comes from such a connection.
    pub(crate) handling: bool,
}

impl Affected {
    /// A server misbehaves towards its client, which is `None` if the server does not know it.
    pub(crate) fn mark(&mut self, server: End, client: Option<u32>) {
        self.conns.insert(server.conn);
        self.clients.extend(client);
    }

    /// Whether the server on this connection has misbehaved.
    pub(crate) fn is_from(&self, end: End) -> bool {
        self.conns.contains(&end.conn)
    }

    /// A client received bytes from such a connection.
    pub(crate) fn add(&mut self, client: u32) {
        self.clients.insert(client);
    }

    /// Whether a client is affected.
    pub(crate) fn has(&self, client: u32) -> bool {
        self.clients.contains(&client)
    }

    /// The client starts a new session.
    pub(crate) fn forget(&mut self, client: u32) {
        self.clients.remove(&client);
    }
}

/// What a run did, for the summary.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    /// How often a server became idle after serving a client.
    pub transactions: u64,
    /// Messages that clients sent.
    pub messages: u64,
    /// Replies that clients compared.
    pub replies: u64,
    /// Client sessions that logged in.
    pub logins: u64,
    /// Cancels that stopped a query.
    pub cancelled: u64,
    /// Cancel requests that had a query to stop when they came to the pooler, in runs without faults.
    pub cancels_due: u64,
    /// Connected clients that moved to another worker, as the pools at the end of the run counted them.
    pub moved: u64,
    /// Refusals by the pooler whose cause the client could read.
    pub refused: u64,
    /// Client sessions that a fault or the pooler ended.
    pub broken: u64,
    /// Events of the simulated world.
    pub events: u64,
}

impl Counts {
    /// Adds another run's counts.
    pub fn add(&mut self, other: &Counts) {
        self.transactions += other.transactions;
        self.messages += other.messages;
        self.moved += other.moved;
        self.replies += other.replies;
        self.logins += other.logins;
        self.cancelled += other.cancelled;
        self.cancels_due += other.cancels_due;
        self.refused += other.refused;
        self.broken += other.broken;
        self.events += other.events;
    }
}

impl Context {
    /// An empty world at time 0.
    pub(crate) fn new(rules: Rules, conditions: Conditions, rng: Rng, detail: Detail) -> Context {
        Context {
            queue: Queue::new(),
            names: Names::new(Vec::new(), rng.fork("names", 0)),
            net: Net::new(conditions, rng),
            trace: Trace::new(detail),
            rules,
            violation: None,
            counts: Counts::default(),
            affected: Affected::default(),
            longest_stored: 0,
            refused: Refused::default(),
            cancel_requests: CancelRequests::default(),
            drained: false,
            logged_in: Vec::new(),
        }
    }

    /// A client has logged in. Returns how many are logged in, without those whose connection the other side closed.
    pub(crate) fn logged_in_now(&mut self, end: End) -> usize {
        self.logged_in.retain(|end| self.net.is_open(*end) && self.net.is_open(end.peer()));
        self.logged_in.push(end);
        self.logged_in.len()
    }

    /// A client writes no more, which counts as logged out.
    pub(crate) fn left(&mut self, end: End) {
        self.cancel_requests.closed(self.now(), end);
        self.logged_in.retain(|other| *other != end);
    }

    /// The present time.
    pub(crate) fn now(&self) -> Time {
        self.queue.now()
    }

    /// Wakes an actor after a delay.
    pub(crate) fn wake(&mut self, delay: Span, owner: Owner, reason: u32) {
        self.queue.after(delay, Event::Wake(owner, reason));
    }

    /// Records a violation, if it is the first.
    pub(crate) fn violated(&mut self, checker: Checker, what: impl FnOnce() -> String) {
        if self.violation.is_none() {
            let violation = Violation { checker, what: what() };
            self.trace.line(self.queue.now(), || format!("!! {violation}"));
            self.violation = Some(violation);
        }
    }

    /// Adds a line about the world to the transcript.
    pub(crate) fn note(&mut self, text: impl FnOnce() -> String) {
        self.trace.line(self.queue.now(), || format!("-- {}", text()));
    }

    /// Adds a line about an engine's port to the transcript, if its detail includes ports.
    pub(crate) fn port(&mut self, text: impl FnOnce() -> String) {
        self.trace.port_line(self.queue.now(), || format!("     {}", text()));
    }

    /// Adds a message to the transcript that the owner of `end` sends.
    pub(crate) fn sent<M: fmt::Display>(&mut self, end: End, message: M) {
        self.message_line(end, end.peer(), message);
    }

    /// Adds a message to the transcript that the owner of `end` has read.
    pub(crate) fn got<M: fmt::Display>(&mut self, end: End, message: M) {
        self.message_line(end.peer(), end, message);
    }

    fn message_line<M: fmt::Display>(&mut self, from: End, to: End, message: M) {
        if !self.trace.is_on() {
            return;
        }
        let (from, to) = (self.net.owner(from), self.net.owner(to));
        self.trace.line(self.queue.now(), || format!("{from} -> {to}  {message}"));
    }

    pub(crate) fn connect(&mut self, owner: Owner, address: Address) -> End {
        self.net.connect(&mut self.queue, owner, address)
    }

    pub(crate) fn write(&mut self, end: End, bytes: &[u8]) -> Written {
        self.net.write(&mut self.queue, end, bytes)
    }

    pub(crate) fn close(&mut self, end: End) {
        self.cancel_requests.closed(self.now(), end);
        self.net.close(&mut self.queue, end);
    }

    pub(crate) fn abort(&mut self, end: End) {
        self.cancel_requests.closed(self.now(), end);
        self.net.abort(&mut self.queue, end);
    }

    pub(crate) fn resume(&mut self, end: End) {
        self.net.resume(&mut self.queue, end);
    }
}
