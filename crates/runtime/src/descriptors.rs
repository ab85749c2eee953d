//! The limit of open descriptors.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// The soft and the hard limit on open descriptors (RLIMIT_NOFILE).
pub fn descriptors() -> (u64, u64) {
    // The call fails only for resources that do not exist.
    getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((0, 0))
}

/// Raises the soft limit to the hard one; if the system refuses, the old limit stays.
pub(crate) fn raise_descriptors() {
    let (soft, hard) = descriptors();
    if soft < hard {
        // A refusal is no error: callers read the limit afterwards.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}
