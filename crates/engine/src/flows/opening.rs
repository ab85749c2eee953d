//! A pool opens a server: when its host has room for one more login, and what becomes of those who wait for that.

use weir_base::{Peer, Target, Time};
use weir_pool::CloseReason;
use weir_session::ServerError;

use crate::backends::login_throttle::{LoginThrottle, most_logins};
use crate::common::FollowUp;
use crate::engine::Engine;
use crate::handles::PoolIx;
use crate::peers::{ServerSlot, ServerState};
use crate::port::{Io, Level};

impl Engine {
    fn most_logins(&self) -> u32 {
        most_logins(self.common.config(), self.common.workers())
    }

    /// The pool may open a server: it does so now, or when one of its hosts has room for one more login.
    pub(crate) fn open_when_admitted<I: Io>(&mut self, now: Time, ix: PoolIx, io: &mut I) {
        self.end_login(now, ix, io);
        let most = self.most_logins();
        let slot = self.pools.get_mut(ix);
        if self.backends.throttle.admit(ix, &mut slot.login, &mut slot.hosts, &slot.config, most) {
            self.open_server(now, ix, io);
        }
    }

    fn open_server<I: Io>(&mut self, now: Time, ix: PoolIx, io: &mut I) {
        let id = self.common.next_connection_id();
        if let Some(client) = self.pools.get(ix).pool.wants_reserve().and_then(|peer| self.peers.get_client(peer)) {
            self.log_client(Level::Warning, client, format_args!("taking connection from reserve_pool"), io);
        }
        let slot = self.pools.get_mut(ix);
        let (attempt, target) = slot.hosts.begin(&slot.config, self.common.config().tls.server.mode);
        let peer = io.connect(&target);
        self.backends.throttle.begin(&mut slot.login, &target);
        slot.pool.set_timeout_failure(slot.hosts.failure(&slot.config, attempt));
        slot.pool.opening(peer, now);
        slot.counts.tally.connects += 1;
        self.peers.put_server(Box::new(ServerSlot::new(peer, id, ix, target, attempt, now)));
    }

    /// Sees to it that a pool's login counts only while it is under way, and that the pool waits for one only while it wants
    /// one.
    pub(crate) fn check_login<I: Io>(&mut self, now: Time, ix: PoolIx, io: &mut I) {
        if !self.pools.get(ix).pool.wants_server() {
            self.stop_waiting_for_host(now, ix);
        }
        if !self.pools.get(ix).pool.is_logging_in() {
            self.end_login(now, ix, io);
        }
    }

    /// A pool that waits for room at a host waits no more.
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

    /// Those who wait for a host go on as far as there is room.
    fn call_waiting<I: Io>(&mut self, now: Time, target: &Target, io: &mut I) {
        let most = self.most_logins();
        while let Some(ix) = self.backends.throttle.next(target, most) {
            let slot = self.pools.get_mut(ix);
            slot.login.called();
            if !slot.pool.wants_server() {
                slot.pool.open_declined(now, now);
            } else if slot.hosts.peek(&slot.config) == target {
                self.open_server(now, ix, io);
            } else {
                // A reload has moved it.
                self.open_when_admitted(now, ix, io);
            }
            self.common.follow_up(FollowUp::PollPool(ix));
        }
    }

    /// A new configuration may leave more room, and have moved those who wait to other hosts.
    pub(crate) fn recheck_logins<I: Io>(&mut self, now: Time, io: &mut I) {
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

    /// A host can't be reached. It can't be reached by those who wait for it either: their logins have failed as well.
    pub(crate) fn fail_waiting(&mut self, now: Time, target: &Target, error: &ServerError, too_slow: bool) {
        for ix in self.backends.throttle.take_waiting(target) {
            let slot = self.pools.get_mut(ix);
            slot.login.called();
            if slot.hosts.peek(&slot.config) == target {
                let (attempt, _) = slot.hosts.begin(&slot.config, self.common.config().tls.server.mode);
                let (failure, error) = slot.hosts.failed(&slot.config, attempt, error.clone(), None);
                slot.failures.add(error, too_slow, now);
                slot.pool.unreachable(failure, now);
            } else {
                slot.pool.open_declined(now, now);
            }
            self.common.follow_up(FollowUp::PollPool(ix));
        }
    }

    /// The pool has let a server go.
    pub(crate) fn pool_closes<I: Io>(&mut self, now: Time, server: Peer, reason: CloseReason, io: &mut I) {
        let Some(server) = self.peers.take_server(server) else { return };
        if reason == CloseReason::ConnectTimeout {
            let unreached = matches!(server.state, ServerState::Connecting);
            let message =
                format!("server {} did not finish the login within server_connect_timeout", server.connection.target());
            let error = ServerError { sqlstate: "08001".into(), message };
            let slot = self.pools.get_mut(server.pool);
            // The pool has judged it already, by what it was given when the connect began.
            let (_, all) = slot.hosts.failed(&slot.config, server.connection.attempt(), error.clone(), None);
            slot.failures.add(all, true, now);
            if unreached {
                self.fail_waiting(now, server.connection.target(), &error, true);
            }
        }
        self.disconnect_server(server, reason.text(), io);
    }

    /// Asserts that logins and pools agree. Costs a walk over all pools.
    pub(crate) fn check_logins(&self) {
        self.backends.throttle.check(self.pools.iter().map(|slot| &slot.login));
        for slot in self.pools.iter() {
            let counted = LoginThrottle::has_begun(&slot.login) || !slot.pool.is_logging_in();
            assert!(counted, "{}: a login that is not counted", slot.name);
        }
    }
}
