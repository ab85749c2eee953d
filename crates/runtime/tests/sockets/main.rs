//! Every integration test of this crate, as one program: a file a theme. One program links once.

#[path = "../common/certs.rs"]
mod certs;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/envelopes.rs"]
mod envelopes;

mod bulk;
mod bytes;
mod closing;
mod deferred;
mod edges;
mod moving;
mod tls;
