//! Runs pgbench and parses its output.
//!
//! A benchmark would discard a failed run, but for an experiment *how* a run failed is a result: clients that were
//! refused, aborted or disconnected.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_pglocal::Programs;

use crate::lab::{CommandOutput, Lab, Running};
use crate::model::Ran;
use crate::steps::LabError;

/// The target of pgbench's connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// A host name or address, or the folder of a Unix socket.
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) user: String,
    /// Passed in the environment, never on the command line; empty for none.
    pub(crate) password: String,
    /// The database, or the pool's name.
    pub(crate) database: String,
}

impl Target {
    /// On 127.0.0.1, as the experiments' own user.
    pub(crate) fn local(port: u16, database: &str) -> Target {
        let user = crate::servers::USER.to_owned();
        let (host, password) = ("127.0.0.1".to_owned(), user.clone());
        Target { host, port, user, password, database: database.to_owned() }
    }
}

/// The result of one run of pgbench.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    /// Transactions that were committed.
    pub(crate) transactions: u64,
    /// Transactions that failed without aborting their client.
    pub(crate) failed: u64,
    /// As counted by pgbench: without the initial connects; with `-C`, with them. 0 if it stopped before it began.
    pub(crate) tps: f64,
    /// Average and standard deviation in ms; 0 if it printed none.
    pub(crate) latency_ms: f64,
    pub(crate) stddev_ms: f64,
    /// Average time of a connect in ms, printed with `-C` only; else 0.
    #[serde(default)]
    pub(crate) connect_ms: f64,
    /// The progress lines of the run (`-P`): seconds since the start, TPS, latency in ms.
    pub(crate) progress: Vec<(f64, f64, f64)>,
    /// Clients that were aborted, or could not connect.
    pub(crate) aborted: u32,
    /// The first error message, such as `FATAL:  sorry, too many clients already`; empty for none.
    pub(crate) complaint: String,
    /// Whether pgbench ended with status 0.
    pub(crate) success: bool,
}

/// The pgbench of a PostgreSQL installation.
#[derive(Clone, Debug)]
pub(crate) struct Pgbench {
    path: PathBuf,
}

impl Pgbench {
    /// Finds it; it is part of PostgreSQL's client or contrib package.
    pub(crate) fn of(programs: &Programs) -> Result<Pgbench, LabError> {
        let missing = || {
            LabError::Missing(crate::model::Missing {
                what: "pgbench".into(),
                effect: "all that is measured with it".into(),
                get: "apt-get install postgresql (Fedora: dnf install postgresql-contrib)".into(),
            })
        };
        Ok(Pgbench { path: programs.pgbench().ok_or_else(missing)? })
    }

    /// Creates the tables, `scale` × 100,000 accounts.
    pub(crate) fn initialize(&self, lab: &Lab, name: &str, target: &Target, scale: u32) -> Result<Ran, LabError> {
        lab.doing(&format!("filling pgbench's tables, scale {scale}"));
        let args = ["-i", "-q", "-s", &scale.to_string()].map(str::to_owned);
        let timeout = Duration::from_secs(120 + 10 * u64::from(scale));
        let command = self.command(lab, target, &args);
        Ok(lab.run(name, "fill pgbench's tables", command, timeout)?.success()?.ran)
    }

    /// Runs it with these arguments, without the target's; `seconds` is the value of `-T` among them.
    ///
    /// `name` names the raw output, `what` is for a reader. A failed run is no error: [`Run`] describes it.
    pub(crate) fn run(
        &self,
        lab: &Lab,
        name: &str,
        what: &str,
        target: &Target,
        args: &[String],
        seconds: u32,
    ) -> Result<(Run, Ran), LabError> {
        self.begin(lab, name, what, target, args, seconds)?.finish(lab)
    }

    /// Runs pgbench as `run` does, with a timeout, for runs that may hang.
    pub(crate) fn run_within(
        &self,
        lab: &Lab,
        name: &str,
        what: &str,
        target: &Target,
        args: &[String],
        timeout: Duration,
    ) -> Result<(Run, Ran), LabError> {
        self.begin_within(lab, name, what, target, args, timeout)?.finish(lab)
    }

    /// Starts it as [`Pgbench::run`] does; several may run at the same time.
    pub(crate) fn begin(
        &self,
        lab: &Lab,
        name: &str,
        what: &str,
        target: &Target,
        args: &[String],
        seconds: u32,
    ) -> Result<Begun, LabError> {
        // A run that hangs must not block the lab for ever; slow logins of hundreds of clients must not count as
        // hanging.
        let timeout = Duration::from_secs(u64::from(seconds) * 2 + 90);
        self.begin_within(lab, name, what, target, args, timeout)
    }

    fn begin_within(
        &self,
        lab: &Lab,
        name: &str,
        what: &str,
        target: &Target,
        args: &[String],
        timeout: Duration,
    ) -> Result<Begun, LabError> {
        let running = lab.begin(name, what, self.command(lab, target, args))?;
        Ok(Begun { running, timeout })
    }

    fn command(&self, lab: &Lab, target: &Target, args: &[String]) -> Command {
        let mut command = lab.command(&self.path, lab.folder());
        if !target.password.is_empty() {
            command.env("PGPASSWORD", &target.password);
        }
        command.args(["-h", &target.host, "-p", &target.port.to_string(), "-U", &target.user]);
        command.args(args).arg(&target.database);
        command
    }
}

/// A running pgbench; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Begun {
    running: Running,
    timeout: Duration,
}

impl Begun {
    /// Waits for its end and parses its output.
    pub(crate) fn finish(self, lab: &Lab) -> Result<(Run, Ran), LabError> {
        let CommandOutput { status, stdout, stderr, ran } = self.running.finish(lab, self.timeout)?;
        let mut run = parse(&stdout, &stderr);
        run.success = status.success();
        Ok((run, ran))
    }
}

fn parse(stdout: &str, stderr: &str) -> Run {
    let after = |label: &str| stdout.lines().find_map(|line| line.strip_prefix(label)).map(str::trim);
    let float = |label: &str| after(label).and_then(first).unwrap_or(0.0);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let count = |label: &str| float(label) as u64;
    let complaint = stderr.lines().find(|line| line.contains("error:") || line.contains("FATAL:"));
    let complaint = complaint.map(|line| line.trim_start_matches("pgbench: ").trim_start_matches("error: ").to_owned());
    let aborted = stderr.lines().filter(|line| line.contains("aborted") && line.contains("client ")).count();
    Run {
        transactions: count("number of transactions actually processed:"),
        failed: count("number of failed transactions:"),
        tps: float("tps ="),
        latency_ms: float("latency average ="),
        stddev_ms: float("latency stddev ="),
        connect_ms: float("average connection time ="),
        progress: stderr.lines().filter_map(progress).collect(),
        aborted: u32::try_from(aborted).unwrap_or(u32::MAX),
        complaint: complaint.unwrap_or_default(),
        success: false,
    }
}

/// `progress: 5.0 s, 1201.3 tps, lat 41.2 ms stddev 3.1, 0 failed`.
fn progress(line: &str) -> Option<(f64, f64, f64)> {
    let mut parts = line.strip_prefix("progress: ")?.split(", ");
    let seconds = first(parts.next()?)?;
    let tps = first(parts.next()?)?;
    let latency = first(parts.next()?.strip_prefix("lat ")?)?;
    Some((seconds, tps, latency))
}

/// The number that a text begins with.
fn first(text: &str) -> Option<f64> {
    text.split([' ', '/']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "pgbench (15.18 (Debian 15.18-0+deb12u1))\n\
        transaction type: <builtin: TPC-B (sort of)>\nscaling factor: 10\nquery mode: simple\nnumber of clients: 50\n\
        number of transactions actually processed: 75211\nnumber of failed transactions: 12 (0.016%)\n\
        latency average = 1.985 ms\nlatency stddev = 0.401 ms\ninitial connection time = 13.5 ms\n\
        tps = 25190.4 (without initial connection time)\n";

    #[test]
    fn a_run_is_read_with_its_progress() {
        let run = parse(SAID, "progress: 1.0 s, 1201.5 tps, lat 41.2 ms stddev 3.1, 0 failed\n");
        assert_eq!((run.transactions, run.failed, run.tps), (75211, 12, 25190.4));
        assert_eq!((run.latency_ms, run.stddev_ms), (1.985, 0.401));
        assert_eq!(run.progress, [(1.0, 1201.5, 41.2)]);
        assert_eq!((run.aborted, run.complaint.as_str()), (0, ""));
    }

    #[test]
    fn a_refusal_and_aborted_clients_are_results() {
        let stderr = "pgbench: error: connection to server at \"127.0.0.1\", port 5432 failed: FATAL:  sorry, too many \
                      clients already\npgbench: error: could not create connection for client 97\n\
                      pgbench: error: client 3 script 0 aborted in command 4 query 0: server closed\n";
        let run = parse("", stderr);
        assert!(run.complaint.ends_with("sorry, too many clients already"), "{}", run.complaint);
        assert!(run.complaint.starts_with("connection to server"), "{}", run.complaint);
        assert_eq!((run.tps, run.aborted), (0.0, 1));
    }
}
