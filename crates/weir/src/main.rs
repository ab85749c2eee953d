//! The `weir` command: its subcommands, and the module of each.
//!
//! Owns flags, help and exit statuses: 0 for success, 1 for an error (a clear line on stderr), 2 for an invalid
//! command line. No logic of its own.

mod account;
mod activity;
mod check;
mod companion;
mod config_store;
mod convert;
mod events;
mod failure;
mod load;
mod pam_helper;
mod pgbouncer;
mod pool_test;
mod probe;
mod process;
mod readable_secrets;
mod replace;
mod serve;
mod slow;
mod top;
mod upgrade;
mod web_tls;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::Failure;
use weir_config::WebRole;

const ABOUT: &str = "Weir, a PostgreSQL connection pooler: thousands of clients on a few well-used servers";

const EXAMPLES: &str = "\
Examples:
  weir demo                            Weir with traffic on a temporary server
  weir lab all --quick                 rerun the published experiments about pooling
  weir check weir.toml --connect       is the file valid, and do the servers answer?
  weir serve weir.toml                 run until a signal ends it
  weir serve pgbouncer.ini             the same, from PgBouncer's own file
  psql -h 127.0.0.1 -p 6432 app        connect to pool \"app\", as to a database
  psql -h 127.0.0.1 -p 6432 weir -c 'show pools'
                                       the console, as a user in admin_users or stats_users";

const SERVE_EXAMPLES: &str = "\
A first weir.toml:

  [listen]
  address = \"127.0.0.1\"
  port = 6432

  [auth]
  type = \"scram-sha-256\"       # or trust, plain, md5
  file = \"userlist.txt\"        # clients: lines of \"user\" \"password\"

  [pools.app]                  # clients name the pool as their database
  host = \"127.0.0.1\"           # or the folder of the server's socket
  user = \"app\"                 # Weir's login at the server; default: each client's own user
  password = \"…\"               # its password; or password_file, or password_env
  size = 20                    # the most server connections

Signals: HUP reloads the file. INT exits when transactions have ended, TERM when clients have
disconnected, QUIT at once.";

const CHECK_EXAMPLES: &str = "\
Examples:
  weir check weir.toml             reads the file and shows the resulting settings
  weir check weir.toml --connect   also logs in to each pool's server
  weir check pgbouncer.ini         also lists settings without effect, with the reason

The exit status is 1 if Weir can't serve this configuration, 0 otherwise; warnings do not count.";

const CONVERT_EXAMPLES: &str = "\
Examples:
  weir convert /etc/pgbouncer/pgbouncer.ini > weir.toml
  weir check weir.toml             shows the result

Users stay in their file. Passwords of databases are printed as they are: keep the result private.";

const ACCOUNT_EXAMPLES: &str = "\
Examples:
  weir account ann                              asks for a password; a line for [web.users]
  weir account grafana --role viewer --token    creates a token; a line for [web.tokens]

A viewer may look; an operator may also pause, resume, reload and close clients; an admin may also
change pools and settings.";

const TOP_EXAMPLES: &str = "\
Shows the figures of GET /api/v1/events, which needs [web] address = \"127.0.0.1\" in weir.toml.

Examples:
  weir top                            until Ctrl-C
  weir top http://127.0.0.1:9000      another port
  weir top --once --pools 5           for a script: the five busiest pools, once
  WEIR_TOKEN=… weir top               if a login is needed (weir account NAME --token)
  weir top https://db1:8432 --ca-file ca.crt
                                      an encrypted API, with a certificate of your own authority";

/// A debug build is several times slower, so its version names it: its figures must not be taken for a release's.
const VERSION: &str = if cfg!(debug_assertions) {
    concat!(env!("CARGO_PKG_VERSION"), " (debug build)")
} else {
    env!("CARGO_PKG_VERSION")
};

#[derive(Parser)]
#[command(name = "weir", version = VERSION, about = ABOUT, after_help = EXAMPLES, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve clients with a configuration
    #[command(after_help = SERVE_EXAMPLES)]
    Serve {
        /// The configuration, a weir.toml or a pgbouncer.ini
        file: PathBuf,
    },
    /// Show the meaning and the errors of a configuration
    #[command(after_help = CHECK_EXAMPLES)]
    Check {
        /// The configuration, a weir.toml or a pgbouncer.ini
        file: PathBuf,
        /// Also log in to each pool's server
        #[arg(long)]
        connect: bool,
    },
    /// Print the weir.toml that is equivalent to a pgbouncer.ini
    #[command(after_help = CONVERT_EXAMPLES)]
    Convert {
        /// The configuration, a pgbouncer.ini
        file: PathBuf,
    },
    /// Print a line of weir.toml for logins to the API and the panel
    #[command(after_help = ACCOUNT_EXAMPLES)]
    Account {
        /// The name to log in with
        name: String,
        /// What the account may do: viewer, operator or admin
        #[arg(long, default_value = "admin")]
        role: WebRole,
        /// Make a token for a program, in place of a password for a person
        #[arg(long)]
        token: bool,
    },
    /// Show Weir in half a minute, on a temporary server (`weir demo --help`)
    #[command(disable_help_flag = true)]
    Demo {
        /// The arguments of weir-demo
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        arguments: Vec<OsString>,
    },
    /// Replace a running Weir by this program or configuration without losing a client
    #[command(after_help = upgrade::HELP)]
    Upgrade(upgrade::Arguments),
    /// Watch a running Weir: its pools, once a second
    #[command(after_help = TOP_EXAMPLES)]
    Top(top::Arguments),
    /// Serve a pgbouncer.ini with PgBouncer's own command line
    Pgbouncer(pgbouncer::Arguments),
    /// Rerun the published experiments about pooling, or your own (`weir lab --help`)
    #[command(disable_help_flag = true)]
    Lab {
        /// The arguments of weir-lab
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        arguments: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    if pam_helper::is_called(words.first().map(OsString::as_os_str)) {
        return pam_helper::run();
    }
    if pgbouncer::is_called(words.first().map(OsString::as_os_str)) {
        return conclude(pgbouncer::run(pgbouncer::parse(words)));
    }
    if words.get(1).is_some_and(|word| word == "pgbouncer") {
        return conclude(pgbouncer::run(pgbouncer::parse(words.into_iter().skip(1))));
    }
    let outcome = match Cli::parse_from(words).command {
        Command::Serve { file } => serve::run(&file),
        Command::Check { file, connect } => {
            check::run(&file, if connect { check::Scope::Servers } else { check::Scope::File })
        }
        Command::Convert { file } => convert::run(&file),
        Command::Account { name, role, token } => {
            account::run(&name, role, if token { account::Kind::Program } else { account::Kind::Person })
        }
        Command::Demo { arguments } => companion::DEMO.exec(&arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Upgrade(arguments) => upgrade::run(&arguments),
        Command::Pgbouncer(arguments) => pgbouncer::run(arguments),
        Command::Lab { arguments } => companion::LAB.exec(&arguments),
    };
    conclude(outcome)
}

fn conclude(outcome: Result<(), Failure>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Reported) => ExitCode::FAILURE,
        Err(Failure::Message(text)) => {
            eprintln!("weir: {text}");
            ExitCode::FAILURE
        }
        Err(Failure::Messages(lines)) => {
            lines.iter().for_each(|line| eprintln!("weir: {line}"));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_is_not_understood_is_a_usage_error() {
        for words in [vec!["weir", "serve"], vec!["weir", "serf", "x"], vec!["weir", "check", "x", "--conect"]] {
            let error = Cli::try_parse_from(words).map(|_| ()).unwrap_err();
            assert_eq!(error.exit_code(), 2);
        }
    }

    #[test]
    fn help_teaches_by_example_and_fits_a_terminal() {
        let mut command = Cli::command();
        command.build();
        let mut texts = vec![command.render_help().to_string()];
        texts.extend(command.get_subcommands_mut().map(|sub| sub.render_help().to_string()));
        assert!(texts[0].contains("weir check weir.toml --connect"));
        let wide: Vec<_> =
            texts.iter().flat_map(|text| text.lines()).filter(|line| line.chars().count() > 100).collect();
        assert!(wide.is_empty(), "{wide:?}");
    }
}
