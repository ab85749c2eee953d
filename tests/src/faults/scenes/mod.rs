//! The faults themselves, by what they strike.

pub(super) mod failover;
pub(super) mod network;
pub(super) mod process;
pub(super) mod server;
