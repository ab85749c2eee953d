//! Watching: one task requests the workers' reports once a second, and sends the figures to all listeners.
//!
//! Owns that task ([`run`](Watch::run)), its last figures, and the listeners. However many listen, the workers are
//! asked once. `series` defines the figures, `frame` their format, `stream` sends them to a listener, and `history`
//! stores them.

mod changed;
mod changes;
mod deployments;
mod failing;
mod findings;
mod frame;
mod history;
mod incident_log;
mod kept_looks;
mod known_names;
mod ring;
mod series;
mod server_full;
mod slow;
mod stream;

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::task::spawn_blocking;
use tokio::time::sleep;

use weir_admin::{Connections, ConsoleDeed, LogQuery};
use weir_config::Config;

use crate::alerts::{AlertWatch, conditions, workers_do_not_answer};
use crate::ask::Workers;
use crate::clock;
use crate::cpu::Cpu;
use crate::error::MonitorError;
use crate::faults::Faults;
use crate::lock::lock;
use crate::telemetry::TelemetryExport;
use changes::Changes;
use failing::{Connected, Failing};
pub use findings::Findings;
use frame::{Frame, trouble_event};
pub use frame::{Selection, number};
use history::History;
pub use history::merged;
pub use incident_log::{IncidentLog, PastIncident};
pub use ring::Scale;
use series::{PoolState, PoolStates, UNKNOWN, sample};
pub use series::{SERIES, Sample, Series, place};
use slow::Slow;
pub use stream::Events;
use stream::Streams;

/// The pools that are measured each second; with more pools the task measures less often, to limit the workers' load.
const POOLS_A_SECOND: usize = 5_000;

/// What is watched; cheap to clone.
#[derive(Clone)]
pub struct Watch {
    state: Arc<Mutex<WatchState>>,
    history: Arc<Mutex<History>>,
    incidents: IncidentLog,
    changes: Arc<Changes>,
    /// The error of the history's disk at the last second: known without a wait for the disk.
    write_error: Arc<Mutex<Option<String>>>,
}

/// Who is asked each second, and who learns of the answer.
pub struct WatchAround {
    /// They are asked.
    pub workers: Workers,
    /// Gets the conditions of alerts.
    pub alerts: AlertWatch,
    /// Gets the settings in force.
    pub telemetry: TelemetryExport,
    /// What is wrong with Weir itself.
    pub faults: Faults,
    /// Why pools are slow.
    pub findings: Findings,
    /// Gets what operators have changed at the console lately, each second.
    pub console: TakeDeeds,
}

/// Takes in what operators have changed at the console: the latest, with those that it has had before.
pub type TakeDeeds = Box<dyn Fn(&[ConsoleDeed]) + Send + Sync>;

#[derive(Default)]
struct WatchState {
    streams: Streams,
    /// The latest figures; none before the first.
    latest: Option<Arc<Frame>>,
    /// The configuration that was in force then.
    config: Option<Arc<Config>>,
}

/// What is remembered from second to second.
#[derive(Default)]
struct Known {
    failing: Failing,
    slow: Slow,
}

/// A pool's figures, and why they will not survive a restart, if they will not.
type Recorded = (Vec<Sample>, Option<String>);

/// The recorded figures of a pool, or of all as one.
pub struct Past {
    /// None for all pools.
    pub pool: Option<String>,
    /// The figures of each moment.
    pub samples: Vec<Sample>,
    /// The problems in the minute of each moment; none where it was not watched.
    pub problems: Vec<Option<usize>>,
}

/// The base of the next figures.
struct Measurement {
    at: Instant,
    states: PoolStates,
    /// All pools as one.
    sum: PoolState,
    cpu: Cpu,
}

impl Watch {
    /// With a folder for the history, if it is to survive a restart; `version`: Weir's.
    pub fn new(folder: Option<&Path>, version: &str) -> io::Result<Watch> {
        let history = Arc::new(Mutex::new(History::new(folder)?));
        let (incidents, changes) = (IncidentLog::open(folder), Arc::new(Changes::open(folder, version)));
        Ok(Watch { state: Arc::default(), history, incidents, changes, write_error: Arc::default() })
    }

    /// What was broken, and is.
    pub fn incidents(&self) -> &IncidentLog {
        &self.incidents
    }

    /// Requests the workers' reports in a loop. `in_words`: an error as JSON, for the listeners.
    pub async fn run(self, around: WatchAround, in_words: impl Fn(MonitorError) -> String) {
        let (mut before, mut known) = (None, Known::default());
        loop {
            let seconds = match self.measure(&around, &mut before, &mut known).await {
                Ok(pools) => 1 + pools / POOLS_A_SECOND,
                Err(error) => {
                    if let Some(config) = &self.state().config {
                        around.alerts.observe(config, vec![workers_do_not_answer()]);
                    }
                    self.state().streams.tell_all(&trouble_event(&in_words(error)));
                    1
                }
            };
            sleep(until_the_next(seconds as u64)).await;
        }
    }

    /// Measures once; returns the number of pools.
    async fn measure(
        &self,
        WatchAround { workers, alerts, telemetry, faults, findings, console }: &WatchAround,
        before: &mut Option<Arc<Measurement>>,
        Known { failing, slow }: &mut Known,
    ) -> Result<usize, MonitorError> {
        let (report, config) = workers.report().await?;
        let (pools, clients) = (report.pools.len(), report.pools.iter().map(|pool| pool.clients()).sum());
        if let Some(slow) = slow.follow(workers, &report, config.track_statements > 0, clock::now().as_secs_f64()).await
        {
            findings.set_slow(workers, slow);
        }
        findings.follow(workers, &report, &config);
        console(&report.console_deeds);
        self.changes.observe(&report.pools, clock::now().as_secs_f64());
        let now = clock::now().as_secs_f64();
        if failing.asks_who_is_connected(now) {
            failing.connected(connected(workers).await, now);
        }
        let (previous, refused) = (report.faults.clone(), failing.look(&report, &config, now));
        let moves = frame::moves(&report.primaries, clock::now().as_micros() as u64);
        let now = Measurement::now(PoolStates::of(report, &config));
        let write_error = lock(&self.write_error).clone();
        let (mut faults, lines) = faults.now(&config, write_error, workers.log_file_error()).await;
        if refused.iter().any(|fault| fault.kind == "reload" && fault.problem) {
            // The same file, which was also tried.
            faults.retain(|fault| fault.kind != "reload");
        }
        faults.extend(refused);
        faults.extend(findings.fault(clock::now().as_secs_f64()));
        faults.sort_by_key(|fault| !fault.problem);
        let found: Arc<[weir_admin::Fault]> = faults.iter().map(weir_admin::Fault::from).collect();
        if previous != found {
            workers.set_faults(found);
        }
        lines.into_iter().for_each(|line| workers.log(line));
        let frame = Arc::new(Frame { faults, moves, ..now.since(before.as_deref()) });
        self.incidents.observe(&frame, &config);
        let now = Arc::new(now);
        *before = Some(now.clone());
        {
            let mut state = self.state();
            state.streams.tell(&frame, |query| workers.log_lines(query));
            state.latest = Some(frame.clone());
            state.config = Some(config.clone());
        }
        telemetry.follow(&config.telemetry);
        alerts.observe(&config, conditions(&config, frame.moments(), clients, &frame.faults));
        self.keep(now, frame).await;
        Ok(pools)
    }

    /// Stores the figures, on a thread for blocking work, since a disk may be slow.
    async fn keep(&self, now: Arc<Measurement>, frame: Arc<Frame>) {
        let (history, write_error) = (self.history.clone(), self.write_error.clone());
        let (incidents, changes) = (self.incidents.clone(), self.changes.clone());
        let keep = move || {
            let of = |name: &str| frame.pools.get(name).map(|pool| &pool.sample);
            let mut history = lock(&history);
            history.record(frame.at as u64, now.at, (&now.states, &now.sum), &frame.all, of);
            *lock(&write_error) = history.write_error();
            incidents.explain(|pools, since| changes.before(&history, pools, since));
            changes.write_out();
        };
        // Fails only if the process ends.
        let _ = spawn_blocking(keep).await;
    }

    /// The pools whose figures are stored.
    pub async fn kept(&self) -> Result<Vec<String>, MonitorError> {
        let history = self.history.clone();
        let look = move || lock(&history).names().map(str::to_owned).collect();
        spawn_blocking(look).await.map_err(|_| MonitorError::Ending)
    }

    /// A pool's figures at this many moments.
    pub async fn history(&self, name: &str, scale: Scale, from: u64, moments: u64) -> Result<Recorded, MonitorError> {
        let exists = self.state().latest.as_ref().is_none_or(|latest| latest.has(name));
        let (history, name) = (self.history.clone(), name.to_owned());
        let look = move || {
            let history = lock(&history);
            match history.get(&name, scale, from, moments) {
                Ok(None) if !exists => Err(MonitorError::NoSuchPool(name)),
                Ok(samples) => {
                    let samples = samples.unwrap_or_else(|| vec![UNKNOWN; moments as usize]);
                    Ok((samples, history.why_not_persisted()))
                }
                Err(error) => Err(MonitorError::Unreadable(error.to_string())),
            }
        };
        spawn_blocking(look).await.unwrap_or(Err(MonitorError::Ending))
    }

    /// The figures of all pools as one, and of each stored pool, at this many moments, with the number of problems in
    /// each.
    pub async fn past_of_all(&self, scale: Scale, from: u64, moments: u64) -> Result<Vec<Past>, MonitorError> {
        let history = self.history.clone();
        let look = move || {
            let history = lock(&history);
            let problems = |pool: Option<&str>| {
                (0..moments).map(|number| history.problems(from + number * scale.step(), pool)).collect()
            };
            let all = Past { pool: None, samples: history.all(scale, from, moments)?, problems: problems(None) };
            let mut pasts = vec![all];
            for name in history.names() {
                let Some(samples) = history.get(name, scale, from, moments)? else { continue };
                pasts.push(Past { pool: Some(name.to_owned()), samples, problems: problems(Some(name)) });
            }
            Ok(pasts)
        };
        let read = spawn_blocking(look).await.map_err(|_| MonitorError::Ending)?;
        read.map_err(|error: io::Error| MonitorError::Unreadable(error.to_string()))
    }

    /// The figures of all pools as one at this many moments.
    pub async fn past_of_sum(&self, scale: Scale, from: u64, moments: u64) -> Result<Vec<Sample>, MonitorError> {
        let history = self.history.clone();
        let read = spawn_blocking(move || lock(&history).all(scale, from, moments)).await;
        read.map_err(|_| MonitorError::Ending)?.map_err(|error| MonitorError::Unreadable(error.to_string()))
    }

    /// A stream of events for a selection, from now on, with the lines of the log that fit a query.
    pub fn listen(&self, selection: Selection, log: Option<LogQuery>) -> Result<Events, MonitorError> {
        let mut state = self.state();
        let latest = state.latest.clone();
        state.streams.join(selection, log, latest.as_deref())
    }

    fn state(&self) -> MutexGuard<'_, WatchState> {
        lock(&self.state)
    }
}

impl Measurement {
    fn now(states: PoolStates) -> Measurement {
        Measurement { at: Instant::now(), sum: states.sum(), states, cpu: Cpu::now() }
    }

    /// The figures of this measurement, and of the time since `before`.
    fn since(&self, before: Option<&Measurement>) -> Frame {
        let seconds = before.map_or(0.0, |before| (self.at - before.at).as_secs_f64());
        let earlier = |name: &str| before?.states.0.get(name).map(|state| (state, seconds));
        let of_pool = |(name, state)| {
            let (name, state): (&String, &PoolState) = (name, state);
            (
                name.clone(),
                frame::PoolFigures {
                    sample: sample(earlier(name), state),
                    errors: state.errors().by_code(),
                    health: state.record.health.clone(),
                },
            )
        };
        Frame {
            at: clock::now().as_secs_f64(),
            pools: self.states.0.iter().map(of_pool).collect(),
            all: sample(before.map(|before| (&before.sum, seconds)), &self.sum),
            workers: before.map(|before| self.cpu.shares_since(&before.cpu, seconds)).unwrap_or_default(),
            faults: Vec::new(),
            moves: Vec::new(),
        }
    }
}

/// Who is connected.
async fn connected(workers: &Workers) -> Connected {
    let mut found = Connected::default();
    // Without the rest there is a part.
    let _ = workers.each_connection(Connections::Clients, |client| found.add(&client)).await;
    found
}

/// The time until a whole second, this many from now: the figures of each second have one place in a history.
fn until_the_next(seconds: u64) -> Duration {
    let passed = Duration::from_nanos(clock::now().subsec_nanos().into());
    Duration::from_secs(seconds).saturating_sub(passed)
}
