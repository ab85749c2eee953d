//! Links: a client and its server, from the grant to the release.
//!
//! Owns the moments at which a link is made (with the prelude that a client needs on a server), ended, and cleaned up after.
//! What passes over a link is in `relay`; who is next is decided in `weir-pool`, and that a server is clean in `weir-session`.

use weir_base::{Mode, OnDirty, Peer, Time};
use weir_pool::{Acquire, Release};
use weir_session::{Refusal, Server, back};

use crate::peers::{ClientSlot, Doing, Entry, Phase};
use crate::port::Io;
use crate::relay::change_pause;
use crate::timers::Who;
use crate::wire::Wire;
use crate::{Engine, Todo};

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
                if self.link(now, client, server, check, io) {
                    Wish::Go
                } else {
                    Wish::Wait
                }
            }
            Acquire::Queued => {
                self.todo.push_back(Todo::Settle(client.pool));
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
        if client.pause.full {
            self.pause_server(server, io);
        }
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
        let Phase::Ready(session) = &mut client.phase else { return false };
        let Some((up, doing)) = server.up() else { return false };
        let waits = if check {
            *doing = Doing::Checking;
            up.own_query("", &mut self.shared.scratch, &mut wire);
            true
        } else {
            let query = back::agree(up, session, &self.shared.params, &mut self.shared.scratch, &mut wire);
            *doing = if query { Doing::Agreeing } else { Doing::Linked };
            query
        };
        if waits {
            self.watch_own_query(now, peer);
        }
        !waits
    }

    /// The pool gives a server to a client that waited.
    pub(crate) fn grant<I: Io>(&mut self, now: Time, client: Peer, server: Peer, check: bool, io: &mut I) {
        let Some(mut client) = self.peers.take_client(client) else { return };
        if let Phase::Welcome(_) = client.phase {
            client.link = Some(server);
            if let Some(slot) = self.peers.server(server) {
                slot.link = Some(client.peer);
                slot.up().into_iter().for_each(|(_, doing)| *doing = Doing::Linked);
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
            self.todo.push_back(Todo::Feed(peer));
        }
    }

    /// A client that waited for its pool's first server: it is told, and the server is free again.
    pub(crate) fn finish_welcome<I: Io>(&mut self, now: Time, mut client: Box<ClientSlot>, io: &mut I) {
        if let Some(server) = client.link.take() {
            if let Some(slot) = self.peers.server(server) {
                slot.link = None;
            }
            self.todo.push_back(Todo::Release(server));
        }
        let Some(welcome) = self.pools.get(client.pool).welcome.clone() else {
            return self.refuse(now, client, Refusal::Broken("a server without a welcome"), io);
        };
        let Phase::Welcome(phase) = std::mem::replace(&mut client.phase, Phase::Gone) else { return };
        self.welcome(now, client, phase, &welcome, io);
    }

    /// A query of our own on a server has ended.
    pub(crate) fn own_query_done<I: Io>(
        &mut self,
        now: Time,
        server: Peer,
        doing: Doing,
        outcome: Result<(), weir_session::OwnError>,
        io: &mut I,
    ) {
        let Some(mut slot) = self.peers.take_server(server) else { return };
        match (doing, outcome) {
            (Doing::Resetting, Ok(())) => {
                let all = self.pools.get(slot.pool).mode() == Mode::Session;
                if let Some((up, doing)) = slot.up() {
                    up.was_reset(&self.shared.params, all);
                    *doing = Doing::Linked;
                }
                self.peers.put(server, Entry::Server(slot));
                self.hand_back(now, server, io);
            }
            (Doing::Checking | Doing::Agreeing, Ok(())) => {
                let client = slot.link;
                self.peers.put(server, Entry::Server(slot));
                self.prelude_done(server, client, doing, io);
            }
            (Doing::Agreeing, Err(error)) => {
                let client = slot.link;
                self.peers.put(server, Entry::Server(slot));
                self.doom(server);
                if let Some(client) = client {
                    let refusal = Refusal::ParameterFailed { sqlstate: error.sqlstate, message: error.message };
                    self.refuse_handle(now, client, refusal, io);
                }
            }
            _ => {
                io.close(server);
                self.server_gone(now, slot, io);
            }
        }
    }

    pub(crate) fn prelude_done<I: Io>(&mut self, server: Peer, client: Option<Peer>, done: Doing, io: &mut I) {
        let Some(client) = client else { return };
        let Some(mut client) = self.peers.take_client(client) else { return };
        if let (Some(slot), Phase::Ready(session)) = (self.peers.server(server), &mut client.phase)
            && let Some((up, doing)) = slot.up()
        {
            *doing = Doing::Linked;
            let mut again = false;
            if done == Doing::Checking {
                let mut wire = Wire::new(io, client.peer, server, &[], None);
                again = back::agree(up, session, &self.shared.params, &mut self.shared.scratch, &mut wire);
            } else {
                self.shared.scratch.clear();
                back::agreed(up, session, Some((&self.shared.params, &mut self.shared.scratch)));
                if !self.shared.scratch.is_empty() {
                    io.send(client.peer, &self.shared.scratch);
                }
            }
            if again {
                *doing = Doing::Agreeing;
                self.watch_own_query(self.clock, server);
                return self.peers.put(client.peer, Entry::Client(client));
            }
        }
        let peer = client.peer;
        self.peers.put(peer, Entry::Client(client));
        self.go_on(peer, io);
    }

    /// What a client waited for has come.
    pub(crate) fn go_on<I: Io>(&mut self, client: Peer, io: &mut I) {
        let Some(mut client) = self.peers.take_client(client) else { return };
        self.unpause_client(&mut client, io);
        let peer = client.peer;
        self.peers.put(peer, Entry::Client(client));
        self.todo.push_back(Todo::Feed(peer));
    }

    /// A server may be free: ends its link if nothing holds it.
    pub(crate) fn release<I: Io>(&mut self, now: Time, server: Peer, io: &mut I) {
        let Some(slot) = self.peers.server(server) else { return };
        let (link, cancels) = (slot.link, slot.cancels);
        let Some((up, doing)) = slot.up() else { return };
        if *doing == Doing::Idle || *doing == Doing::Resetting || !up.is_quiet() {
            return;
        }
        let spoiled = up.is_spoiled();
        if let Some(client) = link {
            if *doing != Doing::Linked {
                return;
            }
            let Some(client) = self.peers.client(client) else { return };
            let session_mode = matches!(&client.phase, Phase::Ready(c) if c.mode() == Mode::Session);
            let mid_message = matches!(&client.phase, Phase::Ready(c) if c.is_mid_message());
            if session_mode && client.pause.waits {
                // It was held because the server owed too much, and nothing more will come to say so.
                let peer = client.peer;
                return self.go_on(peer, io);
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
        self.set_pause(peer, |pause| pause.peer_full = false, io);
        let Some(client) = self.peers.client(peer) else { return };
        if client.pause.waits {
            // It was held because the server owed too much.
            self.go_on(peer, io);
        } else if let Some(idle) = idle.filter(|idle| !idle.is_zero()) {
            self.timers.arm(Who::Peer(client.peer), now.deadline(idle), &mut client.armed);
        }
    }

    /// A server without a client: removes what its last one left, or closes it.
    pub(crate) fn clean_up<I: Io>(&mut self, now: Time, server: Peer, io: &mut I) {
        self.resume_server(server, io);
        let Some(slot) = self.peers.server(server) else { return };
        let (ix, doomed) = (slot.pool, slot.doomed);
        let pool = self.pools.get(ix);
        let (policy, session_mode) = (pool.config.on_dirty, pool.mode() == Mode::Session);
        let used = std::mem::take(&mut slot.used);
        let Some((up, doing)) = slot.up() else { return };
        let dirty = !up.dirty().is_empty();
        // A session leaves more behind than tags tell; it is always cleaned up after, as by PgBouncer's server_reset_query.
        let left = dirty || (session_mode && used);
        if up.is_spoiled() || doomed || (policy == OnDirty::Close && left) {
            return self.close_server(now, server, "unclean server", io);
        }
        if !left || (policy == OnDirty::Keep && !session_mode) {
            *doing = Doing::Linked;
            up.forgive();
            return self.hand_back(now, server, io);
        }
        *doing = Doing::Resetting;
        let query = if session_mode { "DISCARD ALL".to_owned() } else { Server::reset_query(up.dirty()) };
        let mut wire = Wire::new(io, Peer::NONE, server, &[], None);
        up.own_query(&query, &mut self.shared.scratch, &mut wire);
        self.watch_own_query(now, server);
    }

    /// Gives a clean server back to its pool.
    pub(crate) fn hand_back<I: Io>(&mut self, now: Time, server: Peer, io: &mut I) {
        let Some(slot) = self.peers.server(server) else { return };
        slot.query_at = Time::NEVER;
        slot.transaction_at = Time::NEVER;
        let ix = slot.pool;
        let Some((up, doing)) = slot.up() else { return };
        let Some(proof) = up.prove_clean() else {
            return self.close_server(now, server, "unclean server", io);
        };
        *doing = Doing::Idle;
        match self.pools.get_mut(ix).pool.release(server, proof, now) {
            Release::Next { client, waited, check } => {
                self.pools.get_mut(ix).stats.wait_time += waited.micros();
                self.grant(now, client, server, check, io);
            }
            Release::Idle => {}
            Release::Close(reason) => {
                if let Some(slot) = self.peers.take_server(server) {
                    self.goodbye(slot, reason.text(), io);
                }
            }
        }
        self.todo.push_back(Todo::Settle(ix));
    }

    /// A client left its server.
    pub(crate) fn abandon<I: Io>(&mut self, now: Time, client: &ClientSlot, server: Peer, io: &mut I) {
        let Some(slot) = self.peers.server(server) else { return };
        slot.link = None;
        let mid_message = matches!(&client.phase, Phase::Ready(c) if c.is_mid_message());
        let Some((up, doing)) = slot.up() else { return };
        match *doing {
            Doing::Linked if up.is_quiet() && !mid_message => self.todo.push_back(Todo::Release(server)),
            Doing::Linked | Doing::Checking | Doing::Agreeing => {
                self.close_server(now, server, "client disconnect while server was not ready", io);
            }
            Doing::Idle | Doing::Resetting => {}
        }
    }
}
