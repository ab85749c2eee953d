//! Changes that advice made: each is watched for a stated time, and taken back if it did not help.
//!
//! Owns the changes under watch, one a pool, in memory: after a restart a change stays as it is. The comparison is a
//! pure function of the waits before the change and after it. A change of the same keys by anybody else ends the watch.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::StatusCode;
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::time::sleep;
use weir_admin::{Author, ChangeSource};
use weir_config::{Edit, EntryKind, Operation, WebRole};
use weir_http::{ApiError, Reader};
use weir_monitor::{Moment, Scale, Watch, Workers, lock, span};

use super::body;
use super::moments::moments;
use crate::audit::Audit;

/// The name of changes that Weir makes by itself.
const ITSELF: &str = "weir (advice)";
/// The most changes that are remembered.
const MOST: usize = 100;
/// What counts as fewer waits: this share of those before.
const BETTER: f64 = 0.9;
/// Waits that no client notices, in milliseconds.
const FELT_MS: f64 = 5.0;
/// Clients that wait now and then.
const FEW: f64 = 0.5;
/// The part of the time after a change that is not compared: servers are opened, and the queue shrinks.
const SETTLING: u64 = 4;

/// The changes under watch; cheap to clone.
#[derive(Clone)]
pub(crate) struct AppliedAdvice {
    list: Arc<Mutex<BTreeMap<String, AppliedChange>>>,
    workers: Workers,
    watch: Watch,
    audit: Audit,
}

/// A change that advice made.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct AppliedChange {
    pool: String,
    change: Map<String, Value>,
    /// The values before the change; null for a key that was not set.
    before: Map<String, Value>,
    /// When the change was made, and until when it is watched: seconds since 1970.
    at: f64,
    until: f64,
    state: State,
    waits_before: Waits,
    /// The waits after the change, once they have been compared.
    waits_after: Option<Waits>,
    text: String,
}

/// What became of a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    Watched,
    Helped,
    TakenBack,
    /// The change did not help, and could not be taken back.
    Stays,
    /// The keys of the change were changed since, so nothing is compared.
    Overtaken,
}

/// How clients waited, on average over a time.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub(crate) struct Waits {
    wait_ms_p95: f64,
    clients_waiting: f64,
}

impl Waits {
    fn of(moments: &[Moment]) -> Waits {
        let mean =
            |values: Vec<f64>| if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 };
        Waits {
            wait_ms_p95: mean(moments.iter().filter_map(|moment| moment.wait_ms_p95).collect()),
            clients_waiting: mean(moments.iter().map(|moment| moment.clients_waiting).collect()),
        }
    }

    /// Whether no client notices its waits.
    fn is_nothing(self) -> bool {
        self.clients_waiting < FEW && self.wait_ms_p95 < FELT_MS
    }

    /// Whether a change helped after which clients wait like this: waits are gone, or clearly less.
    fn better_than(self, before: Waits) -> bool {
        self.is_nothing()
            || self.clients_waiting < before.clients_waiting * BETTER
            || self.wait_ms_p95 < before.wait_ms_p95 * BETTER
    }

    fn words(self) -> String {
        format!("{:.1} clients waited, 95 % of them under {}", self.clients_waiting, span(self.wait_ms_p95 / 1e3))
    }
}

impl AppliedAdvice {
    pub(crate) fn new(workers: Workers, watch: Watch, audit: Audit) -> AppliedAdvice {
        AppliedAdvice { list: Arc::default(), workers, watch, audit }
    }

    /// The changes, the newest first.
    pub(crate) fn list(&self) -> Vec<AppliedChange> {
        let mut list: Vec<AppliedChange> = lock(&self.list).values().cloned().collect();
        list.sort_by(|a, b| b.at.total_cmp(&a.at));
        list
    }

    /// Whether a pool's change is still watched: until then there is no further advice for it.
    pub(crate) fn watches(&self, pool: &str) -> bool {
        lock(&self.list).get(pool).is_some_and(|applied| applied.state == State::Watched)
    }

    /// Makes a change, and watches it for so long.
    ///
    /// # Errors
    /// Those of the change.
    pub(crate) async fn apply(
        &self,
        pool: &str,
        change: Map<String, Value>,
        watched: Duration,
        author: Author,
    ) -> Result<AppliedChange, ApiError> {
        let written = self.written(pool).await?;
        let before = change.keys().map(|key| (key.clone(), written.get(key).cloned().unwrap_or(Value::Null))).collect();
        let at = weir_monitor::now();
        let waits_before =
            Waits::of(&self.moments(pool, at.as_secs().saturating_sub(watched.as_secs()), watched.as_secs()).await?);
        self.set(pool, change.clone(), author).await?;
        let applied = AppliedChange {
            pool: pool.to_owned(),
            change,
            before,
            at: at.as_secs_f64(),
            until: (at + watched).as_secs_f64(),
            state: State::Watched,
            waits_before,
            waits_after: None,
            text: format!(
                "Watched for {}. It is taken back unless waits are shorter then.",
                span(watched.as_secs_f64())
            ),
        };
        {
            let mut list = lock(&self.list);
            if list.len() >= MOST
                && let Some(oldest) =
                    list.values().min_by(|a, b| a.at.total_cmp(&b.at)).map(|applied| applied.pool.clone())
            {
                list.remove(&oldest);
            }
            list.insert(pool.to_owned(), applied.clone());
        }
        let (advice, watching) = (self.clone(), applied.clone());
        tokio::spawn(async move {
            sleep(watched).await;
            advice.compare(watching).await;
        });
        Ok(applied)
    }

    /// Takes a change back on request.
    ///
    /// # Errors
    /// There is none, or those of the change.
    pub(crate) async fn undo(&self, pool: &str, author: Author) -> Result<(), ApiError> {
        let applied = lock(&self.list).get(pool).cloned();
        let applied = applied.ok_or_else(|| ApiError::Unknown("applied advice for the pool", pool.to_owned()))?;
        self.set(pool, applied.before, author).await?;
        lock(&self.list).remove(pool);
        Ok(())
    }

    /// Keeps a change, and forgets it.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn keep(&self, pool: &str) -> Result<(), ApiError> {
        let kept = lock(&self.list).remove(pool);
        kept.map(drop).ok_or_else(|| ApiError::Unknown("applied advice for the pool", pool.to_owned()))
    }

    /// At the end of its time: keeps a change, or takes it back.
    async fn compare(&self, applied: AppliedChange) {
        let same = |applied: &AppliedChange, other: &AppliedChange| applied.at.total_cmp(&other.at).is_eq();
        // Undone or kept by somebody, or replaced by another.
        if !lock(&self.list).get(&applied.pool).is_some_and(|now| same(now, &applied)) {
            return;
        }
        let ended = self.outcome(&applied).await;
        let mut list = lock(&self.list);
        if let Some(now) = list.get_mut(&applied.pool).filter(|now| same(now, &applied)) {
            (now.state, now.waits_after, now.text) = ended;
        }
    }

    async fn outcome(&self, applied: &AppliedChange) -> (State, Option<Waits>, String) {
        let changed = self.written(&applied.pool).await.ok();
        let ours =
            |written: &Map<String, Value>| applied.change.iter().all(|(key, value)| written.get(key) == Some(value));
        if !changed.as_ref().is_some_and(ours) {
            return (State::Overtaken, None, "Its keys were changed since, so nothing was compared.".to_owned());
        }
        let (from, until) = (applied.at as u64, applied.until as u64);
        let from = from + (until - from) / SETTLING;
        let Ok(moments) = self.moments(&applied.pool, from, until.saturating_sub(from)).await else {
            return (State::Stays, None, "What came of it is not known.".to_owned());
        };
        let (before, after) = (applied.waits_before, Waits::of(&moments));
        let compared = format!("Before, {}; after, {}.", before.words(), after.words());
        if after.better_than(before) {
            return (State::Helped, Some(after), format!("It helped. {compared}"));
        }
        let author = Author {
            user: Some(ITSELF.to_owned()),
            from: "itself".to_owned(),
            via: ChangeSource::Api,
            comment: Some(compared.clone()),
            request: self.audit.number(),
        };
        let request = author.request;
        let undone = self.set(&applied.pool, applied.before.clone(), author).await;
        let status = undone.as_ref().map_or_else(ApiError::status, |()| StatusCode::OK);
        self.audit.note(ITSELF, &format!("/api/v1/advice/{}/undo", applied.pool), status, request);
        match undone {
            Ok(()) => (State::TakenBack, Some(after), format!("It did not help, and was taken back. {compared}")),
            Err(_) => (State::Stays, Some(after), format!("It did not help, and could not be taken back. {compared}")),
        }
    }

    async fn set(&self, pool: &str, values: Map<String, Value>, author: Author) -> Result<(), ApiError> {
        let keys = body::keys(EntryKind::Pool, values)?;
        self.workers.change(Edit::Pool(pool.to_owned(), Operation::Alter(keys)).into(), author).await?;
        Ok(())
    }

    async fn written(&self, pool: &str) -> Result<Map<String, Value>, ApiError> {
        let (_, config) = self.workers.report().await?;
        let written = weir_config::pool_keys(&config, pool).ok_or(ApiError::Unknown("pool", pool.to_owned()))?;
        // Only the keys that were changed are taken from it.
        Ok(body::written(written, Reader(WebRole::Viewer)))
    }

    async fn moments(&self, pool: &str, from: u64, seconds: u64) -> Result<Vec<Moment>, ApiError> {
        moments(&self.watch, pool, Scale::Seconds, from, seconds).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_helped_if_waits_are_gone_or_clearly_shorter() {
        let waits = |wait_ms_p95, clients_waiting| Waits { wait_ms_p95, clients_waiting };
        let before = waits(100.0, 10.0);
        let table = [
            (waits(0.0, 0.0), true),
            (waits(60.0, 10.0), true),
            (waits(100.0, 6.0), true),
            (waits(95.0, 10.5), false),
            (waits(400.0, 30.0), false),
        ];
        for (after, wanted) in table {
            assert_eq!(after.better_than(before), wanted, "{after:?}");
        }
        // A smaller pool must not make anybody wait.
        let none = Waits::default();
        assert!(waits(1.0, 0.2).better_than(none) && !waits(20.0, 2.0).better_than(none));
    }
}
