//! Users: their rules and what they use now; creating, changing and deleting them.
//!
//! A user here is a name that is listed with a secret, that has rules of its own, or that is in use. Secrets come in,
//! and are never shown. A test of a login sends a password to this Weir, and keeps it nowhere.

use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use weir_admin::{PoolRecord, Report};
use weir_base::Span;
use weir_config::{Config, Edit, EntryKind, Keys, Operation, SecretForm, WebRole};
use weir_http::{ApiError, Reader};
use weir_monitor::Workers;

use super::body::{self, Body, PersistedBody};
use super::page::{PageParams, PageRequest};
use super::params::{Changer, Name};
use crate::pool_tests::PoolTests;

/// How many lines and pools of a user are shown.
const SHOWN: usize = 20;

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
    /// The form of that secret: `scram-sha-256`, `md5`, `plain` or `empty`.
    secret: Option<&'static str>,
    /// Whether a pool logs in to its server with the user's own password, which is stored as it is then.
    server_needs_password: bool,
    /// When the secret before that one ends, in seconds since 1970; none if it is not valid.
    former_secret_until: Option<u64>,
    /// Whether the user may not log in.
    disabled: bool,
    /// What the user may do on the console: `admin`, `stats` or nothing.
    console: Option<&'static str>,
    /// The user's own rules; for all others, those of the pool or of the process hold.
    rules: Map<String, Value>,
    /// The most server connections and the most clients, over all pools; 0 is no limit.
    max_connections: u32,
    max_client_connections: u32,
    /// The lines of the HBA file whose list of users has this one, at most 20.
    hba_lines: Vec<usize>,
    clients: u32,
    waiting: u32,
    servers: u32,
    /// The pools that the user uses now, at most 20.
    pools: Vec<UserPool>,
    pools_total: usize,
}

/// A pool that a user uses: as a client, or to log in to servers.
#[derive(Serialize)]
struct UserPool {
    name: String,
    mode: String,
    /// The most servers for this user, without the reserve; 0 is no limit.
    size: u32,
    clients: u32,
    waiting: u32,
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

/// The longest time for which an old password may stay valid.
const LONGEST_OVERLAP: Span = Span::from_secs(366 * 86_400);

/// `GET /api/v1/users`.
pub(crate) async fn list(State(workers): State<Workers>, asked: PageParams) -> Result<Json<Page>, ApiError> {
    let page_request = PageRequest::of(asked)?;
    let (report, config) = workers.users().await?;
    let servers = by_login(&report);
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
    if name.chars().any(char::is_control) {
        return Err(body::bad("name", "must not have control characters"));
    }
    check_former(&keys)?;
    changed(&changer, name, Operation::Create, keys).await.map(|changed| (StatusCode::CREATED, changed))
}

/// `PATCH /api/v1/users/{name}`.
pub(crate) async fn alter(changer: Changer, Name(name): Name, body: Body) -> Result<Json<ChangedUser>, ApiError> {
    let Json(mut body) = body.map_err(ApiError::BadBody)?;
    let overlap = body.remove(KEEP_OLD).map(|time| end_of_overlap(&time, &body)).transpose()?;
    let mut keys = body::keys(EntryKind::User, body)?;
    check_former(&keys)?;
    if let Some(end) = overlap {
        keys.set("former_secret_until", Some(weir_config::Value::Text(end)));
    }
    changed(&changer, name, Operation::Alter, keys).await
}

/// A former password can be ended. Another one, or another end, would let in who must not be any more.
fn check_former(keys: &Keys) -> Result<(), ApiError> {
    match ["former_secret", "former_secret_until"].iter().find(|key| keys.gives(key)) {
        Some(key) => Err(body::bad(key, "can only be null: keep_old_for keeps the present password beside a new one")),
        None => Ok(()),
    }
}

/// For how long the present password stays valid beside the new one.
const KEEP_OLD: &str = "keep_old_for";

/// When the present password ends, as the setting has it.
fn end_of_overlap(time: &Value, body: &Map<String, Value>) -> Result<String, ApiError> {
    let seconds = time.as_u64().map(Span::from_secs);
    let span = seconds.or_else(|| time.as_str().and_then(weir_config::read_time));
    let span = span.filter(|span| !span.is_zero() && *span <= LONGEST_OVERLAP);
    let span = span.ok_or_else(|| body::bad(KEEP_OLD, "must be a time of at most a year, as in \"24h\""))?;
    if !body.get("password").is_some_and(Value::is_string) {
        return Err(body::bad(KEEP_OLD, "needs a new \"password\" with it"));
    }
    Ok(weir_config::moment_text(weir_monitor::now().as_secs() + span.micros() / 1_000_000))
}

/// What a test of a login needs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LoginTest {
    pool: String,
    password: String,
}

/// `POST /api/v1/users/{name}/test`.
pub(crate) async fn test(
    State(tests): State<PoolTests>,
    Name(name): Name,
    body: Result<Json<LoginTest>, JsonRejection>,
) -> Result<Json<Value>, ApiError> {
    let Json(LoginTest { pool, password }) = body.map_err(ApiError::BadBody)?;
    Ok(Json(match tests.client(name, pool, password).await? {
        Ok(tested) => json!({
            "ok": true,
            "milliseconds": tested.milliseconds,
            "encrypted": tested.encrypted,
            "server_user": tested.server_user,
            "version": tested.version,
        }),
        Err(error) => json!({
            "ok": false,
            "error": error.message,
            "sqlstate": error.sqlstate,
            "detail": error.detail,
            "hint": error.hint,
        }),
    }))
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

fn reply(kept: PersistedBody, user: Option<User>) -> Json<ChangedUser> {
    Json(ChangedUser { user, outcome: kept })
}

async fn find(workers: &Workers, name: &str) -> Result<Option<User>, ApiError> {
    let (report, config) = workers.users().await?;
    let known = names(&report, &config).contains(name);
    Ok(known.then(|| user(name, &report, &config, &by_login(&report))))
}

/// All names, sorted.
fn names<'a>(report: &'a Report, config: &'a Config) -> BTreeSet<&'a str> {
    let listed = config.auth.users.iter().map(|(name, _)| name);
    let ruled = config.users.keys().map(String::as_str);
    let here = report.clients_by_user.keys().map(String::as_str);
    let there = report.pools.iter().map(|pool| pool.user.as_str());
    listed.chain(ruled).chain(here).chain(there).collect()
}

fn user(name: &str, report: &Report, config: &Config, servers: &BTreeMap<&str, Vec<&PoolRecord>>) -> User {
    let mut rules = body::written(weir_config::user_keys(config, name).unwrap_or_default(), Reader(WebRole::Viewer));
    let listed = rules.remove("password").is_some();
    // They are fields of the user.
    ["former_secret", "former_secret_until", "disabled"].iter().for_each(|key| drop(rules.remove(*key)));
    let now = weir_monitor::now().as_secs();
    let until = config.users.get(name).map(|rules| rules.former_secret_until);
    let has = |names: &[String]| names.iter().any(|one| one == name);
    let console = if has(&config.admin_users) { Some("admin") } else { has(&config.stats_users).then_some("stats") };
    let hba = config.auth.hba.as_ref().map_or(&[][..], |hba| hba.rules());
    let clients = report.clients_of(name);
    let records = servers.get(name).map_or(&[][..], Vec::as_slice);
    let mut pools = pools(name, report, config, records);
    let pools_total = pools.len();
    pools.truncate(SHOWN);
    User {
        name: name.to_owned(),
        listed,
        secret: config.auth.users.get(name).and_then(weir_config::secret_form).map(SecretForm::name),
        server_needs_password: config.needs_password_of(name),
        former_secret_until: until.filter(|_| listed && config.former_secret(name, now).is_some()),
        disabled: config.is_disabled(name),
        console,
        rules,
        max_connections: config.user_connections(name),
        max_client_connections: config.user_clients(name),
        hba_lines: hba.iter().filter(|rule| rule.is_about(name)).map(|rule| rule.line).take(SHOWN).collect(),
        clients: clients.clients,
        waiting: clients.waiting,
        servers: records.iter().map(|record| record.servers()).sum(),
        pools,
        pools_total,
    }
}

/// The pools that a user has clients or servers of, by name; the console is none.
fn pools(name: &str, report: &Report, config: &Config, records: &[&PoolRecord]) -> Vec<UserPool> {
    let clients = report.clients_by_user.get(name);
    let mut names: BTreeSet<&str> = records.iter().map(|record| record.database.as_str()).collect();
    names.extend(clients.into_iter().flatten().map(|(database, _)| database.as_str()));
    let pool = |database: &str| {
        let pool = config.pool(database)?;
        let login = pool.user.clone().unwrap_or_else(|| name.to_owned());
        let pool = config.pool_of_user(&pool, &login);
        let here = clients.and_then(|clients| clients.get(database)).copied().unwrap_or_default();
        let own = records.iter().filter(|record| record.database == database);
        Some(UserPool {
            name: database.to_owned(),
            mode: pool.policy.mode.to_string(),
            size: pool.limits.size,
            clients: here.clients,
            waiting: here.waiting,
            servers: own.map(|record| record.servers()).sum(),
        })
    };
    // The console's clients have no pool, though a catch-all pool would match its name.
    let is_pool = |database: &&str| !weir_config::RESERVED_DATABASES.contains(database);
    names.into_iter().filter(is_pool).filter_map(pool).collect()
}

/// The records of pools by the user that logs in to their servers.
fn by_login(report: &Report) -> BTreeMap<&str, Vec<&PoolRecord>> {
    let mut records: BTreeMap<&str, Vec<&PoolRecord>> = BTreeMap::new();
    report.pools.iter().for_each(|pool| records.entry(&pool.user).or_default().push(pool));
    records
}
