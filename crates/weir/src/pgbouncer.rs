//! `weir pgbouncer`, and `weir` when it is started by the name `pgbouncer`: PgBouncer's own command line.
//!
//! Owns those flags and their effects. `serve` does the serving.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::{ArgAction, Parser};

use weir_config::Config;

use crate::failure::Failure;
use crate::process::{self, RunMode};
use crate::serve::{self, Console, Start};
use crate::start_failure;
use crate::upgrade;
use crate::usage::without_misleading_tip;

/// PgBouncer's command line.
#[derive(Parser, Clone, PartialEq, Eq, Debug)]
#[command(
    name = "pgbouncer",
    about = "Serves a pgbouncer.ini as it is: PgBouncer's own command line, answered by Weir",
    disable_version_flag = true,
    disable_help_subcommand = true,
    after_help = "\
Examples:
  weir pgbouncer /etc/pgbouncer/pgbouncer.ini                    on the terminal
  weir pgbouncer -d -u postgres /etc/pgbouncer/pgbouncer.ini     in the background, as postgres
  weir pgbouncer -R -d /etc/pgbouncer/pgbouncer.ini              takes over from a running one
  weir check /etc/pgbouncer/pgbouncer.ini                        says what the file means

A link named pgbouncer to this program, as in /usr/sbin/pgbouncer, has this command line.
`weir convert FILE` prints the file as a weir.toml."
)]
pub(crate) struct Arguments {
    /// Run in the background; needs pidfile and logfile (or syslog)
    #[arg(short, long)]
    daemon: bool,
    /// Take over the sockets, clients and servers of the process that serves this file
    #[arg(short = 'R', long)]
    reboot: bool,
    /// Log to the file and to syslog only, not to the terminal
    #[arg(short, long)]
    quiet: bool,
    /// Log more; twice: even more
    #[arg(short, long, action = ArgAction::Count)]
    verbose: u8,
    /// Switch to this user of the operating system
    #[arg(short, long, value_name = "USER")]
    user: Option<String>,
    /// Print the version, and exit
    #[arg(short = 'V', long)]
    version: bool,
    /// The configuration, a pgbouncer.ini
    #[arg(value_name = "FILE.ini")]
    file: Option<PathBuf>,
}

/// Whether the program was started by PgBouncer's name.
pub(crate) fn is_called(program: Option<&OsStr>) -> bool {
    program.map(Path::new).and_then(Path::file_stem).is_some_and(|name| name == "pgbouncer")
}

/// Parses the command line of a program named `pgbouncer`; exits after printing help, and with PgBouncer's exit status
/// 1 for a mistake.
pub(crate) fn parse(words: impl IntoIterator<Item = OsString>) -> Arguments {
    Arguments::try_parse_from(words).unwrap_or_else(|error| {
        let error = without_misleading_tip(error);
        // A closed terminal can't be handled.
        let _ = error.print();
        std::process::exit(i32::from(error.use_stderr()))
    })
}

/// Executes the command line.
pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    if arguments.version {
        let version = weir_runtime::VERSION;
        weir_terminal::print_line(version.split(" (").next().unwrap_or(version));
        weir_terminal::print_line("This is Weir, with the files, the command line and the console of that PgBouncer.");
        return Ok(());
    }
    let Some(file) = arguments.file.clone() else {
        return Err(Failure::Message("Need config file. See pgbouncer -h for usage.".into()));
    };
    let (quiet, user) = (arguments.quiet, arguments.user.clone());
    start(&file, arguments).map_err(|failure| start_failure::log(failure, &file, user, !quiet))
}

/// Serves the file.
fn start(file: &Path, arguments: Arguments) -> Result<(), Failure> {
    let more = arguments.verbose;
    let louder = move |config: &mut Config| config.log.verbose = config.log.verbose.saturating_add(more);
    let read = || {
        let (store, mut config) = serve::open(file, louder)?;
        config.log.verbose = config.log.verbose.saturating_add(more);
        config.process.user = arguments.user.clone().or(config.process.user);
        Ok::<_, Failure>((store, config))
    };
    let (mut store, mut config) = read()?;
    if config.process.user.is_none() && process::is_root() {
        let text = "PgBouncer should not run as root: name a user with -u USER, or as user = … in the file";
        return Err(Failure::Message(text.into()));
    }
    process::take_name("pgbouncer");
    let run_mode = if arguments.daemon { RunMode::Background } else { RunMode::Foreground };
    let console = if arguments.quiet || arguments.daemon { Console::Quiet } else { Console::Verbose };
    let old_process = if arguments.reboot { upgrade::old_process(&config)? } else { None };
    if old_process.is_some() {
        // As the files are now that the old process changes nothing any more.
        (store, config) = read()?;
    }
    serve::serve(store, config, Start { old_process, ..Start::new(run_mode, console) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Arguments {
        Arguments::try_parse_from(words.iter().map(|word| OsString::from(*word))).unwrap()
    }

    #[test]
    fn flags_are_those_of_pgbouncer_alone_or_together() {
        let arguments = read(&["pgbouncer", "-dqvv", "-u", "postgres", "/etc/pgbouncer/pgbouncer.ini"]);
        assert_eq!((arguments.daemon, arguments.quiet, arguments.verbose), (true, true, 2));
        assert_eq!(arguments.user.as_deref(), Some("postgres"));
        assert_eq!(arguments.file.as_deref(), Some(Path::new("/etc/pgbouncer/pgbouncer.ini")));
        let long = read(&["pgbouncer", "--daemon", "--quiet", "-v", "--verbose", "--user=postgres", "x.ini"]);
        assert_eq!(long, Arguments { file: Some("x.ini".into()), ..arguments });
        assert!(read(&["pgbouncer", "-V"]).version && read(&["pgbouncer", "--reboot"]).reboot);
        assert!(Arguments::try_parse_from(["pgbouncer", "-x"]).is_err());
    }

    #[test]
    fn the_name_of_the_program_decides() {
        assert!(is_called(Some(OsStr::new("/usr/sbin/pgbouncer"))));
        assert!(!is_called(Some(OsStr::new("/usr/bin/weir"))) && !is_called(None));
    }

    #[test]
    fn what_is_missing_is_said() {
        let said = |words: &[&str]| match run(read(words)) {
            Err(Failure::Message(text)) => text,
            other => panic!("{other:?}"),
        };
        assert_eq!(said(&["pgbouncer"]), "Need config file. See pgbouncer -h for usage.");
    }
}
