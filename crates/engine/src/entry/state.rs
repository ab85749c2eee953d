//! What is kept of a client on its way in.

use std::fmt;
use std::sync::Arc;

use weir_auth::{Mocks, RejectReason, Secret};
use weir_base::{Time, WorkerId};
use weir_session::Refusal;
use weir_session::login::{LearnedCredentials, Login};
use weir_session::startup::StartupRequest;

/// How a hashed password is kept: password, salt, iterations.
pub(crate) type SaltedKey = (Arc<str>, Vec<u8>, u32);

/// How a client came to its handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// By a request that was answered.
    Request,
    /// With its first bytes.
    Direct,
}

/// What a client is sent to another worker for.
pub(crate) enum Handoff {
    Startup(WorkerId, Box<StartupRequest>, Vec<u8>),
    Cancel { pid: u32, secret: Vec<u8> },
}

/// A login, and what it is for.
pub(crate) struct LoginPhase {
    pub(crate) hello: Box<StartupRequest>,
    pub(crate) login: Option<Login>,
    pub(crate) learnt: LearnedCredentials,
    pub(crate) console: bool,
    /// What a server said about its user, if one was asked.
    pub(crate) said: Option<Verdict>,
    /// Worker 0 is asked for its place.
    pub(crate) entering: Option<u64>,
    /// A helper is asked for the name of this user of the operating system.
    pub(crate) unnamed: Option<u32>,
    /// A helper hashes for it, or will.
    pub(crate) busy: bool,
    /// Why it will fail, whatever the client answers: for the log.
    pub(crate) why: Option<Why>,
    /// What is hashed, or was.
    pub(crate) hashing: Option<Hashing>,
}

impl LoginPhase {
    /// A login that has not begun.
    pub(crate) fn new(hello: Box<StartupRequest>) -> LoginPhase {
        let console = weir_admin::is_console(&hello.database);
        let (login, learnt, said, why) = (None, LearnedCredentials::default(), None, None);
        let (entering, unnamed, busy, hashing) = (None, None, false, None);
        LoginPhase { hello, login, learnt, console, said, entering, unnamed, busy, why, hashing }
    }
}

/// A failed login whose refusal is held back.
pub(crate) struct Held {
    pub(crate) refusal: Refusal,
    pub(crate) until: Time,
    pub(crate) database: String,
}

/// Why a login fails, for the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Why {
    pub(super) reason: RejectReason,
    /// The line of the HBA file that decided.
    pub(super) line: Option<usize>,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.reason)?;
        self.line.map_or(Ok(()), |line| write!(f, " (line {line} of the HBA file)"))
    }
}

/// What a server said about a user.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    /// The secret as written; none if there is no such user, or no way in for it.
    pub(super) text: Option<Arc<str>>,
    /// What such a user is made to look like: like those about whom the server was asked.
    pub(crate) mocks: Arc<Mocks>,
}

impl Verdict {
    /// The user's secret, if it has one that can be read.
    pub(crate) fn secret(&self) -> Option<Secret> {
        Secret::parse(self.text.as_ref()?).ok()
    }
}

/// The password of a client's login.
pub(crate) struct Hashing {
    pub(crate) key: SaltedKey,
    /// It is the one that is stored, and not one that the client gave.
    pub(super) stored: bool,
    pub(super) salted: Option<[u8; 32]>,
}
