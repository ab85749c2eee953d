//! Worker 0's limits of pools that several nodes share: what this node may open, and until when.
//!
//! Owns the limits, their expiry, and how many servers are closed here that the server has not ended yet. While one
//! process takes over from another, the limits are of both: the old one keeps what it has open, and the new one leaves
//! it that much. Must not know how nodes agree. A pool that is shared and has no limit here may open none.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_admin::{ClusterView, NodePeers, SharedLimit, SharedLimits};
use weir_base::{Span, Time};

use crate::workers::quota::Key;
use crate::workers::quota::counter::CLOSED;

/// When servers beyond the floor are closed though they are in use, after the limits have expired.
const FORCE_AFTER: Span = Span::from_secs(1);

/// See the head of the file.
pub(crate) struct NodeBudget {
    limits: SharedLimits,
    /// How many servers are closed here that the server has not ended yet, by database.
    ending: BTreeMap<String, u32>,
    /// What the process that this one takes over from keeps, by database.
    left_to_other: BTreeMap<String, u32>,
    /// What this process keeps of the limits, by database, since it exports.
    kept: Option<BTreeMap<String, u32>>,
    /// Servers in use were closed since the limits expired.
    forced: bool,
    pub(crate) armed: Time,
}

impl Default for NodeBudget {
    fn default() -> NodeBudget {
        let (limits, ending, left_to_other) = Default::default();
        NodeBudget { limits, ending, left_to_other, kept: None, forced: false, armed: Time::NEVER }
    }
}

impl NodeBudget {
    /// Takes over other limits; `servers` counts those of a database. Returns whether the limits end at another time,
    /// or another reason keeps this node from having any.
    pub(crate) fn set(&mut self, mut limits: SharedLimits, servers: impl Fn(&str) -> u32) -> bool {
        if let Some(left) = limits.left_to_other.take() {
            self.left_to_other = left;
        }
        if !limits.is_exporting {
            self.kept = None;
        } else if self.kept.is_none() {
            let counts = |name: &String| servers(name) + self.ending_of(name) + self.left_to_other(name);
            self.kept = Some(limits.pools.keys().map(|name| (name.clone(), counts(name))).collect());
        }
        if limits.until > self.limits.until {
            self.forced = false;
        }
        let differs = limits.until != self.limits.until || limits.view.obstacle() != self.limits.view.obstacle();
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
        let most = if now < self.limits.until { limit } else { floor };
        let kept = self.kept.as_ref().map_or(most, |kept| kept.get(database).copied().unwrap_or(0));
        most.min(kept).saturating_sub(self.left_to_other(database))
    }

    /// What the process that this one takes over from keeps of the limit.
    pub(crate) fn left_to_other(&self, database: &str) -> u32 {
        self.left_to_other.get(database).copied().unwrap_or(0)
    }

    /// A server goes to the process that takes over, with its part of the limit.
    pub(crate) fn server_goes(&mut self, database: &str) {
        if let Some(count) = self.kept.as_mut().and_then(|kept| kept.get_mut(database)) {
            *count = count.saturating_sub(1);
        }
    }

    /// A server has come from the process that this one takes over from, or back from the one that was to take over.
    pub(crate) fn server_came(&mut self, database: &str) {
        if let Some(count) = self.left_to_other.get_mut(database).filter(|count| **count > 0) {
            *count -= 1;
        } else if let Some(count) = self.kept.as_mut().and_then(|kept| kept.get_mut(database)) {
            *count += 1;
        }
    }

    /// A server of a shared pool was closed here: it counts until it has [ended](NodeBudget::ended).
    pub(crate) fn ending(&mut self, database: &str) {
        *self.ending.entry(database.to_owned()).or_default() += 1;
    }

    /// The server has ended a connection of a shared pool that was closed here.
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

/// The database whose servers a key counts; `None` for other keys.
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
        budget.set(SharedLimits { until: at(1000), pools, ..SharedLimits::default() }, |_| 0);
        budget
    }

    #[test]
    fn two_processes_have_one_limit_while_one_takes_over() {
        let (mut old, mut new) = (budget(5, 1), budget(5, 1));
        old.ending("app");
        old.set(SharedLimits { is_exporting: true, ..old.limits.clone() }, |_| 2);
        new.set(SharedLimits { left_to_other: Some([("app".to_owned(), 3)].into()), ..new.limits.clone() }, |_| 0);
        assert_eq!((old.allowed(at(0), "app"), new.allowed(at(0), "app")), (3, 2));
        old.server_goes("app");
        assert_eq!((old.allowed(at(0), "app"), new.allowed(at(0), "app")), (2, 2), "it is on its way");
        new.server_came("app");
        assert_eq!((old.allowed(at(0), "app"), new.allowed(at(0), "app")), (2, 3));
        assert_eq!((old.allowed(at(1000), "app"), new.allowed(at(1000), "app")), (1, 0), "the floor is for both, too");
        old.server_came("app");
        assert_eq!(old.allowed(at(0), "app"), 3, "it has come back");
        new.set(SharedLimits { left_to_other: Some(BTreeMap::new()), ..new.limits.clone() }, |_| 0);
        assert_eq!(new.allowed(at(0), "app"), 5, "the old process has ended");
        old.set(SharedLimits { is_exporting: false, ..old.limits.clone() }, |_| 0);
        assert_eq!(old.allowed(at(0), "app"), 5, "it serves on");
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
