//! What `sslmode` means for a connection to a server: what is tried first, and what then (libpq's rules).

use crate::model::SslMode;

/// Whether a server is asked for encryption.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encryption {
    /// It is not.
    Off,
    /// It is, and may refuse.
    Preferred,
    /// It is, and must not refuse.
    Required,
}

/// How a login failed that may succeed with the other choice of encryption.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoginFailure {
    /// The handshake failed.
    Handshake,
    /// The server refused us on a connection that was, or was not, encrypted.
    Refused {
        /// Whether it was.
        encrypted: bool,
    },
    /// Otherwise.
    Other,
}

impl Encryption {
    /// What a mode wants at first.
    pub fn first(mode: SslMode) -> Encryption {
        match mode {
            SslMode::Disable | SslMode::Allow => Encryption::Off,
            SslMode::Prefer => Encryption::Preferred,
            SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => Encryption::Required,
        }
    }

    /// The other way to try the same server, if there is one that may succeed after this failure.
    pub fn other(self, mode: SslMode, ending: LoginFailure) -> Option<Encryption> {
        match (mode, self, ending) {
            (SslMode::Allow, Encryption::Off, LoginFailure::Refused { .. }) => Some(Encryption::Required),
            (
                SslMode::Prefer,
                Encryption::Preferred,
                LoginFailure::Handshake | LoginFailure::Refused { encrypted: true },
            ) => Some(Encryption::Off),
            _ => None,
        }
    }
}
