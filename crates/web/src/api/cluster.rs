//! The nodes that share pools' budgets, as this node sees them.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use weir_admin::{ClusterNode, ClusterPool, ClusterShare, ClusterView};
use weir_http::ApiError;
use weir_monitor::{Workers, seconds};

/// Without a cluster all is empty.
#[derive(Serialize, Default)]
pub(crate) struct Cluster {
    cluster: String,
    node: String,
    member_state: &'static str,
    config_revision: i64,
    config_refused: String,
    nodes: Vec<Node>,
    pools: Vec<Pool>,
}

#[derive(Serialize)]
struct Node {
    name: String,
    version: String,
    state: &'static str,
    config_revision: i64,
    config_refused: String,
    heartbeat_unchanged_seconds: f64,
}

#[derive(Serialize)]
struct Pool {
    name: String,
    budget: u32,
    shares: Vec<Share>,
}

#[derive(Serialize)]
struct Share {
    node: String,
    share: u32,
    floor: u32,
    shortfall: u32,
    oldest_wait_seconds: f64,
}

/// `GET /api/v1/cluster`.
pub(crate) async fn cluster(State(workers): State<Workers>) -> Result<Json<Cluster>, ApiError> {
    let (report, _) = workers.report().await?;
    Ok(Json(report.cluster.as_deref().map(body).unwrap_or_default()))
}

fn body(view: &ClusterView) -> Cluster {
    let node = |node: &ClusterNode| Node {
        name: node.name.clone(),
        version: node.version.clone(),
        state: node.state,
        config_revision: node.config,
        config_refused: node.refused.clone(),
        heartbeat_unchanged_seconds: seconds(node.unchanged),
    };
    let share = |of: &ClusterShare| Share {
        node: of.node.clone(),
        share: of.share,
        floor: of.floor,
        shortfall: of.shortfall,
        oldest_wait_seconds: seconds(of.oldest_wait),
    };
    let pool = |pool: &ClusterPool| Pool {
        name: pool.name.clone(),
        budget: pool.budget,
        shares: pool.shares.iter().map(share).collect(),
    };
    Cluster {
        cluster: view.cluster.clone(),
        node: view.node.clone(),
        member_state: view.member_state,
        config_revision: view.config,
        config_refused: view.refused.clone(),
        nodes: view.nodes.iter().map(node).collect(),
        pools: view.pools.iter().map(pool).collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weir_base::Span;

    use super::*;

    #[test]
    fn a_share_has_what_its_node_lacks_and_for_how_long_in_seconds() {
        let share = ClusterShare {
            node: "a".into(),
            share: 8,
            floor: 1,
            shortfall: 2,
            oldest_wait: Span::from_micros(1_500_000),
        };
        let pools = vec![ClusterPool { name: "app".into(), budget: 12, shares: vec![share] }];
        let shown = serde_json::to_value(body(&ClusterView { pools, ..ClusterView::default() })).expect("JSON");
        let expected = json!([{"node": "a", "share": 8, "floor": 1, "shortfall": 2, "oldest_wait_seconds": 1.5}]);
        assert_eq!(shown["pools"][0]["shares"], expected);
    }
}
