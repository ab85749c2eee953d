//! Passwords that a service checks, an LDAP server or PAM, and those that a program or a service makes, for helper
//! threads. Everything here blocks, within a limit.

mod ldap;
mod ldap_conf;
mod made;
mod pam;
mod printed;

use std::time::Duration;

use weir_engine::port::{Authority, PasswordCheck};

pub(crate) use made::key;
pub use made::made_password;
pub use pam::{PAM_HELPER, PamRequest};

/// Whether a password is right.
///
/// # Errors
/// A line for the log: why the password is wrong, or could not be checked.
pub(crate) fn check(check: &PasswordCheck) -> Result<(), String> {
    let limit = Duration::from_micros(check.limit.micros());
    match &check.by {
        Authority::Ldap(options) => ldap::check(options, &check.user, &check.password, limit),
        Authority::Pam(service) => {
            let (service, user) = (service.to_string(), check.user.to_string());
            let request = PamRequest { service, user, from: check.from.clone(), password: check.password.to_string() };
            pam::check(&request, limit)
        }
    }
}
