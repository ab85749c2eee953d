//! How the network behaves.

use crate::rng::Rng;

/// How the network behaves in one run.
#[derive(Clone, Debug)]
pub(crate) struct Weather {
    /// The shortest and the longest time a byte travels, in microseconds.
    pub(crate) latency: (u64, u64),
    /// How many deliveries in a thousand are cut at a random place.
    pub(crate) split: u32,
    /// How many deliveries in a thousand bring a single byte.
    pub(crate) trickle: u32,
    /// The fewest and the most bytes a pipe holds.
    pub(crate) window: (u64, u64),
    /// The most bytes one delivery brings.
    pub(crate) read: usize,
    /// How many writes in a thousand to a closed end are answered with a reset, which may overtake a farewell.
    pub(crate) harsh: u32,
}

impl Weather {
    /// Draws a weather: from a calm local network to one that never delivers two bytes at once.
    pub(crate) fn draw(rng: &mut Rng) -> Weather {
        let slowest = rng.skewed(30, 20_000);
        Weather {
            latency: (rng.between(5, 30), slowest),
            split: *rng.pick(&[0, 20, 200, 700]),
            trickle: *rng.pick(&[0, 0, 5, 100]),
            window: (512, rng.skewed(1024, 262_144)),
            read: *rng.pick(&[48, 512, 4096, 16_384, 65_536]),
            harsh: *rng.pick(&[0, 0, 200]),
        }
    }
}

impl Weather {
    /// A network that hurts nobody, so that what is left comes to its end.
    pub(crate) fn calm() -> Weather {
        Weather { latency: (5, 200), split: 50, trickle: 0, window: (65_536, 65_536), read: 16_384, harsh: 0 }
    }
}
