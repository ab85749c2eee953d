//! The nodes that share pools' budgets, as this node sees them.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use weir_admin::{ClusterNode, ClusterPool, ClusterShare, ClusterView};

use crate::ask::Workers;
use crate::error::ApiError;
use crate::figures::seconds;

/// Without a cluster all is empty.
#[derive(Serialize, Default)]
pub(crate) struct Cluster {
    cluster: String,
    node: String,
    standing: &'static str,
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
    lacks: u32,
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
    let share = |of: &ClusterShare| Share { node: of.node.clone(), share: of.share, floor: of.floor, lacks: of.lacks };
    let pool = |pool: &ClusterPool| Pool {
        name: pool.name.clone(),
        budget: pool.budget,
        shares: pool.shares.iter().map(share).collect(),
    };
    Cluster {
        cluster: view.cluster.clone(),
        node: view.node.clone(),
        standing: view.standing,
        config_revision: view.config,
        config_refused: view.refused.clone(),
        nodes: view.nodes.iter().map(node).collect(),
        pools: view.pools.iter().map(pool).collect(),
    }
}
