//! SCRAM-SHA-256, our role towards servers: the client's (RFC 5802, sections 5 and 7; PostgreSQL's documentation, "SASL
//! Authentication").
//!
//! Each step consumes the state before it and returns the next; states are plain data. Does not hash passwords: it says
//! which salt and how many iterations, and is given keys, which a helper derived or a client's login taught us.
//!
//! A server may be hostile: its messages are bounded, its iteration count is limited, and the login counts only after
//! [`ScramExpectVerdict::finish`].

use std::fmt;

use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use crate::crypto::{Key, hash, hmac, xor};
use crate::message::{self, Attributes, MAX_ITERATIONS, NONCE_LEN, ScramError, decode, decode_key, encode};
use crate::secret::ScramKeys;

/// The GS2 header that we send: no channel binding, no other identity.
const GS2_HEADER: &str = "n,,";

/// A login that waits for server-first-message.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScramClient {
    /// Our half of the nonce, as text.
    nonce: String,
    /// `client-first-message-bare`.
    first_bare: String,
}

impl ScramClient {
    /// Begins a login; returns client-first-message. `nonce` must be random and must not be used again.
    ///
    /// The user's name is left empty, as libpq does: PostgreSQL takes it from the startup message.
    pub fn start(nonce: [u8; NONCE_LEN]) -> (ScramClient, Vec<u8>) {
        Self::start_as("", encode(nonce))
    }

    fn start_as(user: &str, nonce: String) -> (ScramClient, Vec<u8>) {
        let first_bare = format!("n={user},r={nonce}");
        let first = format!("{GS2_HEADER}{first_bare}").into_bytes();
        (ScramClient { nonce, first_bare }, first)
    }

    /// Takes server-first-message.
    ///
    /// # Errors
    ///
    /// The message is malformed, does not continue our nonce, or asks for more than [`MAX_ITERATIONS`].
    pub fn server_first(self, msg: &[u8]) -> Result<ScramNeedKeys, ScramError> {
        let text = message::text(msg)?;
        let mut attributes = Attributes::new(text);
        let nonce = message::nonce(attributes.expect('r', "nonce expected in server-first-message")?)?;
        let salt = attributes.expect('s', "salt expected in server-first-message")?;
        let count = attributes.expect('i', "iteration count expected in server-first-message")?;
        attributes.finish()?;
        // Equal is not enough: a server that adds nothing would let an old exchange be replayed to us.
        if nonce.strip_prefix(self.nonce.as_str()).is_none_or(str::is_empty) {
            return Err(ScramError::NonceMismatch);
        }
        let invalid_salt = ScramError::Malformed("invalid salt in server-first-message");
        let salt = decode(salt).filter(|salt| !salt.is_empty()).ok_or(invalid_salt)?;
        let invalid_count = ScramError::Malformed("invalid iteration count in server-first-message");
        let iterations = message::iterations(count).ok_or(invalid_count)?;
        if iterations > MAX_ITERATIONS {
            return Err(ScramError::TooManyIterations(iterations));
        }
        let transcript = format!("{},{text}", self.first_bare);
        Ok(ScramNeedKeys { salt, iterations, nonce: nonce.to_owned(), transcript })
    }
}

/// A login that waits for the keys of the password, salted as it says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScramNeedKeys {
    /// The server's salt for this user, 1 to about 1,500 bytes.
    pub salt: Vec<u8>,
    /// How often to hash, 1 to [`MAX_ITERATIONS`].
    pub iterations: u32,
    /// Both halves of the nonce.
    nonce: String,
    /// `client-first-message-bare "," server-first-message`: the begin of AuthMessage.
    transcript: String,
}

impl ScramNeedKeys {
    /// Takes the keys; returns client-final-message.
    pub fn answer(self, keys: &ScramKeys) -> (ScramExpectVerdict, Vec<u8>) {
        let without_proof = format!("c={},r={}", encode(GS2_HEADER), self.nonce);
        let signed = [self.transcript.as_bytes(), b",", without_proof.as_bytes()];
        let proof = xor(&keys.client_key, &hmac(&hash(&keys.client_key), &signed));
        let verdict = ScramExpectVerdict { server_signature: hmac(&keys.server_key, &signed) };
        (verdict, format!("{without_proof},p={}", encode(proof)).into_bytes())
    }
}

/// A login that waits for server-final-message.
#[derive(Clone, Serialize, Deserialize)]
pub struct ScramExpectVerdict {
    /// What a server that knows the secret must send.
    server_signature: Key,
}

impl ScramExpectVerdict {
    /// Takes server-final-message. `Ok` means that the server knows the secret; a server that says AuthenticationOk
    /// without it must not be believed.
    ///
    /// # Errors
    ///
    /// [`ScramError::Server`] if the server reports an error, [`ScramError::ServerSignature`] if its proof is wrong;
    /// otherwise the message is malformed.
    pub fn finish(self, server_final: &[u8]) -> Result<(), ScramError> {
        let mut attributes = Attributes::new(message::text(server_final)?);
        match attributes.next()? {
            Some(('e', error)) => Err(ScramError::Server(printable(error))),
            Some(('v', signature)) => {
                attributes.finish()?;
                self.verify(signature)
            }
            _ => Err(ScramError::Malformed("verifier expected in server-final-message")),
        }
    }

    fn verify(&self, signature: &str) -> Result<(), ScramError> {
        let invalid = ScramError::Malformed("invalid signature in server-final-message");
        let signature = decode_key(signature).ok_or(invalid)?;
        if bool::from(signature.ct_eq(&self.server_signature)) { Ok(()) } else { Err(ScramError::ServerSignature) }
    }
}

impl fmt::Debug for ScramExpectVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScramExpectVerdict(…)")
    }
}

/// A server's words, safe to write to a log.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::salt_password;
    use crate::message::MAX_MESSAGE;

    // The exchange of RFC 7677, section 3: user "user", password "pencil".
    const NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
    const SERVER_FIRST: &[u8] =
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    const FINAL: &[u8] = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                           p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
    const SERVER_FINAL: &[u8] = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

    fn server_first(message: &[u8]) -> Result<ScramNeedKeys, ScramError> {
        ScramClient::start_as("user", NONCE.into()).0.server_first(message)
    }

    fn answer() -> (ScramExpectVerdict, Vec<u8>) {
        let need = server_first(SERVER_FIRST).unwrap();
        let keys = ScramKeys::from_salted(&salt_password("pencil", &need.salt, need.iterations));
        need.answer(&keys)
    }

    #[test]
    fn the_example_of_rfc_7677_succeeds() {
        let (_, first) = ScramClient::start_as("user", NONCE.into());
        assert_eq!(first, b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let (verdict, message) = answer();
        assert_eq!(message.escape_ascii().to_string(), FINAL.escape_ascii().to_string());
        assert_eq!(verdict.finish(SERVER_FINAL), Ok(()));
    }

    #[test]
    fn our_first_message_leaves_the_user_to_the_startup_message() {
        let (_, first) = ScramClient::start([0; 18]);
        assert_eq!(first, b"n,,n=,r=AAAAAAAAAAAAAAAAAAAAAAAA");
    }

    #[test]
    fn an_exchange_survives_freezing_between_any_two_messages() {
        let (client, _) = ScramClient::start_as("user", NONCE.into());
        let client: ScramClient = postcard::from_bytes(&postcard::to_stdvec(&client).unwrap()).unwrap();
        let need = client.server_first(SERVER_FIRST).unwrap();
        let need: ScramNeedKeys = postcard::from_bytes(&postcard::to_stdvec(&need).unwrap()).unwrap();
        let keys = ScramKeys::from_salted(&salt_password("pencil", &need.salt, need.iterations));
        let (verdict, _) = need.answer(&keys);
        let verdict: ScramExpectVerdict = postcard::from_bytes(&postcard::to_stdvec(&verdict).unwrap()).unwrap();
        assert_eq!(verdict.finish(SERVER_FINAL), Ok(()));
    }

    #[test]
    fn a_server_must_continue_our_nonce() {
        for nonce in [NONCE, "other", "rOprNGfwEbeRWgbNEkqX1"] {
            let message = format!("r={nonce},s=c2FsdA==,i=4096");
            assert_eq!(server_first(message.as_bytes()).unwrap_err(), ScramError::NonceMismatch, "{nonce}");
        }
    }

    #[test]
    fn a_server_can_not_make_us_hash_for_ever() {
        let ask = |count: u32| server_first(format!("r={NONCE}x,s=c2FsdA==,i={count}").as_bytes());
        assert_eq!(ask(MAX_ITERATIONS).unwrap().iterations, MAX_ITERATIONS);
        assert_eq!(ask(MAX_ITERATIONS + 1).unwrap_err(), ScramError::TooManyIterations(MAX_ITERATIONS + 1));
        assert_eq!(ask(1 << 31).unwrap_err(), ScramError::TooManyIterations(1 << 31));
    }

    #[test]
    fn a_malformed_server_first_is_refused() {
        let malformed = [
            String::new(),
            "r=".into(),
            format!("r={NONCE}x"),
            format!("r={NONCE}x,s=c2FsdA=="),
            format!("r={NONCE}x,i=4096,s=c2FsdA=="),
            format!("r={NONCE}x,s=,i=4096"),
            format!("r={NONCE}x,s=c2FsdA,i=4096"),
            format!("r={NONCE}x,s=c2FsdA==,i="),
            format!("r={NONCE}x,s=c2FsdA==,i=0"),
            format!("r={NONCE}x,s=c2FsdA==,i=-1"),
            format!("r={NONCE}x,s=c2FsdA==,i=4294967296"),
            format!("r={NONCE}x,s=c2FsdA==,i=4096,"),
            format!("r={NONCE} x,s=c2FsdA==,i=4096"),
            format!("r={NONCE}{},s=c2FsdA==,i=4096", "x".repeat(MAX_MESSAGE)),
        ];
        for message in malformed {
            let error = server_first(message.as_bytes()).unwrap_err();
            assert!(matches!(error, ScramError::Malformed(_)), "{error} for {message}");
        }
        let extension = server_first(b"m=x,r=x").unwrap_err();
        assert_eq!(extension, ScramError::Unsupported("mandatory extension"));
    }

    #[test]
    fn a_server_without_the_secret_is_not_believed() {
        let zero = format!("v={}", encode([0; 32]));
        assert_eq!(answer().0.finish(zero.as_bytes()), Err(ScramError::ServerSignature));
    }

    #[test]
    fn a_servers_error_is_passed_on_in_printable_form() {
        let error = ScramError::Server("invalid-proof?[31m".into());
        assert_eq!(answer().0.finish(b"e=invalid-proof\x1b[31m"), Err(error));
    }

    #[test]
    fn a_malformed_server_final_is_refused() {
        let half = format!("v={}", encode([0; 16]));
        let malformed: [&[u8]; 7] = [b"", b"v", b"v=", b"v=!", b"x=y", b"v=AA==,", half.as_bytes()];
        for message in malformed {
            let error = answer().0.finish(message).unwrap_err();
            assert!(matches!(error, ScramError::Malformed(_)), "{error} for {}", message.escape_ascii());
        }
    }
}
