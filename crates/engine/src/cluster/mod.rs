//! What the workers of a process share: limits of the process, and pools that span several workers.
//!
//! - `messages`: what workers send each other. `placement`: which worker a client lives on.
//! - `quota`: how many clients and servers there may be. `lending`: what a pool that spans workers keeps of the others.
//! - `budget`: what this node may open of pools that several nodes share. `lapse`: whether that was granted under a lease
//!   that has ended. `ending`: what is closed here, and still counts at the server.
//! - `peering`: other processes, and the keys by which requests to cancel find them.

pub(crate) mod budget;
pub(crate) mod ending;
pub(crate) mod lapse;
pub(crate) mod lending;
pub(crate) mod messages;
pub(crate) mod peering;
pub(crate) mod placement;
pub(crate) mod quota;

use std::collections::HashMap;

use weir_base::Peer;

/// This worker's state about the others.
#[derive(Default)]
pub(crate) struct Cluster {
    /// The counts of all workers; worker 0's only.
    pub(crate) counter: quota::counter::Counter,
    /// The limits of pools that several nodes share; worker 0's only.
    pub(crate) budget: budget::NodeBudget,
    /// The node's lease, as this worker knows it.
    pub(crate) lapse: lapse::Lapse,
    pub(crate) clients: quota::clients::ClientQuota,
    pub(crate) idle_search: quota::servers::IdleSearch,
    /// Lent servers of this worker's pools, by their handle here: the pool, and the borrower.
    pub(crate) lent: HashMap<Peer, lending::LentServer>,
    /// The load of workers, for worker 0.
    pub(crate) loads: placement::Loads,
    /// Other processes behind the same address.
    pub(crate) peering: peering::Peering,
}
