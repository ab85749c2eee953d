//! The port for one link: two connections and the bytes that are being handled.
//!
//! Adjacent ranges are sent as one: consecutive messages of the same input cost one call of the port.

use std::ops::Range;

use weir_base::ConnId;
use weir_session::Out;

use crate::port::Io;

/// Sends for one link. Ranges are sent by [`Wire::finish`], if not before.
pub(crate) struct Wire<'a, I: Io> {
    io: &'a mut I,
    client: ConnId,
    server: ConnId,
    /// The bytes that ranges refer to.
    bytes: &'a [u8],
    /// The position of the bytes in the runtime's current input; `None` if they are the engine's own.
    base: Option<usize>,
    /// Bytes sent so far to the client, for the statistics.
    to_client: u64,
    /// A range that is not sent yet, and its receiver: the next may extend it. Empty if there is none.
    pending: Range<usize>,
    to: ConnId,
}

impl<'a, I: Io> Wire<'a, I> {
    /// A link's wire over `bytes`.
    #[inline]
    pub(crate) fn new(io: &'a mut I, client: ConnId, server: ConnId, bytes: &'a [u8], base: Option<usize>) -> Self {
        Wire { io, client, server, bytes, base, to_client: 0, pending: 0..0, to: ConnId::NONE }
    }

    /// Sends what is pending. Returns how many bytes the client was sent.
    #[inline]
    pub(crate) fn finish(mut self) -> u64 {
        self.flush();
        self.to_client
    }

    #[inline]
    fn range(&mut self, to: ConnId, range: Range<usize>) {
        if self.pending.end == range.start && self.to == to {
            self.pending.end = range.end;
        } else {
            self.flush();
            (self.pending, self.to) = (range, to);
        }
    }

    #[inline]
    fn flush(&mut self) {
        let Range { start, end } = self.pending;
        if start != end {
            self.pending.start = end;
            match self.base {
                Some(base) => self.io.forward(self.to, base + start..base + end),
                None => self.io.send(self.to, &self.bytes[start..end]),
            }
        }
    }
}

impl<I: Io> Out for Wire<'_, I> {
    #[inline]
    fn client_range(&mut self, range: Range<usize>) {
        self.to_client += range.len() as u64;
        self.range(self.client, range);
    }

    fn client(&mut self, bytes: &[u8]) {
        self.flush();
        self.to_client += bytes.len() as u64;
        self.io.send(self.client, bytes);
    }

    #[inline]
    fn server_range(&mut self, range: Range<usize>) {
        self.range(self.server, range);
    }

    fn server(&mut self, bytes: &[u8]) {
        self.flush();
        self.io.send(self.server, bytes);
    }
}
