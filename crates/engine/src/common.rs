//! What every part of an engine uses: the worker's id, its configuration, random numbers, ids, timers, and follow-ups
//! of the current input.
//!
//! Owns no rule. A part borrows all of it as a [`Cx`], the first argument of its methods, together with the time and
//! the port.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use rand_chacha::ChaCha12Rng;
use rand_core::{RngCore, SeedableRng};
use weir_base::{ConnId, Target, Time, WorkerId, shrink};
use weir_config::{Config, PatroniQuestion};
use weir_session::{Left, Refusal};

use crate::client::slot::ClientSlot;
use crate::handles::PoolIx;
use crate::pause::waiting_command::WaitingCommand;
use crate::port::Io;
use crate::server::silence_watch::SilenceWatch;
use crate::server::slot::ServerSlot;
use crate::sessions::Sessions;
use crate::timers::{Timers, Who};
use crate::workers::messages::{Message, Payload, WorkerCommand};

/// The context of one call: the time, the port, and what all parts share.
pub(crate) struct Cx<'a, I> {
    pub(crate) now: Time,
    pub(crate) io: &'a mut I,
    pub(crate) common: &'a mut Common,
    /// State that all sessions of this worker share.
    pub(crate) sessions: &'a mut Sessions,
}

impl<I: Io> Cx<'_, I> {
    /// Sends a message to all other workers.
    pub(crate) fn post_to_others(&mut self, payload: impl Fn() -> Payload) {
        let own = self.common.worker();
        let others = (0..self.common.workers()).map(WorkerId).filter(|worker| *worker != own);
        others.for_each(|worker| self.io.post(worker, Message(payload()), None));
    }
}

/// An engine's [`Cx`], for a call of one of its parts.
macro_rules! cx {
    ($engine:ident, $now:expr, $io:expr) => {
        &mut $crate::common::Cx {
            now: $now,
            io: &mut *$io,
            common: &mut $engine.common,
            sessions: &mut $engine.sessions,
        }
    };
}
pub(crate) use cx;

/// What one room wants of another: queued for the end of the input, first in, first out. So rooms do not call each
/// other in circles, and calls never nest along a chain of waiters.
pub(crate) enum FollowUp {
    /// The server may have become free.
    Release(ConnId),
    /// The client may go on with its buffered input.
    Feed(ConnId),
    /// This pool may have something to ask for.
    PollPool(PoolIx),
    /// This client or server may be free to leave for another process.
    Export(ConnId),
    /// A server shows that its host takes no writes.
    Demoted(Box<Demotion>),
    /// A client of this pool runs a command for which a database of its server must be free of other connections.
    NeedAlone { pool: PoolIx, database: Box<str> },
    /// The client has lost its place in a queue for helpers, to one of an origin with fewer there.
    Displaced(ConnId),
    /// A pool has given a server to one who does not send queries yet: a client that logs in, an auth_query, or the pool
    /// itself, to listen.
    Granted {
        /// The handle in the pool's queue.
        waiter: ConnId,
        server: ConnId,
    },
    /// A server has answered for a client that logs in: what the pool sends to new clients is as that server reported
    /// it.
    WelcomeConfirmed(ConnId),
    /// The server that listens for this client has done so, and the client's own server waits for that.
    Listens(ConnId, Box<Left>),
    /// Something waits for this client that is sent where it is in no transaction.
    Notify(ConnId),
    /// An auth_query has lost its server.
    AuthQueryLost {
        query: ConnId,
        /// The server's last error, if that was fatal.
        error: Option<Box<Refusal>>,
    },
    /// A client has gone that was logging in, or was an operator.
    ClientGone(Box<ClientSlot>),
    /// Ctrl-C at this console.
    CancelConsole(ConnId),
    /// A command waits for a condition.
    Watch(Box<WaitingCommand>),
    /// A shutdown may have nothing left to wait for.
    CheckDrained,
    /// Worker 0: a server of a pool that nodes share may have been the last one of a process that exits.
    CheckSharedServersEnded,
}

/// A server has shown that its host takes no writes, for any user.
pub(crate) struct Demotion {
    pub(crate) pool: PoolIx,
    pub(crate) at: Target,
    pub(crate) why: &'static str,
    /// A login has shown it, and so has failed: its pool waits before the next one.
    pub(crate) at_login: bool,
}

impl FollowUp {
    /// This server shows that its host takes no writes, for this reason.
    pub(crate) fn demoted(server: &ServerSlot, why: &'static str) -> FollowUp {
        let at = server.connection.target().clone();
        FollowUp::Demoted(Box::new(Demotion { pool: server.pool, at, why, at_login: server.is_new() }))
    }
}

/// Something rare that a worker is busy with, or several such things. The room that does it has the details, and says
/// here when it begins and when it ends; so the path of a query asks in one place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct UnderWay(u8);

impl UnderWay {
    /// Nothing is read (SUSPEND).
    pub(crate) const SUSPEND: UnderWay = UnderWay(1);
    /// A SUSPEND waits for sockets.
    pub(crate) const FLUSH: UnderWay = UnderWay(1 << 1);
    /// A command waits for pools or sockets.
    pub(crate) const WATCH: UnderWay = UnderWay(1 << 2);
    /// The worker serves what is left before the process exits.
    pub(crate) const SHUTDOWN: UnderWay = UnderWay(1 << 3);
    /// What is free goes to another process.
    pub(crate) const EXPORT: UnderWay = UnderWay(1 << 4);
    /// Worker 0 searches for an idle server, to close it for another pool.
    pub(crate) const IDLE_SEARCH: UnderWay = UnderWay(1 << 5);
    /// Worker 0 knows that a pool is in trouble, and looks at all pools soon.
    pub(crate) const HEALTH_CHECK: UnderWay = UnderWay(1 << 6);
    /// Databases refuse new clients (DISABLE).
    pub(crate) const DISABLE: UnderWay = UnderWay(1 << 7);
    /// A command or a shutdown may wait for pools to become idle.
    pub(crate) const AWAITS_IDLE: UnderWay = UnderWay(Self::WATCH.0 | Self::SHUTDOWN.0);
}

/// The purpose of a helper's work.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Job {
    /// A client's password is hashed.
    ClientSalt(ConnId),
    /// A client's password is checked elsewhere.
    CheckPassword(ConnId),
    /// What the operating system calls a user.
    NameOfUser(u32),
    /// The hash of a password for our login at a server.
    ServerSalt(ConnId),
    /// The password for our login at a server.
    ServerPassword(ConnId),
    /// The configuration is read or changed.
    Reload,
    /// A configuration is added to the history.
    RecordConfig,
    /// Patroni is asked about a host.
    AskPatroni(Arc<PatroniQuestion>),
}

/// Commands for all workers that wait until no client moves any more.
#[derive(Debug)]
struct Held {
    until: Time,
    commands: Vec<(u64, WorkerCommand)>,
}

/// See the head of the file.
pub(crate) struct Common {
    worker: WorkerId,
    workers: u16,
    config: Arc<Config>,
    host_name: Arc<str>,
    pools_per_turn: usize,
    /// Whether `config` limits clients, which all pools and users say.
    limits_clients: bool,
    /// The wall clock at [`Time::START`], in microseconds since 1970.
    wall_at_start: u64,
    random: ChaCha12Rng,
    /// The time of the input that is being handled.
    now: Time,
    last_id: u64,
    /// Apart from `last_id`: ids of SHOW CLIENTS and SHOW SERVERS count connections, and nothing else (PgBouncer).
    last_connection: u64,
    timers: Timers,
    follow_ups: VecDeque<FollowUp>,
    jobs: HashMap<u64, Job>,
    under_way: UnderWay,
    pub(crate) silence: SilenceWatch,
    /// Worker 0: the commands for all workers that wait until no client is on its way between two of them.
    held_commands: Option<Held>,
    /// The number of the last batch of clients that move.
    batch: u64,
}

impl Common {
    /// The common state of worker `worker` of `workers`.
    pub(crate) fn new(
        (worker, workers): (WorkerId, u16),
        config: Arc<Config>,
        seed: [u8; 32],
        wall_at_start: u64,
        host_name: Arc<str>,
        pools_per_turn: usize,
    ) -> Common {
        Common {
            worker,
            workers: workers.max(1),
            limits_clients: config.limits_clients(),
            silence: SilenceWatch::new(&config),
            config,
            host_name,
            pools_per_turn,
            wall_at_start,
            random: ChaCha12Rng::from_seed(seed),
            now: Time::START,
            last_id: 0,
            last_connection: 0,
            timers: Timers::default(),
            follow_ups: VecDeque::new(),
            jobs: HashMap::new(),
            under_way: UnderWay(0),
            held_commands: None,
            batch: 0,
        }
    }

    /// This worker's id.
    #[inline]
    pub(crate) fn worker(&self) -> WorkerId {
        self.worker
    }

    /// The number of workers.
    pub(crate) fn workers(&self) -> u16 {
        self.workers
    }

    /// The configuration in force.
    #[inline]
    pub(crate) fn config(&self) -> &Arc<Config> {
        &self.config
    }

    /// How many pools adopt a new configuration in a turn.
    pub(crate) fn pools_per_turn(&self) -> usize {
        self.pools_per_turn
    }

    /// Whether any limit of clients is set, so that they need admission.
    pub(crate) fn limits_clients(&self) -> bool {
        self.limits_clients
    }

    /// The machine's name.
    pub(crate) fn host_name(&self) -> &Arc<str> {
        &self.host_name
    }

    /// Puts a configuration in force.
    pub(crate) fn set_config(&mut self, config: Arc<Config>) {
        self.limits_clients = config.limits_clients();
        self.silence.apply_config(&config);
        self.config = config;
    }

    /// The time of the input that is being handled.
    #[inline]
    pub(crate) fn now(&self) -> Time {
        self.now
    }

    /// A new input is handled.
    #[inline]
    pub(crate) fn set_now(&mut self, now: Time) {
        self.now = now;
    }

    /// The wall clock at a time, in microseconds since 1970.
    pub(crate) fn wall(&self, at: Time) -> u64 {
        self.wall_at_start + at.micros()
    }

    /// The wall clock was set: it is this one now at [`Time::START`].
    pub(crate) fn set_wall(&mut self, wall_at_start: u64) {
        self.wall_at_start = wall_at_start;
    }

    /// A number that no other message, job or table of the process has.
    pub(crate) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id * u64::from(self.workers) + u64::from(self.worker.0)
    }

    /// A number that no other client or server of the process has. With one worker, the next one.
    pub(crate) fn next_connection_id(&mut self) -> u64 {
        self.last_connection += 1;
        self.last_connection * u64::from(self.workers()) + u64::from(self.worker().0)
    }

    /// A number that is greater than those of all clients and servers so far.
    pub(crate) fn last_id(&self) -> u64 {
        (self.last_connection + 1) * u64::from(self.workers)
    }

    /// All numbers of clients and servers from now on are greater than `last`.
    pub(crate) fn begin_ids_after(&mut self, last: u64) {
        self.last_connection = self.last_connection.max(last / u64::from(self.workers) + 1);
    }

    pub(crate) fn random_bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.random.fill_bytes(&mut bytes);
        bytes
    }

    pub(crate) fn random_number(&mut self) -> u64 {
        self.random.next_u64()
    }

    /// A client of a pool gets a server, and none had one when its servers were last looked at (`server::silence`).
    #[cold]
    pub(crate) fn watch_silence(&mut self, ix: PoolIx) {
        self.silence.pools.push(ix);
        if let Some(limit) = self.silence.limit().filter(|_| self.silence.at == Time::NEVER) {
            self.look_for_silence(self.now + limit);
        }
    }

    pub(crate) fn look_for_silence(&mut self, when: Time) {
        self.timers.arm(Who::Silence, when, &mut self.silence.at);
    }

    /// Wakes `who` at `when`, unless that is never; `armed` is the caller's record of its earliest timer.
    #[inline]
    pub(crate) fn arm(&mut self, who: Who, when: Time, armed: &mut Time) {
        self.timers.arm(who, when, armed);
    }

    pub(crate) fn timers(&mut self) -> &mut Timers {
        &mut self.timers
    }

    /// When the next timer is due.
    pub(crate) fn next_deadline(&self) -> Time {
        self.timers.next()
    }

    /// Queues work for the end of this input.
    #[inline]
    pub(crate) fn follow_up(&mut self, work: FollowUp) {
        self.follow_ups.push_back(work);
    }

    /// The next queued work of this input.
    #[inline]
    pub(crate) fn next_follow_up(&mut self) -> Option<FollowUp> {
        self.follow_ups.pop_front()
    }

    /// Whether this turn has nothing left to do. For checks.
    pub(crate) fn is_done(&self) -> bool {
        self.follow_ups.is_empty()
    }

    /// Whether the worker is busy with one of these.
    #[inline]
    pub(crate) fn is_under_way(&self, any_of: UnderWay) -> bool {
        self.under_way.0 & any_of.0 != 0
    }

    /// The worker is busy with this from now on, or not any more. Returns whether that is new.
    pub(crate) fn set_under_way(&mut self, what: UnderWay, busy: bool) -> bool {
        let before = self.under_way;
        self.under_way.0 = if busy { before.0 | what.0 } else { before.0 & !what.0 };
        self.under_way != before
    }

    /// Worker 0: sends a command to all workers, this one included; at once, or when no client moves any more.
    pub(crate) fn post_to_all<I: Io>(&mut self, id: u64, command: &WorkerCommand, io: &mut I) {
        if let Some(held) = &mut self.held_commands {
            return held.commands.push((id, command.clone()));
        }
        for worker in 0..self.workers {
            io.post(WorkerId(worker), Message(Payload::Command { id, command: command.clone() }), None);
        }
    }

    /// Worker 0: clients begin to move, and commands wait until this time at most. The number of their batch; `None` if
    /// others still move.
    pub(crate) fn hold_commands(&mut self, until: Time) -> Option<u64> {
        if self.held_commands.is_some() {
            return None;
        }
        self.batch += 1;
        self.held_commands = Some(Held { until, commands: Vec::new() });
        Some(self.batch)
    }

    /// Worker 0: the clients of this batch move no more.
    pub(crate) fn moves_done<I: Io>(&mut self, batch: u64, io: &mut I) {
        // A late one says nothing of those that move now.
        if batch == self.batch {
            self.release_commands(io);
        }
    }

    /// Worker 0: commands have waited long enough: a worker hangs. Returns whether that is so.
    pub(crate) fn gives_up_moves<I: Io>(&mut self, now: Time, io: &mut I) -> bool {
        let hangs = self.held_commands.as_ref().is_some_and(|held| held.until <= now);
        if hangs {
            self.release_commands(io);
        }
        hangs
    }

    fn release_commands<I: Io>(&mut self, io: &mut I) {
        let held = self.held_commands.take().map(|held| held.commands).unwrap_or_default();
        held.into_iter().for_each(|(id, command)| self.post_to_all(id, &command, io));
    }

    /// The number of a new job for [`Io::submit_job`], whose purpose is recorded.
    pub(crate) fn begin_job(&mut self, job: Job) -> u64 {
        let id = self.next_id();
        self.jobs.insert(id, job);
        id
    }

    /// A helper has finished a job; returns its purpose.
    pub(crate) fn end_job(&mut self, id: u64) -> Option<Job> {
        let job = self.jobs.remove(&id);
        shrink(&mut self.jobs, 64);
        job
    }
}
