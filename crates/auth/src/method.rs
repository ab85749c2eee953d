//! Authentication methods of clients: the configured method, and the one required for a connection.
//!
//! Follows PgBouncer's `auth_type` (its documentation, "Authentication settings"). Must not know secrets;
//! [`decide`](crate::decide) chooses the exchange for a user.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::hba::{Hba, HbaRequest, Rule, RuleMethod};

/// The authentication method for clients (PgBouncer's `auth_type`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub enum Method {
    /// No authentication, but the user must be known.
    Trust,
    /// The cleartext password.
    Plain,
    /// md5, or SCRAM-SHA-256 where the secret is a verifier.
    Md5,
    /// SCRAM-SHA-256; md5 secrets can't be used.
    #[default]
    ScramSha256,
    /// A client certificate with the user's name.
    Cert,
    /// By the rules of the HBA file.
    Hba,
    /// No authentication: every client logs in as the forced user of the database.
    Any,
    /// The cleartext password, checked by a server that speaks LDAP.
    Ldap,
    /// The cleartext password, checked by the operating system's PAM.
    Pam,
    /// A token of an issuer (OAUTHBEARER).
    Oauth,
}

impl Method {
    /// The words that settings use, in the order of the variants.
    pub const WORDS: &'static [&'static str] =
        &["trust", "plain", "md5", "scram-sha-256", "cert", "hba", "any", "ldap", "pam", "oauth"];

    const ALL: [Method; 10] = [
        Method::Trust,
        Method::Plain,
        Method::Md5,
        Method::ScramSha256,
        Method::Cert,
        Method::Hba,
        Method::Any,
        Method::Ldap,
        Method::Pam,
        Method::Oauth,
    ];

    /// The method's name in a configuration.
    pub const fn as_str(self) -> &'static str {
        Self::WORDS[self as usize]
    }

    /// The requirement for a connection. Only [`Method::Hba`] reads `hba`.
    pub fn demand<'a>(self, hba: &'a Hba, asked: &HbaRequest<'_>) -> Demand<'a> {
        let method = match self {
            Method::Trust => ConnectionMethod::Trust,
            Method::Plain => ConnectionMethod::Plain,
            Method::Md5 => ConnectionMethod::Md5,
            Method::ScramSha256 => ConnectionMethod::ScramSha256,
            Method::Cert => ConnectionMethod::Cert,
            Method::Any => ConnectionMethod::Any,
            Method::Ldap => ConnectionMethod::Ldap,
            Method::Pam => ConnectionMethod::Pam,
            Method::Oauth => ConnectionMethod::Oauth,
            Method::Hba => return Demand::of_rule(hba.find(asked)),
        };
        Demand { method, rule: None }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Method {
    type Err = MethodError;

    fn from_str(text: &str) -> Result<Self, MethodError> {
        Self::ALL.into_iter().find(|method| method.as_str() == text).ok_or(MethodError::Unknown)
    }
}

/// Why a text is not a [`Method`]. The message follows the setting's name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MethodError {
    /// There is no such method.
    Unknown,
}

impl fmt::Display for MethodError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = Method::WORDS.join(", ");
        match self {
            MethodError::Unknown => write!(f, "must be one of {words}"),
        }
    }
}

impl std::error::Error for MethodError {}

impl From<MethodError> for String {
    fn from(error: MethodError) -> String {
        error.to_string()
    }
}

/// The requirement for one connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ConnectionMethod {
    /// No authentication: the client logs in as the forced user.
    Any,
    /// No authentication, but the user must be known.
    Trust,
    /// The cleartext password.
    Plain,
    /// md5, or SCRAM-SHA-256 where the secret is a verifier.
    Md5,
    /// SCRAM-SHA-256.
    ScramSha256,
    /// A client certificate with the user's name.
    Cert,
    /// The user of the operating system at the other end of the Unix socket.
    Peer,
    /// The cleartext password, checked by a server that speaks LDAP.
    Ldap,
    /// The cleartext password, checked by the operating system's PAM.
    Pam,
    /// A token of an issuer (OAUTHBEARER).
    Oauth,
    /// A rule refuses the client.
    Reject,
    /// No rule matches, so the client is refused.
    NoRule,
}

impl ConnectionMethod {
    /// Whether the user and its secret are needed; otherwise no lookup is necessary.
    pub fn wants_user(self) -> bool {
        use ConnectionMethod::{Any, Ldap, NoRule, Oauth, Pam, Reject};
        !matches!(self, Any | Ldap | Pam | Oauth | Reject | NoRule)
    }
}

impl From<RuleMethod> for ConnectionMethod {
    fn from(method: RuleMethod) -> Self {
        match method {
            RuleMethod::Trust => ConnectionMethod::Trust,
            RuleMethod::Reject => ConnectionMethod::Reject,
            RuleMethod::Md5 => ConnectionMethod::Md5,
            RuleMethod::Plain => ConnectionMethod::Plain,
            RuleMethod::ScramSha256 => ConnectionMethod::ScramSha256,
            RuleMethod::Cert => ConnectionMethod::Cert,
            RuleMethod::Peer => ConnectionMethod::Peer,
            RuleMethod::Ldap => ConnectionMethod::Ldap,
            RuleMethod::Pam => ConnectionMethod::Pam,
            RuleMethod::Oauth => ConnectionMethod::Oauth,
        }
    }
}

/// The requirement for a connection, and the rule that set it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Demand<'a> {
    /// The requirement.
    pub method: ConnectionMethod,
    /// The rule of the HBA file that matched; `None` without such a file, and where none matched.
    pub rule: Option<&'a Rule>,
}

impl<'a> Demand<'a> {
    fn of_rule(rule: Option<&'a Rule>) -> Self {
        Demand { method: rule.map_or(ConnectionMethod::NoRule, |rule| rule.method.into()), rule }
    }

    /// The ident map for proven names; without one they must equal the user's name.
    pub fn map(&self) -> Option<&'a str> {
        self.rule.and_then(Rule::map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hba::ConnectionType;

    #[test]
    fn methods_are_named_as_pgbouncer_names_them() {
        for (&word, method) in Method::WORDS.iter().zip(Method::ALL) {
            assert_eq!((word.parse(), method.to_string().as_str()), (Ok(method), word));
        }
        for word in ["", "MD5", "scram", "peer", "reject", "password"] {
            assert_eq!(word.parse::<Method>(), Err(MethodError::Unknown), "{word}");
        }
        assert_eq!(Method::default(), Method::ScramSha256);
    }

    #[test]
    fn a_connection_must_follow_the_method_or_the_rule_that_matches() {
        let hba = "local all all peer map=m\nhost db ann ::1/128 reject\n";
        let hba = Hba::parse(hba, &|_| Err(String::new())).unwrap();
        let tcp = ConnectionType::Tcp { from: "::1".parse().unwrap(), tls: false };
        let demand = |method: Method, via, user| {
            method.demand(&hba, &HbaRequest { via, database: "db", user, physical_replication: false })
        };
        let peer = demand(Method::Hba, ConnectionType::Local, "ann");
        assert_eq!((peer.method, peer.map()), (ConnectionMethod::Peer, Some("m")));
        let reject = demand(Method::Hba, tcp, "ann");
        assert_eq!((reject.method, reject.rule.map(|rule| rule.line)), (ConnectionMethod::Reject, Some(2)));
        let none = demand(Method::Hba, tcp, "bob");
        assert_eq!((none.method, none.rule), (ConnectionMethod::NoRule, None));
        let md5 = demand(Method::Md5, tcp, "ann");
        assert_eq!((md5.method, md5.rule), (ConnectionMethod::Md5, None));
    }

    #[test]
    fn only_methods_that_ask_who_it_is_want_the_user() {
        assert!(ConnectionMethod::Cert.wants_user() && ConnectionMethod::Trust.wants_user());
        assert!(
            !ConnectionMethod::Any.wants_user()
                && !ConnectionMethod::Pam.wants_user()
                && !ConnectionMethod::NoRule.wants_user()
        );
    }
}
