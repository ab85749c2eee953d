//! This process as a node of a cluster: one thread between the workers, the cluster's decisions and etcd. It exists only
//! with `[cluster]`.
//!
//! Owns the client of etcd, the order of a round, and the node's place in the cluster from its start to its end, also while
//! another process takes over. Which share a node has is `weir_cluster`'s decision. Must not know how a configuration is
//! read, nor what a probe of a server is for.
//!
//! Invariants: a limit has an end by the workers' clock, so nothing here has to happen in time. Floors are on disk before
//! they are used. All connections of the node, those of probes and of [`Nodes`] itself included, are within its shares.
//!
//! - `thread`, `round`: when, and in which order. `usage`, `floors`, `view`: what a round reads and shows. `etcd`: the
//!   client.
//! - `adopt`, `shared`: the configuration that nodes share. `peers`: requests to cancel of other nodes.
//! - `ending`: connections of a lost node. `upgrade`: two processes of one node.

mod adopt;
mod ending;
mod error;
mod etcd;
mod floors;
mod peers;
mod round;
mod shared;
mod thread;
mod upgrade;
mod usage;
mod view;

pub use error::NodeError;
pub use etcd::Etcd;
pub use shared::shared;
pub use thread::Nodes;
