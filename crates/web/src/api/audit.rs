//! `GET /api/v1/audit`: who changed what, with old and new values; searched, filtered, also as CSV.
//!
//! An entry of a changed configuration is joined with the version that it made. Changes that came another way (the
//! console, a signal, the start) are entries of their own.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, Query, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use weir_http::{ApiError, Reader};

use super::page::page_limit;
use crate::audit::{Audit, AuditEntry};
use crate::versions::{Difference, Version, Versions};

/// The status that is shown for a change that no request made.
const ADOPTED: u16 = 200;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AuditQuery {
    limit: Option<usize>,
    /// Text in any column, in any case.
    search: Option<String>,
    user: Option<String>,
    /// As in `pool app`; `pool` is any pool.
    object: Option<String>,
    outcome: Option<Outcome>,
    /// Seconds since 1970.
    since: Option<f64>,
    until: Option<f64>,
    format: Option<Format>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    Done,
    Refused,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Format {
    Json,
    Csv,
}

#[derive(Serialize)]
struct Page {
    entries: Vec<Entry>,
    persisted: bool,
    reason: Option<String>,
}

#[derive(Serialize)]
struct Entry {
    at: f64,
    user: Option<String>,
    from: String,
    method: String,
    path: String,
    status: Option<u16>,
    times: u64,
    /// What was changed, as in `pool app`; empty for the process as a whole.
    object: String,
    changes: Vec<Difference>,
    more_changes: usize,
    /// The version that the change made.
    version: Option<u64>,
    comment: Option<String>,
}

/// `GET /api/v1/audit`.
pub(crate) async fn audit(
    State(audit): State<Audit>,
    State(versions): State<Versions>,
    Extension(reader): Extension<Reader>,
    wanted: Result<Query<AuditQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let Query(wanted) = wanted?;
    let limit = page_limit(wanted.limit)?;
    let mut entries = joined(audit.all(), versions.list(usize::MAX, |_| true));
    if !reader.sees_queries() {
        entries.iter_mut().flat_map(|entry| &mut entry.changes).for_each(Difference::hide_query);
    }
    entries.retain(|entry| wanted.accepts(entry));
    entries.truncate(limit);
    if wanted.format == Some(Format::Csv) {
        let heads = [
            (CONTENT_TYPE, "text/csv; charset=utf-8"),
            (CONTENT_DISPOSITION, "attachment; filename=\"weir-audit.csv\""),
        ];
        return Ok((heads, csv(&entries)).into_response());
    }
    let reason = audit.why_not_persisted();
    Ok(Json(Page { entries, persisted: reason.is_none(), reason }).into_response())
}

/// Entries with the versions that they made, and the other versions; the newest first.
fn joined(entries: Vec<AuditEntry>, mut versions: Vec<Version>) -> Vec<Entry> {
    let mut all: Vec<Entry> = entries
        .into_iter()
        .map(|entry| {
            let of_entry = versions.iter().position(|version| version.request == entry.request);
            Entry::of(entry, of_entry.map(|at| versions.remove(at)))
        })
        .collect();
    all.extend(versions.into_iter().map(Entry::alone));
    all.sort_by(|a, b| b.at.total_cmp(&a.at));
    all
}

impl Entry {
    fn of(entry: AuditEntry, version: Option<Version>) -> Entry {
        let AuditEntry { at, user, from, method, path, status, times, .. } = entry;
        let object = version.as_ref().map_or_else(|| object_of(&method, &path), |version| objects(&version.changes));
        let number = version.as_ref().map(|version| version.number);
        let (changes, more_changes, comment) =
            version.map(|version| (version.changes, version.more_changes, version.comment)).unwrap_or_default();
        Entry { at, user, from, method, path, status, times, object, changes, more_changes, version: number, comment }
    }

    /// A version that no entry is known of.
    fn alone(version: Version) -> Entry {
        let way = match version.via.as_str() {
            "signal" => "SIGHUP",
            "watch" => "file watch",
            "cluster" => "the cluster",
            way => way,
        };
        let user = version.user.clone().or_else(|| (way != "api").then(|| way.to_owned()));
        Entry {
            at: version.at,
            user,
            from: version.from,
            method: version.command,
            path: String::new(),
            status: Some(ADOPTED),
            times: 1,
            object: objects(&version.changes),
            changes: version.changes,
            more_changes: version.more_changes,
            version: Some(version.number),
            comment: version.comment,
        }
    }
}

/// The objects of a change, each once.
fn objects(changes: &[Difference]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for change in changes {
        let name = if change.object.is_empty() { "settings" } else { change.object.as_str() };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(", ")
}

/// The object that a request names.
fn object_of(method: &str, path: &str) -> String {
    if (method, path) == ("POST", "/api/v1/pools/test") {
        // A test of settings; other requests of this path are about the pool of this name.
        return String::new();
    }
    let mut parts = path.trim_start_matches("/api/v1/").split('/').map(decoded);
    match (parts.next().as_deref(), parts.next()) {
        (Some("pools" | "advice"), Some(name)) => format!("pool {name}"),
        (Some("users"), Some(name)) => format!("user {name}"),
        (Some("clients"), Some(id)) => format!("client {id}"),
        (Some("settings"), Some(key)) => format!("setting {key}"),
        (Some("pause" | "resume" | "reconnect"), None) => "all pools".to_owned(),
        _ => String::new(),
    }
}

/// A part of a path without its percent signs.
fn decoded(part: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = part.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.filter(|_| *first == b'%').and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl AuditQuery {
    fn accepts(&self, entry: &Entry) -> bool {
        let is = |wanted: &Option<String>, value: &str| wanted.as_deref().is_none_or(|wanted| wanted == value);
        let of_object = self.object.as_deref().is_none_or(|wanted| {
            entry.object.split(", ").any(|name| name == wanted || name.split(' ').next() == Some(wanted))
        });
        let done = entry.status.is_none_or(|status| status < 400);
        is(&self.user, entry.user.as_deref().unwrap_or_default())
            && of_object
            && self.outcome.is_none_or(|outcome| (outcome == Outcome::Done) == done)
            && self.since.is_none_or(|since| entry.at >= since)
            && self.until.is_none_or(|until| entry.at <= until)
            && self.search.as_deref().is_none_or(|text| entry.mentions(&text.to_lowercase()))
    }
}

impl Entry {
    /// Whether this text, in lower case, is in one of the entry's columns.
    fn mentions(&self, text: &str) -> bool {
        let here = |value: &str| value.to_lowercase().contains(text);
        let user = self.user.as_deref().unwrap_or_default();
        let comment = self.comment.as_deref().unwrap_or_default();
        [user, &self.from, &self.method, &self.path, &self.object, comment].into_iter().any(here)
            || self.changes.iter().any(|change| change.mentions(text))
    }
}

impl Difference {
    fn mentions(&self, text: &str) -> bool {
        let values = [self.old.as_deref(), self.new.as_deref()];
        self.mentions_name(text) || values.into_iter().flatten().any(|value| value.to_lowercase().contains(text))
    }

    fn mentions_name(&self, text: &str) -> bool {
        [&self.object, &self.key].into_iter().any(|name| name.to_lowercase().contains(text))
    }

    /// `size: 20 → 30`.
    fn words(&self) -> String {
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "unset".to_owned());
        let object = if self.object.is_empty() { String::new() } else { format!("{} ", self.object) };
        format!("{object}{}: {} → {}", self.key, value(&self.old), value(&self.new))
    }
}

impl Version {
    /// Whether this text, in lower case, is in the version's author, its comment, or a difference, as far as this
    /// reader may see them.
    pub(super) fn mentions(&self, text: &str, reader: Reader) -> bool {
        let known = [self.user.as_deref(), Some(self.from.as_str()), Some(self.via.as_str()), self.comment.as_deref()];
        text.is_empty()
            || known.into_iter().flatten().any(|value| value.to_lowercase().contains(text))
            || self.changes.iter().any(|change| {
                let hidden = !reader.sees_queries() && weir_config::is_query(&change.key);
                change.mentions_name(text) || !hidden && change.mentions(text)
            })
    }
}

/// Comma-separated values (RFC 4180).
fn csv(entries: &[Entry]) -> String {
    let mut text = "time,user,from,method,path,status,times,object,changes,version,comment\r\n".to_owned();
    for entry in entries {
        let changes: Vec<String> = entry.changes.iter().map(Difference::words).collect();
        let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
        let cells = [
            format!("{:.3}", entry.at),
            entry.user.clone().unwrap_or_default(),
            entry.from.clone(),
            entry.method.clone(),
            entry.path.clone(),
            number(entry.status.map(u64::from)),
            entry.times.to_string(),
            entry.object.clone(),
            changes.join("; "),
            number(entry.version),
            entry.comment.clone().unwrap_or_default(),
        ];
        text += &cells.map(|value| cell(&value)).join(",");
        text += "\r\n";
    }
    text
}

/// A cell. A spreadsheet would compute one that begins like a formula.
fn cell(value: &str) -> String {
    let formula = value.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']);
    let value = if formula { format!("'{value}") } else { value.to_owned() };
    if value.contains([',', '"', '\n', '\r']) { format!("\"{}\"", value.replace('"', "\"\"")) } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_never_a_formula_and_never_two_cells() {
        assert_eq!(cell("=HYPERLINK(\"http://evil\")"), "\"'=HYPERLINK(\"\"http://evil\"\")\"");
        assert_eq!((cell("\r=1"), cell("\n=1")), ("\"'\r=1\"".to_owned(), "\"'\n=1\"".to_owned()));
        assert_eq!((cell("a,b"), cell("plain")), ("\"a,b\"".to_owned(), "plain".to_owned()));
    }

    #[test]
    fn an_object_is_named_as_its_path_names_it() {
        let table = [
            ("/api/v1/pools/my%20app/pause", "pool my app"),
            ("/api/v1/pools/test/pause", "pool test"),
            ("/api/v1/users/ann", "user ann"),
            ("/api/v1/clients/7", "client 7"),
            ("/api/v1/settings/pool_mode", "setting pool_mode"),
            ("/api/v1/pause", "all pools"),
            ("/api/v1/%zz%", ""),
        ];
        for (path, object) in table {
            assert_eq!(object_of("POST", path), object, "{path}");
        }
        assert_eq!(object_of("POST", "/api/v1/pools/test"), "");
        assert_eq!(object_of("DELETE", "/api/v1/pools/test"), "pool test");
    }
}
