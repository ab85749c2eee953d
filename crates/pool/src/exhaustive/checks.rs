//! What must be true of the pool's answers, of its effects, and of every state between events.

use weir_base::{ConnId, Span, Time};

use super::world::{Event, Server, World};
use crate::state::RunState;
use crate::{CloseReason, ConnectFailure, RefuseReason, Release, ServerState};

impl World {
    pub(super) fn check_refusal(&self, why: RefuseReason) {
        match why {
            RefuseReason::ServerDown => {
                assert!(
                    matches!(self.failed, Some((_, ConnectFailure::Refused))) && self.run_state == RunState::Running
                );
                assert_eq!(self.lasting(), 0, "a server is left");
            }
            RefuseReason::TooManyWaiting => assert!(self.queue.len() as u32 >= self.pool.settings().max_waiting),
            RefuseReason::ShuttingDown => assert_eq!(self.run_state, RunState::Shut),
            RefuseReason::WaitTimeout => panic!("did not wait"),
        }
    }

    /// A server that was taken out of the model for a moment: the answer decides its next state.
    pub(super) fn check_release(&mut self, server: ConnId, was: Option<(ConnId, Server)>, answer: Release) {
        let (_, was) = was.expect("the model knows it");
        let connected = match was {
            Server::Login { .. } => self.now,
            Server::Linked { connected, .. } => connected,
            Server::Idle { .. } => panic!("released while idle"),
        };
        if !matches!(answer, Release::Close(_)) {
            assert!(!self.pool.is_above_ceiling(), "another pool needs the server");
            assert!(!self.stale.contains(&server), "older than the reconnect");
            let old = self.now >= connected + self.oldest_age() && self.now >= self.aged_until;
            assert!(!old, "a server grows too old");
        }
        let paused = self.run_state != RunState::Running;
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
                assert!(!matches!(self.run_state, RunState::Paused | RunState::Shut));
                self.servers.push((server, Server::Idle { since: self.now, connected }));
            }
            Release::Close(reason) => self.check_close(reason, connected, None),
        }
    }

    /// The maximum age of a server.
    pub(super) fn oldest_age(&self) -> Span {
        Span::from_micros(self.pool.settings().server_lifetime.micros() / 10 * 11)
    }

    pub(super) fn check_close(&mut self, reason: CloseReason, connected: Time, idle_since: Option<Time>) {
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
                assert!(self.connected() >= settings.min_size, "min_size is not respected");
            }
            CloseReason::TooMany => assert!(self.servers.len() >= (settings.size + settings.reserve_size) as usize),
            CloseReason::Pause => assert_eq!(self.run_state, RunState::Paused),
            CloseReason::Shutdown => assert_eq!(self.run_state, RunState::Shut),
            CloseReason::ConnectTimeout => assert!(self.now - connected >= settings.server_connect_timeout),
            CloseReason::Reconnect | CloseReason::Killed | CloseReason::Evicted | CloseReason::OwnerLeft => {}
        }
    }

    pub(super) fn check_open(&mut self) {
        let settings = self.pool.settings();
        assert!(self.run_state == RunState::Running && !self.asked);
        assert_eq!(self.count(|server| matches!(server, Server::Login { .. })), 0, "one login at a time");
        let servers = self.servers.len() as u32;
        if servers >= settings.size {
            assert!(servers < settings.size + settings.reserve_size, "more than size and reserve");
            let oldest = self.queue.first().expect("the reserve is for those who wait");
            assert!(self.now - oldest.since >= settings.reserve_timeout, "the reserve is opened too early");
        }
        let filling = self.demand && servers < settings.min_size;
        assert!(filling || !self.queue.is_empty(), "no client needs it");
        let early = |(at, failure)| self.now < at + self.shortest_pause(failure);
        assert!(!self.failed.is_some_and(early), "retries too early");
        assert!(self.declined_at.is_none_or(|at| self.now >= at + Span::from_millis(100)), "asks too often");
        if settings.connects_per_second == 1 {
            assert!(self.asked_at.is_none_or(|at| self.now >= at + Span::from_secs(1)), "connects too often");
        }
        self.asked_at = Some(self.now);
        self.asked = true;
        // In a world without an event for the connect, the engine begins it at once.
        if !(self.rules.events)(Event::Begin) {
            self.begin();
        }
    }

    /// The shortest pause that may follow a failed login: shorter while a client waits for a server that is away.
    pub(super) fn shortest_pause(&self, failure: ConnectFailure) -> Span {
        let retry = self.pool.settings().server_login_retry.micros();
        let most = match failure {
            ConnectFailure::Away if !self.queue.is_empty() => 20_000,
            ConnectFailure::NotReady if !self.queue.is_empty() => 100_000,
            _ => 1_000_000,
        };
        Span::from_micros(retry.min(most) / 8 * 7)
    }

    /// What must hold whenever the pool has no more effects.
    pub(super) fn check(&mut self) {
        let settings = self.pool.settings();
        assert!(self.pool.is_sound());
        assert!(self.pool.next_deadline() > self.now);
        let mut seen: Vec<(ConnId, ServerState)> = self.pool.servers().map(|(conn, state, _)| (conn, state)).collect();
        let mut known: Vec<(ConnId, ServerState)> = self.servers.iter().map(|(conn, s)| (*conn, s.public())).collect();
        seen.sort_by_key(|(conn, _)| *conn);
        known.sort_by_key(|(conn, _)| *conn);
        assert_eq!(seen, known, "the pool and the model disagree about servers");
        let queue: Vec<(ConnId, Time)> = self.queue.iter().map(|waiter| (waiter.client, waiter.since)).collect();
        assert_eq!(self.pool.waiting().collect::<Vec<_>>(), queue, "the pool and the model disagree about clients");
        let snapshot = self.pool.snapshot(self.now);
        assert_eq!((snapshot.active + snapshot.idle + snapshot.login) as usize, self.servers.len());
        assert_eq!(snapshot.waiting as usize, self.queue.len());
        assert!(self.servers.len() <= self.allowed, "limits hold");
        self.allowed = self.servers.len().max((settings.size + settings.reserve_size) as usize);
        let running = self.run_state == RunState::Running;
        assert!(!running || self.queue.is_empty() || snapshot.idle == 0, "a client waits while a server idles");
        assert!(
            !self.pool.is_above_ceiling() || snapshot.idle + snapshot.login == 0,
            "it keeps what another pool needs"
        );
        assert!(self.run_state != RunState::Shut || (self.queue.is_empty() && snapshot.idle + snapshot.login == 0));
        assert!(self.run_state != RunState::Paused || snapshot.idle + snapshot.login == 0);
        assert_eq!(self.pool.is_quiescent(), !running && snapshot.active + snapshot.login == 0);
        assert_eq!(snapshot.retry_at.is_some(), self.failed.is_some());
        if let Some((at, ConnectFailure::Refused)) = self.failed
            && running
            && self.now < at + self.shortest_pause(ConnectFailure::Refused)
        {
            assert!(self.queue.is_empty() || self.lasting() > 0, "a client waits for a server that is down");
        }
        assert!(self.stale.iter().all(|stale| {
            self.servers.iter().all(|(server, state)| server != stale || matches!(state, Server::Linked { .. }))
        }));
        self.check_deadline();
    }

    /// The pool must report a deadline no later than the first of these moments, and all of them lie ahead.
    pub(super) fn check_deadline(&self) {
        let settings = self.pool.settings();
        let on_time = |due: Time, what: &str| {
            assert!(due > self.now, "{what} is overdue");
            assert!(due >= self.pool.next_deadline(), "{what} will be overdue");
        };
        for waiter in &self.queue {
            on_time(waiter.since.deadline(settings.query_wait_timeout), "a refusal");
            if self.run_state == RunState::Running && !waiter.notified {
                on_time(waiter.since.deadline(settings.query_wait_notify), "a notice");
            }
        }
        for (_, server) in &self.servers {
            match *server {
                Server::Login { began } => on_time(began.deadline(settings.server_connect_timeout), "a login's end"),
                Server::Idle { since, connected } => {
                    if self.connected() > settings.min_size {
                        on_time(since.deadline(settings.server_idle_timeout), "the closing of an idle server");
                    }
                    on_time((connected + self.oldest_age()).max(self.aged_until), "the closing of an old server");
                }
                Server::Linked { .. } => {}
            }
        }
        let fill = self.demand
            && self.pool.ceiling.is_none()
            && (self.servers.len() as u32) < settings.min_size.min(settings.size);
        if fill
            && self.run_state == RunState::Running
            && self.count(|server| matches!(server, Server::Login { .. })) == 0
        {
            assert!(self.asked || self.pool.next_deadline() != Time::NEVER, "no deadline will fill the pool");
        }
    }
}
