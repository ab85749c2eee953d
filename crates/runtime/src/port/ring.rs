//! Sockets with io_uring: which connections it reads, what is submitted before a wait, how completions are handled.
//!
//! The rules about order and closing are at the top of `ring_io`.

use std::io::{self, ErrorKind};

use weir_base::ConnId;
use weir_uring::{Ended, Ring, SendReport};

use super::Port;
use super::pace::LARGE;
use super::ring_io::{RING_SIZE, key};
use crate::slots::{NONE, Outgoing, Reader, Ready, Stage};

/// The limit of a paused connection's stored bytes, after which the ring stops reading the connection. One wait may
/// exceed the limit, for all connections together by as much as the buffers hold.
const HELD: usize = 4096;
/// The number of full buffers in a row from one connection that makes a bulk transfer.
const BULK: u32 = 4;
/// Sends submitted at the same time; bounds the completions of a round by the kernel's queue.
const MOST_SENDS: usize = 2048;

/// How many more requests a ring accepts; queried again only when the known number is used up.
struct Room<'r> {
    ring: &'r mut Ring,
    left: u32,
}

impl Room<'_> {
    /// The ring, if it accepts one more.
    #[inline]
    fn ring(&mut self) -> io::Result<Option<&mut Ring>> {
        if self.left == 0 {
            self.left = self.ring.room()?;
        }
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        Ok(Some(self.ring))
    }
}

impl Port {
    /// After each wait: `true` while the kernel has not accepted all requests. When it has, parked sockets are closed.
    #[inline]
    pub(crate) fn note_unsubmitted(&mut self, unsubmitted: bool) {
        self.ring_io.unsubmitted = unsubmitted;
        if !unsubmitted && !self.ring_io.parked.is_empty() {
            self.ring_io.parked = Vec::new();
            self.room();
        }
    }

    /// Submits the noted requests to the ring, with a limited number of sends, as many as it accepts. Sockets are
    /// looked up now, so that no request names a closed one.
    pub(crate) fn submit_wishes(&mut self, ring: &mut Ring) -> io::Result<()> {
        let mut room = Room { ring, left: 0 };
        let all =
            self.hand_in_receives(&mut room)? && self.hand_in_cancels(&mut room)? && self.hand_in_sends(&mut room)?;
        if !all {
            self.ring_io.forget_gone(&mut self.conns);
        }
        Ok(())
    }

    /// Returns whether the ring had room for all, as do the functions beside it.
    fn hand_in_receives(&mut self, room: &mut Room<'_>) -> io::Result<bool> {
        let Port { ring_io, conns, .. } = self;
        let mut handed = 0;
        for conn in &ring_io.receives {
            if let Some(slot) = conns.get(*conn)
                && let (Some(socket), Reader::Ring | Reader::Leaving) = (&slot.socket, slot.reader)
            {
                let Some(ring) = room.ring()? else { break };
                ring.receive(socket.fd(), key(*conn))?;
            }
            handed += 1;
        }
        ring_io.receives.drain(..handed);
        Ok(ring_io.receives.is_empty())
    }

    fn hand_in_cancels(&mut self, room: &mut Room<'_>) -> io::Result<bool> {
        let mut handed = 0;
        for conn in &self.ring_io.cancels {
            let Some(ring) = room.ring()? else { break };
            ring.cancel_receive(key(*conn))?;
            handed += 1;
        }
        self.ring_io.cancels.drain(..handed);
        Ok(self.ring_io.cancels.is_empty())
    }

    fn hand_in_sends(&mut self, room: &mut Room<'_>) -> io::Result<bool> {
        let Port { ring_io, conns, .. } = self;
        let mut staged = std::mem::take(&mut ring_io.staged);
        let (most, mut handed) = (staged.len().min(MOST_SENDS), 0);
        for (conn, bytes) in &mut staged[..most] {
            match conns.get(*conn) {
                Some(slot) if slot.ready != Ready::Broken && slot.socket.is_some() => {
                    let Some(ring) = room.ring()? else { break };
                    slot.outgoing = Outgoing::InFlight;
                    // Something waits for the end of this send: more bytes, a close, a detach.
                    let awaited = slot.stage != Stage::Open || slot.backlog != NONE;
                    let report = if awaited { SendReport::AtOnce } else { SendReport::Later };
                    let socket = slot.socket.as_ref().expect("just seen");
                    ring.send(socket.fd(), key(*conn), std::mem::take(bytes), report)?;
                }
                Some(slot) => {
                    slot.outgoing = Outgoing::Nothing;
                    ring_io.keep(std::mem::take(bytes));
                }
                None => ring_io.keep(std::mem::take(bytes)),
            }
            handed += 1;
        }
        staged.drain(..handed);
        ring_io.staged = staged;
        Ok(handed == most)
    }

    /// Handles a full buffer of an open connection. After many in a row, reading larger pieces costs less.
    #[inline]
    pub(crate) fn note_length(&mut self, conn: ConnId, length: usize) {
        if length < RING_SIZE.buffer_size as usize {
            self.ring_io.full = None;
            return;
        }
        let before = self.ring_io.full.filter(|(last, _)| *last == conn).map_or(0, |(_, count)| count);
        self.ring_io.full = Some((conn, before + 1));
        if before + 1 == BULK {
            self.read_in_bulk(conn);
        }
    }

    fn read_in_bulk(&mut self, conn: ConnId) {
        let Some(slot) = self.conns.get(conn) else { return };
        if slot.reader == Reader::Ring && slot.stage == Stage::Open {
            slot.ready = slot.ready.max(Ready::Bytes);
            self.pace.begins(conn, self.now);
            self.leave_ring(conn);
            self.enqueue(conn);
        }
    }

    /// A read has emptied a socket. Unless it was large, the ring may read ahead again.
    #[inline]
    pub(crate) fn emptied(&mut self, conn: ConnId, length: usize) {
        if length >= LARGE {
            return self.large_read(conn, length);
        }
        if self.pace.is_on() && self.leave_pace(conn) || !self.ring_io.on {
            return;
        }
        let Some(slot) = self.conns.get(conn) else { return };
        if slot.reader == Reader::Epoll && slot.reads() && slot.ready == Ready::Nothing {
            self.begin_reading(conn);
        }
    }

    /// A receive has ended by itself, with its last bytes delivered.
    pub(crate) fn receive_stopped(&mut self, conn: ConnId) {
        let Some(slot) = self.conns.get(conn) else { return };
        match slot.reader {
            Reader::Ring => self.ring_io.receives.push(conn),
            Reader::Leaving => self.left_ring(conn),
            Reader::Epoll | Reader::Paced => {}
        }
    }

    /// A receive has ended.
    pub(crate) fn receive_ended(&mut self, conn: ConnId, ended: &Ended) {
        let Some(slot) = self.conns.get(conn) else { return self.ring_io.needs_no_cancel(conn) };
        match ended {
            Ended::NoBuffers | Ended::Cancelled => return self.receive_stopped(conn),
            Ended::Eof => slot.ready = slot.ready.max(Ready::Ending),
            // What arrived before is read first, as after a write that failed.
            Ended::Error(_) => slot.ready = Ready::Broken,
        }
        slot.reader = Reader::Epoll;
        match slot.stage {
            Stage::Lingering if slot.ready == Ready::Broken => self.drop_conn(conn),
            Stage::Lingering => self.closed_ended(conn),
            Stage::Open if !slot.paused => self.enqueue(conn),
            Stage::Open | Stage::Detaching if slot.ready == Ready::Broken => self.fail_conn(conn),
            Stage::Open => {
                self.enqueue(conn);
                // A reset may follow.
                self.watch_by_epoll(conn);
            }
            Stage::Detaching => self.take_out(conn),
            _ => {}
        }
    }

    /// The ring has finished with a connection: it detaches, moves to epoll, or may be read ahead again.
    fn left_ring(&mut self, conn: ConnId) {
        let Some(slot) = self.conns.get(conn) else { return };
        slot.reader = Reader::Epoll;
        match slot.stage {
            Stage::Detaching => self.take_out(conn),
            // In a bulk transfer one piece may have been short.
            Stage::Open if !slot.paused && slot.ready == Ready::Nothing && !self.pace.knows(conn, self.now) => {
                self.begin_reading(conn);
            }
            Stage::Open | Stage::Lingering => self.watch_by_epoll(conn),
            _ => {}
        }
    }

    /// A send has ended: the rest, if any, becomes the front of the backlog.
    pub(crate) fn sent(&mut self, conn: ConnId, bytes: Vec<u8>, taken: io::Result<usize>) {
        let Some(slot) = self.conns.get(conn) else { return self.ring_io.keep(bytes) };
        slot.outgoing = Outgoing::Nothing;
        let taken = match taken {
            Ok(taken) => taken,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => 0,
            Err(_) => {
                self.ring_io.keep(bytes);
                return self.fail_conn(conn);
            }
        };
        if taken == bytes.len() {
            self.ring_io.keep(bytes);
            return self.sent_all(conn);
        }
        if slot.ready == Ready::Broken {
            return self.ring_io.keep(bytes);
        }
        let first = slot.backlog == NONE;
        let kept = self.backlogs.keep_first(slot, &bytes[taken..]);
        self.ring_io.keep(bytes);
        self.kept(conn, first, kept);
    }

    #[inline]
    fn sent_all(&mut self, conn: ConnId) {
        let Some(slot) = self.conns.get(conn) else { return };
        match slot.stage {
            _ if slot.backlog != NONE => self.drain(conn),
            Stage::Lingering => self.note_progress(conn),
            Stage::Detaching => self.take_out(conn),
            _ => {}
        }
    }

    /// Stores bytes of a paused connection; drops those of a closed one.
    pub(crate) fn hold(&mut self, conn: ConnId, bytes: &[u8]) {
        let Some(slot) = self.conns.get(conn) else { return };
        if slot.stage == Stage::Lingering {
            return self.dropped(conn, bytes.len());
        }
        if self.ring_io.hold(conn, slot, bytes) > HELD {
            self.leave_ring(conn);
        }
    }
}
