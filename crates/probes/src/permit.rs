//! Connections beside the pools' servers, to look at a pool's server or to test it: each is one of the node's share of
//! the pool.
//!
//! Owns who wants one, and who has it: one of a pool at a time. The node's thread keeps a connection of the share free
//! for it, and grants it when the workers have no more than the rest. Must not know what the connection is for.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weir_admin::ProbeError;

/// How long one waits for a part of the share.
const WAIT: Duration = Duration::from_secs(2);
/// A permit that is not used within this time is void: the process may have been frozen, and the share be another
/// node's.
const FRESH: Duration = Duration::from_secs(1);
/// How long a connection counts whose end at the server was not seen: a query of it may still run.
const LINGER: Duration = Duration::from_secs(4);

/// See the head of the file; cheap to clone.
#[derive(Clone, Default)]
pub struct Permits(Arc<Shared>);

#[derive(Default)]
struct Shared {
    pools: Mutex<BTreeMap<String, Place>>,
    changed: Condvar,
}

/// What a pool's share is asked for.
#[derive(Default)]
struct Place {
    /// Callers that wait.
    waiting: u32,
    has: Has,
}

#[derive(Default)]
enum Has {
    #[default]
    Nothing,
    /// A caller may take the connection, until the lease ends.
    Granted { at: Instant, until: Option<Instant> },
    /// A caller has the connection.
    Taken,
    /// The permit's connection may still be open.
    Lingers(Instant),
}

/// A connection of the share; its end gives it back.
pub(crate) struct Permit {
    permits: Permits,
    pool: String,
    /// The connection must be gone by then.
    until: Option<Instant>,
    ended: bool,
}

impl Permits {
    fn pools(&self) -> MutexGuard<'_, BTreeMap<String, Place>> {
        self.0.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a connection of this node's share of a pool.
    ///
    /// # Errors
    /// None became free.
    pub(crate) fn take(&self, pool: &str) -> Result<Permit, ProbeError> {
        let by = Instant::now() + WAIT;
        let mut pools = self.pools();
        pools.entry(pool.to_owned()).or_default().waiting += 1;
        loop {
            let now = Instant::now();
            let place = pools.entry(pool.to_owned()).or_default();
            if let Has::Granted { at, until } = place.has {
                let is_fresh = now - at < FRESH && until.is_none_or(|until| now < until);
                place.has = if is_fresh { Has::Taken } else { Has::Nothing };
                if is_fresh {
                    place.waiting -= 1;
                    return Ok(Permit { permits: self.clone(), pool: pool.to_owned(), until, ended: false });
                }
            }
            if now >= by {
                place.waiting -= 1;
                return Err(ProbeError::NoShare(pool.to_owned()));
            }
            let waited = self.0.changed.wait_timeout(pools, by - now);
            pools = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The pools of whose share a connection is to be left free, and whether somebody still waits for it.
    pub fn wanted(&self) -> BTreeMap<String, bool> {
        let now = Instant::now();
        let mut pools = self.pools();
        pools.retain(|_, place| {
            match place.has {
                Has::Lingers(until) if now >= until => place.has = Has::Nothing,
                // Who waited for it has given up.
                Has::Granted { .. } if place.waiting == 0 => place.has = Has::Nothing,
                _ => {}
            }
            place.waiting > 0 || !matches!(place.has, Has::Nothing)
        });
        let waits = |place: &Place| matches!(place.has, Has::Nothing);
        pools.iter().map(|(name, place)| (name.clone(), waits(place))).collect()
    }

    /// The workers leave a connection of the pool's share free, for so long; `None`: it is of the floor.
    pub fn grant(&self, pool: &str, lease: Option<Duration>) {
        let now = Instant::now();
        if let Some(place) = self.pools().get_mut(pool).filter(|place| matches!(place.has, Has::Nothing)) {
            place.has = Has::Granted { at: now, until: lease.map(|lease| now + lease) };
        }
        self.0.changed.notify_all();
    }

    /// Whether a connection may be open, or may be opened at any moment.
    pub fn are_used(&self) -> bool {
        self.wanted().values().any(|waits| !waits)
    }
}

impl Permit {
    /// How long the connection may take: this time, or less if it must be gone before.
    pub(crate) fn limit(&self, timeout: Duration) -> Duration {
        self.until.map_or(timeout, |until| timeout.min(until.saturating_duration_since(Instant::now())))
    }

    /// The server has ended the connection.
    pub(crate) fn ended(mut self) {
        self.ended = true;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(place) = self.permits.pools().get_mut(&self.pool) {
            place.has = if self.ended { Has::Nothing } else { Has::Lingers(Instant::now() + LINGER) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Waits until a caller waits for a pool.
    fn await_wish(permits: &Permits) {
        while permits.wanted().get("app") != Some(&true) {
            thread::yield_now();
        }
    }

    #[test]
    fn a_connection_is_had_by_one_at_a_time_and_counts_until_its_end() {
        let permits = Permits::default();
        let taker = permits.clone();
        let taken = thread::spawn(move || taker.take("app"));
        await_wish(&permits);
        permits.grant("app", None);
        let first = taken.join().unwrap().unwrap();
        assert_eq!(permits.wanted().get("app"), Some(&false));
        permits.grant("app", None);
        assert!(permits.are_used(), "it is the first one's");
        first.ended();
        assert!(permits.wanted().is_empty() && !permits.are_used());
    }

    #[test]
    fn a_connection_whose_end_was_not_seen_lingers() {
        let permits = Permits::default();
        let taker = permits.clone();
        let taken = thread::spawn(move || taker.take("app"));
        await_wish(&permits);
        permits.grant("app", None);
        drop(taken.join().unwrap().unwrap());
        assert_eq!(permits.wanted().get("app"), Some(&false));
    }

    #[test]
    fn without_a_part_of_the_share_there_is_none() {
        let permits = Permits::default();
        let refused = permits.take("app").err();
        assert_eq!(refused, Some(ProbeError::NoShare("app".to_owned())));
        assert!(permits.wanted().is_empty());
        permits.grant("app", None);
        assert!(permits.wanted().is_empty(), "nobody waits");
    }
}
