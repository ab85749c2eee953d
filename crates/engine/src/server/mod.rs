//! Servers: from the connect to the end of the connection.
//!
//! - `slot`: a server in the table. `open`: a pool opens a server. `permits`: what limits of the process allow.
//!   `login`: a server's login, and `login_steps`: each step of the login. `close`: how a server's connection is
//!   closed. `ending`: a connection that the server has not ended yet.
//! - `connection`: where a server is, and how it was reached. `hosts`: which of a pool's servers is tried, and which is
//!   fit.
//! - `credentials`, `failures`: what a pool knows to log in, and how its logins have gone. `login_failure`: whether a
//!   failed login may succeed later.
//! - `unresponsive`, `probe`: hosts that give no answer. `silence`, `silence_watch`: hosts that acknowledge
//!   nothing of what was sent. `login_throttle`: how many logins a host gets at once, and
//!   when a host that is down is tried. `dns`: addresses of names. `vanished`: servers on addresses that a name no
//!   longer has.
//! - `idle`: idle servers that another pool needs closed. `pinned`: why a server's client keeps it.

pub(crate) mod close;
pub(crate) mod connection;
pub(crate) mod credentials;
pub(crate) mod dns;
pub(crate) mod ending;
pub(crate) mod failures;
pub(crate) mod hosts;
pub(crate) mod idle;
pub(crate) mod login;
pub(crate) mod login_failure;
pub(crate) mod login_steps;
pub(crate) mod login_throttle;
pub(crate) mod open;
pub(crate) mod permits;
pub(crate) mod pinned;
pub(crate) mod probe;
mod reading;
pub(crate) mod silence;
pub(crate) mod silence_watch;
pub(crate) mod slot;
pub(crate) mod unresponsive;
pub(crate) mod vanished;

/// What this worker's connections to servers share.
#[derive(Default)]
pub(crate) struct HostStates {
    /// Logins at servers under way, and pools that wait for one.
    pub(crate) throttle: login_throttle::LoginThrottle,
    /// Hosts that give no answer.
    pub(crate) unresponsive: unresponsive::UnresponsiveHosts,
    /// The results of DNS look-ups.
    pub(crate) dns: dns::Dns,
}
