//! `weir-bench`: Weir beside its rivals, and the soak.
//!
//! The command line; each command has a file of its own. Nothing here is part of the pooler.

mod bulk;
mod cases;
mod error;
mod find;
mod idle;
mod json;
mod limits;
mod options;
mod pgbench;
mod proc;
mod report;
mod rounds;
mod setup;
mod soak;
mod stage;
mod stats;
mod syscalls;
mod tail;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

const LONG_ABOUT: &str = "\
Measures Weir beside PgBouncer, on one PostgreSQL that is started for the purpose and is gone afterwards.

The figure that counts is the CPU time of the pooler's own process a transaction, as a multiple of PgBouncer's in the
same run: on a machine where client, pooler and server share the processors, TPS says more about the machine. Runs are
interleaved, and medians are compared, so that a slow phase meets all; read ratios, not microseconds, and distrust what
is marked NOISY or UNSTEADY.";

#[derive(Parser)]
#[command(name = "weir-bench", version, about = "Weir beside its rivals, and the soak", long_about = LONG_ABOUT)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// CPU time a transaction and TPS, in interleaved rounds of pgbench
    Rounds(rounds::Options),
    /// Memory of an idle client
    Idle(idle::Options),
    /// Latencies of a thousand clients on a full pool
    Tail(tail::Options),
    /// CPU time of large results
    Bulk(bulk::Options),
    /// System calls a transaction, counted by strace
    Syscalls(syscalls::Options),
    /// Random traffic for a long time, with clients and servers dying in it
    Soak(soak::Options),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    limits::raise_descriptors();
    let outcome = match &arguments.command {
        Command::Rounds(options) => rounds::run(options),
        Command::Idle(options) => idle::run(options),
        Command::Tail(options) => tail::run(options),
        Command::Bulk(options) => bulk::run(options),
        Command::Syscalls(options) => syscalls::run(options),
        Command::Soak(options) => soak::run(options),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("weir-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
