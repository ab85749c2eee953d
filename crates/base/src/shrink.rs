//! Collections give back the memory of what they held.
//!
//! A collection of the standard library keeps its capacity, so the largest size that a flood has given it would stay.
//! Every collection that grows with what clients send, and outlives them, calls [`shrink`] where it gets smaller.

use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, Hash};

/// A collection with a capacity.
pub trait Shrink {
    /// How many elements it has, and how many fit in.
    fn sizes(&self) -> (usize, usize);
    /// Reduces the capacity to about this many elements.
    fn shrink_capacity(&mut self, to: usize);
}

/// Reduces the capacity, where it is more than `floor` and less than an eighth is used, to twice what is used. So the
/// cost of moving what is left is shared by the many elements that were removed before.
#[inline]
pub fn shrink(collection: &mut impl Shrink, floor: usize) {
    let (used, capacity) = collection.sizes();
    if capacity > floor && capacity / 8 > used {
        collection.shrink_capacity(2 * used);
    }
}

macro_rules! collection {
    ($($of:ident),*: $type:ty, $($bound:tt)*) => {
        impl<$($of),*> Shrink for $type
        where
            $($bound)*
        {
            #[inline]
            fn sizes(&self) -> (usize, usize) {
                (self.len(), self.capacity())
            }

            fn shrink_capacity(&mut self, to: usize) {
                self.shrink_to(to);
            }
        }
    };
}

collection!(T: Vec<T>,);
collection!(T: VecDeque<T>,);
collection!(T: BinaryHeap<T>, T: Ord);
collection!(K, V, S: HashMap<K, V, S>, K: Eq + Hash, S: BuildHasher);
collection!(T, S: HashSet<T, S>, T: Eq + Hash, S: BuildHasher);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collection_that_was_large_becomes_small_in_few_steps_and_keeps_what_is_in_it() {
        let mut map: HashMap<u32, u32> = (0..10_000).map(|i| (i, i)).collect();
        let mut steps = 0;
        for key in 10..10_000 {
            map.remove(&key);
            let before = map.capacity();
            shrink(&mut map, 64);
            steps += u32::from(map.capacity() != before);
        }
        assert!(map.capacity() <= 64 && steps < 10, "{} after {steps} steps", map.capacity());
        assert!((0..10).all(|key| map[&key] == key));
    }

    #[test]
    fn a_small_or_well_used_collection_stays() {
        let mut list: Vec<u8> = Vec::with_capacity(100);
        shrink(&mut list, 100);
        assert!(list.capacity() >= 100, "it is small");
        let mut list = vec![0; 1000];
        list.truncate(130);
        shrink(&mut list, 100);
        assert!(list.capacity() >= 1000, "an eighth is used");
        list.truncate(120);
        shrink(&mut list, 100);
        assert!((120..300).contains(&list.capacity()));
    }
}
