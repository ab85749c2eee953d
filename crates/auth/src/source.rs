//! The source of a SCRAM login's verifier; unknown users look and cost like known ones.
//!
//! Does no slow hashing: it returns what must be hashed.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::secret::Shape;
use crate::secret::{ScramVerifier, salt_for};

/// The source of a login's verifier.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScramSource {
    /// The stored verifier.
    Verifier(ScramVerifier),
    /// A password, which must be hashed.
    Password(Arc<str>),
    /// None: the login must fail, and look like one with a verifier of this shape.
    Mock(Shape),
}

impl fmt::Debug for ScramSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ScramSource::Verifier(_) => "Verifier(…)",
            ScramSource::Password(_) => "Password(…)",
            ScramSource::Mock(_) => "Mock(…)",
        })
    }
}

/// The inputs of SCRAM besides the user's secret.
#[derive(Clone, Copy, Debug)]
pub struct ScramPolicy {
    /// Random, and the same for as long as the process lives: salts for users without one are derived from it.
    pub key: [u8; 32],
    /// The iteration count for stored passwords (PgBouncer's `scram_iterations`).
    pub iterations: u32,
}

/// The first step of a SCRAM login.
#[derive(Clone)]
pub enum ScramStart {
    /// Ready for [`ScramServer::first`](crate::ScramServer::first).
    Ready {
        /// The user's verifier, or a mock.
        verifier: ScramVerifier,
        /// Whether the verifier is a mock.
        must_fail: bool,
    },
    /// [`ScramServer::challenge`](crate::ScramServer::challenge) now, and meanwhile
    /// [`salt_password`](crate::salt_password) on a helper; then [`ScramVerifier::from_salted`]. The client
    /// does not notice the time, because it hashes as long itself.
    Salt {
        /// The user's password.
        password: Arc<str>,
        /// The user's salt: the same each time, so that the result may be kept.
        salt: Vec<u8>,
        /// The iteration count.
        iterations: u32,
    },
}

impl ScramSource {
    /// The way to `user`'s verifier.
    pub fn start(self, user: &str, policy: &ScramPolicy) -> ScramStart {
        match self {
            ScramSource::Verifier(verifier) => ScramStart::Ready { verifier, must_fail: false },
            ScramSource::Password(password) => {
                ScramStart::Salt { password, salt: salt_for(user, &policy.key), iterations: policy.iterations }
            }
            ScramSource::Mock(shape) => {
                ScramStart::Ready { verifier: ScramVerifier::mock(user, &policy.key, shape), must_fail: true }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::salt_password;
    use crate::secret::ScramKeys;

    const POLICY: ScramPolicy = ScramPolicy { key: [7; 32], iterations: 4096 };

    #[test]
    fn an_unknown_user_has_the_salt_and_the_count_of_a_known_one_and_costs_no_hashing() {
        let known = ScramSource::Password("pw".into()).start("u", &POLICY);
        let ScramStart::Salt { salt, iterations, .. } = known else { panic!("a password must be hashed") };
        let unknown = ScramSource::Mock(Shape::usual(4096)).start("u", &POLICY);
        let ScramStart::Ready { verifier, must_fail } = unknown else { panic!("nothing is hashed for a stranger") };
        assert!(must_fail);
        assert_eq!((verifier.salt.clone(), verifier.iterations), (salt, iterations));
        let keys = ScramKeys::from_salted(&salt_password("", &verifier.salt, 1));
        assert!(!keys.matches(&verifier));
    }
}
