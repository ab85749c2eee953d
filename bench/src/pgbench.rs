//! Runs pgbench and reads what it says.
//!
//! Without its own vacuum (`-n`), in one thread, by TCP, and otherwise with libpq's defaults. A failed transaction, an
//! aborted client or another exit status than 0 is an error, and so is a run that does not end: a figure from a run
//! that went wrong is no figure.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use weir_pglocal::TempFolder;

use crate::cases::Way;
use crate::error::{Error, Outcome};
use crate::latency::{self, Entry};
use crate::setup::USER;
use crate::stage::{Pooler, Stage};

/// How much longer than asked a run may take: it first opens all its connections, and leaves with the last answer.
const GRACE: Duration = Duration::from_secs(20);
/// How long the tables may take.
const INITIALIZE: Duration = Duration::from_secs(300);

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
        let mut command = self.command("127.0.0.1", stage.server().port(), USER, USER);
        command.args(["-i", "-q", "-s", &scale.to_string(), USER]);
        self.finish(command, INITIALIZE).map(drop)
    }

    /// Runs for this many seconds through a pooler's first pool, in the clear; `args` say what.
    pub(crate) fn run(&self, pooler: &Pooler, seconds: u32, args: &[String]) -> Outcome<Run> {
        self.run_by(Way::Plain, pooler, seconds, args)
    }

    /// Runs pgbench as `run` does, with the bytes going this way.
    pub(crate) fn run_by(&self, way: Way, pooler: &Pooler, seconds: u32, args: &[String]) -> Outcome<Run> {
        let account = &pooler.account;
        let mut command = self.command(&pooler.host, pooler.port, &account.user, &account.password);
        // The default requests TLS and falls back to none: a message more, and TLS where it is available.
        command.env("PGSSLMODE", if way == Way::Tls { "require" } else { "disable" });
        let database = if way == Way::ServerSocket { pooler.socket_pool() } else { pooler.database() };
        command.arg("-n").args(args).args(["-T", &seconds.to_string(), database]);
        let timeout = Duration::from_secs(u64::from(seconds)) + GRACE;
        let said = self.finish(command, timeout).map_err(|e| Error::at(&pooler.name, e))?;
        let run = parse(&said).ok_or_else(|| Error::new(format!("pgbench said what we can't read:\n{said}")))?;
        match run.failed {
            0 if run.transactions > 0 => Ok(run),
            0 => Err(Error::new(format!("{}: no transaction in {seconds} s", pooler.name))),
            failed => Err(Error::new(format!("{}: {failed} transactions failed:\n{said}", pooler.name))),
        }
    }

    /// Runs pgbench as `run_by` does, with the share `sampled` of all transactions logged.
    pub(crate) fn run_logged(
        &self,
        way: Way,
        pooler: &Pooler,
        seconds: u32,
        args: &[String],
        sampled: f64,
    ) -> Outcome<(Run, Vec<Entry>)> {
        let folder = TempFolder::new()?;
        let prefix = format!("--log-prefix={}", folder.path().join("log").display());
        let log = ["-l".to_owned(), prefix, format!("--sampling-rate={sampled}")];
        // A rate of 1 is what happens without one.
        let log = if sampled < 1.0 { &log[..] } else { &log[..2] };
        let run = self.run_by(way, pooler, seconds, &[args, log].concat())?;
        Ok((run, latency::read_logs(folder.path())?))
    }

    fn command(&self, host: &str, port: u16, user: &str, password: &str) -> Command {
        let mut command = Command::new(&self.path);
        clear_libpq(&mut command);
        command.env("LC_ALL", "C").env("PGPASSWORD", password);
        command.args(["-h", host, "-p", &port.to_string(), "-U", user]);
        command
    }

    /// Runs the command to its end, or to the end of our timeout.
    fn finish(&self, mut command: Command, timeout: Duration) -> Outcome<String> {
        let folder = TempFolder::new()?;
        let file = |name: &str| folder.path().join(name);
        let create = |name| File::create(file(name)).map_err(|e| Error::at("write what pgbench says", e));
        command.stdin(Stdio::null()).stdout(create("out")?).stderr(create("errors")?);
        let child = command.spawn().map_err(|e| Error::at(format!("run {}", self.path.display()), e))?;
        let status = wait(child, timeout)?;
        let said = |name: &str| String::from_utf8_lossy(&fs::read(file(name)).unwrap_or_default()).into_owned();
        let (said, complaints) = (said("out"), said("errors"));
        let Some(status) = status else {
            return Err(Error::new(format!("it hangs: pgbench was ended after {} s", timeout.as_secs())));
        };
        if status.success() && !complaints.contains("aborted") {
            return Ok(said);
        }
        let lines: Vec<_> = complaints.lines().collect();
        let shown = lines[..lines.len().min(6)].join("\n");
        Err(Error::new(format!("pgbench failed ({status}):\n{shown}")))
    }
}

/// libpq gets our flags alone.
pub(crate) fn clear_libpq(command: &mut Command) {
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"PG")) {
        command.env_remove(name);
    }
}

/// The end of a child that may take so long; `None` when it had to be ended.
pub(crate) fn wait(mut child: Child, timeout: Duration) -> Outcome<Option<ExitStatus>> {
    let end = Instant::now() + timeout;
    loop {
        if let Some(status) = child.try_wait().map_err(|e| Error::at("wait for a child", e))? {
            return Ok(Some(status));
        }
        if Instant::now() > end {
            let _ = child.kill();
            let _ = child.wait();
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn parse(said: &str) -> Option<Run> {
    let after = |label: &str| said.lines().find_map(|line| line.strip_prefix(label)).map(str::trim);
    let first = |text: &str| text.split([' ', '/']).next().map(str::to_owned);
    let transactions = first(after("number of transactions actually processed:")?)?.parse().ok()?;
    // The line came with PostgreSQL 15; before it, a failure ended pgbench.
    let failed = after("number of failed transactions:").and_then(first).map_or(Some(0), |text| text.parse().ok())?;
    // Neither has a figure where there was no transaction.
    let figure = |label: &str| first(after(label)?)?.parse().ok();
    let (tps, latency_ms) = (figure("tps =").unwrap_or(0.0), figure("latency average =").unwrap_or(0.0));
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
        assert_eq!(parse("number of transactions actually processed: 0\n").unwrap().transactions, 0);
    }

    #[test]
    fn who_hangs_is_ended() {
        let sleeper = |seconds: &str| Command::new("sleep").arg(seconds).spawn().unwrap();
        assert_eq!(wait(sleeper("60"), Duration::from_millis(50)).unwrap(), None);
        assert!(wait(sleeper("0"), Duration::from_secs(60)).unwrap().unwrap().success());
    }

    #[test]
    fn failed_transactions_are_seen() {
        let said = SAID.replace("transactions: 0 (0.000%)", "transactions: 12 (0.016%)");
        assert_eq!(parse(&said).unwrap().failed, 12);
    }
}
