//! `weir upgrade`: another process takes over from the one that serves a configuration.
//!
//! The command starts `weir upgrade --foreground` as a process of its own, and ends when that serves. Owns how the two
//! talk; how processes take over is the runtime's.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use clap::Args;
use weir_config::Config;
use weir_runtime::{NoOldProcess, OldProcess, upgrade_socket};
use weir_store::load;

use crate::check;
use crate::failure::Failure;
use crate::process::RunMode;
use crate::serve::{self, Console, Start};
use crate::supervised::{self, Facts};

pub(crate) const HELP: &str = "\
Starts this program with FILE, and has it take over from the one that serves: listening sockets,
clients between two transactions with their prepared statements and settings, TLS clients too, and
idle servers. A client in a transaction follows when that is over; then the old process ends.
If anything fails, the old process serves on, and the exit status is 1. A process that a supervisor
has started, such as systemd, is replaced through that supervisor only: systemctl reload.

Examples:
  weir upgrade /etc/weir/weir.toml               after a new version was installed
  ExecReload=/usr/bin/weir upgrade /etc/weir/weir.toml
                                                 in a unit of systemd, with NotifyAccess=all";

/// How long the new process may take until it serves; the old one waits as long.
const START: Duration = Duration::from_secs(60);
/// What the new process writes when it serves.
const SERVES: &[u8] = b"serves\n";

#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Arguments {
    /// The configuration that the running process serves, as it is now
    file: PathBuf,
    /// Take over with this very process, and serve in it
    #[arg(long)]
    foreground: bool,
    /// Write a line to stdout when clients are served
    #[arg(long, hide = true, requires = "foreground")]
    report: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.foreground { serve(arguments) } else { start(arguments) }
}

/// The process that serves a configuration now, for one that would also do without: none, if there is none.
pub(crate) fn old_process(config: &Config) -> Result<Option<OldProcess>, Failure> {
    let user = config.process.user.as_deref();
    match OldProcess::ask(&upgrade_socket(&config.listen, user), user) {
        Ok(old) => Ok(Some(old)),
        Err(NoOldProcess::Absent) => {
            eprintln!("weir: old process not found, try to continue normally");
            Ok(None)
        }
        Err(NoOldProcess::Refused(why)) => Err(Failure::Message(format!("can't take over: {why}"))),
    }
}

/// Takes over, and serves.
fn serve(arguments: &Arguments) -> Result<(), Failure> {
    // Where the old process is asked. What it serves is read when it changes nothing any more.
    let config = load::load(&arguments.file)
        .map_err(|mistakes| check::mistaken(load::load_as_far(&arguments.file).0, &mistakes))?;
    let user = config.process.user.as_deref();
    let socket = upgrade_socket(&config.listen, user);
    let old = OldProcess::ask(&socket, user).map_err(|why| {
        let start = if matches!(why, NoOldProcess::Absent) {
            "; start one with: weir serve FILE. One with another port or socket folder must be restarted"
        } else {
            ""
        };
        Failure::Message(format!("can't take over from the process that serves, at {}: {why}{start}", socket.display()))
    })?;
    let (report, mut old) = (arguments.report, old);
    // Who runs this one in the foreground is its supervisor.
    if report && let Some(who) = supervised::supervisor(&Facts::of(old.pid()), &Facts::of(std::process::id())) {
        return Err(Failure::Message(format!("can't take over from process {}: {who}", old.pid())));
    }
    let (store, mut config) = serve::open(&arguments.file, |_| {})?;
    for key in old.lost_settings() {
        let text = format!("what SET has made of {key} ends with the old process: the file's value holds");
        eprintln!("weir: warning: {text}");
        config.warnings.push(text);
    }
    let errors = old.take_errors();
    let serving = move || {
        if report {
            // The log goes on where the old process wrote it: who has called the command may read its standard error to
            // the end.
            if let Some(errors) = errors {
                let _ = nix::unistd::dup2_stderr(errors);
            }
            let mut out = std::io::stdout();
            // The command that waits may have been ended; its pipe must not be kept from others.
            let _ = out.write_all(SERVES).and_then(|()| out.flush());
            if let Ok(null) = std::fs::File::options().write(true).open("/dev/null") {
                let _ = nix::unistd::dup2_stdout(null);
            }
        }
    };
    let start = Start::new(RunMode::Foreground, Console::Verbose);
    serve::serve(store, config, Start { old_process: Some(old), serving: Box::new(serving), ..start })
}

/// Starts the process that takes over, and waits until it serves.
fn start(arguments: &Arguments) -> Result<(), Failure> {
    let program = std::env::current_exe().map_err(|e| Failure::at("can't find this program", e))?;
    let mut command = Command::new(program);
    command.arg("upgrade").arg("--foreground").arg("--report").arg(&arguments.file);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
    let mut child = command.spawn().map_err(|e| Failure::at("can't start the new process", e))?;
    let said = hear(&mut child);
    if said.as_deref() == Some(SERVES) {
        weir_terminal::print_line(format!("process {} has taken over", child.id()));
        return Ok(());
    }
    if said.is_none() {
        let _ = child.kill();
        let _ = child.wait();
        let seconds = START.as_secs();
        return Err(Failure::Message(format!("the new process did not serve within {seconds} s, and was ended")));
    }
    // The new process has said why.
    let _ = child.wait();
    Err(Failure::Reported)
}

/// What the new process says, until it serves or ends; `None`: nothing in time.
fn hear(child: &mut Child) -> Option<Vec<u8>> {
    let mut out = child.stdout.take()?;
    let (sender, said) = mpsc::sync_channel(1);
    // The thread ends with the new process, or with this one.
    thread::spawn(move || {
        let (mut said, mut buffer) = (Vec::new(), [0; 64]);
        while said != SERVES {
            match out.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => said.extend_from_slice(&buffer[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        let _ = sender.send(said);
    });
    said.recv_timeout(START).ok()
}
