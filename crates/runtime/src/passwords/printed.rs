//! Runs of programs that print passwords for our logins at servers (`password_command`).
//!
//! A run has limits on its time and its output. What it prints reaches no log; of what it
//! writes as errors, the last line does.

use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};
use weir_config::PasswordCommand;

/// The longest password, in bytes: more than any token; PostgreSQL reads up to 64 KiB (auth.c, `PG_MAX_AUTH_TOKEN_LENGTH`).
const MAX_OUTPUT: usize = 16 * 1024;
/// So much of what a program writes as errors is kept, from the end.
const MAX_ERRORS: usize = 1024;
/// The most characters of an error's line that are shown.
const MAX_LINE: usize = 200;
/// How often a program is looked at that keeps its pipes open.
const LOOK: Duration = Duration::from_millis(20);

/// The password that a program prints. Blocks for as long as the program may run.
///
/// # Errors
/// Why there is none, in a line without the program's output.
pub(super) fn run(command: &PasswordCommand) -> Result<Arc<str>, String> {
    let Some((program, arguments)) = command.argv.split_first() else { return Err("no program is named".to_owned()) };
    let spawned = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn();
    let mut child = spawned.map_err(|error| format!("{program} could not be started: {error}"))?;
    let timeout = Duration::from_micros(command.timeout.micros());
    let end = follow(&mut child, Instant::now() + timeout);
    // With all that it may have started; a group lives as long as its leader is not waited for.
    if child.try_wait().is_ok_and(|status| status.is_none()) {
        let _ = i32::try_from(child.id()).map(|group| killpg(Pid::from_raw(group), Signal::SIGKILL));
        let _ = child.wait();
    }
    let (output, status) = end.map_err(|error| match error.kind() {
        ErrorKind::TimedOut => format!("{program} did not end within {} s", timeout.as_secs_f64()),
        ErrorKind::FileTooLarge => format!("{program} printed more than {MAX_OUTPUT} bytes"),
        _ => format!("the output of {program} can't be read: {error}"),
    })?;
    if !status.success() {
        return Err(format!("{program} ended with {status}{}", last_line(&output.errors)));
    }
    read(&output.text).map_err(|what| format!("{program} {what}"))
}

/// The one line that a program has printed.
fn read(text: &[u8]) -> Result<Arc<str>, &'static str> {
    let text = std::str::from_utf8(text).map_err(|_| "printed what is not UTF-8")?;
    let text = text.strip_suffix('\n').map_or(text, |text| text.strip_suffix('\r').unwrap_or(text));
    match text {
        "" => Err("printed no password"),
        text if text.contains(['\n', '\0']) => Err("printed more than one line"),
        text => Ok(text.into()),
    }
}

/// The last line of a program's errors, as the end of a message.
fn last_line(errors: &[u8]) -> String {
    let text = String::from_utf8_lossy(errors);
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty());
    line.map_or_else(String::new, |line| {
        let shown: String = line.chars().take(MAX_LINE).flat_map(char::escape_debug).collect();
        format!(": {shown}")
    })
}

/// What a program has written.
#[derive(Default)]
struct Output {
    text: Vec<u8>,
    errors: Vec<u8>,
}

/// Reads what a program writes until it has ended, or until it has closed its pipes and ended.
fn follow(child: &mut Child, until: Instant) -> io::Result<(Output, ExitStatus)> {
    let (Some(mut text), Some(mut errors)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(io::Error::other("it has no pipes"));
    };
    ioctl_fionbio(&text, true)?;
    ioctl_fionbio(&errors, true)?;
    let (mut output, mut open) = (Output::default(), [true, true]);
    loop {
        // Whatever it wrote is read after its end: a process that it has left behind may hold the pipes open for ever.
        let status = child.try_wait()?;
        open[0] = open[0] && take(&mut text, &mut output.text)?;
        if output.text.len() > MAX_OUTPUT {
            return Err(ErrorKind::FileTooLarge.into());
        }
        open[1] = open[1] && take(&mut errors, &mut output.errors)?;
        let excess = output.errors.len().saturating_sub(MAX_ERRORS);
        output.errors.drain(..excess);
        if let Some(status) = status {
            return Ok((output, status));
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        let pipes = [(open[0], text.as_fd()), (open[1], errors.as_fd())];
        wait(pipes, left.min(LOOK))?;
    }
}

/// Appends what can be read now, at most a little more than may come; returns whether more may follow.
fn take(from: &mut impl Read, into: &mut Vec<u8>) -> io::Result<bool> {
    let mut buffer = [0; 4096];
    for _ in 0..=MAX_OUTPUT / buffer.len() {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(false),
            Ok(count) => into.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Waits until one of the open pipes has something, or the time is over.
fn wait(pipes: [(bool, BorrowedFd<'_>); 2], time: Duration) -> io::Result<()> {
    let mut waited: Vec<_> =
        pipes.iter().filter(|(open, _)| *open).map(|(_, pipe)| PollFd::new(pipe, PollFlags::IN)).collect();
    if waited.is_empty() {
        thread::sleep(time);
        return Ok(());
    }
    let time = Timespec::try_from(time).map_err(io::Error::other)?;
    match poll(&mut waited, Some(&time)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use weir_base::Span;

    use super::*;

    fn shell(text: &str) -> PasswordCommand {
        let argv = ["/bin/sh", "-c", text].map(str::to_owned).to_vec();
        PasswordCommand { argv, timeout: Span::from_secs(20), lifetime: Span::from_secs(3600) }
    }

    fn get(command: &PasswordCommand) -> Result<String, String> {
        run(command).map(|password| password.to_string())
    }

    #[test]
    fn one_line_is_a_password_and_nothing_else_is() {
        for (text, expected) in [
            ("echo hush", Ok("hush")),
            ("printf 'a b\\r\\n'", Ok("a b")),
            ("printf hush", Ok("hush")),
            ("true", Err("/bin/sh printed no password")),
            ("echo", Err("/bin/sh printed no password")),
            ("echo a; echo b", Err("/bin/sh printed more than one line")),
            ("printf '\\377'", Err("/bin/sh printed what is not UTF-8")),
            ("head -c 20000 /dev/zero", Err("/bin/sh printed more than 16384 bytes")),
        ] {
            assert_eq!(get(&shell(text)).as_deref().map_err(String::as_str), expected, "{text}");
        }
    }

    #[test]
    fn a_program_that_fails_says_so_with_the_last_line_of_its_errors_and_without_its_output() {
        let error = get(&shell("echo hush; echo first >&2; echo 'the token service is away' >&2; exit 3")).unwrap_err();
        assert_eq!(error, "/bin/sh ended with exit status: 3: the token service is away");
        let long = get(&shell("head -c 100000 /dev/zero | tr '\\0' 'x' >&2; exit 1")).unwrap_err();
        assert!(long.len() < 300, "{long}");
        let missing = PasswordCommand { argv: vec!["/no/such/program".to_owned()], ..shell("") };
        let error = get(&missing).unwrap_err();
        assert_eq!(error, "/no/such/program could not be started: No such file or directory (os error 2)");
    }

    #[test]
    fn a_program_that_hangs_is_killed_with_what_it_has_started() {
        let folder = std::env::temp_dir().join(format!("weir-printed-{}", std::process::id()));
        let pid = folder.to_str().unwrap();
        let hanging =
            PasswordCommand { timeout: Span::from_millis(300), ..shell(&format!("sleep 1000 & echo $! >{pid}; wait")) };
        assert_eq!(get(&hanging).unwrap_err(), "/bin/sh did not end within 0.3 s");
        let child: i32 = std::fs::read_to_string(&folder).unwrap().trim().parse().unwrap();
        std::fs::remove_file(&folder).unwrap();
        let stat = format!("/proc/{child}/stat");
        let lives = || std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
        let end = Instant::now() + Duration::from_secs(20);
        while lives() {
            assert!(Instant::now() < end, "it lives on");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_program_that_leaves_another_one_behind_is_not_waited_for_longer_than_itself() {
        // The one that stays has the pipes.
        let left = get(&shell("sleep 15 & echo $!")).unwrap();
        let pid = Pid::from_raw(left.parse().unwrap());
        nix::sys::signal::kill(pid, Signal::SIGKILL).unwrap();
    }
}
