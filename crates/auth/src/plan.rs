//! Chooses the exchange of a login, from the required method and the client's properties.
//!
//! Follows PgBouncer, but hides users as PostgreSQL does: an unknown user, or one whose secret the method can't use,
//! gets the exchange and the error of a wrong password. Must not know the source of secrets.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::hba::ConnectionType;
use crate::ident::IdentMaps;
use crate::md5::md5_hex_secret;
use crate::method::{ConnectionMethod, Demand};
use crate::mock::Mocks;
use crate::oauth::Oauth;
use crate::secret::Secret;
use crate::secret::Shape;
use crate::source::{ScramPolicy, ScramSource};

/// What to exchange with a client, and whether it can succeed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LoginPlan {
    /// The messages that the client sees.
    pub exchange: Exchange,
    /// Why the login fails for every response. For the log; the client must not learn it.
    pub reject_reason: Option<RejectReason>,
}

/// The messages between a startup message and AuthenticationOk.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exchange {
    /// None: the login succeeds.
    None,
    /// AuthenticationCleartextPassword; check the response with [`verify_cleartext`](crate::verify_cleartext).
    Cleartext {
        /// For a user without a secret that must look like one with a verifier: check the response against
        /// [`ScramVerifier::mock`](crate::ScramVerifier::mock), so that the check takes as long.
        mock: Option<Shape>,
    },
    /// AuthenticationCleartextPassword; who checks the response.
    External(External),
    /// AuthenticationSASL with OAUTHBEARER; a client without a valid token gets this challenge.
    Bearer {
        /// [`Oauth::challenge`].
        challenge: String,
    },
    /// AuthenticationMD5Password; check the response with [`md5_verify`](crate::md5_verify).
    Md5 {
        /// 32 hex digits; empty if there is no secret, and then [`md5_verify`](crate::md5_verify) accepts no response.
        hex: String,
    },
    /// AuthenticationSASL; go on with [`ScramSource::start`].
    Scram(ScramSource),
    /// None: the client is refused at once with this error.
    Refuse(Denial),
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exchange::None => f.write_str("None"),
            Exchange::Cleartext { .. } => f.write_str("Cleartext"),
            Exchange::External(by) => write!(f, "External({by:?})"),
            Exchange::Bearer { .. } => f.write_str("Bearer"),
            Exchange::Md5 { .. } => f.write_str("Md5"),
            Exchange::Scram(_) => f.write_str("Scram"),
            Exchange::Refuse(denial) => write!(f, "Refuse({denial:?})"),
        }
    }
}

/// Who checks a password whose secret is not ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum External {
    /// A server that speaks LDAP.
    Ldap,
    /// The operating system's PAM.
    Pam,
}

/// The error for a client that is refused at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Denial {
    /// The user is unknown.
    NoSuchUser,
    /// There is no certificate, or it does not allow the login.
    Certificate,
    /// The operating-system user does not allow the login, or the client did not use the Unix socket.
    Peer,
    /// A token would cross the network as it is.
    Bearer,
    /// A rule rejects the client.
    Rejected,
    /// No rule matches.
    NoRule,
    /// The method is any, but the database has no forced user.
    NoForcedUser,
}

/// Why a login can only fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum RejectReason {
    /// The user is unknown or has no secret.
    UnknownUser,
    /// The user's password is empty.
    EmptyPassword,
    /// The method is scram-sha-256, and the secret an md5 hash.
    Md5Secret,
    /// The method is cert or oauth, and the connection not encrypted.
    NoTls,
    /// The method is cert, and the client showed no certificate, or none with a name.
    NoCertificate,
    /// The certificate names another user.
    CertificateName,
    /// The method is peer, and the client did not use the Unix socket.
    NotLocal,
    /// The operating system does not report the user at the other end of the Unix socket.
    NoPeer,
    /// The operating-system user is another one.
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

/// The properties of a client that logs in.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The requested user.
    pub user: &'a str,
    /// Whether there is such a user: listed, or found by a server.
    pub known: bool,
    /// The user's secret; `None` for an unknown user and for one without a password.
    pub secret: Option<&'a Secret>,
    /// How the client connected.
    pub via: ConnectionType,
    /// The common name of the client's certificate, if that was verified.
    pub certificate_name: Option<&'a str>,
    /// The user of the operating system at the other end of the Unix socket.
    pub os_user: Option<&'a str>,
    /// The user that the database forces on its clients.
    pub forced_user: Option<&'a str>,
    /// Which tokens are accepted, for the method oauth.
    pub oauth: Option<&'a Oauth>,
    /// The maps that a rule may name.
    pub maps: &'a IdentMaps,
    /// The distribution of known secrets, for mocks of users without a usable secret.
    pub mocks: &'a Mocks,
    /// The key that chooses the mock for a user.
    pub policy: &'a ScramPolicy,
}

/// Decides how a client logs in.
pub fn decide(demand: &Demand<'_>, facts: &Facts<'_>) -> LoginPlan {
    let (denial, verdict) = match demand.method {
        ConnectionMethod::Plain => return by_password(Password::Plain, facts),
        ConnectionMethod::Md5 => return by_password(Password::Md5, facts),
        ConnectionMethod::ScramSha256 => return by_password(Password::ScramSha256, facts),
        ConnectionMethod::Ldap => return by_external(External::Ldap),
        ConnectionMethod::Pam => return by_external(External::Pam),
        ConnectionMethod::Oauth => match (facts.oauth, keeps_secrets(facts.via)) {
            (Some(oauth), true) => return by_token(oauth),
            _ => (Denial::Bearer, Err(RejectReason::NoTls)),
        },
        ConnectionMethod::Trust => (Denial::NoSuchUser, known(facts)),
        ConnectionMethod::Cert => (Denial::Certificate, by_certificate(demand, facts)),
        ConnectionMethod::Peer => (Denial::Peer, by_peer(demand, facts)),
        ConnectionMethod::Any => (Denial::NoForcedUser, facts.forced_user.map(drop).ok_or(RejectReason::NoForcedUser)),
        ConnectionMethod::Reject => (Denial::Rejected, Err(RejectReason::Rejected)),
        ConnectionMethod::NoRule => (Denial::NoRule, Err(RejectReason::NoRule)),
    };
    match verdict {
        Ok(()) => LoginPlan { exchange: Exchange::None, reject_reason: None },
        Err(reason) => LoginPlan { exchange: Exchange::Refuse(denial), reject_reason: Some(reason) },
    }
}

/// Who there is, is known elsewhere.
fn by_external(external: External) -> LoginPlan {
    LoginPlan { exchange: Exchange::External(external), reject_reason: None }
}

/// A token is accepted by other services too, so it must not cross a network as it is.
fn keeps_secrets(via: ConnectionType) -> bool {
    match via {
        ConnectionType::Local => true,
        ConnectionType::Tcp { from, tls } => tls || from.to_canonical().is_loopback(),
    }
}

fn by_token(oauth: &Oauth) -> LoginPlan {
    LoginPlan { exchange: Exchange::Bearer { challenge: oauth.challenge() }, reject_reason: None }
}

fn known(facts: &Facts<'_>) -> Result<(), RejectReason> {
    if facts.known { Ok(()) } else { Err(RejectReason::UnknownUser) }
}

fn by_certificate(demand: &Demand<'_>, facts: &Facts<'_>) -> Result<(), RejectReason> {
    if !matches!(facts.via, ConnectionType::Tcp { tls: true, .. }) {
        return Err(RejectReason::NoTls);
    }
    let name = facts.certificate_name.filter(|name| !name.is_empty()).ok_or(RejectReason::NoCertificate)?;
    known(facts)?;
    same_user(demand, facts, name, RejectReason::CertificateName)
}

fn by_peer(demand: &Demand<'_>, facts: &Facts<'_>) -> Result<(), RejectReason> {
    if facts.via != ConnectionType::Local {
        return Err(RejectReason::NotLocal);
    }
    let name = facts.os_user.filter(|name| !name.is_empty()).ok_or(RejectReason::NoPeer)?;
    known(facts)?;
    same_user(demand, facts, name, RejectReason::PeerName)
}

/// Whether the proven `name` may log in as the user.
fn same_user(demand: &Demand<'_>, facts: &Facts<'_>, name: &str, other: RejectReason) -> Result<(), RejectReason> {
    let map = demand.map();
    if facts.maps.lets(map, name, facts.user) {
        return Ok(());
    }
    Err(if map.is_some() { RejectReason::NotMapped } else { other })
}

/// The methods that request a password.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Password {
    Plain,
    Md5,
    ScramSha256,
}

fn by_password(method: Password, facts: &Facts<'_>) -> LoginPlan {
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
    LoginPlan { exchange, reject_reason: reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hba::{Hba, HbaRequest};
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

    fn tls() -> ConnectionType {
        ConnectionType::Tcp { from: "::1".parse().unwrap(), tls: true }
    }

    fn tcp() -> ConnectionType {
        ConnectionType::Tcp { from: "::1".parse().unwrap(), tls: false }
    }

    fn with_password(method: Method, secret: Option<Secret>) -> (Exchange, Option<RejectReason>) {
        let hba = Hba::default();
        let demand =
            method.demand(&hba, &HbaRequest { via: tcp(), database: "d", user: "u", physical_replication: false });
        let facts = Facts {
            user: "u",
            known: secret.is_some(),
            secret: secret.as_ref(),
            via: tcp(),
            certificate_name: None,
            os_user: None,
            forced_user: None,
            oauth: None,
            maps: &IdentMaps::default(),
            mocks: &Mocks::default(),
            policy: &POLICY,
        };
        let plan = decide(&demand, &facts);
        (plan.exchange, plan.reject_reason)
    }

    /// The result for a client of user `u` with this name in its certificate or operating system, under these rules.
    fn by_name(
        rules: &str,
        via: ConnectionType,
        name: Option<&str>,
        secret: Option<Secret>,
    ) -> (Exchange, Option<RejectReason>) {
        let hba = Hba::parse(rules, &|_| Err(String::new())).unwrap();
        let demand =
            Method::Hba.demand(&hba, &HbaRequest { via, database: "d", user: "u", physical_replication: false });
        let facts = Facts {
            user: "u",
            known: secret.is_some(),
            secret: secret.as_ref(),
            via,
            certificate_name: name,
            os_user: name,
            forced_user: None,
            oauth: None,
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
    fn plain_requests_the_password_for_every_kind_of_secret() {
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
    fn a_user_without_a_usable_secret_gets_the_exchange_of_one_with_a_secret() {
        let shape = Shape { iterations: 20_000, salt: 24 };
        let hba = Hba::default();
        let exchange = |method: Method, secret: Option<Secret>| {
            let demand =
                method.demand(&hba, &HbaRequest { via: tcp(), database: "d", user: "u", physical_replication: false });
            let facts = Facts {
                user: "u",
                known: secret.is_some(),
                secret: secret.as_ref(),
                via: tcp(),
                certificate_name: None,
                os_user: None,
                forced_user: None,
                oauth: None,
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
    fn scram_accepts_verifiers_and_passwords_and_fails_the_rest() {
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
    fn a_certificate_logs_in_the_user_that_it_names() {
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
    fn an_unknown_user_with_a_certificate_gets_the_error_of_a_wrong_name() {
        let unknown = by_name("hostssl all all all cert", tls(), Some("u"), None);
        assert_eq!(unknown, refused(Denial::Certificate, RejectReason::UnknownUser));
        assert_eq!(
            by_name("local all all peer", ConnectionType::Local, Some("u"), None),
            refused(Denial::Peer, RejectReason::UnknownUser)
        );
    }

    #[test]
    fn a_map_decides_which_users_a_proven_name_may_be() {
        for rule in ["hostssl all all all cert map=m", "local all all peer map=m"] {
            let (via, denial) = if rule.starts_with("local") {
                (ConnectionType::Local, Denial::Peer)
            } else {
                (tls(), Denial::Certificate)
            };
            for name in ["cn", "admin"] {
                assert_eq!(by_name(rule, via, Some(name), Some(plain("pw"))), (Exchange::None, None), "{name}");
            }
            // With a map, an equal name is not enough.
            assert_eq!(by_name(rule, via, Some("u"), Some(plain("pw"))), refused(denial, RejectReason::NotMapped));
        }
        let gone = by_name("local all all peer map=gone", ConnectionType::Local, Some("u"), Some(plain("pw")));
        assert_eq!(gone, refused(Denial::Peer, RejectReason::NotMapped));
    }

    #[test]
    fn peer_logs_in_the_operating_system_user_of_that_name() {
        let rules = "local all all peer";
        assert_eq!(by_name(rules, ConnectionType::Local, Some("u"), Some(plain(""))), (Exchange::None, None));
        for (name, reason) in
            [(None, RejectReason::NoPeer), (Some(""), RejectReason::NoPeer), (Some("root"), RejectReason::PeerName)]
        {
            assert_eq!(
                by_name(rules, ConnectionType::Local, name, Some(plain("pw"))),
                refused(Denial::Peer, reason),
                "{name:?}"
            );
        }
    }

    #[test]
    fn a_reject_rule_and_a_missing_rule_refuse() {
        let known = || Some(plain("pw"));
        assert_eq!(
            by_name("local all all reject", ConnectionType::Local, Some("u"), known()),
            refused(Denial::Rejected, RejectReason::Rejected)
        );
        assert_eq!(
            by_name("local all other trust", ConnectionType::Local, Some("u"), known()),
            refused(Denial::NoRule, RejectReason::NoRule)
        );
    }

    #[test]
    fn any_client_logs_in_where_the_database_forces_a_user() {
        let hba = Hba::default();
        let demand =
            Method::Any.demand(&hba, &HbaRequest { via: tcp(), database: "d", user: "u", physical_replication: false });
        let mut facts = Facts {
            user: "u",
            known: false,
            secret: None,
            via: tcp(),
            certificate_name: None,
            os_user: None,
            forced_user: Some("app"),
            oauth: None,
            maps: &IdentMaps::default(),
            mocks: &Mocks::default(),
            policy: &POLICY,
        };
        assert_eq!(decide(&demand, &facts), LoginPlan { exchange: Exchange::None, reject_reason: None });
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
