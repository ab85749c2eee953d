//! The simulator: the engine that runs in production, on a network, a clock and servers that are made up.
//!
//! One seed gives one run, bit for bit. [`run`] draws a scenario from a seed, lets everything happen, and says which
//! rule was broken first, if any ([`Checker`] lists the rules). [`Baseline::Direct`] leaves the pooler out: clients
//! talk to the modelled servers themselves, which must always go well, so that a failure of the other kind is the
//! pooler's.

mod check;
mod client;
mod context;
mod direct;
mod ends;
mod io;
mod lending;
mod limits;
mod message;
mod minimise;
mod names;
mod network;
mod part;
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
mod trace;
mod transcript;
mod weather;
mod world;

pub use check::{Checker, Violation};
pub use context::Counts;
pub use minimise::minimise;
pub use part::Part;
pub use run::{Baseline, run, run_part};
pub use trace::Detail;
pub use world::Outcome;
