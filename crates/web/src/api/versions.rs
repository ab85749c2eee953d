//! The versions of the configuration: the list, one of them, what a return to it would do, and the return.
//!
//! A preview changes nothing. A return is a change like any other: the same checks, the same queue, a new version.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Extension, Query, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use weir_admin::{ChangeError, ChangePreview, ConfigAccess, ConfigHistory, Report};
use weir_config::{Config, Edit, Restore};
use weir_http::{ApiError, Reader};
use weir_monitor::{MonitorError, Workers, whole_or_none};

use super::body::PersistedBody;
use super::page::page_limit;
use super::params::{Changer, Number};
use crate::versions::{Difference, Version, Versions};

/// The most secrets of a request.
const MOST_SECRETS: usize = 1000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VersionsQuery {
    limit: Option<usize>,
    /// Only versions with smaller numbers.
    before: Option<u64>,
    /// Only versions with this text in an author, a comment, an object, a key or a value.
    search: Option<String>,
}

#[derive(Serialize)]
pub(crate) struct Page {
    versions: Vec<ListedVersion>,
    /// The number of the last version.
    latest: u64,
    persisted: bool,
    reason: Option<String>,
}

#[derive(Serialize)]
pub(crate) struct ListedVersion {
    number: u64,
    at: f64,
    user: Option<String>,
    from: String,
    via: String,
    command: String,
    comment: Option<String>,
    changes: Vec<Difference>,
    more_changes: usize,
    /// Whether there is a way back to it; if not, why.
    restorable: bool,
    reason: Option<String>,
}

impl From<Version> for ListedVersion {
    fn from(of: Version) -> ListedVersion {
        let Version { number, at, user, from, via, command, comment, changes, more_changes, outline, .. } = of;
        let restorable = outline.is_ok();
        let reason = outline.err();
        ListedVersion { number, at, user, from, via, command, comment, changes, more_changes, restorable, reason }
    }
}

/// `GET /api/v1/config/versions`.
pub(crate) async fn list(
    State(versions): State<Versions>,
    Extension(reader): Extension<Reader>,
    wanted: Result<Query<VersionsQuery>, QueryRejection>,
) -> Result<Json<Page>, ApiError> {
    let Query(VersionsQuery { limit, before, search }) = wanted?;
    let search = search.unwrap_or_default().to_lowercase();
    let wanted =
        |version: &Version| before.is_none_or(|before| version.number < before) && version.mentions(&search, reader);
    let (list, latest) = versions.page(page_limit(limit)?, wanted);
    let reason = versions.why_not_persisted();
    Ok(Json(Page {
        versions: list.into_iter().map(|version| version.shown_to(reader).into()).collect(),
        latest,
        persisted: reason.is_none(),
        reason,
    }))
}

#[derive(Serialize)]
pub(crate) struct OneVersion {
    #[serde(flatten)]
    version: ListedVersion,
    /// The file's keys and values, as TOML, without comments and secrets.
    outline: Option<String>,
}

/// `GET /api/v1/config/versions/{number}`.
pub(crate) async fn one(
    State(versions): State<Versions>,
    Extension(reader): Extension<Reader>,
    Number(number): Number,
) -> Result<Json<OneVersion>, ApiError> {
    let version = find(&versions, number)?.shown_to(reader);
    let outline = version.outline.clone().ok();
    Ok(Json(OneVersion { version: version.into(), outline }))
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    /// Secrets by their keys, as a preview lists those that are needed.
    #[serde(default)]
    secrets: BTreeMap<String, String>,
    /// The last version that the caller knows: with a later one nothing is changed.
    #[serde(default, deserialize_with = "whole_or_none")]
    latest: Option<u64>,
}

type Body = Result<Json<Wanted>, JsonRejection>;

/// What a change would do.
#[derive(Serialize, Default)]
pub(crate) struct PreviewReply {
    /// The sentence for a person.
    text: String,
    changes: Vec<Difference>,
    /// Pools that would be deleted, with the clients that this disconnects.
    disconnects: Vec<Disconnected>,
    added: Vec<String>,
    /// Pools whose servers are replaced as they become free.
    reconnects: Vec<String>,
    adjusted: Vec<String>,
    /// Settings that keep their value until a restart.
    restart: Vec<String>,
    secrets_needed: Vec<String>,
    /// The last version now, for the change itself.
    latest: u64,
    /// Of a reload: which text of the file was read, for the reload itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
}

#[derive(Serialize)]
struct Disconnected {
    pool: String,
    clients: u32,
}

/// `POST /api/v1/config/versions/{number}/preview`.
pub(crate) async fn preview(
    State(versions): State<Versions>,
    State(config): State<Arc<dyn ConfigAccess>>,
    State(workers): State<Workers>,
    Number(number): Number,
    body: Body,
) -> Result<Json<PreviewReply>, ApiError> {
    let edit = edit(&find(&versions, number)?, body)?.0;
    // Before the file is read: a change that comes meanwhile makes the caller's number too old, and not its picture.
    let latest = versions.latest();
    let preview = spawn_blocking(move || config.preview(&edit)).await.map_err(|_| MonitorError::Ending)?;
    let (report, _) = workers.report().await?;
    Ok(Json(PreviewReply::of(preview?, &report, latest)))
}

/// `GET /api/v1/config/pending`: what a reload of the file would do.
pub(crate) async fn pending(
    State(versions): State<Versions>,
    State(config): State<Arc<dyn ConfigAccess>>,
    State(workers): State<Workers>,
    Extension(reader): Extension<Reader>,
) -> Result<Json<PreviewReply>, ApiError> {
    let latest = versions.latest();
    let (report, in_force) = workers.report().await?;
    let preview = preview_reload(config, in_force).await?;
    let mut reply = PreviewReply::of(preview, &report, latest);
    if !reader.sees_queries() {
        reply.changes.iter_mut().for_each(Difference::hide_query);
    }
    Ok(Json(reply))
}

/// One at a time: it reads all files.
async fn preview_reload(config: Arc<dyn ConfigAccess>, in_force: Arc<Config>) -> Result<ChangePreview, ApiError> {
    static ONE: Mutex<()> = Mutex::const_new(());
    let _one = ONE.lock().await;
    let preview = spawn_blocking(move || config.preview_reload(&in_force)).await.map_err(|_| MonitorError::Ending)?;
    Ok(preview?)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReloadQuery {
    /// The files as a preview of this reload has named them: others are not read.
    file: Option<String>,
    /// As with any change; the gate has read it.
    #[serde(rename = "comment")]
    _comment: Option<String>,
}

/// `POST /api/v1/reload`.
pub(crate) async fn reload(
    State(config): State<Arc<dyn ConfigAccess>>,
    changer: Changer,
    wanted: Result<Query<ReloadQuery>, QueryRejection>,
) -> Result<StatusCode, ApiError> {
    let Query(ReloadQuery { file, .. }) = wanted?;
    if let Some(file) = file {
        let (_, in_force) = changer.workers.report().await?;
        if preview_reload(config, in_force).await?.text.map(file_id) != Some(file) {
            return Err(ApiError::from(ChangeError::NotAsPreviewed));
        }
    }
    changer.workers.reload(changer.author).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// As replies and requests write which text a file has.
fn file_id(text: u64) -> String {
    format!("{text:016x}")
}

/// `POST /api/v1/config/versions/{number}/restore`.
pub(crate) async fn restore(
    State(versions): State<Versions>,
    mut changer: Changer,
    Number(number): Number,
    body: Body,
) -> Result<Json<PersistedBody>, ApiError> {
    let (edit, latest) = edit(&find(&versions, number)?, body)?;
    changer.latest = latest.or(changer.latest);
    let words = format!("roll back to version {number}");
    let comment = changer.author.comment.take();
    changer.author.comment = Some(comment.map_or(words.clone(), |comment| format!("{words}: {comment}")));
    changer.change(edit).await.map(Json)
}

fn find(versions: &Versions, number: u64) -> Result<Version, ApiError> {
    versions.get(number).ok_or_else(|| ApiError::Unknown("version", number.to_string()))
}

/// The return to a version, and the last version that the caller knows.
fn edit(version: &Version, body: Body) -> Result<(Edit, Option<u64>), ApiError> {
    let Json(Wanted { secrets, latest }) = body.map_err(ApiError::BadBody)?;
    if secrets.len() > MOST_SECRETS {
        return Err(ApiError::Bad(format!("at most {MOST_SECRETS} secrets may be given")));
    }
    match &version.outline {
        Ok(outline) => Ok((Edit::Restore(Restore { outline: outline.clone(), secrets }), latest)),
        Err(why) => Err(ApiError::from(ChangeError::Unfit(format!("there is no way back to it: {why}")))),
    }
}

impl PreviewReply {
    fn of(preview: ChangePreview, report: &Report, latest: u64) -> PreviewReply {
        let ChangePreview { changes, differences, secrets, text } = preview;
        let clients = |name: &String| {
            let of_pool = report.pools.iter().filter(|pool| pool.database == *name);
            Disconnected { pool: name.clone(), clients: of_pool.map(|pool| pool.clients()).sum() }
        };
        let mut reply = PreviewReply {
            changes: changes.into_iter().map(Difference::from).collect(),
            disconnects: differences.removed.iter().map(clients).collect(),
            added: differences.added,
            reconnects: differences.reconnect,
            adjusted: differences.adjusted,
            restart: differences.restart.into_iter().map(|change| change.key).collect(),
            secrets_needed: secrets,
            latest,
            file: text.map(file_id),
            ..PreviewReply::default()
        };
        reply.text = reply.words();
        reply
    }

    fn words(&self) -> String {
        if !self.secrets_needed.is_empty() {
            return format!("Secrets are not stored: give {} first.", self.secrets_needed.join(", "));
        }
        if self.changes.is_empty() && self.restart.is_empty() {
            return "This would change nothing.".to_owned();
        }
        let clients: u32 = self.disconnects.iter().map(|pool| pool.clients).sum();
        let mut text = match (clients, self.disconnects.len()) {
            (0, 0) => "This will disconnect nobody.".to_owned(),
            (0, _) => format!("This will disconnect nobody; it deletes {}, which nobody uses now.", self.deleted()),
            (1, _) => format!("This will disconnect 1 client: it deletes {}.", self.deleted()),
            (clients, _) => format!("This will disconnect {clients} clients: it deletes {}.", self.deleted()),
        };
        if !self.reconnects.is_empty() {
            text += &format!(" Servers of {} are replaced as they become free.", self.reconnects.join(", "));
        }
        if !self.restart.is_empty() {
            text += &format!(" Only after a restart: {}.", self.restart.join(", "));
        }
        text
    }

    fn deleted(&self) -> String {
        let names: Vec<&str> = self.disconnects.iter().map(|pool| pool.pool.as_str()).collect();
        format!("pool{} {}", if names.len() == 1 { "" } else { "s" }, names.join(", "))
    }
}
