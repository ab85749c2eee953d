//! Watching: the workers are asked once a second how they are, and whoever wants to know is told.
//!
//! Owns the one task that asks ([`run`](Watch::run)), what it heard last, and who listens. However many listen, the workers
//! are asked once. `series` says what the figures are, `frame` how they are written, `stream` how they reach a listener.

mod cpu;
mod frame;
mod series;
mod stream;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::time::sleep;

use crate::ask::Workers;
use crate::error::ApiError;
use cpu::Cpu;
pub(crate) use frame::Selection;
use frame::{Frame, trouble};
use series::{Readings, sample};
pub(crate) use stream::Events;
use stream::Streams;

/// The pools that are looked at within a second; with more of them it is done less often, so that workers are not disturbed.
const POOLS_A_SECOND: usize = 5_000;

/// What is watched; cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Watch(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    streams: Streams,
    /// The latest figures; nothing before the first.
    latest: Option<Arc<Frame>>,
}

/// What the next figures are compared with.
struct Before {
    at: Instant,
    readings: Readings,
    cpu: Cpu,
}

impl Watch {
    /// Asks the workers again and again.
    pub(crate) async fn run(self, workers: Workers) {
        let mut before = None;
        loop {
            let seconds = match self.look(&workers, &mut before).await {
                Ok(pools) => 1 + pools / POOLS_A_SECOND,
                Err(error) => {
                    self.state().streams.tell_all(&trouble(&error));
                    1
                }
            };
            sleep(until_the_next(seconds as u64)).await;
        }
    }

    /// Looks once; how many pools there were.
    async fn look(&self, workers: &Workers, before: &mut Option<Before>) -> Result<usize, ApiError> {
        let (report, config) = workers.report().await?;
        let pools = report.pools.len();
        let now = Before { at: Instant::now(), readings: Readings::of(report, &config), cpu: Cpu::now() };
        let frame = Arc::new(now.since(before.as_ref()));
        *before = Some(now);
        let mut state = self.state();
        state.streams.tell(&frame);
        state.latest = Some(frame);
        Ok(pools)
    }

    /// A stream of events about what is selected, from now on.
    pub(crate) fn listen(&self, selection: Selection) -> Result<Events, ApiError> {
        let mut state = self.state();
        let latest = state.latest.clone();
        state.streams.join(selection, latest.as_deref())
    }

    /// Who panics while it is locked leaves nothing half-done.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Before {
    /// What is known now, and what happened since.
    fn since(&self, before: Option<&Before>) -> Frame {
        let seconds = before.map_or(0.0, |before| (self.at - before.at).as_secs_f64());
        let earlier = |name: &str| before?.readings.0.get(name).map(|reading| (reading, seconds));
        let of_pool = |(name, reading)| {
            let reading: &series::Reading = reading;
            let name: &String = name;
            (name.clone(), frame::Pool { sample: sample(earlier(name), reading), errors: reading.errors().by_code() })
        };
        let (sum, sum_before) = (self.readings.sum(), before.map(|before| before.readings.sum()));
        Frame {
            at: now(),
            pools: self.readings.0.iter().map(of_pool).collect(),
            all: sample(sum_before.as_ref().map(|sum| (sum, seconds)), &sum),
            workers: before.map(|before| self.cpu.shares_since(&before.cpu, seconds)).unwrap_or_default(),
        }
    }
}

/// Seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// The time until a whole second, so many of them from now: the figures of each second have one place in a history.
fn until_the_next(seconds: u64) -> Duration {
    let passed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().subsec_nanos();
    Duration::from_secs(seconds).saturating_sub(Duration::from_nanos(passed.into()))
}
