//! Another store than the one in which this node's shares are recorded: etcd came back empty, or from a backup.
//!
//! A store has an identity of Weir's own. In a new one nobody knows what the nodes have, so nobody takes anything: each node writes
//! down what it has, and what it knows of the others: a frozen one has its connections, whatever etcd has lost. When every lease of the
//! time before has ended, the store is ready, and shares move as usual; those of nodes that have not come back are reclaimed as ever. Always true: what a node uses of a store that is not ready is at most what it had before.

use std::borrow::Cow;

use weir_base::{Span, Time};

use super::{Node, Phase, Pool};
use crate::record::{Entry, Member, PoolRecord, Store};
use crate::request::{Key, Revision, Stored, Txn, Value};

/// What a node knows of its store.
#[derive(Default)]
pub(super) struct Known {
    store: Option<Store>,
    /// Since when it is known.
    since: Time,
    /// It is to be written over the key's revision.
    make: Option<(Revision, Store)>,
    /// The last heartbeat that was certainly written.
    beat: u64,
}

/// What a pool had in the store before.
#[derive(Default)]
pub(super) struct Carried {
    share: u32,
    floor: u32,
    /// This process had it; otherwise one before may have had more.
    is_own: bool,
    /// The record there, as it was last read.
    record: PoolRecord,
}

impl Node {
    /// How long it takes until shares of the store can be given out; `None`: they are.
    pub fn rest(&self, now: Time) -> Option<Span> {
        let left =
            Span::from_micros(self.timing.lost_after().micros().saturating_sub(now.since(self.known.since).micros()));
        self.is_resting().then_some(left)
    }

    pub(super) fn is_resting(&self) -> bool {
        self.known.store.is_some_and(|store| !store.ready)
    }

    /// Compares the store that was read with the one that this node knows. `mine`: this process's heartbeat in it, if there is one.
    /// Returns whether the store has to be written first.
    pub(super) fn meet_store(&mut self, now: Time, all: &[Stored], mine: Option<&Member>) -> bool {
        let found = all.iter().find_map(|stored| match stored.value {
            Value::Store(store) => Some((stored.revision, store)),
            _ => None,
        });
        // A backup, from before heartbeats that were written.
        let is_known = |store: Store| self.known.store.is_some_and(|known| known.id == store.id);
        let is_older = mine.is_some_and(|member| member.beat < self.known.beat);
        let went_back = is_older && found.is_some_and(|(_, store)| is_known(store));
        let Some((_, store)) = found.filter(|_| !went_back) else {
            let chance = self.member.incarnation.rotate_left(17) ^ self.member.beat.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let store = Store { id: chance, ready: self.trusts_new_store() };
            self.known.make = Some((found.map_or(0, |(revision, _)| revision), store));
            self.carry(now);
            return true;
        };
        if !is_known(store) {
            self.known.since = now;
            // Revisions of another store may be the same by chance.
            self.members.seen_anew(now);
            self.lost.clear();
            self.ended.clear();
            if !store.ready {
                self.carry(now);
            }
        }
        (self.known.store, self.known.make) = (Some(store), None);
        false
    }

    /// What the pools have now goes on in another store. Without a lease that is the floors.
    fn carry(&mut self, now: Time) {
        let is_own = self.renewed.is_some();
        let is_valid = self.renewed.is_some_and(|sent| now < self.timing.shrink_at(sent));
        self.known.beat = 0;
        for pool in self.pools.values_mut() {
            if !is_valid {
                pool.limit = pool.floor;
            }
            // Without a lease it may still close the rest.
            let share = pool.limit.max(pool.floor).max(pool.used().open);
            let record = std::mem::take(&mut pool.record);
            let record = pool.carried.take().map_or(record, |carried| carried.record);
            pool.carried = Some(Carried { share, floor: pool.floor, is_own, record });
            pool.revision = 0;
        }
    }

    /// Whether what the node has of its pools is written in a store that is not ready. Until then a heartbeat there is no lease: the
    /// others do not know what this one has.
    pub(super) fn is_restated(&self) -> bool {
        self.known.make.is_none() && self.pools.values().all(|pool| pool.is_restated(&self.name))
    }

    /// The records to write before the store is ready.
    pub(super) fn restatements(&mut self) -> Vec<(String, PoolRecord)> {
        let (me, members) = (&self.name, &self.members);
        let has_left = |name: &str| members.get(name).is_some_and(|(_, member)| member.left);
        let pools = self.pools.iter();
        let changed = pools.filter_map(|(name, pool)| Some((name.clone(), pool.restatement(me, &has_left)?)));
        changed.take(super::MOST_POOLS).collect()
    }

    /// The transaction with what is known of another node that has not come back: it may be frozen, and is fenced.
    pub(super) fn restate_member(&mut self) -> Option<Txn> {
        let (name, member) = self.members.gone().find(|(name, _)| **name != self.name)?;
        let (key, member) = (Key::Member(name.clone()), Member { fenced: true, ..member.clone() });
        let mut txn = self.heartbeat();
        txn.compares.push((key.clone(), 0));
        txn.puts.push((key, Some(Value::Member(member))));
        Some(txn)
    }

    /// The transaction after which shares of the store are given out, if it is time.
    pub(super) fn end_rest(&mut self, now: Time) -> Option<Txn> {
        let store = self.known.store.filter(|store| !store.ready)?;
        if now.since(self.known.since) <= self.timing.lost_after() {
            return None;
        }
        let mut txn = self.heartbeat();
        txn.puts.push((Key::Store, Some(Value::Store(Store { ready: true, ..store }))));
        Some(txn)
    }

    /// What each transaction compares and writes of the store.
    pub(super) fn guard(&self, txn: &mut Txn) {
        match self.known.make {
            Some((revision, store)) => {
                txn.compares.push((Key::Store, revision));
                txn.puts.push((Key::Store, Some(Value::Store(store))));
            }
            None => txn.store = self.known.store,
        }
    }

    /// A transaction of this node was written.
    pub(super) fn wrote_store(&mut self, now: Time, txn: &Txn) {
        self.known.beat = self.known.beat.max(self.member.beat);
        let written = txn.puts.iter().find_map(|(_, value)| match value {
            Some(Value::Store(store)) => Some(*store),
            _ => None,
        });
        let Some(store) = written else { return };
        if self.known.store.is_none_or(|known| known.id != store.id) {
            self.known.since = now;
        }
        (self.known.store, self.known.make) = (Some(store), None);
        // The shares are read again.
        self.phase = Phase::Read { certain: true };
        self.next_read = now;
    }
}

impl Pool {
    /// The record, read from a store that is not ready: what the node has stays as it was.
    pub(super) fn stays(&mut self) {
        let carried = self.carried.get_or_insert_default();
        (self.limit, self.floor) = (self.limit.min(carried.share), carried.floor);
    }

    fn is_restated(&self, me: &str) -> bool {
        let entry = self.record.entry(me);
        self.carried.as_ref().is_none_or(|carried| entry.share >= carried.share && entry.floor >= carried.floor)
    }

    fn restatement(&self, me: &str, has_left: &impl Fn(&str) -> bool) -> Option<PoolRecord> {
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

#[cfg(test)]
impl Node {
    /// The store that the node knows.
    pub(crate) fn store(&self) -> Option<Store> {
        self.known.store
    }
}
