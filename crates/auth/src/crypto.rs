//! The hash functions of SCRAM-SHA-256, with the names of RFC 5802, section 3.
//!
//! Must not know messages. All functions accept inputs of any length and can't fail.

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use crate::saslprep;

/// The size of every key, hash and signature in SCRAM-SHA-256.
pub(crate) const KEY_LEN: usize = 32;

/// A key, a hash or a signature.
pub(crate) type Key = [u8; KEY_LEN];

/// `SaltedPassword` (RFC 5802, section 3): SASLprep, then PBKDF2-HMAC-SHA-256.
///
/// Slow on purpose: about a third of a microsecond an iteration. The caller bounds `iterations`, as
/// [`ScramClient`](crate::ScramClient) and [`Secret::parse`](crate::Secret::parse) do with
/// [`MAX_ITERATIONS`](crate::MAX_ITERATIONS). A password that SASLprep refuses is used unchanged, as PostgreSQL does
/// (its documentation, "SCRAM-SHA-256 Authentication").
pub fn salt_password(password: &str, salt: &[u8], iterations: u32) -> [u8; 32] {
    salt_bytes(password.as_bytes(), salt, iterations)
}

/// [`salt_password`] for a password from the wire, which need not be UTF-8.
pub(crate) fn salt_bytes(password: &[u8], salt: &[u8], iterations: u32) -> Key {
    let mut salted = [0; KEY_LEN];
    pbkdf2::pbkdf2_hmac::<Sha256>(&saslprep::prepare(password), salt, iterations, &mut salted);
    salted
}

/// `HMAC(key, parts[0] + parts[1] + …)`.
pub(crate) fn hmac(key: &[u8], parts: &[&[u8]]) -> Key {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

/// `H(data)`.
pub(crate) fn hash(data: &[u8]) -> Key {
    Sha256::digest(data).into()
}

/// `a XOR b`.
pub(crate) fn xor(a: &Key, b: &Key) -> Key {
    std::array::from_fn(|i| a[i] ^ b[i])
}

/// Whether two secrets are equal. Constant time for all contents and lengths.
pub fn same_secret(a: &[u8], b: &[u8]) -> bool {
    same(a, b).into()
}

/// Whether `a` equals `b`; the time it takes does not depend on their content, nor on where they differ.
///
/// Texts of different lengths are compared by their hashes, so that a comparison that ends early does not
/// reveal a length.
pub(crate) fn same(a: &[u8], b: &[u8]) -> Choice {
    hash(a).ct_eq(&hash(b))
}
