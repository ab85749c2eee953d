//! The client role of SCRAM-SHA-256, used towards servers (RFC 5802, sections 5 and 7; PostgreSQL's documentation,
//! "SASL Authentication").
//!
//! Each step consumes the state before it and returns the next; states are plain data. Does not hash passwords: it
//! returns the salt and the iterations, and gets keys from a helper or from a client's login.
//!
//! A server may be hostile: its messages are bounded, its iteration count is limited, and the login is valid only
//! after [`ScramExpectVerdict::finish`].

use std::fmt;

use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use crate::binding::Flag;
use crate::crypto::{Key, hash, hmac, xor};
use crate::message::{self, Attributes, MAX_ITERATIONS, NONCE_LEN, ScramError, decode, decode_key, encode};
use crate::secret::ScramKeys;
use crate::{SCRAM_SHA_256, SCRAM_SHA_256_PLUS};

/// A login that waits for server-first-message.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScramClient {
    /// Our half of the nonce, as text.
    nonce: String,
    /// `client-first-message-bare`.
    first_bare: String,
    /// What we say about channel binding in client-final-message: the GS2 header and the binding, in base64.
    binding: String,
}

impl ScramClient {
    /// Starts a login with SCRAM-SHA-256 without TLS; returns client-first-message. `nonce` must be random and must not
    /// be used again.
    ///
    /// The user's name is left empty, as libpq does: PostgreSQL takes it from the startup message.
    pub fn start(nonce: [u8; NONCE_LEN]) -> (ScramClient, Vec<u8>) {
        Self::start_as("", encode(nonce), Flag::No, &[])
    }

    /// Starts a login with the best mechanism that the server offers; `None` if none is supported. Also returns the
    /// mechanism's name and client-first-message. `nonce` is as for [`ScramClient::start`].
    ///
    /// `binding` is the hash of the server's certificate that RFC 5929, section 4.1, defines, if the connection is
    /// encrypted. With it, the client flags its support even if the server seems not to offer channel binding, so that
    /// a server whose offer was changed in transit ends the login.
    pub fn choose<'o>(
        nonce: [u8; NONCE_LEN],
        offered: impl Iterator<Item = &'o [u8]>,
        binding: Option<&[u8]>,
    ) -> Option<(&'static str, ScramClient, Vec<u8>)> {
        let (mut plain, mut plus) = (false, false);
        for mechanism in offered {
            plain |= mechanism == SCRAM_SHA_256.as_bytes();
            plus |= mechanism == SCRAM_SHA_256_PLUS.as_bytes();
        }
        let (name, flag) = match binding {
            Some(_) if plus => (SCRAM_SHA_256_PLUS, Flag::USED),
            Some(_) if plain => (SCRAM_SHA_256, Flag::NotOffered),
            None if plain => (SCRAM_SHA_256, Flag::No),
            _ => return None,
        };
        let (client, first) = Self::start_as("", encode(nonce), flag, binding.unwrap_or_default());
        Some((name, client, first))
    }

    fn start_as(user: &str, nonce: String, flag: Flag<'_>, binding: &[u8]) -> (ScramClient, Vec<u8>) {
        let first_bare = format!("n={user},r={nonce}");
        let first = format!("{}{first_bare}", flag.header()).into_bytes();
        (ScramClient { nonce, first_bare, binding: flag.proof(binding) }, first)
    }

    /// Handles server-first-message.
    ///
    /// # Errors
    ///
    /// The message is malformed, does not continue our nonce, or requests more than [`MAX_ITERATIONS`].
    pub fn server_first(self, msg: &[u8]) -> Result<ScramNeedKeys, ScramError> {
        let text = message::text(msg)?;
        let mut attributes = Attributes::new(text);
        let nonce = message::nonce(attributes.expect('r', "nonce expected in server-first-message")?)?;
        let salt = attributes.expect('s', "salt expected in server-first-message")?;
        let count = attributes.expect('i', "iteration count expected in server-first-message")?;
        attributes.finish()?;
        // Equal is not enough: with a server that adds nothing, an old exchange could be replayed.
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
        Ok(ScramNeedKeys { salt, iterations, nonce: nonce.to_owned(), transcript, binding: self.binding })
    }
}

/// A login that waits for the keys of the password, hashed with this salt and count.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScramNeedKeys {
    /// The server's salt for this user, 1 to about 1,500 bytes.
    pub salt: Vec<u8>,
    /// How often to hash, 1 to [`MAX_ITERATIONS`].
    pub iterations: u32,
    /// Both halves of the nonce.
    nonce: String,
    /// `client-first-message-bare "," server-first-message`: the start of AuthMessage.
    transcript: String,
    /// As in [`ScramClient`].
    binding: String,
}

impl ScramNeedKeys {
    /// Gets the keys; returns client-final-message.
    pub fn answer(self, keys: &ScramKeys) -> (ScramExpectVerdict, Vec<u8>) {
        let without_proof = format!("c={},r={}", self.binding, self.nonce);
        let signed = [self.transcript.as_bytes(), b",", without_proof.as_bytes()];
        let proof = xor(&keys.client_key, &hmac(&hash(&keys.client_key), &signed));
        let verdict = ScramExpectVerdict { server_signature: hmac(&keys.server_key, &signed) };
        (verdict, format!("{without_proof},p={}", encode(proof)).into_bytes())
    }
}

/// A login that waits for server-final-message.
#[derive(Clone, Serialize, Deserialize)]
pub struct ScramExpectVerdict {
    /// The signature that a server with the secret must send.
    server_signature: Key,
}

impl ScramExpectVerdict {
    /// Handles server-final-message. `Ok` means that the server knows the secret; AuthenticationOk without it must not
    /// be accepted.
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

/// A server's text, made safe for a log.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::salt_password;
    use crate::message::MAX_MESSAGE;
    use crate::scram_server::ScramOffer;
    use crate::secret::ScramVerifier;

    // The exchange of RFC 7677, section 3: user "user", password "pencil".
    const NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
    const SERVER_FIRST: &[u8] =
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    const FINAL: &[u8] = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                           p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
    const SERVER_FINAL: &[u8] = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

    fn server_first(message: &[u8]) -> Result<ScramNeedKeys, ScramError> {
        ScramClient::start_as("user", NONCE.into(), Flag::No, &[]).0.server_first(message)
    }

    fn answer() -> (ScramExpectVerdict, Vec<u8>) {
        let need = server_first(SERVER_FIRST).unwrap();
        let keys = ScramKeys::from_salted(&salt_password("pencil", &need.salt, need.iterations));
        need.answer(&keys)
    }

    #[test]
    fn the_example_of_rfc_7677_succeeds() {
        let (_, first) = ScramClient::start_as("user", NONCE.into(), Flag::No, &[]);
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

    fn choice(offered: &[&str], binding: Option<&[u8]>) -> Option<(&'static str, String)> {
        let offered = offered.iter().map(|name| name.as_bytes());
        let (name, _, first) = ScramClient::choose([0; 18], offered, binding)?;
        Some((name, String::from_utf8(first).unwrap().split_once("n=,").unwrap().0.to_owned()))
    }

    #[test]
    fn the_best_offered_mechanism_is_used_and_support_is_flagged() {
        const PLUS: &str = SCRAM_SHA_256_PLUS;
        let hash = Some(&b"hash"[..]);
        let table = [
            (vec![SCRAM_SHA_256, PLUS], hash, Some((PLUS, "p=tls-server-end-point,,"))),
            (vec![SCRAM_SHA_256, PLUS], None, Some((SCRAM_SHA_256, "n,,"))),
            (vec![SCRAM_SHA_256], hash, Some((SCRAM_SHA_256, "y,,"))),
            (vec![SCRAM_SHA_256], None, Some((SCRAM_SHA_256, "n,,"))),
            (vec![PLUS], None, None),
            (vec!["OAUTHBEARER"], hash, None),
            (vec![], None, None),
        ];
        for (offered, binding, expected) in table {
            let chosen = choice(&offered, binding);
            let expected = expected.map(|(name, header)| (name, header.to_owned()));
            assert_eq!(chosen, expected, "{offered:?} {binding:?}");
        }
    }

    #[test]
    fn both_roles_agree_on_the_binding_and_fail_on_different_ones() {
        let ours = ScramVerifier::from_salted(&[9; 32], b"salt".to_vec(), 4096);
        let attempt = |at_server: Option<&[u8]>, at_client: Option<&[u8]>| {
            let offer = ScramOffer::new([1; 18], at_server);
            let offered = offer.mechanisms().iter().map(|name| name.as_bytes());
            let (mechanism, client, first) = ScramClient::choose([2; 18], offered, at_client).unwrap();
            let server = offer.choose(mechanism.as_bytes())?;
            let (server, message) = server.first(&first, ours.clone(), false)?;
            let need = client.server_first(&message)?;
            let (verdict, last) = need.answer(&ScramKeys::from_salted(&[9; 32]));
            verdict.finish(&server.finish(&last)?.1)
        };
        assert_eq!(attempt(Some(b"hash"), Some(b"hash")), Ok(()));
        assert_eq!(attempt(None, None), Ok(()));
        assert_eq!(attempt(None, Some(b"hash")), Ok(()));
        assert_eq!(attempt(Some(b"hash"), None), Ok(()));
        assert!(matches!(attempt(Some(b"hash"), Some(b"hush")), Err(ScramError::ChannelBinding(_))));
    }

    #[test]
    fn an_exchange_survives_freezing_between_any_two_messages() {
        let (client, _) = ScramClient::start_as("user", NONCE.into(), Flag::No, &[]);
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
    fn a_server_can_not_request_endless_hashing() {
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
    fn a_server_without_the_secret_is_refused() {
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
