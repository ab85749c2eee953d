//! The experiment `node`: one query, five in series and five in parallel, of a Node.js program.
//!
//! The article uses mysql2 with MySQL, on one connection and on a pool. The same program with node-postgres adds the
//! variants with Weir. Owns the variants and their durations.

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
use crate::steps::{Experiment, LabError, Results, Stage, Step};

/// The options of `weir lab node` beside the common ones.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Options {}

/// The experiment at this length.
pub(crate) fn new(length: Length, _options: &Options) -> Box<dyn Experiment> {
    Box::new(Node { plan: Plan::of(length) })
}

/// The duration of a query, and how often each workload runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plan {
    /// The intended duration of one query; the article's took 1.76 s.
    query_ms: u32,
    times: u32,
}

impl Plan {
    fn of(length: Length) -> Plan {
        let (query_ms, times) = length.pick((20, 1), (200, 3), (400, 7), (1700, 10));
        Plan { query_ms, times }
    }

    /// The seconds of a variant: one query, five in series, and five in parallel, which may take as long.
    fn seconds(self) -> f64 {
        0.3 + f64::from(self.query_ms * self.times) * 11.0 / 1000.0
    }
}

/// A server that is filled and queried, with all variants in alternation: one step.
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

/// The program's connection to its database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    MysqlOne,
    MysqlPool,
    PgOne,
    PgPool,
    /// Through Weir, with a new connection for each query.
    PgWeirEach,
    PgWeirPool,
}

use Variant::{MysqlOne, MysqlPool, PgOne, PgPool, PgWeirEach, PgWeirPool};

const VARIANTS: [Variant; 6] = [MysqlOne, MysqlPool, PgOne, PgPool, PgWeirEach, PgWeirPool];

impl Variant {
    /// The variant's name in the program's output.
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

    /// The variant's name in the program's arguments.
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

/// The result of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct NodeData {
    /// The machine's cores, which bound the gain.
    cores: usize,
    /// The number of rows.
    users: u64,
    /// By the variants' names; those through Weir are absent without Weir.
    variants: BTreeMap<String, Figures>,
    weir: WeirIs,
}

/// Whether Weir was found; without it the other variants are still measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum WeirIs {
    /// Found, or not needed.
    There,
    Missing(model::Missing),
    Failed(String),
}

/// The figures of a variant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Figures {
    one: Vec<Run>,
    series: Vec<Run>,
    parallel: Vec<Run>,
}

/// One run of a workload, in ms: the total, and each query in the order of their ends.
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
            // The server and its data are created within the step.
            let setup = 5.0 + f64::from(self.plan.query_ms) * 20.0 / 1000.0;
            let variants = u32::try_from(database.variants().count()).map_or(0.0, f64::from);
            let (id, title) = (database.id().to_owned(), database.name().to_owned());
            Step { id, title, seconds: setup + variants * self.plan.seconds() }
        };
        [Database::Mariadb, Database::Postgres].map(step).into()
    }

    fn open<'l>(&self, lab: &'l Lab) -> Result<Box<dyn Stage + 'l>, LabError> {
        Ok(Box::new(stage::NodeStage::new(lab, self.plan)?))
    }

    fn evaluate(&self, results: &Results) -> model::Experiment {
        evaluate::evaluate(self.plan, results)
    }
}
