//! The simulator: the production engine on a simulated network, a virtual clock and modelled servers.
//!
//! One seed gives one run, bit for bit. [`run`] draws a scenario from a seed, runs it, and reports the first broken
//! rule, if any ([`Checker`] lists the rules). [`Baseline::Direct`] runs clients against the modelled servers without
//! the pooler. Such a run must always pass, so a failure with the pooler is the pooler's.

mod budget;
mod cancel_requests;
mod check;
mod client;
mod conditions;
mod context;
mod direct;
mod ends;
mod guarantees;
mod io;
mod lending;
mod limits;
mod message;
mod minimise;
mod names;
mod network;
mod pooled;
mod pooler;
mod postgres;
mod queue;
mod read;
mod refused;
mod reply;
mod rng;
mod run;
mod salts;
mod scenario;
mod subset;
mod trace;
mod transcript;
mod world;

pub use check::{Checker, Violation};
pub use context::Counts;
pub use minimise::minimise;
pub use run::{Baseline, run, run_subset};
pub use subset::Subset;
pub use trace::Detail;
pub use world::Outcome;
