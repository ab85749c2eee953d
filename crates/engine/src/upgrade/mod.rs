//! A process takes over from another one: what moves, and what is kept of it.
//!
//! - `give`: this process gives. `receive`: this process takes over.
//! - `moved`: clients, servers and pools as bytes. `held`: how many servers pools have in other processes.
//!
//! The old process gives the peers that are between two transactions, and serves the others until they are, too. It
//! gives a value and a socket; what can't be taken by the new process returns as the same value.

pub(crate) mod give;
pub(crate) mod held;
pub(crate) mod moved;
pub(crate) mod receive;

use std::collections::HashMap;

use weir_base::{Peer, Span, Time};

use crate::cancel::moved_keys::MovedKeys;
use crate::upgrade::held::Held;

/// What a worker keeps of a take-over.
#[derive(Default)]
pub(crate) struct UpgradeState {
    giving: bool,
    /// Since when this process gives.
    since: Time,
    /// Servers and clients that leave as soon as their sockets are free: where each goes, and what it is.
    leaving: HashMap<Peer, (u64, Vec<u8>)>,
    /// The keys of clients that came from another process.
    pub(crate) keys: MovedKeys,
    pub(crate) held: Held,
}

impl UpgradeState {
    /// Whether what is free goes to another process.
    #[inline]
    pub(crate) fn is_giving(&self) -> bool {
        self.giving
    }

    /// From now on, what is free goes to another process. Returns whether that is new.
    pub(crate) fn begin(&mut self, now: Time) -> bool {
        let is_new = !std::mem::replace(&mut self.giving, true);
        if is_new {
            self.since = now;
        }
        is_new
    }

    /// Whether this process has been giving for longer than `timeout`.
    pub(crate) fn is_over(&self, now: Time, timeout: Span) -> bool {
        self.giving && now >= self.since.deadline(timeout)
    }

    /// The other process is gone.
    pub(crate) fn end(&mut self) {
        self.giving = false;
    }

    /// A peer leaves when its socket is free.
    pub(crate) fn leave(&mut self, peer: Peer, route: u64, value: Vec<u8>) {
        self.leaving.insert(peer, (route, value));
    }

    /// The peer's socket is free, or the peer is gone.
    pub(crate) fn left(&mut self, peer: Peer) -> Option<(u64, Vec<u8>)> {
        self.leaving.remove(&peer)
    }
}
