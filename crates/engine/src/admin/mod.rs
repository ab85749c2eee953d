//! Commands of operators, from the console, the control plane and signals, and the figures for them.
//!
//! - `console`: an operator's session. `stream`: long tables, in pieces. `gather`: commands for all workers.
//! - `health`: whether pools serve their clients. `halt`: what is stopped. `reload`: a new configuration. `shutdown`: the end.
//! - `report`: the tables' content; `symptoms`: those of a pool in trouble. `wait_diagnosis`: why a client waits.
//! - `client_counts`: how many clients there are. `refusals`: how many were refused, by cause. `lost`: session state that
//!   was lost.
//!
//! Each part owns its fields and returns what must be done, which the engine does (`flows`).

pub(crate) mod client_counts;
pub(crate) mod console;
pub(crate) mod gather;
pub(crate) mod halt;
pub(crate) mod health;
pub(crate) mod lost;
pub(crate) mod paging;
pub(crate) mod pool_counts;
pub(crate) mod refusals;
pub(crate) mod reload;
pub(crate) mod report;
pub(crate) mod shutdown;
pub(crate) mod stream;
mod symptoms;
pub(crate) mod wait_diagnosis;

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_admin::{Fault, Finding};
use weir_base::Time;
use weir_config::{Config, FileFormat};

/// The state of this worker for operators.
pub(crate) struct Admin {
    pub(crate) client_counts: client_counts::ClientCounts,
    /// What the consoles of this worker were asked.
    pub(crate) console_counts: pool_counts::PoolCounts,
    pub(crate) refusals: refusals::RefusalCounts,
    pub(crate) gatherings: gather::Gatherings,
    pub(crate) reloads: reload::Reloads,
    pub(crate) halt: halt::Halt,
    pub(crate) health: health::PoolsHealth,
    pub(crate) shutdown: shutdown::Shutdown,
    /// What the control plane says of Weir itself; worker 0 has it.
    pub(crate) faults: Arc<[Fault]>,
    /// What the control plane has found out about slow pools; worker 0 has it.
    pub(crate) findings: Arc<BTreeMap<String, Finding>>,
    /// When the statistics period ends.
    pub(crate) stats_at: Time,
    version: &'static str,
}

impl Admin {
    /// Whether a command waits for pools to become idle.
    #[inline]
    pub(crate) fn is_watching(&self) -> bool {
        self.halt.is_watched() || self.shutdown.is_draining()
    }

    pub(crate) fn new(config: Arc<Config>, version: &'static str) -> Admin {
        Admin {
            client_counts: client_counts::ClientCounts::default(),
            console_counts: pool_counts::PoolCounts::new(Time::START),
            refusals: refusals::RefusalCounts::default(),
            gatherings: gather::Gatherings::default(),
            reloads: reload::Reloads::new(config),
            halt: halt::Halt::default(),
            health: health::PoolsHealth::default(),
            shutdown: shutdown::Shutdown::default(),
            faults: Arc::default(),
            findings: Arc::default(),
            stats_at: Time::NEVER,
            version,
        }
    }

    /// The program's name and version. With an ini it is only what PgBouncer says, which tools read by its form.
    pub(crate) fn version(&self, format: FileFormat) -> &'static str {
        match (format, self.version.split_once(" (")) {
            (FileFormat::Ini, Some((of_pgbouncer, _))) => of_pgbouncer,
            _ => self.version,
        }
    }
}
