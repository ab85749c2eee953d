//! The one decision of a login: which exchange a method and what is known of a client lead to.
//!
//! Follows PgBouncer with PostgreSQL's discretion: a user who does not exist, or whose secret the method can't use, gets
//! the exchange and the words of a user with a wrong password. Knows neither where secrets come from nor who asks.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::hba::Via;
use crate::ident::IdentMaps;
use crate::md5::md5_hex_secret;
use crate::method::{ConnectionMethod, Demand};
use crate::mock::Mocks;
use crate::secret::Secret;
use crate::secret::Shape;
use crate::source::{ScramPolicy, ScramSource};

/// What to exchange with a client, and whether it can succeed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The messages that the client sees.
    pub exchange: Exchange,
    /// Why the login fails, whatever the client answers. For the log; the client must not learn it.
    pub reject_reason: Option<RejectReason>,
}

/// The messages between a startup message and AuthenticationOk.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exchange {
    /// None: the client is in.
    None,
    /// AuthenticationCleartextPassword; check the answer with [`verify_cleartext`](crate::verify_cleartext).
    Cleartext {
        /// For a user without a secret that must look like one with a verifier: check the answer against
        /// [`ScramVerifier::mock`](crate::ScramVerifier::mock), for the sake of the time it takes.
        mock: Option<Shape>,
    },
    /// AuthenticationMD5Password; check the answer with [`md5_verify`](crate::md5_verify).
    Md5 {
        /// 32 hex digits; empty if there is no secret, and then [`md5_verify`](crate::md5_verify) takes no answer.
        hex: String,
    },
    /// AuthenticationSASL; go on with [`ScramSource::start`].
    Scram(ScramSource),
    /// None: the client is refused at once, with these words.
    Refuse(Denial),
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exchange::None => f.write_str("None"),
            Exchange::Cleartext { .. } => f.write_str("Cleartext"),
            Exchange::Md5 { .. } => f.write_str("Md5"),
            Exchange::Scram(_) => f.write_str("Scram"),
            Exchange::Refuse(denial) => write!(f, "Refuse({denial:?})"),
        }
    }
}

/// What a client is told that is refused at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Denial {
    /// There is no such user.
    NoSuchUser,
    /// The certificate does not let it in, or there is none.
    Certificate,
    /// The user of the operating system does not let it in, or it did not come by the Unix socket.
    Peer,
    /// A rule rejects it.
    Rejected,
    /// No rule is for it.
    NoRule,
    /// Anybody may come in, but the database names no user to come in as.
    NoForcedUser,
}

/// Why a login can only fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum RejectReason {
    /// There is no such user, or none with a secret.
    UnknownUser,
    /// The user's password is empty.
    EmptyPassword,
    /// The method is scram-sha-256, and the secret an md5 hash.
    Md5Secret,
    /// The method is cert, and the connection not encrypted.
    NoTls,
    /// The method is cert, and the client showed no certificate, or none with a name.
    NoCertificate,
    /// The certificate names another user.
    CertificateName,
    /// The method is peer, and the client did not come by the Unix socket.
    NotLocal,
    /// The operating system does not tell who is at the other end of the Unix socket.
    NoPeer,
    /// The user of the operating system is another one.
    PeerName,
    /// The ident map does not pair the proven name with the user.
    NotMapped,
    /// A rule of the HBA file rejects the connection.
    Rejected,
    /// No rule of the HBA file matches the connection.
    NoRule,
    /// The method is any, and the database has no forced user.
    NoForcedUser,
}

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RejectReason::UnknownUser => "no such user",
            RejectReason::EmptyPassword => "user has an empty password",
            RejectReason::Md5Secret => "user has an md5 secret, which scram-sha-256 can not use",
            RejectReason::NoTls => "TLS connection required",
            RejectReason::NoCertificate => "TLS client certificate required",
            RejectReason::CertificateName => "TLS certificate name mismatch",
            RejectReason::NotLocal => "peer needs a Unix socket",
            RejectReason::NoPeer => "the operating system does not tell the peer's user",
            RejectReason::PeerName => "the peer's user is another one",
            RejectReason::NotMapped => "ident map does not have a match",
            RejectReason::Rejected => "a rule of the HBA file rejects it",
            RejectReason::NoRule => "no rule of the HBA file matches it",
            RejectReason::NoForcedUser => "auth_type=any requires forced user",
        })
    }
}

/// What is known of a client that logs in.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The user that it names.
    pub user: &'a str,
    /// That user's secret; `None` for an unknown user and for one without a password.
    pub secret: Option<&'a Secret>,
    /// The way it came.
    pub via: Via,
    /// The common name of its certificate, if that was verified.
    pub certificate_name: Option<&'a str>,
    /// The user of the operating system at the other end of the Unix socket.
    pub os_user: Option<&'a str>,
    /// The user that the database forces on its clients.
    pub forced_user: Option<&'a str>,
    /// The maps that a rule may name.
    pub maps: &'a IdentMaps,
    /// What a user without a usable secret is made to look like: one of those whose secrets are counted here.
    pub mocks: &'a Mocks,
    /// What decides which of them.
    pub policy: &'a ScramPolicy,
}

/// Decides how a client logs in.
pub fn decide(demand: &Demand<'_>, facts: &Facts<'_>) -> Plan {
    let (denial, verdict) = match demand.method {
        ConnectionMethod::Plain => return by_password(Password::Plain, facts),
        ConnectionMethod::Md5 => return by_password(Password::Md5, facts),
        ConnectionMethod::ScramSha256 => return by_password(Password::ScramSha256, facts),
        ConnectionMethod::Trust => (Denial::NoSuchUser, known(facts)),
        ConnectionMethod::Cert => (Denial::Certificate, by_certificate(demand, facts)),
        ConnectionMethod::Peer => (Denial::Peer, by_peer(demand, facts)),
        ConnectionMethod::Any => (Denial::NoForcedUser, facts.forced_user.map(drop).ok_or(RejectReason::NoForcedUser)),
        ConnectionMethod::Reject => (Denial::Rejected, Err(RejectReason::Rejected)),
        ConnectionMethod::NoRule => (Denial::NoRule, Err(RejectReason::NoRule)),
    };
    match verdict {
        Ok(()) => Plan { exchange: Exchange::None, reject_reason: None },
        Err(reason) => Plan { exchange: Exchange::Refuse(denial), reject_reason: Some(reason) },
    }
}

fn known(facts: &Facts<'_>) -> Result<(), RejectReason> {
    facts.secret.map(drop).ok_or(RejectReason::UnknownUser)
}

fn by_certificate(demand: &Demand<'_>, facts: &Facts<'_>) -> Result<(), RejectReason> {
    if !matches!(facts.via, Via::Tcp { tls: true, .. }) {
        return Err(RejectReason::NoTls);
    }
    let name = facts.certificate_name.filter(|name| !name.is_empty()).ok_or(RejectReason::NoCertificate)?;
    known(facts)?;
    same_user(demand, facts, name, RejectReason::CertificateName)
}

fn by_peer(demand: &Demand<'_>, facts: &Facts<'_>) -> Result<(), RejectReason> {
    if facts.via != Via::Local {
        return Err(RejectReason::NotLocal);
    }
    let name = facts.os_user.filter(|name| !name.is_empty()).ok_or(RejectReason::NoPeer)?;
    known(facts)?;
    same_user(demand, facts, name, RejectReason::PeerName)
}

/// Whether the one who proved to be `name` may be the user.
fn same_user(demand: &Demand<'_>, facts: &Facts<'_>, name: &str, other: RejectReason) -> Result<(), RejectReason> {
    match demand.map() {
        Some(map) if facts.maps.allows(map, name, facts.user) => Ok(()),
        Some(_) => Err(RejectReason::NotMapped),
        None if name == facts.user => Ok(()),
        None => Err(other),
    }
}

/// The methods that ask for a password.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Password {
    Plain,
    Md5,
    ScramSha256,
}

fn by_password(method: Password, facts: &Facts<'_>) -> Plan {
    let reason = match (method, facts.secret) {
        (_, None) => Some(RejectReason::UnknownUser),
        (_, Some(Secret::Plain(password))) if password.is_empty() => Some(RejectReason::EmptyPassword),
        (Password::ScramSha256, Some(Secret::Md5(_))) => Some(RejectReason::Md5Secret),
        _ => None,
    };
    let usable = if reason.is_none() { facts.secret } else { None };
    let mock = || facts.mocks.draw(facts.user, &facts.policy.key);
    let exchange = match (method, usable) {
        (Password::Plain, Some(_)) => Exchange::Cleartext { mock: None },
        (Password::Plain, None) => Exchange::Cleartext { mock: mock() },
        (Password::Md5 | Password::ScramSha256, Some(Secret::Scram(verifier))) => {
            Exchange::Scram(ScramSource::Verifier(verifier.clone()))
        }
        (Password::Md5, Some(Secret::Plain(password))) => Exchange::Md5 { hex: md5_hex_secret(facts.user, password) },
        (Password::Md5, Some(Secret::Md5(hex))) => Exchange::Md5 { hex: hex.to_string() },
        (Password::Md5, None) => match mock() {
            Some(shape) => Exchange::Scram(ScramSource::Mock(shape)),
            None => Exchange::Md5 { hex: String::new() },
        },
        (Password::ScramSha256, Some(Secret::Plain(password))) => {
            Exchange::Scram(ScramSource::Password(password.clone()))
        }
        (Password::ScramSha256, Some(Secret::Md5(_)) | None) => {
            let own = Shape::usual(facts.policy.iterations);
            Exchange::Scram(ScramSource::Mock(facts.mocks.draw_scram(own, facts.user, &facts.policy.key)))
        }
    };
    Plan { exchange, reject_reason: reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hba::{Asked, Hba};
    use crate::md5::{md5_response, md5_verify};
    use crate::method::Method;
    use crate::secret::ScramVerifier;

    const POLICY: ScramPolicy = ScramPolicy { key: [7; 32], iterations: 4096 };

    fn plain(password: &str) -> Secret {
        Secret::Plain(password.into())
    }

    fn md5(password: &str) -> Secret {
        Secret::Md5(md5_hex_secret("u", password).into())
    }

    fn scram() -> ScramVerifier {
        ScramVerifier::from_salted(&[9; 32], b"salt".to_vec(), 4096)
    }

    fn maps() -> IdentMaps {
        IdentMaps::parse("m cn u\nm admin all").unwrap()
    }

    fn tls() -> Via {
        Via::Tcp { from: "::1".parse().unwrap(), tls: true }
    }

    fn tcp() -> Via {
        Via::Tcp { from: "::1".parse().unwrap(), tls: false }
    }

    fn with_password(method: Method, secret: Option<Secret>) -> (Exchange, Option<RejectReason>) {
        let hba = Hba::default();
        let demand = method.demand(&hba, &Asked { via: tcp(), database: "d", user: "u" });
        let facts = Facts {
            user: "u",
            secret: secret.as_ref(),
            via: tcp(),
            certificate_name: None,
            os_user: None,
            forced_user: None,
            maps: &IdentMaps::default(),
            mocks: &Mocks::default(),
            policy: &POLICY,
        };
        let plan = decide(&demand, &facts);
        (plan.exchange, plan.reject_reason)
    }

    /// What becomes of a client of user `u` with this name by certificate or operating system, by these rules.
    fn by_name(rules: &str, via: Via, name: Option<&str>, secret: Option<Secret>) -> (Exchange, Option<RejectReason>) {
        let hba = Hba::parse(rules, &|_| Err(String::new())).unwrap();
        let demand = Method::Hba.demand(&hba, &Asked { via, database: "d", user: "u" });
        let facts = Facts {
            user: "u",
            secret: secret.as_ref(),
            via,
            certificate_name: name,
            os_user: name,
            forced_user: None,
            maps: &maps(),
            mocks: &Mocks::default(),
            policy: &POLICY,
        };
        let plan = decide(&demand, &facts);
        (plan.exchange, plan.reject_reason)
    }

    fn refused(denial: Denial, reason: RejectReason) -> (Exchange, Option<RejectReason>) {
        (Exchange::Refuse(denial), Some(reason))
    }

    #[test]
    fn trust_wants_the_user_known_but_no_usable_secret() {
        for secret in [plain("pw"), plain(""), md5("pw"), Secret::Scram(scram())] {
            assert_eq!(with_password(Method::Trust, Some(secret)), (Exchange::None, None));
        }
        assert_eq!(with_password(Method::Trust, None), refused(Denial::NoSuchUser, RejectReason::UnknownUser));
    }

    #[test]
    fn plain_asks_for_the_password_whatever_the_secret() {
        for secret in [plain("pw"), md5("pw"), Secret::Scram(scram())] {
            assert_eq!(with_password(Method::Plain, Some(secret)), (Exchange::Cleartext { mock: None }, None));
        }
        assert_eq!(
            with_password(Method::Plain, None),
            (Exchange::Cleartext { mock: None }, Some(RejectReason::UnknownUser))
        );
    }

    #[test]
    fn md5_speaks_scram_where_the_secret_is_a_verifier() {
        let hex = md5_hex_secret("u", "pw");
        assert_eq!(with_password(Method::Md5, Some(plain("pw"))), (Exchange::Md5 { hex: hex.clone() }, None));
        assert_eq!(with_password(Method::Md5, Some(md5("pw"))), (Exchange::Md5 { hex }, None));
        let source = ScramSource::Verifier(scram());
        assert_eq!(with_password(Method::Md5, Some(Secret::Scram(scram()))), (Exchange::Scram(source), None));
    }

    #[test]
    fn an_unknown_user_is_asked_for_md5_and_no_answer_is_right() {
        let (exchange, reason) = with_password(Method::Md5, None);
        let Exchange::Md5 { hex } = exchange else { panic!("{exchange:?}") };
        assert_eq!(reason, Some(RejectReason::UnknownUser));
        assert!(!md5_verify(&hex, [1; 4], md5_response(&hex, [1; 4]).as_bytes()));
    }

    #[test]
    fn a_user_without_a_usable_secret_is_asked_as_one_of_those_who_have_one() {
        let shape = Shape { iterations: 20_000, salt: 24 };
        let hba = Hba::default();
        let exchange = |method: Method, secret: Option<Secret>| {
            let demand = method.demand(&hba, &Asked { via: tcp(), database: "d", user: "u" });
            let facts = Facts {
                user: "u",
                secret: secret.as_ref(),
                via: tcp(),
                certificate_name: None,
                os_user: None,
                forced_user: None,
                maps: &IdentMaps::default(),
                mocks: &Mocks::of_shape(shape),
                policy: &POLICY,
            };
            decide(&demand, &facts).exchange
        };
        let mock = Exchange::Scram(ScramSource::Mock(shape));
        for secret in [None, Some(plain(""))] {
            assert_eq!(exchange(Method::Md5, secret.clone()), mock);
            assert_eq!(exchange(Method::ScramSha256, secret.clone()), mock);
            assert_eq!(exchange(Method::Plain, secret), Exchange::Cleartext { mock: Some(shape) });
        }
        assert_eq!(exchange(Method::ScramSha256, Some(md5("pw"))), mock);
    }

    #[test]
    fn scram_takes_verifiers_and_passwords_and_dooms_the_rest() {
        let (exchange, reason) = with_password(Method::ScramSha256, Some(Secret::Scram(scram())));
        assert_eq!((exchange, reason), (Exchange::Scram(ScramSource::Verifier(scram())), None));
        let (exchange, reason) = with_password(Method::ScramSha256, Some(plain("pw")));
        assert_eq!((exchange, reason), (Exchange::Scram(ScramSource::Password("pw".into())), None));
        let must_fail = [
            (Some(md5("pw")), RejectReason::Md5Secret),
            (Some(plain("")), RejectReason::EmptyPassword),
            (None, RejectReason::UnknownUser),
        ];
        for (secret, why) in must_fail {
            assert_eq!(
                with_password(Method::ScramSha256, secret),
                (Exchange::Scram(ScramSource::Mock(Shape::usual(4096))), Some(why))
            );
        }
    }

    #[test]
    fn a_certificate_lets_in_the_user_that_it_names() {
        let rules = "hostssl all all all cert";
        assert_eq!(by_name(rules, tls(), Some("u"), Some(plain(""))), (Exchange::None, None));
        for (name, reason) in [
            (None, RejectReason::NoCertificate),
            (Some(""), RejectReason::NoCertificate),
            (Some("U"), RejectReason::CertificateName),
            (Some("cn"), RejectReason::CertificateName),
        ] {
            assert_eq!(
                by_name(rules, tls(), name, Some(plain("pw"))),
                refused(Denial::Certificate, reason),
                "{name:?}"
            );
        }
        assert_eq!(
            by_name("host all all all cert", tcp(), Some("u"), Some(plain("pw"))),
            refused(Denial::Certificate, RejectReason::NoTls)
        );
    }

    #[test]
    fn an_unknown_user_with_a_certificate_is_told_what_a_wrong_name_is_told() {
        let unknown = by_name("hostssl all all all cert", tls(), Some("u"), None);
        assert_eq!(unknown, refused(Denial::Certificate, RejectReason::UnknownUser));
        assert_eq!(
            by_name("local all all peer", Via::Local, Some("u"), None),
            refused(Denial::Peer, RejectReason::UnknownUser)
        );
    }

    #[test]
    fn a_map_says_who_a_proven_name_may_be() {
        for rule in ["hostssl all all all cert map=m", "local all all peer map=m"] {
            let (via, denial) =
                if rule.starts_with("local") { (Via::Local, Denial::Peer) } else { (tls(), Denial::Certificate) };
            for name in ["cn", "admin"] {
                assert_eq!(by_name(rule, via, Some(name), Some(plain("pw"))), (Exchange::None, None), "{name}");
            }
            // With a map, equal names do not suffice.
            assert_eq!(by_name(rule, via, Some("u"), Some(plain("pw"))), refused(denial, RejectReason::NotMapped));
        }
        let gone = by_name("local all all peer map=gone", Via::Local, Some("u"), Some(plain("pw")));
        assert_eq!(gone, refused(Denial::Peer, RejectReason::NotMapped));
    }

    #[test]
    fn peer_lets_in_the_operating_systems_user_of_that_name() {
        let rules = "local all all peer";
        assert_eq!(by_name(rules, Via::Local, Some("u"), Some(plain(""))), (Exchange::None, None));
        for (name, reason) in
            [(None, RejectReason::NoPeer), (Some(""), RejectReason::NoPeer), (Some("root"), RejectReason::PeerName)]
        {
            assert_eq!(by_name(rules, Via::Local, name, Some(plain("pw"))), refused(Denial::Peer, reason), "{name:?}");
        }
    }

    #[test]
    fn rules_refuse_and_so_does_their_silence() {
        let known = || Some(plain("pw"));
        assert_eq!(
            by_name("local all all reject", Via::Local, Some("u"), known()),
            refused(Denial::Rejected, RejectReason::Rejected)
        );
        assert_eq!(
            by_name("local all other trust", Via::Local, Some("u"), known()),
            refused(Denial::NoRule, RejectReason::NoRule)
        );
    }

    #[test]
    fn anybody_comes_in_where_the_database_forces_a_user() {
        let hba = Hba::default();
        let demand = Method::Any.demand(&hba, &Asked { via: tcp(), database: "d", user: "u" });
        let mut facts = Facts {
            user: "u",
            secret: None,
            via: tcp(),
            certificate_name: None,
            os_user: None,
            forced_user: Some("app"),
            maps: &IdentMaps::default(),
            mocks: &Mocks::default(),
            policy: &POLICY,
        };
        assert_eq!(decide(&demand, &facts), Plan { exchange: Exchange::None, reject_reason: None });
        facts.forced_user = None;
        assert_eq!(decide(&demand, &facts).exchange, Exchange::Refuse(Denial::NoForcedUser));
    }

    #[test]
    fn debug_texts_show_no_secret() {
        let plans = [(Method::Md5, "Md5"), (Method::ScramSha256, "Scram"), (Method::Plain, "Cleartext")];
        for (method, text) in plans {
            assert_eq!(format!("{:?}", with_password(method, Some(plain("pw"))).0), text);
        }
    }
}
