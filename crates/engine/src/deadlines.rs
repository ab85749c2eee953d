//! What is due when: time-outs of clients and servers, the pools' duties, the statistics' periods.
//!
//! A deadline is computed from the state it depends on, when its moment may have come; the timers only wake.

use weir_base::{Peer, Span, Time};
use weir_pgwire::TxStatus;
use weir_session::Refusal;

use crate::peers::{ClientSlot, Doing, Phase, ServerSlot, ServerState};
use crate::port::{Io, Level};
use crate::timers::Who;
use crate::{Engine, Todo, period};

/// How long a query of ours may take where the operator set no limit.
const OWN_QUERY_TIMEOUT: Span = Span::from_secs(60);

impl Engine {
    /// Does what is due.
    pub(crate) fn ticks<I: Io>(&mut self, now: Time, io: &mut I) {
        while let Some((when, who)) = self.timers.due(now) {
            match who {
                Who::Peer(peer) => self.peer_due(now, when, peer, io),
                Who::Pool(ix) => {
                    let slot = self.pools.get_mut(ix);
                    if slot.armed == when {
                        slot.armed = Time::NEVER;
                        self.todo.push_back(Todo::Settle(ix));
                    }
                }
                Who::Stats => {
                    self.stats_at = Time::NEVER;
                    self.end_period(now, io);
                    self.timers.arm(Who::Stats, now + period(&self.config), &mut self.stats_at);
                }
                Who::Gather(id) => self.gathered_too_late(now, id, io),
                Who::Shutdown => {
                    self.shutdown_armed = Time::NEVER;
                    if self.shutdown_by <= now {
                        io.log(Level::Warning, format_args!("shutdown_timeout is over; clients are dropped"));
                        io.exit(0);
                    }
                }
            }
        }
    }

    fn peer_due<I: Io>(&mut self, now: Time, when: Time, peer: Peer, io: &mut I) {
        if let Some(client) = self.peers.client(peer) {
            if client.armed == when {
                client.armed = Time::NEVER;
                self.client_due(now, peer, io);
            }
        } else if let Some(server) = self.peers.server(peer) {
            if server.armed == when {
                server.armed = Time::NEVER;
                self.server_due(now, peer, io);
            }
        } else if self.peers.cancel(peer).is_some_and(|c| c.armed == when) {
            self.cancel_due(now, peer, io);
        }
    }

    /// Drops the wake-ups of sessions that are gone, if there are many.
    pub(crate) fn tidy_timers(&mut self) {
        if self.timers.is_littered() {
            let peers = &mut self.peers;
            self.timers.retain(|when, who| match who {
                Who::Peer(peer) => peers.is_armed(peer, when),
                _ => true,
            });
        }
    }

    /// A query of ours was sent to a server: it must be answered in time, like a client's.
    pub(crate) fn watch_own_query(&mut self, now: Time, server: Peer) {
        let Some(mut server) = self.peers.take_server(server) else { return };
        server.own_since = now;
        let deadline = self.server_deadline(&server).0;
        self.timers.arm(Who::Peer(server.peer), deadline, &mut server.armed);
        self.peers.put(server.peer, crate::peers::Entry::Server(server));
    }

    /// When a client must have moved on.
    pub(crate) fn client_deadline(&self, client: &ClientSlot) -> Time {
        match &client.phase {
            Phase::Opening { .. } | Phase::Moving(_) | Phase::Login(_) => {
                client.connected_at.deadline(self.config.client_login_timeout)
            }
            Phase::Ready(_) if client.link.is_none() && !client.pause.waits => {
                let limits = &self.pools.get(client.pool).config.limits;
                client.request_at.deadline(limits.client_idle_timeout)
            }
            Phase::Canceller => client.connected_at.deadline(self.config.limits.cancel_wait_timeout),
            _ => Time::NEVER,
        }
    }

    fn client_due<I: Io>(&mut self, now: Time, peer: Peer, io: &mut I) {
        let Some(mut client) = self.peers.take_client(peer) else { return };
        let deadline = self.client_deadline(&client);
        if deadline > now {
            self.timers.arm(Who::Peer(peer), deadline, &mut client.armed);
            return self.peers.put(peer, crate::peers::Entry::Client(client));
        }
        match client.phase {
            Phase::Ready(_) => self.refuse(now, client, Refusal::ClientIdleTimeout, io),
            Phase::Canceller => self.client_leaves(now, client, io),
            _ => self.refuse(now, client, Refusal::LoginTimeout, io),
        }
    }

    /// When a linked server must have moved on, and what its client is told if it has not.
    fn server_deadline(&self, server: &ServerSlot) -> (Time, Refusal) {
        let limits = &self.pools.get(server.pool).config.limits;
        let query = server.query_at.min(Time::NEVER);
        let query = if query == Time::NEVER { Time::NEVER } else { query.deadline(limits.query_timeout) };
        let mut soonest = (query, Refusal::QueryTimeout);
        let up = match &server.state {
            ServerState::Up(up, Doing::Linked) => up,
            ServerState::Up(_, Doing::Checking | Doing::Agreeing | Doing::Resetting) => {
                // A query of ours: as long as a client's may take, and never for ever.
                let limit = [limits.query_timeout, limits.server_connect_timeout].into_iter().find(|t| !t.is_zero());
                let limit = limit.unwrap_or(OWN_QUERY_TIMEOUT);
                return (server.own_since.deadline(limit), Refusal::QueryTimeout);
            }
            _ => return (Time::NEVER, Refusal::QueryTimeout),
        };
        if up.status() != TxStatus::Idle {
            if !up.is_busy() {
                let idle = server.heard_at.deadline(limits.idle_transaction_timeout);
                if idle < soonest.0 {
                    soonest = (idle, Refusal::IdleTransactionTimeout);
                }
            }
            let whole = match server.transaction_at {
                Time::NEVER => Time::NEVER,
                since => since.deadline(limits.transaction_timeout),
            };
            if whole < soonest.0 {
                soonest = (whole, Refusal::TransactionTimeout);
            }
        }
        soonest
    }

    /// Sees to it that a server's time-outs are looked at in time.
    #[inline]
    pub(crate) fn watch_server(&mut self, server: &mut ServerSlot) {
        let limits = &self.pools.get(server.pool).config.limits;
        if limits.query_timeout.is_zero()
            && limits.idle_transaction_timeout.is_zero()
            && limits.transaction_timeout.is_zero()
        {
            return;
        }
        let (deadline, _) = self.server_deadline(server);
        self.timers.arm(Who::Peer(server.peer), deadline, &mut server.armed);
    }

    fn server_due<I: Io>(&mut self, now: Time, peer: Peer, io: &mut I) {
        let Some(mut server) = self.peers.take_server(peer) else { return };
        let (deadline, refusal) = self.server_deadline(&server);
        let client = server.link;
        if deadline > now {
            self.timers.arm(Who::Peer(peer), deadline, &mut server.armed);
        }
        let ours = server.doing() != Some(Doing::Linked);
        if deadline <= now && ours {
            // Nothing of a client's was sent: it may have another server.
            io.log(Level::Warning, format_args!("S-{:#x}: no answer to a query of ours", server.id));
            io.close(peer);
            return self.server_gone(now, server, io);
        }
        self.peers.put(peer, crate::peers::Entry::Server(server));
        if deadline <= now
            && let Some(client) = client
        {
            // The server is closed with its client, not cancelled (PgBouncer's query_timeout).
            self.doom(peer);
            self.refuse_handle(now, client, refusal, io);
        }
    }

    /// A client has waited long enough to be told that it waits.
    pub(crate) fn notice_waiting<I: Io>(&mut self, ix: u32, client: Peer, io: &mut I) {
        let Some(client) = self.peers.client(client) else { return };
        let mut buffer = Vec::new();
        let fields = weir_pgwire::ErrorFields {
            severity: "NOTICE",
            sqlstate: "00000",
            message: "no server connection available in the pool currently, client being queued",
            detail: None,
            hint: None,
        };
        weir_pgwire::put_back::notice(&mut buffer, &fields);
        if matches!(client.phase, Phase::Ready(_)) {
            io.send(client.peer, &buffer);
        }
        let pool = self.pools.get(ix);
        io.log(Level::Info, format_args!("{}/{}: a client is queued for query_wait_notify", pool.name, pool.user));
    }

    fn end_period<I: Io>(&mut self, now: Time, io: &mut I) {
        for ix in self.pools.indices() {
            let slot = self.pools.get_mut(ix);
            if self.config.log.stats && slot.stats.xact_count != slot.previous.xact_count {
                let span = now.since(slot.previous_at);
                let per = slot.stats.sub(&slot.previous).averages(span);
                io.log(
                    Level::Info,
                    format_args!(
                        "stats: {}/{}: {} xacts/s, {} queries/s, in {} B/s, out {} B/s, xact {} us, query {} us, wait {} us",
                        slot.name, slot.user, per.xact_count, per.query_count, per.received, per.sent, per.xact_time,
                        per.query_time, per.wait_time
                    ),
                );
            }
            slot.previous = slot.stats;
            slot.previous_at = now;
        }
    }
}
