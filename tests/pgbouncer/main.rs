//! One suite, run twice: the distribution's PgBouncer 1.18 and `weir pgbouncer` are given the same files, the same
//! clients and the same commands, and what is seen of either must be the same. A file a theme; the tests' names are the
//! promises.
//!
//! `cargo test -p weir-tests --features postgres --test pgbouncer` runs all of it. It needs PostgreSQL's programs,
//! `psql` and `openssl` for the cases with TLS, and `pgbouncer` (`apt-get install pgbouncer`). Without PgBouncer the
//! cases run against Weir alone, and only the known differences are checked.
//!
//! - `WEIR_SUITE=pgbouncer` or `WEIR_SUITE=weir` runs one of the two; the first proves the suite itself.
//! - `PGBOUNCER_BIN` and `WEIR_BIN` name other programs than those that are found.
//! - `WEIR_SUITE_FACTS=1` with `-- --nocapture` prints all that was seen.
//!
//! Where 1.18 is older than the behaviour that Weir follows (PgBouncer 1.25's), or where Weir does better on purpose,
//! the case names the fact as a [`harness::Difference`], with what either says and why.

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
mod unix;
