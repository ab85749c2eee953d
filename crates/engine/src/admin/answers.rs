//! All workers have answered a command: its caller gets the result.

use weir_admin::{Command, ControlReply, DatabaseStats, Show, Snapshot};
use weir_base::{ConnId, Time};

use crate::admin::broadcasts::{BroadcastAnswer, Caller};
use crate::admin::{Admin, console, operators, tables};
use crate::core::Core;
use crate::log::log;
use crate::port::{Io, Level};
use crate::workers::messages::WorkerAnswer;

impl Admin {
    /// A worker has answered.
    pub(crate) fn answered<I: Io>(&mut self, core: &mut Core, now: Time, id: u64, answer: WorkerAnswer, io: &mut I) {
        if let Some(answer) = self.broadcasts.answered(id, answer) {
            self.all_answered(core, now, answer, io);
        }
    }

    /// Not all workers have answered in time; the others' answers are used.
    pub(crate) fn answers_too_late<I: Io>(&mut self, core: &mut Core, now: Time, io: &mut I) {
        while let Some(answer) = self.broadcasts.take_late(now) {
            log(Level::Warning, format_args!("{} of the workers did not answer in time", answer.left), io);
            self.all_answered(core, now, answer, io);
        }
        self.broadcasts.arm_next(&mut core.common);
    }

    fn all_answered<I: Io>(&mut self, core: &mut Core, now: Time, mut answer: BroadcastAnswer, io: &mut I) {
        if matches!(answer.command, Command::Show(_)) && answer.left == 0 {
            self.observe_health(core, now, &mut answer.report, io);
        }
        match answer.caller {
            Caller::Engine => self.answer_engine(core, now, &answer, io),
            Caller::Console(conn) => self.answer_console(core, now, conn, answer, io),
            Caller::Control(number) => {
                let reply = match (&answer.command, self.reloads.take_persisted(number)) {
                    (_, Some(persisted)) => ControlReply::Changed(Ok(persisted)),
                    (Command::Show(_), None) => {
                        ControlReply::Report(Box::new(answer.report), self.reloads.newest().clone())
                    }
                    _ => ControlReply::Done,
                };
                io.answer(number, answer.result.map(|()| reply));
            }
        }
        self.settled(core, io);
    }

    fn answer_console<I: Io>(&mut self, core: &mut Core, now: Time, conn: ConnId, answer: BroadcastAnswer, io: &mut I) {
        let answer = match (answer.result, &answer.command) {
            (Err(error), _) => {
                log(Level::Error, format_args!("{error}"), io);
                console::failure(&error)
            }
            (Ok(()), Command::Show(what)) => {
                let hides_queries = operators::console(core, conn).is_none_or(|console| !console.is_admin());
                let config = core.common.config();
                let snapshot = Snapshot {
                    report: &answer.report,
                    config,
                    version: self.version(config.format),
                    now_wall: core.common.wall(now),
                    hides_queries,
                };
                return tables::send_table(core, conn, *what, weir_admin::show(*what, &snapshot), io);
            }
            (Ok(()), command) => console::complete(command.tag().as_bytes()),
        };
        operators::answer_console(core, conn, &answer, io);
    }

    /// A command of the engine itself: the figures for the log, or whether an operator is connected.
    fn answer_engine<I: Io>(&mut self, core: &mut Core, now: Time, answer: &BroadcastAnswer, io: &mut I) {
        let BroadcastAnswer { id, command, report, left, .. } = answer;
        match command {
            Command::Switch { .. } => self.primary_answered(core, now, *id, report.primary_waits, io),
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
