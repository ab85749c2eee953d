//! The servers of the experiment, one at a time: MariaDB for its step, then PostgreSQL with Weir.
//!
//! Each is started within its step and ends with it, so a missing one fails its own step only, and the other's memory
//! and processes do not disturb.

use std::thread;

use weir_pglocal::Server;

use super::programs::{DATABASE, Programs};
use super::{Database, NodeData, Plan, Variant, WeirIs, evaluate};
use crate::lab::Lab;
use crate::model::Ran;
use crate::servers::{Mariadb, Mode, Pool, Weir, start_postgres};
use crate::steps::{LabError, Measured, Stage, Step};

/// The first guess of the size: some tens of ms on a current machine.
const USERS: u64 = 1000;

/// MySQL runs a query on one core; PostgreSQL must too, or a single query would use the cores that five are to share.
/// The hash tables of the join must fit into memory.
pub(super) const POSTGRES_SETTINGS: &[(&str, &str)] = &[("max_parallel_workers_per_gather", "0"), ("work_mem", "64MB")];

/// Weir's pool size: more than the five parallel queries.
pub(super) const POOL_SIZE: u32 = 20;

const NO_MARIADB: &str = "the half of `node` on MySQL, which is the article's own";
const NO_WEIR: &str = "the rows of `node` through Weir";

pub(super) struct NodeStage<'l> {
    lab: &'l Lab,
    plan: Plan,
    programs: Programs<'l>,
}

impl<'l> NodeStage<'l> {
    pub(super) fn new(lab: &'l Lab, plan: Plan) -> Result<NodeStage<'l>, LabError> {
        Ok(NodeStage { lab, plan, programs: Programs::install(lab)? })
    }

    fn on_mariadb(&self) -> Result<Measured, LabError> {
        let server = Mariadb::start(self.lab, DATABASE, NO_MARIADB)?;
        let (size, filled) = self.programs.fill(Database::Mariadb, server.port(), self.plan, USERS)?;
        let variants: Vec<_> = Database::Mariadb.variants().map(|variant| (variant, server.port())).collect();
        self.measure(Database::Mariadb, size.users, &variants, WeirIs::There, filled)
    }

    fn on_postgres(&self) -> Result<Measured, LabError> {
        let server = start_postgres(self.lab, 100, DATABASE, POSTGRES_SETTINGS)?;
        let (size, filled) = self.programs.fill(Database::Postgres, server.port(), self.plan, USERS)?;
        let (weir, is) = match start_weir(self.lab, &server) {
            Ok(weir) => (Some(weir), WeirIs::There),
            Err(LabError::Missing(missing)) => (None, WeirIs::Missing(missing)),
            Err(LabError::Failed(text)) => (None, WeirIs::Failed(text)),
        };
        let port = |variant: Variant| {
            let port = if variant.through_weir() { weir.as_ref()?.port() } else { server.port() };
            Some((variant, port))
        };
        let variants: Vec<_> = Database::Postgres.variants().filter_map(port).collect();
        self.measure(Database::Postgres, size.users, &variants, is, filled)
    }

    fn measure(
        &self,
        database: Database,
        users: u64,
        variants: &[(Variant, u16)],
        weir: WeirIs,
        filled: Ran,
    ) -> Result<Measured, LabError> {
        let (printed, ran) = self.programs.measure(database, variants, self.plan)?;
        if let Some((name, other)) = printed.iter().find(|(_, printed)| printed.users != users) {
            return Err(LabError::Failed(format!("{name} sees {} users where {users} were made", other.users)));
        }
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let variants = printed.into_iter().map(|(name, printed)| (name, printed.figures)).collect();
        let brought = NodeData { cores, users, variants, weir };
        Ok(Measured::of(evaluate::headline(database, &brought), &brought).ran([filled, ran]))
    }
}

impl Stage for NodeStage<'_> {
    fn take(&mut self, step: &Step) -> Result<Measured, LabError> {
        if step.id == Database::Mariadb.id() { self.on_mariadb() } else { self.on_postgres() }
    }
}

fn start_weir(lab: &Lab, server: &Server) -> Result<Weir, LabError> {
    let pool = Pool { name: DATABASE.into(), database: DATABASE.into(), mode: Mode::Transaction, size: POOL_SIZE };
    Weir::start(lab, ([127, 0, 0, 1], server.port()).into(), &[pool], NO_WEIR)
}
