//! How a pool's logins at its servers have gone.

use weir_base::Time;
use weir_session::ServerError;

/// Why the last login of a pool failed, if it did.
pub(crate) struct LoginFailures {
    last: Option<ServerError>,
    /// It failed because it took too long.
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
    /// A login has failed: the error for clients, and whether it only took too long.
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

    /// The last failure since the last success, and whether it only took too long.
    pub(crate) fn last(&self) -> Option<(&ServerError, bool)> {
        self.last.as_ref().map(|error| (error, self.too_slow))
    }

    /// When the first login after the last success failed; never if none has.
    pub(crate) fn since(&self) -> Time {
        self.since
    }
}
