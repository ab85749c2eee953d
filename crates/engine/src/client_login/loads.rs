//! The worker of a new client: the owner of its pool, or, if that is busy, another one, which borrows its servers.
//!
//! Worker 0, which accepts clients, decides. Its own load comes through the port ([`crate::port::Input::Load`]), the
//! others' in messages. Clients are kept on one worker, because sharing a pool costs CPU on both; they are spread when
//! one worker is not enough. Clients that are connected move for the same reason (`moves`), but only from a worker that
//! has been busy for a while to one that is far from it, so that they do not move back. Must not know how lending works.

use weir_base::{Span, Time, WorkerId};
use weir_config::Spread;

/// From this load on, in per cent, a worker is busy: new clients of its pools go to another one.
const BUSY: u8 = 80;

/// How much lower, in per cent, another worker's load must be to get a client.
const GAP: u8 = 25;

/// Up to this load, in per cent, a worker is sent connected clients of another one.
const IDLE: u8 = 40;

/// For so long a worker must have been busy before connected clients leave it; and the interval between two looks.
const LOOK_EVERY: Span = Span::from_secs(1);

/// Worker 0's knowledge of the workers' loads.
pub(crate) struct Loads {
    /// In per cent of their time, as last reported, and since when the worker is busy.
    loads: Vec<(u8, Option<Time>)>,
    /// The next worker, if all clients are spread.
    turn: u16,
    /// Of the timer for the next look.
    armed: Time,
    /// The workers between which a test has clients move.
    wanted: Option<(WorkerId, WorkerId)>,
}

impl Default for Loads {
    fn default() -> Self {
        Loads { loads: Vec::new(), turn: 0, armed: Time::NEVER, wanted: None }
    }
}

impl Loads {
    pub(crate) fn note(&mut self, worker: WorkerId, percent: u8, now: Time) {
        let at = usize::from(worker.0);
        if at >= self.loads.len() {
            self.loads.resize(at + 1, (0, None));
        }
        let (load, busy) = &mut self.loads[at];
        (*load, *busy) = (percent, (percent >= BUSY).then(|| busy.unwrap_or(now)));
    }

    fn of(&self, worker: u16) -> u8 {
        self.loads.get(usize::from(worker)).map_or(0, |(load, _)| *load)
    }

    /// When connected clients may have to move: never while no worker is busy.
    pub(crate) fn next_look(&self, now: Time) -> Time {
        if self.loads.iter().any(|(_, busy)| busy.is_some()) { now + LOOK_EVERY } else { Time::NEVER }
    }

    /// The record of the timer for the next look, for [`Common::arm`](crate::common::Common::arm).
    pub(crate) fn armed(&mut self) -> &mut Time {
        &mut self.armed
    }

    /// The busiest worker, if it has been busy for long enough, and the idlest one, if that has room.
    pub(crate) fn uneven(&self, workers: u16, now: Time) -> Option<(WorkerId, WorkerId)> {
        let is_busy = |(_, (_, busy)): &(usize, &(u8, Option<Time>))| busy.is_some_and(|at| at + LOOK_EVERY <= now);
        let busiest = self.loads.iter().enumerate().filter(is_busy).max_by_key(|(_, (load, _))| *load)?.0 as u16;
        let idlest = (0..workers).min_by_key(|worker| self.of(*worker))?;
        (self.of(idlest) <= IDLE).then_some((WorkerId(busiest), WorkerId(idlest)))
    }

    /// A test has clients move between these workers.
    pub(crate) fn want(&mut self, from: WorkerId, to: WorkerId) {
        self.wanted = Some((from, to));
    }

    /// Between which workers a test has clients move now.
    pub(crate) fn take_wanted(&mut self) -> Option<(WorkerId, WorkerId)> {
        self.wanted.take()
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
        loads.note(owner, BUSY, Time::START);
        assert_eq!(loads.place(owner, 3, Spread::Busy), WorkerId(0));
        assert_eq!(loads.place(owner, 3, Spread::Never), owner);
        loads.note(WorkerId(0), BUSY, Time::START);
        assert_eq!(loads.place(owner, 3, Spread::Busy), WorkerId(2));
        loads.note(WorkerId(2), BUSY - GAP + 1, Time::START);
        assert_eq!(loads.place(owner, 3, Spread::Busy), owner);
    }

    #[test]
    fn clients_that_are_spread_take_turns() {
        let mut loads = Loads::default();
        let places: Vec<u16> = (0..4).map(|_| loads.place(WorkerId(0), 2, Spread::Always).0).collect();
        assert_eq!(places, [1, 0, 1, 0]);
    }

    #[test]
    fn connected_clients_leave_a_worker_that_has_been_busy_for_one_that_has_room() {
        let (mut loads, second) = (Loads::default(), |n| Time::START + Span::from_secs(n));
        assert_eq!(loads.next_look(second(1)), Time::NEVER);
        loads.note(WorkerId(1), BUSY, second(1));
        assert_eq!((loads.next_look(second(1)), loads.uneven(2, second(1))), (second(2), None), "it may be a burst");
        loads.note(WorkerId(1), 100, second(2));
        assert_eq!(loads.uneven(2, second(2)), Some((WorkerId(1), WorkerId(0))));
        loads.note(WorkerId(0), IDLE + 1, second(2));
        assert_eq!(loads.uneven(2, second(2)), None, "the other one would soon be busy");
        assert_eq!(loads.uneven(3, second(2)), Some((WorkerId(1), WorkerId(2))));
        loads.note(WorkerId(1), BUSY - 1, second(3));
        loads.note(WorkerId(1), BUSY, second(4));
        assert_eq!(loads.uneven(3, second(4)), None, "it was not busy in between");
    }
}
