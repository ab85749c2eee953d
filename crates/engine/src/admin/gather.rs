//! Commands that all workers carry out: sent to each with a number, answered when all have answered.
//!
//! Owns the way of a command from one console to every worker and back, and its deadline. What a command stops is in
//! `halt`, what it shows in `report`. Must not know how a console types.

use weir_admin::{Command, CommandError, DatabaseStats, Report, Show, Snapshot};
use weir_base::{Peer, Span, Time, WorkerId};
use weir_pgwire::put_back;
use weir_session::Refusal;

use crate::Engine;
use crate::admin::console::put_failure;
use crate::admin::halt::{Until, Watch};
use crate::cluster::messages::{Message, Payload, WorkerAnswer, WorkerCommand};
use crate::log::log;
use crate::peers::ClientPhase;
use crate::port::{Io, Level};
use crate::timers::Who;

/// How long workers may take to answer, but for commands that wait for others.
const GATHER_TIMEOUT: Span = Span::from_secs(10);

/// A command on its way through the workers.
pub(crate) struct Gathering {
    caller: Caller,
    command: Command,
    left: u16,
    report: Report,
    /// A worker has done it.
    done: bool,
    failed: Option<CommandError>,
    armed: Time,
}

/// Who wants something from all workers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Caller {
    /// A signal, or the engine itself.
    Nobody,
    /// An operator at the console.
    Console(Peer),
    /// The control plane, under this number.
    Control(u64),
}

impl Gathering {
    /// What came of it. Some commands are about something that lives on one worker: that the others know nothing of it
    /// does not count.
    fn verdict(&mut self) -> Result<(), CommandError> {
        let one_will_do = matches!(self.command, Command::KillClient(_) | Command::Resume(Some(_)));
        match self.failed.take() {
            Some(error) if !(one_will_do && self.done) => Err(error),
            _ => Ok(()),
        }
    }
}

impl Engine {
    /// Sends a command of nobody at the console to all workers.
    pub(crate) fn scatter_quietly<I: Io>(&mut self, now: Time, ask: WorkerCommand, io: &mut I) {
        let command = match &ask {
            WorkerCommand::Resume(_) => Command::Resume(None),
            WorkerCommand::Adopt(_) => Command::Reload,
            WorkerCommand::Report { .. } => Command::Show(Show::Stats),
            _ => Command::Pause(None),
        };
        self.scatter(now, Caller::Nobody, command, ask, io);
    }

    pub(crate) fn scatter<I: Io>(
        &mut self,
        now: Time,
        caller: Caller,
        command: Command,
        ask: WorkerCommand,
        io: &mut I,
    ) -> u64 {
        let id = self.common.next_id();
        let waits = matches!(ask, WorkerCommand::Pause(_) | WorkerCommand::Suspend | WorkerCommand::WaitClose(_));
        let gathering = Gathering {
            caller,
            command,
            left: self.common.workers(),
            report: Report::default(),
            done: false,
            failed: None,
            armed: Time::NEVER,
        };
        let gathering = self.admin.gathering.entry(id).or_insert(gathering);
        if !waits {
            self.common.arm(Who::Gather(id), now + GATHER_TIMEOUT, &mut gathering.armed);
        }
        if let WorkerCommand::Adopt(config) = &ask {
            self.admin.newest = config.clone();
        }
        self.post_to_all(id, &ask, io);
        id
    }

    fn post_to_all<I: Io>(&mut self, id: u64, ask: &WorkerCommand, io: &mut I) {
        for worker in 0..self.common.workers() {
            io.post(WorkerId(worker), Message(Payload::Command { id, command: ask.clone() }), None);
        }
    }

    /// Whether workers have been told to stop everything and have not all answered.
    pub(crate) fn is_pausing(&self) -> bool {
        self.admin.gathering.values().any(|g| matches!(g.command, Command::Pause(None) | Command::Suspend))
    }

    /// The command of this caller that is on its way.
    pub(crate) fn gathering_of(&self, caller: Caller) -> Option<u64> {
        self.admin.gathering.iter().find(|(_, gathering)| gathering.caller == caller).map(|(id, _)| *id)
    }

    /// Takes back a command that waits for others: what it stopped goes on. Returns whether there was one.
    pub(crate) fn take_back<I: Io>(&mut self, now: Time, id: u64, io: &mut I) -> bool {
        let undo = match self.admin.gathering.get(&id).map(|gathering| &gathering.command) {
            Some(Command::Pause(name)) => Some(name.clone()),
            Some(Command::Suspend) => Some(None),
            Some(Command::WaitClose(_)) => None,
            _ => return false,
        };
        self.admin.gathering.remove(&id);
        self.post_to_all(id, &WorkerCommand::Forget(id), io);
        if let Some(name) = undo {
            self.scatter(now, Caller::Nobody, Command::Resume(name.clone()), WorkerCommand::Resume(name), io);
        }
        true
    }

    /// Carries out what another worker's (or this one's) console asks for.
    pub(crate) fn asked<I: Io>(&mut self, now: Time, from: WorkerId, id: u64, ask: WorkerCommand, io: &mut I) {
        let mut failed = None;
        let wait = |name, until| Some(Watch { from, id, name, until });
        let watch = match ask {
            WorkerCommand::Report { counts } => {
                let report = WorkerAnswer::Report(Box::new(self.report(now, counts)));
                return self.answer(from, id, report, io);
            }
            WorkerCommand::Forget(id) => return self.unwatch(id),
            WorkerCommand::Pause(name) => {
                self.pause_databases(now, name.as_deref(), io);
                wait(name, Until::Quiet)
            }
            WorkerCommand::Suspend => {
                self.suspend(now, io);
                wait(None, Until::Flushed)
            }
            WorkerCommand::WaitClose(name) => wait(name, Until::Closed),
            order => {
                failed = self.obey(now, order, io).err();
                None
            }
        };
        match (watch, failed) {
            (Some(watch), _) => self.watch(now, watch, io),
            (None, Some(error)) => self.answer(from, id, WorkerAnswer::Failed(error), io),
            (None, None) => self.answer(from, id, WorkerAnswer::Done, io),
        }
    }

    /// Carries out a command that is done at once.
    fn obey<I: Io>(&mut self, now: Time, ask: WorkerCommand, io: &mut I) -> Result<(), CommandError> {
        match ask {
            WorkerCommand::Adopt(config) => {
                io.adopt(&config);
                self.adopt(now, config, io);
                self.count_uncounted(io);
                self.forget_halts();
            }
            WorkerCommand::Resume(name) => self.resume_databases(now, name.as_deref(), io)?,
            WorkerCommand::Reconnect(name) => self.pools_reconnect(now, name.as_deref(), io),
            WorkerCommand::Kill(name) => self.kill_databases(now, name.as_deref(), io),
            WorkerCommand::KillClient(client) => {
                let peer = self.client_with_id(client).ok_or(CommandError::ClientNotFound)?;
                self.refuse_handle(now, peer, Refusal::Killed, io);
            }
            WorkerCommand::Disable(name) => drop(self.admin.halt.disabled.insert(name)),
            WorkerCommand::Enable(name) => drop(self.admin.halt.disabled.remove(&name)),
            WorkerCommand::Drain(drain) => self.drain(now, drain, io),
            WorkerCommand::Report { .. }
            | WorkerCommand::Pause(_)
            | WorkerCommand::Suspend
            | WorkerCommand::WaitClose(_)
            | WorkerCommand::Forget(_) => {}
        }
        Ok(())
    }

    pub(crate) fn answer<I: Io>(&mut self, to: WorkerId, id: u64, answer: WorkerAnswer, io: &mut I) {
        io.post(to, Message(Payload::CommandAnswer { id, answer }), None);
    }

    /// A worker has answered.
    pub(crate) fn answered<I: Io>(&mut self, now: Time, id: u64, answer: WorkerAnswer, io: &mut I) {
        let Some(gathering) = self.admin.gathering.get_mut(&id) else { return };
        match answer {
            WorkerAnswer::Done => gathering.done = true,
            WorkerAnswer::Report(report) => gathering.report.merge(*report),
            WorkerAnswer::Failed(error) => gathering.failed = Some(error),
        }
        gathering.left -= 1;
        if gathering.left == 0
            && let Some(gathering) = self.admin.gathering.remove(&id)
        {
            self.gathered(now, gathering, io);
        }
    }

    /// Not all workers have answered in time; what there is must do.
    pub(crate) fn gathered_too_late<I: Io>(&mut self, now: Time, id: u64, io: &mut I) {
        if let Some(gathering) = self.admin.gathering.remove(&id) {
            log(Level::Warning, format_args!("{} of the workers did not answer in time", gathering.left), io);
            self.gathered(now, gathering, io);
        }
    }

    fn gathered<I: Io>(&mut self, now: Time, mut gathering: Gathering, io: &mut I) {
        let verdict = gathering.verdict();
        let Gathering { caller, command, report, left, .. } = gathering;
        match caller {
            Caller::Nobody => self.gathered_for_nobody(now, &command, left, &report, io),
            Caller::Console(console) => self.gathered_for_console(now, console, &command, verdict, &report, io),
            Caller::Control(number) => self.gathered_for_control(number, &command, verdict, report, io),
        }
    }

    fn gathered_for_console<I: Io>(
        &mut self,
        now: Time,
        console: Peer,
        command: &Command,
        verdict: Result<(), CommandError>,
        report: &Report,
        io: &mut I,
    ) {
        let mut buffer = Vec::new();
        match (verdict, command) {
            (Err(error), _) => {
                log(Level::Error, format_args!("{error}"), io);
                put_failure(&mut buffer, &error);
            }
            (Ok(()), Command::Show(what)) => {
                let facts = Snapshot {
                    report,
                    config: self.common.config(),
                    version: self.admin.version,
                    now_wall: self.common.wall(now),
                };
                let table = weir_admin::show(*what, &facts);
                return self.send_table(console, *what, table, io);
            }
            (Ok(()), command) => {
                put_back::command_complete(&mut buffer, command.tag().as_bytes());
                put_back::ready(&mut buffer, b'I');
            }
        }
        self.reply(console, &buffer, io);
    }

    /// What the engine wanted to know itself: the figures for the log, or whether an operator is there.
    fn gathered_for_nobody<I: Io>(&mut self, now: Time, command: &Command, left: u16, report: &Report, io: &mut I) {
        match command {
            Command::Show(Show::Stats) => {
                let line = DatabaseStats::sum(&report.stats).averages().line();
                log(Level::Info, format_args!("{line}"), io);
            }
            Command::Show(Show::State) if left == 0 && report.console_clients == 0 => self.resume_deserted(now, io),
            _ => {}
        }
    }

    fn client_with_id(&self, id: u64) -> Option<Peer> {
        let shown = |phase: &ClientPhase| {
            matches!(phase, ClientPhase::Ready(_) | ClientPhase::Welcome(_) | ClientPhase::Console(_))
        };
        self.peers.clients().find(|c| c.id == id && shown(&c.phase)).map(|c| c.peer)
    }
}
