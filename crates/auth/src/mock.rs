//! Mock secrets: makes unknown users look like known ones.
//!
//! An authentication request shows whether a user's secret is a SCRAM verifier, and its iterations and salt length. So
//! a user without a usable secret gets these from the distribution of all known secrets, and always the same ones for
//! the same name while the process lives. Must not know any exchange.

use std::collections::BTreeMap;

use crate::crypto::hmac;
use crate::secret::{Secret, Shape};

/// How many secrets there are of each kind.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Mocks {
    passwords: u64,
    md5: u64,
    verifiers: BTreeMap<Shape, u64>,
}

/// The most distinct shapes that are counted; more than any real installation has.
const MOST_SHAPES: usize = 64;
/// After this many secrets were counted one by one, each count is halved.
const MOST_COUNTED: u64 = 1 << 16;

impl Mocks {
    /// The counts of these verifiers alone.
    pub fn of_shape(shape: Shape) -> Mocks {
        Mocks { verifiers: BTreeMap::from([(shape, 1)]), ..Mocks::default() }
    }

    /// Whether nothing has been counted.
    pub fn is_empty(&self) -> bool {
        self.passwords == 0 && self.md5 == 0 && self.verifiers.is_empty()
    }

    /// Counts a secret; an empty password is not counted.
    pub fn count(&mut self, secret: &Secret) {
        match secret {
            Secret::Plain(password) => self.passwords += u64::from(!password.is_empty()),
            Secret::Md5(_) => self.md5 += 1,
            Secret::Scram(verifier) => {
                let shape = Shape { iterations: verifier.iterations, salt: verifier.salt.len() };
                if self.verifiers.len() < MOST_SHAPES || self.verifiers.contains_key(&shape) {
                    *self.verifiers.entry(shape).or_default() += 1;
                }
            }
        }
    }

    /// Counts a secret that was looked up; recent ones have more weight.
    pub fn learn(&mut self, secret: &Secret) {
        self.count(secret);
        if self.passwords + self.md5 + self.verifiers.values().sum::<u64>() > MOST_COUNTED {
            self.passwords /= 2;
            self.md5 /= 2;
            self.verifiers.values_mut().for_each(|count| *count = (*count / 2).max(1));
        }
    }

    /// The mock of `user`, drawn from passwords, md5 secrets and verifiers: the shape of a verifier, or `None` for the
    /// two others.
    pub(crate) fn draw(&self, user: &str, key: &[u8; 32]) -> Option<Shape> {
        self.draw_from(self.passwords + self.md5, None, user, key)
    }

    /// The mock of `user` if only SCRAM is allowed: passwords get a challenge of the shape `own`, md5 secrets can't be
    /// used.
    pub(crate) fn draw_scram(&self, own: Shape, user: &str, key: &[u8; 32]) -> Shape {
        self.draw_from(self.passwords, Some(own), user, key).unwrap_or(own)
    }

    fn draw_from(&self, others: u64, other: Option<Shape>, user: &str, key: &[u8; 32]) -> Option<Shape> {
        let all = others + self.verifiers.values().sum::<u64>();
        let hash = hmac(key, &[b"looks like ", user.as_bytes()]);
        let chance = u64::from_be_bytes(std::array::from_fn(|i| hash[i]));
        // One of `all`, each as likely as the others.
        let mut number = ((u128::from(chance) * u128::from(all)) >> 64) as u64;
        for (shape, count) in &self.verifiers {
            if number < *count {
                return Some(*shape);
            }
            number -= count;
        }
        other
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::ScramVerifier;

    const KEY: [u8; 32] = [3; 32];
    const OWN: Shape = Shape { iterations: 4096, salt: 16 };

    fn verifier(iterations: u32, salt: usize) -> Secret {
        Secret::Scram(ScramVerifier::from_salted(&[1; 32], vec![7; salt], iterations))
    }

    fn mocks(secrets: &[(Secret, usize)]) -> Mocks {
        let mut mocks = Mocks::default();
        secrets.iter().for_each(|(secret, times)| (0..*times).for_each(|_| mocks.count(secret)));
        mocks
    }

    fn share(mocks: &Mocks, like: impl Fn(&Mocks, &str) -> bool) -> usize {
        (0..1000).filter(|number| like(mocks, &format!("user{number}"))).count()
    }

    #[test]
    fn unknown_users_look_like_known_ones_as_often_as_there_are_such() {
        let plain = || Secret::Plain("pw".into());
        let mixed = mocks(&[(plain(), 5), (verifier(4096, 16), 3), (verifier(20_000, 24), 2)]);
        let long = Some(Shape { iterations: 20_000, salt: 24 });
        for (expected, found) in [
            (500, share(&mixed, |mocks, user| mocks.draw(user, &KEY).is_none())),
            (200, share(&mixed, |mocks, user| mocks.draw(user, &KEY) == long)),
            (800, share(&mixed, |mocks, user| mocks.draw_scram(OWN, user, &KEY) == OWN)),
        ] {
            assert!(found.abs_diff(expected) < 60, "{found} of 1000 instead of {expected}");
        }
    }

    #[test]
    fn where_all_are_alike_an_unknown_user_is_too() {
        let one = mocks(&[(verifier(20_000, 16), 3)]);
        assert_eq!(share(&one, |mocks, user| mocks.draw(user, &KEY) == Some(Shape::usual(20_000))), 1000);
        assert_eq!(share(&one, |mocks, user| mocks.draw_scram(OWN, user, &KEY).iterations == 20_000), 1000);
        let md5 = mocks(&[(Secret::Md5("0".repeat(32).into()), 1)]);
        assert_eq!(share(&md5, |mocks, user| mocks.draw(user, &KEY).is_none()), 1000);
        assert_eq!(share(&md5, |mocks, user| mocks.draw_scram(OWN, user, &KEY) == OWN), 1000);
        assert_eq!(Mocks::default().draw("u", &KEY), None);
        assert!(mocks(&[(Secret::Plain("".into()), 4)]).is_empty(), "an empty password lets no client in");
    }

    #[test]
    fn a_name_looks_the_same_each_time_and_seldom_changes_with_another_user() {
        let before = mocks(&[(Secret::Plain("pw".into()), 50), (verifier(20_000, 16), 50)]);
        let after = mocks(&[(Secret::Plain("pw".into()), 51), (verifier(20_000, 16), 50)]);
        let changed = share(&before, |mocks, user| mocks.draw(user, &KEY) != after.draw(user, &KEY));
        assert!(changed < 30, "{changed} of 1000");
        assert_eq!(share(&before, |mocks, user| mocks.draw(user, &KEY) == mocks.draw(user, &KEY)), 1000);
    }

    #[test]
    fn what_is_learnt_one_by_one_is_bounded() {
        let mut mocks = Mocks::default();
        for number in 1..200_000_u32 {
            mocks.learn(&verifier(number, 16));
        }
        assert_eq!(mocks.verifiers.len(), MOST_SHAPES);
        (0..200_000).for_each(|_| mocks.learn(&verifier(1, 16)));
        assert!(mocks.verifiers.values().sum::<u64>() <= MOST_COUNTED + MOST_SHAPES as u64);
    }
}
