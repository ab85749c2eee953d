//! Tokens for logins at database servers (`password_source`): of AWS, Azure, Google Cloud and Vault, without their
//! programs.
//!
//! Owns what the services have answered, for as long as that is valid ([`Tokens`]). Must not know what a login is, nor
//! when one is due. Everything here blocks: callers use a helper thread. Each call has a deadline, and each answer a
//! limit.
//!
//! Invariants: no secret is in an error, neither one of ours nor one of an answer. A request to a metadata service goes
//! through no proxy.
//!
//! - `cache`: what is kept, until when, and what happens when there is no newer one. `clocks`: the two clocks.
//! - `ask`: a request to a service, and the words of its failures. `outside`: the environment, files and the sender.
//! - `aws`: credentials and signatures. `azure`, `google`, `vault`: one service each.
//! - `tokens`: which service makes the token of a source.

mod ask;
mod aws;
mod azure;
mod cache;
mod clocks;
mod google;
mod outside;
mod tokens;
mod vault;

pub use cache::{Cache, Found, Made};
pub use clocks::ClockReading;
pub use outside::Outside;
pub use tokens::{Token, Tokens};
