//! All workers have answered a command: its caller gets the result.

use weir_admin::{Command, DatabaseStats, Reply, Show, Snapshot};
use weir_base::{Peer, Time};

use crate::admin::gather::{Caller, Gathered};
use crate::admin::{Admin, console, operators, tables};
use crate::core::Core;
use crate::log::log;
use crate::port::{Io, Level};
use crate::workers::messages::WorkerAnswer;

impl Admin {
    /// A worker has answered.
    pub(crate) fn answered<I: Io>(&mut self, core: &mut Core, now: Time, id: u64, answer: WorkerAnswer, io: &mut I) {
        if let Some(gathered) = self.gatherings.answered(id, answer) {
            self.gathered(core, now, gathered, io);
        }
    }

    /// Not all workers have answered in time; the others' answers are used.
    pub(crate) fn gathered_too_late<I: Io>(&mut self, core: &mut Core, now: Time, id: u64, io: &mut I) {
        if let Some(gathered) = self.gatherings.finish(id) {
            log(Level::Warning, format_args!("{} of the workers did not answer in time", gathered.left), io);
            self.gathered(core, now, gathered, io);
        }
    }

    pub(crate) fn gathered<I: Io>(&mut self, core: &mut Core, now: Time, mut gathered: Gathered, io: &mut I) {
        if matches!(gathered.command, Command::Show(_)) && gathered.left == 0 {
            self.observe_health(core, now, &mut gathered.report, io);
        }
        match gathered.caller {
            Caller::Engine => self.gathered_for_engine(core, now, &gathered, io),
            Caller::Console(peer) => self.gathered_for_console(core, now, peer, gathered, io),
            Caller::Control(number) => {
                let reply = match (&gathered.command, self.reloads.take_persisted(number)) {
                    (_, Some(persisted)) => Reply::Changed(Ok(persisted)),
                    (Command::Show(_), None) => Reply::Report(Box::new(gathered.report), self.reloads.newest().clone()),
                    _ => Reply::Done,
                };
                io.answer(number, gathered.result.map(|()| reply));
            }
        }
    }

    pub(crate) fn gathered_for_console<I: Io>(
        &mut self,
        core: &mut Core,
        now: Time,
        peer: Peer,
        gathered: Gathered,
        io: &mut I,
    ) {
        let answer = match (gathered.result, &gathered.command) {
            (Err(error), _) => {
                log(Level::Error, format_args!("{error}"), io);
                console::failure(&error)
            }
            (Ok(()), Command::Show(what)) => {
                let hides_queries = operators::console(core, peer).is_none_or(|console| !console.is_admin());
                let config = core.common.config();
                let snapshot = Snapshot {
                    report: &gathered.report,
                    config,
                    version: self.version(config.format),
                    now_wall: core.common.wall(now),
                    hides_queries,
                };
                return tables::send_table(core, peer, *what, weir_admin::show(*what, &snapshot), io);
            }
            (Ok(()), command) => console::complete(command.tag().as_bytes()),
        };
        operators::answer_console(core, peer, &answer, io);
    }

    /// A command of the engine itself: the figures for the log, or whether an operator is connected.
    pub(crate) fn gathered_for_engine<I: Io>(&mut self, core: &mut Core, now: Time, gathered: &Gathered, io: &mut I) {
        let Gathered { command, report, left, .. } = gathered;
        match command {
            Command::Show(Show::Stats) => {
                let line = DatabaseStats::sum(&report.stats).averages().line();
                log(Level::Info, format_args!("{line}"), io);
            }
            Command::Show(Show::State) if *left == 0 && report.console_clients == 0 => {
                self.resume_deserted(core, now, io)
            }
            _ => {}
        }
    }
}
