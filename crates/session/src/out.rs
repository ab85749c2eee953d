//! Where a session's bytes go: the engine's port, narrowed to the two peers of one link.

use std::ops::Range;

use weir_pgwire::Head;

/// The two ends of a link, for writing.
pub trait Out {
    /// Queues a part of the input that is being handled for the client, without a copy.
    fn client_range(&mut self, range: Range<usize>);
    /// Queues bytes of ours for the client.
    fn client(&mut self, bytes: &[u8]);
    /// Queues a part of the input that is being handled for the server, without a copy.
    fn server_range(&mut self, range: Range<usize>);
    /// Queues bytes of ours for the server.
    fn server(&mut self, bytes: &[u8]);
}

/// The position of a message: in the input, or assembled from several.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    /// The message's bytes, as far as they are there.
    pub(crate) bytes: &'a [u8],
    /// Where they are in the input, if they are there in one piece.
    at: Option<usize>,
}

impl<'a> View<'a> {
    /// The message that begins at `at` in the input, as far as it is there.
    #[inline]
    pub(crate) fn in_input(input: &'a [u8], at: usize, head: Head) -> View<'a> {
        let bytes = &input[at..];
        View { bytes: &bytes[..bytes.len().min(head.total())], at: Some(at) }
    }

    /// A message that was held, as far as it is there.
    pub(crate) fn held(held: &'a [u8], head: Head) -> View<'a> {
        View { bytes: &held[..held.len().min(head.total())], at: None }
    }

    /// Sends a part of the message to the server.
    #[inline]
    pub(crate) fn to_server(self, range: Range<usize>, out: &mut impl Out) {
        match self.at {
            Some(at) => out.server_range(at + range.start..at + range.end),
            None => out.server(&self.bytes[range]),
        }
    }

    /// Sends a part of the message to the client.
    #[inline(always)]
    pub(crate) fn to_client(self, range: Range<usize>, out: &mut impl Out) {
        match self.at {
            Some(at) => out.client_range(at + range.start..at + range.end),
            None => out.client(&self.bytes[range]),
        }
    }
}
