//! Worker 0's side of the quotas: the count of each key, the waiting requests, and whose idle server is closed for
//! them.
//!
//! Pure: takes requests and limits, and returns replies. For servers the rules are PgBouncer's
//! (`launch_new_connection`): one is opened only below both limits; if one of them is reached and a client waits, the
//! server that has been idle longest in another pool of the same database, or user, is closed for it; filling up to
//! `min_pool_size` closes none.
//!
//! Where pools share the connections of a database server, `shares` has the order, and servers in use are taken back, too.
//!
//! Always true, and asserted by its tests: nothing is granted beyond a limit (servers from before the limit count, and
//! requests wait for them); other requests are granted by the age of their wait, and one without room under a key delays
//! none under another; each has one answer, unless it is cancelled; for each full key at most one idle server is being
//! closed at a time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use weir_base::{Time, WorkerId};

use super::servers::Spared;
use super::shares::{Asking, ServerRule, Shares};
use super::{IfFull, Key, PoolId, QuotaReply, QuotaRequest, Resource, Share};

/// The configured limits.
pub(crate) trait Limits {
    /// The limit of a key; 0 is unlimited.
    fn limit(&self, key: &Key) -> u32;

    /// A pool's share of a database server's connections, where these have a limit.
    fn share(&self, _pool: &PoolId) -> Option<Share> {
        None
    }

    /// The sum of what a database server's pools are guaranteed.
    fn guaranteed(&self, _server: &str) -> u32 {
        0
    }
}

impl<F: Fn(&Key) -> u32> Limits for F {
    fn limit(&self, key: &Key) -> u32 {
        self(key)
    }
}

pub(crate) type Limit<'a> = &'a dyn Limits;

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
    shares: Shares,
}

#[cfg_attr(test, derive(Clone))]
struct WaitingRequest {
    worker: WorkerId,
    resource: Resource,
}

/// The age and the number of a waiting request.
type At = (Time, u64);

/// The progress of the search for an idle server under a full key.
#[cfg_attr(test, derive(Clone))]
enum Eviction {
    /// This many workers have not answered yet; the best answer so far.
    Searching { round: u64, left: u16, best: Option<(Time, WorkerId, PoolId)>, spared: Spared },
    /// No server was idle. The first that becomes idle is reported.
    NoneIdle { spared: Spared },
    /// A server of this pool is being closed.
    Closing(PoolId),
    /// A server was reported that must stay: the search begins again.
    Again,
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
                let full = self.acquire(from, &resource, limit).err();
                replies.push(QuotaReply::Answer { to: from, id, resource, full });
            }
            QuotaRequest::Cancel { id } => {
                if let Some(since) = self.since.remove(&id) {
                    self.waiting.remove(&(since, id));
                }
            }
            QuotaRequest::Add { resource, count } => self.count(from, &resource, i64::from(count), limit),
            QuotaRequest::Release { resource, count } => {
                let done = |eviction: &Eviction| match (eviction, &resource) {
                    (Eviction::Closing(evicted), Resource::Server(pool)) => evicted == pool,
                    _ => false,
                };
                let closed: Vec<Key> =
                    self.evictions.iter().filter(|(_, eviction)| done(eviction)).map(|(key, _)| key.clone()).collect();
                let heir = closed.iter().find_map(|key| self.heir(key, limit));
                self.count(from, &resource, -i64::from(count), limit);
                self.evictions.retain(|key, _| !closed.contains(key));
                let may_be_granted = |at: &At| {
                    let resource = &self.waiting[at].resource;
                    self.lacking(resource, limit).is_empty() && !self.must_leave_room(resource, limit)
                };
                if let Some(at) = heir.filter(may_be_granted) {
                    self.grant(at, limit, &mut replies);
                }
            }
            QuotaRequest::Idle { key, round, longest } => replies.extend(self.idle(from, key, (round, longest), limit)),
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
        let lifted = self.shares.set_rules(&|pool| limit.share(pool));
        let mut replies: Vec<QuotaReply> = lifted.into_iter().map(may_keep).collect();
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
    pub(crate) fn acquire(&mut self, from: WorkerId, resource: &Resource, limit: Limit<'_>) -> Result<(), Key> {
        if let Some(full) = self.lacking(resource, limit).into_iter().next() {
            return Err(full);
        }
        if let Some(share) = share_of(resource, limit).filter(|_| self.must_leave_room(resource, limit)) {
            return Err(Key::ConnectionsOf(share.server));
        }
        self.count(from, resource, 1, limit);
        Ok(())
    }

    /// The keys under which there is no room for one more.
    fn lacking(&self, resource: &Resource, limit: Limit<'_>) -> Vec<Key> {
        let mut lacking: Vec<Key> = resource.keys().into_iter().filter(|key| self.is_full(key, limit)).collect();
        if let Some(share) = share_of(resource, limit) {
            let key = Key::ConnectionsOf(share.server.clone());
            if self.shares.total(&share.server) >= limit.limit(&key) {
                lacking.push(key);
            }
        }
        lacking
    }

    /// Whether a waiting request must leave the room that is there to others.
    fn must_leave_room(&self, resource: &Resource, limit: Limit<'_>) -> bool {
        let (Resource::Server(pool), Some(share)) = (resource, share_of(resource, limit)) else { return false };
        share.keeps && self.shares.must_leave_room(pool, &share, rule(limit, &share.server))
    }

    /// Grants waiting requests that fit, and begins or ends the search for idle servers.
    fn grant_waiting(&mut self, workers: u16, limit: Limit<'_>, replies: &mut Vec<QuotaReply>) {
        let nothing = self.waiting.is_empty() && self.evictions.is_empty() && self.shrinking.is_empty();
        if nothing && self.shares.is_empty() {
            return;
        }
        let mut full = self.shrinking.clone();
        // The database servers where what room is left must be left to others.
        let mut left = BTreeSet::new();
        // Those where a request must leave it: what is closed for others would not help it.
        let leaving = self.leaving(limit);
        for at in self.waiting.keys().copied().collect::<Vec<_>>() {
            while let Some(next) = self.next(at, limit, &mut full, &mut left) {
                self.grant(next, limit, replies);
                if next == at {
                    break;
                }
            }
        }
        full.extend(leaving.into_iter().map(Key::ConnectionsOf).filter(|key| self.helps_to_search(key, limit)));
        let over: Vec<Key> = self.evictions.keys().filter(|key| !full.contains(*key)).cloned().collect();
        for key in over {
            self.evictions.remove(&key);
            replies.push(QuotaReply::StopFinding { key });
        }
        for key in full {
            let spared = self.spared(&key, limit);
            let goes_on = match self.evictions.get(&key) {
                // What must stay since then is not taken when it is reported.
                Some(Eviction::Searching { spared: before, .. } | Eviction::NoneIdle { spared: before }) => {
                    before.is_subset(&spared)
                }
                Some(Eviction::Closing(_)) => true,
                Some(Eviction::Again) | None => false,
            };
            if !goes_on {
                self.rounds += 1;
                let round = self.rounds;
                let searching = Eviction::Searching { round, left: workers, best: None, spared: spared.clone() };
                self.evictions.insert(key.clone(), searching);
                replies.push(QuotaReply::FindIdle { key, round, spared });
            }
        }
        self.take_back(limit, replies);
    }

    /// The request to be granted when it is the turn of this one: another one of the same database server may be before
    /// it there. `None`: it is granted, or there is no room, as `full` then says.
    fn next(&self, at: At, limit: Limit<'_>, full: &mut BTreeSet<Key>, left: &mut BTreeSet<Arc<str>>) -> Option<At> {
        let resource = &self.waiting.get(&at)?.resource;
        if self.must_leave_room(resource, limit) {
            return None;
        }
        let lacking = self.lacking(resource, limit);
        if !lacking.is_empty() {
            full.extend(lacking);
            return None;
        }
        let Some(share) = share_of(resource, limit) else { return Some(at) };
        if left.contains(&share.server) {
            return None;
        }
        let first = self.asking(&share.server, limit).filter(|asking| {
            let resource = &self.waiting[&asking.at].resource;
            self.lacking(resource, limit).is_empty() && !self.must_leave_room(resource, limit)
        });
        let first = first.min_by(|a, b| self.shares.order(a, b)).map(|asking| asking.at);
        if first.is_none() {
            left.insert(share.server);
        }
        first
    }

    /// The waiting requests for connections to a database server, by their age.
    fn asking<'a>(&'a self, server: &'a str, limit: Limit<'a>) -> impl Iterator<Item = Asking> + 'a {
        self.waiting.iter().filter_map(move |(at, WaitingRequest { resource, .. })| {
            let share = share_of(resource, limit).filter(|share| *share.server == *server)?;
            let Resource::Server(pool) = resource else { return None };
            Some(Asking { pool: pool.clone(), share, at: *at })
        })
    }

    /// The database servers for whose connections a request waits that must leave the room there is to others.
    fn leaving(&self, limit: Limit<'_>) -> BTreeSet<Arc<str>> {
        let leaves = |request: &WaitingRequest| {
            let share = share_of(&request.resource, limit)?;
            self.must_leave_room(&request.resource, limit).then_some(share.server)
        };
        self.waiting.values().filter_map(leaves).collect()
    }

    /// Whether there are servers under a key that are closed if they are idle.
    fn helps_to_search(&self, key: &Key, limit: Limit<'_>) -> bool {
        let Key::ConnectionsOf(server) = key else { return true };
        let spared = self.spared(key, limit);
        self.shares.members(server).any(|name| !spared.contains(name))
    }

    /// Who gets the server that is being closed under a key before all others: another user of its pool who waits. Not
    /// so if the pool is above its guarantee and another one waits below its own.
    fn heir(&self, key: &Key, limit: Limit<'_>) -> Option<At> {
        let (Key::ConnectionsOf(server), Some(Eviction::Closing(pool))) = (key, self.evictions.get(key)) else {
            return None;
        };
        let wants: Vec<Asking> =
            self.asking(server, limit).filter(|asking| self.lacks_at_most(asking, key, limit)).collect();
        let others_first = self.shares.is_above(server, &pool.database)
            && wants.iter().any(|asking| asking.pool.database != pool.database && self.shares.is_below(asking));
        let own = wants.iter().filter(|asking| asking.pool.database == pool.database && asking.pool != *pool);
        own.min_by(|a, b| self.shares.order(a, b)).map(|asking| asking.at).filter(|_| !others_first)
    }

    /// Whether a waiting request has room under all keys but this one.
    fn lacks_at_most(&self, asking: &Asking, key: &Key, limit: Limit<'_>) -> bool {
        self.lacking(&self.waiting[&asking.at].resource, limit).iter().all(|lacking| lacking == key)
    }

    fn grant(&mut self, at: At, limit: Limit<'_>, replies: &mut Vec<QuotaReply>) {
        self.since.remove(&at.1);
        let Some(WaitingRequest { worker: to, resource }) = self.waiting.remove(&at) else { return };
        if let Resource::Server(pool) = &resource {
            let owner = self.shares.lift_ceiling(pool);
            replies.extend(owner.map(|owner| may_keep((owner, pool.clone()))));
        }
        self.count(to, &resource, 1, limit);
        replies.push(QuotaReply::Answer { to, id: at.1, resource, full: None });
    }

    /// Pools give servers back to others of the same database server, once none is idle there.
    fn take_back(&mut self, limit: Limit<'_>, replies: &mut Vec<QuotaReply>) {
        if self.shares.is_empty() {
            return;
        }
        let rules = |server: &str| rule(limit, server);
        let mut servers: BTreeSet<Arc<str>> = self.shares.beyond(&rules).collect();
        servers.extend(self.shares.asked().cloned());
        servers.extend(self.evictions.keys().filter_map(|key| match key {
            Key::ConnectionsOf(name) => Some(name.clone()),
            _ => None,
        }));
        for server in servers {
            let key = Key::ConnectionsOf(server.clone());
            let heir = self.heir(&key, limit);
            let freed = match self.evictions.get(&key) {
                Some(Eviction::Searching { .. } | Eviction::Again) => continue,
                Some(Eviction::Closing(_)) => usize::from(heir.is_none()),
                Some(Eviction::NoneIdle { .. }) | None => 0,
            };
            let takes = |asking: &Asking| {
                let resource = &self.waiting[&asking.at].resource;
                let lacks_this = self.lacking(resource, limit) == [Key::ConnectionsOf(asking.share.server.clone())];
                lacks_this && heir != Some(asking.at) && !self.must_leave_room(resource, limit)
            };
            let waiting = self.asking(&server, limit).filter(takes).collect();
            let ceilings = self.shares.give_back(&server, waiting, freed, rules(&server));
            let news = self.shares.set_ceilings(&server, &ceilings);
            replies.extend(news.into_iter().map(|(to, pool, servers)| QuotaReply::KeepAtMost { to, pool, servers }));
        }
    }

    /// The databases whose idle servers must stay.
    fn spared(&self, key: &Key, limit: Limit<'_>) -> Spared {
        let Key::ConnectionsOf(server) = key else { return Spared::default() };
        let (mut takers, mut leaving) = (Vec::new(), Vec::new());
        for asking in self.asking(server, limit) {
            let resource = &self.waiting[&asking.at].resource;
            match self.must_leave_room(resource, limit) {
                true => leaving.push(asking.pool),
                false if self.lacks_at_most(&asking, key, limit) => takers.push(asking.pool),
                false => {}
            }
        }
        let beyond = !takers.is_empty() || self.shrinking.contains(key);
        self.shares.spared(server, beyond, &takers, &leaving)
    }

    /// A worker reports an idle server under a key, or that it has none.
    fn idle(
        &mut self,
        from: WorkerId,
        key: Key,
        (answered, longest): (Option<u64>, Option<(Time, PoolId)>),
        limit: Limit<'_>,
    ) -> Option<QuotaReply> {
        let spared = self.spared(&key, limit);
        let eviction = self.evictions.get_mut(&key)?;
        let found = longest.map(|(since, pool)| (since, from, pool));
        let (best, searched) = match eviction {
            Eviction::Searching { round, left, best, spared } => {
                let better = |found: &(Time, WorkerId, PoolId)| best.as_ref().is_none_or(|best| found.0 < best.0);
                if let Some(found) = found.filter(better) {
                    *best = Some(found);
                }
                *left -= u16::from(answered == Some(*round));
                if *left > 0 {
                    return None;
                }
                (best.take(), spared.clone())
            }
            Eviction::NoneIdle { spared } => (found, spared.clone()),
            Eviction::Closing(_) | Eviction::Again => return None,
        };
        let Some((_, to, pool)) = best else {
            *eviction = Eviction::NoneIdle { spared: searched };
            return None;
        };
        if let Key::ConnectionsOf(server) = &key
            && (spared.contains(&pool.database) || !self.shares.shares(server, &pool))
        {
            *eviction = Eviction::Again;
            return None;
        }
        *eviction = Eviction::Closing(pool.clone());
        Some(QuotaReply::Evict { to, pool, key })
    }

    fn is_full(&self, key: &Key, limit: Limit<'_>) -> bool {
        let most = limit.limit(key);
        most > 0 && (most == CLOSED || self.counts.get(key).copied().unwrap_or(0) >= most)
    }

    fn count(&mut self, from: WorkerId, resource: &Resource, change: i64, limit: Limit<'_>) {
        if let Resource::Server(pool) = resource {
            self.shares.count(pool, change, &|pool| limit.share(pool));
            self.shares.set_owner(pool, from);
        }
        for key in resource.keys() {
            let count = self.counts.entry(key.clone()).or_default();
            let changed = i64::from(*count) + change;
            *count = u32::try_from(changed).expect("no more is released than was granted");
            if *count == 0 {
                self.counts.remove(&key);
            }
        }
    }

    /// The shares of database servers' connections, with who waits.
    pub(crate) fn shares(&self) -> &Shares {
        &self.shares
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

fn share_of(resource: &Resource, limit: Limit<'_>) -> Option<Share> {
    if let Resource::Server(pool) = resource { limit.share(pool) } else { None }
}

fn rule(limit: Limit<'_>, server: &str) -> ServerRule {
    ServerRule { most: limit.limit(&Key::ConnectionsOf(server.into())), guaranteed: limit.guaranteed(server) }
}

/// A pool may keep all that it has.
fn may_keep((to, pool): (WorkerId, PoolId)) -> QuotaReply {
    QuotaReply::KeepAtMost { to, pool, servers: None }
}

#[cfg(test)]
mod exhaustive;
#[cfg(test)]
mod tests;
