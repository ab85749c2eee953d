//! A pool is asked what it wants, until it wants nothing.

use weir_base::{Span, Time};
use weir_pool::Effect;
use weir_pool::lending::BorrowRequest;

use crate::Engine;
use crate::cluster::state::Asker;
use crate::common::FollowUp;
use crate::handles::{PoolIx, Waiter};
use crate::port::Io;
use crate::timers::Who;

/// The SQLSTATE of a server that knows no such database.
const NO_SUCH_DATABASE: &str = "3D000";

impl Engine {
    /// Does what a pool asks for, until it asks for nothing, and sees to it that it is asked again in time.
    pub(crate) fn poll_pool<I: Io>(&mut self, now: Time, ix: PoolIx, io: &mut I) {
        if self.pools.find_mut(ix).is_none() {
            return;
        }
        if self.admin.halt.is_suspended() {
            // RESUME makes up for a suspension.
            return self.tell_ended(ix, io);
        }
        self.poll(now, ix, io);
        let again = self.settle_loans(now, ix, io);
        self.poll(now, ix, io);
        self.check_login(now, ix, io);
        self.square_permits(now, ix, io);
        let forget_at = self.forget_at(now, ix);
        let slot = self.pools.get_mut(ix);
        let deadline = slot.pool.next_deadline().min(forget_at).min(again);
        self.common.arm(Who::Pool(ix), deadline, &mut slot.armed);
        if slot.removed && slot.is_vacant() {
            self.admin.refusals.keep(self.pools.get(ix));
            self.pools.free(ix);
        } else if forget_at <= now {
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
            Effect::Refuse { client, why, .. } if BorrowRequest::from_handle(client).is_some() => {
                BorrowRequest::from_handle(client).into_iter().for_each(|ask| self.refuse_ask(now, ix, ask, why, io));
            }
            Effect::Refuse { client, why: weir_pool::RefuseReason::WaitTimeout, waited } if self.is_guest(ix) => {
                self.pools.get_mut(ix).counts.waited(waited);
                self.ask_why(ix, Asker::Refused(client));
            }
            Effect::Notice { client, .. } if self.is_guest(ix) => self.ask_why(ix, Asker::Noticed(client)),
            Effect::Refuse { client, why, waited } => {
                self.pools.get_mut(ix).counts.waited(waited);
                let refusal = match why {
                    weir_pool::RefuseReason::WaitTimeout => self.wait_timed_out(now, ix, io),
                    why => self.refusal(ix, why),
                };
                match Waiter::of(client) {
                    Waiter::Client(client) => self.refuse_handle(now, client, refusal, io),
                    Waiter::AuthQuery(query) => self.end_auth_query(query, Err(refusal), io),
                    Waiter::Guest(_) => {}
                }
            }
            Effect::Notice { client, .. } => self.notify_waiting(now, ix, client, io),
            Effect::Grant { client, server, waited, check } => {
                self.count_wait(ix, client, waited);
                self.grant(now, client, server, check, io);
            }
        }
    }

    /// When a pool that nobody uses is forgotten, with its statistics.
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
            // What nobody has ever seen is no longer kept than the pause after a failed login.
            None => slot.pool.snapshot(now).retry_at.unwrap_or(now),
            Some(_) => after(slot.empty_since, config.autodb_idle_timeout),
        };
        idle.min(empty)
    }
}

/// A moment after another one; never after never, and never after no time.
fn after(since: Time, span: Span) -> Time {
    if since == Time::NEVER { Time::NEVER } else { since.deadline(span) }
}
