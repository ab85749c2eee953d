//! The deadlines of one engine, lazily re-armed: a deadline that moves away costs nothing until its old time comes.
//!
//! Owns the order of times. Must not know what is due: the owner of a timer computes its real deadline when it fires,
//! and arms it again.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use weir_base::{ConnId, Time, shrink};

/// The places of timers that are kept.
const KEPT_PLACES: usize = 1024;

/// The owner of a timer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Who {
    /// The session of a connection.
    Conn(ConnId),
    /// A pool, by its index.
    Pool(u32),
    /// Answers about names that have grown old.
    Dns,
    /// Hosts that are down.
    DownHosts,
    /// The end of a statistics period.
    Stats,
    /// A look at the health of pools.
    Health,
    /// Commands that wait for workers.
    Broadcasts,
    /// Pools that move to another primary.
    Primaries,
    /// Worker 0: Patroni is to be asked.
    Patroni,
    /// A look at whether the hosts of servers acknowledge what was sent.
    Silence,
    /// A shutdown that waits for clients.
    Shutdown,
    /// A shutdown that is only announced.
    Announcement,
    /// A drain looks at the clients.
    Drain,
    /// A shutdown that dismisses the clients that wait for servers.
    Dismissal,
    /// Limits of pools that nodes share expire, or closed servers count no more.
    Budget,
    /// A SUSPEND that waits for sockets to take what is queued.
    Flush,
    /// Worker 0: a look at whether clients are to move.
    Moves,
    /// A batch of clients that move waits no longer for their sockets.
    Detaching,
    /// The next turn of a client that is paced.
    NextTurn(ConnId),
}

/// The queue of timers.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Time, Who)>>,
    /// The number of timers whose owners are gone.
    dead: usize,
}

impl Timers {
    /// Wakes `who` at `when`, unless that is never. `armed` is the owner's record of its earliest timer in the queue;
    /// a later timer is left in place.
    pub(crate) fn arm(&mut self, who: Who, when: Time, armed: &mut Time) {
        if when < *armed {
            *armed = when;
            self.heap.push(Reverse((when, who)));
        }
    }

    /// The next owner that is due, and the time of its timer. The timer is outdated if the owner's record differs.
    pub(crate) fn due(&mut self, now: Time) -> Option<(Time, Who)> {
        let Reverse((when, _)) = *self.heap.peek()?;
        if when > now {
            return None;
        }
        let next = self.heap.pop();
        shrink(&mut self.heap, KEPT_PLACES);
        next.map(|Reverse(entry)| entry)
    }

    /// Puts back a timer that [`Timers::due`] returned too early.
    pub(crate) fn put_back(&mut self, when: Time, who: Who) {
        self.heap.push(Reverse((when, who)));
    }

    /// The owner of a queued timer is gone.
    pub(crate) fn forget(&mut self) {
        self.dead += 1;
    }

    /// Whether most timers have no owner.
    pub(crate) fn is_littered(&self) -> bool {
        self.dead > 1024 && self.dead * 2 > self.heap.len()
    }

    /// Drops the timers for which `keep` is false. The cost is shared by the many that were dropped.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(Time, Who) -> bool) {
        self.heap.retain(|Reverse((when, who))| keep(*when, *who));
        shrink(&mut self.heap, KEPT_PLACES);
        self.dead = 0;
    }

    /// When the next timer is due.
    pub(crate) fn next(&self) -> Time {
        self.heap.peek().map_or(Time::NEVER, |Reverse((when, _))| *when)
    }
}
