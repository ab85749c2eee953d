//! Connections, of clients and to servers, in pages.
//!
//! Workers return a page at a time, so a long list delays no client. Connections that a filter leaves out are read
//! too; a request that has read [`LOOKS`] worker pages ends early, and returns where to go on.

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use weir_admin::{Command, Connections, Cursor, SocketRecord};
use weir_base::WorkerId;
use weir_http::ApiError;
use weir_monitor::{Pinned, Workers, seconds, seconds_of};

use super::page::page_limit;

/// Worker pages that are read for one page of the answer.
const LOOKS: usize = 64;

#[derive(Serialize)]
pub(crate) struct Page {
    connections: Vec<Connection>,
    /// The value of `after` for the next page; none on the last one.
    next: Option<String>,
}

#[derive(Serialize)]
pub(crate) struct Connection {
    id: u64,
    user: String,
    pool: String,
    state: &'static str,
    address: String,
    port: u16,
    local_address: String,
    local_port: u16,
    /// Seconds since 1970.
    connected_at: f64,
    /// Seconds since 1970: when its latest request began.
    requested_at: f64,
    wait_seconds: f64,
    close_needed: bool,
    /// This connection's number, which the peer has as its `linked_to`.
    link: u64,
    linked_to: Option<u64>,
    process_id: Option<u32>,
    tls: Option<String>,
    application_name: String,
    prepared_statements: u32,
    /// Of a linked server: what holds it, and since when; seconds since 1970.
    held_for: Option<&'static str>,
    /// Why the client keeps the server between transactions.
    pinned: Option<Pinned>,
    transaction_at: Option<f64>,
    query_at: Option<f64>,
}

impl From<SocketRecord> for Connection {
    fn from(record: SocketRecord) -> Connection {
        Connection {
            id: record.id,
            user: record.user,
            pool: record.database,
            state: record.state,
            address: record.addr,
            port: record.port,
            local_address: record.local_addr,
            local_port: record.local_port,
            connected_at: seconds_of(record.connect_time),
            requested_at: seconds_of(record.request_time),
            wait_seconds: seconds(record.wait),
            close_needed: record.close_needed,
            link: record.ptr,
            linked_to: record.link,
            process_id: (record.remote_pid != 0).then_some(record.remote_pid),
            tls: (!record.tls.is_empty()).then_some(record.tls),
            application_name: record.application_name,
            prepared_statements: record.prepared_statements,
            held_for: record.held_for,
            pinned: record.pinned.as_deref().map(Pinned::of),
            transaction_at: record.transaction_time.map(seconds_of),
            query_at: record.query_time.map(seconds_of),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConnectionsQuery {
    pool: Option<String>,
    user: Option<String>,
    state: Option<String>,
    after: Option<String>,
    limit: Option<usize>,
}

impl ConnectionsQuery {
    fn takes(&self, record: &SocketRecord) -> bool {
        let fits = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
        fits(&self.pool, &record.database) && fits(&self.user, &record.user) && fits(&self.state, record.state)
    }

    /// Where to begin, as an earlier page returned it: worker, slot, and how many of that worker's page were used.
    fn place(&self) -> Result<(Cursor, usize), ApiError> {
        let Some(after) = &self.after else { return Ok((Cursor::START, 0)) };
        let bad = || ApiError::Bad("after must be what an earlier page gave as next".to_owned());
        let mut parts = after.split('-');
        let mut part = || parts.next().ok_or_else(bad);
        let worker = part()?.parse().map_err(|_| bad())?;
        let slot = part()?.parse().map_err(|_| bad())?;
        let skip = part()?.parse().map_err(|_| bad())?;
        if parts.next().is_some() {
            return Err(bad());
        }
        Ok((Cursor { worker: WorkerId(worker), slot }, skip))
    }
}

fn place_text(Cursor { worker, slot }: Cursor, skip: usize) -> String {
    format!("{}-{slot}-{skip}", worker.0)
}

type QueryParams = Result<Query<ConnectionsQuery>, QueryRejection>;

/// `GET /api/v1/clients`.
pub(crate) async fn clients(State(workers): State<Workers>, wanted: QueryParams) -> Result<Json<Page>, ApiError> {
    page(&workers, Connections::Clients, wanted).await.map(Json)
}

/// `GET /api/v1/servers`.
pub(crate) async fn servers(State(workers): State<Workers>, wanted: QueryParams) -> Result<Json<Page>, ApiError> {
    page(&workers, Connections::Servers, wanted).await.map(Json)
}

async fn page(workers: &Workers, of: Connections, wanted: QueryParams) -> Result<Page, ApiError> {
    let Query(wanted) = wanted?;
    let limit = page_limit(wanted.limit)?;
    let (mut from, mut skip) = wanted.place()?;
    let mut connections = Vec::new();
    for _ in 0..LOOKS {
        let (records, next) = workers.connections(of, from).await?;
        for (number, record) in records.into_iter().enumerate().skip(skip) {
            if !wanted.takes(&record) {
                continue;
            }
            if connections.len() == limit {
                return Ok(Page { connections, next: Some(place_text(from, number)) });
            }
            connections.push(record.into());
        }
        let Some(next) = next else { return Ok(Page { connections, next: None }) };
        (from, skip) = (next, 0);
    }
    Ok(Page { connections, next: Some(place_text(from, skip)) })
}

/// `DELETE /api/v1/clients/{id}`.
pub(crate) async fn kill(
    State(workers): State<Workers>,
    id: Result<Path<u64>, PathRejection>,
) -> Result<StatusCode, ApiError> {
    let Path(id) = id.map_err(|_| ApiError::Bad("a client's id is a number; GET /api/v1/clients lists them".into()))?;
    workers.run(Command::KillClient(id)).await?;
    Ok(StatusCode::NO_CONTENT)
}
