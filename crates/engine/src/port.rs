//! The port: all inputs of an engine, and all its calls.
//!
//! The runtime implements [`Io`] with sockets, the simulator with a model of them. Both keep these rules:
//!
//! - Inputs come one at a time; what [`Io::forward`] and [`Io::send`] queued is written when the input has been
//!   handled (a *turn*), in order, as one gathered write for each connection. What the socket refuses is copied and
//!   kept; then the engine gets [`Input::Blocked`], and [`Input::Drained`] when all of it is written. The engine must
//!   pause the sender of a blocked connection's bytes, so the copy is bounded by the output of one turn.
//! - After [`Io::close`] a connection's handle is dead for the engine: no further input names it. Queued bytes are
//!   still written to the socket as long as the socket takes any, for a minute at the most, and what the other end
//!   still sends is read and dropped: a reset would destroy bytes that the other end has not read. Then the socket is
//!   closed.
//! - After [`Input::Closed`] and [`Input::ConnectFailed`] the handle is dead too, and must not be closed again.
//! - A connect always ends in exactly one of [`Input::Connected`], [`Input::ConnectFailed`] (or in [`Io::close`]).
//! - Bytes that arrived before an end of file are delivered before [`Input::Closed`].
//! - A paused connection delivers neither bytes nor an end of file, but an error (a reset) may still close it, and
//!   [`Input::Ending`] may report that its end has arrived.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_admin::{Adopted, Author, ChangeError, ChangeRequest, Persisted};
use weir_base::{ClientAddr, ConnId, Host, Origin, Span, Target, WorkerId};
use weir_config::{Config, PasswordSource, PatroniQuestion, SslMode, Successor};

use crate::workers::messages::Message;

pub use weir_admin::{ControlRequest, Response};

pub use crate::password_check::{Authority, PasswordCheck, Proof};
pub use crate::printed_password::PrintedPassword;
pub use crate::secured::{Certificate, Secured};

/// How the error begins of a connect that failed because of its host's name (PgBouncer has a reason of its own for
/// that).
pub const LOOK_UP_FAILED: &str = "could not look up";

/// An event for the engine.
#[derive(Debug)]
pub enum Input<'a> {
    /// A client connected to one of our listeners.
    Accepted {
        /// The client's handle from now on.
        conn: ConnId,
        /// Where the client comes from.
        from: ClientAddr,
    },
    /// Bytes arrived; they stay valid for this turn only.
    Bytes {
        /// The sender.
        conn: ConnId,
        /// The bytes; never empty.
        bytes: &'a [u8],
    },
    /// The other end closed the connection, or it broke.
    Closed {
        /// The connection; its handle is dead.
        conn: ConnId,
        /// How the connection ended.
        cause: Gone,
    },
    /// The other end of a connection has closed its side, or shut it down. Of a paused one, bytes before that may be
    /// unread. Of another all were, and it is closed behind this turn, unless the turn pauses it.
    Ending {
        /// The connection.
        conn: ConnId,
    },
    /// The socket refused bytes, which are kept.
    Blocked {
        /// The connection whose socket is full.
        conn: ConnId,
    },
    /// The socket has accepted all kept bytes.
    Drained {
        /// The connection whose socket has room again.
        conn: ConnId,
    },
    /// A connect succeeded.
    Connected {
        /// The handle that [`Io::connect`] returned.
        conn: ConnId,
        /// Our address, for SHOW SERVERS: address and port as text, or the socket's path.
        local: String,
        /// The other end's address; `None` for a Unix socket.
        remote: Option<IpAddr>,
    },
    /// A handshake of [`Io::start_tls`] has succeeded: from now on bytes are decrypted ones.
    Secured {
        /// The connection.
        conn: ConnId,
        /// The result.
        tls: Box<Secured>,
    },
    /// A handshake failed; the handle is dead.
    TlsFailed {
        /// The connection.
        conn: ConnId,
        /// The error, for the log.
        error: String,
    },
    /// A host name has been looked up, for a connect or because the last answer has expired.
    Resolved {
        /// The name, as in a [`Target`].
        name: Arc<str>,
        /// The name's addresses; empty if there are none.
        addresses: Vec<IpAddr>,
        /// How long the answer may be used.
        ttl: Span,
    },
    /// A connect failed; the handle is dead.
    ConnectFailed {
        /// The handle that [`Io::connect`] returned.
        conn: ConnId,
        /// The error text of the operating system or the resolver.
        error: String,
    },
    /// A socket has been detached from this worker's loop, after [`Io::detach`]; it can now be sent with a message.
    Detached {
        /// The connection.
        conn: ConnId,
    },
    /// A helper has finished.
    JobDone {
        /// The number that was passed to [`Io::submit_job`].
        job: u64,
        /// The helper's result.
        result: WorkResult,
    },
    /// A message from another worker's engine.
    Message {
        /// The sender.
        from: WorkerId,
        /// The message.
        message: Message,
        /// The socket that came with it, under its new handle here; no input names it before this one.
        socket: Option<ConnId>,
    },
    /// This worker's recent load, in per cent of its time; a hint, sent when it has changed.
    Load(u8),
    /// The system's wall clock was set: where it now stands for [`Time::START`], in microseconds since 1970.
    ClockSet(u64),
    /// A request of the control plane (delivered to worker 0 only); answered by [`Io::answer`], once.
    ControlRequest {
        /// The number of the answer; never used twice.
        number: u64,
        /// The request.
        request: ControlRequest,
    },
    /// The request of this number was withdrawn; it may still be answered.
    ControlRequestDropped {
        /// The request's number.
        number: u64,
    },
    /// Another process takes over: this step is due.
    Upgrade(UpgradeStep),
    /// What is known of the process that this one takes over from has changed.
    OldProcess(OldProcessState),
    /// Something of another process comes, from which this one takes over; or something that was to leave comes back.
    Imported {
        /// What [`Io::export`] was given.
        value: &'a [u8],
        /// The socket that came with it, under its new handle here.
        socket: Option<ConnId>,
    },
    /// A client that is still here is to be cancelled, says the process that takes over: the request came to that one.
    CancelRequest {
        /// The process id of the key.
        pid: u32,
        /// The key's secret.
        secret: &'a [u8],
    },
    /// The operating system sent a signal to the process (delivered to worker 0 only).
    Signal(Signal),
    /// The time of [`Engine::next_deadline`](crate::Engine::next_deadline) has come, and all input that arrived before
    /// has been delivered: an answer that arrived in time must not count as late because the worker was busy.
    Tick,
}

/// The side of a handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// With a client; `received` is the part of its handshake that has arrived (with direct TLS, its first bytes).
    Accept {
        /// Bytes of the client's that belong to the handshake.
        received: Vec<u8>,
        /// Where the client comes from: handshakes take turns by origin.
        from: Origin,
    },
    /// With a server.
    Connect {
        /// The name or address that the server's certificate must have, if the mode requires that.
        host: Host,
        /// The requirements for the server's certificate.
        mode: SslMode,
        /// Begin with the handshake at once, with ALPN `postgresql`, instead of after the server's answer `S`.
        direct: bool,
    },
}

/// How a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gone {
    /// The other end closed the connection in order (end of file).
    Eof,
    /// The connection was reset, or an error was reported for it.
    Error,
}

/// A step of a take-over by another process. Every worker is given each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UpgradeStep {
    /// Another process asks to take over; answered by [`Io::upgrade_prepared`], by worker 0 when what changes something
    /// has ended. From then on operators change nothing here.
    Prepare,
    /// The other process serves: what is free leaves, and what becomes free from now on. Given again and again;
    /// answered by [`Io::exports_left`].
    Export,
    /// The other process is gone, or was offered nothing: what is here stays.
    Abort,
}

/// What a process that takes over begins with.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct OfferedState {
    /// The highest number given to a client or a server so far.
    pub last_id: u64,
    /// Databases that refuse new clients (DISABLE); of worker 0 only, since all have the same.
    pub disabled: BTreeSet<String>,
    /// The settings that SET has changed since the file was read, and that have the file's values again in the other
    /// process; of worker 0 only.
    pub set: BTreeSet<String>,
}

/// The process that this one takes over from. Every worker is given each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OldProcessState {
    /// The old process has reported each of its pools once, or does not answer: no pool waits for that any more.
    Reported,
    /// The old process has given all and ends, or has ended: it has no servers.
    Ended,
}

/// The signals an operator may send; PgBouncer's meanings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// HUP: reload the configuration.
    Reload,
    /// No signal of an operator's: a watched file has changed, and is to be read again.
    Reread(Reread),
    /// INT: safe shutdown; waits for servers, disconnects waiting clients.
    ShutdownServers,
    /// TERM: waits for clients, or drains, as configured; a second one exits at once.
    ShutdownClients,
    /// No signal of the operating system's: an operator has the process drain (`weir drain`).
    Drain,
    /// QUIT: exit at once.
    Quit,
    /// USR1: pause all pools.
    Pause,
    /// USR2: resume all pools.
    Resume,
}

/// What a reload reads again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reread {
    /// The settings' file and the files that it names.
    All,
    /// The files that the settings' file names; the text of that file itself is the one that was read last.
    Named,
}

/// Work too slow for a worker's loop.
pub enum Work {
    /// `SaltedPassword` of SCRAM-SHA-256 (RFC 5802, section 3), PBKDF2 over a normalised password, for a login of ours
    /// at a server. Work for clients never delays it.
    SaltServer {
        /// The password as configured.
        password: Arc<str>,
        /// The salt, as the server chose it.
        salt: Vec<u8>,
        /// The iteration count.
        iterations: u32,
    },
    /// `SaltedPassword` for a client's login. An engine requests only a few at a time; they delay only each other.
    SaltClient {
        /// The password as stored, or as the client gave it.
        password: Arc<str>,
        /// The salt, 1 to a few dozen bytes.
        salt: Vec<u8>,
        /// The iteration count.
        iterations: u32,
    },
    /// Whether a client's password is right, by LDAP or PAM, or its token, by the keys of its issuer. It may take as long as its `limit`, and no other kind of
    /// work waits for it.
    CheckPassword(Box<PasswordCheck>),
    /// The password for a login at a server, from the program or the service that makes it, or as either made it
    /// earlier.
    ServerPassword {
        /// The program or the service.
        source: PasswordSource,
        /// The server.
        target: Target,
        /// A password that a server has refused: it is not given again.
        refused: Option<Arc<str>>,
    },
    /// What the operating system calls the user with this number.
    NameOfUser(u32),
    /// What Patroni's REST API answers. Each question waits for no other one, and takes a few seconds at the most.
    AskPatroni(Arc<PatroniQuestion>),
    /// Read and validate the configuration files again; with a configuration in force, whose settings that need a
    /// restart stay.
    LoadConfig(Reread, Arc<Config>),
    /// Read the files of a configuration's pending settings of encryption, and put these in force in it.
    ApplyTls(Arc<Config>),
    /// Change the configuration: validated as a whole before anything is written. With one in force, as above.
    ChangeConfig(Arc<ChangeRequest>, Author, Arc<Config>),
    /// Add a configuration that workers are adopting to the history. Follows the work that made it, in order.
    RecordConfig(Box<Adopted>),
}

impl fmt::Debug for Work {
    // A password must not reach a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Work::SaltServer { .. } => "SaltServer",
            Work::SaltClient { .. } => "SaltClient",
            Work::CheckPassword(_) => "CheckPassword",
            Work::ServerPassword { .. } => "ServerPassword",
            Work::NameOfUser(_) => "NameOfUser",
            Work::AskPatroni(_) => "AskPatroni",
            Work::LoadConfig(..) => "LoadConfig",
            Work::ApplyTls(_) => "ApplyTls",
            Work::ChangeConfig(..) => "ChangeConfig",
            Work::RecordConfig(_) => "RecordConfig",
        })
    }
}

/// The result of a helper's work.
pub enum WorkResult {
    /// For [`Work::SaltServer`] and [`Work::SaltClient`].
    Salted([u8; 32]),
    /// For [`Work::CheckPassword`]: or why it is not right, or could not be checked, in a line for the log.
    Checked(Result<Proof, String>),
    /// For [`Work::ServerPassword`]: why there is none, in a line for clients and the log.
    Password(Result<PrintedPassword, String>),
    /// For [`Work::NameOfUser`]; `None` where it knows no name.
    UserName(Option<String>),
    /// For [`Work::AskPatroni`]: the status, or why there is none, in a line for operators.
    Patroni(Result<u16, String>),
    /// For [`Work::LoadConfig`]: a valid configuration, or one line with the error and its location.
    Config(Result<Successor, String>),
    /// For [`Work::ChangeConfig`]: the next configuration, and where the change is stored; or why there is none.
    Changed(Result<(Successor, Persisted), ChangeError>),
    /// For [`Work::RecordConfig`]: an error for the log, in one line.
    Recorded(Option<String>),
}

impl fmt::Debug for WorkResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WorkResult::Salted(_) => "Salted",
            WorkResult::Checked(_) => "Checked",
            WorkResult::Password(_) => "Password",
            WorkResult::UserName(_) => "UserName",
            WorkResult::Patroni(_) => "Patroni",
            WorkResult::Config(_) => "Config",
            WorkResult::Changed(_) => "Changed",
            WorkResult::Recorded(_) => "Recorded",
        })
    }
}

/// The level of a line of the log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// What a link and a login do, step by step (`verbose = 2`).
    Noise,
    /// For developers.
    Debug,
    /// Connections, disconnections, statistics.
    Info,
    /// Something an operator should look at.
    Warning,
    /// Something failed.
    Error,
    /// The process can't start or go on.
    Fatal,
}

/// The subject of a line of the log.
#[derive(Clone, Copy, Debug)]
pub enum About<'a> {
    /// The process, or a pool.
    Process,
    /// A client or a server.
    Connection {
        /// Which of the two.
        side: Side,
        /// The connection's number, unique in the process.
        id: u64,
        /// The database as clients name it; empty while unknown.
        database: &'a str,
        /// The user; empty while unknown.
        user: &'a str,
        /// The connection's address, as `address:port`.
        address: &'a str,
        /// Whether the connection has logged in. Lines about connections that have not displace no others where lines
        /// are kept.
        logged_in: bool,
    },
}

/// The two sides of a pooler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Towards clients.
    Client,
    /// Towards servers.
    Server,
}

impl fmt::Display for About<'_> {
    /// PgBouncer's prefix of a line: `C-0x1f: database/user@address:port `; empty for the process.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let About::Connection { side, id, database, user, address, .. } = self else { return Ok(()) };
        let letter = if *side == Side::Client { 'C' } else { 'S' };
        let database = if database.is_empty() { "(nodb)" } else { database };
        let user = if user.is_empty() { "(nouser)" } else { user };
        write!(f, "{letter}-{id:#x}: {database}/{user}@{address} ")
    }
}

/// The calls of an engine. None of them blocks.
pub trait Io {
    /// Queues a part of the current [`Input::Bytes`] for `to`, without copying it.
    fn forward(&mut self, to: ConnId, range: Range<usize>);
    /// Queues bytes of Weir for `to`; copies them.
    fn send(&mut self, to: ConnId, bytes: &[u8]);
    /// Begins a connect; looks the name up first, unless its last answer is still valid.
    fn connect(&mut self, to: &Target) -> ConnId;
    /// Looks a name up, also if its last answer is still valid; answered by [`Input::Resolved`].
    fn look_up(&mut self, name: &Arc<str>);
    /// Closes a connection, after its queued output.
    fn close(&mut self, conn: ConnId);
    /// Closes a connection that was sent its last bytes in an earlier turn: its other end is given time to read them.
    fn close_after_error(&mut self, conn: ConnId) {
        self.close(conn);
    }
    /// For how long the other end of a connection has acknowledged nothing of what was sent to it again and again; `None`: it
    /// owes nothing. A system call.
    fn unacknowledged(&self, conn: ConnId) -> Option<Span> {
        let _ = conn;
        None
    }
    /// Pauses reading from a connection.
    fn pause(&mut self, conn: ConnId);
    /// Resumes reading from a connection; what arrived meanwhile is delivered.
    fn resume(&mut self, conn: ConnId);
    /// Detaches a socket from this worker's loop; answered by [`Input::Detached`] (or by [`Input::Closed`]). From this
    /// call on the connection delivers no bytes.
    fn detach(&mut self, conn: ConnId);
    /// Sends a message to another worker (or to this one), with a detached socket where `socket` names one.
    fn post(&mut self, to: WorkerId, message: Message, socket: Option<ConnId>);
    /// Begins a handshake, after the connection's queued output; answered by [`Input::Secured`], [`Input::TlsFailed`]
    /// or [`Input::Closed`]. Until then the connection delivers no bytes, and nothing may be sent to it.
    fn start_tls(&mut self, conn: ConnId, handshake: Handshake);
    /// Passes slow work to a helper. It is answered when a helper of its kind is free, never dropped: no kind of work
    /// waits for another.
    fn submit_job(&mut self, job: u64, work: Work);
    /// Whether lines of this level are written: others need not be formatted.
    fn logs(&self, level: Level) -> bool;
    /// Answers a request of [`Input::ControlRequest`].
    fn answer(&mut self, number: u64, response: Response);
    /// Writes a line to the log, without blocking.
    fn log(&mut self, level: Level, about: About<'_>, text: fmt::Arguments<'_>);
    /// A configuration is in force from now on: the port applies its own settings (the log, socket options).
    fn apply_config(&mut self, config: &Arc<Config>);
    /// Stops (`false`) or starts (`true`) accepting clients by TCP, for the whole process. Over the Unix socket they
    /// are accepted always, so that the console stays reachable; the engine refuses the others.
    fn accept(&mut self, on: bool);
    /// Answers [`UpgradeStep::Prepare`]: what the other process begins with, or why it may not take over now.
    fn upgrade_prepared(&mut self, answer: Result<OfferedState, &'static str>) {
        let _ = answer;
    }
    /// Exports a value to the process that takes over, with a detached socket where `socket` names one. Values of one
    /// `route` go to one worker there.
    fn export(&mut self, route: u64, value: Vec<u8>, socket: Option<ConnId>) {
        let _ = (route, value, socket);
    }
    /// Answers [`UpgradeStep::Export`]: how many are left here that another process has to wait for.
    fn exports_left(&mut self, left: usize) {
        let _ = left;
    }
    /// A request to cancel means no client here: if this process takes over from another one, that one gets it, as
    /// [`Input::CancelRequest`].
    fn cancel_at_old_process(&mut self, pid: u32, secret: &[u8]) {
        let _ = (pid, secret);
    }
    /// The process is about to exit, and the servers of pools that nodes share have ended all their connections.
    fn shared_servers_ended(&mut self) {}
    /// Ends the process in order, with this exit status.
    fn exit(&mut self, status: i32);
}
