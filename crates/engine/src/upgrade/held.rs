//! How many servers each pool has in other processes of the same Weir: in those that this one takes over from; and what
//! was reported of that to the process that takes over from this one.
//!
//! All processes together have at most the pool's size, as without a take-over: the one that accepts clients opens as
//! many less as the others have, and those open none beyond what they have.

use std::collections::BTreeMap;
use std::sync::Arc;

/// A pool: its database and its user on the server.
pub(crate) type PoolName = (Arc<str>, Arc<str>);

/// See the head of the file.
#[derive(Default)]
pub(crate) struct Held {
    /// The process that this one takes over from has not reported everything yet.
    is_unknown: bool,
    elsewhere: BTreeMap<PoolName, u32>,
    /// What the process that takes over was given last.
    reported: BTreeMap<PoolName, u32>,
}

impl Held {
    /// This process takes over: nothing is known yet.
    pub(crate) fn begin(&mut self) {
        self.is_unknown = true;
    }

    /// The other process has reported this.
    pub(crate) fn note(&mut self, pool: PoolName, servers: u32) {
        if servers == 0 && !self.is_unknown {
            self.elsewhere.remove(&pool);
        } else {
            self.elsewhere.insert(pool, servers);
        }
    }

    /// A server has come from the other process, which counted it when it reported last.
    pub(crate) fn came(&mut self, pool: &PoolName) {
        if let Some(servers) = self.elsewhere.get(pool).copied() {
            self.note(pool.clone(), servers.saturating_sub(1));
        }
    }

    /// The process that this one takes over from has reported each of its pools.
    pub(crate) fn known(&mut self) {
        self.is_unknown = false;
        self.elsewhere.retain(|_, servers| *servers > 0);
    }

    /// The process that this one takes over from has ended.
    pub(crate) fn over(&mut self) {
        (self.is_unknown, self.elsewhere) = (false, BTreeMap::new());
    }

    /// How many servers of a pool are in other processes; `u32::MAX` while that is not known.
    pub(crate) fn of(&self, pool: &PoolName) -> u32 {
        let unknown = if self.is_unknown { u32::MAX } else { 0 };
        self.elsewhere.get(pool).copied().unwrap_or(unknown)
    }

    /// This process has these itself; returns what has changed for the one that takes over.
    pub(crate) fn changes(&mut self, own: BTreeMap<PoolName, u32>) -> Vec<(PoolName, u32)> {
        let mut held: BTreeMap<PoolName, u32> = own
            .into_iter()
            .map(|(pool, servers)| {
                let all = servers.saturating_add(self.of(&pool));
                (pool, all)
            })
            .collect();
        for (pool, servers) in &self.elsewhere {
            held.entry(pool.clone()).or_insert(*servers);
        }
        let gone = self.reported.keys().filter(|pool| !held.contains_key(*pool)).map(|pool| (pool.clone(), 0));
        let new = held.iter().filter(|(pool, servers)| self.reported.get(*pool) != Some(servers));
        let changes = gone.chain(new.map(|(pool, servers)| (pool.clone(), *servers))).collect();
        self.reported = held;
        changes
    }

    /// A server leaves for the process that takes over, which counts it itself from then on: see [`Held::came`].
    pub(crate) fn gave(&mut self, pool: &PoolName) {
        if let Some(servers) = self.reported.get_mut(pool) {
            *servers = servers.saturating_sub(1);
        }
    }

    /// No process takes over any more.
    pub(crate) fn forget_reports(&mut self) {
        self.reported.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(name: &str) -> PoolName {
        (name.into(), "user".into())
    }

    #[test]
    fn a_pool_has_none_to_open_until_the_other_process_has_reported_it() {
        let mut held = Held::default();
        assert_eq!(held.of(&pool("a")), 0);
        held.begin();
        held.note(pool("a"), 2);
        held.note(pool("b"), 0);
        assert_eq!((held.of(&pool("a")), held.of(&pool("b")), held.of(&pool("c"))), (2, 0, u32::MAX));
        held.known();
        assert_eq!((held.of(&pool("a")), held.of(&pool("c"))), (2, 0));
        held.over();
        assert_eq!(held.of(&pool("a")), 0);
    }

    #[test]
    fn a_server_that_comes_is_not_elsewhere_any_more() {
        let mut held = Held::default();
        held.begin();
        held.came(&pool("a"));
        assert_eq!(held.of(&pool("a")), u32::MAX, "it left before the first report");
        held.note(pool("a"), 2);
        held.came(&pool("a"));
        assert_eq!(held.of(&pool("a")), 1);
        held.known();
        held.came(&pool("a"));
        held.came(&pool("a"));
        assert_eq!(held.changes(BTreeMap::new()), [], "none is elsewhere");
    }

    #[test]
    fn a_server_that_left_is_not_counted_as_reported() {
        let mut held = Held::default();
        let own = |servers| BTreeMap::from([(pool("a"), servers)]);
        assert_eq!(held.changes(own(2)), [(pool("a"), 2)]);
        held.gave(&pool("a"));
        assert_eq!(held.changes(own(1)), [], "the other process has counted it");
        held.gave(&pool("a"));
        assert_eq!(held.changes(own(1)), [(pool("a"), 1)], "one was opened instead");
    }

    #[test]
    fn a_process_hands_on_what_older_ones_have() {
        let mut held = Held::default();
        held.begin();
        held.note(pool("a"), 2);
        held.note(pool("b"), 1);
        held.known();
        let own = || BTreeMap::from([(pool("a"), 3), (pool("c"), 1)]);
        let all = vec![(pool("a"), 5), (pool("b"), 1), (pool("c"), 1)];
        assert_eq!(held.changes(own()), all);
        assert_eq!(held.changes(own()), [], "each is reported once");
        held.note(pool("a"), 1);
        held.note(pool("b"), 0);
        assert_eq!(held.changes(own()), [(pool("b"), 0), (pool("a"), 4)]);
        held.over();
        assert_eq!(held.changes(BTreeMap::from([(pool("c"), 1)])), [(pool("a"), 0)]);
    }
}
