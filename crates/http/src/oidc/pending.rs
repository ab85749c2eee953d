//! Logins that have begun and not come back: bounded in number, in total and for each network, and in time. Each comes
//! back once, into the browser that began it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::access::{Digest, digest};
use crate::admission::network;

/// How long a login at the provider may take.
pub(super) const LONGEST: Duration = Duration::from_secs(600);
/// Pending logins, and those of one network. A further one replaces the oldest.
const MOST: usize = 1024;
const OF_NETWORK: usize = 64;

/// What a login needs when it comes back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct PendingLogin {
    /// The secret in the browser's cookie, hashed.
    pub(super) cookie: Digest,
    pub(super) nonce: String,
    pub(super) verifier: String,
    pub(super) redirect_url: String,
    /// The provider at which the login began.
    pub(super) issuer: String,
    pub(super) client_id: String,
}

/// All pending logins, by the hash of their state.
#[derive(Default)]
pub(super) struct PendingLogins(HashMap<Digest, (IpAddr, Instant, PendingLogin)>);

impl PendingLogins {
    pub(super) fn begin(&mut self, state: &str, from: IpAddr, login: PendingLogin, now: Instant) {
        let from = network(from);
        self.0.retain(|_, (_, begun, _)| now < *begun + LONGEST);
        if self.0.values().filter(|(of, ..)| *of == from).count() >= OF_NETWORK {
            self.drop_oldest(|of| of == from);
        }
        if self.0.len() >= MOST {
            self.drop_oldest(|_| true);
        }
        self.0.insert(digest(state), (from, now, login));
    }

    fn drop_oldest(&mut self, among: impl Fn(IpAddr) -> bool) {
        let found = self.0.iter().filter(|(_, (of, ..))| among(*of)).min_by_key(|(_, (_, begun, _))| *begun);
        if let Some(state) = found.map(|(state, _)| *state) {
            self.0.remove(&state);
        }
    }

    /// Takes the login with this state, if it began in the browser with this cookie, and not too long ago.
    pub(super) fn take(&mut self, state: &str, cookie: &str, now: Instant) -> Option<PendingLogin> {
        let state = digest(state);
        // A foreign browser must not end the login of its owner.
        self.0.get(&state).filter(|(_, _, login)| login.cookie == digest(cookie))?;
        let (_, begun, login) = self.0.remove(&state)?;
        (now < begun + LONGEST).then_some(login)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(cookie: &str) -> PendingLogin {
        PendingLogin {
            cookie: digest(cookie),
            nonce: "n".into(),
            verifier: "v".into(),
            redirect_url: "r".into(),
            issuer: "i".into(),
            client_id: "c".into(),
        }
    }

    fn address(number: u32) -> IpAddr {
        IpAddr::V4(number.into())
    }

    #[test]
    fn a_login_comes_back_once_in_time_and_into_its_own_browser() {
        let (mut pending, now) = (PendingLogins::default(), Instant::now());
        pending.begin("s", address(1), login("mine"), now);
        assert_eq!(pending.take("s", "other", now), None);
        assert_eq!(pending.take("t", "mine", now), None);
        assert_eq!(pending.take("s", "mine", now), Some(login("mine")));
        assert_eq!(pending.take("s", "mine", now), None, "a second time");
        pending.begin("s", address(1), login("mine"), now);
        assert_eq!(pending.take("s", "mine", now + LONGEST), None);
    }

    #[test]
    fn one_network_replaces_its_own_logins_and_all_together_are_bounded() {
        let (mut pending, now) = (PendingLogins::default(), Instant::now());
        pending.begin("first", address(9), login("mine"), now);
        for number in 0..200 {
            pending.begin(&format!("a{number}"), address(1), login("x"), now + Duration::from_millis(number));
        }
        assert_eq!(pending.0.len(), OF_NETWORK + 1);
        assert!(pending.take("a199", "x", now).is_some() && pending.take("a0", "x", now).is_none());
        assert!(pending.take("first", "mine", now).is_some());
        for number in 0..2 * MOST as u32 {
            pending.begin(&format!("b{number}"), address(number), login("x"), now);
        }
        assert_eq!(pending.0.len(), MOST);
        pending.begin("late", address(1), login("x"), now + LONGEST + Duration::from_secs(1));
        assert_eq!(pending.0.len(), 1, "those that took too long are gone");
    }
}
