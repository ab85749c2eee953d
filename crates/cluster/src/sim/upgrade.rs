//! One process of a node takes over from another: what the old one keeps, and what is on its way.

use std::collections::BTreeMap;

use weir_base::Time;

use crate::node::{Grants, Node};
use crate::sim::Bug;
use crate::sim::host::{Host, end_of};
use crate::sim::random::Random;
use crate::sim::world::FAULTS;
use crate::timing::Timing;

/// How long a dead process's connections count: two leases.
const GHOSTS: u64 = 20_000_000;

/// The old process.
pub(super) struct Old {
    node: Node,
    grants: Grants,
    pools: BTreeMap<String, OldPool>,
    pub(super) frozen_until: u64,
    /// The new process is frozen from then on, until then.
    hangs: (u64, u64),
    pub(super) dead_since: Option<u64>,
    /// Connections that arrive at the new process then.
    moving: Vec<(u64, String)>,
    new_incarnation: u64,
}

#[derive(Default)]
struct OldPool {
    open: u32,
    /// How many of them are in use until then, and don't move.
    busy: (u32, u64),
    ending: Vec<u64>,
    /// What the old process may have.
    kept: u32,
    /// What the new process leaves to the old one: less with each connection that has arrived.
    left: u32,
}

impl Host {
    /// Another process takes over from the one that runs.
    pub(super) fn upgrade(&mut self, now: u64, random: &mut Random) -> bool {
        if self.old.is_some() || self.kept.is_some() || self.leaving.is_some() || self.ender.is_some() {
            return false;
        }
        let (clock, new_incarnation) = (self.clock(now), random.next());
        let mut node = Node::new(&self.name, new_incarnation, Timing::default(), &self.disk, clock);
        (node.bug, self.reserved) = (self.node.bug, None);
        node.set_budgets(clock, &self.budgets);
        node.claim_record(clock, self.node.member().incarnation, Some(new_incarnation));
        node.import_orphans(clock, self.node.orphans().as_ref());
        let mut pools = BTreeMap::new();
        for (name, pool) in &mut self.pools {
            let (open, ending) = (std::mem::take(&mut pool.open), std::mem::take(&mut pool.ending));
            let kept = open + ending.len() as u32;
            let busy = if random.chance(50) { random.below(u64::from(open) + 1) as u32 } else { 0 };
            let busy = (busy, now + random.below(25_000_000));
            pool.active = 0;
            pools.insert(name.clone(), OldPool { open, busy, ending, kept, left: kept });
        }
        let (node, grants) = (std::mem::replace(&mut self.node, node), self.grants.clone());
        let (frozen_until, dead_since, moving) = (0, None, Vec::new());
        let hangs = (u64::MAX, 0);
        self.old = Some(Old { node, grants, pools, frozen_until, hangs, dead_since, moving, new_incarnation });
        self.node.set_upgrading(true);
        self.take_grants();
        true
    }

    /// The new process is dead: the old one goes on.
    pub(super) fn fall_back(&mut self, now: u64) -> bool {
        let Some(old) = self.old.take() else { return false };
        let clock = self.clock(now);
        let kept = old.pools.iter().map(|(name, pool)| (name.clone(), pool.kept)).collect();
        for (name, pool) in old.pools {
            let has = self.pools.entry(name).or_default();
            (has.open, has.active) = (pool.open, 0);
            has.ending.extend(pool.ending);
        }
        (self.node, self.grants, self.frozen_until) = (old.node, old.grants, old.frozen_until);
        (self.kept, self.reserved, self.ender) = (Some((kept, now + GHOSTS)), None, None);
        self.node.set_budgets(clock, &self.budgets);
        self.node.set_upgrading(true);
        self.node.claim_record(clock, old.new_incarnation, None);
        self.take_grants();
        true
    }

    pub(super) fn kill_old(&mut self, now: u64) {
        let Some(old) = &mut self.old else { return };
        old.dead_since = old.dead_since.or(Some(now));
        old.pools.values_mut().for_each(|pool| pool.open = 0);
    }

    /// The database server has ended the old process's connections.
    pub(super) fn old_server_ended(&mut self) {
        for pool in self.old.iter_mut().flat_map(|old| old.pools.values_mut()) {
            pool.open = 0;
            pool.ending.clear();
        }
    }

    /// A node that takes this one for lost ends its connections, those of either process; returns how many may be left
    /// of the new one's.
    pub(super) fn end_down_to(&mut self, kept: u32, pool: &str, random: &mut Random) -> u32 {
        let Some(old) = self.old.as_mut().and_then(|old| old.pools.get_mut(pool)) else { return kept };
        let of_old = random.below(u64::from(kept.min(old.open)) + 1) as u32;
        old.open = of_old;
        kept - of_old
    }

    /// The new process, which takes over, is frozen when it has the node's share, for longer than a lease.
    pub(super) fn hang(&mut self, now: u64, random: &mut Random) {
        let from = now + random.below(6_000_000);
        let until = (from + 14_000_000 + random.below(10_000_000)).min(FAULTS);
        self.old.iter_mut().for_each(|old| old.hangs = (from, until));
    }

    /// What the new process leaves to the old one.
    pub(super) fn left(&self, pool: &str) -> u32 {
        if self.node.bug == Some(Bug::BothCountShare) {
            return 0;
        }
        self.old.as_ref().map_or(0, |old| old.pools[pool].left)
    }

    /// What the server counts of the old process and on the way, and what the old process may open more.
    pub(super) fn of_old(&self, now: u64, pool: &str) -> (u32, u32) {
        let Some(old) = &self.old else { return (0, 0) };
        let has = &old.pools[pool];
        let open = has.open + has.ending.iter().filter(|end| **end > now).count() as u32;
        let may = if old.dead_since.is_some() { 0 } else { old.may_have(self.clock(now), pool) };
        let moving = old.moving.iter().filter(|(_, name)| name == pool).count() as u32;
        (open + moving, may.saturating_sub(open))
    }

    /// Connections move from the old process to the new one.
    pub(super) fn step_old(&mut self, now: u64, random: &mut Random) {
        let (clock, runs) = (self.clock(now), self.runs(now));
        if runs && self.kept.as_ref().is_some_and(|(_, until)| now > *until) {
            self.kept = None;
            self.node.set_upgrading(false);
        }
        let Some(old) = &mut self.old else { return };
        if now >= old.hangs.0 {
            self.frozen_until = self.frozen_until.max(old.hangs.1);
            old.hangs.0 = u64::MAX;
        }
        if runs {
            let (arrived, moving) = std::mem::take(&mut old.moving).into_iter().partition(|(at, _)| *at <= now);
            old.moving = moving;
            let arrived: Vec<(u64, String)> = arrived;
            for (_, name) in arrived {
                self.pools.entry(name.clone()).or_default().open += 1;
                old.pools.entry(name).or_default().left -= 1;
            }
        }
        if now >= old.frozen_until && old.dead_since.is_none() {
            if runs && random.chance(30) {
                old.grants.until = old.grants.until.max(self.grants.until);
            }
            old.step((now, clock), random);
        }
        old.pools.values_mut().for_each(|pool| pool.ending.retain(|end| *end > now));
        let is_empty = old.moving.is_empty() && old.pools.values().all(|pool| pool.open == 0 && pool.ending.is_empty());
        if runs && is_empty && old.dead_since.is_none_or(|since| now > since + GHOSTS) && now >= old.frozen_until {
            self.old = None;
            self.node.set_upgrading(false);
        }
    }
}

impl Old {
    fn may_have(&self, clock: Time, pool: &str) -> u32 {
        let grant = self.grants.pools.get(pool).copied().unwrap_or_default();
        self.pools[pool].kept.min(if clock < self.grants.until { grant.limit } else { grant.floor })
    }

    fn step(&mut self, (now, clock): (u64, Time), random: &mut Random) {
        let names: Vec<String> = self.pools.keys().cloned().collect();
        for name in names {
            let limit = self.may_have(clock, &name);
            let Some(pool) = self.pools.get_mut(&name) else { continue };
            pool.ending.retain(|end| *end > now);
            let closed = pool.open.saturating_sub(limit).min(4);
            pool.open -= closed;
            (0..closed).for_each(|_| pool.ending.push(now + end_of(now, random)));
            if random.chance(10) && pool.open + (pool.ending.len() as u32) < limit {
                pool.open += 1;
            }
            let busy = if now < pool.busy.1 { pool.busy.0 } else { 0 };
            let free = pool.open.saturating_sub(busy);
            let moved = if random.chance(20) { random.below(u64::from(free) + 1) as u32 } else { 0 };
            (pool.open, pool.kept) = (pool.open - moved, pool.kept - moved);
            (0..moved).for_each(|_| self.moving.push((now + random.below(200_000), name.clone())));
        }
    }
}
