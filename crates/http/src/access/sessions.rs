//! Sessions of logged-in users: in memory, each found by the hash of its cookie, bounded in number and in time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::secrets::Digest;

/// How long a session lasts without a request, and at most.
const IDLE: Duration = Duration::from_secs(3600);
pub(super) const LONGEST: Duration = Duration::from_secs(12 * 3600);
/// Sessions at the same time; beyond that, the least recently used one ends.
const MOST: usize = 1024;

/// What a session rests on. It ends when that is no longer so.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Proof {
    /// The account's hash at the login: the session ends when the password changes.
    Password(String),
    /// The provider of single sign-on, at the login.
    Provider(Arc<ProviderProof>),
}

/// What a provider said of a user.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct ProviderProof {
    pub(super) issuer: Option<String>,
    pub(super) client_id: Option<String>,
    /// The user's groups that had a role: the session ends when they have none.
    pub(super) groups: Vec<String>,
    /// For the logout at the provider: its token, if it is short, and the panel's address.
    pub(super) id_token: String,
    pub(super) home: String,
}

/// A session of a user.
#[derive(Clone, Debug)]
struct Session {
    user: String,
    proof: Proof,
    begun: Instant,
    used: Instant,
}

/// All sessions.
#[derive(Debug, Default)]
pub(super) struct Sessions(HashMap<Digest, Session>);

impl Sessions {
    /// Begins a session of a user.
    pub(super) fn begin(&mut self, cookie: Digest, user: String, proof: Proof, now: Instant) {
        self.0.retain(|_, session| lasts(session, now));
        if self.0.len() >= MOST {
            let oldest = self.0.iter().min_by_key(|(_, session)| session.used).map(|(cookie, _)| *cookie);
            oldest.iter().for_each(|cookie| drop(self.0.remove(cookie)));
        }
        self.0.insert(cookie, Session { user, proof, begun: now, used: now });
    }

    /// The user of a session, and what it rests on.
    pub(super) fn find(&mut self, cookie: &Digest, now: Instant) -> Option<(String, Proof)> {
        let session = self.0.get_mut(cookie).filter(|session| lasts(session, now))?;
        session.used = now;
        Some((session.user.clone(), session.proof.clone()))
    }

    /// Ends a session; returns what it rested on.
    pub(super) fn end(&mut self, cookie: &Digest) -> Option<Proof> {
        self.0.remove(cookie).map(|session| session.proof)
    }
}

fn lasts(session: &Session, now: Instant) -> bool {
    now < session.used + IDLE && now < session.begun + LONGEST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_ends_when_it_is_unused_and_after_its_longest_time() {
        let (mut sessions, now) = (Sessions::default(), Instant::now());
        let minutes = |n: u64| now + Duration::from_secs(60 * n);
        sessions.begin([1; 32], "ann".into(), Proof::Password("hash".into()), now);
        assert_eq!(sessions.find(&[1; 32], minutes(59)), Some(("ann".into(), Proof::Password("hash".into()))));
        assert!(sessions.find(&[1; 32], minutes(118)).is_some() && sessions.find(&[2; 32], now).is_none());
        assert_eq!(sessions.find(&[1; 32], minutes(179)), None);
        sessions.begin([3; 32], "ann".into(), Proof::Password("hash".into()), now);
        (1..24).for_each(|half| assert!(sessions.find(&[3; 32], minutes(30 * half)).is_some()));
        assert_eq!(sessions.find(&[3; 32], minutes(720)), None);
        sessions.begin([4; 32], "ann".into(), Proof::Password("hash".into()), now);
        sessions.end(&[4; 32]);
        assert_eq!(sessions.find(&[4; 32], now), None);
    }

    #[test]
    fn there_are_never_more_than_so_many() {
        let (mut sessions, now) = (Sessions::default(), Instant::now());
        for number in 0..2 * MOST as u64 {
            let mut cookie = [0; 32];
            cookie[..8].copy_from_slice(&number.to_le_bytes());
            sessions.begin(cookie, "ann".into(), Proof::Password("hash".into()), now + Duration::from_millis(number));
        }
        assert_eq!(sessions.0.len(), MOST);
    }
}
