//! Measures one case: the server is idle, the pooler is new, pgbench runs, and the kernel reports the CPU time.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use weir_pglocal::{Server, proc};

use super::{Case, Column, Plan, Setting};
use crate::lab::{Lab, eventually};
use crate::load::pgbench::{Pgbench, Run, Target};
use crate::model::Ran;
use crate::servers::{DEFAULT_CHILDREN, Mode, Pgbouncer, Pgpool, Pool, USER, Weir, start_postgres};
use crate::steps::{LabError, Measured, Stage, Step};

/// The database, and the name of each pooler's pool.
const DATABASE: &str = "bench";

/// The server's `max_connections`: PostgreSQL's default.
pub(super) const CONNECTIONS: u32 = 100;

/// The pool size: the default of PgBouncer and of Weir.
pub(super) const POOL: u32 = 20;

/// The outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Fate {
    /// All clients were served to the end.
    Served,
    /// Some were refused because the server had no free connection, and gave up.
    Refused,
    /// Some lost their connection, or could not connect, for another reason.
    Dropped,
    /// The run did not end.
    Hung,
    /// The machine had no free port for another connection.
    OutOfPorts,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct RunData {
    pub(super) fate: Fate,
    pub(super) clients: u32,
    /// All zeros for a run that hung.
    pub(super) run: Run,
    /// CPU time of all PostgreSQL processes, in seconds.
    pub(super) server_cpu: f64,
    /// CPU time of all the pooler's processes, in seconds; `None` without one.
    pub(super) pooler_cpu: Option<f64>,
}

impl RunData {
    /// Milliseconds for each transaction of the run.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn per_transaction(&self, seconds: f64) -> Option<f64> {
        let transactions = self.run.transactions;
        (transactions > 0).then(|| seconds * 1000.0 / transactions as f64)
    }

    fn headline(&self) -> String {
        let RunData { fate, clients, run, .. } = self;
        match fate {
            Fate::Served => format!("{:.0} TPS, {:.2} ms to connect", run.tps, run.connect_ms),
            Fate::Refused => format!("{} of {clients} clients refused", run.aborted),
            Fate::Dropped => format!("{} of {clients} clients dropped", run.aborted),
            Fate::Hung => "hangs".to_owned(),
            Fate::OutOfPorts => "no free port left on this machine".to_owned(),
        }
    }
}

/// The server with its data.
pub(super) struct Bench<'l> {
    lab: &'l Lab,
    plan: Plan,
    server: Server,
    pgbench: Pgbench,
    /// The command that filled the tables, until a step records it.
    filled: Option<Ran>,
}

/// The target of pgbench's connections; dropping it ends the pooler.
enum Pooler {
    None,
    Pgbouncer(Pgbouncer),
    Pgpool(Pgpool),
    Weir(Weir),
}

impl Pooler {
    fn port(&self) -> Option<u16> {
        match self {
            Pooler::None => None,
            Pooler::Pgbouncer(pooler) => Some(pooler.port()),
            Pooler::Pgpool(pooler) => Some(pooler.port()),
            Pooler::Weir(pooler) => Some(pooler.port()),
        }
    }

    fn pid(&self) -> Option<u32> {
        match self {
            Pooler::None => None,
            Pooler::Pgbouncer(pooler) => Some(pooler.pid()),
            Pooler::Pgpool(pooler) => Some(pooler.pid()),
            Pooler::Weir(pooler) => Some(pooler.pid()),
        }
    }
}

impl<'l> Bench<'l> {
    pub(super) fn open(lab: &'l Lab, plan: Plan) -> Result<Bench<'l>, LabError> {
        let server = start_postgres(lab, CONNECTIONS, DATABASE, &[("autovacuum", "off")])?;
        // A superuser, as in an installation with defaults: all 100 connections are available, also the last three.
        server.execute("postgres", &format!("alter role {USER} superuser"))?;
        let pgbench = Pgbench::of(server.programs())?;
        let target = Target::local(server.port(), DATABASE);
        let filled = Some(pgbench.initialize(lab, "reconnect-init", &target, plan.scale)?);
        Ok(Bench { lab, plan, server, pgbench, filled })
    }

    fn pooler(&self, case: Case) -> Result<Pooler, LabError> {
        let server = ([127, 0, 0, 1], self.server.port()).into();
        let effect = format!("the column {}", case.column.name());
        let mode = |default| match case.setting {
            Setting::Mode(mode) => mode,
            Setting::Table | Setting::DefaultChildren => default,
        };
        Ok(match case.column {
            Column::None => Pooler::None,
            Column::Pgbouncer => {
                Pooler::Pgbouncer(Pgbouncer::start(self.lab, server, DATABASE, mode(Mode::Session), &effect)?)
            }
            Column::Pgpool => {
                let children = if case.setting == Setting::DefaultChildren { DEFAULT_CHILDREN } else { case.clients };
                Pooler::Pgpool(Pgpool::start(self.lab, server, DATABASE, children, &effect)?)
            }
            Column::Weir => {
                let (name, database) = (DATABASE.to_owned(), DATABASE.to_owned());
                let pool = Pool { name, database, mode: mode(Mode::Transaction), size: POOL };
                Pooler::Weir(Weir::start(self.lab, server, &[pool], &effect)?)
            }
        })
    }

    /// One run of pgbench; a run that does not end is a result, too.
    fn run(&self, case: Case, port: u16) -> Result<(Fate, Run, Ran), LabError> {
        let target = Target::local(port, DATABASE);
        let Case { clients, .. } = case;
        let args = format!("-C -j 1 -c {clients} -T {}", self.plan.duration);
        let words: Vec<_> = args.split(' ').map(str::to_owned).collect();
        let (name, what, timeout) = (format!("reconnect-{}", case.id()), case.to_string(), self.plan.timeout());
        let began = Instant::now();
        match self.pgbench.run_within(self.lab, &name, &what, &target, &words, timeout) {
            Ok((run, ran)) => Ok((fate(&run), run, ran)),
            Err(LabError::Failed(_)) if began.elapsed() >= timeout => {
                let line = format!("pgbench -h {} -p {port} -U {} {args} {DATABASE}", target.host, target.user);
                let ran = Ran { what: format!("{what} (hangs)"), line, raw: format!("raw/{name}.txt") };
                Ok((Fate::Hung, Run::default(), ran))
            }
            Err(trouble) => Err(trouble),
        }
    }
}

impl Stage for Bench<'_> {
    fn take(&mut self, step: &Step) -> Result<Measured, LabError> {
        let case = self.plan.cases().into_iter().find(|case| case.id() == step.id);
        let case = case.ok_or_else(|| LabError::Failed(format!("there is no case {}", step.id)))?;
        // The connections of an earlier pooler have closed when the server's processes have ended.
        eventually(Duration::from_secs(10), || self.server.backends() == 0);
        let pooler = self.pooler(case)?;
        let cpu = |pid: Option<u32>| pid.and_then(proc::family);
        let before = (cpu(self.server.pid()), cpu(pooler.pid()));
        let (fate, run, ran) = self.run(case, pooler.port().unwrap_or(self.server.port()))?;
        let after = (cpu(self.server.pid()), cpu(pooler.pid()));
        drop(pooler);
        let server_cpu = seconds(before.0, after.0).unwrap_or_default();
        let taken = RunData { fate, clients: case.clients, run, server_cpu, pooler_cpu: seconds(before.1, after.1) };
        let measured = Measured::of(taken.headline(), &taken).ran(self.filled.take()).ran([ran]);
        Ok(if taken.fate == Fate::OutOfPorts { measured.warn(out_of_ports(case)) } else { measured })
    }
}

fn out_of_ports(case: Case) -> String {
    format!(
        "{case}: the machine ran out of ports, as each closed connection keeps one for a minute: \
         sysctl net.ipv4.tcp_tw_reuse=2 (the kernel's default), or a wider net.ipv4.ip_local_port_range"
    )
}

/// CPU seconds between two samples.
#[allow(clippy::cast_precision_loss)]
fn seconds(before: Option<u64>, after: Option<u64>) -> Option<f64> {
    Some(after?.saturating_sub(before?) as f64 / proc::TICKS_PER_SECOND)
}

fn fate(run: &Run) -> Fate {
    let Run { complaint, .. } = run;
    let says = |words: &[&str]| words.iter().any(|words| complaint.contains(words));
    if run.success && run.aborted == 0 {
        Fate::Served
    } else if says(&["Cannot assign requested address"]) {
        Fate::OutOfPorts
    } else if says(&["too many clients", "remaining connection slots", "no more connections allowed"]) {
        Fate::Refused
    } else {
        Fate::Dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_a_run_went_is_read_from_its_complaint() {
        let run =
            |success, aborted, complaint: &str| Run { success, aborted, complaint: complaint.into(), ..Run::default() };
        let sorry = "connection to server failed: FATAL:  sorry, too many clients already";
        assert_eq!(fate(&run(true, 0, "")), Fate::Served);
        assert_eq!(fate(&run(false, 100, sorry)), Fate::Refused);
        assert_eq!(fate(&run(false, 200, "connection to server failed: ")), Fate::Dropped);
        assert_eq!(fate(&run(false, 1, "failed: Cannot assign requested address")), Fate::OutOfPorts);
    }

    #[test]
    fn cpu_time_is_shared_out_to_the_transactions() {
        let run = Run { transactions: 2000, ..Run::default() };
        let taken = RunData { fate: Fate::Served, clients: 10, run, server_cpu: 3.0, pooler_cpu: None };
        assert_eq!(taken.per_transaction(3.0), Some(1.5));
        assert_eq!(RunData { run: Run::default(), ..taken }.per_transaction(3.0), None);
    }
}
