//! Worker 0 counts clients and servers for all workers, and divides what several nodes share.

use std::sync::Arc;

use weir_admin::SharedLimits;
use weir_base::{Time, WorkerId};
use weir_config::{Config, PoolShare};

use crate::common::FollowUp;
use crate::core::Core;
use crate::log::log;
use crate::port::{Io, Level};
use crate::timers::Who;
use crate::workers::Workers;
use crate::workers::budget::{NodeBudget, database_of};
use crate::workers::messages::{Message, Payload};
use crate::workers::quota::counter::Limits;
use crate::workers::quota::{Key, PoolId, QuotaReply, QuotaRequest, Share};
use crate::workers::send::COUNTER;

impl Workers {
    /// Closes idle servers beyond the limits of pools that nodes share, and grants what fits.
    fn shrink_shared<I: Io>(&mut self, core: &mut Core, now: Time, io: &mut I) {
        let (config, workers, budget) = (core.common.config(), core.common.workers(), &self.budget);
        let beyond = |key: &Key, count: u32| {
            let name = database_of(key).filter(|name| config.shared_budget(name).is_some());
            name.is_some_and(|name| count > budget.allowed(now, name))
        };
        let limit = InForce { now, config, budget };
        let replies = self.counter.shrink(workers, &limit, &beyond);
        let excess = |name: &String| self.counter.servers_of(name).saturating_sub(budget.allowed(now, name));
        for (name, excess) in budget.pools().map(|name| (name, excess(name))).filter(|(_, excess)| *excess > 0) {
            let close = || Message(Payload::CloseReleased(name.as_str().into(), excess));
            (0..workers).for_each(|worker| io.post(WorkerId(worker), close(), None));
        }
        send_quota_replies(core, replies, io);
        let due = self.budget.next_due(now);
        core.common.arm(Who::Budget, due, &mut self.budget.armed);
    }

    /// Handles a worker's request.
    pub(crate) fn quota_requested<I: Io>(
        &mut self,
        core: &mut Core,
        now: Time,
        from: WorkerId,
        request: QuotaRequest,
        io: &mut I,
    ) {
        let (config, workers, budget) = (core.common.config(), core.common.workers(), &self.budget);
        let limit = InForce { now, config, budget };
        let replies = self.counter.receive(from, request, workers, &limit);
        send_quota_replies(core, replies, io);
        check_shared_servers_ended(core);
    }

    /// The server has ended a connection that was closed here: another one may be opened.
    pub(crate) fn shared_server_ended<I: Io>(&mut self, core: &mut Core, now: Time, database: &str, io: &mut I) {
        self.budget.ended(database);
        self.shrink_shared(core, now, io);
        check_shared_servers_ended(core);
    }

    /// Other limits of the pools that nodes share; returns what is open of each.
    pub(crate) fn set_shared_limits<I: Io>(
        &mut self,
        core: &mut Core,
        now: Time,
        limits: SharedLimits,
        io: &mut I,
    ) -> Vec<(String, u32, u32)> {
        let (until, peers) = (limits.until, limits.peers.clone());
        let obstacle: Option<Arc<str>> = limits.view.obstacle().map(Arc::from);
        if *self.budget.peers() != peers {
            let message = || Message(Payload::Peers(peers.clone()));
            (0..core.common.workers()).for_each(|to| io.post(WorkerId(to), message(), None));
        }
        let counter = &self.counter;
        if self.budget.set(limits, |name| counter.servers_of(name)) {
            let message = || Message(Payload::Lease(until, obstacle.clone()));
            (0..core.common.workers()).for_each(|to| io.post(WorkerId(to), message(), None));
        }
        self.shrink_shared(core, now, io);
        let (counter, budget) = (&self.counter, &self.budget);
        let open = |name: &String| counter.servers_of(name) + budget.ending_of(name);
        budget.pools().map(|name| (name.clone(), open(name), budget.left_to_other(name))).collect()
    }

    /// Whether no server of a pool that nodes share is left, here or at the server.
    pub(crate) fn have_no_shared_servers(&self) -> bool {
        self.budget.pools().all(|name| self.counter.servers_of(name) + self.budget.ending_of(name) == 0)
    }

    /// Limits of pools that nodes share have expired.
    pub(crate) fn budget_due<I: Io>(&mut self, core: &mut Core, now: Time, io: &mut I) {
        self.budget.armed = Time::NEVER;
        if self.budget.due(now) {
            let (counter, budget) = (&self.counter, &self.budget);
            let beyond = |name: &&String| counter.servers_of(name) > budget.allowed(now, name);
            for database in budget.pools().filter(beyond) {
                log(Level::Warning, format_args!("{database}: servers in use are closed: etcd can't be reached"), io);
                let close = || Message(Payload::CloseServers(database.as_str().into()));
                (0..core.common.workers()).for_each(|worker| io.post(WorkerId(worker), close(), None));
            }
        }
        self.shrink_shared(core, now, io);
    }

    /// A new configuration may allow more.
    pub(crate) fn limits_changed<I: Io>(&mut self, core: &mut Core, now: Time, io: &mut I) {
        if core.common.worker() == COUNTER {
            let (config, workers, budget) = (core.common.config(), core.common.workers(), &self.budget);
            let limit = InForce { now, config, budget };
            let replies = self.counter.limits_changed(workers, &limit);
            send_quota_replies(core, replies, io);
        }
    }
}

/// The limits now. The share of a node replaces the configured limit of all nodes.
struct InForce<'a> {
    now: Time,
    config: &'a Config,
    budget: &'a NodeBudget,
}

impl Limits for InForce<'_> {
    fn limit(&self, key: &Key) -> u32 {
        match database_of(key) {
            Some(name) if self.config.shared_budget(name).is_some() => self.budget.limit(self.now, name),
            _ => key.limit(self.config),
        }
    }

    fn share(&self, pool: &PoolId) -> Option<Share> {
        let share = self.config.share(&pool.database)?;
        let keeps = self.config.keeps_servers(&pool.database, &pool.user);
        let &PoolShare { guaranteed, weight, .. } = share;
        Some(Share { server: share.server.clone()?, guaranteed, weight, keeps })
    }

    fn guaranteed(&self, server: &str) -> u32 {
        self.config.servers.get(server).map_or(0, |server| server.guaranteed)
    }
}

/// A process that exits may have nothing left.
fn check_shared_servers_ended(core: &mut Core) {
    if core.shutdown.shared_server_wait().is_some() {
        core.common.follow_up(FollowUp::CheckSharedServersEnded);
    }
}

fn send_quota_replies<I: Io>(core: &Core, replies: Vec<QuotaReply>, io: &mut I) {
    let now = core.common.now();
    let mut send = |to, reply| io.post(to, Message(Payload::QuotaReply(now, Box::new(reply))), None);
    for reply in replies {
        match reply {
            QuotaReply::Answer { to, .. } | QuotaReply::Evict { to, .. } | QuotaReply::KeepAtMost { to, .. } => {
                send(to, reply);
            }
            QuotaReply::FindIdle { .. } | QuotaReply::StopFinding { .. } => {
                (0..core.common.workers()).for_each(|worker| send(WorkerId(worker), reply.clone()));
            }
        }
    }
}
