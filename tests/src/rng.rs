//! Random numbers with a seed that a failing test can print.

/// SplitMix64 (Steele, Lea and Flood, 2014): small, and good enough to choose test cases.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator; the same seed produces the same numbers.
    pub fn new(seed: u64) -> Self {
        Rng(seed)
    }

    /// A generator and its seed: from `WEIR_SEED` where that is set, else from the time.
    pub fn seeded(name: &str) -> Self {
        let given = std::env::var("WEIR_SEED").ok().and_then(|text| text.parse().ok());
        let now = || std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_micros() as u64);
        let seed = given.unwrap_or_else(now);
        println!("{name}: WEIR_SEED={seed}");
        Rng(seed)
    }

    /// Any 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Less than `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.bits() % end as u64) as usize
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }
}
