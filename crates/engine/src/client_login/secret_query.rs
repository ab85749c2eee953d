//! The requests for users' secrets between workers (auth_query), and the answers.

use std::sync::Arc;

use weir_auth::{Mocks, Secret};
use weir_config::AuthLookup;

/// The database that a client requested, and its user.
pub(crate) type Subject = (Arc<str>, Arc<str>);

/// The request for a user's secret, to the worker of the pool that runs the query.
#[derive(Debug)]
pub(crate) struct SecretQuery {
    /// The request's number at the worker that sent it.
    pub(crate) id: u64,
    /// The pool and the query.
    pub(crate) lookup: AuthLookup,
    /// The user whose secret is requested.
    pub(crate) user: Arc<str>,
}

/// The answer of an auth_query.
#[derive(Clone, Debug)]
pub(crate) struct UserSecret {
    /// Whether there is such a user. One that may not log in with a secret can be let in without one (`trust`).
    pub(crate) exists: bool,
    /// The secret as written; none if there is no such user, or it may not log in with a secret.
    pub(crate) text: Option<Arc<str>>,
    /// Mock secrets of users without one: like those of the users that the server was queried about.
    pub(crate) mocks: Arc<Mocks>,
}

impl UserSecret {
    /// The secret, if there is a valid one.
    pub(crate) fn secret(&self) -> Option<Secret> {
        Secret::parse(self.text.as_ref()?).ok()
    }
}
