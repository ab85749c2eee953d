//! Worker 0's limits of pools that several nodes share: what this node may open, and until when.
//!
//! Owns the limits, their expiry, and how many servers are closed here that the server has not ended yet.
//! Must not know how nodes agree. A pool that is shared and has no limit here may open none.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_admin::{ClusterView, NodePeers, SharedLimit, SharedLimits};
use weir_base::{Span, Time};

use crate::cluster::quota::Key;
use crate::cluster::quota::counter::CLOSED;

/// When servers beyond the floor are closed though they are in use, after the limits have expired.
const FORCE_AFTER: Span = Span::from_secs(1);

/// See the head of the file.
pub(crate) struct NodeBudget {
    limits: SharedLimits,
    /// By database.
    ending: BTreeMap<String, u32>,
    /// Servers in use were closed since the limits expired.
    forced: bool,
    pub(crate) armed: Time,
}

impl Default for NodeBudget {
    fn default() -> NodeBudget {
        let (limits, ending) = Default::default();
        NodeBudget { limits, ending, forced: false, armed: Time::NEVER }
    }
}

impl NodeBudget {
    /// Takes over other limits. Returns whether they end at another time.
    pub(crate) fn set(&mut self, limits: SharedLimits) -> bool {
        if limits.until > self.limits.until {
            self.forced = false;
        }
        let differs = limits.until != self.limits.until;
        self.limits = limits;
        differs
    }

    /// The limit of a shared pool, as the counter understands it.
    pub(crate) fn limit(&self, now: Time, database: &str) -> u32 {
        match self.allowed(now, database).saturating_sub(self.ending_of(database)) {
            0 => CLOSED,
            most => most,
        }
    }

    /// What a shared pool may have now.
    pub(crate) fn allowed(&self, now: Time, database: &str) -> u32 {
        let limit = self.limits.pools.get(database).copied().unwrap_or_default();
        let SharedLimit { limit, floor } = limit;
        if now < self.limits.until { limit } else { floor }
    }

    /// A server of a shared pool was closed here: it counts until it has [ended](NodeBudget::ended).
    pub(crate) fn ending(&mut self, database: &str) {
        *self.ending.entry(database.to_owned()).or_default() += 1;
    }

    /// The server has ended it.
    pub(crate) fn ended(&mut self, database: &str) {
        if let Some(count) = self.ending.get_mut(database) {
            *count -= 1;
            if *count == 0 {
                self.ending.remove(database);
            }
        }
    }

    /// How many servers of a database are closed here and still count.
    pub(crate) fn ending_of(&self, database: &str) -> u32 {
        self.ending.get(database).copied().unwrap_or(0)
    }

    /// Returns whether servers in use must be closed now, which it requests once for each expiry.
    pub(crate) fn due(&mut self, now: Time) -> bool {
        let force = !self.forced && self.limits.until > Time::START && now >= self.limits.until + FORCE_AFTER;
        self.forced |= force;
        force
    }

    /// When something is due next.
    pub(crate) fn next_due(&self, now: Time) -> Time {
        let until = self.limits.until;
        match () {
            () if until == Time::START || self.forced => Time::NEVER,
            () if now < until => until,
            () => until + FORCE_AFTER,
        }
    }

    /// The cluster, as the node last reported it; none without a cluster.
    pub(crate) fn view(&self) -> Option<Arc<ClusterView>> {
        (!self.limits.view.node.is_empty()).then(|| self.limits.view.clone())
    }

    /// Where requests to cancel find the clients of each node.
    pub(crate) fn peers(&self) -> &Arc<NodePeers> {
        &self.limits.peers
    }

    /// The pools with a limit.
    pub(crate) fn pools(&self) -> impl Iterator<Item = &String> {
        self.limits.pools.keys()
    }
}

/// Whether a key is the servers of a database.
pub(crate) fn database_of(key: &Key) -> Option<&str> {
    match key {
        Key::ServersOfDatabase(name) => Some(name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::START + Span::from_millis(millis)
    }

    fn budget(limit: u32, floor: u32) -> NodeBudget {
        let pools = [("app".to_owned(), SharedLimit { limit, floor })].into();
        let mut budget = NodeBudget::default();
        budget.set(SharedLimits { until: at(1000), pools, ..SharedLimits::default() });
        budget
    }

    #[test]
    fn an_expired_limit_is_the_floor_and_an_unknown_pool_may_open_none() {
        let budget = budget(5, 1);
        assert_eq!((budget.limit(at(999), "app"), budget.limit(at(1000), "app")), (5, 1));
        assert_eq!(budget.limit(at(0), "other"), CLOSED);
    }

    #[test]
    fn a_closed_server_counts_until_the_server_has_ended_it() {
        let mut budget = budget(2, 0);
        budget.ending("app");
        budget.ending("app");
        assert_eq!((budget.limit(at(20), "app"), budget.ending_of("app")), (CLOSED, 2));
        budget.ended("app");
        assert_eq!(budget.limit(at(20), "app"), 1);
        budget.ended("app");
        assert_eq!((budget.limit(at(20), "app"), budget.limit(at(20), "other")), (2, CLOSED));
    }

    #[test]
    fn servers_in_use_are_closed_once_after_the_limits_have_expired() {
        let mut budget = budget(5, 1);
        assert_eq!((budget.next_due(at(0)), budget.next_due(at(1500))), (at(1000), at(2000)));
        assert!(!budget.due(at(1999)));
        assert!(budget.due(at(2000)) && !budget.due(at(2001)));
        assert_eq!(budget.next_due(at(2001)), Time::NEVER);
    }
}
