//! The kinds of an engine's slow work.

use weir_engine::port::{Authority, Work};

/// The kinds of an engine's work, of which none waits for another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WorkKind {
    /// Reading and changing the configuration.
    Config,
    /// Hashing for our logins at servers.
    Servers,
    /// Hashing for clients' logins.
    Clients,
    /// Asking the operating system about its users.
    Users,
    /// Having passwords checked by LDAP, and tokens by the keys of their issuers.
    Checks,
    /// Having passwords checked by PAM.
    Pam,
    /// Running programs that print passwords.
    Printed,
    /// Asking Patroni about hosts.
    Patroni,
}

impl WorkKind {
    pub(crate) fn of(work: &Work) -> WorkKind {
        match work {
            Work::LoadConfig(..) | Work::ApplyTls(_) | Work::ChangeConfig(..) | Work::RecordConfig(_) => {
                WorkKind::Config
            }
            Work::SaltServer { .. } => WorkKind::Servers,
            Work::ServerPassword { .. } => WorkKind::Printed,
            Work::SaltClient { .. } => WorkKind::Clients,
            Work::NameOfUser(_) => WorkKind::Users,
            Work::AskPatroni(_) => WorkKind::Patroni,
            Work::CheckPassword(check) => match check.by {
                Authority::Ldap(_) | Authority::Oauth(_) => WorkKind::Checks,
                Authority::Pam(_) => WorkKind::Pam,
            },
        }
    }
}
