//! Load on a server, and the sampling of its resources.

pub(crate) mod http;
pub(crate) mod pgbench;
pub(crate) mod sample;
pub(crate) mod spread;
