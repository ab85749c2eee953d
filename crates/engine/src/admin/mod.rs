//! Operators: commands from the console, the control plane and signals, and the figures for them.
//!
//! - `commands`: what operators send at a console. `control`: requests of the control plane. `signals`: signals.
//!   `broadcast`: a command goes to all workers. `execute`: a command is executed on this worker. `answers`: all
//!   workers have answered.
//! - `console`: an operator's session. `operators`: the session waits for an answer, and gets it. `tables`, `stream`,
//!   `paging`: long tables, in pieces.
//! - `hand_over`: another process is about to take over. `configuration`, `reload`: a new configuration. `end`, `shutdown`: shutdowns; `drain_pace`: how fast one closes
//!   clients.
//! - `reports`, `report`: the tables' content; `symptoms`: what shows that a pool is in trouble. `wait_diagnosis`: why
//!   a client waits.
//! - `patroni`: worker 0 asks Patroni where they are.
//! - `primaries`: worker 0 has pools move to another primary.
//! - `pool_health`, `health`: whether pools serve their clients.
//! - `client_counts`, `logging_in`: how many clients there are. `pool_counts`: what is counted of a pool. `refusals`:
//!   how many clients were refused, by cause.

pub(crate) mod answers;
pub(crate) mod broadcast;
pub(crate) mod broadcasts;
pub(crate) mod client_counts;
pub(crate) mod commands;
pub(crate) mod configuration;
pub(crate) mod console;
pub(crate) mod control;
mod declined;
pub(crate) mod drain_pace;
pub(crate) mod end;
pub(crate) mod execute;
pub(crate) mod hand_over;
pub(crate) mod health;
pub(crate) mod logging_in;
pub(crate) mod operators;
pub(crate) mod paging;
pub(crate) mod patroni;
pub(crate) mod pool_counts;
pub(crate) mod pool_health;
pub(crate) mod primaries;
pub(crate) mod record;
pub(crate) mod refusals;
pub(crate) mod reload;
pub(crate) mod report;
pub(crate) mod reports;
pub(crate) mod shutdown;
pub(crate) mod signals;
pub(crate) mod stream;
mod symptoms;
pub(crate) mod tables;
pub(crate) mod wait_diagnosis;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use weir_admin::{ConsoleDeed, Fault, Finding};
use weir_base::Time;
use weir_config::{Config, FileFormat};

use crate::primary::polls::Polls;
use crate::primary::seats::Seats;

/// The state of this worker for operators.
pub(crate) struct Admin {
    broadcasts: broadcasts::Broadcasts,
    reloads: reload::Reloads,
    health: health::PoolsHealth,
    /// The primaries of pools; worker 0 has them.
    primaries: Seats,
    /// What Patroni says of hosts; worker 0 has it.
    patroni: Polls,
    /// What the control plane says of Weir itself; worker 0 has it.
    faults: Arc<[Fault]>,
    /// What the control plane has found out about slow pools; worker 0 has it.
    findings: Arc<BTreeMap<String, Finding>>,
    /// What operators have changed at the console: [`DEEDS`] at most.
    deeds: VecDeque<ConsoleDeed>,
    /// When the statistics period ends.
    stats_at: Time,
    version: &'static str,
}

/// The most commands that are remembered until the control plane asks for them, which it does each second.
const DEEDS: usize = 64;

impl Admin {
    pub(crate) fn new(config: Arc<Config>, version: &'static str) -> Admin {
        Admin {
            broadcasts: broadcasts::Broadcasts::default(),
            reloads: reload::Reloads::new(config),
            health: health::PoolsHealth::default(),
            primaries: Seats::default(),
            patroni: Polls::default(),
            faults: Arc::default(),
            findings: Arc::default(),
            deeds: VecDeque::new(),
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
