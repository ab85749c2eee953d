//! The quota requests for servers of a worker and its pools.
//!
//! A pool without a shared limit sends no requests. A limited one has been granted as many servers as it has, and one
//! more while it opens one. The two are compared whenever the pool is polled, so every end of a server, of whatever
//! kind, releases its grant, and code that ends a server need not handle quotas.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_base::Time;
use weir_config::Config;

use crate::common::{Common, UnderWay};

use super::{IfFull, Key, PoolId, QuotaRequest, Resource};

/// A pool's requests.
#[derive(Default)]
pub(crate) struct PoolQuota {
    limited: bool,
    granted: u32,
    /// When a server was granted last.
    granted_at: Time,
    /// The request without an answer yet.
    request: Option<u64>,
}

impl PoolQuota {
    pub(crate) fn new(limited: bool) -> PoolQuota {
        PoolQuota { limited, ..PoolQuota::default() }
    }

    /// Whether a shared limit applies to the pool.
    pub(crate) fn is_limited(&self) -> bool {
        self.limited
    }

    /// Whether nothing is granted or requested.
    pub(crate) fn is_empty(&self) -> bool {
        self.granted == 0 && self.request.is_none()
    }

    /// Whether a request has no answer yet.
    pub(crate) fn is_waiting(&self) -> bool {
        self.request.is_some()
    }

    /// A request for one more server: for the client that has waited since then, or to keep the pool filled.
    pub(crate) fn request(&mut self, id: u64, pool: PoolId, oldest_wait: Option<Time>) -> QuotaRequest {
        self.request = Some(id);
        let if_full = oldest_wait.map_or(IfFull::Refuse, IfFull::Wait);
        QuotaRequest::Acquire { id, resource: Resource::Server(pool), if_full }
    }

    /// Handles an answer, with the time of the grant if there is one; `false` if its request was cancelled.
    pub(crate) fn answered(&mut self, id: u64, granted: Option<Time>) -> bool {
        if self.request != Some(id) {
            return false;
        }
        self.request = None;
        self.granted += u32::from(granted.is_some());
        self.granted_at = granted.unwrap_or(self.granted_at);
        true
    }

    /// When worker 0 granted the last server.
    pub(crate) fn granted_at(&self) -> Time {
        self.granted_at
    }

    /// The pool has one more server, which was not requested.
    pub(crate) fn add(&mut self) {
        self.granted += u32::from(self.limited);
    }

    /// Cancels the request that has no answer yet.
    pub(crate) fn cancel(&mut self) -> Option<QuotaRequest> {
        self.request.take().map(|id| QuotaRequest::Cancel { id })
    }

    /// What is granted beyond the servers in use: the caller releases it.
    pub(crate) fn take_surplus(&mut self, in_use: u32) -> u32 {
        let surplus = if self.limited { self.granted.saturating_sub(in_use) } else { 0 };
        self.granted -= surplus;
        surplus
    }

    /// A limit applies from now on, to a pool with this many servers.
    pub(crate) fn begin(&mut self, servers: u32) {
        *self = PoolQuota { limited: true, granted: servers, ..PoolQuota::default() };
    }

    /// The limit no longer applies: returns how many to release. A pending request must be cancelled before.
    pub(crate) fn end(&mut self) -> u32 {
        std::mem::take(self).granted
    }

    /// Asserts that every server was granted.
    pub(crate) fn check(&self, servers: usize, pool: &str) {
        assert!(!self.limited || self.granted as usize >= servers, "{pool}: a server that was not granted");
    }
}

/// The keys under which worker 0 searches for an idle server, and whether this worker has reported one since the
/// request.
#[derive(Default)]
pub(crate) struct IdleSearch {
    reported: BTreeMap<Key, Search>,
}

struct Search {
    reported: bool,
    /// The servers of these databases stay.
    spared: Spared,
}

/// Databases whose idle servers are not closed for others.
pub(crate) type Spared = Arc<BTreeSet<Arc<str>>>;

impl IdleSearch {
    /// Worker 0 requests the idle servers of a key.
    pub(crate) fn begin(&mut self, common: &mut Common, key: Key, spared: Spared) {
        self.reported.insert(key, Search { reported: false, spared });
        common.set_under_way(UnderWay::IDLE_SEARCH, true);
    }

    /// The reported server is being closed: the next idle one must be reported as well.
    pub(crate) fn begin_again(&mut self, key: &Key) {
        if let Some(search) = self.reported.get_mut(key) {
            search.reported = false;
        }
    }

    /// Worker 0 has found what it needs under this key.
    pub(crate) fn end(&mut self, common: &mut Common, key: &Key) {
        self.reported.remove(key);
        common.set_under_way(UnderWay::IDLE_SEARCH, self.is_under_way());
    }

    /// Whether there is a key under which worker 0 searches.
    pub(crate) fn is_under_way(&self) -> bool {
        !self.reported.is_empty()
    }

    /// The keys under which an idle server of a pool must be reported now.
    pub(crate) fn report(&mut self, config: &Config, database: &str, user: &str) -> Vec<Key> {
        let mut keys = Vec::new();
        for (key, search) in &mut self.reported {
            if !search.reported && !search.spared.contains(database) && key.covers(config, database, user) {
                search.reported = true;
                keys.push(key.clone());
            }
        }
        keys
    }
}
