//! PAM, in a process of its own for each check: this program under another name ([`PAM_HELPER`]).
//!
//! Modules of PAM are other people's code, which may wait for a network, change the process's state, or crash. In a
//! process they have a time-out that holds, and cost the pooler nothing but a failed login.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};

use crate::timed::left;

/// The name by which the program is called to check a password: it reads a [`PamRequest`], and writes one line if the
/// password is not right.
pub const PAM_HELPER: &str = "weir-pam";

/// The path of the program that runs, which stays valid when its file has been replaced.
const OWN_PROGRAM: &str = "/proc/self/exe";
/// The longest line that is read from a helper.
const MAX_LINE: usize = 1024;
/// What a helper writes if the password is right.
const GOOD: &str = "good";

/// The request to a helper.
#[derive(Clone, PartialEq, Eq)]
pub struct PamRequest {
    /// The service: a file in `/etc/pam.d`.
    pub service: String,
    /// The name of the user.
    pub user: String,
    /// The client's address, or `unix`.
    pub from: String,
    /// The password to check.
    pub password: String,
}

impl PamRequest {
    /// Reads what [`PamRequest::bytes`] makes; `None` if the bytes are something else.
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

/// Reads what the helper writes: its line, or everything until its end. A process that a module has left behind may
/// hold the pipes open for ever, so nothing waits for their end.
fn ask(child: &mut Child, request: &PamRequest, limit: Duration) -> Result<String, String> {
    let (Some(mut input), Some(mut output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("the helper for PAM has no pipes".to_owned());
    };
    let until = Instant::now() + limit;
    let talk = || {
        write_until(&mut input, &request.bytes(), until)?;
        drop(input);
        read_line_until(&mut output, until)
    };
    talk().map_err(|error: io::Error| match error.kind() {
        ErrorKind::TimedOut => format!("PAM gave no answer within {} s", limit.as_secs()),
        _ => format!("the helper for PAM can't be read: {error}"),
    })
}

fn write_until(input: &mut ChildStdin, mut bytes: &[u8], until: Instant) -> io::Result<()> {
    ioctl_fionbio(&*input, true)?;
    while !bytes.is_empty() {
        wait(&*input, PollFlags::OUT, until)?;
        match input.write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if is_early(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn read_line_until(output: &mut ChildStdout, until: Instant) -> io::Result<String> {
    ioctl_fionbio(&*output, true)?;
    let (mut reply, mut buffer) = (Vec::new(), [0; MAX_LINE]);
    while reply.len() < MAX_LINE && !reply.contains(&b'\n') {
        wait(&*output, PollFlags::IN, until)?;
        match output.read(&mut buffer[reply.len()..]) {
            Ok(0) => break,
            Ok(count) => reply.extend_from_slice(&buffer[reply.len()..][..count]),
            Err(error) if is_early(&error) => {}
            Err(error) => return Err(error),
        }
    }
    let line = reply.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(String::from_utf8_lossy(line).into_owned())
}

/// Waits until a pipe is ready, or has no other end.
fn wait(pipe: impl AsFd, what: PollFlags, until: Instant) -> io::Result<()> {
    let left = Timespec::try_from(left(until)?).map_err(io::Error::other)?;
    match poll(&mut [PollFd::new(&pipe, what)], Some(&left)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn is_early(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
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

    /// What a shell in the place of the helper answers, in a limit that it must not need.
    fn said(script: &str, limit: Duration, password: &str) -> Result<String, String> {
        let request = PamRequest { service: "s".into(), user: "u".into(), from: "f".into(), password: password.into() };
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = shell.spawn().unwrap();
        let said = ask(&mut child, &request, limit);
        let _ = killpg(Pid::from_raw(child.id() as i32), Signal::SIGKILL);
        child.wait().unwrap();
        said
    }

    #[test]
    fn an_answer_counts_though_a_process_of_a_module_holds_the_pipe_open() {
        let limit = Duration::from_secs(5);
        assert_eq!(said("cat >/dev/null; echo good; exec sleep 60", limit, "p").as_deref(), Ok("good"));
        assert_eq!(said("cat >/dev/null; printf 'no\\nmore\\n'; exec sleep 60", limit, "p").as_deref(), Ok("no"));
        assert_eq!(
            said("cat >/dev/null; exec sleep 60", Duration::from_secs(1), "p").unwrap_err(),
            "PAM gave no answer within 1 s"
        );
        assert_eq!(said("cat >/dev/null", limit, "p").as_deref(), Ok(""));
    }

    #[test]
    fn a_helper_that_reads_nothing_or_writes_without_end_is_bounded_too() {
        let (limit, long) = (Duration::from_secs(1), "x".repeat(1 << 20));
        assert_eq!(said("exec sleep 60", limit, &long).unwrap_err(), "PAM gave no answer within 1 s");
        let limit = Duration::from_secs(20);
        assert!(said("true", limit, &long).unwrap_err().starts_with("the helper for PAM can't be read: "));
        assert_eq!(said("cat >/dev/null; exec tr '\\0' x < /dev/zero", limit, "p").unwrap().len(), MAX_LINE);
    }
}
