//! The Close messages of our own that are under way on one server, in order.
//!
//! Owns which statements they close, and whether that may still be skipped. Every operation takes the same time however
//! many there are; their number is bounded by the queue of pending replies ([`crate::pending`]).

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;

use crate::key_hasher::KeyHasher;
use crate::statements::Key;

/// The Close messages under way.
#[derive(Debug, Default)]
pub(crate) struct Closes {
    /// The segment of each Close, and its statement; none where nothing is remembered of the statement.
    queue: VecDeque<(u32, Option<Key>)>,
    by_key: KeyCounts,
}

/// Counts requests by statement, those of the newest segment apart.
#[derive(Debug, Default)]
pub(crate) struct KeyCounts(HashMap<Key, KeyCount, BuildHasherDefault<KeyHasher>>);

#[derive(Debug)]
struct KeyCount {
    all: usize,
    segment: u32,
    in_segment: usize,
}

impl Closes {
    pub(crate) fn push(&mut self, segment: u32, key: Option<Key>) {
        key.into_iter().for_each(|key| self.by_key.add(key, segment));
        self.queue.push_back((segment, key));
    }

    /// The oldest Close was answered, or skipped. Returns what it was to close.
    pub(crate) fn take(&mut self) -> Option<Key> {
        let (segment, key) = self.queue.pop_front()?;
        key.into_iter().for_each(|key| self.by_key.remove(key, segment));
        if self.queue.is_empty() && self.queue.capacity() > 64 {
            *self = Closes::default();
        }
        key
    }

    /// Whether a Close of an earlier segment than `segment` closes this statement, and may still be skipped.
    pub(crate) fn is_closing(&self, key: Key, segment: u32) -> bool {
        self.by_key.has_other(key, segment)
    }
}

impl KeyCounts {
    pub(crate) fn add(&mut self, key: Key, segment: u32) {
        let count = self.0.entry(key).or_insert(KeyCount { all: 0, segment, in_segment: 0 });
        if count.segment != segment {
            (count.segment, count.in_segment) = (segment, 0);
        }
        count.all += 1;
        count.in_segment += 1;
    }

    /// The oldest request about the statement is over, which was of this segment.
    pub(crate) fn remove(&mut self, key: Key, segment: u32) {
        let Some(count) = self.0.get_mut(&key) else { return };
        count.all -= 1;
        count.in_segment -= usize::from(count.segment == segment);
        if count.all == 0 {
            self.0.remove(&key);
        }
    }

    /// Whether there is a request of another segment than this.
    pub(crate) fn has_other(&self, key: Key, segment: u32) -> bool {
        let count = if self.0.is_empty() { None } else { self.0.get(&key) };
        count.is_some_and(|count| count.segment != segment || count.all > count.in_segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the obvious model: a list that is searched.
    #[test]
    fn whether_a_statement_is_being_closed_elsewhere_is_known_without_a_search() {
        let (mut closes, mut model) = (Closes::default(), VecDeque::new());
        let (mut x, mut segment) = (12345u64, 0);
        for _ in 0..20_000 {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let key = Key(u128::from(x >> 40) % 5);
            match x >> 61 {
                0..=2 => {
                    closes.push(segment, Some(key));
                    model.push_back((segment, key));
                }
                3 => segment += 1,
                _ => assert_eq!(closes.take(), model.pop_front().map(|(_, key)| key)),
            }
            let searched = model.iter().any(|(at, closed)| *at != segment && *closed == key);
            assert_eq!(closes.is_closing(key, segment), searched);
        }
    }
}
