//! Random choices from a seed: SplitMix64, which is small, fast, and good enough to choose what to do next.

/// A generator; equal seeds make equal choices.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    /// The generator of one of many actors that share a seed.
    pub(crate) fn of(seed: u64, actor: u64) -> Rng {
        let mut rng = Rng(seed ^ actor.wrapping_mul(0xd134_2543_de82_ef95));
        rng.next();
        rng
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    /// A place in something of this length, which is not 0.
    pub(crate) fn place(&mut self, length: usize) -> usize {
        usize::try_from(self.next() % length as u64).unwrap_or(0)
    }

    /// True in so many of a hundred cases.
    pub(crate) fn percent(&mut self, chance: u64) -> bool {
        self.next() % 100 < chance
    }

    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.place(of.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_itself_and_actors_differ() {
        let row = |seed, actor| {
            let mut rng = Rng::of(seed, actor);
            [rng.next(), rng.next(), rng.next()]
        };
        assert_eq!(row(7, 1), row(7, 1));
        assert_ne!(row(7, 1), row(7, 2));
        assert_ne!(row(7, 1), row(8, 1));
    }

    #[test]
    fn choices_stay_within_their_bounds() {
        let mut rng = Rng::of(1, 1);
        let mut seen = [false; 4];
        for _ in 0..1000 {
            let number = rng.between(3, 6);
            assert!((3..=6).contains(&number));
            seen[usize::try_from(number - 3).unwrap()] = true;
        }
        assert_eq!(seen, [true; 4]);
        assert!((0..100).all(|_| !rng.percent(0) && rng.percent(100)));
    }
}
