//! Logins at servers, so many at once to one place and no more, over all pools of this worker.
//!
//! A pool paces its own logins; a place that thousands of pools come back to at once, because it was restarted, is to be
//! protected from all of them together. Owns how many logins are under way to each place, and the line of pools that wait
//! for their turn there. What is under way is compared with what the pool says at each settling, as permits are, so that
//! every end of a login, whatever it was, gives its turn back.
//!
//! A place that can't be reached can't be reached by the next in line either: they are told so without trying.

use std::collections::{HashMap, VecDeque};

use weir_base::{Target, Time};
use weir_session::OwnError;

use crate::peers::PoolIx;
use crate::port::Io;
use crate::{Engine, Todo};

/// Logins under way, and who waits for a turn.
#[derive(Default)]
pub(crate) struct Turns {
    places: HashMap<Target, Place>,
}

#[derive(Default)]
struct Place {
    under_way: u32,
    line: VecDeque<PoolIx>,
}

impl Turns {
    fn has_room(&self, target: &Target, most: u32) -> bool {
        self.places.get(target).is_none_or(|place| place.under_way < most && place.line.is_empty())
    }

    fn wait(&mut self, target: &Target, pool: PoolIx) {
        self.places.entry(target.clone()).or_default().line.push_back(pool);
    }

    fn leave(&mut self, target: &Target, pool: PoolIx) {
        self.change(target, |place| place.line.retain(|other| *other != pool));
    }

    fn begin(&mut self, target: &Target) {
        self.places.entry(target.clone()).or_default().under_way += 1;
    }

    fn end(&mut self, target: &Target) {
        self.change(target, |place| place.under_way -= 1);
    }

    /// Who is next, if there is room.
    fn next(&mut self, target: &Target, most: u32) -> Option<PoolIx> {
        let place = self.places.get_mut(target).filter(|place| place.under_way < most)?;
        let next = place.line.pop_front();
        self.change(target, |_| ());
        next
    }

    /// All who wait, who wait no more.
    fn take_line(&mut self, target: &Target) -> VecDeque<PoolIx> {
        let line = self.places.get_mut(target).map(|place| std::mem::take(&mut place.line));
        self.change(target, |_| ());
        line.unwrap_or_default()
    }

    /// Changes a place, and forgets it if nothing is left of it.
    fn change(&mut self, target: &Target, change: impl FnOnce(&mut Place)) {
        let Some(place) = self.places.get_mut(target) else { return };
        change(place);
        if place.under_way == 0 && place.line.is_empty() {
            self.places.remove(target);
        }
    }
}

/// A pool's standing here.
#[derive(Default)]
pub(crate) struct Turn {
    /// Where its login is under way.
    at: Option<Target>,
    /// Where it waits for its turn.
    pub(crate) waits_at: Option<Target>,
}

impl Engine {
    /// This worker's part of `max_logins_per_host`.
    fn logins_at_once(&self) -> u32 {
        match self.config.max_logins_per_host {
            0 => u32::MAX,
            most => (most / u32::from(self.workers)).max(1),
        }
    }

    /// The pool may open a server: it does so now, at the first of its places that has room for one more login, or when its
    /// turn comes at the one that is next.
    pub(crate) fn take_turn<I: Io>(&mut self, now: Time, ix: PoolIx, io: &mut I) {
        self.end_turn(now, ix, io);
        let most = self.logins_at_once();
        let slot = self.pools.get_mut(ix);
        for _ in 0..slot.config.targets.len() {
            if self.turns.has_room(slot.places.peek(&slot.config), most) {
                return self.open_server(now, ix, io);
            }
            slot.places.pass(&slot.config);
        }
        let target = slot.places.peek(&slot.config).clone();
        self.turns.wait(&target, ix);
        slot.turn.waits_at = Some(target);
    }

    /// A login of the pool begins there.
    pub(crate) fn turn_begins(&mut self, ix: PoolIx, target: &Target) {
        self.turns.begin(target);
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
            self.turns.leave(&target, ix);
        }
    }

    fn end_turn<I: Io>(&mut self, now: Time, ix: PoolIx, io: &mut I) {
        if let Some(target) = self.pools.get_mut(ix).turn.at.take() {
            self.turns.end(&target);
            self.call_next(now, &target, io);
        }
    }

    /// Those in line go on as far as there is room.
    fn call_next<I: Io>(&mut self, now: Time, target: &Target, io: &mut I) {
        let most = self.logins_at_once();
        while let Some(ix) = self.turns.next(target, most) {
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
            self.todo.push_back(Todo::Settle(ix));
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
                self.turns.leave(&target, ix);
                self.take_turn(now, ix, io);
                self.todo.push_back(Todo::Settle(ix));
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
        let places = self.turns.places.values();
        let sums = places.fold((0, 0), |(sum, line), place| (sum + place.under_way, line + place.line.len()));
        assert_eq!(sums, (under_way, waiting), "turns without pools, or pools without turns");
    }

    /// A place can't be reached. Whoever waits for a turn there has failed as well.
    pub(crate) fn fail_line(&mut self, now: Time, target: &Target, error: &OwnError, too_slow: bool) {
        for ix in self.turns.take_line(target) {
            let slot = self.pools.get_mut(ix);
            slot.turn.waits_at = None;
            if slot.places.peek(&slot.config) == target {
                let (attempt, _) = slot.places.begin(&slot.config, self.config.tls.server.mode);
                let (failure, told) = slot.places.failed(&slot.config, attempt, error.clone(), None);
                slot.note_failure(told, too_slow, now);
                slot.pool.unreachable(failure, now);
            } else {
                slot.pool.open_declined(now, now);
            }
            self.todo.push_back(Todo::Settle(ix));
        }
    }
}
