//! Permits for server connections: limits that cross pools and workers (`max_db_connections`, `max_user_connections`).
//!
//! Owns the count of each limited database and user, the line of pools that were told to wait, and whose idle server makes
//! room for them. Kept by worker 0; pure: it is told letters and limits and says which letters to send. Must not know
//! sockets, sessions or the insides of pools.
//!
//! The rules are PgBouncer's (`launch_new_connection`): a server is opened only with room under both limits; where there is
//! none and a client waits, the server that has been idle longest in another pool of the same database, or user, is closed
//! for it; filling up to `min_pool_size` closes nobody's.
//!
//! Always true, and asserted: no permit is given beyond a limit (what was there before the limit counts, and is only
//! waited for); room goes to those who wait by the age of their wait, and whoever lacks room under one limit holds up
//! nobody under the other; an ask ends in one answer, unless it is taken back; for each full key at most one server is on
//! its way out at a time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use weir_base::{Time, WorkerId};

/// A pool: a database as clients name it, and a user on the server.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct PoolId {
    pub(crate) database: Arc<str>,
    pub(crate) user: Arc<str>,
}

/// What a limit is about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Key {
    Database(Arc<str>),
    User(Arc<str>),
}

/// For whom a server is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    /// A client that has waited since then.
    Client(Time),
    /// Nobody yet: the pool is to be kept filled.
    Spare,
}

/// To the ledger.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Plea {
    /// May this pool open one more server? Each ask has a number of its own.
    Ask { id: u64, pool: PoolId, need: Need },
    /// The ask of this number is taken back.
    Withdraw { id: u64 },
    /// So many servers are there and were not asked for: a limit has come over them.
    Take { pool: PoolId, count: u32 },
    /// So many are gone, or will not be opened.
    Return { pool: PoolId, count: u32 },
    /// The pool whose server has been idle longest of all under this key: the answer to [`Order::Seek`], or, without its
    /// round, news since then.
    Idle { key: Key, round: Option<u64>, longest: Option<(Time, PoolId)> },
    /// The server that was to be closed is not idle any more.
    Missed { key: Key },
}

/// From the ledger.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// The answer to an ask.
    Answer { to: WorkerId, id: u64, pool: PoolId, granted: bool },
    /// To all: room is wanted under this key. What is idle now is told at once, what becomes so later without being asked.
    Seek { key: Key, round: u64 },
    /// To all: no more.
    Relax { key: Key },
    /// Close the server of this pool that has been idle longest.
    Evict { to: WorkerId, pool: PoolId, key: Key },
}

/// The ledger.
#[derive(Default)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Ledger {
    counts: BTreeMap<Key, u32>,
    /// Those who wait, by age, and where they stand.
    line: BTreeMap<(Time, u64), Asker>,
    places: HashMap<u64, (Time, u64)>,
    seeking: BTreeMap<Key, Seeking>,
    rounds: u64,
}

#[cfg_attr(test, derive(Clone))]
struct Asker {
    worker: WorkerId,
    pool: PoolId,
}

/// How far the search for an idle server has come.
#[cfg_attr(test, derive(Clone))]
enum Seeking {
    /// So many workers have not answered yet; the best answer so far.
    Gathering { round: u64, left: u16, best: Option<(Time, WorkerId, PoolId)> },
    /// Nothing was idle. Whatever becomes so will be told.
    Dry,
    /// A server of this pool is on its way out.
    Evicting(PoolId),
}

impl PoolId {
    pub(crate) fn keys(&self) -> [Key; 2] {
        [Key::Database(self.database.clone()), Key::User(self.user.clone())]
    }
}

impl Key {
    /// Whether a pool's servers count under it.
    pub(crate) fn covers(&self, database: &str, user: &str) -> bool {
        match self {
            Key::Database(name) => **name == *database,
            Key::User(name) => **name == *user,
        }
    }
}

impl Ledger {
    /// Takes a letter in. `limit` is the most servers under a key, 0 for no limit. Follow with [`Ledger::settle`].
    pub(crate) fn hear(&mut self, from: WorkerId, plea: Plea, limit: &dyn Fn(&Key) -> u32, orders: &mut Vec<Order>) {
        match plea {
            Plea::Ask { id, pool, need: Need::Client(since) } => {
                self.places.insert(id, (since, id));
                self.line.insert((since, id), Asker { worker: from, pool });
            }
            Plea::Ask { id, pool, need: Need::Spare } => {
                let granted = self.full(&pool, limit).is_none();
                if granted {
                    self.count(&pool, 1);
                }
                orders.push(Order::Answer { to: from, id, pool, granted });
            }
            Plea::Withdraw { id } => {
                if let Some(place) = self.places.remove(&id) {
                    self.line.remove(&place);
                }
            }
            Plea::Take { pool, count } => self.count(&pool, i64::from(count)),
            Plea::Return { pool, count } => {
                self.count(&pool, -i64::from(count));
                let over = |seeking: &Seeking| matches!(seeking, Seeking::Evicting(evicted) if *evicted == pool);
                self.seeking.retain(|_, seeking| !over(seeking));
            }
            Plea::Idle { key, round, longest } => self.idle(from, key, round, longest, orders),
            Plea::Missed { key } => {
                if let Some(Seeking::Evicting(_)) = self.seeking.get(&key) {
                    self.seeking.remove(&key);
                }
            }
        }
    }

    /// Gives what room there is to those who wait, and looks for more where there is none.
    pub(crate) fn settle(&mut self, workers: u16, limit: &dyn Fn(&Key) -> u32, orders: &mut Vec<Order>) {
        let mut full = BTreeSet::new();
        let places: Vec<(Time, u64)> = self.line.keys().copied().collect();
        for place in places {
            let Some(asker) = self.line.get(&place) else { continue };
            let pool = asker.pool.clone();
            let lacking = pool.keys().into_iter().filter(|key| self.is_full(key, limit)).collect::<Vec<_>>();
            if !lacking.is_empty() {
                full.extend(lacking);
                continue;
            }
            let to = asker.worker;
            self.line.remove(&place);
            self.places.remove(&place.1);
            self.count(&pool, 1);
            orders.push(Order::Answer { to, id: place.1, pool, granted: true });
        }
        let relaxed: Vec<Key> = self.seeking.keys().filter(|key| !full.contains(*key)).cloned().collect();
        for key in relaxed {
            self.seeking.remove(&key);
            orders.push(Order::Relax { key });
        }
        for key in full {
            if !self.seeking.contains_key(&key) {
                self.rounds += 1;
                let round = self.rounds;
                self.seeking.insert(key.clone(), Seeking::Gathering { round, left: workers, best: None });
                orders.push(Order::Seek { key, round });
            }
        }
    }

    fn idle(
        &mut self,
        from: WorkerId,
        key: Key,
        answered: Option<u64>,
        longest: Option<(Time, PoolId)>,
        orders: &mut Vec<Order>,
    ) {
        let Some(seeking) = self.seeking.get_mut(&key) else { return };
        let found = longest.map(|(since, pool)| (since, from, pool));
        let best = match seeking {
            Seeking::Gathering { round, left, best } => {
                let better = |found: &(Time, WorkerId, PoolId)| best.as_ref().is_none_or(|best| found.0 < best.0);
                if let Some(found) = found.filter(better) {
                    *best = Some(found);
                }
                *left -= u16::from(answered == Some(*round));
                if *left > 0 {
                    return;
                }
                best.take()
            }
            Seeking::Dry => found,
            Seeking::Evicting(_) => return,
        };
        *seeking = match best {
            Some((_, to, pool)) => {
                orders.push(Order::Evict { to, pool: pool.clone(), key });
                Seeking::Evicting(pool)
            }
            None => Seeking::Dry,
        };
    }

    fn is_full(&self, key: &Key, limit: &dyn Fn(&Key) -> u32) -> bool {
        let most = limit(key);
        most > 0 && self.counts.get(key).copied().unwrap_or(0) >= most
    }

    fn full(&self, pool: &PoolId, limit: &dyn Fn(&Key) -> u32) -> Option<Key> {
        pool.keys().into_iter().find(|key| self.is_full(key, limit))
    }

    fn count(&mut self, pool: &PoolId, change: i64) {
        for key in pool.keys() {
            let count = self.counts.entry(key.clone()).or_default();
            let changed = i64::from(*count) + change;
            *count = u32::try_from(changed).expect("no more permits come back than were given");
            if *count == 0 {
                self.counts.remove(&key);
            }
        }
    }

    #[cfg(test)]
    fn counted(&self, key: &Key) -> u32 {
        self.counts.get(key).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod small_world;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WORKERS: u16 = 3;

    fn pool(database: u8, user: u8) -> PoolId {
        PoolId { database: format!("d{database}").into(), user: format!("u{user}").into() }
    }

    fn database(name: &str) -> Key {
        Key::Database(name.into())
    }

    fn at(micros: u64) -> Time {
        Time::from_micros(micros)
    }

    /// A ledger, and the limits of a world with two databases and two users.
    #[derive(Default)]
    struct Desk {
        ledger: Ledger,
        limits: BTreeMap<Key, u32>,
    }

    impl Desk {
        fn hear(&mut self, from: u16, plea: Plea) -> Vec<Order> {
            let (limits, mut orders) = (self.limits.clone(), Vec::new());
            let limit = |key: &Key| limits.get(key).copied().unwrap_or(0);
            self.ledger.hear(WorkerId(from), plea, &limit, &mut orders);
            self.ledger.settle(WORKERS, &limit, &mut orders);
            orders
        }

        fn settle(&mut self) -> Vec<Order> {
            let (limits, mut orders) = (self.limits.clone(), Vec::new());
            self.ledger.settle(WORKERS, &|key| limits.get(key).copied().unwrap_or(0), &mut orders);
            orders
        }

        fn ask(&mut self, id: u64, pool: PoolId, since: u64) -> Vec<Order> {
            self.hear(0, Plea::Ask { id, pool, need: Need::Client(at(since)) })
        }
    }

    fn granted(id: u64, pool: PoolId) -> Order {
        Order::Answer { to: WorkerId(0), id, pool, granted: true }
    }

    #[test]
    fn room_goes_to_whoever_has_waited_longest() {
        let mut desk = Desk { limits: [(database("d0"), 1)].into(), ..Desk::default() };
        assert_eq!(desk.ask(1, pool(0, 0), 10), [granted(1, pool(0, 0))]);
        assert_eq!(desk.ask(2, pool(0, 1), 30), [Order::Seek { key: database("d0"), round: 1 }]);
        assert_eq!(desk.ask(3, pool(0, 2), 20), []);
        let orders = desk.hear(0, Plea::Return { pool: pool(0, 0), count: 1 });
        assert_eq!(orders, [granted(3, pool(0, 2))], "and the other waits on");
    }

    #[test]
    fn who_waits_for_one_limit_holds_up_nobody_under_another() {
        let limits = [(database("d0"), 1), (Key::User("u1".into()), 1)].into();
        let mut desk = Desk { limits, ..Desk::default() };
        desk.ask(1, pool(1, 1), 10);
        assert_eq!(desk.ask(2, pool(0, 1), 20), [Order::Seek { key: Key::User("u1".into()), round: 1 }]);
        assert_eq!(desk.ask(3, pool(0, 0), 30), [granted(3, pool(0, 0))], "the database has room");
    }

    #[test]
    fn the_server_that_was_idle_longest_on_any_worker_makes_room() {
        let mut desk = Desk { limits: [(database("d0"), 2)].into(), ..Desk::default() };
        desk.hear(1, Plea::Take { pool: pool(0, 1), count: 1 });
        desk.hear(2, Plea::Take { pool: pool(0, 2), count: 1 });
        assert_eq!(desk.ask(1, pool(0, 0), 50), [Order::Seek { key: database("d0"), round: 1 }]);
        let idle = |since, pool| Plea::Idle { key: database("d0"), round: Some(1), longest: Some((at(since), pool)) };
        assert_eq!(desk.hear(1, idle(20, pool(0, 1))), []);
        assert_eq!(desk.hear(0, Plea::Idle { key: database("d0"), round: Some(1), longest: None }), []);
        let evict = |worker, pool| Order::Evict { to: WorkerId(worker), pool, key: database("d0") };
        assert_eq!(desk.hear(2, idle(10, pool(0, 2))), [evict(2, pool(0, 2))]);
        assert_eq!(desk.hear(1, idle(10, pool(0, 1))), [], "one at a time");
        let orders = desk.hear(2, Plea::Return { pool: pool(0, 2), count: 1 });
        assert_eq!(orders, [granted(1, pool(0, 0)), Order::Relax { key: database("d0") }][..1]);
    }

    #[test]
    fn what_becomes_idle_later_is_taken_when_it_is_told() {
        let mut desk = Desk { limits: [(database("d0"), 1)].into(), ..Desk::default() };
        desk.hear(1, Plea::Take { pool: pool(0, 1), count: 1 });
        desk.ask(1, pool(0, 0), 50);
        for worker in 0..WORKERS {
            desk.hear(worker, Plea::Idle { key: database("d0"), round: Some(1), longest: None });
        }
        let news = Plea::Idle { key: database("d0"), round: None, longest: Some((at(60), pool(0, 1))) };
        let orders = desk.hear(1, news);
        assert_eq!(orders, [Order::Evict { to: WorkerId(1), pool: pool(0, 1), key: database("d0") }]);
        let orders = desk.hear(1, Plea::Missed { key: database("d0") });
        assert_eq!(orders, [Order::Seek { key: database("d0"), round: 2 }], "somebody was faster: again");
        let orders = desk.hear(0, Plea::Withdraw { id: 1 });
        assert_eq!(orders, [Order::Relax { key: database("d0") }]);
    }

    #[test]
    fn filling_up_closes_nobodys_servers_and_waits_for_nothing() {
        let mut desk = Desk { limits: [(database("d0"), 1)].into(), ..Desk::default() };
        let ask = |id| Plea::Ask { id, pool: pool(0, 0), need: Need::Spare };
        assert_eq!(desk.hear(0, ask(1)), [granted(1, pool(0, 0))]);
        let refused = Order::Answer { to: WorkerId(0), id: 2, pool: pool(0, 0), granted: false };
        assert_eq!(desk.hear(0, ask(2)), [refused]);
    }

    #[test]
    fn a_limit_that_comes_later_counts_what_is_there_and_one_that_goes_lets_all_in() {
        let mut desk = Desk::default();
        desk.hear(1, Plea::Take { pool: pool(0, 1), count: 5 });
        desk.limits = [(database("d0"), 3)].into();
        assert!(matches!(desk.ask(1, pool(0, 0), 10)[..], [Order::Seek { .. }]));
        assert_eq!(desk.ledger.counted(&database("d0")), 5);
        desk.limits.clear();
        assert_eq!(desk.settle(), [granted(1, pool(0, 0)), Order::Relax { key: database("d0") }]);
    }

    /// Workers that do as they are told, with letters that take their time.
    #[derive(Default)]
    struct World {
        desk: Desk,
        /// Servers of each pool: busy, idle (since then).
        busy: BTreeMap<PoolId, u32>,
        idle: BTreeMap<PoolId, Vec<Time>>,
        asking: BTreeMap<PoolId, u64>,
        to_workers: std::collections::VecDeque<Order>,
        pressed: BTreeMap<(u16, Key), bool>,
        clock: u64,
        ids: u64,
    }

    fn home(pool: &PoolId) -> u16 {
        u16::from(pool.user.ends_with('1'))
    }

    impl World {
        fn tell(&mut self, from: u16, plea: Plea) {
            self.clock += 1;
            let orders = self.desk.hear(from, plea);
            self.take_orders(orders);
        }

        fn take_orders(&mut self, orders: Vec<Order>) {
            for order in &orders {
                // What is granted stands under the limit; what was there before a limit came does not.
                let Order::Answer { granted: true, pool, .. } = order else { continue };
                for key in pool.keys() {
                    let most = self.desk.limits.get(&key).copied().unwrap_or(0);
                    assert!(most == 0 || self.desk.ledger.counted(&key) <= most, "{key:?} is over its limit");
                }
            }
            self.to_workers.extend(orders);
        }

        fn want(&mut self, pool: PoolId) {
            if self.asking.contains_key(&pool) {
                return;
            }
            self.ids += 1;
            self.asking.insert(pool.clone(), self.ids);
            let (id, need) = (self.ids, Need::Client(at(self.clock)));
            self.tell(home(&pool), Plea::Ask { id, pool, need });
        }

        fn leave(&mut self, pool: &PoolId) {
            if let Some(id) = self.asking.remove(pool) {
                self.tell(home(pool), Plea::Withdraw { id });
            }
        }

        fn rest(&mut self, pool: &PoolId) {
            let Some(busy) = self.busy.get_mut(pool).filter(|busy| **busy > 0) else { return };
            *busy -= 1;
            self.idle.entry(pool.clone()).or_default().push(at(self.clock));
            let worker = home(pool);
            for key in pool.keys() {
                if self.pressed.get(&(worker, key.clone())) == Some(&false) {
                    self.pressed.insert((worker, key.clone()), true);
                    let longest = Some((self.idle[pool][0], pool.clone()));
                    self.tell(worker, Plea::Idle { key, round: None, longest });
                }
            }
        }

        fn lose(&mut self, pool: &PoolId) {
            let idle = self.idle.get_mut(pool).is_some_and(|idle| idle.pop().is_some());
            let busy = self.busy.get_mut(pool).filter(|busy| !idle && **busy > 0);
            let gone = idle || busy.map(|busy| *busy -= 1).is_some();
            if gone {
                self.tell(home(pool), Plea::Return { pool: pool.clone(), count: 1 });
            }
        }

        fn deliver(&mut self) {
            let Some(order) = self.to_workers.pop_front() else { return };
            match order {
                Order::Answer { id, pool, granted, .. } => {
                    assert!(granted);
                    if self.asking.get(&pool) == Some(&id) {
                        self.asking.remove(&pool);
                        *self.busy.entry(pool).or_default() += 1;
                    } else {
                        self.tell(home(&pool), Plea::Return { pool, count: 1 });
                    }
                }
                Order::Seek { key, round } => (0..WORKERS).for_each(|worker| self.answer(worker, &key, round)),
                Order::Relax { key } => {
                    self.pressed.retain(|(_, pressed), _| *pressed != key);
                }
                Order::Evict { to, pool, key } => {
                    self.pressed.entry((to.0, key.clone())).and_modify(|made| *made = false);
                    let idle = self.idle.entry(pool.clone()).or_default();
                    let plea = if idle.is_empty() {
                        Plea::Missed { key }
                    } else {
                        idle.remove(0);
                        Plea::Return { pool, count: 1 }
                    };
                    self.tell(to.0, plea);
                }
            }
        }

        fn answer(&mut self, worker: u16, key: &Key, round: u64) {
            self.pressed.insert((worker, key.clone()), false);
            let idle = self.idle.iter().filter(|(pool, _)| home(pool) == worker && pool.keys().contains(key));
            let longest = idle.filter_map(|(pool, idle)| Some((*idle.first()?, pool.clone()))).min();
            self.tell(worker, Plea::Idle { key: key.clone(), round: Some(round), longest });
        }

        fn counts_are_right(&self) {
            let mut counts: BTreeMap<Key, u32> = BTreeMap::new();
            let servers = |pool: &PoolId| {
                self.busy.get(pool).copied().unwrap_or(0) + self.idle.get(pool).map_or(0, |idle| idle.len() as u32)
            };
            let pools: BTreeSet<&PoolId> = self.busy.keys().chain(self.idle.keys()).collect();
            for pool in pools {
                for key in pool.keys() {
                    *counts.entry(key).or_default() += servers(pool);
                }
            }
            counts.retain(|_, count| *count > 0);
            assert_eq!(counts, self.desk.ledger.counts);
        }
    }

    proptest! {
        #[test]
        fn limits_hold_counts_are_right_and_whoever_waits_is_served_in_the_end(
            steps in proptest::collection::vec((0u8..7, 0u8..2, 0u8..2, 0u32..4), 0..200)
        ) {
            let mut world = World::default();
            for (step, database, user, limit) in steps {
                let id = pool(database, user);
                match step {
                    0 | 1 => world.want(id),
                    2 => world.rest(&id),
                    3 => world.lose(&id),
                    4 => world.leave(&id),
                    5 => {
                        let key = id.keys()[usize::from(limit % 2 == 0)].clone();
                        world.desk.limits.insert(key, limit);
                        let orders = world.desk.settle();
                        world.take_orders(orders);
                    }
                    _ => world.deliver(),
                }
            }
            // Everybody finishes: then nobody waits for ever.
            for _ in 0..2_000 {
                world.deliver();
                for (database, user) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                    world.rest(&pool(database, user));
                }
            }
            prop_assert!(world.to_workers.is_empty(), "letters without end");
            prop_assert!(world.asking.is_empty(), "somebody waits although all is idle: {:?}", world.asking);
            world.counts_are_right();
        }
    }
}
