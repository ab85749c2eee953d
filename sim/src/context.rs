//! What every actor may touch: the clock and the events to come, the network, the record, and the verdict.

use std::collections::BTreeSet;
use std::fmt;

use weir_base::{OnDirty, Peer, PoolMode, Span, Time, WorkerId};
use weir_engine::Message;
use weir_engine::port::{Answer, Signal};

use crate::check::{Checker, Violation};
use crate::io::Carried;
use crate::names::{Found, Names};
use crate::network::{Address, End, Net, NetEvent, Owner, Written};
use crate::queue::Queue;
use crate::refused::Refused;
use crate::rng::Rng;
use crate::trace::{Detail, Trace};
use crate::weather::Weather;

/// Everything that can happen.
pub(crate) enum Event {
    /// In the network.
    Net(NetEvent),
    /// An actor asked to be woken, with its own number for the reason.
    Wake(Owner, u32),
    /// A message reaches an engine.
    Message { from: WorkerId, to: u16, message: Box<Message>, socket: Option<Box<Carried>> },
    /// A helper has finished for an engine.
    Helped { worker: u16, job: u64, answer: Box<Answer> },
    /// A name has been looked up for an engine.
    Found { worker: u16, found: Box<Found> },
    /// A socket has left an engine's loop.
    Detached { worker: u16, peer: Peer },
    /// A client's handshake is over; with a reason, if it failed.
    Handshaken { worker: u16, peer: Peer, failure: Option<&'static str> },
    /// An engine's deadline.
    Tick { worker: u16, at: Time },
    /// The operator, or fate, does something.
    Act(u32),
    /// The operator sends the pooler a signal.
    Signal(Signal),
}

/// What this run promises its clients, so that the checkers know what to expect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Whether a pooler stands between.
    pub(crate) pooled: bool,
    /// How the pooler shares servers.
    pub(crate) mode: PoolMode,
    /// What it does with state left behind.
    pub(crate) on_dirty: OnDirty,
    /// Whether faults are let loose: then a connection may break at any time, and clients may be refused.
    pub(crate) faulty: bool,
    /// How long a client may wait for an answer beyond what its statements take.
    pub(crate) patience: Span,
    /// The most clients that may be logged in at once.
    pub(crate) max_clients: usize,
}

impl Default for Rules {
    /// Nothing stands between, nothing is at fault.
    fn default() -> Rules {
        Rules {
            pooled: false,
            mode: PoolMode::Session,
            on_dirty: OnDirty::Keep,
            faulty: false,
            patience: Span::from_secs(3_000),
            max_clients: usize::MAX,
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
    pub(crate) misled: Misled,
    pub(crate) refused: Refused,
    /// The ends of clients that have been let in.
    logged_in: Vec<End>,
}

/// Clients that a hostile server may have told anything: what they hear proves nothing.
#[derive(Default)]
pub(crate) struct Misled {
    /// Connections whose server has done mischief.
    conns: BTreeSet<u32>,
    clients: BTreeSet<u32>,
    /// What an engine handles just now comes from such a connection.
    pub(crate) hearing: bool,
}

impl Misled {
    /// A server does mischief to its client, if it knows it.
    pub(crate) fn by(&mut self, server: End, client: Option<u32>) {
        self.conns.insert(server.conn);
        self.clients.extend(client);
    }

    /// Whether what arrives on this connection comes from a server that has done mischief.
    pub(crate) fn is_from(&self, end: End) -> bool {
        self.conns.contains(&end.conn)
    }

    /// A client is told something of it.
    pub(crate) fn add(&mut self, client: u32) {
        self.clients.insert(client);
    }

    /// Whether it is one of them.
    pub(crate) fn has(&self, client: u32) -> bool {
        self.clients.contains(&client)
    }

    /// It begins anew.
    pub(crate) fn forget(&mut self, client: u32) {
        self.clients.remove(&client);
    }
}

/// What a run did, for the summary.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Times a server became idle after serving a client.
    pub transactions: u64,
    /// Messages that clients sent.
    pub messages: u64,
    /// Replies that clients compared.
    pub replies: u64,
    /// Client sessions that logged in.
    pub logins: u64,
    /// Cancels that stopped a query.
    pub cancelled: u64,
    /// Client sessions that a fault or the pooler ended.
    pub broken: u64,
    /// Events of the simulated world.
    pub events: u64,
}

impl Counts {
    /// Adds another run's.
    pub fn add(&mut self, other: &Counts) {
        self.transactions += other.transactions;
        self.messages += other.messages;
        self.replies += other.replies;
        self.logins += other.logins;
        self.cancelled += other.cancelled;
        self.broken += other.broken;
        self.events += other.events;
    }
}

impl Context {
    /// An empty world at the beginning of its time.
    pub(crate) fn new(rules: Rules, weather: Weather, rng: Rng, detail: Detail) -> Context {
        Context {
            queue: Queue::new(),
            names: Names::new(Vec::new(), rng.fork("names", 0)),
            net: Net::new(weather, rng),
            trace: Trace::new(detail),
            rules,
            violation: None,
            counts: Counts::default(),
            misled: Misled::default(),
            refused: Refused::default(),
            logged_in: Vec::new(),
        }
    }

    /// A client has been let in. Tells how many are, as far as whoever let them in has not closed their connections.
    pub(crate) fn let_in(&mut self, end: End) -> usize {
        self.logged_in.retain(|end| self.net.is_open(*end) && self.net.is_open(end.peer()));
        self.logged_in.push(end);
        self.logged_in.len()
    }

    /// A client writes no more, which counts as having left.
    pub(crate) fn left(&mut self, end: End) {
        self.logged_in.retain(|other| *other != end);
    }

    /// The time now.
    pub(crate) fn now(&self) -> Time {
        self.queue.now()
    }

    /// Wakes an actor after a delay.
    pub(crate) fn wake(&mut self, delay: Span, owner: Owner, reason: u32) {
        self.queue.after(delay, Event::Wake(owner, reason));
    }

    /// Keeps the first broken rule.
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

    /// Adds what passes between an engine and its port to the transcript, if it is to have that.
    pub(crate) fn port(&mut self, text: impl FnOnce() -> String) {
        self.trace.port_line(self.queue.now(), || format!("     {}", text()));
    }

    /// Adds a message to the transcript that the owner of `end` sends.
    pub(crate) fn sent<M: fmt::Display>(&mut self, end: End, message: M) {
        self.spoken(end, end.peer(), message);
    }

    /// Adds a message to the transcript that the owner of `end` has read.
    pub(crate) fn got<M: fmt::Display>(&mut self, end: End, message: M) {
        self.spoken(end.peer(), end, message);
    }

    fn spoken<M: fmt::Display>(&mut self, from: End, to: End, message: M) {
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
        self.net.close(&mut self.queue, end);
    }

    pub(crate) fn abort(&mut self, end: End) {
        self.net.abort(&mut self.queue, end);
    }

    pub(crate) fn resume(&mut self, end: End) {
        self.net.resume(&mut self.queue, end);
    }
}
