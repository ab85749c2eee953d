//! Test logins at a pool's server, and at this Weir as a client, for the API: a few at a time. What pools' servers answer is
//! cached for a minute.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use weir_admin::{ConfigAccess, PoolTestResult, ServerProbes, UserTestError, UserTestResult};
use weir_config::Keys;
use weir_http::ApiError;
use weir_monitor::{FreeConnections, MonitorError, lock};

/// Concurrent tests: each blocks a thread on its server.
const TESTS: usize = 4;
/// How long a request waits, for a permit and for the answer. A test ends before by itself, unless the system blocks
/// it, in a look-up of a name for example. Then it keeps its permit, and its request fails.
const LONGEST: Duration = Duration::from_secs(15);
/// How long a database's free connections are cached.
const FRESH: Duration = Duration::from_secs(60);

/// Tests pools; cheap to clone.
#[derive(Clone)]
pub(crate) struct PoolTests {
    config: Arc<dyn ConfigAccess>,
    probes: Arc<dyn ServerProbes>,
    permits: Arc<Semaphore>,
    rooms: Arc<Mutex<HashMap<String, KnownRoom>>>,
}

/// When a database was asked, and its answer; none if it could not be asked.
type KnownRoom = (Instant, Option<FreeConnections>);

impl PoolTests {
    pub(crate) fn new(config: Arc<dyn ConfigAccess>, probes: Arc<dyn ServerProbes>) -> PoolTests {
        PoolTests { config, probes, permits: Arc::new(Semaphore::new(TESTS)), rooms: Arc::default() }
    }

    /// Logs in like a pool with these keys; the inner error is the server's, or the network's.
    pub(crate) async fn login(&self, pool: String, keys: Keys) -> Result<Result<PoolTestResult, String>, ApiError> {
        let test = timeout(LONGEST, self.attempt(pool, keys)).await;
        test.unwrap_or_else(|_| Ok(Err("the server did not answer in time".to_owned())))
    }

    async fn attempt(&self, pool: String, keys: Keys) -> Result<Result<PoolTestResult, String>, ApiError> {
        // The semaphore is never closed.
        let permit = self.permits.clone().acquire_owned().await.map_err(|_| MonitorError::Ending)?;
        let (config, probes) = (self.config.clone(), self.probes.clone());
        let test = spawn_blocking(move || {
            let _permit = permit;
            config.plan_pool(&pool, keys).map(|planned| probes.test_pool(&planned).map_err(|why| why.to_string()))
        });
        test.await.map_err(|_| MonitorError::Ending)?.map_err(ApiError::from)
    }

    /// Logs in to this Weir as a client of a pool; the inner error is what the client gets.
    pub(crate) async fn client(
        &self,
        user: String,
        pool: String,
        password: String,
    ) -> Result<Result<UserTestResult, UserTestError>, ApiError> {
        let test = timeout(LONGEST, async {
            let permit = self.permits.clone().acquire_owned().await.map_err(|_| MonitorError::Ending)?;
            let probes = self.probes.clone();
            let test = spawn_blocking(move || {
                let _permit = permit;
                probes.test_user(&user, &pool, &password)
            });
            test.await.map_err(|_| ApiError::from(MonitorError::Ending))
        });
        test.await.unwrap_or(Err(MonitorError::NoAnswer.into()))
    }

    /// The free connections of an existing pool's database; none if they are unknown, as when only clients know its
    /// passwords.
    pub(crate) async fn room(&self, pool: &str) -> Option<FreeConnections> {
        let now = Instant::now();
        let remembered = {
            let mut rooms = lock(&self.rooms);
            rooms.retain(|_, (at, _)| now - *at < FRESH);
            rooms.get(pool).map(|(_, room)| *room)
        };
        if let Some(room) = remembered {
            return room;
        }
        let answered = self.login(pool.to_owned(), Keys::default()).await.ok().and_then(Result::ok);
        let room = answered.map(|server| room_of(&server));
        lock(&self.rooms).insert(pool.to_owned(), (now, room));
        room
    }
}

/// The test's own connection is closed, so its place counts as free.
fn room_of(server: &PoolTestResult) -> FreeConnections {
    let for_others = server.max_connections.saturating_sub(server.superuser_reserved_connections);
    let free = for_others.saturating_sub(server.connections.saturating_sub(1));
    let small = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    FreeConnections { max_connections: small(server.max_connections), free: small(free) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_is_what_is_left_but_for_the_reserved_and_with_the_asker_s_own_place() {
        let server = |connections| PoolTestResult {
            server: "db:5432".to_owned(),
            notes: Vec::new(),
            encrypted: false,
            version: "15.18".to_owned(),
            milliseconds: 2.0,
            max_connections: 100,
            superuser_reserved_connections: 3,
            connections,
        };
        let free = |connections| room_of(&server(connections)).free;
        assert_eq!((free(1), free(90), free(97), free(98), free(100)), (97, 8, 1, 0, 0));
    }
}
