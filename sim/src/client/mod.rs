//! Modelled clients of all kinds.
//!
//! Most use a database ([`user`]): what they ask is drawn in [`script`], what they must be answered is known by their
//! [`shadow`]. Some break the protocol ([`hostile`]), some sit at the console ([`operator`]); [`actor`] is what the
//! world sees of any of them.

pub(crate) mod actor;
mod hostile;
pub(crate) mod login;
mod operator;
mod script;
mod shadow;
mod user;

use crate::network::Address;

/// Who a client is and where it goes; the same for all its sessions.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// Its number, as in its tokens.
    pub(crate) number: u32,
    /// Where it connects to.
    pub(crate) address: Address,
    pub(crate) user: String,
    pub(crate) password: String,
    pub(crate) database: String,
    pub(crate) kind: Kind,
    pub(crate) stay: Stay,
    pub(crate) haste: Option<Haste>,
}

/// Clients of a run that is about cancels: they sleep about as long as a cancel is on its way, and cancel most of it, so
/// that many a cancel comes just too late.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Haste {
    /// How long a cancel may be on its way, in microseconds.
    pub(crate) way: u64,
}

/// How often and for how long a client comes at most, whatever it draws.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stay {
    /// Connections, one after the other.
    pub(crate) sessions: u64,
    /// What it does in each: bursts, volleys or commands.
    pub(crate) bursts: u64,
}

impl Default for Stay {
    /// As drawn.
    fn default() -> Stay {
        Stay { sessions: u64::MAX, bursts: u64::MAX }
    }
}

/// What a client is up to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// To use a database.
    User,
    /// To log in with a wrong password; it must be refused.
    Impostor,
    /// To break the protocol.
    Hostile,
    /// To use the console.
    Operator,
}

impl Identity {
    fn is_impostor(&self) -> bool {
        self.kind == Kind::Impostor
    }
}
