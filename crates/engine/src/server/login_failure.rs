//! How a login at a server failed, and whether it may succeed later without a change.
//!
//! Owns the distinction between a server that is down, which clients wait for, and an error that waiting does not
//! change, which they get at once; and whether a failure is about the host or about the login alone.

use weir_config::{FailedAttempt, OnServerDown};
use weir_session::ServerError;

/// The SQLSTATE of a server that starts up, shuts down or recovers (cannot_connect_now).
const CANNOT_CONNECT_NOW: &str = "57P03";

/// The classes of errors of a host that nobody can use: its connections, its resources, its operating system, its
/// configuration file, and internal errors.
const BROKEN_HOST: [&str; 5] = ["08", "53", "58", "F0", "XX"];

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

/// What a failed login says about its host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum About {
    /// Nobody can use the host.
    Host,
    /// This user, its password, the database or their settings. Others may use the host, and where it is the primary of a
    /// pool, it stays that: no other host is tried, as with libpq (PostgreSQL documentation, libpq, "Specifying Multiple
    /// Hosts").
    Login,
}

/// What a server's own error says of the next login, and of the host (PostgreSQL documentation, Appendix A). What is not
/// listed is about the login: it is no evidence that others can't use the host.
fn verdict(error: &ServerError) -> (LoginFailureKind, About) {
    match error.sqlstate.as_str() {
        "57P01" | "57P02" | CANNOT_CONNECT_NOW => (LoginFailureKind::Down, About::Host),
        // All connections are taken, or those of the user: by others, who do use the host.
        "53300" => (LoginFailureKind::Lasting, About::Login),
        state if BROKEN_HOST.iter().any(|class| state.starts_with(class)) => (LoginFailureKind::Lasting, About::Host),
        _ => (LoginFailureKind::Lasting, About::Login),
    }
}

/// A login that failed.
pub(crate) struct FailedLogin {
    /// The error for its clients and the log.
    pub(crate) error: ServerError,
    /// The alternative that may be tried.
    pub(crate) failure: FailedAttempt,
    pub(crate) kind: LoginFailureKind,
    pub(crate) about: About,
    /// The severity in the log: the server's, if it has answered with one (PostgreSQL refuses a login with FATAL).
    pub(crate) severity: &'static str,
}

impl FailedLogin {
    /// The server could not be reached, or its connection ended.
    pub(crate) fn down(error: ServerError) -> FailedLogin {
        FailedLogin::ours(error, LoginFailureKind::Down, About::Host)
    }

    /// The server has another role than the pool requires, for everybody or for this login.
    pub(crate) fn not_ready(error: ServerError, about: About) -> FailedLogin {
        FailedLogin::ours(error, LoginFailureKind::NotReady, about)
    }

    /// The server is unusable, or the login at it is.
    pub(crate) fn lasting(error: ServerError, about: About) -> FailedLogin {
        FailedLogin::ours(error, LoginFailureKind::Lasting, about)
    }

    /// The server has answered with this error.
    pub(crate) fn answered(error: ServerError) -> FailedLogin {
        let (kind, about) = verdict(&error);
        FailedLogin { kind, about, error, failure: FailedAttempt::Other, severity: "FATAL " }
    }

    /// This failed login, where the next one may succeed.
    pub(crate) fn again(self) -> FailedLogin {
        FailedLogin { kind: LoginFailureKind::NotReady, ..self }
    }

    fn ours(error: ServerError, kind: LoginFailureKind, about: About) -> FailedLogin {
        FailedLogin { error, failure: FailedAttempt::Other, kind, about, severity: "" }
    }

    /// This failed login; `failure` decides in which other way the login may be tried.
    pub(crate) fn or(self, failure: FailedAttempt) -> FailedLogin {
        FailedLogin { failure, ..self }
    }
}

impl LoginFailureKind {
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
            assert_eq!(verdict(&error(passing)).0, LoginFailureKind::Down, "{passing}");
        }
        for lasting in ["28P01", "28000", "3D000", "53300", "57P04", "08P01", "08006", "XX000", ""] {
            assert_eq!(verdict(&error(lasting)).0, LoginFailureKind::Lasting, "{lasting}");
        }
    }

    #[test]
    fn a_host_that_is_up_is_not_blamed_for_a_refused_login() {
        for host in ["57P01", "57P02", "57P03", "53000", "53100", "53200", "58000", "58030", "XX000", "F0000", "08006"]
        {
            assert_eq!(verdict(&error(host)).1, About::Host, "{host}");
        }
        for login in ["28000", "28P01", "3D000", "42501", "53300", "55000", "57P04", "57014", "22023", "P0001", ""] {
            assert_eq!(verdict(&error(login)).1, About::Login, "{login}");
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
