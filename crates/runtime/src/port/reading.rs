//! Which of epoll and the ring reads a connection, and what epoll watches its socket for.

use mio::Interest;
use weir_base::ConnId;
use weir_engine::port::Level;

use super::Port;
use super::pending::PendingInput;
use super::ring_io::SLOT_BITS;
use crate::slots::{NONE, Reader, Ready, Stage, Watch, token};
use crate::socket::Socket;

impl Port {
    /// Adds a new socket to the table and watches it for bytes.
    pub(crate) fn add_socket(&mut self, socket: Socket) -> ConnId {
        let conn = self.conns.insert(Some(socket), Stage::Open);
        self.begin_reading(conn);
        conn
    }

    /// Starts reading an open connection: ahead by the ring if possible, otherwise after epoll's events.
    pub(crate) fn begin_reading(&mut self, conn: ConnId) {
        let on = self.ring_io.on && conn.slot >> SLOT_BITS == 0;
        let Some(slot) = self.conns.get(conn) else { return };
        if on && slot.reader == Reader::Epoll && slot.stage == Stage::Open && !slot.held {
            slot.reader = Reader::Ring;
            self.ring_io.receives.push(conn);
        }
        self.watch_by_epoll(conn);
    }

    /// Has epoll watch a connection for bytes, unless something else reads it, and for room if there is a backlog.
    pub(super) fn watch_by_epoll(&mut self, conn: ConnId) {
        let blocked = self.conns.get(conn).is_some_and(|slot| slot.backlog != NONE);
        self.watch(conn, if blocked { Watch::Both } else { Watch::Reads });
    }

    /// Sets what epoll watches a connection's socket for; bytes that the ring receives are left out.
    pub(crate) fn watch(&mut self, conn: ConnId, watch: Watch) {
        let registry = self.poll.registry();
        let Some(slot) = self.conns.get(conn) else { return };
        let Some(socket) = slot.socket.as_mut() else { return };
        // A TCP socket that was full once stays watched for room: that costs nothing, as the kernel reports room only
        // after a refusal. A Unix socket would cause an event at each read of the other end.
        let stays = watch == Watch::Reads && slot.watch.has_room() && socket.is_tcp();
        let reads = matches!(watch, Watch::Reads | Watch::Both) && slot.reader == Reader::Epoll;
        let watch = Watch::of(reads, watch.has_room() || stays);
        if slot.watch == watch {
            return;
        }
        let result = match (slot.watch, interest(watch)) {
            (Watch::Nothing, Some(interest)) => socket.register(registry, token(conn), interest),
            (_, Some(interest)) => socket.reregister(registry, token(conn), interest),
            (_, None) => socket.deregister(registry),
        };
        slot.watch = watch;
        if let Err(error) = result {
            self.shared.log.line(Level::Error, format_args!("{conn:?}: could not be watched: {error}"));
            self.fail_conn(conn);
        }
    }

    /// Stops reading a connection ahead. epoll takes over when its receive has ended.
    pub(crate) fn leave_ring(&mut self, conn: ConnId) {
        let Some(slot) = self.conns.get(conn) else { return };
        if slot.reader == Reader::Ring {
            slot.reader = Reader::Leaving;
            self.ring_io.cancels.push(conn);
        }
    }

    /// Detaches a connection that is to leave, as soon as its backlog is empty.
    pub(crate) fn take_out(&mut self, conn: ConnId) {
        let Some(slot) = self.conns.live(conn) else { return };
        if slot.stage != Stage::Detaching || slot.owes() || slot.ready == Ready::Broken {
            return;
        }
        match slot.reader {
            Reader::Ring | Reader::Leaving => return self.leave_ring(conn),
            Reader::Paced => slot.reader = Reader::Epoll,
            Reader::Epoll => {}
        }
        slot.stage = Stage::Detached;
        self.watch(conn, Watch::Nothing);
        self.pending.push_back(PendingInput::Detached(conn));
    }
}

fn interest(watch: Watch) -> Option<Interest> {
    match watch {
        Watch::Nothing => None,
        Watch::Reads => Some(Interest::READABLE),
        Watch::Room => Some(Interest::WRITABLE),
        Watch::Both => Some(Interest::READABLE | Interest::WRITABLE),
    }
}
