//! Requests to cancel that mean a client of another process: they are passed on to that one.

use weir_admin::PeerPoolRecord;
use weir_base::{Peer, Time};
use weir_pgwire::put_front;

use crate::cluster::peering::{Forward, ForwardSlot, take_hop};
use crate::engine::Engine;
use crate::peers::{ClientPhase, ClientSlot, Entry};
use crate::port::{Io, Level};
use crate::timers::Who;

impl Engine {
    /// A request means a client of peer `to`.
    pub(crate) fn forward_cancel<I: Io>(
        &mut self,
        now: Time,
        mut client: Box<ClientSlot>,
        to: u16,
        (pid, mut secret): (u32, Vec<u8>),
        io: &mut I,
    ) {
        let why = if self.cluster.peering.target(to, self.common.config()).is_none() {
            Some("could not find peer to forward request to")
        } else if !take_hop(&mut secret) {
            Some("failed to forward cancel request because its TTL was exhausted")
        } else {
            None
        };
        if let Some(why) = why {
            self.log_client(Level::Info, &client, format_args!("closing because: {why} (age=0s)"), io);
            return self.client_leaves(now, client, io);
        }
        let requester = client.peer;
        client.phase = ClientPhase::Canceller;
        self.admin.client_counts.change(&client.phase);
        self.insert_client(client);
        self.cluster.peering.wait(to, Forward { requester: Some(requester), pid, secret });
        self.next_forwards(now, to, io);
    }

    /// Begins as many of the requests for a peer as may be under way.
    fn next_forwards<I: Io>(&mut self, now: Time, to: u16, io: &mut I) {
        while let Some(forward) = self.cluster.peering.next(to, self.common.config()) {
            let Some(target) = self.cluster.peering.target(to, self.common.config()) else {
                // A reload has removed it, or the node has left.
                self.finish_canceller(forward.requester, io);
                continue;
            };
            if forward.requester.is_some_and(|requester| self.peers.client(requester).is_none()) {
                continue;
            }
            let peer = io.connect(&target);
            let deadline = now.deadline(self.common.config().limits.cancel_wait_timeout);
            let mut slot = Box::new(ForwardSlot { peer, to, forward, sent: false, armed: Time::NEVER, deadline });
            self.common.arm(Who::Peer(peer), deadline, &mut slot.armed);
            self.peers.put(peer, Entry::Forward(slot));
            self.cluster.peering.begin(to, peer);
        }
    }

    /// The connection to a peer is there.
    pub(crate) fn forward_connected<I: Io>(&mut self, peer: Peer, io: &mut I) {
        let Some(slot) = self.peers.forward(peer) else { return };
        let mut buffer = Vec::new();
        put_front::cancel_request(&mut buffer, slot.forward.pid, &slot.forward.secret);
        slot.sent = true;
        let to = slot.to;
        io.send(peer, &buffer);
        self.cluster.peering.sent(to);
    }

    /// The peers that were passed a request, for the tables. Only worker 0, which accepts, passes any on.
    pub(crate) fn peer_pools(&self) -> Vec<PeerPoolRecord> {
        let record =
            |(peer_id, [active, waiting, sent]): (u16, [u32; 3])| PeerPoolRecord { peer_id, active, waiting, sent };
        self.cluster.peering.figures().map(record).collect()
    }

    /// A connection to a peer is over, whatever came of it; it is out of the table.
    pub(crate) fn forward_over<I: Io>(&mut self, slot: &ForwardSlot, io: &mut I) {
        self.cluster.peering.end(slot);
        self.finish_canceller(slot.forward.requester, io);
        self.next_forwards(self.common.now(), slot.to, io);
    }

    /// A peer can't be reached.
    pub(crate) fn forward_failed<I: Io>(&mut self, slot: &ForwardSlot, error: &str, io: &mut I) {
        crate::log::log(Level::Debug, format_args!("peer {} can't be reached: {error}", slot.to), io);
        self.forward_over(slot, io);
    }

    /// A peer takes too long to answer by closing the connection.
    pub(crate) fn forward_due<I: Io>(&mut self, now: Time, peer: Peer, io: &mut I) {
        if self.peers.forward(peer).is_none_or(|slot| slot.deadline > now) {
            return;
        }
        if let Entry::Forward(slot) = self.peers.take(peer) {
            io.close(peer);
            self.forward_over(&slot, io);
        }
    }
}
