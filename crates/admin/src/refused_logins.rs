//! Clients whose login was refused, by who, from where and why.
//!
//! Owns the bounds: [`MOST`] kinds, [`MOST_OF_ORIGIN`] of one origin, and names of [`LONGEST`] bytes. Names are what
//! clients without a login have sent, so the origin that sends many different ones has them counted as one.

use weir_base::{Origin, is_hidden, prefix};

/// The most kinds that are kept apart.
const MOST: usize = 32;
/// The most kinds of one origin that are kept apart.
const MOST_OF_ORIGIN: usize = 4;
/// The longest name, and the longest reason, that is kept, in bytes.
const LONGEST: usize = 64;
const LONGEST_REASON: usize = 160;
/// A kind that was not seen for this long gives way to a new one: ten minutes, in microseconds.
const STALE: u64 = 600_000_000;

/// Why a client that has asked for TLS left without a login.
pub const TLS_NOT_OFFERED: &str = "the client requires TLS, as with sslmode=require, and Weir offers none";

/// Refused logins of one kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RefusedLogin {
    /// The user that the client named; empty where several are counted as one.
    pub user: String,
    /// The pool that the client named as its database; empty where several are counted as one.
    pub database: String,
    /// The client's address, or who the client is on this machine.
    pub origin: Origin,
    /// The error that clients got.
    pub why: String,
    /// What to do about it.
    pub hint: Option<&'static str>,
    /// Whether its TLS failed, or was not offered, before the client could name a user.
    pub is_handshake: bool,
    /// Whether a limit of clients was reached.
    pub is_limit: bool,
    /// How many logins were refused so, since the process began.
    pub count: u64,
    /// When the last one was: microseconds since 1970.
    pub last: u64,
}

/// The refused logins of a worker, or of all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RefusedLogins(Vec<RefusedLogin>);

impl RefusedLogin {
    fn is_like(&self, other: &RefusedLogin) -> bool {
        (self.origin, &self.user, &self.database, &self.why) == (other.origin, &other.user, &other.database, &other.why)
    }
}

impl RefusedLogins {
    /// The kinds, the most frequent first.
    pub fn list(&self) -> &[RefusedLogin] {
        &self.0
    }

    /// Adds a refused login, or the count of another worker's. Linear in [`MOST`].
    pub fn add(&mut self, mut login: RefusedLogin) {
        shorten(&mut login.user, LONGEST);
        shorten(&mut login.database, LONGEST);
        shorten(&mut login.why, LONGEST_REASON);
        if !self.0.iter().any(|known| known.is_like(&login)) {
            let of_origin = self.0.iter().filter(|known| known.origin == login.origin).count();
            if of_origin + 1 >= MOST_OF_ORIGIN {
                login.user.clear();
                login.database.clear();
                "its logins, by various names".clone_into(&mut login.why);
            }
        }
        match self.0.iter().position(|known| known.is_like(&login)) {
            Some(at) => {
                self.0[at].count += login.count;
                self.0[at].last = self.0[at].last.max(login.last);
            }
            None if self.0.len() < MOST => self.0.push(login),
            None => {
                let oldest = self.0.iter_mut().min_by_key(|known| known.last);
                if let Some(oldest) = oldest.filter(|oldest| oldest.last.saturating_add(STALE) < login.last) {
                    *oldest = login;
                }
            }
        }
        self.0.sort_by_key(|known| std::cmp::Reverse(known.count));
    }

    /// Adds what another worker has counted.
    pub(crate) fn merge(&mut self, other: RefusedLogins) {
        other.0.into_iter().for_each(|login| self.add(login));
    }
}

fn shorten(text: &mut String, longest: usize) {
    text.retain(|c| !is_hidden(c));
    text.truncate(prefix(text, longest).len());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(user: &str, origin: u32, last: u64) -> RefusedLogin {
        RefusedLogin {
            user: user.to_owned(),
            database: "shop".to_owned(),
            origin: Origin::V4(origin),
            why: "password authentication failed".to_owned(),
            hint: None,
            is_handshake: false,
            is_limit: false,
            count: 1,
            last,
        }
    }

    #[test]
    fn the_same_kind_is_counted_and_workers_add_up() {
        let (mut one, mut other) = (RefusedLogins::default(), RefusedLogins::default());
        (0..3).for_each(|at| one.add(login("ann", 1, at)));
        one.add(login("bob", 1, 9));
        (0..5).for_each(|at| other.add(login("bob", 1, at)));
        one.merge(other);
        let counts: Vec<_> = one.list().iter().map(|login| (login.user.as_str(), login.count, login.last)).collect();
        assert_eq!(counts, [("bob", 6, 9), ("ann", 3, 2)]);
    }

    #[test]
    fn one_origin_with_many_names_displaces_nobody() {
        let mut logins = RefusedLogins::default();
        (0..10_000).for_each(|at| logins.add(login(&format!("user{at}"), 6, at)));
        logins.add(login("ann", 1, 10_001));
        assert_eq!(logins.list().len(), MOST_OF_ORIGIN + 1);
        assert_eq!(logins.list().iter().map(|login| login.count).sum::<u64>(), 10_001);
        assert!(logins.list()[0].user.is_empty() && logins.list()[0].origin == Origin::V4(6));
        assert!(logins.list().iter().any(|login| login.user == "ann"));
    }

    #[test]
    fn what_is_kept_is_bounded_and_old_kinds_give_way() {
        let mut logins = RefusedLogins::default();
        (0..1_000).for_each(|host| logins.add(login("ann", host, 1)));
        assert_eq!(logins.list().len(), MOST);
        logins.add(login("new", 9_999, 2 + STALE));
        assert!(logins.list().iter().any(|login| login.user == "new"));
        let mut long = login(&"x\n".repeat(1_000), 8_888, 3 + STALE);
        long.database = "é".repeat(1_000);
        logins.add(long);
        assert!(logins.list().iter().all(|l| l.user.len() <= LONGEST && l.database.len() <= LONGEST));
    }
}
