//! Connections to servers: where they go, and how they log in.
//!
//! - `login`: the steps of a login of ours, from the connect to the first client. `hosts`: which of a pool's servers is
//!   tried, and which will do.
//! - `login_throttle`: how many logins a host gets at once. `dns`: what look-ups say.

pub(crate) mod dns;
pub(crate) mod hosts;
pub(crate) mod login;
pub(crate) mod login_throttle;

/// What this worker's connections to servers share.
#[derive(Default)]
pub(crate) struct Backends {
    /// Logins at servers under way, and pools that wait for theirs.
    pub(crate) throttle: login_throttle::LoginThrottle,
    /// What look-ups said.
    pub(crate) dns: dns::Dns,
}
