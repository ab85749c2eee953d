//! The network's basic types: ends of connections, their owners, and their events.

use std::fmt;

use weir_base::{ConnId, Target};

/// The owner of a connection's end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// Closed, or not yet accepted.
    None,
    /// A client's session, by its number.
    Client(u32),
    /// A client's connection that carries a cancel request, by the client's number.
    Canceller(u32),
    /// A process of a PostgreSQL server, by its number.
    Backend(u32),
    /// An engine, under the handle it knows the socket by.
    Engine(u16, ConnId),
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Owner::None => f.write_str("?"),
            Owner::Client(number) | Owner::Canceller(number) => write!(f, "c{number}"),
            Owner::Backend(number) => write!(f, "s{number}"),
            Owner::Engine(worker, _) => write!(f, "w{worker}"),
        }
    }
}

/// The two ends of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// The end that connected.
    Near,
    /// The end that accepted.
    Far,
}

impl Side {
    pub(crate) fn other(self) -> Side {
        match self {
            Side::Near => Side::Far,
            Side::Far => Side::Near,
        }
    }
}

/// One end of one connection: the counterpart of a process's socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct End {
    /// The connection; numbers are never reused.
    pub(crate) conn: u32,
    /// Which end of the connection.
    pub(crate) side: Side,
}

impl End {
    /// The end at the other side.
    pub(crate) fn peer(self) -> End {
        End { conn: self.conn, side: self.side.other() }
    }
}

/// The destination of a connect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Address {
    /// To the pooler's listener.
    Pooler,
    /// To a PostgreSQL server.
    Server(Target),
}

/// The network's own events.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NetEvent {
    /// A connect reaches its destination.
    Arrive(u32),
    /// This end may be readable.
    Deliver(End),
    /// All that this end's owner wrote is in the pipe.
    Drained(End),
    /// A closed end gives up delivering its remaining bytes.
    Linger(End),
}

/// An event for the owner of an end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum SocketEvent {
    /// A connect has reached its address; answered with [`Net::accept`] or [`Net::refuse`].
    Arrived(Address),
    /// The connection is established.
    Connected,
    /// There is no listener, or the network is broken.
    ConnectFailed,
    /// Bytes arrived; they are in the scratch buffer.
    Bytes,
    /// The other end will write no more.
    Eof,
    /// The other end will write no more, and this end's reading is paused; bytes sent before may still be unread.
    Ending,
    /// The connection broke.
    Error,
    /// All that was written is in the pipe.
    Drained,
}

/// Whether all of a write fit into the pipe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Written {
    /// All bytes are in the pipe.
    All,
    /// Some bytes wait at this end; [`SocketEvent::Drained`] will follow.
    Refused,
}
