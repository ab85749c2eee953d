//! How a server's connection is closed. Where nodes share its pool, it counts until the server has ended it, too.

use std::sync::Arc;

use weir_base::{Peer, Time, WorkerId};

use crate::backends::login;
use crate::cluster::ending::EndingSlot;
use crate::cluster::messages::{Message, Payload};
use crate::common::cx;
use crate::engine::Engine;
use crate::handles::PoolIx;
use crate::log::log;
use crate::peers::{Entry, ServerPhase, ServerSlot, ServerState};
use crate::port::{Io, Level};
use crate::timers::Who;

impl Engine {
    /// Closes the connection of a server that is out of the table, with a notice to the server if it is logged in.
    pub(crate) fn end_connection<I: Io>(&mut self, server: &ServerSlot, io: &mut I) {
        self.end_peer(server.peer, server, self.pools.get(server.pool).name.clone(), true, io);
    }

    /// The same for a server that can't be trusted, or does not answer.
    pub(crate) fn drop_connection<I: Io>(&mut self, server: &ServerSlot, io: &mut I) {
        self.end_peer(server.peer, server, self.pools.get(server.pool).name.clone(), false, io);
    }

    /// The same for a server of this database that has moved here, as `peer`, and is not taken.
    pub(crate) fn drop_moved<I: Io>(&mut self, peer: Peer, server: &ServerSlot, database: &Arc<str>, io: &mut I) {
        self.end_peer(peer, server, database.clone(), false, io);
    }

    fn end_peer<I: Io>(&mut self, peer: Peer, server: &ServerSlot, database: Arc<str>, notice: bool, io: &mut I) {
        let now = self.common.now();
        let is_shared = self.common.config().shared_budget(&database).is_some();
        let busy = match &server.state {
            ServerState::Up(up, phase) => up.is_busy() || *phase == ServerPhase::Streaming,
            // PostgreSQL does not count one that has not sent its startup packet.
            ServerState::Login(_) if is_shared => false,
            _ => return io.close(peer),
        };
        if notice || is_shared {
            login::terminate(cx!(self, now, io), peer);
        }
        if !is_shared {
            return io.close(peer);
        }
        self.await_end(now, peer, database, busy, io);
        if server.reading.is_paused() || server.reading.is_suspended() {
            io.resume(peer);
        }
    }

    /// A server has come from another process, and is not taken.
    pub(crate) fn close_inherited<I: Io>(&mut self, now: Time, database: &str, peer: Peer, io: &mut I) {
        if self.common.config().shared_budget(database).is_none() {
            return io.close(peer);
        }
        login::terminate(cx!(self, now, io), peer);
        self.await_end(now, peer, database.into(), false, io);
        io.post(WorkerId(0), Message(Payload::ServerCame(database.into())), None);
    }

    fn await_end<I: Io>(&mut self, now: Time, peer: Peer, database: Arc<str>, busy: bool, io: &mut I) {
        io.post(WorkerId(0), Message(Payload::ServerEnding(database.clone())), None);
        let mut slot = Box::new(EndingSlot::new(database, busy, now));
        self.common.arm(Who::Peer(peer), slot.deadline, &mut slot.armed);
        self.peers.put(peer, Entry::Ending(slot));
    }

    /// The server has ended a connection that was closed here, or it is given up.
    pub(crate) fn server_ended<I: Io>(&mut self, ending: &EndingSlot, io: &mut I) {
        io.post(WorkerId(0), Message(Payload::ServerEnded(ending.database.clone())), None);
    }

    /// The server does not end a connection.
    pub(crate) fn ending_due<I: Io>(&mut self, now: Time, peer: Peer, io: &mut I) {
        let Entry::Ending(mut ending) = self.peers.take(peer) else { return };
        ending.armed = Time::NEVER;
        if ending.deadline > now {
            self.common.arm(Who::Peer(peer), ending.deadline, &mut ending.armed);
            return self.peers.put(peer, Entry::Ending(ending));
        }
        let text = format_args!("{}: a server has not ended a closed connection: it counts no more", ending.database);
        log(Level::Warning, text, io);
        io.close(peer);
        self.server_ended(&ending, io);
    }

    /// Whether a pool's server was granted under a lease that has ended: other nodes may have what it was to be.
    pub(crate) fn grant_is_void(&self, now: Time, ix: PoolIx, granted_at: Time) -> bool {
        let is_shared = || self.common.config().shared_budget(&self.pools.get(ix).name).is_some();
        self.cluster.lapse.voids(granted_at, now) && is_shared()
    }

    /// A login under a lease that has ended is given up; its pool may ask for another.
    pub(crate) fn login_lapsed<I: Io>(&mut self, now: Time, server: Box<ServerSlot>, io: &mut I) {
        self.close_server_slot(now, server, "the cluster's lease has ended during the login", io);
    }
}
