//! The `weir` command: its subcommands, and the module of each.
//!
//! Owns flags, help and exit statuses: 0 for success, 1 for an error (a clear line on stderr), 2 for an invalid
//! command line, and the wiring of the process that serves (`serve`). What that process does is other crates': the data
//! plane `runtime`, the control plane `web`, the configuration `store`, a cluster's node `node`, and connections to
//! database servers beside the pools' `probes`.

mod account;
mod api_address;
mod check;
mod cluster;
mod color;
mod companion;
mod completions;
mod convert;
mod drain;
mod events;
mod failure;
mod man;
mod milliseconds;
mod outgoing;
mod pam_helper;
mod pgbouncer;
mod process;
mod ready;
mod serve;
mod slow;
mod start_failure;
mod supervised;
mod top;
mod top_cluster;
mod top_statements;
mod upgrade;
mod usage;
mod version;
mod web_tls;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use weir_config::WebRole;
use weir_store::load;

use failure::Failure;

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
Examples:
  weir serve weir.toml           until a signal ends it
  weir serve pgbouncer.ini       PgBouncer's file, with PgBouncer's meanings and defaults

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
disconnected (where drain_time or shutdown_delay is set it closes them: see weir drain), QUIT at
once.";

const CONVERT_EXAMPLES: &str = "\
Examples:
  weir convert /etc/pgbouncer/pgbouncer.ini > weir.toml
  weir check weir.toml             shows the result
  weir convert - < pgbouncer.ini   reads standard input

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
  weir top --once --pools 5           the five busiest pools, once
  weir top | head -5                  once, too: standard output is no terminal
  WEIR_TOKEN=… weir top               if a login is needed (weir account NAME --token)
  weir top https://db1:8432 --ca-file ca.crt
                                      an encrypted API, with a certificate of your own authority";

#[derive(Parser)]
#[command(name = "weir", version = version::SHORT, long_version = version::long(), about = ABOUT, after_help = EXAMPLES, arg_required_else_help = true)]
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
    #[command(after_help = check::HELP)]
    Check(check::Arguments),
    /// Print the weir.toml that is equivalent to a pgbouncer.ini
    #[command(after_help = CONVERT_EXAMPLES)]
    Convert {
        /// The configuration, a pgbouncer.ini; - is standard input
        file: PathBuf,
    },
    /// Show the nodes of a cluster, and change the configuration that they share
    #[command(after_help = cluster::HELP)]
    Cluster(cluster::Arguments),
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
    /// Have a running Weir close its clients between transactions, and end
    #[command(after_help = drain::HELP)]
    Drain(drain::Arguments),
    /// Watch a running Weir: its pools, once a second
    #[command(after_help = TOP_EXAMPLES)]
    Top(top::Arguments),
    /// Ask whether a running Weir accepts new clients, as a probe
    #[command(after_help = ready::HELP)]
    Ready(ready::Arguments),
    /// Serve a pgbouncer.ini with PgBouncer's own command line
    Pgbouncer(pgbouncer::Arguments),
    /// Print the completions of a shell
    #[command(after_help = completions::HELP)]
    Completions(completions::Arguments),
    /// Show a manual page
    #[command(after_help = man::HELP)]
    Man(man::Arguments),
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
    let cli = Cli::try_parse_from(words).unwrap_or_else(|error| usage::without_misleading_tip(error).exit());
    let outcome = match cli.command {
        Command::Serve { file } => serve::run(&file),
        Command::Check(arguments) => check::run(&arguments),
        Command::Convert { file } => convert::run(load::named(&file)),
        Command::Cluster(arguments) => cluster::run(&arguments),
        Command::Account { name, role, token } => {
            account::run(&name, role, if token { account::Kind::Program } else { account::Kind::Person })
        }
        Command::Demo { arguments } => companion::DEMO.exec(&arguments),
        Command::Drain(arguments) => drain::run(&arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Upgrade(arguments) => upgrade::run(&arguments),
        Command::Ready(arguments) => ready::run(&arguments),
        Command::Pgbouncer(arguments) => pgbouncer::run(arguments),
        Command::Completions(arguments) => completions::run(&arguments, Cli::command()),
        Command::Man(arguments) => man::run(&arguments, Cli::command()),
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
    use super::*;

    /// The help of each command that has one here, by its name; the companions have their own.
    fn helps() -> Vec<(String, String)> {
        let mut command = Cli::command();
        command.build();
        let own = command.render_help().to_string();
        let subs = command.get_subcommands_mut().filter(|sub| !["demo", "lab", "help"].contains(&sub.get_name()));
        let helps = subs.map(|sub| (sub.get_name().to_owned(), sub.render_help().to_string()));
        [("weir".to_owned(), own)].into_iter().chain(helps).collect()
    }

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
    fn an_unknown_flag_is_not_offered_as_a_value() {
        let error = |words: &[&str]| {
            let error = Cli::try_parse_from(words).map(drop).unwrap_err();
            usage::without_misleading_tip(error).to_string()
        };
        for words in [["weir", "check", "-x"], ["weir", "serve", "-x"], ["weir", "-x", ""]] {
            let text = error(&words);
            assert!(text.contains("unexpected argument '-x'") && !text.contains("as a value"), "{text}");
        }
        assert!(error(&["weir", "check", "x", "--conect"]).contains("--connect"));
    }

    #[test]
    fn what_is_no_command_is_answered_with_the_one_that_is_meant() {
        for (word, meant) in
            [("weir.toml", "weir serve weir.toml"), ("run", "weir serve"), ("reload", "SIGHUP"), ("serv", "'serve'")]
        {
            let error = Cli::try_parse_from(["weir", word]).map(drop).unwrap_err();
            let text = usage::without_misleading_tip(error).to_string();
            assert!(text.contains(meant), "{text}");
        }
    }

    #[test]
    fn help_fits_a_terminal() {
        let helps = helps();
        let wide: Vec<_> =
            helps.iter().flat_map(|(_, text)| text.lines()).filter(|line| line.chars().count() > 100).collect();
        assert!(wide.is_empty(), "{wide:?}");
    }

    #[test]
    fn every_help_has_examples_and_every_example_is_understood() {
        for (name, help) in helps() {
            let (_, examples) = help.split_once("\nExamples:\n").unwrap_or_else(|| panic!("{name} has no example"));
            let lines = examples.lines().map(str::trim_start).take_while(|line| !line.is_empty());
            let commands: Vec<_> = lines.filter_map(command_of).collect();
            assert!(!commands.is_empty(), "{name} has no example of weir");
            for words in commands {
                let understood = match words[1].as_str() {
                    "pgbouncer" => pgbouncer::Arguments::try_parse_from(&words[1..]).map(drop),
                    _ => Cli::try_parse_from(&words).map(drop),
                };
                assert!(understood.is_ok(), "{name}: {words:?}: {}", understood.unwrap_err());
                assert!(name == "weir" || words[1] == name || words.contains(&"check".to_owned()), "{name}: {words:?}");
            }
        }
    }

    /// The words of an example, without variables before, redirections, and the remark after them.
    fn command_of(line: &str) -> Option<Vec<String>> {
        let command = line.split("  ").next()?;
        let command = command.split(['<', '>', '|']).next()?;
        let command = command.split("=/usr/bin/").last()?;
        let words = command.split_whitespace().skip_while(|word| word.contains('='));
        let words: Vec<String> = words.map(str::to_owned).collect();
        (words.len() > 1 && words[0] == "weir").then_some(words)
    }
}
