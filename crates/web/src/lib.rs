//! The control plane by HTTP: the API, health, metrics for Prometheus, and the panel's files.
//!
//! Owns one thread, its listeners, and everything that HTTP means here. Knows the workers only through
//! [`Control`](weir_admin::Control): it asks, and shows what it is told. Nothing here is on the way of a query, and what
//! goes wrong here costs no client of a pool anything.
//!
//! There are no logins yet, so it listens on the loopback alone, and refuses what a page of another origin sends
//! (`guard`). Connections, bodies, and the time that a request may take are limited (`serve`).

mod api;
mod ask;
mod error;
mod figures;
mod guard;
mod health;
mod metrics;
mod panel;
mod serve;
mod watch;

pub use serve::{Options, Web, WebError};
