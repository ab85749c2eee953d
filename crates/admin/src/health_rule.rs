//! The one rule that computes a pool's health from its figures; docs/health.md is this file in words, which a test
//! compares.
//!
//! Pure: it reads no clock, and remembers nothing.

use weir_base::Span;

use crate::health::{Health, MOTIONLESS, Symptoms};
use crate::records::PoolRecord;

/// From this wait of the oldest client on, a pool whose servers are all busy is *saturated*.
pub const LONG_WAIT: Span = Span::from_secs(2);

/// From this wait of the oldest client on, a pause is a problem: the operator who made it may have forgotten it.
pub(crate) const LONG_PAUSE: Span = Span::from_secs(5);

/// Whether clients wait too long for the end of a pause.
pub(crate) fn is_kept_waiting(state: Health, pool: &PoolRecord) -> bool {
    state == Health::Paused && pool.cl_waiting > 0 && pool.maxwait >= LONG_PAUSE
}

impl Health {
    /// The state that a pool's figures show. The first that applies, in this order: paused, not answering, login
    /// rejected, cannot connect, failing, blocked, stalled, saturated, cannot grow, slow, disabled, waiting, healthy, not
    /// tried yet.
    pub fn of(pool: &PoolRecord, paused: bool, disabled: bool) -> Health {
        if paused {
            return Health::Paused;
        }
        if pool.symptoms.unresponsive.is_some() {
            return Health::NotAnswering;
        }
        if let Some(state) = unreachable(pool) {
            return state;
        }
        if pool.symptoms.failing.is_some() {
            return Health::Failing;
        }
        if pool.symptoms.finding.as_ref().is_some_and(|finding| finding.lock.is_some()) {
            return Health::Blocked;
        }
        let full = pool.cl_waiting > 0 && pool.free() == 0 && !pool.symptoms.opening;
        if full && no_server_moves(pool) {
            return Health::Stalled;
        }
        // The size of a pool is no matter while it is unknown whether its server answers at all.
        if full && pool.maxwait >= LONG_WAIT && !pool.symptoms.suspected {
            return Health::Saturated;
        }
        if pool.symptoms.barred.is_some() {
            return Health::CannotGrow;
        }
        if pool.symptoms.finding.as_ref().is_some_and(|finding| finding.slow_of(&pool.user).is_some()) {
            return Health::Slow;
        }
        match (disabled, pool.cl_waiting) {
            (true, _) => Health::Disabled,
            (false, 0) if pool.symptoms.logged_in || pool.connected() > 0 => Health::Healthy,
            (false, 0) => Health::Untried,
            (false, _) => Health::Waiting,
        }
    }
}

/// Why no connection can be opened. An error counts while it is the result of the last login and clients are affected:
/// no server is left, or a client has waited long for one more.
fn unreachable(pool: &PoolRecord) -> Option<Health> {
    let Symptoms { failure, opening, login_age, .. } = &pool.symptoms;
    let none_left = pool.connected() == 0;
    match failure {
        Some(_) if !none_left && (pool.cl_waiting == 0 || pool.maxwait < LONG_WAIT) => None,
        Some(failure) if failure.is_rejection() => Some(Health::LoginRejected),
        Some(_) => Some(Health::CannotConnect),
        None => {
            let felt = none_left || (pool.cl_waiting > 0 && pool.maxwait >= LONG_WAIT && pool.free() == 0);
            let no_answer = *opening && felt && *login_age >= MOTIONLESS;
            no_answer.then_some(Health::CannotConnect)
        }
    }
}

/// Whether every server that is in use is motionless, and one of them because of its client.
fn no_server_moves(pool: &PoolRecord) -> bool {
    let Symptoms { awaiting_client, stuck, .. } = pool.symptoms;
    awaiting_client > 0 && awaiting_client + stuck >= pool.connected()
}

#[cfg(test)]
#[path = "health_tests.rs"]
mod tests;
