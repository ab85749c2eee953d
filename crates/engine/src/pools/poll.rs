//! A pool is polled until it wants nothing.

use weir_base::{ConnId, Span, Time, WorkerId};
use weir_config::FileFormat;
use weir_pool::{Effect, RefuseReason};

use crate::client_login::auth_query;
use crate::common::{Common, FollowUp, UnderWay};
use crate::core::Core;
use crate::handles::{PoolIx, Waiter};
use crate::lending::state::ToInform;
use crate::lending::{messages, received};
use crate::link::{acquire, leave};
use crate::listen;
use crate::log::log;
use crate::pause::watch;
use crate::pools::{apply_config, refuse};
use crate::port::{Io, Level};
use crate::server::{open, permits};
use crate::timers::Who;
use crate::workers::messages::{Message, Payload};

/// The SQLSTATE of a server without such a database.
const NO_SUCH_DATABASE: &str = "3D000";

/// PgBouncer's line for a pool that `pool_idle_timeout` ends.
fn log_forgotten<I: Io>(core: &Core, now: Time, ix: PoolIx, io: &mut I) {
    let slot = core.pools.get(ix);
    if after(slot.idle_since, core.common.config().pool_idle_timeout) <= now {
        let age = now.since(slot.idle_since).micros() / 1_000_000;
        let (user, name) = (&slot.user, &slot.name);
        let text = format_args!("cleaning up idle pool for user {user} on db {name}");
        log(Level::Info, format_args!("{text} because: pool idle timeout (age={age}s)"), io);
    }
}

/// When an unused pool is dropped, with its statistics.
fn forget_at(core: &mut Core, now: Time, ix: PoolIx) -> Time {
    let slot = core.pools.get_mut(ix);
    let idle = slot.is_idle();
    slot.idle_since = if idle { slot.idle_since.min(now) } else { Time::NEVER };
    slot.empty_since = if idle && slot.pool.is_empty() { slot.empty_since.min(now) } else { Time::NEVER };
    if slot.removed || !idle {
        return Time::NEVER;
    }
    let (config, slot) = (core.common.config(), core.pools.get(ix));
    let kept = slot.config.user.is_some() && slot.config.limits.min_size > 0;
    let idle = if kept { Time::NEVER } else { after(slot.idle_since, config.pool_idle_timeout) };
    if slot.empty_since == Time::NEVER || !config.is_on_demand(&slot.name) {
        return idle;
    }
    let unknown = slot.failures.last().is_some_and(|(error, _)| error.sqlstate == NO_SUCH_DATABASE);
    let empty = match &slot.welcome {
        _ if unknown => now,
        // A pool that never had a login is kept only for the pause after a failed login.
        None => slot.pool.snapshot(now).retry_at.unwrap_or(now),
        Some(_) => after(slot.empty_since, config.autodb_idle_timeout),
    };
    idle.min(empty)
}

/// A waiter in the pool's queue gets no server.
fn refuse_waiting<I: Io>(
    core: &mut Core,
    now: Time,
    ix: PoolIx,
    client: ConnId,
    why: RefuseReason,
    waited: Span,
    io: &mut I,
) {
    let waiter = Waiter::of(client);
    if let Waiter::Borrower(request) = waiter {
        return messages::refuse_request(core, now, ix, request, why, io);
    }
    core.pools.get_mut(ix).counts.waited(waited);
    if why == RefuseReason::WaitTimeout && messages::is_borrower(core, ix) {
        return messages::request_cause(core, ix, ToInform::Refused(client));
    }
    let refusal = match why {
        RefuseReason::WaitTimeout => refuse::wait_timed_out(core, now, ix, io),
        why => refuse::refusal(core, ix, why),
    };
    match waiter {
        Waiter::Client(client) => leave::refuse_handle(core, now, client, refusal, io),
        Waiter::AuthQuery(query) => auth_query::end(core, query, Err(refusal), io),
        Waiter::Listener(_) => listen::server::refused(core, now, ix),
        Waiter::Borrower(_) => {}
    }
}

fn effect<I: Io>(core: &mut Core, now: Time, ix: PoolIx, effect: Effect, io: &mut I) {
    match effect {
        Effect::Open => permits::may_open(core, now, ix, io),
        Effect::Close { server, reason } => open::pool_closes(core, now, server, reason, io),
        Effect::Notice { client, .. } if messages::is_borrower(core, ix) => {
            messages::request_cause(core, ix, ToInform::Notified(client))
        }
        Effect::Refuse { client, why, waited } => refuse_waiting(core, now, ix, client, why, waited, io),
        Effect::Notice { client, .. } => refuse::notify_waiting(core, now, ix, client, io),
        Effect::Grant { client, server, waited, check } => {
            acquire::grant(core, now, (client, Some(waited)), server, check, io);
        }
    }
}

fn poll<I: Io>(core: &mut Core, now: Time, ix: PoolIx, io: &mut I) {
    while let Some(wanted) = core.pools.get_mut(ix).pool.poll(now) {
        effect(core, now, ix, wanted, io);
    }
}

/// Carries out a pool's requests until there are none, and sets its timer.
pub(crate) fn poll_pool<I: Io>(core: &mut Core, now: Time, ix: PoolIx, io: &mut I) {
    apply_config::catch_up(core, now, ix, io);
    if core.pools.find_mut(ix).is_none() {
        return;
    }
    if core.common.is_under_way(UnderWay::SUSPEND) {
        // RESUME polls it again.
        messages::report_closed(core, ix, io);
    } else {
        settle(core, now, ix, io);
    }
    if let Some(slot) = core.pools.find_mut(ix) {
        slot.polled();
        report_trouble(core, now, ix, io);
    }
}

/// A pool has changed: if it is in trouble, worker 0 receives a message, once until its next look. The log of a
/// `pgbouncer.ini` has no lines about that.
fn report_trouble<I: Io>(core: &mut Core, now: Time, ix: PoolIx, io: &mut I) {
    let slot = core.pools.get(ix);
    let fails = || slot.failures.last().is_some() || slot.lost_servers.is_failing(now);
    let trouble = slot.pool.oldest_wait().is_some() || fails();
    if trouble {
        announce_trouble(&mut core.common, io);
    }
}

/// A pool of this worker may have a problem: worker 0 receives a message, once until its next look.
pub(crate) fn announce_trouble<I: Io>(common: &mut Common, io: &mut I) {
    if common.set_under_way(UnderWay::HEALTH_CHECK, true) && common.config().format == FileFormat::Toml {
        io.post(WorkerId(0), Message(Payload::Trouble), None);
    }
}

fn settle<I: Io>(core: &mut Core, now: Time, ix: PoolIx, io: &mut I) {
    poll(core, now, ix, io);
    let again = received::settle(core, now, ix, io).min(listen::server::settle(core, now, ix, io));
    auth_query::end_unreached(core, now, ix, io);
    poll(core, now, ix, io);
    open::check_login(core, now, ix, io);
    permits::reconcile_quota(core, now, ix, io);
    let forgotten = forget_at(core, now, ix);
    let slot = core.pools.get_mut(ix);
    let deadline = slot.pool.next_deadline().min(forgotten).min(again);
    core.common.arm(Who::Pool(ix), deadline, &mut slot.armed);
    if slot.removed && slot.is_vacant() {
        core.refusals.keep(core.pools.get(ix));
        core.pools.free(ix);
    } else if forgotten <= now {
        log_forgotten(core, now, ix, io);
        messages::recall(core, ix, io);
        core.pools.remove(ix);
        core.common.follow_up(FollowUp::PollPool(ix));
    }
    if core.common.is_under_way(UnderWay::AWAITS_IDLE) {
        watch::check_watches(core, io);
    }
}

/// A time after another one; never after never, and never for a span of zero.
fn after(since: Time, span: Span) -> Time {
    if since == Time::NEVER { Time::NEVER } else { since.deadline(span) }
}
