//! This worker's view of the node's lease: whether what worker 0 granted may still be used.
//!
//! A process that was frozen may wake with a grant, or in the middle of a login, long after its lease: other nodes may
//! have got what it had. Grants from before the end of a lease are void after it, also if the node has a new lease.

use std::sync::Arc;

use weir_base::Time;

/// See the head of the file.
#[derive(Default)]
pub(crate) struct LeaseState {
    /// The end of the lease, as far as it is known here.
    until: Time,
    /// When a lease ended last without a renewal.
    lapsed: Time,
    /// Why this process can't get one.
    obstacle: Option<Arc<str>>,
}

impl LeaseState {
    /// The lease ends then. `obstacle`: why this process can't get one.
    pub(crate) fn set(&mut self, now: Time, until: Time, obstacle: Option<Arc<str>>) {
        self.obstacle = obstacle;
        if now >= self.until {
            self.lapsed = self.until;
        }
        self.until = until;
    }

    /// Why this process can't get a lease; `None`: it has one, or gets one shortly.
    pub(crate) fn obstacle(&self) -> Option<&str> {
        self.obstacle.as_deref()
    }

    /// Whether a grant from `granted` is void now.
    pub(crate) fn voids(&self, granted: Time, now: Time) -> bool {
        granted < self.lapsed || (granted < self.until && now >= self.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_micros(1_000_000 + millis * 1000)
    }

    #[test]
    fn a_grant_from_before_the_end_of_a_lease_is_void_after_it() {
        let mut lapse = LeaseState::default();
        lapse.set(at(0), at(100), None);
        lapse.set(at(50), at(200), None);
        assert!(!lapse.voids(at(90), at(150)) && lapse.voids(at(90), at(200)));
        // Without a lease there are floors.
        assert!(!lapse.voids(at(200), at(900)));
        lapse.set(at(900), at(1000), None);
        assert!(lapse.voids(at(90), at(950)) && !lapse.voids(at(250), at(950)));
    }
}
