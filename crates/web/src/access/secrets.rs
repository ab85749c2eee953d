//! Passwords, cookies and tokens: how they are made, and stored so that a reader of the store can't use them.
//!
//! Passwords are slow to guess (Argon2id, with the parameters of RFC 9106's second choice as its library has them).
//! Cookies and tokens are 256 random bits of the operating system, which can't be guessed, so SHA-256 suffices for
//! them.

use std::fmt::Write as _;
use std::sync::LazyLock;

use argon2::Argon2;
use argon2::password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString};
use rand_core::{OsRng, RngCore};
use sha2::Sha256;

/// The hash by which a cookie or a token is found.
pub(crate) type Digest = [u8; 32];

/// Compared with the password of an unknown user, so that an unknown user takes as long as a known one.
static UNKNOWN_USER: LazyLock<String> = LazyLock::new(|| hash_password("").unwrap_or_default());

/// Hashes a password for the configuration file. Takes about as long as a login.
///
/// # Errors
/// The password is too long.
pub fn hash_password(password: &str) -> Result<String, String> {
    let salt = SaltString::generate(&mut OsRng);
    let hash = Argon2::default().hash_password(password.as_bytes(), &salt);
    hash.map(|hash| hash.to_string()).map_err(|error| error.to_string())
}

/// Whether a password matches this hash; without a hash it never does. Takes the same time either way: as long as with
/// the hash `like`, if there is one.
pub(super) fn is_password(password: &str, hash: Option<&str>, like: Option<&str>) -> bool {
    let parsed = PasswordHash::new(hash.or(like).unwrap_or(&UNKNOWN_USER));
    let matches = parsed.is_ok_and(|hash| Argon2::default().verify_password(password.as_bytes(), &hash).is_ok());
    matches && hash.is_some()
}

/// A new random cookie or token.
pub fn new_token() -> String {
    let mut bytes = [0; 32];
    OsRng.fill_bytes(&mut bytes);
    hex(&bytes)
}

/// Whether two texts are equal; the time that it takes reveals only their length.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    let differ = one.bytes().zip(other.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b));
    one.len() == other.len() && std::hint::black_box(differ) == 0
}

/// Hashes a token for the configuration file.
pub fn hash_token(token: &str) -> String {
    format!("sha256:{}", hex(&digest(token)))
}

pub(crate) fn digest(token: &str) -> Digest {
    use sha2::Digest as _;
    Sha256::digest(token.as_bytes()).into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_password_fits_its_hash_and_none_fits_an_unknown_user() {
        let hash = hash_password("correct horse").unwrap();
        assert!(hash.starts_with("$argon2id$"));
        assert!(is_password("correct horse", Some(&hash), None) && !is_password("correct", Some(&hash), None));
        assert!(!is_password("", None, None) && !is_password("", Some("$argon2id$nonsense"), None));
        assert!(!is_password("correct horse", None, Some(&hash)), "the hash of another");
        assert_ne!(hash, hash_password("correct horse").unwrap(), "each has its own salt");
    }

    #[test]
    fn texts_are_the_same_or_not() {
        assert!(is_same("abc", "abc") && is_same("", ""));
        assert!(!is_same("abc", "abd") && !is_same("abc", "ab") && !is_same("ab", "abc") && !is_same("xbc", "abc"));
    }

    #[test]
    fn tokens_differ_and_their_hashes_tell_nothing_of_them() {
        let (one, two) = (new_token(), new_token());
        assert!(one != two && one.len() == 64);
        assert_eq!(hash_token("abc"), "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
