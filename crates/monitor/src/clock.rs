//! The time of day, for the API and the history.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time since 1970.
pub fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
