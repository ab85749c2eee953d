//! A pool beside its model, and the events for both.

use std::hash::{DefaultHasher, Hash, Hasher};

use weir_base::{ConnId, Span, Time};

use crate::backoff::Jitter;
use crate::state::{Login, RunState, State};
use crate::{Acquire, CloseReason, ConnectFailure, Effect, Pool, RefuseReason, ServerState, Settings};

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Event {
    Acquire,
    Release(ConnId),
    Begin,
    Decline,
    Connected(ConnId),
    Failed(ConnId, ConnectFailure),
    Lost(ConnId),
    /// Lost before anything was sent: its client waits again.
    Bounced(ConnId),
    Leave(ConnId),
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
    /// Another pool needs a server, or no longer.
    Ceiling,
    Demand,
    Shut,
}

/// What a world allows.
#[derive(Clone)]
pub(super) struct Rules {
    pub(super) settings: Settings,
    /// What [`Event::Resize`] changes to, and back.
    pub(super) other: Settings,
    pub(super) clients: u32,
    pub(super) events: fn(Event) -> bool,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Server {
    Login { began: Time },
    Idle { since: Time, connected: Time },
    Linked { client: ConnId, acquired: Time, connected: Time },
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Waiter {
    pub(super) client: ConnId,
    pub(super) since: Time,
    pub(super) notified: bool,
}

#[derive(Clone)]
pub(super) struct World {
    pub(super) rules: Rules,
    pub(super) pool: Pool<()>,
    pub(super) now: Time,
    /// Servers in the order of their last change.
    pub(super) servers: Vec<(ConnId, Server)>,
    pub(super) queue: Vec<Waiter>,
    pub(super) opened: u32,
    pub(super) asked: bool,
    pub(super) run_state: RunState,
    pub(super) demand: bool,
    /// The kind and the time of the last login, if it failed.
    pub(super) failed: Option<(Time, ConnectFailure)>,
    pub(super) asked_at: Option<Time>,
    pub(super) declined_at: Option<Time>,
    /// Servers that were there at the last reconnect.
    pub(super) stale: Vec<ConnId>,
    /// No server may be closed for its age before this moment.
    pub(super) aged_until: Time,
    /// The limit may be exceeded by the servers that were present when it shrank.
    pub(super) allowed: usize,
    pub(super) trace: Vec<Event>,
}

impl World {
    pub(super) fn new(rules: Rules) -> Self {
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
            run_state: RunState::Running,
            demand: false,
            failed: None,
            asked_at: None,
            declined_at: None,
            stale: Vec::new(),
            aged_until: now,
            trace: Vec::new(),
        }
    }

    /// Everything that can happen now.
    pub(super) fn events(&self) -> Vec<Event> {
        let mut events = vec![
            Event::Pause,
            Event::Suspend,
            Event::Resume,
            Event::Reconnect,
            Event::Resize,
            Event::CloseIdle,
            Event::Evict,
            Event::Ceiling,
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
                    Event::Failed(server, ConnectFailure::Away),
                    Event::Failed(server, ConnectFailure::NotReady),
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

    pub(super) fn apply(&mut self, event: Event) {
        // An event always gets the same random numbers: otherwise states that look alike would diverge.
        self.pool.jitter = Jitter::new(7);
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
                self.pool.open_declined(now, now);
                self.declined_at = Some(now);
                self.asked = false;
            }
            Event::Connected(server) => {
                let answer = self.pool.connected(server, (), now);
                self.failed = None;
                let at = self.take(server);
                self.check_release(server, at, answer);
            }
            Event::Failed(server, failure) => {
                self.pool.connect_failed(server, failure, now);
                self.failed = Some((now, failure));
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

    pub(super) fn command(&mut self, event: Event) {
        let keep_shut = |mode| if self.run_state == RunState::Shut { RunState::Shut } else { mode };
        match event {
            Event::Pause => {
                self.run_state = keep_shut(RunState::Paused);
                self.pool.pause();
            }
            Event::Suspend => {
                self.run_state = if self.run_state == RunState::Running { RunState::Suspended } else { self.run_state };
                self.pool.suspend();
            }
            Event::Resume => {
                self.run_state = keep_shut(RunState::Running);
                self.pool.resume(self.now);
            }
            Event::Shut => {
                self.run_state = RunState::Shut;
                self.pool.shut_down();
            }
            Event::Reconnect => {
                self.stale = self.servers.iter().map(|(server, _)| *server).collect();
                self.pool.reconnect(self.now);
            }
            Event::Demand => {
                self.demand = !self.demand;
                self.pool.set_demand(self.demand);
            }
            Event::CloseIdle => self.pool.close_idle(),
            Event::Evict => assert_eq!(self.pool.evict(), self.count(|s| matches!(s, Server::Idle { .. })) > 0),
            Event::Ceiling => {
                let fewer = (self.servers.len() as u32).saturating_sub(1);
                self.pool.keep_at_most(self.pool.ceiling.is_none().then_some(fewer));
            }
            _ => unreachable!("{event:?} is no command"),
        }
    }

    pub(super) fn acquire(&mut self) {
        let client = self.free_client().expect("one is free");
        let paused = self.run_state != RunState::Running;
        let queue_is_empty = self.queue.is_empty();
        match self.pool.acquire(client, self.now) {
            Acquire::Granted { server, check } => {
                assert!(!paused && queue_is_empty, "overtakes");
                self.link(client, self.now, server, check);
            }
            Acquire::Queued => {
                assert!(self.run_state != RunState::Shut);
                self.queue.push(Waiter { client, since: self.now, notified: false });
            }
            Acquire::Refused(why) => self.check_refusal(why),
        }
    }

    pub(super) fn bounce(&mut self, server: ConnId) {
        self.pool.lost(server, self.now);
        let Some((_, Server::Linked { client, acquired, .. })) = self.take(server) else { panic!("not linked") };
        match self.pool.requeue(client, acquired, self.now) {
            Acquire::Granted { server, check } => self.link(client, acquired, server, check),
            Acquire::Queued => {
                let notified = acquired.deadline(self.pool.settings().query_wait_notify) <= self.now;
                let at = self.queue.iter().position(|waiter| waiter.since >= acquired).unwrap_or(self.queue.len());
                self.queue.insert(at, Waiter { client, since: acquired, notified });
            }
            Acquire::Refused(why) => {
                assert_ne!(why, RefuseReason::TooManyWaiting);
                self.check_refusal(why);
            }
        }
    }

    pub(super) fn begin(&mut self) {
        self.opened += 1;
        self.asked = false;
        let server = ConnId::new(self.opened % 4, self.opened);
        self.pool.opening(server, self.now);
        self.servers.push((server, Server::Login { began: self.now }));
    }

    pub(super) fn resize(&mut self) {
        let next = if self.pool.settings() == &self.rules.settings { &self.rules.other } else { &self.rules.settings };
        self.allowed = (next.size + next.reserve_size) as usize;
        self.allowed = self.allowed.max(self.count(|server| matches!(server, Server::Linked { .. })));
        if next.server_lifetime != self.pool.settings().server_lifetime {
            self.aged_until = self.now;
        }
        self.pool.resize(next.clone(), self.now);
    }

    /// Executes the pool's effects until there are no more.
    pub(super) fn settle(&mut self) {
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
                            self.failed = Some((self.now, ConnectFailure::Refused));
                        }
                    }
                    Server::Idle { since, connected } => self.check_close(reason, connected, Some(since)),
                    Server::Linked { .. } => panic!("a linked server is closed"),
                },
                Effect::Refuse { client, why, waited } => {
                    self.served(client, waited);
                    match why {
                        RefuseReason::WaitTimeout => assert!(waited >= self.pool.settings().query_wait_timeout),
                        RefuseReason::TooManyWaiting => panic!("it waits already"),
                        why => self.check_refusal(why),
                    }
                }
                Effect::Notice { client, waited } => {
                    assert!(self.run_state == RunState::Running && waited >= self.pool.settings().query_wait_notify);
                    let waiter = self.queue.iter_mut().find(|waiter| waiter.client == client).expect("it waits");
                    assert!(!waiter.notified, "notified twice");
                    waiter.notified = true;
                }
                Effect::Grant { client, server, waited, check } => {
                    assert_eq!(self.run_state, RunState::Running);
                    let acquired = self.served(client, waited);
                    self.link(client, acquired, server, check);
                }
            }
        }
        panic!("asks without end");
    }

    pub(super) fn free_client(&self) -> Option<ConnId> {
        (0..self.rules.clients).map(|slot| ConnId::new(100 + slot, 1)).find(|client| {
            let linked = |server: &Server| matches!(server, Server::Linked { client: owner, .. } if owner == client);
            self.count(linked) == 0 && self.queue.iter().all(|waiter| waiter.client != *client)
        })
    }

    /// The server that was linked last.
    pub(super) fn linked(&self) -> Option<ConnId> {
        let is_linked = |(_, server): &&(ConnId, Server)| matches!(server, Server::Linked { .. });
        self.servers.iter().rfind(is_linked).map(|(server, _)| *server)
    }

    /// How many servers are logged in.
    pub(super) fn connected(&self) -> u32 {
        self.count(|server| !matches!(server, Server::Login { .. })) as u32
    }

    /// How many servers are logged in, without those that a reconnect will close.
    pub(super) fn lasting(&self) -> usize {
        let lasts =
            |(conn, server): &&(ConnId, Server)| !matches!(server, Server::Login { .. }) && !self.stale.contains(conn);
        self.servers.iter().filter(lasts).count()
    }

    pub(super) fn count(&self, which: impl Fn(&Server) -> bool) -> usize {
        self.servers.iter().filter(|(_, server)| which(server)).count()
    }

    pub(super) fn take(&mut self, server: ConnId) -> Option<(ConnId, Server)> {
        let at = self.servers.iter().position(|(conn, _)| *conn == server)?;
        Some(self.servers.remove(at))
    }

    /// Takes the client out of the queue; it must be the first.
    pub(super) fn served(&mut self, client: ConnId, waited: Span) -> Time {
        let first = self.queue.remove(0);
        assert_eq!(first.client, client, "not the client that waited longest");
        assert_eq!(waited, self.now - first.since);
        first.since
    }

    pub(super) fn link(&mut self, client: ConnId, acquired: Time, server: ConnId, check: bool) {
        let mut idle = self.servers.iter().filter(|(_, server)| matches!(server, Server::Idle { .. }));
        let next = if self.pool.settings().round_robin { idle.next() } else { idle.next_back() };
        assert_eq!(next.map(|(conn, _)| *conn), Some(server), "not the idle server whose turn it is");
        let Some((_, Server::Idle { since, connected })) = self.take(server) else { panic!("not idle") };
        assert_eq!(check, self.now - since >= self.pool.settings().server_check_delay);
        self.servers.push((server, Server::Linked { client, acquired, connected }));
    }

    /// What distinguishes this state from others, except for the identities of clients and servers.
    pub(super) fn looks(&self) -> u64 {
        let ago = |time: Time| self.now.since(time).micros();
        let ahead = |time: Time| if time == Time::NEVER { u64::MAX } else { time.since(self.now).micros() };
        let pool = &self.pool;
        let mut hash = DefaultHasher::new();
        let mut servers: Vec<_> = pool
            .servers
            .iter()
            .map(|(key, conn, server)| {
                let stale = pool.is_stale(key);
                let place = self.servers.iter().position(|(known, _)| *known == conn).expect("known");
                // The order of idle servers counts: it decides which is used next.
                let (rank, since) = match self.servers[place].1 {
                    Server::Login { began } => (0, began),
                    Server::Idle { since, .. } => (2 + place, since),
                    Server::Linked { acquired, .. } => (1, acquired),
                };
                assert!(!matches!(server.state, State::Closing(_)));
                (rank, ago(since), ago(server.connected_at), ahead(server.expires), stale)
            })
            .collect();
        servers.sort_unstable();
        for (rank, since, connected, expires, stale) in servers {
            (rank.min(2), since, connected, expires, stale).hash(&mut hash);
        }
        pool.ceiling.hash(&mut hash);
        self.queue.iter().for_each(|waiter| (ago(waiter.since), waiter.notified).hash(&mut hash));
        (self.run_state, self.demand, self.asked, pool.login == Login::Asked, self.allowed).hash(&mut hash);
        (pool.settings == self.rules.settings, pool.backoff.health(), ahead(pool.backoff.opens(true))).hash(&mut hash);
        ahead(pool.backoff.opens(false)).hash(&mut hash);
        (
            ahead(pool.rate.ready(pool.settings.connects_per_second)),
            ahead(pool.declined_until),
            ahead(pool.declined_pause),
        )
            .hash(&mut hash);
        (ahead(pool.next_expiry), ahead(pool.expiry_check), ahead(pool.deadline)).hash(&mut hash);
        hash.finish()
    }
}

impl Server {
    pub(super) fn public(self) -> ServerState {
        match self {
            Server::Login { .. } => ServerState::Login,
            Server::Idle { since, .. } => ServerState::Idle { since },
            Server::Linked { client, .. } => ServerState::Linked(client),
        }
    }
}

/// Prints the events that led to a world when an assertion fails in it.
struct Story(Vec<Event>);

impl Drop for Story {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("this happened: {:?}", self.0);
        }
    }
}
