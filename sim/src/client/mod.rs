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
