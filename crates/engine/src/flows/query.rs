//! The path of one query: from a client to its server and back, and the server's path to the next waiter.
//!
//! A client and its server are taken out of the table once, passed to the parts, and put back once.

use weir_base::{Peer, Span, Time};
use weir_pool::{Acquire, Release};
use weir_session::{Refusal, StopReason, from_server};

use crate::cluster::messages::Drain;
use crate::common::{FollowUp, cx};
use crate::engine::Engine;
use crate::handles::{PoolIx, Waiter};
use crate::peers::{ClientPhase, ClientSlot, ServerPhase, ServerSlot};
use crate::port::{Io, Level};
use crate::traffic::links::{self, AfterUse, AtRest};
use crate::traffic::relay::{self, AHEAD};

impl Engine {
    /// A client sent something.
    #[inline]
    pub(crate) fn client_bytes<I: Io>(&mut self, now: Time, mut client: Box<ClientSlot>, bytes: &[u8], io: &mut I) {
        client.request_at = now;
        let ready = matches!(client.phase, ClientPhase::Ready(_));
        if ready && !client.pause.waits && client.waiting.is_empty() {
            return self.feed(now, client, bytes, Some(0), io);
        }
        if let ClientPhase::Streaming(_) = client.phase {
            return self.stream_to_server(now, client, bytes, io);
        }
        match self.entry.prelogin.hold(&mut client, bytes) {
            Ok(displaced) => self.refuse_displaced(now, displaced, io),
            Err(refusal) => return self.refuse(now, client, refusal, io),
        }
        match client.phase {
            ClientPhase::Ready(_) => self.peers.put_client(client),
            ClientPhase::Console(_) => self.console_bytes(now, client, io),
            // Further input of a client that sent a cancel request is ignored.
            ClientPhase::Canceller => {
                client.waiting.clear();
                self.peers.put_client(client);
            }
            _ => self.login_input(now, client, io),
        }
    }

    /// A client continues with the input that was buffered while it waited.
    pub(crate) fn feed_waiting<I: Io>(&mut self, now: Time, peer: Peer, io: &mut I) {
        let Some(mut client) = self.peers.take_client(peer) else { return };
        match client.phase {
            // The input continues when the server's socket has room: a few bytes of it may become many.
            ClientPhase::Ready(_) if !client.pause.waits && !client.pause.peer_full => {
                let waiting = std::mem::take(&mut client.waiting);
                self.feed(now, client, &waiting, None, io);
                self.sessions.recycle(waiting);
            }
            ClientPhase::Console(_) if !client.pause.waits => self.console_bytes(now, client, io),
            ClientPhase::Opening { .. } | ClientPhase::Login(_) => self.login_input(now, client, io),
            _ => self.peers.put_client(client),
        }
    }

    /// Feeds a client's bytes to its session, with a server as soon as it needs one. `base` is their position in the
    /// runtime's input, if they are a part of it.
    pub(crate) fn feed<I: Io>(
        &mut self,
        now: Time,
        mut client: Box<ClientSlot>,
        bytes: &[u8],
        base: Option<usize>,
        io: &mut I,
    ) {
        let mut server = client.link.and_then(|server| self.peers.take_server(server));
        let mut at = 0;
        let stop = loop {
            let slot = self.pools.get_mut(client.pool);
            let (rest, base) = (&bytes[at..], base.map(|base| base + at));
            let known =
                server.is_none() && client.ready().is_some_and(|client| self.sessions.need_server(client, rest));
            if !known {
                let fed = relay::feed_client(cx!(self, now, io), slot, &mut client, server.as_deref_mut(), rest, base);
                at += fed.used;
                if fed.stop != StopReason::NeedServer {
                    break fed.stop;
                }
            }
            match self.acquire(now, &mut client, io) {
                Ok(acquired) => server = Some(acquired),
                Err(stop) => break stop,
            }
        };
        if let Some(server) = server {
            self.peers.put_server(server);
        }
        match stop {
            StopReason::EndOfInput => {}
            StopReason::NeedServer | StopReason::AwaitReplies(_) => {
                if client.waiting.capacity() == 0 {
                    client.waiting = self.sessions.block();
                }
                client.waiting.extend_from_slice(&bytes[at..]);
                self.pause_client(&mut client, io);
            }
            StopReason::Terminate => return self.client_leaves(now, client, io),
            StopReason::Refuse(refusal) => return self.refuse(now, client, *refusal, io),
        }
        self.peers.put_client(client);
    }

    /// A client needs a server now.
    ///
    /// # Errors
    /// It waits for one ([`StopReason::NeedServer`]), or gets none.
    #[inline]
    fn acquire<I: Io>(
        &mut self,
        now: Time,
        client: &mut ClientSlot,
        io: &mut I,
    ) -> Result<Box<ServerSlot>, StopReason> {
        client.request_at = now;
        if self.pools.get(client.pool).removed {
            self.move_to_successor(now, client);
        }
        let slot = self.pools.get_mut(client.pool);
        match slot.pool.acquire(client.peer, now) {
            Acquire::Granted { server, check } => {
                slot.counts.tally.times().wait.count(0);
                let Some(mut server) = self.peers.take_server(server) else { return Err(StopReason::NeedServer) };
                if links::link(cx!(self, now, io), slot, client, &mut server, check) {
                    return Ok(server);
                }
                self.peers.put_server(server);
                Err(StopReason::NeedServer)
            }
            Acquire::Queued if self.admin.shutdown.draining() == Some(Drain::Servers) => {
                Err(StopReason::refuse(Refusal::ServersShuttingDown))
            }
            Acquire::Queued => {
                self.common.follow_up(FollowUp::PollPool(client.pool));
                Err(StopReason::NeedServer)
            }
            Acquire::Refused(why) => Err(StopReason::refuse(self.refusal(client.pool, why))),
        }
    }

    /// Handles bytes of a server.
    #[inline]
    pub(crate) fn server_bytes<I: Io>(&mut self, now: Time, mut server: Box<ServerSlot>, bytes: &[u8], io: &mut I) {
        server.clock.received(now);
        match server.phase() {
            None => return self.login_bytes(now, server, bytes, io),
            Some(ServerPhase::Identifying) => return self.identity_bytes(now, server, bytes, io),
            Some(ServerPhase::AuthQuery(query)) => return self.auth_query_bytes(now, server, query, bytes, io),
            Some(ServerPhase::Streaming) => return self.stream_to_client(now, server, bytes, io),
            Some(_) => {}
        }
        let mut client = server.link.and_then(|client| self.peers.take_client(client));
        let slot = self.pools.get_mut(server.pool);
        match relay::feed_server(cx!(self, now, io), slot, &mut server, client.as_deref_mut(), bytes) {
            Ok(outcome) => {
                if let Some(unusual) = outcome.unusual {
                    let Some(both) = self.unusual_reply(now, server, client, *unusual, io) else { return };
                    (server, client) = both;
                }
                self.replied(now, server, client, io);
            }
            Err(weir_session::ProtocolViolation(what)) => {
                client.into_iter().for_each(|client| self.peers.put_client(client));
                let text = format_args!("unexpected response from server: {what}");
                self.log_server(Level::Warning, &server, text, io);
                server.fatal_error = Some(Refusal::ServerUnexpected);
                self.drop_connection(&server, io);
                self.server_gone(now, server, io);
            }
        }
    }

    /// A server sent more than replies. Returns it, and its client, where it may have answered something.
    #[cold]
    fn unusual_reply<I: Io>(
        &mut self,
        now: Time,
        mut server: Box<ServerSlot>,
        mut client: Option<Box<ClientSlot>>,
        unusual: from_server::Unusual,
        io: &mut I,
    ) -> Option<(Box<ServerSlot>, Option<Box<ClientSlot>>)> {
        let link = server.link;
        self.take_reports(now, &mut server, client.as_deref_mut(), &unusual.reported);
        if let Some(mut client) = client {
            self.requests_refused(&mut client, &unusual.refused, io);
            self.peers.put_client(client);
        }
        if !(unusual.lost.is_empty() && unusual.refused_state.is_empty()) {
            self.count_lost(&server, &unusual, io);
        }
        let violation = relay::violation(&unusual);
        if let Some(fatal) = unusual.fatal {
            self.log_server(Level::Warning, &server, format_args!("the server said: {}", fatal.message), io);
            let (sqlstate, message) = (fatal.sqlstate, fatal.message);
            server.fatal_error = Some(Refusal::ServerDown { sqlstate, message, detail: String::new() });
        }
        if let (Some(client), Some(refusal)) = (link, violation) {
            self.peers.put_server(server);
            self.refuse_handle(now, client, refusal, io);
            return None;
        }
        if let Some(result) = unusual.own_query_done {
            self.own_query_done(now, server, result, io);
            return None;
        }
        if let Some(repeat) = unusual.repeat {
            self.repeat(now, server, repeat, io);
            return None;
        }
        Some((server, link.and_then(|client| self.peers.take_client(client))))
    }

    /// A server has answered something: it may be free, or its client may go on.
    #[inline]
    fn replied<I: Io>(
        &mut self,
        now: Time,
        mut server: Box<ServerSlot>,
        mut client: Option<Box<ClientSlot>>,
        io: &mut I,
    ) {
        if let Some((up, ServerPhase::Linked)) = server.up() {
            let (quiet, ahead) = (up.is_quiet(), up.pending_segments());
            if quiet {
                return self.finish_transaction(now, server, client, io);
            }
            if let Some(client) = client.as_deref_mut().filter(|client| client.pause.waits)
                && ahead <= AHEAD / 2
                && (ahead == 0 || !self.pools.get(client.pool).is_wanted())
            {
                // It was stopped because the server had too many pending requests.
                self.resume_waiting(client, io);
            }
        } else if matches!(server.up(), Some((up, ServerPhase::Idle)) if up.is_unusable()) {
            // It has sent something that no request expects.
            self.drop_connection(&server, io);
            return self.server_gone(now, server, io);
        }
        client.into_iter().for_each(|client| self.peers.put_client(client));
        self.peers.put_server(server);
    }

    /// A server may be free, for any reason.
    pub(crate) fn release<I: Io>(&mut self, now: Time, server: Peer, io: &mut I) {
        let Some(server) = self.peers.take_server(server) else { return };
        let client = server.link.and_then(|client| self.peers.take_client(client));
        self.finish_transaction(now, server, client, io);
    }

    /// A server has answered everything: ends its link if nothing holds it, and gives it to the next waiter. Inlined, as what
    /// it ends in: a transaction passes here once, and each call would cost it what a message does.
    #[inline(always)]
    fn finish_transaction<I: Io>(
        &mut self,
        now: Time,
        mut server: Box<ServerSlot>,
        mut client: Option<Box<ClientSlot>>,
        io: &mut I,
    ) {
        let slot = self.pools.get(server.pool);
        let at_rest = links::at_rest(slot, &server, client.as_deref(), self.common.config().server_fast_close);
        match (at_rest, client.as_deref_mut()) {
            (AtRest::Free, client) => {
                client.into_iter().for_each(|client| links::unlink(cx!(self, now, io), slot, client));
                server.link = None;
            }
            (AtRest::GoOn, Some(client)) => self.resume_waiting(client, io),
            _ => {}
        }
        let peer = client.as_ref().map(|client| client.peer);
        client.into_iter().for_each(|client| self.peers.put_client(client));
        if at_rest == AtRest::Free {
            self.clean_up(now, server, io);
            if self.takeover.is_giving() {
                // Behind its server, which it may need at once.
                self.hand_over_later(peer);
            }
            return;
        }
        self.peers.put_server(server);
        if let (AtRest::Replaced, Some(client)) = (at_rest, peer) {
            self.refuse_handle(now, client, Refusal::PoolGone, io);
        }
    }

    /// What a client waited for has happened.
    fn resume_waiting<I: Io>(&mut self, client: &mut ClientSlot, io: &mut I) {
        self.unpause_client(client, io);
        self.common.follow_up(FollowUp::Feed(client.peer));
    }

    /// The same by its handle.
    pub(crate) fn resume_client<I: Io>(&mut self, client: Peer, io: &mut I) {
        let Some(mut client) = self.peers.take_client(client) else { return };
        self.resume_waiting(&mut client, io);
        self.peers.put_client(client);
    }

    /// A server without a client: removes what its last one left, or closes it, or gives it to the next waiter.
    #[inline(always)]
    pub(crate) fn clean_up<I: Io>(&mut self, now: Time, mut server: Box<ServerSlot>, io: &mut I) {
        let slot = self.pools.get(server.pool);
        match links::clean_up(cx!(self, now, io), slot, &mut server) {
            AfterUse::Return => self.return_to_pool(now, server, io),
            AfterUse::Close(why) => self.close_server_slot(now, server, why, io),
            AfterUse::Cleaning => self.peers.put_server(server),
        }
    }

    /// Gives a clean server back to its pool.
    #[inline(always)]
    pub(crate) fn return_to_pool<I: Io>(&mut self, now: Time, mut server: Box<ServerSlot>, io: &mut I) {
        let (peer, ix) = (server.peer, server.pool);
        let slot = self.pools.get(ix);
        let proof = match links::end_use(slot, &mut server) {
            Ok(proof) => proof,
            Err(why) => return self.close_server_slot(now, server, why, io),
        };
        if slot.lending.is_borrower() && self.returns_to_owner(ix, peer) {
            self.peers.put_server(server);
            return self.return_server(peer, io);
        }
        let pool = &mut self.pools.get_mut(ix).pool;
        let answer = if std::mem::take(&mut server.unused) {
            pool.release_unused(peer, proof, now)
        } else {
            pool.release(peer, proof, now)
        };
        self.pass_on(now, server, answer, io);
        if self.pools.get(ix).needs_poll() || self.admin.is_watching() {
            self.common.follow_up(FollowUp::PollPool(ix));
        }
    }

    /// Carries out what a pool has decided about a clean server.
    #[inline(always)]
    fn pass_on<I: Io>(&mut self, now: Time, server: Box<ServerSlot>, answer: Release, io: &mut I) {
        let ix = server.pool;
        match answer {
            Release::Next { client, waited, check } => {
                self.count_wait(ix, client, waited);
                self.link_waiter(now, client, server, check, io);
            }
            Release::Idle => {
                if self.takeover.is_giving() {
                    self.hand_over_later(Some(server.peer));
                }
                self.peers.put_server(server);
                self.report_idle(ix, io);
            }
            Release::Close(reason) => self.disconnect_server(server, reason.text(), io),
        }
    }

    /// The same for a server that has just come to its pool `ix`, by its handle.
    pub(crate) fn passed_on<I: Io>(&mut self, now: Time, ix: PoolIx, server: Peer, answer: Release, io: &mut I) {
        if let Some(server) = self.peers.take_server(server) {
            self.pass_on(now, server, answer, io);
        }
        self.common.follow_up(FollowUp::PollPool(ix));
    }

    /// A pool gives a server to a waiter, by their handles.
    pub(crate) fn grant<I: Io>(&mut self, now: Time, waiter: Peer, server: Peer, check: bool, io: &mut I) {
        if let Some(server) = self.peers.take_server(server) {
            self.link_waiter(now, waiter, server, check, io);
        }
    }

    /// Links a server to a waiter.
    fn link_waiter<I: Io>(&mut self, now: Time, waiter: Peer, mut server: Box<ServerSlot>, check: bool, io: &mut I) {
        let peer = server.peer;
        let client = match Waiter::of(waiter) {
            Waiter::Client(client) => self.peers.take_client(client),
            Waiter::AuthQuery(query) => {
                self.peers.put_server(server);
                return self.send_auth_query(now, query, peer, io);
            }
            Waiter::Borrower(request) => {
                self.peers.put_server(server);
                return self.lend(request, peer, check, io);
            }
        };
        let Some(mut client) = client else { return self.peers.put_server(server) };
        if server.dedicated.is_some() {
            return self.begin_stream(now, client, server, io);
        }
        if let ClientPhase::Welcome(_) = client.phase {
            client.link = Some(peer);
            server.link = Some(client.peer);
            server.unused = true;
            return self.confirm_welcome(now, client, server, io);
        }
        let slot = self.pools.get_mut(client.pool);
        if links::link(cx!(self, now, io), slot, &mut client, &mut server, check) {
            self.resume_waiting(&mut client, io);
        }
        self.peers.put_server(server);
        self.peers.put_client(client);
    }

    /// A wait has ended. Waits of a borrower's clients are counted there.
    #[inline]
    pub(crate) fn count_wait(&mut self, ix: PoolIx, waiter: Peer, waited: Span) {
        if !matches!(Waiter::of(waiter), Waiter::Borrower(_)) {
            self.pools.get_mut(ix).counts.waited(waited);
        }
    }
}
