//! The control plane by HTTP: the API, health, metrics for Prometheus, and the panel's files.
//!
//! Owns one thread, its listeners, and everything about HTTP. What is watched of the workers, and what follows from it, is
//! `weir_monitor`'s, whose tasks run on this thread; knows the workers only through [`Control`](weir_admin::Control): it
//! sends requests and shows the answers. No query passes through this crate, and its failures affect no client of a pool.
//!
//! `guard` refuses requests from pages of another origin, and `access` checks the role that each path needs. Other
//! machines are served only with TLS and logins. Connections are limited (`admission`), and so are bodies and the time
//! of a request (`serve`).
//!
//! - `api`: the paths, each with the role that it needs. `health`: `/healthz`, `/readyz`. `metrics`: `/metrics`.
//!   `panel`, `docs`, `lab`: files for browsers.
//! - `access`, `oidc`: who sends a request. `audit`: who changed what. `versions`: the configurations that there were.
//! - `error`: each error with its status and words. `pool_tests`: tests of logins, a few at a time.

mod access;
mod admission;
mod api;
mod audit;
mod compress;
mod docs;
mod error;
mod guard;
mod health;
mod lab;
mod metrics;
mod oidc;
mod panel;
mod pool_tests;
mod serve;
mod start_error;
mod timeouts;
mod tls;
mod versions;

pub use access::{hash_password, hash_token, new_token};
pub use serve::{WebOptions, WebServer};
pub use start_error::WebError;
pub use timeouts::Timeouts;
pub use tls::WebTls;
pub use versions::Versions;
