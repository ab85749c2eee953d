//! The server role of SCRAM-SHA-256, used towards clients (RFC 5802, sections 5 and 7; PostgreSQL's documentation,
//! "SASL Authentication").
//!
//! Each step consumes the state before it and returns the next. States are plain data: a session can be frozen
//! between any two messages. Must not know the source of the verifier, only whether the login must fail.
//!
//! Channel binding is offered if the binding of the client's TLS connection is known. Then a client that believes that
//! it is not offered is refused: the offer was changed in transit.

use std::fmt;

use serde::{Deserialize, Serialize};
use subtle::{Choice, ConstantTimeEq};

use crate::binding::Flag;
use crate::crypto::{hash, hmac, same, xor};
use crate::message::{self, Attributes, NONCE_LEN, ScramError, decode_key, encode};
use crate::secret::{ScramKeys, ScramVerifier};
use crate::{SCRAM_SHA_256, SCRAM_SHA_256_PLUS};

/// A login that waits for the client's choice of a mechanism.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScramOffer {
    /// Our half of the nonce, as text.
    nonce: String,
    /// The `tls-server-end-point` of the client's connection, if it is known.
    binding: Option<Vec<u8>>,
}

impl ScramOffer {
    /// Starts a login. `nonce` must be random and must not be used again. `binding` is the hash of our certificate that
    /// RFC 5929, section 4.1, defines, if the client's connection is encrypted.
    pub fn new(nonce: [u8; NONCE_LEN], binding: Option<&[u8]>) -> Self {
        ScramOffer { nonce: encode(nonce), binding: binding.map(Vec::from) }
    }

    /// The mechanisms for AuthenticationSASL, the better first.
    pub fn mechanisms(&self) -> &'static [&'static str] {
        match self.binding {
            Some(_) => &[SCRAM_SHA_256_PLUS, SCRAM_SHA_256],
            None => &[SCRAM_SHA_256],
        }
    }

    /// Handles the mechanism's name in SASLInitialResponse.
    ///
    /// # Errors
    ///
    /// The mechanism was not offered.
    pub fn choose(self, mechanism: &[u8]) -> Result<ScramServer, ScramError> {
        let ScramOffer { nonce, binding } = self;
        let plain = mechanism == SCRAM_SHA_256.as_bytes();
        let channel = match binding {
            None if plain => Channel::NotOffered,
            Some(_) if plain => Channel::Declined,
            Some(binding) if mechanism == SCRAM_SHA_256_PLUS.as_bytes() => Channel::Bound(binding),
            _ => return Err(ScramError::Unsupported("mechanism that was not offered")),
        };
        Ok(ScramServer { nonce, channel })
    }
}

/// The use of channel binding in a login.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Channel {
    /// Not offered.
    NotOffered,
    /// Offered, but the client chose the mechanism without it.
    Declined,
    /// Used, with this data.
    Bound(Vec<u8>),
}

impl Channel {
    /// The required `c=` of client-final-message after this flag.
    fn proof(&self, flag: Flag<'_>) -> Result<String, ScramError> {
        let error = match (self, flag) {
            (Channel::NotOffered, Flag::No | Flag::NotOffered) | (Channel::Declined, Flag::No) => {
                return Ok(flag.proof(&[]));
            }
            (Channel::Bound(binding), Flag::USED) => return Ok(flag.proof(binding)),
            (Channel::NotOffered, Flag::Used(_)) => "the client asks for what we do not offer",
            (Channel::Declined, Flag::NotOffered) => "the client was not shown our offer",
            (Channel::Declined, Flag::Used(_)) => "the client chose the mechanism without it, and uses it",
            (Channel::Bound(_), Flag::Used(_)) => "the client asks for another type",
            (Channel::Bound(_), Flag::No | Flag::NotOffered) => "the client chose it, and does not use it",
        };
        Err(ScramError::ChannelBinding(error))
    }
}

/// A login that waits for client-first-message.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScramServer {
    /// Our half of the nonce, as text.
    nonce: String,
    channel: Channel,
}

impl ScramServer {
    /// Starts a login with the mechanism without channel binding as the only choice. `nonce` must be random and
    /// must not be used again.
    pub fn new(nonce: [u8; NONCE_LEN]) -> Self {
        ScramServer { nonce: encode(nonce), channel: Channel::NotOffered }
    }

    /// Handles client-first-message; returns server-first-message.
    ///
    /// The user's name in it is ignored, as PostgreSQL does: the startup message has named the user. With `must_fail`
    /// the exchange is the same, and [`ScramExpectFinal::finish`] fails for every proof.
    ///
    /// # Errors
    ///
    /// The message is malformed, contradicts the mechanism or our offer, or requests another identity or an extension.
    pub fn first(
        self,
        client_first: &[u8],
        verifier: ScramVerifier,
        must_fail: bool,
    ) -> Result<(ScramExpectFinal, Vec<u8>), ScramError> {
        let (state, server_first) = self.challenge(client_first, &verifier.salt, verifier.iterations)?;
        Ok((state.verify_with(verifier, must_fail), server_first))
    }

    /// Handles client-first-message for a verifier whose salt and count are known, and whose keys follow later.
    ///
    /// # Errors
    ///
    /// As [`ScramServer::first`].
    pub fn challenge(
        self,
        client_first: &[u8],
        salt: &[u8],
        iterations: u32,
    ) -> Result<(ScramChallenged, Vec<u8>), ScramError> {
        let first = ClientFirst::parse(message::text(client_first)?)?;
        let nonce = format!("{}{}", first.nonce, self.nonce);
        let server_first = format!("r={nonce},s={},i={iterations}", encode(salt));
        let state = ScramChallenged {
            binding: self.channel.proof(first.flag)?,
            transcript: format!("{},{server_first}", first.bare),
            nonce,
        };
        Ok((state, server_first.into_bytes()))
    }
}

/// A login whose client got its challenge, while its verifier is not known yet.
#[derive(Clone, Serialize, Deserialize)]
pub struct ScramChallenged {
    /// The required `c=` of client-final-message: the GS2 header and the binding, in base64.
    binding: String,
    /// Both halves of the nonce.
    nonce: String,
    /// `client-first-message-bare "," server-first-message`: the start of AuthMessage.
    transcript: String,
}

impl ScramChallenged {
    /// The verifier, or its mock, is known.
    pub fn verify_with(self, verifier: ScramVerifier, must_fail: bool) -> ScramExpectFinal {
        ScramExpectFinal { challenged: self, verifier, must_fail }
    }
}

impl fmt::Debug for ScramChallenged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The transcript would help to guess the password.
        f.write_str("ScramChallenged(…)")
    }
}

/// The parts of client-first-message.
struct ClientFirst<'a> {
    flag: Flag<'a>,
    /// `client-first-message-bare`, part of the signed text.
    bare: &'a str,
    nonce: &'a str,
}

impl<'a> ClientFirst<'a> {
    fn parse(text: &'a str) -> Result<Self, ScramError> {
        let no_header = ScramError::Malformed("channel-binding flag and authorization identity expected");
        let (flag, rest) = text.split_once(',').ok_or(no_header.clone())?;
        let (identity, bare) = rest.split_once(',').ok_or(no_header)?;
        let flag = Flag::parse(flag)?;
        if identity.starts_with("a=") {
            return Err(ScramError::Unsupported("authorization identity"));
        }
        if !identity.is_empty() {
            return Err(ScramError::Malformed("unexpected attribute in client-first-message"));
        }
        let mut attributes = Attributes::new(bare);
        attributes.expect('n', "user name expected in client-first-message")?;
        let nonce = message::nonce(attributes.expect('r', "nonce expected in client-first-message")?)?;
        attributes.finish()?;
        Ok(ClientFirst { flag, bare, nonce })
    }
}

/// A login that waits for client-final-message.
#[derive(Clone, Serialize, Deserialize)]
pub struct ScramExpectFinal {
    challenged: ScramChallenged,
    verifier: ScramVerifier,
    must_fail: bool,
}

impl ScramExpectFinal {
    /// Handles client-final-message; returns the keys that the client proved to have, and server-final-message.
    ///
    /// # Errors
    ///
    /// [`ScramError::WrongPassword`] for a wrong proof and for every login that must fail; otherwise the message is
    /// malformed or belongs to another exchange.
    pub fn finish(self, client_final: &[u8]) -> Result<(ScramKeys, Vec<u8>), ScramError> {
        let message = ClientFinal::parse(message::text(client_final)?)?;
        if !bool::from(same(message.binding.as_bytes(), self.challenged.binding.as_bytes())) {
            return Err(ScramError::ChannelBinding("the client sees another connection than we do"));
        }
        if message.nonce != self.challenged.nonce {
            return Err(ScramError::NonceMismatch);
        }
        let signed = [self.challenged.transcript.as_bytes(), b",", message.without_proof.as_bytes()];
        let prove = |[stored_key, server_key]: [[u8; 32]; 2]| {
            let client_key = xor(&message.proof, &hmac(&stored_key, &signed));
            let proven = hash(&client_key).ct_eq(&stored_key) & !Choice::from(u8::from(self.must_fail));
            bool::from(proven).then_some(ScramKeys { client_key, server_key })
        };
        let keys = self.verifier.accepted().find_map(prove).ok_or(ScramError::WrongPassword)?;
        let signature = hmac(&keys.server_key, &signed);
        Ok((keys, format!("v={}", encode(signature)).into_bytes()))
    }
}

impl fmt::Debug for ScramExpectFinal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `must_fail` must stay secret, and the transcript would help to guess the password.
        f.write_str("ScramExpectFinal(…)")
    }
}

/// The parts of client-final-message.
struct ClientFinal<'a> {
    binding: &'a str,
    nonce: &'a str,
    proof: [u8; 32],
    /// `client-final-message-without-proof`, the end of AuthMessage.
    without_proof: &'a str,
}

impl<'a> ClientFinal<'a> {
    fn parse(text: &'a str) -> Result<Self, ScramError> {
        let mut attributes = Attributes::new(text);
        let binding = attributes.expect('c', "channel binding expected in client-final-message")?;
        let nonce = attributes.expect('r', "nonce expected in client-final-message")?;
        let proof = loop {
            match attributes.next()? {
                Some(('p', value)) => break value,
                Some(_) => {}
                None => return Err(ScramError::Malformed("proof expected in client-final-message")),
            }
        };
        if attributes.next()?.is_some() {
            return Err(ScramError::Malformed("garbage at the end of client-final-message"));
        }
        let without_proof = &text[..text.len() - ",p=".len() - proof.len()];
        let proof = decode_key(proof).ok_or(ScramError::Malformed("invalid proof in client-final-message"))?;
        Ok(ClientFinal { binding, nonce, proof, without_proof })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::salt_password;
    use crate::message::{MAX_MESSAGE, decode};

    // The exchange of RFC 7677, section 3: user "user", password "pencil".
    const FIRST: &[u8] = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
    const SERVER_NONCE: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    const SERVER_FIRST: &str = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    const WITHOUT_PROOF: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    const PROOF: &str = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
    const SERVER_FINAL: &str = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

    fn verifier() -> ScramVerifier {
        let salt = decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        ScramVerifier::from_salted(&salt_password("pencil", &salt, 4096), salt, 4096)
    }

    fn first(message: &[u8], must_fail: bool) -> Result<(ScramExpectFinal, Vec<u8>), ScramError> {
        ScramServer { nonce: SERVER_NONCE.into(), channel: Channel::NotOffered }.first(message, verifier(), must_fail)
    }

    fn finish(message: &str) -> Result<(ScramKeys, Vec<u8>), ScramError> {
        first(FIRST, false).unwrap().0.finish(message.as_bytes())
    }

    #[test]
    fn the_example_of_rfc_7677_succeeds_and_teaches_the_clients_keys() {
        let (state, server_first) = first(FIRST, false).unwrap();
        assert_eq!(server_first, SERVER_FIRST.as_bytes());
        let (keys, server_final) = state.finish(format!("{WITHOUT_PROOF},p={PROOF}").as_bytes()).unwrap();
        assert_eq!(server_final, SERVER_FINAL.as_bytes());
        assert!(keys.matches(&verifier()));
    }

    #[test]
    fn a_login_that_must_fail_fails_with_the_right_proof_and_looks_alike_until_then() {
        let (state, server_first) = first(FIRST, true).unwrap();
        assert_eq!(server_first, SERVER_FIRST.as_bytes());
        let verdict = state.finish(format!("{WITHOUT_PROOF},p={PROOF}").as_bytes());
        assert_eq!(verdict.unwrap_err(), ScramError::WrongPassword);
    }

    #[test]
    fn a_former_password_succeeds_as_the_present_one_does() {
        let salt = decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let present = ScramVerifier::from_salted(&salt_password("other", &salt, 4096), salt, 4096);
        let server = || ScramServer { nonce: SERVER_NONCE.into(), channel: Channel::NotOffered };
        let message = format!("{WITHOUT_PROOF},p={PROOF}");
        let (state, server_first) = server().first(FIRST, present.clone().or_former(&verifier()), false).unwrap();
        assert_eq!(server_first, SERVER_FIRST.as_bytes());
        assert_eq!(state.finish(message.as_bytes()).unwrap().1, SERVER_FINAL.as_bytes());
        let (state, _) = server().first(FIRST, present, false).unwrap();
        assert_eq!(state.finish(message.as_bytes()).unwrap_err(), ScramError::WrongPassword);
    }

    #[test]
    fn a_wrong_proof_is_a_wrong_password() {
        let zero = encode([0; 32]);
        assert_eq!(finish(&format!("{WITHOUT_PROOF},p={zero}")).unwrap_err(), ScramError::WrongPassword);
    }

    #[test]
    fn the_stored_key_alone_does_not_log_in() {
        // The best proof that can be made from pg_authid alone, without having seen a login.
        let verifier = verifier();
        let transcript = format!("n=user,r=rOprNGfwEbeRWgbNEkqO,{SERVER_FIRST},{WITHOUT_PROOF}");
        let signature = hmac(&verifier.stored_key, &[transcript.as_bytes()]);
        let proof = encode(xor(&verifier.stored_key, &signature));
        assert_eq!(finish(&format!("{WITHOUT_PROOF},p={proof}")).unwrap_err(), ScramError::WrongPassword);
    }

    #[test]
    fn an_exchange_survives_freezing_between_any_two_messages() {
        let server = ScramServer { nonce: SERVER_NONCE.into(), channel: Channel::NotOffered };
        let server: ScramServer = postcard::from_bytes(&postcard::to_stdvec(&server).unwrap()).unwrap();
        let (state, _) = server.first(FIRST, verifier(), false).unwrap();
        let state: ScramExpectFinal = postcard::from_bytes(&postcard::to_stdvec(&state).unwrap()).unwrap();
        assert!(state.finish(format!("{WITHOUT_PROOF},p={PROOF}").as_bytes()).is_ok());
    }

    #[test]
    fn the_nonce_of_another_exchange_is_refused() {
        for nonce in ["rOprNGfwEbeRWgbNEkqO", "x", ""] {
            let message = format!("c=biws,r={nonce},p={PROOF}");
            assert_eq!(finish(&message).unwrap_err(), ScramError::NonceMismatch, "{nonce}");
        }
    }

    #[test]
    fn the_channel_binding_flag_must_be_repeated() {
        let (state, _) = first(b"y,,n=,r=abc", false).unwrap();
        let nonce = format!("abc{SERVER_NONCE}");
        let verdict = |c: &str| state.clone().finish(format!("c={c},r={nonce},p={PROOF}").as_bytes()).unwrap_err();
        assert_eq!(verdict("eSws"), ScramError::WrongPassword);
        for wrong in ["biws", "", "eSw", "cD10bHMtc2VydmVyLWVuZC1wb2ludCws"] {
            assert!(matches!(verdict(wrong), ScramError::ChannelBinding(_)), "{wrong}");
        }
    }

    const BINDING: &[u8] = &[0xAB; 32];

    fn offer(binding: Option<&[u8]>) -> ScramOffer {
        ScramOffer { nonce: SERVER_NONCE.into(), binding: binding.map(Vec::from) }
    }

    /// The result for a client with this mechanism and this channel binding flag.
    fn chosen(binding: Option<&[u8]>, mechanism: &str, gs2: &str) -> Result<ScramExpectFinal, ScramError> {
        let first = format!("{gs2}n=,r=abc");
        let server = offer(binding).choose(mechanism.as_bytes())?;
        Ok(server.first(first.as_bytes(), verifier(), false)?.0)
    }

    #[test]
    fn channel_binding_is_offered_where_there_is_a_binding() {
        assert_eq!(offer(Some(BINDING)).mechanisms(), ["SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"]);
        assert_eq!(offer(None).mechanisms(), ["SCRAM-SHA-256"]);
        let kept = postcard::to_stdvec(&ScramOffer::new([1; 18], Some(BINDING))).unwrap();
        let kept: ScramOffer = postcard::from_bytes(&kept).unwrap();
        assert!(kept.choose(b"SCRAM-SHA-256-PLUS").is_ok());
    }

    #[test]
    fn the_clients_choice_and_its_flag_must_fit_our_offer() {
        const PLUS: &str = SCRAM_SHA_256_PLUS;
        let good = [
            (None, SCRAM_SHA_256, "n,,"),
            (None, SCRAM_SHA_256, "y,,"),
            (Some(BINDING), SCRAM_SHA_256, "n,,"),
            (Some(BINDING), PLUS, "p=tls-server-end-point,,"),
        ];
        for (binding, mechanism, gs2) in good {
            assert!(chosen(binding, mechanism, gs2).is_ok(), "{mechanism} {gs2}");
        }
        let bad = [
            (None, SCRAM_SHA_256, "p=tls-server-end-point,,"),
            // The better mechanism was removed from the offer in transit.
            (Some(BINDING), SCRAM_SHA_256, "y,,"),
            (Some(BINDING), SCRAM_SHA_256, "p=tls-server-end-point,,"),
            (Some(BINDING), PLUS, "n,,"),
            (Some(BINDING), PLUS, "y,,"),
            (Some(BINDING), PLUS, "p=tls-unique,,"),
            (Some(BINDING), PLUS, "p=tls-exporter,,"),
            (Some(BINDING), PLUS, "p=,,"),
        ];
        for (binding, mechanism, gs2) in bad {
            let error = chosen(binding, mechanism, gs2).unwrap_err();
            assert!(matches!(error, ScramError::ChannelBinding(_)), "{mechanism} {gs2} {error}");
        }
        for (binding, mechanism) in [(None, PLUS), (Some(BINDING), "SCRAM-SHA-1"), (None, ""), (Some(BINDING), "plain")]
        {
            let error = chosen(binding, mechanism, "n,,").unwrap_err();
            assert_eq!(error, ScramError::Unsupported("mechanism that was not offered"), "{mechanism}");
        }
    }

    #[test]
    fn the_binding_must_be_that_of_our_connection() {
        let state = chosen(Some(BINDING), SCRAM_SHA_256_PLUS, "p=tls-server-end-point,,").unwrap();
        let verdict = |c: &str| {
            let message = format!("c={c},r=abc{SERVER_NONCE},p={PROOF}");
            state.clone().finish(message.as_bytes()).unwrap_err()
        };
        let bound = |bytes: &[u8]| encode([b"p=tls-server-end-point,,", bytes].concat());
        assert_eq!(verdict(&bound(BINDING)), ScramError::WrongPassword);
        for wrong in
            [bound(&[0xAA; 32]), bound(&BINDING[..31]), bound(&[]), "biws".into(), "eSws".into(), String::new()]
        {
            assert!(matches!(verdict(&wrong), ScramError::ChannelBinding(_)), "{wrong}");
        }
    }

    #[test]
    fn a_mechanism_that_is_not_offered_is_refused_by_name() {
        let error = |message: &[u8]| first(message, false).unwrap_err();
        let binding = error(b"p=tls-server-end-point,,n=,r=abc");
        assert!(matches!(binding, ScramError::ChannelBinding(_)));
        assert_eq!(error(b"n,a=other,n=,r=abc"), ScramError::Unsupported("authorization identity"));
        assert_eq!(error(b"n,,m=x,n=,r=abc"), ScramError::Unsupported("mandatory extension"));
    }

    #[test]
    fn a_malformed_client_first_is_refused() {
        let long = format!("n,,n=,r={}", "a".repeat(MAX_MESSAGE));
        let malformed: [&[u8]; 17] = [
            b"",
            b"n",
            b"n,",
            b"n,,",
            b",,n=,r=abc",
            b"N,,n=,r=abc",
            b"nn,,n=,r=abc",
            b"n,b,n=,r=abc",
            b"n,,r=abc",
            b"n,,n=",
            b"n,,n=,r=",
            b"n,,n=,r=a b",
            b"n,,n=,r=\xc3\xa9",
            b"n,,n=,r=abc,",
            b"n,,n=,r=abc,x",
            b"n,,n=,r=abc\0",
            long.as_bytes(),
        ];
        for message in malformed {
            let error = first(message, false).unwrap_err();
            assert!(matches!(error, ScramError::Malformed(_)), "{error} for {}", message.escape_ascii());
        }
    }

    #[test]
    fn a_malformed_client_final_is_refused() {
        let malformed = [
            String::new(),
            "c=biws".into(),
            WITHOUT_PROOF.into(),
            format!("p={PROOF}"),
            format!("{WITHOUT_PROOF},p="),
            format!("{WITHOUT_PROOF},p={PROOF},"),
            format!("{WITHOUT_PROOF},p={PROOF},x=y"),
            format!("{WITHOUT_PROOF},p={}", &PROOF[..43]),
            format!("{WITHOUT_PROOF},p={}", encode([0; 31])),
            format!("{WITHOUT_PROOF},p={}", encode([0; 33])),
            format!("{WITHOUT_PROOF},x={},p={PROOF}", "y".repeat(MAX_MESSAGE)),
        ];
        for message in malformed {
            let error = finish(&message).unwrap_err();
            assert!(matches!(error, ScramError::Malformed(_)), "{error} for {message}");
        }
    }

    #[test]
    fn extensions_are_ignored_but_signed() {
        assert!(first(b"n,,n=user,r=abc,x=y,z=", false).is_ok());
        // Well-formed, but the proof was made for the message without the extension.
        assert_eq!(finish(&format!("{WITHOUT_PROOF},x=y,p={PROOF}")).unwrap_err(), ScramError::WrongPassword);
    }
}
