//! One worker's whole brain: its sessions and its pools, without I/O.
//!
//! [`Engine::handle`] is told one [`port::Input`] at a time and answers through [`port::Io`]; it owns no socket, clock or
//! thread. What must be done to several sessions in a row is queued in [`Engine::todo`] and worked off before the turn
//! ends, so that no chain of owners nests calls.
//!
//! - `arrive`: from the first packet to the worker where the pool lives. `entry`: who may enter. `welcome`: what they
//!   are told. `clients`: how many there may be. `failures`: who fails is slowed down.
//! - `relay`: what passes between clients and servers. `links`: when they are linked, released and cleaned up after.
//!   `holding`: how long a client holds its server.
//! - `serve`: the life of a server connection. `places`: which of a pool's servers is tried, and which will do.
//! - `turns`: how many logins a place gets at once. `lookup`: secrets that a server is asked for. `limits`, `permits`:
//!   limits that cross pools.
//! - `lend`: pools that span several workers. `placement`: which worker a client lives on.
//! - `pools`: which pools there are, what they ask for, what a new configuration changes.
//! - `tls`: what handshakes lead to. `names`: what look-ups say. `say`: lines of the log about peers.
//! - `console`: operators and their commands. `gather`: commands that all workers carry out. `halt`: what is stopped.
//!   `stream`: long tables, in pieces.
//! - `census`: how many clients there are, without looking at them. `holders`: why somebody has to wait. `refusals`: who
//!   got nothing, counted. `cancel`, `report`, `deadlines`, `shutdown`: what the names say.

mod arrive;
mod cancel;
mod census;
mod clients;
mod console;
mod control;
mod deadlines;
mod entry;
mod failures;
mod gather;
mod halt;
mod holders;
mod holding;
mod lend;
mod limits;
mod links;
mod lookup;
mod lost;
mod names;
mod peers;
mod permits;
mod placement;
mod places;
mod pools;
mod prelogin;
mod refusals;
mod relay;
mod renew;
mod report;
mod salting;
mod say;
mod serve;
mod shutdown;
mod stream;
mod timers;
mod tls;
mod turns;
mod welcome;
mod wire;

#[cfg(test)]
extern crate self as weir_engine;
#[cfg(test)]
#[path = "../tests/common/mod.rs"]
mod common;
#[cfg(test)]
mod idle_tests;

pub use lend::Line;
pub use mail::Message;

mod mail;
pub mod port;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use rand_chacha::ChaCha12Rng;
use rand_core::{RngCore, SeedableRng};
use weir_admin::Refusals;
use weir_auth::{Mocks, ScramPolicy};
use weir_base::{OnDirty, Peer, Span, Time, WorkerId};
use weir_config::Config;
use weir_session::front::{Context, Counts, Messages, Simple};
use weir_session::{Accepted, Interner, ParamTable, StatePolicy};

pub use weir_session::StatementMemory;

use crate::gather::{Caller, Gathering};
use crate::halt::Halt;
use crate::lookup::Waiter;
use crate::mail::{Drain, Payload};
use crate::peers::{Entry, Peers, Phase, PoolIx};
use crate::pools::Pools;
use crate::port::{Input, Io, Level, Signal};
use crate::timers::{Timers, Who};

/// What an engine needs to know to begin.
pub struct Setup {
    /// Which worker it is.
    pub worker: WorkerId,
    /// How many there are; at most 127.
    pub workers: u16,
    /// The configuration, valid as a whole.
    pub config: Arc<Config>,
    /// Randomness for this engine alone.
    pub seed: [u8; 32],
    /// Randomness that all engines of the process share: the same statement has the same name with each of them.
    pub process_key: [u8; 32],
    /// What the statements of all engines of the process are charged to.
    pub statement_memory: StatementMemory,
    /// The wall clock at [`Time::START`], in microseconds since 1970.
    pub wall_at_start: u64,
    /// The program's name and version, as SHOW VERSION says it.
    pub version: &'static str,
    /// The operating system's user that the process runs as: the same one may administer it over the Unix socket.
    pub uid: u32,
}

/// One worker's sessions and pools.
pub struct Engine {
    worker: WorkerId,
    workers: u16,
    config: Arc<Config>,
    /// The configuration that workers were last told to take over; the next SET builds on it.
    newest: Arc<Config>,
    version: &'static str,
    wall_at_start: u64,
    random: ChaCha12Rng,
    /// The time of the input that is being handled.
    clock: Time,
    peers: Peers,
    census: census::Census,
    pools: Pools,
    /// Secrets that servers are asked for.
    lookups: lookup::Lookups,
    /// Limits that cross pools; worker 0 keeps them.
    permits: permits::Ledger,
    /// Servers of this worker's pools that are lent, by the handle they had here: the pool, and to whom.
    lent: HashMap<Peer, lend::Away>,
    /// Where room is wanted for another pool: whether it has been told of something idle.
    pressed: BTreeMap<permits::Key, limits::Offer>,
    timers: Timers,
    /// Logins at servers under way, and pools that wait for theirs.
    turns: turns::Turns,
    shared: Shared,
    /// What look-ups said.
    names: names::Names,
    todo: VecDeque<Todo>,
    /// Jobs that helpers work on.
    jobs: HashMap<u64, Job>,
    last_id: u64,
    policy: ScramPolicy,
    /// What users who are not listed look like.
    mocks: Arc<Mocks>,
    salting: salting::Salting,
    /// Clients of the whole process; counted by worker 0, which accepts them.
    all_clients: u32,
    /// Who is in, where that is limited; worker 0's only.
    ledger: clients::Ledger,
    /// Clients that wait for worker 0's answer, and the places they asked for.
    entering: HashMap<u64, (Peer, Box<clients::Ticket>)>,
    failures: failures::Failures,
    prelogin: prelogin::PreLogin,
    /// Clients that were refused before they had a pool, and those of pools that are forgotten.
    refusals: Refusals,
    user_names: entry::UserNames,
    /// How busy workers are; worker 0 wants to know.
    loads: placement::Loads,
    /// The operating system's user that this process runs as.
    uid: u32,
    gathering: HashMap<u64, Gathering>,
    /// What renews the configuration, one at a time; a helper works on the first.
    renewals: VecDeque<renew::Renewal>,
    /// Where changes are kept that workers are taking over, by the control plane's numbers.
    kept: HashMap<u64, weir_admin::Persisted>,
    /// What the operator has stopped.
    halt: Halt,
    draining: Option<Drain>,
    told_drained: bool,
    /// What worker 0 asked all workers for: its own message may reach it last.
    asked_drain: Option<Drain>,
    /// Workers that have told that they are drained.
    drained: BTreeSet<WorkerId>,
    shutdown_by: Time,
    shutdown_armed: Time,
    stats_at: Time,
}

/// What all sessions of a worker share.
struct Shared {
    interner: Interner,
    params: ParamTable,
    /// Buffers that held unnamed statements.
    spare: Vec<Vec<u8>>,
    scratch: Vec<u8>,
    counts: Counts,
    /// Which messages are passed on.
    messages: Messages,
    /// Buffers that held what clients sent while they waited.
    blocks: Vec<Vec<u8>>,
}

/// Work that the current turn still owes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Todo {
    /// This server may have become free.
    Release(Peer),
    /// This client may go on with what it sent.
    Feed(Peer),
    /// This pool may have something to ask for.
    Settle(PoolIx),
}

/// What a helper works for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Job {
    ClientSalt(Peer),
    /// What the operating system calls a user.
    NameOfUser(u32),
    ServerSalt(Peer),
    /// The first of [`Engine::renewals`].
    Renewal,
}

/// Most buffers kept for waiting clients.
const MAX_BLOCKS: usize = 1024;
/// The largest buffer that is kept.
const BLOCK_SIZE: usize = 16 << 10;

impl Engine {
    /// A worker's engine, without sessions yet.
    pub fn new(setup: Setup) -> Self {
        let config = setup.config;
        let stats_at = Time::START + period(&config);
        let mut hash_key = [0; 16];
        hash_key.copy_from_slice(&setup.process_key[..16]);
        let mut engine = Engine {
            worker: setup.worker,
            workers: setup.workers.max(1),
            version: setup.version,
            wall_at_start: setup.wall_at_start,
            random: ChaCha12Rng::from_seed(setup.seed),
            clock: Time::START,
            peers: Peers::default(),
            census: census::Census::default(),
            pools: Pools::default(),
            lookups: lookup::Lookups::default(),
            permits: permits::Ledger::default(),
            lent: HashMap::new(),
            pressed: BTreeMap::new(),
            timers: Timers::default(),
            turns: turns::Turns::default(),
            shared: Shared {
                interner: Interner::new(hash_key, &setup.statement_memory, config.limits.statement_memory),
                params: ParamTable::new(config.track_extra_parameters.iter().map(String::as_str)),
                spare: Vec::new(),
                scratch: Vec::new(),
                counts: Counts::default(),
                messages: messages(&config),
                blocks: Vec::new(),
            },
            names: names::Names::default(),
            todo: VecDeque::new(),
            jobs: HashMap::new(),
            last_id: 0,
            policy: entry::policy(setup.process_key, &config),
            mocks: entry::mocks(&config),
            salting: salting::Salting::default(),
            all_clients: 0,
            ledger: clients::Ledger::default(),
            entering: HashMap::new(),
            failures: failures::Failures::default(),
            prelogin: prelogin::PreLogin::default(),
            refusals: Refusals::default(),
            user_names: entry::UserNames::default(),
            loads: placement::Loads::default(),
            uid: setup.uid,
            newest: config.clone(),
            renewals: VecDeque::new(),
            kept: HashMap::new(),
            gathering: HashMap::new(),
            halt: Halt::default(),
            draining: None,
            told_drained: false,
            asked_drain: None,
            drained: BTreeSet::new(),
            shutdown_by: Time::NEVER,
            shutdown_armed: Time::NEVER,
            stats_at: Time::NEVER,
            config,
        };
        engine.timers.arm(Who::Stats, stats_at, &mut engine.stats_at);
        engine.create_forced_pools(Time::START);
        engine
    }

    /// Handles one input. `now` never runs backwards. Deadlines are kept by [`Input::Tick`] alone, so that what came in
    /// time is heard first, however late it is.
    pub fn handle<I: Io>(&mut self, now: Time, input: Input<'_>, io: &mut I) {
        self.clock = now;
        match input {
            Input::Bytes { peer, bytes } => self.bytes(now, peer, bytes, io),
            Input::Accepted { peer, from } => self.accepted(now, peer, from, io),
            Input::Closed { peer, .. } => self.closed(now, peer, io),
            Input::Ending { peer } => self.ending(now, peer, io),
            Input::Blocked { peer } => self.blocked(peer, io),
            Input::Drained { peer } => self.drained_peer(peer, io),
            Input::Connected { peer, local, remote } => self.connected(peer, local, remote, io),
            Input::Secured { peer, tls } => self.secured(now, peer, tls, io),
            Input::TlsFailed { peer, error } => self.tls_failed(now, peer, &error, io),
            Input::Resolved { name, addresses, ttl } => self.resolved(now, name, addresses, ttl, io),
            Input::ConnectFailed { peer, error } => self.connect_failed(now, peer, &error, io),
            Input::Detached { peer } => self.detached(now, peer, io),
            Input::Helped { job, answer } => self.helped(now, job, answer, io),
            Input::Message { from, message, socket } => self.message(now, from, message, socket, io),
            Input::Load(percent) => self.loaded(percent, io),
            Input::Signal(signal) => self.signal(now, signal, io),
            Input::Asked { number, request } => self.outside_asks(now, number, request, io),
            Input::AskedNoMore { number } => self.outside_leaves(now, number, io),
            Input::Tick => self.ticks(now, io),
        }
        self.work_off(now, io);
        if self.halt.is_flushing() {
            self.look_for_flushed(io);
        }
    }

    /// When [`Input::Tick`] is due.
    pub fn next_deadline(&self) -> Time {
        self.timers.next()
    }

    /// What is queued in `todo`, until nothing is.
    #[inline]
    fn work_off<I: Io>(&mut self, now: Time, io: &mut I) {
        while let Some(todo) = self.todo.pop_front() {
            match todo {
                Todo::Release(server) => self.release(now, server, io),
                Todo::Feed(client) => self.feed_waiting(now, client, io),
                Todo::Settle(pool) => self.settle(now, pool, io),
            }
        }
    }

    #[inline]
    fn bytes<I: Io>(&mut self, now: Time, peer: Peer, bytes: &[u8], io: &mut I) {
        if self.halt.is_suspended() {
            self.hold(peer, io);
        }
        match self.peers.take(peer) {
            Entry::Server(server) => self.server_bytes(now, server, bytes, io),
            Entry::Client(client) => self.client_bytes(now, client, bytes, io),
            Entry::Cancel(cancel) => self.cancel_bytes(cancel, bytes, io),
            Entry::Free => {}
        }
    }

    fn closed<I: Io>(&mut self, now: Time, peer: Peer, io: &mut I) {
        match self.peers.take(peer) {
            Entry::Server(server) => self.server_gone(now, server, io),
            Entry::Client(client) => self.client_gone(now, client, io),
            Entry::Cancel(cancel) => self.cancel_over(&cancel, io),
            Entry::Free => {}
        }
    }

    fn message<I: Io>(&mut self, now: Time, from: WorkerId, message: Message, socket: Option<Peer>, io: &mut I) {
        match (message.0, socket) {
            (Payload::Client(handoff), Some(peer)) => self.arrived(now, peer, handoff, io),
            (Payload::Cancel { pid, secret, id, addr }, Some(peer)) => {
                self.canceller_arrived(now, peer, id, addr);
                self.cancel(now, peer, pid, &secret, io);
            }
            (Payload::ClientGone(ticket), _) => self.client_uncounted(ticket.as_deref()),
            (Payload::Enter { id, ticket }, _) => self.asked_for_place(from, id, &ticket, io),
            (Payload::Entered { id, refused }, _) => self.place_answered(now, id, refused, io),
            (Payload::Counted(ticket), _) => self.seat_counted(&ticket),
            (Payload::Left(ticket), _) => self.place_left(&ticket),
            (Payload::LookUp(question), _) => self.look_up(now, from, *question, io),
            (Payload::Loan(loan), peer) => self.heard_loan(now, from, *loan, peer, io),
            (Payload::Plea(plea), _) => self.pleaded(from, *plea, io),
            (Payload::Order(order), _) => self.ordered(now, *order, io),
            (Payload::Distrust { database, user }, _) => self.lookups.forget(&(database, user)),
            (Payload::MakeRoom, _) => {
                self.evict_prelogin(now, io);
            }
            (Payload::Failed(place), _) => self.failed_elsewhere(now, place),
            (Payload::LookUpNoMore(id), _) => self.look_up_no_more(now, id),
            (Payload::LookedUp { id, answer }, _) => self.looked_up(now, id, answer, io),
            (Payload::Command { id, command }, _) => self.asked(now, from, id, command, io),
            (Payload::CommandAnswer { id, answer }, _) => self.answered(now, id, answer, io),
            (Payload::Paging(paging), _) => self.paging(from, paging, io),
            (Payload::Load(percent), _) => self.load_told(from, percent),
            (Payload::Drained(drain), _) => self.worker_drained(from, drain, io),
            (Payload::Client(_) | Payload::Cancel { .. }, None) => {
                say::say(Level::Error, format_args!("a client arrived without its socket"), io);
            }
        }
    }

    fn signal<I: Io>(&mut self, now: Time, signal: Signal, io: &mut I) {
        match signal {
            Signal::Reload => self.begin_reload(Caller::Nobody, io),
            Signal::Quit => io.exit(0),
            Signal::ShutdownClients if self.draining.is_some() => io.exit(0),
            Signal::ShutdownClients => self.begin_drain(now, Drain::Clients, io),
            Signal::ShutdownServers if self.draining == Some(Drain::Servers) => io.exit(0),
            Signal::ShutdownServers => self.begin_drain(now, Drain::Servers, io),
            Signal::Pause => self.pause_signal(now, io),
            Signal::Resume => self.resume_signal(now, io),
        }
    }

    /// Turns a client into bytes and back, in place: as if it had moved. Returns whether it could be done now. For the
    /// simulator, which does it to clients at random moments.
    pub fn refreeze(&mut self, peer: Peer) -> bool {
        let Some(mut slot) = self.peers.take_client(peer) else { return false };
        let frozen = match &slot.phase {
            Phase::Ready(client) if slot.link.is_none() => weir_session::frozen::freeze(client, &self.shared.params),
            _ => None,
        };
        let done = frozen.is_some();
        if let Some(bytes) = frozen {
            // What it is charged for is let go before it is charged again.
            slot.phase = Phase::Gone;
            let pool = &self.pools.get(slot.pool).accepted;
            let thawed = weir_session::frozen::thaw(&bytes, &self.shared.params, &mut self.shared.interner, pool);
            slot.phase = Phase::Ready(thawed.expect("what was frozen here thaws here"));
        }
        self.peers.put(peer, Entry::Client(slot));
        done
    }

    /// Asserts what must hold between inputs. Costs a walk over everything; for tests and the simulator.
    ///
    /// # Panics
    /// When an invariant is broken.
    pub fn check(&self) {
        assert!(self.todo.is_empty(), "a turn has left work behind");
        self.check_census();
        for client in self.peers.clients() {
            let Some(server) = client.link else { continue };
            let owner = self.peers.servers().find(|s| s.peer == server).map(|s| s.link);
            assert_eq!(owner, Some(Some(client.peer)), "a client's server does not know it");
            assert!(matches!(client.phase, Phase::Ready(_)), "a client that may not ask has a server");
        }
        for server in self.peers.servers() {
            let Some(client) = server.link else { continue };
            let link = self.peers.clients().find(|c| c.peer == client).map(|c| c.link);
            assert_eq!(link, Some(Some(server.peer)), "a server's client does not know it");
            assert!(server.doing() != Some(peers::Doing::Idle), "an idle server has a client");
            let released = self.pools.get(server.pool).mode() != weir_base::PoolMode::Session;
            let fair = server.overtime.1 <= relay::AHEAD || !released;
            assert!(fair, "others wait, and a pipeline goes on for {} transactions", server.overtime.1);
        }
        self.check_turns();
        for ix in self.pools.indices() {
            let slot = self.pools.get(ix);
            slot.check();
            for (peer, ..) in slot.pool.servers() {
                let here = || self.peers.servers().any(|s| s.peer == peer && s.pool == ix);
                let known = self.lent.get(&peer).is_some_and(|away| away.pool == ix) || here();
                assert!(known, "a pool has a server that is gone: {peer:?}");
            }
            for (peer, _) in slot.pool.waiting() {
                let waits = match Waiter::of(peer) {
                    Waiter::Client(_) => self.peers.clients().any(|c| c.peer == peer && c.pool == ix && c.pause.waits),
                    Waiter::Lookup(_) => self.lookups.waits(peer, ix),
                    Waiter::Guest(_) => slot.part.is_vacant() || !slot.part.is_guest(),
                };
                assert!(waits, "a pool's queue holds one who does not wait: {peer:?}");
            }
        }
    }

    /// A number that no other thing of the process has.
    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id * u64::from(self.workers) + u64::from(self.worker.0)
    }

    fn random_bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.random.fill_bytes(&mut bytes);
        bytes
    }

    fn wall(&self, at: Time) -> u64 {
        self.wall_at_start + at.micros()
    }
}

impl Shared {
    /// What a session is fed with.
    fn context<'a>(&'a mut self, pool: &weir_config::Pool, accepted: &'a mut Accepted, ahead: u32) -> Context<'a> {
        let limits = &pool.limits;
        Context {
            interner: &mut self.interner,
            accepted,
            params: &self.params,
            spare: &mut self.spare,
            scratch: &mut self.scratch,
            counts: &mut self.counts,
            max_prepared: limits.max_prepared_statements as usize,
            client_statements: limits.client_statements as usize,
            client_memory: limits.client_share(),
            messages: self.messages,
            state: StatePolicy { warn: pool.warn_on_dirty, refuse: pool.on_dirty == OnDirty::Refuse },
            ahead,
        }
    }

    /// A buffer for what a client sends while it waits.
    fn block(&mut self) -> Vec<u8> {
        self.blocks.pop().unwrap_or_default()
    }

    fn recycle(&mut self, mut block: Vec<u8>) {
        if (1..=BLOCK_SIZE).contains(&block.capacity()) && self.blocks.len() < MAX_BLOCKS {
            block.clear();
            self.blocks.push(block);
        }
    }
}

/// Which messages are passed on.
fn messages(config: &Config) -> Messages {
    let simple = if config.disable_pqexec { Simple::Refused } else { Simple::Allowed };
    Messages { longest: config.max_packet_size, simple }
}

/// The statistics' period, never zero.
fn period(config: &Config) -> Span {
    config.stats_period.max(Span::from_secs(1))
}
