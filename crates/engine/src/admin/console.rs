//! Operators at the console: their queries, and whether this is the time for a command.
//!
//! A console lives on the worker that accepted it. What a command's words mean is in `weir-admin`, how it reaches all
//! workers in `gather`, and what it stops in `halt`.

use std::borrow::Cow;
use std::sync::Arc;

use weir_admin::{Command, CommandError, ServiceState, Show};
use weir_base::{Peer, Time};
use weir_pgwire::tag::front;
use weir_pgwire::{ErrorFields, HEAD, Head, frontend, put_back};
use weir_session::Refusal;

use crate::Engine;
use crate::admin::console_state::Console;
use crate::admin::gather::Caller;
use crate::cluster::messages::WorkerCommand;
use crate::common::{FollowUp, Job};
use crate::log::log;
use crate::peers::{ClientPhase, ClientSlot, Entry};
use crate::port::{self, Io, Level};

/// The longest query at the console.
const MAX_QUERY: usize = 64 << 10;

impl Engine {
    /// An operator sent something; all of it is in the client's buffer.
    pub(crate) fn console_bytes<I: Io>(&mut self, now: Time, mut client: Box<ClientSlot>, io: &mut I) {
        while !client.pause.waits {
            let head = match Head::parse(&client.waiting) {
                Ok(None) => break,
                Ok(Some(head)) if head.total() <= MAX_QUERY => head,
                _ => {
                    let refusal = Refusal::Protocol("a message that the console can't take".into());
                    return self.refuse(now, client, refusal, io);
                }
            };
            if client.waiting.len() < head.total() {
                break;
            }
            if head.tag == front::TERMINATE {
                return self.client_leaves(now, client, io);
            }
            let body: Vec<u8> = client.waiting[HEAD..head.total()].to_vec();
            client.waiting.drain(..head.total());
            self.console_message(now, &mut client, head.tag, &body, io);
        }
        self.peers.put(client.peer, Entry::Client(client));
    }

    fn console_message<I: Io>(&mut self, now: Time, client: &mut ClientSlot, tag: u8, body: &[u8], io: &mut I) {
        let ClientPhase::Console(console) = &mut client.phase else { return };
        let mut buffer = Vec::new();
        match tag {
            front::SYNC => {
                console.skipping = false;
                put_back::ready(&mut buffer, b'I');
            }
            _ if console.skipping => {}
            front::QUERY => {
                let role = console.role;
                let text = frontend::query(body).map(String::from_utf8_lossy).unwrap_or(Cow::Borrowed(""));
                match weir_admin::parse(&text).and_then(|command| command.permit(role).map(|()| command)) {
                    Ok(command) => return self.command(now, client, command, io),
                    Err(error) => {
                        log(Level::Error, format_args!("{error}"), io);
                        put_failure(&mut buffer, &error);
                    }
                }
            }
            front::FLUSH => {}
            _ => {
                console.skipping = true;
                put_error(&mut buffer, &CommandError::ExtendedProtocol);
            }
        }
        if !buffer.is_empty() {
            io.send(client.peer, &buffer);
        }
    }

    fn command<I: Io>(&mut self, now: Time, client: &mut ClientSlot, command: Command, io: &mut I) {
        if let Some(what) = command.issued() {
            log(Level::Info, format_args!("{what} command issued"), io);
        }
        let asked = match &command {
            Command::Show(Show::Help) => return self.answer_help(client, io),
            Command::Show(Show::Fds) => Err(CommandError::NoHandOver),
            Command::Show(what) if !what.lists().is_empty() => return self.begin_listing(client, *what, io),
            Command::Show(what) => Ok(WorkerCommand::Report { counts: *what == Show::Users }),
            Command::SetParameter(_) => return self.answer_set_ignored(client, io),
            Command::Reload => {
                self.wait_console(client, None, io);
                return self.begin_reload(Caller::Console(client.peer), io);
            }
            Command::Shutdown(mode) => return self.shutdown(now, client, *mode, io),
            order => self.order(order),
        };
        match asked {
            Ok(ask) => {
                let id = self.scatter(now, Caller::Console(client.peer), command, ask, io);
                self.wait_console(client, Some(id), io);
            }
            Err(error) => {
                let mut buffer = Vec::new();
                put_failure(&mut buffer, &error);
                let why = error.detail().map(|why| format!(": {why}")).unwrap_or_default();
                log(Level::Error, format_args!("{error}{why}"), io);
                io.send(client.peer, &buffer);
            }
        }
    }

    /// What a command asks of all workers, if this is the time for it.
    pub(crate) fn order(&self, command: &Command) -> Result<WorkerCommand, CommandError> {
        self.check_name(command.database())?;
        let stopped = self.admin.halt.serving != ServiceState::Active;
        match command {
            Command::Pause(_) | Command::Kill(_) | Command::Suspend if stopped => Err(CommandError::AlreadyPaused),
            Command::Suspend if !self.admin.halt.paused.is_empty() => Err(CommandError::PausedDatabases),
            Command::Suspend => Ok(WorkerCommand::Suspend),
            Command::Pause(name) => Ok(WorkerCommand::Pause(name.clone())),
            Command::Kill(name) => Ok(WorkerCommand::Kill(name.clone())),
            Command::Resume(None) if self.admin.draining.is_some() => Err(CommandError::ShuttingDown),
            Command::Resume(None) if !stopped && self.admin.halt.paused.is_empty() => Err(CommandError::NotPaused),
            Command::Resume(name) => Ok(WorkerCommand::Resume(name.clone())),
            Command::Reconnect(name) => Ok(WorkerCommand::Reconnect(name.clone())),
            Command::WaitClose(name) => Ok(WorkerCommand::WaitClose(name.clone())),
            Command::KillClient(id) => Ok(WorkerCommand::KillClient(*id)),
            Command::Disable(name) => Ok(WorkerCommand::Disable(name.clone())),
            Command::Enable(name) => Ok(WorkerCommand::Enable(name.clone())),
            Command::Set { key, value } => match weir_config::set(&self.admin.newest, key, value) {
                Ok(config) => Ok(WorkerCommand::Adopt(Arc::new(config))),
                Err(error) => Err(CommandError::SetFailed(error.to_string())),
            },
            other => Err(CommandError::NotSupported(other.name())),
        }
    }

    /// An operator left: a command that still waits is taken back, as with PgBouncer.
    pub(crate) fn console_left<I: Io>(&mut self, now: Time, console: &Console, io: &mut I) {
        if let Some(id) = console.pending {
            self.take_back(now, id, io);
        }
    }

    /// Ctrl-C at the console: a command that still waits is taken back.
    pub(crate) fn cancel_console<I: Io>(&mut self, now: Time, console: Peer, io: &mut I) {
        let Some(client) = self.peers.client(console) else { return };
        let ClientPhase::Console(state) = &client.phase else { return };
        let (pending, streams) = (state.pending, state.stream.is_some());
        if !streams && !pending.is_some_and(|id| self.take_back(now, id, io)) {
            return;
        }
        let mut buffer = Vec::new();
        let fields = ErrorFields {
            severity: "ERROR",
            sqlstate: "57014",
            message: "canceling statement due to user request",
            detail: None,
            hint: None,
        };
        put_back::error(&mut buffer, &fields);
        put_back::ready(&mut buffer, b'I');
        self.reply(console, &buffer, io);
    }

    fn wait_console<I: Io>(&mut self, client: &mut ClientSlot, id: Option<u64>, io: &mut I) {
        self.pause_client(client, io);
        if let ClientPhase::Console(console) = &mut client.phase {
            console.pending = id;
        }
    }

    /// What a console waits for has got a number.
    pub(crate) fn console_waits_for(&mut self, console: Peer, id: u64) {
        if let Some(client) = self.peers.client(console)
            && let ClientPhase::Console(state) = &mut client.phase
        {
            state.pending = Some(id);
        }
    }

    /// Answers a console that waits, and lets it go on.
    pub(crate) fn reply<I: Io>(&mut self, console: Peer, buffer: &[u8], io: &mut I) {
        let Some(mut client) = self.peers.take_client(console) else { return };
        let waits = client.pause.waits;
        if let ClientPhase::Console(state) = &mut client.phase {
            state.pending = None;
            state.stream = None;
            io.send(console, buffer);
        }
        if waits {
            self.unpause_client(&mut client, io);
        }
        self.peers.put(console, Entry::Client(client));
        self.common.follow_up(FollowUp::Feed(console));
    }

    /// A helper finished something.
    pub(crate) fn helped<I: Io>(&mut self, now: Time, job: u64, answer: port::Answer, io: &mut I) {
        match (self.common.end_job(job), answer) {
            (Some(Job::ClientSalt(peer)), port::Answer::Salted(salted)) => self.client_salted(now, peer, &salted, io),
            (Some(Job::NameOfUser(uid)), port::Answer::UserName(name)) => {
                self.user_named(now, uid, name.as_deref(), io);
            }
            (Some(Job::ServerSalt(peer)), port::Answer::Salted(salted)) => self.server_salted(now, peer, &salted, io),
            (Some(Job::Reload), port::Answer::Config(read)) => self.reloaded(now, read, io),
            (Some(Job::Reload), port::Answer::Changed(made)) => self.changed(now, made, io),
            _ => log(Level::Error, format_args!("a helper's answer that nobody waits for"), io),
        }
    }

    fn answer_help<I: Io>(&mut self, client: &ClientSlot, io: &mut I) {
        let mut buffer = Vec::new();
        let text = weir_admin::help_text();
        let fields = ErrorFields {
            severity: "NOTICE",
            sqlstate: "00000",
            message: "Console usage",
            detail: Some(&text),
            hint: None,
        };
        put_back::notice(&mut buffer, &fields);
        put_back::command_complete(&mut buffer, "SHOW");
        put_back::ready(&mut buffer, b'I');
        io.send(client.peer, &buffer);
    }

    fn answer_set_ignored<I: Io>(&mut self, client: &ClientSlot, io: &mut I) {
        let mut buffer = Vec::new();
        let fields =
            ErrorFields { severity: "NOTICE", sqlstate: "00000", message: "SET ignored", detail: None, hint: None };
        put_back::notice(&mut buffer, &fields);
        put_back::command_complete(&mut buffer, "SET");
        put_back::ready(&mut buffer, b'I');
        io.send(client.peer, &buffer);
    }
}

pub(crate) fn put_failure(buffer: &mut Vec<u8>, error: &CommandError) {
    put_error(buffer, error);
    put_back::ready(buffer, b'I');
}

fn put_error(buffer: &mut Vec<u8>, error: &CommandError) {
    let message = error.to_string();
    let fields = ErrorFields {
        severity: "ERROR",
        sqlstate: error.sqlstate(),
        message: &message,
        detail: error.detail(),
        hint: None,
    };
    put_back::error(buffer, &fields);
}
