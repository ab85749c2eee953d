//! Sessions of logged-in users: in memory, each found by the hash of its cookie, bounded in number and in time.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::secrets::Digest;

/// How long a session lasts without a request, and at most.
const IDLE: Duration = Duration::from_secs(3600);
pub(super) const LONGEST: Duration = Duration::from_secs(12 * 3600);
/// Sessions at the same time; beyond that, the least recently used one ends.
const MOST: usize = 1024;

/// A session of a user.
#[derive(Clone, Debug)]
struct Session {
    user: String,
    /// The account's hash at the login: the session ends when the password changes.
    hash: String,
    begun: Instant,
    used: Instant,
}

/// All sessions.
#[derive(Debug, Default)]
pub(super) struct Sessions(HashMap<Digest, Session>);

impl Sessions {
    /// Begins a session of a user whose account has this hash.
    pub(super) fn begin(&mut self, cookie: Digest, user: String, hash: String, now: Instant) {
        self.0.retain(|_, session| lasts(session, now));
        if self.0.len() >= MOST {
            let oldest = self.0.iter().min_by_key(|(_, session)| session.used).map(|(cookie, _)| *cookie);
            oldest.iter().for_each(|cookie| drop(self.0.remove(cookie)));
        }
        self.0.insert(cookie, Session { user, hash, begun: now, used: now });
    }

    /// The user of a session, and the hash that the account had at the login.
    pub(super) fn find(&mut self, cookie: &Digest, now: Instant) -> Option<(String, String)> {
        let session = self.0.get_mut(cookie).filter(|session| lasts(session, now))?;
        session.used = now;
        Some((session.user.clone(), session.hash.clone()))
    }

    /// Ends a session.
    pub(super) fn end(&mut self, cookie: &Digest) {
        self.0.remove(cookie);
    }
}

fn lasts(session: &Session, now: Instant) -> bool {
    now < session.used + IDLE && now < session.begun + LONGEST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_ends_when_nobody_uses_it_and_after_its_longest_time() {
        let (mut sessions, now) = (Sessions::default(), Instant::now());
        let minutes = |n: u64| now + Duration::from_secs(60 * n);
        sessions.begin([1; 32], "ann".into(), "hash".into(), now);
        assert_eq!(sessions.find(&[1; 32], minutes(59)), Some(("ann".into(), "hash".into())));
        assert!(sessions.find(&[1; 32], minutes(118)).is_some() && sessions.find(&[2; 32], now).is_none());
        assert_eq!(sessions.find(&[1; 32], minutes(179)), None);
        sessions.begin([3; 32], "ann".into(), "hash".into(), now);
        (1..24).for_each(|half| assert!(sessions.find(&[3; 32], minutes(30 * half)).is_some()));
        assert_eq!(sessions.find(&[3; 32], minutes(720)), None);
        sessions.begin([4; 32], "ann".into(), "hash".into(), now);
        sessions.end(&[4; 32]);
        assert_eq!(sessions.find(&[4; 32], now), None);
    }

    #[test]
    fn there_are_never_more_than_so_many() {
        let (mut sessions, now) = (Sessions::default(), Instant::now());
        for number in 0..2 * MOST as u64 {
            let mut cookie = [0; 32];
            cookie[..8].copy_from_slice(&number.to_le_bytes());
            sessions.begin(cookie, "ann".into(), "hash".into(), now + Duration::from_millis(number));
        }
        assert_eq!(sessions.0.len(), MOST);
    }
}
