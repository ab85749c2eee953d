//! The control plane's requests: from outside of any connection, each under a number, answered once.
//!
//! Owns what each of them asks of the workers. What a command stops is in `halt`, how it reaches all workers in `gather`.
//! Requests come to worker 0. Must not know who asks, by which protocol, or whether they may: that was decided before.

use weir_admin::{Command, CommandError, Cursor, Reply, Report, Request, Show, SocketRecord};
use weir_base::{Time, WorkerId};

use crate::Engine;
use crate::admin::gather::Caller;
use crate::admin::reload::Renewal;
use crate::admin::stream::Paging;
use crate::cluster::messages::{Message, Payload, WorkerCommand};
use crate::log::log;
use crate::port::{Io, Level};

impl Engine {
    /// Something is asked.
    pub(crate) fn outside_asks<I: Io>(&mut self, now: Time, number: u64, request: Request, io: &mut I) {
        match request {
            Request::Report => {
                // No answer of the control plane counts clients by user, which would be a look at all of them.
                let ask = WorkerCommand::Report { counts: false };
                self.scatter(now, Caller::Control(number), Command::Show(Show::Lists), ask, io);
            }
            Request::Connections(_, Cursor { worker, .. }) if worker.0 >= self.common.workers() => {
                io.answer(number, Ok(Reply::Connections(Vec::new(), None)));
            }
            Request::Connections(of, Cursor { worker, slot }) => {
                io.post(worker, Message(Payload::Paging(Paging::Asked { number, of, slot })), None);
            }
            Request::Log(line) => {
                log(Level::Info, format_args!("{line}"), io);
                io.answer(number, Ok(Reply::Done));
            }
            Request::Change(edit) => self.renew(Renewal::Change(number, edit), io),
            Request::Run(Command::Reload) => self.begin_reload(Caller::Control(number), io),
            Request::Run(command) => match self.order(&command) {
                Ok(ask) => {
                    if let Some(what) = command.issued() {
                        log(Level::Info, format_args!("{what} command issued"), io);
                    }
                    self.scatter(now, Caller::Control(number), command, ask, io);
                }
                Err(error) => io.answer(number, Err(error)),
            },
        }
    }

    /// Who asked has gone: what still waits is taken back.
    pub(crate) fn outside_leaves<I: Io>(&mut self, now: Time, number: u64, io: &mut I) {
        if let Some(id) = self.gathering_of(Caller::Control(number)) {
            self.take_back(now, id, io);
        }
    }

    /// All workers have answered.
    pub(crate) fn gathered_for_control<I: Io>(
        &mut self,
        number: u64,
        command: &Command,
        verdict: Result<(), CommandError>,
        report: Report,
        io: &mut I,
    ) {
        let reply = match (command, self.admin.kept.remove(&number)) {
            (_, Some(kept)) => Reply::Changed(Ok(kept)),
            (Command::Show(_), None) => Reply::Report(Box::new(report), self.admin.newest.clone()),
            _ => Reply::Done,
        };
        io.answer(number, verdict.map(|()| reply));
    }

    /// A worker's connections have come.
    pub(crate) fn page_for_control<I: Io>(
        &mut self,
        worker: WorkerId,
        number: u64,
        records: Vec<SocketRecord>,
        next: Option<u32>,
        io: &mut I,
    ) {
        let next = match next {
            Some(slot) => Some(Cursor { worker, slot }),
            None if worker.0 + 1 < self.common.workers() => Some(Cursor { worker: WorkerId(worker.0 + 1), slot: 0 }),
            None => None,
        };
        io.answer(number, Ok(Reply::Connections(records, next)));
    }
}
