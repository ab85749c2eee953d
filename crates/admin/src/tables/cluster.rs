//! SHOW CLUSTER, which PgBouncer does not have: the nodes that share pools' budgets, and who has how much.

use super::table::{Column, Row, Snapshot, int4, text, text_column};

pub(super) const CLUSTER: &[Column] = &[
    text_column("node"),
    text_column("state"),
    text_column("version"),
    text_column("database"),
    int4("budget"),
    int4("share"),
    int4("floor"),
    int4("lacks"),
];

/// One row for each node and pool of which it has a share or lacks one, and one for a node without any.
pub(super) fn cluster(snapshot: &Snapshot<'_>) -> Vec<Row> {
    let Some(view) = &snapshot.report.cluster else { return Vec::new() };
    let mut rows = Vec::new();
    for pool in &view.pools {
        for share in &pool.shares {
            let version = view.nodes.iter().find(|node| node.name == share.node).map_or("", |node| &node.version);
            let state = view.state_of(&share.node);
            let mut row = vec![text(&share.node), text(state), text(version), text(&pool.name)];
            row.extend([pool.budget, share.share, share.floor, share.lacks].map(text));
            rows.push(row);
        }
    }
    let has_none = |name: &str| !view.pools.iter().any(|pool| pool.shares.iter().any(|share| share.node == name));
    for node in view.nodes.iter().filter(|node| has_none(&node.name)) {
        let mut row = vec![text(&node.name), text(node.state), text(&node.version), None];
        row.extend([0_u32; 4].map(text));
        rows.push(row);
    }
    rows.sort();
    rows
}
