//! The world of one seed: faults for a while, then none.

use std::collections::BTreeMap;

use crate::node::MemberState;
use crate::pool::Budget;
use crate::record::{Entry, PoolShares};
use crate::request::{StoreReply, StoreRequest};
use crate::sim::Bug;
use crate::sim::etcd::Etcd;
use crate::sim::host::{Ender, Host, Leaving, end_of};
use crate::sim::random::Random;
use crate::sim::server::Server;

/// True time is in microseconds; this is a step.
const STEP: u64 = 50_000;
/// Faults begin and end by then.
pub(super) const FAULTS: u64 = 60_000_000;
/// Lost nodes are found, and all is quiet by then.
const QUIET: u64 = FAULTS + 60_000_000;
/// What moving demand may take.
const MOVED: u64 = QUIET + 2_000_000;
const FAIR: u64 = MOVED + 15_000_000;

/// A request on its way.
struct Flight {
    host: usize,
    /// The process that sent it.
    process: u64,
    request: StoreRequest,
    /// When etcd executes it; never, if it is lost.
    executes: Option<u64>,
    reply: Option<StoreReply>,
    /// When the reply arrives, if it does.
    arrives: Option<u64>,
    /// When the sender takes it for failed.
    gives_up: u64,
    answered: bool,
}

/// What happened.
#[derive(Default, Debug)]
pub(super) struct Seen {
    pub(super) commits: u64,
    pub(super) conflicts: u64,
    pub(super) unknown: u64,
    pub(super) reclaims: u64,
    pub(super) fenced_returns: u64,
    pub(super) opened: u64,
    /// Processes that have ended in order, with their shares given away, and without.
    pub(super) left: u64,
    pub(super) left_hastily: u64,
    /// Processes that began to take over, and those that were killed before they had all.
    pub(super) upgrades: u64,
    pub(super) upgrades_failed: u64,
    /// Processes that hung while they took over.
    pub(super) hangs: u64,
    /// Changes of the configured budgets.
    pub(super) budgets: u64,
    /// Dead processes whose connections were ended by the one that followed.
    pub(super) orphans: u64,
    /// Restarts of the database server, and losses of all that etcd had.
    pub(super) restarts: u64,
    pub(super) losses: u64,
}

impl Seen {
    pub(super) fn add(&mut self, other: Seen) {
        self.commits += other.commits;
        self.conflicts += other.conflicts;
        self.unknown += other.unknown;
        self.reclaims += other.reclaims;
        self.fenced_returns += other.fenced_returns;
        self.opened += other.opened;
        self.left += other.left;
        self.left_hastily += other.left_hastily;
        self.upgrades += other.upgrades;
        self.upgrades_failed += other.upgrades_failed;
        self.hangs += other.hangs;
        self.budgets += other.budgets;
        self.orphans += other.orphans;
        self.restarts += other.restarts;
        self.losses += other.losses;
    }
}

fn budget(random: &mut Random) -> Budget {
    Budget { size: 1 + random.below(20) as u32, floor: random.below(3) as u32 }
}

pub(super) struct World {
    is_busy: bool,
    now: u64,
    random: Random,
    /// The random numbers for the changes of the configuration.
    changes: Random,
    /// The random numbers for restarts of the server and of etcd.
    restarts: Random,
    /// The random numbers for new processes that hang.
    upgrades: Random,
    server: Server,
    etcd: Etcd,
    /// What was recorded of pools when etcd lost it, until its new store is ready.
    lost_shares: BTreeMap<String, u32>,
    /// By node and pool: see [`World::note_unknown_floors`].
    unknown_floors: BTreeMap<(String, String), u32>,
    etcd_down_until: u64,
    slow_until: u64,
    hosts: Vec<Host>,
    processes: Vec<u64>,
    budgets: BTreeMap<String, Budget>,
    flights: Vec<Flight>,
    bug: Option<Bug>,
    seen: Seen,
    /// What a process that has left in order has not given away.
    kept: Option<String>,
}

impl World {
    pub(super) fn new(seed: u64, bug: Option<Bug>) -> World {
        let mut random = Random(seed);
        let budgets: BTreeMap<String, Budget> =
            (0..1 + random.below(2)).map(|at| (format!("pool{at}"), budget(&mut random))).collect();
        // Some clusters have more demand than budget, and faults that are few and outlast a lease.
        let is_busy = random.chance(30);
        let count = if is_busy { 3 } else { 2 } + random.below(2 + u64::from(!is_busy));
        let mut hosts: Vec<Host> =
            (0..count).map(|at| Host::new(&format!("node{at}"), &mut random, &budgets, bug)).collect();
        let busy = if is_busy { 25 } else { 0 };
        hosts.iter_mut().flat_map(|host| host.pools.values_mut()).for_each(|pool| pool.demand = busy);
        World {
            is_busy,
            now: 0,
            random,
            changes: Random(seed ^ 0x00c0_ffee),
            restarts: Random(seed ^ 0x0ddb_a115),
            upgrades: Random(seed ^ 0x00ab_5e17),
            server: Server::new(),
            etcd: Etcd::default(),
            lost_shares: BTreeMap::new(),
            unknown_floors: BTreeMap::new(),
            etcd_down_until: 0,
            slow_until: 0,
            processes: vec![0; hosts.len()],
            hosts,
            budgets,
            flights: Vec::new(),
            bug,
            seen: Seen::default(),
            kept: None,
        }
    }

    pub(super) fn run(mut self) -> Result<Seen, String> {
        let mut moved = false;
        while self.now < FAIR {
            self.now += STEP;
            if self.now < FAULTS {
                self.fail();
                self.change_budgets();
                self.begin_anew();
                self.upgrade_that_hangs();
            }
            if self.now < FAULTS + 10_000_000 && self.random.chance(2) {
                self.change_demand();
            }
            if self.now == QUIET {
                self.move_demand();
            }
            self.etcd();
            self.nodes();
            if let Some(kept) = self.kept.take() {
                return Err(kept);
            }
            self.record_connections();
            self.end_lost()?;
            self.check_budgets()?;
            if self.now > QUIET && !moved {
                let progress = self.check_progress();
                moved = progress.is_ok() || self.bug.is_some();
                if self.now >= MOVED {
                    progress?;
                }
            }
        }
        if self.bug.is_none() {
            self.check_fairness()?;
        }
        Ok(self.seen)
    }

    fn fail(&mut self) {
        // Nodes that end a lost node's connections fail more often, and for longer.
        let now = self.now;
        let ends = self.hosts.iter().position(|host| host.ender.is_some() && host.runs(now) && host.cut_until < now);
        let ends = ends.filter(|_| self.random.chance(20));
        if ends.is_none() && (!self.random.chance(2) || self.is_busy && self.random.chance(75)) {
            return;
        }
        let span = if ends.is_some() || self.is_busy { 12_000_000 } else { 200_000 } + self.random.below(25_000_000);
        let end = (now + span).min(FAULTS);
        let at = ends.unwrap_or_else(|| self.random.below(self.hosts.len() as u64) as usize);
        match if ends.is_some() { 2 * self.random.below(2) + 1 } else { self.random.below(9) } {
            0 | 1 => {
                let (which, host) = (self.random.below(3), &mut self.hosts[at]);
                if let Some(old) = host.old.as_mut().filter(|_| which > 0) {
                    old.frozen_until = end;
                }
                if host.old.is_none() || which < 2 {
                    host.frozen_until = end;
                }
            }
            2 if self.hosts[at].old.is_some() => {
                if self.random.chance(50) {
                    self.hosts[at].kill_old(now);
                } else if self.hosts[at].fall_back(now) {
                    self.processes[at] += 1;
                    self.seen.upgrades_failed += 1;
                }
            }
            7 | 8 if self.hosts[at].runs(now) => {
                if self.hosts[at].upgrade(now, &mut self.random) {
                    self.processes[at] += 1;
                    self.seen.upgrades += 1;
                }
            }
            7 | 8 => {}
            2 => {
                // A crash. Some are started again at once.
                let end = if self.changes.chance(50) { end } else { now + self.changes.below(2_000_000) };
                let host = &mut self.hosts[at];
                host.dead_until = end;
                host.dies(now, &mut self.changes);
                self.processes[at] += 1;
                host.start(end, &mut self.random, &self.budgets, self.bug);
            }
            3 => self.hosts[at].cut_until = end,
            4 if self.hosts[at].runs(now) && self.hosts[at].leaving.is_none() && self.hosts[at].old.is_none() => {
                let until = now + self.random.below(2_000_000);
                self.hosts[at].leaving = Some(Leaving { until, back: end, released_all: false });
            }
            4 | 5 => self.etcd_down_until = end.min(now + 15_000_000),
            _ => self.slow_until = end,
        }
    }

    /// Other budgets, which the nodes adopt one after the other; about one in two seeds.
    fn change_budgets(&mut self) {
        if self.changes.below(2 * FAULTS / STEP) > 0 {
            return;
        }
        self.seen.budgets += 1;
        self.budgets.values_mut().for_each(|old| *old = budget(&mut self.changes));
        for host in &mut self.hosts {
            host.adopts = Some((self.now + self.changes.below(5_000_000), self.budgets.clone()));
        }
    }

    /// The database server is started again, or etcd comes back empty; each in about every other seed.
    fn begin_anew(&mut self) {
        if self.restarts.below(2 * FAULTS / STEP) == 0 {
            self.seen.restarts += 1;
            let pools: Vec<String> = self.budgets.keys().cloned().collect();
            self.server.restart(self.now, &pools, &mut self.restarts);
            self.hosts.iter_mut().for_each(|host| host.server_ended(self.now));
        }
        if self.restarts.below(2 * FAULTS / STEP) == 0 {
            self.seen.losses += 1;
            for name in self.budgets.keys() {
                let shared = self.etcd.pool(name).map_or(0, PoolShares::shared);
                let before = self.lost_shares.entry(name.clone()).or_default();
                *before = shared.max(*before);
            }
            self.etcd.lose_all();
        }
    }

    /// Another process takes over from a node's, and hangs; about once in each seed.
    fn upgrade_that_hangs(&mut self) {
        if self.upgrades.below(FAULTS / STEP) > 0 {
            return;
        }
        let (now, at) = (self.now, self.upgrades.below(self.hosts.len() as u64) as usize);
        if self.hosts[at].runs(now) && self.hosts[at].upgrade(now, &mut self.upgrades) {
            self.hosts[at].hang(now, &mut self.upgrades);
            // Others want what it has.
            let others = self.hosts.iter_mut().enumerate().filter(|(other, _)| *other != at);
            others.flat_map(|(_, host)| host.pools.values_mut()).for_each(|pool| pool.demand = 25);
            self.processes[at] += 1;
            self.seen.hangs += 1;
        }
    }

    /// Nodes know which backends they have.
    fn record_connections(&mut self) {
        for host in &mut self.hosts {
            if !host.runs(self.now) {
                continue;
            }
            let open = |pool: &String| host.pools[pool].open + host.of_old(self.now, pool).0;
            let counts: Vec<(String, u32)> = host.pools.keys().map(|pool| (pool.clone(), open(pool))).collect();
            let mut connections = BTreeMap::new();
            for (pool, count) in counts {
                let has = self.server.connections(self.now, (&host.name, &pool), count);
                if !has.is_empty() {
                    connections.insert(pool, has);
                }
            }
            host.node.set_connections(connections);
        }
    }

    fn change_demand(&mut self) {
        let at = self.random.below(self.hosts.len() as u64) as usize;
        for pool in self.hosts[at].pools.values_mut() {
            pool.demand = if self.is_busy {
                25
            } else if self.random.chance(40) {
                0
            } else {
                self.random.below(25) as u32
            };
        }
    }

    /// All demand is on one node from now on; some of the time on two.
    fn move_demand(&mut self) {
        let at = self.random.below(self.hosts.len() as u64) as usize;
        let also = if self.random.chance(50) { (at + 1) % self.hosts.len() } else { at };
        for (number, host) in self.hosts.iter_mut().enumerate() {
            let demand = if number == at || number == also { 5 + self.random.below(20) as u32 } else { 0 };
            host.pools.values_mut().for_each(|pool| pool.demand = demand);
        }
    }

    /// Etcd executes what has arrived.
    fn etcd(&mut self) {
        let now = self.now;
        for flight in &mut self.flights {
            if flight.executes.is_some_and(|at| at <= now) && flight.reply.is_none() {
                if now < self.etcd_down_until {
                    // The request waits in a queue, or is lost.
                    flight.executes = self.random.chance(50).then_some(self.etcd_down_until + STEP);
                    continue;
                }
                let reply = self.etcd.execute(&flight.request);
                match &reply {
                    StoreReply::Committed(_) => self.seen.commits += 1,
                    StoreReply::Conflict => self.seen.conflicts += 1,
                    StoreReply::Read(..) => {}
                }
                flight.reply = Some(reply);
            }
        }
    }

    fn nodes(&mut self) {
        for at in 0..self.hosts.len() {
            self.hosts[at].step_old(self.now, &mut self.random);
            if !self.hosts[at].runs(self.now) {
                continue;
            }
            self.deliver(at);
            let now = self.now;
            self.hosts[at].adopt(now);
            self.hosts[at].take_grants();
            let open = |host: &Host| host.pools.values().map(|pool| u64::from(pool.open)).sum::<u64>();
            let before = open(&self.hosts[at]);
            let host = &mut self.hosts[at];
            host.end_lost(now, &mut self.random);
            match host.leaving {
                None => host.step(now, &mut self.random),
                Some(_) => host.close_and_release(now, &mut self.random),
            }
            self.seen.opened += open(&self.hosts[at]).saturating_sub(before);
            let clock = self.hosts[at].clock(now);
            if let Some(request) = self.hosts[at].node.next_request(clock) {
                self.send(at, request);
            }
            self.leave(at);
            if !self.hosts[at].runs(now) {
                continue;
            }
            self.hosts[at].take_grants();
        }
    }

    /// A process that ends in order leaves when its shares are given away, or with them when it has waited for long
    /// enough.
    fn leave(&mut self, at: usize) {
        let (now, host) = (self.now, &mut self.hosts[at]);
        let Some(Leaving { until, back, released_all }) = host.leaving else { return };
        // The node's lease may have ended: then it is a lost node.
        let gives_up = now >= until + 3_000_000;
        if !released_all && now < until {
            return;
        }
        let last =
            if host.node.member_state(host.clock(now)) == MemberState::Member { host.node.leave() } else { None };
        if last.is_none() && !gives_up {
            return;
        }
        if released_all {
            self.seen.left += u64::from(last.is_some());
            let orphans = host.node.orphans().unwrap_or_default();
            let record = |pool: &&String| {
                let has = self.etcd.pool(pool).is_some_and(|record| record.nodes.contains_key(&host.name));
                has && !orphans.contains_key(*pool)
            };
            // Others restate what they know of the floors in a store that was lost.
            let is_calm = self.seen.losses == 0;
            let kept = self.budgets.keys().find(record).filter(|_| last.is_some() && is_calm);
            self.kept = kept.map(|pool| format!("{} has left, and has a share of {pool}", host.name));
        } else {
            self.seen.left_hastily += u64::from(last.is_some());
            host.forget_floors();
        }
        if let Some(txn) = last {
            self.send(at, StoreRequest::Commit(txn));
        }
        let host = &mut self.hosts[at];
        host.dead_until = back.max(now);
        host.dies(now, &mut self.changes);
        self.processes[at] += 1;
        host.start(back.max(now), &mut self.random, &self.budgets, self.bug);
    }

    fn send(&mut self, host: usize, request: StoreRequest) {
        let now = self.now;
        let calm = now >= FAULTS;
        let cut = now < self.hosts[host].cut_until;
        let slow = now < self.slow_until;
        let delay = match self.random.below(100) {
            _ if calm => self.random.below(20_000),
            _ if slow => self.random.below(4_000_000),
            0 => self.random.below(14_000_000),
            1..=7 => self.random.below(4_000_000),
            _ => self.random.below(100_000),
        };
        let lost = !calm && (cut && self.random.chance(50) || self.random.chance(1));
        let back = if slow && !calm { self.random.below(4_000_000) } else { self.random.below(20_000) };
        let reply_lost = !calm && (cut || self.random.chance(2));
        self.flights.push(Flight {
            host,
            process: self.processes[host],
            request,
            executes: (!lost).then_some(now + delay),
            reply: None,
            arrives: (!lost && !reply_lost).then_some(now + delay + back),
            gives_up: now + [300_000, 300_000, 2_000_000, 2_000_000, 12_000_000][self.random.below(5) as usize],
            answered: false,
        });
    }

    /// The host receives its reply, or gives up.
    fn deliver(&mut self, at: usize) {
        let (now, process) = (self.now, self.processes[at]);
        for flight in self.flights.iter_mut().filter(|flight| flight.host == at && !flight.answered) {
            if flight.process != process {
                flight.answered = true;
                continue;
            }
            let clock = self.hosts[at].clock(now);
            if flight.arrives.is_some_and(|at| at <= now)
                && let Some(reply) = flight.reply.clone()
            {
                flight.answered = true;
                let fenced = |stored: &crate::request::Stored| match &stored.value {
                    crate::request::StoreValue::Member(member) => {
                        member.fenced && stored.key == crate::request::StoreKey::Member(self.hosts[at].name.clone())
                    }
                    crate::request::StoreValue::Pool(_) | crate::request::StoreValue::Store(_) => false,
                };
                if let StoreReply::Read(_, all) = &reply {
                    self.seen.fenced_returns += u64::from(all.iter().any(fenced));
                }
                self.hosts[at].node.replied(clock, reply);
            } else if flight.gives_up <= now && flight.arrives.is_none_or(|at| now < FAULTS || at <= now) {
                flight.answered = true;
                self.seen.unknown += 1;
                self.hosts[at].node.failed(clock);
            }
        }
        self.flights.retain(|flight| !flight.answered || (flight.executes.is_some() && flight.reply.is_none()));
    }

    /// Lost nodes' connections are ended at the server.
    fn end_lost(&mut self) -> Result<(), String> {
        for at in 0..self.hosts.len() {
            let (now, host) = (self.now, &mut self.hosts[at]);
            if !host.runs(now) {
                continue;
            }
            match &host.ender {
                Some(ender) if ender.result.is_none() && ender.done <= now => {
                    let (name, pool, floor) = (ender.lost.node.clone(), ender.lost.pool.clone(), ender.ending.floor);
                    let own = name == host.name;
                    if let Some(victim) = self.server.foreign_victim(&pool, &ender.ending) {
                        return Err(format!("an end of {}: {victim:?} of {pool}, which is not of the cluster", &name));
                    }
                    let left =
                        if own { self.end_orphans(at, &pool) } else { self.end_connections_of(&name, &pool, floor) };
                    let left = (!self.random.chance(10)).then_some(left);
                    let ended = now + end_of(now, &mut self.random);
                    self.hosts[at].ender.iter_mut().for_each(|ender| ender.result = Some((left, ended)));
                }
                // The ender's connection is a part of the node's share again only when the server counts it no more.
                Some(Ender { lost, result: Some((left, ended)), .. }) if *ended <= now => {
                    self.seen.reclaims += 1;
                    let left = left.is_some_and(|left| host.node.ended(lost, left));
                    host.ends_after = if left { now } else { now + 2_000_000 };
                    host.ender = None;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Ends a lost node's connections of a pool. Returns how many are left.
    fn end_connections_of(&mut self, name: &str, pool: &str, floor: u32) -> u32 {
        let (now, forgets) = (self.now, self.bug == Some(Bug::EnderNotCounted));
        let Some(host) = self.hosts.iter_mut().find(|host| host.name == name) else { return 0 };
        // Some may not be recorded: they are counted, and not ended.
        let unrecorded = if self.random.chance(40) { self.random.below(4) as u32 } else { 0 };
        let kept = floor + unrecorded;
        let kept = host.end_down_to(kept, pool, &mut self.random);
        let is_ender = host.ender.as_ref().is_some_and(|ender| ender.lost.pool == pool) && !forgets;
        if is_ender && host.at_server(now, pool) > kept {
            host.ender = None;
        }
        let has = host.pools.get_mut(pool).expect("all have the same pools");
        has.open = has.open.min(kept);
        has.active = has.active.min(has.open);
        has.orphans.truncate((kept - has.open) as usize);
        let orphans = has.orphans(now);
        let open = if forgets { has.at_server(now) } else { host.at_server(now, pool) };
        open + orphans + host.of_old(now, pool).0
    }

    /// Ends the connections of a node's dead process, by the one that was started with its name. Returns how many are
    /// left.
    fn end_orphans(&mut self, at: usize, pool: &str) -> u32 {
        let kept = if self.changes.chance(40) { self.changes.below(4) as usize } else { 0 };
        let has = self.hosts[at].pools.get_mut(pool).expect("all have the same pools");
        has.orphans.truncate(kept);
        self.seen.orphans += 1;
        has.orphans(self.now)
    }

    /// What a killed process had, and the floors on its disk: nobody may know of them when etcd has lost everything,
    /// until the node has closed those connections.
    fn note_unknown_floors(&mut self) {
        for host in self.hosts.iter().filter(|_| self.seen.losses > 0) {
            for (name, pool) in &host.pools {
                let entry = self.etcd.pool(name).map_or_else(Entry::default, |record| record.entry(&host.name));
                let floor = host.grants.pools.get(name).map_or(0, |grant| grant.floor).saturating_sub(entry.floor);
                let orphans = pool.orphans(self.now);
                let before = self.unknown_floors.entry((host.name.clone(), name.clone())).or_default();
                let has = host.at_server(self.now, name) + orphans;
                // What two processes have moves from one to the other.
                let has = if host.old.is_some() { host.used(self.now, name) } else { has };
                let rest = (*before).min(has);
                // One that is frozen, and whose share no other node has read before.
                let is_unheard =
                    host.node.store() != self.etcd.store() && entry == Entry::default() && !host.runs(self.now);
                let unheard = if is_unheard { host.used(self.now, name) } else { 0 };
                *before = rest.max(floor + orphans.saturating_sub(entry.share)).max(unheard);
            }
        }
    }

    /// What all have, or may open, is at most the sum of their shares, which is at most the budget, but for one that
    /// was reduced.
    fn check_budgets(&mut self) -> Result<(), String> {
        if self.etcd.store().is_some_and(|store| store.ready) {
            self.lost_shares.clear();
        }
        self.note_unknown_floors();
        for (name, budget) in &self.budgets {
            let record = self.etcd.pool(name);
            let unknown = &self.unknown_floors;
            let used = |host: &Host| {
                let unknown = unknown.get(&(host.name.clone(), name.clone())).copied().unwrap_or(0);
                host.used(self.now, name).saturating_sub(unknown)
            };
            let sum: u32 = self.hosts.iter().map(used).sum();
            // Before a new store is ready, what was shared in the one before counts.
            let before = self.lost_shares.get(name).copied().unwrap_or(0);
            let shared = record.map_or(0, PoolShares::shared).max(before);
            if sum > shared {
                let all: Vec<u32> = self.hosts.iter().map(used).collect();
                return Err(format!(
                    "over budget at {} ms: {name} has {}, and nodes {all:?}: {record:?}",
                    self.now / 1000,
                    budget.size,
                ));
            }
        }
        Ok(())
    }

    /// Connections that could serve a client serve one, and a smaller budget is obeyed.
    fn check_progress(&self) -> Result<(), String> {
        for (name, budget) in &self.budgets {
            let record = self.etcd.pool(name);
            if record.is_none_or(|record| record.budget != budget.size || record.shared() > budget.size) {
                return Err(format!("{name} has a budget of {}: {record:?}", budget.size));
            }
            let pools = || self.hosts.iter().map(|host| (&host.pools[name], &host.name));
            let record = self.etcd.pool(name).ok_or_else(|| format!("{name} has no record"))?;
            let reserved: u32 = pools().map(|(pool, host)| record.entry(host).floor.saturating_sub(pool.demand)).sum();
            let active: u32 = pools().map(|(pool, _)| pool.active).sum();
            let demand: u32 = pools().map(|(pool, _)| pool.demand).sum();
            if active < demand.min(budget.size.saturating_sub(reserved)) {
                return Err(format!(
                    "progress: {name} has a budget of {}, {demand} clients, {active} served: {record:?}",
                    budget.size
                ));
            }
        }
        Ok(())
    }

    fn check_fairness(&self) -> Result<(), String> {
        for (name, budget) in &self.budgets {
            let record = self.etcd.pool(name).ok_or_else(|| format!("{name} has no record"))?;
            let demand = |host: &Host| host.pools[name].demand;
            let floors: u32 = self.hosts.iter().map(|host| record.entry(&host.name).floor).sum();
            let busy = self.hosts.iter().filter(|host| demand(host) > 0).count() as u32;
            let fair = (budget.size - floors) / busy.max(1);
            for host in &self.hosts {
                let (pool, share) = (&host.pools[name], record.entry(&host.name).share);
                if share < pool.demand.min(fair) && budget.size > 1 {
                    return Err(format!("fairness: {} has {share} of {fair} in {name}: {record:?}", host.name));
                }
            }
        }
        Ok(())
    }
}
