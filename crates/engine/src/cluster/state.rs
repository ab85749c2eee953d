//! What a pool keeps of the other workers.

use std::net::IpAddr;
use std::sync::Arc;

use weir_base::{Peer, WorkerId};
use weir_pool::lending::{Borrower, Lender};

use crate::handles::PoolIx;

/// Somebody of a guest's who is to be told why there is no server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asker {
    /// A client that has waited too long.
    Refused(Peer),
    /// A client that is told that it waits.
    Noticed(Peer),
}

/// A worker's part in a pool.
pub(crate) enum Part {
    /// The pool's limit, its queue and its logins are here.
    Home(Lender),
    /// It has clients here, whose servers are borrowed.
    Guest(Box<Guest>),
}

pub(crate) struct Guest {
    pub(crate) home: WorkerId,
    pub(crate) borrower: Borrower,
    /// Those who want to know why they wait, and whether the home has been asked for them.
    pub(super) askers: Vec<Asker>,
    pub(super) asked_why: bool,
}

impl Guest {
    pub(crate) fn new(home: WorkerId) -> Guest {
        Guest { home, borrower: Borrower::default(), askers: Vec::new(), asked_why: false }
    }
}

impl Part {
    /// The guests' side of it, at home.
    pub(crate) fn lender(&mut self) -> Option<&mut Lender> {
        if let Part::Home(lender) = self { Some(lender) } else { None }
    }

    pub(crate) fn is_guest(&self) -> bool {
        matches!(self, Part::Guest(_))
    }

    /// Whether no other worker has anything to do with the pool.
    pub(crate) fn is_idle(&self) -> bool {
        match self {
            Part::Home(lender) => lender.is_unused(),
            Part::Guest(_) => true,
        }
    }

    /// Whether nothing is on its way between the workers.
    pub(crate) fn is_vacant(&self) -> bool {
        match self {
            Part::Home(lender) => lender.lent_count() == 0,
            Part::Guest(guest) => guest.borrower.is_vacant(),
        }
    }
}

/// A server that is with a guest, as its home remembers it.
#[derive(Clone, Debug)]
pub(crate) struct Away {
    pub(crate) pool: PoolIx,
    pub(crate) guest: WorkerId,
    /// The name that it was reached by, and the address that it is on.
    pub(crate) on: Option<(Arc<str>, IpAddr)>,
}
