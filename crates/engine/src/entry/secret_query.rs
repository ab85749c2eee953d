//! What workers ask each other about users' secrets (auth_query), and answer.

use std::sync::Arc;

use weir_auth::{Mocks, Secret};
use weir_config::AuthLookup;

/// Whose secret is asked for: the database that a client wants, and its user.
pub(crate) type Subject = (Arc<str>, Arc<str>);

/// The question for a user's secret, on its way to the worker of the pool in which a server is asked.
#[derive(Debug)]
pub(crate) struct SecretQuery {
    /// The asking worker's number for it.
    pub(crate) id: u64,
    /// The pool and the query.
    pub(crate) lookup: AuthLookup,
    /// The user that it is about.
    pub(crate) user: Arc<str>,
}

/// A server's answer about a user.
#[derive(Clone, Debug)]
pub(crate) struct UserSecret {
    /// Whether there is such a user. One that may not log in with a secret can be let in without one (`trust`).
    pub(crate) exists: bool,
    /// The secret as written; none if there is no such user, or it may not log in with a secret.
    pub(crate) text: Option<Arc<str>>,
    /// What users without a secret are made to look like: like those about whom the server was asked.
    pub(crate) mocks: Arc<Mocks>,
}

impl UserSecret {
    /// The secret, if there is one that can be read.
    pub(crate) fn secret(&self) -> Option<Secret> {
        Secret::parse(self.text.as_ref()?).ok()
    }
}
