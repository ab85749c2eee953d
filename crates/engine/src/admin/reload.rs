//! Another configuration while serving: read again, or changed by the control plane, both by a helper.
//!
//! Owns their order: one at a time, so that the one that was asked for last is the one that stays. What can't change
//! without a restart is said, and the old values stay, so that the configuration in force is the one shown. Must not know
//! how a configuration is spread or taken over, or where it is kept.

use std::sync::Arc;

use weir_admin::{ChangeError, Command, CommandError, Persisted, Reply};
use weir_base::Time;
use weir_config::{Config, Edit, differences, keep_restart_settings};

use crate::Engine;
use crate::admin::console::put_failure;
use crate::admin::gather::Caller;
use crate::cluster::messages::WorkerCommand;
use crate::common::Job;
use crate::log::log;
use crate::port::{Io, Level, Work};

/// What has the configuration renewed.
#[derive(Clone, Debug)]
pub(crate) enum Renewal {
    /// A RELOAD, and who wants it.
    Reload(Caller),
    /// A change of the control plane, under its number.
    Change(u64, Arc<Edit>),
}

impl Engine {
    pub(crate) fn begin_reload<I: Io>(&mut self, caller: Caller, io: &mut I) {
        log(Level::Info, format_args!("RELOAD: reading {}", self.common.config().source.display()), io);
        self.renew(Renewal::Reload(caller), io);
    }

    /// Has a helper renew the configuration when those before are done.
    pub(crate) fn renew<I: Io>(&mut self, renewal: Renewal, io: &mut I) {
        self.admin.renewals.push_back(renewal);
        if self.admin.renewals.len() == 1 {
            self.next_renewal(io);
        }
    }

    fn next_renewal<I: Io>(&mut self, io: &mut I) {
        let work = match self.admin.renewals.front() {
            None => return,
            Some(Renewal::Reload(_)) => Work::LoadConfig,
            Some(Renewal::Change(_, edit)) => Work::ChangeConfig(edit.clone()),
        };
        let job = self.common.begin_job(Job::Reload);
        io.help(job, work);
    }

    /// The configuration has been read again.
    pub(crate) fn reloaded<I: Io>(&mut self, now: Time, read: Result<Arc<Config>, String>, io: &mut I) {
        let Some(Renewal::Reload(caller)) = self.admin.renewals.pop_front() else { return };
        match read {
            Ok(config) => {
                config.warnings.iter().for_each(|text| log(Level::Warning, format_args!("{text}"), io));
                let id = self.take_over(now, caller, config, io);
                if let Caller::Console(console) = caller {
                    self.console_waits_for(console, id);
                }
            }
            Err(why) => {
                for line in why.lines() {
                    log(Level::Error, format_args!("RELOAD failed, the old configuration stays: {line}"), io);
                }
                self.reload_failed(caller, CommandError::ReloadFailed(why), io);
            }
        }
        self.next_renewal(io);
    }

    /// The configuration has been changed, or has not.
    pub(crate) fn changed<I: Io>(
        &mut self,
        now: Time,
        made: Result<(Arc<Config>, Persisted), ChangeError>,
        io: &mut I,
    ) {
        let Some(Renewal::Change(number, edit)) = self.admin.renewals.pop_front() else { return };
        match made {
            Ok((config, kept)) => {
                match &kept {
                    Persisted::InFile => log(Level::Info, format_args!("{edit} was changed by the control plane"), io),
                    Persisted::InMemory(why) => log(
                        Level::Warning,
                        format_args!("{edit} was changed by the control plane until the restart: {why}"),
                        io,
                    ),
                }
                self.admin.kept.insert(number, kept);
                self.take_over(now, Caller::Control(number), config, io);
            }
            Err(why) => io.answer(number, Ok(Reply::Changed(Err(why)))),
        }
        self.next_renewal(io);
    }

    fn take_over<I: Io>(&mut self, now: Time, caller: Caller, config: Arc<Config>, io: &mut I) -> u64 {
        let config = self.renewed(config, io);
        self.scatter(now, caller, Command::Reload, WorkerCommand::Adopt(config), io)
    }

    fn reload_failed<I: Io>(&mut self, caller: Caller, why: CommandError, io: &mut I) {
        match caller {
            Caller::Nobody => {}
            Caller::Console(console) => {
                let mut buffer = Vec::new();
                put_failure(&mut buffer, &why);
                self.reply(console, &buffer, io);
            }
            Caller::Control(number) => io.answer(number, Err(why)),
        }
    }

    /// A configuration that was read again, as far as it can take effect without a restart.
    fn renewed<I: Io>(&self, read: Arc<Config>, io: &mut I) -> Arc<Config> {
        let fixed = differences(self.common.config(), &read).restart;
        if fixed.is_empty() {
            return read;
        }
        for change in fixed {
            let (key, old, new) = (change.key, change.old, change.new);
            log(Level::Warning, format_args!("{key} stays \"{old}\" until a restart, which \"{new}\" needs"), io);
        }
        let mut kept = Config::clone(&read);
        keep_restart_settings(self.common.config(), &mut kept);
        Arc::new(kept)
    }
}
