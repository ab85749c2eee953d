//! Pools that share the connections of one database server: the checker "guarantees hold".
//!
//! While a pool below its guarantee asks for a server, those above theirs give one back before they serve their own
//! clients. Which of them gives is not seen from outside, so the rule is broken when each of them has served some clients
//! since it must have known. Must not know how workers count, only how long a message may take.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_base::{ConnId, Span, Time};
use weir_config::Config;
use weir_engine::Engine;

use crate::check::{Checker, Violation};
use crate::lending::LONGEST_DELIVERY;

/// By when a pool that must give a server back knows it: the request, the search for idle servers and its answers, the
/// message to the owner, the one to a borrower, each behind another one; and once more, if the search began anew.
const KNOWN: Span = Span::from_micros(LONGEST_DELIVERY.micros() * 24);

/// How many clients of a pool may be served after that: a borrower may serve one each, from servers that were on their
/// way.
const SLACK: u32 = 4;

/// How long nothing is checked after workers adopted new settings or were stopped.
const UNSETTLED: Span = Span::from_millis(300);

/// The observed state of all pools.
#[derive(Default)]
pub(crate) struct Guarantees {
    pools: BTreeMap<(Arc<str>, Arc<str>), Pool>,
    unsettled: Time,
}

#[derive(Default)]
struct Pool {
    owner: usize,
    servers: u32,
    /// Since when it asks for one more.
    asks: Option<Time>,
    /// The first waiter at each worker.
    heads: BTreeMap<usize, (ConnId, Time)>,
    /// How many clients other databases have served since they must have known that it asks.
    passed: BTreeMap<Arc<str>, u32>,
    seen: bool,
}

impl Guarantees {
    /// Settings change, or all pools are stopped.
    pub(crate) fn unsettle(&mut self, now: Time) {
        self.unsettled = now + UNSETTLED;
    }

    /// A worker has handled an input.
    pub(crate) fn observe(&mut self, worker: usize, engine: &Engine, config: &Config, now: Time) -> Option<Violation> {
        if config.servers.is_empty() {
            return None;
        }
        self.pools.values_mut().for_each(|pool| pool.seen = false);
        let mut served: Vec<Arc<str>> = Vec::new();
        for queue in engine.inspect().pool_queues() {
            let pool = self.pools.entry((Arc::clone(queue.database), Arc::clone(queue.user))).or_default();
            let head = match queue.head {
                Some(head) => pool.heads.insert(worker, head),
                None => pool.heads.remove(&worker),
            };
            let gone = head.filter(|head| queue.head != Some(*head));
            served
                .extend(gone.filter(|(client, _)| engine.inspect().is_served(*client)).map(|_| queue.database.clone()));
            if let Some((servers, asks)) = queue.owned {
                (pool.owner, pool.servers, pool.seen) = (worker, servers as u32, true);
                pool.asks = asks.then(|| pool.asks.unwrap_or(now));
            }
        }
        self.pools.retain(|_, pool| pool.seen || pool.owner != worker);
        if now < self.unsettled {
            self.pools
                .values_mut()
                .for_each(|pool| (pool.asks, pool.passed) = (pool.asks.map(|_| now), BTreeMap::new()));
            return None;
        }
        self.pass_over(&served, config, now)
    }

    /// These databases have served a client: finds a pool that all of them pass over.
    fn pass_over(&mut self, served: &[Arc<str>], config: &Config, now: Time) -> Option<Violation> {
        let mut counts: BTreeMap<Arc<str>, u32> = BTreeMap::new();
        for ((database, _), pool) in &self.pools {
            *counts.entry(database.clone()).or_default() += pool.servers;
        }
        let guaranteed = |database: &str| config.share(database).map_or(0, |share| share.guaranteed);
        for ((database, user), pool) in &mut self.pools {
            let below = counts[database] < guaranteed(database);
            let limited = config.user_connections(user) > 0 || config.db_connections(database) > 0;
            let Some(since) = pool.asks.filter(|_| below && !limited) else {
                pool.passed.clear();
                continue;
            };
            if now < since + KNOWN {
                continue;
            }
            served.iter().for_each(|other| *pool.passed.entry(other.clone()).or_default() += 1);
            let server = config.share(database).and_then(|share| share.server.as_ref());
            let shares = |other: &str| config.share(other).and_then(|share| share.server.as_ref()) == server;
            let mut above =
                counts.iter().filter(|(other, count)| shares(other) && **count > guaranteed(other)).peekable();
            let passed = |other: &str| pool.passed.get(other).is_some_and(|served| *served > SLACK);
            if above.peek().is_some() && above.all(|(other, _)| passed(other)) {
                let what = format!(
                    "{database} as {user} has fewer servers than guaranteed and asks since {} µs; meanwhile others above \
                     their guarantee served clients: {:?}",
                    now.since(since).micros(),
                    pool.passed
                );
                return Some(Violation { checker: Checker::GuaranteesHold, what });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use weir_config::{PoolConfig, PoolShare, ServerRules};

    use super::*;

    fn config() -> Config {
        let mut config = Config::default();
        config.servers.insert("s".to_owned(), ServerRules { max_connections: 3, guaranteed: 0 });
        for (name, guaranteed) in [("storm", 0), ("quiet", 1), ("third", 1)] {
            let share = PoolShare { server: Some("s".into()), guaranteed, weight: 1 };
            config.pools.insert(
                name.to_owned(),
                Arc::new(PoolConfig { name: name.to_owned(), share, ..PoolConfig::default() }),
            );
        }
        config.sum_guarantees();
        config
    }

    fn observed(storm: u32, third: u32, asks: Option<Time>) -> Guarantees {
        let pool = |servers, asks| Pool { servers, asks, ..Pool::default() };
        let pools = [("storm", pool(storm, None)), ("quiet", pool(0, asks)), ("third", pool(third, None))];
        let pools = pools.into_iter().map(|(name, pool)| ((Arc::from(name), Arc::from("app")), pool)).collect();
        Guarantees { pools, unsettled: Time::START }
    }

    fn found(mut seen: Guarantees, now: Time, served: &str, times: u32) -> bool {
        (0..times).any(|_| seen.pass_over(&[served.into()], &config(), now).is_some())
    }

    #[test]
    fn a_pool_below_its_guarantee_that_is_passed_over_is_found() {
        let start = Time::from_micros(1_000_000);
        let late = start + KNOWN;
        assert!(found(observed(2, 1, Some(start)), late, "storm", SLACK + 1));
        assert!(!found(observed(2, 1, Some(start)), late, "storm", SLACK), "those were on their way");
        assert!(
            !found(observed(2, 1, Some(start + Span::from_millis(1))), late, "storm", 9),
            "it may not be known yet"
        );
        assert!(!found(observed(2, 1, None), late, "storm", 9), "nobody asks");
        assert!(!found(observed(1, 2, Some(start)), late, "storm", 9), "another one may be about to give");
        assert!(!found(observed(2, 1, Some(start)), late, "third", 9), "it keeps what is guaranteed to it");
    }
}
