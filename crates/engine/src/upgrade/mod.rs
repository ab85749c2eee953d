//! A process takes over from another one: what moves, and what is kept of it.
//!
//! - `export`: the old process. `import`: the new process.
//! - `moved`: clients, servers and pools as bytes. `held`: how many servers pools have in other processes.
//!
//! The old process exports the connections that are between two transactions, and serves the others until they are,
//! too: for each a value and a socket. What the new process can't import returns as the same value.

pub(crate) mod export;
pub(crate) mod held;
pub(crate) mod import;
pub(crate) mod moved;

use std::collections::HashMap;

use weir_base::{ConnId, Time};

use crate::cancel::moved_keys::MovedKeys;
use crate::common::{Common, UnderWay};
use crate::handles::PoolIx;
use crate::upgrade::held::Held;

/// Whether another process is about to take over: then nothing is changed here that it would not know of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum HandOver {
    #[default]
    None,
    /// Worker 0 was asked, and answers when what changes something has ended.
    Asked,
    /// The other process was offered the listening sockets, and reads the file now, or serves already.
    Offered,
}

/// What a worker keeps of a take-over.
#[derive(Default)]
pub(crate) struct UpgradeState {
    /// Worker 0, which operators reach: see [`HandOver`].
    pub(crate) hand_over: HandOver,
    /// Since when this process gives.
    since: Time,
    /// Servers and clients that leave as soon as their sockets are free: where each goes, and what it is.
    leaving: HashMap<ConnId, (u64, Vec<u8>)>,
    /// Pools that nobody used when this process began to give, and that are still to be given.
    unused: Vec<PoolIx>,
    /// The keys of clients that came from another process.
    pub(crate) keys: MovedKeys,
    pub(crate) held: Held,
}

impl UpgradeState {
    /// From now on, what is free goes to another process. Returns whether that is new.
    pub(crate) fn begin(&mut self, common: &mut Common) -> bool {
        let is_new = common.set_under_way(UnderWay::EXPORT, true);
        if is_new {
            self.since = common.now();
        }
        is_new
    }

    /// Whether this process has been giving for longer than `timeout`.
    pub(crate) fn is_over(&self, common: &Common) -> bool {
        let timeout = common.config().upgrade_timeout;
        common.is_under_way(UnderWay::EXPORT) && common.now() >= self.since.deadline(timeout)
    }

    /// A connection leaves when its socket is free.
    pub(crate) fn leave(&mut self, conn: ConnId, route: u64, value: Vec<u8>) {
        self.leaving.insert(conn, (route, value));
    }

    /// The connection's socket is free, or the connection is gone.
    pub(crate) fn left(&mut self, conn: ConnId) -> Option<(u64, Vec<u8>)> {
        self.leaving.remove(&conn)
    }
}
