//! Weir against real PostgreSQL: the harness of the suites beside it.
//!
//! `postgres`: what a client sees, by topic. `pgbouncer`: the same cases with PgBouncer. `differential`: random
//! sessions, directly and pooled. `incidents`: what went wrong elsewhere. `faults`: a network, servers and a machine
//! that fail. `pages`: README, tutorial and how-to pages, run as they are written. `regress`: PostgreSQL's own tests.
//! `drivers`: drivers and frameworks. `rolling`: pools of libraries while two Weirs are restarted in turn. `cluster`,
//! `api`, `otlp`, `panel`, `grafana`, `site`: what their names say.
//!
//! Owns the temporary PostgreSQL, the Weir process in front of it, and the helpers with which a suite talks to either.
//! A suite takes a [`Site`] and does not know whether Weir is in it, so each suite proves itself against PostgreSQL
//! alone first.
//!
//! Invariants: each started process ends with the test process, however that ends; at the end, each Weir's counters
//! must be back at their initial values, and Weir must not have lost a descriptor.

mod balancer;
mod build;
mod bulk;
mod certificates;
pub mod drivers;
mod fault;
pub mod faults;
mod http;
mod ini;
mod issuer;
mod names;
mod pgbench;
mod pgbouncer;
mod postgres;
mod receiver;
mod rng;
mod rolling;
mod setup;
mod site;
mod skipped;
pub mod slapd;
mod tables;
mod tap;
mod userlist;
mod watch;
mod weir;
mod wire;

pub use balancer::Balancer;
pub use build::weir_binary;
pub use bulk::Bulk;
pub use certificates::{Certificates, encrypting_postgres};
pub use fault::{End, FaultProxy, Plan, Way, may_lose_packets};
pub use http::Api;
pub use ini::Ini;
pub use issuer::TokenIssuer;
pub use names::NameServer;
pub use pgbench::{Bench, BenchRun};
pub use pgbouncer::{PgBouncer, account, pgbouncer_binary};
pub use postgres::{Database, Postgres, User, users};
pub use receiver::{Received, Receiver};
pub use rng::Rng;
pub use rolling::Rolling;
pub use setup::{ADMIN, Console, Mode, Setup, WATCHER};
pub use site::Site;
pub use skipped::skipped;
pub use slapd::Slapd;
pub use tables::TABLES;
pub use tap::Tap;
pub use watch::{eventually, within};
pub use weir::{Launch, Memory, PoolRow, Weir};
pub use wire::{Batch, ask, body_text, line_of, lines_of, read_until_ready, until_quiet};
