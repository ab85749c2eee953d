//! `weir-bench`: Weir beside its rivals, and the soak.
//!
//! The command line; each command has a file of its own. Nothing here is part of the pooler.

mod bulk;
mod burst;
mod cases;
mod error;
mod find;
mod forwarder;
mod idle;
mod json;
mod options;
mod own;
mod pgbench;
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

const EXAMPLES: &str = "\
Examples:
  weir-bench rounds                                   all cases, a quarter of an hour
  weir-bench rounds --only simple-50 --rounds 9 --seconds 3
  weir-bench rounds --pgbouncer ~/pgbouncer-1.25/pgbouncer --only prepared
  weir-bench own                                      Weir's own code without a kernel, by callgrind too
  weir-bench soak --minutes 1 --acts named,victim     what a problem needs
  weir-bench soak --through direct --minutes 1        the soak itself, without a pooler

Linux only: figures come from /proc. Nothing is left behind, also after Ctrl-C. As root, PostgreSQL and PgBouncer run
as an ordinary user. `make bench` and `make soak` build what is needed first.";

const ABOUT_ROUNDS: &str = "\
CPU time a transaction and TPS, in interleaved rounds of pgbench.

Each case is run through each pooler in turns. A line of the table has TPS, then CPU microseconds a transaction of the
pooler's process (all threads; user, system), then the ratio to PgBouncer, the ratio to a bare forwarder (no pool's logic,
no checks: the limit of what one thread on epoll can do) and Weir's budget. Cases: simple-1, -20, -50, -200, -1000 (-S),
prepared-50, extended-50, connect-10 (-C: a login for each transaction), tpcb-50, simple-50-tls and connect-10-tls (TLS
between client and pooler, RSA 2048), simple-50-socket (a Unix socket between pooler and server).
PgBouncer before 1.21 has no prepared statements in transaction mode; its simple figure stands in for them.

A process's CPU time is counted in hundredths of a second: runs of some seconds are exact to a percent.";

const ABOUT_SOAK: &str = "\
Random traffic for a long time, with clients and servers dying in it.

Clients do whatever clients do, on four pools of all modes; every query, row, error, notice carries a token that only
its client knows, and every message that comes back is compared with the one that must come. Among them connections
are cut at any byte, servers are ended, and an operator reloads (with other sizes), pauses, resumes, reconnects.
Every ten seconds all come to rest, and the books must agree: SHOW POOLS, CLIENTS, SERVERS, pg_stat_activity, descriptors.

  WRONG    a broken promise: bytes of a stranger, a wrong answer, a cancel that was somebody else's
  STUCK    no answer within 30 s, or a wait that was refused
  STRANGE  an error that nothing explains
  UNEVEN   books, memory, descriptors or money that do not add up; losses that no ended server explains

Ends with one line and status 0, or with status 1 when any of these came up.";

#[derive(Parser)]
#[command(after_help = EXAMPLES)]
#[command(name = "weir-bench", version, about = "Weir beside its rivals, and the soak", long_about = LONG_ABOUT)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// CPU time a transaction and TPS, in interleaved rounds of pgbench
    #[command(long_about = ABOUT_ROUNDS)]
    Rounds(rounds::Options),
    /// Memory of an idle client
    Idle(idle::Options),
    /// Thousands of logins at the same moment, by TCP and by a Unix socket
    Burst(burst::Options),
    /// Latencies of a thousand clients on a full pool
    Tail(tail::Options),
    /// CPU time of large results
    Bulk(bulk::Options),
    /// What Weir's own code costs, without a kernel: nanoseconds, and instructions by callgrind
    Own(own::Options),
    /// System calls a transaction, counted by strace
    Syscalls(syscalls::Options),
    /// The limit: a bare forwarder, which `rounds` runs beside the poolers
    #[command(hide = true)]
    Forwarder(forwarder::Options),
    /// Random traffic for a long time, with clients and servers dying in it
    #[command(long_about = ABOUT_SOAK)]
    Soak(soak::Options),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    weir_pglocal::raise_descriptors();
    let outcome = match &arguments.command {
        Command::Rounds(options) => rounds::run(options),
        Command::Idle(options) => idle::run(options),
        Command::Burst(options) => burst::run(options),
        Command::Tail(options) => tail::run(options),
        Command::Bulk(options) => bulk::run(options),
        Command::Own(options) => own::run(options),
        Command::Syscalls(options) => syscalls::run(options),
        Command::Forwarder(options) => forwarder::run(options),
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
