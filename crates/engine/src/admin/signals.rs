//! Signals, the statistics period, and a SUSPEND whose operator is gone.

use weir_admin::{Author, Command, ServiceState, Show};
use weir_base::{Span, Time, WorkerId};

use crate::admin::broadcasts::Caller;
use crate::admin::{Admin, hand_over};
use crate::common::UnderWay;
use crate::core::Core;
use crate::log::log;
use crate::port::{Io, Level, Signal};
use crate::timers::Who;
use crate::workers::messages::{Drain, WorkerCommand};

impl Admin {
    fn resume_all<I: Io>(&mut self, core: &mut Core, now: Time, io: &mut I) {
        self.broadcast(core, now, Caller::Engine, Command::Resume(None), &WorkerCommand::Resume(None), io);
    }

    /// Everything is suspended, and no operator is connected to end the SUSPEND. As in PgBouncer, the SUSPEND ends.
    pub(crate) fn resume_deserted<I: Io>(&mut self, core: &mut Core, now: Time, io: &mut I) {
        if core.common.is_under_way(UnderWay::SUSPEND) {
            log(Level::Info, format_args!("admin disappeared when suspended, doing RESUME"), io);
            self.resume_all(core, now, io);
        }
    }

    /// An operator has disconnected. If everything is suspended, asks the workers whether another operator is
    /// connected.
    pub(crate) fn check_operators<I: Io>(&mut self, core: &mut Core, now: Time, io: &mut I) {
        if core.common.is_under_way(UnderWay::SUSPEND) {
            let to_workers = WorkerCommand::Report { counts: false };
            self.broadcast(core, now, Caller::Engine, Command::Show(Show::State), &to_workers, io);
        }
    }

    fn pause_signal<I: Io>(&mut self, core: &mut Core, now: Time, io: &mut I) {
        if hand_over::check(core, &Command::Pause(None)).is_err() {
            log(Level::Info, format_args!("got SIGUSR1 while another process takes over, ignoring"), io);
        } else if core.pause.state() == ServiceState::Active {
            log(Level::Info, format_args!("got SIGUSR1, pausing all activity"), io);
            self.broadcast(core, now, Caller::Engine, Command::Pause(None), &WorkerCommand::Pause(None), io);
        } else {
            log(Level::Info, format_args!("got SIGUSR1, but already paused/suspended"), io);
        }
    }

    fn resume_signal<I: Io>(&mut self, core: &mut Core, now: Time, io: &mut I) {
        let (text, resumes) = match core.pause.state() {
            _ if core.common.is_under_way(UnderWay::SHUTDOWN) => ("got SIGUSR2 while shutting down, ignoring", false),
            ServiceState::Suspended => ("got SIGUSR2, continuing from SUSPEND", true),
            ServiceState::Paused => ("got SIGUSR2, continuing from PAUSE", true),
            // The command to pause is on its way to the workers, this one included; this shutdown follows it.
            ServiceState::Active if self.broadcasts.is_pausing() => ("got SIGUSR2, continuing from PAUSE", true),
            ServiceState::Active => ("got SIGUSR2, but not paused/suspended", false),
        };
        log(Level::Info, format_args!("{text}"), io);
        if resumes {
            self.resume_all(core, now, io);
        }
    }

    /// The process has received a signal.
    pub(crate) fn signal<I: Io>(&mut self, core: &mut Core, now: Time, signal: Signal, io: &mut I) {
        match signal {
            Signal::Reload => self.begin_reload(core, now, Caller::Engine, Author::signal(), io),
            Signal::Reread(reread) => self.begin_reread(core, now, reread, io),
            Signal::Quit => io.exit(0),
            Signal::ShutdownClients if core.shutdown.is_under_way() => {
                log(Level::Info, format_args!("got SIGTERM while shutting down, fast exit"), io);
                io.exit(0)
            }
            Signal::ShutdownClients if core.common.config().drains_on_term() => {
                log(Level::Info, format_args!("got SIGTERM, draining"), io);
                self.announce_drain(core, now, Drain::Transactions, io);
            }
            Signal::ShutdownClients => {
                let text = "got SIGTERM, shutting down, waiting for all clients disconnect";
                log(Level::Info, format_args!("{text}"), io);
                self.announce_drain(core, now, Drain::Clients, io);
            }
            Signal::Drain => self.drain_command(core, now, io),
            Signal::ShutdownServers if core.shutdown.target() == Some(Drain::Servers) => {
                log(Level::Info, format_args!("got SIGINT while shutting down, fast exit"), io);
                io.exit(0)
            }
            Signal::ShutdownServers => {
                let text = "got SIGINT, shutting down, waiting for all servers connections to be released";
                log(Level::Info, format_args!("{text}"), io);
                self.announce_drain(core, now, Drain::Servers, io);
            }
            Signal::Pause => self.pause_signal(core, now, io),
            Signal::Resume => self.resume_signal(core, now, io),
        }
    }

    /// A statistics period begins.
    pub(crate) fn begin_period(&mut self, core: &mut Core, now: Time) {
        let period = core.common.config().stats_period.max(Span::from_secs(1));
        core.common.arm(Who::Stats, now + period, &mut self.stats_at);
    }

    /// A statistics period has ended. Averages are those since the start of the last complete one (PgBouncer's rule),
    /// so they do not jump at its end.
    pub(crate) fn end_period<I: Io>(&mut self, core: &mut Core, now: Time, io: &mut I) {
        self.stats_at = Time::NEVER;
        core.console_counts.end_period(now);
        for ix in core.pools.indices() {
            let slot = core.pools.get_mut(ix);
            slot.counts.end_period(now);
        }
        if core.common.worker() == WorkerId(0) && core.common.config().log.stats {
            // One line for the process: the counts of all workers.
            let ask = WorkerCommand::Report { counts: false };
            self.broadcast(core, now, Caller::Engine, Command::Show(Show::Stats), &ask, io);
        }
        self.begin_period(core, now);
    }
}
