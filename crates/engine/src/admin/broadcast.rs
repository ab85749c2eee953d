//! A command is sent to all workers.

use std::sync::Arc;

use weir_admin::{Adopted, Author, Command};
use weir_base::Time;
use weir_config::Config;

use crate::admin::Admin;
use crate::admin::broadcasts::{Caller, Undo};
use crate::common::{Job, cx};
use crate::core::Core;
use crate::port::{Io, Work};
use crate::workers::messages::WorkerCommand;

impl Admin {
    /// Sends a command to all workers; returns its number.
    pub(crate) fn broadcast<I: Io>(
        &mut self,
        core: &mut Core,
        now: Time,
        caller: Caller,
        command: Command,
        to_workers: &WorkerCommand,
        io: &mut I,
    ) -> u64 {
        if let WorkerCommand::Adopt(config) = to_workers {
            self.reloads.set_newest(config.clone(), &command);
        }
        self.broadcasts.broadcast(cx!(core, now, io), caller, command, to_workers)
    }

    /// Whether commands for all workers are under way.
    pub(crate) fn commands_are_under_way(&self) -> bool {
        self.broadcasts.are_under_way()
    }

    /// Withdraws a command that waits: what it stopped continues. Returns whether there was one.
    pub(crate) fn take_back<I: Io>(&mut self, core: &mut Core, now: Time, id: u64, io: &mut I) -> bool {
        let cx = cx!(core, now, io);
        match self.broadcasts.take_back(cx, id) {
            None => return false,
            Some(Undo::Nothing) => {}
            Some(Undo::Resume(name)) => {
                self.broadcast(
                    core,
                    now,
                    Caller::Engine,
                    Command::Resume(name.clone()),
                    &WorkerCommand::Resume(name),
                    io,
                );
            }
        }
        self.settled(core, io);
        true
    }

    /// Has a configuration added to the history that the workers are about to adopt, by a command and its author.
    pub(crate) fn record_config<I: Io>(
        &mut self,
        core: &mut Core,
        now: Time,
        (command, author): (&'static str, Author),
        after: Arc<Config>,
        io: &mut I,
    ) {
        let before = self.reloads.newest().clone();
        let cx = cx!(core, now, io);
        let job = cx.common.begin_job(Job::RecordConfig);
        cx.io.submit_job(job, Work::RecordConfig(Box::new(Adopted { author, command, before, after })));
    }
}
