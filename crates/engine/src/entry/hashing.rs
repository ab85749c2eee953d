//! Passwords of clients that a helper hashes, and the results that are kept.
//!
//! Owns who waits for a helper, in the order of their coming, and what is remembered so that each password is hashed once.
//! What is hashed and why is `weir-session`'s and `weir-auth`'s matter.
//!
//! Bounds: [`UNDER_WAY`] jobs are with helpers at once, [`MOST_WAITING`] clients wait for theirs, and whoever comes then is
//! refused; a wait ends with `client_login_timeout`. [`MOST_KEPT`] results are kept, of stored passwords and of given ones
//! that proved to be right: what a stranger makes up takes nobody's place.

use std::collections::{HashMap, VecDeque};

use weir_base::{Peer, Time};
use weir_session::Refusal;
use weir_session::login::LoginStep;

use crate::Engine;
use crate::common::Job;
use crate::entry::state::{Hashing, SaltedKey};
use crate::peers::{ClientPhase, ClientSlot};
use crate::port::{Io, Work};

/// The most hashed passwords that are kept, unless more users are listed.
const MOST_KEPT: usize = 4096;
/// Jobs of this worker that helpers have at once.
const UNDER_WAY: usize = 16;
/// The most clients that wait for a helper: a few seconds of work for one.
const MOST_WAITING: usize = 1000;

/// What is hashed, and was.
#[derive(Default)]
pub(crate) struct Salting {
    kept: HashMap<SaltedKey, [u8; 32]>,
    under_way: usize,
    /// Some of them may have left.
    waiting: VecDeque<Peer>,
}

impl Salting {
    /// Forgets all results, as a reload does.
    pub(crate) fn forget_all(&mut self) {
        self.kept.clear();
    }

    fn keep(&mut self, key: SaltedKey, salted: [u8; 32], most: usize) {
        if self.kept.len() >= most
            && let Some(other) = self.kept.keys().next().cloned()
        {
            self.kept.remove(&other);
        }
        self.kept.insert(key, salted);
    }
}

impl Engine {
    /// A client's login needs a password hashed.
    pub(crate) fn salt<I: Io>(
        &mut self,
        now: Time,
        mut client: Box<ClientSlot>,
        key: SaltedKey,
        stored: bool,
        io: &mut I,
    ) {
        if let Some(salted) = self.entry.salting.kept.get(&key).copied() {
            return self.go_on_salted(now, client, &salted, io);
        }
        let room = self.entry.salting.under_way < UNDER_WAY;
        if !room && self.entry.salting.waiting.len() >= MOST_WAITING {
            self.forget_those_who_left();
            if self.entry.salting.waiting.len() >= MOST_WAITING {
                return self.refuse(now, client, Refusal::TooManyLogins, io);
            }
        }
        let peer = client.peer;
        if let ClientPhase::Login(phase) = &mut client.phase {
            phase.hashing = Some(Hashing { key, stored, salted: None });
            phase.busy = true;
        }
        self.wait_more(client, io);
        self.entry.salting.waiting.push_back(peer);
        self.next_salts(io);
    }

    fn forget_those_who_left(&mut self) {
        let peers = &self.peers;
        self.entry.salting.waiting.retain(|peer| peers.get_client(*peer).is_some());
    }

    /// Gives helpers as much work as they may have.
    fn next_salts<I: Io>(&mut self, io: &mut I) {
        while self.entry.salting.under_way < UNDER_WAY {
            let Some(peer) = self.entry.salting.waiting.pop_front() else { return };
            let Some(ClientPhase::Login(phase)) = self.peers.client(peer).map(|client| &client.phase) else { continue };
            let Some(Hashing { key, .. }) = &phase.hashing else { continue };
            let (password, salt, iterations) = key.clone();
            let job = self.common.begin_job(Job::ClientSalt(peer));
            self.entry.salting.under_way += 1;
            io.help(job, Work::SaltClient { password, salt, iterations });
        }
    }

    /// A helper has hashed the password of a client's login.
    pub(crate) fn client_salted<I: Io>(&mut self, now: Time, peer: Peer, salted: &[u8; 32], io: &mut I) {
        self.entry.salting.under_way -= 1;
        self.next_salts(io);
        let Some(mut client) = self.peers.take_client(peer) else { return };
        self.unpause_client(&mut client, io);
        let most = MOST_KEPT.max(self.common.config().auth.users.len());
        if let ClientPhase::Login(phase) = &mut client.phase {
            phase.busy = false;
            if let Some(hashing) = &mut phase.hashing {
                hashing.salted = Some(*salted);
                if hashing.stored {
                    self.entry.salting.keep(hashing.key.clone(), *salted, most);
                }
            }
        }
        self.go_on_salted(now, client, salted, io);
    }

    /// A client has proven who it is: what it gave, and was hashed, is a password.
    pub(crate) fn keep_proven(&mut self, client: &mut ClientSlot) {
        let most = MOST_KEPT.max(self.common.config().auth.users.len());
        let ClientPhase::Login(phase) = &mut client.phase else { return };
        if let Some(Hashing { key, stored: false, salted: Some(salted) }) = phase.hashing.take() {
            self.entry.salting.keep(key, salted, most);
        }
    }

    fn go_on_salted<I: Io>(&mut self, now: Time, mut client: Box<ClientSlot>, salted: &[u8; 32], io: &mut I) {
        let ClientPhase::Login(phase) = &mut client.phase else { return self.insert_client(client) };
        let next = phase.login.as_mut().map_or(LoginStep::Wait, |login| login.salted(salted));
        self.login_step(now, client, next, io);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded_and_one_more_costs_one() {
        let mut salting = Salting::default();
        for number in 0..100_u32 {
            salting.keep(("pw".into(), number.to_be_bytes().to_vec(), 4096), [1; 32], 10);
        }
        assert_eq!(salting.kept.len(), 10);
    }
}
