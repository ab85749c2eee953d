//! Timers: timeouts of clients and servers, the pools' deadlines, the statistics periods.

use weir_admin::{Command, Show};
use weir_base::{Peer, Time, WorkerId};
use weir_session::Refusal;

use crate::admin::gather::Caller;
use crate::backends::login;
use crate::cluster::messages::WorkerCommand;
use crate::common::FollowUp;
use crate::engine::{Engine, period};
use crate::peers::{ClientPhase, ClientSlot, ServerPhase};
use crate::port::{Io, Level};
use crate::timers::Who;
use crate::traffic::deadlines;

impl Engine {
    /// Handles all timers that are due.
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
                Who::Dns => self.dns_due(now, io),
                Who::AwayHosts => self.away_hosts_due(now, io),
                Who::Stats => {
                    self.admin.stats_at = Time::NEVER;
                    self.end_period(now, io);
                    self.common.arm(Who::Stats, now + period(self.common.config()), &mut self.admin.stats_at);
                }
                Who::Budget => self.budget_due(now, io),
                Who::Health => self.health_due(now, io),
                Who::Gather(id) => self.gathered_too_late(now, id, io),
                Who::Shutdown => self.shutdown_due(now, io),
                Who::Announcement => self.announcement_due(now, io),
                Who::Dismissal => self.dismiss_waiting(now, io),
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
        } else if self.peers.forward(peer).is_some_and(|slot| slot.armed == when) {
            self.forward_due(now, peer, io);
        } else if self.peers.ending(peer).is_some_and(|slot| slot.armed == when) {
            self.ending_due(now, peer, io);
        }
    }

    /// Drops the timers of closed sessions, if there are many.
    pub(crate) fn tidy_timers(&mut self) {
        if self.common.timers().is_littered() {
            let peers = &mut self.peers;
            self.common.timers().retain(|when, who| match who {
                Who::Peer(peer) => peers.is_armed(peer, when),
                _ => true,
            });
        }
    }

    /// The deadline of a client.
    pub(crate) fn client_deadline(&self, client: &ClientSlot) -> Time {
        deadlines::client_deadline(&self.common, &self.peers, &self.pools, client)
    }

    fn client_due<I: Io>(&mut self, now: Time, peer: Peer, io: &mut I) {
        let Some(mut client) = self.peers.take_client(peer) else { return };
        if let Some(refusal) = self.never_reached(now, &client) {
            return self.refuse(now, client, refusal, io);
        }
        let deadline = self.client_deadline(&client);
        if deadline > now {
            self.common.arm(Who::Peer(peer), deadline, &mut client.armed);
            return self.peers.put_client(client);
        }
        match &client.phase {
            ClientPhase::Delayed(delayed) => {
                let refusal = delayed.refusal.clone();
                self.refuse(now, client, refusal, io);
            }
            ClientPhase::Ready(_) | ClientPhase::Streaming(_) if client.link.is_some() => {
                io.close(peer);
                self.client_gone(now, client, io);
            }
            ClientPhase::Ready(_) => self.refuse(now, client, Refusal::ClientIdleTimeout, io),
            ClientPhase::Canceller => self.client_leaves(now, client, io),
            ClientPhase::Welcome(_)
                if deadlines::may_take_last_welcome(&self.pools, &client)
                    && deadlines::login_due(&self.common, &client) > now =>
            {
                self.take_last_welcome(now, client, io);
            }
            ClientPhase::Welcome(_) => {
                let (_, why) = self.cause_of_wait(now, client.pool);
                let detail = format!("{} {why}", login::failed_for(self.pools.get(client.pool)));
                self.refuse(now, client, Refusal::LoginTimeoutServerDown { detail }, io);
            }
            _ => self.refuse(now, client, Refusal::LoginTimeout, io),
        }
    }

    fn server_due<I: Io>(&mut self, now: Time, peer: Peer, io: &mut I) {
        let Some(mut server) = self.peers.take_server(peer) else { return };
        let (deadline, refusal) = deadlines::server_deadline(self.pools.get(server.pool), &server);
        let client = server.link;
        if deadline > now {
            self.common.arm(Who::Peer(peer), deadline, &mut server.armed);
        }
        let ours = server.phase() != Some(ServerPhase::Linked);
        if deadline <= now && ours {
            // Nothing of a client's was sent: it may get another server.
            self.log_server(Level::Warning, &server, format_args!("no answer to a query of ours"), io);
            self.drop_connection(&server, io);
            return self.server_gone(now, server, io);
        }
        self.peers.put_server(server);
        if deadline <= now
            && let Some(client) = client
        {
            // The server is closed with its client, not cancelled (PgBouncer's query_timeout).
            self.mark_for_close(peer);
            self.refuse_handle(now, client, refusal, io);
        }
    }

    /// Timeouts may have changed: sets the timers of linked servers again.
    pub(crate) fn watch_linked(&mut self) {
        let linked = self.peers.servers().filter(|server| server.phase() == Some(ServerPhase::Linked));
        let linked: Vec<Peer> = linked.map(|server| server.peer).collect();
        for peer in linked {
            if let Some(server) = self.peers.server(peer) {
                deadlines::watch_server(&mut self.common, self.pools.get(server.pool), server);
            }
        }
    }

    /// A statistics period has ended. Averages are those since the start of the last complete one (PgBouncer's rule), so they
    /// do not jump at its end.
    fn end_period<I: Io>(&mut self, now: Time, io: &mut I) {
        self.admin.console_counts.end_period(now);
        for ix in self.pools.indices() {
            let slot = self.pools.get_mut(ix);
            slot.counts.end_period(now);
        }
        if self.common.worker() == WorkerId(0) && self.common.config().log.stats {
            // One line for the process: the counts of all workers.
            let ask = WorkerCommand::Report { counts: false };
            self.scatter(now, Caller::Engine, Command::Show(Show::Stats), &ask, io);
        }
    }
}
