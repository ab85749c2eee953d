//! The control plane's requests. They come to worker 0, each with a number, and are answered once. The caller has
//! checked the sender's role.

use weir_admin::{ChangeSource, Command, CommandError, ControlReply, ControlRequest, Cursor, Show, ShutdownMode};
use weir_base::Time;

use crate::admin::broadcasts::Caller;
use crate::admin::paging::Paging;
use crate::admin::reload::Reload;
use crate::admin::{Admin, hand_over};
use crate::common::cx;
use crate::core::Core;
use crate::log::log;
use crate::port::{Io, Level};
use crate::workers::messages::{Message, Payload, WorkerCommand};

impl Admin {
    /// Handles a request of the control plane.
    pub(crate) fn control_request<I: Io>(
        &mut self,
        core: &mut Core,
        now: Time,
        number: u64,
        request: ControlRequest,
        io: &mut I,
    ) {
        let caller = Caller::Control(number);
        if let Err(error) = may_change(core, &request) {
            return io.answer(number, Err(error));
        }
        match request {
            ControlRequest::Report => {
                let to_workers = WorkerCommand::Report { counts: false };
                self.broadcast(core, now, caller, Command::Show(Show::Lists), &to_workers, io);
            }
            ControlRequest::Users => {
                let to_workers = WorkerCommand::Report { counts: true };
                self.broadcast(core, now, caller, Command::Show(Show::Users), &to_workers, io);
            }
            ControlRequest::Statements => {
                self.broadcast(core, now, caller, Command::Show(Show::Statements), &WorkerCommand::Statements, io);
            }
            ControlRequest::Traffic => {
                self.broadcast(core, now, caller, Command::Show(Show::DryRun), &WorkerCommand::Traffic, io);
            }
            ControlRequest::Spans => {
                self.broadcast(core, now, caller, Command::Show(Show::Statements), &WorkerCommand::Spans, io);
            }
            ControlRequest::Connections(_, Cursor { worker, .. }) if worker.0 >= core.common.workers() => {
                io.answer(number, Ok(ControlReply::Connections(Vec::new(), None)));
            }
            ControlRequest::Connections(of, Cursor { worker, slot }) => {
                io.post(worker, Message(Payload::Paging(Paging::WantedByControl { number, of, slot })), None);
            }
            // Worker 0 counts: see `Engine`.
            ControlRequest::SetShared(_) => {}
            ControlRequest::SetFaults(faults) => {
                self.faults = faults;
                io.answer(number, Ok(ControlReply::Done));
            }
            ControlRequest::SetFindings(findings) => {
                self.findings = findings;
                io.answer(number, Ok(ControlReply::Done));
            }
            ControlRequest::Log(line) => {
                log(Level::Info, format_args!("{line}"), io);
                io.answer(number, Ok(ControlReply::Done));
            }
            ControlRequest::Change(wanted, author) => {
                let cx = cx!(core, now, io);
                self.reloads.enqueue(cx, Reload::Change(number, wanted, author));
            }
            ControlRequest::Reload(author) => self.begin_reload(core, now, caller, author, io),
            ControlRequest::Run(Command::Shutdown(ShutdownMode::Drain)) => {
                self.drain_command(core, now, io);
                io.answer(number, Ok(ControlReply::Done));
            }
            ControlRequest::Run(command) => match self.worker_command(core, &command) {
                Ok(to_workers) => {
                    if let Some(what) = command.issued() {
                        log(Level::Info, format_args!("{what} command issued"), io);
                    }
                    self.broadcast(core, now, caller, command, &to_workers, io);
                }
                Err(error) => io.answer(number, Err(error)),
            },
        }
    }

    /// A request was withdrawn: a command that still waits is withdrawn, too.
    pub(crate) fn control_request_dropped<I: Io>(&mut self, core: &mut Core, now: Time, number: u64, io: &mut I) {
        if let Some(id) = self.broadcasts.of(Caller::Control(number)) {
            self.take_back(core, now, id, io);
        }
    }
}

/// Whether a request may change what it changes, while another process may be about to take over.
fn may_change(core: &Core, request: &ControlRequest) -> Result<(), CommandError> {
    match request {
        ControlRequest::Run(command) => hand_over::check(core, command),
        // What the nodes of a cluster share, the other process reads for itself.
        ControlRequest::Reload(author) if author.via == ChangeSource::Cluster => Ok(()),
        ControlRequest::Reload(_) | ControlRequest::Change(..) => hand_over::check(core, &Command::Reload),
        _ => Ok(()),
    }
}
