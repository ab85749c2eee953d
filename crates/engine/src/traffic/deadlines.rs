//! What is due when: time-outs of clients and servers, the pools' duties, the statistics' periods.
//!
//! A deadline is computed from the state it depends on, when its moment may have come; the timers only wake.

use weir_admin::{Command, Show};
use weir_base::{Peer, Span, Time, WorkerId};
use weir_session::{Refusal, from_server};

use crate::admin::gather::Caller;
use crate::cluster::messages::WorkerCommand;
use crate::common::FollowUp;
use crate::peers::{ClientPhase, ClientSlot, ServerPhase, ServerSlot, ServerState};
use crate::pools::Reading;
use crate::port::{Io, Level};
use crate::timers::Who;
use crate::traffic::holding::{LinkState, is_timed};
use crate::{Engine, period};

/// How long a query of ours may take where the operator set no limit.
const OWN_QUERY_TIMEOUT: Span = Span::from_secs(60);

/// How long a server may be silent that owes answers to a client that has closed its side: then nobody waits for them any
/// more, and both are let go.
pub(crate) const LAST_ANSWERS: Span = Span::from_secs(60);

impl Engine {
    /// Does what is due.
    pub(crate) fn ticks<I: Io>(&mut self, now: Time, io: &mut I) {
        while let Some((when, who)) = self.common.timers().due(now) {
            match who {
                Who::Peer(_) | Who::Pool(_) if self.admin.halt.is_suspended() => self.admin.halt.defer(when, who),
                Who::Flush => self.flush_due(now, io),
                Who::Peer(peer) => self.peer_due(now, when, peer, io),
                Who::Pool(ix) => {
                    let Some(slot) = self.pools.find_mut(ix) else { continue };
                    if slot.armed == when {
                        slot.armed = Time::NEVER;
                        self.common.follow_up(FollowUp::PollPool(ix));
                    }
                }
                Who::Dns => self.names_due(now, io),
                Who::Stats => {
                    self.admin.stats_at = Time::NEVER;
                    self.end_period(now, io);
                    self.common.arm(Who::Stats, now + period(self.common.config()), &mut self.admin.stats_at);
                }
                Who::Gather(id) => self.gathered_too_late(now, id, io),
                Who::Shutdown => self.shutdown_due(now, io),
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
        if self.common.timers().is_littered() {
            let peers = &mut self.peers;
            self.common.timers().retain(|when, who| match who {
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
        self.common.arm(Who::Peer(server.peer), deadline, &mut server.armed);
        self.peers.put(server.peer, crate::peers::Entry::Server(server));
    }

    /// When a client must have moved on.
    pub(crate) fn client_deadline(&self, client: &ClientSlot) -> Time {
        match &client.phase {
            ClientPhase::Header
            | ClientPhase::Opening { .. }
            | ClientPhase::Handshake(_)
            | ClientPhase::Moving(_)
            | ClientPhase::AuthLookup(_)
            | ClientPhase::Login(_) => client.connected_at.deadline(self.common.config().client_login_timeout),
            ClientPhase::Ready(_) if client.link.is_none() && !client.pause.waits => {
                client.request_at.deadline(self.idle_timeout(client))
            }
            ClientPhase::Ready(_) if client.ended => self.last_answers_due(client),
            ClientPhase::Delayed(delayed) => delayed.until,
            ClientPhase::Canceller => client.connected_at.deadline(self.common.config().limits.cancel_wait_timeout),
            _ => Time::NEVER,
        }
    }

    /// Until when the server of a client that has closed its side must have said something. Its silence says nothing while
    /// one of the two does not read what the other has said.
    fn last_answers_due(&self, client: &ClientSlot) -> Time {
        let Some(server) = client.link.and_then(|server| self.peers.get_server(server)) else { return Time::NEVER };
        let stuck = client.pause.full || client.pause.peer_full;
        let heard_at = if stuck { self.common.now() } else { server.heard_at };
        heard_at.max(client.request_at).deadline(LAST_ANSWERS)
    }

    /// How long a client without a server may idle: its own user decides (PgBouncer), not the one its pool forces on it.
    fn idle_timeout(&self, client: &ClientSlot) -> Span {
        let slot = self.pools.get(client.pool);
        if self.common.config().users.is_empty() || *slot.user == *client.user {
            return slot.config.limits.client_idle_timeout;
        }
        let own = self.common.config().users.get(&*client.user).and_then(|rules| rules.client_idle_timeout);
        let pool = || self.common.config().pool(&slot.name).map(|pool| pool.limits.client_idle_timeout);
        own.or_else(pool).unwrap_or(slot.config.limits.client_idle_timeout)
    }

    fn client_due<I: Io>(&mut self, now: Time, peer: Peer, io: &mut I) {
        let Some(mut client) = self.peers.take_client(peer) else { return };
        let deadline = self.client_deadline(&client);
        if deadline > now {
            self.common.arm(Who::Peer(peer), deadline, &mut client.armed);
            return self.peers.put(peer, crate::peers::Entry::Client(client));
        }
        match &client.phase {
            ClientPhase::Delayed(delayed) => {
                let refusal = delayed.refusal.clone();
                self.refuse(now, client, refusal, io);
            }
            ClientPhase::Ready(_) if client.link.is_some() => {
                io.close(peer);
                self.client_gone(now, client, io);
            }
            ClientPhase::Ready(_) => self.refuse(now, client, Refusal::ClientIdleTimeout, io),
            ClientPhase::Canceller => self.client_leaves(now, client, io),
            _ => self.refuse(now, client, Refusal::LoginTimeout, io),
        }
    }

    /// When a server that is linked, or works for us, must have moved on; and what its client is told if it has not.
    fn server_deadline(&self, server: &ServerSlot) -> (Time, Refusal) {
        let limits = &self.pools.get(server.pool).config.limits;
        match &server.state {
            ServerState::Up(_, ServerPhase::Linked) => server.holding.deadline(limits),
            ServerState::Up(
                _,
                ServerPhase::Checking
                | ServerPhase::SyncingParameters
                | ServerPhase::Resetting(_)
                | ServerPhase::ConnectQueryAgain
                | ServerPhase::AuthQuery(_),
            ) => {
                // A query of ours: as long as a client's may take, and never for ever.
                let limit = [limits.query_timeout, limits.server_connect_timeout].into_iter().find(|t| !t.is_zero());
                let limit = limit.unwrap_or(OWN_QUERY_TIMEOUT);
                (server.own_since.deadline(limit), Refusal::QueryTimeout)
            }
            _ => (Time::NEVER, Refusal::QueryTimeout),
        }
    }

    /// Sees to it that a linked server's time-outs are looked at in time.
    #[inline]
    fn watch_server(&mut self, server: &mut ServerSlot) {
        let limits = &self.pools.get(server.pool).config.limits;
        if is_timed(limits) {
            let (deadline, _) = server.holding.deadline(limits);
            self.common.arm(Who::Peer(server.peer), deadline, &mut server.armed);
        }
    }

    /// Time-outs may have changed: those whose clients are silent are looked at in time, too.
    pub(crate) fn watch_linked(&mut self) {
        let linked = self.peers.servers().filter(|server| server.phase() == Some(ServerPhase::Linked));
        let linked: Vec<Peer> = linked.map(|server| server.peer).collect();
        for peer in linked {
            let Some(mut server) = self.peers.take_server(peer) else { continue };
            self.watch_server(&mut server);
            self.peers.put(peer, crate::peers::Entry::Server(server));
        }
    }

    /// Something has happened to a link: is the server held, and who must move next? `half`: a message of the client's is
    /// half-way to it.
    #[inline]
    pub(crate) fn follow(&mut self, now: Time, server: &mut ServerSlot, half: bool, told: &from_server::ServerOutcome) {
        let (full, paused) = (server.full, server.paused);
        let Some((up, ServerPhase::Linked)) = server.up() else { return };
        let standing = LinkState {
            held: !up.is_quiet() || half,
            working: up.is_working(),
            awaits_client: paused || (!full && up.awaits_client()),
            progress: up.progress(),
            answered: told.answered,
            ended: told.committed || told.transactions > 0,
        };
        server.holding.follow(now, standing);
        self.watch_server(server);
    }

    /// The same, where nothing was said: a socket is full, or has room again.
    pub(crate) fn follow_link(&mut self, server: Peer) {
        let Some(client) = self.peers.get_server(server).and_then(|server| server.link) else { return };
        let Some(client) = self.peers.get_client(client) else { return };
        let ClientPhase::Ready(session) = &client.phase else { return };
        let half = session.is_mid_message();
        let Some(mut server) = self.peers.take_server(server) else { return };
        self.follow(self.common.now(), &mut server, half, &from_server::ServerOutcome::default());
        self.peers.put(server.peer, crate::peers::Entry::Server(server));
    }

    fn server_due<I: Io>(&mut self, now: Time, peer: Peer, io: &mut I) {
        let Some(mut server) = self.peers.take_server(peer) else { return };
        let (deadline, refusal) = self.server_deadline(&server);
        let client = server.link;
        if deadline > now {
            self.common.arm(Who::Peer(peer), deadline, &mut server.armed);
        }
        let ours = server.phase() != Some(ServerPhase::Linked);
        if deadline <= now && ours {
            // Nothing of a client's was sent: it may have another server.
            self.log_server(Level::Warning, &server, format_args!("no answer to a query of ours"), io);
            io.close(peer);
            return self.server_gone(now, server, io);
        }
        self.peers.put(peer, crate::peers::Entry::Server(server));
        if deadline <= now
            && let Some(client) = client
        {
            // The server is closed with its client, not cancelled (PgBouncer's query_timeout).
            self.mark_for_close(peer);
            self.refuse_handle(now, client, refusal, io);
        }
    }

    /// A statistics period has ended. Averages are those since the start of the last complete one (PgBouncer's rule), so they
    /// do not jump at its end.
    fn end_period<I: Io>(&mut self, now: Time, io: &mut I) {
        for ix in self.pools.indices() {
            let slot = self.pools.get_mut(ix);
            slot.previous = slot.latest;
            slot.latest = Reading { stats: slot.stats, at: now };
        }
        if self.common.worker() == WorkerId(0) && self.common.config().log.stats {
            // One line for the process: what all workers have counted.
            let ask = WorkerCommand::Report { counts: false };
            self.scatter(now, Caller::Nobody, Command::Show(Show::Stats), &ask, io);
        }
    }
}
