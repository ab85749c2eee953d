//! `weir-bench syscalls`: which system calls a transaction costs, counted by strace.
//!
//! strace slows the pooler many times over, so more replies wait at each look and an `epoll_wait` is shared by more of
//! them than in earnest: the counts of `recv` and `send` are true, that of `epoll_wait` is a lower bound.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use weir_pglocal::{Signal, TempFolder, send_signal};

use crate::budgets::{Finding, Findings};
use crate::cases::{self, Case};
use crate::contender::Role;
use crate::error::{Error, Outcome};
use crate::options::{Group, Output, Rig};
use crate::out::{Out, print_line};
use crate::pgbench::Pgbench;
use crate::stage::Pooler;

/// The options of `syscalls`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// The case, as `rounds` names it
    #[arg(long, default_value = "simple-50")]
    case: String,
    /// How long to count
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    #[command(flatten)]
    rig: Rig,
    #[command(flatten)]
    output: Output,
}

impl Group for Options {
    const NAME: &'static str = "syscalls";

    fn output(&self) -> &Output {
        &self.output
    }

    /// Counts and prints a table a pooler.
    fn run(&self, out: &mut Out) -> Outcome<Findings> {
        let case = cases::table().into_iter().find(|case| case.name == self.case);
        let case = case.ok_or_else(|| {
            let names: Vec<_> = cases::table().into_iter().map(|case| case.name).collect();
            Error::new(format!("there is no case {}; there are: {}", self.case, names.join(", ")))
        })?;
        let (stage, pgbench) = self.rig.stage(1)?;
        let (mut lines, mut budgets) = (Vec::new(), Vec::new());
        for kind in self.rig.kinds(out)? {
            let pooler = stage.pooler(kind)?;
            let (transactions, calls) = count(self, &case, &pgbench, &pooler)?;
            print_table(&pooler.name, transactions, &calls, out);
            if kind.role() == Role::Ours {
                budgets.push(Finding::new("socket-calls", each(of_sockets(&calls), transactions)));
            }
            lines.push(json(&pooler.name, transactions, &calls));
        }
        Ok(Findings { budgets, json: Value::Array(lines) })
    }
}

/// The number of calls that read or write. On io_uring there are none: many operations share one `io_uring_enter`.
fn of_sockets(calls: &Calls) -> u64 {
    let sockets = ["recvfrom", "sendto", "recvmsg", "sendmsg", "read", "write", "readv", "writev"];
    calls.iter().filter(|(name, _)| sockets.contains(&name.as_str())).map(|(_, count)| count).sum()
}

/// A system call's name, and how often it was made.
type Calls = Vec<(String, u64)>;

fn count(options: &Options, case: &Case, pgbench: &Pgbench, pooler: &Pooler) -> Outcome<(u64, Calls)> {
    let pid = pooler.pid().ok_or_else(|| Error::new("PostgreSQL alone has no pooler to count"))?;
    let arguments = case.arguments(case.protocol_for(pooler.kind, &options.rig.pgbouncer_version()));
    // The servers are open, and their opening is not counted.
    pgbench.run(pooler, 1, &arguments)?;
    let folder = TempFolder::new()?;
    let file = folder.path().join("strace");
    let mut strace = start_strace(pid, &file)?;
    let run = pgbench.run(pooler, options.seconds, &arguments);
    // On this signal it lets go of the pooler and writes what it counted.
    send_signal(strace.id(), Signal::SIGINT);
    strace.wait().map_err(|e| Error::at("wait for strace", e))?;
    let text = fs::read_to_string(&file).map_err(|e| Error::at("read what strace counted", e))?;
    Ok((run?.transactions, parse(&text)))
}

fn start_strace(pid: u32, file: &std::path::Path) -> Outcome<Child> {
    let mut command = Command::new("strace");
    command.args(["-f", "-c", "-p", &pid.to_string(), "-o"]).arg(file);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut child = child.map_err(|e| Error::at("strace was not found (Debian: apt-get install strace)", e))?;
    thread::sleep(Duration::from_millis(500));
    match child.try_wait() {
        Ok(None) => Ok(child),
        _ => Err(Error::new("strace may not look into the pooler: run as root, or allow ptrace")),
    }
}

#[allow(clippy::cast_precision_loss)]
fn each(calls: u64, transactions: u64) -> f64 {
    calls as f64 / transactions.max(1) as f64
}

fn print_table(name: &str, transactions: u64, calls: &Calls, out: &mut Out) {
    let all: u64 = calls.iter().map(|(_, count)| count).sum();
    print_line!(
        out,
        "{name}: {:.2} system calls a transaction, of {transactions} transactions",
        each(all, transactions)
    );
    for (call, count) in calls {
        let each = each(*count, transactions);
        if each >= 0.005 {
            print_line!(out, "  {call:<20} {each:>6.2}");
        }
    }
}

fn json(name: &str, transactions: u64, calls: &Calls) -> Value {
    let all: u64 = calls.iter().map(|(_, count)| count).sum();
    let list = calls.iter().map(|(call, count)| json!({ "call": call.as_str(), "each": each(*count, transactions) }));
    json!({
        "pooler": name,
        "transactions": transactions,
        "calls_a_transaction": each(all, transactions),
        "calls": Value::Array(list.collect()),
    })
}

/// Reads strace's table: `% time  seconds  usecs/call  calls  [errors]  syscall`, the most frequent first.
fn parse(text: &str) -> Calls {
    let mut calls: Calls = text.lines().filter_map(line).collect();
    calls.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    calls
}

fn line(line: &str) -> Option<(String, u64)> {
    let fields: Vec<_> = line.split_whitespace().collect();
    let (&name, &calls) = (fields.get(4..)?.last()?, fields.get(3)?);
    fields[0].parse::<f64>().ok()?;
    (name != "total").then_some((name.to_owned(), calls.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 58.20    0.291002           3     90210           sendto
 40.10    0.200503           2     95000      4790 recvfrom
  1.70    0.008500           5      1700           epoll_wait
------ ----------- ----------- --------- --------- ----------------
100.00    0.500005           2    186910      4790 total
";

    #[test]
    fn calls_are_read_with_and_without_errors() {
        let calls = parse(TABLE);
        let expected = [("recvfrom", 95000), ("sendto", 90210), ("epoll_wait", 1700)];
        assert_eq!(calls.len(), expected.len());
        assert_eq!(of_sockets(&calls), 95000 + 90210);
        for ((name, count), expected) in calls.iter().zip(expected) {
            assert_eq!((name.as_str(), *count), expected);
        }
    }
}
