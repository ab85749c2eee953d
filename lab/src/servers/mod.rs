//! The servers and poolers of experiments, each started on a free port of the loopback and ended when dropped.

mod mariadb;
mod pgbouncer;
mod pgpool;
mod postgres;
mod process;
mod weir;

pub(crate) use mariadb::Mariadb;
pub(crate) use pgbouncer::Pgbouncer;
pub(crate) use pgpool::{DEFAULT_CHILDREN, Pgpool};
pub(crate) use postgres::{FILLED, USER, start as start_postgres};
pub(crate) use process::Process;
pub(crate) use weir::{Mode, Pool, Upstream, Weir};
