//! Checks cleartext passwords against every kind of secret.
//!
//! An empty password is always wrong, as in PostgreSQL and PgBouncer. So is one with a zero byte: no real password has
//! one, and HMAC treats a short key and the same key padded with zero bytes alike.

use subtle::{Choice, ConstantTimeEq};

use crate::crypto::{salt_bytes, same};
use crate::md5::{hex_of, is_secret};
use crate::secret::{ScramKeys, Secret};

/// Whether `given` is the password `expected`. Constant time for all lengths; false if either is empty.
pub fn plain_verify(expected: &str, given: &[u8]) -> bool {
    let present = Choice::from(u8::from(!expected.is_empty()));
    (present & is_password(given) & same(expected.as_bytes(), given)).into()
}

/// Whether `given` is the password behind `secret`.
///
/// Cheap for plain and md5 secrets. For a SCRAM secret it hashes with the verifier's iteration count, over a
/// millisecond for PostgreSQL's 4,096 iterations: work for a helper, not for a worker's loop.
pub fn verify_cleartext(secret: &Secret, user: &str, given: &[u8]) -> bool {
    match secret {
        Secret::Plain(expected) => plain_verify(expected, given),
        Secret::Md5(hex) => {
            let valid = Choice::from(u8::from(is_secret(hex)));
            (valid & is_password(given) & hex_of(&[given, user.as_bytes()]).as_bytes().ct_eq(hex.as_bytes())).into()
        }
        Secret::Scram(verifier) => {
            let salted = salt_bytes(given, &verifier.salt, verifier.iterations);
            let fits = ScramKeys::from_salted(&salted).matches(verifier);
            (is_password(given) & Choice::from(u8::from(fits))).into()
        }
    }
}

/// Whether a text can be a password.
fn is_password(given: &[u8]) -> Choice {
    Choice::from(u8::from(!given.is_empty() && !given.contains(&0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::salt_password;
    use crate::md5::md5_hex_secret;
    use crate::secret::ScramVerifier;

    fn secrets(user: &str, password: &str) -> [Secret; 3] {
        let salted = salt_password(password, b"salt", 2);
        let verifier = ScramVerifier::from_salted(&salted, b"salt".to_vec(), 2);
        let hex = md5_hex_secret(user, password);
        [Secret::Plain(password.into()), Secret::Md5(hex.into()), Secret::Scram(verifier)]
    }

    #[test]
    fn a_password_fits_each_kind_of_its_secret() {
        for secret in secrets("alice", "pass wörd") {
            assert!(verify_cleartext(&secret, "alice", "pass wörd".as_bytes()), "{secret:?}");
        }
    }

    #[test]
    fn no_other_password_fits() {
        for secret in secrets("alice", "pass wörd") {
            for wrong in [&b""[..], b"pass", b"pass w\xf6rd", "pass wörd ".as_bytes(), "pass wörd\0".as_bytes()] {
                assert!(!verify_cleartext(&secret, "alice", wrong), "{secret:?} {}", wrong.escape_ascii());
            }
        }
    }

    #[test]
    fn an_empty_password_never_logs_in() {
        for secret in secrets("alice", "") {
            assert!(!verify_cleartext(&secret, "alice", b""), "{secret:?}");
        }
    }

    #[test]
    fn a_broken_md5_secret_fits_nothing() {
        assert!(!verify_cleartext(&Secret::Md5("".into()), "", b""));
        assert!(!verify_cleartext(&Secret::Md5("x".into()), "", b"x"));
    }
}
