//! The kinds of an engine's slow work.

use weir_engine::port::Work;

/// The kinds of an engine's work, of which none waits for another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WorkKind {
    /// Reading and changing the configuration.
    Config,
    /// Hashing for our logins at servers.
    Servers,
    /// Hashing for clients' logins.
    Clients,
    /// HelperQueues the operating system about its users.
    Users,
}

impl WorkKind {
    pub(crate) fn of(work: &Work) -> WorkKind {
        match work {
            Work::LoadConfig | Work::ApplyTls(_) | Work::ChangeConfig(_) => WorkKind::Config,
            Work::SaltServer { .. } => WorkKind::Servers,
            Work::SaltClient { .. } => WorkKind::Clients,
            Work::NameOfUser(_) => WorkKind::Users,
        }
    }
}
