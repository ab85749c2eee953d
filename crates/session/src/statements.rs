//! Prepared statements: what a client calls by a name, and what a server has under ours.
//!
//! Owns the identity of a statement (its text, its parameter types, and its reading), the names clients gave, and the
//! bounded set of statements on each server. Must not know messages on the wire.
//!
//! A *reading* stands for what PostgreSQL reads a text by when it parses it: the parameters that decide what a literal or a
//! name is (encoding, date style, time zone, search path and so on), and the definitions of what the text names. The same text of clients that
//! differ in these, and the same text before and after a definition has changed, are two statements.
//!
//! A statement's name on servers comes from a keyed 128-bit hash of its identity. The key is random for the process, so
//! nobody can prepare a collision, and every worker means the same by the same name; the full text is compared when a
//! statement is interned all the same.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use siphasher::sip128::{Hasher128, SipHasher13};
use weir_pgwire::Effects;

/// What every name of ours on a server begins with.
pub const NAME_PREFIX: &[u8] = b"weir_";

/// Length of a name of ours: the prefix and 32 hexadecimal digits.
pub const NAME_LEN: usize = 37;

/// How much of a statement's name PostgreSQL goes by: names that agree so far are one (`NAMEDATALEN`, less its NUL).
const SIGNIFICANT: usize = 63;

/// What PostgreSQL goes by of a name that a client gave.
pub(crate) fn significant(name: &[u8]) -> &[u8] {
    &name[..name.len().min(SIGNIFICANT)]
}

/// The identity of a statement within the process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub(crate) struct Key(u128);

impl Key {
    /// The statement's name on servers.
    pub(crate) fn name(self) -> [u8; NAME_LEN] {
        name_of(self)
    }
}

/// A keyed hash of the parameters by which texts are read, and of how often definitions had changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reading(pub(crate) u64);

/// One statement: what follows the name in a Parse message, and how it is read.
#[derive(Debug)]
pub(crate) struct Statement {
    key: Key,
    reading: Reading,
    name: [u8; NAME_LEN],
    /// Text, its NUL, the count and the types, as they stood in the message.
    rest: Box<[u8]>,
    /// What running it may leave on a server.
    effects: Effects,
}

impl Statement {
    pub(crate) fn key(&self) -> Key {
        self.key
    }

    /// The name on servers.
    pub(crate) fn name(&self) -> &[u8; NAME_LEN] {
        &self.name
    }

    pub(crate) fn reading(&self) -> Reading {
        self.reading
    }

    pub(crate) fn effects(&self) -> Effects {
        self.effects
    }

    pub(crate) fn rest(&self) -> &[u8] {
        &self.rest
    }

    fn is(&self, rest: &[u8], reading: Reading) -> bool {
        *self.rest == *rest && self.reading == reading
    }
}

/// Why a statement was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotInterned {
    /// All statements together would exceed the limit on their memory.
    TooMuchText,
    /// Another text has the same hash. With 128 keyed bits this is a broken invariant rather than chance.
    Collision,
}

/// The statements of a worker, each text held once.
#[derive(Debug)]
pub struct Interner {
    hash_key: [u8; 16],
    by_key: HashMap<Key, Arc<Statement>, BuildHasherDefault<KeyHasher>>,
    /// Bytes of text held, and the most that may be.
    bytes: u64,
    limit: u64,
    /// When to look for statements that nobody holds any more.
    sweep_at: u64,
}

impl Interner {
    /// An interner for a process whose random hash key is `hash_key`, holding at most `limit` bytes of statements.
    pub fn new(hash_key: [u8; 16], limit: u64) -> Self {
        Interner { hash_key, by_key: HashMap::default(), bytes: 0, limit, sweep_at: 1 << 20 }
    }

    /// The reading of a session with these values ([`crate::ParamTable`] says which), among these definitions.
    pub(crate) fn reading<'p>(&self, values: impl Iterator<Item = &'p str>, definitions: u64) -> Reading {
        let mut hasher = SipHasher13::new_with_key(&self.hash_key);
        hasher.write_u64(definitions);
        for value in values {
            hasher.write(value.as_bytes());
            hasher.write(&[0]);
        }
        Reading(hasher.finish128().as_u128() as u64)
    }

    pub(crate) fn intern(&mut self, rest: &[u8], reading: Reading) -> Result<Arc<Statement>, NotInterned> {
        let key = self.key_of(rest, reading);
        if let Some(known) = self.by_key.get(&key) {
            return if known.is(rest, reading) { Ok(known.clone()) } else { Err(NotInterned::Collision) };
        }
        let size = cost(rest);
        if self.bytes + size > self.sweep_at.min(self.limit) {
            self.sweep();
        }
        if self.bytes + size > self.limit {
            return Err(NotInterned::TooMuchText);
        }
        let statement = Arc::new(Statement {
            key,
            reading,
            name: name_of(key),
            rest: rest.into(),
            effects: Effects::of(text_in(rest)),
        });
        self.bytes += size;
        self.by_key.insert(key, statement.clone());
        Ok(statement)
    }

    /// The statement with this identity, if it is held.
    pub(crate) fn find(&self, rest: &[u8], reading: Reading) -> Option<Arc<Statement>> {
        self.by_key.get(&self.key_of(rest, reading)).filter(|known| known.is(rest, reading)).cloned()
    }

    /// Forgets the statements that no client holds.
    fn sweep(&mut self) {
        self.by_key.retain(|_, statement| Arc::strong_count(statement) > 1);
        self.bytes = self.by_key.values().map(|s| cost(&s.rest)).sum();
        // Doubling keeps the sweeps' cost a constant share of the work that filled the table.
        self.sweep_at = (self.bytes * 2).max(1 << 20);
    }

    fn key_of(&self, rest: &[u8], reading: Reading) -> Key {
        let mut hasher = SipHasher13::new_with_key(&self.hash_key);
        hasher.write_u64(reading.0);
        hasher.write(rest);
        Key(hasher.finish128().as_u128())
    }
}

/// The text in what follows the name in a Parse.
pub(crate) fn text_in(rest: &[u8]) -> &[u8] {
    rest.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// What a statement costs in memory: its text and the tables' share.
fn cost(rest: &[u8]) -> u64 {
    rest.len() as u64 + 160
}

fn name_of(key: Key) -> [u8; NAME_LEN] {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut name = [0; NAME_LEN];
    name[..NAME_PREFIX.len()].copy_from_slice(NAME_PREFIX);
    for (i, digit) in name[NAME_PREFIX.len()..].iter_mut().enumerate() {
        *digit = HEX[(key.0 >> (124 - 4 * i) & 15) as usize];
    }
    name
}

/// The statements that servers of one pool have accepted: a Parse of one of them can be answered without a server. That it
/// would still be accepted is not certain, no more than for a statement that was prepared a while ago; the Bind will tell.
#[derive(Debug, Default)]
pub struct Accepted {
    keys: HashSet<Key, BuildHasherDefault<KeyHasher>>,
    /// Counts what clients of the pool did to definitions, as far as command tags tell.
    definitions: Definitions,
}

/// The count of changed definitions, which all workers that have servers of a pool hold in common.
#[derive(Clone, Debug, Default)]
pub struct Definitions(Arc<AtomicU64>);

/// The most statements that are remembered as accepted; when it is reached, all are forgotten.
const MAX_ACCEPTED: usize = 65_536;

impl Accepted {
    pub(crate) fn contains(&self, key: Key) -> bool {
        self.keys.contains(&key)
    }

    pub(crate) fn insert(&mut self, key: Key) {
        if self.keys.len() >= MAX_ACCEPTED {
            self.keys.clear();
        }
        self.keys.insert(key);
    }

    pub(crate) fn remove(&mut self, key: Key) {
        self.keys.remove(&key);
    }

    /// How often definitions have changed.
    pub(crate) fn definitions(&self) -> u64 {
        self.definitions.0.load(Ordering::Acquire)
    }

    /// A definition has changed, or the change was taken back: a text that is parsed from here on is another statement, so
    /// that it does not meet a plan that was made before.
    pub(crate) fn definitions_changed(&mut self) {
        self.definitions.0.fetch_add(1, Ordering::AcqRel);
        self.keys.clear();
    }

    /// Nothing is known any more of what servers accept.
    pub fn forget(&mut self) {
        self.keys.clear();
    }

    /// The count that another worker's part of the pool is to hold in common with this one.
    pub fn definitions_of_all(&self) -> Definitions {
        self.definitions.clone()
    }

    /// Counts with the others from now on.
    pub fn join(&mut self, definitions: Definitions) {
        self.definitions = definitions;
    }
}

/// A key is a keyed hash already.
#[derive(Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys hash themselves as one u128");
    }
    fn write_u128(&mut self, key: u128) {
        self.0 = key as u64;
    }
}

/// The statements that one client has prepared, by the names it gave them.
#[derive(Debug, Default)]
pub(crate) struct ClientStatements {
    /// By what PostgreSQL goes by of their names.
    by_name: HashMap<Box<[u8]>, Named, RandomState>,
}

/// A statement of a client's.
#[derive(Debug)]
struct Named {
    statement: Arc<Statement>,
    /// Its name, where that is longer than what PostgreSQL goes by.
    long_name: Option<Box<[u8]>>,
}

impl ClientStatements {
    pub(crate) fn get(&self, name: &[u8]) -> Option<&Arc<Statement>> {
        self.by_name.get(significant(name)).map(|named| &named.statement)
    }

    pub(crate) fn insert(&mut self, name: &[u8], statement: Arc<Statement>) {
        let long_name = (name.len() > SIGNIFICANT).then(|| name.into());
        self.by_name.insert(significant(name).into(), Named { statement, long_name });
    }

    pub(crate) fn remove(&mut self, name: &[u8]) -> bool {
        self.by_name.remove(significant(name)).is_some()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &Arc<Statement>)> {
        self.by_name.iter().map(|(name, named)| (named.long_name.as_deref().unwrap_or(name), &named.statement))
    }

    /// Forgets all but the names for which `keep` holds.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&[u8]) -> bool) {
        self.by_name.retain(|name, _| keep(name));
    }
}

/// The statements under our names on one server, least recently used first out.
#[derive(Debug, Default)]
pub(crate) struct ServerStatements {
    slots: HashMap<Key, u32, BuildHasherDefault<KeyHasher>>,
    nodes: Vec<Node>,
    /// Most and least recently used; meaningless while empty.
    newest: u32,
    oldest: u32,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Node {
    key: Key,
    newer: u32,
    older: u32,
    /// Prepared, but not to be trusted: close and prepare anew before the next use.
    stale: bool,
}

/// What a server knows of a statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OnServer {
    /// It is prepared, and good.
    Ready,
    /// It may be prepared, but must be closed and prepared anew.
    Stale,
    /// It is not prepared.
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
        if self.nodes[slot as usize].stale { OnServer::Stale } else { OnServer::Ready }
    }

    /// Adds a statement that is being prepared (again). Returns one that must be closed for it, if more than `limit` would
    /// be held; 0 keeps none for longer than its use, which still needs room for one.
    pub(crate) fn insert(&mut self, key: Key, limit: usize) -> Option<Key> {
        if let Some(&slot) = self.slots.get(&key) {
            self.nodes[slot as usize].stale = false;
            return None;
        }
        let evicted = (self.slots.len() >= limit.max(1)).then(|| {
            let oldest = self.nodes[self.oldest as usize].key;
            self.remove(oldest);
            oldest
        });
        let node = Node { key, newer: 0, older: 0, stale: false };
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
    pub(crate) fn suspect(&mut self, key: Key) {
        self.insert(key, usize::MAX);
        if let Some(&slot) = self.slots.get(&key) {
            self.nodes[slot as usize].stale = true;
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

    /// None is to be trusted any more.
    pub(crate) fn distrust(&mut self) {
        for node in &mut self.nodes {
            node.stale = true;
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
    fn equal_statements_are_held_once_and_dropped_when_unused() {
        let mut interner = Interner::new([7; 16], 10_000);
        let a = interner.intern(b"select 1\0\0\0", Reading(0)).unwrap();
        let b = interner.intern(b"select 1\0\0\0", Reading(0)).unwrap();
        assert!(Arc::ptr_eq(&a, &b));
        assert!(a.name().starts_with(NAME_PREFIX) && a.name().len() == NAME_LEN);
        assert_ne!(interner.intern(b"select 2\0\0\0", Reading(0)).unwrap().name(), a.name());
        interner.sweep();
        assert_eq!(interner.by_key.len(), 1);
    }

    #[test]
    fn the_memory_of_statements_is_bounded() {
        let mut interner = Interner::new([7; 16], 1_000);
        let held: Vec<_> = (0..100u32).map_while(|i| interner.intern(&i.to_be_bytes(), Reading(0)).ok()).collect();
        assert!(held.len() < 10);
        assert!(matches!(interner.intern(b"one more", Reading(0)), Err(NotInterned::TooMuchText)));
        drop(held);
        assert!(interner.intern(b"one more", Reading(0)).is_ok());
    }

    #[test]
    fn the_least_recently_used_statement_makes_room() {
        let mut lru = ServerStatements::default();
        for n in 0..3 {
            assert_eq!(lru.insert(key(n), 3), None);
        }
        assert_eq!(lru.touch(key(0)), OnServer::Ready);
        assert_eq!(lru.insert(key(3), 3), Some(key(1)));
        assert_eq!(lru.touch(key(1)), OnServer::Absent);
        lru.distrust();
        assert_eq!(lru.touch(key(2)), OnServer::Stale);
        assert_eq!(lru.insert(key(2), 3), None);
        assert_eq!(lru.touch(key(2)), OnServer::Ready);
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
                        assert_eq!(out, expected.map(key));
                        model.push(n);
                    } else {
                        assert_eq!(out, None);
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
