//! What every actor may touch: the clock and the events to come, the network, the record, and the verdict.

use weir_base::{Mode, OnDirty, Peer, Span, Time, WorkerId};
use weir_engine::mail::Mail;
use weir_engine::port::Answer;

use crate::check::{Checker, Violation};
use crate::network::{Address, End, Net, NetEvent, Owner, Written};
use crate::queue::Queue;
use crate::rng::Rng;
use crate::trace::Trace;
use crate::weather::Weather;

/// Everything that can happen.
pub(crate) enum Event {
    /// In the network.
    Net(NetEvent),
    /// An actor asked to be woken, with its own number for the reason.
    Wake(Owner, u32),
    /// A mail reaches an engine.
    Mail { from: WorkerId, to: u16, mail: Box<Mail>, socket: Option<End> },
    /// A helper has finished for an engine.
    Helped { worker: u16, job: u64, answer: Box<Answer> },
    /// A socket has left an engine's loop.
    Detached { worker: u16, peer: Peer },
    /// An engine's deadline.
    Tick { worker: u16, at: Time },
    /// The operator, or fate, does something.
    Act(u32),
}

/// What this run promises its clients, so that the checkers know what to expect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Whether a pooler stands between.
    pub(crate) pooled: bool,
    /// How the pooler shares servers.
    pub(crate) mode: Mode,
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
            mode: Mode::Session,
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
    pub(crate) trace: Trace,
    pub(crate) rules: Rules,
    pub(crate) violation: Option<Violation>,
    pub(crate) counts: Counts,
    /// The ends of clients that have been let in.
    logged_in: Vec<End>,
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
    pub(crate) fn new(rules: Rules, weather: Weather, rng: Rng, transcript: bool) -> Context {
        Context {
            queue: Queue::new(),
            net: Net::new(weather, rng),
            trace: Trace::new(transcript),
            rules,
            violation: None,
            counts: Counts::default(),
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

    /// Adds a line to the transcript.
    pub(crate) fn note(&mut self, text: impl FnOnce() -> String) {
        self.trace.line(self.queue.now(), text);
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
