//! Values found by their connection, which can also be in a list; every operation takes constant time.
//!
//! A [`Table`] owns the values, in a vector whose places are reused; a [`List`] is a chain through that vector, so a
//! value leaves from the middle as cheaply as from an end. A value is in one list at most, and which one is its
//! owner's business. Memory is allocated only while the table grows beyond its largest size so far.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::{Index, IndexMut};

use weir_base::ConnId;

/// A value's place in its table.
pub(crate) type Key = u32;

const NIL: Key = Key::MAX;

#[derive(Clone, Debug)]
pub(crate) struct Table<T> {
    nodes: Vec<Node<T>>,
    /// The first free place; the others are chained by `next`.
    free: Key,
    at: HashMap<ConnId, Key, BuildHasherDefault<ConnIdHasher>>,
}

#[derive(Clone, Debug)]
struct Node<T> {
    conn: ConnId,
    prev: Key,
    next: Key,
    value: Option<T>,
}

/// A chain of values of one table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    first: Key,
    last: Key,
    len: u32,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Table { nodes: Vec::new(), free: NIL, at: HashMap::default() }
    }
}

impl Default for List {
    fn default() -> Self {
        List { first: NIL, last: NIL, len: 0 }
    }
}

impl List {
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn first(&self) -> Option<Key> {
        some(self.first)
    }

    pub(crate) fn last(&self) -> Option<Key> {
        some(self.last)
    }
}

impl<T> Table<T> {
    pub(crate) fn len(&self) -> u32 {
        self.at.len() as u32
    }

    pub(crate) fn find(&self, conn: ConnId) -> Option<Key> {
        self.at.get(&conn).copied()
    }

    pub(crate) fn conn(&self, key: Key) -> ConnId {
        self.nodes[key as usize].conn
    }

    /// Keeps `value`, in no list yet. A connection has one value at most.
    pub(crate) fn insert(&mut self, conn: ConnId, value: T) -> Key {
        let node = Node { conn, prev: NIL, next: NIL, value: Some(value) };
        let key = self.free;
        let key = if key == NIL {
            self.nodes.push(node);
            (self.nodes.len() - 1) as Key
        } else {
            self.free = self.nodes[key as usize].next;
            self.nodes[key as usize] = node;
            key
        };
        let before = self.at.insert(conn, key);
        assert!(before.is_none(), "{conn:?} is known already");
        key
    }

    /// Takes a value out; it must have left its list before.
    pub(crate) fn remove(&mut self, key: Key) -> T {
        let node = &mut self.nodes[key as usize];
        let value = node.value.take().expect("a key names a value");
        debug_assert!(node.prev == NIL && node.next == NIL);
        self.at.remove(&node.conn);
        node.next = self.free;
        self.free = key;
        value
    }

    /// Gives the value another connection's handle, which must be unused.
    pub(crate) fn rename(&mut self, key: Key, conn: ConnId) {
        let old = std::mem::replace(&mut self.nodes[key as usize].conn, conn);
        self.at.remove(&old);
        let before = self.at.insert(conn, key);
        assert!(before.is_none(), "{conn:?} is known already");
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, ConnId, &T)> {
        self.nodes.iter().enumerate().filter_map(|(key, node)| Some((key as Key, node.conn, node.value.as_ref()?)))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.nodes.iter_mut().filter_map(|node| node.value.as_mut())
    }

    /// The value after `key` in its list.
    pub(crate) fn next(&self, key: Key) -> Option<Key> {
        some(self.nodes[key as usize].next)
    }

    /// The value before `key` in its list.
    pub(crate) fn prev(&self, key: Key) -> Option<Key> {
        some(self.nodes[key as usize].prev)
    }

    pub(crate) fn push_front(&mut self, list: &mut List, key: Key) {
        self.insert_before(list, key, list.first());
    }

    /// Puts `key` into `list` before `other`, or last.
    pub(crate) fn insert_before(&mut self, list: &mut List, key: Key, other: Option<Key>) {
        let next = other.unwrap_or(NIL);
        let prev = other.map_or(list.last, |other| self.nodes[other as usize].prev);
        let node = &mut self.nodes[key as usize];
        debug_assert!(node.prev == NIL && node.next == NIL && list.first != key);
        (node.prev, node.next) = (prev, next);
        *self.next_of(list, prev) = key;
        *self.prev_of(list, next) = key;
        list.len += 1;
    }

    pub(crate) fn unlink(&mut self, list: &mut List, key: Key) {
        let node = &mut self.nodes[key as usize];
        let (prev, next) = (node.prev, node.next);
        (node.prev, node.next) = (NIL, NIL);
        debug_assert!(prev != NIL || list.first == key);
        debug_assert!(next != NIL || list.last == key);
        *self.next_of(list, prev) = next;
        *self.prev_of(list, next) = prev;
        list.len -= 1;
    }

    /// The values of a list in order.
    pub(crate) fn walk<'a>(&'a self, list: &List) -> impl Iterator<Item = Key> + use<'a, T> {
        std::iter::successors(list.first(), |key| self.next(*key))
    }

    /// Whether `list` is a well-formed chain of values; costs a walk.
    pub(crate) fn is_sound(&self, list: &List) -> bool {
        let mut prev = NIL;
        let mut len = 0;
        for key in self.walk(list) {
            let node = &self.nodes[key as usize];
            if node.prev != prev || node.value.is_none() || self.find(node.conn) != Some(key) || len > list.len {
                return false;
            }
            prev = key;
            len += 1;
        }
        list.last == prev && list.len == len
    }

    #[cfg(test)]
    pub(crate) fn places(&self) -> (usize, usize) {
        (self.nodes.capacity(), self.at.capacity())
    }

    fn next_of<'a>(&'a mut self, list: &'a mut List, key: Key) -> &'a mut Key {
        if key == NIL { &mut list.first } else { &mut self.nodes[key as usize].next }
    }

    fn prev_of<'a>(&'a mut self, list: &'a mut List, key: Key) -> &'a mut Key {
        if key == NIL { &mut list.last } else { &mut self.nodes[key as usize].prev }
    }
}

impl<T> Index<Key> for Table<T> {
    type Output = T;
    fn index(&self, key: Key) -> &T {
        self.nodes[key as usize].value.as_ref().expect("a key names a value")
    }
}

impl<T> IndexMut<Key> for Table<T> {
    fn index_mut(&mut self, key: Key) -> &mut T {
        self.nodes[key as usize].value.as_mut().expect("a key names a value")
    }
}

fn some(key: Key) -> Option<Key> {
    (key != NIL).then_some(key)
}

/// A hash for handles of our own runtime: no outsider chooses them, so mixing is enough.
#[derive(Clone, Copy, Default)]
pub(crate) struct ConnIdHasher(u64);

impl Hasher for ConnIdHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, word: u32) {
        self.0 = (self.0.rotate_left(5) ^ u64::from(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conn(slot: u32) -> ConnId {
        ConnId::new(slot, 1)
    }

    fn slots(table: &Table<()>, list: &List) -> Vec<u32> {
        assert!(table.is_sound(list));
        table.walk(list).map(|key| table.conn(key).slot).collect()
    }

    #[test]
    fn values_leave_a_list_from_anywhere() {
        let (mut table, mut list) = (Table::default(), List::default());
        let keys: Vec<Key> = (0..5).map(|slot| table.insert(conn(slot), ())).collect();
        keys.iter().for_each(|key| table.insert_before(&mut list, *key, None));
        assert_eq!(slots(&table, &list), [0, 1, 2, 3, 4]);
        for (key, rest) in [(2, vec![0, 1, 3, 4]), (0, vec![1, 3, 4]), (4, vec![1, 3]), (3, vec![1]), (1, vec![])] {
            table.unlink(&mut list, keys[key]);
            table.remove(keys[key]);
            assert_eq!(slots(&table, &list), rest);
        }
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn places_are_reused_and_peers_found() {
        let mut table = Table::default();
        let key = table.insert(conn(7), 'a');
        assert_eq!(table.remove(key), 'a');
        assert_eq!(table.find(conn(7)), None);
        assert_eq!(table.insert(conn(9), 'b'), key);
        assert_eq!(table.find(conn(9)).map(|key| table[key]), Some('b'));
        assert_eq!(table.find(ConnId::new(9, 2)), None);
    }

    #[test]
    #[should_panic(expected = "is known already")]
    fn a_peer_has_one_value() {
        let mut table = Table::default();
        table.insert(conn(7), ());
        table.insert(conn(7), ());
    }
}
