//! Network conditions.

use crate::rng::Rng;

/// The network conditions of a run: delays, splits, windows and resets.
#[derive(Clone, Debug)]
pub(crate) struct Conditions {
    /// The shortest and the longest delay of a byte, in microseconds.
    pub(crate) latency: (u64, u64),
    /// How many deliveries in a thousand are cut at a random place.
    pub(crate) split: u32,
    /// How many deliveries in a thousand carry a single byte.
    pub(crate) trickle: u32,
    /// The smallest and the largest capacity of a pipe, in bytes.
    pub(crate) window: (u64, u64),
    /// The most bytes in one delivery.
    pub(crate) read: usize,
    /// How many writes in a thousand to a closed end cause a reset, which may discard the last bytes sent.
    pub(crate) resets: u32,
}

impl Conditions {
    /// Draws conditions, from a calm local network to one that never delivers two bytes at once.
    pub(crate) fn draw(rng: &mut Rng) -> Conditions {
        let slowest = rng.skewed(30, 20_000);
        Conditions {
            latency: (rng.between(5, 30), slowest),
            split: *rng.pick(&[0, 20, 200, 700]),
            trickle: *rng.pick(&[0, 0, 5, 100]),
            window: (512, rng.skewed(1024, 262_144)),
            read: *rng.pick(&[48, 512, 4096, 16_384, 65_536]),
            resets: *rng.pick(&[0, 0, 200]),
        }
    }

    /// A network without disturbances, with which all remaining clients can finish.
    pub(crate) fn calm() -> Conditions {
        Conditions { latency: (5, 200), split: 50, trickle: 0, window: (65_536, 65_536), read: 16_384, resets: 0 }
    }
}
