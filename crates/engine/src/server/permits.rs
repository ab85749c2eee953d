//! Servers under limits of the process: what a pool requests of worker 0 before it opens one.

use weir_base::{Span, Time};

use crate::common::{FollowUp, UnderWay};
use crate::core::Core;
use crate::handles::PoolIx;
use crate::lending::messages;
use crate::port::Io;
use crate::server::{idle, open};
use crate::workers::quota::{PoolId, QuotaReply, QuotaRequest, Resource};
use crate::workers::send::request;

/// When a pool that must be kept filled requests again after a refusal.
const FILL_RETRY: Span = Span::from_secs(1);

/// Handles an answer or instruction of worker 0.
pub(crate) fn quota_replied<I: Io>(core: &mut Core, now: Time, at: Time, reply: QuotaReply, io: &mut I) {
    match reply {
        // A client that logs in gets this answer.
        QuotaReply::Answer { resource: Resource::Client(_), .. } => {}
        QuotaReply::Answer { id, resource: Resource::Server(pool), full, .. } => {
            server_answered(core, now, id, pool, full.is_none().then_some(at), io);
        }
        QuotaReply::FindIdle { key, round, spared } => {
            let longest = idle::longest_idle(core, &key, &spared);
            core.idle_search.begin(&mut core.common, key.clone(), spared);
            request(QuotaRequest::Idle { key, round: Some(round), longest }, io);
        }
        QuotaReply::StopFinding { key } => core.idle_search.end(&mut core.common, &key),
        QuotaReply::Evict { pool, key, .. } => {
            core.idle_search.begin_again(&key);
            let ix = core.pools.find(&pool.database, &pool.user);
            match ix.filter(|ix| core.pools.get_mut(*ix).pool.evict()) {
                Some(ix) => core.common.follow_up(FollowUp::PollPool(ix)),
                None => request(QuotaRequest::NotIdle { key }, io),
            }
        }
        QuotaReply::KeepAtMost { pool, servers, .. } => {
            if let Some(ix) = core.pools.find(&pool.database, &pool.user) {
                core.pools.get_mut(ix).pool.keep_at_most(servers);
                core.common.follow_up(FollowUp::PollPool(ix));
            }
        }
    }
}

/// The pool needs to open a server: now, or when its request is granted.
pub(crate) fn may_open<I: Io>(core: &mut Core, now: Time, ix: PoolIx, io: &mut I) {
    let slot = core.pools.get_mut(ix);
    if core.common.is_under_way(UnderWay::EXPORT) && slot.pool.oldest_wait().is_none() {
        // Servers without a waiting client are opened by the process that takes over.
        return slot.pool.open_declined(now + FILL_RETRY, now);
    }
    if slot.lending.is_borrower() {
        return messages::request_from_owner(core, now, ix, io);
    }
    if !slot.quota.is_limited() {
        return open::open_when_admitted(core, now, ix, io);
    }
    let (id, pool) = (core.common.next_id(), slot.id());
    request(slot.quota.request(id, pool, slot.pool.oldest_wait()), io);
}

fn server_answered<I: Io>(core: &mut Core, now: Time, id: u64, pool: PoolId, granted_at: Option<Time>, io: &mut I) {
    let granted = granted_at.is_some();
    let ix = core.pools.find(&pool.database, &pool.user);
    let Some(ix) = ix.filter(|ix| core.pools.get_mut(*ix).quota.answered(id, granted_at)) else {
        // The request was cancelled since then.
        return if granted {
            request(QuotaRequest::Release { resource: Resource::Server(pool), count: 1 }, io);
        };
    };
    let slot = core.pools.get_mut(ix);
    if granted && slot.pool.wants_server() {
        open::open_when_admitted(core, now, ix, io);
    } else {
        slot.pool.open_declined(if granted { now } else { now + FILL_RETRY }, now);
    }
    core.common.follow_up(FollowUp::PollPool(ix));
}

/// A server has arrived in a pool from another process: it is counted, whatever the limit.
pub(crate) fn count_imported<I: Io>(core: &mut Core, ix: PoolIx, io: &mut I) {
    let slot = core.pools.get_mut(ix);
    if slot.quota.is_limited() {
        slot.quota.add();
        request(QuotaRequest::Add { resource: Resource::Server(slot.id()), count: 1 }, io);
    }
}

/// Cancels a request that the pool does not need any more, and releases what it does not use.
pub(crate) fn reconcile_quota<I: Io>(core: &mut Core, now: Time, ix: PoolIx, io: &mut I) {
    let slot = core.pools.get_mut(ix);
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
pub(crate) fn limit_pool<I: Io>(core: &mut Core, now: Time, ix: PoolIx, io: &mut I) {
    let slot = core.pools.get(ix);
    // A borrower's servers were granted to the owner.
    let limited = core.common.config().is_limited(&slot.name, &slot.user) && !slot.lending.is_borrower();
    let begins = limited && !slot.quota.is_limited();
    if begins {
        // The pool must request a server first.
        open::stop_waiting_for_host(core, now, ix);
    }
    let slot = core.pools.get_mut(ix);
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
        // Worker 0 says so, too; until then a server would be closed as soon as it is open.
        slot.pool.keep_at_most(None);
        let count = slot.quota.end();
        if count > 0 {
            request(QuotaRequest::Release { resource, count }, io);
        }
    }
}
