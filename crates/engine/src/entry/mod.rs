//! The login of clients: from the first packet to the first query.
//!
//! - `arrive`: from its first byte to its startup packet. `startup_packets`: those that were read lately. `tls`: its encryption. `prelogin`: what unauthenticated clients may
//!   cost.
//! - `login`: by which method a client must prove who it is, and the steps of the proof. `hashing`: passwords that helpers
//!   hash. `checks`: passwords that LDAP or PAM checks. `user_names`: names of the operating system's users. `auth_throttle`: failures slow the next ones down.
//! - `auth_lookups`: secrets that are queried from a server. `auth_query`: the query.
//! - `welcome`: what a client is sent that has logged in.
//! - `login_log`: the log's lines about logins. `recent`: the last few values of something.
//! - `state`, `step`, `secret_query`, `reported`: values that these parts take and return.
//!
//! Each part owns its fields, and returns the next step ([`step::EntryStep`]); `flows::login` carries it out.

pub(crate) mod arrive;
pub(crate) mod auth_lookups;
pub(crate) mod auth_query;
pub(crate) mod auth_throttle;
mod checks;
mod hashing;
pub(crate) mod login;
pub(crate) mod login_log;
pub(crate) mod prelogin;
mod recent;
pub(crate) mod reported;
pub(crate) mod secret_query;
pub(crate) mod startup_packets;
pub(crate) mod state;
pub(crate) mod step;
pub(crate) mod tls;
mod user_names;
pub(crate) mod welcome;

use weir_config::Config;

/// The parts of a worker's logins.
pub(crate) struct ClientEntry {
    pub(crate) packets: startup_packets::StartupPackets,
    pub(crate) logins: login::Logins,
    pub(crate) lookups: auth_lookups::AuthLookups,
    pub(crate) queries: auth_query::AuthQueries,
    pub(crate) throttle: auth_throttle::AuthThrottle,
    pub(crate) prelogin: prelogin::PreLogin,
}

impl ClientEntry {
    /// `key` is the same in all workers of the process; `uid` is the operating system's user that it runs as.
    pub(crate) fn new(key: [u8; 32], uid: u32, config: &Config) -> ClientEntry {
        ClientEntry {
            packets: startup_packets::StartupPackets::default(),
            logins: login::Logins::new(key, uid, config),
            lookups: auth_lookups::AuthLookups::default(),
            queries: auth_query::AuthQueries::default(),
            throttle: auth_throttle::AuthThrottle::default(),
            prelogin: prelogin::PreLogin::default(),
        }
    }

    /// Applies a configuration.
    pub(crate) fn adopt(&mut self, config: &Config) {
        self.logins.adopt(config);
        self.lookups.forget_all();
    }
}
