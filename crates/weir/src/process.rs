//! What a server process does before it serves: switches to another user, goes to the background, writes its pidfile.
//!
//! All of it happens before the first thread starts.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::kill;
use nix::unistd::{Pid, User, daemon, getpid, getuid, initgroups, setgid, setuid};
use weir_config::Config;

use crate::failure::Failure;

/// Where the process runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RunMode {
    /// On the terminal that started it.
    Foreground,
    /// A daemon, without a terminal.
    Background,
}

/// A longer file, in bytes, has no process id.
const LONGEST_PID_FILE: u64 = 1 << 20;

/// The pidfile, removed on drop.
#[derive(Debug)]
pub(crate) struct PidFile(PathBuf);

impl Drop for PidFile {
    fn drop(&mut self) {
        // Another process may have taken over, and the file with it.
        if fs::read_to_string(&self.0).is_ok_and(|text| text.trim() == getpid().to_string()) {
            // A folder that has become unwritable leaves a stale file, which the next start removes.
            let _ = fs::remove_file(&self.0);
        }
    }
}

/// Whether a process of the same kind serves already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Other {
    /// No other process may serve.
    None,
    /// This one takes over from it; the pidfile is its until [`PidFile::take_over`].
    TakenOver,
}

impl PidFile {
    /// Another process has been taken over from: the file has our process id from now on.
    pub(crate) fn replace(path: &Path) -> Result<PidFile, Failure> {
        let written = fs::write(path, format!("{}\n", getpid()));
        written.map_err(|error| unwritten(path, &error))?;
        Ok(PidFile(path.to_owned()))
    }
}

/// Has the process listed under another name, by which scripts find it: signals by name, `start-stop-daemon --name`. To
/// be called before the first thread exists. Where it can't be changed, it stays as it is.
pub(crate) fn take_name(name: &str) {
    let _ = fs::write("/proc/self/comm", name);
}

/// Becomes what the configuration and the command line ask for.
pub(crate) fn prepare(config: &Config, run_mode: RunMode, other: Other) -> Result<Option<PidFile>, Failure> {
    if !config.process.core_dumps {
        // While still the user who started it: another user may not change this.
        keep_memory_private();
    }
    if let Some(name) = &config.process.user {
        become_user(name)?;
    }
    let pid_file = config.process.pid_file.as_deref();
    if let Some(path) = pid_file.filter(|_| other == Other::None) {
        refuse_second(path)?;
    }
    if run_mode == RunMode::Background {
        if config.log.file.is_none() && !config.log.syslog {
            return Err(Failure::Message("a daemon has no terminal to log to: set logfile, or syslog = 1".into()));
        }
        if pid_file.is_none() {
            return Err(Failure::Message("a daemon is found by its pidfile: set pidfile".into()));
        }
        if let Err(error) = weir_runtime::check_log_file(&config.log) {
            return Err(Failure::at("can't open the log file", error));
        }
        daemon(true, false).map_err(|e| Failure::at("can't go to the background", e))?;
    }
    pid_file.filter(|_| other == Other::None).map(write).transpose()
}

/// Keeps memory, which contains passwords and keys, out of core dumps: no core file, and no memory for a program that
/// the system passes dumps to (core_pattern; core(5), "Controlling which mappings are written").
///
/// PR_SET_DUMPABLE is not used: it would hide the descriptors and the memory figures in /proc from monitoring.
fn keep_memory_private() {
    // Neither call requires a privilege; a system without this file has no such dumps.
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    let _ = fs::write("/proc/self/coredump_filter", "0");
}

/// Whether the process would serve as root, which it does not need.
pub(crate) fn is_root() -> bool {
    getuid().is_root()
}

/// Whether the operating system has a user of this name, as far as it can tell.
pub(crate) fn is_user(name: &str) -> bool {
    !matches!(User::from_name(name), Ok(None))
}

/// Switches to another user of the operating system; only root can.
pub(crate) fn become_user(name: &str) -> Result<(), Failure> {
    let failed = |what: &str, e: Errno| Failure::Message(format!("can't become user {name}: {what}: {e}"));
    let user = User::from_name(name).map_err(|e| failed("looking it up", e))?;
    let user = user.ok_or_else(|| {
        Failure::Message(format!("can't become user {name}: there is no such user; create it, or name another one"))
    })?;
    if user.uid == getuid() {
        return Ok(());
    }
    if !getuid().is_root() {
        return Err(Failure::Message(format!("can't become user {name}: only root can; start it as {name} instead")));
    }
    let c_name = std::ffi::CString::new(name).map_err(|e| Failure::at("the user's name", e))?;
    initgroups(&c_name, user.gid).map_err(|e| failed("initgroups", e))?;
    setgid(user.gid).map_err(|e| failed("setgid", e))?;
    setuid(user.uid).map_err(|e| failed("setuid", e))
}

fn refuse_second(path: &Path) -> Result<(), Failure> {
    let text = match weir_runtime::read_ordinary(path, LONGEST_PID_FILE) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Failure::at(format_args!("can't read the pidfile {}", path.display()), error)),
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
    };
    let alive = text.trim().parse().is_ok_and(|pid: i32| {
        pid > 0 && Pid::from_raw(pid) != getpid() && kill(Pid::from_raw(pid), None) != Err(Errno::ESRCH)
    });
    if alive {
        let pid = text.trim();
        let text = format!("pidfile exists, another instance running? process {pid}, {}", path.display());
        return Err(Failure::Message(text));
    }
    fs::remove_file(path).map_err(|e| Failure::at(format_args!("can't remove the stale pidfile {}", path.display()), e))
}

fn write(path: &Path) -> Result<PidFile, Failure> {
    let written = fs::File::create_new(path).and_then(|mut file| writeln!(file, "{}", getpid()));
    written.map_err(|error| unwritten(path, &error))?;
    Ok(PidFile(path.to_owned()))
}

fn unwritten(path: &Path, error: &io::Error) -> Failure {
    let what = format!("can't write the pidfile {}", path.display());
    match path.parent().filter(|folder| error.kind() == ErrorKind::NotFound && !folder.exists()) {
        Some(folder) => Failure::at(what, format_args!("create the folder {}, or change pidfile", folder.display())),
        None => Failure::at(what, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(pid_file: &Path) -> Config {
        let mut config = Config::default();
        config.process.pid_file = Some(pid_file.to_owned());
        config
    }

    #[test]
    fn a_pidfile_is_written_replaced_when_stale_and_gone_at_the_end() {
        let path = std::env::temp_dir().join(format!("weir-pid-{}", getpid()));
        // The highest process id that Linux gives out is below this.
        fs::write(&path, "99999999\n").unwrap();
        let guard = prepare(&config(&path), RunMode::Foreground, Other::None).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap().trim(), getpid().to_string());
        drop(guard);
        assert!(!path.exists());
        let parent = nix::unistd::getppid();
        fs::write(&path, parent.to_string()).unwrap();
        let Err(Failure::Message(text)) = prepare(&config(&path), RunMode::Foreground, Other::None) else {
            panic!("a second instance")
        };
        assert!(text.starts_with("pidfile exists, another instance running?"), "{text}");
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_pipe_in_the_place_of_the_pidfile_is_an_error_and_stays() {
        let path = std::env::temp_dir().join(format!("weir-pid-pipe-{}", getpid()));
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let Err(Failure::Message(text)) = prepare(&config(&path), RunMode::Foreground, Other::None) else {
            panic!("a pipe was taken for a pidfile")
        };
        assert!(text.ends_with("not a regular file") && path.exists(), "{text}");
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_pidfile_without_its_folder_names_the_folder() {
        let Err(Failure::Message(text)) =
            prepare(&config(Path::new("/no/such/x.pid")), RunMode::Foreground, Other::None)
        else {
            panic!("written nowhere")
        };
        assert_eq!(text, "can't write the pidfile /no/such/x.pid: create the folder /no/such, or change pidfile");
    }

    #[test]
    fn a_user_that_does_not_exist_is_named() {
        let mut config = Config::default();
        config.process.user = Some("no-such-user-here".into());
        let Err(Failure::Message(text)) = prepare(&config, RunMode::Foreground, Other::None) else {
            panic!("a user out of nothing")
        };
        assert_eq!(text, "can't become user no-such-user-here: there is no such user; create it, or name another one");
    }
}
