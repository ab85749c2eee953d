//! What workers say to each other, and what they have in common: limits that cross pools, counts of clients, pools that span
//! several workers.
//!
//! - `messages`: what is said. `placement`: which worker a client lives on.
//! - `clients`: how many clients there may be. `permits`, `limits`: how many servers.
//! - `lending`: pools that span several workers. `state`: what a pool keeps of other workers.

pub(crate) mod clients;
pub(crate) mod lending;
pub(crate) mod limits;
pub(crate) mod messages;
pub(crate) mod permits;
pub(crate) mod placement;
pub(crate) mod state;
pub(crate) mod ticket;

use std::collections::{BTreeMap, HashMap};

use weir_base::Peer;

/// What this worker knows of the others, and keeps for them.
#[derive(Default)]
pub(crate) struct Cluster {
    /// Limits that cross pools; worker 0 keeps them.
    pub(crate) permits: permits::Ledger,
    /// Servers of this worker's pools that are lent, by the handle they had here: the pool, and to whom.
    pub(crate) lent: HashMap<Peer, state::Away>,
    /// Where room is wanted for another pool: whether it has been told of something idle.
    pub(crate) pressed: BTreeMap<permits::Key, state::Offer>,
    /// Clients of the whole process; counted by worker 0, which accepts them.
    pub(crate) all_clients: u32,
    /// Who is in, where that is limited; worker 0's only.
    pub(crate) ledger: clients::Ledger,
    /// Clients that wait for worker 0's answer, and the places they asked for.
    pub(crate) entering: HashMap<u64, (Peer, Box<ticket::Ticket>)>,
    /// How busy workers are; worker 0 wants to know.
    pub(crate) loads: placement::Loads,
}
