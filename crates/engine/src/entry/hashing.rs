//! Passwords of clients that helpers hash, and the results that are kept.
//!
//! Owns who waits for a helper, first come, first served, and what is remembered so that each password is hashed once. What
//! is hashed and why is decided in `weir-session` and `weir-auth`.
//!
//! Bounds: [`MAX_RUNNING`] jobs are with helpers at once, [`MAX_WAITING`] clients wait for theirs, and whoever comes then is
//! refused; a wait ends with `client_login_timeout`. [`MAX_KEPT`] results are kept, of stored passwords and of given ones
//! that proved to be right: what an unauthenticated client makes up displaces nothing.

use std::collections::{HashMap, VecDeque};

use weir_base::Peer;

use crate::backends::connection::SaltedKey;
use crate::common::{Cx, Job};
use crate::port::{Io, Work};

/// The most hashed passwords that are kept, unless more users are listed.
const MAX_KEPT: usize = 4096;
/// Jobs of this worker that helpers have at once.
const MAX_RUNNING: usize = 16;
/// The most clients that wait for a helper: a few seconds of work for one.
const MAX_WAITING: usize = 1000;

/// What comes of the wish to have a password hashed.
pub(crate) enum Requested {
    /// It was hashed before.
    Known([u8; 32]),
    /// A helper does it, or will: [`PasswordHashing::done`].
    Queued,
    /// Too many wait already.
    Full,
}

/// What is hashed, and was.
#[derive(Default)]
pub(crate) struct PasswordHashing {
    kept: HashMap<SaltedKey, [u8; 32]>,
    running: usize,
    waiting: VecDeque<(Peer, SaltedKey)>,
}

impl PasswordHashing {
    /// A client's login needs a password hashed.
    pub(crate) fn request<I: Io>(&mut self, cx: &mut Cx<'_, I>, client: Peer, key: &SaltedKey) -> Requested {
        if let Some(salted) = self.kept.get(key) {
            return Requested::Known(*salted);
        }
        if self.waiting.len() >= MAX_WAITING {
            return Requested::Full;
        }
        self.waiting.push_back((client, key.clone()));
        self.start(cx);
        Requested::Queued
    }

    /// A helper has finished a job: the next one begins.
    pub(crate) fn done<I: Io>(&mut self, cx: &mut Cx<'_, I>) {
        self.running -= 1;
        self.start(cx);
    }

    /// A client does not wait any more.
    pub(crate) fn leave(&mut self, client: Peer) {
        self.waiting.retain(|(waiting, _)| *waiting != client);
    }

    /// Keeps a result. One more than fits displaces any other.
    pub(crate) fn keep(&mut self, key: SaltedKey, salted: [u8; 32], users: usize) {
        if self.kept.len() >= MAX_KEPT.max(users)
            && let Some(other) = self.kept.keys().next().cloned()
        {
            self.kept.remove(&other);
        }
        self.kept.insert(key, salted);
    }

    /// Forgets all results, as a reload does.
    pub(crate) fn forget_all(&mut self) {
        self.kept.clear();
    }

    /// Gives helpers as much work as they may have.
    fn start<I: Io>(&mut self, cx: &mut Cx<'_, I>) {
        while self.running < MAX_RUNNING {
            let Some((client, (password, salt, iterations))) = self.waiting.pop_front() else { return };
            self.running += 1;
            let job = cx.common.begin_job(Job::ClientSalt(client));
            cx.io.help(job, Work::SaltClient { password, salt, iterations });
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
