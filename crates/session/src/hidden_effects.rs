//! When a server is asked what a text has left there although the text says nothing of it (`mode = "auto"`): functions,
//! triggers, views, operators and policies may do anything.
//!
//! Owns how often each text of a pool was sent, by a hash of its shape: without numbers, and without what is quoted. A
//! text is asked about after its first executions and then ever more rarely, each time after twice as many; and always,
//! once it has left something. A changed definition makes it a new text.
//!
//! Bounded: [`MOST`] texts a pool and worker. Beyond that the counts begin again, and more is asked.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use crate::key_hasher::KeyHasher;

/// The most texts that are counted.
const MOST: usize = 4096;

/// How much of a text is read.
const READ: usize = 512;

/// How often a text was sent of which it is known that it leaves something.
const ALWAYS: u32 = u32::MAX;

/// The most texts of one transaction that are remembered until the answer.
const MOST_DUE: usize = 32;

/// The identity of a text's shape.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ShapeKey(pub(crate) u64);

/// How often the texts of a pool were sent.
#[derive(Debug, Default)]
pub(crate) struct TextCounts(HashMap<ShapeKey, u32, BuildHasherDefault<KeyHasher>>);

impl TextCounts {
    /// A text is sent: returns it if the server is to be asked after it.
    #[inline]
    pub(crate) fn due(&mut self, text: ShapeKey) -> Option<DueText> {
        if self.0.len() >= MOST && !self.0.contains_key(&text) {
            self.make_room();
        }
        let count = self.0.entry(text).or_default();
        *count = count.saturating_add(1);
        let is_due = *count == ALWAYS || count.is_power_of_two();
        is_due.then_some(DueText { text, unasked: *count != ALWAYS && *count > 2 })
    }

    #[cold]
    fn make_room(&mut self) {
        self.0.retain(|_, count| *count == ALWAYS);
        if self.0.len() > MOST / 2 {
            self.0.clear();
        }
    }

    /// A text has left something.
    pub(crate) fn leaves(&mut self, text: ShapeKey) {
        self.0.insert(text, ALWAYS);
    }
}

/// A text after which the server is to be asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DueText {
    text: ShapeKey,
    /// The text was executed before without a question, and has left nothing as far as is known.
    unasked: bool,
}

/// Texts that a server has got since it was asked last, and after which it is to be asked.
#[derive(Debug, Default)]
pub(crate) struct Due {
    texts: Vec<ShapeKey>,
    /// One of them is new, or known to leave something.
    explained: bool,
}

impl Due {
    #[inline]
    pub(crate) fn is_none(&self) -> bool {
        self.texts.is_empty()
    }

    pub(crate) fn add(&mut self, due: DueText) {
        if self.texts.len() < MOST_DUE {
            self.texts.push(due.text);
        }
        self.explained |= !due.unasked;
    }

    /// Whether each of them was executed before without a question, and none is known to leave something.
    pub(crate) fn is_unasked(&self) -> bool {
        !self.explained
    }

    pub(crate) fn take(&mut self) -> Vec<ShapeKey> {
        std::mem::take(self).texts
    }
}

/// The shape of a text, under a key. Cost: a few instructions a byte, of the first [`READ`].
pub(crate) fn shape(text: &[u8], key: &[u8; 16]) -> ShapeKey {
    let (low, high) = key.split_at(8);
    let number = |half: &[u8]| half.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    let (mut hash, factor) = (number(low), number(high) | 1);
    let mut quoted = false;
    for byte in &text[..text.len().min(READ)] {
        match byte {
            b'\'' => quoted = !quoted,
            b'0'..=b'9' => continue,
            _ if quoted => continue,
            _ => {}
        }
        hash = (hash.rotate_left(5) ^ u64::from(*byte)).wrapping_mul(factor);
    }
    ShapeKey(hash ^ hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_asked_about_ever_more_rarely_until_it_leaves_something() {
        let mut counts = TextCounts::default();
        let text = ShapeKey(7);
        let asked =
            (1..=100).filter_map(|count| Some((count, counts.due(text)?.unasked))).collect::<Vec<(u32, bool)>>();
        assert_eq!(asked, [(1, false), (2, false), (4, true), (8, true), (16, true), (32, true), (64, true)]);
        counts.leaves(text);
        assert!((0..100).all(|_| counts.due(text) == Some(DueText { text, unasked: false })));
    }

    #[test]
    fn texts_are_one_that_differ_in_values_only() {
        let key = |text: &str| shape(text.as_bytes(), &[7; 16]);
        assert_eq!(key("select f(1, 'a')"), key("select f(23, 'it is')"));
        assert_ne!(key("select f(1)"), key("select g(1)"));
        assert_ne!(key("select f(1)"), shape(b"select f(1)", &[8; 16]));
    }

    #[test]
    fn more_texts_than_are_counted_are_asked_about_again_and_take_no_more_room() {
        let mut counts = TextCounts::default();
        counts.leaves(ShapeKey(1));
        (0..MOST as u64 * 3).for_each(|text| _ = counts.due(ShapeKey(text << 8 | 255)));
        assert!(counts.0.len() <= MOST && counts.due(ShapeKey(1)).is_some() && counts.due(ShapeKey(1)).is_some());
    }
}
