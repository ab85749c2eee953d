//! The one decision of a login: which exchange a configured method and a stored secret lead to.
//!
//! Follows PgBouncer's `auth_type` (its documentation, "Authentication settings"), with PostgreSQL's discretion: a
//! user who does not exist, or whose secret the method can't use, gets the exchange of a user with a wrong password.
//! Knows neither where secrets come from nor who asks.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::crypto::hmac;
use crate::md5::md5_hex_secret;
use crate::message::encode;
use crate::secret::{ScramVerifier, Secret, salt_for};

/// How clients must prove who they are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Method {
    /// Not at all, but the user must be known.
    Trust,
    /// With the password in clear.
    Plain,
    /// With md5, or with SCRAM-SHA-256 where the secret is a verifier.
    Md5,
    /// With SCRAM-SHA-256.
    ScramSha256,
}

impl Method {
    /// The method's name in a configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Method::Trust => "trust",
            Method::Plain => "plain",
            Method::Md5 => "md5",
            Method::ScramSha256 => "scram-sha-256",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Method {
    type Err = UnknownMethod;

    fn from_str(text: &str) -> Result<Self, UnknownMethod> {
        let all = [Method::Trust, Method::Plain, Method::Md5, Method::ScramSha256];
        all.into_iter().find(|method| method.as_str() == text).ok_or(UnknownMethod)
    }
}

/// A text names no [`Method`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownMethod;

impl fmt::Display for UnknownMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown authentication method: trust, plain, md5 or scram-sha-256 expected")
    }
}

impl std::error::Error for UnknownMethod {}

/// What to exchange with a client, and whether it can succeed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The messages that the client sees.
    pub exchange: Exchange,
    /// Why the login fails, whatever the client answers. For the log; the client must not learn it.
    pub doom: Option<Doom>,
}

/// The messages between a startup message and AuthenticationOk.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exchange {
    /// None: the client is in.
    None,
    /// AuthenticationCleartextPassword; check the answer with [`verify_cleartext`](crate::verify_cleartext). Where
    /// secrets are verifiers, check an unknown user's answer too, against [`ScramVerifier::mock`], for the sake of
    /// the time it takes.
    Cleartext,
    /// AuthenticationMD5Password; check the answer with [`md5_verify`](crate::md5_verify).
    Md5 {
        /// 32 hex digits; empty if there is no secret, and then [`md5_verify`](crate::md5_verify) takes no answer.
        hex: String,
    },
    /// AuthenticationSASL; go on with [`ScramSource::start`].
    Scram(ScramSource),
    /// None: the client is refused at once.
    Refuse,
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Exchange::None => "None",
            Exchange::Cleartext => "Cleartext",
            Exchange::Md5 { .. } => "Md5",
            Exchange::Scram(_) => "Scram",
            Exchange::Refuse => "Refuse",
        })
    }
}

/// Why a login can only fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Doom {
    /// There is no such user, or none with a secret.
    UnknownUser,
    /// The user's password is empty.
    EmptyPassword,
    /// The method is scram-sha-256, and the secret an md5 hash.
    Md5Secret,
}

impl fmt::Display for Doom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Doom::UnknownUser => "no such user",
            Doom::EmptyPassword => "user has an empty password",
            Doom::Md5Secret => "user has an md5 secret, which scram-sha-256 can not use",
        })
    }
}

/// Decides how a client logs in as `user`. `secret` is `None` for an unknown user and for one without a password.
pub fn exchange(method: Method, user: &str, secret: Option<&Secret>) -> Plan {
    let doom = doom(method, secret);
    let usable = if doom.is_none() { secret } else { None };
    let exchange = match (method, usable) {
        (Method::Trust, _) if secret.is_none() => Exchange::Refuse,
        (Method::Trust, _) => Exchange::None,
        (Method::Plain, _) => Exchange::Cleartext,
        (Method::Md5 | Method::ScramSha256, Some(Secret::Scram(verifier))) => {
            Exchange::Scram(ScramSource::Verifier(verifier.clone()))
        }
        (Method::Md5, Some(Secret::Plain(password))) => Exchange::Md5 { hex: md5_hex_secret(user, password) },
        (Method::Md5, Some(Secret::Md5(hex))) => Exchange::Md5 { hex: hex.to_string() },
        (Method::Md5, None) => Exchange::Md5 { hex: String::new() },
        (Method::ScramSha256, Some(Secret::Plain(password))) => {
            Exchange::Scram(ScramSource::Password(password.clone()))
        }
        (Method::ScramSha256, Some(Secret::Md5(_)) | None) => Exchange::Scram(ScramSource::Nobody),
    };
    Plan { exchange, doom }
}

fn doom(method: Method, secret: Option<&Secret>) -> Option<Doom> {
    match (method, secret) {
        (_, None) => Some(Doom::UnknownUser),
        (Method::Trust, Some(_)) => None,
        (_, Some(Secret::Plain(password))) if password.is_empty() => Some(Doom::EmptyPassword),
        (Method::ScramSha256, Some(Secret::Md5(_))) => Some(Doom::Md5Secret),
        _ => None,
    }
}

/// What a SCRAM login is verified against.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScramSource {
    /// The stored verifier.
    Verifier(ScramVerifier),
    /// A password, which must be hashed first.
    Password(Arc<str>),
    /// Nothing: the login is doomed.
    Nobody,
}

impl fmt::Debug for ScramSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ScramSource::Verifier(_) => "Verifier(…)",
            ScramSource::Password(_) => "Password(…)",
            ScramSource::Nobody => "Nobody",
        })
    }
}

/// What SCRAM needs to know beside the user's secret.
#[derive(Clone, Copy)]
pub struct ScramPolicy {
    /// Random, and the same for as long as the process lives: salts for users without one are made from it.
    pub key: [u8; 32],
    /// How often passwords are hashed that are stored as such (PgBouncer's `scram_iterations`), and how often a user
    /// who does not exist is told to hash.
    pub iterations: u32,
    /// What an unknown user is made to look like.
    pub stand_in: StandIn,
}

/// What most users' secrets are, so that an unknown user costs the same hashing as they do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StandIn {
    /// Verifiers: nothing is hashed on our side.
    Verifier,
    /// Passwords: each is hashed before it is verified.
    Password,
}

/// The first step of a SCRAM login.
#[derive(Clone)]
pub enum ScramStart {
    /// All is there for [`ScramServer::first`](crate::ScramServer::first).
    Ready {
        /// The user's verifier, or a mock.
        verifier: ScramVerifier,
        /// Whether it is a mock.
        doomed: bool,
    },
    /// [`salt_password`](crate::salt_password) first, on a helper; then [`ScramVerifier::from_salted`].
    Salt {
        /// The user's password, or one that nobody knows.
        password: Arc<str>,
        /// The user's salt: the same each time, so that the result may be kept.
        salt: Vec<u8>,
        /// How often to hash.
        iterations: u32,
        /// Whether the password is a stand-in.
        doomed: bool,
    },
}

impl ScramSource {
    /// How to get `user`'s verifier.
    pub fn start(self, user: &str, policy: &ScramPolicy) -> ScramStart {
        match self {
            ScramSource::Verifier(verifier) => ScramStart::Ready { verifier, doomed: false },
            ScramSource::Password(password) => policy.salt(user, password, false),
            ScramSource::Nobody => policy.stand_in(user),
        }
    }
}

impl ScramPolicy {
    fn stand_in(&self, user: &str) -> ScramStart {
        match self.stand_in {
            StandIn::Verifier => {
                ScramStart::Ready { verifier: ScramVerifier::mock(user, &self.key, self.iterations), doomed: true }
            }
            StandIn::Password => {
                self.salt(user, encode(hmac(&self.key, &[b"password ", user.as_bytes()])).into(), true)
            }
        }
    }

    fn salt(&self, user: &str, password: Arc<str>, doomed: bool) -> ScramStart {
        ScramStart::Salt { password, salt: salt_for(user, &self.key), iterations: self.iterations, doomed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::salt_password;
    use crate::md5::{md5_response, md5_verify};
    use crate::secret::ScramKeys;

    const POLICY: ScramPolicy = ScramPolicy { key: [7; 32], iterations: 4096, stand_in: StandIn::Verifier };

    fn plain(password: &str) -> Secret {
        Secret::Plain(password.into())
    }

    fn md5(password: &str) -> Secret {
        Secret::Md5(md5_hex_secret("u", password).into())
    }

    fn scram() -> ScramVerifier {
        ScramVerifier::from_salted(&[9; 32], b"salt".to_vec(), 4096)
    }

    fn decide(method: Method, secret: Option<Secret>) -> (Exchange, Option<Doom>) {
        let plan = exchange(method, "u", secret.as_ref());
        (plan.exchange, plan.doom)
    }

    #[test]
    fn methods_are_named_as_in_a_configuration() {
        for name in ["trust", "plain", "md5", "scram-sha-256"] {
            assert_eq!(name.parse::<Method>().unwrap().to_string(), name);
        }
        for name in ["", "MD5", "scram", "any"] {
            assert_eq!(name.parse::<Method>(), Err(UnknownMethod));
        }
    }

    #[test]
    fn trust_wants_the_user_known_but_no_usable_secret() {
        for secret in [plain("pw"), plain(""), md5("pw"), Secret::Scram(scram())] {
            assert_eq!(decide(Method::Trust, Some(secret)), (Exchange::None, None));
        }
        assert_eq!(decide(Method::Trust, None), (Exchange::Refuse, Some(Doom::UnknownUser)));
    }

    #[test]
    fn plain_asks_for_the_password_whatever_the_secret() {
        for secret in [plain("pw"), md5("pw"), Secret::Scram(scram())] {
            assert_eq!(decide(Method::Plain, Some(secret)), (Exchange::Cleartext, None));
        }
        assert_eq!(decide(Method::Plain, None), (Exchange::Cleartext, Some(Doom::UnknownUser)));
    }

    #[test]
    fn md5_speaks_scram_where_the_secret_is_a_verifier() {
        let hex = md5_hex_secret("u", "pw");
        assert_eq!(decide(Method::Md5, Some(plain("pw"))), (Exchange::Md5 { hex: hex.clone() }, None));
        assert_eq!(decide(Method::Md5, Some(md5("pw"))), (Exchange::Md5 { hex }, None));
        let source = ScramSource::Verifier(scram());
        assert_eq!(decide(Method::Md5, Some(Secret::Scram(scram()))), (Exchange::Scram(source), None));
    }

    #[test]
    fn an_unknown_user_is_asked_for_md5_and_no_answer_is_right() {
        let (exchange, doom) = decide(Method::Md5, None);
        let Exchange::Md5 { hex } = exchange else { panic!("{exchange:?}") };
        assert_eq!(doom, Some(Doom::UnknownUser));
        assert!(!md5_verify(&hex, [1; 4], md5_response(&hex, [1; 4]).as_bytes()));
    }

    #[test]
    fn scram_takes_verifiers_and_passwords_and_dooms_the_rest() {
        let (exchange, doom) = decide(Method::ScramSha256, Some(Secret::Scram(scram())));
        assert_eq!((exchange, doom), (Exchange::Scram(ScramSource::Verifier(scram())), None));
        let (exchange, doom) = decide(Method::ScramSha256, Some(plain("pw")));
        assert_eq!((exchange, doom), (Exchange::Scram(ScramSource::Password("pw".into())), None));
        let doomed =
            [(Some(md5("pw")), Doom::Md5Secret), (Some(plain("")), Doom::EmptyPassword), (None, Doom::UnknownUser)];
        for (secret, why) in doomed {
            assert_eq!(decide(Method::ScramSha256, secret), (Exchange::Scram(ScramSource::Nobody), Some(why)));
        }
    }

    #[test]
    fn an_unknown_user_has_the_salt_and_the_cost_of_a_known_one() {
        let stand_in = StandIn::Password;
        let start = |source: ScramSource, user: &str| match source.start(user, &ScramPolicy { stand_in, ..POLICY }) {
            ScramStart::Salt { password, salt, iterations, doomed } => (password, salt, iterations, doomed),
            ScramStart::Ready { .. } => panic!("no hashing for {user}"),
        };
        let (_, known_salt, known_iterations, known_doomed) = start(ScramSource::Password("pw".into()), "u");
        let (password, salt, iterations, doomed) = start(ScramSource::Nobody, "u");
        assert_eq!((salt, iterations, doomed), (known_salt, known_iterations, true));
        assert!(!known_doomed);
        assert_eq!(start(ScramSource::Nobody, "u").0, password, "a second attempt must not differ");
        assert_ne!(start(ScramSource::Nobody, "v").0, password);
    }

    #[test]
    fn a_stand_in_for_a_verifier_needs_no_hashing_and_fits_no_password() {
        let ScramStart::Ready { verifier, doomed } = ScramSource::Nobody.start("u", &POLICY) else {
            panic!("a verifier needs no hashing")
        };
        assert!(doomed);
        assert_eq!((verifier.salt.clone(), verifier.iterations), (salt_for("u", &POLICY.key), 4096));
        let keys = ScramKeys::from_salted(&salt_password("", &verifier.salt, 1));
        assert!(!keys.matches(&verifier));
    }

    #[test]
    fn debug_texts_show_no_secret() {
        let plans = [(Method::Md5, "Md5"), (Method::ScramSha256, "Scram"), (Method::Plain, "Cleartext")];
        for (method, text) in plans {
            assert_eq!(format!("{:?}", decide(method, Some(plain("pw"))).0), text);
        }
    }
}
