//! The failed logins of a pool at its servers.

use weir_base::Time;
use weir_session::ServerError;

/// Why the last login of a pool failed, if it did.
pub(crate) struct LoginFailures {
    last: Option<ServerError>,
    /// Whether it failed by a timeout.
    too_slow: bool,
    /// When the first login after the last success failed; never if none has.
    since: Time,
    /// When the last one failed.
    at: Time,
    /// The host could not be reached, and has answered another pool since then.
    outdated: bool,
}

impl Default for LoginFailures {
    fn default() -> Self {
        LoginFailures { last: None, too_slow: false, since: Time::NEVER, at: Time::NEVER, outdated: false }
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
    pub(crate) fn clear(&mut self) {
        *self = LoginFailures::default();
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
