//! A client's login: the exchange of messages that proves its identity.
//!
//! Owns the order of the messages and their format. Passwords and proofs are checked in `weir-auth`; the engine knows
//! where secrets come from. A login that can only fail takes every step of one that can succeed.

use std::sync::Arc;

use weir_auth::{
    BEARER_END, BearerMessage, Denial, Exchange, External, LoginPlan, OAUTHBEARER, ScramChallenged, ScramExpectFinal,
    ScramKeys, ScramOffer, ScramPolicy, ScramSource, ScramStart, ScramVerifier, Secret, Shape, md5_verify,
    plain_verify, read_bearer,
};
use weir_pgwire::{frontend, put_back};

use crate::refusal::Refusal;

/// The longest password message, in bytes: a password of 65,535 (PostgreSQL's and PgBouncer's bound), with its tag, its
/// length and its terminator. Tokens used as passwords have a few thousand.
pub const MAX_PASSWORD: usize = 65_535 + 6;

/// Randomness for one login.
pub struct LoginNonces {
    /// For md5.
    pub md5: [u8; 4],
    /// For SCRAM.
    pub nonce: [u8; 18],
}

/// A login under way.
pub struct Login {
    user: String,
    stage: Stage,
}

enum Stage {
    Cleartext {
        secret: Option<Secret>,
        /// Used to check the answer if there is no secret.
        mock: Option<Shape>,
    },
    /// The password that the client sent is being hashed, to be compared with a verifier.
    CleartextSalting {
        given: Arc<str>,
        verifier: ScramVerifier,
    },
    /// The password is checked elsewhere, once the client has sent it (`given`).
    External {
        by: External,
        given: Option<Arc<str>>,
    },
    Md5 {
        hex: String,
        salt: [u8; 4],
    },
    /// The client's first message, in a SASLInitialResponse, or in a SASLResponse where that had none.
    BearerFirst {
        challenge: String,
        chosen: bool,
    },
    /// The token is checked elsewhere.
    BearerChecking {
        challenge: String,
    },
    /// The client has received the challenge, and ends the exchange.
    BearerFailed {
        asked: bool,
    },
    ScramFirst {
        offer: ScramOffer,
        source: ScramSource,
    },
    /// The client has received its challenge, and the stored password is being hashed.
    ScramSalting {
        challenged: ScramChallenged,
        salt: Vec<u8>,
        iterations: u32,
    },
    ScramFinal(ScramExpectFinal),
    Over,
}

/// The result of a login step. What must be sent to the client is in the buffer that the step received.
pub enum LoginStep {
    /// The client's next message.
    Wait,
    /// This password must be hashed; then [`Login::salted`].
    HashPassword {
        /// The password.
        password: Arc<str>,
        /// With this salt.
        salt: Vec<u8>,
        /// The number of iterations.
        iterations: u32,
        /// Whether the password is the stored one; otherwise it comes from a client, and may be anything.
        stored: bool,
    },
    /// This password, or token, must be checked; then [`Login::checked`].
    CheckPassword(Arc<str>),
    /// The client has proven its identity.
    Accepted(CapturedCredentials),
    /// The client has not proven its identity, or can't.
    Refused(Refusal),
    /// The client's token can't be checked: why, for the log. Then the client's next message.
    Unusable(&'static str),
}

/// Secrets captured at a login that can be used to log in to a server.
#[derive(Clone, Default)]
pub struct CapturedCredentials {
    /// The password, if it was sent in clear text.
    pub password: Option<Arc<str>>,
    /// The keys, if the client proved to have them.
    pub keys: Option<ScramKeys>,
}

impl Login {
    /// Begins a login according to `plan`; appends the request to `buffer`.
    ///
    /// `binding` is the `tls-server-end-point` of the client's connection (RFC 5929, section 4), if it is encrypted:
    /// SCRAM is then offered with channel binding too.
    pub fn begin(
        user: &str,
        plan: LoginPlan,
        secret: Option<&Secret>,
        salt: LoginNonces,
        binding: Option<&[u8]>,
        buffer: &mut Vec<u8>,
    ) -> (Login, LoginStep) {
        let (stage, next) = match plan.exchange {
            Exchange::None => (Stage::Over, LoginStep::Accepted(CapturedCredentials::default())),
            Exchange::Refuse(denial) => (Stage::Over, LoginStep::Refused(refusal(denial, user))),
            Exchange::Cleartext { mock } => {
                put_back::auth_cleartext(buffer);
                let secret = secret.filter(|_| plan.reject_reason.is_none()).cloned();
                (Stage::Cleartext { secret, mock }, LoginStep::Wait)
            }
            Exchange::External(by) => {
                put_back::auth_cleartext(buffer);
                (Stage::External { by, given: None }, LoginStep::Wait)
            }
            Exchange::Bearer { challenge } => {
                put_back::auth_sasl(buffer, &[OAUTHBEARER]);
                (Stage::BearerFirst { challenge, chosen: false }, LoginStep::Wait)
            }
            Exchange::Md5 { hex } => {
                put_back::auth_md5(buffer, salt.md5);
                (Stage::Md5 { hex, salt: salt.md5 }, LoginStep::Wait)
            }
            Exchange::Scram(source) => {
                let offer = ScramOffer::new(salt.nonce, binding);
                put_back::auth_sasl(buffer, offer.mechanisms());
                (Stage::ScramFirst { offer, source }, LoginStep::Wait)
            }
        };
        (Login { user: user.to_owned(), stage }, next)
    }

    /// Takes the body of a password message (PasswordMessage, SASLInitialResponse, SASLResponse).
    pub fn message(&mut self, body: &[u8], policy: &ScramPolicy, buffer: &mut Vec<u8>) -> LoginStep {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Cleartext { secret, mock } => self.cleartext(body, secret, mock, policy),
            Stage::External { by, given: None } => match cleartext(body) {
                Ok(given) => {
                    self.stage = Stage::External { by, given: Some(given.clone()) };
                    LoginStep::CheckPassword(given)
                }
                Err(refusal) => LoginStep::Refused(refusal),
            },
            Stage::Md5 { hex, salt } => {
                let good = frontend::password(body).is_ok_and(|response| md5_verify(&hex, salt, response));
                if good {
                    LoginStep::Accepted(CapturedCredentials::default())
                } else {
                    LoginStep::Refused(Refusal::PasswordFailed)
                }
            }
            Stage::BearerFirst { challenge, chosen } => self.bearer(body, challenge, chosen, buffer),
            // Whatever follows a token that is refused: none saves its client the delay of a failed login.
            Stage::BearerFailed { asked } if !asked || body == BEARER_END => {
                LoginStep::Refused(self.oauth_failed(asked))
            }
            Stage::BearerFailed { .. } => malformed("Client did not send a kvsep response."),
            Stage::ScramFirst { offer, source } => self.scram_first(body, offer, source, policy, buffer),
            Stage::ScramFinal(expect) => match expect.finish(body) {
                Ok((keys, server_final)) => {
                    put_back::auth_sasl_final(buffer, &server_final);
                    LoginStep::Accepted(CapturedCredentials { password: None, keys: Some(keys) })
                }
                Err(_) => LoginStep::Refused(Refusal::SaslFailed),
            },
            Stage::CleartextSalting { .. }
            | Stage::ScramSalting { .. }
            | Stage::External { .. }
            | Stage::BearerChecking { .. }
            | Stage::Over => LoginStep::Refused(Refusal::Protocol("a password message that was not requested".into())),
        }
    }

    /// Goes on after [`LoginStep::HashPassword`].
    pub fn salted(&mut self, salted: &[u8; 32]) -> LoginStep {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::CleartextSalting { given, verifier } => {
                if ScramKeys::from_salted(salted).matches(&verifier) {
                    LoginStep::Accepted(CapturedCredentials { password: Some(given), keys: None })
                } else {
                    LoginStep::Refused(Refusal::PasswordFailed)
                }
            }
            Stage::ScramSalting { challenged, salt, iterations } => {
                let verifier = ScramVerifier::from_salted(salted, salt, iterations);
                self.stage = Stage::ScramFinal(challenged.verify_with(verifier, false));
                LoginStep::Wait
            }
            _ => LoginStep::Refused(Refusal::Broken("a hash that was not requested")),
        }
    }

    /// Goes on after [`LoginStep::CheckPassword`]: whether the password, or the token, is right.
    pub fn checked(&mut self, good: bool, buffer: &mut Vec<u8>) -> LoginStep {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::External { given, .. } if good => {
                LoginStep::Accepted(CapturedCredentials { password: given, keys: None })
            }
            // The token is nothing that a server accepts for a password.
            Stage::BearerChecking { .. } if good => LoginStep::Accepted(CapturedCredentials::default()),
            Stage::BearerChecking { challenge } => {
                self.challenge(&challenge, false, buffer);
                LoginStep::Wait
            }
            Stage::External { by: External::Ldap, .. } => LoginStep::Refused(Refusal::LdapFailed),
            Stage::External { by: External::Pam, .. } => LoginStep::Refused(Refusal::PamFailed),
            _ => LoginStep::Refused(Refusal::Broken("a verdict that was not requested")),
        }
    }

    fn cleartext(
        &mut self,
        body: &[u8],
        secret: Option<Secret>,
        mock: Option<Shape>,
        policy: &ScramPolicy,
    ) -> LoginStep {
        let given = match cleartext(body) {
            Ok(given) => given,
            Err(refusal) => return LoginStep::Refused(refusal),
        };
        let good = match secret {
            Some(Secret::Plain(password)) => plain_verify(&password, given.as_bytes()),
            Some(secret @ Secret::Md5(_)) => weir_auth::verify_cleartext(&secret, &self.user, given.as_bytes()),
            Some(Secret::Scram(verifier)) => return self.hash_cleartext(given, verifier),
            None => match mock {
                Some(shape) => {
                    return self.hash_cleartext(given, ScramVerifier::mock(&self.user, &policy.key, shape));
                }
                // A comparison as for a known user.
                None => plain_verify("x", given.as_bytes()) & false,
            },
        };
        if good {
            LoginStep::Accepted(CapturedCredentials { password: Some(given), keys: None })
        } else {
            LoginStep::Refused(Refusal::PasswordFailed)
        }
    }

    fn hash_cleartext(&mut self, given: Arc<str>, verifier: ScramVerifier) -> LoginStep {
        let (password, salt, iterations) = (given.clone(), verifier.salt.clone(), verifier.iterations);
        self.stage = Stage::CleartextSalting { given, verifier };
        LoginStep::HashPassword { password, salt, iterations, stored: false }
    }

    /// The client's first message. `chosen`: it has chosen the mechanism before, without a message.
    fn bearer(&mut self, body: &[u8], challenge: String, chosen: bool, buffer: &mut Vec<u8>) -> LoginStep {
        let message = if chosen {
            body
        } else {
            match frontend::sasl_initial(body) {
                Ok(initial) if initial.mechanism != OAUTHBEARER.as_bytes() => {
                    let what = "client selected an invalid SASL authentication mechanism";
                    return LoginStep::Refused(Refusal::Protocol(what.into()));
                }
                Ok(initial) => match initial.data {
                    Some(message) => message,
                    None => {
                        put_back::auth_sasl_continue(buffer, b"");
                        self.stage = Stage::BearerFirst { challenge, chosen: true };
                        return LoginStep::Wait;
                    }
                },
                Err(_) => return malformed("The message is incomplete."),
            }
        };
        match read_bearer(message) {
            Ok(BearerMessage::Token(token)) => {
                self.stage = Stage::BearerChecking { challenge };
                LoginStep::CheckPassword(token.into())
            }
            Ok(BearerMessage::Discovery) => {
                self.challenge(&challenge, true, buffer);
                LoginStep::Wait
            }
            Ok(BearerMessage::Unusable(why)) => {
                self.challenge(&challenge, false, buffer);
                LoginStep::Unusable(why)
            }
            Err(how) => malformed(how),
        }
    }

    /// Sends the client which tokens are accepted. `asked`: it had none.
    fn challenge(&mut self, challenge: &str, asked: bool, buffer: &mut Vec<u8>) {
        put_back::auth_sasl_continue(buffer, challenge.as_bytes());
        self.stage = Stage::BearerFailed { asked };
    }

    fn oauth_failed(&self, asked: bool) -> Refusal {
        Refusal::OauthFailed { user: self.user.clone(), asked }
    }

    fn scram_first(
        &mut self,
        body: &[u8],
        offer: ScramOffer,
        source: ScramSource,
        policy: &ScramPolicy,
        buffer: &mut Vec<u8>,
    ) -> LoginStep {
        let initial = frontend::sasl_initial(body).ok();
        let chosen = initial.and_then(|i| Some((offer.choose(i.mechanism).ok()?, i.data?)));
        let Some((server, first)) = chosen else { return LoginStep::Refused(Refusal::SaslFailed) };
        match source.start(&self.user, policy) {
            ScramStart::Ready { verifier, must_fail } => match server.first(first, verifier, must_fail) {
                Ok((expect, server_first)) => {
                    put_back::auth_sasl_continue(buffer, &server_first);
                    self.stage = Stage::ScramFinal(expect);
                    LoginStep::Wait
                }
                Err(_) => LoginStep::Refused(Refusal::SaslFailed),
            },
            ScramStart::Salt { password, salt, iterations } => match server.challenge(first, &salt, iterations) {
                Ok((challenged, server_first)) => {
                    // At once, as for a user without a password to be hashed.
                    put_back::auth_sasl_continue(buffer, &server_first);
                    self.stage = Stage::ScramSalting { challenged, salt: salt.clone(), iterations };
                    LoginStep::HashPassword { password, salt, iterations, stored: true }
                }
                Err(_) => LoginStep::Refused(Refusal::SaslFailed),
            },
        }
    }
}

/// The password of a password message.
fn cleartext(body: &[u8]) -> Result<Arc<str>, Refusal> {
    match frontend::password(body).ok().and_then(|password| std::str::from_utf8(password).ok()) {
        // For any user: none has such a password, on a server either.
        Some("") => Err(Refusal::EmptyPassword),
        Some(given) => Ok(given.into()),
        None => Err(Refusal::PasswordFailed),
    }
}

/// PostgreSQL's error for a message of OAUTHBEARER that has another form.
fn malformed(how: &str) -> LoginStep {
    LoginStep::Refused(Refusal::Protocol(format!("malformed OAUTHBEARER message: {how}")))
}

/// The texts for a client that is refused before any proof.
fn refusal(denial: Denial, user: &str) -> Refusal {
    match denial {
        Denial::NoSuchUser => Refusal::TrustFailed,
        Denial::Certificate => Refusal::CertificateFailed,
        Denial::Peer => Refusal::PeerRejected,
        Denial::Bearer => Refusal::OauthFailed { user: user.to_owned(), asked: false },
        Denial::Rejected => Refusal::LoginRejected,
        Denial::NoRule => Refusal::NoRule,
        Denial::NoForcedUser => Refusal::NoForcedUser,
    }
}
