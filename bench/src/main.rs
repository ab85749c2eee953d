//! `weir-bench`: Weir beside its rivals, and the soak.
//!
//! The command line; each command has a file of its own. Nothing here is part of the pooler.

mod all;
mod auto;
mod budgets;
mod bulk;
mod burst;
mod cases;
mod contender;
mod error;
mod find;
mod forwarder;
mod idle;
mod instructions;
mod latency;
mod load;
mod meter;
mod noisy;
mod open;
mod options;
mod others;
mod out;
mod own;
mod pgbench;
mod report;
mod rival;
mod rng;
mod rounds;
mod setup;
mod sides;
mod soak;
mod stage;
mod stats;
mod syscalls;
mod tail;
mod workers;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::error::Outcome;
use crate::options::Group;
use crate::out::Out;

const LONG_ABOUT: &str = "\
Measures Weir beside its rivals, on one PostgreSQL that is started for the run and removed afterwards.

The figure that counts is the CPU time of the pooler's own process a transaction, as a multiple of PgBouncer's in the
same run: on a machine where client, pooler and server share the processors, TPS says more about the machine. Runs are
interleaved, and medians are compared, so that a slow phase reaches all; read ratios, not microseconds, and distrust what
is marked NOISY or UNSTEADY.";

const EXAMPLES: &str = "\
Examples:
  weir-bench all                                      every group, then the budgets: a quarter of an hour
  weir-bench all --page                               the same, and bench/MEASURED.md has it
  weir-bench all --groups tail,idle
  weir-bench rounds --only simple                     -S by simple queries, 1 to 1,000 clients
  weir-bench rounds --only simple-50 --rounds 9
  weir-bench rounds --pgbouncer ~/pgbouncer-1.25/pgbouncer --only prepared
  weir-bench rounds --postgres-port 5499 --rival PgCat=127.0.0.1:6433,4711
  weir-bench own                                      Weir's own code without a kernel, by callgrind too
  weir-bench soak --minutes 1 --acts named,victim     what a problem needs
  weir-bench soak --through direct --minutes 1        the soak itself, without a pooler

Linux only: figures come from /proc. Nothing is left behind, also after Ctrl-C. As root, PostgreSQL and its poolers run
as an ordinary user. `make bench` and `make soak` build what is needed first.";

const ABOUT_ALL: &str = "\
Every group in turn, and at the end one table: which budget holds, its figure, and the command that measures it alone.

Takes a quarter of an hour; --full takes all cases of the rounds, --quick shows in a minute that everything runs.";

const ABOUT_ROUNDS: &str = "\
CPU time a transaction, TPS, latency and memory, in interleaved rounds of pgbench.

Each case is run through each pooler, interleaved. A line of the first table has TPS, then CPU microseconds a transaction of
the pooler's process (all threads and children; user, system), then the ratio to PgBouncer, the ratio to a bare
forwarder (no pool's logic, no checks: the limit of what one thread on epoll can do) and Weir's budget. The second table
has p50, p99, p99.9 and memory.

Cases are named for what a transaction is, the number of clients, and the way of the bytes: simple-50, prepared-200,
connect-10 (-C: a login for each transaction), tpcb-50, simple-50-tls (TLS between client and pooler, RSA 2048),
simple-50-socket (a Unix socket between pooler and server). Groups name several: simple, extended, prepared, connect,
tpcb, tls, socket. PgBouncer before 1.21 has no prepared statements in transaction mode; its simple figure is taken.

Pgpool-II takes part where it is installed, with a process and a server for each client, as it is made. Any other pooler
does by --rival NAME=HOST:PORT,PID: start it so that it serves user, password and database `bench` of the PostgreSQL
on --postgres-port (or say --rival-user, -password, -database), with one worker, in transaction mode, a pool of 20.
A pooler that can't do a case has the reason in its row.";

const ABOUT_SOAK: &str = "\
Random traffic for a long time, with clients and servers dying in it.

Clients do whatever clients do, on four pools of all modes; every query, row, error, notice carries a token that only
its client knows, and every message that comes back is compared with the one that must come. Among them connections
are cut at any byte, servers are ended, and an operator reloads (with other sizes), pauses, resumes, reconnects.
Every ten seconds all come to rest, and the counts must agree: SHOW POOLS, CLIENTS, SERVERS, pg_stat_activity, descriptors.

  WRONG    a broken promise: bytes of another client, a wrong answer, a cancel that was another client's
  STUCK    no answer within 30 s, or a wait that was refused
  STRANGE  an error that nothing explains
  UNEVEN   counts, memory, descriptors or money that do not add up; losses that no ended server explains

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
    /// Every group in turn, and at the end a table of all budgets
    #[command(long_about = ABOUT_ALL)]
    All(all::Options),
    /// CPU time a transaction, TPS, latency and memory, in interleaved rounds of pgbench
    #[command(long_about = ABOUT_ROUNDS)]
    Rounds(rounds::Options),
    /// What Weir's own code costs, without a kernel: nanoseconds, and instructions by callgrind
    Own(own::Options),
    /// Instructions a transaction of the whole process, counted by callgrind
    Instructions(instructions::Options),
    /// System calls a transaction, counted by strace
    Syscalls(syscalls::Options),
    /// Latencies of a thousand clients on a full pool
    Tail(tail::Options),
    /// Thousands of idle clients: their memory, and what a hundred active ones among them notice
    Idle(idle::Options),
    /// One client that sends what is expensive: what others of its pool notice
    Noisy(noisy::Options),
    /// Latencies under a load that no answer holds up, at shares of saturation
    Open(open::Options),
    /// CPU time and memory of large results and COPY
    Bulk(bulk::Options),
    /// Thousands of logins at the same moment, by TCP and by a Unix socket
    Burst(burst::Options),
    /// Mode auto beside mode transaction, where nobody leaves state
    Auto(auto::Options),
    /// One pool over several workers, beside one
    Workers(workers::Options),
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
        Command::All(options) => measure(options),
        Command::Rounds(options) => measure(options),
        Command::Own(options) => measure(options),
        Command::Instructions(options) => measure(options),
        Command::Syscalls(options) => measure(options),
        Command::Tail(options) => measure(options),
        Command::Idle(options) => measure(options),
        Command::Noisy(options) => measure(options),
        Command::Open(options) => measure(options),
        Command::Bulk(options) => measure(options),
        Command::Burst(options) => measure(options),
        Command::Auto(options) => measure(options),
        Command::Workers(options) => measure(options),
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

/// Runs a group. `Ok(false)` when a budget was missed and the caller requested that.
fn measure<G: Group>(group: &G) -> Outcome<bool> {
    let mut out = Out::new();
    let findings = group.run(&mut out)?;
    group.output().write(G::NAME, &out, &findings.json)?;
    Ok(!(group.output().strict && findings.missed()))
}
