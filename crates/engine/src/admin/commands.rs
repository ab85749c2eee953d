//! What operators send at the console.

use std::sync::Arc;

use weir_admin::{Author, Command, CommandError, ConsoleDeed, Show, ShutdownMode};
use weir_base::{ConnId, Span, Time};
use weir_config::FileFormat;

use crate::admin::broadcasts::Caller;
use crate::admin::console::{Console, ConsoleInput};
use crate::admin::reload::SetTls;
use crate::admin::{Admin, DEEDS, console, end, hand_over, operators, primaries, tables};
use crate::client::slot::{ClientPhase, ClientSlot};
use crate::common::UnderWay;
use crate::core::Core;
use crate::link::leave;
use crate::log::log;
use crate::port::{Io, Level};
use crate::reading::Reason;
use crate::workers::messages::{Drain, WorkerCommand};

/// The most messages of a console that are no commands, in one turn.
const MESSAGES: usize = 256;

impl Admin {
    /// The command for all workers, if it is possible now.
    ///
    /// # Errors
    /// Why the command is not possible.
    pub(crate) fn worker_command(&self, core: &Core, command: &Command) -> Result<WorkerCommand, CommandError> {
        operators::check_name(core, command.database())?;
        if matches!(command, Command::Resume(None)) && core.common.is_under_way(UnderWay::SHUTDOWN) {
            return Err(CommandError::ShuttingDown);
        }
        core.pause.allows(command)?;
        match command {
            Command::Suspend => Ok(WorkerCommand::Suspend),
            Command::Pause(name) => Ok(WorkerCommand::Pause(name.clone())),
            Command::Kill(name) => Ok(WorkerCommand::Kill(name.clone())),
            Command::Resume(name) => Ok(WorkerCommand::Resume(name.clone())),
            Command::Reconnect(name) => Ok(WorkerCommand::Reconnect(name.clone())),
            Command::Retry(name) => Ok(WorkerCommand::Retry(name.clone())),
            Command::WaitClose(name) => Ok(WorkerCommand::WaitClose(name.clone())),
            Command::Switch { database, host } => {
                let to = primaries::target_of(core, database, host)?;
                Ok(WorkerCommand::Switch(database.as_str().into(), to))
            }
            Command::StartRecord(name, seconds) => {
                let until = core.common.now() + Span::from_secs(u64::from(*seconds));
                Ok(WorkerCommand::StartRecord(name.clone(), until))
            }
            Command::StopRecord(name) => Ok(WorkerCommand::StopRecord(name.clone())),
            Command::ResetStatements => Ok(WorkerCommand::ResetStatements),
            Command::KillClient(id) => Ok(WorkerCommand::KillClient(*id)),
            Command::Disable(name) => Ok(WorkerCommand::Disable(name.clone())),
            Command::Enable(name) => Ok(WorkerCommand::Enable(name.clone())),
            Command::Set { key, value } => match weir_config::set(self.reloads.newest(), key, value) {
                Ok(config) => Ok(WorkerCommand::Adopt(Arc::new(config))),
                Err(error) => Err(CommandError::SetFailed(error.reason().to_owned())),
            },
            other => Err(CommandError::NotSupported(other.name())),
        }
    }

    /// Notes who changed what.
    fn note_deed(&mut self, core: &Core, now: Time, client: &ClientSlot, command: &Command) {
        let Some((command, object)) = command.deed() else { return };
        if self.deeds.len() >= DEEDS {
            self.deeds.pop_front();
        }
        // Later ones have greater numbers.
        let at = core.common.wall(now).max(self.deeds.back().map_or(0, |last| last.at + 1));
        let Author { user, from, .. } = operators::operator(core, client);
        self.deeds.push_back(ConsoleDeed { at, user: user.unwrap_or_default(), from, command, object });
    }

    fn console_shutdown<I: Io>(
        &mut self,
        core: &mut Core,
        now: Time,
        client: &ClientSlot,
        mode: ShutdownMode,
        io: &mut I,
    ) {
        let drain = match mode {
            ShutdownMode::Now => return io.exit(0),
            ShutdownMode::WaitForServers => Drain::Servers,
            ShutdownMode::WaitForClients => Drain::Clients,
            ShutdownMode::Drain => Drain::Transactions,
        };
        io.send(client.conn, &console::complete(b"SHUTDOWN"));
        match drain {
            Drain::Transactions => self.drain_command(core, now, io),
            Drain::Servers | Drain::Clients => end::begin_drain(core, now, drain, io),
        }
    }

    fn console_command<I: Io>(
        &mut self,
        core: &mut Core,
        now: Time,
        client: &mut ClientSlot,
        command: Command,
        io: &mut I,
    ) {
        if let Some(what) = command.issued() {
            // With an ini the line is PgBouncer's, which tools read by its form.
            let by = match core.common.config().format {
                FileFormat::Ini => String::new(),
                FileFormat::Toml => {
                    let Author { user, from, .. } = operators::operator(core, client);
                    format!(" by {} from {from}", user.unwrap_or_default())
                }
            };
            log(Level::Info, format_args!("{what} command issued{by}"), io);
        }
        let to_workers = match &command {
            command if let Err(error) = hand_over::check(core, command) => Err(error),
            Command::Show(Show::Help) => return io.send(client.conn, &console::help()),
            Command::Show(Show::Fds) => Err(CommandError::NoShowFds),
            Command::Show(what) if !what.lists().is_empty() => {
                return tables::list_connections(core, client, *what, io);
            }
            Command::Show(Show::Statements) => Ok(WorkerCommand::Statements),
            Command::Show(Show::Records | Show::DryRun) => Ok(WorkerCommand::Traffic),
            Command::Show(what) => Ok(WorkerCommand::Report { counts: *what == Show::Users }),
            Command::SetParameter(_) => return io.send(client.conn, &console::set_ignored()),
            Command::Reload => {
                operators::console_waits(client, None, io);
                return self.begin_reload(
                    core,
                    now,
                    Caller::Console(client.conn),
                    operators::operator(core, client),
                    io,
                );
            }
            Command::Shutdown(mode) => {
                self.note_deed(core, now, client, &command);
                return self.console_shutdown(core, now, client, *mode, io);
            }
            Command::Set { key, value } if weir_config::is_about_tls(key) => {
                match weir_config::set(self.reloads.newest(), key, value) {
                    Ok(_) => {
                        operators::note_local_set(core, client, io);
                        operators::console_waits(client, None, io);
                        let (caller, author) = (Caller::Console(client.conn), operators::operator(core, client));
                        let set = SetTls { caller, author, key: key.clone(), value: value.clone() };
                        return self.begin_set_tls(core, now, set, io);
                    }
                    Err(error) => Err(CommandError::SetFailed(error.reason().to_owned())),
                }
            }
            command => self.worker_command(core, command),
        };
        match to_workers {
            Ok(to_workers) => {
                self.note_deed(core, now, client, &command);
                if let WorkerCommand::Adopt(config) = &to_workers {
                    self.record_config(core, now, ("SET", operators::operator(core, client)), config.clone(), io);
                    operators::note_local_set(core, client, io);
                }
                let id = self.broadcast(core, now, Caller::Console(client.conn), command, &to_workers, io);
                operators::console_waits(client, Some(id), io);
            }
            Err(error) => {
                let why = error.detail().map(|why| format!(": {why}")).unwrap_or_default();
                log(Level::Error, format_args!("{error}{why}"), io);
                io.send(client.conn, &console::failure(&error));
            }
        }
    }

    /// Handles input of an operator, all of which is in the client's buffer: a command, or a few messages that are no
    /// commands. What follows waits for the worker's next round, so that a pipeline does not delay other clients.
    pub(crate) fn console_bytes<I: Io>(&mut self, core: &mut Core, now: Time, mut client: Box<ClientSlot>, io: &mut I) {
        let received = std::mem::take(client.waiting_mut());
        let (mut at, mut left) = (0, MESSAGES);
        while left > 0 {
            left -= 1;
            let ClientPhase::Console(console) = client.phase_mut() else { break };
            match console.read(&received, &mut at) {
                ConsoleInput::More => break,
                ConsoleInput::Answer(answer) if answer.is_empty() => {}
                ConsoleInput::Answer(answer) => io.send(client.conn, &answer),
                ConsoleInput::Command(command) => {
                    count_command(core);
                    self.console_command(core, now, &mut client, command, io);
                    left = 0;
                }
                ConsoleInput::Refused(error) => {
                    count_command(core);
                    log(Level::Error, format_args!("{error}"), io);
                    io.send(client.conn, &console::failure(&error));
                    left = 0;
                }
                ConsoleInput::Broken(refusal) => return leave::refuse(core, now, client, refusal, io),
                ConsoleInput::Leave => return leave::client_leaves(core, now, client, io),
            }
        }
        *client.waiting_mut() = received;
        client.waiting_mut().drain(..at);
        if left == 0 && !client.reading.has(Reason::Waits) {
            operators::goes_on(core, &mut client, io);
        }
        core.conns.put_client(client);
    }

    /// An operator has disconnected: a command that still waits is withdrawn, as in PgBouncer.
    pub(crate) fn console_gone<I: Io>(&mut self, core: &mut Core, now: Time, console: &Console, io: &mut I) {
        if let Some(id) = console.pending() {
            self.take_back(core, now, id, io);
        }
        self.check_operators(core, now, io);
    }

    /// Ctrl-C at the console: a command that still waits is withdrawn.
    pub(crate) fn cancel_console<I: Io>(&mut self, core: &mut Core, now: Time, conn: ConnId, io: &mut I) {
        let Some(console) = operators::console(core, conn) else { return };
        let (pending, streams) = (console.pending(), console.table().is_some());
        if streams || pending.is_some_and(|id| self.take_back(core, now, id, io)) {
            operators::answer_console(core, conn, &console::canceled(), io);
        }
    }
}

/// A command is a query and a transaction in the statistics of the console's database (PgBouncer).
fn count_command(core: &mut Core) {
    let stats = &mut core.console_counts.stats;
    stats.query_count += 1;
    stats.xact_count += 1;
}
