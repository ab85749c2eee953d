//! The faults, by the part that they affect.

pub(super) mod failover;
pub(super) mod network;
pub(super) mod process;
pub(super) mod server;
