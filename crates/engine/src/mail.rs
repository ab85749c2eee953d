//! What engines say to each other.

use std::sync::Arc;

use weir_admin::{CommandError, Report};
use weir_base::{ClientAddr, Time};
use weir_config::Config;
use weir_session::hello::Hello;

/// A message from one worker's engine to another's. Opaque to whoever carries it.
#[derive(Debug)]
pub struct Mail(pub(crate) Letter);

#[derive(Debug)]
pub(crate) enum Letter {
    /// A client whose pool lives with the receiver; its socket travels along.
    Client(Traveller),
    /// A cancel request for a client of the receiver; the requester's socket travels along.
    Cancel { pid: u32, secret: Vec<u8>, id: u64, addr: ClientAddr },
    /// A client that had been sent away is gone.
    ClientGone,
    /// Something to be done by every worker.
    Ask { id: u64, ask: Ask },
    /// It has been done.
    Answer { id: u64, answer: Answer },
    /// The sender has no clients left, while a shutdown waits for that.
    Drained(Drain),
}

/// A client on its way to the worker of its pool, before it has proven who it is.
#[derive(Debug)]
pub(crate) struct Traveller {
    pub(crate) hello: Box<Hello>,
    /// What it sent beyond its startup packet.
    pub(crate) leftover: Vec<u8>,
    pub(crate) id: u64,
    pub(crate) addr: ClientAddr,
    /// All workers' clocks agree.
    pub(crate) connected_at: Time,
}

/// What every worker is asked for.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    Report { sockets: bool },
    Adopt(Arc<Config>),
    Pause(Option<String>),
    Resume(Option<String>),
    Reconnect(Option<String>),
    Kill(Option<String>),
    KillClient(u64),
    Drain(Drain),
}

/// How a shutdown goes about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Drain {
    /// Clients finish in their own time.
    Clients,
    /// Servers finish their transactions; waiting clients are dropped.
    Servers,
}

/// A worker's answer.
#[derive(Debug)]
pub(crate) enum Answer {
    Done,
    Report(Box<Report>),
    Failed(CommandError),
}
