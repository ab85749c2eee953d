//! Clients that wait for something scarce, in turn by origin: a flood of one origin delays the others by one client
//! each.

use std::collections::{BTreeMap, VecDeque};

use crate::ids::ConnId;
use crate::origin::Origin;

/// The clients that wait, each with what it waits for.
#[derive(Debug)]
pub struct FairQueue<T> {
    waiting: BTreeMap<Origin, VecDeque<(ConnId, T)>>,
    /// The origins of the clients that wait, the next one first.
    turns: VecDeque<Origin>,
    length: usize,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        FairQueue { waiting: BTreeMap::new(), turns: VecDeque::new(), length: 0 }
    }
}

impl<T> FairQueue<T> {
    /// How many clients wait.
    #[expect(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        self.length
    }

    /// How many clients wait for something of this kind.
    pub fn count(&self, is_one: impl Fn(&T) -> bool) -> usize {
        self.waiting.values().flatten().filter(|(_, item)| is_one(item)).count()
    }

    /// A client waits.
    pub fn push(&mut self, origin: Origin, client: ConnId, item: T) {
        let of_origin = self.waiting.entry(origin).or_default();
        if of_origin.is_empty() {
            self.turns.push_back(origin);
        }
        of_origin.push_back((client, item));
        self.length += 1;
    }

    /// The next client whose turn it is, of those that fit: of each origin the first.
    pub fn take(&mut self, fits: impl Fn(&T) -> bool) -> Option<(ConnId, T)> {
        let found = self.turns.iter().enumerate().find_map(|(turn, origin)| {
            let at = self.waiting.get(origin)?.iter().position(|(_, item)| fits(item))?;
            Some((turn, *origin, at))
        });
        let (turn, origin, at) = found?;
        self.turns.remove(turn);
        // The origin is removed below, if this was its last client.
        self.turns.push_back(origin);
        self.remove(origin, at)
    }

    /// Where there is no room for a client of `from`: removes the last client of the origin with the most, if that has
    /// more; it must be refused. Only those clients count that wait for something of this kind.
    pub fn displace(&mut self, from: Origin, is_one: impl Fn(&T) -> bool) -> Option<ConnId> {
        let count = |of_origin: &VecDeque<(ConnId, T)>| of_origin.iter().filter(|(_, item)| is_one(item)).count();
        let own = self.waiting.get(&from).map_or(0, count);
        let counts = self.waiting.iter().map(|(origin, of_origin)| (count(of_origin), *origin));
        let (_, busiest) = counts.max().filter(|(most, _)| *most > own + 1)?;
        let at = self.waiting.get(&busiest)?.iter().rposition(|(_, item)| is_one(item))?;
        self.remove(busiest, at).map(|(client, _)| client)
    }

    /// Removes all that wait for something of this kind.
    pub fn take_all(&mut self, is_one: impl Fn(&T) -> bool) -> Vec<ConnId> {
        let all = self.waiting.values().flatten().filter(|(_, item)| is_one(item)).map(|(client, _)| *client);
        let all: Vec<ConnId> = all.collect();
        all.iter().for_each(|client| self.leave(*client));
        all
    }

    /// A client no longer waits.
    pub fn leave(&mut self, client: ConnId) {
        let position = |of_origin: &VecDeque<(ConnId, T)>| of_origin.iter().position(|(waiting, _)| *waiting == client);
        let found = self.waiting.iter().find_map(|(origin, of_origin)| Some((*origin, position(of_origin)?)));
        found.and_then(|(origin, at)| self.remove(origin, at));
    }

    fn remove(&mut self, origin: Origin, at: usize) -> Option<(ConnId, T)> {
        let of_origin = self.waiting.get_mut(&origin)?;
        let removed = of_origin.remove(at)?;
        self.length -= 1;
        if of_origin.is_empty() {
            self.waiting.remove(&origin);
            self.turns.retain(|turn| *turn != origin);
        }
        Some(removed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOOD: Origin = Origin::V4(1);
    const QUIET: Origin = Origin::V4(2);

    fn queue() -> FairQueue<u32> {
        let mut queue = FairQueue::default();
        (0..5).for_each(|n| queue.push(FLOOD, ConnId::new(n, 1), n));
        queue.push(QUIET, ConnId::new(9, 1), 9);
        queue
    }

    fn taken(queue: &mut FairQueue<u32>, fits: impl Fn(&u32) -> bool + Copy) -> Vec<u32> {
        std::iter::from_fn(|| queue.take(fits).map(|(_, item)| item)).collect()
    }

    #[test]
    fn origins_take_turns_and_each_keeps_its_order() {
        let mut queue = queue();
        assert_eq!((queue.len(), taken(&mut queue, |_| true)), (6, vec![0, 9, 1, 2, 3, 4]));
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn those_that_do_not_fit_wait_on() {
        let mut queue = queue();
        assert_eq!(taken(&mut queue, |item| item % 2 == 0), [0, 2, 4]);
        assert_eq!(taken(&mut queue, |_| true), [9, 1, 3]);
    }

    #[test]
    fn all_of_a_kind_are_taken_whatever_their_origin() {
        let mut queue = queue();
        assert_eq!(queue.take_all(|item| *item > 3), [ConnId::new(4, 1), ConnId::new(9, 1)]);
        assert_eq!((queue.len(), taken(&mut queue, |_| true)), (4, vec![0, 1, 2, 3]));
    }

    #[test]
    fn the_last_of_the_busiest_makes_room_for_a_quieter_origin_only() {
        let mut queue = queue();
        assert_eq!(queue.displace(FLOOD, |_| true), None);
        assert_eq!(queue.displace(Origin::V4(3), |_| true), Some(ConnId::new(4, 1)));
        assert_eq!(queue.displace(QUIET, |item| item % 2 == 0), Some(ConnId::new(2, 1)));
        queue.leave(ConnId::new(0, 1));
        queue.leave(ConnId::new(0, 1));
        assert_eq!(queue.displace(QUIET, |_| true), None, "none has so many more");
        assert_eq!((queue.count(|item| *item > 2), queue.len()), (2, 3));
        assert_eq!(taken(&mut queue, |_| true), [1, 9, 3]);
    }
}
