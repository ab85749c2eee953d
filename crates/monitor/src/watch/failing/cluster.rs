//! What is wrong with the cluster, as this node sees it: with itself, or with the others.

use weir_admin::{ClusterView, Report};
use weir_base::plural;

use crate::faults::FaultView;

/// It has to last for this long, in seconds: a node may miss etcd for a moment.
const AFTER: f64 = 2.0;

/// Since when something is wrong, in seconds since 1970.
#[derive(Default)]
pub(super) struct Cluster(Option<f64>);

impl Cluster {
    pub(super) fn look(&mut self, report: &Report, now: f64) -> Option<FaultView> {
        let Some((summary, advice)) = report.cluster.as_deref().and_then(of_cluster) else {
            self.0 = None;
            return None;
        };
        let since = *self.0.get_or_insert(now);
        let fault = FaultView { kind: "cluster", problem: true, summary, advice, since, ..FaultView::default() };
        (now - since >= AFTER).then_some(fault)
    }
}

/// What is wrong with a cluster, the worst first, and what to do about it.
fn of_cluster(view: &ClusterView) -> Option<(String, String)> {
    let ClusterView { cluster, member_state, refused, .. } = view;
    if let Some(obstacle) = view.obstacle() {
        return Some((
            format!("This node serves no shared pool: {obstacle}."),
            "Give each process a name of its own.".to_owned(),
        ));
    }
    if *member_state == "floor" {
        return Some((
            format!(
                "This node has no lease in the cluster {cluster}: etcd does not answer it. It opens no more than its floor."
            ),
            "Check etcd and the network to it: `etcdctl endpoint health`. The log has each attempt.".to_owned(),
        ));
    }
    let lost: Vec<&str> =
        view.nodes.iter().filter(|node| node.state == "lost").map(|node| node.name.as_str()).collect();
    if !lost.is_empty() {
        return Some((
            format!(
                "{} of the cluster {cluster} {} lost: {}.",
                plural(lost.len() as u64, "node", "nodes"),
                is_or_are(lost.len()),
                lost.join(", ")
            ),
            "The others take over its share of the budgets. Start it again; clients that connect to it by name can't."
                .to_owned(),
        ));
    }
    (!refused.is_empty()).then(|| {
        (
            format!("This node does not run the newest configuration of the cluster {cluster}: {refused}."),
            "Correct the shared configuration, or what this node lacks for it.".to_owned(),
        )
    })
}

fn is_or_are(count: usize) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_or_etcd_that_is_lost_is_a_fault_once_it_lasts() {
        let mut cluster = Cluster::default();
        let seen = |member_state, other| {
            let nodes = vec![weir_admin::ClusterNode { name: "b".to_owned(), state: other, ..Default::default() }];
            let view = ClusterView { cluster: "shop".to_owned(), member_state, nodes, ..Default::default() };
            Report { cluster: Some(std::sync::Arc::new(view)), ..Report::default() }
        };
        assert!(cluster.look(&seen("member", "member"), 100.0).is_none());
        assert!(cluster.look(&seen("floor", "member"), 101.0).is_none(), "for a moment");
        let found = cluster.look(&seen("floor", "member"), 104.0).expect("a fault");
        assert_eq!((found.kind, found.since), ("cluster", 101.0));
        assert!(found.summary.contains("etcd does not answer"), "{found:?}");
        assert!(cluster.look(&seen("member", "late"), 105.0).is_none());
        cluster.look(&seen("member", "lost"), 106.0);
        let found = cluster.look(&seen("member", "lost"), 109.0).expect("a fault");
        assert!(found.summary.contains("1 node of the cluster shop is lost: b."), "{found:?}");
    }
}
