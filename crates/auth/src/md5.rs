//! PostgreSQL's md5 authentication (its documentation, "Message Flow", AuthenticationMD5Password).
//!
//! A response proves knowledge of the secret only, so the stored secret suffices to log in. Kept for clients and
//! servers that still use it.

use md5::{Digest, Md5};
use subtle::{Choice, ConstantTimeEq};

/// `md5(password + user)` as 32 lower-case hex digits, as stored in pg_authid after `md5`.
pub fn md5_hex_secret(user: &str, password: &str) -> String {
    hex_of(&[password.as_bytes(), user.as_bytes()])
}

/// The response to AuthenticationMD5Password: `md5` and 32 hex digits. `secret_hex` is as [`md5_hex_secret`] returns
/// it.
pub fn md5_response(secret_hex: &str, salt: [u8; 4]) -> String {
    format!("md5{}", hex_of(&[secret_hex.as_bytes(), &salt]))
}

/// Whether `response` is the right one for this secret and salt.
///
/// False for a `secret_hex` that is not an md5 secret, such as the empty one of an unknown user: otherwise any client
/// could compute its response. The check takes the same time.
pub fn md5_verify(secret_hex: &str, salt: [u8; 4], response: &[u8]) -> bool {
    let expected = md5_response(secret_hex, salt);
    let valid = Choice::from(u8::from(is_secret(secret_hex)));
    (valid & expected.as_bytes().ct_eq(response)).into()
}

/// The hex digits of the md5 of the concatenated `parts`.
pub(crate) fn hex_of(parts: &[&[u8]]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut md5 = Md5::new();
    for part in parts {
        md5.update(part);
    }
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble & 15)]);
    md5.finalize().iter().flat_map(|&byte| [digit(byte >> 4), digit(byte)]).collect()
}

/// Whether a text is 32 lower-case hex digits.
pub(crate) fn is_secret(hex: &str) -> bool {
    hex.len() == 32 && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As PostgreSQL 15 stored it for user carol, password geheim.
    const CAROL: &str = "2c40bba0e389adbb6b179346ada91424";

    #[test]
    fn the_hash_is_that_of_rfc_1321() {
        assert_eq!(hex_of(&[]), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(hex_of(&[b"message", b" ", b"digest"]), "f96b697d7cb7938d525a2f31aaf161d0");
    }

    #[test]
    fn the_secret_equals_a_real_servers() {
        assert_eq!(md5_hex_secret("carol", "geheim"), CAROL);
    }

    #[test]
    fn only_the_response_to_this_salt_is_taken() {
        let response = md5_response(CAROL, [1, 2, 3, 4]);
        assert!(response.starts_with("md5") && response.len() == 35);
        assert!(md5_verify(CAROL, [1, 2, 3, 4], response.as_bytes()));
        assert!(!md5_verify(CAROL, [1, 2, 3, 5], response.as_bytes()));
        assert!(!md5_verify(&md5_hex_secret("carol", "wrong"), [1, 2, 3, 4], response.as_bytes()));
        for wrong in ["", "md5", &response[..34], &response[3..], &response.to_uppercase(), &format!("{response}0")] {
            assert!(!md5_verify(CAROL, [1, 2, 3, 4], wrong.as_bytes()), "{wrong}");
        }
    }

    #[test]
    fn an_invalid_secret_accepts_no_response() {
        for secret in ["", "secret", "2C40BBA0E389ADBB6B179346ADA91424", "--------------------------------"] {
            let response = md5_response(secret, [1, 2, 3, 4]);
            assert!(!md5_verify(secret, [1, 2, 3, 4], response.as_bytes()), "{secret}");
        }
    }
}
