//! Which pools there are, what they ask for, and what a new configuration changes.
//!
//! Owns the table of pools of this worker: one for each pair of a configured pool and a user on the server. Must not know
//! sessions' insides.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use weir_admin::{CommandError, PoolCounters, Refusals, Stats};
use weir_auth::Secret;
use weir_base::{Peer, PoolMode, Span, Time, WorkerId};
use weir_config::Config;
use weir_pgwire::Dirty;
use weir_pool::lending::{BorrowRequest, borrower_settings};
use weir_pool::{CloseReason, Effect, Pool, Settings};
use weir_session::login::LearnedCredentials;
use weir_session::{Cause, Clean, PoolStatements, Refusal, ServerError};

use crate::Engine;
use crate::backends::hosts::Hosts;
use crate::backends::throttle_state::Turn;
use crate::cluster::lending::{LendingRole, Waiting};
use crate::cluster::quota::PoolId;
use crate::cluster::quota::servers::PoolQuota;
use crate::common::FollowUp;
use crate::entry::reported::Welcome;
use crate::entry::state::SaltedKey;
use crate::handles::{PoolIx, Waiter};
use crate::peers::{ClientSlot, Entry, ServerSlot, ServerState};
use crate::port::Io;
use crate::timers::Who;
use crate::traffic::holding::Holding;

/// The pools of a worker.
#[derive(Default)]
pub(crate) struct Pools {
    /// Hosts of pools that are forgotten are used again.
    slots: Vec<Option<Box<PoolSlot>>>,
    free: Vec<PoolIx>,
    by_name: HashMap<(Arc<str>, Arc<str>), PoolIx>,
}

/// One pool and what its sessions share.
pub(crate) struct PoolSlot {
    /// The name that clients give as their database.
    pub(crate) name: Arc<str>,
    /// The user on the server.
    pub(crate) user: Arc<str>,
    pub(crate) config: Arc<weir_config::Pool>,
    pub(crate) pool: Pool<Clean>,
    /// Its earliest wake-up in the timers.
    pub(crate) armed: Time,
    pub(crate) stats: Stats,
    pub(crate) tally: PoolCounters,
    /// The kinds of lost session state that the log has named.
    pub(crate) lost_logged: Dirty,
    /// Its clients that were refused.
    pub(crate) refusals: Refusals,
    /// The counters at the start of the last complete period, and at its end.
    pub(crate) previous: Reading,
    pub(crate) latest: Reading,
    /// What a server said about itself, for clients that log in.
    pub(crate) welcome: Option<Welcome>,
    /// The statements that its servers have accepted.
    pub(crate) accepted: PoolStatements,
    /// What clients' logins taught us, for our own at the server.
    pub(crate) learnt: LearnedCredentials,
    /// The secret of its user, if a server was asked for it.
    pub(crate) asked: Option<Secret>,
    /// The password as it was hashed last: from what, and what came of it.
    pub(crate) salted: Option<(SaltedKey, [u8; 32])>,
    /// Which of its servers is next.
    pub(crate) places: Hosts,
    /// Why the last login failed.
    pub(crate) last_error: Option<ServerError>,
    /// It did because it took too long.
    pub(crate) too_slow: bool,
    /// When the first login after the last success failed; never if none has.
    pub(crate) failing_since: Time,
    /// Clients logged in.
    pub(crate) clients: u32,
    /// Questions about secrets that it carries.
    pub(crate) lookups: u32,
    /// Cancel requests: under way, and waiting for their turn (requester, client).
    pub(crate) cancels: Vec<Peer>,
    pub(crate) cancel_queue: VecDeque<(Peer, Peer)>,
    /// When the log had a line about its waits last.
    pub(crate) wait_logged: Option<Time>,
    /// The configuration has it no more, or nobody needs it.
    pub(crate) removed: bool,
    /// Since when nobody uses it, and since when it has no servers besides; never if it is not so.
    pub(crate) idle_since: Time,
    pub(crate) empty_since: Time,
    /// Its turn to log in where its servers are.
    pub(crate) turn: Turn,
    /// Its requests for servers, where they are limited.
    pub(crate) quota: PoolQuota,
    /// What this worker is to it.
    pub(crate) lending: LendingRole,
}

/// The counters at a moment.
#[derive(Clone, Copy)]
pub(crate) struct Reading {
    pub(crate) stats: Stats,
    pub(crate) at: Time,
}

/// The SQLSTATE of a server that knows no such database.
const NO_SUCH_DATABASE: &str = "3D000";

impl Pools {
    #[inline]
    pub(crate) fn get(&self, ix: PoolIx) -> &PoolSlot {
        self.slots[ix as usize].as_deref().expect("an index in use names a pool")
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, ix: PoolIx) -> &mut PoolSlot {
        self.slots[ix as usize].as_deref_mut().expect("an index in use names a pool")
    }

    /// The pool of an index that may have been forgotten; its place may hold another by now.
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

    fn insert(&mut self, slot: PoolSlot) -> PoolIx {
        let key = (slot.name.clone(), slot.user.clone());
        let ix = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as PoolIx
        });
        self.slots[ix as usize] = Some(Box::new(slot));
        self.by_name.insert(key, ix);
        ix
    }

    /// The pool has no name any more, and goes when the last who use it have gone.
    fn remove(&mut self, ix: PoolIx) {
        let slot = self.get_mut(ix);
        slot.removed = true;
        slot.pool.close_idle();
        slot.pool.shut_down();
        let key = (slot.name.clone(), slot.user.clone());
        self.by_name.remove(&key);
    }

    fn free(&mut self, ix: PoolIx) {
        self.slots[ix as usize] = None;
        self.free.push(ix);
    }

    /// The pools that a command's argument means.
    pub(crate) fn named(&self, name: Option<&str>) -> Vec<PoolIx> {
        let fits = |ix: &PoolIx| name.is_none_or(|n| &*self.get(*ix).name == n);
        self.indices().into_iter().filter(fits).collect()
    }
}

impl LendingRole {
    /// The limits of a configured pool, as this worker's pool goes by them.
    fn settings(&self, pool: &weir_config::Pool) -> Settings {
        if self.is_borrower() { borrower_settings(settings(pool)) } else { settings(pool) }
    }
}

/// The limits of a configured pool, as the pool wants them.
fn settings(pool: &weir_config::Pool) -> Settings {
    let limits = &pool.limits;
    Settings {
        size: limits.size,
        min_size: limits.min_size,
        // Without a time to wait for it, the reserve is off.
        reserve_size: if limits.reserve_timeout.is_zero() { 0 } else { limits.reserve_size },
        reserve_timeout: limits.reserve_timeout,
        query_wait_timeout: limits.query_wait_timeout,
        query_wait_notify: limits.query_wait_notify,
        server_lifetime: limits.server_lifetime,
        server_idle_timeout: limits.server_idle_timeout,
        server_connect_timeout: limits.server_connect_timeout,
        server_login_retry: limits.server_login_retry,
        server_check_delay: limits.server_check_delay,
        checks: pool.check_query.is_some(),
        round_robin: limits.server_round_robin,
        connects_per_second: limits.connects_per_second,
        max_waiting: 0,
    }
}

impl Engine {
    /// The pools whose user is fixed exist from the start, so that `min_size` is kept without clients.
    pub(crate) fn create_forced_pools(&mut self, now: Time) {
        for (name, pool) in self.common.config().clone().pools.iter() {
            if let Some(user) = &pool.user
                && pool.limits.min_size > 0
                && self.owner_of(name, user) == self.common.worker()
            {
                let ix = self.pool_of(name, pool, user, now);
                self.pools.get_mut(ix).pool.set_demand(true);
                self.common.follow_up(FollowUp::PollPool(ix));
            }
        }
    }

    /// The worker that owns a pool.
    pub(crate) fn owner_of(&self, name: &str, user: &str) -> WorkerId {
        // FNV-1a: the same on every worker, and in every run of a seed. The last letters reach only its lower half, so that is
        // spread over the upper one: or all users whose names differ at the end would share a worker.
        let bytes = name.bytes().chain([0]).chain(user.bytes());
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
        let hash = (hash ^ hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        WorkerId(((hash >> 32) % u64::from(self.common.workers())) as u16)
    }

    /// The pool for a configured pool and a user; made when it is first wanted.
    pub(crate) fn pool_of(&mut self, name: &str, config: &Arc<weir_config::Pool>, user: &str, now: Time) -> PoolIx {
        let key: (Arc<str>, Arc<str>) = (name.into(), user.into());
        if let Some(ix) = self.pools.by_name.get(&key) {
            return *ix;
        }
        let config = &self.common.config().pool_of_user(config, user);
        let lending = LendingRole::new(self.owner_of(name, user), self.common.worker());
        let limited = self.common.config().is_limited(name, user) && !lending.is_borrower();
        let slot = PoolSlot {
            name: key.0.clone(),
            user: key.1.clone(),
            config: config.clone(),
            pool: Pool::new(lending.settings(config), self.common.random_number(), now),
            armed: Time::NEVER,
            stats: Stats::default(),
            tally: PoolCounters::default(),
            lost_logged: Dirty::NONE,
            refusals: Refusals::default(),
            previous: Reading { stats: Stats::default(), at: now },
            latest: Reading { stats: Stats::default(), at: now },
            welcome: None,
            accepted: self.sessions.interner.pool(name, user, config.limits.pool_share()),
            learnt: LearnedCredentials::default(),
            asked: None,
            salted: None,
            places: Hosts::default(),
            last_error: None,
            too_slow: false,
            failing_since: Time::NEVER,
            clients: 0,
            lookups: 0,
            cancels: Vec::new(),
            cancel_queue: VecDeque::new(),
            wait_logged: None,
            removed: false,
            idle_since: Time::NEVER,
            empty_since: Time::NEVER,
            turn: Turn::default(),
            quota: PoolQuota::new(limited),
            lending,
        };
        let ix = self.pools.insert(slot);
        self.halt_pool(now, ix);
        ix
    }

    /// A client of the pool came (`1`) or went (`-1`).
    pub(crate) fn count_client(&mut self, ix: PoolIx, change: i32) {
        let slot = self.pools.get_mut(ix);
        slot.clients = slot.clients.wrapping_add_signed(change);
        let elsewhere = matches!(&slot.lending, LendingRole::Owner(lender) if lender.has_clients());
        slot.pool.set_demand(slot.clients > 0 || elsewhere || slot.config.user.is_some());
        self.common.follow_up(FollowUp::PollPool(ix));
    }

    /// Does what a pool asks for, until it asks for nothing, and sees to it that it is asked again in time.
    pub(crate) fn poll_pool<I: Io>(&mut self, now: Time, ix: PoolIx, io: &mut I) {
        if self.pools.find_mut(ix).is_none() {
            return;
        }
        if self.admin.halt.is_suspended() {
            // RESUME makes up for a suspension.
            return self.report_closed(ix, io);
        }
        self.poll(now, ix, io);
        let again = self.settle_lending(now, ix, io);
        self.poll(now, ix, io);
        self.square_turns(now, ix, io);
        self.reconcile_quota(now, ix, io);
        let forget_at = self.forget_at(now, ix);
        let slot = self.pools.get_mut(ix);
        let deadline = slot.pool.next_deadline().min(forget_at).min(again);
        self.common.arm(Who::Pool(ix), deadline, &mut slot.armed);
        if slot.removed && slot.is_vacant() {
            self.admin.refusals.keep(self.pools.get(ix));
            self.pools.free(ix);
        } else if forget_at <= now {
            self.recall(ix, io);
            self.pools.remove(ix);
            self.common.follow_up(FollowUp::PollPool(ix));
        }
        if self.admin.halt.is_watched() || self.admin.shutdown.is_draining() {
            self.check_watches(io);
        }
    }

    fn poll<I: Io>(&mut self, now: Time, ix: PoolIx, io: &mut I) {
        while let Some(effect) = self.pools.get_mut(ix).pool.poll(now) {
            self.effect(now, ix, effect, io);
        }
    }

    fn effect<I: Io>(&mut self, now: Time, ix: PoolIx, effect: Effect, io: &mut I) {
        match effect {
            Effect::Open => self.may_open(now, ix, io),
            Effect::Close { server, reason } => self.pool_closes(now, server, reason, io),
            Effect::Notice { client, .. } if self.is_borrower(ix) => self.request_cause(ix, Waiting::Notified(client)),
            Effect::Refuse { client, why, waited } => self.refuse_waiting(now, ix, client, why, waited, io),
            Effect::Notice { client, .. } => self.notify_waiting(now, ix, client, io),
            Effect::Grant { client, server, waited, check } => {
                self.count_wait(ix, client, waited);
                self.grant(now, client, server, check, io);
            }
        }
    }

    /// One that waits in the pool's queue gets no server.
    fn refuse_waiting<I: Io>(
        &mut self,
        now: Time,
        ix: PoolIx,
        client: Peer,
        why: weir_pool::RefuseReason,
        waited: Span,
        io: &mut I,
    ) {
        let waiter = Waiter::of(client);
        if let Waiter::Borrower(request) = waiter {
            return self.refuse_request(now, ix, request, why, io);
        }
        self.pools.get_mut(ix).waited(waited);
        let too_long = why == weir_pool::RefuseReason::WaitTimeout;
        if too_long && self.is_borrower(ix) {
            return self.request_cause(ix, Waiting::Refused(client));
        }
        let refusal = if too_long { self.wait_timed_out(now, ix, io) } else { self.refusal(ix, why) };
        match waiter {
            Waiter::Client(client) => self.refuse_handle(now, client, refusal, io),
            Waiter::AuthQuery(query) => self.end_auth_query(query, Err(refusal), io),
            Waiter::Borrower(_) => {}
        }
    }

    /// A wait is over. Those of a borrower's clients are counted there.
    #[inline]
    pub(crate) fn count_wait(&mut self, ix: PoolIx, client: Peer, waited: Span) {
        if BorrowRequest::from_handle(client).is_none() {
            self.pools.get_mut(ix).waited(waited);
        }
    }

    pub(crate) fn open_server<I: Io>(&mut self, now: Time, ix: PoolIx, io: &mut I) {
        let id = self.common.next_id();
        let slot = self.pools.get_mut(ix);
        let (attempt, target) = slot.places.begin(&slot.config, self.common.config().tls.server.mode);
        let peer = io.connect(&target);
        self.turn_begins(ix, &target);
        let slot = self.pools.get_mut(ix);
        slot.pool.set_timeout_failure(slot.places.failure(&slot.config, attempt));
        slot.pool.opening(peer, now);
        slot.tally.connects += 1;
        let server = ServerSlot {
            peer,
            id,
            pool: ix,
            state: ServerState::Connecting,
            target,
            attempt,
            reported: Vec::new(),
            remote: None,
            tls: None,
            link: None,
            local: String::new(),
            connected_at: now,
            linked_at: now,
            query_at: Time::NEVER,
            transaction_at: Time::NEVER,
            holding: Holding::default(),
            overtime: (Time::NEVER, 0),
            heard_at: now,
            cancels: 0,
            fatal_error: None,
            paused: false,
            suspended: false,
            full: false,
            own_since: Time::NEVER,
            armed: Time::NEVER,
            used: false,
            salting: None,
            marked_for_close: false,
        };
        self.peers.put(peer, Entry::Server(Box::new(server)));
    }

    /// The pool has let a server go.
    fn pool_closes<I: Io>(&mut self, now: Time, server: Peer, reason: CloseReason, io: &mut I) {
        let Some(slot) = self.peers.take_server(server) else { return };
        if reason == CloseReason::ConnectTimeout {
            let unreached = matches!(slot.state, ServerState::Connecting);
            let message = format!("server {} did not finish the login within server_connect_timeout", slot.target);
            let error = ServerError { sqlstate: "08001".into(), message };
            let pool = self.pools.get_mut(slot.pool);
            // The pool has judged it already, by what it was told when the connect began.
            let (_, told) = pool.places.failed(&pool.config, slot.attempt, error.clone(), None);
            pool.note_failure(told, true, now);
            if unreached {
                self.fail_line(now, &slot.target, &error, true);
            }
        }
        self.goodbye(slot, reason.text(), io);
    }

    /// Why a pool refuses, in the words for the client.
    pub(crate) fn refusal(&self, ix: PoolIx, why: weir_pool::RefuseReason) -> Refusal {
        let slot = self.pools.get(ix);
        match why {
            weir_pool::RefuseReason::WaitTimeout => {
                Refusal::QueryWaitTimeout { cause: Cause::PoolFull, detail: String::new() }
            }
            weir_pool::RefuseReason::ServerDown => match &slot.last_error {
                Some(error) if slot.too_slow => Refusal::ServerSlow { message: error.message.clone() },
                Some(error) => Refusal::ServerDown { sqlstate: error.sqlstate.clone(), message: error.message.clone() },
                None => Refusal::ServerDown { sqlstate: "08006".into(), message: "server login failed".into() },
            },
            weir_pool::RefuseReason::TooManyWaiting => Refusal::TooManyClients,
            weir_pool::RefuseReason::ShuttingDown if slot.removed => Refusal::PoolGone,
            weir_pool::RefuseReason::ShuttingDown => Refusal::ShuttingDown,
        }
    }

    /// Takes a new configuration over. Nobody is disconnected; servers whose address or login changed are replaced as
    /// they are released.
    pub(crate) fn adopt<I: Io>(&mut self, now: Time, config: Arc<Config>, io: &mut I) {
        self.sessions.adopt(&config);
        self.entry.adopt(&config);
        self.common.set_config(config);
        for ix in self.pools.indices() {
            let slot = self.pools.get(ix);
            let config = self.common.config().pool(&slot.name).filter(|pool| self.fits(pool, &slot.user));
            let slot = self.pools.get_mut(ix);
            match config {
                None if slot.removed => {}
                None => {
                    self.recall(ix, io);
                    self.pools.remove(ix);
                }
                // A pool that is shut stays shut: one that returns begins anew, under the same name.
                Some(_) if slot.removed => {}
                Some(pool) if adjust(slot, self.common.config().pool_of_user(&pool, &slot.user), now) => {
                    self.recall(ix, io)
                }
                Some(_) => {}
            }
            self.limit_pool(now, ix, io);
            self.common.follow_up(FollowUp::PollPool(ix));
            self.hurry(ix);
        }
        self.watch_linked();
        self.create_forced_pools(now);
        self.review_turns(now, io);
        self.limits_changed(io);
    }

    /// Whether a configured pool has servers of this user's.
    pub(crate) fn fits(&self, pool: &weir_config::Pool, user: &str) -> bool {
        self.common.config().asks_as(user) || pool.user.as_deref().is_none_or(|forced| forced == user)
    }

    /// When a pool that nobody uses is forgotten, with its statistics.
    fn forget_at(&mut self, now: Time, ix: PoolIx) -> Time {
        let slot = self.pools.get_mut(ix);
        let idle = slot.is_idle();
        slot.idle_since = if idle { slot.idle_since.min(now) } else { Time::NEVER };
        slot.empty_since = if idle && slot.pool.is_empty() { slot.empty_since.min(now) } else { Time::NEVER };
        if slot.removed || !idle {
            return Time::NEVER;
        }
        let (config, slot) = (self.common.config(), self.pools.get(ix));
        let kept = slot.config.user.is_some() && slot.config.limits.min_size > 0;
        let idle = if kept { Time::NEVER } else { after(slot.idle_since, config.pool_idle_timeout) };
        if slot.empty_since == Time::NEVER || !config.is_on_demand(&slot.name) {
            return idle;
        }
        let unknown = slot.last_error.as_ref().is_some_and(|error| error.sqlstate == NO_SUCH_DATABASE);
        let empty = match &slot.welcome {
            _ if unknown => now,
            // What nobody has ever seen is no longer kept than the pause after a failed login.
            None => slot.pool.snapshot(now).retry_at.unwrap_or(now),
            Some(_) => after(slot.empty_since, config.autodb_idle_timeout),
        };
        idle.min(empty)
    }

    /// A client whose pool the configuration has replaced (another user) goes on in the new one.
    pub(crate) fn move_to_successor(&mut self, now: Time, client: &mut ClientSlot) {
        let name = self.pools.get(client.pool).name.clone();
        let Some(config) = self.common.config().pool(&name) else { return };
        let user = config.user.clone().unwrap_or_else(|| client.user.to_string());
        self.count_client(client.pool, -1);
        client.pool = self.pool_of(&name, &config, &user, now);
        self.count_client(client.pool, 1);
    }

    /// RECONNECT of the pools that `name` means.
    pub(crate) fn pools_reconnect<I: Io>(&mut self, now: Time, name: Option<&str>, io: &mut I) {
        for ix in self.pools.named(name) {
            self.recall(ix, io);
            self.pools.get_mut(ix).pool.reconnect(now);
            self.common.follow_up(FollowUp::PollPool(ix));
            self.hurry(ix);
        }
    }

    /// Servers of a pool have been given up. With `server_fast_close`, those that sessions hold are looked at now.
    pub(crate) fn hurry(&mut self, ix: PoolIx) {
        if self.common.config().server_fast_close && self.pools.get(ix).mode() == PoolMode::Session {
            let linked = self.peers.servers().filter(|server| server.pool == ix && server.link.is_some());
            linked.for_each(|server| self.common.follow_up(FollowUp::Release(server.peer)));
        }
    }

    /// Whether a name is one of a configured pool.
    pub(crate) fn check_name(&self, name: Option<&str>) -> Result<(), CommandError> {
        match name {
            Some(name) if self.common.config().pool(name).is_none() => {
                Err(CommandError::NoSuchDatabase(name.to_owned()))
            }
            _ => Ok(()),
        }
    }
}

/// A moment after another one; never after never, and never after no time.
fn after(since: Time, span: Span) -> Time {
    if since == Time::NEVER { Time::NEVER } else { since.deadline(span) }
}

/// Takes a pool's new configuration over; whether servers that are lent may have to go.
fn adjust(slot: &mut PoolSlot, config: Arc<weir_config::Pool>, now: Time) -> bool {
    let old = &slot.config;
    let elsewhere = old.targets != config.targets
        || old.database != config.database
        || old.user != config.user
        || old.password != config.password
        || old.session_attrs != config.session_attrs
        || old.connect_query != config.connect_query
        || old.startup != config.startup
        || old.require_auth != config.require_auth;
    let (before, after) = (settings(old), settings(&config));
    let most = |settings: &Settings| settings.most(settings.reserve_size);
    let fewer = most(&after) < most(&before);
    if before != after {
        slot.pool.resize(slot.lending.settings(&config), now);
    }
    if elsewhere {
        slot.welcome = None;
        slot.accepted.forget_accepted();
        slot.salted = None;
        slot.places = Hosts::default();
        slot.pool.reconnect(now);
    }
    slot.accepted.set_limit(config.limits.pool_share());
    slot.config = config;
    fewer || elsewhere
}

impl PoolSlot {
    /// Whether somebody waits for one of its servers, here or, as far as is known, at another worker; or an operator does.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.pool.oldest_wait().is_some() || self.pool.is_paused() || self.lending.is_wanted_elsewhere()
    }

    /// What other workers know it by.
    pub(crate) fn id(&self) -> PoolId {
        PoolId { database: self.name.clone(), user: self.user.clone() }
    }

    /// A login has failed: what clients are told of it, and whether it only took too long.
    pub(crate) fn note_failure(&mut self, error: ServerError, too_slow: bool, now: Time) {
        self.last_error = Some(error);
        self.too_slow = too_slow;
        self.failing_since = self.failing_since.min(now);
    }

    pub(crate) fn mode(&self) -> PoolMode {
        self.config.mode
    }

    /// Whether nobody uses it.
    fn is_idle(&self) -> bool {
        self.clients == 0
            && self.lookups == 0
            && self.lending.is_unused()
            && self.cancels.is_empty()
            && self.cancel_queue.is_empty()
    }

    /// Whether nothing is left of it.
    fn is_vacant(&self) -> bool {
        self.is_idle() && self.lending.is_vacant() && self.pool.is_empty() && self.quota.is_empty()
    }

    /// Asserts what must hold between inputs.
    pub(crate) fn check(&self) {
        self.quota.check(self.pool.len(), &self.name);
    }

    /// Somebody has waited so long for a server.
    #[inline]
    pub(crate) fn waited(&mut self, waited: Span) {
        self.stats.wait_time += waited.micros();
        self.tally.times().wait.count(waited.micros());
    }

    /// A client's login has taught something for ours at the server. The newest proof is the best one: a changed password
    /// replaces the old.
    pub(crate) fn learns(&mut self, learnt: &LearnedCredentials, asked: &Option<Secret>) {
        self.learnt.password = learnt.password.clone().or(self.learnt.password.take());
        self.learnt.keys = learnt.keys.clone().or(self.learnt.keys.take());
        self.asked.clone_from(asked);
    }

    /// Whether its user is the one that clients of the database have on the server. It is not where secrets are asked for
    /// as somebody else than the user that the database forces on its clients.
    pub(crate) fn is_own(&self) -> bool {
        self.config.user.as_deref().is_none_or(|user| user == &*self.user)
    }
}
