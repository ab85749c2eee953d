//! Stored secrets of users, in the forms that pg_authid, auth_query and a userlist hold.
//!
//! Must not know any exchange. A secret that starts like a SCRAM verifier is a valid verifier or an error, never a
//! password. `Debug` shows the kind of a secret, never its content; `Display` of a verifier is its
//! stored form.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use subtle::{Choice, ConstantTimeEq};

use crate::crypto::{hash, hmac};
use crate::message::{MAX_ITERATIONS, decode, decode_key, encode, iterations};

/// The longest salt of a stored verifier, in bytes; PostgreSQL creates salts of 16.
const MAX_SALT: usize = 1024;
/// The length of the salts that PostgreSQL and Weir create.
pub(crate) const SALT_LEN: usize = 16;
const SCRAM_PREFIX: &str = "SCRAM-SHA-256$";
const MD5_PREFIX: &str = "md5";

/// A user's stored secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Secret {
    /// The password itself.
    Plain(Arc<str>),
    /// The 32 lower-case hex digits of `md5(password + user)`, without the `md5` before them.
    Md5(Arc<str>),
    /// A SCRAM-SHA-256 verifier.
    Scram(ScramVerifier),
}

impl Secret {
    /// Reads a secret as pg_authid.rolpassword holds it (PostgreSQL's documentation, "pg_authid").
    ///
    /// `md5` and 32 hex digits are an md5 secret, `SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>` is a
    /// verifier, anything else a password.
    ///
    /// # Errors
    ///
    /// A text that starts like a verifier and is none.
    pub fn parse(text: &str) -> Result<Secret, SecretError> {
        if let Some(rest) = text.strip_prefix(SCRAM_PREFIX) {
            return ScramVerifier::parse_rest(rest).map(Secret::Scram);
        }
        match text.strip_prefix(MD5_PREFIX) {
            Some(hex) if hex.len() == 32 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                Ok(Secret::Md5(hex.to_ascii_lowercase().into()))
            }
            _ => Ok(Secret::Plain(text.into())),
        }
    }
}

/// The properties of a verifier that a SCRAM challenge shows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Shape {
    /// The iteration count.
    pub iterations: u32,
    /// The length of the salt, in bytes.
    pub salt: usize,
}

impl Shape {
    /// The shape of a verifier created by Weir, or by PostgreSQL with this count.
    pub fn usual(iterations: u32) -> Shape {
        Shape { iterations, salt: SALT_LEN }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Secret::Plain(_) => "Plain(…)",
            Secret::Md5(_) => "Md5(…)",
            Secret::Scram(_) => "Scram(…)",
        })
    }
}

/// The error in a text that starts like a SCRAM secret. It does not contain the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SecretError {
    /// A `$` or `:` is missing.
    Shape,
    /// The iteration count is not a number from 1 to [`MAX_ITERATIONS`].
    Iterations,
    /// The salt is not base64, empty, or longer than 1,024 bytes.
    Salt,
    /// StoredKey is not the base64 of 32 bytes.
    StoredKey,
    /// ServerKey is not the base64 of 32 bytes.
    ServerKey,
}

impl fmt::Display for SecretError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("invalid SCRAM-SHA-256 secret: ")?;
        match self {
            SecretError::Shape => {
                f.write_str("it must read SCRAM-SHA-256$<iterations>:<salt>$<stored key>:<server key>")
            }
            SecretError::Iterations => write!(f, "the iteration count must be a number from 1 to {MAX_ITERATIONS}"),
            SecretError::Salt => write!(f, "the salt must be 1 to {MAX_SALT} bytes in base64"),
            SecretError::StoredKey => f.write_str("the stored key must be 32 bytes in base64"),
            SecretError::ServerKey => f.write_str("the server key must be 32 bytes in base64"),
        }
    }
}

impl std::error::Error for SecretError {}

/// The data that verifies a SCRAM-SHA-256 login; it does not suffice to log in.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScramVerifier {
    /// The iteration count.
    pub iterations: u32,
    /// The salt, 1 to 1,024 bytes.
    pub salt: Vec<u8>,
    /// `StoredKey`: the hash of the client's key.
    pub stored_key: [u8; 32],
    /// `ServerKey`: with it a server proves that it knows the secret.
    pub server_key: [u8; 32],
    /// Both keys of the password before the present one, if that is valid too. It was hashed with the same salt and
    /// iterations: a challenge has only one. Not part of what another process gets.
    #[serde(skip)]
    former: Option<Box<[[u8; 32]; 2]>>,
}

impl ScramVerifier {
    /// Reads a verifier in the form that `Display` writes and pg_authid holds.
    ///
    /// # Errors
    ///
    /// Names the part that is missing or wrong.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        Self::parse_rest(text.strip_prefix(SCRAM_PREFIX).ok_or(SecretError::Shape)?)
    }

    /// The verifier of a password hashed by [`salt_password`](crate::salt_password) with this salt and iteration count.
    pub fn from_salted(salted: &[u8; 32], salt: Vec<u8>, iterations: u32) -> Self {
        let keys = ScramKeys::from_salted(salted);
        let (stored_key, server_key) = (hash(&keys.client_key), keys.server_key);
        ScramVerifier { iterations, salt, stored_key, server_key, former: None }
    }

    /// Accepts the password of a former verifier too, if both have the same salt and iterations.
    pub fn or_former(mut self, former: &ScramVerifier) -> Self {
        let same = self.salt == former.salt && self.iterations == former.iterations;
        self.former = same.then(|| Box::new([former.stored_key, former.server_key]));
        self
    }

    /// The keys that are accepted, the present ones first: each StoredKey with its ServerKey.
    pub(crate) fn accepted(&self) -> impl Iterator<Item = [[u8; 32]; 2]> {
        [[self.stored_key, self.server_key]].into_iter().chain(self.former.as_deref().copied())
    }

    /// A verifier for an unknown user, or one without a usable secret: no password fits it.
    ///
    /// The salt of a user stays the same for as long as the process keeps `key`, like that of a user whose secret is
    /// stored; the rest of the login costs as much as a real one.
    pub fn mock(user: &str, key: &[u8; 32], shape: Shape) -> Self {
        let derive = |label: &[u8]| hmac(key, &[label, user.as_bytes()]);
        ScramVerifier {
            iterations: shape.iterations,
            salt: salt_of(user, key, shape.salt),
            stored_key: derive(b"stored key "),
            server_key: derive(b"server key "),
            former: None,
        }
    }

    fn parse_rest(rest: &str) -> Result<Self, SecretError> {
        let (head, keys) = rest.split_once('$').ok_or(SecretError::Shape)?;
        let (count, salt) = head.split_once(':').ok_or(SecretError::Shape)?;
        let (stored_key, server_key) = keys.split_once(':').ok_or(SecretError::Shape)?;
        let salt_is_bounded = |salt: &Vec<u8>| (1..=MAX_SALT).contains(&salt.len());
        Ok(ScramVerifier {
            iterations: iterations(count).filter(|&n| n <= MAX_ITERATIONS).ok_or(SecretError::Iterations)?,
            salt: decode(salt).filter(salt_is_bounded).ok_or(SecretError::Salt)?,
            stored_key: decode_key(stored_key).ok_or(SecretError::StoredKey)?,
            server_key: decode_key(server_key).ok_or(SecretError::ServerKey)?,
            former: None,
        })
    }
}

/// A user's salt if none is stored: random to an observer, the same for as long as the process keeps `key`.
///
/// Known users with a plain secret and unknown users share it, so a salt that changes, or does not, reveals
/// nothing.
pub(crate) fn salt_for(user: &str, key: &[u8; 32]) -> Vec<u8> {
    salt_of(user, key, SALT_LEN)
}

/// The salt of [`salt_for`], with this length.
fn salt_of(user: &str, key: &[u8; 32], length: usize) -> Vec<u8> {
    let mut salt = hmac(key, &[b"salt ", user.as_bytes()]).to_vec();
    while salt.len() < length {
        let more = hmac(key, &[b"more salt ", &salt]);
        salt.extend_from_slice(&more);
    }
    salt.truncate(length);
    salt
}

impl fmt::Display for ScramVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ScramVerifier { iterations, salt, stored_key, server_key, former: _ } = self;
        write!(f, "{SCRAM_PREFIX}{iterations}:{}${}:{}", encode(salt), encode(stored_key), encode(server_key))
    }
}

impl fmt::Debug for ScramVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScramVerifier(…)")
    }
}

/// Enough to log in to any server that holds the same verifier: same password, same salt, same iterations.
#[derive(Clone, Serialize, Deserialize)]
pub struct ScramKeys {
    /// `ClientKey`: proves knowledge of the password.
    pub client_key: [u8; 32],
    /// `ServerKey`: verifies that the server knows the secret.
    pub server_key: [u8; 32],
}

impl ScramKeys {
    /// The keys of a password hashed by [`salt_password`](crate::salt_password).
    pub fn from_salted(salted: &[u8; 32]) -> Self {
        ScramKeys { client_key: hmac(salted, &[b"Client Key"]), server_key: hmac(salted, &[b"Server Key"]) }
    }

    /// Whether these are the keys of the password behind `verifier`.
    pub fn matches(&self, verifier: &ScramVerifier) -> bool {
        let fits =
            |[stored, server]: [[u8; 32]; 2]| hash(&self.client_key).ct_eq(&stored) & self.server_key.ct_eq(&server);
        verifier.accepted().map(fits).fold(Choice::from(0), |any, one| any | one).into()
    }
}

impl fmt::Debug for ScramKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScramKeys(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::salt_password;

    /// As PostgreSQL 15 stored them.
    const ALICE: &str = "SCRAM-SHA-256$4096:QDHl3c07x6y3N/posdGPvg==$I42cKpiCuaxHmtlKw21M9Q7UxTQBycy1fRXhfW72rcs=:\
                         igOrtGF9vT2XIpa+ZAZcxJX+5CHhC9OfmUBbCT/+gUs=";
    const NORMALISED: &str = "SCRAM-SHA-256$4096:HzMALzhqOZm92KEpDXJYew==$xF0iTr6GtTrURKejLTrD2NJBS5gGx62eLhz+Ob5RTz0=:\
                              ITQrImtqGW6PBNgEiFa0lP6p9rSsbTICc5LZxQ1BegM=";
    const NOT_NORMALISED: &str = "SCRAM-SHA-256$4096:qkcV4p8/92t7Zpys1wtHlg==$\
        6NJwaFqIu9DilK9kk0qL02DAHRpGD8XmnPCdCk1w7Fw=:19rFNPGLd9y304nXvikoxd692D4Alts/VccHJR3M37Y=";

    fn keys(password: &str, verifier: &ScramVerifier) -> ScramKeys {
        ScramKeys::from_salted(&salt_password(password, &verifier.salt, verifier.iterations))
    }

    #[test]
    fn verifiers_of_a_real_server_fit_their_passwords() {
        let stored = [
            (ALICE, "correct horse"),
            (NORMALISED, "\u{FB01} \u{2168} p\u{AD}w \u{FF46}\u{FF55}\u{FF4C}\u{FF4C}"),
            (NORMALISED, "fi IX pw full"),
            (NOT_NORMALISED, "\u{1F980}\u{1F130}"),
        ];
        for (text, password) in stored {
            let verifier = ScramVerifier::parse(text).unwrap();
            assert!(keys(password, &verifier).matches(&verifier), "{password}");
            assert!(!keys("wrong", &verifier).matches(&verifier), "{password}");
        }
    }

    #[test]
    fn a_former_password_fits_beside_the_present_one_if_the_salt_is_the_same() {
        let of = |password: &str, salt: &[u8]| {
            ScramVerifier::from_salted(&salt_password(password, salt, 2), salt.to_vec(), 2)
        };
        let both = of("new", b"salt").or_former(&of("old", b"salt"));
        assert!(keys("new", &both).matches(&both) && keys("old", &both).matches(&both));
        assert!(!keys("older", &both).matches(&both));
        assert_eq!(both.to_string(), of("new", b"salt").to_string(), "it is stored apart");
        let other = of("new", b"salt").or_former(&of("old", b"pepper"));
        assert!(keys("new", &other).matches(&other) && !keys("old", &other).matches(&other));
    }

    #[test]
    fn a_verifier_is_written_as_it_was_read() {
        assert_eq!(ScramVerifier::parse(ALICE).unwrap().to_string(), ALICE);
    }

    #[test]
    fn a_verifier_made_from_a_password_equals_the_servers() {
        let stored = ScramVerifier::parse(ALICE).unwrap();
        let salted = salt_password("correct horse", &stored.salt, stored.iterations);
        assert_eq!(ScramVerifier::from_salted(&salted, stored.salt.clone(), stored.iterations).to_string(), ALICE);
    }

    #[test]
    fn secrets_are_distinguished_by_their_form() {
        let plain = |text: &str| Secret::Plain(text.into());
        let hex = "2c40bba0e389adbb6b179346ada91424";
        assert_eq!(Secret::parse(&format!("md5{hex}")), Ok(Secret::Md5(hex.into())));
        assert_eq!(Secret::parse(&format!("md5{}", hex.to_uppercase())), Ok(Secret::Md5(hex.into())));
        assert_eq!(Secret::parse(ALICE), Ok(Secret::Scram(ScramVerifier::parse(ALICE).unwrap())));
        let passwords =
            ["", "md5", "md5 is old", "MD52c40bba0e389adbb6b179346ada91424", "SCRAM-SHA-256", "scram-sha-256$"];
        for text in passwords {
            assert_eq!(Secret::parse(text), Ok(plain(text)));
        }
        let too_long = format!("md5{hex}0");
        assert_eq!(Secret::parse(&too_long), Ok(plain(&too_long)));
    }

    #[test]
    fn a_broken_verifier_is_an_error_that_names_the_part() {
        let key = encode([0; 32]);
        let long_salt = encode([0; MAX_SALT + 1]);
        let broken = [
            (String::new(), SecretError::Shape),
            (format!("4096:c2FsdA==:{key}:{key}"), SecretError::Shape),
            (format!("4096$c2FsdA==${key}:{key}"), SecretError::Shape),
            (format!("4096:c2FsdA==${key}"), SecretError::Shape),
            (format!("0:c2FsdA==${key}:{key}"), SecretError::Iterations),
            (format!("1000001:c2FsdA==${key}:{key}"), SecretError::Iterations),
            (format!("4096:c2FsdA${key}:{key}"), SecretError::Salt),
            (format!("4096:${key}:{key}"), SecretError::Salt),
            (format!("4096:{long_salt}${key}:{key}"), SecretError::Salt),
            (format!("4096:c2FsdA==$c2FsdA==:{key}"), SecretError::StoredKey),
            (format!("4096:c2FsdA==${key}:c2FsdA=="), SecretError::ServerKey),
            (format!("4096:c2FsdA==${key}:{key}:"), SecretError::ServerKey),
        ];
        for (rest, error) in broken {
            assert_eq!(Secret::parse(&format!("{SCRAM_PREFIX}{rest}")), Err(error), "{rest}");
        }
    }

    #[test]
    fn a_mock_is_the_same_for_the_same_user_and_differs_between_users_and_processes() {
        let mock = ScramVerifier::mock("nobody", &[1; 32], Shape::usual(4096));
        assert_eq!(mock, ScramVerifier::mock("nobody", &[1; 32], Shape::usual(4096)));
        assert_ne!(mock.salt, ScramVerifier::mock("somebody", &[1; 32], Shape::usual(4096)).salt);
        assert_ne!(mock.salt, ScramVerifier::mock("nobody", &[2; 32], Shape::usual(4096)).salt);
        assert_eq!((mock.salt.len(), mock.iterations), (16, 4096));
        for salt in [1, 15, 16, 28, 32, 33, 100] {
            let mock = ScramVerifier::mock("nobody", &[1; 32], Shape { iterations: 7, salt });
            assert_eq!((mock.salt.len(), mock.iterations), (salt, 7));
        }
        assert!(!keys("", &mock).matches(&mock));
    }

    #[test]
    fn debug_texts_show_no_secret() {
        let verifier = ScramVerifier::parse(ALICE).unwrap();
        assert_eq!(format!("{:?}", Secret::parse("hunter2").unwrap()), "Plain(…)");
        assert_eq!(format!("{:?}", Secret::Scram(verifier.clone())), "Scram(…)");
        assert_eq!(format!("{verifier:?} {:?}", keys("x", &verifier)), "ScramVerifier(…) ScramKeys(…)");
    }
}
