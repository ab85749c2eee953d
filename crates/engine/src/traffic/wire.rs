//! The port as one link sees it: two peers and the bytes that are being handled.

use std::ops::Range;

use weir_base::Peer;
use weir_session::Out;

use crate::port::Io;

/// Sends for one link.
pub(crate) struct Wire<'a, I> {
    pub(crate) io: &'a mut I,
    pub(crate) client: Peer,
    pub(crate) server: Peer,
    /// The bytes that ranges refer to.
    pub(crate) bytes: &'a [u8],
    /// Where they stand in the runtime's current input; `None` if they are the engine's own.
    pub(crate) base: Option<usize>,
    /// Bytes sent so far to the client and to the server, for the statistics.
    pub(crate) to_client: u64,
    pub(crate) to_server: u64,
}

impl<'a, I: Io> Wire<'a, I> {
    /// A link's wire over `bytes`.
    pub(crate) fn new(io: &'a mut I, client: Peer, server: Peer, bytes: &'a [u8], base: Option<usize>) -> Self {
        Wire { io, client, server, bytes, base, to_client: 0, to_server: 0 }
    }

    #[inline]
    fn range(&mut self, to: Peer, range: Range<usize>) {
        match self.base {
            Some(base) => self.io.forward(to, base + range.start..base + range.end),
            None => self.io.send(to, &self.bytes[range]),
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
        self.to_client += bytes.len() as u64;
        self.io.send(self.client, bytes);
    }

    #[inline]
    fn server_range(&mut self, range: Range<usize>) {
        self.to_server += range.len() as u64;
        self.range(self.server, range);
    }

    fn server(&mut self, bytes: &[u8]) {
        self.to_server += bytes.len() as u64;
        self.io.send(self.server, bytes);
    }
}
