//! What a node knows about its cluster, for the console, the API and the metrics. Values only.

use weir_base::{Span, Target};

/// A node's view of its cluster.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClusterView {
    /// The cluster's name.
    pub cluster: String,
    /// The name of this node.
    pub node: String,
    /// What this node does: `joining`, `name in use`, `member` or `floor`.
    pub member_state: &'static str,
    /// The revision of the cluster's configuration that this node runs; 0: its own file only.
    pub config: i64,
    /// The newer revision that this node has refused, and why; empty: none.
    pub refused: String,
    /// The nodes, by name, as last read.
    pub nodes: Vec<ClusterNode>,
    /// The shared pools, by name.
    pub pools: Vec<ClusterPool>,
}

impl ClusterView {
    /// What a node does whose name another process has; it may open nothing.
    pub const NAME_IN_USE: &str = "name in use";

    /// Why this process may open no server connection of a pool that nodes share, and clients can't be served; `None`:
    /// it may.
    pub fn obstacle(&self) -> Option<String> {
        let ClusterView { cluster, node, member_state, .. } = self;
        let has_name = *member_state == ClusterView::NAME_IN_USE;
        has_name.then(|| format!("another process has this node's name \"{node}\" in the cluster \"{cluster}\""))
    }
}

/// A node.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClusterNode {
    /// The node's name.
    pub name: String,
    /// The program's version.
    pub version: String,
    /// `member`, `late` (the node's heartbeat), `lost` or `left`; of this process, `name in use` if another
    /// process has its name.
    pub state: &'static str,
    /// The revision of the cluster's configuration that the node runs; 0: its own file only.
    pub config: i64,
    /// The newer revision that the node has refused, and why; empty: none.
    pub refused: String,
    /// For how long the node's heartbeat is known to be unchanged.
    pub unchanged: Span,
    /// The node's number in the cancel keys of its clients, and where requests to cancel find them; `None`: other nodes
    /// pass it none.
    pub peer: Option<(u16, Target)>,
}

/// A pool that nodes share.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClusterPool {
    /// The pool's name.
    pub name: String,
    /// The most server connections of all nodes.
    pub budget: u32,
    /// What nodes have of the budget, by node.
    pub shares: Vec<ClusterShare>,
}

/// A node's part of a pool.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClusterShare {
    /// The node.
    pub node: String,
    /// The most server connections of the node.
    pub share: u32,
    /// The part of `share` that the node keeps without a lease.
    pub floor: u32,
    /// How many server connections the node's clients lack.
    pub shortfall: u32,
    /// How long the oldest of these clients has waited, within two seconds; zero: none lacks any.
    pub oldest_wait: Span,
}
