//! What one run consists of, drawn from its seed before anything happens.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use weir_base::Time;
use weir_config::Config;

use crate::client::{Caps, Identity, Kind, Topic};
use crate::conditions::Conditions;
use crate::context::Rules;
use crate::network::Address;
use crate::postgres::login::password_of;
use crate::postgres::{Behaviour, Server};
use crate::rng::Rng;

/// A run with more events than this is taken for an endless loop.
const MOST_EVENTS: u64 = 20_000_000;

/// An action of the operator, or a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Act {
    /// A server is shut down, and comes back after a while.
    Restart {
        server: usize,
        crash: bool,
    },
    /// A server lets nobody in for a while, and its sessions go on, but for one.
    ShutOut(usize),
    /// A server begins to start.
    Starting(usize),
    /// A server accepts logins again.
    Up(usize),
    /// An administrator ends one server process.
    Terminate,
    /// The network resets a connection.
    Cut,
    /// The network holds back what one end of a connection sends.
    Stall,
    /// The network conditions change.
    Conditions,
    /// HUP.
    Reload,
    /// USR1, and later USR2.
    Pause,
    Resume,
    /// Faults stop, and clients finish.
    Calm,
    /// All clients must have finished.
    Deadline,
    /// The pooler closes its clients between their transactions, and ends.
    Drain,
    /// TERM.
    Shutdown,
    /// The process must have ended.
    End,
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Act::ShutOut(server) => write!(f, "server {server} lets nobody in"),
            Act::Terminate => f.write_str("pg_terminate_backend"),
            Act::Cut => f.write_str("a connection is reset"),
            Act::Stall => f.write_str("a connection stalls"),
            Act::Conditions => f.write_str("the network conditions change"),
            Act::Reload => f.write_str("SIGHUP"),
            Act::Pause => f.write_str("SIGUSR1"),
            Act::Resume => f.write_str("SIGUSR2"),
            Act::Shutdown => f.write_str("SIGTERM"),
            Act::Drain => f.write_str("weir drain"),
            Act::Calm => f.write_str("faults stop"),
            other => write!(f, "{other:?}"),
        }
    }
}

/// The pooler of a run.
pub(crate) struct Pooling {
    /// How many engines the pooler has.
    pub(crate) workers: u16,
    /// The configuration that the pooler starts with.
    pub(crate) config: Arc<Config>,
    /// What each reload gives to the pooler; after the last one the configuration stays the same.
    pub(crate) reloads: Vec<Arc<Config>>,
}

/// One run.
pub(crate) struct Scenario {
    pub(crate) rules: Rules,
    pub(crate) conditions: Conditions,
    pub(crate) servers: Vec<Server>,
    pub(crate) behaviour: Behaviour,
    pub(crate) clients: Vec<Identity>,
    /// All clients connect for the first time within this time, in microseconds.
    pub(crate) arrival: u64,
    /// Acts in order of time.
    pub(crate) acts: Vec<(Time, Act)>,
    /// Numbers of acts that do not happen in this run.
    pub(crate) left_out: BTreeSet<u32>,
    /// A run with more events than this is taken for an endless loop.
    pub(crate) most_events: u64,
    /// Which of the possible timings of the network this is.
    pub(crate) timing: u64,
    /// The pooler; `None`: clients talk to servers.
    pub(crate) pooling: Option<Pooling>,
}

impl Scenario {
    /// A run without clients and without a pooler.
    pub(crate) fn new(rng: &mut Rng, rules: Rules, servers: Vec<Server>, behaviour: Behaviour) -> Scenario {
        let mut scenario = Scenario {
            conditions: Conditions::draw(rng),
            clients: Vec::new(),
            arrival: rng.skewed(1, 3_000_000),
            acts: Vec::new(),
            left_out: BTreeSet::new(),
            most_events: MOST_EVENTS,
            timing: 0,
            pooling: None,
            rules,
            servers,
            behaviour,
        };
        scenario.draw_acts(rng);
        scenario
    }

    /// Adds a client.
    pub(crate) fn add_client(&mut self, number: u32, address: Address, user: &str, database: &str, kind: Kind) {
        let password = if kind == Kind::WrongPassword { "wrong".to_owned() } else { password_of(user) };
        let (user, database) = (user.to_owned(), database.to_owned());
        let caps = Caps::default();
        self.clients.push(Identity { number, address, user, password, database, kind, caps, topic: Topic::Any });
    }

    /// Makes this a run about cancel requests.
    pub(crate) fn make_cancel_run(&mut self) {
        // Two connections, a message on each, and the server's own delay.
        let latency = 4 * self.conditions.latency.1;
        let delay = latency + 2 * self.behaviour.slow_cancel;
        self.make_about(Topic::Cancels { delay });
    }

    /// Makes this a run about one topic.
    pub(crate) fn make_about(&mut self, topic: Topic) {
        self.clients.iter_mut().for_each(|client| client.topic = topic);
    }

    /// Draws faults and the moment at which they stop.
    fn draw_acts(&mut self, rng: &mut Rng) {
        let calm = rng.between(5_000_000, 60_000_000);
        if self.rules.faulty {
            for _ in 0..rng.skewed(1, 12) {
                let at = Time::from_micros(rng.skewed(1_000, calm));
                let act = self.draw_fault(rng);
                self.acts.push((at, act));
            }
        }
        for _ in 0..rng.below(3) {
            self.acts.push((Time::from_micros(rng.below(calm)), Act::Conditions));
        }
        let calm = Time::from_micros(calm);
        self.acts.push((calm, Act::Calm));
        // A client finishes within a few bursts, each of which may have to wait.
        let end = (0..5).fold(calm, |at, _| at + self.rules.answer_timeout);
        self.acts.push((end, Act::Deadline));
        self.acts.sort_by_key(|(at, _)| *at);
    }

    fn draw_fault(&self, rng: &mut Rng) -> Act {
        let server = rng.below(self.servers.len() as u64) as usize;
        match rng.below(10) {
            0 | 1 => Act::Restart { server, crash: rng.chance(500) },
            2 | 3 => Act::Terminate,
            4..=7 => Act::Cut,
            _ => Act::Stall,
        }
    }
}
