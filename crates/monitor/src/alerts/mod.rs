//! Alerts: conditions of each second, made into messages (`weir_admin::AlertStates`), and sent to the targets of
//! `[alerts]`.
//!
//! Owns the states of alerts, the silences and the targets. A target that hangs or fails costs the data plane nothing:
//! it has a task and a bounded queue of its own, and its requests run on threads for blocking work.

mod conditions;
mod firing;
mod past;
mod shapes;
mod silences;
mod target;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::sleep;
use weir_admin::{AlertNotice, AlertStates, FiredAlert, ListedAlert};
use weir_base::Span;
use weir_config::Config;
use weir_fetch::SendHttp;

use crate::ask::Workers;
use crate::clock;
use crate::error::MonitorError;
use crate::lock::lock;
pub(crate) use conditions::{PoolMoment, conditions, workers_do_not_answer};
use firing::Firing;
use past::AlertLog;
pub use past::PastAlert;
pub(crate) use shapes::TargetKind;
use silences::Silences;
pub use silences::{NewSilence, Silence};
use target::Target;
pub use target::{TargetReport, TestResult};

/// How often Alertmanager hears of what fires: it takes an alert as over when it hears no more of it.
const REFRESH: Duration = Duration::from_secs(60);

/// The alerts; cheap to clone.
#[derive(Clone)]
pub struct AlertWatch(Arc<Inner>);

struct Inner {
    states: Mutex<AlertStates>,
    firing: Firing,
    past: AlertLog,
    workers: Workers,
    silences: Silences,
    targets: Vec<Target>,
}

impl AlertWatch {
    /// With the silences and the firing alerts of an earlier process in a folder, if there is one.
    pub fn new(workers: &Workers, send: &SendHttp, folder: Option<&Path>) -> AlertWatch {
        let target = |kind| Target::new(kind, send.clone(), workers.clone());
        let targets = TargetKind::ALL.map(target).into();
        let (firing, mut states) = (Firing::open(folder), AlertStates::default());
        states.restore(clock::now().as_micros() as u64, firing.last());
        let (states, workers) = (Mutex::new(states), workers.clone());
        let (past, silences) = (AlertLog::open(folder), Silences::open(folder));
        AlertWatch(Arc::new(Inner { states, firing, past, workers, silences, targets }))
    }

    /// The conditions of this moment hold; makes the messages that are due.
    pub(crate) fn observe(&self, config: &Config, conditions: Vec<weir_admin::Condition>) {
        let alerts = &config.alerts;
        let now = clock::now();
        let silenced = self.0.silences.now(now.as_secs_f64());
        let (due, fired) = {
            let mut states = lock(&self.0.states);
            let due = states.observe(now.as_micros() as u64, conditions, (alerts.hold, alerts.repeat), |key| {
                silenced.iter().any(|silence| silence.covers(key))
            });
            (due, states.fired())
        };
        self.keep(&fired);
        if self.0.past.take(&fired, now.as_secs_f64()) {
            let alerts = self.clone();
            tokio::task::spawn_blocking(move || alerts.0.past.write_out());
        }
        self.0.targets.iter().for_each(|target| target.follow(alerts));
        if !due.is_empty() {
            self.0.targets.iter().for_each(|target| target.queue(&due, &alerts.source));
        }
    }

    /// Writes down what fires, if that has changed, on a thread for blocking work.
    fn keep(&self, fired: &[FiredAlert]) {
        let moments = |of: &FiredAlert| (of.condition.key.clone(), of.started, of.fired, of.sent);
        let same = fired.iter().map(moments).eq(self.0.firing.last().iter().map(moments));
        if same || !self.0.firing.put(fired) {
            return;
        }
        let alerts = self.clone();
        tokio::task::spawn_blocking(move || {
            if let Some(error) = alerts.0.firing.write_out() {
                alerts.0.workers.log(format!("alerts: those that fire are not kept over a restart: {error}"));
            }
        });
    }

    /// Sends what is queued, until the control plane ends.
    pub async fn run(self) {
        let mut tasks = tokio::task::JoinSet::new();
        for at in 0..self.0.targets.len() {
            let alerts = self.clone();
            tasks.spawn(async move { alerts.0.targets[at].run().await });
        }
        loop {
            sleep(REFRESH).await;
            let firing = lock(&self.0.states).firing();
            if !firing.is_empty() {
                self.0.targets.iter().for_each(|target| target.refresh(&firing));
            }
        }
    }

    /// All alerts, those without messages too.
    pub fn list(&self) -> Vec<ListedAlert> {
        lock(&self.0.states).list()
    }

    /// What fired, and fires: the newest first, at most so many, of this pool or of all.
    pub fn past(&self, pool: Option<&str>, most: usize) -> Vec<PastAlert> {
        self.0.past.newest(pool, most)
    }

    /// The error of the disk, if what fired could not be written, after another try.
    pub fn retry(&self) -> Option<String> {
        self.0.past.retry()
    }

    /// How many alerts fire and are not silenced.
    pub(crate) fn count_firing(&self) -> usize {
        lock(&self.0.states).firing().len()
    }

    /// The targets, and how they do.
    pub fn targets(&self) -> Vec<TargetReport> {
        self.0.targets.iter().map(Target::report).collect()
    }

    /// The silences that are in force.
    pub fn silences(&self) -> Vec<Silence> {
        self.0.silences.now(clock::now().as_secs_f64())
    }

    /// Makes a silence.
    ///
    /// # Errors
    /// There are too many.
    pub async fn silence(&self, new: NewSilence) -> Result<Silence, MonitorError> {
        let alerts = self.clone();
        tokio::task::spawn_blocking(move || alerts.0.silences.add(new)).await.unwrap_or(Err(MonitorError::Ending))
    }

    /// Ends a silence; returns whether there was one.
    pub async fn end_silence(&self, id: u64) -> bool {
        let alerts = self.clone();
        tokio::task::spawn_blocking(move || alerts.0.silences.end(id)).await.unwrap_or(false)
    }

    /// Sends a test message to each configured target, and waits for the answers.
    pub async fn test(&self, config: &Config) -> Vec<TestResult> {
        let notice = test_notice();
        let mut results = Vec::new();
        for target in &self.0.targets {
            target.follow(&config.alerts);
            results.extend(target.test(&notice, &config.alerts.source).await);
        }
        results
    }
}

fn test_notice() -> AlertNotice {
    let now = clock::now().as_micros() as u64;
    let key = weir_admin::AlertKey { rule: "test".to_owned(), pool: None };
    let summary = "A test message of Weir. Nothing is wrong.".to_owned();
    let condition = weir_admin::Condition {
        key,
        critical: false,
        summary,
        advice: String::new(),
        clients: 0,
        since: now,
        server: None,
    };
    AlertNotice { condition, started: now, ended: Some(now + Span::from_secs(1).micros()) }
}
