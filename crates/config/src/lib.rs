//! What the operator said: text in, values out.
//!
//! Owns the one table of settings and its readers. Opens nothing itself: files and the environment are reached through
//! the functions given to `load`, so it behaves the same in a test, in a simulator and in production.

mod error;
mod model;
mod users;

pub use error::ConfigError;
pub use model::{Auth, Config, Limits, Lines, Listen, Log, Method, Pool};
pub use users::{UserlistError, Users};
