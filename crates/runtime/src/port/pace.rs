//! Bulk transfers: which connections send one, and when their sockets are read.
//!
//! A server sends a large result in pieces of 8 KiB. A worker that reads each piece when it arrives makes four calls to
//! the kernel for it, and wakes up once. So a socket that sends fast, for a while, is read at intervals: bytes gather
//! in its buffer, and a read returns many pieces at once. Between reads neither epoll nor the ring reports its bytes.
//!
//! Owns the connections that are read at intervals, and the bytes of those that may be next; `paced` reads them.
//! Invariants: a connection that is not read from (a slow reader has paused it) is not read at intervals either: epoll
//! watches it, so that its end is noticed. The first read that finds little ends the intervals, so the last bytes of a
//! transfer wait for at most [`INTERVAL`].

use weir_base::{ConnId, Span, Time};

/// A read of at least this many bytes may be a part of a bulk transfer: a ring's buffer.
pub(super) const LARGE: usize = 4096;
/// The time between two reads. The bytes that gather in it must fit into the kernel's buffers, at 1 GB/s.
pub(super) const INTERVAL: Span = Span::from_micros(100);
/// The bytes in large reads, and the time for them, that start the reads at intervals: a transfer that takes several.
const BEGIN: (u32, Span) = (512 * 1024, Span::from_millis(5));
/// A read at an interval that finds fewer bytes ends them: too little gathers.
pub(super) const WORTH: usize = 16 * 1024;
/// Two large reads with more time between them belong to two transfers.
const GAP: Span = Span::from_millis(2);
/// How many connections that may be in a transfer are followed; two in the same place replace each other.
const FOLLOWED: usize = 32;

/// A connection with large reads.
#[derive(Clone, Copy, Debug)]
struct Followed {
    conn: ConnId,
    bytes: u32,
    first: Time,
    last: Time,
}

/// The bulk transfers of a worker.
#[derive(Debug)]
pub(crate) struct Pace {
    followed: [Followed; FOLLOWED],
    /// ConnSlots that are read at intervals; some may have left.
    pub(super) paced: Vec<ConnId>,
    /// The next read of all of these connections.
    pub(super) due: Time,
}

impl Default for Pace {
    fn default() -> Self {
        let none = Followed { conn: ConnId::NONE, bytes: 0, first: Time::START, last: Time::START };
        Pace { followed: [none; FOLLOWED], paced: Vec::new(), due: Time::NEVER }
    }
}

impl Pace {
    /// Whether any connection is read at intervals.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.due != Time::NEVER
    }

    /// When all of these connections are read next.
    #[inline]
    pub(crate) fn due(&self) -> Time {
        self.due
    }

    fn of(&mut self, conn: ConnId) -> &mut Followed {
        &mut self.followed[conn.slot as usize % FOLLOWED]
    }

    /// A connection has begun to send much.
    pub(super) fn begins(&mut self, conn: ConnId, now: Time) {
        *self.of(conn) = Followed { conn, bytes: 0, first: now, last: now };
    }

    /// Whether a connection has sent much just now.
    pub(super) fn knows(&mut self, conn: ConnId, now: Time) -> bool {
        let followed = self.of(conn);
        followed.conn == conn && now.since(followed.last) <= GAP
    }

    /// Notes a large read; returns whether the connection is to be read at intervals.
    pub(super) fn note(&mut self, conn: ConnId, length: usize, now: Time) -> bool {
        if !self.knows(conn, now) || now.since(self.of(conn).first) > BEGIN.1 {
            self.begins(conn, now);
        }
        let followed = self.of(conn);
        followed.bytes = followed.bytes.saturating_add(length as u32);
        followed.last = now;
        followed.bytes >= BEGIN.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: ConnId = ConnId::new(3, 1);

    /// Whether a stream of such pieces, with this time between them, is read at intervals after 2 MiB.
    fn begins(piece: usize, between: Span) -> bool {
        let (mut pace, mut now) = (Pace::default(), Time::from_micros(5_000_000));
        (0..(2 << 20) / piece).any(|_| {
            now = now + between;
            pace.note(PEER, piece, now)
        })
    }

    #[test]
    fn a_fast_stream_is_read_at_intervals_and_a_slow_one_is_not() {
        assert!(begins(8 << 10, Span::from_micros(20)) && begins(64 << 10, Span::from_micros(400)));
        assert!(!begins(8 << 10, Span::from_micros(300)), "27 MB/s: too little gathers between two reads");
        assert!(!begins(64 << 10, Span::from_millis(3)), "results of several queries are no stream");
    }

    #[test]
    fn peers_with_one_place_are_not_taken_for_each_other() {
        let (mut pace, now) = (Pace::default(), Time::from_micros(5_000_000));
        let other = ConnId::new(3 + FOLLOWED as u32, 1);
        assert!(!(0..100).any(|_| pace.note(PEER, 16 << 10, now) || pace.note(other, 16 << 10, now)));
        assert!(pace.knows(other, now) && !pace.knows(PEER, now) && !pace.knows(ConnId::new(3, 2), now));
        assert!((0..100).any(|_| pace.note(PEER, 16 << 10, now)));
    }

    #[test]
    fn nothing_is_due_while_no_peer_is_read_at_intervals() {
        assert!(!Pace::default().is_on() && Pace::default().due() == Time::NEVER);
    }
}
