//! Another process is about to take over: what operators change now would be lost with this one.
//!
//! Worker 0 decides, which all operators reach. What is under way ends before the other process is offered anything, so
//! that it reads the file, and gets the state, of after that. What comes later is refused until the take-over has failed.
//! Must not know how processes talk.

use weir_admin::{Command, CommandError};
use weir_base::{Time, WorkerId};

use crate::admin::Admin;
use crate::admin::broadcasts::Settled;
use crate::core::Core;
use crate::port::{Io, UpgradeStep};
use crate::upgrade::HandOver;
use crate::upgrade::export;

impl Admin {
    /// A step of a take-over by another process is due.
    pub(crate) fn upgrade_step<I: Io>(&mut self, core: &mut Core, now: Time, step: UpgradeStep, io: &mut I) {
        if step == UpgradeStep::Prepare && core.common.worker() == WorkerId(0) {
            core.upgrade.hand_over = HandOver::Asked;
            return self.settled(core, io);
        }
        export::step(core, now, step, io);
    }

    /// Worker 0: something that was under way has ended, and a process may wait for that to take over.
    pub(crate) fn settled<I: Io>(&self, core: &mut Core, io: &mut I) {
        if core.upgrade.hand_over != HandOver::Asked {
            return;
        }
        let prepared = match self.broadcasts.settled() {
            Settled::Stops(why) => Err(why),
            Settled::NotYet => return,
            Settled::Yes if self.reloads.are_under_way() => return,
            Settled::Yes => export::may_export(core),
        };
        core.upgrade.hand_over = if prepared.is_ok() { HandOver::Offered } else { HandOver::None };
        io.upgrade_prepared(prepared.map(|mut prepared| {
            prepared.disabled.clone_from(core.pause.disabled());
            prepared.set.clone_from(self.reloads.set_keys());
            prepared
        }));
    }
}

/// Whether an operator may have this command done now.
///
/// # Errors
/// Another process takes over, and would not know of it.
pub(crate) fn check(core: &Core, command: &Command) -> Result<(), CommandError> {
    match command {
        // They leave nothing behind: a client that is here still is closed here.
        Command::Show(_) | Command::SetParameter(_) | Command::KillClient(_) => Ok(()),
        _ if core.upgrade.hand_over == HandOver::None => Ok(()),
        _ => Err(CommandError::TakenOver),
    }
}
