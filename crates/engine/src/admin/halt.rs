//! What the operator has stopped, and the commands that wait for it: PAUSE, SUSPEND, KILL, DISABLE and WAIT_CLOSE.
//!
//! Owns which pools hand out servers, whether sockets are read, and the answers that are given only when everything has
//! come to rest. A SUSPEND reads from no client and no server, keeps the servers, and lets no time-out pass; what it
//! delayed goes on at RESUME. Must not know how a command reached this worker.
//!
//! Invariant: every worker has heard the same commands in the same order, so all agree on what is stopped.

use std::collections::BTreeSet;

use weir_admin::{Command, CommandError, ServiceState, Show};
use weir_base::{Peer, Time, WorkerId};
use weir_session::Refusal;

use crate::Engine;
use crate::admin::gather::Caller;
use crate::cluster::messages::{Drain, WorkerAnswer, WorkerCommand};
use crate::common::FollowUp;
use crate::handles::PoolIx;
use crate::log::log;
use crate::peers::{ClientPhase, ServerPhase, ServerState};
use crate::port::{Io, Level};
use crate::timers::Who;
use crate::traffic::relay::change_pause;

/// What is stopped.
pub(crate) struct Halt {
    /// The whole process.
    pub(crate) serving: ServiceState,
    /// Databases stopped by name.
    pub(crate) paused: BTreeSet<String>,
    /// Databases that take no new clients.
    pub(crate) disabled: BTreeSet<String>,
    /// Commands that wait here.
    pub(crate) watches: Vec<Watch>,
    /// Peers whose sockets had not taken everything when a SUSPEND came.
    flushing: BTreeSet<Peer>,
    /// Deadlines that came during a SUSPEND.
    asleep: Vec<(Time, Who)>,
    /// When a SUSPEND closes what could not be flushed.
    flush_by: Time,
    armed: Time,
}

/// A command that is answered when something has come to rest.
pub(crate) struct Watch {
    pub(crate) from: WorkerId,
    pub(crate) id: u64,
    /// The database that it is about; `None`: all.
    pub(crate) name: Option<String>,
    pub(crate) until: Until,
}

/// What a command waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Until {
    /// No server works (PAUSE).
    Quiet,
    /// No socket owes anything (SUSPEND).
    Flushed,
    /// The servers that are to be replaced are closed (WAIT_CLOSE).
    Closed,
}

impl Default for Halt {
    fn default() -> Self {
        Halt {
            serving: ServiceState::Active,
            paused: BTreeSet::new(),
            disabled: BTreeSet::new(),
            watches: Vec::new(),
            flushing: BTreeSet::new(),
            asleep: Vec::new(),
            flush_by: Time::NEVER,
            armed: Time::NEVER,
        }
    }
}

impl Halt {
    pub(crate) fn is_suspended(&self) -> bool {
        self.serving == ServiceState::Suspended
    }

    /// Whether something may come to rest that somebody waits for.
    pub(crate) fn is_watched(&self) -> bool {
        !self.watches.is_empty()
    }

    /// Whether sockets still have to take what a SUSPEND found.
    pub(crate) fn is_flushing(&self) -> bool {
        !self.flushing.is_empty()
    }

    /// Puts a deadline off until RESUME.
    pub(crate) fn put_off(&mut self, when: Time, who: Who) {
        self.asleep.push((when, who));
    }
}

impl Engine {
    /// Stops or starts a pool as it stands with the operator.
    pub(crate) fn halt_pool(&mut self, now: Time, ix: PoolIx) {
        let draining = self.admin.draining == Some(Drain::Servers);
        let slot = self.pools.get_mut(ix);
        let paused =
            draining || self.admin.halt.serving == ServiceState::Paused || self.admin.halt.paused.contains(&*slot.name);
        match (paused, self.admin.halt.serving) {
            (true, _) => slot.pool.pause(),
            (false, ServiceState::Suspended) => slot.pool.suspend(),
            (false, _) => slot.pool.resume(now),
        }
        self.common.follow_up(FollowUp::PollPool(ix));
    }

    pub(crate) fn halt_pools<I: Io>(&mut self, now: Time, name: Option<&str>, io: &mut I) {
        for ix in self.pools.named(name) {
            self.halt_pool(now, ix);
            if !self.admin.halt.is_suspended() && self.pools.get(ix).pool.is_paused() {
                self.recall(ix, io);
            }
        }
    }

    /// PAUSE: no server is handed out, and those that are free are closed.
    pub(crate) fn pause_databases<I: Io>(&mut self, now: Time, name: Option<&str>, io: &mut I) {
        match name {
            Some(name) => drop(self.admin.halt.paused.insert(name.to_owned())),
            None => self.admin.halt.serving = ServiceState::Paused,
        }
        self.halt_pools(now, name, io);
    }

    /// RESUME. Without a name it ends everything that PAUSE, SUSPEND and KILL have stopped.
    ///
    /// # Errors
    /// The named database is not paused.
    pub(crate) fn resume_databases<I: Io>(
        &mut self,
        now: Time,
        name: Option<&str>,
        io: &mut I,
    ) -> Result<(), CommandError> {
        match name {
            Some(name) if !self.admin.halt.paused.remove(name) => {
                return Err(CommandError::DatabaseNotPaused(name.to_owned()));
            }
            Some(_) => {}
            None => {
                self.admin.halt.paused.clear();
                if std::mem::take(&mut self.admin.halt.serving) == ServiceState::Suspended {
                    self.wake(now, io);
                }
            }
        }
        self.halt_pools(now, name, io);
        // Whoever waits for the rest that this ends will not see it.
        let lost = |w: &Watch| {
            (w.until == Until::Flushed && name.is_none())
                || (w.until == Until::Quiet && name.is_none_or(|name| w.name.as_deref() == Some(name)))
        };
        let (lost, watches) = std::mem::take(&mut self.admin.halt.watches).into_iter().partition(lost);
        self.admin.halt.watches = watches;
        for watch in lost {
            self.answer(watch.from, watch.id, WorkerAnswer::Failed(CommandError::NotPaused), io);
        }
        Ok(())
    }

    /// KILL: the clients and servers of a database are dropped at once, and it stays paused.
    pub(crate) fn kill_databases<I: Io>(&mut self, now: Time, name: Option<&str>, io: &mut I) {
        let pools = self.pools.named(name);
        match name {
            Some(name) => drop(self.admin.halt.paused.insert(name.to_owned())),
            None => {
                let here = pools.iter().map(|ix| self.pools.get(*ix).name.to_string());
                self.admin.halt.paused.extend(self.common.config().pools.keys().cloned().chain(here));
            }
        }
        self.halt_pools(now, name, io);
        let clients: Vec<Peer> = self.peers.clients().filter(|c| pools.contains(&c.pool)).map(|c| c.peer).collect();
        clients.into_iter().for_each(|client| self.refuse_handle(now, client, Refusal::DatabaseKilled, io));
        let servers: Vec<Peer> = self.peers.servers().filter(|s| pools.contains(&s.pool)).map(|s| s.peer).collect();
        servers.into_iter().for_each(|server| self.close_server(now, server, "database removed", io));
    }

    /// SUSPEND: nothing more is read.
    pub(crate) fn suspend<I: Io>(&mut self, now: Time, io: &mut I) {
        self.admin.halt.serving = ServiceState::Suspended;
        self.halt_pools(now, None, io);
        let peers: Vec<Peer> =
            self.peers.clients().map(|c| c.peer).chain(self.peers.servers().map(|s| s.peer)).collect();
        for peer in peers {
            self.hold(peer, io);
            if self.is_full(peer) {
                self.admin.halt.flushing.insert(peer);
            }
        }
        self.admin.halt.flush_by = now.deadline(self.common.config().suspend_timeout);
        self.common.arm(Who::Flush, self.admin.halt.flush_by, &mut self.admin.halt.armed);
    }

    /// Reads no more from a peer until RESUME. Consoles go on, and so does a login of ours at a server.
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
            && !matches!(server.phase(), Some(ServerPhase::Lending { .. } | ServerPhase::Returning))
            && !server.suspended
        {
            server.suspended = true;
            if !server.paused {
                io.pause(peer);
            }
        }
    }

    /// A SUSPEND is over: all are read from again, and deadlines that came meanwhile are kept now.
    fn wake<I: Io>(&mut self, now: Time, io: &mut I) {
        let clients: Vec<Peer> = self.peers.clients().filter(|c| c.pause.suspended).map(|c| c.peer).collect();
        for client in clients {
            self.set_pause(client, |pause| pause.suspended = false, io);
        }
        let servers: Vec<Peer> = self.peers.servers().filter(|s| s.suspended).map(|s| s.peer).collect();
        for peer in servers {
            let Some(server) = self.peers.server(peer) else { continue };
            server.suspended = false;
            server.holding.excuse(now);
            if !server.paused {
                io.resume(peer);
            }
        }
        self.admin.halt.flushing.clear();
        self.admin.halt.flush_by = Time::NEVER;
        for (when, who) in std::mem::take(&mut self.admin.halt.asleep) {
            self.common.timers().put_back(when, who);
        }
    }

    /// Whether a peer's socket has not taken everything yet.
    fn is_full(&mut self, peer: Peer) -> bool {
        match self.peers.client(peer) {
            Some(client) => client.pause.full && !matches!(client.phase, ClientPhase::Console(_)),
            None => self.peers.server(peer).is_some_and(|server| server.full),
        }
    }

    /// Forgets who has been flushed; called at the end of each turn of a SUSPEND.
    pub(crate) fn look_for_flushed<I: Io>(&mut self, io: &mut I) {
        while let Some(first) = self.admin.halt.flushing.first().copied() {
            if self.is_full(first) {
                return;
            }
            self.admin.halt.flushing.remove(&first);
        }
        self.look_for_rest(io);
    }

    /// What could not be flushed within suspend_timeout is closed.
    pub(crate) fn flush_due<I: Io>(&mut self, now: Time, io: &mut I) {
        self.admin.halt.armed = Time::NEVER;
        if self.admin.halt.flush_by > now {
            return self.common.arm(Who::Flush, self.admin.halt.flush_by, &mut self.admin.halt.armed);
        }
        for peer in std::mem::take(&mut self.admin.halt.flushing) {
            if !self.is_full(peer) {
                continue;
            }
            let client = match self.peers.server(peer) {
                Some(server) => server.link,
                None => Some(peer),
            };
            client.into_iter().for_each(|client| self.refuse_handle(now, client, Refusal::SuspendTimeout, io));
            self.close_server(now, peer, "suspend_timeout", io);
        }
        self.look_for_rest(io);
    }

    /// A command waits here until something has come to rest.
    pub(crate) fn watch<I: Io>(&mut self, now: Time, watch: Watch, io: &mut I) {
        self.work_off(now, io);
        self.admin.halt.watches.push(watch);
        self.look_for_rest(io);
    }

    /// Nobody waits for this command any more.
    pub(crate) fn unwatch(&mut self, id: u64) {
        self.admin.halt.watches.retain(|watch| watch.id != id);
    }

    /// Answers the commands whose wait is over, and ends a shutdown that has nothing left to wait for.
    pub(crate) fn look_for_rest<I: Io>(&mut self, io: &mut I) {
        let watches = std::mem::take(&mut self.admin.halt.watches);
        let (done, waiting): (Vec<Watch>, Vec<Watch>) = watches.into_iter().partition(|watch| self.rests(watch));
        self.admin.halt.watches = waiting;
        for watch in done {
            self.answer(watch.from, watch.id, WorkerAnswer::Done, io);
        }
        self.look_for_drained(io);
    }

    fn rests(&self, watch: &Watch) -> bool {
        let pools = self.pools.named(watch.name.as_deref());
        match watch.until {
            Until::Quiet => pools.iter().all(|ix| self.pools.get(*ix).pool.is_quiescent()),
            Until::Flushed => !self.admin.halt.is_flushing(),
            Until::Closed => {
                let slots = pools.iter().map(|ix| &self.pools.get(*ix).pool);
                // What is lent is known to its pool alone.
                let outdated = |pool: &weir_pool::Pool<_>, server| pool.is_outdated(server) || self.is_outdated(server);
                !slots.into_iter().any(|pool| pool.servers().any(|(server, ..)| outdated(pool, server)))
            }
        }
    }

    /// Whether a server is closed as soon as it is free (`close_needed`).
    pub(crate) fn is_outdated(&self, server: Peer) -> bool {
        let Some(slot) = self.peers.get_server(server) else { return false };
        slot.marked_for_close || self.pools.get(slot.pool).pool.is_outdated(server)
    }

    /// What stays stopped under a new configuration: databases that it has.
    pub(crate) fn forget_halts(&mut self) {
        let (config, halt) = (self.common.config(), &mut self.admin.halt);
        halt.paused.retain(|name| config.pool(name).is_some());
        halt.disabled.retain(|name| config.pool(name).is_some());
    }

    /// An operator left. If all is suspended, the workers are asked whether another one is there.
    pub(crate) fn look_for_operators<I: Io>(&mut self, now: Time, io: &mut I) {
        if self.admin.halt.is_suspended() {
            self.scatter(now, Caller::Nobody, Command::Show(Show::State), WorkerCommand::Report { counts: false }, io);
        }
    }

    /// All is suspended, and nobody is there to end it. As with PgBouncer, it is over then.
    pub(crate) fn resume_deserted<I: Io>(&mut self, now: Time, io: &mut I) {
        if self.admin.halt.is_suspended() {
            log(Level::Info, format_args!("admin disappeared when suspended, phase RESUME"), io);
            self.scatter_quietly(now, WorkerCommand::Resume(None), io);
        }
    }
}
