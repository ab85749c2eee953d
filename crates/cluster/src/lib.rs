//! Nodes that share the budgets of pools through etcd: one node's decisions, without I/O.
//!
//! A [`Node`] is given the time, what its pools use, and etcd's replies; it returns the next [`StoreRequest`] to etcd
//! and the [`Grants`] of its pools. `docs/cluster.md` explains the protocol. How it is used: call [`Node::set_usage`],
//! then [`Node::next_request`] until it returns `None`, with [`Node::replied`] or [`Node::failed`] after each request;
//! pass [`Node::grants`] to the pools after each call.
//!
//! Always true, whatever etcd, the network, the clocks (within [`Timing::drift`]) and the other nodes do: what all
//! nodes may open and what lost nodes may still have open is, for each pool, at most its budget.

mod adoption;
mod ending;
mod fair;
mod members;
mod node;
mod pool;
mod record;
mod request;
mod store;
mod timing;

pub use adoption::{Adoption, Outcome};
pub use ending::{Ending, Ends, Open};
pub use fair::Usage;
pub use members::Lost;
pub use node::{Grant, Grants, MemberState, Node};
pub use pool::{Budget, BudgetRule};
pub use record::{BackendId, Entry, Member, PeerAddress, PoolShares, Store, Wait};
pub use request::{Revision, StoreKey, StoreReply, StoreRequest, StoreValue, Stored, Txn};
pub use timing::Timing;

#[cfg(test)]
mod sim;
