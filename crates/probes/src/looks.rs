//! Connections for looks at database servers: one of each server that is in use is kept, so that a look works when the
//! server takes no more connections.
//!
//! Owns the kept ones, one of a server. One is used by one look at a time, and is closed once no pool in use has its
//! login any more. A pool whose connections several nodes share has none: a look at it is of the node's share for as
//! long as it takes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use weir_admin::{LookedAt, ProbeError};
use weir_base::Target;
use weir_config::{Config, PoolConfig, TlsSide};
use weir_pgclient::{Bounds, Error};

use crate::look::{Look, MAX_BYTES, TIMEOUT, open};
use crate::permit::Permit;
use crate::pool_test;

/// The name by which a kept connection is recognised at the server.
const APPLICATION: &str = "weir incident view";
/// The most servers with a kept connection.
const MOST: usize = 100;
/// A kept connection that was not used for so long is tried, as the server may have ended it.
const TRIED: Duration = Duration::from_secs(30);
/// A kept connection is replaced after this time: the server's name may have another address by then.
const LIFETIME: Duration = Duration::from_secs(600);
/// The pause after a connection that could not be opened.
const PAUSE: Duration = Duration::from_secs(30);
/// The pause after a connection that was given back to its pool.
const GIVEN_BACK: Duration = Duration::from_secs(600);
/// So many connections are opened at once, and in one call: a server that is silent takes as long as a look may.
const OPENED_AT_ONCE: usize = 8;

/// See the head of the file.
#[derive(Default)]
pub(crate) struct Looks(Mutex<HashMap<Target, Arc<Mutex<Place>>>>);

/// A server's place for a kept connection.
#[derive(Default)]
struct Place {
    kept: Option<Kept>,
    /// No other is opened before.
    not_before: Option<Instant>,
}

struct Kept {
    look: Look,
    as_whom: LoginOf,
    opened: Instant,
    used: Instant,
}

/// What a connection depends on: with another login it is another connection. A password counts at the login only.
#[derive(Clone, PartialEq)]
struct LoginOf {
    database: String,
    user: String,
    tls: TlsSide,
}

impl LoginOf {
    /// None if no login is known, or the pool logs in as its clients: nobody of them has asked for a look.
    fn of_own(config: &Config, pool: &PoolConfig) -> Option<LoginOf> {
        pool.user.as_ref().and_then(|_| LoginOf::of(config, pool))
    }

    /// None if no login is known.
    fn of(config: &Config, pool: &PoolConfig) -> Option<LoginOf> {
        let user = pool_test::user(config, pool)?;
        Some(LoginOf { database: pool.database.clone(), user, tls: config.tls.server.clone() })
    }
}

/// The pools of one server that may have a kept connection, by their logins.
#[derive(Default)]
struct Wanted {
    logins: Vec<(LoginOf, PoolConfig)>,
    /// The place of the first one whose server is well.
    first_well: Option<usize>,
    /// Logins whose pools lack the connection that a kept one takes.
    lacking: Vec<LoginOf>,
}

impl Looks {
    /// Keeps one connection to each server of these pools, and closes those to others; tries those that were not used
    /// for long. Blocks for as long as one may take to be opened.
    pub(crate) fn keep<'a>(&self, config: &Config, pools: impl Iterator<Item = (PoolConfig, &'a LookedAt)>) {
        let (mut wanted, now) = (wanted(config, pools), Instant::now());
        let known = self.places().clone();
        let room = MOST.saturating_sub(known.len());
        let mut due = Vec::new();
        for (target, place) in known {
            let wanted = wanted.remove(&target).unwrap_or_default();
            let last = {
                let mut held = lock(&place);
                held.close_unwanted(&wanted, now);
                if held.kept.is_none() && wanted.logins.is_empty() {
                    self.places().remove(&target);
                }
                held.not_before
            };
            due.push((last, place, wanted));
        }
        for (target, wanted) in wanted.into_iter().take(room) {
            due.push((None, self.places().entry(target).or_default().clone(), wanted));
        }
        due.retain(|(_, place, wanted)| lock(place).is_due(wanted, now));
        // Who has waited longest is first.
        due.sort_by_key(|(last, ..)| *last);
        thread::scope(|scope| {
            for (_, place, wanted) in due.iter().take(OPENED_AT_ONCE) {
                scope.spawn(|| lock(place).open(config, wanted, now));
            }
        });
    }

    /// Asks the pool's first server: by the kept connection if that has the pool's login; otherwise by a new one, or,
    /// where none can be opened, by the kept connection of another pool. `ask` may run again after an error that ended
    /// its connection. `permit`: see [`open`].
    ///
    /// # Errors
    /// Why no connection was to be had, or the server's error.
    pub(crate) fn ask<T>(
        &self,
        config: &Config,
        pool: &PoolConfig,
        application: &str,
        permit: impl FnOnce() -> Result<Option<Permit>, ProbeError>,
        ask: impl Fn(&mut Look) -> Result<T, Error>,
    ) -> Result<T, ProbeError> {
        let place = self.places().get(pool.target()).cloned();
        let by_kept = |fits: &dyn Fn(&LoginOf) -> bool| lock(place.as_ref()?).ask(fits, &ask);
        let own = LoginOf::of(config, pool);
        if let Some(answer) = by_kept(&|kept| own.as_ref() == Some(kept)) {
            return answer;
        }
        match permit().and_then(|permit| open(config, pool, application, permit)) {
            Ok(mut look) => {
                let answer = ask(&mut look).map_err(|error| ProbeError::Server(error.to_string()));
                look.end();
                answer
            }
            Err(why) => by_kept(&|_| true).unwrap_or(Err(why)),
        }
    }

    /// How many connections are kept to a server: one, or none.
    pub(crate) fn count(&self, target: &Target) -> u32 {
        let place = self.places().get(target).cloned();
        place.map_or(0, |place| u32::from(lock(&place).kept.is_some()))
    }

    fn places(&self) -> MutexGuard<'_, HashMap<Target, Arc<Mutex<Place>>>> {
        lock(&self.0)
    }
}

impl Place {
    /// Closes the connection if it is for no pool in use, or its pool lacks it; tries one that was not used for long.
    fn close_unwanted(&mut self, wanted: &Wanted, now: Instant) {
        let fits = |kept: &Kept| wanted.logins.iter().any(|(login, _)| *login == kept.as_whom);
        if let Some(kept) = self.kept.take_if(|kept| !fits(kept)) {
            kept.look.end();
        }
        if let Some(kept) = self.kept.take_if(|kept| wanted.lacking.contains(&kept.as_whom)) {
            kept.look.end();
            self.not_before = Some(now + GIVEN_BACK);
        }
        let is_due = |kept: &Kept| now.saturating_duration_since(kept.used) >= TRIED;
        if self.kept.as_ref().is_some_and(is_due) {
            let _ = self.ask(&|_| true, &|look| look.query("").map(drop));
        }
    }

    /// Whether a connection is to be opened now.
    fn is_due(&self, wanted: &Wanted, now: Instant) -> bool {
        let is_old = |kept: &Kept| now.saturating_duration_since(kept.opened) >= LIFETIME;
        let may = self.not_before.is_none_or(|at| now >= at) && self.kept.as_ref().is_none_or(is_old);
        may && wanted.first_well.is_some()
    }

    /// Opens the connection. The old one is kept if no other can be opened.
    fn open(&mut self, config: &Config, wanted: &Wanted, now: Instant) {
        let Some((as_whom, pool)) = wanted.first_well.map(|well| &wanted.logins[well]) else { return };
        match open(config, pool, APPLICATION, None) {
            Ok(mut look) => {
                look.is_kept = true;
                let as_whom = as_whom.clone();
                let old = self.kept.replace(Kept { look, as_whom, opened: now, used: Instant::now() });
                old.into_iter().for_each(|old| old.look.end());
                self.not_before = None;
            }
            Err(_) => self.not_before = Some(Instant::now() + PAUSE),
        }
    }

    /// Asks by the kept connection, if there is one and its login fits; none, too, if the connection has ended.
    fn ask<T>(
        &mut self,
        fits: &dyn Fn(&LoginOf) -> bool,
        ask: &dyn Fn(&mut Look) -> Result<T, Error>,
    ) -> Option<Result<T, ProbeError>> {
        let mut kept = self.kept.take_if(|kept| fits(&kept.as_whom))?;
        kept.look.renew(Bounds { until: Instant::now() + TIMEOUT, bytes: MAX_BYTES });
        let answer = ask(&mut kept.look);
        if let Err(error) = &answer
            && error.server().is_none_or(|error| error.severity != "ERROR")
        {
            return None;
        }
        kept.used = Instant::now();
        self.kept = Some(kept);
        Some(answer.map_err(|error| ProbeError::Server(error.to_string())))
    }
}

/// The pools that may have a kept connection, by their first server.
fn wanted<'a>(config: &Config, pools: impl Iterator<Item = (PoolConfig, &'a LookedAt)>) -> HashMap<Target, Wanted> {
    let mut servers: HashMap<Target, Wanted> = HashMap::new();
    for (pool, of) in pools {
        let Some(login) = LoginOf::of_own(config, &pool) else { continue };
        let wanted = servers.entry(pool.target().clone()).or_default();
        if of.lacks_room {
            wanted.lacking.push(login.clone());
        } else if of.well && wanted.first_well.is_none() {
            wanted.first_well = Some(wanted.logins.len());
        }
        wanted.logins.push((login, pool));
    }
    servers
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
