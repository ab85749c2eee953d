//! Which pools there are, what they ask for, and what a new configuration changes.
//!
//! Owns the table of pools of this worker: one for each pair of a configured pool and a user on the server. Must not know
//! sessions' insides.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use rand_core::RngCore;
use weir_admin::{CommandError, Stats};
use weir_base::{Mode, Peer, Time, WorkerId};
use weir_config::Config;
use weir_pool::{CloseReason, ConnectFailure, Effect, Pool, Settings};
use weir_session::login::Learnt;
use weir_session::{Accepted, Clean, OwnError, Params, Refusal};

use crate::mail::{Answer, Drain};
use crate::peers::{ClientSlot, Entry, PoolIx, SaltedKey, ServerSlot, ServerState};
use crate::port::{Io, Level};
use crate::timers::Who;
use crate::{Engine, Todo};

/// The pools of a worker.
#[derive(Default)]
pub(crate) struct Pools {
    slots: Vec<PoolSlot>,
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
    pub(crate) previous: Stats,
    pub(crate) previous_at: Time,
    /// What a server said about itself, for clients that log in.
    pub(crate) welcome: Option<Welcome>,
    /// The statements that its servers have accepted.
    pub(crate) accepted: Accepted,
    /// What clients' logins taught us, for our own at the server.
    pub(crate) learnt: Learnt,
    /// The password as it was hashed last: from what, and what came of it.
    pub(crate) salted: Option<(SaltedKey, [u8; 32])>,
    /// Why the last login failed.
    pub(crate) last_error: Option<OwnError>,
    /// Clients logged in.
    pub(crate) clients: u32,
    /// Cancel requests: under way, and waiting for their turn (requester, client).
    pub(crate) cancels: Vec<Peer>,
    pub(crate) cancel_queue: VecDeque<(Peer, Peer)>,
    /// The configuration has it no more.
    pub(crate) removed: bool,
}

/// What clients of a pool are told at their login.
#[derive(Clone)]
pub(crate) struct Welcome {
    pub(crate) reported: Arc<[(String, String)]>,
    pub(crate) params: Arc<Params>,
}

/// A PAUSE that waits.
pub(crate) struct Pausing {
    pub(crate) from: WorkerId,
    pub(crate) id: u64,
    pub(crate) name: Option<String>,
}

impl Pools {
    #[inline]
    pub(crate) fn get(&self, ix: PoolIx) -> &PoolSlot {
        &self.slots[ix as usize]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, ix: PoolIx) -> &mut PoolSlot {
        &mut self.slots[ix as usize]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &PoolSlot> {
        self.slots.iter()
    }

    pub(crate) fn indices(&self) -> std::ops::Range<PoolIx> {
        0..self.slots.len() as PoolIx
    }

    /// The pools that a command's argument means.
    pub(crate) fn named(&self, name: Option<&str>) -> Vec<PoolIx> {
        let fits = |ix: &PoolIx| name.is_none_or(|n| &*self.get(*ix).name == n);
        self.indices().filter(fits).collect()
    }
}

/// The limits of a configured pool, as the pool wants them.
fn settings(pool: &weir_config::Pool) -> Settings {
    let limits = &pool.limits;
    Settings {
        size: limits.size,
        min_size: limits.min_size,
        reserve_size: limits.reserve_size,
        reserve_timeout: limits.reserve_timeout,
        query_wait_timeout: limits.query_wait_timeout,
        query_wait_notify: limits.query_wait_notify,
        server_lifetime: limits.server_lifetime,
        server_idle_timeout: limits.server_idle_timeout,
        server_connect_timeout: limits.server_connect_timeout,
        server_login_retry: limits.server_login_retry,
        server_check_delay: limits.server_check_delay,
        checks: true,
        round_robin: limits.server_round_robin,
        connects_per_second: limits.connects_per_second,
        max_waiting: 0,
    }
}

impl Engine {
    /// The pools whose user is fixed exist from the start, so that `min_size` is kept without clients.
    pub(crate) fn create_forced_pools(&mut self, now: Time) {
        for (name, pool) in self.config.clone().pools.iter() {
            if let Some(user) = &pool.user
                && pool.limits.min_size > 0
                && self.home_of(name, user) == self.worker
            {
                let ix = self.pool_of(name, pool, user, now);
                self.pools.get_mut(ix).pool.set_demand(true);
                self.todo.push_back(Todo::Settle(ix));
            }
        }
    }

    /// The worker where a pool lives.
    pub(crate) fn home_of(&self, name: &str, user: &str) -> WorkerId {
        // FNV-1a: the same on every worker, and in every run of a seed.
        let bytes = name.bytes().chain([0]).chain(user.bytes());
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
        WorkerId(((hash >> 32) % u64::from(self.workers)) as u16)
    }

    /// The pool for a configured pool and a user; made when it is first wanted.
    pub(crate) fn pool_of(&mut self, name: &str, config: &Arc<weir_config::Pool>, user: &str, now: Time) -> PoolIx {
        let key: (Arc<str>, Arc<str>) = (name.into(), user.into());
        if let Some(ix) = self.pools.by_name.get(&key) {
            return *ix;
        }
        let ix = self.pools.slots.len() as PoolIx;
        self.pools.slots.push(PoolSlot {
            name: key.0.clone(),
            user: key.1.clone(),
            config: config.clone(),
            pool: Pool::new(settings(config), self.random.next_u64(), now),
            armed: Time::NEVER,
            stats: Stats::default(),
            previous: Stats::default(),
            previous_at: now,
            welcome: None,
            accepted: Accepted::default(),
            learnt: Learnt::default(),
            salted: None,
            last_error: None,
            clients: 0,
            cancels: Vec::new(),
            cancel_queue: VecDeque::new(),
            removed: false,
        });
        if self.paused.covers(name) || self.draining == Some(Drain::Servers) {
            self.pools.get_mut(ix).pool.pause();
        }
        self.pools.by_name.insert(key, ix);
        ix
    }

    /// A client of the pool came (`1`) or went (`-1`).
    pub(crate) fn count_client(&mut self, ix: PoolIx, change: i32) {
        let slot = self.pools.get_mut(ix);
        slot.clients = slot.clients.wrapping_add_signed(change);
        slot.pool.set_demand(slot.clients > 0 || slot.config.user.is_some());
        self.todo.push_back(Todo::Settle(ix));
    }

    /// Does what a pool asks for, until it asks for nothing, and sees to it that it is asked again in time.
    pub(crate) fn settle<I: Io>(&mut self, now: Time, ix: PoolIx, io: &mut I) {
        while let Some(effect) = self.pools.get_mut(ix).pool.poll(now) {
            self.effect(now, ix, effect, io);
        }
        let slot = self.pools.get_mut(ix);
        let deadline = slot.pool.next_deadline();
        self.timers.arm(Who::Pool(ix), deadline, &mut slot.armed);
        if !self.pausing.is_empty() || self.draining.is_some() {
            self.look_for_quiet(io);
        }
    }

    fn effect<I: Io>(&mut self, now: Time, ix: PoolIx, effect: Effect, io: &mut I) {
        match effect {
            Effect::Open => self.open_server(now, ix, io),
            Effect::Close { server, reason } => self.pool_closes(server, reason, io),
            Effect::Refuse { client, why, waited } => {
                self.pools.get_mut(ix).stats.wait_time += waited.micros();
                let refusal = self.refusal(ix, why);
                self.refuse_handle(now, client, refusal, io);
            }
            Effect::Notice { client, .. } => self.notice_waiting(ix, client, io),
            Effect::Grant { client, server, waited, check } => {
                self.pools.get_mut(ix).stats.wait_time += waited.micros();
                self.grant(now, client, server, check, io);
            }
        }
    }

    fn open_server<I: Io>(&mut self, now: Time, ix: PoolIx, io: &mut I) {
        let id = self.next_id();
        let slot = self.pools.get_mut(ix);
        let peer = io.connect(&slot.config.target);
        slot.pool.opening(peer, now);
        let server = ServerSlot {
            peer,
            id,
            pool: ix,
            state: ServerState::Connecting,
            link: None,
            local: String::new(),
            connected_at: now,
            linked_at: now,
            query_at: Time::NEVER,
            transaction_at: Time::NEVER,
            heard_at: now,
            cancels: 0,
            last_words: None,
            paused: false,
            full: false,
            own_since: Time::NEVER,
            armed: Time::NEVER,
            used: false,
            salting: None,
            doomed: false,
        };
        self.peers.put(peer, Entry::Server(Box::new(server)));
    }

    /// The pool has let a server go.
    fn pool_closes<I: Io>(&mut self, server: Peer, reason: CloseReason, io: &mut I) {
        let Some(slot) = self.peers.take_server(server) else { return };
        if reason == CloseReason::ConnectTimeout {
            let target = self.pools.get(slot.pool).config.target.clone();
            let message = format!("server {target} did not finish the login within server_connect_timeout");
            self.pools.get_mut(slot.pool).last_error = Some(OwnError { sqlstate: "08006".into(), message });
        }
        self.goodbye(slot, reason.text(), io);
    }

    /// A login at the server failed.
    pub(crate) fn login_failed<I: Io>(&mut self, now: Time, ix: PoolIx, server: Peer, error: OwnError, io: &mut I) {
        let slot = self.pools.get_mut(ix);
        io.log(
            Level::Warning,
            format_args!("{}/{}@{}: server login failed: {}", slot.name, slot.user, slot.config.target, error.message),
        );
        let starting = error.sqlstate == "57P03";
        slot.last_error = Some(error);
        let failure = if starting { ConnectFailure::StartingUp } else { ConnectFailure::Refused };
        slot.pool.connect_failed(server, failure, now);
        self.todo.push_back(Todo::Settle(ix));
    }

    /// Why a pool refuses, in the words for the client.
    pub(crate) fn refusal(&self, ix: PoolIx, why: weir_pool::Refusal) -> Refusal {
        let slot = self.pools.get(ix);
        match why {
            weir_pool::Refusal::WaitTimeout => Refusal::QueryWaitTimeout,
            weir_pool::Refusal::ServerDown => match &slot.last_error {
                Some(error) => Refusal::ServerDown { sqlstate: error.sqlstate.clone(), message: error.message.clone() },
                None => Refusal::ServerDown { sqlstate: "08006".into(), message: "server login failed".into() },
            },
            weir_pool::Refusal::TooManyWaiting => Refusal::TooManyClients,
            weir_pool::Refusal::ShuttingDown if slot.removed => Refusal::PoolGone,
            weir_pool::Refusal::ShuttingDown => Refusal::ShuttingDown,
        }
    }

    /// Takes a new configuration over. Nobody is disconnected; servers whose address or login changed are replaced as
    /// they are released.
    pub(crate) fn adopt(&mut self, now: Time, config: Arc<Config>) {
        self.config = config;
        self.policy = crate::arrive::policy(self.policy.key, &self.config);
        self.salted.clear();
        for ix in self.pools.indices() {
            let slot = self.pools.get_mut(ix);
            let fits = |pool: &&Arc<weir_config::Pool>| pool.user.as_deref().is_none_or(|user| user == &*slot.user);
            match self.config.pools.get(&*slot.name).filter(fits) {
                None if slot.removed => {}
                None => {
                    slot.removed = true;
                    slot.pool.shut();
                    let key = (slot.name.clone(), slot.user.clone());
                    self.pools.by_name.remove(&key);
                }
                // A pool that is shut stays shut: one that returns begins anew, under the same name.
                Some(_) if slot.removed => {}
                Some(pool) => adjust(slot, pool.clone(), now),
            }
            self.todo.push_back(Todo::Settle(ix));
        }
        self.create_forced_pools(now);
    }

    /// A client whose pool the configuration has replaced (another user) goes on in the new one, if that lives here.
    pub(crate) fn move_to_successor(&mut self, now: Time, client: &mut ClientSlot) {
        let name = self.pools.get(client.pool).name.clone();
        let Some(config) = self.config.pools.get(&*name).cloned() else { return };
        let user = config.user.clone().unwrap_or_else(|| client.user.to_string());
        if self.home_of(&name, &user) != self.worker {
            return;
        }
        self.count_client(client.pool, -1);
        client.pool = self.pool_of(&name, &config, &user, now);
        self.count_client(client.pool, 1);
    }

    /// PAUSE, RESUME, RECONNECT of the pools that `name` means.
    pub(crate) fn pools_pause(&mut self, name: Option<&str>) {
        for ix in self.pools.named(name) {
            self.pools.get_mut(ix).pool.pause();
            self.todo.push_back(Todo::Settle(ix));
        }
    }

    pub(crate) fn pools_resume(&mut self, now: Time, name: Option<&str>) {
        for ix in self.pools.named(name) {
            self.pools.get_mut(ix).pool.resume(now);
            self.todo.push_back(Todo::Settle(ix));
        }
    }

    pub(crate) fn pools_reconnect(&mut self, now: Time, name: Option<&str>) {
        for ix in self.pools.named(name) {
            self.pools.get_mut(ix).pool.reconnect(now);
            self.todo.push_back(Todo::Settle(ix));
        }
    }

    /// Answers PAUSEs whose pools are quiet by now, and ends a shutdown that has nothing left to wait for.
    pub(crate) fn look_for_quiet<I: Io>(&mut self, io: &mut I) {
        let pools = &self.pools;
        let quiet = |name: &Option<String>| pools.named(name.as_deref()).iter().all(|ix| pools.get(*ix).pool.quiet());
        let (done, waiting): (Vec<Pausing>, Vec<Pausing>) =
            std::mem::take(&mut self.pausing).into_iter().partition(|p| quiet(&p.name));
        self.pausing = waiting;
        for pause in done {
            self.answer(pause.from, pause.id, Answer::Done, io);
        }
        self.look_for_drained(io);
    }

    /// Whether a name is one of a configured pool.
    pub(crate) fn check_name(&self, name: Option<&str>) -> Result<(), CommandError> {
        match name {
            Some(name) if !self.config.pools.contains_key(name) => Err(CommandError::NoSuchDatabase(name.to_owned())),
            _ => Ok(()),
        }
    }
}

fn adjust(slot: &mut PoolSlot, config: Arc<weir_config::Pool>, now: Time) {
    let old = &slot.config;
    let elsewhere = old.target != config.target
        || old.database != config.database
        || old.user != config.user
        || old.password != config.password;
    if old.limits != config.limits {
        slot.pool.resize(settings(&config), now);
    }
    if elsewhere {
        slot.welcome = None;
        slot.accepted = Accepted::default();
        slot.salted = None;
        slot.pool.reconnect(now);
    }
    slot.config = config;
}

impl PoolSlot {
    pub(crate) fn mode(&self) -> Mode {
        self.config.mode
    }
}
