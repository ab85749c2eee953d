//! Modelled clients of all kinds.
//!
//! Most use a database ([`user`]): [`script`] draws their requests, and [`reference`] computes the expected replies.
//! Some break the protocol ([`hostile`]), some use the console ([`operator`]); [`actor`] is their common interface.

pub(crate) mod actor;
mod hostile;
pub(crate) mod login;
mod operator;
mod reference;
mod script;
mod user;

use crate::network::Address;

/// A client's names, credentials, kind and address; the same for all its sessions.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// The client's number, as in its tokens.
    pub(crate) number: u32,
    /// Where the client connects to.
    pub(crate) address: Address,
    pub(crate) user: String,
    pub(crate) password: String,
    pub(crate) database: String,
    pub(crate) kind: Kind,
    pub(crate) caps: Caps,
    pub(crate) topic: Topic,
}

/// What a run is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Topic {
    /// Anything.
    Any,
    /// Cancel requests: clients sleep about as long as a cancel request takes, and cancel most sleeps, so that many
    /// requests arrive just too late.
    Cancels {
        /// The longest time that a cancel request takes, in microseconds.
        delay: u64,
    },
    /// Servers that workers lend each other: they are few and are left dirty, and operators have them closed again and
    /// again.
    Loans,
}

/// Upper limits for what a client draws.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Caps {
    /// Connections, one after the other.
    pub(crate) sessions: u64,
    /// Bursts, batches or commands in each connection.
    pub(crate) bursts: u64,
}

impl Default for Caps {
    /// No limits.
    fn default() -> Caps {
        Caps { sessions: u64::MAX, bursts: u64::MAX }
    }
}

/// The purpose of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// To use a database.
    User,
    /// To log in with a wrong password; it must be refused.
    WrongPassword,
    /// To break the protocol.
    Hostile,
    /// To use the console.
    Operator,
}

impl Identity {
    fn has_wrong_password(&self) -> bool {
        self.kind == Kind::WrongPassword
    }
}
