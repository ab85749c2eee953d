//! The experiment `node`: one query, five in series and five in parallel, of a Node.js program.
//!
//! The article's own is with mysql2 on MySQL, on one connection and on a pool. The same program with node-postgres adds
//! what Weir changes. Owns the variants and how long each takes.

mod programs;
mod published;
mod stage;
mod tell;

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::lab::Lab;
use crate::length::Length;
use crate::model;
use crate::steps::{Experiment, Results, Stage, Step, Trouble};

/// What `weir lab node` understands besides what all do.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Options {}

/// The experiment at this length.
pub(crate) fn new(length: Length, _options: &Options) -> Box<dyn Experiment> {
    Box::new(Node { plan: Plan::of(length) })
}

/// How slow a query is made, and how often each workload runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plan {
    /// What one query should take; the article's took 1.76 s.
    query_ms: u32,
    times: u32,
}

impl Plan {
    fn of(length: Length) -> Plan {
        let (query_ms, times) = length.pick((20, 1), (200, 3), (400, 7), (1700, 10));
        Plan { query_ms, times }
    }

    /// One query, five in series, and five in parallel, which may take as long.
    fn seconds(self) -> f64 {
        0.3 + f64::from(self.query_ms * self.times) * 11.0 / 1000.0
    }
}

/// A server that is filled and queried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Database {
    Mariadb,
    Postgres,
}

/// How the program reaches its database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    MysqlOne,
    MysqlPool,
    PgOne,
    PgPool,
    /// Through Weir, with a connection for every query.
    PgWeirEach,
    PgWeirPool,
}

use Variant::{MysqlOne, MysqlPool, PgOne, PgPool, PgWeirEach, PgWeirPool};

const VARIANTS: [Variant; 6] = [MysqlOne, MysqlPool, PgOne, PgPool, PgWeirEach, PgWeirPool];

impl Variant {
    /// The step's id.
    fn id(self) -> &'static str {
        match self {
            MysqlOne => "mysql-one",
            MysqlPool => "mysql-pool",
            PgOne => "pg-one",
            PgPool => "pg-pool",
            PgWeirEach => "pg-weir-each",
            PgWeirPool => "pg-weir-pool",
        }
    }

    /// For progress and raw outputs.
    fn title(self) -> &'static str {
        match self {
            MysqlOne => "MariaDB, one connection",
            MysqlPool => "MariaDB, pool",
            PgOne => "PostgreSQL, one connection",
            PgPool => "PostgreSQL, pool",
            PgWeirEach => "PostgreSQL through Weir, a connection a query",
            PgWeirPool => "PostgreSQL through Weir, pool",
        }
    }

    fn database(self) -> Database {
        match self {
            MysqlOne | MysqlPool => Database::Mariadb,
            PgOne | PgPool | PgWeirEach | PgWeirPool => Database::Postgres,
        }
    }

    /// The word by which the program knows it.
    fn word(self) -> &'static str {
        match self {
            MysqlOne | PgOne => "one",
            MysqlPool | PgPool | PgWeirPool => "pool",
            PgWeirEach => "each",
        }
    }

    fn through_weir(self) -> bool {
        matches!(self, PgWeirEach | PgWeirPool)
    }

    /// Whether it is the first of its database, which decides how much data there is.
    fn sizes(self) -> bool {
        matches!(self, MysqlOne | PgOne)
    }
}

/// What a variant brought.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Figures {
    /// The machine's cores, which bound the gain.
    cores: usize,
    users: u64,
    one: Vec<Run>,
    series: Vec<Run>,
    parallel: Vec<Run>,
}

/// One run of a workload, in ms: all of it, and each of its queries in the order in which they ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Run {
    ms: f64,
    queries: Vec<f64>,
}

struct Node {
    plan: Plan,
}

impl Experiment for Node {
    fn id(&self) -> &'static str {
        "node"
    }

    fn steps(&self) -> Vec<Step> {
        let step = |variant: &Variant| {
            // The server and its data are made for the first of them.
            let setup = if variant.sizes() { 5.0 + f64::from(self.plan.query_ms) * 20.0 / 1000.0 } else { 0.0 };
            let seconds = self.plan.seconds() + setup;
            Step { id: variant.id().to_owned(), title: variant.title().to_owned(), seconds }
        };
        VARIANTS.iter().map(step).collect()
    }

    fn open<'l>(&self, lab: &'l Lab) -> Result<Box<dyn Stage + 'l>, Trouble> {
        Ok(Box::new(stage::NodeStage::new(lab, self.plan)?))
    }

    fn tell(&self, results: &Results) -> model::Experiment {
        tell::tell(self.plan, results)
    }
}
