//! Passwords of clients that helpers hash, and a cache of the results.
//!
//! Owns the queue for helpers, in turn by origin, and the cache, so that each password is hashed once.
//! `weir-session` and `weir-auth` decide what is hashed.
//!
//! Bounds: [`MAX_RUNNING`] jobs are with helpers at the same time, [`MAX_WAITING`] clients wait, and further ones are
//! refused, or the last one of an origin with more of them; a wait ends with `client_login_timeout`. [`MAX_KEPT`]
//! results are cached, of stored passwords and of given ones that proved right: unauthenticated clients can't replace
//! any.

use std::collections::HashMap;

use weir_base::{ConnId, FairQueue, Origin};

use crate::common::{Cx, FollowUp, Job};
use crate::port::{Io, Work};
use crate::server::connection::SaltedKey;

/// The limit of cached results, unless more users are listed.
const MAX_KEPT: usize = 4096;
/// The limit of this worker's jobs with helpers.
const MAX_RUNNING: usize = 16;
/// The limit of clients that wait for a helper: a few seconds of work for one.
const MAX_WAITING: usize = 1000;

/// The result of a request to hash.
pub(crate) enum Requested {
    /// The result is cached.
    Known([u8; 32]),
    /// A helper hashes the password, now or later: [`PasswordHashing::done`].
    Queued,
    /// Too many wait already.
    Full,
}

/// Waiting and cached hashes.
#[derive(Default)]
pub(crate) struct PasswordHashing {
    kept: HashMap<SaltedKey, [u8; 32]>,
    running: usize,
    waiting: FairQueue<SaltedKey>,
}

impl PasswordHashing {
    /// A client's login needs a password hashed.
    pub(crate) fn request<I: Io>(
        &mut self,
        cx: &mut Cx<'_, I>,
        (client, from): (ConnId, Origin),
        key: &SaltedKey,
    ) -> Requested {
        if let Some(salted) = self.kept.get(key) {
            return Requested::Known(*salted);
        }
        if self.waiting.len() >= MAX_WAITING {
            let Some(displaced) = self.waiting.displace(from, |_| true) else { return Requested::Full };
            cx.common.follow_up(FollowUp::Displaced(displaced));
        }
        self.waiting.push(from, client, key.clone());
        self.start(cx);
        Requested::Queued
    }

    /// A helper has finished a job: starts the next one.
    pub(crate) fn done<I: Io>(&mut self, cx: &mut Cx<'_, I>) {
        self.running -= 1;
        self.start(cx);
    }

    /// A client no longer waits.
    pub(crate) fn leave(&mut self, client: ConnId) {
        self.waiting.leave(client);
    }

    /// Caches a result. Beyond the limit it replaces any other.
    pub(crate) fn keep(&mut self, key: SaltedKey, salted: [u8; 32], users: usize) {
        if self.kept.len() >= MAX_KEPT.max(users)
            && let Some(other) = self.kept.keys().next().cloned()
        {
            self.kept.remove(&other);
        }
        self.kept.insert(key, salted);
    }

    /// Drops all results, after a reload.
    pub(crate) fn forget_all(&mut self) {
        self.kept = HashMap::new();
    }

    /// Passes as many jobs to helpers as allowed.
    fn start<I: Io>(&mut self, cx: &mut Cx<'_, I>) {
        while self.running < MAX_RUNNING {
            let Some((client, (password, salt, iterations))) = self.waiting.take(|_| true) else { return };
            self.running += 1;
            let job = cx.common.begin_job(Job::ClientSalt(client));
            cx.io.submit_job(job, Work::SaltClient { password, salt, iterations });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded_and_one_more_costs_one() {
        let mut hashing = PasswordHashing::default();
        for number in 0..2 * MAX_KEPT as u32 {
            hashing.keep(("pw".into(), number.to_be_bytes().to_vec(), 4096), [1; 32], 10);
        }
        assert_eq!(hashing.kept.len(), MAX_KEPT);
    }
}
