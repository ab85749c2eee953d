//! The event queue and the virtual clock.
//!
//! Owns the clock. Events of the same moment happen in the order in which they were scheduled, so nothing depends on
//! how a heap breaks ties.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use weir_base::{Span, Time};

struct Entry<E> {
    at: Time,
    sequence: u64,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    // Reversed: the heap's greatest entry is the earliest event.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.sequence).cmp(&(self.at, self.sequence))
    }
}

/// The scheduled events and the present time.
pub(crate) struct Queue<E> {
    heap: BinaryHeap<Entry<E>>,
    sequence: u64,
    now: Time,
}

impl<E> Queue<E> {
    /// An empty queue at time 0.
    pub(crate) fn new() -> Self {
        Queue { heap: BinaryHeap::new(), sequence: 0, now: Time::START }
    }

    /// The present time.
    pub(crate) fn now(&self) -> Time {
        self.now
    }

    /// Schedules an event at a moment; one in the past happens now.
    pub(crate) fn at(&mut self, at: Time, event: E) {
        self.sequence += 1;
        self.heap.push(Entry { at: at.max(self.now), sequence: self.sequence, event });
    }

    /// Schedules an event after a delay.
    pub(crate) fn after(&mut self, delay: Span, event: E) {
        self.at(self.now + delay, event);
    }

    /// Takes the next event and moves the clock to it.
    pub(crate) fn next(&mut self) -> Option<E> {
        let entry = self.heap.pop()?;
        self.now = entry.at;
        Some(entry.event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_one_moment_keep_their_order() {
        let mut queue = Queue::new();
        queue.after(Span::from_micros(5), 'c');
        queue.after(Span::from_micros(1), 'a');
        queue.after(Span::from_micros(1), 'b');
        let order: String = std::iter::from_fn(|| queue.next()).collect();
        assert_eq!(order, "abc");
        assert_eq!(queue.now(), Time::from_micros(5));
    }
}
