//! How a login at a server failed, and whether it may succeed later without a change.
//!
//! Owns the distinction between a server that is down, which clients wait for, and an error that waiting does not
//! change, which they get at once.

use weir_config::{FailedAttempt, OnServerDown};
use weir_session::ServerError;

/// The SQLSTATE of a server that starts up, shuts down or recovers (cannot_connect_now).
const CANNOT_CONNECT_NOW: &str = "57P03";

/// What a failed login says about the next one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LoginFailureKind {
    /// The server is down: it can't be reached, starts up, or shuts down.
    Down,
    /// The server answers, and is not ready for the pool: it has another role, or is one of several of which another is
    /// down.
    NotReady,
    /// The login fails in the same way until something is changed: a wrong password, a missing database.
    Lasting,
}

/// A login that failed.
pub(crate) struct FailedLogin {
    /// The error for its clients and the log.
    pub(crate) error: ServerError,
    /// The alternative that may be tried.
    pub(crate) failure: FailedAttempt,
    pub(crate) kind: LoginFailureKind,
    /// The severity in the log: the server's, if it has answered with one (PostgreSQL refuses a login with FATAL).
    pub(crate) severity: &'static str,
}

impl FailedLogin {
    /// The server could not be reached, or its connection ended.
    pub(crate) fn down(error: ServerError) -> FailedLogin {
        FailedLogin::ours(error, LoginFailureKind::Down)
    }

    /// The server has another role than the pool requires.
    pub(crate) fn not_ready(error: ServerError) -> FailedLogin {
        FailedLogin::ours(error, LoginFailureKind::NotReady)
    }

    /// The server, or its configuration, is unusable.
    pub(crate) fn lasting(error: ServerError) -> FailedLogin {
        FailedLogin::ours(error, LoginFailureKind::Lasting)
    }

    /// The server has answered with this error.
    pub(crate) fn answered(error: ServerError) -> FailedLogin {
        FailedLogin { kind: LoginFailureKind::of(&error), error, failure: FailedAttempt::Other, severity: "FATAL " }
    }

    /// This failed login, where the next one may succeed.
    pub(crate) fn again(self) -> FailedLogin {
        FailedLogin { kind: LoginFailureKind::NotReady, ..self }
    }

    fn ours(error: ServerError, kind: LoginFailureKind) -> FailedLogin {
        FailedLogin { error, failure: FailedAttempt::Other, kind, severity: "" }
    }

    /// This failed login; `failure` decides in which other way the login may be tried.
    pub(crate) fn or(self, failure: FailedAttempt) -> FailedLogin {
        FailedLogin { failure, ..self }
    }
}

impl LoginFailureKind {
    /// The kind of a server's own error (PostgreSQL documentation, Appendix A, class 57).
    fn of(error: &ServerError) -> LoginFailureKind {
        match error.sqlstate.as_str() {
            "57P01" | "57P02" | CANNOT_CONNECT_NOW => LoginFailureKind::Down,
            _ => LoginFailureKind::Lasting,
        }
    }

    /// The kind under a pool's policy: where clients are refused while a server is down, only a server that starts
    /// up is waited for.
    pub(crate) fn under(self, policy: OnServerDown, error: &ServerError) -> LoginFailureKind {
        match policy {
            OnServerDown::Wait => self,
            OnServerDown::Refuse if error.sqlstate == CANNOT_CONNECT_NOW => LoginFailureKind::NotReady,
            OnServerDown::Refuse => LoginFailureKind::Lasting,
        }
    }

    /// The kind of failure of two servers of a round: if one of them may become available later, the round may succeed;
    /// and while one answers, each attempt costs it a login.
    pub(crate) fn and(self, other: LoginFailureKind) -> LoginFailureKind {
        if self == other { self } else { LoginFailureKind::NotReady }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(sqlstate: &str) -> ServerError {
        ServerError { sqlstate: sqlstate.into(), message: String::new() }
    }

    #[test]
    fn only_errors_that_pass_by_themselves_are_waited_for() {
        for passing in ["57P01", "57P02", "57P03"] {
            assert_eq!(LoginFailureKind::of(&error(passing)), LoginFailureKind::Down, "{passing}");
        }
        for lasting in ["28P01", "28000", "3D000", "53300", "57P04", "08P01", "08006", "XX000", ""] {
            assert_eq!(LoginFailureKind::of(&error(lasting)), LoginFailureKind::Lasting, "{lasting}");
        }
    }

    #[test]
    fn where_clients_are_refused_only_a_server_that_starts_up_is_waited_for() {
        let refuse = |kind: LoginFailureKind, sqlstate| kind.under(OnServerDown::Refuse, &error(sqlstate));
        assert_eq!(refuse(LoginFailureKind::Down, "08006"), LoginFailureKind::Lasting);
        assert_eq!(refuse(LoginFailureKind::NotReady, "08006"), LoginFailureKind::Lasting);
        assert_eq!(refuse(LoginFailureKind::Down, "57P03"), LoginFailureKind::NotReady);
        assert_eq!(LoginFailureKind::Down.under(OnServerDown::Wait, &error("08006")), LoginFailureKind::Down);
    }
}
