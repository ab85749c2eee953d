//! What the workers of a process have in common: limits that hold for all of them, and pools that span several.
//!
//! - `messages`: what workers send each other. `placement`: which worker a client lives on.
//! - `quota`: how many clients and servers there may be. `lending`: what a pool that spans workers keeps of the others.
//! - `peering`: other processes, and the keys by which requests to cancel find them.

pub(crate) mod lending;
pub(crate) mod messages;
pub(crate) mod peering;
pub(crate) mod placement;
pub(crate) mod quota;

use std::collections::HashMap;

use weir_base::Peer;

/// What this worker knows of the others, and does for them.
#[derive(Default)]
pub(crate) struct Cluster {
    /// The counts of all workers; worker 0's only.
    pub(crate) counter: quota::counter::Counter,
    pub(crate) clients: quota::clients::ClientQuota,
    pub(crate) idle_search: quota::servers::IdleSearch,
    /// Servers of this worker's pools that are lent, by the handle they had here: the pool, and to whom.
    pub(crate) lent: HashMap<Peer, lending::LentServer>,
    /// How busy workers are; worker 0 wants to know.
    pub(crate) loads: placement::Loads,
    /// Other processes behind the same address.
    pub(crate) peering: peering::Peering,
}
