//! Measures one run of a custom experiment: a new Weir if the target is one, pgbench, and the CPU time of both.

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use weir_pgclient::Connection;
use weir_pglocal::Server;

use super::file::{Kind, Login, Plan, Script, Workload};
use crate::lab::{Lab, eventually};
use crate::load::pgbench::{Pgbench, Run, Target};
use crate::load::sample::{Sampler, Watch};
use crate::model::Ran;
use crate::servers::{Pool, USER, Upstream, Weir, start_postgres};
use crate::steps::{LabError, Measured, Stage, Step};

/// The database on the lab's own servers, and the name of Weir's pool.
const DATABASE: &str = "lab";

/// The file of the transaction's script, in pgbench's working directory.
const SCRIPT: &str = "own.sql";

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct RunData {
    /// Why not all clients were served to the end, in a few words; `None` if they were.
    pub(super) trouble: Option<String>,
    pub(super) run: Run,
    /// CPU in percent of one processor: of pgbench, and of a server and a pooler that run here.
    pub(super) client_cpu: Option<f64>,
    pub(super) server_cpu: Option<f64>,
    pub(super) pooler_cpu: Option<f64>,
    /// CPU milliseconds a transaction.
    pub(super) server_ms: Option<f64>,
    pub(super) pooler_ms: Option<f64>,
    pub(super) cores: u32,
    /// Why pgbench was the bottleneck, if it was.
    pub(super) client_limit: Option<String>,
}

/// The servers with their data.
pub(super) struct Bench<'l> {
    lab: &'l Lab,
    plan: Plan,
    /// The lab's own servers, by their targets' numbers.
    servers: BTreeMap<usize, Server>,
    pgbench: Pgbench,
    /// Whether the transaction is [`SCRIPT`]; else it is a built-in of pgbench.
    scripted: bool,
    /// Commands that ran before the first step, until that step records them.
    before: Vec<Ran>,
}

/// The password of a login; empty for none.
///
/// # Errors
/// It names an environment variable that is not set.
pub(super) fn password(login: &Login) -> Result<String, LabError> {
    let Some(name) = &login.password_env else { return Ok(String::new()) };
    let missing = |_| LabError::Failed(format!("`password_env`: the environment has no variable {name}: export it"));
    env::var(name).map_err(missing)
}

impl<'l> Bench<'l> {
    pub(super) fn open(lab: &'l Lab, plan: Plan) -> Result<Bench<'l>, LabError> {
        let mut servers = BTreeMap::new();
        for (place, target) in plan.targets.iter().enumerate() {
            if let Kind::Own { max_connections, settings } = &target.kind {
                let settings: Vec<_> = settings.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
                servers.insert(place, start_postgres(lab, *max_connections, DATABASE, &settings)?);
            }
        }
        let programs = match servers.values().next() {
            Some(server) => server.programs().clone(),
            None => weir_pglocal::find()?,
        };
        let pgbench = Pgbench::of(&programs)?;
        let mut bench = Bench { lab, plan, servers, pgbench, scripted: false, before: Vec::new() };
        bench.fill()?;
        bench.write_script(&programs.pgbench().unwrap_or_default())?;
        Ok(bench)
    }

    /// Creates the tables: pgbench's if there is a scale, others by the setup.
    fn fill(&mut self) -> Result<(), LabError> {
        let Workload { scale, init, setup, .. } = &self.plan.workload;
        let any_direct = self.plan.targets.iter().any(|target| target.kind.is_direct());
        for (place, target) in self.plan.targets.iter().enumerate() {
            let ours = self.servers.get(&place);
            // If the server is reachable only through a pooler, the tables are created through it.
            let way = matches!(target.kind, Kind::Direct(_)) || (!any_direct && place == 0);
            let theirs = *init && way;
            let Some(login) = (ours.is_some() || theirs).then(|| self.login(place)).transpose()? else { continue };
            if let Some(scale) = scale {
                let name = format!("own-init-{}", target.slug);
                self.before.push(self.pgbench.initialize(self.lab, &name, &login, *scale)?);
            }
            if let (Some(server), Some(setup)) = (ours, setup) {
                self.lab.doing("running the setup");
                let mut connection = Connection::connect(&server.params(USER, DATABASE).timeout(SETUP_TIMEOUT))?;
                connection.query(setup).map_err(|e| LabError::at("the setup's SQL", e))?;
            }
        }
        Ok(())
    }

    /// Writes the transaction's script, unless it is a plain built-in of pgbench.
    fn write_script(&mut self, pgbench: &Path) -> Result<(), LabError> {
        let Workload { script, think_time_ms, .. } = &self.plan.workload;
        let mut text = match script {
            Script::Builtin(_) if *think_time_ms == 0 => return Ok(()),
            Script::Builtin(name) => {
                let mut command = self.lab.command(pgbench, self.lab.folder());
                command.arg(format!("--show-script={name}"));
                let said = self.lab.run("own-builtin", "pgbench's own script", command, SETUP_TIMEOUT)?.success()?;
                said.stderr
            }
            Script::Text(text) => text.clone(),
        };
        if *think_time_ms > 0 {
            let _ = write!(text, "\n\\sleep {think_time_ms} ms\n");
        }
        self.lab.write(&self.lab.folder().join(SCRIPT), &text)?;
        self.before.push(self.lab.keep("own-script", "the transaction", &format!("cat {SCRIPT}"), &text)?);
        self.scripted = true;
        Ok(())
    }

    /// The address of a target that is not started by the lab.
    fn login(&self, place: usize) -> Result<Target, LabError> {
        match &self.plan.targets[place].kind {
            Kind::Own { .. } => Ok(Target::local(self.servers[&place].port(), DATABASE)),
            Kind::Direct(login) | Kind::Address(login) => {
                let Login { host, port, user, database, .. } = login.clone();
                Ok(Target { host, port, user, password: password(login)?, database })
            }
            Kind::Weir { before, .. } => self.login(*before),
        }
    }

    /// The lab's own server behind a target.
    fn server(&self, place: usize) -> Option<&Server> {
        match &self.plan.targets[place].kind {
            Kind::Weir { before, .. } => self.servers.get(before),
            _ => self.servers.get(&place),
        }
    }

    /// Starts Weir if the target is one; returns its address.
    fn weir(&self, place: usize) -> Result<Option<Weir>, LabError> {
        let Kind::Weir { before, mode, size } = &self.plan.targets[place].kind else { return Ok(None) };
        let Target { host, port, user, password, database } = self.login(*before)?;
        let login = (!self.servers.contains_key(before)).then_some((user, password));
        let pool = Pool { name: DATABASE.to_owned(), database, mode: *mode, size: *size };
        let effect = format!("the target {}", self.plan.targets[place].name);
        Weir::start_before(self.lab, &Upstream { host, port, login }, &[pool], &effect).map(Some)
    }

    fn arguments(&self, clients: u32, ours: bool) -> Vec<String> {
        let Workload { script, scale, threads, duration, reconnect, rate, protocol, .. } = &self.plan.workload;
        let mut text = format!("-c {clients} -j {} -T {duration} -P 1 -M {protocol}", threads.min(&clients));
        if *reconnect {
            text.push_str(" -C");
        }
        if let Some(rate) = rate {
            let _ = write!(text, " -R {rate}");
        }
        // Only the lab's own tables are vacuumed, and their history emptied, before a run.
        if self.scripted || !ours {
            text.push_str(" -n");
        }
        match script {
            Script::Builtin(name) if !self.scripted => {
                let _ = write!(text, " -b {name}");
            }
            _ => {
                let _ = write!(text, " -f {SCRIPT}");
                if let Some(scale) = scale {
                    let _ = write!(text, " -s {scale}");
                }
            }
        }
        text.split(' ').map(str::to_owned).collect()
    }
}

/// The timeout of the setup.
const SETUP_TIMEOUT: Duration = Duration::from_secs(1800);

impl Stage for Bench<'_> {
    fn take(&mut self, step: &Step) -> Result<Measured, LabError> {
        let case = self.plan.cases().into_iter().find(|case| self.plan.id(*case) == step.id);
        let case = case.ok_or_else(|| LabError::Failed(format!("there is no case {}", step.id)))?;
        let server = self.server(case.target);
        // The connections of an earlier Weir have ended when the server's processes have.
        eventually(Duration::from_secs(10), || server.is_none_or(|server| server.backends() == 0));
        let weir = self.weir(case.target)?;
        let target = match &weir {
            Some(weir) => Target::local(weir.port(), DATABASE),
            None => self.login(case.target)?,
        };
        let (name, what) = (format!("own-{}", step.id), step.title.clone());
        let words = self.arguments(case.clients, server.is_some());
        // A run that hangs must not block the lab for ever.
        let timeout = Duration::from_secs(u64::from(self.plan.workload.duration) * 2 + 60);
        let (began, every) = (Instant::now(), Duration::from_millis(500));
        let (pid, pooler) = (server.and_then(Server::pid), weir.as_ref().map(Weir::pid));
        let sampler = Sampler::start(Watch { server: pid, pooler, client: "pgbench", ask: None, every });
        let outcome = self.pgbench.run_within(self.lab, &name, &what, &target, &words, timeout);
        let samples = sampler.stop();
        let (trouble, run, ran) = match outcome {
            Ok((run, ran)) => (trouble(&run, case.clients), run, Some(ran)),
            Err(LabError::Failed(_)) if began.elapsed() >= timeout => (Some("hangs".to_owned()), Run::default(), None),
            Err(trouble) => return Err(trouble),
        };
        if let Some(mistake) = mistake(&run) {
            return Err(LabError::Failed(mistake));
        }
        let taken = RunData {
            trouble,
            client_cpu: samples.client.mean_cpu(),
            server_cpu: samples.server.mean_cpu(),
            pooler_cpu: samples.pooler.mean_cpu(),
            server_ms: samples.server.cpu_ms_each(run.transactions),
            pooler_ms: samples.pooler.cpu_ms_each(run.transactions),
            cores: u32::try_from(crate::machine::cores()).unwrap_or(1),
            client_limit: samples.client_limit(self.plan.workload.threads.min(case.clients)),
            run,
        };
        let headline = taken.trouble.clone().unwrap_or_else(|| {
            let latency = taken.latency_ms(self.plan.workload.think_time_ms);
            format!("{:.0} TPS, {latency:.2} ms", taken.run.tps)
        });
        Ok(Measured::of(headline, &taken).ran(self.before.drain(..)).ran(ran))
    }
}

impl RunData {
    /// The average latency without the pauses of the script.
    pub(super) fn latency_ms(&self, think_time_ms: u32) -> f64 {
        (self.run.latency_ms - f64::from(think_time_ms)).max(0.0)
    }
}

/// An error that is not a result: a wrong password, a missing table. No client was served, and not because there were
/// too many.
fn mistake(run: &Run) -> Option<String> {
    let refused = REFUSALS.iter().any(|(part, _)| run.complaint.contains(part));
    (run.transactions == 0 && !run.success && !refused && run.complaint.len() > LONG_ENOUGH)
        .then(|| run.complaint.clone())
}

/// A shorter error message does not say what went wrong.
const LONG_ENOUGH: usize = 10;

/// Error messages about too many clients, and the words for them in a report.
const REFUSALS: &[(&str, &str)] = &[
    ("too many clients", "refused: too many clients"),
    ("remaining connection slots", "refused: too many clients"),
    ("no more connections allowed", "refused: too many clients"),
    ("Cannot assign requested address", "this machine is out of ports"),
];

/// Why not all clients were served, in a few words.
fn trouble(run: &Run, clients: u32) -> Option<String> {
    if run.success && run.aborted == 0 {
        return None;
    }
    let known = REFUSALS.iter().find(|(part, _)| run.complaint.contains(part)).map(|(_, words)| (*words).to_owned());
    let said = || {
        let (_, reason) = run.complaint.rsplit_once("failed: ").unwrap_or(("", &run.complaint));
        let short: String = reason.trim().chars().take(60).collect();
        if short.is_empty() { format!("{} of {clients} clients dropped", run.aborted) } else { short }
    };
    Some(known.unwrap_or_else(said))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_clients_were_not_served_is_said_in_a_few_words() {
        let run = |complaint: &str| Run { complaint: complaint.into(), aborted: 3, ..Run::default() };
        assert_eq!(trouble(&Run { success: true, ..Run::default() }, 9), None);
        let refused = run("connection to server failed: FATAL:  remaining connection slots are reserved for x");
        assert_eq!(trouble(&refused, 9).as_deref(), Some("refused: too many clients"));
        let password =
            run("connection to server at \"x\" failed: FATAL:  password authentication failed for user \"x\"");
        assert!(
            trouble(&password, 9).unwrap().starts_with("FATAL:  password authentication"),
            "{:?}",
            trouble(&password, 9)
        );
        assert_eq!(trouble(&run("connection to server failed: "), 9).as_deref(), Some("3 of 9 clients dropped"));
    }

    #[test]
    fn a_mistake_is_no_result_and_a_refusal_is() {
        let run = |complaint: &str, transactions| Run { complaint: complaint.into(), transactions, ..Run::default() };
        let wrong = "connection to server failed: FATAL:  password authentication failed for user \"x\"";
        assert_eq!(mistake(&run(wrong, 0)).as_deref(), Some(wrong));
        assert_eq!(mistake(&run(wrong, 5)), None, "some were served: then it is about the rest");
        assert_eq!(mistake(&run("FATAL:  sorry, too many clients already", 0)), None);
        assert_eq!(mistake(&run("", 0)), None, "a pgbench that hung said nothing");
    }

    #[test]
    fn a_pause_in_the_script_is_no_latency() {
        let taken = RunData { run: Run { latency_ms: 105.5, ..Run::default() }, ..RunData::default() };
        assert!((taken.latency_ms(100) - 5.5).abs() < 1e-9);
    }
}
