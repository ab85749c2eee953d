//! The control plane by HTTP: the API, health, metrics for Prometheus, and the panel's files.
//!
//! Owns one thread, its listeners, and everything that HTTP means here. Knows the workers only through
//! [`Control`](weir_admin::Control): it asks, and shows what it is told. Nothing here is on the way of a query, and
//! what goes wrong here costs no client of a pool anything.
//!
//! What a page of another origin sends is refused (`guard`), and who may do what is asked before each path (`access`).
//! Others than this machine are served only with encryption and logins. Connections are limited (`admission`), and so
//! are bodies and the time that a request may take (`serve`).

mod access;
mod admission;
mod advice;
mod api;
mod ask;
mod audit;
mod clock;
mod compress;
mod error;
mod figures;
mod guard;
mod health;
mod lab;
mod lock;
mod metrics;
mod panel;
mod pool_tests;
mod serve;
mod start_error;
mod timeouts;
mod tls;
mod watch;

pub use access::{hash_password, hash_token, new_token};
pub use serve::{Options, Web};
pub use start_error::WebError;
pub use timeouts::Timeouts;
pub use tls::Tls;
