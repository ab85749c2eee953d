//! `weir-demo`, which `weir demo` runs: Weir at work on a temporary PostgreSQL.
//!
//! Owns flags and exit statuses: 0 for done, 1 for an error (a line on stderr), 2 for a command line that was not
//! understood.

mod bars;
mod burst;
mod certificate;
mod console;
mod failure;
mod live;
mod report;
mod servers;
mod stop;
mod story;
mod traffic;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use weir_terminal::ColorWhen;

const EXAMPLES: &str = "\
Starts a temporary PostgreSQL that takes 100 connections, sends 150 clients straight at it, then
the same 150 through Weir, and stays up for you to look at. Ctrl-C stops it; nothing is left behind
but a PostgreSQL that was downloaded: the last line says where.

PostgreSQL's programs are looked for on this machine. Where there are none, you are asked before
anything is downloaded or installed.

Examples:
  weir demo                  until Ctrl-C
  weir demo --seconds 5      for a script: ends by itself
  weir demo --yes            for a script: may download or install PostgreSQL";

#[derive(Parser)]
#[command(
    name = "weir-demo",
    bin_name = "weir demo",
    version,
    about = "Show Weir at work in half a minute, on a temporary server",
    after_help = EXAMPLES
)]
struct Arguments {
    /// Seconds to stay up at the end [default: until Ctrl-C; 10 without a terminal]
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    /// Download or install PostgreSQL without a question, where there is none
    #[arg(long)]
    yes: bool,
    /// The weir to show [default: the one beside this program, or else in PATH]
    #[arg(long, value_name = "FILE")]
    weir: Option<PathBuf>,
    /// Use colours; auto: on a terminal, unless NO_COLOR is set
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: ColorWhen,
}

fn main() -> ExitCode {
    let Arguments { seconds, yes, weir, color } = Arguments::parse();
    match story::run(&story::Options { seconds, yes, weir, color }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("weir demo: {failure}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn help_is_consistent_and_fits_a_terminal() {
        let mut command = Arguments::command();
        command.clone().debug_assert();
        let help = command.render_help().to_string();
        let wide: Vec<_> = help.lines().filter(|line| line.chars().count() > 100).collect();
        assert!(wide.is_empty(), "{wide:?}");
        assert_eq!(Arguments::try_parse_from(["weir demo", "--second"]).map(|_| ()).unwrap_err().exit_code(), 2);
    }
}
