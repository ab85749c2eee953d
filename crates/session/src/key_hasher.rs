//! The hasher of tables whose keys are keyed hashes already: it takes a part of the key.

use std::hash::Hasher;

/// A key is a keyed hash already.
#[derive(Default)]
pub(crate) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys hash themselves as one number");
    }
    fn write_u128(&mut self, key: u128) {
        self.0 = key as u64;
    }
    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}
