//! What puts load on a server, and what watches it meanwhile.

pub(crate) mod http;
pub(crate) mod pgbench;
pub(crate) mod sample;
pub(crate) mod spread;
