//! The process ids of this worker's cancel keys, and which client has which.
//!
//! Drivers take the process id for the identity of a connection, so it is a count, not a place: none is issued again
//! before this worker has issued all others. Owns the count, and the table from a process id to its client's slot.
//! Must not know the clients: the caller says whether a slot still has a process id.
//!
//! Invariant: two clients that are connected have different places in the table, and so different process ids.

use weir_base::WorkerId;

/// The bits of a process id below those of its worker.
const LOW_BITS: u32 = 24;

/// The smallest table.
const SMALLEST: usize = 64;

/// The worker to which a request to cancel with this process id goes, in a process of `workers`. Another process may
/// have issued the process id. The runtime has the same rule for requests of a process that took over.
pub fn worker_of(pid: u32, workers: u16) -> WorkerId {
    WorkerId((pid >> LOW_BITS) as u16 % workers.max(1))
}

/// The highest byte of the process ids of `worker` in their `round`th round. Its remainder by the number of workers is
/// the worker. At most 127: drivers take a negative process id for "no key".
fn high_byte((worker, workers): (WorkerId, u16), round: u64) -> u8 {
    let workers = u64::from(workers.clamp(1, 127));
    (u64::from(worker.0) + workers * (round % (128 / workers))) as u8
}

/// See the head of the file.
#[derive(Default)]
pub(crate) struct CancelPids {
    count: u64,
    /// The slot of the client whose process id ends in the index's bits, plus one; 0: of none. A power of two long, or
    /// empty.
    slots: Vec<u32>,
}

impl CancelPids {
    /// Counts on from this number: the process ids of a process that was restarted are not those of the one before.
    pub(crate) fn begin_at(&mut self, count: u64) {
        self.count = count & u64::from(u32::MAX);
    }

    /// Issues a process id to the client in `slot`; `slots` is how many slots there are, and `has` says whether the
    /// client in a slot has a process id that ends in these bits, which are the lowest of `mask`. Amortised constant
    /// time.
    pub(crate) fn issue(
        &mut self,
        worker: (WorkerId, u16),
        (slot, slots): (u32, u32),
        has: impl Fn(u32, u32, u32) -> bool,
    ) -> u32 {
        self.make_room(slots, &has);
        let mask = self.slots.len() as u32 - 1;
        loop {
            self.count += 1;
            let low = self.count as u32 & ((1 << LOW_BITS) - 1);
            let pid = u32::from(high_byte(worker, self.count >> LOW_BITS)) << LOW_BITS | low;
            let place = &mut self.slots[(low & mask) as usize];
            let taken = *place > 0 && *place != slot + 1 && has(*place - 1, low & mask, mask);
            if pid > 0 && !taken {
                *place = slot + 1;
                return pid;
            }
        }
    }

    /// The next count for a key of a process with peers: the highest byte of its process id, and the lowest.
    pub(crate) fn issue_bytes(&mut self, worker: (WorkerId, u16)) -> (u8, u8) {
        self.count += 1;
        (high_byte(worker, self.count >> 8), self.count as u8)
    }

    /// The slot of the client that may have this process id.
    pub(crate) fn slot(&self, pid: u32) -> Option<u32> {
        let mask = (self.slots.len() as u32).checked_sub(1)?;
        self.slots[(pid & mask) as usize].checked_sub(1)
    }

    /// Makes the table twice as long as there are slots, so that at least half of it is free.
    fn make_room(&mut self, slots: u32, has: impl Fn(u32, u32, u32) -> bool) {
        let wanted = (slots as usize * 2).next_power_of_two().clamp(SMALLEST, 1 << LOW_BITS);
        if wanted <= self.slots.len() {
            return;
        }
        let old = std::mem::replace(&mut self.slots, vec![0; wanted]);
        let (step, mask) = (old.len(), wanted as u32 - 1);
        for (at, entry) in old.into_iter().enumerate().filter(|(_, entry)| *entry > 0) {
            let places = (at..wanted).step_by(step.max(1));
            if let Some(place) = places.into_iter().find(|place| has(entry - 1, *place as u32, mask)) {
                self.slots[place] = entry;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;

    /// Issues process ids to the clients of a table, by slot.
    fn issue(pids: &mut CancelPids, clients: &mut HashMap<u32, u32>, slot: u32, worker: (WorkerId, u16)) -> u32 {
        let slots = clients.keys().max().copied().unwrap_or(0).max(slot) + 1;
        let known = clients.clone();
        let has = |slot, low, mask| known.get(&slot).is_some_and(|pid| pid & mask == low);
        let pid = pids.issue(worker, (slot, slots), has);
        clients.insert(slot, pid);
        pid
    }

    #[test]
    fn clients_of_one_slot_have_process_ids_of_their_own_and_each_is_found_while_others_stay() {
        let worker = (WorkerId(1), 3);
        let (mut pids, mut clients, mut seen) = (CancelPids::default(), HashMap::new(), HashSet::new());
        for slot in 0..200 {
            seen.insert(issue(&mut pids, &mut clients, slot, worker));
        }
        for round in 0..3_000 {
            assert!(seen.insert(issue(&mut pids, &mut clients, round % 7, worker)), "round {round}");
        }
        for (slot, pid) in &clients {
            assert_eq!(pids.slot(*pid), Some(*slot));
            assert_eq!(worker_of(*pid, 3), WorkerId(1));
            assert!(*pid as i32 > 0);
        }
    }

    #[test]
    fn a_process_id_that_a_client_still_has_is_left_out_when_the_count_comes_round() {
        for workers in [1, 2, 5, 127] {
            let worker = (WorkerId(workers - 1), workers);
            let (mut pids, mut clients) = (CancelPids::default(), HashMap::new());
            let first = issue(&mut pids, &mut clients, 0, worker);
            let rounds = 128 / u64::from(workers);
            pids.begin_at((rounds << LOW_BITS) - 2);
            let all: HashSet<u32> = (1..8).map(|slot| issue(&mut pids, &mut clients, slot, worker)).collect();
            assert!(all.len() == 7 && !all.contains(&first) && !all.contains(&0), "{workers}: {all:?}");
            assert_eq!(pids.slot(first), Some(0));
        }
    }

    #[test]
    fn keys_among_peers_differ_in_their_bytes_as_long_as_these_allow() {
        let mut pids = CancelPids::default();
        let keys: HashSet<_> = (0..256 * 64).map(|_| pids.issue_bytes((WorkerId(1), 2))).collect();
        assert_eq!(keys.len(), 256 * 64);
        assert!(keys.iter().all(|(high, _)| high % 2 == 1 && *high < 128));
    }
}
