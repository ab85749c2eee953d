//! The servers of the experiment, one at a time: MariaDB for its steps, then PostgreSQL with Weir before it.
//!
//! Each is started for the first step that needs it, so that a resumed run starts no more than it must, and a missing one
//! costs its own steps only. Owns that all variants of a database are measured on the same data, also after an interruption.

use std::thread;

use weir_pglocal::Server;

use super::programs::{DATABASE, Programs, Size};
use super::{Database, Figures, Plan, VARIANTS, Variant, tell};
use crate::lab::Lab;
use crate::model::Ran;
use crate::stand::{Mariadb, Mode, Pool, Weir, start_postgres};
use crate::steps::{Measured, Stage, Step, Trouble};

/// Where the search for the right size begins: a few hundred ms on a machine of these days.
const USERS: u64 = 1000;

/// MySQL runs a query on one core; PostgreSQL shall too, or a single query would take what five are to share. The hash tables of the
/// join shall stay in memory.
pub(super) const POSTGRES_SETTINGS: &[(&str, &str)] = &[("max_parallel_workers_per_gather", "0"), ("work_mem", "64MB")];

/// Servers that Weir may open: more than the five that are asked for at once.
pub(super) const POOL_SIZE: u32 = 20;

const NO_MARIADB: &str = "the half of `node` on MySQL, which is the article's own";
const NO_WEIR: &str = "the rows through Weir";

pub(super) struct NodeStage<'l> {
    lab: &'l Lab,
    plan: Plan,
    programs: Programs<'l>,
    running: Running,
}

/// The one database that is there; its trouble is kept, so that it is not run into for every step.
enum Running {
    Nothing,
    Mariadb(Result<Mariadb, Trouble>),
    Postgres(Box<Result<Postgres, Trouble>>),
}

struct Postgres {
    // Ended before the server that it stands before.
    weir: Result<Weir, Trouble>,
    server: Server,
}

impl<'l> NodeStage<'l> {
    pub(super) fn new(lab: &'l Lab, plan: Plan) -> Result<NodeStage<'l>, Trouble> {
        Ok(NodeStage { lab, plan, programs: Programs::install(lab)?, running: Running::Nothing })
    }

    /// The port for a variant, its server running and filled; and the command that filled it, if one did now.
    fn reach(&mut self, variant: Variant) -> Result<(u16, Option<Ran>), Trouble> {
        match (variant.database(), &self.running) {
            (Database::Mariadb, Running::Mariadb(_)) | (Database::Postgres, Running::Postgres(_)) => {
                Ok((self.port(variant)?, None))
            }
            (database, _) => {
                // The other one ends first: it would take memory from this one.
                self.running = Running::Nothing;
                self.running = match database {
                    Database::Mariadb => Running::Mariadb(Mariadb::start(self.lab, DATABASE, NO_MARIADB)),
                    Database::Postgres => Running::Postgres(Box::new(postgres(self.lab))),
                };
                let filled = self.server_port().and_then(|port| self.fill(variant, port));
                match filled {
                    Ok(ran) => Ok((self.port(variant)?, Some(ran))),
                    Err(trouble) => {
                        self.give_up(database, &trouble);
                        Err(trouble)
                    }
                }
            }
        }
    }

    fn give_up(&mut self, database: Database, trouble: &Trouble) {
        self.running = match database {
            Database::Mariadb => Running::Mariadb(Err(trouble.clone())),
            Database::Postgres => Running::Postgres(Box::new(Err(trouble.clone()))),
        };
    }

    /// The port of the server itself.
    fn server_port(&self) -> Result<u16, Trouble> {
        match &self.running {
            Running::Nothing => Err(Trouble::Failed("no server is running".into())),
            Running::Mariadb(server) => server.as_ref().map(Mariadb::port).map_err(Clone::clone),
            Running::Postgres(postgres) => postgres.as_ref().as_ref().map(|p| p.server.port()).map_err(Clone::clone),
        }
    }

    /// The port that the variant's program connects to.
    fn port(&self, variant: Variant) -> Result<u16, Trouble> {
        match &self.running {
            Running::Postgres(postgres) if variant.through_weir() => {
                let postgres = postgres.as_ref().as_ref().map_err(Clone::clone)?;
                postgres.weir.as_ref().map(Weir::port).map_err(Clone::clone)
            }
            _ => self.server_port(),
        }
    }

    /// The first variant of a database finds the size; the others, after an interruption, take what it found.
    fn fill(&self, variant: Variant, port: u16) -> Result<Ran, Trouble> {
        let database = variant.database();
        let name = format!("node-size-{}", first_of(database).id());
        let kept: Option<Size> = self.lab.kept(&name).and_then(|text| serde_json::from_str(&text).ok());
        let (size, ran) = match kept {
            Some(size) if !variant.sizes() => self.programs.refill(database, port, size.users)?,
            _ => self.programs.size(database, port, self.plan, USERS)?,
        };
        let text = serde_json::to_string(&size).expect("plain data becomes JSON");
        self.lab.keep(&name, "the data's size", &ran.line, &text)?;
        Ok(ran)
    }
}

impl Stage for NodeStage<'_> {
    fn take(&mut self, step: &Step) -> Result<Measured, Trouble> {
        let variant = VARIANTS.into_iter().find(|variant| variant.id() == step.id);
        let variant = variant.ok_or_else(|| Trouble::Failed(format!("no such step: {}", step.id)))?;
        let (port, filled) = self.reach(variant)?;
        self.lab.doing("measuring");
        let (printed, ran) = self.programs.measure(variant, port, self.plan)?;
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let (users, one) = (printed.users, printed.one);
        let figures = Figures { cores, users, one, series: printed.series, parallel: printed.parallel };
        Ok(Measured::of(tell::headline(&figures), &figures).ran(filled).ran([ran]))
    }
}

fn first_of(database: Database) -> Variant {
    let first = VARIANTS.into_iter().find(|variant| variant.database() == database && variant.sizes());
    first.expect("each database has a first variant")
}

fn postgres(lab: &Lab) -> Result<Postgres, Trouble> {
    let server = start_postgres(lab, 100, DATABASE, POSTGRES_SETTINGS)?;
    let pool = Pool { name: DATABASE.into(), database: DATABASE.into(), mode: Mode::Transaction, size: POOL_SIZE };
    let weir = Weir::start(lab, ([127, 0, 0, 1], server.port()).into(), &[pool], NO_WEIR);
    Ok(Postgres { weir, server })
}
