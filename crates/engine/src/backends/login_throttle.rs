//! Logins at servers, so many at once to one place and no more, over all pools of this worker.
//!
//! A pool paces its own logins; a place that thousands of pools come back to at once, because it was restarted, is to be
//! protected from all of them together. Owns how many logins are under way to each place, and the line of pools that wait
//! for their turn there. What is under way is compared with what the pool says at each settling, as permits are, so that
//! every end of a login, whatever it was, gives its turn back.
//!
//! A place that can't be reached can't be reached by the next in line either: they are told so without trying.

use weir_base::{Target, Time};
use weir_session::ServerError;

use crate::Engine;
use crate::common::FollowUp;
use crate::handles::PoolIx;
use crate::port::Io;

impl Engine {
    /// This worker's part of `max_logins_per_host`.
    fn logins_at_once(&self) -> u32 {
        match self.common.config().max_logins_per_host {
            0 => u32::MAX,
            most => (most / u32::from(self.common.workers())).max(1),
        }
    }

    /// The pool may open a server: it does so now, at the first of its places that has room for one more login, or when its
    /// turn comes at the one that is next.
    pub(crate) fn take_turn<I: Io>(&mut self, now: Time, ix: PoolIx, io: &mut I) {
        self.end_turn(now, ix, io);
        let most = self.logins_at_once();
        let slot = self.pools.get_mut(ix);
        for _ in 0..slot.config.targets.len() {
            if self.backends.throttle.has_room(slot.places.peek(&slot.config), most) {
                return self.open_server(now, ix, io);
            }
            slot.places.pass(&slot.config);
        }
        let target = slot.places.peek(&slot.config).clone();
        self.backends.throttle.wait(&target, ix);
        slot.turn.waits_at = Some(target);
    }

    /// A login of the pool begins there.
    pub(crate) fn turn_begins(&mut self, ix: PoolIx, target: &Target) {
        self.backends.throttle.begin(target);
        self.pools.get_mut(ix).turn.at = Some(target.clone());
    }

    /// Sees to it that a pool has a turn only while it logs in, and waits for one only while it wants one.
    pub(crate) fn square_turns<I: Io>(&mut self, now: Time, ix: PoolIx, io: &mut I) {
        let slot = self.pools.get_mut(ix);
        if !slot.pool.wants_server() {
            self.leave_line(now, ix);
        }
        if !self.pools.get(ix).pool.is_logging_in() {
            self.end_turn(now, ix, io);
        }
    }

    /// A pool that waits for its turn waits no more.
    pub(crate) fn leave_line(&mut self, now: Time, ix: PoolIx) {
        let slot = self.pools.get_mut(ix);
        if let Some(target) = slot.turn.waits_at.take() {
            slot.pool.open_declined(now, now);
            self.backends.throttle.leave(&target, ix);
        }
    }

    fn end_turn<I: Io>(&mut self, now: Time, ix: PoolIx, io: &mut I) {
        if let Some(target) = self.pools.get_mut(ix).turn.at.take() {
            self.backends.throttle.end(&target);
            self.call_next(now, &target, io);
        }
    }

    /// Those in line go on as far as there is room.
    fn call_next<I: Io>(&mut self, now: Time, target: &Target, io: &mut I) {
        let most = self.logins_at_once();
        while let Some(ix) = self.backends.throttle.next(target, most) {
            let slot = self.pools.get_mut(ix);
            slot.turn.waits_at = None;
            if !slot.pool.wants_server() {
                slot.pool.open_declined(now, now);
            } else if slot.places.peek(&slot.config) == target {
                self.open_server(now, ix, io);
            } else {
                // A reload has moved it.
                self.take_turn(now, ix, io);
            }
            self.common.follow_up(FollowUp::PollPool(ix));
        }
    }

    /// A new configuration may leave more room, and have moved those who wait to other places.
    pub(crate) fn review_turns<I: Io>(&mut self, now: Time, io: &mut I) {
        for ix in self.pools.indices() {
            let slot = self.pools.get_mut(ix);
            let Some(target) = slot.turn.waits_at.clone() else { continue };
            if slot.places.peek(&slot.config) == &target {
                self.call_next(now, &target, io);
            } else {
                slot.turn.waits_at = None;
                self.backends.throttle.leave(&target, ix);
                self.take_turn(now, ix, io);
                self.common.follow_up(FollowUp::PollPool(ix));
            }
        }
    }

    /// Asserts that turns and pools agree. Costs a walk over all pools.
    pub(crate) fn check_turns(&self) {
        let (mut under_way, mut waiting) = (0, 0);
        for slot in self.pools.iter() {
            under_way += u32::from(slot.turn.at.is_some());
            waiting += usize::from(slot.turn.waits_at.is_some());
            assert!(slot.turn.at.is_some() || !slot.pool.is_logging_in(), "{}: a login without a turn", slot.name);
        }
        let places = self.backends.throttle.places.values();
        let sums = places.fold((0, 0), |(sum, line), place| (sum + place.under_way, line + place.line.len()));
        assert_eq!(sums, (under_way, waiting), "turns without pools, or pools without turns");
    }

    /// A place can't be reached. Whoever waits for a turn there has failed as well.
    pub(crate) fn fail_line(&mut self, now: Time, target: &Target, error: &ServerError, too_slow: bool) {
        for ix in self.backends.throttle.take_line(target) {
            let slot = self.pools.get_mut(ix);
            slot.turn.waits_at = None;
            if slot.places.peek(&slot.config) == target {
                let (attempt, _) = slot.places.begin(&slot.config, self.common.config().tls.server.mode);
                let (failure, told) = slot.places.failed(&slot.config, attempt, error.clone(), None);
                slot.note_failure(told, too_slow, now);
                slot.pool.unreachable(failure, now);
            } else {
                slot.pool.open_declined(now, now);
            }
            self.common.follow_up(FollowUp::PollPool(ix));
        }
    }
}
