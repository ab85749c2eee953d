//! The sockets of closed connections: what was queued before the close is sent, and what still arrives is read and
//! dropped.
//!
//! A close with unread bytes resets the connection, and so do bytes that arrive after it; a reset may destroy what the
//! other end has not read yet. So the last bytes are followed by the end of our stream only, and the socket is closed
//! when the other end has closed, too. Owns which sockets these are, and since when. Invariants: how long they stay,
//! how many they are, what they hold and what is read from each has a limit; beyond it the oldest is closed at once, of
//! those that have sent everything before those that have not.

use std::collections::{HashMap, VecDeque};

use weir_base::{ConnId, Span, Time, shrink};

use crate::slots::{Ready, Slot};

/// How long a closed connection's socket stays open while nothing happens, and at the most.
const LINGER: Span = Span::from_secs(5);
const LONGEST: Span = Span::from_secs(60);
/// Fewer bytes at once don't keep the socket open.
const MUCH: usize = 4096;
/// Sockets of the process that have sent everything, and wait for the other end to close.
pub(super) const MOST_SENT: usize = weir_config::CLOSING_DESCRIPTORS as usize;
/// Sockets of a worker that have not sent everything, and the bytes that wait for them.
const MOST_UNSENT: usize = 1000;
const MOST_UNSENT_BYTES: usize = 64 * 1024 * 1024;
/// The most bytes that are read and dropped from one socket.
const MOST_DROPPED: usize = 16 * 1024 * 1024;

/// The socket of a closed connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Closed {
    /// The bytes that waited for the socket when the connection was closed; `None` when all are sent.
    pub(super) unsent: Option<usize>,
    /// How many further bytes of the socket are read.
    left: usize,
    /// Whether the other end sends no more.
    pub(super) ended: bool,
    since: Time,
    /// Whether the other end has taken bytes, or sent many, since this was asked last.
    proceeds: bool,
}

impl Closed {
    pub(super) fn new(unsent: Option<usize>, ended: bool, since: Time) -> Closed {
        Closed { unsent, left: MOST_DROPPED, ended, since, proceeds: false }
    }
}

/// The sockets of a worker's closed connections.
#[derive(Debug)]
pub(crate) struct Closing {
    /// ConnSlots that are closed at the end of this turn, and whether their last bytes are to be received.
    pub(super) asked: Vec<(ConnId, bool)>,
    /// The sockets, by slot.
    pub(super) sockets: HashMap<u32, Closed>,
    /// The connections in the order of their closes, or of when they were last seen to proceed; some may be gone.
    pub(super) order: VecDeque<(Time, ConnId)>,
    most_sent: usize,
    pub(super) sent: usize,
    unsent_bytes: usize,
}

impl Closing {
    /// The sockets of one worker, where the process has this many workers.
    pub(crate) fn new(workers: u16) -> Closing {
        Closing {
            asked: Vec::new(),
            sockets: HashMap::new(),
            order: VecDeque::new(),
            most_sent: (MOST_SENT / usize::from(workers.max(1))).max(1),
            sent: 0,
            unsent_bytes: 0,
        }
    }

    /// Notes that a connection, which is still open, is closed at the end of the turn.
    pub(super) fn ask(&mut self, conn: ConnId, slot: &Slot, has_last_bytes: bool) {
        // Output of this turn, output of earlier ones, input that would be answered by a reset.
        let has_more = slot.has_output() || slot.owes() || slot.ready == Ready::Bytes || slot.held;
        self.asked.push((conn, has_last_bytes || has_more));
    }

    #[inline]
    pub(super) fn is_asked(&self) -> bool {
        !self.asked.is_empty()
    }

    /// When the next socket is given up.
    #[inline]
    pub(crate) fn deadline(&self) -> Time {
        self.order.front().map_or(Time::NEVER, |(since, _)| *since + LINGER)
    }

    /// A connection whose socket is given up now; `is_one` tells whether a connection is still there.
    pub(super) fn due(&mut self, now: Time, is_one: impl Fn(ConnId) -> bool) -> Option<ConnId> {
        while let Some((since, conn)) = self.order.front().copied()
            && since + LINGER <= now
        {
            self.order.pop_front();
            shrink(&mut self.order, MOST_SENT);
            let Some(closed) = self.sockets.get_mut(&conn.slot).filter(|_| is_one(conn)) else { continue };
            if !std::mem::take(&mut closed.proceeds) || closed.since + LONGEST <= now {
                return Some(conn);
            }
            self.order.push_back((now, conn));
        }
        None
    }

    pub(super) fn insert(&mut self, conn: ConnId, closed: Closed) {
        self.sent += usize::from(closed.unsent.is_none());
        self.unsent_bytes += closed.unsent.unwrap_or_default();
        self.sockets.insert(conn.slot, closed);
        self.order.push_back((closed.since, conn));
    }

    /// The other end takes bytes.
    pub(super) fn note_taken(&mut self, slot: u32) {
        if let Some(closed) = self.sockets.get_mut(&slot) {
            closed.proceeds = true;
        }
    }

    /// Everything is sent. Returns whether the other end has ended, too; `None` if that is known already.
    pub(super) fn note_sent(&mut self, slot: u32) -> Option<bool> {
        let closed = self.sockets.get_mut(&slot)?;
        self.unsent_bytes -= closed.unsent.take()?;
        self.sent += 1;
        Some(closed.ended)
    }

    /// The other end sends no more. Returns whether everything is sent.
    pub(super) fn note_end(&mut self, slot: u32) -> bool {
        let Some(closed) = self.sockets.get_mut(&slot) else { return true };
        closed.ended = true;
        closed.unsent.is_none()
    }

    /// Bytes have been read and dropped; `false` if no more may be read.
    pub(super) fn note_dropped(&mut self, slot: u32, length: usize) -> bool {
        let Some(closed) = self.sockets.get_mut(&slot) else { return false };
        closed.proceeds |= length >= MUCH;
        let left = closed.left.checked_sub(length);
        closed.left = left.unwrap_or_default();
        left.is_some()
    }

    pub(super) fn reads(&self, slot: u32) -> bool {
        self.sockets.get(&slot).is_some_and(|closed| !closed.ended)
    }

    /// A connection's socket is closed.
    pub(super) fn forget(&mut self, slot: u32) {
        let Some(closed) = self.sockets.remove(&slot) else { return };
        shrink(&mut self.sockets, MOST_SENT);
        self.sent -= usize::from(closed.unsent.is_none());
        self.unsent_bytes -= closed.unsent.unwrap_or_default();
    }

    /// The connection to close next, where there are too many.
    pub(super) fn surplus(&self, is_one: impl Fn(ConnId) -> bool) -> Option<ConnId> {
        let unsent = self.sockets.len() - self.sent;
        let too_much = unsent > MOST_UNSENT || unsent > 1 && self.unsent_bytes > MOST_UNSENT_BYTES;
        let sent = match (self.sent > self.most_sent, too_much) {
            (true, _) => true,
            (false, true) => false,
            (false, false) => return None,
        };
        let is = |conn: ConnId| self.sockets.get(&conn.slot).is_some_and(|closed| closed.unsent.is_none() == sent);
        self.order.iter().map(|(_, conn)| *conn).find(|conn| is(*conn) && is_one(*conn))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed(unsent: Option<usize>) -> Closed {
        Closed::new(unsent, false, at(1))
    }

    fn at(seconds: u64) -> Time {
        Time::START + Span::from_secs(seconds)
    }

    /// Closes what is too much, as a port does.
    fn reduce(closing: &mut Closing) -> Vec<u32> {
        let mut gone = Vec::new();
        while let Some(conn) = closing.surplus(|_| true) {
            closing.forget(conn.slot);
            gone.push(conn.slot);
        }
        gone
    }

    #[test]
    fn the_oldest_that_have_sent_everything_make_room_and_displace_none_that_have_not() {
        let mut closing = Closing::new(10);
        (0..5).for_each(|slot| closing.insert(ConnId::new(slot, 0), closed(Some(1000))));
        (5..20).for_each(|slot| closing.insert(ConnId::new(slot, 0), closed(None)));
        assert_eq!(reduce(&mut closing), [5, 6, 7, 8, 9]);
        assert_eq!(closing.note_sent(0), Some(false));
        assert_eq!(closing.note_sent(0), None, "that is known");
        assert_eq!(reduce(&mut closing), [0]);
        assert_eq!((closing.sent, closing.unsent_bytes, closing.sockets.len()), (10, 4000, 14));
    }

    #[test]
    fn what_waits_is_bounded_in_bytes_and_in_number_but_for_the_last() {
        let mut closing = Closing::new(1);
        closing.insert(ConnId::new(0, 0), closed(Some(2 * MOST_UNSENT_BYTES)));
        assert!(reduce(&mut closing).is_empty());
        closing.insert(ConnId::new(1, 0), closed(Some(1)));
        assert_eq!(reduce(&mut closing), [0]);
        (2..MOST_UNSENT as u32 + 3).for_each(|slot| closing.insert(ConnId::new(slot, 0), closed(Some(1))));
        assert_eq!(reduce(&mut closing), [1, 2]);
        (0..MOST_UNSENT as u32 + 3).for_each(|slot| closing.forget(slot));
        assert_eq!((closing.sent, closing.unsent_bytes), (0, 0));
    }

    #[test]
    fn each_is_given_up_when_its_time_has_passed() {
        let mut closing = Closing::new(1);
        assert_eq!(closing.deadline(), Time::NEVER);
        let due = |closing: &mut Closing, now| closing.due(now, |_| true).map(|conn| conn.slot);
        closing.insert(ConnId::new(7, 3), closed(None));
        closing.insert(ConnId::new(8, 3), Closed::new(Some(1), false, at(2)));
        assert_eq!(closing.deadline(), at(1) + LINGER);
        assert_eq!(due(&mut closing, at(1)), None);
        assert_eq!(due(&mut closing, at(1) + LINGER), Some(7));
        assert_eq!(due(&mut closing, at(1) + LINGER), None);
        assert_eq!(due(&mut closing, at(2) + LINGER), Some(8));
    }

    #[test]
    fn one_that_proceeds_has_more_time_and_not_for_ever() {
        let mut closing = Closing::new(1);
        closing.insert(ConnId::new(7, 3), closed(Some(1)));
        let mut now = at(1);
        let given_up = (0..100).find_map(|_| {
            now = now + LINGER;
            closing.note_taken(7);
            closing.due(now, |_| true)
        });
        assert_eq!((given_up, now), (Some(ConnId::new(7, 3)), at(1) + LONGEST));
        closing.insert(ConnId::new(8, 3), Closed::new(None, false, now));
        assert!(closing.note_dropped(8, 1));
        assert_eq!(closing.due(now + LINGER, |_| true), Some(ConnId::new(8, 3)), "a byte keeps nothing open");
    }

    #[test]
    fn a_socket_that_sends_without_end_is_read_to_a_limit() {
        let mut closing = Closing::new(1);
        closing.insert(ConnId::new(0, 0), closed(None));
        assert!(closing.note_dropped(0, MOST_DROPPED) && !closing.note_dropped(0, 1));
        assert!(!closing.note_end(1) || closing.sockets.len() == 1);
    }
}
