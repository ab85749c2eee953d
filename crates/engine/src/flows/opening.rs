//! A pool opens a server: when its host has room for one more login, and the pools that wait for that.

use weir_base::{Peer, Target, Time};
use weir_config::OnServerDown;
use weir_pool::{CloseReason, ConnectFailure};
use weir_session::ServerError;
use weir_session::startup::Replication;

use crate::backends::login_throttle::{LoginThrottle, most_logins};
use crate::backends::outlook::Outlook;
use crate::common::FollowUp;
use crate::engine::Engine;
use crate::handles::PoolIx;
use crate::peers::{ClientPhase, Dedicated, ServerSlot, ServerState};
use crate::port::{Io, Level};
use crate::timers::Who;

/// Why a server that could not be reached is closed (PgBouncer's words, which operators look for).
pub(crate) const CONNECT_FAILED: &str = "connect failed";

impl Engine {
    fn most_logins(&self) -> u32 {
        most_logins(self.common.config(), self.common.workers())
    }

    /// Opens a server for a pool: now, or when one of its hosts has room for one more login.
    pub(crate) fn open_when_admitted<I: Io>(&mut self, now: Time, ix: PoolIx, io: &mut I) {
        self.end_login(now, ix, io);
        if self.admit(now, ix) {
            self.open_server(now, ix, io);
        }
    }

    /// Whether a pool may open a server now, at the first of its hosts that has room for one more login. Hosts before that one
    /// that are away count as tried, and failed. Where no host has room, the pool waits for one.
    fn admit(&mut self, now: Time, ix: PoolIx) -> bool {
        let (most, mode) = (self.most_logins(), self.common.config().tls.server.mode);
        let throttle = &self.backends.throttle;
        let slot = self.pools.get_mut(ix);
        let (config, hosts) = (slot.config.clone(), &mut slot.hosts);
        let policy = config.limits.on_server_down;
        let waits = policy == OnServerDown::Wait;
        let shut = |target: &Target| throttle.shut(target, now).filter(|_| waits);
        let at = if config.targets.iter().all(|target| shut(target).is_some()) {
            hosts.peek(&config)
        } else {
            for _ in 0..config.targets.len() {
                let target = hosts.peek(&config);
                if throttle.has_room(target, policy, most, now) {
                    return true;
                }
                let Some(away) = shut(target) else {
                    hosts.pass(&config);
                    continue;
                };
                let (failure, error) = hosts.skip(&config, mode, &away.error);
                if failure != ConnectFailure::Elsewhere {
                    slot.failures.add(error, away.too_slow, now);
                    slot.pool.unreachable(failure, now);
                    self.common.follow_up(FollowUp::PollPool(ix));
                    return false;
                }
            }
            let open = config.targets.iter().find(|target| shut(target).is_none());
            open.unwrap_or_else(|| hosts.peek(&config))
        };
        let at = at.clone();
        self.backends.throttle.wait(ix, &mut slot.login, &at);
        self.arm_attempt(&at);
        false
    }

    fn open_server<I: Io>(&mut self, now: Time, ix: PoolIx, io: &mut I) {
        let granted_at = self.pools.get(ix).quota.granted_at();
        if self.grant_is_void(now, ix, granted_at) {
            self.common.follow_up(FollowUp::PollPool(ix));
            return self.pools.get_mut(ix).pool.open_declined(now, now);
        }
        let id = self.common.next_connection_id();
        if let Some(client) = self.pools.get(ix).pool.wants_reserve().and_then(|peer| self.peers.get_client(peer)) {
            self.log_client(Level::Warning, client, format_args!("taking connection from reserve_pool"), io);
        }
        let slot = self.pools.get_mut(ix);
        let (attempt, target) = slot.hosts.begin(&slot.config, self.common.config().tls.server.mode);
        let peer = io.connect(&target);
        self.backends.throttle.begin(&mut slot.login, &target);
        let outlook = Outlook::Away.under(slot.config.limits.on_server_down, &too_slow(&target));
        slot.pool.set_timeout_failure(slot.hosts.failure(&slot.config, attempt, outlook));
        let owner = slot.pool.opening(peer, now);
        slot.counts.tally.connects += 1;
        let mut server = Box::new(ServerSlot::new(peer, id, ix, target, attempt, now));
        server.granted_at = granted_at;
        server.dedicated = owner.map(|owner| Box::new(self.dedicated_to(owner)));
        self.peers.put_server(server);
    }

    /// The properties of a server's one client.
    fn dedicated_to(&self, owner: Peer) -> Dedicated {
        let replication = match self.peers.get_client(owner).map(|client| &client.phase) {
            Some(ClientPhase::Welcome(phase)) => phase.request().replication,
            _ => Replication::None,
        };
        Dedicated { owner, replication, welcome: None }
    }

    /// Counts a pool's login only while it is under way, and lets the pool wait for one only while it needs one.
    pub(crate) fn check_login<I: Io>(&mut self, now: Time, ix: PoolIx, io: &mut I) {
        if !self.pools.get(ix).pool.wants_server() {
            self.stop_waiting_for_host(now, ix);
        }
        if !self.pools.get(ix).pool.is_logging_in() {
            self.end_login(now, ix, io);
        }
    }

    /// A pool stops waiting for a host.
    pub(crate) fn stop_waiting_for_host(&mut self, now: Time, ix: PoolIx) {
        let slot = self.pools.get_mut(ix);
        if self.backends.throttle.leave(ix, &mut slot.login) {
            slot.pool.open_declined(now, now);
        }
    }

    fn end_login<I: Io>(&mut self, now: Time, ix: PoolIx, io: &mut I) {
        if let Some(target) = self.backends.throttle.end(&mut self.pools.get_mut(ix).login) {
            self.call_waiting(now, &target, io);
        }
    }

    /// The pools that wait for a host go on as far as there is room.
    fn call_waiting<I: Io>(&mut self, now: Time, target: &Target, io: &mut I) {
        let most = self.most_logins();
        let mut called = 0;
        while let Some(ix) = self.backends.throttle.next(target, most, now) {
            called += 1;
            debug_assert!(called <= self.pools.iter().count(), "a pool that was called waits at {target} again");
            let slot = self.pools.get_mut(ix);
            slot.login.called();
            if !slot.pool.wants_server() {
                slot.pool.open_declined(now, now);
            } else if slot.hosts.turn_to(&slot.config, target) {
                // At this host: if it requested room again, it could wait here again, and this would never end.
                self.open_server(now, ix, io);
            } else {
                // A reload has changed its host.
                self.open_when_admitted(now, ix, io);
            }
            self.common.follow_up(FollowUp::PollPool(ix));
        }
        self.arm_attempt(target);
    }

    /// Ensures that a host that is away is tried in time for the pools that wait for it.
    fn arm_attempt(&mut self, target: &Target) {
        let due = self.backends.throttle.attempt_due(target);
        self.common.arm(Who::AwayHosts, due, self.backends.throttle.armed());
    }

    /// Hosts that are away may have to be tried.
    pub(crate) fn away_hosts_due<I: Io>(&mut self, now: Time, io: &mut I) {
        for target in self.backends.throttle.due(now) {
            self.call_waiting(now, &target, io);
        }
        let next = self.backends.throttle.next_due();
        self.common.arm(Who::AwayHosts, next, self.backends.throttle.armed());
    }

    /// A host has answered: if it was away, the pools that wait for it continue.
    pub(crate) fn host_answers<I: Io>(&mut self, now: Time, target: &Target, io: &mut I) {
        if !self.backends.throttle.is_back(target) {
            return;
        }
        self.call_waiting(now, target, io);
        for ix in self.pools.indices() {
            let slot = self.pools.get_mut(ix);
            if slot.config.targets.contains(target) {
                slot.failures.host_answers();
            }
            let elsewhere = slot.login.waits_at().is_some_and(|at| at != target);
            if elsewhere && slot.config.targets.contains(target) {
                self.backends.throttle.leave(ix, &mut slot.login);
                self.open_when_admitted(now, ix, io);
                self.common.follow_up(FollowUp::PollPool(ix));
            }
        }
    }

    /// An operator requests that a host is tried now, whatever failed before.
    pub(crate) fn try_host_now<I: Io>(&mut self, now: Time, target: &Target, io: &mut I) {
        self.backends.throttle.open(target, now);
        self.call_waiting(now, target, io);
    }

    /// A new configuration may leave more room, and have moved waiting pools to other hosts.
    pub(crate) fn recheck_logins<I: Io>(&mut self, now: Time, io: &mut I) {
        self.backends.throttle.forget_away();
        for ix in self.pools.indices() {
            let slot = self.pools.get_mut(ix);
            let Some(target) = slot.login.waits_at().cloned() else { continue };
            if slot.hosts.peek(&slot.config) == &target {
                self.call_waiting(now, &target, io);
            } else {
                self.backends.throttle.leave(ix, &mut slot.login);
                self.open_when_admitted(now, ix, io);
                self.common.follow_up(FollowUp::PollPool(ix));
            }
        }
    }

    /// A login has shown that a host is away; returns whether to log it. Pools that refuse their clients then, and wait
    /// for room at the host, have failed as well, if the host was not even `reached`; the others keep waiting.
    pub(crate) fn host_is_away(
        &mut self,
        now: Time,
        target: &Target,
        reached: bool,
        failed: (&ServerError, bool),
    ) -> bool {
        let (error, too_slow) = failed;
        let logs = self.backends.throttle.is_away(target, error, too_slow, now);
        if reached {
            return logs;
        }
        let pools = &self.pools;
        let refuses = |ix| pools.get(ix).config.limits.on_server_down == OnServerDown::Refuse;
        for ix in self.backends.throttle.take_waiting(target, refuses) {
            let slot = self.pools.get_mut(ix);
            slot.login.called();
            if slot.hosts.peek(&slot.config) == target {
                let mode = self.common.config().tls.server.mode;
                let (failure, error) = slot.hosts.skip(&slot.config, mode, error);
                slot.failures.add(error, too_slow, now);
                slot.pool.unreachable(failure, now);
            } else {
                slot.pool.open_declined(now, now);
            }
            self.common.follow_up(FollowUp::PollPool(ix));
        }
        logs
    }

    /// The pool closes a server.
    pub(crate) fn pool_closes<I: Io>(&mut self, now: Time, server: Peer, reason: CloseReason, io: &mut I) {
        let Some(server) = self.peers.take_server(server) else { return };
        if reason != CloseReason::ConnectTimeout {
            let client = server.link;
            self.disconnect_server(server, reason.text(), io);
            // Only a server of one client is closed while a client has it.
            return client.into_iter().for_each(|client| self.end_stream(now, client, reason.text(), io));
        }
        let reached = !matches!(server.state, ServerState::Connecting);
        let target = server.connection.target();
        let error = too_slow(target);
        self.host_is_away(now, target, reached, (&error, true));
        let slot = self.pools.get_mut(server.pool);
        let outlook = Outlook::Away.under(slot.config.limits.on_server_down, &error);
        // The pool has decided already, when the connect began.
        let (_, all) = slot.hosts.failed(&slot.config, server.connection.attempt(), error, outlook, None);
        slot.failures.add(all, true, now);
        self.disconnect_server(server, if reached { reason.text() } else { CONNECT_FAILED }, io);
    }

    /// Asserts that logins and pools agree. Walks over all pools.
    pub(crate) fn check_logins(&self) {
        self.backends.throttle.check(self.pools.iter().map(|slot| &slot.login));
        for slot in self.pools.iter() {
            let counted = LoginThrottle::has_begun(&slot.login) || !slot.pool.is_logging_in();
            assert!(counted, "{}: a login that is not counted", slot.name);
        }
    }
}

/// The error of a login that was not finished in time.
fn too_slow(target: &Target) -> ServerError {
    let message = format!("server {target} did not finish the login within server_connect_timeout");
    ServerError { sqlstate: "08001".into(), message }
}
