//! This node's part of a cluster. Nothing without one.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use weir_admin::{ClusterShare, ClusterView};

use super::labels::escaped;

/// A gauge of a pool's share, and of its budget.
type Gauge = (&'static str, &'static str, fn(&ClusterShare, u32) -> u32);

const GAUGES: [Gauge; 4] = [
    ("weir_cluster_budget", "The most server connections of all nodes of the cluster", |_, budget| budget),
    ("weir_cluster_share", "The most server connections of this node", |share, _| share.share),
    ("weir_cluster_floor", "The part of the share that this node keeps without a lease", |share, _| share.floor),
    ("weir_cluster_shortfall", "Server connections that clients of this node lack", |share, _| share.shortfall),
];

/// At most `most` pools.
pub(super) fn encode(view: &ClusterView, most: usize, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let help = "Whether this node's lease is valid";
    let member = u32::from(view.member_state == "member");
    let mut family = to.encode_descriptor("weir_cluster_member", help, None, MetricType::Gauge)?;
    let labels = [("cluster", escaped(&view.cluster)), ("node", escaped(&view.node))];
    family.encode_family(&labels)?.encode_gauge(&member)?;
    let help = "The revision of the cluster's configuration that this node runs; 0: its own file only";
    let mut family = to.encode_descriptor("weir_cluster_config_revision", help, None, MetricType::Gauge)?;
    family.encode_gauge(&view.config)?;
    let help = "Whether this node has refused a newer revision of the cluster's configuration";
    let mut family = to.encode_descriptor("weir_cluster_config_refused", help, None, MetricType::Gauge)?;
    family.encode_gauge(&u32::from(!view.refused.is_empty()))?;
    for (name, help, of) in GAUGES {
        let mut family = to.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for pool in view.pools.iter().take(most) {
            let own = pool.shares.iter().find(|share| share.node == view.node).cloned().unwrap_or_default();
            let labels = [("database", escaped(&pool.name))];
            family.encode_family(&labels)?.encode_gauge(&of(&own, pool.budget))?;
        }
    }
    Ok(())
}
