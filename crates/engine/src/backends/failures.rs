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
}

impl Default for LoginFailures {
    fn default() -> Self {
        LoginFailures { last: None, too_slow: false, since: Time::NEVER }
    }
}

impl LoginFailures {
    /// Adds a failed login: the error for clients, and whether it was a timeout.
    pub(crate) fn add(&mut self, error: ServerError, too_slow: bool, now: Time) {
        self.last = Some(error);
        self.too_slow = too_slow;
        self.since = self.since.min(now);
    }

    /// A login has succeeded.
    pub(crate) fn clear(&mut self) {
        self.last = None;
        self.since = Time::NEVER;
    }

    /// The last failure since the last success, and whether it was a timeout.
    pub(crate) fn last(&self) -> Option<(&ServerError, bool)> {
        self.last.as_ref().map(|error| (error, self.too_slow))
    }

    /// When the first login after the last success failed; never if none has.
    pub(crate) fn since(&self) -> Time {
        self.since
    }
}
