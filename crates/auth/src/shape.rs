//! What a SCRAM exchange shows of a user's verifier before the client has proved anything.

use serde::{Deserialize, Serialize};

/// The length of the salts that we and PostgreSQL make, in bytes.
pub(crate) const SALT_LEN: usize = 16;

/// What a SCRAM challenge shows of a verifier.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Shape {
    /// How often the password was hashed.
    pub iterations: u32,
    /// The length of the salt, in bytes.
    pub salt: usize,
}

impl Shape {
    /// Of a verifier that we make ourselves, or that PostgreSQL made with this count.
    pub fn usual(iterations: u32) -> Shape {
        Shape { iterations, salt: SALT_LEN }
    }
}
