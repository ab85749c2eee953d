//! Numbers that look random, for traffic that looks alive. xorshift64 (Marsaglia, "Xorshift RNGs"); no use for secrets.

pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Anything from 0 up to, but without, `end`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_below_the_end_and_differ() {
        let mut rng = Rng::new(7);
        let numbers: Vec<_> = (0..100).map(|_| rng.below(10)).collect();
        assert!(numbers.iter().all(|n| *n < 10));
        assert!((0..10).all(|n| numbers.contains(&n)));
    }
}
