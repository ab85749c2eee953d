//! How many connections database servers take, asked from them for the page of databases.
//!
//! Owns the bounds: a server is asked only for a request of the API, at most once in [`FRESH`] (or [`RETRY`], if it
//! could not be asked), a few servers at a time; a request waits [`LONGEST`], and the answers that come later are kept
//! for the next one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use weir_admin::{ServerCapacity, ServerProbes};
use weir_base::Target;

use crate::clock;
use crate::lock::lock;

/// Concurrent connections: each blocks a thread on its server.
const MOST: usize = 4;
/// How long an answer is used.
const FRESH: Duration = Duration::from_secs(15);
/// How long a failure is used.
const RETRY: Duration = Duration::from_secs(5);
/// How long the answer of a server that no request is about is kept.
const KEPT: Duration = Duration::from_secs(600);
/// How long a request waits for answers.
const LONGEST: Duration = Duration::from_secs(2);
/// How many pools of a server are tried, each with its own login.
const TRIES: usize = 3;

/// What a server answered, or why it could not be asked.
#[derive(Clone)]
pub struct Answered {
    /// Seconds since 1970.
    pub at: f64,
    /// The answer, or the reason in words.
    pub capacity: Result<Arc<ServerCapacity>, String>,
}

/// A server, and the pools whose logins may ask it, the best first.
pub struct Question {
    /// The server.
    pub server: Target,
    /// The pools' names.
    pub pools: Vec<String>,
}

/// The answers of servers; cheap to clone.
#[derive(Clone)]
pub struct Capacities {
    probes: Arc<dyn ServerProbes>,
    permits: Arc<Semaphore>,
    known: Arc<Mutex<HashMap<String, Known>>>,
}

#[derive(Clone)]
struct Known {
    since: Instant,
    answered: Option<Answered>,
    asking: bool,
}

impl Known {
    fn is_due(&self) -> bool {
        let fresh = match &self.answered {
            Some(Answered { capacity: Ok(_), .. }) => FRESH,
            Some(_) => RETRY,
            None => Duration::ZERO,
        };
        !self.asking && self.since.elapsed() >= fresh
    }
}

impl Capacities {
    /// Knows no answer yet.
    pub fn new(probes: Arc<dyn ServerProbes>) -> Capacities {
        Capacities { probes, permits: Arc::new(Semaphore::new(MOST)), known: Arc::default() }
    }

    /// The last answer of each server, by its address; none of a server that has not answered yet.
    pub async fn of(&self, questions: Vec<Question>) -> HashMap<String, Answered> {
        let names: Vec<String> = questions.iter().map(|question| question.server.to_string()).collect();
        let tasks: Vec<_> = questions.into_iter().filter(|question| self.begin(question)).collect();
        let tasks: Vec<_> = tasks.into_iter().map(|question| tokio::spawn(self.clone().ask(question))).collect();
        // A task that is still under way continues.
        let _ = timeout(LONGEST, async {
            for task in tasks {
                let _ = task.await;
            }
        })
        .await;
        let known = lock(&self.known);
        names.into_iter().filter_map(|name| known.get(&name)?.answered.clone().map(|of| (name, of))).collect()
    }

    /// Whether the server is to be asked now; then no other request asks it.
    fn begin(&self, question: &Question) -> bool {
        let mut known = lock(&self.known);
        known.retain(|_, of| of.asking || of.since.elapsed() < KEPT);
        let of = known.entry(question.server.to_string());
        let of = of.or_insert_with(|| Known { since: Instant::now(), answered: None, asking: false });
        let due = of.is_due();
        of.asking |= due;
        due
    }

    async fn ask(self, question: Question) {
        let name = question.server.to_string();
        let capacity = self.answer(question).await.map(Arc::new);
        let answered = Some(Answered { at: clock::now().as_secs_f64(), capacity });
        lock(&self.known).insert(name, Known { since: Instant::now(), answered, asking: false });
    }

    async fn answer(&self, question: Question) -> Result<ServerCapacity, String> {
        // The semaphore is never closed.
        let permit = self.permits.clone().acquire_owned().await.map_err(|error| error.to_string())?;
        let probes = self.probes.clone();
        let ask = move || {
            let _permit = permit;
            let mut why = "no pool leads to it".to_owned();
            for pool in question.pools.iter().take(TRIES) {
                match probes.capacity(pool, &question.server) {
                    Ok(capacity) => return Ok(capacity),
                    Err(error) => why = error.to_string(),
                }
            }
            Err(why)
        };
        spawn_blocking(ask).await.unwrap_or_else(|_| Err("the process ends".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use weir_admin::{
        Activity, BackendKey, BackendSignal, LookedAt, PlannedPool, PoolTestResult, ProbeError, UserTestError,
        UserTestResult,
    };
    use weir_base::Host;

    use super::*;

    /// Counts the questions; answers for pool `b` only.
    #[derive(Default)]
    struct Server {
        asked: AtomicU32,
        slow: bool,
    }

    impl ServerProbes for Server {
        fn test_pool(&self, _: &PlannedPool) -> Result<PoolTestResult, ProbeError> {
            unreachable!("only capacities are asked for")
        }

        fn test_user(&self, _: &str, _: &str, _: &str) -> Result<UserTestResult, UserTestError> {
            unreachable!("only capacities are asked for")
        }

        fn activity(&self, _: &str) -> Result<Activity, ProbeError> {
            unreachable!("only capacities are asked for")
        }

        fn keep_looks(&self, _: &[LookedAt]) {}

        fn signal(&self, _: &str, _: BackendKey, _: BackendSignal) -> Result<bool, ProbeError> {
            unreachable!("only capacities are asked for")
        }

        fn capacity(&self, pool: &str, _: &Target) -> Result<ServerCapacity, ProbeError> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            if self.slow {
                std::thread::sleep(LONGEST + Duration::from_millis(500));
            }
            let known = ServerCapacity { max_connections: 100, ..ServerCapacity::default() };
            if pool == "b" { Ok(known) } else { Err(ProbeError::Server(format!("{pool} may not log in"))) }
        }
    }

    fn question(pools: &[&str]) -> Question {
        let pools = pools.iter().map(|pool| (*pool).to_owned()).collect();
        Question { server: Target { host: Host::parse("db1"), port: 5432 }, pools }
    }

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future)
    }

    #[test]
    fn a_server_is_asked_by_the_first_pool_that_may_and_once_for_many_requests() {
        let server = Arc::new(Server::default());
        let capacities = Capacities::new(server.clone());
        run(async {
            for _ in 0..5 {
                let answers = capacities.of(vec![question(&["a", "b", "c"])]).await;
                let known = answers["db1:5432"].capacity.as_ref().expect("an answer");
                assert_eq!(known.max_connections, 100);
            }
        });
        assert_eq!(server.asked.load(Ordering::SeqCst), 2, "a failed, b answered");
    }

    #[test]
    fn a_server_that_can_not_be_asked_has_the_last_reason_and_no_more_than_three_logins() {
        let server = Arc::new(Server::default());
        let capacities = Capacities::new(server.clone());
        run(async {
            let answers = capacities.of(vec![question(&["a", "c", "d", "b"])]).await;
            assert_eq!(answers["db1:5432"].capacity.as_ref().err().map(String::as_str), Some("d may not log in"));
        });
        assert_eq!(server.asked.load(Ordering::SeqCst), 3);
    }

    #[test]
    fn a_request_does_not_wait_for_a_slow_server_whose_answer_the_next_one_has() {
        let server = Arc::new(Server { slow: true, ..Server::default() });
        let capacities = Capacities::new(server.clone());
        run(async {
            let begun = Instant::now();
            assert!(capacities.of(vec![question(&["b"])]).await.is_empty());
            assert!(begun.elapsed() < LONGEST + Duration::from_millis(400), "{:?}", begun.elapsed());
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(capacities.of(vec![question(&["b"])]).await["db1:5432"].capacity.is_ok());
        });
        assert_eq!(server.asked.load(Ordering::SeqCst), 1);
    }
}
