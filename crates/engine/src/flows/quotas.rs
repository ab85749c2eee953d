//! Clients and servers under limits of the process: between clients, pools and worker 0's counts.

use std::sync::Arc;

use weir_admin::SharedLimits;
use weir_base::{ClientAddr, Peer, Span, Time, WorkerId};
use weir_config::Config;
use weir_session::Refusal;

use crate::cluster::budget::{NodeBudget, database_of};
use crate::cluster::messages::{Message, Payload};
use crate::cluster::quota::clients::{limits_clients, refusal};
use crate::cluster::quota::{ClientUse, Key, PoolId, QuotaReply, QuotaRequest, Resource};
use crate::common::FollowUp;
use crate::engine::Engine;
use crate::entry::state::Awaits;
use crate::handles::PoolIx;
use crate::log::log;
use crate::peers::{ClientPhase, ClientSlot, Entry};
use crate::port::{Io, Level};
use crate::timers::Who;

/// The worker that counts.
const COUNTER: WorkerId = WorkerId(0);
/// When a pool that must be kept filled requests again after a refusal.
const FILL_RETRY: Span = Span::from_secs(1);

/// Worker 0.
impl Engine {
    /// Handles a worker's request.
    pub(crate) fn quota_requested<I: Io>(&mut self, now: Time, from: WorkerId, request: QuotaRequest, io: &mut I) {
        let (config, workers, budget) = (self.common.config(), self.common.workers(), &self.cluster.budget);
        let limit = |key: &Key| limit(key, now, config, budget);
        let replies = self.cluster.counter.receive(from, request, workers, &limit);
        self.send_quota_replies(replies, io);
        self.check_departed(io);
    }

    /// The server has ended a connection that was closed here: another one may be opened.
    pub(crate) fn shared_server_ended<I: Io>(&mut self, now: Time, database: &str, io: &mut I) {
        self.cluster.budget.ended(database);
        self.shrink_shared(now, io);
        self.check_departed(io);
    }

    /// Other limits of the pools that nodes share; returns what is open of each.
    pub(crate) fn set_shared_limits<I: Io>(
        &mut self,
        now: Time,
        limits: SharedLimits,
        io: &mut I,
    ) -> Vec<(String, u32, u32)> {
        let (until, peers) = (limits.until, limits.peers.clone());
        let obstacle: Option<Arc<str>> = limits.view.obstacle().map(Arc::from);
        if *self.cluster.budget.peers() != peers {
            let message = || Message(Payload::Peers(peers.clone()));
            (0..self.common.workers()).for_each(|to| io.post(WorkerId(to), message(), None));
        }
        let counter = &self.cluster.counter;
        if self.cluster.budget.set(limits, |name| counter.servers_of(name)) {
            let message = || Message(Payload::Lease(until, obstacle.clone()));
            (0..self.common.workers()).for_each(|to| io.post(WorkerId(to), message(), None));
        }
        self.shrink_shared(now, io);
        let (counter, budget) = (&self.cluster.counter, &self.cluster.budget);
        let open = |name: &String| counter.servers_of(name) + budget.ending_of(name);
        budget.pools().map(|name| (name.clone(), open(name), budget.left_to_other(name))).collect()
    }

    /// Limits of pools that nodes share have expired.
    pub(crate) fn budget_due<I: Io>(&mut self, now: Time, io: &mut I) {
        self.cluster.budget.armed = Time::NEVER;
        if self.cluster.budget.due(now) {
            let (counter, budget) = (&self.cluster.counter, &self.cluster.budget);
            let beyond = |name: &&String| counter.servers_of(name) > budget.allowed(now, name);
            for database in budget.pools().filter(beyond) {
                log(Level::Warning, format_args!("{database}: servers in use are closed: etcd can't be reached"), io);
                let close = || Message(Payload::CloseServers(database.as_str().into()));
                (0..self.common.workers()).for_each(|worker| io.post(WorkerId(worker), close(), None));
            }
        }
        self.shrink_shared(now, io);
    }

    /// Closes idle servers beyond the limits of pools that nodes share, and grants what fits.
    fn shrink_shared<I: Io>(&mut self, now: Time, io: &mut I) {
        let (config, workers, budget) = (self.common.config(), self.common.workers(), &self.cluster.budget);
        let beyond = |key: &Key, count: u32| {
            let name = database_of(key).filter(|name| config.shared_budget(name).is_some());
            name.is_some_and(|name| count > budget.allowed(now, name))
        };
        let limit = |key: &Key| limit(key, now, config, budget);
        let replies = self.cluster.counter.shrink(workers, &limit, &beyond);
        let excess = |name: &String| self.cluster.counter.servers_of(name).saturating_sub(budget.allowed(now, name));
        for (name, excess) in budget.pools().map(|name| (name, excess(name))).filter(|(_, excess)| *excess > 0) {
            let close = || Message(Payload::CloseReleased(name.as_str().into(), excess));
            (0..workers).for_each(|worker| io.post(WorkerId(worker), close(), None));
        }
        self.send_quota_replies(replies, io);
        let due = self.cluster.budget.next_due(now);
        self.common.arm(Who::Budget, due, &mut self.cluster.budget.armed);
    }

    /// A shared database has this many servers too many: those that idle ones don't cover are closed as they are
    /// released.
    pub(crate) fn close_released(&mut self, now: Time, database: &str, excess: u32) {
        let pools = self.pools.named(Some(database));
        let idle: u32 = pools.iter().map(|ix| self.pools.get(*ix).pool.snapshot(now).idle).sum();
        let servers = || self.peers.servers().filter(|s| pools.contains(&s.pool) && s.link.is_some());
        let marked = servers().filter(|server| server.marked_for_close).count();
        let more = (excess.saturating_sub(idle) as usize).saturating_sub(marked);
        let found: Vec<Peer> = servers().filter(|s| !s.marked_for_close).take(more).map(|s| s.peer).collect();
        for peer in found {
            if let Some(server) = self.peers.server(peer) {
                server.marked_for_close = true;
            }
        }
    }

    /// All servers of a database are closed, those in use too: another node may get their permits.
    pub(crate) fn close_servers_of<I: Io>(&mut self, now: Time, database: &str, io: &mut I) {
        let pools = self.pools.named(Some(database));
        let servers = || self.peers.servers().filter(|s| pools.contains(&s.pool));
        let found: Vec<(Peer, Option<Peer>)> = servers().map(|s| (s.peer, s.link)).collect();
        let (why, refusal) = match self.admin.shutdown.is_draining() {
            true => ("server shutting down", Refusal::ServersShuttingDown),
            false => ("the cluster's lease has ended", Refusal::ServerLost),
        };
        for (server, client) in found {
            if let Some(client) = client {
                self.refuse_handle(now, client, refusal.clone(), io);
            }
            self.close_server(now, server, why, io);
        }
    }

    /// A new configuration may allow more.
    pub(crate) fn limits_changed<I: Io>(&mut self, now: Time, io: &mut I) {
        if self.common.worker() == COUNTER {
            let (config, workers, budget) = (self.common.config(), self.common.workers(), &self.cluster.budget);
            let limit = |key: &Key| limit(key, now, config, budget);
            let replies = self.cluster.counter.limits_changed(workers, &limit);
            self.send_quota_replies(replies, io);
        }
    }

    fn send_quota_replies<I: Io>(&self, replies: Vec<QuotaReply>, io: &mut I) {
        let now = self.common.now();
        let mut send = |to, reply| io.post(to, Message(Payload::QuotaReply(now, Box::new(reply))), None);
        for reply in replies {
            match reply {
                QuotaReply::Answer { to, .. } | QuotaReply::Evict { to, .. } => send(to, reply),
                QuotaReply::FindIdle { .. } | QuotaReply::StopFinding { .. } => {
                    (0..self.common.workers()).for_each(|worker| send(WorkerId(worker), reply.clone()));
                }
            }
        }
    }
}

/// Clients.
impl Engine {
    /// A client is authenticated: it is admitted, now or when worker 0 has answered.
    pub(crate) fn enter<I: Io>(&mut self, now: Time, mut client: Box<ClientSlot>, io: &mut I) {
        let counts_for = if limits_clients(self.common.config()) { self.client_use(&client) } else { None };
        let Some(counts_for) = counts_for else { return self.entered(now, client, io) };
        if weir_admin::is_console(&counts_for.database)
            && self.entry.logins.role(self.common.config(), &client) == Some(weir_admin::Role::Admin)
        {
            // An administrator is counted, but always admitted.
            self.count_in(&mut client, counts_for, io);
            return self.entered(now, client, io);
        }
        let id = self.common.next_id();
        if let ClientPhase::Login(phase) = &mut client.phase {
            phase.set_awaits(Awaits::Quota(id));
        }
        request(self.cluster.clients.request(id, client.peer, counts_for), io);
        self.insert_waiting(client, io);
    }

    /// Handles worker 0's answer about a client.
    fn client_answered<I: Io>(&mut self, now: Time, id: u64, counts_for: ClientUse, full: Option<Key>, io: &mut I) {
        let waits = |client: &ClientSlot| matches!(&client.phase, ClientPhase::Login(phase) if phase.awaits() == Awaits::Quota(id));
        let peer = self.cluster.clients.answered(id);
        let peer = peer.filter(|peer| self.peers.get_client(*peer).is_some_and(waits));
        match (peer.and_then(|peer| self.peers.take_client(peer)), full) {
            (Some(mut client), None) => {
                client.counts_for = Some(Box::new(counts_for));
                if let ClientPhase::Login(phase) = &mut client.phase {
                    phase.set_awaits(Awaits::Client);
                }
                self.unpause_client(&mut client, io);
                self.entered(now, client, io);
            }
            (Some(client), Some(full)) => self.refuse(now, client, refusal(&full), io),
            // It has disconnected since then.
            (None, None) => request(QuotaRequest::Release { resource: Resource::Client(counts_for), count: 1 }, io),
            (None, Some(_)) => {}
        }
    }

    /// Counts the clients that were admitted when no limit was set.
    pub(crate) fn count_uncounted<I: Io>(&mut self, io: &mut I) {
        if !limits_clients(self.common.config()) {
            return;
        }
        let is_in = |client: &&ClientSlot| {
            client.counts_for.is_none()
                && matches!(
                    client.phase,
                    ClientPhase::Ready(_)
                        | ClientPhase::Streaming(_)
                        | ClientPhase::Welcome(_)
                        | ClientPhase::Console(_)
                )
        };
        let uncounted: Vec<Peer> = self.peers.clients().filter(is_in).map(|client| client.peer).collect();
        for peer in uncounted {
            let Some(mut client) = self.peers.take_client(peer) else { continue };
            if let Some(counts_for) = self.client_use(&client) {
                self.count_in(&mut client, counts_for, io);
            }
            self.peers.put(peer, Entry::Client(client));
        }
    }

    fn count_in<I: Io>(&mut self, client: &mut ClientSlot, counts_for: ClientUse, io: &mut I) {
        client.counts_for = Some(Box::new(counts_for.clone()));
        request(QuotaRequest::Add { resource: Resource::Client(counts_for), count: 1 }, io);
    }

    /// The keys under which a client counts; none before it has named a database.
    fn client_use(&self, client: &ClientSlot) -> Option<ClientUse> {
        let database: Arc<str> = self.database_of(client).into();
        let address = match client.addr {
            ClientAddr::Tcp(from) => Some(from.ip().to_canonical()),
            ClientAddr::Unix { .. } => None,
        };
        (!database.is_empty()).then(|| ClientUse { database, user: client.user.clone(), address })
    }

    /// A client has disconnected, in any phase.
    pub(crate) fn uncount_client<I: Io>(&mut self, client: &mut ClientSlot, io: &mut I) {
        if matches!(client.phase, ClientPhase::Delayed(_)) {
            self.entry.throttle.delay_over();
        }
        if let Some(counts_for) = client.counts_for.take() {
            request(QuotaRequest::Release { resource: Resource::Client(*counts_for), count: 1 }, io);
        }
        if self.common.worker() == COUNTER {
            self.cluster.clients.remove();
        } else {
            io.post(COUNTER, Message(Payload::ClientGone), None);
        }
    }

    /// The clients that are admitted on this worker: database, user and address. For tests and the simulator.
    pub fn inside(&self) -> impl Iterator<Item = (&str, &str, &ClientAddr)> {
        let clients = self
            .peers
            .clients()
            .filter(|c| matches!(c.phase, ClientPhase::Ready(_) | ClientPhase::Streaming(_) | ClientPhase::Welcome(_)));
        clients.map(|client| (self.database_of(client), &*client.user, &client.addr))
    }
}

/// Servers.
impl Engine {
    /// The pool needs to open a server: now, or when its request is granted.
    pub(crate) fn may_open<I: Io>(&mut self, now: Time, ix: PoolIx, io: &mut I) {
        let slot = self.pools.get_mut(ix);
        if self.takeover.is_giving() && slot.pool.oldest_wait().is_none() {
            // Servers without a waiting client are opened by the process that takes over.
            return slot.pool.open_declined(now + FILL_RETRY, now);
        }
        if slot.lending.is_borrower() {
            return self.request_from_owner(now, ix, io);
        }
        if !slot.quota.is_limited() {
            return self.open_when_admitted(now, ix, io);
        }
        let (id, pool) = (self.common.next_id(), slot.id());
        request(slot.quota.request(id, pool, slot.pool.oldest_wait()), io);
    }

    /// Handles an answer or instruction of worker 0.
    pub(crate) fn quota_replied<I: Io>(&mut self, now: Time, at: Time, reply: QuotaReply, io: &mut I) {
        match reply {
            QuotaReply::Answer { id, resource: Resource::Client(counts_for), full, .. } => {
                self.client_answered(now, id, counts_for, full, io);
            }
            QuotaReply::Answer { id, resource: Resource::Server(pool), full, .. } => {
                self.server_answered(now, id, pool, full.is_none().then_some(at), io);
            }
            QuotaReply::FindIdle { key, round } => {
                let longest = self.longest_idle(&key);
                self.cluster.idle_search.begin(key.clone());
                request(QuotaRequest::Idle { key, round: Some(round), longest }, io);
            }
            QuotaReply::StopFinding { key } => self.cluster.idle_search.end(&key),
            QuotaReply::Evict { pool, key, .. } => {
                self.cluster.idle_search.begin_again(&key);
                let ix = self.pools.find(&pool.database, &pool.user);
                match ix.filter(|ix| self.pools.get_mut(*ix).pool.evict()) {
                    Some(ix) => self.common.follow_up(FollowUp::PollPool(ix)),
                    None => request(QuotaRequest::NotIdle { key }, io),
                }
            }
        }
    }

    fn server_answered<I: Io>(&mut self, now: Time, id: u64, pool: PoolId, granted_at: Option<Time>, io: &mut I) {
        let granted = granted_at.is_some();
        let ix = self.pools.find(&pool.database, &pool.user);
        let Some(ix) = ix.filter(|ix| self.pools.get_mut(*ix).quota.answered(id, granted_at)) else {
            // It was cancelled since then.
            return if granted {
                request(QuotaRequest::Release { resource: Resource::Server(pool), count: 1 }, io);
            };
        };
        let slot = self.pools.get_mut(ix);
        if granted && slot.pool.wants_server() {
            self.open_when_admitted(now, ix, io);
        } else {
            slot.pool.open_declined(if granted { now } else { now + FILL_RETRY }, now);
        }
        self.common.follow_up(FollowUp::PollPool(ix));
    }

    /// A server has arrived in a pool from another process: it is counted, whatever the limit.
    pub(crate) fn count_inherited<I: Io>(&mut self, ix: PoolIx, io: &mut I) {
        let slot = self.pools.get_mut(ix);
        if slot.quota.is_limited() {
            slot.quota.add();
            request(QuotaRequest::Add { resource: Resource::Server(slot.id()), count: 1 }, io);
        }
    }

    /// Counts a client that has arrived from another process, whatever the limit.
    pub(crate) fn count_inherited_client<I: Io>(&mut self, client: &mut ClientSlot, io: &mut I) {
        if self.common.worker() == COUNTER {
            self.cluster.clients.add();
        } else {
            io.post(COUNTER, Message(Payload::ClientCame), None);
        }
        if limits_clients(self.common.config())
            && let Some(counts_for) = self.client_use(client)
        {
            self.count_in(client, counts_for, io);
        }
    }

    /// Cancels a request that the pool does not need any more, and releases what it does not use.
    pub(crate) fn reconcile_quota<I: Io>(&mut self, now: Time, ix: PoolIx, io: &mut I) {
        let slot = self.pools.get_mut(ix);
        if !slot.quota.is_limited() {
            return;
        }
        if !slot.pool.wants_server()
            && let Some(cancel) = slot.quota.cancel()
        {
            slot.pool.open_declined(now, now);
            request(cancel, io);
        }
        // A server that waits for the login throttle has been granted already.
        let in_use = slot.pool.len() as u32 + u32::from(slot.login.waits());
        match slot.quota.take_surplus(in_use) {
            0 => {}
            count => request(QuotaRequest::Release { resource: Resource::Server(slot.id()), count }, io),
        }
    }

    /// Whether a limit applies to a pool may have changed.
    pub(crate) fn limit_pool<I: Io>(&mut self, now: Time, ix: PoolIx, io: &mut I) {
        let slot = self.pools.get(ix);
        // A borrower's servers were granted to the owner.
        let limited = self.common.config().is_limited(&slot.name, &slot.user) && !slot.lending.is_borrower();
        let begins = limited && !slot.quota.is_limited();
        if begins {
            // It must request first.
            self.stop_waiting_for_host(now, ix);
        }
        let slot = self.pools.get_mut(ix);
        let resource = Resource::Server(slot.id());
        if begins {
            let count = slot.pool.len() as u32;
            slot.quota.begin(count);
            if count > 0 {
                request(QuotaRequest::Add { resource, count }, io);
            }
        } else if !limited && slot.quota.is_limited() {
            if let Some(cancel) = slot.quota.cancel() {
                slot.pool.open_declined(now, now);
                request(cancel, io);
            }
            let count = slot.quota.end();
            if count > 0 {
                request(QuotaRequest::Release { resource, count }, io);
            }
        }
    }

    /// A server of a pool has become idle: reports it to worker 0 if that searches for one.
    #[inline]
    pub(crate) fn report_idle<I: Io>(&mut self, ix: PoolIx, io: &mut I) {
        if !self.cluster.idle_search.is_empty() {
            self.report_idle_now(ix, io);
        }
    }

    #[cold]
    fn report_idle_now<I: Io>(&mut self, ix: PoolIx, io: &mut I) {
        let slot = self.pools.get(ix);
        let Some(since) = slot.pool.longest_idle() else { return };
        for key in self.cluster.idle_search.report(&slot.name, &slot.user) {
            request(QuotaRequest::Idle { key, round: None, longest: Some((since, slot.id())) }, io);
        }
    }

    fn longest_idle(&self, key: &Key) -> Option<(Time, PoolId)> {
        let slots = self.pools.iter().filter(|slot| key.covers(&slot.name, &slot.user));
        let idle = slots.filter_map(|slot| Some((slot.pool.longest_idle()?, slot)));
        idle.min_by_key(|(since, _)| *since).map(|(since, slot)| (since, slot.id()))
    }
}

/// A key's limit; 0 is unlimited. The share of a node replaces the configured limit of all nodes.
fn limit(key: &Key, now: Time, config: &Config, budget: &NodeBudget) -> u32 {
    match database_of(key) {
        Some(name) if config.shared_budget(name).is_some() => budget.limit(now, name),
        _ => key.limit(config),
    }
}

/// Sends a request to worker 0, which may be this one.
fn request<I: Io>(request: QuotaRequest, io: &mut I) {
    io.post(COUNTER, Message(Payload::QuotaRequest(Box::new(request))), None);
}
