//! A node's machine: its clock, its disk, its pools, and what it has open at the server.

use std::collections::BTreeMap;
use std::rc::Rc;

use weir_base::{Span, Time};

use crate::ending::Ending;
use crate::fair::Usage;
use crate::members::Lost;
use crate::node::{Grants, Node};
use crate::pool::Budget;
use crate::sim::Bug;
use crate::sim::random::Random;
use crate::sim::upgrade::Old;
use crate::sim::world::FAULTS;
use crate::timing::Timing;

/// A pool of a node.
#[derive(Default, Clone)]
pub(super) struct HostPool {
    /// At the server, and in use or to be used.
    pub(super) open: u32,
    /// Closed here, and ended by the server at these times: until then they count there.
    pub(super) ending: Vec<u64>,
    /// The connections of a dead process, by the times when the server ends them.
    pub(super) orphans: Vec<u64>,
    /// Clients that want a connection.
    pub(super) demand: u32,
    /// How many of the open ones are in use: transactions end by chance.
    pub(super) active: u32,
    waits_since: Option<Time>,
    /// The limit that the pool obeys.
    limit: u32,
}

pub(super) struct Host {
    pub(super) name: String,
    pub(super) node: Node,
    /// Thousandths by which the host's clock is fast.
    rate: u64,
    offset: u64,
    pub(super) frozen_until: u64,
    /// The process is dead until then.
    pub(super) dead_until: u64,
    pub(super) pools: BTreeMap<String, HostPool>,
    /// The pools' names.
    names: Rc<[String]>,
    pub(super) grants: Grants,
    pub(super) disk: BTreeMap<String, u32>,
    pub(super) cut_until: u64,
    /// The process ends in order.
    pub(super) leaving: Option<Leaving>,
    /// The pool of whose share a connection is left unused for the ender.
    pub(super) reserved: Option<String>,
    pub(super) ender: Option<Ender>,
    /// No other ender begins before.
    pub(super) ends_after: u64,
    pub(super) budgets: BTreeMap<String, Budget>,
    /// The node has other budgets from then on.
    pub(super) adopts: Option<(u64, BTreeMap<String, Budget>)>,
    /// The process that this one takes over from.
    pub(super) old: Option<Old>,
    /// What this one keeps until then: the process that was to take over had the rest.
    pub(super) kept: Option<(BTreeMap<String, u32>, u64)>,
}

/// The connection that ends a lost node's connections.
pub(super) struct Ender {
    pub(super) lost: Lost,
    pub(super) ending: Ending,
    /// When the ender is given up, by the node's clock.
    by: Option<Time>,
    /// When the ender has ended the lost node's connections.
    pub(super) done: u64,
    /// How many connections are left once the ender has ended them, if that is known, and when the server has ended the
    /// ender's.
    pub(super) result: Option<(Option<u32>, u64)>,
}

/// The end of a process in order.
#[derive(Clone, Copy)]
pub(super) struct Leaving {
    /// The process waits for the ends of its connections until then.
    pub(super) until: u64,
    /// The process is started again then.
    pub(super) back: u64,
    /// The process's connections have ended, and its shares are given away.
    pub(super) released_all: bool,
}

impl Host {
    pub(super) fn new(name: &str, random: &mut Random, budgets: &BTreeMap<String, Budget>, bug: Option<Bug>) -> Host {
        let timing = Timing::default();
        // A little inside of the bound, since the model's clocks are whole microseconds.
        let rate = 1000 - (timing.drift - 1) + random.below(2 * (timing.drift - 1) + 1);
        let mut host = Host {
            name: name.to_owned(),
            node: Node::new(name, 0, timing, &BTreeMap::new(), Time::START),
            rate,
            offset: random.below(1 << 40),
            frozen_until: 0,
            dead_until: 0,
            pools: budgets.keys().map(|pool| (pool.clone(), HostPool::default())).collect(),
            names: budgets.keys().cloned().collect(),
            grants: Grants { until: Time::START, pools: BTreeMap::new() },
            disk: BTreeMap::new(),
            cut_until: 0,
            leaving: None,
            reserved: None,
            ender: None,
            ends_after: 0,
            budgets: budgets.clone(),
            adopts: None,
            old: None,
            kept: None,
        };
        host.start(0, random, budgets, bug);
        host
    }

    /// The process starts, with what is on its disk.
    pub(super) fn start(
        &mut self,
        now: u64,
        random: &mut Random,
        budgets: &BTreeMap<String, Budget>,
        bug: Option<Bug>,
    ) {
        let clock = self.clock(now);
        self.node = Node::new(&self.name, random.next(), Timing::default(), &self.disk, clock);
        self.node.set_budgets(clock, budgets);
        (self.budgets, self.adopts) = (budgets.clone(), None);
        self.node.bug = bug;
        (self.leaving, self.reserved, self.ender) = (None, None, None);
        (self.old, self.kept) = (None, None);
        self.take_grants();
    }

    pub(super) fn clock(&self, now: u64) -> Time {
        Time::from_micros(self.offset + now / 1000 * self.rate)
    }

    pub(super) fn runs(&self, now: u64) -> bool {
        now >= self.frozen_until && now >= self.dead_until
    }

    /// The node's decisions reach its pools; floors are stored before they are used.
    pub(super) fn take_grants(&mut self) {
        self.node.update_grants(&mut self.grants);
        self.disk.retain(|name, _| self.grants.pools.get(name).is_some_and(|grant| grant.floor > 0));
        for (name, grant) in self.grants.pools.iter().filter(|(_, grant)| grant.floor > 0) {
            match self.disk.get_mut(name) {
                Some(floor) => *floor = grant.floor,
                None => drop(self.disk.insert(name.clone(), grant.floor)),
            }
        }
    }

    /// Another configuration is in force.
    pub(super) fn adopt(&mut self, now: u64) {
        if let Some((_, budgets)) = self.adopts.take_if(|(at, _)| *at <= now) {
            self.budgets = budgets;
            self.node.set_budgets(self.clock(now), &self.budgets);
        }
    }

    /// The process ends, and has removed its stored floors.
    pub(super) fn forget_floors(&mut self) {
        self.disk.clear();
    }

    /// What a pool may open now, by this node's clock.
    pub(super) fn may_open(&self, now: u64, pool: &str) -> u32 {
        let Some(grant) = self.grants.pools.get(pool) else { return 0 };
        if now < self.dead_until {
            return 0;
        }
        let most = if self.clock(now) < self.grants.until { grant.limit } else { grant.floor };
        let kept = self.kept.as_ref().map_or(most, |(kept, _)| kept[pool]);
        most.min(kept).saturating_sub(self.left(pool))
    }

    /// What the node's processes have of a pool, or may open.
    pub(super) fn used(&self, now: u64, pool: &str) -> u32 {
        let (old, more) = self.of_old(now, pool);
        self.at_server(now, pool).max(self.may_open(now, pool)) + self.pools[pool].orphans(now) + old + more
    }

    /// The process is dead: the kernel closes its sockets, and the server ends its connections at the end of their
    /// queries.
    pub(super) fn dies(&mut self, now: u64, random: &mut Random) {
        let ender = self.ender.take().map(|ender| ender.lost.pool);
        for (name, pool) in &mut self.pools {
            let open = std::mem::take(&mut pool.open) + u32::from(ender.as_ref() == Some(name));
            pool.active = 0;
            pool.orphans.retain(|end| *end > now);
            pool.orphans.append(&mut pool.ending);
            let most = if random.chance(30) { 15_000_000 } else { 500_000 };
            (0..open).for_each(|_| pool.orphans.push(now + random.below(most)));
        }
    }

    /// The database server was started again: it has nothing of this node any more.
    pub(super) fn server_ended(&mut self, now: u64) {
        for pool in self.pools.values_mut() {
            (pool.open, pool.active) = (0, 0);
            pool.ending.clear();
            pool.orphans.clear();
        }
        self.ender.iter_mut().filter(|ender| ender.result.is_none()).for_each(|ender| ender.result = Some((None, now)));
        self.old_server_ended();
    }

    /// The process closes its connections, waits for their ends, and gives its shares away then.
    pub(super) fn close_and_release(&mut self, now: u64, random: &mut Random) {
        let Some(leaving) = &mut self.leaving else { return };
        for pool in self.pools.values_mut() {
            let closed = std::mem::take(&mut pool.open);
            (0..closed).for_each(|_| pool.ending.push(now + end_of(now, random)));
            pool.ending.retain(|end| *end > now);
            pool.active = 0;
        }
        let early = self.node.bug == Some(Bug::ReleasedEarly);
        let ended = self.pools.values().all(|pool| pool.ending.is_empty()) && self.ender.is_none();
        if !leaving.released_all && (early || ended) {
            leaving.released_all = true;
            self.disk.clear();
            self.node.release_all();
        }
    }

    /// The connection that ends a lost node's is opened, or given up.
    pub(super) fn end_lost(&mut self, now: u64, random: &mut Random) {
        let clock = self.clock(now);
        if let Some(ender) = &self.ender {
            if ender.by.is_some_and(|by| clock >= by) && ender.result.is_none() {
                let ended = now + end_of(now, random);
                self.pools.get_mut(&ender.lost.pool).into_iter().for_each(|pool| pool.ending.push(ended));
                self.ender = None;
            }
            return;
        }
        let lost = self.node.next_end(clock).filter(|_| self.leaving.is_none() && now >= self.ends_after);
        self.reserved = lost.as_ref().map(|lost| lost.pool.clone());
        let Some(lost) = lost else { return };
        let Some(pool) = self.pools.get(&lost.pool) else { return };
        if let Some((ending, rest)) = self.node.begin_end(clock, &lost, pool.at_server(now) + self.left(&lost.pool)) {
            let by = rest.map(|rest| clock + rest);
            let done = now + 50_000 + random.below(1_500_000);
            self.ender = Some(Ender { lost, ending, by, done, result: None });
        }
    }

    /// What the server counts of a pool.
    pub(super) fn at_server(&self, now: u64, pool: &str) -> u32 {
        self.pools[pool].at_server(now) + u32::from(self.ender.as_ref().is_some_and(|ender| ender.lost.pool == pool))
    }

    /// The pools open, use and close connections.
    pub(super) fn step(&mut self, now: u64, random: &mut Random) {
        let clock = self.clock(now);
        let awaits_end = self.node.bug != Some(Bug::EndNotAwaited);
        for name in self.names.clone().iter() {
            let reserved = u32::from(self.reserved.as_ref() == Some(name));
            let limit = self.may_open(now, name).saturating_sub(reserved);
            let (left, limits) = (self.left(name), self.kept.is_some().then(|| self.grants.pools.get(name).copied()));
            let forced = clock >= self.grants.until;
            // Another process of the node has the floor that was in force when it had its part.
            let is_alone = self.old.is_none() && self.kept.is_none();
            let floor = self.grants.pools.get(name).filter(|_| is_alone).map_or(u32::MAX, |grant| grant.floor);
            let Some(pool) = self.pools.get_mut(name) else { continue };
            pool.ending.retain(|end| *end > now);
            let ended = random.below(u64::from(pool.active) + 1) as u32;
            pool.active -= ended.min(pool.active);
            if pool.open > limit {
                let closed = if forced { (pool.open - limit).min(4) } else { pool.open - limit.max(pool.active) };
                pool.open -= closed;
                pool.active = pool.active.min(pool.open);
                (0..closed).for_each(|_| pool.ending.push(now + end_of(now, random)));
            }
            let counted = if awaits_end { pool.ending.len() as u32 } else { 0 };
            let wanted = pool.demand.saturating_sub(pool.active);
            pool.active += wanted.min(pool.open.min(limit).saturating_sub(pool.active));
            let opened = pool.demand.saturating_sub(pool.open).min(limit.saturating_sub(pool.open + counted));
            pool.open += opened;
            pool.active = pool.active.max(pool.demand.min(pool.open).min(limit.max(pool.active)));
            pool.limit = limit;
            let waiting = pool.demand - pool.active.min(pool.demand);
            pool.waits_since = if waiting == 0 { None } else { pool.waits_since.or(Some(clock)) };
            let waits = pool.waits_since.map_or(Span::ZERO, |since| clock.since(since));
            let turn = Span::from_millis(100 * u64::from(waiting) / u64::from(pool.active.max(1)));
            let oldest = if pool.active > 0 { waits.min(turn) } else { waits };
            // Clients take turns: also when there is no server any more, the oldest one has waited since its last turn
            // only.
            pool.waits_since =
                pool.waits_since.map(|_| Time::from_micros(clock.micros().saturating_sub(oldest.micros())));
            let others = reserved + left;
            let (open, active, limit) = (pool.open + counted + others, pool.active + others, limit + others);
            // The process that was to take over may have had the rest.
            let open = open.max(limits.flatten().map_or(0, |grant| grant.limit));
            self.node.set_usage(name, Usage { open, active, waiting, oldest, limit, floor });
        }
    }
}

impl HostPool {
    /// What the server counts of a dead process.
    pub(super) fn orphans(&self, now: u64) -> u32 {
        self.orphans.iter().filter(|end| **end > now).count() as u32
    }

    /// What the server counts of this process.
    pub(super) fn at_server(&self, now: u64) -> u32 {
        self.open + self.ending.iter().filter(|end| **end > now).count() as u32
    }
}

/// How long the server takes to end a connection: moments, and while it is overloaded or runs a query, much longer.
pub(super) fn end_of(now: u64, random: &mut Random) -> u64 {
    match random.below(10) {
        0 if now < FAULTS => random.below(3_000_000),
        _ if now < FAULTS => random.below(120_000),
        _ => random.below(20_000),
    }
}
