//! A client's password that LDAP or PAM checks, or its token: what a helper needs to know.

use std::sync::Arc;

use weir_auth::{Ldap, Oauth};
use weir_base::Span;

/// A password that an external service checks, or a token that an issuer's keys check.
pub struct PasswordCheck {
    /// The service.
    pub by: Authority,
    /// The user that the client claims to be.
    pub user: Arc<str>,
    /// The client's password, or its token; never empty.
    pub password: Arc<str>,
    /// The client's address, for PAM.
    pub from: String,
    /// How long the check may take.
    pub limit: Span,
}

impl Authority {
    /// Which service checks the password: one that hangs delays no login that another one checks.
    pub fn key(&self) -> Arc<str> {
        match self {
            Authority::Ldap(ldap) => format!("{}:{}", ldap.servers.join(","), ldap.port).into(),
            Authority::Pam(service) => service.clone(),
            Authority::Oauth(oauth) => oauth.metadata_url.as_str().into(),
        }
    }
}

/// The service that checks a password.
#[derive(Clone)]
pub enum Authority {
    /// A server that speaks LDAP.
    Ldap(Arc<Ldap>),
    /// PAM, by this service.
    Pam(Arc<str>),
    /// An issuer of tokens.
    Oauth(Arc<Oauth>),
}

/// What a password or a token that is right has proven.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Proof {
    /// The name in a token; none: a password proves the client's user.
    pub name: Option<Arc<str>>,
    /// A line for the log: why what it was checked with is older than it should be, if that was tried.
    pub overdue: Option<String>,
}
