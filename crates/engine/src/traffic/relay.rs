//! What passes between clients and servers.
//!
//! Owns the way of bytes to the sessions that understand them, who is paused while another's socket is full, and how a client
//! leaves. When links are made and ended is in `links`; what bytes mean is decided in `weir-session`.

use weir_admin::Histogram;
use weir_base::{Peer, PoolMode, Time};
use weir_session::from_client::{self, StopReason};
use weir_session::{Refusal, from_server};

use crate::Engine;
use crate::common::FollowUp;
use crate::handles::NO_POOL;
use crate::peers::{ClientPhase, ClientSlot, Entry, Pause, ServerPhase, ServerSlot};
use crate::port::{Io, Level};
use crate::timers::Who;
use crate::traffic::links::Wish;
use crate::traffic::wire::Wire;

impl Engine {
    /// A client sent something.
    #[inline]
    pub(crate) fn client_bytes<I: Io>(&mut self, now: Time, mut client: Box<ClientSlot>, bytes: &[u8], io: &mut I) {
        client.request_at = now;
        let ready = matches!(client.phase, ClientPhase::Ready(_));
        if ready && !client.pause.waits && client.waiting.is_empty() {
            return self.feed(now, client, bytes, Some(0), io);
        }
        if let Err(refusal) = self.entry.prelogin.hold(&mut client, bytes) {
            return self.refuse(now, client, refusal, io);
        }
        match client.phase {
            ClientPhase::Ready(_) => self.peers.put(client.peer, Entry::Client(client)),
            ClientPhase::Console(_) => self.console_bytes(now, client, io),
            // Whoever asked for a cancel has nothing more to say.
            ClientPhase::Canceller => {
                client.waiting.clear();
                self.peers.put(client.peer, Entry::Client(client));
            }
            _ => self.login_input(now, client, io),
        }
    }

    /// A client goes on with what it sent while it waited.
    pub(crate) fn feed_waiting<I: Io>(&mut self, now: Time, peer: Peer, io: &mut I) {
        let Some(mut client) = self.peers.take_client(peer) else { return };
        match client.phase {
            // What it sent goes on when its server's socket has room: a few bytes of it may become many.
            ClientPhase::Ready(_) if !client.pause.waits && !client.pause.peer_full => {
                let waiting = std::mem::take(&mut client.waiting);
                self.feed(now, client, &waiting, None, io);
                self.sessions.recycle(waiting);
            }
            ClientPhase::Console(_) if !client.pause.waits => self.console_bytes(now, client, io),
            ClientPhase::Opening { .. } | ClientPhase::Login(_) => self.login_input(now, client, io),
            _ => self.peers.put(peer, Entry::Client(client)),
        }
    }

    /// Feeds a client's bytes to its session. `base` is where they stand in the runtime's input, if they do.
    fn feed<I: Io>(&mut self, now: Time, mut client: Box<ClientSlot>, bytes: &[u8], base: Option<usize>, io: &mut I) {
        let mut at = 0;
        let stop = loop {
            let fed = self.feed_once(now, &mut client, &bytes[at..], base.map(|b| b + at), io);
            at += fed.used;
            if fed.stop != StopReason::NeedServer {
                break fed.stop;
            }
            match self.acquire(now, &mut client, io) {
                Wish::Go => {}
                Wish::Wait => break StopReason::NeedServer,
                Wish::Refused(refusal) => break StopReason::Refuse(refusal),
            }
        };
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
            StopReason::Refuse(refusal) => return self.refuse(now, client, refusal, io),
        }
        self.peers.put(client.peer, Entry::Client(client));
    }

    #[inline]
    fn feed_once<I: Io>(
        &mut self,
        now: Time,
        client: &mut ClientSlot,
        bytes: &[u8],
        base: Option<usize>,
        io: &mut I,
    ) -> from_client::ClientOutcome {
        let mut server = client.link.and_then(|server| self.peers.take_server(server));
        let ahead = self.allowed_ahead(client, server.as_deref());
        let pool = self.pools.get_mut(client.pool);
        let mut wire = Wire::new(io, client.peer, client.link.unwrap_or(Peer::NONE), bytes, base);
        let mut context = self.sessions.context(&pool.config, &mut pool.accepted, ahead);
        let ClientPhase::Ready(session) = &mut client.phase else {
            return from_client::ClientOutcome {
                used: 0,
                stop: StopReason::Refuse(Refusal::Broken("a client that is not ready is fed")),
            };
        };
        let up = server.as_mut().and_then(|s| s.up()).map(|(server, _)| server);
        let fed = from_client::feed(session, up, bytes, &mut context, &mut wire);
        let half = session.is_mid_message();
        let counts = std::mem::take(&mut self.sessions.counts);
        pool.stats.client_parse_count += counts.client_parses;
        pool.stats.server_parse_count += counts.server_parses;
        pool.stats.bind_count += counts.binds;
        pool.stats.received += fed.used as u64;
        pool.stats.sent += wire.to_client;
        if let Some(mut server) = server {
            self.note_request(now, &mut server, half);
            self.peers.put(server.peer, Entry::Server(server));
        }
        fed
    }

    /// A server may have been asked something: when did that begin, and is it to be watched?
    #[inline]
    fn note_request(&mut self, now: Time, server: &mut ServerSlot, half: bool) {
        let Some((session, _)) = server.up() else { return };
        let (busy, quiet) = (session.is_busy(), session.is_quiet());
        if busy && server.query_at == Time::NEVER {
            server.query_at = now;
            if server.transaction_at == Time::NEVER {
                server.transaction_at = now;
            }
        }
        self.follow(now, server, half, &from_server::ServerOutcome::default());
        if quiet && !busy {
            // Everything that was asked has been answered by us; nothing will come to say so.
            self.common.follow_up(FollowUp::Release(server.peer));
        }
    }

    /// How many of a client's segments its server may have to answer at a time. Where somebody wants the server, it is one: at
    /// the end of each transaction the server is free then, whatever else the client has sent.
    #[inline]
    fn allowed_ahead(&self, client: &ClientSlot, server: Option<&ServerSlot>) -> u32 {
        let Some(server) = server else { return AHEAD };
        let slot = self.pools.get(client.pool);
        if slot.mode() == PoolMode::Session {
            return u32::MAX;
        }
        let wanted = server.marked_for_close || slot.is_wanted();
        if wanted || (server.holding.query != Time::NEVER && slot.pool.is_unwanted(server.peer)) { 1 } else { AHEAD }
    }

    /// A server sent something.
    #[inline]
    pub(crate) fn server_bytes<I: Io>(&mut self, now: Time, mut server: Box<ServerSlot>, bytes: &[u8], io: &mut I) {
        server.heard_at = now;
        match server.phase() {
            None => return self.login_bytes(now, server, bytes, io),
            Some(ServerPhase::AuthQuery(query)) => return self.auth_query_bytes(now, server, query, bytes, io),
            Some(_) => {}
        }
        let mut client = server.link.and_then(|client| self.peers.take_client(client));
        let pool = self.pools.get_mut(server.pool);
        let peer = server.peer;
        let mut wire = Wire::new(io, server.link.unwrap_or(Peer::NONE), peer, bytes, Some(0));
        let mut context = self.sessions.context(&pool.config, &mut pool.accepted, AHEAD);
        let Some((up, _)) = server.up() else { return };
        let session = client.as_mut().and_then(|c| c.ready());
        let half = session.as_ref().is_some_and(|session| session.is_mid_message());
        let told = from_server::feed(up, session, bytes, &mut context, &mut wire);
        pool.stats.sent += wire.to_client;
        if let Ok(told) = &told {
            self.follow(now, &mut server, half, told);
        }
        if let Some(mut client) = client {
            if let Ok(told) = &told {
                self.requests_refused(&mut client, &told.refused, io);
            }
            self.peers.put(client.peer, Entry::Client(client));
        }
        match told {
            Ok(told) => self.server_told(now, server, told, io),
            Err(from_server::ProtocolViolation(what)) => {
                let text = format_args!("unexpected response from server: {what}");
                self.log_server(Level::Warning, &server, text, io);
                server.fatal_error = Some(Refusal::ServerUnexpected);
                io.close(peer);
                self.server_gone(now, server, io);
            }
        }
    }

    /// Acts on what a server told.
    fn server_told<I: Io>(
        &mut self,
        now: Time,
        mut server: Box<ServerSlot>,
        told: from_server::ServerOutcome,
        io: &mut I,
    ) {
        if told.queries > 0 {
            self.count_queries(now, &mut server, &told);
        }
        if !told.errors.is_empty() {
            let errors = &mut self.pools.get_mut(server.pool).tally.errors;
            told.errors.iter().for_each(|code| errors.count(*code, 1));
        }
        if !(told.lost.is_empty() && told.refused_state.is_empty()) {
            self.count_lost(&server, &told, io);
        }
        let breach = breach(&told);
        if let Some(fatal) = told.fatal {
            self.log_server(Level::Warning, &server, format_args!("the server said: {}", fatal.message), io);
            server.fatal_error = Some(Refusal::ServerDown { sqlstate: fatal.sqlstate, message: fatal.message });
        }
        let peer = server.peer;
        let Some((up, phase)) = server.up() else { return };
        let (phase, quiet, ahead) = (*phase, up.is_quiet(), up.pending_segments());
        let spoiled_idle = up.is_spoiled() && phase == ServerPhase::Idle;
        let link = server.link;
        self.peers.put(peer, Entry::Server(server));
        if let (Some(client), Some(refusal)) = (link, breach) {
            return self.refuse_handle(now, client, refusal, io);
        }
        if let Some(outcome) = told.own_query_done {
            return self.own_query_done(now, peer, phase, outcome, io);
        }
        if spoiled_idle {
            if let Some(server) = self.peers.take_server(peer) {
                io.close(peer);
                self.server_gone(now, server, io);
            }
            return;
        }
        if quiet && phase == ServerPhase::Linked {
            self.common.follow_up(FollowUp::Release(peer));
        } else if let Some(client) = link
            && self.peers.client(client).is_some_and(|c| c.pause.waits)
            && phase == ServerPhase::Linked
            && ahead <= AHEAD / 2
            && (ahead == 0 || !self.is_wanted(client))
        {
            // It was held because the server owed too much.
            self.go_on(client, io);
        }
    }

    fn count_queries(&mut self, now: Time, server: &mut ServerSlot, told: &from_server::ServerOutcome) {
        let (queries, transactions) = (u64::from(told.queries), u64::from(told.transactions));
        let pool = self.pools.get_mut(server.pool);
        let (stats, times) = (&mut pool.stats, pool.tally.times());
        stats.query_count += queries;
        stats.xact_count += transactions;
        if server.query_at != Time::NEVER {
            let took = now.since(server.query_at).micros();
            stats.query_time += took;
            count_times(&mut times.query, took, queries);
        }
        if transactions > 0 && server.transaction_at != Time::NEVER {
            let took = now.since(server.transaction_at).micros();
            stats.xact_time += took;
            count_times(&mut times.transaction, took, transactions);
            server.transaction_at = Time::NEVER;
        }
        let busy = server.up().is_some_and(|(up, _)| up.is_busy());
        server.query_at = if busy { now } else { Time::NEVER };
        if busy && server.transaction_at == Time::NEVER {
            // The next one of a pipeline.
            server.transaction_at = now;
            let wait = self.pools.get(server.pool).pool.oldest_wait().unwrap_or(Time::NEVER);
            let so_far = if server.overtime.0 == wait { server.overtime.1 } else { 0 };
            server.overtime = (wait, if wait == Time::NEVER { 0 } else { so_far + told.transactions });
        }
    }

    /// A client that is not read has closed its side. One that waits for a server is gone: nobody is there for the answer,
    /// and the server that it would be given would be lost with it, which is how a pool never gets out of a standstill that
    /// lasted longer than its clients' patience. Others are read to their end in their time: those whose server answers, as
    /// long as it does ([`LAST_ANSWERS`](crate::traffic::deadlines::LAST_ANSWERS)).
    pub(crate) fn ending<I: Io>(&mut self, now: Time, peer: Peer, io: &mut I) {
        let Some(mut client) = self.peers.take_client(peer) else { return };
        let waits = client.link.is_none() && client.pause.waits && !client.pause.suspended;
        if waits && matches!(client.phase, ClientPhase::Ready(_) | ClientPhase::Welcome(_)) {
            io.close(peer);
            return self.client_gone(now, client, io);
        }
        if client.link.is_some() && !client.ended {
            client.ended = true;
            client.request_at = now;
            let deadline = self.client_deadline(&client);
            self.common.arm(Who::Peer(peer), deadline, &mut client.armed);
        }
        self.peers.put(peer, Entry::Client(client));
    }

    /// A client's or a server's socket is full: its source is not read from.
    pub(crate) fn blocked<I: Io>(&mut self, peer: Peer, io: &mut I) {
        if let Some(link) = self.peers.client(peer).map(|c| c.link) {
            self.set_pause(peer, |pause| pause.full = true, io);
            link.into_iter().for_each(|server| self.pause_server(server, io));
        } else if let Some(server) = self.peers.server(peer) {
            server.full = true;
            let link = server.link;
            link.into_iter().for_each(|client| self.set_pause(client, |pause| pause.peer_full = true, io));
            self.follow_link(peer);
        }
    }

    /// A socket has room again.
    pub(crate) fn drained_peer<I: Io>(&mut self, peer: Peer, io: &mut I) {
        if let Some(link) = self.peers.client(peer).map(|c| c.link) {
            self.set_pause(peer, |pause| pause.full = false, io);
            link.into_iter().for_each(|server| self.resume_server(server, io));
            self.console_reads(peer, io);
        } else if let Some(server) = self.peers.server(peer) {
            server.full = false;
            let link = server.link;
            link.into_iter().for_each(|client| self.peer_has_room(client, io));
            self.follow_link(peer);
        }
    }

    /// A client's server takes bytes again, or there is none any more: what the client sent meanwhile goes on.
    pub(crate) fn peer_has_room<I: Io>(&mut self, client: Peer, io: &mut I) {
        self.set_pause(client, |pause| pause.peer_full = false, io);
        if self.peers.client(client).is_some_and(|client| !client.waiting.is_empty()) {
            self.common.follow_up(FollowUp::Feed(client));
        }
    }

    /// Reads no more from a server whose client's socket is full. The answers to queries of ours are not for that client.
    pub(crate) fn pause_server<I: Io>(&mut self, server: Peer, io: &mut I) {
        if let Some(slot) = self.peers.server(server)
            && !slot.paused
            && slot.phase() == Some(ServerPhase::Linked)
        {
            slot.paused = true;
            if !slot.suspended {
                io.pause(server);
            }
            self.follow_link(server);
        }
    }

    pub(crate) fn resume_server<I: Io>(&mut self, server: Peer, io: &mut I) {
        if let Some(slot) = self.peers.server(server)
            && slot.paused
        {
            slot.paused = false;
            if !slot.suspended {
                io.resume(server);
            }
            self.follow_link(server);
        }
    }

    /// Changes why a client is not read from, and stops or starts reading.
    pub(crate) fn set_pause<I: Io>(&mut self, client: Peer, change: impl FnOnce(&mut Pause), io: &mut I) {
        if let Some(client) = self.peers.client(client) {
            change_pause(client, change, io);
        }
    }

    pub(crate) fn pause_client<I: Io>(&mut self, client: &mut ClientSlot, io: &mut I) {
        change_pause(client, |pause| pause.waits = true, io);
    }

    pub(crate) fn unpause_client<I: Io>(&mut self, client: &mut ClientSlot, io: &mut I) {
        change_pause(client, |pause| pause.waits = false, io);
    }

    /// A client said goodbye: its server is kept only if it is clean.
    pub(crate) fn client_leaves<I: Io>(&mut self, now: Time, client: Box<ClientSlot>, io: &mut I) {
        io.close(client.peer);
        self.depart(now, client, "client close request", io);
    }

    /// A client's connection is gone; its handle is dead already.
    pub(crate) fn client_gone<I: Io>(&mut self, now: Time, client: Box<ClientSlot>, io: &mut I) {
        self.depart(now, client, "client unexpected eof", io);
    }

    /// Refuses a client by its handle.
    pub(crate) fn refuse_handle<I: Io>(&mut self, now: Time, client: Peer, refusal: Refusal, io: &mut I) {
        if let Some(client) = self.peers.take_client(client) {
            self.refuse(now, client, refusal, io);
        }
    }

    /// Tells a client why, and closes its connection. In the middle of a message from its server it is told nothing: it
    /// would take our words for the rest of that message.
    pub(crate) fn refuse<I: Io>(&mut self, now: Time, client: Box<ClientSlot>, refusal: Refusal, io: &mut I) {
        self.count_refusal(&client, &refusal);
        let server = client.link.and_then(|server| self.peers.server(server));
        let mid_message = server.and_then(|s| s.up()).is_some_and(|(up, _)| up.is_mid_message());
        // In a handshake it would take our words for a part of that.
        if !mid_message && !client.cut && !matches!(client.phase, ClientPhase::Handshake(_)) {
            let scratch = &mut self.sessions.scratch;
            scratch.clear();
            refusal.write(scratch);
            io.send(client.peer, scratch);
        }
        if self.common.config().log.pooler_errors {
            self.log_client(Level::Warning, &client, format_args!("pooler error: {refusal}"), io);
        }
        io.close(client.peer);
        let why = refusal.to_string();
        // A server that is closed because of a time-out has the time-out for a reason, as its client has.
        let timed_out =
            matches!(refusal, Refusal::QueryTimeout | Refusal::IdleTransactionTimeout | Refusal::TransactionTimeout);
        self.leave(now, client, (&why, if timed_out { &why } else { NOT_READY }), io);
    }

    /// Takes a client out of everything it was in. Its connection is closed already, or being closed.
    pub(crate) fn depart<I: Io>(&mut self, now: Time, client: Box<ClientSlot>, why: &str, io: &mut I) {
        self.leave(now, client, (why, NOT_READY), io);
    }

    /// The same with two reasons: its own, and that of its server, where that has to be closed with it.
    fn leave<I: Io>(&mut self, now: Time, mut client: Box<ClientSlot>, (why, servers): (&str, &str), io: &mut I) {
        if self.common.config().log.disconnections && !matches!(client.phase, ClientPhase::Canceller) {
            let age = now.since(client.connected_at).micros() / 1_000_000;
            self.log_client(Level::Info, &client, format_args!("closing because: {why} (age={age}s)"), io);
        }
        self.admin.client_counts.remove(&client.phase);
        if let ClientPhase::Console(console) = &client.phase {
            self.console_left(now, console, io);
            self.check_operators(now, io);
        }
        self.login_left(now, &client, io);
        if client.armed != Time::NEVER {
            self.common.timers().forget();
            self.tidy_timers();
        }
        self.uncount_client(&mut client, io);
        self.entry.prelogin.discharge(&mut client);
        self.sessions.recycle(std::mem::take(&mut client.waiting));
        if client.pool != NO_POOL {
            self.pools.get_mut(client.pool).pool.leave(client.peer, now);
            self.count_client(client.pool, -1);
            if let Some(server) = client.link.take() {
                self.abandon(now, &client, server, servers, io);
            }
        }
        self.check_drained(io);
    }
}

/// The most segments of a client (a simple query, or what ends with a Sync) that its server has to answer at a time. What is
/// sent can't be recalled, so it is what others may have to wait for; and it is enough to keep a server busy. A client that
/// was stopped there goes on at the half of it.
pub(crate) const AHEAD: u32 = 16;

/// Why a server is closed whose client left it in the middle of something.
const NOT_READY: &str = "client disconnect while server was not ready";

/// What a server's answers show that the client may not do.
#[inline]
fn breach(told: &from_server::ServerOutcome) -> Option<Refusal> {
    if told.block_in_statement_mode {
        return Some(Refusal::TransactionInStatementMode);
    }
    told.copy_violated.then(|| Refusal::Protocol("a request during COPY".into()))
}

/// Counts what ended together, each with its even part of the time.
#[inline]
fn count_times(times: &mut Histogram, took: u64, ended: u64) {
    if ended == 1 {
        times.count(took);
    } else {
        times.count_many(took / ended, ended);
    }
}

#[inline]
pub(crate) fn change_pause<I: Io>(client: &mut ClientSlot, change: impl FnOnce(&mut Pause), io: &mut I) {
    let before = client.pause.any();
    change(&mut client.pause);
    match (before, client.pause.any()) {
        (false, true) => io.pause(client.peer),
        (true, false) => io.resume(client.peer),
        _ => {}
    }
}
