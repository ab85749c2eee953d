//! Failures of poolers in production, and published CVEs: a test for each, named after what it protects.
//! docs/incidents.md has the table, with the results.
//!
//! `make incidents` runs all of them and prints a table; `make incidents FULL=1` uses the sizes of the incidents (5,000
//! clients, millions of statements), `make test` small ones. The code is the same.
//!
//! A test that has only ever passed proves little: where it is cheap, the same check runs against the distribution's
//! PgBouncer 1.18, or against Weir with its guard off, and must fail there. Those tests begin with `without_…` or name
//! the other pooler.

mod before_login;
mod cancels;
mod console;
mod cuts;
mod encryption;
mod hostile;
mod leftovers;
mod lookups;
mod memory;
mod packets;
mod queue;
mod replies;
mod report;
mod scram;
mod servers;
mod statements;
mod storm;
mod switch_over;
mod unauthenticated;
