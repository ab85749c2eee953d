//! Databases: where pools lead to, and what they may take there together. They are made and go with their pools.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use serde::{Deserialize, Serialize};
use weir_admin::{PoolRecord, Report};
use weir_config::Config;

use super::page_limit;
use crate::ask::Workers;
use crate::error::ApiError;

#[derive(Serialize)]
pub(crate) struct Page {
    databases: Vec<Database>,
    /// What to give as `after` for the next page; nothing on the last one.
    next: Option<String>,
}

/// A database, wherever it is served.
#[derive(Serialize)]
struct Database {
    /// Its hosts and its name, as in `db1:5432,db2:5432/shop`.
    id: String,
    hosts: Vec<String>,
    database: String,
    /// The pools that lead there, by name.
    pools: Vec<String>,
    /// The most servers of these pools together, for one user each; nothing if one has no limit.
    size: Option<u64>,
    clients: u32,
    servers: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    #[serde(default)]
    after: String,
    limit: Option<usize>,
}

/// `GET /api/v1/databases`.
pub(crate) async fn list(
    State(workers): State<Workers>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Result<Json<Page>, ApiError> {
    let Query(Wanted { after, limit }) = wanted?;
    let limit = page_limit(limit)?;
    let (report, config) = workers.report().await?;
    let mut found = databases(&report, &config).into_values().filter(|database| database.id > after);
    let databases: Vec<Database> = found.by_ref().take(limit).collect();
    let next = found.next().and(databases.last()).map(|last| last.id.clone());
    Ok(Json(Page { databases, next }))
}

fn databases(report: &Report, config: &Config) -> BTreeMap<String, Database> {
    let mut records: BTreeMap<&str, Vec<&PoolRecord>> = BTreeMap::new();
    report.pools.iter().for_each(|record| records.entry(&record.database).or_default().push(record));
    let mut databases = BTreeMap::new();
    for pool in config.pools.values() {
        let hosts: Vec<String> = pool.targets.iter().map(ToString::to_string).collect();
        let id = format!("{}/{}", hosts.join(","), pool.database);
        let database = databases.entry(id.clone()).or_insert_with(|| Database {
            id,
            hosts,
            database: pool.database.clone(),
            pools: Vec::new(),
            size: Some(0),
            clients: 0,
            servers: 0,
        });
        let most = pool.limits.size.saturating_add(pool.limits.reserve_size);
        database.size = database.size.filter(|_| pool.limits.size > 0).map(|size| size + u64::from(most));
        for record in records.get(pool.name.as_str()).into_iter().flatten() {
            database.clients += record.clients();
            database.servers += record.servers();
        }
        database.pools.push(pool.name.clone());
    }
    databases
}
