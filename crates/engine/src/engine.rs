//! [`Engine`]: the parts of one worker. `lib.rs` dispatches inputs to them, `flows` orders calls of several parts.

use std::sync::Arc;

use weir_base::{Span, Time, WorkerId};
use weir_config::Config;
use weir_session::StatementMemory;

use crate::admin::Admin;
use crate::backends::Backends;
use crate::cluster::Cluster;
use crate::common::Common;
use crate::entry;
use crate::peers::Peers;
use crate::pools::Pools;
use crate::sessions::Sessions;
use crate::takeover::TakeOver;
use crate::timers::Who;

/// The configuration of an engine.
pub struct Setup {
    /// The worker's id.
    pub worker: WorkerId,
    /// The number of workers; at most 127.
    pub workers: u16,
    /// The configuration, valid as a whole.
    pub config: Arc<Config>,
    /// Random bytes for this engine alone.
    pub seed: [u8; 32],
    /// Random bytes that all engines of the process share: so the same statement has the same name in each of them.
    pub process_key: [u8; 32],
    /// The account of statements of all engines of the process.
    pub statement_memory: StatementMemory,
    /// The wall clock at [`Time::START`], in microseconds since 1970.
    pub wall_at_start: u64,
    /// The program's name and version, as SHOW VERSION says it.
    pub version: &'static str,
    /// The highest number that another process has given to its clients and servers, where this one takes over from it.
    pub ids_after: Option<u64>,
    /// The operating system's user that the process runs as: the same one may administer it over the Unix socket.
    pub uid: u32,
    /// The machine's name.
    pub host_name: Arc<str>,
}

/// One worker's sessions and pools.
pub struct Engine {
    pub(crate) common: Common,
    pub(crate) sessions: Sessions,
    pub(crate) peers: Peers,
    pub(crate) pools: Pools,
    pub(crate) entry: entry::ClientEntry,
    pub(crate) backends: Backends,
    pub(crate) cluster: Cluster,
    pub(crate) admin: Admin,
    pub(crate) takeover: TakeOver,
}

impl Engine {
    /// An engine without sessions.
    pub fn new(setup: Setup) -> Self {
        let config = setup.config;
        let mut hash_key = [0; 16];
        hash_key.copy_from_slice(&setup.process_key[..16]);
        let mut engine = Engine {
            sessions: Sessions::new(hash_key, &setup.statement_memory, &config),
            peers: Peers::default(),
            pools: Pools::default(),
            entry: entry::ClientEntry::new(setup.process_key, setup.uid, &config),
            backends: Backends::default(),
            cluster: Cluster::default(),
            takeover: TakeOver::default(),
            admin: Admin::new(config.clone(), setup.version),
            common: Common::new(
                (setup.worker, setup.workers),
                config,
                setup.seed,
                setup.wall_at_start,
                setup.host_name,
            ),
        };
        let first = engine.common.random_number();
        engine.peers.begin_pids_at(first);
        if let Some(last) = setup.ids_after {
            engine.common.begin_ids_after(last);
            engine.takeover.held.begin();
        }
        let stats_at = Time::START + period(engine.common.config());
        engine.common.arm(Who::Stats, stats_at, &mut engine.admin.stats_at);
        engine.create_forced_pools(Time::START);
        engine
    }
}

/// The statistics period, never zero.
pub(crate) fn period(config: &Config) -> Span {
    config.stats_period.max(Span::from_secs(1))
}
