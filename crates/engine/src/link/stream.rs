//! A link whose bytes are passed on as they are: that of a replication connection, whose server is its client's alone.
//!
//! Owns where each direction stands between messages, for the statistics and so that nothing is written into the middle
//! of a message. Nothing is held here: a full socket stops its source like on any link.

use std::sync::Arc;

use weir_pgwire::tag::{back, front};
use weir_session::Params;
use weir_session::startup::Replication;

/// Both directions of a link whose bytes are passed on as they are.
#[derive(Debug)]
pub(crate) struct Stream {
    kind: Replication,
    /// What the server has reported at its login, for the tables.
    params: Arc<Params>,
    from_client: Boundaries,
    from_server: Boundaries,
}

/// What a stretch of a server's bytes has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ended {
    pub(crate) queries: u32,
    pub(crate) transactions: u32,
}

impl Stream {
    /// A link that has just been made.
    pub(crate) fn new(kind: Replication, params: Arc<Params>) -> Stream {
        Stream { kind, params, from_client: Boundaries::default(), from_server: Boundaries::default() }
    }

    /// The kind of replication that the link is for.
    pub(crate) fn kind(&self) -> Replication {
        self.kind
    }

    /// What the server has reported.
    pub(crate) fn params(&self) -> &Arc<Params> {
        &self.params
    }

    /// The client sent these bytes; returns whether it ends its session with them.
    pub(crate) fn client_sent(&mut self, bytes: &[u8]) -> bool {
        let mut terminated = false;
        self.from_client.follow(bytes, |tag, _| terminated |= tag == front::TERMINATE);
        terminated
    }

    /// The server sent these bytes; returns what they have ended.
    pub(crate) fn server_sent(&mut self, bytes: &[u8]) -> Ended {
        let mut ended = Ended::default();
        self.from_server.follow(bytes, |tag, status| {
            if tag == back::READY {
                ended.queries += 1;
                ended.transactions += u32::from(status == b'I');
            }
        });
        ended
    }

    /// Whether a message to the client has been sent only in part.
    pub(crate) fn is_mid_message(&self) -> bool {
        !self.from_server.is_between()
    }
}

/// The bytes of a message that are looked at: tag, length, and the first of its body.
const LOOKED_AT: usize = 6;

/// One direction's place in its stream of messages.
#[derive(Debug, Default)]
struct Boundaries {
    head: [u8; LOOKED_AT],
    /// How many bytes of `head` are there.
    have: usize,
    /// Bytes of the current message still to come, after its head.
    left: usize,
}

impl Boundaries {
    fn is_between(&self) -> bool {
        self.have == 0 && self.left == 0
    }

    /// Calls `each` with the tag of every message that begins, and the first byte of its body (0 if it has none).
    fn follow(&mut self, mut bytes: &[u8], mut each: impl FnMut(u8, u8)) {
        while !bytes.is_empty() {
            let skipped = self.left.min(bytes.len());
            self.left -= skipped;
            bytes = &bytes[skipped..];
            while let Some((byte, rest)) = bytes.split_first().filter(|_| self.left == 0) {
                self.head[self.have] = *byte;
                self.have += 1;
                bytes = rest;
                let Some(total) = self.total().filter(|total| self.have == LOOKED_AT.min(*total)) else { continue };
                let first = if total == LOOKED_AT - 1 { 0 } else { self.head[LOOKED_AT - 1] };
                each(self.head[0], first);
                self.left = total - self.have;
                self.have = 0;
            }
        }
    }

    /// The length of the current message with its tag, once it is known. A length that can't be is that of an empty
    /// message: the other side will refuse it.
    fn total(&self) -> Option<usize> {
        let [_, length @ .., _] = self.head;
        (self.have >= LOOKED_AT - 1).then(|| (u32::from_be_bytes(length) as usize).max(4) + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![tag];
        bytes.extend((body.len() as u32 + 4).to_be_bytes());
        bytes.extend(body);
        bytes
    }

    fn stream() -> Stream {
        Stream::new(Replication::Physical, Arc::default())
    }

    #[test]
    fn messages_are_found_however_they_are_cut() {
        let all = [
            message(b'W', &[0, 0, 0]),
            message(b'd', &[b'Z'; 100]),
            message(b'c', &[]),
            message(b'Z', b"I"),
            message(b'Z', b"T"),
        ]
        .concat();
        for size in 1..=all.len() {
            let mut stream = stream();
            let mut sum = Ended::default();
            for piece in all.chunks(size) {
                let ended = stream.server_sent(piece);
                sum.queries += ended.queries;
                sum.transactions += ended.transactions;
            }
            assert_eq!(sum, Ended { queries: 2, transactions: 1 }, "in pieces of {size}");
            assert!(!stream.is_mid_message());
        }
    }

    #[test]
    fn a_message_that_is_half_way_is_known_and_data_is_no_end() {
        let mut stream = stream();
        stream.server_sent(&message(b'd', b"abc")[..6]);
        assert!(stream.is_mid_message());
        assert!(!stream.client_sent(&message(b'd', b"X\0\0\0\x04")));
        assert!(stream.client_sent(&message(b'X', &[])));
    }
}
