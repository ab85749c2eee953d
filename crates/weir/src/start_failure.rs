//! A start that failed, in the log: the lines have a time and a level, and init scripts discard what is only printed.

use std::path::Path;

use weir_store::load;

use crate::failure::Failure;
use crate::process;

/// Writes a failure to the log of the file, as far as that can be read, and to standard error if it is `printed`.
/// `user`: whom the command line names to switch to. Returns what is left to print.
pub(crate) fn log(failure: Failure, file: &Path, user: Option<String>, printed: bool) -> Failure {
    let lines = match &failure {
        Failure::Reported => return failure,
        Failure::Message(line) => std::slice::from_ref(line),
        Failure::Messages(lines) => lines,
    };
    let config = load::load_as_far(file).0;
    let mut settings = config.log;
    // A file made by root would keep the ordinary user from logging.
    if process::is_root() {
        let switched = user.or(config.process.user).map(|name| process::become_user(&name));
        if !matches!(switched, Some(Ok(()))) {
            settings.file = None;
        }
    }
    if weir_runtime::log_start_error(&settings, lines, printed) { Failure::Reported } else { failure }
}
