//! PAUSE, RESUME, KILL, SUSPEND, shutdowns and signals, executed on this worker.

use weir_admin::{Author, Command, CommandError, ServiceState, Show};
use weir_base::{Peer, Span, Time, WorkerId};
use weir_session::Refusal;

use crate::admin::gather::Caller;
use crate::admin::halt::{Until, Watch};
use crate::admin::report::is_outdated;
use crate::cluster::messages::{Drain, Message, Payload, WorkerAnswer, WorkerCommand};
use crate::common::{FollowUp, cx};
use crate::engine::Engine;
use crate::flows::commands::answer;
use crate::handles::PoolIx;
use crate::log::log;
use crate::peers::{ClientPhase, Peers, ServerPhase, ServerState};
use crate::port::{Io, Level, Signal};
use crate::traffic::relay::change_pause;

/// Pools.
impl Engine {
    /// Pauses or resumes a pool to match the operator's commands.
    pub(crate) fn halt_pool(&mut self, now: Time, ix: PoolIx) {
        let draining = self.admin.shutdown.draining() == Some(Drain::Servers);
        self.admin.halt.apply(self.pools.get_mut(ix), draining, now);
        self.common.follow_up(FollowUp::PollPool(ix));
    }

    fn halt_pools<I: Io>(&mut self, now: Time, name: Option<&str>, io: &mut I) {
        for ix in self.pools.named(name) {
            self.halt_pool(now, ix);
            if !self.admin.halt.is_suspended() && self.pools.get(ix).pool.is_paused() {
                self.recall(ix, io);
            }
        }
    }

    /// PAUSE: no server is handed out, and idle ones are closed.
    pub(super) fn pause_databases<I: Io>(&mut self, now: Time, name: Option<&str>, io: &mut I) {
        self.admin.halt.pause(name);
        self.halt_pools(now, name, io);
    }

    /// RESUME of one database, or of all.
    ///
    /// # Errors
    /// The named database is not paused.
    pub(super) fn resume_databases<I: Io>(
        &mut self,
        now: Time,
        name: Option<&str>,
        io: &mut I,
    ) -> Result<(), CommandError> {
        if self.admin.halt.resume(name)? {
            self.wake(now, io);
        }
        self.halt_pools(now, name, io);
        for watch in self.admin.halt.take_lost(name) {
            answer(watch.from, watch.id, WorkerAnswer::Failed(CommandError::NotPaused), io);
        }
        Ok(())
    }

    /// KILL: the clients and servers of a database are disconnected at once, and it stays paused.
    pub(super) fn kill_databases<I: Io>(&mut self, now: Time, name: Option<&str>, io: &mut I) {
        let pools = self.pools.named(name);
        match name {
            Some(name) => self.admin.halt.kill([name.to_owned()]),
            None => {
                let here = pools.iter().map(|ix| self.pools.get(*ix).name.to_string());
                self.admin.halt.kill(self.common.config().pools.keys().cloned().chain(here));
            }
        }
        self.halt_pools(now, name, io);
        let clients: Vec<Peer> = self.peers.clients().filter(|c| pools.contains(&c.pool)).map(|c| c.peer).collect();
        clients.into_iter().for_each(|client| self.refuse_handle(now, client, Refusal::DatabaseKilled, io));
        let servers: Vec<Peer> = self.peers.servers().filter(|s| pools.contains(&s.pool)).map(|s| s.peer).collect();
        servers.into_iter().for_each(|server| self.close_server(now, server, "database removed", io));
    }

    /// Something may have become idle: answers the commands that wait for it, and ends a shutdown that waits for
    /// nothing more.
    pub(crate) fn check_watches<I: Io>(&mut self, io: &mut I) {
        if self.admin.halt.is_watched() {
            let (peers, pools) = (&self.peers, &self.pools);
            let over = self.admin.halt.take_over(|halt, watch| {
                let mut named = pools.named(watch.name.as_deref()).into_iter().map(|ix| &pools.get(ix).pool);
                match watch.until {
                    Until::Quiet => named.all(|pool| pool.is_quiescent()),
                    Until::Flushed => !halt.is_flushing(),
                    // Only its pool knows what is lent.
                    Until::Closed => !named.any(|pool| {
                        let outdated = |server| pool.is_outdated(server) || is_outdated(peers, pools, server);
                        pool.servers().any(|(server, ..)| outdated(server))
                    }),
                }
            });
            for Watch { from, id, .. } in over {
                answer(from, id, WorkerAnswer::Done, io);
            }
        }
        self.check_drained(io);
    }
}

/// SUSPEND.
impl Engine {
    /// SUSPEND: reading stops.
    pub(super) fn suspend<I: Io>(&mut self, now: Time, io: &mut I) {
        self.admin.halt.suspend();
        self.halt_pools(now, None, io);
        let peers: Vec<Peer> =
            self.peers.clients().map(|c| c.peer).chain(self.peers.servers().map(|s| s.peer)).collect();
        peers.iter().for_each(|peer| self.hold(*peer, io));
        let full = peers.into_iter().filter(|peer| is_full(&self.peers, *peer));
        self.admin.halt.flush(cx!(self, now, io), full);
    }

    /// Pauses a peer until RESUME, except for consoles and logins of ours at servers.
    pub(crate) fn hold<I: Io>(&mut self, peer: Peer, io: &mut I) {
        if let Some(client) = self.peers.client(peer) {
            let exempt = matches!(
                client.phase,
                ClientPhase::Console(_) | ClientPhase::Moving(_) | ClientPhase::Canceller | ClientPhase::Gone
            );
            if !exempt {
                change_pause(client, |pause| pause.suspended = true, io);
            }
        } else if let Some(server) = self.peers.server(peer)
            && matches!(server.state, ServerState::Up(..))
            && !matches!(
                server.phase(),
                Some(ServerPhase::Lending { .. } | ServerPhase::Returning | ServerPhase::Leaving)
            )
        {
            server.reading.suspend(|| io.pause(peer));
        }
    }

    /// A SUSPEND has ended: all peers are read again, and deferred deadlines are handled now.
    fn wake<I: Io>(&mut self, now: Time, io: &mut I) {
        let clients: Vec<Peer> = self.peers.clients().filter(|c| c.pause.suspended).map(|c| c.peer).collect();
        for client in clients {
            self.set_pause(client, |pause| pause.suspended = false, io);
        }
        let servers: Vec<Peer> = self.peers.servers().filter(|s| s.reading.is_suspended()).map(|s| s.peer).collect();
        for peer in servers {
            let Some(server) = self.peers.server(peer) else { continue };
            server.reading.wake(|| io.resume(peer));
            server.clock.excuse(now);
        }
        self.admin.halt.wake(cx!(self, now, io));
    }

    /// An input during a SUSPEND has been handled: the sockets that the SUSPEND waits for may be flushed.
    pub(crate) fn check_flushed<I: Io>(&mut self, io: &mut I) {
        let peers = &self.peers;
        if self.admin.halt.are_flushed(|peer| is_full(peers, peer)) {
            self.check_watches(io);
        }
    }

    /// Closes connections that were not flushed within suspend_timeout.
    pub(crate) fn flush_due<I: Io>(&mut self, now: Time, io: &mut I) {
        let cx = cx!(self, now, io);
        let Some(late) = self.admin.halt.flush_due(cx) else { return };
        for peer in late {
            if !is_full(&self.peers, peer) {
                continue;
            }
            let client = match self.peers.server(peer) {
                Some(server) => server.link,
                None => Some(peer),
            };
            client.into_iter().for_each(|client| self.refuse_handle(now, client, Refusal::SuspendTimeout, io));
            self.close_server(now, peer, "suspend_timeout", io);
        }
        self.check_watches(io);
    }

    /// An operator has disconnected. If all is suspended, asks the workers for another one.
    pub(crate) fn check_operators<I: Io>(&mut self, now: Time, io: &mut I) {
        if self.admin.halt.is_suspended() {
            let to_workers = WorkerCommand::Report { counts: false };
            self.scatter(now, Caller::Engine, Command::Show(Show::State), &to_workers, io);
        }
    }

    /// All is suspended, and no operator is connected to end it. As in PgBouncer, it ends.
    pub(super) fn resume_deserted<I: Io>(&mut self, now: Time, io: &mut I) {
        if self.admin.halt.is_suspended() {
            log(Level::Info, format_args!("admin disappeared when suspended, doing RESUME"), io);
            self.resume_all(now, io);
        }
    }
}

/// Whether a peer's socket has a backlog.
fn is_full(peers: &Peers, peer: Peer) -> bool {
    match peers.get_client(peer) {
        Some(client) => client.pause.full && !matches!(client.phase, ClientPhase::Console(_)),
        None => peers.get_server(peer).is_some_and(|server| server.reading.is_full()),
    }
}

/// Signals and shutdowns.
impl Engine {
    /// The process has received a signal.
    pub(crate) fn signal<I: Io>(&mut self, now: Time, signal: Signal, io: &mut I) {
        match signal {
            Signal::Reload => self.begin_reload(now, Caller::Engine, Author::signal(), io),
            Signal::Reread(reread) => self.begin_reread(now, reread, io),
            Signal::Quit => io.exit(0),
            Signal::ShutdownClients if self.admin.shutdown.is_under_way() => {
                log(Level::Info, format_args!("got SIGTERM while shutting down, fast exit"), io);
                io.exit(0)
            }
            Signal::ShutdownClients => {
                let text = "got SIGTERM, shutting down, waiting for all clients disconnect";
                log(Level::Info, format_args!("{text}"), io);
                self.announce_drain(now, Drain::Clients, io);
            }
            Signal::ShutdownServers if self.admin.shutdown.target() == Some(Drain::Servers) => {
                log(Level::Info, format_args!("got SIGINT while shutting down, fast exit"), io);
                io.exit(0)
            }
            Signal::ShutdownServers => {
                let text = "got SIGINT, shutting down, waiting for all servers connections to be released";
                log(Level::Info, format_args!("{text}"), io);
                self.announce_drain(now, Drain::Servers, io);
            }
            Signal::Pause => self.pause_signal(now, io),
            Signal::Resume => self.resume_signal(now, io),
        }
    }

    fn pause_signal<I: Io>(&mut self, now: Time, io: &mut I) {
        if self.admin.halt.state() == ServiceState::Active {
            log(Level::Info, format_args!("got SIGUSR1, pausing all activity"), io);
            self.scatter(now, Caller::Engine, Command::Pause(None), &WorkerCommand::Pause(None), io);
        } else {
            log(Level::Info, format_args!("got SIGUSR1, but already paused/suspended"), io);
        }
    }

    fn resume_signal<I: Io>(&mut self, now: Time, io: &mut I) {
        let (text, resumes) = match self.admin.halt.state() {
            _ if self.admin.shutdown.is_draining() => ("got SIGUSR2 while shutting down, ignoring", false),
            ServiceState::Suspended => ("got SIGUSR2, continuing from SUSPEND", true),
            ServiceState::Paused => ("got SIGUSR2, continuing from PAUSE", true),
            // The command to pause is on its way to the workers, this one included; this shutdown follows it.
            ServiceState::Active if self.admin.gatherings.is_pausing() => ("got SIGUSR2, continuing from PAUSE", true),
            ServiceState::Active => ("got SIGUSR2, but not paused/suspended", false),
        };
        log(Level::Info, format_args!("{text}"), io);
        if resumes {
            self.resume_all(now, io);
        }
    }

    fn resume_all<I: Io>(&mut self, now: Time, io: &mut I) {
        self.scatter(now, Caller::Engine, Command::Resume(None), &WorkerCommand::Resume(None), io);
    }

    /// A signal requests a shutdown: for `shutdown_delay` only health checks see it, unless one was announced before.
    fn announce_drain<I: Io>(&mut self, now: Time, drain: Drain, io: &mut I) {
        let delay = self.common.config().shutdown_delay;
        if delay == Span::ZERO || self.admin.shutdown.is_under_way() || self.admin.halt.is_suspended() {
            return self.begin_drain(now, drain, io);
        }
        let millis = delay.micros() / 1000;
        log(Level::Info, format_args!("not ready any more; new clients are accepted for {millis} ms"), io);
        self.admin.shutdown.announce(cx!(self, now, io), drain, delay);
    }

    /// `shutdown_delay` may be over.
    pub(crate) fn announcement_due<I: Io>(&mut self, now: Time, io: &mut I) {
        if let Some(drain) = self.admin.shutdown.announcement_over(now) {
            self.begin_drain(now, drain, io);
        }
    }

    /// Begins a shutdown that waits.
    pub(super) fn begin_drain<I: Io>(&mut self, now: Time, drain: Drain, io: &mut I) {
        if self.admin.halt.is_suspended() {
            // No client or server could finish.
            log(Level::Info, format_args!("suspend was in progress, going down immediately"), io);
            return io.exit(0);
        }
        io.accept(false);
        let what = match drain {
            Drain::Clients => "clients to leave",
            Drain::Servers => "servers to finish",
        };
        log(Level::Info, format_args!("shutting down: waiting for {what}"), io);
        self.admin.shutdown.begin(cx!(self, now, io), drain);
    }

    /// A shutdown begins on this worker.
    pub(super) fn drain<I: Io>(&mut self, now: Time, drain: Drain, io: &mut I) {
        self.admin.shutdown.drain(drain);
        if drain == Drain::Servers {
            self.halt_pools(now, None, io);
            if self.peers.clients().any(|c| c.state() == "waiting") {
                self.admin.shutdown.dismiss_soon(cx!(self, now, io));
            }
            self.work_off(now, io);
        }
        self.check_drained(io);
    }

    /// The clients that wait for servers when a shutdown begins get an error.
    pub(crate) fn dismiss_waiting<I: Io>(&mut self, now: Time, io: &mut I) {
        self.admin.shutdown.dismissed();
        let waiting: Vec<Peer> = self.peers.clients().filter(|c| c.state() == "waiting").map(|c| c.peer).collect();
        waiting.into_iter().for_each(|peer| self.refuse_handle(now, peer, Refusal::ServersShuttingDown, io));
        self.check_drained(io);
    }

    /// If this worker has nothing left that a shutdown waits for: informs worker 0.
    pub(crate) fn check_drained<I: Io>(&mut self, io: &mut I) {
        let done = match self.admin.shutdown.draining() {
            Some(Drain::Clients) => !self.peers.clients().any(|c| c.is_waited_for()),
            Some(Drain::Servers) if self.admin.shutdown.is_dismissing() => return,
            Some(Drain::Servers) => self.pools.iter().all(|slot| slot.pool.is_quiescent()),
            None => return,
        };
        if done && let Some(drain) = self.admin.shutdown.finished_here() {
            io.post(WorkerId(0), Message(Payload::Drained(drain)), None);
        }
    }

    /// Worker 0: a worker has nothing left that a shutdown waits for.
    pub(crate) fn worker_drained<I: Io>(&mut self, now: Time, worker: WorkerId, drain: Drain, io: &mut I) {
        if !self.admin.shutdown.worker_finished(worker, drain, self.common.workers()) {
            return;
        }
        if self.admin.shutdown.departure().is_some() {
            self.admin.shutdown.all_closed();
            return self.check_departed(io);
        }
        // PgBouncer's texts.
        let whose = match drain {
            Drain::Servers => "server",
            Drain::Clients => "client",
        };
        log(Level::Info, format_args!("{whose} connections dropped, exiting"), io);
        self.depart(now, drain == Drain::Servers, io);
    }

    /// Exits; where nodes share pools, when the servers have ended their connections, so that this node can give its shares away
    /// itself. `closed`: the workers have closed theirs.
    fn depart<I: Io>(&mut self, now: Time, closed: bool, io: &mut I) {
        if self.cluster.budget.pools().next().is_none() {
            return io.exit(0);
        }
        self.admin.shutdown.depart(cx!(self, now, io), closed);
        self.check_departed(io);
    }

    /// Worker 0: a server of a pool that nodes share has ended: was it the last one of a process that exits?
    pub(crate) fn check_departed<I: Io>(&mut self, io: &mut I) {
        let (counter, budget) = (&self.cluster.counter, &self.cluster.budget);
        if self.admin.shutdown.departure() == Some(true)
            && budget.pools().all(|name| counter.servers_of(name) + budget.ending_of(name) == 0)
        {
            io.vacated();
            io.exit(0);
        }
    }

    /// `shutdown_timeout` may be over.
    pub(crate) fn shutdown_due<I: Io>(&mut self, now: Time, io: &mut I) {
        if !self.admin.shutdown.is_over(cx!(self, now, io)) {
            return;
        }
        if self.admin.shutdown.departure().is_some() {
            log(Level::Info, format_args!("servers have not ended all connections: other nodes look for them"), io);
            return io.exit(0);
        }
        log(Level::Warning, format_args!("shutdown_timeout is over; clients are dropped"), io);
        self.depart(now, false, io);
        for database in self.cluster.budget.pools() {
            let close = || Message(Payload::CloseServers(database.as_str().into()));
            (0..self.common.workers()).for_each(|worker| io.post(WorkerId(worker), close(), None));
        }
    }
}
