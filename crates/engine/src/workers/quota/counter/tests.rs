//! The counter of the quotas, one rule per test; and workers that follow the protocol, at random.

use proptest::prelude::*;

use super::*;

const WORKERS: u16 = 3;

fn pool(database: u8, user: u8) -> PoolId {
    PoolId { database: format!("d{database}").into(), user: format!("u{user}").into() }
}

fn server(database: u8, user: u8) -> Resource {
    Resource::Server(pool(database, user))
}

fn database(name: &str) -> Key {
    Key::ServersOfDatabase(name.into())
}

fn at(micros: u64) -> Time {
    Time::from_micros(micros)
}

/// A counter, and the limits of two databases and two users.
#[derive(Default)]
struct Limited {
    counter: Counter,
    limits: BTreeMap<Key, u32>,
    shares: BTreeMap<Arc<str>, Share>,
}

/// The limits of keys, and the shares of databases.
#[derive(Clone, Default)]
struct Most {
    limits: BTreeMap<Key, u32>,
    shares: BTreeMap<Arc<str>, Share>,
}

impl Limits for Most {
    fn limit(&self, key: &Key) -> u32 {
        self.limits.get(key).copied().unwrap_or(0)
    }

    fn share(&self, pool: &PoolId) -> Option<Share> {
        self.shares.get(&pool.database).cloned()
    }

    fn guaranteed(&self, server: &str) -> u32 {
        self.shares.values().filter(|share| *share.server == *server).map(|share| share.guaranteed).sum()
    }
}

impl Limited {
    fn limits(&self) -> Most {
        Most { limits: self.limits.clone(), shares: self.shares.clone() }
    }

    fn receive(&mut self, from: u16, request: QuotaRequest) -> Vec<QuotaReply> {
        let limits = self.limits();
        self.counter.receive(WorkerId(from), request, WORKERS, &limits)
    }

    fn limits_changed(&mut self) -> Vec<QuotaReply> {
        let limits = self.limits();
        self.counter.limits_changed(WORKERS, &limits)
    }

    fn ask(&mut self, id: u64, pool: PoolId, since: u64) -> Vec<QuotaReply> {
        self.receive(
            0,
            QuotaRequest::Acquire { id, resource: Resource::Server(pool), if_full: IfFull::Wait(at(since)) },
        )
    }
}

fn find(key: Key, round: u64) -> QuotaReply {
    QuotaReply::FindIdle { key, round, spared: Spared::default() }
}

fn granted(id: u64, pool: PoolId) -> QuotaReply {
    QuotaReply::Answer { to: WorkerId(0), id, resource: Resource::Server(pool), full: None }
}

#[test]
fn room_goes_to_the_oldest_wait() {
    let mut limited = Limited { limits: [(database("d0"), 1)].into(), ..Limited::default() };
    assert_eq!(limited.ask(1, pool(0, 0), 10), [granted(1, pool(0, 0))]);
    assert_eq!(limited.ask(2, pool(0, 1), 30), [find(database("d0"), 1)]);
    assert_eq!(limited.ask(3, pool(0, 2), 20), []);
    let replies = limited.receive(0, QuotaRequest::Release { resource: server(0, 0), count: 1 });
    assert_eq!(replies, [granted(3, pool(0, 2))], "and the other waits on");
}

#[test]
fn a_wait_for_one_limit_delays_no_request_under_another() {
    let limits = [(database("d0"), 1), (Key::ServersOfUser("u1".into()), 1)].into();
    let mut limited = Limited { limits, ..Limited::default() };
    limited.ask(1, pool(1, 1), 10);
    assert_eq!(limited.ask(2, pool(0, 1), 20), [find(Key::ServersOfUser("u1".into()), 1)]);
    assert_eq!(limited.ask(3, pool(0, 0), 30), [granted(3, pool(0, 0))], "the database has room");
}

#[test]
fn the_server_that_was_idle_longest_on_any_worker_makes_room() {
    let mut limited = Limited { limits: [(database("d0"), 2)].into(), ..Limited::default() };
    limited.receive(1, QuotaRequest::Add { resource: server(0, 1), count: 1 });
    limited.receive(2, QuotaRequest::Add { resource: server(0, 2), count: 1 });
    assert_eq!(limited.ask(1, pool(0, 0), 50), [find(database("d0"), 1)]);
    let idle =
        |since, pool| QuotaRequest::Idle { key: database("d0"), round: Some(1), longest: Some((at(since), pool)) };
    assert_eq!(limited.receive(1, idle(20, pool(0, 1))), []);
    assert_eq!(limited.receive(0, QuotaRequest::Idle { key: database("d0"), round: Some(1), longest: None }), []);
    let evict = |worker, pool| QuotaReply::Evict { to: WorkerId(worker), pool, key: database("d0") };
    assert_eq!(limited.receive(2, idle(10, pool(0, 2))), [evict(2, pool(0, 2))]);
    assert_eq!(limited.receive(1, idle(10, pool(0, 1))), [], "one at a time");
    let replies = limited.receive(2, QuotaRequest::Release { resource: server(0, 2), count: 1 });
    assert_eq!(replies, [granted(1, pool(0, 0)), QuotaReply::StopFinding { key: database("d0") }][..1]);
}

#[test]
fn what_becomes_idle_later_is_taken_when_it_is_reported() {
    let mut limited = Limited { limits: [(database("d0"), 1)].into(), ..Limited::default() };
    limited.receive(1, QuotaRequest::Add { resource: server(0, 1), count: 1 });
    limited.ask(1, pool(0, 0), 50);
    for worker in 0..WORKERS {
        limited.receive(worker, QuotaRequest::Idle { key: database("d0"), round: Some(1), longest: None });
    }
    let news = QuotaRequest::Idle { key: database("d0"), round: None, longest: Some((at(60), pool(0, 1))) };
    let replies = limited.receive(1, news);
    assert_eq!(replies, [QuotaReply::Evict { to: WorkerId(1), pool: pool(0, 1), key: database("d0") }]);
    let replies = limited.receive(1, QuotaRequest::NotIdle { key: database("d0") });
    assert_eq!(replies, [find(database("d0"), 2)], "another request was faster: again");
    let replies = limited.receive(0, QuotaRequest::Cancel { id: 1 });
    assert_eq!(replies, [QuotaReply::StopFinding { key: database("d0") }]);
}

#[test]
fn filling_up_closes_no_servers_and_waits_for_nothing() {
    let mut limited = Limited { limits: [(database("d0"), 1)].into(), ..Limited::default() };
    let ask = |id| QuotaRequest::Acquire { id, resource: server(0, 0), if_full: IfFull::Refuse };
    assert_eq!(limited.receive(0, ask(1)), [granted(1, pool(0, 0))]);
    let refused = QuotaReply::Answer { to: WorkerId(0), id: 2, resource: server(0, 0), full: Some(database("d0")) };
    assert_eq!(limited.receive(0, ask(2)), [refused]);
}

#[test]
fn a_limit_that_comes_later_counts_what_is_there_and_one_that_goes_lets_all_in() {
    let mut limited = Limited::default();
    limited.receive(1, QuotaRequest::Add { resource: server(0, 1), count: 5 });
    limited.limits = [(database("d0"), 3)].into();
    assert!(matches!(limited.ask(1, pool(0, 0), 10)[..], [QuotaReply::FindIdle { .. }]));
    assert_eq!(limited.counter.counted(&database("d0")), 5);
    limited.limits.clear();
    assert_eq!(limited.limits_changed(), [granted(1, pool(0, 0)), QuotaReply::StopFinding { key: database("d0") }]);
}

/// Databases d0, d1… that share the connections of server "s", with their guarantees and weights.
fn shared(most: u32, databases: &[(u32, u32)]) -> Limited {
    let share = |(n, (guaranteed, weight)): (usize, &(u32, u32))| {
        let share = Share { server: "s".into(), guaranteed: *guaranteed, weight: *weight, keeps: false };
        (Arc::from(format!("d{n}")), share)
    };
    Limited {
        limits: [(connections(), most)].into(),
        shares: databases.iter().enumerate().map(share).collect(),
        ..Limited::default()
    }
}

fn connections() -> Key {
    Key::ConnectionsOf("s".into())
}

impl Limited {
    fn has(&mut self, pool: PoolId, count: u32) {
        self.receive(0, QuotaRequest::Add { resource: Resource::Server(pool), count });
    }

    /// All workers answer that none of their servers is idle.
    fn none_idle(&mut self, round: u64) -> Vec<QuotaReply> {
        let none = || QuotaRequest::Idle { key: connections(), round: Some(round), longest: None };
        (0..WORKERS).flat_map(|worker| self.receive(worker, none())).collect()
    }

    /// No server is idle in any round that begins.
    fn find_none(&mut self, replies: &mut Vec<QuotaReply>) {
        let round =
            |reply: &QuotaReply| if let QuotaReply::FindIdle { round, .. } = reply { Some(*round) } else { None };
        while let Some(round) = replies.iter().find_map(round) {
            replies.retain(|reply| !matches!(reply, QuotaReply::FindIdle { .. }));
            replies.extend(self.none_idle(round));
        }
    }

    fn released(&mut self, pool: PoolId) -> Vec<QuotaReply> {
        self.receive(0, QuotaRequest::Release { resource: Resource::Server(pool), count: 1 })
    }
}

fn keeps(pool: PoolId, servers: Option<u32>) -> QuotaReply {
    QuotaReply::KeepAtMost { to: WorkerId(0), pool, servers }
}

#[test]
fn a_pool_below_its_guarantee_gets_the_next_server_of_a_storm() {
    let mut limited = shared(5, &[(0, 1), (2, 1)]);
    limited.has(pool(0, 0), 5);
    assert_eq!(limited.ask(1, pool(0, 0), 10), [find(connections(), 1)], "the storm wants more");
    assert_eq!(limited.ask(2, pool(1, 0), 50), [], "and has waited for longer");
    assert_eq!(limited.none_idle(1), [keeps(pool(0, 0), Some(4))]);
    assert_eq!(limited.released(pool(0, 0)), [granted(2, pool(1, 0)), keeps(pool(0, 0), None)]);
    // One of two is there: the other comes, too.
    assert_eq!(limited.ask(3, pool(1, 0), 60), [keeps(pool(0, 0), Some(3))]);
    assert_eq!(limited.released(pool(0, 0)), [granted(3, pool(1, 0)), keeps(pool(0, 0), None)]);
    // By now the fair part of each is 2 or 3.
    assert_eq!(limited.ask(4, pool(1, 0), 70), []);
}

#[test]
fn what_is_beyond_the_guarantees_goes_by_weight_and_never_back() {
    let mut limited = shared(8, &[(0, 3), (0, 1)]);
    limited.has(pool(1, 0), 8);
    let mut replies = limited.ask(1, pool(1, 0), 5);
    limited.find_none(&mut replies);
    let (mut id, mut taken) = (10, 0);
    loop {
        id += 1;
        let mut replies = limited.ask(id, pool(0, 0), id);
        limited.find_none(&mut replies);
        if replies.is_empty() {
            break;
        }
        taken += 1;
        assert_eq!(replies.last(), Some(&keeps(pool(1, 0), Some(8 - taken))));
        let mut replies = limited.released(pool(1, 0));
        assert_eq!(replies[0], granted(id, pool(0, 0)));
        limited.find_none(&mut replies);
    }
    // Six to two is three to one.
    assert_eq!((taken, limited.counter.shares.total("s")), (6, 8));
}

#[test]
fn an_idle_server_within_a_guarantee_stays_and_one_beyond_goes_first() {
    let mut limited = shared(4, &[(2, 1), (1, 1)]);
    limited.has(pool(0, 0), 2);
    limited.has(pool(1, 0), 2);
    let replies = limited.ask(1, pool(2, 0), 50);
    assert_eq!(replies, [granted(1, pool(2, 0))], "another server's");
    limited.shares.insert("d2".into(), Share { guaranteed: 0, ..limited.shares["d1"].clone() });
    limited.limits_changed();
    let replies = limited.ask(2, pool(2, 1), 60);
    let [QuotaReply::FindIdle { spared, round, .. }] = &replies[..] else { panic!("{replies:?}") };
    assert_eq!(spared.iter().map(|name| &**name).collect::<Vec<_>>(), ["d0"]);
    let idle =
        |since, pool| QuotaRequest::Idle { key: connections(), round: Some(*round), longest: Some((at(since), pool)) };
    limited.receive(0, idle(1, pool(1, 0)));
    limited.receive(1, QuotaRequest::Idle { key: connections(), round: Some(*round), longest: None });
    let replies = limited.receive(2, QuotaRequest::Idle { key: connections(), round: Some(*round), longest: None });
    assert_eq!(replies[0], QuotaReply::Evict { to: WorkerId(0), pool: pool(1, 0), key: connections() });
}

#[test]
fn a_pool_in_session_mode_leaves_room_for_the_guarantees_of_others() {
    let mut limited = shared(4, &[(1, 1), (2, 1)]);
    limited.shares.get_mut("d0").expect("it is there").keeps = true;
    assert_eq!(limited.ask(1, pool(0, 0), 10), [granted(1, pool(0, 0))], "its guarantee");
    assert_eq!(limited.ask(2, pool(0, 0), 20), [granted(2, pool(0, 0))], "what nobody is guaranteed");
    assert_eq!(limited.ask(3, pool(0, 0), 30), [], "the rest is d1's, at any time");
    let fill = QuotaRequest::Acquire { id: 9, resource: server(0, 0), if_full: IfFull::Refuse };
    assert!(matches!(limited.receive(0, fill)[..], [QuotaReply::Answer { full: Some(_), .. }]));
    assert_eq!(limited.ask(4, pool(1, 0), 40), [granted(4, pool(1, 0))]);
    assert_eq!(limited.ask(5, pool(1, 0), 50)[0], granted(5, pool(1, 0)));
    assert_eq!(limited.released(pool(0, 0))[0], granted(3, pool(0, 0)));
}

#[test]
fn a_request_that_must_leave_room_searches_only_where_an_idle_server_would_help() {
    let mut limited = shared(4, &[(1, 1), (2, 1), (0, 1)]);
    limited.shares.get_mut("d0").expect("it is there").keeps = true;
    limited.has(pool(0, 0), 2);
    assert_eq!(limited.ask(1, pool(0, 0), 10), [], "with room that is left to others");
    limited.has(pool(2, 0), 2);
    assert_eq!(limited.ask(2, pool(0, 0), 20), [], "nor for want of room: it gets nothing that others close");
    // Another user of its pool may have idle servers.
    let replies = limited.ask(3, pool(0, 1), 30);
    let [QuotaReply::FindIdle { spared, round, .. }] = &replies[..] else { panic!("{replies:?}") };
    assert_eq!((spared.iter().map(|name| &**name).collect::<Vec<_>>(), *round), (vec!["d2"], 1));
    assert_eq!(limited.none_idle(1), [], "and nobody gives a server back for it");
    limited.receive(0, QuotaRequest::Cancel { id: 3 });
    // One that takes what there is searches as before.
    let replies = limited.ask(4, pool(1, 0), 40);
    let [QuotaReply::FindIdle { spared, .. }] = &replies[..] else { panic!("{replies:?}") };
    assert!(spared.is_empty(), "{spared:?}");
}

#[test]
fn an_idle_server_goes_to_another_user_of_its_pool_before_other_pools() {
    let mut limited = shared(4, &[(2, 1), (0, 1), (1, 1)]);
    limited.has(pool(0, 0), 2);
    limited.has(pool(1, 0), 2);
    let one_idle = |limited: &mut Limited, round, pool: PoolId| {
        let idle = |longest| QuotaRequest::Idle { key: connections(), round: Some(round), longest };
        let mut replies = limited.receive(0, idle(Some((at(1), pool))));
        replies.extend((1..WORKERS).flat_map(|worker| limited.receive(worker, idle(None))));
        replies
    };
    let evict = |pool| QuotaReply::Evict { to: WorkerId(0), pool, key: connections() };
    // d1 waits for longest, and d0 has no more than it is guaranteed: its idle server is for its own users.
    limited.ask(1, pool(1, 1), 10);
    limited.none_idle(1);
    let replies = limited.ask(2, pool(0, 1), 20);
    let [QuotaReply::FindIdle { spared, round: 2, .. }, ..] = &replies[..] else { panic!("{replies:?}") };
    assert!(spared.is_empty(), "{spared:?}");
    assert_eq!(one_idle(&mut limited, 2, pool(0, 0))[0], evict(pool(0, 0)));
    assert_eq!(limited.released(pool(0, 0))[0], granted(2, pool(0, 1)));
    // Above its guarantee a pool serves its own users before others, but not before one below its guarantee.
    limited.shares.insert("d0".into(), Share { guaranteed: 0, ..limited.shares["d0"].clone() });
    let mut replies = limited.limits_changed();
    replies.extend(limited.ask(3, pool(2, 0), 30));
    replies.extend(limited.ask(4, pool(0, 2), 5));
    let round = replies
        .iter()
        .filter_map(|reply| if let QuotaReply::FindIdle { round, .. } = reply { Some(*round) } else { None });
    let round = round.max().expect("a search");
    let replies = one_idle(&mut limited, round, pool(0, 1));
    assert!(replies.contains(&evict(pool(0, 1))), "{replies:?}");
    assert_eq!(limited.released(pool(0, 1))[0], granted(3, pool(2, 0)));
}

#[test]
fn users_of_one_pool_share_alike() {
    let mut limited = shared(4, &[(0, 1)]);
    limited.has(pool(0, 0), 4);
    limited.ask(1, pool(0, 0), 10);
    limited.none_idle(1);
    assert_eq!(limited.ask(2, pool(0, 1), 90), [keeps(pool(0, 0), Some(3))]);
    assert_eq!(limited.released(pool(0, 0))[0], granted(2, pool(0, 1)));
    assert_eq!(limited.ask(3, pool(0, 1), 91), [keeps(pool(0, 0), Some(2))]);
    limited.released(pool(0, 0));
    assert_eq!(limited.ask(4, pool(0, 1), 92), [], "two each");
}

#[test]
fn a_lower_limit_takes_back_what_is_beyond_it() {
    let mut limited = shared(6, &[(2, 1), (0, 1)]);
    limited.has(pool(0, 0), 2);
    limited.has(pool(1, 0), 4);
    limited.limits = [(connections(), 3)].into();
    assert_eq!(limited.limits_changed(), [keeps(pool(1, 0), Some(1))]);
    limited.limits = [(connections(), 6)].into();
    assert_eq!(limited.limits_changed(), [keeps(pool(1, 0), None)]);
}

#[test]
fn a_request_that_is_cancelled_takes_nothing_back() {
    let mut limited = shared(3, &[(0, 1), (1, 1)]);
    limited.has(pool(0, 0), 3);
    limited.ask(1, pool(1, 0), 10);
    assert_eq!(limited.none_idle(1), [keeps(pool(0, 0), Some(2))]);
    let replies = limited.receive(0, QuotaRequest::Cancel { id: 1 });
    assert_eq!(replies, [QuotaReply::StopFinding { key: connections() }, keeps(pool(0, 0), None)]);
}

/// Workers that follow the protocol, with delayed messages.
#[derive(Default)]
struct World {
    limited: Limited,
    /// Servers of each pool: busy, idle (since then).
    busy: BTreeMap<PoolId, u32>,
    idle: BTreeMap<PoolId, Vec<Time>>,
    asking: BTreeMap<PoolId, u64>,
    to_workers: std::collections::VecDeque<QuotaReply>,
    searched: BTreeMap<(u16, Key), bool>,
    clock: u64,
    ids: u64,
}

fn owner(pool: &PoolId) -> u16 {
    u16::from(pool.user.ends_with('1'))
}

impl World {
    fn tell(&mut self, from: u16, request: QuotaRequest) {
        self.clock += 1;
        let replies = self.limited.receive(from, request);
        self.take_replies(replies);
    }

    fn take_replies(&mut self, replies: Vec<QuotaReply>) {
        for reply in &replies {
            // What is granted is within the limit; servers from before the limit need not be.
            let QuotaReply::Answer { full: None, resource, .. } = reply else { continue };
            for key in resource.keys() {
                let most = self.limited.limits.get(&key).copied().unwrap_or(0);
                assert!(most == 0 || self.limited.counter.counted(&key) <= most, "{key:?} is over its limit");
            }
        }
        self.to_workers.extend(replies);
    }

    fn want(&mut self, pool: PoolId) {
        if self.asking.contains_key(&pool) {
            return;
        }
        self.ids += 1;
        self.asking.insert(pool.clone(), self.ids);
        let (id, if_full) = (self.ids, IfFull::Wait(at(self.clock)));
        let worker = owner(&pool);
        self.tell(worker, QuotaRequest::Acquire { id, resource: Resource::Server(pool), if_full });
    }

    fn leave(&mut self, pool: &PoolId) {
        if let Some(id) = self.asking.remove(pool) {
            self.tell(owner(pool), QuotaRequest::Cancel { id });
        }
    }

    fn rest(&mut self, pool: &PoolId) {
        let Some(busy) = self.busy.get_mut(pool).filter(|busy| **busy > 0) else { return };
        *busy -= 1;
        self.idle.entry(pool.clone()).or_default().push(at(self.clock));
        let worker = owner(pool);
        for key in pool.keys() {
            if self.searched.get(&(worker, key.clone())) == Some(&false) {
                self.searched.insert((worker, key.clone()), true);
                let longest = Some((self.idle[pool][0], pool.clone()));
                self.tell(worker, QuotaRequest::Idle { key, round: None, longest });
            }
        }
    }

    fn lose(&mut self, pool: &PoolId) {
        let idle = self.idle.get_mut(pool).is_some_and(|idle| idle.pop().is_some());
        let busy = self.busy.get_mut(pool).filter(|busy| !idle && **busy > 0);
        let gone = idle || busy.map(|busy| *busy -= 1).is_some();
        if gone {
            self.tell(owner(pool), QuotaRequest::Release { resource: Resource::Server(pool.clone()), count: 1 });
        }
    }

    fn deliver(&mut self) {
        let Some(reply) = self.to_workers.pop_front() else { return };
        match reply {
            QuotaReply::Answer { id, resource: Resource::Server(pool), full, .. } => {
                assert!(full.is_none());
                if self.asking.get(&pool) == Some(&id) {
                    self.asking.remove(&pool);
                    *self.busy.entry(pool).or_default() += 1;
                } else {
                    self.tell(owner(&pool), QuotaRequest::Release { resource: Resource::Server(pool), count: 1 });
                }
            }
            QuotaReply::Answer { .. } => unreachable!("no client asks here"),
            QuotaReply::FindIdle { key, round, .. } => (0..WORKERS).for_each(|worker| self.answer(worker, &key, round)),
            QuotaReply::KeepAtMost { .. } => unreachable!("no database server has a limit here"),
            QuotaReply::StopFinding { key } => {
                self.searched.retain(|(_, searched), _| *searched != key);
            }
            QuotaReply::Evict { to, pool, key } => {
                self.searched.entry((to.0, key.clone())).and_modify(|made| *made = false);
                let idle = self.idle.entry(pool.clone()).or_default();
                let request = if idle.is_empty() {
                    QuotaRequest::NotIdle { key }
                } else {
                    idle.remove(0);
                    QuotaRequest::Release { resource: Resource::Server(pool), count: 1 }
                };
                self.tell(to.0, request);
            }
        }
    }

    fn answer(&mut self, worker: u16, key: &Key, round: u64) {
        self.searched.insert((worker, key.clone()), false);
        let idle = self.idle.iter().filter(|(pool, _)| owner(pool) == worker && pool.keys().contains(key));
        let longest = idle.filter_map(|(pool, idle)| Some((*idle.first()?, pool.clone()))).min();
        self.tell(worker, QuotaRequest::Idle { key: key.clone(), round: Some(round), longest });
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
        assert_eq!(counts, self.limited.counter.counts);
    }
}

proptest! {
    #[test]
    fn limits_hold_counts_are_right_and_every_waiting_client_is_served_in_the_end(
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
                    world.limited.limits.insert(key, limit);
                    let replies = world.limited.limits_changed();
                    world.take_replies(replies);
                }
                _ => world.deliver(),
            }
        }
        // All clients finish: then no request waits for ever.
        for _ in 0..2_000 {
            world.deliver();
            for (database, user) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                world.rest(&pool(database, user));
            }
        }
        prop_assert!(world.to_workers.is_empty(), "messages without end");
        prop_assert!(world.asking.is_empty(), "a request waits although all is idle: {:?}", world.asking);
        world.counts_are_right();
    }
}
