//! PAM, in a process of its own for each check: this program under another name ([`PAM_HELPER`]).
//!
//! Modules of PAM are other people's code, which may wait for a network, change the process's state, or crash. In a process
//! they have a time-out that holds, and cost the pooler nothing but a failed login.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// The name by which the program is called to check a password: it reads a [`PamRequest`], and writes one line if the
/// password is not right.
pub const PAM_HELPER: &str = "weir-pam";

/// This program, also when its file has been replaced.
const OWN_PROGRAM: &str = "/proc/self/exe";
/// The longest line that is read of a helper.
const MAX_LINE: u64 = 1024;
/// What a helper writes if the password is right.
const GOOD: &str = "good";

/// What a helper is asked.
#[derive(Clone, PartialEq, Eq)]
pub struct PamRequest {
    /// The service: a file in `/etc/pam.d`.
    pub service: String,
    /// The user.
    pub user: String,
    /// The client's address, or `unix`.
    pub from: String,
    /// The password.
    pub password: String,
}

impl PamRequest {
    /// Reads what [`PamRequest::bytes`] makes; `None` if it is not that.
    pub fn read(bytes: &[u8]) -> Option<PamRequest> {
        let mut fields = std::str::from_utf8(bytes).ok()?.split('\0').map(str::to_owned);
        let request = PamRequest {
            service: fields.next()?,
            user: fields.next()?,
            from: fields.next()?,
            password: fields.next()?,
        };
        fields.next().is_none().then_some(request)
    }

    /// The fields, separated by zero bytes, which none of them holds: they end texts in PostgreSQL's protocol.
    pub fn bytes(&self) -> Vec<u8> {
        [&*self.service, &self.user, &self.from, &self.password].join("\0").into_bytes()
    }

    /// What a helper writes about the outcome.
    pub fn answer(outcome: &Result<(), String>) -> &str {
        match outcome {
            Ok(()) => GOOD,
            Err(why) => why,
        }
    }
}

/// Whether PAM accepts a password.
pub(super) fn check(request: &PamRequest, limit: Duration) -> Result<(), String> {
    let spawned = Command::new(OWN_PROGRAM)
        .arg0(PAM_HELPER)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn();
    let mut child = spawned.map_err(|error| format!("the helper for PAM could not be started: {error}"))?;
    let reply = ask(&mut child, request, limit);
    // With all that a module may have started.
    let _ = i32::try_from(child.id()).map(|group| killpg(Pid::from_raw(group), Signal::SIGKILL));
    let _ = child.wait();
    match reply?.trim() {
        GOOD => Ok(()),
        "" => Err("the helper for PAM ended without an answer: a module has crashed".to_owned()),
        why => Err(why.chars().flat_map(char::escape_debug).collect()),
    }
}

/// What the helper says. The pipes are served by a thread of their own, so that the limit holds for both.
fn ask(child: &mut Child, request: &PamRequest, limit: Duration) -> Result<String, String> {
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("the helper for PAM has no pipes".to_owned());
    };
    let (sender, answer) = channel();
    let bytes = request.bytes();
    let served = thread::Builder::new().name("weir-pam-pipe".into()).spawn(move || {
        let _ = sender.send(converse(input, output, &bytes));
    });
    served.map_err(|error| format!("no thread for the helper of PAM: {error}"))?;
    match answer.recv_timeout(limit) {
        Ok(reply) => reply.map_err(|error| format!("the helper for PAM can't be read: {error}")),
        Err(RecvTimeoutError::Timeout) => Err(format!("PAM gave no answer within {} s", limit.as_secs())),
        Err(RecvTimeoutError::Disconnected) => Err("the helper for PAM can't be read".to_owned()),
    }
}

fn converse(mut input: ChildStdin, output: ChildStdout, request: &[u8]) -> std::io::Result<String> {
    input.write_all(request)?;
    drop(input);
    let mut reply = Vec::new();
    output.take(MAX_LINE).read_to_end(&mut reply)?;
    Ok(String::from_utf8_lossy(&reply).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_as_it_was_written() {
        let request = PamRequest {
            service: "weir".into(),
            user: "ann".into(),
            from: "::1".into(),
            password: "p w\n\u{e9}".into(),
        };
        assert!(PamRequest::read(&request.bytes()) == Some(request));
        for bytes in [&b""[..], b"a\0b\0c", b"a\0b\0c\0d\0e", b"a\0b\0c\0\xff"] {
            assert!(PamRequest::read(bytes).is_none());
        }
    }
}
