//! The pools of this worker, and their adjustment to a new configuration.
//!
//! - `create`: a pool is made when first needed. `poll`: pools are asked what they want. `apply_config`: a new
//!   configuration. `reconnect`: the servers of pools are replaced. `refuse`: why a client gets no server.
//!
//! Owns the table of pools of this worker: one for each pair of a configured pool and a user on the server. Must not
//! know the inside of sessions.

pub(crate) mod adoption;
pub(crate) mod application_errors;
pub(crate) mod apply_config;
pub(crate) mod create;
pub(crate) mod error_codes;
pub(crate) mod error_rate;
pub(crate) mod lost_servers;
pub(crate) mod poll;
pub(crate) mod reconnect;
pub(crate) mod refuse;

use std::collections::HashMap;
use std::sync::Arc;

use weir_base::{ConnId, Span, Time};
use weir_config::{Config, FileFormat};
use weir_pool::lending::borrower_settings;
use weir_pool::{Pool, ServerState, Settings};
use weir_session::{Clean, ParamTable, PoolRules, PoolStatements};

use crate::admin::pool_counts::PoolCounts;
use crate::cancel::state::PoolCancels;
use crate::client_login::reported::Welcome;
use crate::client_login::welcome::LastWelcome;
use crate::common::Common;
use crate::handles::PoolIx;
use crate::lending::state::LendingRole;
use crate::listen::state::{Listening, has_room};
use crate::pools::adoption::Adoption;
use crate::pools::application_errors::ApplicationErrors;
use crate::pools::error_rate::ErrorRate;
use crate::pools::lost_servers::LostServers;
use crate::primary::looks::Looks;
use crate::server::credentials::KnownCredentials;
use crate::server::failures::LoginFailures;
use crate::server::hosts::Hosts;
use crate::server::login_throttle::PoolLogin;
use crate::sessions::pool_rules;
use crate::workers::quota::PoolId;
use crate::workers::quota::servers::PoolQuota;

/// How long the login messages of a pool are sent to clients without asking a server again.
const CONFIRMED_FOR: Span = Span::from_secs(1);

/// How long texts of which all is known are sent without a question whether functions have changed past the pool. One
/// question in that time is all that an old text costs.
const FUNCTIONS_ASKED: Span = Span::from_secs(5);

/// The pools of a worker.
#[derive(Default)]
pub(crate) struct Pools {
    /// The slots of dropped pools are reused.
    slots: Vec<Option<Box<PoolSlot>>>,
    free: Vec<PoolIx>,
    by_name: HashMap<(Arc<str>, Arc<str>), PoolIx>,
    /// The configuration that pools are adopting.
    pub(crate) adoption: Option<Adoption>,
}

/// One pool and the state that its sessions share.
pub(crate) struct PoolSlot {
    /// The name that clients give as their database.
    pub(crate) name: Arc<str>,
    /// The user on the server.
    pub(crate) user: Arc<str>,
    pub(crate) config: Arc<weir_config::PoolConfig>,
    /// What `config` allows clients.
    pub(crate) rules: PoolRules,
    pub(crate) pool: Pool<Clean>,
    /// The pool's earliest timer.
    pub(crate) armed: Time,
    /// Whether it is looked at whether the hosts of its servers acknowledge what was sent (`server::silence`).
    pub(crate) is_watched: bool,
    /// Whether the pool needs work at its own deadlines only: what [`PoolSlot::seems_plain`] says, as of the last poll.
    /// A pool is polled after each change of that.
    pub(crate) is_plain: bool,
    /// The pool's counters.
    pub(crate) counts: PoolCounts,
    /// How many of its queries end in an error.
    pub(crate) error_rate: ErrorRate,
    /// Applications with errors.
    pub(crate) application_errors: ApplicationErrors,
    /// Servers that the database server has ended.
    pub(crate) lost_servers: LostServers,
    /// The login messages for clients, from a server's reported parameters.
    pub(crate) welcome: Option<Welcome>,
    /// When the login messages were last known to be those of a server.
    confirmed_at: Time,
    /// The login messages that the last client received.
    pub(crate) last_welcome: Option<Box<LastWelcome>>,
    /// The statements that the pool's servers have accepted.
    pub(crate) accepted: PoolStatements,
    /// When it was last asked whether functions have changed past the pool (`mode = "auto"`).
    functions_asked: Time,
    /// The pool's credentials for its servers, besides the configuration.
    pub(crate) credentials: KnownCredentials,
    /// The state of the pool's hosts.
    pub(crate) hosts: Hosts,
    /// When it was last looked whether the host takes writes.
    pub(crate) looks: Looks,
    /// The pool's failed logins.
    pub(crate) failures: LoginFailures,
    /// The pool's logged-in clients.
    pub(crate) clients: u32,
    /// The pool's auth_queries.
    pub(crate) lookups: u32,
    pub(crate) cancels: PoolCancels,
    /// The pool is no longer in the configuration, or was unused for long.
    pub(crate) removed: bool,
    /// The pool has not adopted the configuration in force yet.
    pub(crate) is_stale: bool,
    /// Since when the pool is unused, and since when it has no servers either; never if that does not hold.
    pub(crate) idle_since: Time,
    pub(crate) empty_since: Time,
    /// The throttle's state of the pool's login.
    pub(crate) login: PoolLogin,
    /// The pool's requests for servers, if they are limited.
    pub(crate) quota: PoolQuota,
    /// This worker's role for the pool.
    pub(crate) lending: LendingRole,
    /// Servers that their clients keep for what they have left; some may have been released since.
    pinned: Vec<ConnId>,
    /// The channels on which the pool's clients listen.
    pub(crate) listening: Listening,
}

impl Pools {
    #[inline(always)]
    pub(crate) fn get(&self, ix: PoolIx) -> &PoolSlot {
        self.slots[ix as usize].as_deref().expect("an index in use names a pool")
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, ix: PoolIx) -> &mut PoolSlot {
        self.slots[ix as usize].as_deref_mut().expect("an index in use names a pool")
    }

    /// The pool of an index that may have been dropped; the slot may be another pool's now.
    pub(crate) fn find_mut(&mut self, ix: PoolIx) -> Option<&mut PoolSlot> {
        self.slots.get_mut(ix as usize)?.as_deref_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &PoolSlot> {
        self.slots.iter().filter_map(Option::as_deref)
    }

    pub(crate) fn indices(&self) -> Vec<PoolIx> {
        (0..self.slots.len() as PoolIx).filter(|ix| self.slots[*ix as usize].is_some()).collect()
    }

    /// The pool of a database and a user.
    pub(crate) fn find(&self, database: &Arc<str>, user: &Arc<str>) -> Option<PoolIx> {
        self.by_name.get(&(database.clone(), user.clone())).copied()
    }

    pub(crate) fn insert(&mut self, slot: PoolSlot) -> PoolIx {
        let key = (slot.name.clone(), slot.user.clone());
        let ix = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as PoolIx
        });
        self.slots[ix as usize] = Some(Box::new(slot));
        self.by_name.insert(key, ix);
        ix
    }

    /// Removes the pool's name; the pool is dropped when its last users have gone.
    pub(crate) fn remove(&mut self, ix: PoolIx) {
        let slot = self.get_mut(ix);
        slot.removed = true;
        slot.pool.close_idle();
        slot.pool.shut_down();
        let key = (slot.name.clone(), slot.user.clone());
        self.by_name.remove(&key);
    }

    pub(crate) fn free(&mut self, ix: PoolIx) {
        self.slots[ix as usize] = None;
        self.free.push(ix);
    }

    /// The pools that a command's argument selects.
    pub(crate) fn named(&self, name: Option<&str>) -> Vec<PoolIx> {
        let fits = |ix: &PoolIx| name.is_none_or(|n| &*self.get(*ix).name == n);
        self.indices().into_iter().filter(fits).collect()
    }
}

impl LendingRole {
    /// The limits of a configured pool, as they apply to this worker's pool.
    pub(crate) fn settings(&self, config: &Config, pool: &weir_config::PoolConfig) -> Settings {
        let settings = settings(pool, wait_limit(config, pool).0);
        if self.is_borrower() { borrower_settings(settings) } else { settings }
    }
}

/// How long a client may wait for a server, and whether query_timeout sets that: with a `pgbouncer.ini` it covers
/// waits, too, as in PgBouncer.
pub(crate) fn wait_limit(config: &Config, pool: &weir_config::PoolConfig) -> (Span, bool) {
    let (wait, query) = (pool.limits.query_wait_timeout, config.limits.query_timeout);
    let covered = config.format == FileFormat::Ini && !query.is_zero() && (wait.is_zero() || query < wait);
    (if covered { query } else { wait }, covered)
}

impl PoolSlot {
    /// A client keeps this server for what it has left there, if not too many do (`max_pinned`); returns whether it
    /// may. `is_kept`: whether another server still is.
    pub(crate) fn pin(&mut self, server: ConnId, is_kept: impl Fn(ConnId) -> bool) -> bool {
        let limits = &self.config.limits;
        self.pinned.retain(|other| *other != server && is_kept(*other));
        let most = (u64::from(limits.size) * u64::from(limits.max_pinned) / 100).max(1);
        let may = limits.size == 0 || limits.max_pinned == 0 || (self.pinned.len() as u64) < most;
        if may {
            self.pinned.push(server);
        }
        may
    }
}

/// The limits of a configured pool, as its `weir-pool` settings.
fn settings(pool: &weir_config::PoolConfig, query_wait_timeout: Span) -> Settings {
    let limits = &pool.limits;
    Settings {
        size: limits.size,
        min_size: limits.min_size,
        // A reserve_timeout of zero turns the reserve off.
        reserve_size: if limits.reserve_timeout.is_zero() { 0 } else { limits.reserve_size },
        reserve_timeout: limits.reserve_timeout,
        query_wait_timeout,
        query_wait_notify: limits.query_wait_notify,
        server_lifetime: limits.server_lifetime,
        server_idle_timeout: limits.server_idle_timeout,
        server_connect_timeout: limits.server_connect_timeout,
        server_login_retry: limits.server_login_retry,
        server_check_delay: limits.server_check_delay,
        checks: pool.policy.check_query.is_some(),
        round_robin: limits.server_round_robin,
        connects_per_second: limits.connects_per_second,
        max_waiting: 0,
    }
}

/// What a configured pool allows its clients.
pub(crate) fn rules(common: &Common, pool: (&str, &str), config: &weir_config::PoolConfig) -> PoolRules {
    pool_rules(config, config.shares_listening() && has_listener_room(common, pool, config))
}

/// Whether a pool has a server that its clients may share for their channels.
pub(crate) fn has_listener_room(common: &Common, (name, user): (&str, &str), config: &weir_config::PoolConfig) -> bool {
    has_room(config, common.workers(), common.config().is_limited(name, user))
}

/// Applies a pool's new configuration; returns whether lent servers may have to be closed.
pub(crate) fn adjust(slot: &mut PoolSlot, common: &Common, config: Arc<weir_config::PoolConfig>, now: Time) -> bool {
    let old = &slot.config;
    let elsewhere = old.connects_to() != config.connects_to();
    let other_password = old.password != config.password;
    let most = |pool| {
        let settings = settings(pool, Span::ZERO);
        settings.most(settings.reserve_size)
    };
    let fewer = most(&config) < most(old);
    let settings = slot.lending.settings(common.config(), &config);
    if slot.pool.settings() != &settings {
        slot.pool.resize(settings, now);
    }
    if other_password {
        slot.secret_changed();
    }
    if elsewhere {
        slot.welcome = None;
        slot.accepted.forget_accepted();
        slot.login_anew(now);
    }
    // Other parameters may be ignored now.
    slot.last_welcome = None;
    slot.accepted.set_limit(config.limits.pool_share());
    slot.rules = rules(common, (&slot.name, &slot.user), &config);
    slot.config = config;
    fewer || elsewhere
}

impl PoolSlot {
    /// Whether a client, or an operator, waits for one of the pool's servers, here or, as far as is known, at another
    /// worker.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        let elsewhere = || matches!(&self.lending, LendingRole::Borrower(it) if it.borrower.is_wanted_elsewhere());
        self.pool.oldest_wait().is_some() || self.pool.is_paused() || elsewhere()
    }

    /// The pool's id for other workers.
    pub(crate) fn id(&self) -> PoolId {
        PoolId { database: self.name.clone(), user: self.user.clone() }
    }

    /// A new pool.
    pub(crate) fn new(
        (name, user): (Arc<str>, Arc<str>),
        (config, rules): (Arc<weir_config::PoolConfig>, PoolRules),
        pool: Pool<Clean>,
        accepted: PoolStatements,
        quota: PoolQuota,
        lending: LendingRole,
        now: Time,
    ) -> PoolSlot {
        PoolSlot {
            name,
            user,
            config,
            rules,
            pool,
            armed: Time::NEVER,
            is_watched: false,
            is_plain: false,
            counts: PoolCounts::new(now),
            error_rate: ErrorRate::default(),
            application_errors: ApplicationErrors::default(),
            lost_servers: LostServers::default(),
            welcome: None,
            confirmed_at: Time::from_micros(0),
            last_welcome: None,
            accepted,
            functions_asked: now,
            credentials: KnownCredentials::default(),
            hosts: Hosts::default(),
            looks: Looks::default(),
            failures: LoginFailures::default(),
            clients: 0,
            lookups: 0,
            cancels: PoolCancels::default(),
            removed: false,
            is_stale: false,
            idle_since: Time::NEVER,
            empty_since: Time::NEVER,
            login: PoolLogin::default(),
            quota,
            lending,
            pinned: Vec::new(),
            listening: Listening::default(),
        }
    }

    /// Whether the pool may need work now that a server was released or linked, or that a client waits.
    #[inline(always)]
    pub(crate) fn needs_poll(&self) -> bool {
        !self.is_plain || self.pool.next_deadline() < self.armed
    }

    /// Whether the pool has clients, and nothing to do with other workers, limits or logins.
    pub(crate) fn seems_plain(&self) -> bool {
        let alone = matches!(&self.lending, LendingRole::Owner(lender) if !lender.lends());
        alone && !self.removed && !self.quota.is_limited() && self.clients > 0 && self.login.is_idle()
    }

    /// Whether the pool has all the servers that it may have without its reserve, here or lent.
    pub(crate) fn is_full(&self, now: Time) -> bool {
        let (has, size) = (self.pool.snapshot(now), self.pool.settings().size);
        size > 0 && has.active + has.idle >= size
    }

    /// The pool was polled.
    pub(crate) fn polled(&mut self) {
        self.is_plain = self.seems_plain();
    }

    /// Whether no server is left that the login messages for clients are from, so that a client waits for a new one, as
    /// the first client of a pool does. Where no login succeeds, or the pool is paused, clients still log in with the
    /// last ones.
    pub(crate) fn is_welcome_stale(&self) -> bool {
        let is_present = |(server, state, _): (ConnId, ServerState, Time)| {
            matches!(state, ServerState::Linked(_) | ServerState::Idle { .. }) && !self.pool.is_outdated(server)
        };
        let waits = || self.failures.last().is_none() && !self.pool.is_paused() && !self.lending.is_borrower();
        !self.pool.servers().any(is_present) && waits()
    }

    /// An auth_query runs in the pool, or waits.
    pub(crate) fn auth_query_begins(&mut self) {
        self.lookups += 1;
    }

    /// An auth_query has ended.
    pub(crate) fn auth_query_ends(&mut self) {
        self.lookups -= 1;
    }

    /// Whether an auth_query runs in the pool, or waits.
    pub(crate) fn has_auth_queries(&self) -> bool {
        self.lookups > 0
    }

    /// The login messages for clients, as a server has reported them.
    pub(crate) fn set_welcome(&mut self, welcome: Option<Welcome>) {
        self.welcome = welcome;
    }

    /// Notes whether the hosts of its servers are looked at.
    pub(crate) fn set_watched(&mut self, on: bool) {
        self.is_watched = on;
    }

    /// The record of the pool's earliest timer, for [`Common::arm`](crate::common::Common::arm).
    pub(crate) fn armed_mut(&mut self) -> &mut Time {
        &mut self.armed
    }

    /// A client needs a server: idle ones are closed once if functions that leave state were found changed
    /// (`mode = "auto"`).
    #[inline]
    pub(crate) fn follow_functions(&mut self) {
        if self.accepted.take_outdated_servers() {
            self.pool.replace_idle();
        }
    }

    /// A client in `mode = "auto"` gets a server: now and then it asks whether functions have changed past the pool.
    #[inline]
    pub(crate) fn auto_client_linked(&mut self, now: Time) {
        if now.since(self.functions_asked) >= FUNCTIONS_ASKED {
            self.functions_asked = now;
            self.accepted.ask_for_functions();
        }
    }

    /// The login messages are those of a server now.
    pub(crate) fn welcome_confirmed(&mut self, now: Time) {
        self.confirmed_at = now;
    }

    /// Whether the login messages are old enough to ask a free server again.
    pub(crate) fn may_confirm_welcome(&self, now: Time) -> bool {
        self.welcome.is_some() && now.since(self.confirmed_at) >= CONFIRMED_FOR
    }

    /// A server reports a value that no client has set: it is what new clients get, and where it follows clients,
    /// servers on which a client has set it do not report it, and are replaced.
    pub(crate) fn default_changed(&mut self, table: &ParamTable, name: &str, value: &str, now: Time) {
        let Some(welcome) = self.welcome.as_mut().filter(|welcome| welcome.has_other(name, value)) else { return };
        *welcome = welcome.with(table, name, value);
        if table.is_tracked(name) {
            self.pool.reconnect(now);
        }
    }

    /// The address, the login or the encryption of the pool's servers has changed: they are replaced as they are
    /// released, earlier failures are forgotten, and the next login does not wait for `server_login_retry`.
    pub(crate) fn login_anew(&mut self, now: Time) {
        self.retry_login();
        self.pool.reconnect(now);
    }

    /// The pool's password, or the secret that is listed for its user, has changed: a login that failed is tried again
    /// with the new one. Servers that are logged in stay.
    pub(crate) fn secret_changed(&mut self) {
        self.credentials.keep_hashed(None);
        if self.failures.last().is_some() {
            self.retry_login();
        }
    }

    fn retry_login(&mut self) {
        self.hosts = Hosts::default();
        self.failures.forget();
        self.pool.retry_now();
    }

    /// One of the pool's servers has logged in.
    pub(crate) fn login_succeeded(&mut self) {
        self.failures.succeed();
        self.hosts.succeeded();
    }

    /// Whether the pool is unused.
    pub(crate) fn is_idle(&self) -> bool {
        self.clients == 0 && self.lookups == 0 && self.lending.is_unused() && self.cancels.is_empty()
    }

    /// Whether the pool is empty, so that it can be dropped.
    pub(crate) fn is_vacant(&self) -> bool {
        self.is_idle() && self.lending.is_vacant() && self.pool.is_empty() && self.quota.is_empty()
    }

    /// Asserts the pool's invariants.
    pub(crate) fn check(&self) {
        self.quota.check(self.pool.len(), &self.name);
    }

    /// Whether the pool's user is the one that clients of the database have on the server. It is not if an auth_query
    /// runs as another user than the one that the database forces on its clients.
    pub(crate) fn is_own(&self) -> bool {
        self.config.user.as_deref().is_none_or(|user| user == &*self.user)
    }
}
