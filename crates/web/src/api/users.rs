//! Users: their rules and what they use now; creating, changing and deleting them.
//!
//! A user here is a name that is listed with a secret, that has rules of its own, or that is in use. Secrets come in,
//! and are never shown.

use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use serde_json::{Map, Value};
use weir_admin::{Persisted, Report};
use weir_config::{Config, Edit, EntryKind, Keys, Operation};

use super::body::{self, Body, PersistedBody};
use super::page::{PageParams, PageRequest};
use super::params::{Changer, Name};
use crate::ask::Workers;
use crate::error::ApiError;

#[derive(Serialize)]
pub(crate) struct Page {
    users: Vec<User>,
    /// The value of `after` for the next page; none on the last one.
    next: Option<String>,
}

#[derive(Serialize)]
pub(crate) struct User {
    name: String,
    /// Whether a secret of the user is listed, in `[auth.users]` or in the file of users.
    listed: bool,
    /// The user's own rules; for all others, those of the pool or of the process hold.
    rules: Map<String, Value>,
    clients: u32,
    servers: u32,
}

/// The answer to a change.
#[derive(Serialize)]
pub(crate) struct ChangedUser {
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<User>,
    #[serde(flatten)]
    outcome: PersistedBody,
}

/// `GET /api/v1/users`.
pub(crate) async fn list(State(workers): State<Workers>, asked: PageParams) -> Result<Json<Page>, ApiError> {
    let page_request = PageRequest::of(asked)?;
    let (report, config) = workers.report().await?;
    let servers = report.servers_by_user();
    let (names, next) = page_request.cut(names(&report, &config), |name| name);
    let users = names.into_iter().map(|name| user(name, &report, &config, &servers)).collect();
    Ok(Json(Page { users, next }))
}

/// `GET /api/v1/users/{name}`.
pub(crate) async fn one(State(workers): State<Workers>, Name(name): Name) -> Result<Json<User>, ApiError> {
    find(&workers, &name).await?.map(Json).ok_or(ApiError::Unknown("user", name))
}

/// `POST /api/v1/users`.
pub(crate) async fn make(changer: Changer, body: Body) -> Result<(StatusCode, Json<ChangedUser>), ApiError> {
    let (name, keys) = body::named(EntryKind::User, body)?;
    if name.is_empty() {
        return Err(body::bad("name", "must not be empty"));
    }
    changed(&changer, name, Operation::Create, keys).await.map(|changed| (StatusCode::CREATED, changed))
}

/// `PATCH /api/v1/users/{name}`.
pub(crate) async fn alter(changer: Changer, Name(name): Name, body: Body) -> Result<Json<ChangedUser>, ApiError> {
    let Json(body) = body.map_err(ApiError::BadBody)?;
    let keys = body::keys(EntryKind::User, body)?;
    changed(&changer, name, Operation::Alter, keys).await
}

/// `DELETE /api/v1/users/{name}`.
pub(crate) async fn delete(changer: Changer, Name(name): Name) -> Result<Json<ChangedUser>, ApiError> {
    let kept = changer.change(Edit::User(name, Operation::Drop)).await?;
    Ok(reply(kept, None))
}

async fn changed(
    changer: &Changer,
    name: String,
    act: fn(Keys) -> Operation,
    keys: Keys,
) -> Result<Json<ChangedUser>, ApiError> {
    let kept = changer.change(Edit::User(name.clone(), act(keys))).await?;
    Ok(reply(kept, find(&changer.workers, &name).await?))
}

fn reply(kept: Persisted, user: Option<User>) -> Json<ChangedUser> {
    Json(ChangedUser { user, outcome: kept.into() })
}

async fn find(workers: &Workers, name: &str) -> Result<Option<User>, ApiError> {
    let (report, config) = workers.report().await?;
    let known = names(&report, &config).contains(name);
    Ok(known.then(|| user(name, &report, &config, &report.servers_by_user())))
}

/// All names, sorted.
fn names<'a>(report: &'a Report, config: &'a Config) -> BTreeSet<&'a str> {
    let listed = config.auth.users.iter().map(|(name, _)| name);
    let ruled = config.users.keys().map(String::as_str);
    let here = report.clients_by_user.keys().map(String::as_str);
    let there = report.pools.iter().map(|pool| pool.user.as_str());
    listed.chain(ruled).chain(here).chain(there).collect()
}

fn user(name: &str, report: &Report, config: &Config, servers: &BTreeMap<&str, u32>) -> User {
    let mut rules = body::written(weir_config::user_keys(config, name).unwrap_or_default());
    let listed = rules.remove("password").is_some();
    User {
        name: name.to_owned(),
        listed,
        rules,
        clients: report.clients_by_user.get(name).copied().unwrap_or(0),
        servers: servers.get(name).copied().unwrap_or(0),
    }
}
