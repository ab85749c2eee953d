//! SHOW CLUSTER, which PgBouncer does not have: the nodes that share pools' budgets, and who has how much.

use crate::cluster::ClusterNode;

use super::table::{Column, Row, Snapshot, int4, int8, text, text_column};

pub(super) const CLUSTER: &[Column] = &[
    text_column("node"),
    text_column("state"),
    text_column("version"),
    text_column("database"),
    int4("budget"),
    int4("share"),
    int4("floor"),
    int4("shortfall"),
    int8("config"),
    text_column("refused"),
];

/// One row for each node and pool of which it has a share or lacks one, and one for a node without any.
pub(super) fn cluster(snapshot: &Snapshot<'_>) -> Vec<Row> {
    let Some(view) = &snapshot.report.cluster else { return Vec::new() };
    let mut rows = Vec::new();
    for pool in &view.pools {
        for share in &pool.shares {
            let gone = ClusterNode { name: share.node.clone(), state: "lost", ..ClusterNode::default() };
            let node = view.nodes.iter().find(|node| node.name == share.node).unwrap_or(&gone);
            rows.push(row(node, text(&pool.name), [pool.budget, share.share, share.floor, share.shortfall]));
        }
    }
    let has_none = |name: &str| !view.pools.iter().any(|pool| pool.shares.iter().any(|share| share.node == name));
    for node in view.nodes.iter().filter(|node| has_none(&node.name)) {
        rows.push(row(node, None, [0; 4]));
    }
    rows.sort();
    rows
}

fn row(node: &ClusterNode, pool: Option<String>, figures: [u32; 4]) -> Row {
    let mut row = vec![text(&node.name), text(node.state), text(&node.version), pool];
    row.extend(figures.map(text));
    row.extend([text(node.config), text(&node.refused)]);
    row
}
