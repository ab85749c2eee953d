//! A pool of one node: its record, what the node uses of it, and what is to be written about it. Decisions, without
//! I/O.

use std::borrow::Cow;

use weir_base::Time;

use crate::fair::{Plan, Usage, View};
use crate::record::{Entry, PoolShares};
use crate::request::Revision;

/// A pool's budget in the configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Budget {
    /// The most server connections of all nodes.
    pub size: u32,
    /// What each node keeps without a lease.
    pub floor: u32,
}

/// Which of its configured budgets a node writes into etcd.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BudgetRule {
    /// The budgets that have changed, and all after the start: nodes have files of their own, and the one that was
    /// started or reloaded last decides.
    #[default]
    OwnFile,
    /// Each budget that differs from etcd's: the node runs the newest configuration of the cluster.
    Newest,
    /// None: the cluster has a newer configuration than the node.
    Outdated,
}

/// See the head of the file.
pub(crate) struct Pool {
    pub(crate) record: PoolShares,
    pub(crate) revision: Revision,
    /// When the record was first seen like this.
    pub(crate) seen: Time,
    /// What this node's pool may open while the lease is valid: at most its recorded share.
    pub(crate) limit: u32,
    /// What this node's pool may open without a lease.
    pub(crate) floor: u32,
    /// What this node's pool reported, without orphaned connections.
    pub(crate) usage: Usage,
    /// Connections that a killed process of this node may still have at the server: a part of the share.
    pub(crate) orphans: u32,
    pub(crate) budget: Budget,
    /// The budget is known, also that it has none.
    pub(crate) configured: bool,
    /// The configured budget is to be written: this node was started, or its configuration has changed.
    pub(crate) write_budget: bool,
    /// While the store is not ready.
    pub(crate) carried: Option<Carried>,
}

/// What a pool had in the store before.
#[derive(Default)]
pub(crate) struct Carried {
    pub(crate) share: u32,
    pub(crate) floor: u32,
    /// This process had it; otherwise one before may have had more.
    pub(crate) is_own: bool,
    /// The record there, as it was last read.
    pub(crate) record: PoolShares,
}

impl Pool {
    pub(crate) fn new(budget: Budget, now: Time) -> Pool {
        Pool {
            record: PoolShares::default(),
            revision: 0,
            seen: now,
            limit: 0,
            floor: 0,
            usage: Usage { floor: u32::MAX, ..Usage::default() },
            orphans: 0,
            budget,
            configured: false,
            write_budget: budget.size > 0,
            carried: None,
        }
    }

    pub(crate) fn see(&mut self, now: Time, revision: Revision, record: PoolShares) {
        if revision != self.revision {
            self.seen = now;
        }
        (self.revision, self.record) = (revision, record);
    }

    /// Clients of this node wait for more, and others know it.
    pub(crate) fn waits(&self, me: &str) -> bool {
        self.record.entry(me).wait.is_some()
    }

    pub(crate) fn plan(&self, now: Time, me: &str, record: &PoolShares) -> Plan {
        let seen = now.since(self.seen);
        let floor = if self.configured { self.budget.floor } else { record.entry(me).floor };
        View { record, me, usage: &self.used(), seen, floor }.plan()
    }

    /// A killed process's connections are to be ended: a pool that is not configured has no way to do that.
    pub(crate) fn must_end_orphans(&self) -> bool {
        self.orphans > 0 && self.budget.size > 0
    }

    /// The usage with the orphaned connections. One connection more than those is needed to end them.
    pub(crate) fn used(&self) -> Usage {
        let Usage { open, active, waiting, limit, .. } = self.usage;
        let (open, active, limit) = (open + self.orphans, active + self.orphans, limit.saturating_add(self.orphans));
        let waiting = waiting.max(u32::from(self.must_end_orphans() && active == self.orphans));
        Usage { open, active, waiting, limit, ..self.usage }
    }

    /// Takes over the record, or, from a store that is not ready, nothing.
    pub(crate) fn take(&mut self, now: Time, me: &str, rests: bool) {
        if rests {
            return self.stays();
        }
        self.carried = None;
        self.obey(now, me);
    }

    /// Takes over the recorded share, less what the node is about to give: a limit that rises meanwhile delays that.
    pub(crate) fn obey(&mut self, now: Time, me: &str) {
        let entry = self.record.entry(me);
        let plan = self.plan(now, me, &self.record);
        self.floor = entry.floor.min(plan.entry.floor);
        self.limit = plan.limit.min(entry.share);
    }

    /// The record to write, if one is. Sets the limit and the floor at once if they become lower.
    pub(crate) fn change(&mut self, now: Time, me: &str, rule: BudgetRule, early: bool) -> Option<PoolShares> {
        // What is so already is not written later, over another node's.
        self.write_budget &= self.revision == 0 || self.record.budget != self.budget.size;
        let writes = match rule {
            // A store that was made anew has none.
            BudgetRule::OwnFile => self.write_budget || self.record.budget == 0 && self.budget.size > 0,
            BudgetRule::Newest => self.budget.size > 0,
            BudgetRule::Outdated => false,
        };
        let mut record = Cow::Borrowed(&self.record);
        if writes && record.budget != self.budget.size {
            record.to_mut().budget = self.budget.size;
        }
        let Plan { mut entry, limit } = self.plan(now, me, &record);
        let before = record.entry(me);
        self.limit = limit.min(before.share);
        if entry.floor < before.floor {
            self.floor = self.floor.min(entry.floor);
            // Until it is in force, a loss of the lease leaves the one before.
            entry.floor = entry.floor.max(self.usage.floor.min(before.floor));
            entry.share = entry.share.max(entry.floor);
        }
        if entry.share < before.share && !early {
            // Released is what is closed. The pool opens none beyond the limit that it has seen.
            let used = self.used();
            let closed = if used.limit <= self.limit { used.open } else { before.share };
            entry.share = entry.share.max(closed).min(before.share);
        }
        if entry != before {
            record.to_mut().set(me, entry);
        }
        match record {
            Cow::Borrowed(_) => None,
            Cow::Owned(record) => Some(record),
        }
    }
}

/// In a store that is not ready.
impl Pool {
    /// The record, read from a store that is not ready: what the node has stays as it was.
    pub(crate) fn stays(&mut self) {
        let carried = self.carried.get_or_insert_default();
        (self.limit, self.floor) = (self.limit.min(carried.share), carried.floor);
    }

    pub(crate) fn is_restated(&self, me: &str) -> bool {
        let entry = self.record.entry(me);
        self.carried.as_ref().is_none_or(|carried| entry.share >= carried.share && entry.floor >= carried.floor)
    }

    pub(crate) fn restatement(&self, me: &str, has_left: &impl Fn(&str) -> bool) -> Option<PoolShares> {
        let carried = self.carried.as_ref()?;
        let mut record = Cow::Borrowed(&self.record);
        for (name, entry) in carried.record.nodes.iter().filter(|(name, entry)| *name != me && entry.share > 0) {
            if !record.nodes.contains_key(name) && !has_left(name) {
                record.to_mut().set(name, Entry { wait: None, ..*entry });
            }
        }
        let before = record.entry(me);
        let (share, floor) = if carried.is_own { (0, 0) } else { (before.share, before.floor) };
        let entry = Entry { share: share.max(carried.share), floor: floor.max(carried.floor), ..before };
        if entry != before {
            record.to_mut().set(me, entry);
        }
        let Cow::Owned(mut record) = record else { return None };
        if record.budget == 0 {
            record.budget = if self.budget.size > 0 { self.budget.size } else { carried.record.budget };
        }
        Some(record)
    }
}
