//! What takes more than one part, in order: each function here calls the parts one after the other, and acts on what they
//! return. Rules are with the parts.
//!
//! - `query`: one query's path, from a client to its server and back, and the server's way to the next client.
//! - `prelude`: queries of our own on a server that its pool has. `backpressure`: full sockets.
//! - `leave`: a client goes. `lost`: a server is lost, or closed. `due`: what is due by time.
//! - `pool`: a pool is asked what it wants. `configuration`: another configuration.

mod backpressure;
mod configuration;
mod due;
mod leave;
mod lost;
mod pool;
mod prelude;
mod query;
