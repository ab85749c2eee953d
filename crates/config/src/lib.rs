//! What the operator said: text in, values out.
//!
//! Owns the one table of settings and its readers. Opens nothing itself: files and the environment are reached through
//! the functions given to `load`, so it behaves the same in a test, in a simulator and in production.

mod defaults;
mod error;
mod load;
mod model;
mod reference;
mod reload;
mod review;
mod settings;
mod show;
mod suggest;
mod table;
mod toml;
mod units;
mod users;

pub use error::ConfigError;
pub use load::{RESERVED, load};
pub use model::{Auth, Config, Limits, Lines, Listen, Log, Method, Pool};
pub use reference::reference_markdown;
pub use reload::{Change, Differences, differences, keep_fixed};
pub use review::{Facts, Finding, Severity, most_servers, review};
pub use show::{ShowRow, show};
pub use users::{UserlistError, Users};
