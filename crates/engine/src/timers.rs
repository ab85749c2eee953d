//! One engine's deadlines, lazily re-armed: a deadline that moves away costs nothing until its old moment comes.
//!
//! Owns the order of moments. Must not know what is due: whoever is woken computes its real deadline and arms again.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use weir_base::{Peer, Time};

/// Who wants to be woken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Who {
    /// The session of a peer.
    Peer(Peer),
    /// A pool, by its index.
    Pool(u32),
    /// Answers about names that have grown old.
    Dns,
    /// The end of a statistics period.
    Stats,
    /// A command that waits for workers.
    Gather(u64),
    /// A shutdown that waits for clients.
    Shutdown,
    /// A shutdown that dismisses the clients that wait for servers.
    Dismissal,
    /// A SUSPEND that waits for sockets to take what is queued.
    Flush,
}

/// The queue of wake-ups.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Time, Who)>>,
    /// Wake-ups whose sleepers are gone.
    dead: usize,
}

impl Timers {
    /// Wakes `who` at `when`, unless that is never. `armed` is who's own note of its earliest wake-up in the queue; a
    /// later one is left in place.
    pub(crate) fn arm(&mut self, who: Who, when: Time, armed: &mut Time) {
        if when < *armed {
            *armed = when;
            self.heap.push(Reverse((when, who)));
        }
    }

    /// The next one who is due, and the moment it was armed for. Only if that is its own note is it the latest word.
    pub(crate) fn due(&mut self, now: Time) -> Option<(Time, Who)> {
        let Reverse((when, _)) = *self.heap.peek()?;
        (when <= now).then(|| self.heap.pop().map(|Reverse(entry)| entry)).flatten()
    }

    /// Puts back a wake-up that [`Timers::due`] gave out too early.
    pub(crate) fn put_back(&mut self, when: Time, who: Who) {
        self.heap.push(Reverse((when, who)));
    }

    /// Whoever armed a wake-up is gone, and the wake-up is still queued.
    pub(crate) fn forget(&mut self) {
        self.dead += 1;
    }

    /// Whether most wake-ups are for nobody.
    pub(crate) fn is_littered(&self) -> bool {
        self.dead > 1024 && self.dead * 2 > self.heap.len()
    }

    /// Drops the wake-ups for which `keep` does not hold. What they cost is shared by the many that were forgotten.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(Time, Who) -> bool) {
        self.heap.retain(|Reverse((when, who))| keep(*when, *who));
        self.dead = 0;
    }

    /// When the next one is due.
    pub(crate) fn next(&self) -> Time {
        self.heap.peek().map_or(Time::NEVER, |Reverse((when, _))| *when)
    }
}
