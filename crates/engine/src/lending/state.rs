//! A pool's state about other workers, and the messages between the workers of a pool.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use weir_auth::Secret;
use weir_base::{ConnId, WorkerId};
use weir_pool::Ages;
use weir_pool::lending::{Borrower, Lender, ToBorrower, ToOwner};
use weir_session::login::CapturedCredentials;
use weir_session::{Cause, PoolShared, ServerError};

use crate::client_login::reported::Welcome;
use crate::handles::PoolIx;
use crate::server::slot::ServerSlot;
use crate::workers::quota::PoolId;

/// This worker's role for a pool.
pub(crate) enum LendingRole {
    /// Owner: has the pool's limit, its queue and its logins.
    Owner(Lender),
    /// Borrower: has clients of the pool, and borrows its servers.
    Borrower(Box<Borrowing>),
}

/// A borrower's state.
pub(crate) struct Borrowing {
    pub(crate) owner: WorkerId,
    pub(crate) borrower: Borrower,
    /// Clients that are to get the reason for their wait, and whether it has been requested from the owner.
    pub(crate) to_tell: Vec<ToInform>,
    pub(crate) cause_requested: bool,
}

/// A borrower's client that is to get the reason for its wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ToInform {
    /// The client has waited too long, and is refused.
    Refused(ConnId),
    /// The client is notified that it waits.
    Notified(ConnId),
}

/// A lent server, as the owner's record.
#[derive(Clone, Debug)]
pub(crate) struct LentServer {
    pub(crate) pool: PoolIx,
    pub(crate) borrower: WorkerId,
    /// The host name by which the server was connected, and its address.
    pub(crate) resolved: Option<(Arc<str>, IpAddr)>,
}

/// A message about one pool.
#[derive(Debug)]
pub(crate) struct LendingMessage {
    pub(crate) pool: PoolId,
    pub(crate) body: Body,
}

#[derive(Debug)]
pub(crate) enum Body {
    ToOwner(ToOwner),
    /// To a borrower; with the error of the last login, if that is why a request is refused, and whether it was a
    /// timeout.
    ToBorrower(ToBorrower, Option<(ServerError, bool)>),
    /// To a borrower: a server in reply to a request; its socket comes with the message.
    Lent(Box<Lent>),
    /// To the owner: a lent server returns; its socket comes with the message.
    Returned {
        lent: ConnId,
        server: MovedServer,
    },
    /// To the owner: credentials from a client's login, for logins at the server.
    Captured(Box<ForwardedCredentials>),
    /// To the owner: requests the reason for the borrower's waits.
    RequestCause,
    /// To a borrower: the reason for its waits.
    WaitCause(Cause, String),
}

/// The content of a lent server.
#[derive(Debug)]
pub(crate) struct Lent {
    /// The request's number.
    pub(crate) id: u32,
    /// The server's handle at the owner.
    pub(crate) lent: ConnId,
    pub(crate) server: MovedServer,
    pub(crate) ages: Ages,
    /// The server was idle for so long that it must be checked first.
    pub(crate) check: bool,
    pub(crate) welcome: Option<Welcome>,
    pub(crate) shared: PoolShared,
}

/// Credentials from a client's login.
pub(crate) struct ForwardedCredentials {
    pub(crate) captured: CapturedCredentials,
    pub(crate) asked: Option<Secret>,
}

/// A server between two workers' tables.
pub(crate) struct MovedServer(pub(crate) Box<ServerSlot>);

impl fmt::Debug for MovedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "S-{:#x}", self.0.id)
    }
}

impl fmt::Debug for ForwardedCredentials {
    // A secret must not reach a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ForwardedCredentials")
    }
}

impl LendingRole {
    /// Worker `worker`'s role where `owner` owns the pool.
    pub(crate) fn new(owner: WorkerId, worker: WorkerId) -> LendingRole {
        if owner == worker {
            return LendingRole::Owner(Lender::default());
        }
        let (to_tell, cause_requested) = (Vec::new(), false);
        LendingRole::Borrower(Box::new(Borrowing { owner, borrower: Borrower::default(), to_tell, cause_requested }))
    }

    /// The owner's side of lending.
    pub(crate) fn lender(&mut self) -> Option<&mut Lender> {
        if let LendingRole::Owner(lender) = self { Some(lender) } else { None }
    }

    pub(crate) fn is_borrower(&self) -> bool {
        matches!(self, LendingRole::Borrower(_))
    }

    /// Whether no other worker has clients of the pool, or a request.
    pub(crate) fn is_unused(&self) -> bool {
        match self {
            LendingRole::Owner(lender) => lender.is_unused(),
            LendingRole::Borrower(_) => true,
        }
    }

    /// Whether nothing is lent or borrowed.
    pub(crate) fn is_vacant(&self) -> bool {
        match self {
            LendingRole::Owner(lender) => lender.lent_count() == 0,
            LendingRole::Borrower(borrowing) => borrowing.borrower.is_vacant(),
        }
    }
}
