//! A client's password that LDAP or PAM checks: what a helper needs to know.

use std::sync::Arc;

use weir_auth::Ldap;
use weir_base::Span;

/// A password that an external service checks.
pub struct PasswordCheck {
    /// The service.
    pub by: Authority,
    /// The user that the client claims to be.
    pub user: Arc<str>,
    /// The client's password; never empty.
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
}
