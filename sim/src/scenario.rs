//! What one run consists of, drawn from its seed before anything happens.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use weir_base::Time;
use weir_config::Config;

use crate::client::{Haste, Identity, Kind, Stay};
use crate::context::Rules;
use crate::network::Address;
use crate::postgres::login::password_of;
use crate::postgres::{Flavour, Server};
use crate::rng::Rng;
use crate::weather::Weather;

/// More events than this, and a run goes in circles.
const MOST_EVENTS: u64 = 20_000_000;

/// What the operator, or fate, does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Act {
    /// A server is shut down, and comes back after a while.
    Restart {
        server: usize,
        crash: bool,
    },
    /// It begins to start.
    Starting(usize),
    /// It serves again.
    Up(usize),
    /// An administrator ends one server process.
    Terminate,
    /// The network resets a connection.
    Cut,
    /// The network holds back what one end of a connection sends.
    Stall,
    /// The weather changes.
    Weather,
    /// HUP.
    Reload,
    /// USR1, and later USR2.
    Pause,
    Resume,
    /// Faults stop, and clients come to their end.
    Calm,
    /// All must be over.
    Deadline,
    /// TERM.
    Shutdown,
    /// The process must be gone.
    End,
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Act::Terminate => f.write_str("pg_terminate_backend"),
            Act::Cut => f.write_str("a connection is reset"),
            Act::Stall => f.write_str("a connection is held up"),
            Act::Weather => f.write_str("the network's weather changes"),
            Act::Reload => f.write_str("SIGHUP"),
            Act::Pause => f.write_str("SIGUSR1"),
            Act::Resume => f.write_str("SIGUSR2"),
            Act::Shutdown => f.write_str("SIGTERM"),
            Act::Calm => f.write_str("faults stop"),
            other => write!(f, "{other:?}"),
        }
    }
}

/// The pooler of a run.
pub(crate) struct Pooling {
    /// How many engines it has.
    pub(crate) workers: u16,
    /// What it is told.
    pub(crate) config: Arc<Config>,
    /// What it is told each time it loads its settings again; then the last one stays.
    pub(crate) reloads: Vec<Arc<Config>>,
}

/// One run.
pub(crate) struct Scenario {
    pub(crate) rules: Rules,
    pub(crate) weather: Weather,
    pub(crate) servers: Vec<Server>,
    pub(crate) flavour: Flavour,
    pub(crate) clients: Vec<Identity>,
    /// Clients come within this time, in microseconds.
    pub(crate) arrival: u64,
    /// What happens when, in order of time.
    pub(crate) acts: Vec<(Time, Act)>,
    /// Numbers of acts that do not happen in this run.
    pub(crate) left_out: BTreeSet<u32>,
    /// More events than this, and the run goes in circles.
    pub(crate) most_events: u64,
    /// Which of the possible timings of the network this is.
    pub(crate) timing: u64,
    /// The pooler; `None`: clients talk to servers.
    pub(crate) pooling: Option<Pooling>,
}

impl Scenario {
    /// A run without clients and without a pooler.
    pub(crate) fn new(rng: &mut Rng, rules: Rules, servers: Vec<Server>, flavour: Flavour) -> Scenario {
        let mut scenario = Scenario {
            weather: Weather::draw(rng),
            clients: Vec::new(),
            arrival: rng.skewed(1, 3_000_000),
            acts: Vec::new(),
            left_out: BTreeSet::new(),
            most_events: MOST_EVENTS,
            timing: 0,
            pooling: None,
            rules,
            servers,
            flavour,
        };
        scenario.draw_acts(rng);
        scenario
    }

    /// Adds a client.
    pub(crate) fn add_client(&mut self, number: u32, address: Address, user: &str, database: &str, kind: Kind) {
        let password = if kind == Kind::Impostor { "wrong".to_owned() } else { password_of(user) };
        let (user, database) = (user.to_owned(), database.to_owned());
        let stay = Stay::default();
        self.clients.push(Identity { number, address, user, password, database, kind, stay, haste: None });
    }

    /// Makes this a run about cancels.
    pub(crate) fn hasten(&mut self) {
        // Two connections, and something to say on each; then the server takes its time.
        let haste = Haste { way: 4 * self.weather.latency.1 + self.flavour.slow_cancel };
        for client in &mut self.clients {
            client.haste = Some(haste);
        }
    }

    /// Draws faults and the end of them.
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
            self.acts.push((Time::from_micros(rng.below(calm)), Act::Weather));
        }
        let calm = Time::from_micros(calm);
        self.acts.push((calm, Act::Calm));
        // A few bursts, each of which may have to wait.
        let end = (0..5).fold(calm, |at, _| at + self.rules.patience);
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
