//! Looks at the servers of pools, for the incident view, and signals for their backends.
//!
//! Owns the bounds: a pool's server is asked at most once in [`FRESH`], only for a request of the API, and a few
//! servers at a time, each with a time limit.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use weir_admin::{Activity, BackendKey, BackendSignal, LookedAt, ProbeError, ServerCapacity, ServerProbes};
use weir_base::Target;

use crate::error::MonitorError;
use crate::lock::lock;

/// Concurrent connections: each blocks a thread on its server.
const MOST: usize = 4;
/// How long a look is used.
const FRESH: Duration = Duration::from_secs(2);
/// How long the look of a pool that nobody asks for is stored.
const KEPT: Duration = Duration::from_secs(60);
/// How long a request waits; a look ends before by itself, unless the system blocks it.
const LONGEST: Duration = Duration::from_secs(8);

/// What a server showed, or why it showed nothing.
pub(crate) type ProbedActivity = Arc<Result<Activity, ProbeError>>;

/// Looks at servers; cheap to clone.
#[derive(Clone)]
pub struct ActivityProbe {
    probes: Arc<dyn ServerProbes>,
    permits: Arc<Semaphore>,
    known: Arc<Mutex<HashMap<String, Arc<PoolProbe>>>>,
}

/// One pool's last look; the lock is held during a look, so that concurrent requests share it.
#[derive(Default)]
struct PoolProbe(tokio::sync::Mutex<Option<(Instant, ProbedActivity)>>);

impl ActivityProbe {
    /// Has looked at no server yet.
    pub fn new(probes: Arc<dyn ServerProbes>) -> ActivityProbe {
        ActivityProbe { probes, permits: Arc::new(Semaphore::new(MOST)), known: Arc::default() }
    }

    /// What the pool's server shows, not older than [`FRESH`].
    pub(crate) async fn look(&self, pool: &str) -> ProbedActivity {
        let place = self.place(pool);
        let mut last = place.0.lock().await;
        if let Some((at, look)) = &*last
            && at.elapsed() < FRESH
        {
            return look.clone();
        }
        let (probes, name) = (self.probes.clone(), pool.to_owned());
        let look = Arc::new(self.run(move || probes.activity(&name)).await);
        *last = Some((Instant::now(), look.clone()));
        look
    }

    /// How many connections a server takes, and who has them, over the kept connection if there is one.
    pub(crate) async fn capacity(&self, pool: String, server: Target) -> Result<ServerCapacity, ProbeError> {
        let probes = self.probes.clone();
        self.run(move || probes.capacity(&pool, &server)).await
    }

    /// Keeps a connection to each server of these pools for looks, and none to others. Blocks a thread for as long as one
    /// is opened.
    pub(crate) async fn keep(&self, pools: Vec<LookedAt>) {
        let probes = self.probes.clone();
        // Fails only if the process ends.
        let _ = spawn_blocking(move || probes.keep_looks(&pools)).await;
    }

    /// Sends a signal to a backend of the pool's server.
    ///
    /// # Errors
    /// The server's refusal, or that the backend does something else by now.
    pub async fn signal(&self, pool: String, backend: BackendKey, signal: BackendSignal) -> Result<(), MonitorError> {
        let (probes, name) = (self.probes.clone(), pool.clone());
        let sent = self
            .run(move || probes.signal(&name, backend, signal))
            .await
            .map_err(|why| MonitorError::NotSignalled(why.to_string()))?;
        // What was seen before is not true any more.
        lock(&self.known).remove(&pool);
        let done = || MonitorError::NotSignalled(format!("process {} does something else by now", backend.process_id));
        if sent { Ok(()) } else { Err(done()) }
    }

    fn place(&self, pool: &str) -> Arc<PoolProbe> {
        let mut known = lock(&self.known);
        let old = |place: &PoolProbe| {
            place.0.try_lock().is_ok_and(|last| last.as_ref().is_some_and(|(at, _)| at.elapsed() > KEPT))
        };
        known.retain(|_, place| !old(place));
        known.entry(pool.to_owned()).or_default().clone()
    }

    async fn run<T: Send + 'static>(
        &self,
        ask: impl FnOnce() -> Result<T, ProbeError> + Send + 'static,
    ) -> Result<T, ProbeError> {
        let ask = async {
            // The semaphore is never closed.
            let permit = self.permits.clone().acquire_owned().await.map_err(|_| ProbeError::Ending)?;
            let ask = move || {
                let _permit = permit;
                ask()
            };
            spawn_blocking(ask).await.unwrap_or_else(|_| Err(ProbeError::Ending))
        };
        timeout(LONGEST, ask).await.unwrap_or_else(|_| Err(ProbeError::TooSlow))
    }
}
