//! `sslmode` for a connection to a server: what is tried first, and what after a failure (libpq's rules).

use crate::model::SslMode;

/// Whether TLS is requested from a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encryption {
    /// TLS is not requested.
    Off,
    /// TLS is requested; the server may refuse it.
    Preferred,
    /// TLS is requested; the server must accept it.
    Required,
}

/// How a login failed, as far as it decides whether the other choice of encryption may succeed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailedAttempt {
    /// The handshake failed.
    Handshake,
    /// The server refused the login.
    Refused {
        /// Whether the connection was encrypted.
        encrypted: bool,
    },
    /// Any other failure.
    Other,
}

impl Encryption {
    /// The first try for a connection with this mode.
    pub fn first(mode: SslMode) -> Encryption {
        match mode {
            SslMode::Disable | SslMode::Allow => Encryption::Off,
            SslMode::Prefer => Encryption::Preferred,
            SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => Encryption::Required,
        }
    }

    /// The next try at the same server, if one may succeed after this failure.
    pub fn other(self, mode: SslMode, ending: FailedAttempt) -> Option<Encryption> {
        match (mode, self, ending) {
            (SslMode::Allow, Encryption::Off, FailedAttempt::Refused { .. }) => Some(Encryption::Required),
            (
                SslMode::Prefer,
                Encryption::Preferred,
                FailedAttempt::Handshake | FailedAttempt::Refused { encrypted: true },
            ) => Some(Encryption::Off),
            _ => None,
        }
    }
}
