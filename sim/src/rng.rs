//! The only source of randomness: xoshiro256++ (Blackman and Vigna, 2018), seeded through SplitMix64.
//!
//! Each actor draws from its own stream, forked from the seed and the actor's name, so draws of one actor never change
//! those of another.

use weir_base::Span;

/// A stream of random numbers; the same seed gives the same stream on every machine.
#[derive(Clone, Debug)]
pub(crate) struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// The stream of `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        let mut mixer = seed;
        Rng { state: std::array::from_fn(|_| split_mix(&mut mixer)) }
    }

    /// The stream of the actor named by `kind` and `number`.
    pub(crate) fn fork(&self, kind: &str, number: u64) -> Rng {
        let mut mixer = self.state[0] ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for byte in kind.bytes() {
            mixer = split_mix(&mut mixer) ^ u64::from(byte);
        }
        Rng::new(split_mix(&mut mixer))
    }

    /// The next 64 random bits.
    pub(crate) fn bits(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number from 0 to `n - 1`; 0 if `n` is 0.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// A number from `low` to `high`; small ones are far more likely: each doubling has the same probability.
    pub(crate) fn skewed(&mut self, low: u64, high: u64) -> u64 {
        let doublings = u64::from((high - low + 1).ilog2());
        let top = 1 << self.between(0, doublings);
        low + self.below(top).min(high - low)
    }

    /// `true` with a probability of `per_mille` in a thousand.
    pub(crate) fn chance(&mut self, per_mille: u32) -> bool {
        self.below(1000) < u64::from(per_mille)
    }

    /// One of `choices`, which must not be empty.
    pub(crate) fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }

    /// A span from `low` to `high` microseconds; short ones are far more likely.
    pub(crate) fn span(&mut self, low: u64, high: u64) -> Span {
        Span::from_micros(self.skewed(low, high))
    }

    /// Random bytes.
    pub(crate) fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.bits() as u8)
    }
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_stream_again() {
        let (mut a, mut b) = (Rng::new(7).fork("client", 3), Rng::new(7).fork("client", 3));
        assert!((0..100).all(|_| a.bits() == b.bits()));
        assert_ne!(Rng::new(7).fork("client", 4).bits(), Rng::new(7).fork("client", 3).bits());
        assert_ne!(Rng::new(7).fork("server", 3).bits(), Rng::new(7).fork("client", 3).bits());
    }

    #[test]
    fn draws_stay_within_their_bounds() {
        let mut rng = Rng::new(1);
        for _ in 0..10_000 {
            assert!((3..=9).contains(&rng.between(3, 9)));
            assert!((1..=1000).contains(&rng.skewed(1, 1000)));
        }
        assert_eq!(rng.below(0), 0);
        assert!(!rng.chance(0) && rng.chance(1000));
    }
}
