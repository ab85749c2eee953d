//! The control plane by HTTP: the API, health, metrics for Prometheus, and the panel's files.
//!
//! Owns one thread, its listeners, and everything about HTTP. Knows the workers only through
//! [`Control`](weir_admin::Control): it sends requests and shows the answers. No query passes through this crate, and
//! its failures affect no client of a pool.
//!
//! `guard` refuses requests from pages of another origin, and `access` checks the role that each path needs. Other
//! machines are served only with TLS and logins. Connections are limited (`admission`), and so are bodies and the time
//! of a request (`serve`).
//!
//! - `api`: the paths, each with the role that it needs. `health`: `/healthz`, `/readyz`. `metrics`: `/metrics`.
//!   `panel`, `docs`, `lab`: files for browsers.
//! - `access`, `oidc`: who sends a request. `audit`: who changed what. `versions`: the configurations that there were.
//! - `watch`: one task asks the workers once a second; what it keeps, and for whom. `alerts`, `advice`, `faults`,
//!   `incident`: what follows from the figures. `telemetry`: exports to a collector.

mod access;
mod activity_probe;
mod admission;
mod advice;
mod alerts;
mod api;
mod ask;
mod audit;
mod capacities;
mod clock;
mod compress;
mod docs;
mod error;
mod export_counts;
mod fault_watch;
mod faults;
mod figures;
mod files;
mod guard;
mod health;
mod incident;
mod journal;
mod lab;
mod lock;
mod log_line;
mod metrics;
mod oidc;
mod outgoing;
mod panel;
mod pinned;
mod pool_health;
mod pool_tests;
mod reference;
mod serve;
mod start_error;
mod telemetry;
mod timeouts;
mod tls;
mod versions;
mod watch;
mod whole;
mod words;

pub use access::{hash_password, hash_token, new_token};
pub use fault_watch::FaultWatch;
pub use outgoing::{HttpAnswer, HttpRequest, SendHttp};
pub use serve::{WebOptions, WebServer};
pub use start_error::WebError;
pub use timeouts::Timeouts;
pub use tls::WebTls;
pub use versions::Versions;
pub use words::span as span_in_words;
