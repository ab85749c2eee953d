//! Errors of the command line.

use clap::error::{ContextKind, ErrorKind};

/// Without clap's tip to pass an unknown flag as a value, which no argument here expects. A similar flag is still
/// named.
pub(crate) fn without_misleading_tip(mut error: clap::Error) -> clap::Error {
    if error.kind() == ErrorKind::UnknownArgument {
        error.remove(ContextKind::Suggested);
    }
    error
}
