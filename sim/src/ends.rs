//! The words of the network: who is connected to whom, and what happens to a connection.

use std::fmt;

use weir_base::{Peer, Target};

/// Whom a connection's end belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// Closed, or not yet accepted.
    Nobody,
    /// A client's session, by its number.
    Client(u32),
    /// A client's connection that carries a cancel request, by the client's number.
    Canceller(u32),
    /// A process of a PostgreSQL server, by its number.
    Backend(u32),
    /// An engine, under the handle it knows the socket by.
    Engine(u16, Peer),
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Owner::Nobody => f.write_str("?"),
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

/// One end of one connection; what a socket is to a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct End {
    /// The connection; numbers are never reused.
    pub(crate) conn: u32,
    /// Which end of it.
    pub(crate) side: Side,
}

impl End {
    /// The end at the other side.
    pub(crate) fn peer(self) -> End {
        End { conn: self.conn, side: self.side.other() }
    }
}

/// Where a connect goes to.
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
    /// A connect reaches its goal.
    Arrive(u32),
    /// Something may be read at this end.
    Deliver(End),
    /// All that this end's owner wrote has been taken.
    Drained(End),
    /// A closed end stops offering what it still holds.
    Linger(End),
}

/// What an end's owner is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Happening {
    /// A connect asks for whoever listens there; to be answered with [`Net::accept`] or [`Net::refuse`].
    Arrived(Address),
    /// The connection stands.
    Connected,
    /// Nobody listens, or the network is broken.
    ConnectFailed,
    /// Bytes arrived; they are in the scratch buffer.
    Bytes,
    /// The other end will write no more.
    Eof,
    /// The same of an end that is not read from: what was written before may stand unread.
    Ending,
    /// The connection broke.
    Error,
    /// All that was written has been taken.
    Drained,
}

/// Whether all of a write was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Written {
    /// The network has it all.
    All,
    /// Some of it waits at this end; [`Happening::Drained`] will follow.
    Refused,
}
