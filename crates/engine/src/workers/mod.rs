//! What the workers of a process share: limits of the process, and what several nodes share.
//!
//! - `messages`: what workers send each other. `send`: sends a message to one worker.
//! - `quota`: how many clients and servers there may be. `client_counts`: the keys under which a client counts.
//!   `shared_limits`: worker 0 counts.
//! - `budget`: what this node may open of pools that several nodes share. `shares`: servers beyond that. `lease`:
//!   whether something was granted under a lease that has ended.

use std::collections::BTreeMap;

pub(crate) mod budget;
pub(crate) mod client_counts;
pub(crate) mod lease;
pub(crate) mod messages;
pub(crate) mod quota;
pub(crate) mod send;
pub(crate) mod shared_limits;
pub(crate) mod shares;

/// What worker 0 counts for all of them.
#[derive(Default)]
pub(crate) struct Workers {
    /// The clients and servers of all workers.
    counter: quota::counter::Counter,
    /// The limits of pools that several nodes share.
    pub(crate) budget: budget::NodeBudget,
}

impl Workers {
    /// Worker 0: how many servers pools give back to others of their database server, by database.
    pub(crate) fn giving_back(&self) -> BTreeMap<String, u32> {
        self.counter.shares().giving_back()
    }

    /// How many clients are counted under limits.
    pub(crate) fn clients_counted(&self) -> u32 {
        self.counter.clients()
    }
}
