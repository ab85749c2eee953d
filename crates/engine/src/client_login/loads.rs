//! The worker of a new client: the owner of its pool, or, if that is busy, another one, which borrows its servers.
//!
//! Worker 0, which accepts clients, decides. Its own load comes through the port ([`crate::port::Input::Load`]), the
//! others' in messages. Clients are kept on one worker, because sharing a pool costs CPU on both; they are spread when
//! one worker is not enough. Must not know how lending works.

use weir_base::WorkerId;
use weir_config::Spread;

/// From this load on, in per cent, a worker is busy: new clients of its pools go to another one.
const BUSY: u8 = 80;

/// How much lower, in per cent, another worker's load must be to get a client.
const GAP: u8 = 25;

/// Worker 0's knowledge of the workers' loads.
#[derive(Default)]
pub(crate) struct Loads {
    /// In per cent of their time, as last reported.
    loads: Vec<u8>,
    /// The next worker, if all clients are spread.
    turn: u16,
}

impl Loads {
    pub(crate) fn note(&mut self, worker: WorkerId, percent: u8) {
        let at = usize::from(worker.0);
        if at >= self.loads.len() {
            self.loads.resize(at + 1, 0);
        }
        self.loads[at] = percent;
    }

    fn of(&self, worker: u16) -> u8 {
        self.loads.get(usize::from(worker)).copied().unwrap_or(0)
    }

    /// The worker of the next client of a pool.
    pub(crate) fn place(&mut self, owner: WorkerId, workers: u16, spread: Spread) -> WorkerId {
        match spread {
            Spread::Never => owner,
            Spread::Always => {
                self.turn = (self.turn + 1) % workers;
                WorkerId(self.turn)
            }
            Spread::Busy if self.of(owner.0) < BUSY => owner,
            Spread::Busy => {
                let idlest = (0..workers).min_by_key(|worker| self.of(*worker)).unwrap_or(owner.0);
                if self.of(idlest) + GAP <= self.of(owner.0) { WorkerId(idlest) } else { owner }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_go_to_the_owner_until_it_is_busy_and_another_is_not() {
        let mut loads = Loads::default();
        let owner = WorkerId(1);
        assert_eq!(loads.place(owner, 3, Spread::Busy), owner);
        loads.note(owner, BUSY);
        assert_eq!(loads.place(owner, 3, Spread::Busy), WorkerId(0));
        assert_eq!(loads.place(owner, 3, Spread::Never), owner);
        loads.note(WorkerId(0), BUSY);
        assert_eq!(loads.place(owner, 3, Spread::Busy), WorkerId(2));
        loads.note(WorkerId(2), BUSY - GAP + 1);
        assert_eq!(loads.place(owner, 3, Spread::Busy), owner);
    }

    #[test]
    fn clients_that_are_spread_take_turns() {
        let mut loads = Loads::default();
        let places: Vec<u16> = (0..4).map(|_| loads.place(WorkerId(0), 2, Spread::Always).0).collect();
        assert_eq!(places, [1, 0, 1, 0]);
    }
}
