//! The state of a client during its login.

use std::fmt;
use std::sync::Arc;

use weir_auth::RejectReason;
use weir_base::{Time, WorkerId};
use weir_session::Refusal;
use weir_session::login::{CapturedCredentials, Login};
use weir_session::startup::StartupRequest;

use crate::client_login::secret_query::{Subject, UserSecret};
use crate::password_check::Authority;
use crate::server::connection::SaltedKey;
use crate::upgrade::moved::MovedClient;

/// How a client began its TLS handshake (libpq's `sslnegotiation`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SslNegotiation {
    /// By an SSLRequest, which was answered.
    Request,
    /// With the client's first bytes, without an SSLRequest.
    Direct,
}

/// The purpose for which a client's socket is sent to another worker.
pub(crate) enum Handoff {
    /// The client logs in there; with its input after the startup packet.
    Startup(WorkerId, Arc<StartupRequest>, Vec<u8>),
    /// To cancel what a client there runs.
    Cancel { to: WorkerId, pid: u32, secret: Vec<u8> },
    /// The client, logged in, goes on there.
    Move(WorkerId, Box<MovedClient>),
    /// Another process takes over.
    Upgrade,
}

/// A login: the startup request and its progress.
pub(crate) struct LoginPhase {
    pub(super) request: Arc<StartupRequest>,
    /// The exchange; none before it begins and after it has succeeded.
    pub(super) login: Option<Box<Login>>,
    pub(super) captured: CapturedCredentials,
    /// The answer of an auth_query, if there was one.
    pub(super) secret: Option<UserSecret>,
    pub(super) awaits: Awaits,
    /// Why the login will fail in any case: for the log.
    pub(super) why: Option<Why>,
    /// What is hashed, or was.
    pub(super) hashing: Option<Hashing>,
    /// Who checks the client's password, if not Weir.
    pub(super) authority: Option<Authority>,
}

/// The event that a login waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Awaits {
    /// The client's next message.
    Client,
    /// The name of this user of the operating system.
    UserName(u32),
    /// A helper that hashes.
    Hash,
    /// A helper that has the client's password checked elsewhere.
    Check,
    /// The answer under this number, whether there is room for one more client.
    Quota(u64),
}

/// The password of a client's login.
pub(crate) struct Hashing {
    pub(super) key: SaltedKey,
    /// Whether the password is the stored one, not the one that the client sent.
    pub(super) stored: bool,
    pub(super) salted: Option<[u8; 32]>,
}

impl LoginPhase {
    /// A login that has not begun.
    pub(super) fn new(request: Arc<StartupRequest>) -> LoginPhase {
        LoginPhase {
            request,
            login: None,
            captured: CapturedCredentials::default(),
            secret: None,
            awaits: Awaits::Client,
            why: None,
            hashing: None,
            authority: None,
        }
    }

    /// The startup request.
    pub(crate) fn request(&self) -> &Arc<StartupRequest> {
        &self.request
    }

    /// Whether the login is an operator's.
    pub(crate) fn is_console(&self) -> bool {
        weir_admin::is_console(&self.request.database)
    }

    /// Ends this login, and returns its request, with which the login starts again.
    pub(crate) fn into_request(self) -> Arc<StartupRequest> {
        self.request
    }

    pub(crate) fn awaits(&self) -> Awaits {
        self.awaits
    }

    pub(crate) fn set_awaits(&mut self, awaits: Awaits) {
        self.awaits = awaits;
    }

    /// The answer of an auth_query, if there was one.
    pub(crate) fn asked_secret(&self) -> Option<&UserSecret> {
        self.secret.as_ref()
    }

    /// Why the login has failed with this refusal, for the log; none if the log has the reason already.
    pub(crate) fn why_failed(&self, refusal: &Refusal) -> Option<String> {
        if let Some(why) = self.why {
            return Some(why.to_string());
        }
        let why = match refusal {
            Refusal::PasswordFailed => "wrong password",
            Refusal::SaslFailed => "wrong password, or an invalid SCRAM message",
            Refusal::EmptyPassword => "the client sent an empty password",
            Refusal::NoSuchUser => NOT_AT_SERVER,
            _ => return None,
        };
        Some(why.to_owned())
    }
}

/// The subject of the auth_query for a startup packet.
pub(crate) fn subject(request: &StartupRequest) -> Subject {
    (request.database.as_str().into(), request.user.as_str().into())
}

/// A failed login whose refusal is delayed.
pub(crate) struct Delayed {
    pub(crate) refusal: Refusal,
    pub(crate) until: Time,
    pub(crate) database: String,
}

/// The server that was asked about a user knows none of that name.
const NOT_AT_SERVER: &str = "no such user: it is not listed, and the server that auth_query asks does not know it";

/// What is known of a user without a usable secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SecretSource {
    /// There is no such user in the list, and no server was asked.
    Unlisted,
    /// A server was asked, and knows no such user.
    NotAtServer,
    /// The user is listed.
    Listed,
    /// A server was asked, and knows the user.
    AtServer,
}

/// Why a login fails, for the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Why {
    pub(super) reason: RejectReason,
    pub(super) user: SecretSource,
    /// The line of the HBA file that decided.
    pub(super) line: Option<usize>,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.reason, self.user) {
            (RejectReason::UnknownUser, SecretSource::Listed) => {
                f.write_str("no password is known: the user is listed without a valid secret")
            }
            (RejectReason::UnknownUser, SecretSource::AtServer) => f.write_str(
                "no password is known: the server that auth_query asks has none for the user, or it has expired (VALID UNTIL)",
            ),
            (RejectReason::UnknownUser, SecretSource::NotAtServer) => f.write_str(NOT_AT_SERVER),
            (reason, _) => write!(f, "{reason}"),
        }?;
        self.line.map_or(Ok(()), |line| write!(f, " (line {line} of the HBA file)"))
    }
}
