//! Shutdowns that wait, from the signal to the exit.

use weir_base::{ConnId, Span, Time, WorkerId, plural};
use weir_session::Refusal;

use crate::admin::Admin;
use crate::client::slot::{ClientPhase, ClientSlot};
use crate::common::{FollowUp, UnderWay, cx};
use crate::core::Core;
use crate::link::leave;
use crate::log::log;
use crate::pause::commands;
use crate::port::{Io, Level};
use crate::workers::Workers;
use crate::workers::messages::{Drain, Message, Payload};

impl Admin {
    /// A signal requests a shutdown: for `shutdown_delay` only health checks see it, unless one was announced before.
    pub(crate) fn announce_drain<I: Io>(&mut self, core: &mut Core, now: Time, drain: Drain, io: &mut I) {
        let delay = core.common.config().shutdown_delay;
        if delay == Span::ZERO || core.shutdown.is_under_way() || core.common.is_under_way(UnderWay::SUSPEND) {
            return begin_drain(core, now, drain, io);
        }
        let millis = delay.micros() / 1000;
        log(Level::Info, format_args!("not ready any more; new clients are accepted for {millis} ms"), io);
        core.shutdown.announce(cx!(core, now, io), drain, delay);
    }

    /// An operator has the process drain. A shutdown that closes clients, or waits for servers only, goes on as it is.
    pub(crate) fn drain_command<I: Io>(&mut self, core: &mut Core, now: Time, io: &mut I) {
        match core.shutdown.target() {
            Some(Drain::Transactions | Drain::Servers) => {
                log(Level::Info, format_args!("got a command to drain while shutting down, ignoring"), io);
            }
            Some(Drain::Clients) | None => {
                log(Level::Info, format_args!("got a command to drain"), io);
                self.announce_drain(core, now, Drain::Transactions, io);
            }
        }
    }

    /// `shutdown_delay` may be over.
    pub(crate) fn announcement_due<I: Io>(&mut self, core: &mut Core, now: Time, io: &mut I) {
        if let Some(drain) = core.shutdown.announcement_over(now) {
            begin_drain(core, now, drain, io);
        }
    }

    /// Worker 0: a worker has nothing left that a shutdown waits for.
    pub(crate) fn worker_drained<I: Io>(
        &mut self,
        core: &mut Core,
        workers: &Workers,
        now: Time,
        worker: WorkerId,
        drain: Drain,
        io: &mut I,
    ) {
        if !core.shutdown.worker_finished(worker, drain, core.common.workers()) {
            return;
        }
        if core.shutdown.shared_server_wait().is_some() {
            core.shutdown.all_closed();
            return check_shared_servers_ended(core, workers, io);
        }
        // PgBouncer's texts.
        let whose = match drain {
            Drain::Servers => "server",
            Drain::Clients | Drain::Transactions => "client",
        };
        log(Level::Info, format_args!("{whose} connections dropped, exiting"), io);
        if drain == Drain::Transactions {
            close_consoles(core, now, io);
        }
        self.exit_after_servers(core, workers, now, drain == Drain::Servers, io);
    }

    /// Exits; where nodes share pools, when the servers have ended their connections, so that this node can give its
    /// shares away itself. `closed`: the workers have closed theirs.
    fn exit_after_servers<I: Io>(&mut self, core: &mut Core, workers: &Workers, now: Time, closed: bool, io: &mut I) {
        if workers.budget.pools().next().is_none() {
            return io.exit(0);
        }
        core.shutdown.await_shared_servers(cx!(core, now, io), closed);
        check_shared_servers_ended(core, workers, io);
    }

    /// Worker 0: logs how far a drain is, from time to time.
    pub(crate) fn report_drain<I: Io>(&mut self, core: &mut Core, now: Time, io: &mut I) {
        if core.shutdown.report_is_due(now) {
            let left = plural(clients_left(core).into(), "client is", "clients are");
            log(Level::Info, format_args!("draining: {left} left"), io);
        }
    }

    /// `shutdown_timeout` may be over.
    pub(crate) fn shutdown_due<I: Io>(&mut self, core: &mut Core, workers: &Workers, now: Time, io: &mut I) {
        if !core.shutdown.is_over(cx!(core, now, io)) {
            return;
        }
        if core.shutdown.shared_server_wait().is_some() {
            log(Level::Info, format_args!("servers have not ended all connections: other nodes look for them"), io);
            return io.exit(0);
        }
        log(Level::Warning, format_args!("shutdown_timeout is over; clients are dropped"), io);
        self.exit_after_servers(core, workers, now, false, io);
        for database in workers.budget.pools() {
            let close = || Message(Payload::CloseServers(database.as_str().into()));
            (0..core.common.workers()).for_each(|worker| io.post(WorkerId(worker), close(), None));
        }
    }
}

/// Begins a shutdown that waits.
pub(crate) fn begin_drain<I: Io>(core: &mut Core, now: Time, drain: Drain, io: &mut I) {
    if core.common.is_under_way(UnderWay::SUSPEND) {
        // No client or server could finish.
        log(Level::Info, format_args!("suspend was in progress, going down immediately"), io);
        return io.exit(0);
    }
    io.accept(false);
    let what = match drain {
        Drain::Clients => "waiting for clients to leave".to_owned(),
        Drain::Servers => "waiting for servers to finish".to_owned(),
        Drain::Transactions => format!(
            "draining: {} closed between their transactions, over {} ms",
            plural(clients_left(core).into(), "client is", "clients are"),
            core.common.config().drain_time.micros() / 1000
        ),
    };
    log(Level::Info, format_args!("shutting down: {what}"), io);
    core.shutdown.begin(cx!(core, now, io), drain);
}

/// Worker 0: how many clients there are; operators do not count.
fn clients_left(core: &Core) -> u32 {
    core.client_quota.total().saturating_sub(core.client_counts.consoles())
}

/// Worker 0, which has all consoles: operators are the last to be closed.
fn close_consoles<I: Io>(core: &mut Core, now: Time, io: &mut I) {
    let consoles = core.conns.all::<ClientSlot>().filter(|client| matches!(client.phase, ClientPhase::Console(_)));
    let consoles: Vec<ConnId> = consoles.map(|client| client.conn).collect();
    consoles.into_iter().for_each(|console| leave::refuse_handle(core, now, console, Refusal::ShuttingDown, io));
}

/// A shutdown begins on this worker.
pub(crate) fn drain<I: Io>(core: &mut Core, now: Time, drain: Drain, io: &mut I) {
    core.shutdown.drain(cx!(core, now, io), drain);
    if drain == Drain::Servers {
        commands::halt_pools(core, now, None, io);
        if core.conns.all::<ClientSlot>().any(|c| c.state() == "waiting") {
            core.shutdown.dismiss_soon(cx!(core, now, io));
        }
    }
    // Queued after what the pools do now.
    core.common.follow_up(FollowUp::CheckDrained);
}

/// Worker 0: a server of a pool that nodes share has ended: was it the last one of a process that exits?
pub(crate) fn check_shared_servers_ended<I: Io>(core: &Core, workers: &Workers, io: &mut I) {
    if core.shutdown.shared_server_wait() == Some(true) && workers.have_no_shared_servers() {
        io.shared_servers_ended();
        io.exit(0);
    }
}
