//! Runs pgbench and reads what it says.
//!
//! Without its own vacuum (`-n`), in one thread, by TCP, and otherwise with libpq's defaults. A failed transaction, an aborted client
//! or another exit status than 0 is an error: a figure from a run that went wrong is no figure.

use std::path::PathBuf;
use std::process::Command;

use crate::cases::Way;
use crate::error::{Error, Outcome};
use crate::setup::{SOCKET_POOL, USER};
use crate::stage::{Pooler, Stage};

/// What one run said.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Run {
    pub(crate) transactions: u64,
    pub(crate) failed: u64,
    pub(crate) tps: f64,
    pub(crate) latency_ms: f64,
}

/// pgbench of this stage's PostgreSQL.
#[derive(Clone, Debug)]
pub(crate) struct Pgbench {
    path: PathBuf,
}

impl Pgbench {
    pub(crate) fn of(stage: &Stage) -> Outcome<Pgbench> {
        let missing = || {
            Error::new(
                "pgbench was not found: it comes with PostgreSQL (Debian: postgresql; Red Hat: postgresql-contrib)",
            )
        };
        Ok(Pgbench { path: stage.server().programs().pgbench().ok_or_else(missing)? })
    }

    /// Makes the tables, `scale` × 100,000 accounts, directly in PostgreSQL.
    pub(crate) fn initialize(&self, stage: &Stage, scale: u32) -> Outcome<()> {
        let mut command = self.command(stage.server().port());
        command.args(["-i", "-q", "-s", &scale.to_string(), USER]);
        self.finish(command).map(drop)
    }

    /// Runs for so many seconds through a pooler's first pool, in the clear; `args` say what.
    pub(crate) fn run(&self, pooler: &Pooler, seconds: u32, args: &[String]) -> Outcome<Run> {
        self.run_by(Way::Plain, pooler, seconds, args)
    }

    /// The same, with the bytes going this way.
    pub(crate) fn run_by(&self, way: Way, pooler: &Pooler, seconds: u32, args: &[String]) -> Outcome<Run> {
        let mut command = self.command(pooler.port);
        // The default asks for TLS and makes do without: a message more, and TLS where it is to be had.
        command.env("PGSSLMODE", if way == Way::Tls { "require" } else { "disable" });
        let database = if way == Way::ServerSocket { SOCKET_POOL } else { pooler.database() };
        command.arg("-n").args(args).args(["-T", &seconds.to_string(), database]);
        let said = self.finish(command).map_err(|e| Error::at(&pooler.name, e))?;
        let run = parse(&said).ok_or_else(|| Error::new(format!("pgbench said what we can't read:\n{said}")))?;
        match run.failed {
            0 => Ok(run),
            failed => Err(Error::new(format!("{}: {failed} transactions failed:\n{said}", pooler.name))),
        }
    }

    fn command(&self, port: u16) -> Command {
        let mut command = Command::new(&self.path);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"PG")) {
            command.env_remove(name);
        }
        command.env("LC_ALL", "C").env("PGPASSWORD", USER);
        command.args(["-h", "127.0.0.1", "-p", &port.to_string(), "-U", USER]);
        command
    }

    fn finish(&self, mut command: Command) -> Outcome<String> {
        let output = command.output().map_err(|e| Error::at(format!("run {}", self.path.display()), e))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let complaints = String::from_utf8_lossy(&output.stderr);
        if output.status.success() && !complaints.contains("aborted") {
            return Ok(said);
        }
        let lines: Vec<_> = complaints.lines().collect();
        let shown = lines[..lines.len().min(6)].join("\n");
        Err(Error::new(format!("pgbench failed ({}):\n{shown}", output.status)))
    }
}

fn parse(said: &str) -> Option<Run> {
    let after = |label: &str| said.lines().find_map(|line| line.strip_prefix(label)).map(str::trim);
    let first = |text: &str| text.split([' ', '/']).next().map(str::to_owned);
    let transactions = first(after("number of transactions actually processed:")?)?.parse().ok()?;
    // The line came with PostgreSQL 15; before it, a failure ended pgbench.
    let failed = after("number of failed transactions:").and_then(first).map_or(Some(0), |text| text.parse().ok())?;
    let tps = first(after("tps =")?)?.parse().ok()?;
    let latency_ms = first(after("latency average =")?)?.parse().ok()?;
    Some(Run { transactions, failed, tps, latency_ms })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "pgbench (15.18 (Debian 15.18-0+deb12u1))\n\
        transaction type: <builtin: select only>\nscaling factor: 10\nquery mode: simple\nnumber of clients: 50\n\
        number of threads: 1\nmaximum number of tries: 1\nduration: 3 s\n\
        number of transactions actually processed: 75211\nnumber of failed transactions: 0 (0.000%)\n\
        latency average = 1.985 ms\ninitial connection time = 13.5 ms\n\
        tps = 25190.4 (without initial connection time)\n";

    #[test]
    fn a_run_is_read() {
        assert_eq!(parse(SAID), Some(Run { transactions: 75211, failed: 0, tps: 25190.4, latency_ms: 1.985 }));
    }

    #[test]
    fn older_and_fixed_length_runs_are_read_too() {
        let said = "latency average = 0.5 ms\nnumber of transactions actually processed: 100/100\ntps = 7.0 (x)\n";
        assert_eq!(parse(said).unwrap().transactions, 100);
        assert_eq!(parse("tps = 1"), None);
    }

    #[test]
    fn failed_transactions_are_seen() {
        let said = SAID.replace("transactions: 0 (0.000%)", "transactions: 12 (0.016%)");
        assert_eq!(parse(&said).unwrap().failed, 12);
    }
}
