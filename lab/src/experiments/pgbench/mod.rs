//! The experiment `pgbench`: a pool in front of a server with 100 connections.
//!
//! Source: DigitalOcean's tutorial (`docs/articles/managed-pools-pgbench.md`). Every load runs twice: *far*, with a
//! latency for each statement, as the article's clients must have had, and *near*, without latency.

mod burst;
mod evaluate;
mod far;
mod plan;
mod published;
mod stage;

use clap::Args;

use crate::lab::Lab;
use crate::length::Length;
use crate::load::pgbench::Target;
use crate::machine;
use crate::model;
use crate::steps::{Experiment, LabError, Results, Stage, Step};
use plan::Plan;

/// A statement's latency in the article: 282 ms for seven of them.
const WAY_MS: u32 = 40;

/// The options of `weir lab pgbench` beside the common ones.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// pgbench's scale, at least 150, the most clients [default: 150]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    scale: Option<u32>,
    /// Seconds a run [default: 600; with --standard 20, with --quick 4]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    duration: Option<u32>,
    /// A statement's latency in the far runs; 0: none [default: 40; 0 with --host]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(0..=10_000))]
    way: Option<u32>,
    /// A PostgreSQL of your own, its password in PGPASSWORD [default: the lab's own]
    #[arg(long)]
    host: Option<String>,
    /// The port of that PostgreSQL
    #[arg(long, default_value_t = 5432, requires = "host")]
    port: u16,
    /// The user on it [default: postgres]
    #[arg(long, requires = "host")]
    user: Option<String>,
    /// The database; with --host it must exist
    #[arg(long, default_value = "benchmark")]
    database: String,
    /// Fill pgbench's tables again, though they contain data
    #[arg(long, requires = "host")]
    init: bool,
}

impl Default for Options {
    fn default() -> Options {
        let (scale, duration, way, host, user) = (None, None, None, None, None);
        Options { scale, duration, way, host, port: 5432, user, database: "benchmark".to_owned(), init: false }
    }
}

impl Options {
    /// The user's own server.
    fn target(&self, host: &str) -> Target {
        let user = self.user.clone().unwrap_or_else(|| "postgres".to_owned());
        let password = std::env::var("PGPASSWORD").unwrap_or_default();
        Target { host: host.to_owned(), port: self.port, user, password, database: self.database.clone() }
    }

    fn plan(&self, length: Length) -> Plan {
        let (scale, seconds, sweep_seconds, repetitions) = plan::defaults(length);
        let seconds = self.duration.unwrap_or(seconds);
        let way_ms = self.way.unwrap_or(if self.host.is_some() { 0 } else { length.pick(5, WAY_MS, WAY_MS, WAY_MS) });
        let (scale, sweep_seconds) = (self.scale.unwrap_or(scale), sweep_seconds.min(seconds));
        let cores = u32::try_from(machine::cores()).unwrap_or(1);
        Plan {
            scale,
            seconds,
            sweep_seconds,
            repetitions,
            way_ms,
            cores,
            own: self.host.is_some(),
            sizes: plan::sizes(length, cores),
        }
    }
}

/// The experiment at this length.
pub(crate) fn new(length: Length, options: &Options) -> Box<dyn Experiment> {
    Box::new(Managed { plan: options.plan(length), options: options.clone() })
}

struct Managed {
    plan: Plan,
    options: Options,
}

impl Experiment for Managed {
    fn id(&self) -> &'static str {
        "pgbench"
    }

    fn options(&self) -> String {
        let Options { host, port, user, database, .. } = &self.options;
        let Plan { scale, seconds, way_ms, .. } = self.plan;
        let own = host.as_ref().map(|host| format!(" {}@{host}:{port}/{database}", user.as_deref().unwrap_or("")));
        format!("scale={scale} seconds={seconds} way={way_ms}{}", own.unwrap_or_default())
    }

    fn steps(&self) -> Vec<Step> {
        self.plan.tasks().into_iter().map(|task| self.plan.step(task)).collect()
    }

    fn opening_seconds(&self) -> f64 {
        5.0 + 0.09 * f64::from(self.plan.scale)
    }

    fn open<'l>(&self, lab: &'l Lab) -> Result<Box<dyn Stage + 'l>, LabError> {
        Ok(Box::new(stage::Bench::open(lab, &self.plan, &self.options)?))
    }

    fn evaluate(&self, results: &Results) -> model::Experiment {
        evaluate::evaluate(&self.plan, self.options.host.as_deref(), results)
    }
}
