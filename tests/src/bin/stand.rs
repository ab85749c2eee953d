//! A throw-away PostgreSQL and a Weir before it, for as long as a command runs: `stand COMMAND [ARGUMENT…]`.
//!
//! The command finds in its environment: `WEIR_HOST`, `WEIR_PORT`, `WEIR_USER`, `WEIR_PASSWORD`, the pools
//! `WEIR_TRANSACTION` and `WEIR_SESSION` (names of databases to connect to), and, past Weir, `PG_DIRECT_PORT` and
//! `PG_DIRECT_DATABASE`. The exit status is the command's, or 1 if Weir's counters are not back at the end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, ExitCode};

use weir_tests::{Mode, Setup, Site, users};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let Some(program) = arguments.next() else {
        eprintln!("usage: stand COMMAND [ARGUMENT…]");
        return ExitCode::from(2);
    };
    let mut command = Command::new(program);
    command.args(arguments);
    let outcome = catch_unwind(AssertUnwindSafe(|| run(&mut command)));
    outcome.unwrap_or(ExitCode::FAILURE)
}

fn run(command: &mut Command) -> ExitCode {
    let postgres = weir_tests::Postgres::shared();
    let database = postgres.database();
    let password = users::APP.password.replace('\\', "\\\\").replace('"', "\\\"");
    let session = format!(
        "[pools.session]\nhost = \"127.0.0.1\"\nport = {}\ndatabase = \"{}\"\nuser = \"{}\"\n\
         password = \"{password}\"\nmode = \"session\"\nsize = 30\n",
        postgres.port(),
        database.name(),
        users::APP.name,
    );
    let site = Site::with(Setup::new(Mode::Transaction).size(5).more(&session), Mode::Transaction);
    let status = command
        .env("WEIR_HOST", "127.0.0.1")
        .env("WEIR_PORT", site.weir().port().to_string())
        .env("WEIR_USER", users::APP.name)
        .env("WEIR_PASSWORD", users::APP.password)
        .env("WEIR_TRANSACTION", "app")
        .env("WEIR_SESSION", "session")
        .env("PG_DIRECT_PORT", postgres.port().to_string())
        .env("PG_DIRECT_DATABASE", site.database().name())
        .status();
    match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(status) => {
            site.weir().ask_nothing_at_end();
            println!("the end of weir's log:");
            let log = site.weir().log();
            if let Some(status) = site.weir().exited() {
                println!("  it has ended: {status}");
            }
            // Logins and farewells are many, and right.
            let lines: Vec<_> = log.lines().filter(|line| !line.contains(" LOG C-")).collect();
            lines.iter().rev().take(30).rev().for_each(|line| println!("  {line}"));
            ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
        }
        Err(error) => {
            eprintln!("stand: {}: {error}", command.get_program().display());
            ExitCode::FAILURE
        }
    }
}
