//! Worker 0's side of the quotas: the count of each key, the waiting requests, and whose idle server is closed for
//! them.
//!
//! Pure: takes requests and limits, and returns replies. For servers the rules are PgBouncer's
//! (`launch_new_connection`): one is opened only below both limits; if one of them is reached and a client waits, the
//! server that has been idle longest in another pool of the same database, or user, is closed for it; filling up to
//! `min_pool_size` closes none.
//!
//! Always true, and asserted by its tests: nothing is granted beyond a limit (servers from before the limit count, and
//! requests wait for them); requests are granted by the age of their wait, and one without room under a key delays
//! none under another; each has one answer, unless it is cancelled; for each full key at most one server is being
//! closed at a time.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use weir_base::{Time, WorkerId};

use super::{IfFull, Key, PoolId, QuotaReply, QuotaRequest, Resource};

/// The limit of a key; 0 is unlimited.
pub(crate) type Limit<'a> = &'a dyn Fn(&Key) -> u32;

/// A limit that allows none; a configured limit is never so high.
pub(crate) const CLOSED: u32 = u32::MAX;

/// See the head of the file.
#[derive(Default)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Counter {
    counts: BTreeMap<Key, u32>,
    /// Waiting requests, by the age of their wait.
    waiting: BTreeMap<(Time, u64), WaitingRequest>,
    /// The age of each waiting request's wait, by the request's id.
    since: HashMap<u64, Time>,
    evictions: BTreeMap<Key, Eviction>,
    rounds: u64,
    /// Keys with more servers than they may have.
    shrinking: BTreeSet<Key>,
}

#[cfg_attr(test, derive(Clone))]
struct WaitingRequest {
    worker: WorkerId,
    resource: Resource,
}

/// The progress of the search for an idle server under a full key.
#[cfg_attr(test, derive(Clone))]
enum Eviction {
    /// This many workers have not answered yet; the best answer so far.
    Searching { round: u64, left: u16, best: Option<(Time, WorkerId, PoolId)> },
    /// No server was idle. The first that becomes idle is reported.
    NoneIdle,
    /// A server of this pool is being closed.
    Closing(PoolId),
}

impl Counter {
    /// Handles a request of one of `workers`, and returns the replies to all workers.
    pub(crate) fn receive(
        &mut self,
        from: WorkerId,
        request: QuotaRequest,
        workers: u16,
        limit: Limit<'_>,
    ) -> Vec<QuotaReply> {
        let mut replies = Vec::new();
        match request {
            QuotaRequest::Acquire { id, resource, if_full: IfFull::Wait(since) } => {
                self.since.insert(id, since);
                self.waiting.insert((since, id), WaitingRequest { worker: from, resource });
            }
            QuotaRequest::Acquire { id, resource, if_full: IfFull::Refuse } => {
                let full = self.acquire(&resource, limit).err();
                replies.push(QuotaReply::Answer { to: from, id, resource, full });
            }
            QuotaRequest::Cancel { id } => {
                if let Some(since) = self.since.remove(&id) {
                    self.waiting.remove(&(since, id));
                }
            }
            QuotaRequest::Add { resource, count } => self.count(&resource, i64::from(count)),
            QuotaRequest::Release { resource, count } => {
                self.count(&resource, -i64::from(count));
                let done = |eviction: &Eviction| match (eviction, &resource) {
                    (Eviction::Closing(evicted), Resource::Server(pool)) => evicted == pool,
                    _ => false,
                };
                self.evictions.retain(|_, eviction| !done(eviction));
            }
            QuotaRequest::Idle { key, round, longest } => replies.extend(self.idle(from, key, round, longest)),
            QuotaRequest::NotIdle { key } => {
                if let Some(Eviction::Closing(_)) = self.evictions.get(&key) {
                    self.evictions.remove(&key);
                }
            }
        }
        self.grant_waiting(workers, limit, &mut replies);
        replies
    }

    /// How many clients are counted.
    pub(crate) fn clients(&self) -> u32 {
        let of_databases = self.counts.iter().filter(|(key, _)| matches!(key, Key::ClientsOfDatabase(_)));
        of_databases.map(|(_, count)| count).sum()
    }

    /// The limits have changed: returns the replies to requests that now fit.
    pub(crate) fn limits_changed(&mut self, workers: u16, limit: Limit<'_>) -> Vec<QuotaReply> {
        let mut replies = Vec::new();
        self.grant_waiting(workers, limit, &mut replies);
        replies
    }

    /// The limits have changed, and idle servers beyond them are to be closed, one after the other, until `beyond` says
    /// no for a key. The caller repeats this until none is beyond.
    pub(crate) fn shrink(
        &mut self,
        workers: u16,
        limit: Limit<'_>,
        beyond: &dyn Fn(&Key, u32) -> bool,
    ) -> Vec<QuotaReply> {
        self.shrinking =
            self.counts.iter().filter(|(key, count)| beyond(key, **count)).map(|(key, _)| key.clone()).collect();
        let mut replies = Vec::new();
        self.grant_waiting(workers, limit, &mut replies);
        replies
    }

    /// How many servers of a database are counted.
    pub(crate) fn servers_of(&self, database: &str) -> u32 {
        self.counts.get(&Key::ServersOfDatabase(database.into())).copied().unwrap_or(0)
    }

    /// Counts one more, or returns the key that is full.
    pub(crate) fn acquire(&mut self, resource: &Resource, limit: Limit<'_>) -> Result<(), Key> {
        if let Some(full) = resource.keys().into_iter().find(|key| self.is_full(key, limit)) {
            return Err(full);
        }
        self.count(resource, 1);
        Ok(())
    }

    /// Grants waiting requests that fit, and begins or ends the search for idle servers.
    fn grant_waiting(&mut self, workers: u16, limit: Limit<'_>, replies: &mut Vec<QuotaReply>) {
        if self.waiting.is_empty() && self.evictions.is_empty() && self.shrinking.is_empty() {
            return;
        }
        let mut full = self.shrinking.clone();
        for at in self.waiting.keys().copied().collect::<Vec<_>>() {
            let resource = self.waiting[&at].resource.clone();
            let lacking: Vec<Key> = resource.keys().into_iter().filter(|key| self.is_full(key, limit)).collect();
            if !lacking.is_empty() {
                full.extend(lacking);
                continue;
            }
            self.count(&resource, 1);
            self.since.remove(&at.1);
            let to = self.waiting.remove(&at).map_or(WorkerId(0), |waiting| waiting.worker);
            replies.push(QuotaReply::Answer { to, id: at.1, resource, full: None });
        }
        let over: Vec<Key> = self.evictions.keys().filter(|key| !full.contains(*key)).cloned().collect();
        for key in over {
            self.evictions.remove(&key);
            replies.push(QuotaReply::StopFinding { key });
        }
        for key in full {
            if !self.evictions.contains_key(&key) {
                self.rounds += 1;
                let round = self.rounds;
                self.evictions.insert(key.clone(), Eviction::Searching { round, left: workers, best: None });
                replies.push(QuotaReply::FindIdle { key, round });
            }
        }
    }

    /// A worker reports an idle server under a key, or that it has none.
    fn idle(
        &mut self,
        from: WorkerId,
        key: Key,
        answered: Option<u64>,
        longest: Option<(Time, PoolId)>,
    ) -> Option<QuotaReply> {
        let eviction = self.evictions.get_mut(&key)?;
        let found = longest.map(|(since, pool)| (since, from, pool));
        let best = match eviction {
            Eviction::Searching { round, left, best } => {
                let better = |found: &(Time, WorkerId, PoolId)| best.as_ref().is_none_or(|best| found.0 < best.0);
                if let Some(found) = found.filter(better) {
                    *best = Some(found);
                }
                *left -= u16::from(answered == Some(*round));
                if *left > 0 {
                    return None;
                }
                best.take()
            }
            Eviction::NoneIdle => found,
            Eviction::Closing(_) => return None,
        };
        let Some((_, to, pool)) = best else {
            *eviction = Eviction::NoneIdle;
            return None;
        };
        *eviction = Eviction::Closing(pool.clone());
        Some(QuotaReply::Evict { to, pool, key })
    }

    fn is_full(&self, key: &Key, limit: Limit<'_>) -> bool {
        let most = limit(key);
        most > 0 && (most == CLOSED || self.counts.get(key).copied().unwrap_or(0) >= most)
    }

    fn count(&mut self, resource: &Resource, change: i64) {
        for key in resource.keys() {
            let count = self.counts.entry(key.clone()).or_default();
            let changed = i64::from(*count) + change;
            *count = u32::try_from(changed).expect("no more is released than was granted");
            if *count == 0 {
                self.counts.remove(&key);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    #[cfg(test)]
    fn counted(&self, key: &Key) -> u32 {
        self.counts.get(key).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod exhaustive;
#[cfg(test)]
mod tests;
