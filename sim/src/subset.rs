//! A subset of a run: which parts of a seed's scenario happen.
//!
//! The whole scenario is drawn, and then parts of it are left out. Each client, connection, server process and act has
//! its own random stream, so the remaining parts behave much as in the whole run.

use std::collections::BTreeSet;
use std::fmt;

use crate::client::Caps;
use crate::conditions::Conditions;
use crate::scenario::{Act, Scenario};

/// Which parts of a run happen; by default all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Subset {
    /// Only these clients connect.
    pub clients: Option<BTreeSet<u32>>,
    /// Only these acts happen, by their numbers in the transcript.
    pub acts: Option<BTreeSet<u32>>,
    /// The most engines.
    pub workers: Option<u16>,
    /// The most connections of a client, one after the other.
    pub sessions: Option<u64>,
    /// The most bursts in each connection.
    pub bursts: Option<u64>,
    /// The network has no disturbances.
    pub calm: bool,
    /// Another timing of the network than the seed's own, which is 0.
    pub timing: u64,
}

impl Subset {
    /// Whether this is the whole run.
    pub fn is_whole(&self) -> bool {
        *self == Subset::default()
    }

    /// Removes the other parts from a scenario.
    pub(crate) fn apply(&self, scenario: &mut Scenario) {
        if let Some(clients) = &self.clients {
            scenario.clients.retain(|client| clients.contains(&client.number));
        }
        if let Some(acts) = &self.acts {
            scenario.left_out = optional_acts(scenario).into_iter().filter(|number| !acts.contains(number)).collect();
        }
        if self.calm {
            scenario.conditions = Conditions::calm();
        }
        let (sessions, bursts) = (self.sessions.unwrap_or(u64::MAX), self.bursts.unwrap_or(u64::MAX));
        for client in &mut scenario.clients {
            client.caps = Caps { sessions, bursts };
        }
        if let (Some(workers), Some(pooling)) = (self.workers, &mut scenario.pooling) {
            pooling.workers = pooling.workers.min(workers);
        }
        scenario.timing = self.timing;
    }
}

/// The numbers of acts that may be left out: all but those that end the run.
pub(crate) fn optional_acts(scenario: &Scenario) -> Vec<u32> {
    let acts = scenario.acts.iter().enumerate();
    let optional = acts.filter(|(_, (_, act))| !matches!(act, Act::Calm | Act::Deadline));
    optional.map(|(number, _)| number as u32).collect()
}

/// The options of `weir-sim` that select this subset.
impl fmt::Display for Subset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut options = Vec::new();
        let list = |numbers: &BTreeSet<u32>| match numbers.is_empty() {
            true => "none".to_owned(),
            false => numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(","),
        };
        options.extend(self.clients.as_ref().map(|clients| format!("--only-clients {}", list(clients))));
        options.extend(self.acts.as_ref().map(|acts| format!("--only-acts {}", list(acts))));
        options.extend(self.workers.map(|most| format!("--workers {most}")));
        options.extend(self.sessions.map(|most| format!("--sessions {most}")));
        options.extend(self.bursts.map(|most| format!("--bursts {most}")));
        options.extend(self.calm.then(|| "--calm".to_owned()));
        options.extend((self.timing > 0).then(|| format!("--timing {}", self.timing)));
        f.write_str(&options.join(" "))
    }
}
