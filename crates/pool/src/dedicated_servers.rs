//! A pool's operations for clients that need a server of their own, and how room is made.

use weir_base::{ConnId, Time};

use crate::pool::Pool;
use crate::state::{Login, RunState, State};
use crate::types::{Acquire, CloseReason, Effect, RefuseReason};

impl<P> Pool<P> {
    /// A client needs a server that no other client has had or will have. It must neither wait nor have one. When the
    /// engine opens a server for it, [`Pool::opening`] names it; [`Pool::connected`] links the two. Such a server is
    /// never released: the engine closes it and reports it by [`Pool::lost`].
    pub fn acquire_dedicated(&mut self, client: ConnId, now: Time) -> Acquire {
        match self.run_state {
            RunState::Shut => return Acquire::Refused(RefuseReason::ShuttingDown),
            RunState::Running if self.is_dead(now) => return Acquire::Refused(RefuseReason::ServerDown),
            _ => {}
        }
        self.declined_until = self.declined_until.min(self.declined_pause);
        self.dedicated.queue.push(client, now);
        self.needs_poll = true;
        Acquire::Queued
    }

    /// The server has refused the login for the one client that it was for. No conclusion about other logins is drawn:
    /// no other client waits for that server, and this client no longer waits.
    pub fn dedicated_refused(&mut self, server: ConnId) {
        self.dedicated.end_login(false);
        if let Some(key) = self.servers.find(server) {
            self.forget(key);
        }
    }

    /// Takes the client that has waited longest out of the queues.
    pub(crate) fn pop_oldest(&mut self) -> Option<(ConnId, Time)> {
        match (self.dedicated.queue.oldest(), self.queue.oldest()) {
            (Some(since), other) if other.is_none_or(|other| since <= other) => self.dedicated.queue.pop(),
            _ => self.queue.pop(),
        }
    }

    /// Why a server that has just become free is closed for a client that waits for one of its own.
    pub(crate) fn makes_room(&self) -> Option<CloseReason> {
        let since = self.dedicated.queue.oldest()?;
        let first = self.queue.oldest().is_none_or(|other| since <= other);
        let room = self.login != Login::None || self.servers.len() - self.closing.len() < self.limit(0);
        (first && !room && self.run_state == RunState::Running).then_some(CloseReason::Evicted)
    }

    /// An idle server goes when a client waits for one of its own and there is no room.
    pub(crate) fn evict_for_dedicated(&mut self) -> Option<Effect> {
        let reason = self.makes_room()?;
        self.idle.last().map(|key| self.close(key, reason))
    }

    /// Servers of one client are closed at once where others are closed at their release, as these may never be
    /// released.
    pub(crate) fn mark_dedicated_for_close(&mut self, reason: CloseReason) {
        let linked = |state: &State<P>| matches!(state, State::Linked(_));
        let servers = self.servers.iter().filter(|(_, _, server)| server.dedicated && linked(&server.state));
        for key in servers.map(|(key, _, _)| key).collect::<Vec<_>>() {
            self.linked -= 1;
            self.mark_for_close(key, reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_base::Span;

    use super::*;
    use crate::{ConnectFailure, Release, Settings};

    const START: Time = Time::from_micros(1_000_000_000);

    fn after(secs: u64) -> Time {
        START + Span::from_secs(secs)
    }

    fn client(slot: u32) -> ConnId {
        ConnId::new(1000 + slot, 1)
    }

    fn server(slot: u32) -> ConnId {
        ConnId::new(slot, 1)
    }

    /// A pool of this size with one idle server.
    fn pool(size: u32) -> Pool<()> {
        let settings = Settings {
            size,
            min_size: 0,
            reserve_size: 0,
            reserve_timeout: Span::ZERO,
            query_wait_timeout: Span::from_secs(120),
            query_wait_notify: Span::ZERO,
            server_lifetime: Span::from_secs(3600),
            server_idle_timeout: Span::from_secs(600),
            server_connect_timeout: Span::from_secs(15),
            server_login_retry: Span::from_secs(15),
            server_check_delay: Span::from_secs(30),
            checks: false,
            round_robin: false,
            connects_per_second: 0,
            max_waiting: 0,
        };
        let mut pool = Pool::new(settings, 1, START);
        assert_eq!(pool.acquire(client(0), START), Acquire::Queued);
        assert_eq!(effects(&mut pool, START), [Effect::Open]);
        assert_eq!(pool.opening(server(0), START), None);
        assert!(matches!(pool.connected(server(0), (), START), Release::Next { .. }));
        assert_eq!(pool.release(server(0), (), START), Release::Idle);
        pool
    }

    fn effects(pool: &mut Pool<()>, now: Time) -> Vec<Effect> {
        std::iter::from_fn(|| pool.poll(now)).collect()
    }

    fn closed(slot: u32, reason: CloseReason) -> Effect {
        Effect::Close { server: server(slot), reason }
    }

    #[test]
    fn an_idle_server_of_others_is_not_given_away_but_makes_room() {
        let mut pool = pool(1);
        assert_eq!(pool.acquire_dedicated(client(1), after(1)), Acquire::Queued);
        assert_eq!(effects(&mut pool, after(1)), [closed(0, CloseReason::Evicted), Effect::Open]);
        assert_eq!(pool.opening(server(1), after(1)), Some(client(1)));
        assert_eq!(pool.snapshot(after(1)).waiting, 1);
        let answer = pool.connected(server(1), (), after(2));
        assert_eq!(answer, Release::Next { client: client(1), waited: Span::from_secs(1), check: false });
        // The server counts, and no other client gets it.
        assert_eq!(pool.acquire(client(2), after(3)), Acquire::Queued);
        assert_eq!(effects(&mut pool, after(3)), []);
        pool.lost(server(1), after(4));
        assert_eq!(effects(&mut pool, after(4)), [Effect::Open]);
        assert_eq!(pool.opening(server(2), after(4)), None);
    }

    #[test]
    fn the_client_that_has_waited_longest_is_next_of_either_kind() {
        let mut pool = pool(1);
        assert!(matches!(pool.acquire(client(1), after(1)), Acquire::Granted { .. }));
        assert_eq!(pool.acquire(client(2), after(2)), Acquire::Queued);
        assert_eq!(pool.acquire_dedicated(client(3), after(3)), Acquire::Queued);
        assert_eq!(pool.acquire(client(4), after(4)), Acquire::Queued);
        assert_eq!(pool.oldest_wait(), Some(after(2)));
        assert!(
            matches!(pool.release(server(0), (), after(5)), Release::Next { client: next, .. } if next == client(2))
        );
        assert_eq!(pool.release(server(0), (), after(6)), Release::Close(CloseReason::Evicted));
        assert_eq!(effects(&mut pool, after(6)), [Effect::Open]);
        assert_eq!(pool.opening(server(1), after(6)), Some(client(3)));
        assert!(
            matches!(pool.connected(server(1), (), after(6)), Release::Next { client: next, .. } if next == client(3))
        );
        pool.lost(server(1), after(7));
        assert_eq!(effects(&mut pool, after(7)), [Effect::Open]);
        assert_eq!(pool.opening(server(2), after(7)), None);
    }

    #[test]
    fn a_client_that_leaves_ends_its_login() {
        let mut pool = pool(2);
        assert_eq!(pool.acquire_dedicated(client(1), START), Acquire::Queued);
        assert_eq!(effects(&mut pool, START), [Effect::Open]);
        assert_eq!(pool.opening(server(1), START), Some(client(1)));
        pool.leave(client(1), START);
        assert_eq!(effects(&mut pool, START), [closed(1, CloseReason::OwnerLeft)]);
        assert_eq!((pool.len(), pool.snapshot(START).waiting), (1, 0));
    }

    #[test]
    fn a_login_that_fails_is_tried_again_and_one_that_is_refused_is_not() {
        let mut pool = pool(2);
        for slot in [1, 2] {
            assert_eq!(pool.acquire_dedicated(client(slot), after(u64::from(slot))), Acquire::Queued);
        }
        assert_eq!(effects(&mut pool, after(2)), [Effect::Open]);
        assert_eq!(pool.opening(server(1), after(2)), Some(client(1)));
        pool.connect_failed(server(1), ConnectFailure::Elsewhere, after(3));
        assert_eq!(effects(&mut pool, after(3)), [Effect::Open]);
        assert_eq!(pool.opening(server(2), after(3)), Some(client(1)), "in its old place");
        pool.dedicated_refused(server(2));
        assert_eq!(effects(&mut pool, after(3)), [Effect::Open], "no pause: it says nothing of other logins");
        assert_eq!(pool.opening(server(3), after(3)), Some(client(2)));
        assert!(matches!(pool.acquire(client(9), after(3)), Acquire::Granted { .. }));
    }

    #[test]
    fn a_reconnect_closes_those_that_would_never_be_free() {
        let mut pool = pool(3);
        assert_eq!(pool.acquire_dedicated(client(1), START), Acquire::Queued);
        assert_eq!(effects(&mut pool, START), [Effect::Open]);
        pool.opening(server(1), START);
        pool.connected(server(1), (), START);
        assert!(matches!(pool.acquire(client(2), START), Acquire::Granted { .. }));
        pool.reconnect(START);
        assert_eq!(effects(&mut pool, START), [closed(1, CloseReason::Reconnect)]);
        assert_eq!(pool.release(server(0), (), START), Release::Close(CloseReason::Reconnect));
    }

    #[test]
    fn a_wait_for_a_dedicated_server_times_out_like_others() {
        let mut pool = pool(1);
        assert!(matches!(pool.acquire(client(1), START), Acquire::Granted { .. }));
        assert_eq!(pool.acquire_dedicated(client(2), START), Acquire::Queued);
        assert_eq!(effects(&mut pool, after(119)), []);
        let refused =
            Effect::Refuse { client: client(2), why: RefuseReason::WaitTimeout, waited: Span::from_secs(120) };
        assert_eq!(effects(&mut pool, after(120)), [refused]);
    }
}
