//! Measures: the server, Weir in front of it, pgbench, and the sampling of all three.
//!
//! Owns which processes run. A pooled run has a Weir of its own, because a pool's open connections would be missing
//! for the direct runs. On the user's own server nothing is truncated, and tables with data are used as they are.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_pgclient::{ConnectParams, Connection};
use weir_pglocal::Server;

use super::burst::burst;
use super::plan::{BURST, Distance, Load, MANY, POOL, Plan, Route, THREADS, Task, USABLE};
use super::{Options, far};
use crate::lab::{Lab, eventually};
use crate::length::Length;
use crate::load::pgbench::{Pgbench, Run, Target};
use crate::load::sample::{Sampler, Samples, Watch};
use crate::model::Ran;
use crate::servers::{FILLED, Mode, Pool, Upstream, Weir, start_postgres};
use crate::steps::{LabError, Measured, Stage, Step};

/// The runs that are left out without Weir.
const EFFECT: &str = "the runs through the pool";
/// How long the connections of the run before may take to close.
const SETTLE: Duration = Duration::from_secs(5);

/// The result of one load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct RunData {
    pub(super) run: Run,
    /// If there are two programs, the second one.
    pub(super) second: Option<Run>,
    pub(super) samples: Samples,
    /// The intended duration.
    pub(super) seconds: u32,
    /// The server's free connections.
    pub(super) usable: u32,
}

/// The servers of the steps.
pub(super) struct Bench<'l> {
    lab: &'l Lab,
    plan: Plan,
    /// `None` for a server of the user's own.
    server: Option<Server>,
    target: Target,
    pgbench: Pgbench,
    script: PathBuf,
    usable: u32,
    /// Commands that ran before the first step, which records them.
    ran: Vec<Ran>,
    warnings: Vec<String>,
}

impl<'l> Bench<'l> {
    /// Starts PostgreSQL, or connects to the user's own, and fills its tables.
    pub(super) fn open(lab: &'l Lab, plan: &Plan, options: &Options) -> Result<Bench<'l>, LabError> {
        let (server, target, programs) = if let Some(host) = &options.host {
            (None, options.target(host), weir_pglocal::find()?)
        } else {
            let server = start_postgres(lab, 100, &options.database, FILLED)?;
            let (target, programs) = (Target::local(server.port(), &options.database), server.programs().clone());
            (Some(server), target, programs)
        };
        let pgbench = Pgbench::of(&programs)?;
        lab.note_version("pgbench", programs.version());
        let script = lab.folder().join("pgbench-far.sql");
        let (plan, ran, warnings) = (plan.clone(), Vec::new(), Vec::new());
        let mut stage = Bench { lab, plan, server, target, pgbench, script, usable: USABLE, ran, warnings };
        lab.write(&stage.script, &far::script(stage.plan.way_ms))?;
        if options.host.is_some() {
            stage.usable = usable(&stage.target)?;
            stage.plan.scale = stage.fill_own(options)?;
        } else {
            stage.fill(stage.plan.scale)?;
        }
        stage.warm_up()?;
        Ok(stage)
    }

    fn fill(&mut self, scale: u32) -> Result<(), LabError> {
        self.ran.push(self.pgbench.initialize(self.lab, "pgbench-fill", &self.target, scale)?);
        Ok(())
    }

    /// Fills the tables of the user's own server if they are empty, or if the options allow it. Returns their scale.
    fn fill_own(&mut self, options: &Options) -> Result<u32, LabError> {
        let mut connection = connect(&self.target)?;
        let there = connection.value("select to_regclass('pgbench_accounts') is not null")?.as_deref() == Some("t");
        let filled = there && !connection.query("select 1 from pgbench_accounts limit 1")?.rows.is_empty();
        if filled && !options.init {
            let scale = connection.value("select count(*) from pgbench_branches")?;
            let scale = scale.and_then(|count| count.parse().ok()).unwrap_or(1);
            self.lab.say(&format!("pgbench's tables are used as they are, scale {scale} (--init fills them anew)"));
            if scale < MANY {
                self.warnings.push(format!(
                    "scale {scale} is less than {MANY} clients: they queue for the rows of the branches, pool or not"
                ));
            }
            return Ok(scale);
        }
        self.fill(self.plan.scale)?;
        Ok(self.plan.scale)
    }

    /// The first run meets cold caches; this is that run.
    fn warm_up(&self) -> Result<(), LabError> {
        if self.lab.length() == Length::Smoke {
            return Ok(());
        }
        self.lab.doing("warming up");
        let args = words("-n -c 20 -j 2 -T 2");
        self.pgbench.run(self.lab, "pgbench-warm-up", "warm up", &self.target, &args, 2).map(drop)
    }

    /// Cleans up after the run before, and waits until its connections are closed, since they count.
    fn tidy(&self) -> Result<(), LabError> {
        let mut connection = match &self.server {
            Some(server) => server.superuser_connection(&self.target.database)?,
            None => connect(&self.target)?,
        };
        connection.query("vacuum pgbench_branches")?;
        connection.query("vacuum pgbench_tellers")?;
        if let Some(server) = &self.server {
            connection.query("truncate pgbench_history")?;
            connection.close()?;
            eventually(SETTLE, || server.backends() == 0);
        }
        Ok(())
    }

    fn weir(&self, size: u32) -> Result<Weir, LabError> {
        let Target { host, port, user, password, database } = &self.target;
        let login = self.server.is_none().then(|| (user.clone(), password.clone()));
        let upstream = Upstream { host: host.clone(), port: *port, login };
        // One connection of the user's own server is for the query of their number.
        let size = if self.server.is_some() { size } else { size.min(self.usable.saturating_sub(1)) };
        let pool = Pool { name: POOL.into(), database: database.clone(), mode: Mode::Transaction, size };
        Weir::start_before(self.lab, &upstream, &[pool], EFFECT)
    }

    fn load(&mut self, step: &Step, distance: Distance, load: Load, size: u32) -> Result<Measured, LabError> {
        self.tidy()?;
        let weir = (load.route == Route::Pool).then(|| self.weir(size)).transpose()?;
        let target = weir.as_ref().map_or_else(|| self.target.clone(), |weir| Target::local(weir.port(), POOL));
        let seconds = if step.id.contains("-size-") { self.plan.sweep_seconds } else { self.plan.seconds };
        let watch = Watch {
            server: self.server.as_ref().and_then(Server::pid),
            pooler: weir.as_ref().map(Weir::pid),
            client: "pgbench",
            ask: self.asks(load).then(|| params(&self.target)),
            every: Duration::from_secs_f64((f64::from(seconds) / 60.0).clamp(0.5, 5.0)),
        };
        let sampler = Sampler::start_with(watch, Duration::from_secs_f64(f64::from(seconds) * 0.6));
        let began = match load.route {
            Route::Twice => self.twice(step, distance, load.clients / 2, seconds),
            Route::Direct | Route::Pool => {
                self.once(step, distance, load.clients, &target, seconds).map(|(run, ran)| (run, None, vec![ran]))
            }
        };
        let samples = sampler.stop();
        let (run, second, ran) = began?;
        let warning = samples.client_limit(THREADS).map(|warning| format!("{}: {warning}", step.title));
        let taken = RunData { run, second, samples, seconds, usable: self.usable };
        let mut measured = Measured::of(headline(&taken), &taken).ran(self.ran.drain(..)).ran(ran);
        measured.warnings.append(&mut self.warnings);
        measured.warnings.extend(warning);
        Ok(measured)
    }

    /// Whether the server's connections are sampled by a query: not where each connection is for a client.
    fn asks(&self, load: Load) -> bool {
        self.server.is_none() && (load.route == Route::Pool || load.clients < self.usable)
    }

    fn once(
        &self,
        step: &Step,
        distance: Distance,
        clients: u32,
        target: &Target,
        seconds: u32,
    ) -> Result<(Run, Ran), LabError> {
        let name = format!("pgbench-{}", step.id);
        let args = self.args(distance, clients, seconds);
        self.pgbench.run(self.lab, &name, &step.title, target, &args, seconds)
    }

    /// Two programs; the second begins when the first has its connections.
    fn twice(
        &self,
        step: &Step,
        distance: Distance,
        clients: u32,
        seconds: u32,
    ) -> Result<(Run, Option<Run>, Vec<Ran>), LabError> {
        let args = self.args(distance, clients, seconds);
        let begin = |which: &str| {
            let (name, what) = (format!("pgbench-{}-{which}", step.id), format!("{}, the {which}", step.title));
            self.pgbench.begin(self.lab, &name, &what, &self.target, &args, seconds)
        };
        let first = begin("first")?;
        match &self.server {
            Some(server) => drop(eventually(SETTLE, || server.backends() >= clients as usize)),
            None => thread::sleep(Duration::from_millis(500)),
        }
        let (second, second_ran) = begin("second")?.finish(self.lab)?;
        let (first, first_ran) = first.finish(self.lab)?;
        Ok((first, Some(second), vec![first_ran, second_ran]))
    }

    fn args(&self, distance: Distance, clients: u32, seconds: u32) -> Vec<String> {
        let progress = (seconds / 60).max(1);
        let mut args = words(&format!("-n -c {clients} -j {THREADS} -P {progress} -T {seconds}"));
        if distance == Distance::Far {
            args.extend(["-D".to_owned(), format!("scale={}", self.plan.scale)]);
            args.extend(["-f".to_owned(), self.script.display().to_string()]);
        }
        args
    }

    fn burst(&mut self, step: &Step, route: Route) -> Result<Measured, LabError> {
        self.tidy()?;
        let weir = (route == Route::Pool).then(|| self.weir(USABLE)).transpose()?;
        let params = weir.as_ref().map_or_else(|| params(&self.target), |weir| weir.params(POOL));
        let outcome = burst(&params, BURST);
        let text = serde_json::to_string_pretty(&outcome).unwrap_or_default();
        let line = format!("{BURST} connections at once, each for select pg_sleep(0.2)");
        let ran = self.lab.keep(&format!("pgbench-{}", step.id), &step.title, &line, &text)?;
        let headline = format!("{} served, {} refused, {} lost", outcome.served, outcome.refused, outcome.lost);
        Ok(Measured::of(headline, &outcome).ran([ran]))
    }
}

impl Stage for Bench<'_> {
    fn take(&mut self, step: &Step) -> Result<Measured, LabError> {
        let task = self.plan.tasks().into_iter().find(|task| task.id() == step.id);
        match task.ok_or_else(|| LabError::Failed(format!("no step is called {}", step.id)))? {
            Task::Load(distance, load, _) => self.load(step, distance, load, USABLE),
            Task::Sweep(distance, size) => self.load(step, distance, Load { route: Route::Pool, clients: MANY }, size),
            Task::Burst(route) => self.burst(step, route),
        }
    }
}

fn headline(taken: &RunData) -> String {
    let RunData { run, second, .. } = taken;
    if run.transactions == 0 && !run.success {
        let words = run.complaint.find("FATAL:").map_or(run.complaint.as_str(), |at| &run.complaint[at..]);
        return format!("stopped: {words}");
    }
    let beside = if second.as_ref().is_some_and(|run| !run.success) { ", the second stopped" } else { "" };
    format!("{:.1} TPS, {:.1} ms{beside}", run.tps, run.latency_ms)
}

fn params(target: &Target) -> ConnectParams {
    let params = ConnectParams::new(&target.host, target.port, &target.user, &target.database);
    if target.password.is_empty() { params } else { params.password(&target.password) }
}

fn connect(target: &Target) -> Result<Connection, LabError> {
    let Target { host, port, user, database, .. } = target;
    Connection::connect(&params(target))
        .map_err(|e| LabError::at(format!("connect to {host}:{port} as {user}, database {database}"), e))
}

/// The number of connections that the user's own server has left for ordinary users.
fn usable(target: &Target) -> Result<u32, LabError> {
    let sql = "select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int \
               - (select count(*) from pg_stat_activity where backend_type = 'client backend' \
               and pid <> pg_backend_pid())";
    let left = connect(target)?.value(sql)?;
    Ok(left.and_then(|count| count.parse().ok()).unwrap_or(USABLE))
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}
