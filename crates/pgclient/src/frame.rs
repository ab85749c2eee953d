//! A message of the server, and text in it.

/// One message from the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Which message; see [`weir_pgwire::tag::back`].
    pub tag: u8,
    /// All that follows the length.
    pub body: Vec<u8>,
}

/// Text of a message; PostgreSQL need not send UTF-8.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
