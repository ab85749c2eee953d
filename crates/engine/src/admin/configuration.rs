//! Reloads, SET and changes by the control plane: a helper reads, the workers adopt.

use std::sync::Arc;

use weir_admin::{Author, ChangeError, Command, CommandError, ControlReply, Persisted};
use weir_base::Time;
use weir_config::{Config, Successor};

use crate::admin::broadcasts::Caller;
use crate::admin::reload::{Reload, SetTls};
use crate::admin::{Admin, console, operators};
use crate::common::cx;
use crate::core::Core;
use crate::log::log;
use crate::port::{Io, Level, Reread};
use crate::workers::messages::WorkerCommand;

/// How the error of a configuration begins whose certificates can't be used.
const TLS_FAULT: &str = "TLS setup failed: ";

impl Admin {
    /// RELOAD.
    pub(crate) fn begin_reload<I: Io>(
        &mut self,
        core: &mut Core,
        now: Time,
        caller: Caller,
        author: Author,
        io: &mut I,
    ) {
        log(Level::Info, format_args!("RELOAD: reading {}", core.common.config().source.display()), io);
        let cx = cx!(core, now, io);
        self.reloads.enqueue(cx, Reload::Read(caller, author, Reread::All));
    }

    /// A watched file has changed.
    pub(crate) fn begin_reread<I: Io>(&mut self, core: &mut Core, now: Time, reread: Reread, io: &mut I) {
        log(Level::Info, format_args!("a watched file has changed: reading it again"), io);
        let cx = cx!(core, now, io);
        self.reloads.enqueue(cx, Reload::Read(Caller::Engine, Author::watch(), reread));
    }

    /// A helper has reread the configuration.
    pub(crate) fn config_read<I: Io>(
        &mut self,
        core: &mut Core,
        now: Time,
        read: Result<Successor, String>,
        io: &mut I,
    ) {
        let (caller, author) = match self.reloads.finish() {
            Some(Reload::Read(caller, author, _)) => (caller, author),
            Some(Reload::SetTls(set)) => return self.tls_was_set(core, now, set, read, io),
            Some(Reload::Change(..)) | None => return,
        };
        self.reloads.ended(core.common.wall(now), read.as_ref());
        match read {
            Ok(read) => {
                read.config.warnings.iter().for_each(|text| log(Level::Warning, format_args!("{text}"), io));
                let id = self.put_in_force(core, now, caller, ("RELOAD", author), read, io);
                operators::caller_waits(core, caller, id);
            }
            Err(why) => {
                if why.starts_with(TLS_FAULT) {
                    // PgBouncer's line begins like this.
                    log(Level::Error, format_args!("{why}"), io);
                }
                for line in why.lines() {
                    log(Level::Error, format_args!("RELOAD failed, the old configuration stays: {line}"), io);
                }
                let error = CommandError::ReloadFailed(why);
                match caller {
                    Caller::Engine => {}
                    Caller::Console(conn) => operators::answer_console(core, conn, &console::failure(&error), io),
                    Caller::Control(number) => io.answer(number, Err(error)),
                }
            }
        }
        self.reloads.start(cx!(core, now, io));
        self.settled(core, io);
    }

    /// SET of encryption: a helper reads its files.
    pub(crate) fn begin_set_tls<I: Io>(&mut self, core: &mut Core, now: Time, set: SetTls, io: &mut I) {
        let cx = cx!(core, now, io);
        self.reloads.enqueue(cx, Reload::SetTls(set));
    }

    /// A helper has read the files of a SET of encryption. If they can't be used, the SET stands, without effect until
    /// another one makes them fit.
    fn tls_was_set<I: Io>(
        &mut self,
        core: &mut Core,
        now: Time,
        set: SetTls,
        read: Result<Successor, String>,
        io: &mut I,
    ) {
        let mut next = Config::clone(&self.reloads.with_set(&set));
        match read {
            Ok(read) => (next.tls, next.pending_tls) = (read.config.tls.clone(), None),
            Err(why) => {
                let notice = "TLS settings could not be applied, still using old configuration";
                log(Level::Error, format_args!("{notice}: {why}"), io);
                if let Caller::Console(conn) = set.caller {
                    io.send(conn, &console::notice(notice, Some(&why)));
                }
            }
        }
        let SetTls { caller, author, key, value } = set;
        let next = Arc::new(next);
        self.record_config(core, now, ("SET", author), next.clone(), io);
        let id = self.broadcast(core, now, caller, Command::Set { key, value }, &WorkerCommand::Adopt(next), io);
        operators::caller_waits(core, caller, id);
        self.reloads.start(cx!(core, now, io));
        self.settled(core, io);
    }

    /// A helper has made a change of the control plane's, or has not.
    pub(crate) fn config_changed<I: Io>(
        &mut self,
        core: &mut Core,
        now: Time,
        made: Result<(Successor, Persisted), ChangeError>,
        io: &mut I,
    ) {
        let Some(Reload::Change(number, wanted, author)) = self.reloads.finish() else { return };
        match made {
            Ok((read, persisted)) => {
                let edit = &wanted.edit;
                if persisted == Persisted::InFile {
                    self.reloads.ended(core.common.wall(now), Ok(&read));
                }
                match &persisted {
                    Persisted::InFile => log(Level::Info, format_args!("{edit} was changed by the control plane"), io),
                    Persisted::InMemory(why) => {
                        let text = format_args!("{edit} was changed by the control plane until the restart: {why}");
                        log(Level::Warning, text, io);
                    }
                }
                self.reloads.set_persisted(number, persisted);
                self.put_in_force(core, now, Caller::Control(number), ("CHANGE", author), read, io);
            }
            Err(why) => io.answer(number, Ok(ControlReply::Changed(Err(why)))),
        }
        self.reloads.start(cx!(core, now, io));
        self.settled(core, io);
    }

    fn put_in_force<I: Io>(
        &mut self,
        core: &mut Core,
        now: Time,
        caller: Caller,
        by: (&'static str, Author),
        read: Successor,
        io: &mut I,
    ) -> u64 {
        let Successor { config, restart } = read;
        if let (Caller::Console(conn), false) = (caller, restart.is_empty()) {
            io.send(conn, &console::needs_restart(&restart));
        }
        for change in restart {
            let (key, old, new) = (change.key, change.old, change.new);
            log(Level::Warning, format_args!("{key} stays \"{old}\" until a restart, which \"{new}\" needs"), io);
        }
        self.record_config(core, now, by, config.clone(), io);
        self.broadcast(core, now, caller, Command::Reload, &WorkerCommand::Adopt(config), io)
    }
}
