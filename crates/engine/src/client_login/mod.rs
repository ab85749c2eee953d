//! The login of clients: from the first packet to the first query.
//!
//! - `arrive`: a client connects, and others are closed for it. `prelogin`: what unauthenticated clients may cost.
//! - `steps`: a login, step by step. `events`: what happens meanwhile. `greet`: a client becomes ready for queries.
//!   `loads`: the worker of a client.
//! - `opening`: from a client's first byte to its startup packet, with its encryption.
//! - `login`: by which method a client must prove who it is, and against which secret. `exchange`: the messages of the
//!   proof. `hashing`: passwords that helpers hash. `checks`: passwords that LDAP or PAM checks, and tokens. `user_names`: names of the operating system's users.
//!   `auth_throttle`: failed logins delay the refusal of the next ones.
//! - `auth_lookups`: secrets that are queried from a server. `auth_query`, `auth_queries`: the query, in the pool that
//!   runs it.
//! - `welcome`: what a client is sent that has logged in.
//! - `state`, `step`, `secret_query`, `reported`: values that these parts take and return.
//!
//! Each part owns its fields, and returns the next step ([`step::EntryStep`]); `steps` carries it out.

pub(crate) mod arrive;
pub(crate) mod auth_lookups;
pub(crate) mod auth_queries;
pub(crate) mod auth_query;
pub(crate) mod auth_throttle;
mod checks;
pub(crate) mod events;
mod exchange;
pub(crate) mod greet;
mod hashing;
pub(crate) mod loads;
pub(crate) mod login;
pub(crate) mod opening;
pub(crate) mod prelogin;
pub(crate) mod reported;
pub(crate) mod secret_query;
pub(crate) mod state;
pub(crate) mod step;
pub(crate) mod steps;
mod user_names;
pub(crate) mod welcome;

use weir_config::Config;

/// The parts of a worker's logins.
pub(crate) struct ClientLogin {
    packets: opening::StartupPackets,
    logins: login::Logins,
    pub(crate) lookups: auth_lookups::AuthLookups,
    throttle: auth_throttle::AuthThrottle,
    /// The load of workers; worker 0 has it.
    pub(crate) loads: loads::Loads,
}

impl ClientLogin {
    /// `key` is the same in all workers of the process; `uid` is the operating system's user that it runs as.
    pub(crate) fn new(key: [u8; 32], uid: u32, config: &Config) -> ClientLogin {
        ClientLogin {
            packets: opening::StartupPackets::default(),
            logins: login::Logins::new(key, uid, config),
            lookups: auth_lookups::AuthLookups::default(),
            throttle: auth_throttle::AuthThrottle::default(),
            loads: loads::Loads::default(),
        }
    }

    /// Applies a configuration.
    pub(crate) fn apply_config(&mut self, config: &Config) {
        self.logins.apply_config(config);
        self.lookups.forget_all();
    }
}
