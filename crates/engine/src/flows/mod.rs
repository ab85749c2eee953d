//! Flows over several parts: each leads a client, a command or a query from one part to the next.
//!
//! A part returns what must be done next; flows do it. Owns no state and no rule.
//!
//! - `arrival`: from accept to the worker where a client logs in. `login`: its login there. `auth_query`: a query for
//!   a user's secret, in the pool that runs it.
//! - `console`: operators and the control plane. `commands`: commands for all workers. `halt`: PAUSE, SUSPEND,
//!   shutdowns.
//! - `query`: one query's path, from a client to its server and back, and the server's way to the next client. `prelude`:
//!   queries of our own on a server that its pool has. `backpressure`: full sockets. `cancel`: cancel
//!   requests. `repeat`: requests that are read again. `replication`: clients with a server of their own.
//!   `peering`: cancel requests that mean another process.
//! - `opening`: a pool opens a server. `server_login`: a server logs in. `dns`: names of servers change.
//!   `silence`: hosts that give no answer.
//! - `leave`: a client goes. `lost`: a server is lost, or closed. `ending`: how a server's connection is closed.
//!   `due`: what is due by time.
//! - `quotas`: clients and servers under limits that hold for the process. `lending`: pools that span several workers.
//! - `pool`: a pool is asked what it wants. `configuration`: which pools there are.
//! - `hand_over`: another process takes over. `inherit`: this one takes over from another.
//! - `invariants`: what must hold between inputs, for tests.
//! - `placement`: the worker that a client goes to. `log`: lines about a client or a server.
//! - `waits`: the diagnosis of clients that wait. `counts`: refusals, and session state that was lost.

mod arrival;
mod auth_query;
mod backpressure;
mod cancel;
mod commands;
mod configuration;
mod console;
mod counts;
mod dns;
mod due;
mod ending;
mod halt;
mod hand_over;
mod health;
mod inherit;
mod invariants;
mod leave;
pub(crate) mod lending;
mod log;
mod login;
mod lost;
pub(crate) mod opening;
mod peering;
mod placement;
mod pool;
mod prelude;
mod query;
mod quotas;
mod repeat;
mod replication;
mod server_login;
mod silence;
mod waits;
mod welcome;
