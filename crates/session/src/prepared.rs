//! The statements that are prepared on one server under our names, least recently used first out.
//!
//! Owns which these are, and whether they can be trusted. Must not know texts, or messages on the wire. Every operation
//! takes the same time, however many there are.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use crate::key_hasher::KeyHasher;
use crate::shape::{GivenShape, Shape};
use crate::statements::Key;

/// The statements under our names on one server, least recently used first out.
#[derive(Debug, Default)]
pub(crate) struct ServerStatements {
    slots: HashMap<Key, u32, BuildHasherDefault<KeyHasher>>,
    nodes: Vec<Node>,
    /// Most and least recently used; meaningless while empty.
    newest: u32,
    oldest: u32,
    free: Vec<u32>,
    /// Counts how often all statements were distrusted: none that was prepared before the last time is trusted.
    epoch: u64,
    /// Counts the uses of the server by clients.
    use_count: u64,
}

#[derive(Debug)]
struct Node {
    key: Key,
    newer: u32,
    older: u32,
    /// The epoch in which the statement was prepared; `None` if it can't be trusted: close and prepare it again before
    /// the next use.
    prepared: Option<u64>,
    /// Which preparation the statement is of, among those of its pool; 0 for one of another process.
    of: u64,
    /// What is known of the statement's shape there.
    shape: Shape,
    /// When the server was last known to take the statement, as it was prepared, in the order of preparations.
    sound: u64,
    /// The use of the server in which the statement was last used.
    used: u64,
}

/// What is known of a statement that is on a server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    /// Which preparation the statement is of.
    pub(crate) of: u64,
    /// The statement's shape, as far as it is known.
    pub(crate) shape: Shape,
    /// When the server was last known to take the statement, in the order of preparations.
    pub(crate) sound: u64,
}

impl Known {
    /// Whether a comparison would find nothing: the client was given the shape of this preparation, or none, and the server
    /// has taken the statement since the client's Parse.
    #[inline]
    pub(crate) fn is_certain_for(self, given: GivenShape) -> bool {
        if given.shape.is_unknown() { given.of < self.sound } else { given.of == self.of }
    }

    /// Whether a client's Parse may be newer than this: the server has not taken the statement since, and the client was
    /// given nothing of it.
    pub(crate) fn may_be_older_than(self, given: GivenShape) -> bool {
        given.shape.is_unknown() && !self.is_certain_for(given)
    }
}

/// What a server knows of a statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OnServer {
    /// The statement is prepared, and good.
    Ready,
    /// The statement is prepared, and good, unless something that is not seen here has dropped it.
    Unsure,
    /// The statement may be prepared, but must be closed and prepared again.
    Stale,
    /// The statement is not prepared.
    Absent,
}

impl ServerStatements {
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Looks a statement up for use: it becomes the most recently used one.
    pub(crate) fn touch(&mut self, key: Key) -> OnServer {
        let Some(&slot) = self.slots.get(&key) else { return OnServer::Absent };
        if slot != self.newest {
            self.unlink(slot);
            self.link_newest(slot);
        }
        let node = &mut self.nodes[slot as usize];
        node.used = self.use_count;
        if node.prepared == Some(self.epoch) { OnServer::Ready } else { OnServer::Stale }
    }

    /// Whether a statement is prepared, and good.
    pub(crate) fn is_ready(&self, key: Key) -> bool {
        self.slots.get(&key).is_some_and(|slot| self.nodes[*slot as usize].prepared == Some(self.epoch))
    }

    /// What is known of the statement that was last touched, or added.
    #[inline]
    pub(crate) fn newest(&self) -> Known {
        let known = |node: &Node| Known { of: node.of, shape: node.shape, sound: node.sound };
        self.nodes.get(self.newest as usize).map_or_else(Known::default, known)
    }

    /// The server has taken a statement as it was prepared, at this place in the order of preparations.
    pub(crate) fn confirm(&mut self, key: Key, at: u64) {
        if let Some(&slot) = self.slots.get(&key) {
            self.nodes[slot as usize].sound = at;
        }
    }

    /// A statement that was just added is of this preparation.
    pub(crate) fn set_preparation(&mut self, key: Key, of: u64) {
        if let Some(&slot) = self.slots.get(&key) {
            let node = &mut self.nodes[slot as usize];
            (node.of, node.sound) = (of, of);
        }
    }

    /// A statement has this shape, if it is still of this preparation.
    pub(crate) fn learn_shape(&mut self, key: Key, of: u64, shape: Shape) {
        if let Some(&slot) = self.slots.get(&key) {
            let node = &mut self.nodes[slot as usize];
            if node.of == of {
                node.shape.learn(shape);
            }
        }
    }

    /// Adds a statement that is being prepared (again). Returns those that must be closed for it, the least recently
    /// used first, if more than `limit` would be held: several where the limit was lowered. 0 keeps none for longer
    /// than its use, which still needs room for one.
    pub(crate) fn insert(&mut self, key: Key, limit: usize) -> Vec<Key> {
        if let Some(&slot) = self.slots.get(&key) {
            let node = &mut self.nodes[slot as usize];
            (node.prepared, node.of, node.shape, node.used) = (Some(self.epoch), 0, Shape::default(), self.use_count);
            return Vec::new();
        }
        let mut evicted = Vec::new();
        while self.slots.len() >= limit.max(1) {
            let oldest = self.nodes[self.oldest as usize].key;
            self.remove(oldest);
            evicted.push(oldest);
        }
        let node = Node {
            key,
            newer: 0,
            older: 0,
            prepared: Some(self.epoch),
            of: 0,
            shape: Shape::default(),
            sound: 0,
            used: self.use_count,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.nodes[slot as usize] = node;
                slot
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        };
        let was_empty = self.slots.is_empty();
        self.slots.insert(key, slot);
        if was_empty {
            self.newest = slot;
            self.oldest = slot;
            let node = &mut self.nodes[slot as usize];
            (node.newer, node.older) = (slot, slot);
        } else {
            self.link_newest(slot);
        }
        evicted
    }

    /// A statement may be on the server or not: whichever, it must be closed before it is prepared again. Kept without
    /// regard to the limit, since it takes no room on the server that it did not take before.
    pub(crate) fn mark_doubtful(&mut self, key: Key) {
        self.insert(key, usize::MAX);
        if let Some(&slot) = self.slots.get(&key) {
            self.nodes[slot as usize].prepared = None;
        }
    }

    /// Forgets a statement: its Parse failed, or it has been closed.
    pub(crate) fn remove(&mut self, key: Key) {
        if let Some(slot) = self.slots.remove(&key) {
            self.unlink(slot);
            self.free.push(slot);
        }
    }

    /// The server has dropped all statements.
    pub(crate) fn clear(&mut self) {
        self.slots.clear();
        self.nodes.clear();
        self.free.clear();
    }

    /// All statements, least recently used first, and whether each can be trusted.
    pub(crate) fn by_use(&self) -> impl Iterator<Item = (Key, bool)> {
        let mut next = (!self.slots.is_empty()).then_some(self.oldest);
        std::iter::from_fn(move || {
            let at = next?;
            let node = &self.nodes[at as usize];
            next = (at != self.newest).then_some(node.newer);
            Some((node.key, node.prepared == Some(self.epoch)))
        })
    }

    /// No statement is to be trusted any more.
    pub(crate) fn invalidate_all(&mut self) {
        self.epoch += 1;
    }

    /// A client's use of the server has ended. `distrusted`: none that was used in it is to be trusted any more; they
    /// are at the newest end of the list.
    pub(crate) fn end_use(&mut self, distrusted: bool) {
        let ended = self.use_count;
        self.use_count += 1;
        if !distrusted || self.slots.is_empty() {
            return;
        }
        let mut at = self.newest;
        loop {
            let node = &mut self.nodes[at as usize];
            if node.used != ended {
                return;
            }
            node.prepared = None;
            if at == self.oldest {
                return;
            }
            at = node.older;
        }
    }

    /// Puts a slot that is in no list at the newest end. There is at least one in the list.
    fn link_newest(&mut self, slot: u32) {
        let before = self.newest;
        self.nodes[before as usize].newer = slot;
        let node = &mut self.nodes[slot as usize];
        (node.older, node.newer) = (before, slot);
        self.newest = slot;
    }

    /// Takes a slot out of the list; an end points to itself.
    fn unlink(&mut self, slot: u32) {
        let Node { newer, older, .. } = self.nodes[slot as usize];
        let (is_newest, is_oldest) = (newer == slot, older == slot);
        if is_newest {
            self.newest = older;
        } else {
            self.nodes[newer as usize].older = if is_oldest { newer } else { older };
        }
        if is_oldest {
            self.oldest = newer;
        } else {
            self.nodes[older as usize].newer = if is_newest { older } else { newer };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u128) -> Key {
        Key(n)
    }

    #[test]
    fn the_least_recently_used_statement_makes_room() {
        let mut lru = ServerStatements::default();
        for n in 0..3 {
            assert_eq!(lru.insert(key(n), 3), []);
        }
        assert_eq!(lru.touch(key(0)), OnServer::Ready);
        assert_eq!(lru.insert(key(3), 3), [key(1)]);
        assert_eq!(lru.touch(key(1)), OnServer::Absent);
        lru.invalidate_all();
        assert_eq!(lru.touch(key(2)), OnServer::Stale);
        assert_eq!(lru.insert(key(2), 3), []);
        assert_eq!(lru.touch(key(2)), OnServer::Ready);
    }

    #[test]
    fn what_was_used_is_distrusted_and_nothing_else() {
        let mut lru = ServerStatements::default();
        lru.end_use(true);
        (0..4).for_each(|n| assert_eq!(lru.insert(key(n), 9), []));
        lru.end_use(false);
        lru.touch(key(1));
        assert_eq!(lru.insert(key(7), 9), []);
        lru.end_use(true);
        let ready = [0, 2, 3, 1, 7].map(|n| lru.touch(key(n)) == OnServer::Ready);
        assert_eq!(ready, [true, true, true, false, false]);
    }

    #[test]
    fn a_lower_limit_is_kept_from_the_next_statement_on() {
        let mut lru = ServerStatements::default();
        (0..5).for_each(|n| assert_eq!(lru.insert(key(n), 5), []));
        assert_eq!(lru.touch(key(1)), OnServer::Ready);
        assert_eq!(lru.len(), 5);
        assert_eq!(lru.insert(key(5), 2), [key(0), key(2), key(3), key(4)]);
        assert_eq!((lru.len(), lru.touch(key(1)), lru.touch(key(5))), (2, OnServer::Ready, OnServer::Ready));
    }

    /// The list against the obvious model.
    #[test]
    fn the_order_of_use_is_kept_through_any_operations() {
        let mut lru = ServerStatements::default();
        let mut model: Vec<u128> = Vec::new();
        let mut x = 12345u64;
        for _ in 0..20_000 {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let n = u128::from(x >> 40) % 9;
            match x >> 60 {
                0..=6 => {
                    let known = lru.touch(key(n)) == OnServer::Ready;
                    assert_eq!(known, model.contains(&n));
                    if known {
                        model.retain(|m| *m != n);
                        model.push(n);
                    }
                }
                7..=13 => {
                    let out = lru.insert(key(n), 5);
                    if !model.contains(&n) {
                        let expected = (model.len() == 5).then(|| model.remove(0));
                        assert_eq!(out, expected.map(key).into_iter().collect::<Vec<_>>());
                        model.push(n);
                    } else {
                        assert_eq!(out, []);
                    }
                }
                14 => {
                    lru.remove(key(n));
                    model.retain(|m| *m != n);
                }
                _ => {
                    if n == 0 {
                        lru.clear();
                        model.clear();
                    }
                }
            }
            assert_eq!(lru.len(), model.len());
        }
    }
}
