//! Every order of messages in a small model: a counter, two workers, three pools under shared limits, and messages
//! with delays.
//!
//! A [`World`] has the counter itself, and a model of each worker's side (`servers`). From an empty world every event
//! is tried, and every event after that, to a given depth: a client comes or leaves, a server becomes idle or is lost,
//! the oldest message of one of the four directions arrives. Equal states are visited once; only the order of times
//! and numbers distinguishes states, since their distance never matters. After each event
//!
//! - no key has more servers than its limit, and the counter's count is that of the servers and permits that exist;
//! - a database server has no more connections than it may;
//! - if from here on all messages arrive and all servers become idle, no request waits, and the messages end;
//! - an idle server stays while clients wait only within its pool's guarantee, and while no user of that pool waits;
//! - while all other pools have clients that wait, a pool below its guarantee whose client waits gets a server before
//!   each of them has released more than one.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use weir_base::{Time, WorkerId};

use super::{
    Counter, Eviction, IfFull, Key, Limits, PoolId, QuotaReply, QuotaRequest, Resource, Share, Spared, WaitingRequest,
};

const WORKERS: u16 = 2;
/// The most clients that wait in one pool.
const CLIENTS: usize = 2;
/// How many events are tried in a row; each more takes three times as long.
const DEPTH: usize = 6;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Event {
    /// A client of this pool needs a server.
    Come(usize),
    /// The client of this pool that has waited longest leaves.
    Leave(usize),
    /// A client of this pool has finished with its server.
    Finish(usize),
    /// An idle server of this pool is lost, or if none is idle a busy one.
    Lose(usize),
    /// The oldest message of this worker reaches the counter.
    Up(usize),
    /// The oldest message of the counter reaches this worker.
    Down(usize),
    /// A limit changes, or changes back.
    Reload,
}

/// A pool at its worker.
#[derive(Clone)]
struct PoolModel {
    id: PoolId,
    owner: usize,
    waiting: VecDeque<Time>,
    busy: u32,
    idle: VecDeque<Time>,
    asking: Option<u64>,
    /// It keeps at most so many servers.
    ceiling: Option<u32>,
}

/// What the pools of database `d0` and `d1` are guaranteed at their server; none, if they share none.
type Guarantees = Option<(u32, u32)>;

/// Limits as the counter reads them.
struct InForce<'a>(&'a BTreeMap<Key, u32>, Guarantees, bool);

impl Limits for InForce<'_> {
    fn limit(&self, key: &Key) -> u32 {
        self.0.get(key).copied().unwrap_or(0)
    }

    fn share(&self, pool: &PoolId) -> Option<Share> {
        let (first, second) = self.1?;
        let guaranteed = if &*pool.database == "d0" { first } else { second };
        Some(Share { server: "s".into(), guaranteed, weight: 1, keeps: self.2 })
    }

    fn guaranteed(&self, _server: &str) -> u32 {
        self.1.map_or(0, |(first, second)| first + second)
    }
}

#[derive(Clone)]
struct World {
    counter: Counter,
    limits: BTreeMap<Key, u32>,
    /// The other limits of [`Event::Reload`], which swaps them.
    other: BTreeMap<Key, u32>,
    guarantees: Guarantees,
    /// The pools are in session mode.
    keeps: bool,
    pools: Vec<PoolModel>,
    /// The keys under which idle servers were requested from a worker, and whether it has offered one since.
    searched: [BTreeMap<Key, (bool, Spared)>; WORKERS as usize],
    up: [VecDeque<QuotaRequest>; WORKERS as usize],
    down: [VecDeque<QuotaReply>; WORKERS as usize],
    clock: u64,
    ids: u64,
    trace: Vec<Event>,
}

fn pool(database: u8, user: u8) -> PoolId {
    PoolId { database: format!("d{database}").into(), user: format!("u{user}").into() }
}

impl World {
    /// Two databases, two users; the pools are on both workers.
    fn new(limits: &[(Key, u32)], other: &[(Key, u32)]) -> World {
        let site = |id, owner| PoolModel {
            id,
            owner,
            waiting: VecDeque::new(),
            busy: 0,
            idle: VecDeque::new(),
            asking: None,
            ceiling: None,
        };
        World {
            counter: Counter::default(),
            limits: limits.iter().cloned().collect(),
            other: other.iter().cloned().collect(),
            guarantees: None,
            keeps: false,
            pools: vec![site(pool(0, 0), 0), site(pool(0, 1), 1), site(pool(1, 0), 1)],
            searched: Default::default(),
            up: Default::default(),
            down: Default::default(),
            clock: 0,
            ids: 0,
            trace: Vec::new(),
        }
    }

    fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        for (at, site) in self.pools.iter().enumerate() {
            let possible = [
                (site.waiting.len() < CLIENTS, Event::Come(at)),
                (!site.waiting.is_empty(), Event::Leave(at)),
                (site.busy > 0, Event::Finish(at)),
                (site.busy > 0 || !site.idle.is_empty(), Event::Lose(at)),
            ];
            events.extend(possible.into_iter().filter_map(|(is, event)| is.then_some(event)));
        }
        for worker in 0..usize::from(WORKERS) {
            events.extend((!self.up[worker].is_empty()).then_some(Event::Up(worker)));
            events.extend((!self.down[worker].is_empty()).then_some(Event::Down(worker)));
        }
        events.extend((self.limits != self.other).then_some(Event::Reload));
        events
    }

    fn apply(&mut self, event: Event) {
        self.trace.push(event);
        self.clock += 1;
        match event {
            Event::Come(at) => self.come(at),
            Event::Leave(at) => {
                self.pools[at].waiting.pop_front();
                self.request_if_wanted(at);
            }
            Event::Finish(at) => self.finish(at),
            Event::Lose(at) => {
                let site = &mut self.pools[at];
                if site.idle.pop_back().is_none() {
                    site.busy -= 1;
                }
                self.release(at);
            }
            Event::Up(worker) => {
                let request = self.up[worker].pop_front().expect("there is one");
                self.receive(worker, request);
            }
            Event::Down(worker) => {
                let reply = self.down[worker].pop_front().expect("there is one");
                self.carry_out(worker, reply);
            }
            Event::Reload => {
                std::mem::swap(&mut self.limits, &mut self.other);
                let replies = self.counter.limits_changed(WORKERS, &InForce(&self.limits, self.guarantees, self.keeps));
                self.send(replies);
            }
        }
        self.check();
    }

    fn come(&mut self, at: usize) {
        let now = self.now();
        let site = &mut self.pools[at];
        if site.idle.pop_back().is_some() {
            site.busy += 1;
            return;
        }
        site.waiting.push_back(now);
        self.request_if_wanted(at);
    }

    fn finish(&mut self, at: usize) {
        let now = self.now();
        let site = &mut self.pools[at];
        if site.is_above_ceiling() {
            site.busy -= 1;
            self.release(at);
            return self.request_if_wanted(at);
        }
        if site.waiting.pop_front().is_some() {
            return self.request_if_wanted(at);
        }
        site.busy -= 1;
        site.idle.push_back(now);
        let (owner, id, longest) = (site.owner, site.id.clone(), site.idle[0]);
        for key in id.keys().into_iter().chain([connections()]) {
            let search = self.searched[owner].get_mut(&key);
            if let Some((offered, _)) = search.filter(|(offered, spared)| !offered && !spared.contains(&id.database)) {
                *offered = true;
                self.up[owner].push_back(QuotaRequest::Idle { key, round: None, longest: Some((longest, id.clone())) });
            }
        }
    }

    /// One request at a time, as long as a client waits.
    fn request_if_wanted(&mut self, at: usize) {
        let site = &mut self.pools[at];
        match (site.asking, site.waiting.front()) {
            (None, Some(since)) => {
                self.ids += 1;
                site.asking = Some(self.ids);
                let (id, resource, if_full) = (self.ids, Resource::Server(site.id.clone()), IfFull::Wait(*since));
                self.up[site.owner].push_back(QuotaRequest::Acquire { id, resource, if_full });
            }
            (Some(id), None) => {
                site.asking = None;
                self.up[site.owner].push_back(QuotaRequest::Cancel { id });
            }
            _ => {}
        }
    }

    fn release(&mut self, at: usize) {
        let site = &self.pools[at];
        self.up[site.owner].push_back(QuotaRequest::Release { resource: Resource::Server(site.id.clone()), count: 1 });
    }

    fn receive(&mut self, from: usize, request: QuotaRequest) {
        let limits = InForce(&self.limits, self.guarantees, self.keeps);
        let replies = self.counter.receive(WorkerId(from as u16), request, WORKERS, &limits);
        self.send(replies);
    }

    fn send(&mut self, replies: Vec<QuotaReply>) {
        for reply in replies {
            match &reply {
                QuotaReply::Answer { to, .. } | QuotaReply::Evict { to, .. } | QuotaReply::KeepAtMost { to, .. } => {
                    self.down[usize::from(to.0)].push_back(reply)
                }
                QuotaReply::FindIdle { .. } | QuotaReply::StopFinding { .. } => {
                    self.down.iter_mut().for_each(|way| way.push_back(reply.clone()));
                }
            }
        }
    }

    fn carry_out(&mut self, worker: usize, reply: QuotaReply) {
        match reply {
            QuotaReply::Answer { resource: Resource::Client(_), .. } => unreachable!("no client asks here"),
            QuotaReply::Answer { id, resource: Resource::Server(pool), full, .. } => {
                assert!(full.is_none(), "a request that waits is never refused");
                let at = self.site(&pool);
                if self.pools[at].asking != Some(id) {
                    return self.release(at);
                }
                let site = &mut self.pools[at];
                site.asking = None;
                site.waiting.pop_front().expect("a worker that sends requests has a waiting client");
                site.busy += 1;
                self.request_if_wanted(at);
            }
            QuotaReply::KeepAtMost { pool, servers, .. } => {
                let at = self.site(&pool);
                self.pools[at].ceiling = servers;
                while self.pools[at].is_above_ceiling() && self.pools[at].idle.pop_front().is_some() {
                    self.release(at);
                }
            }
            QuotaReply::FindIdle { key, round, spared } => {
                let covers = |site: &PoolModel| {
                    !spared.contains(&site.id.database) && (key == connections() || site.id.keys().contains(&key))
                };
                let here = self.pools.iter().filter(|site| site.owner == worker && covers(site));
                let longest = here.filter_map(|site| Some((*site.idle.front()?, site.id.clone()))).min();
                self.searched[worker].insert(key.clone(), (false, spared));
                self.up[worker].push_back(QuotaRequest::Idle { key, round: Some(round), longest });
            }
            QuotaReply::StopFinding { key } => {
                self.searched[worker].remove(&key);
            }
            QuotaReply::Evict { pool, key, .. } => {
                if let Some((offered, _)) = self.searched[worker].get_mut(&key) {
                    *offered = false;
                }
                let at = self.site(&pool);
                match self.pools[at].idle.pop_front() {
                    Some(_) => self.release(at),
                    None => self.up[worker].push_back(QuotaRequest::NotIdle { key }),
                }
            }
        }
    }

    fn site(&self, pool: &PoolId) -> usize {
        self.pools.iter().position(|site| site.id == *pool).expect("it is one of ours")
    }

    fn now(&self) -> Time {
        Time::from_micros(self.clock)
    }

    fn check(&self) {
        let mut servers: BTreeMap<Key, u32> = BTreeMap::new();
        let mut permits: BTreeMap<Key, u32> = BTreeMap::new();
        let mut add = |id: &PoolId, count: u32, real: bool| {
            for key in id.keys() {
                *permits.entry(key.clone()).or_default() += count;
                *servers.entry(key).or_default() += if real { count } else { 0 };
            }
        };
        self.pools.iter().for_each(|site| add(&site.id, site.busy + site.idle.len() as u32, true));
        for request in self.up.iter().flatten() {
            if let QuotaRequest::Release { resource: Resource::Server(pool), count } = request {
                add(pool, *count, false);
            }
        }
        for reply in self.down.iter().flatten() {
            if let QuotaReply::Answer { resource: Resource::Server(pool), full: None, .. } = reply {
                add(pool, 1, false);
            }
        }
        permits.retain(|_, count| *count > 0);
        assert_eq!(permits, self.counter.counts, "the counter counts wrong: {:?}", self.trace);
        if let Some(most) = self.limits.get(&connections()).filter(|_| self.guarantees.is_some()) {
            let all: u32 = self.pools.iter().map(|site| site.busy + site.idle.len() as u32).sum();
            assert!(all <= *most.max(&self.other[&connections()]), "{all} connections: {:?}", self.trace);
        }
        for (key, count) in servers {
            // Servers from before a limit shrank may stay.
            let most = [&self.limits, &self.other].map(|limits| limits.get(&key).copied().unwrap_or(u32::MAX));
            assert!(count <= most[0].max(most[1]), "{count} servers under {key:?}: {:?}", self.trace);
        }
    }

    fn deliver_all(&mut self) {
        for _ in 0..200 {
            let next = self.events().into_iter().find(|event| matches!(event, Event::Up(_) | Event::Down(_)));
            let Some(event) = next else { return };
            self.apply(event);
        }
        panic!("messages without end: {:?}", self.trace);
    }

    fn servers_of(&self, database: &str) -> u32 {
        let of = self.pools.iter().filter(|site| &*site.id.database == database);
        of.map(|site| site.busy + site.idle.len() as u32).sum()
    }

    /// All others always have clients that wait, and each releases one server: a pool below its guarantee is served.
    fn check_guarantee(mut self) {
        let Some((_, guaranteed)) = self.guarantees.filter(|_| self.limits == self.other) else { return };
        self.deliver_all();
        let at = self.pools.len() - 1;
        let before = self.servers_of("d1");
        if before >= guaranteed || self.pools[at].waiting.is_empty() {
            return;
        }
        for other in 0..at {
            if self.pools[other].busy > 0 {
                while self.pools[other].waiting.len() < CLIENTS {
                    self.come(other);
                }
                self.apply(Event::Finish(other));
                self.deliver_all();
            }
        }
        let served = self.servers_of("d1") > before;
        assert!(served, "a pool below its guarantee got none: {:?}", self.trace);
    }

    /// All messages arrive and all servers become idle: then no client waits, and no message is left.
    fn finish_all(&mut self) {
        for _ in 0..200 {
            let next = self.events().into_iter().find(|event| matches!(event, Event::Up(_) | Event::Down(_)));
            let rest = (0..self.pools.len()).find(|at| self.pools[*at].busy > 0).map(Event::Finish);
            // What is idle within a guarantee stays until it has been idle for too long, unless another user of its pool
            // waits.
            let waits = self.pools.iter().any(|site| !site.waiting.is_empty());
            let idle = self.pools.iter().position(|site| !site.idle.is_empty() && self.may_stay(&site.id.database));
            let too_long = idle.filter(|_| waits && self.guarantees.is_some()).map(Event::Lose);
            match next.or(rest).or(too_long) {
                Some(event) => self.apply(event),
                None => {
                    let waiting = self.pools.iter().any(|site| !site.waiting.is_empty());
                    return assert!(!waiting, "a client waits although all is idle: {:?}", self.trace);
                }
            }
        }
        panic!("messages without end: {:?}", self.trace);
    }

    /// Whether idle servers of a database may stay while clients of others wait.
    fn may_stay(&self, database: &str) -> bool {
        let Some((first, second)) = self.guarantees else { return false };
        let mut own = self.pools.iter().filter(|site| &*site.id.database == database);
        self.servers_of(database) <= if database == "d0" { first } else { second }
            && own.all(|site| site.waiting.is_empty())
    }

    /// Distinguishes states by the order of times and of numbers, not by their values.
    fn fingerprint(&self) -> u64 {
        let ranks = self.ranks();
        let mut hash = DefaultHasher::new();
        let h = &mut hash;
        for site in &self.pools {
            (site.busy, ranks.id(site.asking)).hash(h);
            site.waiting.iter().for_each(|since| ranks.time(*since).hash(h));
            (site.waiting.len(), site.ceiling).hash(h);
            site.idle.iter().for_each(|since| ranks.time(*since).hash(h));
        }
        (&self.limits, &self.searched, &self.counter.counts, self.counter.shares.ceilings()).hash(h);
        for request in self.up.iter().flat_map(|way| way.iter().map(Some).chain([None])) {
            ranks.request(request, h);
        }
        for reply in self.down.iter().flat_map(|way| way.iter().map(Some).chain([None])) {
            ranks.reply(reply, h);
        }
        for ((since, id), WaitingRequest { worker, resource }) in &self.counter.waiting {
            (ranks.time(*since), ranks.id(Some(*id)), worker.0, resource).hash(h);
        }
        for (key, eviction) in &self.counter.evictions {
            key.hash(h);
            match eviction {
                Eviction::Searching { round, left, best, spared } => {
                    let best = best.as_ref().map(|(since, worker, pool)| (ranks.time(*since), worker.0, pool));
                    (0, ranks.round(Some(*round)), left, best, spared).hash(h);
                }
                Eviction::NoneIdle { spared } => (1, spared).hash(h),
                Eviction::Closing(pool) => (2, pool).hash(h),
                Eviction::Again => 3.hash(h),
            }
        }
        hash.finish()
    }

    fn ranks(&self) -> Ranks {
        let mut ranks = Ranks::default();
        for site in &self.pools {
            ranks.times.extend(site.waiting.iter().chain(&site.idle).copied());
            ranks.ids.extend(site.asking);
        }
        for request in self.up.iter().flatten() {
            match request {
                QuotaRequest::Acquire { id, if_full: IfFull::Wait(since), .. } => {
                    ranks.ids.insert(*id);
                    ranks.times.insert(*since);
                }
                QuotaRequest::Cancel { id } => {
                    ranks.ids.insert(*id);
                }
                QuotaRequest::Idle { round, longest, .. } => {
                    ranks.rounds.extend(*round);
                    ranks.times.extend(longest.iter().map(|(since, _)| *since));
                }
                _ => {}
            }
        }
        for reply in self.down.iter().flatten() {
            match reply {
                QuotaReply::Answer { id, .. } => ranks.ids.extend([*id]),
                QuotaReply::FindIdle { round, .. } => ranks.rounds.extend([*round]),
                _ => {}
            }
        }
        for (since, id) in self.counter.waiting.keys() {
            ranks.times.insert(*since);
            ranks.ids.insert(*id);
        }
        for eviction in self.counter.evictions.values() {
            if let Eviction::Searching { round, best, .. } = eviction {
                ranks.rounds.insert(*round);
                ranks.times.extend(best.iter().map(|(since, ..)| *since));
            }
        }
        ranks
    }
}

/// All times and numbers of a world, in order.
#[derive(Default)]
struct Ranks {
    times: BTreeSet<Time>,
    ids: BTreeSet<u64>,
    rounds: BTreeSet<u64>,
}

impl Ranks {
    fn time(&self, time: Time) -> usize {
        self.times.range(..time).count()
    }

    fn id(&self, id: Option<u64>) -> Option<usize> {
        id.map(|id| self.ids.range(..id).count())
    }

    fn round(&self, round: Option<u64>) -> Option<usize> {
        round.map(|round| self.rounds.range(..round).count())
    }

    fn request(&self, request: Option<&QuotaRequest>, h: &mut DefaultHasher) {
        match request {
            None => 0.hash(h),
            Some(QuotaRequest::Acquire { id, resource, if_full }) => {
                let since = if let IfFull::Wait(since) = if_full { Some(self.time(*since)) } else { None };
                (1, self.id(Some(*id)), resource, since).hash(h);
            }
            Some(QuotaRequest::Cancel { id }) => (2, self.id(Some(*id))).hash(h),
            Some(QuotaRequest::Add { resource, count }) => (3, resource, count).hash(h),
            Some(QuotaRequest::Release { resource, count }) => (4, resource, count).hash(h),
            Some(QuotaRequest::Idle { key, round, longest }) => {
                let longest = longest.as_ref().map(|(since, pool)| (self.time(*since), pool));
                (5, key, self.round(*round), longest).hash(h);
            }
            Some(QuotaRequest::NotIdle { key }) => (6, key).hash(h),
        }
    }

    fn reply(&self, reply: Option<&QuotaReply>, h: &mut DefaultHasher) {
        match reply {
            None => 0.hash(h),
            Some(QuotaReply::Answer { id, resource, full, .. }) => (1, self.id(Some(*id)), resource, full).hash(h),
            Some(QuotaReply::FindIdle { key, round, spared }) => (2, key, self.round(Some(*round)), spared).hash(h),
            Some(QuotaReply::StopFinding { key }) => (3, key).hash(h),
            Some(QuotaReply::Evict { pool, key, .. }) => (4, pool, key).hash(h),
            Some(QuotaReply::KeepAtMost { pool, servers, .. }) => (5, pool, servers).hash(h),
        }
    }
}

/// Tries every sequence of `depth` events; returns the number of different states.
fn explore(world: World, depth: usize) -> usize {
    let mut seen = HashSet::from([world.fingerprint()]);
    let mut front = vec![world];
    for _ in 0..depth {
        let mut next = Vec::new();
        for world in &front {
            for event in world.events() {
                let mut after = world.clone();
                after.apply(event);
                if seen.insert(after.fingerprint()) {
                    after.clone().finish_all();
                    after.clone().check_guarantee();
                    next.push(after);
                }
            }
        }
        front = next;
    }
    seen.len()
}

/// Tries every sequence of `depth` events without merging equal states; collects their fingerprints in `seen`, and
/// returns the number of sequences.
fn explore_every_order(world: &World, depth: usize, seen: &mut HashSet<u64>) -> u64 {
    seen.insert(world.fingerprint());
    if depth == 0 {
        world.clone().finish_all();
        return 1;
    }
    let after = |event: Event| {
        let mut after = world.clone();
        after.apply(event);
        after
    };
    world.events().into_iter().map(|event| explore_every_order(&after(event), depth - 1, seen)).sum()
}

fn connections() -> Key {
    Key::ConnectionsOf("s".into())
}

impl PoolModel {
    fn is_above_ceiling(&self) -> bool {
        self.ceiling.is_some_and(|ceiling| self.busy + self.idle.len() as u32 > ceiling)
    }
}

fn database(most: u32) -> (Key, u32) {
    (Key::ServersOfDatabase("d0".into()), most)
}

fn user(most: u32) -> (Key, u32) {
    (Key::ServersOfUser("u0".into()), most)
}

#[test]
fn a_limited_database_over_two_workers() {
    let limits = [database(1)];
    let states = explore(World::new(&limits, &limits), DEPTH);
    println!("a limited database over two workers: {states} states at {DEPTH} events");
    assert!(states > 500, "{states}");
}

#[test]
fn a_limited_database_and_a_limited_user_that_meet_in_one_pool() {
    let limits = [database(1), user(1)];
    let states = explore(World::new(&limits, &limits), DEPTH);
    println!("two limits that meet: {states} states at {DEPTH} events");
    assert!(states > 500, "{states}");
}

#[test]
fn limits_that_change_while_messages_are_under_way() {
    let states = explore(World::new(&[database(2), user(1)], &[database(1), user(2)]), DEPTH);
    println!("limits that change: {states} states at {DEPTH} events");
    assert!(states > 500, "{states}");
}

/// Three pools of two databases at a server; one of its connections is guaranteed to the second. The two pools of the
/// first have two.
fn shared(most: u32, other: u32) -> World {
    let limits = |most| [(connections(), most)];
    let mut world = World { guarantees: Some((0, 1)), ..World::new(&limits(most), &limits(other)) };
    for at in 0..2 {
        let resource = Resource::Server(world.pools[at].id.clone());
        world.pools[at].busy = 1;
        world.receive(world.pools[at].owner, QuotaRequest::Add { resource, count: 1 });
    }
    world
}

#[test]
fn a_storm_leaves_another_pool_its_guarantee() {
    let states = explore(shared(2, 2), DEPTH);
    println!("shares of a server: {states} states at {DEPTH} events");
    assert!(states > 500, "{states}");
}

#[test]
fn shares_of_a_server_whose_limit_changes() {
    let states = explore(shared(3, 1), DEPTH);
    println!("shares that change: {states} states at {DEPTH} events");
    assert!(states > 500, "{states}");
}

#[test]
fn users_of_one_pool_within_its_guarantee_get_the_idle_servers_of_each_other() {
    let limits = [(connections(), 2)];
    let mut world = World { guarantees: Some((1, 1)), ..World::new(&limits, &limits) };
    for at in [0, 2] {
        let resource = Resource::Server(world.pools[at].id.clone());
        world.pools[at].busy = 1;
        world.receive(world.pools[at].owner, QuotaRequest::Add { resource, count: 1 });
    }
    let states = explore(world, DEPTH - 1);
    println!("users within a guarantee: {states} states");
    assert!(states > 200, "{states}");
}

#[test]
fn pools_in_session_mode_that_leave_room_wait_beside_no_idle_server_that_would_help() {
    for guarantees in [(0, 1), (1, 1), (0, 0)] {
        let limits = [(connections(), 3)];
        let world = World { guarantees: Some(guarantees), keeps: true, ..World::new(&limits, &limits) };
        let states = explore(world, DEPTH - 1);
        println!("session mode with guarantees {guarantees:?}: {states} states");
        assert!(states > 200, "{states}");
    }
    let states = explore(World { keeps: true, ..shared(2, 2) }, DEPTH - 1);
    println!("session mode beyond what it may have: {states} states");
    assert!(states > 200, "{states}");
}

#[test]
fn states_that_look_alike_have_the_same_future() {
    let limits = [database(1), user(1)];
    let world = World::new(&limits, &limits);
    let mut seen = HashSet::new();
    let orders = explore_every_order(&world, 4, &mut seen);
    println!("every order of 4 events: {orders} orders, {} states", seen.len());
    assert_eq!(explore(world, 4), seen.len(), "merging has lost a state");
}
