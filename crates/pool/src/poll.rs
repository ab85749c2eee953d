//! A pool's own actions: close, refuse, notice, grant, open, each when it is due.
//!
//! Each duty has a function that says when it is next due; [`Pool::poll`] does what is due, one effect a call, and
//! [`Pool::next_deadline`] is the earliest of what is not. Both read the same functions, so nothing is due unnotified.

use weir_base::Time;

use crate::backoff::Health;
use crate::pool::Pool;
use crate::state::{Login, RunState, State};
use crate::types::{CloseReason, Effect, RefuseReason};

/// Up to this many servers and clients, debug builds walk the whole structure after each operation.
const CHECKED_UP_TO: u32 = 16;

impl<P> Pool<P> {
    /// What the engine is to do next; called after each operation and at [`Pool::next_deadline`], until `None`.
    pub fn poll(&mut self, now: Time) -> Option<Effect> {
        if !self.needs_poll && now < self.deadline {
            return None;
        }
        let effect = self.step(now);
        self.needs_poll = effect.is_some();
        if effect.is_none() {
            self.deadline = self.earliest();
            self.assert_settled(now);
        }
        effect
    }

    /// When [`Pool::poll`] is to be called again, if no operation comes before. It may turn out that nothing is to be
    /// done.
    pub fn next_deadline(&self) -> Time {
        if self.needs_poll { Time::START } else { self.deadline }
    }

    fn step(&mut self, now: Time) -> Option<Effect> {
        self.close_marked()
            .or_else(|| self.end_login(now))
            .or_else(|| self.grant(now))
            .or_else(|| self.refuse(now))
            .or_else(|| self.notice(now))
            .or_else(|| self.close_idle_too_long(now))
            .or_else(|| self.close_old(now))
            .or_else(|| self.evict_for_dedicated())
            .or_else(|| self.open(now))
    }

    /// The earliest moment at which a duty is due.
    fn earliest(&self) -> Time {
        let due = [self.login_ends(), self.waiting_ends(), self.idle_ends(), self.expiry_check];
        due.into_iter().fold(Time::NEVER, Time::min)
    }

    fn close_marked(&mut self) -> Option<Effect> {
        let key = self.closing.first()?;
        let State::Closing(reason) = self.servers[key].state else {
            unreachable!("the closing list holds closing servers")
        };
        Some(self.close(key, reason))
    }

    fn login_ends(&self) -> Time {
        match self.login {
            Login::Begun(key) => self.servers[key].connected_at.deadline(self.settings.server_connect_timeout),
            Login::None | Login::Asked => Time::NEVER,
        }
    }

    /// A login that takes too long is a failed one, unless there is another way to a server.
    fn end_login(&mut self, now: Time) -> Option<Effect> {
        let Login::Begun(key) = self.login else { return None };
        if now < self.login_ends() {
            return None;
        }
        self.login_failed(self.too_slow, now);
        Some(self.close(key, CloseReason::ConnectTimeout))
    }

    /// Servers are idle beside waiting clients only after a suspension.
    fn grant(&mut self, now: Time) -> Option<Effect> {
        if self.run_state != RunState::Running || self.idle.is_empty() {
            return None;
        }
        let (client, since) = self.queue.pop()?;
        let (server, check) = self.link_idle(client, now)?;
        Some(Effect::Grant { client, server, waited: now - since, check })
    }

    fn wait_ends(&self) -> Time {
        self.oldest_wait().map_or(Time::NEVER, |since| since.deadline(self.settings.query_wait_timeout))
    }

    fn refuse(&mut self, now: Time) -> Option<Effect> {
        let why = match self.run_state {
            RunState::Shut => RefuseReason::ShuttingDown,
            RunState::Running if self.is_dead(now) => RefuseReason::ServerDown,
            _ if self.wait_ends() <= now => RefuseReason::WaitTimeout,
            _ => return None,
        };
        let (client, since) = self.pop_oldest()?;
        Some(Effect::Refuse { client, why, waited: now - since })
    }

    /// When something is due because of the clients that wait: for one of them, or a server is to be opened.
    pub(crate) fn waiting_ends(&self) -> Time {
        self.wait_ends().min(self.notice_due()).min(self.open_due())
    }

    fn notice_due(&self) -> Time {
        match (self.run_state, self.queue.unnotified()) {
            (RunState::Running, Some((_, since))) => since.deadline(self.settings.query_wait_notify),
            _ => Time::NEVER,
        }
    }

    fn notice(&mut self, now: Time) -> Option<Effect> {
        if now < self.notice_due() {
            return None;
        }
        let (client, since) = self.queue.unnotified()?;
        self.queue.mark_notified();
        Some(Effect::Notice { client, waited: now - since })
    }

    fn idle_ends(&self) -> Time {
        match self.idle.last() {
            Some(key) if self.linked + self.idle.len() > self.settings.min_size => {
                self.idle_since(key).deadline(self.settings.server_idle_timeout)
            }
            _ => Time::NEVER,
        }
    }

    fn close_idle_too_long(&mut self, now: Time) -> Option<Effect> {
        if now < self.idle_ends() {
            return None;
        }
        self.idle.last().map(|key| self.close(key, CloseReason::Idle))
    }

    /// Looks at all idle servers, but seldom: only when one of them may have become old.
    fn close_old(&mut self, now: Time) -> Option<Effect> {
        if now < self.expiry_check {
            return None;
        }
        let oldest = self.servers.walk(&self.idle).min_by_key(|key| self.servers[*key].expires);
        let expires = oldest.map_or(Time::NEVER, |key| self.servers[key].expires);
        if now < expires.max(self.next_expiry) {
            self.expiry_check = expires.max(self.next_expiry);
            return None;
        }
        self.count_expiry(now);
        oldest.map(|key| self.close(key, CloseReason::Lifetime))
    }

    /// When the next server is to be opened, if nothing changes before.
    fn open_due(&self) -> Time {
        if self.run_state != RunState::Running || self.login != Login::None {
            return Time::NEVER;
        }
        let wanted = self.wanted();
        if wanted == Time::NEVER {
            return Time::NEVER;
        }
        let ready = self.rate.ready(self.settings.connects_per_second);
        wanted.max(self.backoff.opens(!self.queue.is_empty())).max(self.declined_until).max(ready)
    }

    /// Whether a server that is opened now or soon would be of use; to be checked before a connect that was delayed.
    pub fn wants_server(&self) -> bool {
        self.run_state == RunState::Running && self.wanted() != Time::NEVER
    }

    /// From when on one more server is needed.
    pub(crate) fn wanted(&self) -> Time {
        let servers = self.servers.len();
        let kept = if self.demand { self.settings.min_size.min(self.limit(0)) } else { 0 };
        if servers < kept || (self.oldest_wait().is_some() && servers < self.limit(0)) {
            return Time::START;
        }
        let probe = if servers < self.limit(0) { self.probe } else { Time::NEVER };
        match self.oldest_wait() {
            Some(since) if servers < self.limit(self.settings.reserve_size) => {
                since.deadline(self.settings.reserve_timeout).min(probe)
            }
            _ => probe,
        }
    }

    fn open(&mut self, now: Time) -> Option<Effect> {
        if now < self.open_due() {
            return None;
        }
        self.rate.take(self.settings.connects_per_second, now);
        self.login = Login::Asked;
        Some(Effect::Open)
    }

    /// What holds whenever nothing is left to do.
    fn assert_settled(&self, now: Time) {
        assert!(self.deadline > now, "a duty is due but was not done");
        assert!(self.closing.is_empty());
        assert!(
            self.run_state == RunState::Suspended || self.queue.is_empty() || self.idle.is_empty(),
            "a client waits while a server idles"
        );
        let login = u32::from(matches!(self.login, Login::Begun(_)));
        assert_eq!(self.servers.len(), self.linked + self.idle.len() + login, "a server is in no state, or in two");
        debug_assert!(self.servers.len() > CHECKED_UP_TO || self.queue.len() > CHECKED_UP_TO || self.is_sound());
    }

    /// Whether the whole structure is consistent; costs a walk through it.
    pub(crate) fn is_sound(&self) -> bool {
        let (mut linked, mut idle, mut closing, mut login) = (0, 0, 0, 0);
        for (key, _, server) in self.servers.iter() {
            match server.state {
                State::Login => login += u32::from(self.login == Login::Begun(key)),
                // A client may have two for a while: one that is being reset after it, and its next.
                State::Linked(_) => linked += 1,
                State::Idle { .. } => idle += 1,
                State::Closing(_) => closing += 1,
            }
        }
        self.servers.is_sound(&self.idle)
            && self.servers.is_sound(&self.closing)
            && self.queue.is_sound()
            && self.servers.walk(&self.idle).is_sorted_by(|a, b| self.idle_since(*a) >= self.idle_since(*b))
            && (linked, idle, closing) == (self.linked, self.idle.len(), self.closing.len())
            && linked + idle + closing + login == self.servers.len()
            && (self.run_state != RunState::Running
                || self.backoff.health() != Health::Fine
                || self.backoff.opens(false) == Time::START)
    }
}
