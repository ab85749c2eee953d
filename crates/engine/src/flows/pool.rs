//! Polls a pool until it wants nothing.

use weir_base::{Peer, Span, Time};
use weir_pool::{Effect, RefuseReason};

use crate::cluster::lending::ToInform;
use crate::common::FollowUp;
use crate::engine::Engine;
use crate::handles::{PoolIx, Waiter};
use crate::log::log;
use crate::port::{Io, Level};
use crate::timers::Who;

/// The SQLSTATE of a server without such a database.
const NO_SUCH_DATABASE: &str = "3D000";

impl Engine {
    /// Carries out a pool's requests until there are none, and sets its timer.
    pub(crate) fn poll_pool<I: Io>(&mut self, now: Time, ix: PoolIx, io: &mut I) {
        if self.pools.find_mut(ix).is_none() {
            return;
        }
        if self.admin.halt.is_suspended() {
            // RESUME polls it again.
            return self.report_closed(ix, io);
        }
        self.poll(now, ix, io);
        let again = self.settle_lending(now, ix, io);
        self.poll(now, ix, io);
        self.check_login(now, ix, io);
        self.reconcile_quota(now, ix, io);
        self.check_trouble(ix, io);
        let forget_at = self.forget_at(now, ix);
        let slot = self.pools.get_mut(ix);
        let deadline = slot.pool.next_deadline().min(forget_at).min(again);
        self.common.arm(Who::Pool(ix), deadline, &mut slot.armed);
        if slot.removed && slot.is_vacant() {
            self.admin.refusals.keep(self.pools.get(ix));
            self.pools.free(ix);
        } else if forget_at <= now {
            self.log_forgotten(now, ix, io);
            self.recall(ix, io);
            self.pools.remove(ix);
            self.common.follow_up(FollowUp::PollPool(ix));
        }
        if self.admin.is_watching() {
            self.check_watches(io);
        }
    }

    fn poll<I: Io>(&mut self, now: Time, ix: PoolIx, io: &mut I) {
        while let Some(effect) = self.pools.get_mut(ix).pool.poll(now) {
            self.effect(now, ix, effect, io);
        }
    }

    fn effect<I: Io>(&mut self, now: Time, ix: PoolIx, effect: Effect, io: &mut I) {
        match effect {
            Effect::Open => self.may_open(now, ix, io),
            Effect::Close { server, reason } => self.pool_closes(now, server, reason, io),
            Effect::Notice { client, .. } if self.is_borrower(ix) => self.request_cause(ix, ToInform::Notified(client)),
            Effect::Refuse { client, why, waited } => self.refuse_waiting(now, ix, client, why, waited, io),
            Effect::Notice { client, .. } => self.notify_waiting(now, ix, client, io),
            Effect::Grant { client, server, waited, check } => {
                self.count_wait(ix, client, waited);
                self.grant(now, client, server, check, io);
            }
        }
    }

    /// A waiter in the pool's queue gets no server.
    fn refuse_waiting<I: Io>(
        &mut self,
        now: Time,
        ix: PoolIx,
        client: Peer,
        why: RefuseReason,
        waited: Span,
        io: &mut I,
    ) {
        let waiter = Waiter::of(client);
        if let Waiter::Borrower(request) = waiter {
            return self.refuse_request(now, ix, request, why, io);
        }
        self.pools.get_mut(ix).counts.waited(waited);
        if why == RefuseReason::WaitTimeout && self.is_borrower(ix) {
            return self.request_cause(ix, ToInform::Refused(client));
        }
        let refusal = match why {
            RefuseReason::WaitTimeout => self.wait_timed_out(now, ix, io),
            why => self.refusal(ix, why),
        };
        match waiter {
            Waiter::Client(client) => self.refuse_handle(now, client, refusal, io),
            Waiter::AuthQuery(query) => self.end_auth_query(query, Err(refusal), io),
            Waiter::Borrower(_) => {}
        }
    }

    /// PgBouncer's line for a pool that `pool_idle_timeout` ends.
    fn log_forgotten<I: Io>(&self, now: Time, ix: PoolIx, io: &mut I) {
        let slot = self.pools.get(ix);
        if after(slot.idle_since, self.common.config().pool_idle_timeout) <= now {
            let age = now.since(slot.idle_since).micros() / 1_000_000;
            let (user, name) = (&slot.user, &slot.name);
            let text = format_args!("cleaning up idle pool for user {user} on db {name}");
            log(Level::Info, format_args!("{text} because: pool idle timeout (age={age}s)"), io);
        }
    }

    /// When an unused pool is dropped, with its statistics.
    fn forget_at(&mut self, now: Time, ix: PoolIx) -> Time {
        let slot = self.pools.get_mut(ix);
        let idle = slot.is_idle();
        slot.idle_since = if idle { slot.idle_since.min(now) } else { Time::NEVER };
        slot.empty_since = if idle && slot.pool.is_empty() { slot.empty_since.min(now) } else { Time::NEVER };
        if slot.removed || !idle {
            return Time::NEVER;
        }
        let (config, slot) = (self.common.config(), self.pools.get(ix));
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
}

/// A time after another one; never after never, and never for a span of zero.
fn after(since: Time, span: Span) -> Time {
    if since == Time::NEVER { Time::NEVER } else { since.deadline(span) }
}
