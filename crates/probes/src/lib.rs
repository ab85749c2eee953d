//! Connections to database servers beside the pools': tests of logins, and questions about backends and connections.
//!
//! Owns how such a connection logs in, by the same rules as the pool's own, and its limits on time and bytes: the server
//! is not trusted. Must not know HTTP, when a server is asked, nor how the configuration is stored: the caller gives the
//! configuration in force.
//!
//! Invariants: where nodes share a pool's connections, each of these is one of this node's share for as long as it is
//! open ([`Permits`]). No secret and no text of a query leaves the crate; of queries, fingerprints.
//!
//! - `probes`: the control plane's questions; `pool_test`, `user_test`, `activity`, `capacity`: one each.
//! - `look`, `looks`: the connections, and those that are kept. `permit`: a node's share.
//! - `check`: `weir check --connect`.

mod activity;
mod capacity;
mod check;
#[cfg(test)]
mod exposure_tests;
mod look;
mod looks;
mod permit;
mod pool_test;
mod probes;
mod user_test;

pub use check::{ProbeResult, probe};
pub use permit::Permits;
pub use pool_test::{OF_CLIENTS, OwnLogin, log_in_as_pool};
pub use probes::Probes;
