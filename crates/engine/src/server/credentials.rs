//! The credentials of a pool for its servers, besides its configuration.

use std::sync::Arc;

use weir_auth::Secret;
use weir_session::login::CapturedCredentials;

use crate::server::connection::SaltedKey;

/// Secrets of a pool's user. Never printed.
#[derive(Default)]
pub(crate) struct KnownCredentials {
    /// Credentials from clients' logins.
    captured: CapturedCredentials,
    /// The secret of the user from an auth_query.
    looked_up: Option<Secret>,
    /// The last hashed password: input and result.
    hashed: Option<(SaltedKey, [u8; 32])>,
    /// The last password of the pool's program that a server has refused, until another one is accepted.
    refused: Option<Arc<str>>,
}

impl KnownCredentials {
    /// Takes over credentials from a client's login. The newest are the best: a changed password replaces the old.
    pub(crate) fn capture(&mut self, captured: &CapturedCredentials, looked_up: &Option<Secret>) {
        self.captured.password = captured.password.clone().or(self.captured.password.take());
        self.captured.keys = captured.keys.clone().or(self.captured.keys.take());
        self.looked_up.clone_from(looked_up);
    }

    /// Takes over the credentials that another process knew.
    pub(crate) fn import(&mut self, captured: CapturedCredentials, looked_up: Option<Secret>) {
        self.capture(&captured, &looked_up);
    }

    /// The credentials from clients' logins.
    pub(crate) fn captured(&self) -> &CapturedCredentials {
        &self.captured
    }

    /// The secret of the user from an auth_query.
    pub(crate) fn looked_up(&self) -> Option<&Secret> {
        self.looked_up.as_ref()
    }

    /// The last hashed password: input and result.
    pub(crate) fn hashed(&self) -> Option<&(SaltedKey, [u8; 32])> {
        self.hashed.as_ref()
    }

    /// The last password of the pool's program that a server has refused.
    pub(crate) fn refused(&self) -> Option<&Arc<str>> {
        self.refused.as_ref()
    }

    /// A server has refused a password of the pool's program, or has accepted another one: none is refused.
    pub(crate) fn set_refused(&mut self, password: Option<Arc<str>>) {
        self.refused = password;
    }

    /// Keeps the result of a hash.
    pub(crate) fn keep_hashed(&mut self, hashed: Option<(SaltedKey, [u8; 32])>) {
        self.hashed = hashed;
    }
}
