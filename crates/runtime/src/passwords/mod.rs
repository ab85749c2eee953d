//! Passwords that a service checks, an LDAP server or PAM, tokens of clients, and passwords that a program or a service
//! makes, for helper threads. Everything here blocks, within a limit.

mod ldap;
mod ldap_conf;
mod made;
mod oauth;
mod pam;
mod printed;

use std::time::Duration;

use weir_engine::port::{Authority, PasswordCheck, Proof};

pub(crate) use made::key;
pub use made::made_password;
pub use oauth::check_issuers;
pub use pam::{PAM_HELPER, PamRequest};

/// Whether a password or a token is right.
///
/// # Errors
/// A line for the log: why it is wrong, or could not be checked.
pub(crate) fn check(check: &PasswordCheck) -> Result<Proof, String> {
    let limit = Duration::from_micros(check.limit.micros());
    match &check.by {
        Authority::Ldap(options) => {
            ldap::check(options, &check.user, &check.password, limit).map(|()| Proof::default())
        }
        Authority::Oauth(oauth) => oauth::check(oauth, &check.password, limit),
        Authority::Pam(service) => {
            let (service, user) = (service.to_string(), check.user.to_string());
            let request = PamRequest { service, user, from: check.from.clone(), password: check.password.to_string() };
            pam::check(&request, limit).map(|()| Proof::default())
        }
    }
}
