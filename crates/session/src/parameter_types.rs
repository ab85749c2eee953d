//! The types of parameters that servers have described, by the hash that a shape has of them.
//!
//! A text whose Parse names no types has those that PostgreSQL finds when it is parsed. A client that knows them sends
//! values of these, also where the text would have others now: PostgreSQL plans such a statement again with its first types
//! (`RevalidateCachedQuery` in `plancache.c`). So does Weir, with the types in the Parse.
//!
//! Most lists are those of many statements. The lists of a worker take at most [`MOST`] × ([`MOST_TYPES`] × 4 + 60) bytes,
//! 1.3 MB.

use std::collections::HashMap;
use std::num::NonZeroU64;

/// The most lists; the ones that are new then are not kept.
const MOST: usize = 4096;

/// The most types in a list that is kept.
const MOST_TYPES: usize = 64;

/// The bytes of a list: their count and the types, as in a Parse and in a ParameterDescription.
pub(crate) const MOST_BYTES: usize = 2 + 4 * MOST_TYPES;

/// See the head of the file.
#[derive(Debug, Default)]
pub(crate) struct ParameterTypes(HashMap<NonZeroU64, Box<[u8]>>);

impl ParameterTypes {
    /// A server has described these.
    pub(crate) fn note(&mut self, hash: NonZeroU64, list: &[u8]) {
        if self.0.len() < MOST && !self.0.contains_key(&hash) {
            self.0.insert(hash, list.into());
        }
    }

    /// What follows the text in a Parse that names the types of this hash, if they are known.
    pub(crate) fn of(&self, hash: NonZeroU64) -> Option<&[u8]> {
        self.0.get(&hash).map(|list| &**list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_lists_are_kept_than_the_most() {
        let mut types = ParameterTypes::default();
        let hash = |number: u64| NonZeroU64::new(number).unwrap();
        (1..=MOST as u64 + 9).for_each(|number| types.note(hash(number), &number.to_be_bytes()));
        assert_eq!(types.of(hash(7)), Some(&7u64.to_be_bytes()[..]));
        assert_eq!((types.of(hash(MOST as u64 + 1)), types.0.len()), (None, MOST));
    }
}
