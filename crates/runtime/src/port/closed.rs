//! Closes connections: the last bytes of each are sent, and what its other end still sends is read and dropped.
//!
//! The rules are at the top of `closing`.

use std::io::ErrorKind;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weir_base::{ConnId, Span, shrink};
use weir_engine::port::Gone;

use super::Port;
use super::closing::{Closed, MOST_SENT};
use crate::slots::{NONE, Ready, Stage};

/// How long the end of the process waits for all closed connections, and for those that have sent everything, while
/// nothing comes.
const LAST: Span = Span::from_secs(2);
const QUIET: Span = Span::from_millis(100);

impl Port {
    /// The engine closes a connection.
    pub(super) fn ask_close(&mut self, conn: ConnId, has_last_bytes: bool) {
        let Some(slot) = self.conns.live(conn) else { return };
        self.closing.ask(conn, slot, has_last_bytes);
        // A connect under way is abandoned.
        if slot.stage == Stage::Connecting || slot.stage == Stage::Detached {
            slot.ready = Ready::Broken;
        }
        slot.stage = Stage::Lingering;
    }

    /// Closes the connections that were closed in this turn.
    #[cold]
    pub(super) fn finish_closing(&mut self) {
        while let Some((conn, has_last_bytes)) = self.closing.asked.pop() {
            self.say_closed(conn);
            self.part(conn, false, has_last_bytes);
        }
    }

    /// Closes a connection before the engine learns of it. `false` if the engine has no such connection.
    pub(crate) fn close_conn(&mut self, conn: ConnId, cause: Gone) -> bool {
        let Some(slot) = self.conns.live(conn) else { return false };
        if slot.stage == Stage::Connecting {
            slot.ready = Ready::Broken;
        }
        // If the connection did not break, an error is TLS's, and its last bytes are the alert.
        self.part(conn, cause == Gone::Eof, cause == Gone::Error);
        true
    }

    /// Closes a connection, after its last bytes are sent. Every close goes through this function. `ended`: the other
    /// end has sent all.
    fn part(&mut self, conn: ConnId, ended: bool, has_last_bytes: bool) {
        let Some(slot) = self.conns.get(conn) else { return };
        let waits = slot.owes() || has_last_bytes && !ended;
        if !waits || slot.socket.is_none() || slot.ready == Ready::Broken {
            return self.drop_conn(conn);
        }
        slot.stage = Stage::Lingering;
        if std::mem::take(&mut slot.held) {
            self.ring_io.forget_held(conn.slot);
        }
        let tls = std::mem::replace(&mut slot.tls, NONE);
        self.forget_tls(conn, tls);
        let Some(slot) = self.conns.get(conn) else { return };
        let unsent = Some(self.backlogs.length(slot));
        self.closing.insert(conn, Closed::new(unsent, ended, self.now));
        if !ended {
            self.drop_input(conn);
        }
        self.note_progress(conn);
        self.close_surplus();
    }

    /// Has a closed connection's input read.
    fn drop_input(&mut self, conn: ConnId) {
        if !self.leave_pace(conn) {
            self.watch_by_epoll(conn);
        }
        if self.conns.get(conn).is_some_and(|slot| slot.ready != Ready::Nothing) {
            self.enqueue(conn);
        }
    }

    /// Reads a closed connection once.
    pub(crate) fn read_closed(&mut self, conn: ConnId, scratch: &mut [u8]) {
        let reads = self.closing.reads(conn.slot);
        let Some(slot) = self.conns.get(conn).filter(|_| reads) else { return };
        let Some(socket) = slot.socket.as_mut() else { return };
        match socket.read(scratch) {
            Ok(0) => self.closed_ended(conn),
            Ok(length) => {
                let again = length == scratch.len() || slot.ready > Ready::Bytes;
                if again {
                    self.enqueue(conn);
                } else {
                    slot.ready = Ready::Nothing;
                }
                self.dropped(conn, length);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => slot.ready = Ready::Nothing,
            Err(error) if error.kind() == ErrorKind::Interrupted => self.enqueue(conn),
            Err(_) => self.drop_conn(conn),
        }
    }

    /// Closes the sockets whose time has passed.
    pub(crate) fn close_due(&mut self) {
        loop {
            let Port { closing, conns, now, .. } = self;
            let Some(conn) = closing.due(*now, |conn| conns.is_lingering(conn)) else { return };
            self.drop_conn(conn);
        }
    }

    /// The process ends: closed connections get their last bytes, within a short time.
    pub(crate) fn close_last(&mut self, scratch: &mut [u8]) {
        let until = self.shared.clock.now() + LAST;
        loop {
            let conns: Vec<ConnId> = self.closing.order.iter().map(|(_, conn)| *conn).collect();
            let conns: Vec<ConnId> = conns.into_iter().filter(|conn| self.conns.is_lingering(*conn)).collect();
            let left = until.since(self.shared.clock.now());
            if conns.is_empty() || left.is_zero() {
                return;
            }
            let all_sent = self.closing.sent == self.closing.sockets.len();
            let ready = self.await_any(&conns, if all_sent { left.min(QUIET) } else { left });
            if ready.is_empty() {
                return;
            }
            for conn in ready {
                self.drain(conn);
                self.read_closed(conn, scratch);
            }
        }
    }

    /// Waits, for `most` at the longest, until sockets of these connections have something to read, or room for bytes
    /// that wait; returns those connections.
    fn await_any(&self, conns: &[ConnId], most: Span) -> Vec<ConnId> {
        let sockets = conns.iter().filter_map(|conn| {
            let closed = self.closing.sockets.get(&conn.slot)?;
            let mut events = PollFlags::empty();
            events.set(PollFlags::IN, !closed.ended);
            events.set(PollFlags::OUT, closed.unsent.is_some());
            Some((*conn, PollFd::from_borrowed_fd(self.conns.socket(*conn)?.fd(), events)))
        });
        let (conns, mut sockets): (Vec<ConnId>, Vec<PollFd<'_>>) = sockets.unzip();
        let Ok(time) = Timespec::try_from(Duration::from_micros(most.micros())) else { return Vec::new() };
        if poll(&mut sockets, Some(&time)).is_err() {
            return Vec::new();
        }
        let is_ready = |(_, socket): &(ConnId, PollFd<'_>)| !socket.revents().is_empty();
        conns.into_iter().zip(sockets).filter(is_ready).map(|(conn, _)| conn).collect()
    }

    fn close_surplus(&mut self) {
        loop {
            let Port { closing, conns, .. } = self;
            let is_one = |conn: ConnId| conns.is_lingering(conn);
            let Some(conn) = closing.surplus(is_one) else { break };
            self.drop_conn(conn);
        }
        // Entries of connections that are gone are dropped.
        if self.closing.order.len() > 2 * self.closing.sockets.len() + MOST_SENT {
            let Port { closing, conns, .. } = self;
            closing.order.retain(|(_, conn)| conns.is_lingering(*conn));
            shrink(&mut closing.order, MOST_SENT);
        }
    }

    /// Descriptors are lacking: closes the sockets that have sent everything.
    pub(super) fn close_sent(&mut self) {
        let conns: Vec<ConnId> = self.closing.order.iter().map(|(_, conn)| *conn).collect();
        for conn in conns {
            let sent = self.closing.sockets.get(&conn.slot).is_some_and(|closed| closed.unsent.is_none());
            if sent && self.conns.is_lingering(conn) {
                self.drop_conn(conn);
            }
        }
    }
}
