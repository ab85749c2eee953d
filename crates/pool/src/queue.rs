//! The clients that wait, by the age of their wait.
//!
//! The queue is always sorted by the moment the wait began, so that the first client is both the next to be served and
//! the first to time out. Notified clients are before the others, except for the few that returned with an old wait.

use weir_base::{ConnId, Time};

use crate::table::{Key, List, Table};

#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    table: Table<Waiter>,
    list: List,
    /// Every client before this one has been notified; `None`: every client has.
    unnotified: Option<Key>,
}

#[derive(Clone, Copy, Debug)]
struct Waiter {
    since: Time,
    notified: bool,
}

impl Queue {
    pub(crate) fn len(&self) -> u32 {
        self.list.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// When the oldest wait began.
    pub(crate) fn oldest(&self) -> Option<Time> {
        Some(self.table[self.list.first()?].since)
    }

    /// A new client, behind all others.
    pub(crate) fn push(&mut self, client: ConnId, now: Time) {
        let key = self.table.insert(client, Waiter { since: now, notified: false });
        self.table.insert_before(&mut self.list, key, None);
        self.unnotified = self.unnotified.or(Some(key));
    }

    /// A client whose wait began earlier: placed before all whose wait began later or at the same time.
    pub(crate) fn insert_by_age(&mut self, client: ConnId, since: Time, notified: bool) {
        let behind = self.first_since(since);
        let key = self.table.insert(client, Waiter { since, notified });
        self.table.insert_before(&mut self.list, key, behind);
        if !notified {
            // Clients notified already may follow it; they are skipped when they are reached.
            let earlier = self.unnotified.filter(|first| self.table[*first].since < since);
            self.unnotified = earlier.or(Some(key));
        }
    }

    /// The first client whose wait began then or later. Searched from both ends: one that has lost its server belongs
    /// near the front, and one that has waited in another process near the back.
    fn first_since(&self, since: Time) -> Option<Key> {
        let (mut front, mut back) = (self.list.first(), self.list.last());
        while let (Some(first), Some(last)) = (front, back) {
            if self.table[first].since >= since {
                return front;
            }
            if self.table[last].since < since {
                return self.table.next(last);
            }
            (front, back) = (self.table.next(first), self.table.prev(last));
        }
        None
    }

    /// Takes the client that has waited longest, and when its wait began.
    pub(crate) fn pop(&mut self) -> Option<(ConnId, Time)> {
        let key = self.list.first()?;
        let client = self.table.conn(key);
        Some((client, self.take(key)))
    }

    /// Takes a client out of the queue, if it is there.
    pub(crate) fn remove(&mut self, client: ConnId) -> bool {
        let key = self.table.find(client);
        key.map(|key| self.take(key)).is_some()
    }

    /// The first client that has not been notified, and when its wait began.
    pub(crate) fn unnotified(&self) -> Option<(ConnId, Time)> {
        self.unnotified.map(|key| (self.table.conn(key), self.table[key].since))
    }

    /// Marks the client that [`Queue::unnotified`] names.
    pub(crate) fn mark_notified(&mut self) {
        if let Some(key) = self.unnotified {
            self.table[key].notified = true;
            self.unnotified = self.unnoticed_after(key);
        }
    }

    /// The clients in order, and when their waits began.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ConnId, Time)> {
        self.table.walk(&self.list).map(|key| (self.table.conn(key), self.table[key].since))
    }

    /// Whether every client is in the list, by age, and the first unnotified one is known; costs a walk.
    pub(crate) fn is_sound(&self) -> bool {
        self.table.is_sound(&self.list)
            && self.table.len() == self.list.len()
            && self.iter().is_sorted_by_key(|(_, since)| since)
            && self.unnotified == self.table.walk(&self.list).find(|key| !self.table[*key].notified)
    }

    #[cfg(test)]
    pub(crate) fn places(&self) -> (usize, usize) {
        self.table.places()
    }

    fn take(&mut self, key: Key) -> Time {
        if self.unnotified == Some(key) {
            self.unnotified = self.unnoticed_after(key);
        }
        self.table.unlink(&mut self.list, key);
        self.table.remove(key).since
    }

    fn unnoticed_after(&self, key: Key) -> Option<Key> {
        std::iter::successors(self.table.next(key), |key| self.table.next(*key)).find(|key| !self.table[*key].notified)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conn(slot: u32) -> ConnId {
        ConnId::new(slot, 1)
    }

    fn at(micros: u64) -> Time {
        Time::from_micros(micros)
    }

    fn order(queue: &Queue) -> Vec<u32> {
        assert!(queue.is_sound());
        queue.iter().map(|(client, _)| client.slot).collect()
    }

    #[test]
    fn clients_that_come_back_keep_their_age() {
        let mut queue = Queue::default();
        queue.push(conn(5), at(50));
        queue.push(conn(6), at(60));
        queue.insert_by_age(conn(1), at(10), false);
        queue.insert_by_age(conn(2), at(20), false);
        queue.insert_by_age(conn(3), at(50), false);
        assert_eq!(order(&queue), [1, 2, 3, 5, 6]);
        queue.insert_by_age(conn(7), at(70), true);
        queue.insert_by_age(conn(4), at(50), true);
        queue.insert_by_age(conn(8), at(55), false);
        assert_eq!(order(&queue), [1, 2, 4, 3, 5, 8, 6, 7]);
    }

    #[test]
    fn each_client_is_noticed_once_and_in_order() {
        let mut queue = Queue::default();
        queue.push(conn(1), at(10));
        queue.push(conn(2), at(20));
        queue.push(conn(3), at(30));
        queue.mark_notified();
        assert_eq!(queue.unnotified(), Some((conn(2), at(20))));
        assert!(queue.remove(conn(2)));
        assert_eq!(queue.unnotified(), Some((conn(3), at(30))));
        queue.insert_by_age(conn(0), at(5), false);
        assert_eq!(queue.unnotified(), Some((conn(0), at(5))));
        queue.mark_notified();
        assert_eq!(queue.unnotified(), Some((conn(3), at(30))));
        queue.mark_notified();
        assert_eq!(queue.unnotified(), None);
        assert_eq!(order(&queue), [0, 1, 3]);
    }

    #[test]
    fn leaving_twice_is_leaving_once() {
        let mut queue = Queue::default();
        queue.push(conn(1), at(10));
        assert!(queue.remove(conn(1)));
        assert!(!queue.remove(conn(1)));
        assert_eq!(queue.pop(), None);
    }
}
