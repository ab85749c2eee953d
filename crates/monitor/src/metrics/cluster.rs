//! This node's part of a cluster. Nothing without one.

use weir_admin::{ClusterShare, ClusterView};

use super::family::{Family, Sink};

/// A gauge of a pool's share, and of its budget.
type Gauge = (&'static str, &'static str, fn(&ClusterShare, u32) -> u32);

const GAUGES: [Gauge; 4] = [
    ("weir_cluster_budget", "The most server connections of all nodes of the cluster", |_, budget| budget),
    ("weir_cluster_share", "The most server connections of this node", |share, _| share.share),
    ("weir_cluster_floor", "The part of the share that this node keeps without a lease", |share, _| share.floor),
    ("weir_cluster_shortfall", "Server connections that clients of this node lack", |share, _| share.shortfall),
];

/// At most `most` pools.
pub(super) fn write(view: &ClusterView, most: usize, to: &mut dyn Sink) {
    to.family(Family::gauge("weir_cluster_member", "Whether this node's lease is valid"));
    let member = view.member_state == "member";
    to.point(&[("cluster", &view.cluster), ("node", &view.node)], member.into());
    let help = "The revision of the cluster's configuration that this node runs; 0: its own file only";
    to.single(Family::gauge("weir_cluster_config_revision", help), view.config.max(0) as u64);
    let help = "Whether this node has refused a newer revision of the cluster's configuration";
    to.single(Family::gauge("weir_cluster_config_refused", help), !view.refused.is_empty());
    for (name, help, of) in GAUGES {
        to.family(Family::gauge(name, help));
        for pool in view.pools.iter().take(most) {
            let own = pool.shares.iter().find(|share| share.node == view.node).cloned().unwrap_or_default();
            to.point(&[("database", &pool.name)], of(&own, pool.budget).into());
        }
    }
}
