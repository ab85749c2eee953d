//! The way of a client in: from its first packet to the worker of its pool, who it is, and what it is told.
//!
//! - `arrive`: encryption, startup packet, the way to the right worker. `tls`: what handshakes lead to. `prelogin`: what
//!   clients may cost before they have logged in.
//! - `login`: by which method a client must prove who it is, and the steps of the proof. `auth_query`: secrets that a server
//!   is asked for. `hashing`: passwords that a helper hashes. `auth_throttle`: who fails is slowed down.
//! - `welcome`: what a client is told that is in. `state`, `reported`: what is kept of all this.

pub(crate) mod arrive;
pub(crate) mod auth_query;
pub(crate) mod auth_throttle;
pub(crate) mod hashing;
pub(crate) mod login;
pub(crate) mod prelogin;
pub(crate) mod reported;
pub(crate) mod state;
pub(crate) mod tls;
pub(crate) mod welcome;

use std::sync::Arc;

use weir_auth::{Mocks, ScramPolicy};
use weir_config::Config;

/// What this worker's entry owns.
pub(crate) struct Entry {
    /// Secrets that servers are asked for.
    pub(crate) lookups: auth_query::Lookups,
    pub(crate) policy: ScramPolicy,
    /// What users who are not listed look like.
    pub(crate) mocks: Arc<Mocks>,
    pub(crate) salting: hashing::Salting,
    pub(crate) failures: auth_throttle::Failures,
    pub(crate) prelogin: prelogin::PreLogin,
    pub(crate) user_names: login::UserNames,
}

impl Entry {
    /// `key` is the same in all workers of the process.
    pub(crate) fn new(key: [u8; 32], config: &Config) -> Entry {
        Entry {
            lookups: auth_query::Lookups::default(),
            policy: login::policy(key, config),
            mocks: login::mocks(config),
            salting: hashing::Salting::default(),
            failures: auth_throttle::Failures::default(),
            prelogin: prelogin::PreLogin::default(),
            user_names: login::UserNames::default(),
        }
    }
}
