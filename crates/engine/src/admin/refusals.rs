//! Refused clients, counted by what lay behind it, at the pool that they had or asked for.
//!
//! Owns where a refusal is counted. Which class it is of stands beside the refusals, in `weir-session`; who is refused is
//! decided all over the engine, and told in one place, `relay`, which counts here.

use weir_admin::{RefusalRecord, Refusals};
use weir_session::{Class, Refusal};

use crate::Engine;
use crate::handles::{NO_POOL, PoolIx};
use crate::peers::ClientSlot;
use crate::pools::PoolSlot;
use crate::port::{Io, Level};

impl Engine {
    /// A client is refused, or dropped.
    pub(crate) fn count_refusal(&mut self, client: &ClientSlot, refusal: &Refusal) {
        let ix = if client.pool == NO_POOL { self.pool_wanted(client) } else { Some(client.pool) };
        let refusals = match ix {
            Some(ix) => &mut self.pools.get_mut(ix).refusals,
            None => &mut self.admin.refusals,
        };
        *counter(refusals, refusal.class()) += 1;
    }

    /// Requests of a client failed because of a limit on statements. The log has one line for each client.
    #[inline]
    pub(crate) fn requests_refused<I: Io>(&mut self, client: &mut ClientSlot, refused: &[&'static str], io: &mut I) {
        let Some(what) = refused.first() else { return };
        self.pools.get_mut(client.pool).refusals.limit_reached += refused.len() as u64;
        if self.common.config().log.pooler_errors && !std::mem::replace(&mut client.statements_refused, true) {
            let text = format_args!("request refused: {what}; further ones of this client are only counted");
            self.log_client(Level::Warning, client, text, io);
        }
    }

    /// The pool of the database that a client without a pool has named, if that pool is here.
    fn pool_wanted(&self, client: &ClientSlot) -> Option<PoolIx> {
        let database = self.database_of(client);
        let config = self.common.config().pool(database)?;
        let user = config.user.as_deref().unwrap_or(&client.user);
        self.pools.find(&database.into(), &user.into())
    }

    /// A pool is forgotten. What it counted stays, so that a sum over all pools never shrinks.
    pub(crate) fn keep_refusals(&mut self, ix: PoolIx) {
        self.admin.refusals.add(&self.pools.get(ix).refusals);
    }

    /// The counters of each pool, and those of clients without one.
    pub(crate) fn refusal_records(&self) -> Vec<RefusalRecord> {
        let of_pool = |slot: &PoolSlot| RefusalRecord {
            pool: Some((slot.name.to_string(), slot.user.to_string())),
            refusals: slot.refusals,
        };
        let without = RefusalRecord { pool: None, refusals: self.admin.refusals };
        self.pools.iter().map(of_pool).chain([without]).collect()
    }

    /// All clients that were refused so far.
    pub fn refusals(&self) -> Refusals {
        let mut sum = self.admin.refusals;
        self.pools.iter().for_each(|slot| sum.add(&slot.refusals));
        sum
    }
}

/// Which counter a class has.
fn counter(refusals: &mut Refusals, class: Class) -> &mut u64 {
    match class {
        Class::PoolFull => &mut refusals.pool_full,
        Class::ServerSlow => &mut refusals.server_slow,
        Class::ServerDown => &mut refusals.server_down,
        Class::LimitReached => &mut refusals.limit_reached,
        Class::Other => &mut refusals.other,
    }
}
