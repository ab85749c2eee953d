//! Weir against real PostgreSQL: the harness that the suites in `postgres/` stand on.
//!
//! Owns the throw-away PostgreSQL, the Weir process before it, and the words in which a suite talks to either. A suite
//! takes a [`Site`] and does not know whether Weir is in it, so each proves itself against PostgreSQL alone first.
//!
//! Invariants: what is started here ends with the test process, however that ends; each Weir is asked at its end
//! whether its counters are back where they began, and whether it lost a descriptor.

mod build;
mod pgbench;
mod postgres;
mod rng;
mod setup;
mod site;
mod watch;
mod weir;
mod wire;

pub use build::weir_binary;
pub use pgbench::{Bench, BenchRun};
pub use postgres::{Database, Postgres, User, users};
pub use rng::Rng;
pub use setup::{ADMIN, Mode, Setup, WATCHER};
pub use site::Site;
pub use watch::{eventually, within};
pub use weir::{Memory, PoolRow, Weir};
pub use wire::{Batch, ask, body_text, readies, tale, tell, until_quiet};
