//! What has gone wrong in poolers in production, or is a published CVE of one: a test each, named after what it protects.
//! docs/incidents.md has the table, with what came out.
//!
//! `make incidents` runs all of it and prints a table; `make incidents FULL=1` takes the sizes that the incidents had
//! (5,000 clients, millions of statements), where `make test` takes small ones. The code is the same.
//!
//! A test that only ever passed proves little: where it is cheap, the same check is run against the distribution's
//! PgBouncer 1.18, or against Weir with its guard off, and must fail there. Those tests begin with `without_…` or say in
//! their name what the other pooler does.

mod cancels;
mod console;
mod cuts;
mod encryption;
mod entry;
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
