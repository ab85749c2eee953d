//! Operators at the console: their queries, and the commands that all workers carry out.
//!
//! A console lives on the worker that accepted it. A command goes to every worker with an id and is answered when all
//! have answered (scatter and gather), or when the deadline has passed. What a command means is in `weir-admin`.

use std::borrow::Cow;

use weir_admin::{Command, CommandError, Facts, Report, Role, Serving, Show, ShutdownMode, Table};
use weir_base::{Peer, Span, Time, WorkerId};
use weir_pgwire::tag::front;
use weir_pgwire::{ErrorFields, HEAD, Head, frontend, put_back};
use weir_session::Refusal;

use crate::mail::{Answer, Ask, Drain, Letter, Mail};
use crate::peers::{ClientSlot, Entry, Phase};
use crate::pools::Pausing;
use crate::port::{self, Io, Level, Work};
use crate::timers::Who;
use crate::{Engine, Job, Todo};

/// The longest query at the console.
const MAX_QUERY: usize = 64 << 10;
/// How long workers may take to answer, but for PAUSE, which takes as long as the transactions do.
const GATHER_TIMEOUT: Span = Span::from_secs(10);

/// An operator's session.
pub(crate) struct Console {
    role: Role,
    /// The name it connected to.
    pub(crate) database: String,
    /// After an error in the extended protocol, until Sync.
    skipping: bool,
    /// What it waits for.
    pending: Option<u64>,
}

impl Console {
    pub(crate) fn new(role: Role, database: String) -> Self {
        Console { role, database, skipping: false, pending: None }
    }
}

/// A command on its way through the workers.
pub(crate) struct Gathering {
    /// Who wants to know; nobody, if a signal asked.
    console: Option<Peer>,
    command: Command,
    left: u16,
    report: Report,
    failed: Option<CommandError>,
    armed: Time,
}

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
        let Phase::Console(console) = &mut client.phase else { return };
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
                match weir_admin::parse(&text).and_then(|c| c.map(|c| c.permit(role).map(|()| c)).transpose()) {
                    Ok(None) => {
                        put_back::empty_query(&mut buffer);
                        put_back::ready(&mut buffer, b'I');
                    }
                    Ok(Some(command)) => return self.command(now, client, command, io),
                    Err(error) => put_failure(&mut buffer, &error),
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
        let asked = match &command {
            Command::Show(Show::Help) => return self.answer_help(client, io),
            Command::Show(Show::Fds) => Err(CommandError::NotSupported("SHOW FDS")),
            Command::Show(what) => Ok(Ask::Report { sockets: what.reads_sockets() }),
            Command::SetParameter(_) => return self.answer_set_ignored(client, io),
            Command::Pause(name) => self.may_pause(name.as_deref()).map(|()| Ask::Pause(name.clone())),
            Command::Resume(name) => self.may_resume(name.as_deref()).map(|()| Ask::Resume(name.clone())),
            Command::Reconnect(name) => self.check_name(name.as_deref()).map(|()| Ask::Reconnect(name.clone())),
            Command::Kill(name) => self.check_name(name.as_deref()).map(|()| Ask::Kill(name.clone())),
            Command::KillClient(id) => Ok(Ask::KillClient(*id)),
            Command::Reload => {
                self.wait_console(client, None, io);
                return self.begin_reload(Some(client.peer), io);
            }
            Command::Shutdown(mode) => return self.shutdown(now, client, *mode, io),
            other => Err(CommandError::NotSupported(other.name())),
        };
        match asked {
            Ok(ask) => {
                let id = self.scatter(now, Some(client.peer), command, ask, io);
                self.wait_console(client, Some(id), io);
            }
            Err(error) => {
                let mut buffer = Vec::new();
                put_failure(&mut buffer, &error);
                io.send(client.peer, &buffer);
            }
        }
    }

    fn wait_console<I: Io>(&mut self, client: &mut ClientSlot, id: Option<u64>, io: &mut I) {
        self.pause_client(client, io);
        if let Phase::Console(console) = &mut client.phase {
            console.pending = id;
        }
    }

    fn may_pause(&self, name: Option<&str>) -> Result<(), CommandError> {
        self.check_name(name)?;
        if self.paused.all { Err(CommandError::AlreadyPaused) } else { Ok(()) }
    }

    fn may_resume(&self, name: Option<&str>) -> Result<(), CommandError> {
        self.check_name(name)?;
        match name {
            _ if self.draining == Some(Drain::Servers) => Err(CommandError::ShuttingDown),
            None if !self.paused.all && self.paused.names.is_empty() => Err(CommandError::NotPaused),
            Some(name) if !self.paused.all && !self.paused.names.contains(name) => {
                Err(CommandError::DatabaseNotPaused(name.to_owned()))
            }
            _ => Ok(()),
        }
    }

    fn shutdown<I: Io>(&mut self, now: Time, client: &mut ClientSlot, mode: ShutdownMode, io: &mut I) {
        io.log(Level::Info, format_args!("SHUTDOWN command issued"));
        let drain = match mode {
            ShutdownMode::Now => return io.exit(0),
            ShutdownMode::WaitForServers => Drain::Servers,
            ShutdownMode::WaitForClients => Drain::Clients,
        };
        let mut buffer = Vec::new();
        put_back::command_complete(&mut buffer, "SHUTDOWN");
        put_back::ready(&mut buffer, b'I');
        io.send(client.peer, &buffer);
        self.begin_drain(now, drain, io);
    }

    /// Sends a command of nobody at the console to all workers.
    pub(crate) fn scatter_quietly<I: Io>(&mut self, now: Time, ask: Ask, io: &mut I) {
        let command = match &ask {
            Ask::Resume(_) => Command::Resume(None),
            Ask::Adopt(_) => Command::Reload,
            _ => Command::Pause(None),
        };
        self.scatter(now, None, command, ask, io);
    }

    fn scatter<I: Io>(&mut self, now: Time, console: Option<Peer>, command: Command, ask: Ask, io: &mut I) -> u64 {
        let id = self.next_id();
        let waits = matches!(ask, Ask::Pause(_));
        let gathering = Gathering {
            console,
            command,
            left: self.workers,
            report: Report::default(),
            failed: None,
            armed: Time::NEVER,
        };
        let gathering = self.gathering.entry(id).or_insert(gathering);
        if !waits {
            self.timers.arm(Who::Gather(id), now + GATHER_TIMEOUT, &mut gathering.armed);
        }
        for worker in 0..self.workers {
            io.post(WorkerId(worker), Mail(Letter::Ask { id, ask: ask.clone() }), None);
        }
        id
    }

    /// Carries out what another worker's (or this one's) console asks for.
    pub(crate) fn asked<I: Io>(&mut self, now: Time, from: WorkerId, id: u64, ask: Ask, io: &mut I) {
        let answer = match ask {
            Ask::Report { sockets } => Answer::Report(Box::new(self.report(now, sockets))),
            Ask::Adopt(config) => {
                self.adopt(now, config);
                Answer::Done
            }
            Ask::Pause(name) => {
                self.paused.set(name.as_deref());
                self.pools_pause(name.as_deref());
                self.work_off(now, io);
                self.pausing.push(Pausing { from, id, name });
                return self.look_for_quiet(io);
            }
            Ask::Resume(name) => {
                self.paused.clear(name.as_deref());
                self.pools_resume(now, name.as_deref());
                Answer::Done
            }
            Ask::Reconnect(name) => {
                self.pools_reconnect(now, name.as_deref());
                Answer::Done
            }
            Ask::Kill(name) => {
                self.paused.set(name.as_deref());
                self.pools_pause(name.as_deref());
                self.kill(now, name.as_deref(), io);
                Answer::Done
            }
            Ask::KillClient(client) => match self.client_with_id(client) {
                Some(peer) => {
                    self.refuse_handle(now, peer, Refusal::Killed, io);
                    Answer::Done
                }
                None => Answer::Failed(CommandError::ClientNotFound),
            },
            Ask::Drain(drain) => {
                self.drain(now, drain, io);
                Answer::Done
            }
        };
        self.answer(from, id, answer, io);
    }

    pub(crate) fn answer<I: Io>(&mut self, to: WorkerId, id: u64, answer: Answer, io: &mut I) {
        io.post(to, Mail(Letter::Answer { id, answer }), None);
    }

    /// A worker has answered.
    pub(crate) fn answered<I: Io>(&mut self, now: Time, id: u64, answer: Answer, io: &mut I) {
        let Some(gathering) = self.gathering.get_mut(&id) else { return };
        match answer {
            Answer::Done => {
                // One worker has the client; the others do not count.
                if matches!(gathering.command, Command::KillClient(_)) {
                    gathering.failed = None;
                    gathering.left = 1;
                }
            }
            Answer::Report(report) => gathering.report.merge(*report),
            Answer::Failed(error) => gathering.failed = Some(error),
        }
        gathering.left -= 1;
        if gathering.left == 0
            && let Some(gathering) = self.gathering.remove(&id)
        {
            self.gathered(now, gathering, io);
        }
    }

    /// Not all workers have answered in time; what there is must do.
    pub(crate) fn gathered_too_late<I: Io>(&mut self, now: Time, id: u64, io: &mut I) {
        if let Some(gathering) = self.gathering.remove(&id) {
            io.log(Level::Warning, format_args!("{} of the workers did not answer in time", gathering.left));
            self.gathered(now, gathering, io);
        }
    }

    fn gathered<I: Io>(&mut self, now: Time, gathering: Gathering, io: &mut I) {
        let Gathering { console, command, mut report, failed, .. } = gathering;
        let Some(console) = console else { return };
        let mut buffer = Vec::new();
        match (failed, &command) {
            (Some(error), _) => put_failure(&mut buffer, &error),
            (None, Command::Show(what)) => {
                self.add_console_facts(&mut report);
                let facts =
                    Facts { report: &report, config: &self.config, version: self.version, now_wall: self.wall(now) };
                put_table(&mut buffer, &weir_admin::show(*what, &facts));
            }
            (None, command) => {
                put_back::command_complete(&mut buffer, command.tag().as_bytes());
                put_back::ready(&mut buffer, b'I');
            }
        }
        self.reply(console, &buffer, io);
    }

    fn add_console_facts(&self, report: &mut Report) {
        report.serving = if self.paused.all { Serving::Paused } else { Serving::Active };
        report.paused.clone_from(&self.paused.names);
    }

    /// Answers a console that waits, and lets it go on.
    fn reply<I: Io>(&mut self, console: Peer, buffer: &[u8], io: &mut I) {
        let Some(mut client) = self.peers.take_client(console) else { return };
        let waits = client.pause.waits;
        if let Phase::Console(state) = &mut client.phase {
            state.pending = None;
            io.send(console, buffer);
        }
        if waits {
            self.unpause_client(&mut client, io);
        }
        self.peers.put(console, Entry::Client(client));
        self.todo.push_back(Todo::Feed(console));
    }

    /// An operator left: a PAUSE that still waits is taken back, as with PgBouncer.
    pub(crate) fn console_left<I: Io>(&mut self, now: Time, console: &Console, io: &mut I) {
        let Some(id) = console.pending else { return };
        if let Some(Gathering { command: Command::Pause(name), .. }) = self.gathering.remove(&id) {
            self.scatter(now, None, Command::Resume(name.clone()), Ask::Resume(name), io);
        }
    }

    /// Ctrl-C at the console: a PAUSE that still waits is taken back.
    pub(crate) fn cancel_console<I: Io>(&mut self, now: Time, console: Peer, io: &mut I) {
        let Some(client) = self.peers.client(console) else { return };
        let Phase::Console(state) = &client.phase else { return };
        let Some(id) = state.pending else { return };
        let Some(Gathering { command: Command::Pause(name), .. }) = self.gathering.get(&id) else { return };
        let name = name.clone();
        self.gathering.remove(&id);
        self.scatter(now, None, Command::Resume(name.clone()), Ask::Resume(name), io);
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

    /// Reads the configuration again, on a helper.
    pub(crate) fn begin_reload<I: Io>(&mut self, console: Option<Peer>, io: &mut I) {
        io.log(Level::Info, format_args!("RELOAD: reading {}", self.config.source.display()));
        let job = self.next_id();
        self.jobs.insert(job, Job::Reload(console));
        io.help(job, Work::LoadConfig);
    }

    /// A helper finished something.
    pub(crate) fn helped<I: Io>(&mut self, now: Time, job: u64, answer: port::Answer, io: &mut I) {
        match (self.jobs.remove(&job), answer) {
            (Some(Job::ClientSalt(peer)), port::Answer::Salted(salted)) => self.client_salted(now, peer, &salted, io),
            (Some(Job::ServerSalt(peer)), port::Answer::Salted(salted)) => self.server_salted(now, peer, &salted, io),
            (Some(Job::Reload(console)), port::Answer::Config(Ok(config))) => {
                let id = self.scatter(now, console, Command::Reload, Ask::Adopt(config), io);
                if let Some(client) = console.and_then(|c| self.peers.client(c))
                    && let Phase::Console(state) = &mut client.phase
                {
                    state.pending = Some(id);
                }
            }
            (Some(Job::Reload(console)), port::Answer::Config(Err(why))) => {
                io.log(Level::Error, format_args!("RELOAD failed, the old configuration stays: {why}"));
                let mut buffer = Vec::new();
                put_failure(&mut buffer, &CommandError::ReloadFailed(why));
                console.into_iter().for_each(|console| self.reply(console, &buffer, io));
            }
            _ => io.log(Level::Error, format_args!("a helper's answer that nobody waits for")),
        }
    }

    /// Begins a shutdown that waits.
    pub(crate) fn begin_drain<I: Io>(&mut self, now: Time, drain: Drain, io: &mut I) {
        io.accept(false);
        io.log(
            Level::Info,
            format_args!(
                "shutting down: waiting for {}",
                match drain {
                    Drain::Clients => "clients to leave",
                    Drain::Servers => "servers to finish",
                }
            ),
        );
        self.shutdown_by = now.deadline(self.config.shutdown_timeout);
        self.timers.arm(Who::Shutdown, self.shutdown_by, &mut self.shutdown_armed);
        self.drained.clear();
        self.asked_drain = Some(drain);
        for worker in 0..self.workers {
            let id = self.next_id();
            io.post(WorkerId(worker), Mail(Letter::Ask { id, ask: Ask::Drain(drain) }), None);
        }
    }

    fn drain<I: Io>(&mut self, now: Time, drain: Drain, io: &mut I) {
        self.draining = Some(drain);
        self.told_drained = false;
        if drain == Drain::Servers {
            self.pools_pause(None);
            let waiting: Vec<Peer> = self.peers.clients().filter(|c| c.state() == "waiting").map(|c| c.peer).collect();
            waiting.into_iter().for_each(|peer| self.refuse_handle(now, peer, Refusal::ShuttingDown, io));
            self.work_off(now, io);
        }
        self.look_for_drained(io);
    }

    /// Whether this worker has nothing left that a shutdown waits for.
    pub(crate) fn look_for_drained<I: Io>(&mut self, io: &mut I) {
        let done = match self.draining {
            Some(Drain::Clients) => !self.peers.clients().any(|c| !matches!(c.phase, Phase::Console(_))),
            Some(Drain::Servers) => self.pools.iter().all(|slot| slot.pool.quiet()),
            None => return,
        };
        if done && !self.told_drained {
            self.told_drained = true;
            let drain = self.draining.unwrap_or(Drain::Clients);
            io.post(WorkerId(0), Mail(Letter::Drained(drain)), None);
        }
    }

    pub(crate) fn worker_drained<I: Io>(&mut self, worker: WorkerId, drain: Drain, io: &mut I) {
        if self.asked_drain == Some(drain) {
            self.drained.insert(worker);
        }
        if self.drained.len() == usize::from(self.workers) {
            io.log(Level::Info, format_args!("shutting down: nothing left to wait for"));
            io.exit(0);
        }
    }

    /// Drops all clients and servers of the pools that `name` means.
    fn kill<I: Io>(&mut self, now: Time, name: Option<&str>, io: &mut I) {
        let pools = self.pools.named(name);
        let clients: Vec<Peer> = self.peers.clients().filter(|c| pools.contains(&c.pool)).map(|c| c.peer).collect();
        clients.into_iter().for_each(|client| self.refuse_handle(now, client, Refusal::Killed, io));
        let servers: Vec<Peer> = self.peers.servers().filter(|s| pools.contains(&s.pool)).map(|s| s.peer).collect();
        servers.into_iter().for_each(|server| self.close_server(now, server, "admin forced disconnect", io));
    }

    fn client_with_id(&self, id: u64) -> Option<Peer> {
        self.peers
            .clients()
            .find(|c| c.id == id && matches!(c.phase, Phase::Ready(_) | Phase::Welcome(_)))
            .map(|c| c.peer)
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

fn put_table(buffer: &mut Vec<u8>, table: &Table) {
    // RowDescription by hand: a table's kinds carry their own type ids.
    let mut body = (table.columns.len() as u16).to_be_bytes().to_vec();
    for column in table.columns {
        body.extend_from_slice(column.name.as_bytes());
        body.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0]);
        body.extend_from_slice(&column.kind.oid().to_be_bytes());
        body.extend_from_slice(&column.kind.size().to_be_bytes());
        body.extend_from_slice(&(-1i32).to_be_bytes());
        body.extend_from_slice(&[0, 0]);
    }
    put_back::raw(buffer, weir_pgwire::tag::back::ROW_DESCRIPTION, &body);
    for row in &table.rows {
        put_back::data_row_of(buffer, row.iter().map(|value| value.as_deref()));
    }
    put_back::command_complete(buffer, "SHOW");
    put_back::ready(buffer, b'I');
}

fn put_failure(buffer: &mut Vec<u8>, error: &CommandError) {
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
