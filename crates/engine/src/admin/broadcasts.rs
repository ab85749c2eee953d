//! Commands for all workers: sent to each with a number, answered when all have answered.
//!
//! Owns the commands under way, the caller of each, and their deadline. `pause` has what a command stops, `report` what
//! it shows.

use std::collections::BTreeMap;

use weir_admin::{Command, CommandError, Report};
use weir_base::{ConnId, Span, Time};

use crate::common::{Common, Cx};
use crate::port::Io;
use crate::primary::PrimaryStep;
use crate::timers::Who;
use crate::upgrade::export;
use crate::workers::messages::{WorkerAnswer, WorkerCommand};

/// How long workers may take to answer, except for commands that wait for clients or servers.
const BROADCAST_TIMEOUT: Span = Span::from_secs(10);

/// The caller of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Caller {
    /// A signal, or the engine itself.
    Engine,
    /// An operator at the console.
    Console(ConnId),
    /// The control plane, under this number.
    Control(u64),
}

/// The commands under way, by number.
pub(crate) struct Broadcasts {
    pending: BTreeMap<u64, Broadcast>,
    /// When the one timer of all is due: a command that is answered leaves none behind.
    armed: Time,
}

struct Broadcast {
    caller: Caller,
    command: Command,
    /// The number of workers that have not answered.
    left: u16,
    report: Report,
    /// At least one worker has carried out the command.
    done: bool,
    failed: Option<CommandError>,
    /// When the answers are too late.
    due: Time,
}

/// The result of a command.
pub(crate) struct BroadcastAnswer {
    /// The command's number.
    pub(crate) id: u64,
    pub(crate) caller: Caller,
    pub(crate) command: Command,
    pub(crate) result: Result<(), CommandError>,
    pub(crate) report: Report,
    /// The number of workers that have not answered in time.
    pub(crate) left: u16,
}

/// Whether another process could take over, as far as commands go.
pub(crate) enum Settled {
    Yes,
    /// A command ends soon.
    NotYet,
    /// A command stops something, or moves a pool: why that is in the way.
    Stops(&'static str),
}

/// The command that undoes a withdrawn one.
pub(crate) enum Undo {
    Nothing,
    /// RESUME of one database, or of all.
    Resume(Option<String>),
}

impl Default for Broadcasts {
    fn default() -> Self {
        Broadcasts { pending: BTreeMap::new(), armed: Time::NEVER }
    }
}

impl Broadcasts {
    /// Sends a command to all workers; returns its number.
    pub(crate) fn broadcast<I: Io>(
        &mut self,
        cx: &mut Cx<'_, I>,
        caller: Caller,
        command: Command,
        to_workers: &WorkerCommand,
    ) -> u64 {
        let id = cx.common.next_id();
        let waits = matches!(
            to_workers,
            WorkerCommand::Pause(_)
                | WorkerCommand::Suspend
                | WorkerCommand::WaitClose(_)
                | WorkerCommand::Switch(..)
                | WorkerCommand::Primary(_, PrimaryStep::Leave { .. })
        );
        let broadcast = Broadcast {
            caller,
            command,
            left: cx.common.workers(),
            report: Report::default(),
            done: false,
            failed: None,
            due: if waits { Time::NEVER } else { cx.now + BROADCAST_TIMEOUT },
        };
        cx.common.arm(Who::Broadcasts, broadcast.due, &mut self.armed);
        self.pending.insert(id, broadcast);
        cx.common.post_to_all(id, to_workers, cx.io);
        id
    }

    /// Whether a command to stop everything is under way.
    pub(crate) fn is_pausing(&self) -> bool {
        self.pending.values().any(|g| matches!(g.command, Command::Pause(None) | Command::Suspend))
    }

    /// Whether any command is under way.
    pub(crate) fn are_under_way(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Whether all commands have ended that change something.
    pub(crate) fn settled(&self) -> Settled {
        let mut settled = Settled::Yes;
        for broadcast in self.pending.values() {
            match &broadcast.command {
                Command::Pause(_) | Command::Suspend => return Settled::Stops(export::PAUSED),
                Command::Switch { .. } => return Settled::Stops(export::MOVES),
                Command::Show(_) | Command::WaitClose(_) => {}
                _ => settled = Settled::NotYet,
            }
        }
        settled
    }

    /// The command of this caller that is under way.
    pub(crate) fn of(&self, caller: Caller) -> Option<u64> {
        self.pending.iter().find(|(_, broadcast)| broadcast.caller == caller).map(|(id, _)| *id)
    }

    /// Withdraws a command that waits; `None` if there is no such command. The caller must undo what it stopped.
    pub(crate) fn take_back<I: Io>(&mut self, cx: &mut Cx<'_, I>, id: u64) -> Option<Undo> {
        let undo = match &self.pending.get(&id)?.command {
            Command::Pause(name) => Undo::Resume(name.clone()),
            Command::Suspend => Undo::Resume(None),
            Command::WaitClose(_) | Command::Switch { .. } => Undo::Nothing,
            _ => return None,
        };
        self.pending.remove(&id);
        cx.common.post_to_all(id, &WorkerCommand::Forget(id), cx.io);
        Some(undo)
    }

    /// Handles a worker's answer; returns the result of the command if it was the last one.
    pub(crate) fn answered(&mut self, id: u64, answer: WorkerAnswer) -> Option<BroadcastAnswer> {
        let broadcast = self.pending.get_mut(&id)?;
        match answer {
            WorkerAnswer::Done => broadcast.done = true,
            WorkerAnswer::Report(report) => broadcast.report.merge(*report),
            WorkerAnswer::Failed(error) => broadcast.failed = Some(error),
        }
        broadcast.left -= 1;
        if broadcast.left == 0 { self.finish(id) } else { None }
    }

    /// The result of a command whose deadline has passed.
    pub(crate) fn take_late(&mut self, now: Time) -> Option<BroadcastAnswer> {
        let late = self.pending.iter().find(|(_, broadcast)| broadcast.due <= now).map(|(id, _)| *id);
        late.and_then(|id| self.finish(id))
    }

    /// The timer has fired: arms it for the next command.
    pub(crate) fn arm_next(&mut self, common: &mut Common) {
        self.armed = Time::NEVER;
        let next = self.pending.values().map(|broadcast| broadcast.due).min();
        common.arm(Who::Broadcasts, next.unwrap_or(Time::NEVER), &mut self.armed);
    }

    fn finish(&mut self, id: u64) -> Option<BroadcastAnswer> {
        let mut broadcast = self.pending.remove(&id)?;
        let result = broadcast.result();
        let Broadcast { caller, command, report, left, .. } = broadcast;
        Some(BroadcastAnswer { id, caller, command, result, report, left })
    }
}

impl Broadcast {
    /// Some commands are about an object of one worker: the errors of workers that do not have it are ignored.
    fn result(&mut self) -> Result<(), CommandError> {
        let one_will_do = matches!(self.command, Command::KillClient(_) | Command::Resume(Some(_)));
        match self.failed.take() {
            Some(error) if !(one_will_do && self.done) => Err(error),
            _ => Ok(()),
        }
    }
}
