//! Every order of letters in small worlds: a ledger, two workers, three pools under limits that cross them, and letters
//! that take their time.
//!
//! A [`World`] has the ledger itself, and a model of what each worker's side (`limits`) does with its letters. From an
//! empty world every event is tried, and every event after that, to a given depth: a client comes or leaves, a server
//! rests or is lost, the oldest letter of one of the four ways arrives. States that look alike are visited once; they may
//! be, because only the order of moments and numbers matters, never their distance. After each event
//!
//! - no key has more servers than its limit, and the ledger's count is that of the servers and permits that exist;
//! - when from here on all letters arrive and all servers come to rest, nobody waits, and the letters end.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use weir_base::{Time, WorkerId};

use super::{Asker, Key, Ledger, Need, Order, Plea, PoolId, Seeking};

const WORKERS: u16 = 2;
/// The most clients that wait in one pool.
const CLIENTS: usize = 2;
/// How many events are tried after each other; each more takes three times as long.
const DEPTH: usize = 6;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Event {
    /// A client of this pool wants a server.
    Come(usize),
    /// The client of this pool that waits longest leaves.
    Leave(usize),
    /// A client of this pool is done with its server.
    Rest(usize),
    /// An idle server of this pool is lost, or else a busy one.
    Lose(usize),
    /// The oldest letter of this worker reaches the ledger.
    Up(usize),
    /// The oldest letter of the ledger reaches this worker.
    Down(usize),
    /// A limit changes, or changes back.
    Reload,
}

/// A pool at its worker.
#[derive(Clone)]
struct Site {
    id: PoolId,
    home: usize,
    waiting: VecDeque<Time>,
    busy: u32,
    idle: VecDeque<Time>,
    asking: Option<u64>,
}

#[derive(Clone)]
struct World {
    ledger: Ledger,
    limits: BTreeMap<Key, u32>,
    /// What [`Event::Reload`] changes them to, and back.
    other: BTreeMap<Key, u32>,
    sites: Vec<Site>,
    /// Where a worker has been asked for idle servers, and whether it has offered one since.
    pressed: [BTreeMap<Key, bool>; WORKERS as usize],
    up: [VecDeque<Plea>; WORKERS as usize],
    down: [VecDeque<Order>; WORKERS as usize],
    clock: u64,
    ids: u64,
    trace: Vec<Event>,
}

fn pool(database: u8, user: u8) -> PoolId {
    PoolId { database: format!("d{database}").into(), user: format!("u{user}").into() }
}

impl World {
    /// Two databases, two users; the pools live on both workers.
    fn new(limits: &[(Key, u32)], other: &[(Key, u32)]) -> World {
        let site = |id, home| Site { id, home, waiting: VecDeque::new(), busy: 0, idle: VecDeque::new(), asking: None };
        World {
            ledger: Ledger::default(),
            limits: limits.iter().cloned().collect(),
            other: other.iter().cloned().collect(),
            sites: vec![site(pool(0, 0), 0), site(pool(0, 1), 1), site(pool(1, 0), 1)],
            pressed: Default::default(),
            up: Default::default(),
            down: Default::default(),
            clock: 0,
            ids: 0,
            trace: Vec::new(),
        }
    }

    fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        for (at, site) in self.sites.iter().enumerate() {
            let possible = [
                (site.waiting.len() < CLIENTS, Event::Come(at)),
                (!site.waiting.is_empty(), Event::Leave(at)),
                (site.busy > 0, Event::Rest(at)),
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
                self.sites[at].waiting.pop_front();
                self.ask_for_what_is_wanted(at);
            }
            Event::Rest(at) => self.rest(at),
            Event::Lose(at) => {
                let site = &mut self.sites[at];
                if site.idle.pop_back().is_none() {
                    site.busy -= 1;
                }
                self.give_back(at);
            }
            Event::Up(worker) => {
                let plea = self.up[worker].pop_front().expect("there is one");
                self.hear(worker, plea);
            }
            Event::Down(worker) => {
                let order = self.down[worker].pop_front().expect("there is one");
                self.obey(worker, order);
            }
            Event::Reload => {
                std::mem::swap(&mut self.limits, &mut self.other);
                let (limits, mut orders) = (self.limits.clone(), Vec::new());
                self.ledger.settle(WORKERS, &|key| limits.get(key).copied().unwrap_or(0), &mut orders);
                self.send(orders);
            }
        }
        self.check();
    }

    fn come(&mut self, at: usize) {
        let now = self.now();
        let site = &mut self.sites[at];
        if site.idle.pop_back().is_some() {
            site.busy += 1;
            return;
        }
        site.waiting.push_back(now);
        self.ask_for_what_is_wanted(at);
    }

    fn rest(&mut self, at: usize) {
        let now = self.now();
        let site = &mut self.sites[at];
        if site.waiting.pop_front().is_some() {
            return self.ask_for_what_is_wanted(at);
        }
        site.busy -= 1;
        site.idle.push_back(now);
        let (home, id, longest) = (site.home, site.id.clone(), site.idle[0]);
        for key in id.keys() {
            if let Some(offered) = self.pressed[home].get_mut(&key).filter(|offered| !**offered) {
                *offered = true;
                self.up[home].push_back(Plea::Idle { key, round: None, longest: Some((longest, id.clone())) });
            }
        }
    }

    /// One ask at a time, as long as somebody waits.
    fn ask_for_what_is_wanted(&mut self, at: usize) {
        let site = &mut self.sites[at];
        match (site.asking, site.waiting.front()) {
            (None, Some(since)) => {
                self.ids += 1;
                site.asking = Some(self.ids);
                let (id, pool, need) = (self.ids, site.id.clone(), Need::Client(*since));
                self.up[site.home].push_back(Plea::Ask { id, pool, need });
            }
            (Some(id), None) => {
                site.asking = None;
                self.up[site.home].push_back(Plea::Withdraw { id });
            }
            _ => {}
        }
    }

    fn give_back(&mut self, at: usize) {
        let site = &self.sites[at];
        self.up[site.home].push_back(Plea::Return { pool: site.id.clone(), count: 1 });
    }

    fn hear(&mut self, from: usize, plea: Plea) {
        let (limits, mut orders) = (self.limits.clone(), Vec::new());
        let limit = |key: &Key| limits.get(key).copied().unwrap_or(0);
        self.ledger.hear(WorkerId(from as u16), plea, &limit, &mut orders);
        self.ledger.settle(WORKERS, &limit, &mut orders);
        self.send(orders);
    }

    fn send(&mut self, orders: Vec<Order>) {
        for order in orders {
            match &order {
                Order::Answer { to, .. } | Order::Evict { to, .. } => self.down[usize::from(to.0)].push_back(order),
                Order::Seek { .. } | Order::Relax { .. } => {
                    self.down.iter_mut().for_each(|way| way.push_back(order.clone()));
                }
            }
        }
    }

    fn obey(&mut self, worker: usize, order: Order) {
        match order {
            Order::Answer { id, pool, granted, .. } => {
                assert!(granted, "a client's ask is never refused");
                let at = self.site(&pool);
                if self.sites[at].asking != Some(id) {
                    return self.give_back(at);
                }
                let site = &mut self.sites[at];
                site.asking = None;
                site.waiting.pop_front().expect("who asks has somebody who waits");
                site.busy += 1;
                self.ask_for_what_is_wanted(at);
            }
            Order::Seek { key, round } => {
                let here = self.sites.iter().filter(|site| site.home == worker && site.id.keys().contains(&key));
                let longest = here.filter_map(|site| Some((*site.idle.front()?, site.id.clone()))).min();
                self.pressed[worker].insert(key.clone(), false);
                self.up[worker].push_back(Plea::Idle { key, round: Some(round), longest });
            }
            Order::Relax { key } => {
                self.pressed[worker].remove(&key);
            }
            Order::Evict { pool, key, .. } => {
                if let Some(offered) = self.pressed[worker].get_mut(&key) {
                    *offered = false;
                }
                let at = self.site(&pool);
                match self.sites[at].idle.pop_front() {
                    Some(_) => self.give_back(at),
                    None => self.up[worker].push_back(Plea::Missed { key }),
                }
            }
        }
    }

    fn site(&self, pool: &PoolId) -> usize {
        self.sites.iter().position(|site| site.id == *pool).expect("it is one of ours")
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
        self.sites.iter().for_each(|site| add(&site.id, site.busy + site.idle.len() as u32, true));
        for plea in self.up.iter().flatten() {
            if let Plea::Return { pool, count } = plea {
                add(pool, *count, false);
            }
        }
        for order in self.down.iter().flatten() {
            if let Order::Answer { pool, granted: true, .. } = order {
                add(pool, 1, false);
            }
        }
        permits.retain(|_, count| *count > 0);
        assert_eq!(permits, self.ledger.counts, "the ledger counts wrong: {:?}", self.trace);
        for (key, count) in servers {
            // What was there before a limit shrank may stay.
            let most = [&self.limits, &self.other].map(|limits| limits.get(&key).copied().unwrap_or(u32::MAX));
            assert!(count <= most[0].max(most[1]), "{count} servers under {key:?}: {:?}", self.trace);
        }
    }

    /// All letters arrive and all servers come to rest: then nobody waits, and there are no letters any more.
    fn calm_down(&mut self) {
        for _ in 0..200 {
            let next = self.events().into_iter().find(|event| matches!(event, Event::Up(_) | Event::Down(_)));
            let rest = (0..self.sites.len()).find(|at| self.sites[*at].busy > 0).map(Event::Rest);
            match next.or(rest) {
                Some(event) => self.apply(event),
                None => {
                    let waiting = self.sites.iter().any(|site| !site.waiting.is_empty());
                    return assert!(!waiting, "somebody waits although all is idle: {:?}", self.trace);
                }
            }
        }
        panic!("letters without end: {:?}", self.trace);
    }

    /// What tells this state from others: the order of moments and of numbers, not their values.
    fn looks(&self) -> u64 {
        let ranks = self.ranks();
        let mut hash = DefaultHasher::new();
        let h = &mut hash;
        for site in &self.sites {
            (site.busy, ranks.id(site.asking)).hash(h);
            site.waiting.iter().for_each(|since| ranks.time(*since).hash(h));
            site.waiting.len().hash(h);
            site.idle.iter().for_each(|since| ranks.time(*since).hash(h));
        }
        (&self.limits, &self.pressed, &self.ledger.counts).hash(h);
        for plea in self.up.iter().flat_map(|way| way.iter().map(Some).chain([None])) {
            ranks.plea(plea, h);
        }
        for order in self.down.iter().flat_map(|way| way.iter().map(Some).chain([None])) {
            ranks.order(order, h);
        }
        for ((since, id), Asker { worker, pool }) in &self.ledger.line {
            (ranks.time(*since), ranks.id(Some(*id)), worker.0, pool).hash(h);
        }
        for (key, seeking) in &self.ledger.seeking {
            key.hash(h);
            match seeking {
                Seeking::Gathering { round, left, best } => {
                    let best = best.as_ref().map(|(since, worker, pool)| (ranks.time(*since), worker.0, pool));
                    (0, ranks.round(Some(*round)), left, best).hash(h);
                }
                Seeking::Dry => 1.hash(h),
                Seeking::Evicting(pool) => (2, pool).hash(h),
            }
        }
        hash.finish()
    }

    fn ranks(&self) -> Ranks {
        let mut ranks = Ranks::default();
        for site in &self.sites {
            ranks.times.extend(site.waiting.iter().chain(&site.idle).copied());
            ranks.ids.extend(site.asking);
        }
        for plea in self.up.iter().flatten() {
            match plea {
                Plea::Ask { id, need: Need::Client(since), .. } => {
                    ranks.ids.insert(*id);
                    ranks.times.insert(*since);
                }
                Plea::Withdraw { id } => {
                    ranks.ids.insert(*id);
                }
                Plea::Idle { round, longest, .. } => {
                    ranks.rounds.extend(*round);
                    ranks.times.extend(longest.iter().map(|(since, _)| *since));
                }
                _ => {}
            }
        }
        for order in self.down.iter().flatten() {
            match order {
                Order::Answer { id, .. } => ranks.ids.extend([*id]),
                Order::Seek { round, .. } => ranks.rounds.extend([*round]),
                _ => {}
            }
        }
        for (since, id) in self.ledger.line.keys() {
            ranks.times.insert(*since);
            ranks.ids.insert(*id);
        }
        for seeking in self.ledger.seeking.values() {
            if let Seeking::Gathering { round, best, .. } = seeking {
                ranks.rounds.insert(*round);
                ranks.times.extend(best.iter().map(|(since, ..)| *since));
            }
        }
        ranks
    }
}

/// All moments and numbers of a world, in their order.
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

    fn plea(&self, plea: Option<&Plea>, h: &mut DefaultHasher) {
        match plea {
            None => 0.hash(h),
            Some(Plea::Ask { id, pool, need }) => {
                let since = if let Need::Client(since) = need { Some(self.time(*since)) } else { None };
                (1, self.id(Some(*id)), pool, since).hash(h);
            }
            Some(Plea::Withdraw { id }) => (2, self.id(Some(*id))).hash(h),
            Some(Plea::Take { pool, count }) => (3, pool, count).hash(h),
            Some(Plea::Return { pool, count }) => (4, pool, count).hash(h),
            Some(Plea::Idle { key, round, longest }) => {
                let longest = longest.as_ref().map(|(since, pool)| (self.time(*since), pool));
                (5, key, self.round(*round), longest).hash(h);
            }
            Some(Plea::Missed { key }) => (6, key).hash(h),
        }
    }

    fn order(&self, order: Option<&Order>, h: &mut DefaultHasher) {
        match order {
            None => 0.hash(h),
            Some(Order::Answer { id, pool, granted, .. }) => (1, self.id(Some(*id)), pool, granted).hash(h),
            Some(Order::Seek { key, round }) => (2, key, self.round(Some(*round))).hash(h),
            Some(Order::Relax { key }) => (3, key).hash(h),
            Some(Order::Evict { pool, key, .. }) => (4, pool, key).hash(h),
        }
    }
}

/// Tries everything to `depth` events; returns how many different states there were.
fn explore(world: World, depth: usize) -> usize {
    let mut seen = HashSet::from([world.looks()]);
    let mut front = vec![world];
    for _ in 0..depth {
        let mut next = Vec::new();
        for world in &front {
            for event in world.events() {
                let mut after = world.clone();
                after.apply(event);
                if seen.insert(after.looks()) {
                    after.clone().calm_down();
                    next.push(after);
                }
            }
        }
        front = next;
    }
    seen.len()
}

/// The same without merging; returns the looks of all states, and counts the orders of events.
fn explore_every_order(world: &World, depth: usize, seen: &mut HashSet<u64>) -> u64 {
    seen.insert(world.looks());
    if depth == 0 {
        world.clone().calm_down();
        return 1;
    }
    let after = |event: Event| {
        let mut after = world.clone();
        after.apply(event);
        after
    };
    world.events().into_iter().map(|event| explore_every_order(&after(event), depth - 1, seen)).sum()
}

fn database(most: u32) -> (Key, u32) {
    (Key::Database("d0".into()), most)
}

fn user(most: u32) -> (Key, u32) {
    (Key::User("u0".into()), most)
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
fn limits_that_change_while_letters_are_under_way() {
    let states = explore(World::new(&[database(2), user(1)], &[database(1), user(2)]), DEPTH);
    println!("limits that change: {states} states at {DEPTH} events");
    assert!(states > 500, "{states}");
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
