//! The failed logins of a pool at its servers, and whether one has succeeded.

use weir_base::Time;
use weir_session::ServerError;

/// Why the last login of a pool failed, if it did.
pub(crate) struct LoginFailures {
    /// A login has succeeded, at the address and as the user that the pool has now.
    succeeded: bool,
    last: Option<ServerError>,
    /// Whether the login failed by a timeout.
    too_slow: bool,
    /// When the first login after the last success failed; never if none has.
    since: Time,
    /// When the last login failed.
    at: Time,
    /// The host could not be reached, and has answered another pool since then.
    outdated: bool,
}

impl Default for LoginFailures {
    fn default() -> Self {
        LoginFailures {
            succeeded: false,
            last: None,
            too_slow: false,
            since: Time::NEVER,
            at: Time::NEVER,
            outdated: false,
        }
    }
}

impl LoginFailures {
    /// Adds a failed login: the error for clients, and whether it was a timeout.
    pub(crate) fn add(&mut self, error: ServerError, too_slow: bool, now: Time) {
        self.last = Some(error);
        self.too_slow = too_slow;
        self.since = self.since.min(now);
        self.at = now;
        self.outdated = false;
    }

    /// A login has succeeded.
    pub(crate) fn succeed(&mut self) {
        *self = LoginFailures { succeeded: true, ..LoginFailures::default() };
    }

    /// The pool logs in elsewhere or otherwise from now on: what is known holds no more.
    pub(crate) fn forget(&mut self) {
        *self = LoginFailures::default();
    }

    /// Whether a login has succeeded.
    pub(crate) fn logged_in(&self) -> bool {
        self.succeeded
    }

    /// The host answers another pool: it is no longer known to be unreachable.
    pub(crate) fn host_answers(&mut self) {
        self.outdated = self.last.as_ref().is_some_and(|error| error.sqlstate.starts_with("08"));
    }

    /// The last failure since the last success, and whether it was a timeout.
    pub(crate) fn last(&self) -> Option<(&ServerError, bool)> {
        self.last.as_ref().map(|error| (error, self.too_slow))
    }

    /// The last failure, if it is still relevant; and when it happened.
    pub(crate) fn current(&self) -> Option<(&ServerError, Time)> {
        self.last.as_ref().filter(|_| !self.outdated).map(|error| (error, self.at))
    }

    /// When the first login after the last success failed; never if none has.
    pub(crate) fn since(&self) -> Time {
        self.since
    }
}
