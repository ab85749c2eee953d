//! Refused clients, counted by cause, at their pool or the pool that they requested; and refused logins, by who.
//!
//! Owns the counts of clients without a pool, and those of logins; and which clients have left for want of TLS. `weir-session` decides the class of a refusal; clients are refused in
//! one place, which counts here.

use weir_admin::{RefusalRecord, Refusals, RefusedLogin, RefusedLogins, TLS_NOT_OFFERED};
use weir_base::{Origin, Time};
use weir_session::{Class, Refusal};

use crate::admin::declined::Declined;
use crate::pools::{PoolSlot, Pools};

/// The counts without a pool: of clients that had none, and of pools that were dropped.
#[derive(Default)]
pub(crate) struct RefusalCounts {
    without_pool: Refusals,
    limit_without_pool: Option<&'static str>,
    logins: RefusedLogins,
    /// Clients that were offered no TLS.
    pub(crate) declined: Declined,
}

impl RefusalCounts {
    /// Counts a client, by its names and its address, that this pool, or none, has refused at this time: microseconds
    /// since 1970.
    pub(crate) fn count(
        &mut self,
        pool: Option<&mut PoolSlot>,
        refusal: &Refusal,
        (names, origin): ((&str, &str, bool), Origin),
        at: u64,
    ) {
        let class = refusal.class();
        let (counts, limit) = match pool {
            Some(slot) => {
                if class != Class::Other {
                    slot.counts.refused_by.note(names, origin, at);
                }
                (&mut slot.counts.refusals, &mut slot.counts.limit)
            }
            None => (&mut self.without_pool, &mut self.limit_without_pool),
        };
        *counter(counts, class) += 1;
        if class == Class::LimitReached {
            *limit = refusal.limit();
        }
    }

    /// Counts a login that is refused; `at`: microseconds since 1970.
    pub(crate) fn count_login(&mut self, (user, database): (&str, &str), origin: Origin, refusal: &Refusal, at: u64) {
        self.logins.add(RefusedLogin {
            user: user.to_owned(),
            database: database.to_owned(),
            origin,
            why: refusal.reason(),
            hint: refusal.hint(),
            is_handshake: false,
            is_limit: refusal.class() == Class::LimitReached,
            count: 1,
            last: at,
        });
    }

    /// Counts a client whose handshake has failed for this reason, before it could name itself; `at`: microseconds since
    /// 1970.
    pub(crate) fn count_handshake(&mut self, origin: Origin, why: &str, at: u64) {
        self.logins.add(handshake(origin, why, at));
    }

    /// Notes a client that has asked for TLS and left, as it was offered none.
    pub(crate) fn declined_leaves(&mut self, origin: Origin, now: Time, wall: impl Fn(Time) -> u64) {
        let lost = self.declined.leaves(origin, now);
        lost.for_each(|(origin, at)| self.count_handshake(origin, TLS_NOT_OFFERED, wall(at)));
    }

    /// The refused logins since the process began.
    pub(crate) fn logins(&self, now: Time, wall: impl Fn(Time) -> u64) -> RefusedLogins {
        let mut logins = self.logins.clone();
        let lost = self.declined.lost(now);
        lost.for_each(|(origin, at)| logins.add(handshake(*origin, TLS_NOT_OFFERED, wall(*at))));
        logins
    }

    /// Keeps the counts of a dropped pool, so that a sum over all pools never shrinks.
    pub(crate) fn keep(&mut self, pool: &PoolSlot) {
        self.without_pool.add(&pool.counts.refusals);
    }

    /// The counters of each pool, and those of clients without one.
    pub(crate) fn records(&self, pools: &Pools) -> Vec<RefusalRecord> {
        let of_pool = |slot: &PoolSlot| RefusalRecord {
            pool: Some((slot.name.to_string(), slot.user.to_string())),
            refusals: slot.counts.refusals,
            limit: slot.counts.limit,
        };
        let without = RefusalRecord { pool: None, refusals: self.without_pool, limit: self.limit_without_pool };
        pools.iter().map(of_pool).chain([without]).collect()
    }

    /// The sum of all refused clients.
    pub(crate) fn sum(&self, pools: &Pools) -> Refusals {
        let mut sum = self.without_pool;
        pools.iter().for_each(|slot| sum.add(&slot.counts.refusals));
        sum
    }
}

/// A client that could not name itself, as its TLS has failed or was not offered.
fn handshake(origin: Origin, why: &str, at: u64) -> RefusedLogin {
    RefusedLogin {
        user: String::new(),
        database: String::new(),
        origin,
        why: why.to_owned(),
        hint: None,
        is_handshake: true,
        is_limit: false,
        count: 1,
        last: at,
    }
}

/// The counter of a class.
fn counter(refusals: &mut Refusals, class: Class) -> &mut u64 {
    match class {
        Class::PoolFull => &mut refusals.pool_full,
        Class::ServerSlow => &mut refusals.server_slow,
        Class::ServerDown => &mut refusals.server_down,
        Class::LimitReached => &mut refusals.limit_reached,
        Class::Other => &mut refusals.other,
    }
}
