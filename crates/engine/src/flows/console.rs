//! Operators at the console, and the control plane: their requests, and the replies.

use std::sync::Arc;

use weir_admin::{Author, Command, CommandError, Cursor, Reply, Request, Show, ShutdownMode, SocketRecord, Table, Via};
use weir_base::{Peer, Time, WorkerId};

use crate::admin::console::{self, Console, ConsoleInput};
use crate::admin::gather::Caller;
use crate::admin::paging::Paging;
use crate::admin::reload::{Reload, SetTls};
use crate::admin::stream::{self, Piece, TableStream};
use crate::cluster::messages::{Drain, Message, Payload, WorkerCommand};
use crate::common::{FollowUp, cx};
use crate::engine::Engine;
use crate::log::log;
use crate::peers::{ClientPhase, ClientSlot, Entry};
use crate::port::{Io, Level};

/// The most messages of a console that are no commands, in one turn.
const MESSAGES: usize = 256;

/// The console.
impl Engine {
    /// Handles input of an operator, all of which is in the client's buffer: a command, or a few messages that are none. What
    /// follows waits for the worker's next round, so that a pipeline does not delay other clients.
    pub(crate) fn console_bytes<I: Io>(&mut self, now: Time, mut client: Box<ClientSlot>, io: &mut I) {
        let received = std::mem::take(&mut client.waiting);
        let (mut at, mut left) = (0, MESSAGES);
        while left > 0 {
            left -= 1;
            let ClientPhase::Console(console) = &mut client.phase else { break };
            match console.read(&received, &mut at) {
                ConsoleInput::More => break,
                ConsoleInput::Answer(answer) if answer.is_empty() => {}
                ConsoleInput::Answer(answer) => io.send(client.peer, &answer),
                ConsoleInput::Command(command) => {
                    self.count_command();
                    self.console_command(now, &mut client, command, io);
                    left = 0;
                }
                ConsoleInput::Refused(error) => {
                    self.count_command();
                    log(Level::Error, format_args!("{error}"), io);
                    io.send(client.peer, &console::failure(&error));
                    left = 0;
                }
                ConsoleInput::Broken(refusal) => return self.refuse(now, client, refusal, io),
                ConsoleInput::Leave => return self.client_leaves(now, client, io),
            }
        }
        client.waiting = received;
        client.waiting.drain(..at);
        if left == 0 && !client.pause.waits {
            self.console_goes_on(&mut client, io);
        }
        self.peers.put(client.peer, Entry::Client(client));
    }

    /// A command is answered, or some messages are handled: the next ones have a turn of their own.
    fn console_goes_on<I: Io>(&mut self, client: &mut ClientSlot, io: &mut I) {
        if client.waiting.is_empty() {
            return self.unpause_client(client, io);
        }
        self.pause_client(client, io);
        let next = Paging::Next { console: client.peer };
        io.post(self.common.worker(), Message(Payload::Paging(next)), None);
    }

    /// A console's next turn; it waits while the console does not read its output.
    fn console_turn<I: Io>(&mut self, peer: Peer, io: &mut I) {
        let Some(client) = self.peers.client(peer) else { return };
        let full = client.pause.full;
        let ClientPhase::Console(console) = &mut client.phase else { return };
        console.set_unread(full);
        if !full {
            self.set_pause(peer, |pause| pause.waits = false, io);
            self.common.follow_up(FollowUp::Feed(peer));
        }
    }

    /// A command is a query and a transaction in the statistics of the console's database (PgBouncer).
    fn count_command(&mut self) {
        let stats = &mut self.admin.console_counts.stats;
        stats.query_count += 1;
        stats.xact_count += 1;
    }

    fn console_command<I: Io>(&mut self, now: Time, client: &mut ClientSlot, command: Command, io: &mut I) {
        if let Some(what) = command.issued() {
            log(Level::Info, format_args!("{what} command issued"), io);
        }
        let to_workers = match &command {
            Command::Show(Show::Help) => return io.send(client.peer, &console::help()),
            Command::Show(Show::Fds) => Err(CommandError::NoHandOver),
            Command::Show(what) if !what.lists().is_empty() => return self.list_connections(client, *what, io),
            Command::Show(Show::Statements) => Ok(WorkerCommand::Statements),
            Command::Show(what) => Ok(WorkerCommand::Report { counts: *what == Show::Users }),
            Command::SetParameter(_) => return io.send(client.peer, &console::set_ignored()),
            Command::Reload => {
                self.console_waits(client, None, io);
                return self.begin_reload(now, Caller::Console(client.peer), self.operator(client), io);
            }
            Command::Shutdown(mode) => return self.console_shutdown(now, client, *mode, io),
            Command::Set { key, value } if weir_config::is_about_tls(key) => {
                match weir_config::set(self.admin.reloads.newest(), key, value) {
                    Ok(_) => {
                        self.note_local_set(client, io);
                        self.console_waits(client, None, io);
                        let (caller, author) = (Caller::Console(client.peer), self.operator(client));
                        let set = SetTls { caller, author, key: key.clone(), value: value.clone() };
                        return self.begin_set_tls(now, set, io);
                    }
                    Err(error) => Err(CommandError::SetFailed(error.reason().to_owned())),
                }
            }
            command => self.worker_command(command),
        };
        match to_workers {
            Ok(to_workers) => {
                if let WorkerCommand::Adopt(config) = &to_workers {
                    self.record_config(now, ("SET", self.operator(client)), config.clone(), io);
                    self.note_local_set(client, io);
                }
                let id = self.scatter(now, Caller::Console(client.peer), command, &to_workers, io);
                self.console_waits(client, Some(id), io);
            }
            Err(error) => {
                let why = error.detail().map(|why| format!(": {why}")).unwrap_or_default();
                log(Level::Error, format_args!("{error}{why}"), io);
                io.send(client.peer, &console::failure(&error));
            }
        }
    }

    /// Says before the answer to a SET that the other nodes of a cluster don't get it.
    fn note_local_set<I: Io>(&self, client: &ClientSlot, io: &mut I) {
        if !self.common.config().cluster.etcd.is_empty() {
            io.send(client.peer, &console::set_is_local());
        }
    }

    /// The operator of a console, as the author of a change.
    fn operator(&self, client: &ClientSlot) -> Author {
        let from = client.addr.with_port(self.common.config().listen.port);
        Author { user: Some(client.user.to_string()), from, via: Via::Console, comment: None, request: 0 }
    }

    /// The command for all workers, if it is possible now.
    ///
    /// # Errors
    /// Why it is not.
    fn worker_command(&self, command: &Command) -> Result<WorkerCommand, CommandError> {
        self.check_name(command.database())?;
        if matches!(command, Command::Resume(None)) && self.admin.shutdown.is_draining() {
            return Err(CommandError::ShuttingDown);
        }
        self.admin.halt.allows(command)?;
        match command {
            Command::Suspend => Ok(WorkerCommand::Suspend),
            Command::Pause(name) => Ok(WorkerCommand::Pause(name.clone())),
            Command::Kill(name) => Ok(WorkerCommand::Kill(name.clone())),
            Command::Resume(name) => Ok(WorkerCommand::Resume(name.clone())),
            Command::Reconnect(name) => Ok(WorkerCommand::Reconnect(name.clone())),
            Command::Retry(name) => Ok(WorkerCommand::Retry(name.clone())),
            Command::WaitClose(name) => Ok(WorkerCommand::WaitClose(name.clone())),
            Command::ResetStatements => Ok(WorkerCommand::ResetStatements),
            Command::KillClient(id) => Ok(WorkerCommand::KillClient(*id)),
            Command::Disable(name) => Ok(WorkerCommand::Disable(name.clone())),
            Command::Enable(name) => Ok(WorkerCommand::Enable(name.clone())),
            Command::Set { key, value } => match weir_config::set(self.admin.reloads.newest(), key, value) {
                Ok(config) => Ok(WorkerCommand::Adopt(Arc::new(config))),
                Err(error) => Err(CommandError::SetFailed(error.reason().to_owned())),
            },
            other => Err(CommandError::NotSupported(other.name())),
        }
    }

    fn console_shutdown<I: Io>(&mut self, now: Time, client: &ClientSlot, mode: ShutdownMode, io: &mut I) {
        let drain = match mode {
            ShutdownMode::Now => return io.exit(0),
            ShutdownMode::WaitForServers => Drain::Servers,
            ShutdownMode::WaitForClients => Drain::Clients,
        };
        io.send(client.peer, &console::complete(b"SHUTDOWN"));
        self.begin_drain(now, drain, io);
    }

    fn console_waits<I: Io>(&mut self, client: &mut ClientSlot, command: Option<u64>, io: &mut I) {
        self.pause_client(client, io);
        if let ClientPhase::Console(console) = &mut client.phase {
            console.wait_for(command);
        }
    }

    /// An operator's session, if the operator is connected.
    pub(super) fn console(&mut self, peer: Peer) -> Option<&mut Console> {
        match &mut self.peers.client(peer)?.phase {
            ClientPhase::Console(console) => Some(console),
            _ => None,
        }
    }

    /// An operator has disconnected: a command that still waits is withdrawn, as in PgBouncer.
    pub(crate) fn console_left<I: Io>(&mut self, now: Time, console: &Console, io: &mut I) {
        if let Some(id) = console.pending() {
            self.take_back(now, id, io);
        }
    }

    /// Ctrl-C at the console: a command that still waits is withdrawn.
    pub(crate) fn cancel_console<I: Io>(&mut self, now: Time, peer: Peer, io: &mut I) {
        let Some(console) = self.console(peer) else { return };
        let (pending, streams) = (console.pending(), console.table().is_some());
        if streams || pending.is_some_and(|id| self.take_back(now, id, io)) {
            self.answer_console(peer, &console::canceled(), io);
        }
    }

    /// Sends a reply to a waiting console, and lets it go on.
    pub(super) fn answer_console<I: Io>(&mut self, peer: Peer, answer: &[u8], io: &mut I) {
        let Some(mut client) = self.peers.take_client(peer) else { return };
        if let ClientPhase::Console(console) = &mut client.phase {
            console.answered();
            io.send(peer, answer);
            self.console_goes_on(&mut client, io);
        }
        self.peers.put(peer, Entry::Client(client));
    }
}

/// Tables at the console, in pieces.
impl Engine {
    /// Begins to send a table that lists connections.
    fn list_connections<I: Io>(&mut self, client: &mut ClientSlot, show: Show, io: &mut I) {
        io.send(client.peer, &stream::columns(weir_admin::columns(show)));
        self.pause_client(client, io);
        let mut table = TableStream::of_connections(self.common.next_id(), show);
        ask_for_piece(&mut table, client.peer, self.common.worker(), io);
        if let ClientPhase::Console(console) = &mut client.phase {
            console.set_table(table);
        }
    }

    /// Sends a table to a waiting console.
    pub(super) fn send_table<I: Io>(&mut self, peer: Peer, show: Show, table: Table, io: &mut I) {
        let id = self.common.next_id();
        // Its operator may have disconnected meanwhile.
        let Some(console) = self.console(peer) else { return };
        console.set_table(TableStream::of_rows(id, show, table.rows));
        io.send(peer, &stream::columns(table.columns));
        self.next_rows(peer, id, io);
    }

    /// Handles a request or reply about a list of connections.
    pub(crate) fn paging<I: Io>(&mut self, from: WorkerId, paging: Paging, io: &mut I) {
        let answer = match paging {
            Paging::Wanted { console, id, of, slot } => {
                let (records, next) = self.with_tables(|tables| tables.page(of, slot));
                Paging::Page { console, id, records, next }
            }
            Paging::WantedByControl { number, of, slot } => {
                let (records, next) = self.with_tables(|tables| tables.page(of, slot));
                Paging::PageForControl { number, records, next }
            }
            Paging::Page { console, id, records, next } => {
                let workers = self.common.workers();
                let piece = self.table(console, id).and_then(|table| table.page(&records, next, workers));
                return self.send_piece(console, piece, io);
            }
            Paging::Rows { console, id } => return self.next_rows(console, id, io),
            Paging::Next { console } => return self.console_turn(console, io),
            Paging::PageForControl { number, records, next } => {
                return self.page_for_control(from, number, records, next, io);
            }
        };
        io.post(from, Message(Payload::Paging(answer)), None);
    }

    fn next_rows<I: Io>(&mut self, console: Peer, id: u64, io: &mut I) {
        let piece = self.table(console, id).and_then(TableStream::rows);
        self.send_piece(console, piece, io);
    }

    /// The table of this number that is being sent to a console.
    fn table(&mut self, console: Peer, id: u64) -> Option<&mut TableStream> {
        self.console(console)?.table().filter(|table| table.id() == id)
    }

    fn send_piece<I: Io>(&mut self, console: Peer, piece: Option<Piece>, io: &mut I) {
        let Some(Piece { messages, last }) = piece else { return };
        if last {
            return self.answer_console(console, &messages, io);
        }
        if !messages.is_empty() {
            io.send(console, &messages);
        }
        if self.peers.get_client(console).is_some_and(|client| !client.pause.full) {
            self.console_reads(console, io);
        }
    }

    /// A console has read its output: requests the next piece of its table, or goes on with its next command.
    pub(crate) fn console_reads<I: Io>(&mut self, peer: Peer, io: &mut I) {
        let here = self.common.worker();
        if self.console(peer).is_some_and(|console| console.set_unread(false)) {
            return self.console_turn(peer, io);
        }
        if let Some(table) = self.console(peer).and_then(Console::table).filter(|table| !table.is_asked()) {
            ask_for_piece(table, peer, here, io);
        }
    }
}

fn ask_for_piece<I: Io>(table: &mut TableStream, console: Peer, here: WorkerId, io: &mut I) {
    let (to, paging) = table.ask(console, here);
    io.post(to, Message(Payload::Paging(paging)), None);
}

/// The control plane. Its requests come to worker 0, each with a number, and are answered once. The caller has checked
/// the sender's role.
/// was decided before.
impl Engine {
    /// Handles a request of the control plane.
    pub(crate) fn control_request<I: Io>(&mut self, now: Time, number: u64, request: Request, io: &mut I) {
        let caller = Caller::Control(number);
        match request {
            Request::Report => {
                let to_workers = WorkerCommand::Report { counts: false };
                self.scatter(now, caller, Command::Show(Show::Lists), &to_workers, io);
            }
            Request::Users => {
                let to_workers = WorkerCommand::Report { counts: true };
                self.scatter(now, caller, Command::Show(Show::Users), &to_workers, io);
            }
            Request::Statements => {
                self.scatter(now, caller, Command::Show(Show::Statements), &WorkerCommand::Statements, io);
            }
            Request::Spans => {
                self.scatter(now, caller, Command::Show(Show::Statements), &WorkerCommand::Spans, io);
            }
            Request::Connections(_, Cursor { worker, .. }) if worker.0 >= self.common.workers() => {
                io.answer(number, Ok(Reply::Connections(Vec::new(), None)));
            }
            Request::Connections(of, Cursor { worker, slot }) => {
                io.post(worker, Message(Payload::Paging(Paging::WantedByControl { number, of, slot })), None);
            }
            Request::SetShared(limits) => {
                let open = self.set_shared_limits(now, limits, io);
                io.answer(number, Ok(Reply::SharedOpen(open)));
            }
            Request::SetFaults(faults) => {
                self.admin.faults = faults;
                io.answer(number, Ok(Reply::Done));
            }
            Request::SetFindings(findings) => {
                self.admin.findings = findings;
                io.answer(number, Ok(Reply::Done));
            }
            Request::Log(line) => {
                log(Level::Info, format_args!("{line}"), io);
                io.answer(number, Ok(Reply::Done));
            }
            Request::Change(wanted, author) => {
                let cx = cx!(self, now, io);
                self.admin.reloads.enqueue(cx, Reload::Change(number, wanted, author));
            }
            Request::Reload(author) => self.begin_reload(now, caller, author, io),
            Request::Run(command) => match self.worker_command(&command) {
                Ok(to_workers) => {
                    if let Some(what) = command.issued() {
                        log(Level::Info, format_args!("{what} command issued"), io);
                    }
                    self.scatter(now, caller, command, &to_workers, io);
                }
                Err(error) => io.answer(number, Err(error)),
            },
        }
    }

    /// A request was withdrawn: a command that still waits is withdrawn, too.
    pub(crate) fn control_request_dropped<I: Io>(&mut self, now: Time, number: u64, io: &mut I) {
        if let Some(id) = self.admin.gatherings.of(Caller::Control(number)) {
            self.take_back(now, id, io);
        }
    }

    fn page_for_control<I: Io>(
        &mut self,
        worker: WorkerId,
        number: u64,
        records: Vec<SocketRecord>,
        next: Option<u32>,
        io: &mut I,
    ) {
        let next = match next {
            Some(slot) => Some(Cursor { worker, slot }),
            None if worker.0 + 1 < self.common.workers() => Some(Cursor { worker: WorkerId(worker.0 + 1), slot: 0 }),
            None => None,
        };
        io.answer(number, Ok(Reply::Connections(records, next)));
    }
}
