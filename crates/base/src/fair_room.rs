//! A store of bounded size that clients share: where it is full, the origin with the most gives way.
//!
//! Owns who holds how many bytes, and nothing of what they hold. Invariant: `all`, `origins` and `ranks` are the sums
//! of `clients`, and no entry is of 0 bytes.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::ConnId;
use crate::origin::Origin;

/// The bytes that clients hold.
#[derive(Debug)]
pub struct FairRoom {
    limit: usize,
    all: usize,
    clients: BTreeMap<ConnId, (Origin, usize)>,
    origins: BTreeMap<Origin, OfOrigin>,
    /// The origins by the bytes that they hold.
    ranks: BTreeSet<(usize, Origin)>,
}

/// What the clients of an origin hold.
#[derive(Debug, Default)]
struct OfOrigin {
    bytes: usize,
    clients: BTreeSet<(usize, ConnId)>,
}

impl FairRoom {
    /// Room for so many bytes.
    pub const fn new(limit: usize) -> FairRoom {
        FairRoom { limit, all: 0, clients: BTreeMap::new(), origins: BTreeMap::new(), ranks: BTreeSet::new() }
    }

    /// How many bytes are held.
    pub fn held(&self) -> usize {
        self.all
    }

    /// Whether there is room for a client of `from` to hold `bytes`. The result are the clients that give way, which
    /// the caller must close: they hold nothing here any more. They are of origins that hold more than that of the
    /// client would, and of each those with the most.
    pub fn make(&mut self, from: Origin, client: ConnId, bytes: usize) -> Option<Vec<ConnId>> {
        let (origin, own) = self.clients.get(&client).copied().unwrap_or((from, 0));
        let of_origin = self.origins.get(&from).map_or(0, |of_origin| of_origin.bytes);
        let own_of_origin = if origin == from { own } else { 0 };
        let share = of_origin - own_of_origin + bytes;
        let mut displaced = Vec::new();
        while bytes > 0 && self.all - own + bytes > self.limit {
            let busiest = self.ranks.last().filter(|(most, origin)| *most > share && *origin != from);
            let largest = busiest.and_then(|(_, origin)| Some((*origin, self.origins.get(origin)?.clients.last()?)));
            // The client itself may be of another origin so far.
            let Some((origin, (held, conn))) = largest.filter(|(_, (_, conn))| *conn != client) else {
                displaced.into_iter().for_each(|(origin, held, conn)| self.set(origin, conn, held));
                return None;
            };
            let (held, conn) = (*held, *conn);
            self.release(conn);
            displaced.push((origin, held, conn));
        }
        Some(displaced.into_iter().map(|(_, _, conn)| conn).collect())
    }

    /// A client of `from` holds so many bytes, whether there is room or not.
    pub fn set(&mut self, from: Origin, client: ConnId, bytes: usize) {
        self.release(client);
        if bytes == 0 {
            return;
        }
        self.all += bytes;
        self.clients.insert(client, (from, bytes));
        let of_origin = self.origins.entry(from).or_default();
        self.ranks.remove(&(of_origin.bytes, from));
        of_origin.bytes += bytes;
        of_origin.clients.insert((bytes, client));
        self.ranks.insert((of_origin.bytes, from));
    }

    /// A client holds nothing any more.
    pub fn release(&mut self, client: ConnId) {
        let Some((origin, bytes)) = self.clients.remove(&client) else { return };
        self.all -= bytes;
        let Some(of_origin) = self.origins.get_mut(&origin) else { return };
        self.ranks.remove(&(of_origin.bytes, origin));
        of_origin.bytes -= bytes;
        of_origin.clients.remove(&(bytes, client));
        match of_origin.bytes {
            0 => drop(self.origins.remove(&origin)),
            left => drop(self.ranks.insert((left, origin))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOOD: Origin = Origin::V4(1);
    const QUIET: Origin = Origin::V4(2);
    const THIRD: Origin = Origin::V4(3);

    fn conn(number: u32) -> ConnId {
        ConnId::new(number, 1)
    }

    /// A room of 100 bytes of which one origin has 90, in parts of 20, 30 and 40.
    fn room() -> FairRoom {
        let mut room = FairRoom::new(100);
        for (number, bytes) in [(1, 20), (2, 30), (3, 40)] {
            assert_eq!(room.make(FLOOD, conn(number), bytes), Some(Vec::new()));
            room.set(FLOOD, conn(number), bytes);
        }
        room
    }

    fn empty(room: &FairRoom) -> bool {
        room.all == 0 && room.clients.is_empty() && room.origins.is_empty() && room.ranks.is_empty()
    }

    #[test]
    fn the_largest_of_the_origin_with_the_most_gives_way() {
        let mut room = room();
        assert_eq!(room.make(QUIET, conn(9), 10), Some(Vec::new()), "there is room");
        assert_eq!(room.make(QUIET, conn(9), 15), Some(vec![conn(3)]));
        room.set(QUIET, conn(9), 15);
        assert_eq!(room.held(), 65);
        room.set(FLOOD, conn(3), 35);
        assert_eq!(room.make(QUIET, conn(8), 30), Some(vec![conn(3)]), "it is full to the last byte");
        [1, 2, 9].into_iter().for_each(|number| room.release(conn(number)));
        assert!(empty(&room));
        // More than one, if the client needs more.
        (0..10).for_each(|number| room.set(FLOOD, conn(number), 10));
        assert_eq!(room.make(QUIET, conn(20), 25), Some(vec![conn(9), conn(8), conn(7)]));
    }

    #[test]
    fn an_origin_does_not_displace_its_own_nor_those_with_less() {
        let mut room = room();
        assert_eq!(room.make(FLOOD, conn(4), 11), None, "the flood itself is refused");
        assert_eq!(room.make(FLOOD, conn(3), 50), Some(Vec::new()), "what it holds already counts once");
        assert_eq!(room.make(FLOOD, conn(3), 51), None);
        assert_eq!(room.make(QUIET, conn(9), 90), None, "it would hold as much");
        assert_eq!(room.held(), 90, "nobody gave way");
    }

    #[test]
    fn who_gave_way_in_vain_keeps_what_it_held() {
        let mut room = FairRoom::new(100);
        [(FLOOD, 1, 30), (FLOOD, 2, 30), (THIRD, 3, 40)]
            .into_iter()
            .for_each(|(origin, number, bytes)| room.set(origin, conn(number), bytes));
        // The first one of the flood makes room for 30; those that are left are of origins with less.
        assert_eq!(room.make(QUIET, conn(9), 45), None);
        assert_eq!(room.held(), 100);
        assert_eq!(room.make(QUIET, conn(9), 25), Some(vec![conn(2)]));
    }

    #[test]
    fn nothing_is_always_allowed_and_a_client_may_change_its_origin() {
        let mut room = room();
        room.set(FLOOD, conn(1), 40);
        assert_eq!(room.make(QUIET, conn(9), 0), Some(Vec::new()), "beyond the limit too");
        room.set(QUIET, conn(1), 20);
        assert_eq!(room.make(THIRD, conn(1), 30), Some(Vec::new()), "it releases its own");
        [1, 2, 3].into_iter().for_each(|number| room.release(conn(number)));
        room.release(conn(3));
        assert!(empty(&room));
    }
}
