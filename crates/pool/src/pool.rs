//! The pool: its state, and the operations that change it.
//!
//! An operation changes the state and may leave work (`needs_poll`), which [`Pool::poll`] does (`poll.rs`). `poll` also
//! handles what time alone causes: waits that end, servers that grow old, connects that may begin.

use weir_base::{ConnId, Span, Time};

use crate::backoff::{Backoff, ConnectRate, FIRST_RETRY, Health, Jitter};
use crate::dedicated::{Dedicated, earlier};
use crate::queue::Queue;
use crate::state::{Login, RunState, Server, State};
use crate::table::{Key, List, Table};
use crate::types::{Ages, CloseReason, ConnectFailure, Effect, PoolSnapshot, Release, ServerState, Settings};

/// The servers of one pair of database and user, and the clients that wait for them.
///
/// `P` is the proof that a server is clean. A server is idle only with its proof, which is spent when it is handed out.
#[derive(Clone, Debug)]
pub struct Pool<P> {
    pub(crate) settings: Settings,
    pub(crate) run_state: RunState,
    pub(crate) demand: bool,
    /// From when on a login is tried though no client waits, to learn whether the server is available; never, if that
    /// is known.
    pub(crate) probe: Time,
    pub(crate) servers: Table<Server<P>>,
    /// So many of the pool's servers are another process's, from which this one takes over.
    pub(crate) elsewhere: u32,
    /// While another process takes over: no server is opened beyond these.
    pub(crate) kept: Option<u32>,
    /// Another pool needs the room: servers beyond these are closed as they become free.
    pub(crate) ceiling: Option<u32>,
    /// Idle servers, the one used last first.
    pub(crate) idle: List,
    /// Servers for which [`Pool::poll`] will return a close.
    pub(crate) closing: List,
    /// How many servers are linked.
    pub(crate) linked: u32,
    pub(crate) login: Login,
    /// How a login that takes too long counts.
    pub(crate) too_slow: ConnectFailure,
    pub(crate) queue: Queue,
    pub(crate) dedicated: Dedicated,
    pub(crate) backoff: Backoff,
    pub(crate) rate: ConnectRate,
    /// The engine has reported that it can't open a server before this moment.
    pub(crate) declined_until: Time,
    /// Nor before this one, even for a new client.
    pub(crate) declined_pause: Time,
    /// Servers of an earlier epoch are closed as soon as they are free.
    pub(crate) epoch: u32,
    /// From when on the next server may be closed because of its age.
    pub(crate) next_expiry: Time,
    /// No idle server is to be closed because of its age before this moment.
    pub(crate) expiry_check: Time,
    pub(crate) jitter: Jitter,
    /// [`Pool::poll`] may have work now.
    pub(crate) needs_poll: bool,
    /// [`Pool::poll`] has no work before this moment, unless `needs_poll`.
    pub(crate) deadline: Time,
}

impl<P> Pool<P> {
    /// A pool without servers. `seed` spreads the ages of its servers and its retries.
    pub fn new(settings: Settings, seed: u64, now: Time) -> Self {
        Pool {
            settings,
            run_state: RunState::Running,
            demand: false,
            probe: Time::NEVER,
            servers: Table::default(),
            elsewhere: 0,
            kept: None,
            ceiling: None,
            idle: List::default(),
            closing: List::default(),
            linked: 0,
            login: Login::None,
            too_slow: ConnectFailure::Refused,
            queue: Queue::default(),
            dedicated: Dedicated::default(),
            backoff: Backoff::new(),
            rate: ConnectRate::new(),
            declined_until: now,
            declined_pause: now,
            epoch: 0,
            next_expiry: now,
            expiry_check: Time::NEVER,
            jitter: Jitter::new(seed),
            needs_poll: false,
            deadline: Time::NEVER,
        }
    }

    /// The engine began the connect that [`crate::Effect::Open`] requested; `handle` is the server's. Returns the
    /// client for which alone the server is opened, if there is one ([`Pool::acquire_dedicated`]).
    pub fn opening(&mut self, handle: ConnId, now: Time) -> Option<ConnId> {
        assert_eq!(self.login, Login::Asked, "{handle:?} is opened but was not requested");
        let epoch = self.epoch;
        let owner = self.dedicated.begin_login(self.queue.oldest());
        let dedicated = owner.is_some();
        let state = State::Login;
        let server = Server { state, connected_at: now, expires: Time::NEVER, epoch, dedicated };
        let key = self.servers.insert(handle, server);
        self.login = Login::Begun(key);
        if let Some(reason) = self.unwanted(key) {
            self.mark_for_close(key, reason);
        }
        self.needs_poll = true;
        owner
    }

    /// How the login under way, and those after it, count if they take longer than `server_connect_timeout`. Default:
    /// refused.
    pub fn set_timeout_failure(&mut self, failure: ConnectFailure) {
        self.too_slow = failure;
    }

    /// The engine can't open the server that [`crate::Effect::Open`] requested: a limit beyond this pool is reached.
    /// The pool requests it again at `retry_at`, or when a client begins to wait, but not within a tenth of a second.
    /// No client is refused for it.
    pub fn open_declined(&mut self, retry_at: Time, now: Time) {
        assert_eq!(self.login, Login::Asked, "a connect is declined but was not requested");
        self.login = Login::None;
        self.declined_pause = now + DECLINED_PAUSE;
        self.declined_until = retry_at.max(self.declined_pause);
        self.needs_poll = true;
    }

    /// The server that [`crate::Effect::Open`] requested can't be reached, which the engine knows without a try: it
    /// counts as a failed connect.
    pub fn unreachable(&mut self, failure: ConnectFailure, now: Time) {
        assert_eq!(self.login, Login::Asked, "nothing was requested that could be unreachable");
        self.login = Login::None;
        self.login_failed(failure, now);
        self.needs_poll = true;
    }

    /// A server's login is done, and it is clean.
    pub fn connected(&mut self, server: ConnId, proof: P, now: Time) -> Release {
        let key = self.servers.find(server).expect("a connected server is in the pool");
        self.backoff.succeeded();
        self.probe = Time::NEVER;
        self.needs_poll = true;
        if let State::Closing(reason) = self.servers[key].state {
            self.forget(key);
            return Release::Close(reason);
        }
        assert_eq!(self.login, Login::Begun(key), "{server:?} is connected but was not logging in");
        self.login = Login::None;
        self.servers[key].connected_at = now;
        self.servers[key].expires = self.expiry(now);
        if let Some(reason) = self.unwanted(key) {
            self.dedicated.end_login(true);
            self.forget(key);
            return Release::Close(reason);
        }
        if let Some((client, since)) = self.dedicated.end_login(false) {
            self.servers[key].state = State::Linked(client);
            self.linked += 1;
            return Release::Next { client, waited: now - since, check: false };
        }
        self.assign(key, proof, false, now)
    }

    /// The ages of a server that is about to be lent.
    pub fn ages(&self, server: ConnId) -> Ages {
        let key = self.servers.find(server).expect("a server that is lent is in the pool");
        Ages { connected_at: self.servers[key].connected_at, expires: self.servers[key].expires }
    }

    /// A server that another pool has lent to this one, clean. If it answers the request under way, that request must
    /// have been ended by [`Pool::cancel_open`].
    pub fn borrowed(&mut self, server: ConnId, ages: Ages, proof: P, now: Time) -> Release {
        let Ages { connected_at, expires } = ages;
        let state = State::Linked(ConnId::NONE);
        let epoch = self.epoch;
        let key = self.servers.insert(server, Server { state, connected_at, expires, epoch, dedicated: false });
        self.backoff.succeeded();
        self.needs_poll = true;
        if let Some(reason) = self.unwanted(key) {
            self.forget(key);
            return Release::Close(reason);
        }
        self.assign(key, proof, false, now)
    }

    /// The server that [`crate::Effect::Open`] requested was obtained in another way, or is no longer needed.
    pub fn cancel_open(&mut self) {
        assert_eq!(self.login, Login::Asked, "an open is cancelled but was not requested");
        self.login = Login::None;
        self.needs_poll = true;
    }

    /// The server that [`crate::Effect::Open`] requested is not available: the worker that tries the logins reports it
    /// down until then. Waiting clients are refused as by a failed login.
    pub fn mark_down(&mut self, until: Time) {
        self.cancel_open();
        self.backoff.mark_down(until);
    }

    /// Takes the server that has been idle longest out of the idle ones, as if a client had it.
    pub fn take_idle(&mut self) -> Option<ConnId> {
        let key = self.idle.last()?;
        self.servers.unlink(&mut self.idle, key);
        self.servers[key].state = State::Linked(ConnId::NONE);
        self.linked += 1;
        self.needs_poll = true;
        Some(self.servers.conn(key))
    }

    /// Since when the client that is next to be served has waited.
    pub fn oldest_wait(&self) -> Option<Time> {
        earlier(self.queue.oldest(), self.dedicated.queue.oldest())
    }

    /// A connect or a login failed; the server is gone. Ignored for a server whose login the pool had given up.
    pub fn connect_failed(&mut self, server: ConnId, failure: ConnectFailure, now: Time) {
        let Some(key) = self.servers.find(server) else { return };
        match self.servers[key].state {
            State::Login => self.login_failed(failure, now),
            State::Closing(_) => {}
            State::Linked(_) | State::Idle { .. } => panic!("{server:?} fails to connect but is connected"),
        }
        self.forget(key);
    }

    /// A server is gone, in whatever state it was and for whatever reason; no conclusion is drawn from it. A client
    /// that had it has no server now. Does nothing for a server that the pool has forgotten.
    ///
    /// If the server ended a login, use [`Pool::connect_failed`], which delays the next one.
    pub fn lost(&mut self, server: ConnId, _now: Time) {
        if let Some(key) = self.servers.find(server) {
            if let State::Linked(_) = self.servers[key].state {
                self.linked -= 1;
            }
            self.forget(key);
        }
    }

    /// A client that waits gives up. Does nothing for one that does not wait.
    pub fn leave(&mut self, client: ConnId, _now: Time) {
        self.queue.remove(client);
        if self.dedicated.leave(client)
            && let Some(key) = self.login.begun()
        {
            self.mark_for_close(key, CloseReason::OwnerLeft);
        }
    }

    /// Takes new settings over. Servers beyond the new size are closed: idle ones and one that logs in now, linked
    /// ones when they are released.
    pub fn resize(&mut self, settings: Settings, now: Time) {
        let aged = settings.server_lifetime != self.settings.server_lifetime;
        self.settings = settings;
        if aged {
            self.spread_ages();
            self.next_expiry = now;
        }
        while self.excess() > 0 {
            let Some(key) = self.idle.last().or(self.login.begun()) else { break };
            self.mark_for_close(key, CloseReason::TooMany);
        }
        self.expiry_check = now;
        self.needs_poll = true;
    }

    /// Hands nothing out until [`Pool::resume`]. Idle servers and one that logs in are closed now, linked ones when
    /// they are released (PgBouncer's PAUSE). Clients queue, and their waits still end with `query_wait_timeout`.
    pub fn pause(&mut self) {
        if self.run_state != RunState::Shut {
            self.run_state = RunState::Paused;
            self.mark_idle_for_close(CloseReason::Pause);
            self.mark_login_for_close(CloseReason::Pause);
            self.needs_poll = true;
        }
    }

    /// Hands nothing out until [`Pool::resume`], but keeps the servers (PgBouncer's SUSPEND).
    pub fn suspend(&mut self) {
        if self.run_state == RunState::Running {
            self.run_state = RunState::Suspended;
            self.needs_poll = true;
        }
    }

    /// Ends a pause or a suspension; [`Pool::poll`] serves those who waited, in order.
    pub fn resume(&mut self, _now: Time) {
        if self.run_state != RunState::Shut {
            self.run_state = RunState::Running;
            self.needs_poll = true;
        }
    }

    /// Whether the pool is paused or suspended.
    pub fn is_paused(&self) -> bool {
        matches!(self.run_state, RunState::Paused | RunState::Suspended)
    }

    /// Whether the pool hands nothing out, and no server is linked, logging in or to be closed.
    pub fn is_quiescent(&self) -> bool {
        self.run_state != RunState::Running && self.servers.len() == self.idle.len()
    }

    /// Closes the idle servers and one that logs in.
    pub fn close_idle(&mut self) {
        self.mark_idle_for_close(CloseReason::Killed);
        self.mark_login_for_close(CloseReason::Killed);
    }

    /// Closes the idle servers, which others may replace.
    pub fn replace_idle(&mut self) {
        self.mark_idle_for_close(CloseReason::Reconnect);
        self.needs_poll = true;
    }

    /// Refuses waiting and new clients, hands out nothing, closes servers as they become free; permanently.
    pub fn shut_down(&mut self) {
        self.run_state = RunState::Shut;
        self.mark_idle_for_close(CloseReason::Shutdown);
        self.mark_login_for_close(CloseReason::Shutdown);
        self.needs_poll = true;
    }

    /// Closes the server that has been idle longest, so that another pool can open one. `false`: none is idle.
    pub fn evict(&mut self) -> bool {
        let longest = self.idle.last();
        longest.map(|key| self.mark_for_close(key, CloseReason::Evicted)).is_some()
    }

    /// Another pool needs the room: servers beyond these are closed with [`CloseReason::Evicted`], idle ones and one
    /// that logs in now, linked ones when they are released. None is opened beyond these. `None`: the pool may
    /// keep what it has.
    pub fn keep_at_most(&mut self, servers: Option<u32>) {
        self.ceiling = servers;
        while self.is_above_ceiling() {
            let Some(key) = self.idle.last().or(self.login.begun()) else { break };
            self.mark_for_close(key, CloseReason::Evicted);
        }
        self.needs_poll = true;
    }

    /// Whether a server that becomes free is closed for another pool.
    pub fn is_above_ceiling(&self) -> bool {
        self.ceiling.is_some_and(|ceiling| self.servers.len() - self.closing.len() > ceiling)
    }

    /// Since when the server that [`Pool::evict`] would close has been idle.
    pub fn longest_idle(&self) -> Option<Time> {
        self.idle.last().map(|key| self.idle_since(key))
    }

    /// So many of the pool's servers are in processes that this one takes over from: it opens as many less. None is
    /// closed for them.
    pub fn set_elsewhere(&mut self, servers: u32) {
        self.needs_poll |= self.elsewhere != servers;
        self.elsewhere = servers;
    }

    /// Another process takes over: no server is opened beyond what the pool has; while clients wait, beyond what it had
    /// when that began, and one can be opened for them. Returns how many the pool may have, and whether that is another
    /// number than before.
    pub fn keep_servers(&mut self) -> (u32, bool) {
        let has = self.servers.len();
        let waits = self.oldest_wait().is_some();
        let kept = if waits { self.kept.unwrap_or(has).max(has).max(1) } else { has };
        let differs = self.kept.replace(kept) != Some(kept);
        self.needs_poll |= differs;
        (kept, differs)
    }

    /// The server leaves for the process that takes over, and its place with it.
    pub fn given(&mut self, server: ConnId, now: Time) {
        self.lost(server, now);
        self.kept = self.kept.map(|kept| kept.saturating_sub(1));
    }

    /// No process takes over any more.
    pub fn keep_no_more(&mut self) {
        self.needs_poll |= self.kept.take().is_some();
    }

    /// Whether there is demand: a client is connected, or the user is forced. Without it `min_size` is not refilled.
    pub fn set_demand(&mut self, on: bool) {
        self.needs_poll |= self.demand != on;
        self.demand = on;
    }

    /// The cause of failed logins has changed: the next one need not wait.
    pub fn retry_now(&mut self) {
        self.backoff.succeeded();
        self.needs_poll = true;
    }

    /// Finds out whether a server is available though no client waits: a login is tried in a second. While the server
    /// is away, logins are tried as often as after [`ConnectFailure::Refused`], until one succeeds or fails in another
    /// way.
    pub fn keep_trying(&mut self, now: Time) {
        if self.probe == Time::NEVER {
            self.probe = now + FIRST_RETRY;
            self.needs_poll = true;
        }
    }

    /// An operator checks whether a server is available: a login is tried now, if there is room for one more server.
    pub fn try_now(&mut self, now: Time) {
        self.retry_now();
        self.probe = now;
    }

    /// A login has failed: the next one waits.
    pub(crate) fn login_failed(&mut self, failure: ConnectFailure, now: Time) {
        if matches!(failure, ConnectFailure::NotReady | ConnectFailure::Refused) {
            self.probe = Time::NEVER;
        }
        self.backoff.failed(failure, self.settings.server_login_retry, &mut self.jitter, now);
    }

    /// The client that has waited longest, if the next server comes out of the reserve.
    pub fn wants_reserve(&self) -> Option<ConnId> {
        let beyond = self.servers.len() >= self.limit(0);
        self.queue.iter().next().filter(|_| beyond).map(|(client, _)| client)
    }

    /// Whether a login is under way.
    pub fn is_logging_in(&self) -> bool {
        self.login.begun().is_some()
    }

    /// The settings in force.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Whether a server is in the pool, in whatever state.
    pub fn contains(&self, server: ConnId) -> bool {
        self.servers.find(server).is_some()
    }

    /// How many servers there are, those that are closing included.
    pub fn len(&self) -> usize {
        self.servers.len() as usize
    }

    /// Whether there is no server.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The pool's figures.
    pub fn snapshot(&self, now: Time) -> PoolSnapshot {
        PoolSnapshot {
            active: self.linked,
            idle: self.idle.len(),
            login: u32::from(matches!(self.login, Login::Begun(_))),
            waiting: self.queue.len() + self.dedicated.waiting(),
            oldest_wait: self.oldest_wait().map_or(Span::ZERO, |since| now - since),
            paused: self.is_paused(),
            retry_at: (self.backoff.health() != Health::Fine).then_some(self.backoff.opens(!self.queue.is_empty())),
        }
    }

    /// The servers in no particular order: handle, state, and when the connection was made (during the login: begun).
    pub fn servers(&self) -> impl Iterator<Item = (ConnId, ServerState, Time)> {
        self.servers.iter().map(|(_, conn, server)| (conn, server.state.public(), server.connected_at))
    }

    /// The clients that wait, the next to be served first, and when their waits began.
    pub fn waiting(&self) -> impl Iterator<Item = (ConnId, Time)> {
        self.queue.iter().chain(self.dedicated.queue.iter())
    }

    /// Links the next idle server, if there is one, to `client`.
    #[inline(always)]
    pub(crate) fn link_idle(&mut self, client: ConnId, now: Time) -> Option<(ConnId, bool)> {
        let key = if self.settings.round_robin { self.idle.last() } else { self.idle.first() }?;
        let check = self.link_to(key, client, now);
        Some((self.servers.conn(key), check))
    }

    /// The idle servers.
    pub fn idle(&self) -> impl Iterator<Item = ConnId> {
        self.servers.walk(&self.idle).map(|key| self.servers.conn(key))
    }

    /// Links this idle server to `client`, which has another one that it releases next. Returns whether it must be checked
    /// first; nothing if that server is not idle, or the pool does not run.
    pub fn take(&mut self, server: ConnId, client: ConnId, now: Time) -> Option<bool> {
        let key = self.servers.find(server)?;
        let is_idle = matches!(self.servers[key].state, State::Idle { .. });
        (is_idle && self.run_state == RunState::Running).then(|| self.link_to(key, client, now))
    }

    /// An idle server is linked from now on. Returns whether it must be checked first.
    #[inline(always)]
    fn link_to(&mut self, key: Key, client: ConnId, now: Time) -> bool {
        let unused = now - self.idle_since(key);
        self.servers.unlink(&mut self.idle, key);
        self.servers[key].state = State::Linked(client);
        self.linked += 1;
        self.settings.checks && unused >= self.settings.server_check_delay
    }

    /// Gives a clean server, which is in no list, to the next client or to the idle ones.
    #[inline(always)]
    pub(crate) fn assign(&mut self, key: Key, proof: P, check: bool, now: Time) -> Release {
        if self.run_state == RunState::Running
            && let Some((client, since)) = self.queue.pop()
        {
            self.servers[key].state = State::Linked(client);
            self.linked += 1;
            return Release::Next { client, waited: now - since, check };
        }
        self.servers[key].state = State::Idle { since: now, _proof: proof };
        self.servers.push_front(&mut self.idle, key);
        self.expiry_check = self.expiry_check.min(self.servers[key].expires.max(self.next_expiry));
        let idle_until = now.deadline(self.settings.server_idle_timeout);
        self.deadline = self.deadline.min(idle_until).min(self.expiry_check);
        Release::Idle
    }

    /// Why a server that has just become free must be closed, its age aside.
    #[inline]
    pub(crate) fn unwanted(&self, key: Key) -> Option<CloseReason> {
        self.unwanted_here(key).or(self.is_above_ceiling().then_some(CloseReason::Evicted))
    }

    /// The same, but not because another pool needs the room.
    #[inline]
    fn unwanted_here(&self, key: Key) -> Option<CloseReason> {
        let stale = self.servers[key].epoch != self.epoch;
        let reason = self.run_state.closes().or(stale.then_some(CloseReason::Reconnect));
        reason.or((self.excess() > 0).then_some(CloseReason::TooMany))
    }

    /// Whether a server that is released must be closed for its age; counts it as closed if so.
    #[inline]
    pub(crate) fn too_old(&mut self, key: Key, now: Time) -> Option<CloseReason> {
        let used_once = self.settings.server_lifetime.is_zero();
        let old = used_once || (self.servers[key].expires <= now && self.next_expiry <= now);
        if old && !used_once {
            self.count_expiry(now);
        }
        old.then_some(CloseReason::Lifetime)
    }

    /// Keeps the closings for age apart, so that a pool that was filled at once is not emptied at once.
    pub(crate) fn count_expiry(&mut self, now: Time) {
        let servers = u64::from(self.settings.size);
        let gap = self.settings.server_lifetime.micros().checked_div(servers).unwrap_or(0);
        self.next_expiry = now + Span::from_micros(gap);
    }

    /// When a server connected at this moment is old: after its lifetime plus up to a tenth of it.
    fn expiry(&mut self, connected_at: Time) -> Time {
        let lifetime = self.settings.server_lifetime;
        let more = self.jitter.up_to(Span::from_micros(lifetime.micros() / 10));
        connected_at.deadline(lifetime) + more
    }

    fn spread_ages(&mut self) {
        let lifetime = self.settings.server_lifetime;
        for server in self.servers.iter_mut().filter(|server| !matches!(server.state, State::Login)) {
            let more = self.jitter.up_to(Span::from_micros(lifetime.micros() / 10));
            server.expires = server.connected_at.deadline(lifetime) + more;
        }
    }

    /// Whether no server is left that will be free again, and none may be tried yet. A server from before a reconnect
    /// will not be free again: it is closed at its release.
    pub(crate) fn is_dead(&self, now: Time) -> bool {
        let mut servers = self.servers.iter();
        let returns = |server: &Server<P>| matches!(server.state, State::Linked(_)) && server.epoch == self.epoch;
        let down = self.idle.is_empty() && self.backoff.is_down(now);
        down && (self.linked == 0 || !servers.any(|(_, _, server)| returns(server)))
    }

    /// Since when a server has been free; `None` if it is not.
    pub fn free_since(&self, server: ConnId) -> Option<Time> {
        match self.servers[self.servers.find(server)?].state {
            State::Idle { since, .. } => Some(since),
            _ => None,
        }
    }

    /// Whether a server was opened before the last [`Pool::reconnect`], and is closed when it is released.
    pub fn is_outdated(&self, server: ConnId) -> bool {
        self.servers.find(server).is_some_and(|key| self.servers[key].epoch != self.epoch)
    }

    /// Whether a server would be closed if it were released now, its age aside.
    pub fn is_unwanted(&self, server: ConnId) -> bool {
        self.servers.find(server).is_some_and(|key| self.unwanted(key).is_some())
    }

    /// Whether a server that is lent must be closed by the borrower. One that another pool needs is returned instead, since
    /// any of the servers will do.
    pub fn is_recalled(&self, server: ConnId) -> bool {
        self.servers.find(server).is_some_and(|key| self.unwanted_here(key).is_some())
    }

    #[cfg(test)]
    pub(crate) fn is_stale(&self, key: Key) -> bool {
        self.servers[key].epoch != self.epoch
    }

    /// By how many servers the limits are exceeded, those that are closing aside.
    fn excess(&self) -> u32 {
        // Until it is known how many are elsewhere, those that come from there are kept.
        let elsewhere = if self.elsewhere == u32::MAX { 0 } else { self.elsewhere };
        let all = (self.servers.len() - self.closing.len()).saturating_add(elsewhere);
        all.saturating_sub(self.settings.most(self.settings.reserve_size))
    }

    /// Up to how many servers one is opened, with this many more than `size`.
    pub(crate) fn limit(&self, more: u32) -> u32 {
        let most = self.settings.most(more).saturating_sub(self.elsewhere);
        most.min(self.kept.unwrap_or(u32::MAX)).min(self.ceiling.unwrap_or(u32::MAX))
    }

    pub(crate) fn idle_since(&self, key: Key) -> Time {
        match self.servers[key].state {
            State::Idle { since, .. } => since,
            _ => unreachable!("the idle list holds idle servers"),
        }
    }

    pub(crate) fn mark_idle_for_close(&mut self, reason: CloseReason) {
        while let Some(key) = self.idle.last() {
            self.mark_for_close(key, reason);
        }
    }

    pub(crate) fn mark_login_for_close(&mut self, reason: CloseReason) {
        if let Some(key) = self.login.begun() {
            self.mark_for_close(key, reason);
        }
    }

    /// Marks a server that is idle or logging in to be closed by [`Pool::poll`].
    pub(crate) fn mark_for_close(&mut self, key: Key, reason: CloseReason) {
        self.detach(key);
        self.servers[key].state = State::Closing(reason);
        self.servers.insert_before(&mut self.closing, key, None);
        self.needs_poll = true;
    }

    pub(crate) fn close(&mut self, key: Key, reason: CloseReason) -> Effect {
        let server = self.servers.conn(key);
        self.forget(key);
        Effect::Close { server, reason }
    }

    /// Forgets a server that is not linked, or is no longer counted so.
    pub(crate) fn forget(&mut self, key: Key) {
        self.detach(key);
        self.servers.remove(key);
        self.needs_poll = true;
    }

    /// Takes a server out of the list, or the place, that its state says.
    fn detach(&mut self, key: Key) {
        match self.servers[key].state {
            State::Login => {
                self.login = Login::None;
                self.dedicated.end_login(true);
            }
            State::Linked(_) => {}
            State::Idle { .. } => self.servers.unlink(&mut self.idle, key),
            State::Closing(_) => self.servers.unlink(&mut self.closing, key),
        }
    }
}

/// The shortest pause after the engine declined to open a server.
const DECLINED_PAUSE: Span = Span::from_millis(100);
