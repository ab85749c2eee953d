//! Full sockets, and paused clients that close their side: which peers are not read from.

use weir_base::{Peer, Time};

use crate::common::{FollowUp, cx};
use crate::engine::Engine;
use crate::peers::{ClientPhase, ClientSlot, Entry, Pause};
use crate::port::Io;
use crate::timers::Who;
use crate::traffic::deadlines::{self, Progress};
use crate::traffic::relay::{self, change_pause};

impl Engine {
    /// A paused client has closed its side. If it waits for a server, it is removed: it would not read the answer, and
    /// would lose the server that it would get; after a stall longer than the clients' timeouts a pool would never
    /// recover. Others are read to their end: those whose server answers, as long as it does
    /// ([`LAST_ANSWERS`](deadlines::LAST_ANSWERS)).
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

    /// A client's or a server's socket is full: its peer is paused.
    pub(crate) fn blocked<I: Io>(&mut self, peer: Peer, io: &mut I) {
        if let Some(link) = self.peers.client(peer).map(|c| c.link) {
            self.set_pause(peer, |pause| pause.full = true, io);
            link.into_iter().for_each(|server| self.pause_server(server, io));
        } else if let Some(server) = self.peers.server(peer) {
            server.reading.set_full(true);
            let link = server.link;
            link.into_iter().for_each(|client| self.set_pause(client, |pause| pause.peer_full = true, io));
            self.follow_link(peer, io);
        }
    }

    /// A socket has room again.
    pub(crate) fn drained_peer<I: Io>(&mut self, peer: Peer, io: &mut I) {
        if let Some(link) = self.peers.client(peer).map(|c| c.link) {
            self.set_pause(peer, |pause| pause.full = false, io);
            link.into_iter().for_each(|server| self.resume_server(server, io));
            self.console_reads(peer, io);
        } else if let Some(server) = self.peers.server(peer) {
            server.reading.set_full(false);
            let link = server.link;
            link.into_iter().for_each(|client| self.peer_has_room(client, io));
            self.follow_link(peer, io);
        }
    }

    /// A client's server accepts bytes again, or the client has none any more: its buffered input continues.
    pub(crate) fn peer_has_room<I: Io>(&mut self, client: Peer, io: &mut I) {
        self.set_pause(client, |pause| pause.peer_full = false, io);
        if self.peers.client(client).is_some_and(|client| !client.waiting.is_empty()) {
            self.common.follow_up(FollowUp::Feed(client));
        }
    }

    /// Pauses a server whose client's socket is full.
    fn pause_server<I: Io>(&mut self, server: Peer, io: &mut I) {
        if self.peers.server(server).is_some_and(|server| relay::pause_server(server, io)) {
            self.follow_link(server, io);
        }
    }

    fn resume_server<I: Io>(&mut self, server: Peer, io: &mut I) {
        if self.peers.server(server).is_some_and(|slot| slot.reading.resume(|| io.resume(server))) {
            self.follow_link(server, io);
        }
    }

    /// Changes the reasons why a client is paused, and pauses or resumes it.
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

    /// A socket of a link is full, or has room again: updates which side must act next.
    pub(crate) fn follow_link<I: Io>(&mut self, server: Peer, io: &mut I) {
        let Some(client) = self.peers.get_server(server).and_then(|server| server.link) else { return };
        let Some(client) = self.peers.get_client(client) else { return };
        let ClientPhase::Ready(session) = &client.phase else { return };
        let mid_message = session.is_mid_message();
        let Some(server) = self.peers.server(server) else { return };
        let slot = self.pools.get(server.pool);
        let now = self.common.now();
        deadlines::follow(cx!(self, now, io), slot, server, mid_message, Progress::default());
    }
}
