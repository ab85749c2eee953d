//! [`Core`]: the tables that all rooms of a worker share.
//!
//! Each table owns its fields. The functions of `client`, `server`, `link`, `pools` and other rooms without a state of
//! their own get all of it; a room with a state of its own gets it as an argument.

use std::collections::HashMap;

use weir_base::{ConnId, Time};

use crate::admin::client_counts::ClientCounts;
use crate::admin::pool_counts::PoolCounts;
use crate::admin::refusals::RefusalCounts;
use crate::admin::shutdown::Shutdown;
use crate::cancel::away::AwayClients;
use crate::cancel::peering::Peering;
use crate::client_login::auth_queries::AuthQueries;
use crate::client_login::prelogin::PreLogin;
use crate::common::Common;
use crate::conns::ConnTable;
use crate::lending::state::LentServer;
use crate::moves::batch::Moves;
use crate::pause::state::PauseState;
use crate::pools::Pools;
use crate::primary::view::Primaries;
use crate::server::HostStates;
use crate::sessions::Sessions;
use crate::upgrade::UpgradeState;
use crate::workers::lease::LeaseState;
use crate::workers::quota::clients::ClientQuota;
use crate::workers::quota::servers::IdleSearch;

/// See the head of the file.
pub(crate) struct Core {
    pub(crate) common: Common,
    pub(crate) sessions: Sessions,
    pub(crate) conns: ConnTable,
    pub(crate) pools: Pools,
    /// What is known of the hosts of servers.
    pub(crate) hosts: HostStates,
    /// What is known of the primaries of pools.
    pub(crate) primaries: Primaries,
    /// Lent servers of this worker's pools, by their handle here: the pool, and the borrower.
    pub(crate) lent: HashMap<ConnId, LentServer>,
    /// What operators have stopped.
    pub(crate) pause: PauseState,
    pub(crate) shutdown: Shutdown,
    /// The node's lease, as this worker knows it.
    pub(crate) lease: LeaseState,
    /// Another process takes over from this one, or this one from another.
    pub(crate) upgrade: UpgradeState,
    /// Clients of this worker that move to others.
    pub(crate) moves: Moves,
    /// Clients that have moved to other workers, and have keys of this one.
    pub(crate) away: AwayClients,
    /// Clients without a login.
    pub(crate) prelogin: PreLogin,
    pub(crate) auth_queries: AuthQueries,
    /// Other processes behind the same address.
    pub(crate) peering: Peering,
    pub(crate) client_quota: ClientQuota,
    pub(crate) idle_search: IdleSearch,
    pub(crate) client_counts: ClientCounts,
    /// What the consoles of this worker were asked.
    pub(crate) console_counts: PoolCounts,
    pub(crate) refusals: RefusalCounts,
}

impl Core {
    pub(crate) fn new(sessions: Sessions, common: Common) -> Core {
        Core {
            peering: Peering::new(common.config()),
            common,
            sessions,
            conns: ConnTable::default(),
            pools: Pools::default(),
            hosts: HostStates::default(),
            primaries: Primaries::default(),
            lent: HashMap::new(),
            pause: PauseState::default(),
            shutdown: Shutdown::default(),
            lease: LeaseState::default(),
            upgrade: UpgradeState::default(),
            moves: Moves::default(),
            away: AwayClients::default(),
            prelogin: PreLogin::default(),
            auth_queries: AuthQueries::default(),
            client_quota: ClientQuota::default(),
            idle_search: IdleSearch::default(),
            client_counts: ClientCounts::default(),
            console_counts: PoolCounts::new(Time::START),
            refusals: RefusalCounts::default(),
        }
    }
}
