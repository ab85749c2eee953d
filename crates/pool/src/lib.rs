//! Which client gets which server connection, and when.
//!
//! A [`Pool`] serves one pair of database and user. It owns the queue of waiting clients, the stack of idle servers,
//! and every decision about opening and closing servers: sizes, waits, ages, retries. It knows neither sockets nor a
//! protocol nor a clock: clients and servers are named by [`weir_base::ConnId`], and every call receives the time.
//!
//! How it is used: call an operation ([`Pool::acquire`], [`Pool::release`], …), then [`Pool::poll`] until it answers
//! `None`, and call `poll` again when [`Pool::next_deadline`] has come.
//!
//! Invariants, asserted always:
//!
//! - A server is in exactly one state: logging in, linked to one client, idle with a proof that it is clean, or
//!   closing.
//! - While the pool runs, no client waits beside an idle server, and no client overtakes another: clients are served by
//!   the age of their wait.
//! - At most one server logs in at a time, and servers never become more than `size + reserve_size`.
//! - A client that received [`Acquire::Queued`] is granted or refused exactly once, unless it leaves.
//!
//! The life of a server here:
//!
//! ```text
//! Effect::Open ─ opening() ─> login ─ connected() ─┬─> linked <─ acquire() ─┐
//!      │                        │                  │     │                  │
//!      ├ open_declined()        │                  │     │                  │
//!      └ unreachable()          │                  └──── │ ───────────────> idle
//!                connect_failed()│                 release()─────────────────┘
//!                               v                        v                  v
//!                             gone <── Release::Close, Effect::Close, lost() ──
//! ```

mod backoff;
mod clients;
mod dedicated;
mod dedicated_servers;
pub mod lending;
mod poll;
mod pool;
mod queue;
mod state;
mod table;
mod types;

#[cfg(test)]
mod exhaustive;
#[cfg(test)]
mod tests;

pub use pool::Pool;
pub use types::{
    Acquire, Ages, CloseReason, ConnectFailure, Effect, PoolSnapshot, RefuseReason, Release, ServerState, Settings,
};
