//! Every order of events in small worlds: two or three servers, three clients, and all that can happen to them.
//!
//! A [`World`] is a pool beside a model that is too simple to be wrong: a list of servers, a list of waiting clients. From
//! a fresh pool every possible event is tried, and every event after that, to a given depth; states that look alike are
//! visited once. Clients are interchangeable, so only the first free one acts. After each event:
//!
//! - the pool's answers and effects must be what the model allows (one owner a server, first come first served, limits,
//!   the right moment for each refusal, notice, closing and opening), and both must agree on who is where;
//! - when from here on all goes well, every client that waits must be served, or refused in time, and the next be served.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use weir_base::{Peer, Span, Time};

use crate::pool::{Login, Mode, State};
use crate::{Acquire, CloseReason, ConnectFailure, Effect, Pool, Refusal, Release, ServerState, Settings};

const CLIENTS: u32 = 3;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Event {
    Acquire,
    Release(Peer),
    Begin,
    Decline,
    Connected(Peer),
    Failed(Peer, ConnectFailure),
    Lost(Peer),
    /// Lost before anything was sent: its client comes back.
    Bounced(Peer),
    Leave(Peer),
    /// To the next deadline.
    Tick,
    /// A while past the next deadline.
    Late,
    Pause,
    Suspend,
    Resume,
    Reconnect,
    Resize,
    CloseIdle,
    Evict,
    Demand,
    Shut,
}

/// What a world allows.
#[derive(Clone)]
struct Rules {
    settings: Settings,
    /// What [`Event::Resize`] changes to, and back.
    other: Settings,
    events: fn(Event) -> bool,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Server {
    Login { began: Time },
    Idle { since: Time, connected: Time },
    Linked { client: Peer, acquired: Time, connected: Time },
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Waiter {
    client: Peer,
    since: Time,
    noticed: bool,
}

#[derive(Clone)]
struct World {
    rules: Rules,
    pool: Pool<()>,
    now: Time,
    /// In the order of their last change.
    servers: Vec<(Peer, Server)>,
    queue: Vec<Waiter>,
    opened: u32,
    asked: bool,
    failed_at: Option<Time>,
    asked_at: Option<Time>,
    /// No server is to be closed for its age before this moment.
    aged_until: Time,
    /// The limit may be exceeded by what was there when it shrank.
    allowed: usize,
    trace: Vec<Event>,
}

impl World {
    fn new(rules: Rules) -> Self {
        let now = Time::from_micros(1_000_000_000);
        World {
            pool: Pool::new(rules.settings.clone(), 7, now),
            allowed: (rules.settings.size + rules.settings.reserve_size) as usize,
            rules,
            now,
            servers: Vec::new(),
            queue: Vec::new(),
            opened: 0,
            asked: false,
            failed_at: None,
            asked_at: None,
            aged_until: now,
            trace: Vec::new(),
        }
    }

    /// Everything that can happen now.
    fn events(&self) -> Vec<Event> {
        let mut events = vec![
            Event::Pause,
            Event::Suspend,
            Event::Resume,
            Event::Reconnect,
            Event::Resize,
            Event::CloseIdle,
            Event::Evict,
            Event::Demand,
            Event::Shut,
        ];
        if self.free_client().is_some() {
            events.push(Event::Acquire);
        }
        if self.asked {
            events.extend([Event::Begin, Event::Decline]);
        }
        for &(server, state) in &self.servers {
            events.push(Event::Lost(server));
            match state {
                Server::Login { .. } => events.extend([
                    Event::Connected(server),
                    Event::Failed(server, ConnectFailure::Refused),
                    Event::Failed(server, ConnectFailure::StartingUp),
                ]),
                Server::Linked { .. } => events.extend([Event::Release(server), Event::Bounced(server)]),
                Server::Idle { .. } => {}
            }
        }
        events.extend(self.queue.iter().map(|waiter| Event::Leave(waiter.client)));
        if self.pool.next_deadline() != Time::NEVER {
            events.extend([Event::Tick, Event::Late]);
        }
        events.retain(|event| (self.rules.events)(*event));
        events
    }

    fn apply(&mut self, event: Event) {
        self.trace.push(event);
        let _story = Story(self.trace.clone());
        let now = self.now;
        match event {
            Event::Acquire => self.acquire(),
            Event::Release(server) => {
                let answer = self.pool.release(server, (), now);
                let at = self.take(server);
                self.check_release(server, at, answer);
            }
            Event::Begin => self.begin(),
            Event::Decline => {
                self.pool.declined(now, now);
                self.asked = false;
            }
            Event::Connected(server) => {
                let answer = self.pool.connected(server, (), now);
                self.failed_at = None;
                let at = self.take(server);
                self.check_release(server, at, answer);
            }
            Event::Failed(server, failure) => {
                self.pool.connect_failed(server, failure, now);
                self.failed_at = Some(now);
                self.take(server);
            }
            Event::Lost(server) => {
                self.pool.lost(server, now);
                self.pool.lost(server, now);
                self.take(server);
            }
            Event::Bounced(server) => self.bounce(server),
            Event::Leave(client) => {
                self.pool.leave(client, now);
                self.pool.leave(client, now);
                self.queue.retain(|waiter| waiter.client != client);
            }
            Event::Tick => self.now = self.pool.next_deadline(),
            Event::Late => self.now = self.pool.next_deadline() + Span::from_millis(700),
            Event::Resize => self.resize(),
            _ => self.command(event),
        }
        self.settle();
    }

    fn command(&mut self, event: Event) {
        match event {
            Event::Pause => self.pool.pause(),
            Event::Suspend => self.pool.suspend(),
            Event::Resume => self.pool.resume(self.now),
            Event::Reconnect => self.pool.reconnect(self.now),
            Event::CloseIdle => self.pool.close_idle(),
            Event::Evict => assert_eq!(self.pool.evict(), self.count(|s| matches!(s, Server::Idle { .. })) > 0),
            Event::Demand => self.pool.set_demand(!self.pool.demand),
            Event::Shut => self.pool.shut(),
            _ => unreachable!(),
        }
    }

    fn acquire(&mut self) {
        let client = self.free_client().expect("one is free");
        let paused = self.pool.mode != Mode::Running;
        let nobody_waits = self.queue.is_empty();
        match self.pool.acquire(client, self.now) {
            Acquire::Granted { server, check } => {
                assert!(!paused && nobody_waits, "overtakes");
                self.link(client, self.now, server, check);
            }
            Acquire::Queued => {
                assert!(self.pool.mode != Mode::Shut);
                self.queue.push(Waiter { client, since: self.now, noticed: false });
            }
            Acquire::Refused(why) => self.check_refusal(why),
        }
    }

    fn bounce(&mut self, server: Peer) {
        self.pool.lost(server, self.now);
        let Some((_, Server::Linked { client, acquired, .. })) = self.take(server) else { panic!("not linked") };
        match self.pool.requeue(client, acquired, self.now) {
            Acquire::Granted { server, check } => self.link(client, acquired, server, check),
            Acquire::Queued => {
                let noticed = acquired.deadline(self.pool.settings().query_wait_notify) <= self.now;
                let at = self.queue.iter().position(|waiter| waiter.since >= acquired).unwrap_or(self.queue.len());
                self.queue.insert(at, Waiter { client, since: acquired, noticed });
            }
            Acquire::Refused(why) => {
                assert_ne!(why, Refusal::TooManyWaiting);
                self.check_refusal(why);
            }
        }
    }

    fn check_refusal(&self, why: Refusal) {
        match why {
            Refusal::ServerDown => {
                assert!(self.failed_at.is_some() && self.pool.mode == Mode::Running);
                assert_eq!(self.count(|server| !matches!(server, Server::Login { .. })), 0, "a server is left");
            }
            Refusal::TooManyWaiting => assert!(self.queue.len() as u32 >= self.pool.settings().max_waiting),
            Refusal::ShuttingDown => assert_eq!(self.pool.mode, Mode::Shut),
            Refusal::WaitTimeout => panic!("did not wait"),
        }
    }

    /// A server that was taken out of the model for a moment: its answer says where it goes.
    fn check_release(&mut self, server: Peer, was: Option<(Peer, Server)>, answer: Release) {
        let (_, was) = was.expect("the model knows it");
        let connected = match was {
            Server::Login { .. } => self.now,
            Server::Linked { connected, .. } => connected,
            Server::Idle { .. } => panic!("released while idle"),
        };
        let paused = self.pool.mode != Mode::Running;
        match answer {
            Release::Next { client, waited, check } => {
                assert!(!paused);
                let acquired = self.served(client, waited);
                assert_eq!(
                    check,
                    self.pool.settings().server_check_delay.is_zero() && matches!(was, Server::Linked { .. })
                );
                self.servers.push((server, Server::Linked { client, acquired, connected }));
            }
            Release::Idle => {
                assert!(paused || self.queue.is_empty(), "a client waits while a server idles");
                assert!(!matches!(self.pool.mode, Mode::Paused | Mode::Shut));
                self.servers.push((server, Server::Idle { since: self.now, connected }));
            }
            Release::Close(reason) => self.check_close(reason, connected, None),
        }
    }

    fn check_close(&mut self, reason: CloseReason, connected: Time, idle_since: Option<Time>) {
        let settings = self.pool.settings();
        match reason {
            CloseReason::Lifetime => {
                let gap = settings.server_lifetime.micros() / u64::from(settings.size);
                assert!(self.now >= connected + settings.server_lifetime, "not old yet");
                assert!(self.now >= self.aged_until, "not spread out");
                self.aged_until = self.now + Span::from_micros(gap);
            }
            CloseReason::Idle => {
                let since = idle_since.expect("only an idle server is closed for that");
                assert!(self.now - since >= settings.server_idle_timeout);
                let left = self.count(|server| !matches!(server, Server::Login { .. }));
                assert!(left >= settings.min_size as usize, "min_size is not respected");
            }
            CloseReason::TooMany => assert!(self.servers.len() >= (settings.size + settings.reserve_size) as usize),
            CloseReason::Pause => assert_eq!(self.pool.mode, Mode::Paused),
            CloseReason::Shutdown => assert_eq!(self.pool.mode, Mode::Shut),
            CloseReason::ConnectTimeout => assert!(self.now - connected >= settings.server_connect_timeout),
            CloseReason::Reconnect | CloseReason::Killed | CloseReason::Evicted => {}
        }
    }

    /// Does what the pool asks for, until it asks for nothing.
    fn settle(&mut self) {
        for _ in 0..30 {
            let Some(effect) = self.pool.poll(self.now) else {
                assert_eq!(self.pool.poll(self.now), None);
                return self.check();
            };
            match effect {
                Effect::Open => self.check_open(),
                Effect::Close { server, reason } => match self.take(server).expect("the model knows it").1 {
                    Server::Login { began } => {
                        self.check_close(reason, began, None);
                        if reason == CloseReason::ConnectTimeout {
                            self.failed_at = Some(self.now);
                        }
                    }
                    Server::Idle { since, connected } => self.check_close(reason, connected, Some(since)),
                    Server::Linked { .. } => panic!("a linked server is closed"),
                },
                Effect::Refuse { client, why, waited } => {
                    self.served(client, waited);
                    match why {
                        Refusal::WaitTimeout => assert!(waited >= self.pool.settings().query_wait_timeout),
                        Refusal::TooManyWaiting => panic!("it waits already"),
                        why => self.check_refusal(why),
                    }
                }
                Effect::Notice { client, waited } => {
                    assert!(self.pool.mode == Mode::Running && waited >= self.pool.settings().query_wait_notify);
                    let waiter = self.queue.iter_mut().find(|waiter| waiter.client == client).expect("it waits");
                    assert!(!waiter.noticed, "noticed twice");
                    waiter.noticed = true;
                }
                Effect::Grant { client, server, waited, check } => {
                    assert_eq!(self.pool.mode, Mode::Running);
                    let acquired = self.served(client, waited);
                    self.link(client, acquired, server, check);
                }
            }
        }
        panic!("asks without end");
    }

    fn check_open(&mut self) {
        let settings = self.pool.settings();
        assert!(self.pool.mode == Mode::Running && !self.asked);
        assert_eq!(self.count(|server| matches!(server, Server::Login { .. })), 0, "one login at a time");
        let servers = self.servers.len() as u32;
        if servers >= settings.size {
            assert!(servers < settings.size + settings.reserve_size, "more than size and reserve");
            let oldest = self.queue.first().expect("the reserve is for those who wait");
            assert!(self.now - oldest.since >= settings.reserve_timeout, "the reserve is opened too early");
        }
        let filling = self.pool.demand && servers < settings.min_size;
        assert!(filling || !self.queue.is_empty(), "nobody wants it");
        let pause = Span::from_millis(870).min(Span::from_micros(settings.server_login_retry.micros() * 7 / 8));
        assert!(self.failed_at.is_none_or(|at| self.now >= at + pause), "retries too early");
        if settings.connects_per_second == 1 {
            assert!(self.asked_at.is_none_or(|at| self.now >= at + Span::from_secs(1)), "connects too often");
        }
        self.asked_at = Some(self.now);
        self.asked = true;
        // Where a world has no event for it, the engine begins at once.
        if !(self.rules.events)(Event::Begin) {
            self.begin();
        }
    }

    fn begin(&mut self) {
        self.opened += 1;
        self.asked = false;
        let server = Peer::new(self.opened % 4, self.opened);
        self.pool.opening(server, self.now);
        self.servers.push((server, Server::Login { began: self.now }));
    }

    fn resize(&mut self) {
        let next = if self.pool.settings() == &self.rules.settings { &self.rules.other } else { &self.rules.settings };
        self.allowed = (next.size + next.reserve_size) as usize;
        self.allowed = self.allowed.max(self.count(|server| matches!(server, Server::Linked { .. })));
        if next.server_lifetime != self.pool.settings().server_lifetime {
            self.aged_until = self.now;
        }
        self.pool.resize(next.clone(), self.now);
    }

    /// What must hold whenever the pool has nothing more to ask.
    fn check(&mut self) {
        let settings = self.pool.settings();
        assert!(self.pool.is_sound());
        assert!(self.pool.next_deadline() > self.now);
        let mut seen: Vec<(Peer, ServerState)> = self.pool.servers().map(|(peer, state, _)| (peer, state)).collect();
        let mut known: Vec<(Peer, ServerState)> = self.servers.iter().map(|(peer, s)| (*peer, s.public())).collect();
        seen.sort_by_key(|(peer, _)| *peer);
        known.sort_by_key(|(peer, _)| *peer);
        assert_eq!(seen, known, "the pool and the model disagree about servers");
        let queue: Vec<(Peer, Time)> = self.queue.iter().map(|waiter| (waiter.client, waiter.since)).collect();
        assert_eq!(self.pool.waiting().collect::<Vec<_>>(), queue, "the pool and the model disagree about clients");
        let snapshot = self.pool.snapshot(self.now);
        assert_eq!((snapshot.active + snapshot.idle + snapshot.login) as usize, self.servers.len());
        assert_eq!(snapshot.waiting as usize, self.queue.len());
        assert!(self.servers.len() <= self.allowed, "limits hold");
        self.allowed = self.servers.len().max((settings.size + settings.reserve_size) as usize);
        let running = self.pool.mode == Mode::Running;
        assert!(!running || self.queue.is_empty() || snapshot.idle == 0, "a client waits while a server idles");
        assert!(self.pool.mode != Mode::Shut || (self.queue.is_empty() && snapshot.idle + snapshot.login == 0));
        assert!(self.pool.mode != Mode::Paused || snapshot.idle + snapshot.login == 0);
        assert_eq!(self.pool.quiet(), !running && snapshot.active + snapshot.login == 0);
        for waiter in &self.queue {
            assert!(self.now < waiter.since.deadline(settings.query_wait_timeout), "a wait has no end");
            let due = waiter.since.deadline(settings.query_wait_notify);
            assert!(!running || waiter.noticed || self.now < due, "a notice is missing");
        }
        for (_, server) in &self.servers {
            if let Server::Login { began } = server {
                assert!(self.now < began.deadline(settings.server_connect_timeout), "a login has no end");
            }
        }
    }

    /// From here on all goes well: everybody who waits is served or refused in time, and then the next client is served.
    fn calm_down(&mut self) {
        if self.pool.mode == Mode::Shut {
            return;
        }
        self.apply(Event::Resume);
        let mut steps = 0;
        while !self.queue.is_empty() {
            self.go_well();
            steps += 1;
            assert!(steps < 60, "a client waits for ever");
        }
        while let Some(server) = self.linked() {
            self.apply(Event::Release(server));
        }
        self.apply(Event::Acquire);
        while self.linked().is_none() {
            self.go_well();
            if self.queue.is_empty() && self.linked().is_none() {
                self.apply(Event::Acquire);
            }
            steps += 1;
            assert!(steps < 100, "the next client is never served");
        }
    }

    fn go_well(&mut self) {
        let login = self.servers.iter().find(|(_, server)| matches!(server, Server::Login { .. }));
        let linked = self.linked();
        let event = match (self.asked, login, linked) {
            (true, ..) => Event::Begin,
            (_, Some((server, _)), _) => Event::Connected(*server),
            (_, _, Some(server)) => Event::Release(server),
            _ => {
                // A server that is down is tried again when somebody asks.
                let deadline = self.pool.next_deadline();
                let gate = self.pool.gate.opens();
                assert!(deadline != Time::NEVER || gate > self.now, "nothing will ever happen again");
                if deadline == Time::NEVER {
                    self.now = gate;
                    return self.settle();
                }
                Event::Tick
            }
        };
        self.apply(event);
    }

    fn free_client(&self) -> Option<Peer> {
        (0..CLIENTS).map(|slot| Peer::new(100 + slot, 1)).find(|client| {
            let linked = |server: &Server| matches!(server, Server::Linked { client: owner, .. } if owner == client);
            self.count(linked) == 0 && self.queue.iter().all(|waiter| waiter.client != *client)
        })
    }

    /// The server that was linked last.
    fn linked(&self) -> Option<Peer> {
        let is_linked = |(_, server): &&(Peer, Server)| matches!(server, Server::Linked { .. });
        self.servers.iter().rfind(is_linked).map(|(server, _)| *server)
    }

    fn count(&self, which: impl Fn(&Server) -> bool) -> usize {
        self.servers.iter().filter(|(_, server)| which(server)).count()
    }

    fn take(&mut self, server: Peer) -> Option<(Peer, Server)> {
        let at = self.servers.iter().position(|(peer, _)| *peer == server)?;
        Some(self.servers.remove(at))
    }

    /// Takes the client out of the queue, whose first it must be.
    fn served(&mut self, client: Peer, waited: Span) -> Time {
        let first = self.queue.remove(0);
        assert_eq!(first.client, client, "not the client that waited longest");
        assert_eq!(waited, self.now - first.since);
        first.since
    }

    fn link(&mut self, client: Peer, acquired: Time, server: Peer, check: bool) {
        let mut idle = self.servers.iter().filter(|(_, server)| matches!(server, Server::Idle { .. }));
        let next = if self.pool.settings().round_robin { idle.next() } else { idle.next_back() };
        assert_eq!(next.map(|(peer, _)| *peer), Some(server), "not the idle server whose turn it is");
        let Some((_, Server::Idle { since, connected })) = self.take(server) else { panic!("not idle") };
        assert_eq!(check, self.now - since >= self.pool.settings().server_check_delay);
        self.servers.push((server, Server::Linked { client, acquired, connected }));
    }

    /// What tells this state from others, who is who and the exact jitter aside.
    fn looks(&self) -> u64 {
        let ago = |time: Time| (self.now.since(time).micros() / 50_000).min(400);
        let ahead = |time: Time| (time.since(self.now).micros() / 50_000).min(400);
        let pool = &self.pool;
        let mut hash = DefaultHasher::new();
        let mut servers: Vec<_> = pool
            .servers
            .iter()
            .map(|(key, peer, server)| {
                let stale = pool.is_stale(key);
                let (rank, since) = match self.servers.iter().find(|(known, _)| *known == peer).expect("known").1 {
                    Server::Login { began } => (0, began),
                    Server::Idle { since, .. } => (1, since),
                    Server::Linked { acquired, .. } => (2, acquired),
                };
                assert!(!matches!(server.state, State::Closing(_)));
                (rank, ago(since), ago(server.connected_at), ahead(server.expires), stale)
            })
            .collect();
        servers.sort_unstable();
        servers.hash(&mut hash);
        self.queue.iter().for_each(|waiter| (ago(waiter.since), waiter.noticed).hash(&mut hash));
        (pool.mode, pool.demand, self.asked, pool.login == Login::Asked, self.allowed).hash(&mut hash);
        (pool.settings == self.rules.settings, pool.gate.health(), ahead(pool.gate.opens())).hash(&mut hash);
        (ahead(pool.rate.ready(pool.settings.connects_per_second)), ahead(pool.declined_until)).hash(&mut hash);
        (ahead(pool.next_expiry), ahead(pool.expiry_check), ahead(pool.deadline)).hash(&mut hash);
        hash.finish()
    }
}

impl Server {
    fn public(self) -> ServerState {
        match self {
            Server::Login { .. } => ServerState::Login,
            Server::Idle { since, .. } => ServerState::Idle { since },
            Server::Linked { client, .. } => ServerState::Linked(client),
        }
    }
}

/// Says how a world came to be when an assertion fails in it.
struct Story(Vec<Event>);

impl Drop for Story {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("this happened: {:?}", self.0);
        }
    }
}

/// Tries everything to `depth` events; returns how many different states there were.
fn explore(rules: &Rules, depth: usize) -> usize {
    let mut seen = HashSet::new();
    let mut front = vec![World::new(rules.clone())];
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

fn settings() -> Settings {
    Settings {
        size: 2,
        min_size: 0,
        reserve_size: 0,
        reserve_timeout: Span::ZERO,
        query_wait_timeout: Span::ZERO,
        query_wait_notify: Span::ZERO,
        server_lifetime: Span::from_secs(3600),
        server_idle_timeout: Span::ZERO,
        server_connect_timeout: Span::from_secs(3),
        server_login_retry: Span::from_secs(2),
        server_check_delay: Span::from_secs(1),
        checks: true,
        round_robin: false,
        connects_per_second: 0,
        max_waiting: 0,
    }
}

fn any_but_commands(event: Event) -> bool {
    !matches!(
        event,
        Event::Pause
            | Event::Suspend
            | Event::Resume
            | Event::Reconnect
            | Event::Resize
            | Event::CloseIdle
            | Event::Evict
            | Event::Demand
            | Event::Shut
            | Event::Begin
            | Event::Decline
    )
}

fn commands_too(event: Event) -> bool {
    !matches!(event, Event::Begin | Event::Decline)
}

fn without_shut(event: Event) -> bool {
    commands_too(event) && event != Event::Shut
}

fn everything(_: Event) -> bool {
    true
}

#[test]
fn traffic_and_failures_on_two_servers() {
    let settings = settings();
    let rules = Rules { other: settings.clone(), settings, events: any_but_commands };
    let states = explore(&rules, 13);
    assert!(states > 10_000, "{states}");
}

#[test]
fn clients_are_noticed_and_time_out() {
    let settings = Settings {
        size: 1,
        query_wait_timeout: Span::from_secs(4),
        query_wait_notify: Span::from_millis(1500),
        ..settings()
    };
    let other = Settings { query_wait_notify: Span::from_millis(3500), size: 2, ..settings.clone() };
    let events = |event| !matches!(event, Event::Begin | Event::Decline | Event::Reconnect | Event::CloseIdle);
    let states = explore(&Rules { settings, other, events }, 10);
    assert!(states > 10_000, "{states}");
}

#[test]
fn the_reserve_opens_for_those_who_waited() {
    let settings =
        Settings { size: 1, reserve_size: 1, reserve_timeout: Span::from_secs(1), round_robin: true, ..settings() };
    let other = Settings { reserve_size: 0, max_waiting: 1, ..settings.clone() };
    let states = explore(&Rules { settings, other, events: without_shut }, 10);
    assert!(states > 10_000, "{states}");
}

#[test]
fn servers_grow_old_and_idle() {
    let settings = Settings {
        min_size: 1,
        server_lifetime: Span::from_secs(6),
        server_idle_timeout: Span::from_secs(4),
        server_check_delay: Span::ZERO,
        ..settings()
    };
    let other = Settings { size: 1, server_lifetime: Span::from_secs(3), ..settings.clone() };
    let states = explore(&Rules { settings, other, events: without_shut }, 10);
    assert!(states > 10_000, "{states}");
}

#[test]
fn the_operator_interferes_with_everything() {
    let settings = Settings { min_size: 1, connects_per_second: 1, ..settings() };
    let other = Settings { size: 1, min_size: 0, ..settings.clone() };
    let states = explore(&Rules { settings, other, events: everything }, 10);
    assert!(states > 10_000, "{states}");
}

#[test]
fn three_servers_shrink_to_one() {
    let settings = Settings { size: 3, query_wait_timeout: Span::from_secs(2), ..settings() };
    let other = Settings { size: 1, ..settings.clone() };
    let states = explore(&Rules { settings, other, events: commands_too }, 10);
    assert!(states > 5_000, "{states}");
}
