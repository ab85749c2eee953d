//! Connections to servers: their targets, and their logins.
//!
//! - `connection`: where a server is, and how it was reached. `login`: the steps of a login of ours, from the connect to the first client. `hosts`: which of a pool's servers is
//!   tried, and which will do.
//! - `credentials`, `failures`: what a pool knows to log in, and how its logins have gone. `outlook`: whether a failed one may
//!   succeed later.
//! - `silence`: hosts that give no answer.
//! - `login_throttle`: how many logins a host gets at once, and when one that is away is tried. `dns`: addresses of names.

pub(crate) mod connection;
pub(crate) mod credentials;
pub(crate) mod dns;
pub(crate) mod failures;
pub(crate) mod hosts;
pub(crate) mod login;
pub(crate) mod login_throttle;
pub(crate) mod outlook;
pub(crate) mod silence;

/// What this worker's connections to servers share.
#[derive(Default)]
pub(crate) struct Backends {
    /// Logins at servers under way, and pools that wait for one.
    pub(crate) throttle: login_throttle::LoginThrottle,
    /// Hosts that give no answer.
    pub(crate) silence: silence::SilentHosts,
    /// The results of DNS look-ups.
    pub(crate) dns: dns::Dns,
}
