//! The control plane by HTTP: the API, health, metrics for Prometheus, and the panel's files.
//!
//! Owns the paths, and the wiring of what is behind them: `weir_http` serves, `weir_monitor` watches, both on one thread.
//! Knows the workers only through [`Control`](weir_admin::Control): it sends requests and shows the answers. No query
//! passes through this crate, and its failures affect no client of a pool.
//!
//! - `api`: the paths, each with the role that it needs. `health`: `/healthz`, `/readyz`. `metrics`: `/metrics`.
//!   `panel`, `docs`, `lab`: files for browsers.
//! - `audit`: who changed what. `versions`: the configurations that there were. `pool_tests`: tests of logins, a few at a
//!   time. `serve`: the wiring.

mod api;
mod audit;
mod compress;
mod docs;
mod health;
mod lab;
mod metrics;
mod panel;
mod pool_tests;
mod serve;
mod versions;

pub use serve::{WebOptions, WebServer};
pub use versions::Versions;
pub use weir_http::{Timeouts, WebError, WebTls, hash_password, hash_token, new_token};
