//! The experiment `node`: one query, five in series and five in parallel, of a Node.js program.
//!
//! The article's own is with mysql2 on MySQL, on one connection and on a pool. The same program with node-postgres adds
//! what Weir changes. Owns the variants and how long each takes.

mod evaluate;
mod programs;
mod published;
mod stage;

use std::collections::BTreeMap;

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

    /// Of a variant: one query, five in series, and five in parallel, which may take as long.
    fn seconds(self) -> f64 {
        0.3 + f64::from(self.query_ms * self.times) * 11.0 / 1000.0
    }
}

/// A server that is filled and queried, all variants by turns: one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Database {
    Mariadb,
    Postgres,
}

impl Database {
    /// The step's id.
    fn id(self) -> &'static str {
        match self {
            Database::Mariadb => "mysql",
            Database::Postgres => "postgres",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Database::Mariadb => "MariaDB",
            Database::Postgres => "PostgreSQL",
        }
    }

    fn variants(self) -> impl Iterator<Item = Variant> {
        VARIANTS.into_iter().filter(move |variant| variant.database() == self)
    }
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
    /// Its name in what the program prints.
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
}

/// What a step brought.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Brought {
    /// The machine's cores, which bound the gain.
    cores: usize,
    /// How much data there was.
    users: u64,
    /// By the variants' names; those through a Weir that is not there are absent.
    variants: BTreeMap<String, Figures>,
    weir: WeirIs,
}

/// Whether there was a Weir; without one the rest is measured all the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum WeirIs {
    /// There, or not asked for.
    There,
    Missing(model::Missing),
    Failed(String),
}

/// What a variant brought.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Figures {
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
        let step = |database: Database| {
            // The server and its data are made within the step.
            let setup = 5.0 + f64::from(self.plan.query_ms) * 20.0 / 1000.0;
            let variants = u32::try_from(database.variants().count()).map_or(0.0, f64::from);
            let (id, title) = (database.id().to_owned(), database.name().to_owned());
            Step { id, title, seconds: setup + variants * self.plan.seconds() }
        };
        [Database::Mariadb, Database::Postgres].map(step).into()
    }

    fn open<'l>(&self, lab: &'l Lab) -> Result<Box<dyn Stage + 'l>, Trouble> {
        Ok(Box::new(stage::NodeStage::new(lab, self.plan)?))
    }

    fn evaluate(&self, results: &Results) -> model::Experiment {
        evaluate::evaluate(self.plan, results)
    }
}
