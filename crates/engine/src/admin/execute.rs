//! A command is executed on this worker.

use weir_admin::{CommandError, Report};
use weir_base::{Time, WorkerId};
use weir_session::Refusal;

use crate::admin::{Admin, end, record};
use crate::client::slot::ClientSlot;
use crate::common::FollowUp;
use crate::core::Core;
use crate::link::leave;
use crate::pause::commands;
use crate::pause::waiting_command::{Condition, WaitingCommand};
use crate::pools::reconnect;
use crate::port::Io;
use crate::primary::PrimaryStep;
use crate::primary::fence;
use crate::server::{open, probe};
use crate::workers::Workers;
use crate::workers::messages::{WorkerAnswer, WorkerCommand};
use crate::workers::send::{COUNTER, answer};

/// The result of a command on this worker.
enum Outcome {
    Done,
    Report(Box<Report>),
    /// The command is answered when this condition holds.
    Wait(Option<String>, Condition),
    /// The command is not answered.
    NoAnswer,
}

impl Admin {
    /// Executes a command from a worker, and answers it, at once, or when its condition holds.
    pub(crate) fn carry_out<I: Io>(
        &mut self,
        core: &mut Core,
        workers: &Workers,
        now: Time,
        (from, id): (WorkerId, u64),
        command: WorkerCommand,
        io: &mut I,
    ) {
        match self.outcome(core, workers, now, (from, id), command, io) {
            Ok(Outcome::Done) => answer(from, id, WorkerAnswer::Done, io),
            Ok(Outcome::Report(report)) => answer(from, id, WorkerAnswer::Report(report), io),
            Ok(Outcome::NoAnswer) => {}
            Ok(Outcome::Wait(name, until)) => {
                // Queued after what the pools do now because of the command.
                core.common.follow_up(FollowUp::Watch(Box::new(WaitingCommand { from, id, name, until })));
            }
            Err(error) => answer(from, id, WorkerAnswer::Failed(error), io),
        }
    }

    fn outcome<I: Io>(
        &mut self,
        core: &mut Core,
        workers: &Workers,
        now: Time,
        (from, id): (WorkerId, u64),
        command: WorkerCommand,
        io: &mut I,
    ) -> Result<Outcome, CommandError> {
        match command {
            WorkerCommand::Report { counts } => {
                probe::look_for_unresponsive(core, now, io);
                return Ok(Outcome::Report(Box::new(self.report(core, workers, counts))));
            }
            WorkerCommand::Statements => return Ok(Outcome::Report(Box::new(self.statements_report(core, workers)))),
            WorkerCommand::Traffic => return Ok(Outcome::Report(Box::new(self.traffic_report(core, workers, now)))),
            WorkerCommand::StartRecord(name, until) => record::start(core, now, name.as_deref(), until),
            WorkerCommand::StopRecord(name) => record::stop(core, now, name.as_deref()),
            WorkerCommand::Spans => {
                let (spans, spans_dropped) = core.sessions.statements.take_spans(|at| core.common.wall(at));
                return Ok(Outcome::Report(Box::new(Report { spans, spans_dropped, ..Report::default() })));
            }
            WorkerCommand::ResetStatements => core.sessions.statements.reset(),
            WorkerCommand::Health => {
                probe::look_for_unresponsive(core, now, io);
                return Ok(Outcome::Report(Box::new(self.health_report(core))));
            }
            WorkerCommand::Pause(name) => {
                commands::pause_databases(core, now, name.as_deref(), io);
                return Ok(Outcome::Wait(name, Condition::Quiet));
            }
            WorkerCommand::Suspend => {
                commands::suspend(core, now, io);
                return Ok(Outcome::Wait(None, Condition::Flushed));
            }
            WorkerCommand::Primary(pool, step) => {
                let waits = matches!(step, PrimaryStep::Leave { .. });
                let primary_waits = fence::carry_out(core, now, &pool, step, io);
                return Ok(match waits {
                    true => Outcome::Wait(Some(pool.to_string()), Condition::Fenced),
                    false => Outcome::Report(Box::new(Report { primary_waits, ..Report::default() })),
                });
            }
            WorkerCommand::Switch(pool, to) if core.common.worker() == COUNTER => {
                self.begin_switch(core, now, &pool, &to, (from, id), io);
                return Ok(Outcome::NoAnswer);
            }
            WorkerCommand::Switch(..) => {}
            WorkerCommand::WaitClose(name) => return Ok(Outcome::Wait(name, Condition::Closed)),
            WorkerCommand::Forget(id) => {
                core.pause.unwatch(&mut core.common, id);
                self.switch_withdrawn(core, now, id, io);
                return Ok(Outcome::NoAnswer);
            }
            // A new configuration concerns all rooms.
            WorkerCommand::Adopt(_) => {}
            WorkerCommand::Resume(name) => commands::resume_databases(core, now, name.as_deref(), io)?,
            WorkerCommand::Reconnect(name) => reconnect::named(core, now, name.as_deref(), io),
            WorkerCommand::Retry(name) => open::retry_pools(core, now, name.as_deref(), io),
            WorkerCommand::Kill(name) => commands::kill_databases(core, now, name.as_deref(), io),
            WorkerCommand::KillClient(id) => kill_client(core, now, id, io)?,
            WorkerCommand::Disable(name) => core.pause.disable(&mut core.common, name),
            WorkerCommand::Enable(name) => core.pause.enable(&mut core.common, &name),
            WorkerCommand::Drain(drain) => end::drain(core, now, drain, io),
        }
        Ok(Outcome::Done)
    }
}

fn kill_client<I: Io>(core: &mut Core, now: Time, id: u64, io: &mut I) -> Result<(), CommandError> {
    let client = core
        .conns
        .all::<ClientSlot>()
        .find(|client| client.id == id && (client.has_logged_in() || client.phase.moves_session()));
    let conn = client.map(|client| client.conn).ok_or(CommandError::ClientNotFound)?;
    leave::refuse_handle(core, now, conn, Refusal::Killed, io);
    Ok(())
}
