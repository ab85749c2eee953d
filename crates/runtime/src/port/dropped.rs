//! A connection that is over: it failed, and what has arrived is still read; or it is forgotten, and its socket closed.

use std::sync::atomic::Ordering;

use weir_base::{ConnId, WorkerId};

use super::Port;
use crate::mailbox::WorkerMessage;
use crate::slots::{NONE, Reader, Ready, Removed, Stage};
use crate::socket::Socket;
use crate::tls::Tls;

impl Port {
    /// A write failed. Bytes that have arrived are still read; then the connection is closed.
    pub(crate) fn fail_conn(&mut self, conn: ConnId) {
        let Some(slot) = self.conns.get(conn) else { return };
        self.backlogs.drop(std::mem::replace(&mut slot.backlog, NONE));
        slot.ready = Ready::Broken;
        if slot.stage == Stage::Lingering {
            self.drop_conn(conn);
        } else {
            self.enqueue(conn);
        }
    }

    /// Queues a connection to be read without an event.
    pub(crate) fn enqueue(&mut self, conn: ConnId) {
        let Some(slot) = self.conns.get(conn) else { return };
        if !std::mem::replace(&mut slot.queued, true) {
            self.runnable.push_back(conn);
        }
    }

    /// Forgets a connection and closes its socket.
    pub(crate) fn drop_conn(&mut self, conn: ConnId) {
        let Some(Removed { socket, backlog, tls, held, reader }) = self.conns.remove(conn) else { return };
        self.forget_ring_io(conn, reader, held);
        self.backlogs.drop(backlog);
        if tls != NONE {
            self.forget_tls(conn, tls);
        }
        self.connects.forget(conn);
        self.closing.forget(conn.slot);
        if socket.is_some_and(|socket| self.close_socket(socket)) {
            self.room();
        }
    }

    /// A descriptor is free: worker 0 may accept again.
    pub(crate) fn room(&mut self) {
        let starved = &self.shared.starved;
        if starved.load(Ordering::Relaxed) && starved.swap(false, Ordering::Relaxed) {
            self.inbox.mailboxes.send(WorkerId(0), WorkerMessage::Room);
        }
    }

    /// Forgets a connection: cancels its receive, drops its bytes.
    pub(crate) fn forget_ring_io(&mut self, conn: ConnId, reader: Reader, held: bool) {
        if reader == Reader::Ring {
            // A receive that was not submitted yet needs no cancel.
            let at = self.ring_io.receives.iter().position(|p| self.ring_io.unsubmitted && *p == conn);
            match at {
                Some(at) => drop(self.ring_io.receives.swap_remove(at)),
                None => self.ring_io.cancels.push(conn),
            }
        }
        if held {
            self.ring_io.forget_held(conn.slot);
        }
    }

    /// Closes the socket of a removed connection, or parks it while requests of the ring may name its descriptor: the
    /// other end sees it closed either way. Returns whether the descriptor is closed.
    pub(crate) fn close_socket(&mut self, mut socket: Socket) -> bool {
        if !self.ring_io.unsubmitted {
            return true;
        }
        // The socket may not be registered, or be broken: only its descriptor is kept.
        let _ = socket.deregister(self.poll.registry());
        let _ = socket.shutdown();
        self.ring_io.parked.push(socket);
        false
    }

    /// A connection's encryption is over.
    pub(super) fn forget_tls(&mut self, conn: ConnId, tls: u32) {
        // What a helper has is stored until it returns.
        if let Some(Tls::Handshaking(Some(step))) = self.tls.remove(tls) {
            self.tls_state.stored.release(conn);
            if step.waits {
                self.tls_state.due_clients.leave(conn);
            }
        }
    }
}
