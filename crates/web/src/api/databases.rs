//! Databases: the targets of pools, and the pools' limits together. A database exists while a pool leads to it.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use weir_admin::Report;
use weir_config::Config;
use weir_http::ApiError;
use weir_monitor::Workers;

use super::page::{PageParams, PageRequest};

#[derive(Serialize)]
pub(crate) struct Page {
    databases: Vec<Database>,
    /// The value of `after` for the next page; none on the last one.
    next: Option<String>,
}

/// A database on a server.
#[derive(Serialize)]
struct Database {
    /// The database's hosts and name, as in `db1:5432,db2:5432/shop`.
    id: String,
    hosts: Vec<String>,
    database: String,
    /// The pools that lead there, by name.
    pools: Vec<String>,
    /// The sum of these pools' sizes, for one user each; none if one has no limit.
    size: Option<u64>,
    clients: u32,
    servers: u32,
}

/// `GET /api/v1/databases`.
pub(crate) async fn list(State(workers): State<Workers>, asked: PageParams) -> Result<Json<Page>, ApiError> {
    let page_request = PageRequest::of(asked)?;
    let (report, config) = workers.report().await?;
    let (databases, next) = page_request.cut(databases(&report, &config).into_values(), |database| &database.id);
    Ok(Json(Page { databases, next }))
}

fn databases(report: &Report, config: &Config) -> BTreeMap<String, Database> {
    let records = report.by_database();
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
        database.size = database.size.zip(pool.limits.max_servers()).map(|(size, most)| size + most);
        for record in records.get(pool.name.as_str()).into_iter().flatten() {
            database.clients += record.clients();
            database.servers += record.servers();
        }
        database.pools.push(pool.name.clone());
    }
    databases
}
