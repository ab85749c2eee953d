//! A client's password that LDAP or PAM checks: what a helper needs to know.

use std::sync::Arc;

use weir_auth::Ldap;
use weir_base::Span;

/// A password that somebody else knows.
pub struct PasswordCheck {
    /// Who knows it.
    pub by: Authority,
    /// Whose it is said to be.
    pub user: Arc<str>,
    /// What the client gave; never empty.
    pub password: Arc<str>,
    /// The client's address, for PAM.
    pub from: String,
    /// How long the check may take.
    pub limit: Span,
}

impl Authority {
    /// Which of those that check passwords it is: one that hangs delays no login that another one checks.
    pub fn key(&self) -> Arc<str> {
        match self {
            Authority::Ldap(ldap) => format!("{}:{}", ldap.servers.join(","), ldap.port).into(),
            Authority::Pam(service) => service.clone(),
        }
    }
}

/// Who checks a password.
#[derive(Clone)]
pub enum Authority {
    /// A server that speaks LDAP.
    Ldap(Arc<Ldap>),
    /// PAM, by this service.
    Pam(Arc<str>),
}
