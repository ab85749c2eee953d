//! Shutdowns that wait: for clients to leave, or for servers to finish.
//!
//! Owns when the process may end. Worker 0 asks all workers, each tells it once when nothing is left, and the last one
//! ends the process.

use weir_admin::{ServiceState, ShutdownMode};
use weir_base::{Peer, Time, WorkerId};
use weir_pgwire::put_back;
use weir_session::Refusal;

use crate::Engine;
use crate::cluster::messages::{Drain, Message, Payload, WorkerCommand};
use crate::log::log;
use crate::peers::ClientSlot;
use crate::port::{Io, Level};
use crate::timers::Who;

impl Engine {
    /// SHUTDOWN at the console.
    pub(crate) fn shutdown<I: Io>(&mut self, now: Time, client: &mut ClientSlot, mode: ShutdownMode, io: &mut I) {
        let drain = match mode {
            ShutdownMode::Now => return io.exit(0),
            ShutdownMode::WaitForServers => Drain::Servers,
            ShutdownMode::WaitForClients => Drain::Clients,
        };
        let mut buffer = Vec::new();
        put_back::command_complete(&mut buffer, "SHUTDOWN");
        put_back::ready(&mut buffer, b'I');
        io.send(client.peer, &buffer);
        self.begin_drain(now, drain, io);
    }

    /// Begins a shutdown that waits.
    pub(crate) fn begin_drain<I: Io>(&mut self, now: Time, drain: Drain, io: &mut I) {
        if self.admin.halt.is_suspended() {
            // Nobody could finish anything.
            log(Level::Info, format_args!("suspend was in progress, going down immediately"), io);
            return io.exit(0);
        }
        io.accept(false);
        let what = match drain {
            Drain::Clients => "clients to leave",
            Drain::Servers => "servers to finish",
        };
        log(Level::Info, format_args!("shutting down: waiting for {what}"), io);
        self.admin.shutdown_by = now.deadline(self.common.config().shutdown_timeout);
        self.common.arm(Who::Shutdown, self.admin.shutdown_by, &mut self.admin.shutdown_armed);
        self.admin.drained.clear();
        self.admin.asked_drain = Some(drain);
        for worker in 0..self.common.workers() {
            let id = self.common.next_id();
            io.post(WorkerId(worker), Message(Payload::Command { id, command: WorkerCommand::Drain(drain) }), None);
        }
    }

    pub(crate) fn drain<I: Io>(&mut self, now: Time, drain: Drain, io: &mut I) {
        self.admin.draining = Some(drain);
        self.admin.told_drained = false;
        if drain == Drain::Servers {
            self.halt_pools(now, None, io);
            let waiting: Vec<Peer> = self.peers.clients().filter(|c| c.state() == "waiting").map(|c| c.peer).collect();
            waiting.into_iter().for_each(|peer| self.refuse_handle(now, peer, Refusal::ShuttingDown, io));
            self.work_off(now, io);
        }
        self.look_for_drained(io);
    }

    /// Whether this worker has nothing left that a shutdown waits for.
    pub(crate) fn look_for_drained<I: Io>(&mut self, io: &mut I) {
        let done = match self.admin.draining {
            Some(Drain::Clients) => !self.peers.clients().any(|c| c.is_waited_for()),
            Some(Drain::Servers) => self.pools.iter().all(|slot| slot.pool.is_quiescent()),
            None => return,
        };
        if done && !self.admin.told_drained {
            self.admin.told_drained = true;
            let drain = self.admin.draining.unwrap_or(Drain::Clients);
            io.post(WorkerId(0), Message(Payload::Drained(drain)), None);
        }
    }

    pub(crate) fn worker_drained<I: Io>(&mut self, worker: WorkerId, drain: Drain, io: &mut I) {
        if self.admin.asked_drain == Some(drain) {
            self.admin.drained.insert(worker);
        }
        if self.admin.drained.len() == usize::from(self.common.workers()) {
            log(Level::Info, format_args!("shutting down: nothing left to wait for"), io);
            io.exit(0);
        }
    }

    /// USR1: PAUSE.
    pub(crate) fn pause_signal<I: Io>(&mut self, now: Time, io: &mut I) {
        if self.admin.halt.serving == ServiceState::Active {
            log(Level::Info, format_args!("got SIGUSR1, pausing all activity"), io);
            self.scatter_quietly(now, WorkerCommand::Pause(None), io);
        } else {
            log(Level::Info, format_args!("got SIGUSR1, but already paused/suspended"), io);
        }
    }

    /// USR2: RESUME.
    pub(crate) fn resume_signal<I: Io>(&mut self, now: Time, io: &mut I) {
        match self.admin.halt.serving {
            _ if self.admin.draining.is_some() => {
                return log(Level::Info, format_args!("got SIGUSR2, while shutting down, ignoring"), io);
            }
            ServiceState::Suspended => log(Level::Info, format_args!("got SIGUSR2, continuing from SUSPEND"), io),
            ServiceState::Paused => log(Level::Info, format_args!("got SIGUSR2, continuing from PAUSE"), io),
            // The order to pause is on its way to the workers, this one among them; this one follows it.
            ServiceState::Active if self.is_pausing() => {
                log(Level::Info, format_args!("got SIGUSR2, continuing from PAUSE"), io);
            }
            ServiceState::Active => {
                return log(Level::Info, format_args!("got SIGUSR2, but not paused/suspended"), io);
            }
        }
        self.scatter_quietly(now, WorkerCommand::Resume(None), io);
    }
}
