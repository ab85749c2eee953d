//! The program as PAM's helper: checks one password, says so, and ends. Started by the runtime under a name of its own.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::process::ExitCode;

use weir_runtime::{PAM_HELPER, PamRequest};

/// The longest request: a password of 64 KiB, and names.
const MAX_REQUEST: u64 = 128 << 10;

/// Whether the program was started by this name.
pub(crate) fn is_called(name: Option<&OsStr>) -> bool {
    name.is_some_and(|name| name == PAM_HELPER)
}

/// Reads a request from the standard input, and writes the outcome to the standard output.
pub(crate) fn run() -> ExitCode {
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(MAX_REQUEST).read_to_end(&mut bytes);
    let Some(request) = read.ok().and_then(|_| PamRequest::read(&bytes)) else { return ExitCode::FAILURE };
    let PamRequest { service, user, from, password } = &request;
    let outcome = weir_pam::authenticate(service, user, password, from);
    let _ = writeln!(std::io::stdout(), "{}", PamRequest::answer(&outcome));
    if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
