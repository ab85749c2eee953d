//! One suite, run twice: the distribution's PgBouncer 1.18 and `weir pgbouncer` get the same files, the same clients
//! and the same commands, and their behaviour must be the same. One file per topic; the tests' names are the
//! guarantees.
//!
//! `cargo test -p weir-tests --features postgres --test pgbouncer` runs all of it. It needs PostgreSQL's programs,
//! `psql` and `openssl` for the cases with TLS, and `pgbouncer` (`apt-get install pgbouncer`). Without PgBouncer the
//! cases run against Weir alone, and only the known differences are checked.
//!
//! - `WEIR_SUITE=pgbouncer` or `WEIR_SUITE=weir` runs one of the two; the first proves the suite itself.
//! - `PGBOUNCER_BIN` and `WEIR_BIN` name other programs than the installed ones.
//! - `WEIR_SUITE_FACTS=1` with `-- --nocapture` prints all facts.
//!
//! Where 1.18 is older than the behaviour that Weir follows (PgBouncer 1.25's), or where Weir is better on purpose, the
//! case declares a [`harness::Difference`], with both values and the reason.

mod harness;

mod auth_query;
mod command_line;
mod commands;
mod databases;
mod hba;
mod ini;
mod limits;
mod logins;
mod logs;
mod modes;
mod reload;
mod samples;
mod signals;
mod startup;
mod tables;
mod timeouts;
mod tls;
mod tools;
mod unix;
