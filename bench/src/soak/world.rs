//! What all actors share: the pools, what the pooler before them can do, the gate, the tally.

use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::time::Duration;

use weir_pgclient::ConnectParams;

use super::gate::Gate;
use super::tally::Tally;
use crate::contender::Kind;
use crate::setup::{Link, Mode, Pool};
use crate::stage::Pooler;

/// The pools: two for transactions, of different size, and one of each other mode. All are smaller than the number of
/// their clients, so that there is always a queue.
pub(super) const POOLS: [Pool; 4] = [
    Pool { name: "tx_wide", mode: Mode::Transaction, size: 5, server: Link::Tcp },
    Pool { name: "tx_tight", mode: Mode::Transaction, size: 2, server: Link::Tcp },
    Pool { name: "sessions", mode: Mode::Session, size: 6, server: Link::Tcp },
    Pool { name: "statements", mode: Mode::Statement, size: 3, server: Link::Tcp },
];

/// Of ten clients, who goes to which pool.
const SHARES: [usize; 10] = [0, 1, 2, 3, 0, 0, 1, 0, 3, 2];

/// What a pooler promises, beyond what all do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Promises {
    /// Prepared statements, by name and unnamed across Syncs, where servers change between transactions.
    pub(super) statements: bool,
    /// No client inherits the state that another left behind: SET, LISTEN, temporary tables.
    pub(super) clean: bool,
    /// IntervalStyle follows its client.
    pub(super) interval_style: bool,
    /// The pooler has a console whose counters can be compared.
    pub(super) console: bool,
}

impl Promises {
    pub(super) fn of(kind: Kind) -> Promises {
        let (weir, pooler) = (matches!(kind, Kind::Weir | Kind::WeirEpoll), kind != Kind::Direct);
        Promises { statements: weir, clean: weir, interval_style: weir, console: pooler }
    }
}

/// One of [`POOLS`].
pub(super) type PoolId = usize;

/// What all actors share.
#[derive(Debug)]
pub(super) struct World {
    pub(super) kind: Kind,
    pub(super) promises: Promises,
    pub(super) gate: Gate,
    pub(super) tally: Tally,
    pub(super) seed: u64,
    /// The names of the acts to perform; all of them when there are none.
    pub(super) only: Vec<String>,
    /// What a client pauses on average between two acts.
    pub(super) pause: Duration,
    params: Vec<ConnectParams>,
    console: ConnectParams,
    /// Clients that are logged in, a pool.
    open: [AtomicI64; POOLS.len()],
    consoles: AtomicI64,
}

impl World {
    pub(super) fn before(pooler: &Pooler, seed: u64, only: Vec<String>) -> World {
        World {
            kind: pooler.kind,
            promises: Promises::of(pooler.kind),
            gate: Gate::new(),
            tally: Tally::new(),
            seed,
            only,
            pause: Duration::ZERO,
            params: POOLS.iter().map(|pool| pooler.params(pool.name)).collect(),
            console: pooler.params("pgbouncer"),
            open: Default::default(),
            consoles: AtomicI64::new(0),
        }
    }

    /// The pool of a client.
    pub(super) fn pool_of(client: u64) -> PoolId {
        SHARES[usize::try_from(client % 10).unwrap_or(0)]
    }

    pub(super) fn params(&self, pool: PoolId) -> &ConnectParams {
        &self.params[pool]
    }

    pub(super) fn console(&self) -> &ConnectParams {
        &self.console
    }

    /// How a client of this pool keeps its server: without a pooler, always.
    pub(super) fn mode(&self, pool: PoolId) -> Mode {
        if self.kind == Kind::Direct { Mode::Session } else { POOLS[pool].mode }
    }

    /// Whether prepared statements outlive a transaction here.
    pub(super) fn keeps_statements(&self, pool: PoolId) -> bool {
        self.promises.statements || self.mode(pool) == Mode::Session
    }

    /// Clients that are logged in to this pool.
    pub(super) fn open(&self, pool: PoolId) -> i64 {
        self.open[pool].load(SeqCst)
    }

    /// Open consoles.
    pub(super) fn consoles(&self) -> i64 {
        self.consoles.load(SeqCst)
    }

    /// Counts a console for as long as the value lives.
    pub(super) fn enter_console(&self) -> Presence<'_> {
        self.consoles.fetch_add(1, SeqCst);
        Presence(&self.consoles)
    }

    /// Counts a login for as long as the value lives.
    pub(super) fn enter(&self, pool: PoolId) -> Presence<'_> {
        self.open[pool].fetch_add(1, SeqCst);
        Presence(&self.open[pool])
    }
}

/// One connection's place in the count of open connections.
#[derive(Debug)]
pub(super) struct Presence<'w>(&'w AtomicI64);

impl Drop for Presence<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}
