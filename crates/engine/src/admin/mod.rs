//! What operators ask for: the console, the control plane's requests, signals, and what is counted for them.
//!
//! - `console`: operators and their commands; `console_state`: their sessions. `control`: the control plane's requests.
//!   `gather`: commands that all workers carry out. `stream`: long tables, in pieces. `report`: what is shown.
//! - `halt`: what is stopped. `reload`: another configuration. `shutdown`: the end.
//! - `wait_diagnosis`: why somebody has to wait. `refusals`: who got nothing, counted. `lost`: session state that was lost.
//!   `client_counts`: how many clients there are, without looking at them.

pub(crate) mod client_counts;
pub(crate) mod console;
pub(crate) mod console_state;
pub(crate) mod control;
pub(crate) mod gather;
pub(crate) mod halt;
pub(crate) mod lost;
pub(crate) mod refusals;
pub(crate) mod reload;
pub(crate) mod report;
pub(crate) mod shutdown;
pub(crate) mod stream;
pub(crate) mod wait_diagnosis;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use weir_admin::Refusals;
use weir_base::{Time, WorkerId};
use weir_config::Config;

use crate::cluster::messages::Drain;

/// What this worker keeps for its operators.
pub(crate) struct Admin {
    pub(crate) client_counts: client_counts::ClientCounts,
    /// The configuration that workers were last told to take over; the next SET builds on it.
    pub(crate) newest: Arc<Config>,
    pub(crate) version: &'static str,
    /// The operating system's user that this process runs as.
    pub(crate) uid: u32,
    /// Clients that were refused before they had a pool, and those of pools that are forgotten.
    pub(crate) refusals: Refusals,
    pub(crate) gathering: HashMap<u64, gather::Gathering>,
    /// What renews the configuration, one at a time; a helper works on the first.
    pub(crate) renewals: VecDeque<reload::Renewal>,
    /// Where changes are kept that workers are taking over, by the control plane's numbers.
    pub(crate) kept: HashMap<u64, weir_admin::Persisted>,
    /// What the operator has stopped.
    pub(crate) halt: halt::Halt,
    pub(crate) draining: Option<Drain>,
    pub(crate) told_drained: bool,
    /// What worker 0 asked all workers for: its own message may reach it last.
    pub(crate) asked_drain: Option<Drain>,
    /// Workers that have told that they are drained.
    pub(crate) drained: BTreeSet<WorkerId>,
    pub(crate) shutdown_by: Time,
    pub(crate) shutdown_armed: Time,
    pub(crate) stats_at: Time,
}

impl Admin {
    /// Whether somebody waits for pools to come to rest.
    #[inline]
    pub(crate) fn is_watching(&self) -> bool {
        self.halt.is_watched() || self.draining.is_some()
    }

    pub(crate) fn new(config: Arc<Config>, version: &'static str, uid: u32) -> Admin {
        Admin {
            client_counts: client_counts::ClientCounts::default(),
            newest: config,
            version,
            uid,
            refusals: Refusals::default(),
            gathering: HashMap::new(),
            renewals: VecDeque::new(),
            kept: HashMap::new(),
            halt: halt::Halt::default(),
            draining: None,
            told_drained: false,
            asked_drain: None,
            drained: BTreeSet::new(),
            shutdown_by: Time::NEVER,
            shutdown_armed: Time::NEVER,
            stats_at: Time::NEVER,
        }
    }
}
