//! Whether an encrypted connection continues.

/// The phase of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// The connection continues.
    Open,
    /// The other side has said that nothing more will come (close_notify).
    Closed,
    /// The connection is not to be used any more.
    Broken,
}
