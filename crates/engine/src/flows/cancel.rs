//! Cancel requests: each cancels the right query or none.
//!
//! A request names a client of ours by the key we gave it. It is sent to the worker of that client, waits for a
//! connection of its own to the client's server, and is sent only if that client still runs something there. Until the
//! server has closed that connection (which it does after it has signalled the backend), the client's server is given
//! to no other client, so a late cancel can't hit one.
//!
//! A client may be between two requests: the next one is in Weir, and no server has it yet. If it was there when the cancel
//! request came, and nothing runs any more when that is to be sent, the cancel is the next one's.

use weir_base::{Peer, Time};
use weir_pgwire::put_front;

use crate::backends::login::{ask_for_encryption, read_answer};
use crate::cluster::peering::{PeerKey, issued_secret};
use crate::common::FollowUp;
use crate::engine::Engine;
use crate::entry::state::Handoff;
use crate::peers::{ClientPhase, ClientSlot, Entry, ServerPhase};
use crate::port::{Handshake, Io};
use crate::timers::Who;
use crate::traffic::cancel_pids::worker_of;
use crate::traffic::cancel_state::{CancelRequest, CancelSlot, CancelStage};

impl Engine {
    /// A client's first packet is a cancel request.
    pub(crate) fn cancel_request<I: Io>(
        &mut self,
        now: Time,
        mut client: Box<ClientSlot>,
        pid: u32,
        mut secret: Vec<u8>,
        io: &mut I,
    ) {
        let (peering, config) = (&self.cluster.peering, self.common.config());
        let own = peering.own(config);
        if own > 0 {
            let Some(key) = PeerKey::read(pid, &secret) else { return self.client_leaves(now, client, io) };
            if key.peer_id() == own {
                issued_secret(&mut secret);
            } else if !peering.may_be_own(key, config) {
                return self.forward_cancel(now, client, key.peer_id(), (pid, secret), io);
            }
        }
        // A client of another process, which had more workers perhaps, came to this one.
        let worker = worker_of(pid, self.common.workers());
        let peer = client.peer;
        if worker != self.common.worker() {
            client.phase = ClientPhase::Moving(Box::new(Handoff::Cancel { pid, secret }));
            io.detach(peer);
            return self.insert_client(client);
        }
        client.phase = ClientPhase::Canceller;
        self.admin.client_counts.change(&client.phase);
        self.insert_client(client);
        self.cancel(now, Some(peer), pid, &secret, io);
    }

    /// Looks up the client that a request names. For a wrong key there is no reply, as for any other. `requester`: the
    /// sender, if it is not the process that takes over.
    pub(crate) fn cancel<I: Io>(&mut self, now: Time, requester: Option<Peer>, pid: u32, secret: &[u8], io: &mut I) {
        let is_meant = |peer: &Peer| self.peers.get_client(*peer).is_some_and(|client| client.cancel.is(pid, secret));
        let peering = self.cluster.peering.own(self.common.config()) > 0;
        let key = if peering { PeerKey::read(pid, secret) } else { None };
        let own = key.and_then(|key| self.cluster.peering.find(key));
        let target = match own.or_else(|| self.takeover.keys.named(pid).find(is_meant)) {
            Some(peer) => self.peers.client(peer),
            None => self.peers.client_with_pid(pid),
        };
        let target = target.filter(|client| client.cancel.is(pid, secret));
        if let Some(console) = target.as_ref().filter(|c| matches!(c.phase, ClientPhase::Console(_))).map(|c| c.peer) {
            self.cancel_console(now, console, io);
            return self.finish_canceller(requester, io);
        }
        let runs = |client: &ClientSlot| matches!(client.phase, ClientPhase::Ready(_) | ClientPhase::Streaming(_));
        let target = target.map(|client| (client.peer, client.pool, runs(client)));
        match target {
            Some((client, pool, true)) if self.running_on(client).is_some() => {
                let next_is_here = self.holds_request(client);
                self.pools.get_mut(pool).cancels.wait(CancelRequest { requester, client, next_is_here });
                self.next_cancels(now, pool, io);
            }
            Some((client, pool, true)) => {
                self.cancel_unsent(now, client, pool, io);
                self.finish_canceller(requester, io);
            }
            Some(_) => self.finish_canceller(requester, io),
            None => {
                io.cancel_at_predecessor(pid, secret);
                self.finish_canceller(requester, io);
            }
        }
    }

    /// Whether a client's next request is in Weir, and waits: for a server, for a query of Weir, or for what its server is doing.
    fn holds_request(&mut self, client: Peer) -> bool {
        let Some(slot) = self.peers.client(client).filter(|slot| slot.pause.waits || slot.pause.peer_full) else {
            return false;
        };
        matches!(&slot.phase, ClientPhase::Ready(session) if session.begins_request(&slot.waiting))
    }

    /// Cancels the request of a client that no server has yet: the client gets an error, and may continue. A client without
    /// one is not affected. Where a server is linked, the client gets the error with the end of what the server does.
    fn cancel_unsent<I: Io>(&mut self, now: Time, client: Peer, ix: u32, io: &mut I) {
        if !self.holds_request(client) {
            return;
        }
        let Some(slot) = self.peers.client(client) else { return };
        let waits_for_server = slot.link.is_none() && slot.pause.waits;
        slot.ready().into_iter().for_each(|session| session.cancel());
        if waits_for_server {
            self.pools.get_mut(ix).pool.leave(client, now);
            self.common.follow_up(FollowUp::PollPool(ix));
            self.resume_client(client, io);
        }
    }

    /// The server that runs something for a client. Queries of Weir before a client's work are not the client's.
    fn running_on(&mut self, client: Peer) -> Option<Peer> {
        let server = self.peers.client(client)?.link?;
        let (up, phase) = self.peers.server(server)?.up()?;
        let busy = *phase == ServerPhase::Streaming || (*phase == ServerPhase::Linked && up.is_busy());
        busy.then_some(server)
    }

    /// Starts as many of a pool's waiting cancel requests as allowed: twice the pool's size.
    fn next_cancels<I: Io>(&mut self, now: Time, ix: u32, io: &mut I) {
        loop {
            let slot = self.pools.get_mut(ix);
            // For a pool without a limit, the number of its servers.
            let size = if slot.config.limits.size == 0 { slot.pool.len() } else { slot.config.limits.size as usize };
            let Some(request) = slot.cancels.next(size.saturating_mul(2).max(2)) else { return };
            if request.requester.is_some_and(|requester| self.peers.client(requester).is_none()) {
                continue;
            }
            match self.running_on(request.client) {
                Some(server) => self.begin_cancel(now, ix, request, server, io),
                None => {
                    if request.next_is_here {
                        self.cancel_unsent(now, request.client, ix, io);
                    }
                    self.finish_canceller(request.requester, io);
                }
            }
        }
    }

    fn begin_cancel<I: Io>(
        &mut self,
        now: Time,
        ix: u32,
        CancelRequest { requester, client, next_is_here }: CancelRequest,
        server: Peer,
        io: &mut I,
    ) {
        for peer in self.pools.get(ix).cancels.under_way() {
            let Some(cancel) = self.peers.cancel(*peer) else { continue };
            if cancel.server == server && cancel.client == client && cancel.stage != CancelStage::Sent {
                // A request that is not sent yet serves both.
                cancel.next_is_here |= next_is_here;
                return cancel.requesters.extend(requester);
            }
        }
        let Some(target) = self.peers.server(server).map(|server| server.connection.machine()) else {
            return self.finish_canceller(requester, io);
        };
        let peer = io.connect(&target);
        let deadline = now.deadline(self.common.config().limits.cancel_wait_timeout);
        let mut cancel = Box::new(CancelSlot {
            peer,
            server,
            client,
            pool: ix,
            requesters: requester.into_iter().collect(),
            next_is_here,
            stage: CancelStage::Connecting,
            armed: Time::NEVER,
            deadline,
        });
        self.common.arm(Who::Peer(peer), deadline, &mut cancel.armed);
        self.peers.put(peer, Entry::Cancel(cancel));
        self.pools.get_mut(ix).cancels.begin(peer);
        if let Some(server) = self.peers.server(server) {
            server.cancels += 1;
        }
    }

    /// The connection for a cancel request is open. It is encrypted if its server's is.
    pub(crate) fn cancel_connected<I: Io>(&mut self, peer: Peer, io: &mut I) {
        let Some(server) = self.peers.cancel(peer).map(|c| c.server) else { return };
        let Some(server) = self.peers.server(server).filter(|server| server.connection.tls().is_some()) else {
            return self.send_cancel(peer, io);
        };
        let (host, direct) = (server.connection.target().host.clone(), server.connection.is_direct());
        let mode = self.common.config().tls.server.mode;
        let Some(cancel) = self.peers.cancel(peer) else { return };
        if direct {
            cancel.stage = CancelStage::TlsHandshake;
            io.start_tls(peer, Handshake::Connect { host, mode, direct });
        } else {
            cancel.stage = CancelStage::SslRequest;
            ask_for_encryption(peer, io);
        }
    }

    /// Handles the server's answer to SSLRequest on a cancel connection. The cancel request itself is answered only by
    /// the end of the connection.
    pub(crate) fn cancel_bytes<I: Io>(&mut self, mut cancel: Box<CancelSlot>, bytes: &[u8], io: &mut I) {
        let peer = cancel.peer;
        if cancel.stage == CancelStage::SslRequest {
            let host = self.peers.server(cancel.server).map(|server| server.connection.target().host.clone());
            let (Some(host), Ok(true)) = (host, read_answer(bytes)) else {
                io.close(peer);
                return self.cancel_over(&cancel, io);
            };
            cancel.stage = CancelStage::TlsHandshake;
            let mode = self.common.config().tls.server.mode;
            io.start_tls(peer, Handshake::Connect { host, mode, direct: false });
        }
        self.peers.put(peer, Entry::Cancel(cancel));
    }

    /// The handshake for a cancel request is done.
    pub(crate) fn cancel_secured<I: Io>(&mut self, peer: Peer, io: &mut I) {
        self.send_cancel(peer, io);
    }

    /// A cancel request can be sent: checks whether it still applies.
    fn send_cancel<I: Io>(&mut self, peer: Peer, io: &mut I) {
        let Some((server, client)) = self.peers.cancel(peer).map(|c| (c.server, c.client)) else { return };
        let running = self.running_on(client) == Some(server);
        let key = self.peers.server(server).and_then(|s| s.up().map(|(up, _)| up.cancel_key().clone()));
        let (Some(key), true) = (key.filter(|key| !key.secret.is_empty()), running) else {
            io.close(peer);
            if let Entry::Cancel(cancel) = self.peers.take(peer) {
                if cancel.next_is_here && !running {
                    self.cancel_unsent(self.common.now(), client, cancel.pool, io);
                }
                self.cancel_over(&cancel, io);
            }
            return;
        };
        let mut buffer = Vec::new();
        put_front::cancel_request(&mut buffer, key.pid, &key.secret);
        io.send(peer, &buffer);
        if let Some(cancel) = self.peers.cancel(peer) {
            cancel.stage = CancelStage::Sent;
        }
    }

    /// A cancel request has ended, in any way; it is out of the table.
    pub(crate) fn cancel_over<I: Io>(&mut self, cancel: &CancelSlot, io: &mut I) {
        let slot = self.pools.get_mut(cancel.pool);
        slot.cancels.end(cancel.peer);
        if let Some(server) = self.peers.server(cancel.server) {
            server.cancels = server.cancels.saturating_sub(1);
            if cancel.stage == CancelStage::Sent && server.link == Some(cancel.client) {
                server.up().into_iter().for_each(|(up, _)| up.cancel_ended());
            }
            self.common.follow_up(FollowUp::Release(cancel.server));
        }
        for requester in &cancel.requesters {
            self.finish_canceller(*requester, io);
        }
        self.common.follow_up(FollowUp::PollPool(cancel.pool));
        self.next_cancels(self.common.now(), cancel.pool, io);
    }

    /// A cancel request has timed out. If it was sent, it may still hit its server: the server is closed.
    pub(crate) fn cancel_due<I: Io>(&mut self, now: Time, peer: Peer, io: &mut I) {
        let Some(cancel) = self.peers.cancel(peer) else { return };
        cancel.armed = Time::NEVER;
        if cancel.deadline > now {
            return;
        }
        let Entry::Cancel(cancel) = self.peers.take(peer) else { return };
        if cancel.stage == CancelStage::Sent {
            self.mark_for_close(cancel.server);
        }
        io.close(peer);
        self.cancel_over(&cancel, io);
    }

    /// The connection of a cancel request's sender closes when the request is done.
    pub(crate) fn finish_canceller<I: Io>(&mut self, requester: impl Into<Option<Peer>>, io: &mut I) {
        let now = self.common.now();
        if let Some(client) = requester.into().and_then(|requester| self.peers.take_client(requester)) {
            self.client_leaves(now, client, io);
        }
    }
}
