//! What operators have stopped, and the commands that wait for it: PAUSE, SUSPEND, KILL, DISABLE and WAIT_CLOSE.
//!
//! Owns which pools hand out servers, whether sockets are read, and which commands wait here for idle servers or
//! flushed sockets. A SUSPEND reads from no client and no server, keeps the servers, and defers timeouts; what it
//! deferred continues at RESUME.
//!
//! Invariant: every worker executes the same commands in the same order, so all have the same state.

use std::collections::BTreeSet;

use weir_admin::{Command, CommandError, ServiceState};
use weir_base::{ConnId, Time};

use crate::common::{Common, Cx, UnderWay};
use crate::pause::waiting_command::{Condition, WaitingCommand};
use crate::port::Io;
use crate::timers::Who;

/// What is stopped.
pub(crate) struct PauseState {
    /// The state of the whole process.
    state: ServiceState,
    /// Databases paused by name.
    paused: BTreeSet<String>,
    /// Databases that refuse new clients.
    disabled: BTreeSet<String>,
    /// Commands that wait here.
    watches: Vec<WaitingCommand>,
    suspension: Suspension,
}

/// The state of a SUSPEND.
struct Suspension {
    /// Connections whose sockets had a backlog when the SUSPEND began.
    flushing: BTreeSet<ConnId>,
    /// When the SUSPEND closes connections that could not be flushed.
    flush_by: Time,
    armed: Time,
    /// Deferred deadlines.
    deferred: Vec<(Time, Who)>,
}

impl Default for PauseState {
    fn default() -> Self {
        PauseState {
            state: ServiceState::Active,
            paused: BTreeSet::new(),
            disabled: BTreeSet::new(),
            watches: Vec::new(),
            suspension: Suspension {
                flushing: BTreeSet::new(),
                flush_by: Time::NEVER,
                armed: Time::NEVER,
                deferred: Vec::new(),
            },
        }
    }
}

/// What is stopped.
impl PauseState {
    /// Whether the whole process serves.
    pub(crate) fn state(&self) -> ServiceState {
        self.state
    }

    /// Whether an operator has stopped anything.
    pub(crate) fn is_stopped(&self) -> bool {
        self.state != ServiceState::Active || !self.paused.is_empty()
    }

    /// Says what is under way after a change.
    fn note(&self, common: &mut Common) {
        for (what, busy) in self.under_way() {
            common.set_under_way(what, busy);
        }
    }

    /// Whether there is a SUSPEND, whether it waits for sockets, and whether commands wait, or databases are disabled.
    pub(crate) fn under_way(&self) -> [(UnderWay, bool); 4] {
        [
            (UnderWay::SUSPEND, self.state == ServiceState::Suspended),
            (UnderWay::FLUSH, self.is_flushing()),
            (UnderWay::WATCH, !self.watches.is_empty()),
            (UnderWay::DISABLE, !self.disabled.is_empty()),
        ]
    }

    /// Whether a database refuses new clients.
    pub(crate) fn is_disabled(&self, name: &str) -> bool {
        self.disabled.contains(name)
    }

    /// Databases paused by name.
    pub(crate) fn paused(&self) -> &BTreeSet<String> {
        &self.paused
    }

    /// Databases that refuse new clients.
    pub(crate) fn disabled(&self) -> &BTreeSet<String> {
        &self.disabled
    }

    /// Checks whether a command is possible in the current state.
    ///
    /// # Errors
    /// Why the command is not possible.
    pub(crate) fn allows(&self, command: &Command) -> Result<(), CommandError> {
        let stopped = self.state != ServiceState::Active;
        match command {
            Command::Pause(_) | Command::Kill(_) | Command::Suspend if stopped => Err(CommandError::AlreadyPaused),
            Command::Suspend if !self.paused.is_empty() => Err(CommandError::PausedDatabases),
            Command::Resume(None) if !stopped && self.paused.is_empty() => Err(CommandError::NotPaused),
            _ => Ok(()),
        }
    }

    /// What the pools of a database do; `draining`: a shutdown waits for servers.
    pub(crate) fn of_pool(&self, name: &str, draining: bool) -> ServiceState {
        if draining || self.state == ServiceState::Paused || self.paused.contains(name) {
            ServiceState::Paused
        } else {
            self.state
        }
    }

    /// PAUSE of one database, or of all.
    pub(crate) fn pause(&mut self, common: &mut Common, name: Option<&str>) {
        match name {
            Some(name) => drop(self.paused.insert(name.to_owned())),
            None => self.state = ServiceState::Paused,
        }
        self.note(common);
    }

    /// KILL: these databases stay paused.
    pub(crate) fn kill(&mut self, names: impl IntoIterator<Item = String>) {
        self.paused.extend(names);
    }

    /// RESUME. Without a name it ends all PAUSEs, SUSPENDs and KILLs. Returns whether it ends a SUSPEND.
    ///
    /// # Errors
    /// The named database is not paused.
    pub(crate) fn resume(&mut self, common: &mut Common, name: Option<&str>) -> Result<bool, CommandError> {
        let Some(name) = name else {
            self.paused.clear();
            let before = std::mem::take(&mut self.state);
            self.note(common);
            return Ok(before == ServiceState::Suspended);
        };
        if self.paused.remove(name) { Ok(false) } else { Err(CommandError::DatabaseNotPaused(name.to_owned())) }
    }

    /// DISABLE of a database.
    pub(crate) fn disable(&mut self, common: &mut Common, name: String) {
        self.disabled.insert(name);
        self.note(common);
    }

    /// ENABLE of a database.
    pub(crate) fn enable(&mut self, common: &mut Common, name: &str) {
        self.disabled.remove(name);
        self.note(common);
    }

    /// A new configuration: drops the state of databases that it does not have.
    pub(crate) fn apply_config(&mut self, common: &mut Common) {
        let config = common.config();
        self.paused.retain(|name| config.pool(name).is_some());
        self.disabled.retain(|name| config.pool(name).is_some());
        self.note(common);
    }
}

/// A SUSPEND.
impl PauseState {
    /// SUSPEND: reading stops.
    pub(crate) fn suspend(&mut self, common: &mut Common) {
        self.state = ServiceState::Suspended;
        self.note(common);
    }

    /// Waits until these connections' sockets are flushed, at most `suspend_timeout`.
    pub(crate) fn flush<I: Io>(&mut self, cx: &mut Cx<'_, I>, full: impl Iterator<Item = ConnId>) {
        let suspension = &mut self.suspension;
        suspension.flushing.extend(full);
        suspension.flush_by = cx.now.deadline(cx.common.config().suspend_timeout);
        cx.common.arm(Who::Flush, suspension.flush_by, &mut suspension.armed);
        self.note(cx.common);
    }

    /// Whether a SUSPEND still waits for sockets.
    pub(crate) fn is_flushing(&self) -> bool {
        !self.suspension.flushing.is_empty()
    }

    /// Drops the connections that are flushed. Returns whether none is left.
    pub(crate) fn are_flushed(&mut self, common: &mut Common, is_full: impl Fn(ConnId) -> bool) -> bool {
        while let Some(first) = self.suspension.flushing.first().copied() {
            if is_full(first) {
                return false;
            }
            self.suspension.flushing.remove(&first);
        }
        self.note(common);
        true
    }

    /// A timer has fired: returns the connections that were not flushed in time, if the time is over.
    pub(crate) fn flush_due<I: Io>(&mut self, cx: &mut Cx<'_, I>) -> Option<BTreeSet<ConnId>> {
        let suspension = &mut self.suspension;
        suspension.armed = Time::NEVER;
        if suspension.flush_by > cx.now {
            cx.common.arm(Who::Flush, suspension.flush_by, &mut suspension.armed);
            return None;
        }
        let late = std::mem::take(&mut suspension.flushing);
        self.note(cx.common);
        Some(late)
    }

    /// Defers a deadline until RESUME.
    pub(crate) fn defer(&mut self, when: Time, who: Who) {
        self.suspension.deferred.push((when, who));
    }

    /// A SUSPEND has ended: deferred deadlines are due now.
    pub(crate) fn wake<I: Io>(&mut self, cx: &mut Cx<'_, I>) {
        self.suspension.flushing.clear();
        self.suspension.flush_by = Time::NEVER;
        for (when, who) in std::mem::take(&mut self.suspension.deferred) {
            cx.common.timers().put_back(when, who);
        }
        self.note(cx.common);
    }
}

/// Commands that wait here.
impl PauseState {
    /// Adds a waiting command.
    pub(crate) fn watch(&mut self, common: &mut Common, watch: WaitingCommand) {
        self.watches.push(watch);
        self.note(common);
    }

    /// Removes a waiting command that was withdrawn.
    pub(crate) fn unwatch(&mut self, common: &mut Common, id: u64) {
        self.watches.retain(|watch| watch.id != id);
        self.note(common);
    }

    /// Removes the commands whose condition holds.
    pub(crate) fn take_finished(
        &mut self,
        common: &mut Common,
        mut is_over: impl FnMut(&PauseState, &WaitingCommand) -> bool,
    ) -> Vec<WaitingCommand> {
        let watches = std::mem::take(&mut self.watches);
        let (over, waiting) = watches.into_iter().partition(|watch| is_over(self, watch));
        self.watches = waiting;
        self.note(common);
        over
    }

    /// Removes the commands whose condition can't hold any more, because of a RESUME.
    pub(crate) fn take_lost(&mut self, common: &mut Common, resumed: Option<&str>) -> Vec<WaitingCommand> {
        self.take_finished(common, |_, watch| match watch.until {
            Condition::Flushed => resumed.is_none(),
            Condition::Quiet => resumed.is_none_or(|name| watch.name.as_deref() == Some(name)),
            Condition::Closed | Condition::Fenced => false,
        })
    }
}
