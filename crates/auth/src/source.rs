//! What a SCRAM login is verified against, so that users who do not exist look and cost like those who do.
//!
//! Hashes nothing that is slow: it says what must be hashed.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::crypto::hmac;
use crate::message::encode;
use crate::secret::{ScramVerifier, salt_for};

/// What a SCRAM login is verified against.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScramSource {
    /// The stored verifier.
    Verifier(ScramVerifier),
    /// A password, which must be hashed first.
    Password(Arc<str>),
    /// Nothing: the login is doomed.
    Nobody,
}

impl fmt::Debug for ScramSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ScramSource::Verifier(_) => "Verifier(…)",
            ScramSource::Password(_) => "Password(…)",
            ScramSource::Nobody => "Nobody",
        })
    }
}

/// What SCRAM needs to know beside the user's secret.
#[derive(Clone, Copy)]
pub struct ScramPolicy {
    /// Random, and the same for as long as the process lives: salts for users without one are made from it.
    pub key: [u8; 32],
    /// How often passwords are hashed that are stored as such (PgBouncer's `scram_iterations`), and how often a user
    /// who does not exist is told to hash.
    pub iterations: u32,
    /// What an unknown user is made to look like.
    pub stand_in: StandIn,
}

/// What most users' secrets are, so that an unknown user costs the same hashing as they do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StandIn {
    /// Verifiers: nothing is hashed on our side.
    Verifier,
    /// Passwords: each is hashed before it is verified.
    Password,
}

/// The first step of a SCRAM login.
#[derive(Clone)]
pub enum ScramStart {
    /// All is there for [`ScramServer::first`](crate::ScramServer::first).
    Ready {
        /// The user's verifier, or a mock.
        verifier: ScramVerifier,
        /// Whether it is a mock.
        doomed: bool,
    },
    /// [`salt_password`](crate::salt_password) first, on a helper; then [`ScramVerifier::from_salted`].
    Salt {
        /// The user's password, or one that nobody knows.
        password: Arc<str>,
        /// The user's salt: the same each time, so that the result may be kept.
        salt: Vec<u8>,
        /// How often to hash.
        iterations: u32,
        /// Whether the password is a stand-in.
        doomed: bool,
    },
}

impl ScramSource {
    /// How to get `user`'s verifier.
    pub fn start(self, user: &str, policy: &ScramPolicy) -> ScramStart {
        match self {
            ScramSource::Verifier(verifier) => ScramStart::Ready { verifier, doomed: false },
            ScramSource::Password(password) => policy.salt(user, password, false),
            ScramSource::Nobody => policy.stand_in(user),
        }
    }
}

impl ScramPolicy {
    fn stand_in(&self, user: &str) -> ScramStart {
        match self.stand_in {
            StandIn::Verifier => {
                ScramStart::Ready { verifier: ScramVerifier::mock(user, &self.key, self.iterations), doomed: true }
            }
            StandIn::Password => {
                self.salt(user, encode(hmac(&self.key, &[b"password ", user.as_bytes()])).into(), true)
            }
        }
    }

    fn salt(&self, user: &str, password: Arc<str>, doomed: bool) -> ScramStart {
        ScramStart::Salt { password, salt: salt_for(user, &self.key), iterations: self.iterations, doomed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::salt_password;
    use crate::secret::ScramKeys;

    const POLICY: ScramPolicy = ScramPolicy { key: [7; 32], iterations: 4096, stand_in: StandIn::Verifier };

    #[test]
    fn an_unknown_user_has_the_salt_and_the_cost_of_a_known_one() {
        let stand_in = StandIn::Password;
        let start = |source: ScramSource, user: &str| match source.start(user, &ScramPolicy { stand_in, ..POLICY }) {
            ScramStart::Salt { password, salt, iterations, doomed } => (password, salt, iterations, doomed),
            ScramStart::Ready { .. } => panic!("no hashing for {user}"),
        };
        let (_, known_salt, known_iterations, known_doomed) = start(ScramSource::Password("pw".into()), "u");
        let (password, salt, iterations, doomed) = start(ScramSource::Nobody, "u");
        assert_eq!((salt, iterations, doomed), (known_salt, known_iterations, true));
        assert!(!known_doomed);
        assert_eq!(start(ScramSource::Nobody, "u").0, password, "a second attempt must not differ");
        assert_ne!(start(ScramSource::Nobody, "v").0, password);
    }

    #[test]
    fn a_stand_in_for_a_verifier_needs_no_hashing_and_fits_no_password() {
        let ScramStart::Ready { verifier, doomed } = ScramSource::Nobody.start("u", &POLICY) else {
            panic!("a verifier needs no hashing")
        };
        assert!(doomed);
        assert_eq!((verifier.salt.clone(), verifier.iterations), (salt_for("u", &POLICY.key), 4096));
        let keys = ScramKeys::from_salted(&salt_password("", &verifier.salt, 1));
        assert!(!keys.matches(&verifier));
    }
}
