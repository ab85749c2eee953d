//! The memory of prepared statements: how much there is, and who holds how much of it.
//!
//! Three limits, each an [`Account`] or a sum: the process (`statement_memory`), a pool (`pool_statement_memory`), and
//! a client (`client_statement_memory`, which `naming` compares with what the client holds). Accounts belong to one
//! worker; accounts of several workers for the same thing draw from one [`SharedBudget`], in pieces, so that they share
//! nothing on the way of a query.
//!
//! Invariant: an account's `used` is the sum of its charges, its `drawn` is never less, and a shared budget's `drawn`
//! is the sum of its accounts'.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The most that an account draws at once beyond what it needs now.
const PIECE: u64 = 64 << 10;

/// Which limit leaves no room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoRoom {
    /// `pool_statement_memory`.
    Pool,
    /// `statement_memory`.
    Process,
}

/// Whether a limit may refuse a charge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admission {
    /// It may: a client asks for it.
    Limited,
    /// It may not: a client holds it already, and only the place where it is charged changes.
    Granted,
}

/// What all workers together hold under one limit.
#[derive(Debug, Default)]
pub(crate) struct SharedBudget {
    drawn: AtomicU64,
}

/// The budgets of pools, by database and user.
type SharedBudgets = HashMap<(Box<str>, Box<str>), Weak<SharedBudget>>;

/// The statement memory of a process. All its workers have a clone of one.
#[derive(Clone, Debug, Default)]
pub struct StatementMemory {
    process: Arc<SharedBudget>,
    pools: Arc<Mutex<SharedBudgets>>,
}

/// What one worker holds under one limit.
#[derive(Debug)]
pub(crate) struct Account {
    used: AtomicU64,
    drawn: AtomicU64,
    limit: AtomicU64,
    shared: Arc<SharedBudget>,
    /// The worker's account, in a pool's: what a pool holds, its worker holds.
    worker: Option<Arc<Account>>,
}

/// Bytes that an account holds until this is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    account: Arc<Account>,
    bytes: u64,
    /// The worker's account holds these bytes, too.
    real: bool,
}

impl StatementMemory {
    /// A worker's account of everything.
    pub(crate) fn worker(&self, limit: u64) -> Arc<Account> {
        Arc::new(Account::new(self.process.clone(), limit, None))
    }

    /// A worker's account of a pool.
    pub(crate) fn pool(&self, name: (&str, &str), limit: u64, worker: &Arc<Account>) -> Arc<Account> {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (name.0.into(), name.1.into());
        let shared = pools.get(&key).and_then(Weak::upgrade).unwrap_or_default();
        if pools.len() >= 64 && pools.len() == pools.capacity() {
            pools.retain(|_, shared| shared.strong_count() > 0);
        }
        pools.insert(key, Arc::downgrade(&shared));
        Arc::new(Account::new(shared, limit, Some(worker.clone())))
    }
}

impl Account {
    fn new(shared: Arc<SharedBudget>, limit: u64, worker: Option<Arc<Account>>) -> Account {
        let (used, drawn) = (AtomicU64::new(0), AtomicU64::new(0));
        Account { used, drawn, limit: AtomicU64::new(limit), shared, worker }
    }

    pub(crate) fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Relaxed);
    }

    /// Bytes that this worker holds.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// Bytes that this worker may still take, here and in the worker's account.
    pub(crate) fn left(&self) -> u64 {
        let left = self.limit.load(Relaxed).saturating_sub(self.shared.drawn.load(Relaxed));
        let left = left + self.drawn.load(Relaxed).saturating_sub(self.used());
        self.worker.as_ref().map_or(left, |worker| left.min(worker.left()))
    }

    fn take(&self, bytes: u64) -> Result<(), NoRoom> {
        let missing = (self.used() + bytes).saturating_sub(self.drawn.load(Relaxed));
        if missing > 0 && !self.draw(missing.max(self.piece())) && !self.draw(missing) {
            return Err(if self.worker.is_some() { NoRoom::Pool } else { NoRoom::Process });
        }
        self.used.fetch_add(bytes, Relaxed);
        Ok(())
    }

    /// Takes what is bounded by other means, whether there is room or not.
    fn take_anyway(&self, bytes: u64) {
        if self.take(bytes).is_err() {
            let missing = (self.used() + bytes).saturating_sub(self.drawn.load(Relaxed));
            self.shared.drawn.fetch_add(missing, Relaxed);
            self.drawn.fetch_add(missing, Relaxed);
            self.used.fetch_add(bytes, Relaxed);
        }
    }

    fn give(&self, bytes: u64) {
        let used = self.used.fetch_sub(bytes, Relaxed) - bytes;
        let (spare, piece) = (self.drawn.load(Relaxed) - used, self.piece());
        if spare > 2 * piece {
            self.drawn.fetch_sub(spare - piece, Relaxed);
            self.shared.drawn.fetch_sub(spare - piece, Relaxed);
        }
    }

    fn draw(&self, bytes: u64) -> bool {
        let limit = self.limit.load(Relaxed);
        let more = |drawn: u64| drawn.checked_add(bytes).filter(|drawn| *drawn <= limit);
        let drawn = self.shared.drawn.fetch_update(Relaxed, Relaxed, more).is_ok();
        if drawn {
            self.drawn.fetch_add(bytes, Relaxed);
        }
        drawn
    }

    /// Small beside the limit, so that what workers have drawn and do not use keeps little from the others.
    fn piece(&self) -> u64 {
        (self.limit.load(Relaxed) >> 10).min(PIECE)
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.shared.drawn.fetch_sub(self.drawn.load(Relaxed), Relaxed);
    }
}

impl Charge {
    /// Charges what takes memory.
    pub(crate) fn real(account: &Arc<Account>, bytes: u64) -> Result<Charge, NoRoom> {
        if let Some(worker) = &account.worker {
            worker.take(bytes)?;
        }
        account.take(bytes).inspect_err(|_| {
            if let Some(worker) = &account.worker {
                worker.give(bytes);
            }
        })?;
        Ok(Charge { account: account.clone(), bytes, real: true })
    }

    /// Charges a pool with its use of what the worker holds once for all pools.
    pub(crate) fn share(account: &Arc<Account>, bytes: u64, admission: Admission) -> Result<Charge, NoRoom> {
        match admission {
            Admission::Limited => account.take(bytes)?,
            Admission::Granted => account.take_anyway(bytes),
        }
        Ok(Charge { account: account.clone(), bytes, real: false })
    }

    /// Charges memory that is bounded by other means: it counts, and never fails.
    pub(crate) fn anyway(account: &Arc<Account>, bytes: u64) -> Charge {
        let mut charge = Charge { account: account.clone(), bytes: 0, real: true };
        charge.resize_anyway(bytes);
        charge
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn resize_anyway(&mut self, bytes: u64) {
        let (more, less) = (bytes.saturating_sub(self.bytes), self.bytes.saturating_sub(bytes));
        for account in self.accounts() {
            if more > 0 {
                account.take_anyway(more);
            } else if less > 0 {
                account.give(less);
            }
        }
        self.bytes = bytes;
    }

    /// Changes the charge to this many bytes, unless there is no room for more.
    pub(crate) fn resize(&mut self, bytes: u64) -> Result<(), NoRoom> {
        if bytes > self.bytes {
            let mut more = Charge::real(&self.account, bytes - self.bytes)?;
            // What was taken is held by this one.
            more.bytes = 0;
            self.bytes = bytes;
        } else {
            self.resize_anyway(bytes);
        }
        Ok(())
    }

    fn accounts(&self) -> impl Iterator<Item = &Arc<Account>> {
        [Some(&self.account), self.account.worker.as_ref().filter(|_| self.real)].into_iter().flatten()
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.accounts().filter(|_| self.bytes > 0).for_each(|account| account.give(self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accounts(memory: &StatementMemory, all: u64, pool: u64) -> (Arc<Account>, Arc<Account>) {
        let worker = memory.worker(all);
        let pool = memory.pool(("app", "joe"), pool, &worker);
        (worker, pool)
    }

    #[test]
    fn a_charge_counts_for_pool_and_worker_until_it_is_dropped() {
        let (worker, pool) = accounts(&StatementMemory::default(), 1000, 1000);
        let charge = Charge::real(&pool, 600).unwrap();
        let share = Charge::share(&pool, 300, Admission::Limited).unwrap();
        assert_eq!((pool.used(), worker.used(), pool.left()), (900, 600, 100));
        assert_eq!(Charge::real(&pool, 101).unwrap_err(), NoRoom::Pool);
        assert_eq!(worker.used(), 600, "what the pool refused is not the worker's either");
        drop((charge, share));
        assert_eq!((pool.used(), worker.used(), worker.left()), (0, 0, 1000));
        assert!(Charge::real(&pool, 1001).is_err());
        assert!(Charge::share(&pool, 1001, Admission::Limited).is_err());
        let granted = Charge::share(&pool, 1001, Admission::Granted).unwrap();
        assert_eq!((pool.used(), worker.used(), pool.left()), (1001, 0, 0));
        drop(granted);
        assert_eq!((pool.used(), pool.left()), (0, 1000));
    }

    #[test]
    fn the_limits_hold_over_all_workers() {
        let memory = StatementMemory::default();
        let (one, other) = (accounts(&memory, 1 << 20, 1 << 19), accounts(&memory, 1 << 20, 1 << 19));
        let held = Charge::real(&one.1, 400 << 10).unwrap();
        assert_eq!(Charge::real(&other.1, 200 << 10).unwrap_err(), NoRoom::Pool);
        let elsewhere = memory.pool(("other", "joe"), 1 << 20, &other.0);
        assert_eq!(Charge::real(&elsewhere, 700 << 10).unwrap_err(), NoRoom::Process);
        drop(held);
        assert!(Charge::real(&other.1, 500 << 10).is_ok());
        drop(one);
        assert!(Charge::real(&other.1, 512 << 10).is_ok(), "a worker's pieces return with it");
    }

    #[test]
    fn a_new_limit_holds_at_once_and_what_is_bounded_elsewhere_is_counted_beyond_it() {
        let (worker, pool) = accounts(&StatementMemory::default(), 1000, 1000);
        let mut charge = Charge::real(&pool, 500).unwrap();
        worker.set_limit(400);
        assert_eq!(Charge::real(&pool, 1).unwrap_err(), NoRoom::Process);
        assert!(charge.resize(501).is_err());
        charge.resize_anyway(900);
        assert_eq!((worker.used(), worker.left(), charge.bytes()), (900, 0, 900));
        charge.resize(10).unwrap();
        assert_eq!(worker.used(), 10);
    }
}
