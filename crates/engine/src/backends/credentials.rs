//! What a pool knows besides its configuration to log in at its servers.

use weir_auth::Secret;
use weir_session::login::LearnedCredentials;

use crate::backends::connection::SaltedKey;

/// Secrets of a pool's user. Never printed.
#[derive(Default)]
pub(crate) struct KnownCredentials {
    /// What clients' logins have taught us.
    learned: LearnedCredentials,
    /// The secret of the user, if a server was asked for it.
    looked_up: Option<Secret>,
    /// The password as it was hashed last: from what, and what came of it.
    hashed: Option<(SaltedKey, [u8; 32])>,
}

impl KnownCredentials {
    /// A client's login has taught something. The newest proof is the best one: a changed password replaces the old.
    pub(crate) fn learn(&mut self, learned: &LearnedCredentials, looked_up: &Option<Secret>) {
        self.learned.password = learned.password.clone().or(self.learned.password.take());
        self.learned.keys = learned.keys.clone().or(self.learned.keys.take());
        self.looked_up.clone_from(looked_up);
    }

    /// What another process knew.
    pub(crate) fn inherit(&mut self, learned: LearnedCredentials, looked_up: Option<Secret>) {
        self.learn(&learned, &looked_up);
    }

    /// What clients' logins have taught us.
    pub(crate) fn learned(&self) -> &LearnedCredentials {
        &self.learned
    }

    /// The secret of the user, if a server was asked for it.
    pub(crate) fn looked_up(&self) -> Option<&Secret> {
        self.looked_up.as_ref()
    }

    /// What was hashed last, and what came of it.
    pub(crate) fn hashed(&self) -> Option<&(SaltedKey, [u8; 32])> {
        self.hashed.as_ref()
    }

    /// A helper has hashed the password.
    pub(crate) fn keep_hashed(&mut self, hashed: Option<(SaltedKey, [u8; 32])>) {
        self.hashed = hashed;
    }
}
