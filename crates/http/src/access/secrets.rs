//! Passwords, cookies and tokens: how they are made, and stored so that a reader of the store can't use them.
//!
//! Passwords are slow to guess (Argon2id, with the parameters of RFC 9106's second choice as its library has them).
//! Cookies and tokens are 256 random bits of the operating system, which can't be guessed, so SHA-256 suffices for
//! them.

use std::fmt::Write as _;
use std::sync::LazyLock;

use argon2::password_hash::{Output, ParamsString, PasswordHash, SaltString};
use argon2::{ARGON2ID_IDENT, Algorithm, Argon2, Block, Params, Version};
use rand_core::{OsRng, RngCore};
use sha2::Sha256;

/// The hash by which a cookie or a token is found.
pub(crate) type Digest = [u8; 32];

/// Compared with the password of an unknown user, so that an unknown user takes as long as a known one.
static UNKNOWN_USER: LazyLock<String> = LazyLock::new(|| hash_password("").unwrap_or_default());

/// The memory of a hash is reserved as one block of this size, of which only what the hash needs is touched. The C
/// library returns a block of more than 32 MiB to the system when it is freed; a smaller one it may keep for good, once
/// a thread.
const ARENA: usize = 33 << 20;
/// The longest salt of a hash, in bytes.
const LONGEST_SALT: usize = 64;

/// Hashes a password for the configuration file. Takes about as long as a login.
///
/// # Errors
/// The password is too long.
pub fn hash_password(password: &str) -> Result<String, String> {
    let salt = SaltString::generate(&mut OsRng);
    let params = Params::default();
    let made = argon2::password_hash::Result::and_then(ParamsString::try_from(&params), |shown| {
        let mut hash = PasswordHash::new("$argon2id")?;
        hash.version = Some(Version::default().into());
        (hash.algorithm, hash.params, hash.salt) = (ARGON2ID_IDENT, shown, Some(salt.as_salt()));
        hash.hash = Some(compute(password, &hash)?);
        Ok(hash.to_string())
    });
    made.map_err(|error| error.to_string())
}

/// The hash of a password with the parameters and the salt of another one.
fn compute(password: &str, like: &PasswordHash<'_>) -> argon2::password_hash::Result<Output> {
    let version = like.version.map_or(Ok(Version::default()), Version::try_from)?;
    let params = Params::try_from(like)?;
    let mut salt = [0; LONGEST_SALT];
    let salt = like.salt.ok_or(argon2::password_hash::Error::PhcStringField)?.decode_b64(&mut salt)?;
    let mut memory = Vec::with_capacity((ARENA / Block::SIZE).max(params.block_count()));
    memory.resize(params.block_count(), Block::new());
    let length = params.output_len().unwrap_or(Params::DEFAULT_OUTPUT_LEN);
    let argon2 = Argon2::new(Algorithm::try_from(like.algorithm)?, version, params);
    Output::init_with(length, |hash| {
        Ok(argon2.hash_password_into_with_memory(password.as_bytes(), salt, hash, &mut memory)?)
    })
}

/// Whether a password matches this hash; without a hash it never does. Takes the same time either way: as long as with
/// the hash `like`, if there is one.
pub(super) fn is_password(password: &str, hash: Option<&str>, like: Option<&str>) -> bool {
    let stored = PasswordHash::new(hash.or(like).unwrap_or(&UNKNOWN_USER));
    // Outputs are compared in a time that does not depend on them.
    let matches = stored.is_ok_and(|stored| compute(password, &stored).ok() == stored.hash && stored.hash.is_some());
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
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        // Made by another implementation of Argon2, with other parameters and a hash of another length.
        let foreign = "$argon2id$v=19$m=256,t=3,p=2$c29tZXNhbHRzb21lc2FsdA$";
        assert!(!is_password("", Some(foreign), None));
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
