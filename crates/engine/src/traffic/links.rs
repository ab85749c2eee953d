//! Links: a client and its server, from the grant to the release.
//!
//! Owns the moments at which a link is made (with the prelude that a client needs on a server), ended, and cleaned up after.
//! What passes over a link is in `relay`; who is next is decided in `weir-pool`, and that a server is clean in `weir-session`.

use weir_base::{OnDirty, Peer, PoolMode, Time};
use weir_pgwire::Dirty;
use weir_pool::{Acquire, Release};
use weir_session::{Refusal, Server, param_sync};

use crate::Engine;
use crate::backends::hosts::{Fitness, fitness};
use crate::backends::login::RECONFIGURED;
use crate::common::FollowUp;
use crate::handles::{PoolIx, Waiter};
use crate::peers::{ClientPhase, ClientSlot, Entry, Reset, ServerPhase};
use crate::port::{Io, Level};
use crate::timers::Who;
use crate::traffic::holding::Holding;
use crate::traffic::relay::change_pause;
use crate::traffic::wire::Wire;

/// What became of a client's wish for a server.
pub(crate) enum Wish {
    /// It has one, and may go on.
    Go,
    /// It waits.
    Wait,
    /// It gets none.
    Refused(Refusal),
}

impl Engine {
    /// A client needs a server now.
    pub(crate) fn acquire<I: Io>(&mut self, now: Time, client: &mut Box<ClientSlot>, io: &mut I) -> Wish {
        client.request_at = now;
        if self.pools.get(client.pool).removed {
            self.move_to_successor(now, client);
        }
        let slot = self.pools.get_mut(client.pool);
        match slot.pool.acquire(client.peer, now) {
            Acquire::Granted { server, check } => {
                slot.tally.times().wait.count(0);
                if self.link(now, client, server, check, io) { Wish::Go } else { Wish::Wait }
            }
            Acquire::Queued => {
                self.common.follow_up(FollowUp::PollPool(client.pool));
                Wish::Wait
            }
            Acquire::Refused(why) => Wish::Refused(self.refusal(client.pool, why)),
        }
    }

    /// Links a client to a server that the pool has given it. Returns whether it may go on at once; otherwise a prelude is
    /// under way.
    pub(crate) fn link<I: Io>(
        &mut self,
        now: Time,
        client: &mut ClientSlot,
        server: Peer,
        check: bool,
        io: &mut I,
    ) -> bool {
        let slot = self.pools.get_mut(client.pool);
        slot.stats.server_assignment_count += 1;
        client.link = Some(server);
        let peer = server;
        let Some(server) = self.peers.server(server) else { return false };
        server.link = Some(client.peer);
        server.linked_at = now;
        server.used = true;
        if server.full {
            // Its last client's late words still wait for its socket.
            change_pause(client, |pause| pause.peer_full = true, io);
        }
        let mut wire = Wire::new(io, client.peer, server.peer, &[], None);
        let ClientPhase::Ready(session) = &mut client.phase else { return false };
        let Some((up, phase)) = server.up() else { return false };
        let waits = if check {
            *phase = ServerPhase::Checking;
            let query = self.pools.get(client.pool).config.check_query.as_deref().unwrap_or_default();
            up.own_query(query, &mut self.sessions.scratch, &mut wire);
            true
        } else {
            let query = param_sync::start(up, session, &self.sessions.params, &mut self.sessions.scratch, &mut wire);
            *phase = if query { ServerPhase::SyncingParameters } else { ServerPhase::Linked };
            query
        };
        if waits {
            self.watch_own_query(now, peer);
        } else if client.pause.full {
            self.pause_server(peer, io);
        }
        !waits
    }

    /// The pool gives a server to a client that waited.
    pub(crate) fn grant<I: Io>(&mut self, now: Time, client: Peer, server: Peer, check: bool, io: &mut I) {
        let client = match Waiter::of(client) {
            Waiter::Client(client) => client,
            Waiter::AuthQuery(query) => return self.send_auth_query(now, query, server, io),
            Waiter::Borrower(request) => return self.lend(request, server, check, io),
        };
        let Some(mut client) = self.peers.take_client(client) else { return };
        if let ClientPhase::Welcome(_) = client.phase {
            client.link = Some(server);
            if let Some(slot) = self.peers.server(server) {
                slot.link = Some(client.peer);
                slot.up().into_iter().for_each(|(_, phase)| *phase = ServerPhase::Linked);
            }
            return self.finish_welcome(now, client, io);
        }
        let go = self.link(now, &mut client, server, check, io);
        let peer = client.peer;
        if go {
            self.unpause_client(&mut client, io);
        }
        self.peers.put(peer, Entry::Client(client));
        if go {
            self.common.follow_up(FollowUp::Feed(peer));
        }
    }

    /// A client that waited for its pool's first server: it is told, and the server is free again.
    pub(crate) fn finish_welcome<I: Io>(&mut self, now: Time, mut client: Box<ClientSlot>, io: &mut I) {
        if let Some(server) = client.link.take() {
            if let Some(slot) = self.peers.server(server) {
                slot.link = None;
            }
            self.common.follow_up(FollowUp::Release(server));
        }
        let Some(welcome) = self.pools.get(client.pool).welcome.clone() else {
            return self.refuse(now, client, Refusal::Broken("a server without a welcome"), io);
        };
        let ClientPhase::Welcome(phase) = std::mem::replace(&mut client.phase, ClientPhase::Gone) else { return };
        self.welcome(now, client, phase, &welcome, io);
    }

    /// A query of our own on a server has ended.
    pub(crate) fn own_query_done<I: Io>(
        &mut self,
        now: Time,
        server: Peer,
        phase: ServerPhase,
        outcome: Result<(), weir_session::ServerError>,
        io: &mut I,
    ) {
        let Some(mut slot) = self.peers.take_server(server) else { return };
        match (phase, outcome) {
            (ServerPhase::CheckingRole | ServerPhase::ConnectQuery, outcome) => self.introduced(now, slot, outcome, io),
            (ServerPhase::Resetting(why), Ok(())) => {
                if let Some((up, _)) = slot.up() {
                    match why {
                        Reset::Left => up.was_reset(&self.sessions.params),
                        Reset::Query => up.was_cleaned(&self.sessions.params),
                    }
                }
                self.peers.put(server, Entry::Server(slot));
                self.restore(now, server, io);
            }
            (ServerPhase::Resetting(Reset::Query), Err(error))
                if self.pools.get(slot.pool).config.on_dirty == OnDirty::Keep =>
            {
                // With PgBouncer's policy its errors are ignored, too.
                let text = format_args!("error while executing server_reset_query: {}", error.message);
                self.log_server(Level::Warning, &slot, text, io);
                if let Some((up, _)) = slot.up() {
                    up.was_cleaned(&self.sessions.params);
                }
                self.peers.put(server, Entry::Server(slot));
                self.restore(now, server, io);
            }
            (ServerPhase::ConnectQueryAgain, outcome) => {
                if let Err(error) = outcome {
                    let text = format_args!("error while executing connect_query: {}", error.message);
                    self.log_server(Level::Warning, &slot, text, io);
                }
                self.peers.put(server, Entry::Server(slot));
                self.return_to_pool(now, server, io);
            }
            (ServerPhase::Checking | ServerPhase::SyncingParameters, Ok(())) => {
                let client = slot.link;
                self.peers.put(server, Entry::Server(slot));
                self.prelude_done(server, client, phase, io);
            }
            (ServerPhase::SyncingParameters, Err(error)) if error.sqlstate != QUERY_CANCELED => {
                self.peers.put(server, Entry::Server(slot));
                self.disagreed(now, server, error, io);
            }
            _ => {
                io.close(server);
                self.server_gone(now, slot, io);
            }
        }
    }

    /// A server has refused a client's parameters. All of them were one transaction, so it is as it was before, and free for
    /// others; what it does not report by itself is set anew for the next client.
    fn disagreed<I: Io>(&mut self, now: Time, server: Peer, error: weir_session::ServerError, io: &mut I) {
        let Some(slot) = self.peers.server(server) else { return };
        let client = slot.link.take();
        if let Some((up, _)) = slot.up() {
            up.params_rejected(&self.sessions.params);
        }
        self.common.follow_up(FollowUp::Release(server));
        let Some(client) = client.and_then(|client| self.peers.client(client)) else { return };
        client.link = None;
        let peer = client.peer;
        let refusal = Refusal::ParameterFailed { sqlstate: error.sqlstate, message: error.message };
        self.refuse_handle(now, peer, refusal, io);
    }

    pub(crate) fn prelude_done<I: Io>(&mut self, server: Peer, client: Option<Peer>, done: ServerPhase, io: &mut I) {
        let Some(client) = client else { return };
        let Some(mut client) = self.peers.take_client(client) else { return };
        if let (Some(slot), ClientPhase::Ready(session)) = (self.peers.server(server), &mut client.phase)
            && let Some((up, phase)) = slot.up()
        {
            *phase = ServerPhase::Linked;
            let mut again = false;
            if done == ServerPhase::Checking {
                let mut wire = Wire::new(io, client.peer, server, &[], None);
                again = param_sync::start(up, session, &self.sessions.params, &mut self.sessions.scratch, &mut wire);
            } else {
                self.sessions.scratch.clear();
                param_sync::finish(up, session, Some((&self.sessions.params, &mut self.sessions.scratch)));
                if !self.sessions.scratch.is_empty() {
                    io.send(client.peer, &self.sessions.scratch);
                }
            }
            if again {
                *phase = ServerPhase::SyncingParameters;
                self.watch_own_query(self.common.now(), server);
                return self.peers.put(client.peer, Entry::Client(client));
            }
        }
        let (peer, full) = (client.peer, client.pause.full);
        self.peers.put(peer, Entry::Client(client));
        if full {
            self.pause_server(server, io);
        }
        self.go_on(peer, io);
    }

    /// What a client waited for has come.
    pub(crate) fn go_on<I: Io>(&mut self, client: Peer, io: &mut I) {
        let Some(mut client) = self.peers.take_client(client) else { return };
        self.unpause_client(&mut client, io);
        let peer = client.peer;
        self.peers.put(peer, Entry::Client(client));
        self.common.follow_up(FollowUp::Feed(peer));
    }

    /// A server may be free: ends its link if nothing holds it.
    pub(crate) fn release<I: Io>(&mut self, now: Time, server: Peer, io: &mut I) {
        let Some(slot) = self.peers.server(server) else { return };
        let (link, cancels) = (slot.link, slot.cancels);
        let (marked_for_close, fast, ix) = (slot.marked_for_close, self.common.config().server_fast_close, slot.pool);
        let Some((up, phase)) = slot.up() else { return };
        if !matches!(phase, ServerPhase::Linked | ServerPhase::Checking | ServerPhase::SyncingParameters)
            || !up.is_quiet()
        {
            return;
        }
        let spoiled = up.is_spoiled();
        if let Some(client) = link {
            if *phase != ServerPhase::Linked {
                return;
            }
            let Some(client) = self.peers.client(client) else { return };
            let session_mode = matches!(&client.phase, ClientPhase::Ready(c) if c.mode() == PoolMode::Session);
            let mid_message = matches!(&client.phase, ClientPhase::Ready(c) if c.is_mid_message());
            if session_mode && client.pause.waits {
                // It was held because the server owed too much, and nothing more will come to say so.
                let peer = client.peer;
                return self.go_on(peer, io);
            }
            let outdated = || marked_for_close || self.pools.get(ix).pool.is_outdated(server);
            if session_mode && fast && !mid_message && outdated() {
                let peer = client.peer;
                return self.refuse_handle(now, peer, Refusal::PoolGone, io);
            }
            if session_mode || mid_message || (cancels > 0 && !spoiled) {
                return;
            }
            client.link = None;
            let peer = client.peer;
            self.unlinked(now, peer, io);
        } else if cancels > 0 && !spoiled {
            // A late cancel must not hit the next owner.
            return;
        }
        if let Some(slot) = self.peers.server(server) {
            slot.link = None;
        }
        self.clean_up(now, server, io);
    }

    /// A client has no server any more, in the best of order.
    pub(crate) fn unlinked<I: Io>(&mut self, now: Time, client: Peer, io: &mut I) {
        let idle = self.peers.client(client).map(|c| self.pools.get(c.pool).config.limits.client_idle_timeout);
        let Some(client) = self.peers.client(client) else { return };
        client.request_at = now;
        let peer = client.peer;
        self.peer_has_room(peer, io);
        let Some(client) = self.peers.client(peer) else { return };
        if client.pause.waits {
            // It was held because the server owed too much.
            self.go_on(peer, io);
        } else if let Some(idle) = idle.filter(|idle| !idle.is_zero()) {
            self.common.arm(Who::Peer(client.peer), now.deadline(idle), &mut client.armed);
        }
    }

    /// A server without a client: removes what its last one left, or closes it.
    pub(crate) fn clean_up<I: Io>(&mut self, now: Time, server: Peer, io: &mut I) {
        self.resume_server(server, io);
        let Some(slot) = self.peers.server(server) else { return };
        let (ix, marked_for_close) = (slot.pool, slot.marked_for_close);
        let pool = self.pools.get(ix).config.clone();
        let used = std::mem::take(&mut slot.used);
        let Some((up, phase)) = slot.up() else { return };
        if marked_for_close {
            return self.close_server(now, server, RECONFIGURED, io);
        }
        let (query, why) = match cleaning(&pool, used, up.dirty()) {
            _ if up.is_spoiled() => return self.close_server(now, server, "unclean server", io),
            Cleaning::Close => return self.close_server(now, server, "unclean server", io),
            // Whoever is about to be closed need not be cleaned.
            Cleaning::Query(..) if self.pools.get(ix).pool.is_outdated(server) => {
                return self.return_to_pool(now, server, io);
            }
            Cleaning::None => {
                up.clear_dirty();
                return self.return_to_pool(now, server, io);
            }
            Cleaning::Query(query, why) => (query, why),
        };
        *phase = ServerPhase::Resetting(why);
        let mut wire = Wire::new(io, Peer::NONE, server, &[], None);
        up.own_query(&query, &mut self.sessions.scratch, &mut wire);
        self.watch_own_query(now, server);
    }

    /// A server has been reset, and with it what its connect_query had set: that is run once more.
    fn restore<I: Io>(&mut self, now: Time, server: Peer, io: &mut I) {
        let Some(slot) = self.peers.server(server) else { return };
        let pool = self.pools.get(slot.pool).config.clone();
        let (Some(query), Some((up, phase))) = (&pool.connect_query, slot.up()) else {
            return self.return_to_pool(now, server, io);
        };
        *phase = ServerPhase::ConnectQueryAgain;
        let mut wire = Wire::new(io, Peer::NONE, server, &[], None);
        up.own_query(query, &mut self.sessions.scratch, &mut wire);
        self.watch_own_query(now, server);
    }

    /// Gives a clean server back to its pool.
    pub(crate) fn return_to_pool<I: Io>(&mut self, now: Time, server: Peer, io: &mut I) {
        let Some(slot) = self.peers.server(server) else { return };
        slot.query_at = Time::NEVER;
        slot.transaction_at = Time::NEVER;
        slot.holding = Holding::default();
        slot.overtime = (Time::NEVER, 0);
        let (ix, any) = (slot.pool, slot.attempt.any);
        let Some((up, phase)) = slot.up() else { return };
        if let Fitness::Unfit(why) = fitness(self.pools.get(ix).config.session_attrs, any, up.role()) {
            // It was promoted, or has become a standby.
            return self.close_server(now, server, why, io);
        }
        let Some(proof) = up.prove_clean() else {
            return self.close_server(now, server, "unclean server", io);
        };
        *phase = ServerPhase::Idle;
        if self.returns_to_owner(ix, server) {
            return self.return_server(server, io);
        }
        let answer = self.pools.get_mut(ix).pool.release(server, proof, now);
        self.passed_on(now, ix, server, answer, io);
    }

    /// Does what a pool says is to become of a server that is clean.
    #[inline]
    pub(crate) fn passed_on<I: Io>(&mut self, now: Time, ix: PoolIx, server: Peer, answer: Release, io: &mut I) {
        match answer {
            Release::Next { client, waited, check } => {
                self.count_wait(ix, client, waited);
                self.grant(now, client, server, check, io);
            }
            Release::Idle => self.report_idle(ix, io),
            Release::Close(reason) => {
                if let Some(slot) = self.peers.take_server(server) {
                    self.goodbye(slot, reason.text(), io);
                }
            }
        }
        self.common.follow_up(FollowUp::PollPool(ix));
    }

    /// A client left its server; `why` is said where the server must be closed for it.
    pub(crate) fn abandon<I: Io>(&mut self, now: Time, client: &ClientSlot, server: Peer, why: &str, io: &mut I) {
        let Some(slot) = self.peers.server(server) else { return };
        slot.link = None;
        let mid_message = matches!(&client.phase, ClientPhase::Ready(c) if c.is_mid_message());
        let Some((up, phase)) = slot.up() else { return };
        match *phase {
            ServerPhase::Linked if up.is_quiet() && !mid_message => self.common.follow_up(FollowUp::Release(server)),
            ServerPhase::Linked | ServerPhase::Checking | ServerPhase::SyncingParameters => {
                self.close_server(now, server, why, io);
            }
            _ => {}
        }
    }
}

/// Our query was stopped: by a limit of time that a client before has left, or from outside. That is not about the values.
const QUERY_CANCELED: &str = "57014";

/// What is done with a server whose client has left it.
enum Cleaning {
    /// Nothing: it is handed on as it is.
    None,
    /// It is closed.
    Close,
    /// This is run on it first.
    Query(String, Reset),
}

/// The one rule of what is done with a server that a client has used, or has left something on that shows (`dirty`):
///
/// - `on_dirty = close` closes it when something was left, and after each session of session mode, of which tags do not
///   tell everything.
/// - Otherwise `server_reset_query` is run after each session of session mode, and, with `server_reset_query_always`, at
///   each release in the other modes.
/// - Where that does not apply, or is empty, `on_dirty = reset` and `refuse` remove what was left, and `keep` leaves it.
fn cleaning(pool: &weir_config::Pool, used: bool, dirty: Dirty) -> Cleaning {
    let session = pool.mode == PoolMode::Session;
    let always = used && (session || pool.reset_always);
    let left = !dirty.is_empty() || (session && used);
    match pool.on_dirty {
        OnDirty::Close if left => Cleaning::Close,
        _ if always && !pool.reset_query.is_empty() => Cleaning::Query(pool.reset_query.clone(), Reset::Query),
        OnDirty::Reset | OnDirty::Refuse if !dirty.is_empty() => {
            Cleaning::Query(Server::reset_query(dirty), Reset::Left)
        }
        _ => Cleaning::None,
    }
}
