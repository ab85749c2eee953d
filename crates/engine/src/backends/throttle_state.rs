//! Logins under way to each host, and the pools that wait for theirs.

use std::collections::{HashMap, VecDeque};

use weir_base::Target;

use crate::handles::PoolIx;

/// A pool's standing here.
#[derive(Default)]
pub(crate) struct Turn {
    /// Where its login is under way.
    pub(super) at: Option<Target>,
    /// Where it waits for its turn.
    pub(crate) waits_at: Option<Target>,
}

/// Logins under way, and who waits for a turn.
#[derive(Default)]
pub(crate) struct LoginThrottle {
    pub(super) places: HashMap<Target, Place>,
}

#[derive(Default)]
pub(super) struct Place {
    pub(super) under_way: u32,
    pub(super) line: VecDeque<PoolIx>,
}

impl LoginThrottle {
    pub(super) fn has_room(&self, target: &Target, most: u32) -> bool {
        self.places.get(target).is_none_or(|place| place.under_way < most && place.line.is_empty())
    }

    pub(super) fn wait(&mut self, target: &Target, pool: PoolIx) {
        self.places.entry(target.clone()).or_default().line.push_back(pool);
    }

    pub(super) fn leave(&mut self, target: &Target, pool: PoolIx) {
        self.change(target, |place| place.line.retain(|other| *other != pool));
    }

    pub(super) fn begin(&mut self, target: &Target) {
        self.places.entry(target.clone()).or_default().under_way += 1;
    }

    pub(super) fn end(&mut self, target: &Target) {
        self.change(target, |place| place.under_way -= 1);
    }

    /// Who is next, if there is room.
    pub(super) fn next(&mut self, target: &Target, most: u32) -> Option<PoolIx> {
        let place = self.places.get_mut(target).filter(|place| place.under_way < most)?;
        let next = place.line.pop_front();
        self.change(target, |_| ());
        next
    }

    /// All who wait, who wait no more.
    pub(super) fn take_line(&mut self, target: &Target) -> VecDeque<PoolIx> {
        let line = self.places.get_mut(target).map(|place| std::mem::take(&mut place.line));
        self.change(target, |_| ());
        line.unwrap_or_default()
    }

    /// Changes a place, and forgets it if nothing is left of it.
    pub(super) fn change(&mut self, target: &Target, change: impl FnOnce(&mut Place)) {
        let Some(place) = self.places.get_mut(target) else { return };
        change(place);
        if place.under_way == 0 && place.line.is_empty() {
            self.places.remove(target);
        }
    }
}
