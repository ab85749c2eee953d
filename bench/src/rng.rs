//! Random choices from a seed, so that a run can be repeated.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// The generator of one of many actors that share a seed.
pub(crate) fn seeded(seed: u64, actor: u64) -> SmallRng {
    SmallRng::seed_from_u64(seed ^ actor.wrapping_mul(0xd134_2543_de82_ef95))
}

/// One of `choices`, which are not none.
pub(crate) fn pick<'a, T>(rng: &mut SmallRng, choices: &'a [T]) -> &'a T {
    &choices[rng.random_range(0..choices.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_itself_and_actors_differ() {
        let row = |seed, actor| seeded(seed, actor).random::<[u64; 3]>();
        assert_eq!(row(7, 1), row(7, 1));
        assert_ne!(row(7, 1), row(7, 2));
        assert_ne!(row(7, 1), row(8, 1));
    }
}
