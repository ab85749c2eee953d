//! Clients get servers and give them back, and servers are replaced.

use weir_base::{ConnId, Time};

use crate::pool::Pool;
use crate::state::{RunState, State};
use crate::types::{Acquire, CloseReason, RefuseReason, Release};

impl<P> Pool<P> {
    /// A client needs a server. It must neither wait nor have one.
    #[inline]
    pub fn acquire(&mut self, client: ConnId, now: Time) -> Acquire {
        if let Some(answer) = self.answer_at_once(client, now) {
            return answer;
        }
        if self.settings.max_waiting > 0 && self.queue.len() >= self.settings.max_waiting {
            return Acquire::Refused(RefuseReason::TooManyWaiting);
        }
        if self.queue.is_empty() {
            // The declined connect may have been for no client in particular; a client is worth another try.
            self.declined_until = self.declined_until.min(self.declined_pause);
        }
        // All duties depend on the oldest client, and on the oldest without a notice.
        let concerns_duties = self.queue.is_empty() || self.queue.unnotified().is_none();
        self.queue.push(client, now);
        if concerns_duties {
            self.deadline = self.deadline.min(self.waiting_ends());
        }
        Acquire::Queued
    }

    /// A client's server was lost before anything was sent to it, or the client has waited in another process. It takes
    /// its place in the queue by its age; `waiting_since` is the moment of its [`Pool::acquire`].
    pub fn requeue(&mut self, client: ConnId, waiting_since: Time, now: Time) -> Acquire {
        if let Some(answer) = self.answer_at_once(client, now) {
            return answer;
        }
        let notified = waiting_since.deadline(self.settings.query_wait_notify) <= now;
        self.queue.insert_by_age(client, waiting_since, notified);
        self.needs_poll = true;
        Acquire::Queued
    }

    /// The refusal for a client that need not or must not wait.
    #[inline]
    fn answer_at_once(&mut self, client: ConnId, now: Time) -> Option<Acquire> {
        match self.run_state {
            RunState::Shut => Some(Acquire::Refused(RefuseReason::ShuttingDown)),
            RunState::Paused | RunState::Suspended => None,
            RunState::Running if !self.queue.is_empty() => None,
            RunState::Running if !self.idle.is_empty() => {
                self.link_idle(client, now).map(|(server, check)| Acquire::Granted { server, check })
            }
            RunState::Running => self.is_dead(now).then_some(Acquire::Refused(RefuseReason::ServerDown)),
        }
    }

    /// A linked server is clean again. Where the answer is [`Release::Next`], it is linked to that client.
    pub fn release(&mut self, server: ConnId, proof: P, now: Time) -> Release {
        self.give_back(server, proof, true, now)
    }

    /// A linked server to which nothing was sent is clean again: if it may be used only once, that use is still to
    /// come.
    pub fn release_unused(&mut self, server: ConnId, proof: P, now: Time) -> Release {
        self.give_back(server, proof, !self.settings.server_lifetime.is_zero(), now)
    }

    fn give_back(&mut self, server: ConnId, proof: P, ages: bool, now: Time) -> Release {
        let key = self.servers.find(server).expect("a released server is in the pool");
        assert!(matches!(self.servers[key].state, State::Linked(_)), "{server:?} is released but not linked");
        self.linked -= 1;
        let unwanted = self.unwanted(key).or_else(|| self.makes_room());
        if let Some(reason) = unwanted.or_else(|| if ages { self.too_old(key, now) } else { None }) {
            self.forget(key);
            return Release::Close(reason);
        }
        let check = self.settings.checks && self.settings.server_check_delay.is_zero();
        self.assign(key, proof, check, now)
    }

    /// A lent server has been returned, clean, under a handle of its own. If the answer is [`Release::Next`], it is
    /// linked to that client.
    pub fn returned(&mut self, lent: ConnId, server: ConnId, proof: P, now: Time) -> Release {
        let key = self.servers.find(lent).expect("a server that was lent is in the pool");
        self.servers.rename(key, server);
        self.needs_poll = true;
        self.release(server, proof, now)
    }

    /// Every present server is closed: an idle one and one that logs in now, a linked one when it is released.
    pub fn reconnect(&mut self, _now: Time) {
        self.epoch = self.epoch.wrapping_add(1);
        self.mark_idle_for_close(CloseReason::Reconnect);
        self.mark_login_for_close(CloseReason::Reconnect);
        // Clients that wait for a server that is linked now may have to be refused.
        self.needs_poll = true;
        self.mark_dedicated_for_close(CloseReason::Reconnect);
    }
}
