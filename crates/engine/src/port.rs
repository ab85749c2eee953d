//! The port: everything an engine is told, and everything it may ask for.
//!
//! The runtime implements [`Io`] with sockets, the simulator with a model of them. Rules that both keep:
//!
//! - Inputs come one at a time; what [`Io::forward`] and [`Io::send`] queued is written when the input has been handled
//!   (a *turn*), in order, as one gathered write a peer. What the socket refuses is copied and kept; then the engine is
//!   told [`Input::Blocked`], and [`Input::Drained`] when the last of it is gone. Whoever feeds a blocked peer must be
//!   paused by the engine, so the copy is bounded by what one turn may produce.
//! - After [`Io::close`] a peer's handle is dead for the engine: no further input names it. Queued bytes are still offered
//!   to the socket for a few seconds, then the socket is closed.
//! - After [`Input::Closed`] and [`Input::ConnectFailed`] the handle is dead too, and must not be closed again.
//! - A connect always ends in exactly one of [`Input::Connected`], [`Input::ConnectFailed`] (or in [`Io::close`]).
//! - Bytes that arrived before an end of file are delivered before [`Input::Closed`].
//! - A paused peer delivers neither bytes nor an end of file, but an error (a reset) may still close it, and
//!   [`Input::Ending`] may say that its end has been announced.

use std::fmt;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

use weir_admin::{ChangeError, Persisted};
pub use weir_admin::{Request, Response};
use weir_base::{ClientAddr, Host, Peer, Span, Target, WorkerId};
use weir_config::{Config, Edit, SslMode};

use crate::cluster::messages::Message;
pub use crate::password_check::{Authority, PasswordCheck};
pub use crate::secured::{Certificate, Secured};

/// What happened.
#[derive(Debug)]
pub enum Input<'a> {
    /// A client connected to one of our listeners.
    Accepted {
        /// Its handle from now on.
        peer: Peer,
        /// Where it comes from.
        from: ClientAddr,
    },
    /// Bytes arrived; they stay valid for this turn only.
    Bytes {
        /// From whom.
        peer: Peer,
        /// What; never empty.
        bytes: &'a [u8],
    },
    /// The peer closed its connection, or it broke.
    Closed {
        /// Who is gone; the handle is dead.
        peer: Peer,
        /// How.
        cause: Gone,
    },
    /// A peer that is paused has closed its side, or shut it down; bytes of it may stand unread before the end.
    Ending {
        /// Who has no more to say.
        peer: Peer,
    },
    /// The socket refused bytes; they wait.
    Blocked {
        /// Whose socket is full.
        peer: Peer,
    },
    /// All bytes that waited have been taken by the socket.
    Drained {
        /// Whose socket has room again.
        peer: Peer,
    },
    /// A connect succeeded.
    Connected {
        /// The handle that [`Io::connect`] returned.
        peer: Peer,
        /// Our end, for SHOW SERVERS: address and port as text, or the socket's path.
        local: String,
        /// The other end's address; `None` for a Unix socket.
        remote: Option<IpAddr>,
    },
    /// A handshake that [`Io::start_tls`] asked for is done: from now on bytes are those within the encryption.
    Secured {
        /// Whose connection.
        peer: Peer,
        /// What came of it.
        tls: Box<Secured>,
    },
    /// A handshake failed; the handle is dead.
    TlsFailed {
        /// Whose connection it was.
        peer: Peer,
        /// Why, in words for the log.
        error: String,
    },
    /// A name of servers has been looked up, for a connect or because the last answer has grown old.
    Resolved {
        /// The name, as it stands in a [`Target`].
        name: Arc<str>,
        /// Its addresses; empty if there is none.
        addresses: Vec<IpAddr>,
        /// How long the answer holds.
        ttl: Span,
    },
    /// A connect failed; the handle is dead.
    ConnectFailed {
        /// The handle that [`Io::connect`] returned.
        peer: Peer,
        /// The operating system's or the resolver's words.
        error: String,
    },
    /// A socket has been taken out of this worker's loop, as [`Io::detach`] asked; it can now be sent with a message.
    Detached {
        /// Whose socket.
        peer: Peer,
    },
    /// A helper finished.
    Helped {
        /// The number given with [`Io::help`].
        job: u64,
        /// Its result.
        answer: Answer,
    },
    /// A message from another worker's engine.
    Message {
        /// Who sent it.
        from: WorkerId,
        /// What it says.
        message: Message,
        /// The socket that travelled with it, under its new handle here; no input names it before this one does.
        socket: Option<Peer>,
    },
    /// In so many per cent of its time this worker has had something to do of late; a hint, told when it has changed.
    Load(u8),
    /// The control plane asks something (delivered to worker 0 only); answered by [`Io::answer`], once.
    Asked {
        /// What the answer will be under; never used twice.
        number: u64,
        /// What is asked.
        request: Request,
    },
    /// The answer of this number is not wanted any more; one may be given all the same.
    AskedNoMore {
        /// As it was asked.
        number: u64,
    },
    /// The operating system sent a signal to the process (delivered to worker 0 only).
    Signal(Signal),
    /// The moment that [`Engine::next_deadline`](crate::Engine::next_deadline) named has come, and what came before it
    /// has been heard: an answer that was in time must not be too late because nobody listened.
    Tick,
}

/// Which handshake is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// With a client; `received` is what it has sent of its handshake already (with direct TLS, its first bytes).
    Accept {
        /// Bytes of the client's that belong to the handshake.
        received: Vec<u8>,
    },
    /// With a server.
    Connect {
        /// The name or address that its certificate must be for, where the mode asks for that.
        host: Host,
        /// What is asked of its certificate.
        mode: SslMode,
        /// Begin with the handshake at once, agreeing on `postgresql` by ALPN, instead of after its answer `S`.
        direct: bool,
    },
}

/// How a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gone {
    /// The peer closed it in order (end of file).
    Eof,
    /// It was reset, or an error was reported for it.
    Error,
}

/// The signals an operator may send; PgBouncer's meanings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// HUP: reload the configuration.
    Reload,
    /// INT: safe shutdown; waits for servers, drops waiting clients.
    ShutdownServers,
    /// TERM: waits for clients; a second one exits at once.
    ShutdownClients,
    /// QUIT: exit at once.
    Quit,
    /// USR1: pause all pools.
    Pause,
    /// USR2: resume all pools.
    Resume,
}

/// Work too slow for a worker's loop.
pub enum Work {
    /// `SaltedPassword` of SCRAM-SHA-256 (RFC 5802, section 3), PBKDF2 over a normalised password, for a login of ours at a
    /// server. Clients never hold it up.
    SaltServer {
        /// The password as configured.
        password: Arc<str>,
        /// The salt, as the server chose it.
        salt: Vec<u8>,
        /// The iteration count.
        iterations: u32,
    },
    /// The same for a client's login. An engine has few of these asked for at once; they may take each other's time and
    /// nothing else's.
    SaltClient {
        /// The password as stored, or as the client gave it.
        password: Arc<str>,
        /// The salt, 1 to a few dozen bytes.
        salt: Vec<u8>,
        /// The iteration count.
        iterations: u32,
    },
    /// Whether a client's password is right, by LDAP or PAM. It may take as long as its `limit`, and no other kind of work
    /// waits for it.
    CheckPassword(Box<PasswordCheck>),
    /// What the operating system calls the user with this number.
    NameOfUser(u32),
    /// Read and validate the configuration files again.
    LoadConfig,
    /// Read the files of a configuration's pending settings of encryption, and put these in force in it.
    ApplyTls(Arc<Config>),
    /// Change the configuration: validated as a whole before anything is written.
    ChangeConfig(Arc<Edit>),
}

impl fmt::Debug for Work {
    // A password never reaches a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Work::SaltServer { .. } => "SaltServer",
            Work::SaltClient { .. } => "SaltClient",
            Work::CheckPassword(_) => "CheckPassword",
            Work::NameOfUser(_) => "NameOfUser",
            Work::LoadConfig => "LoadConfig",
            Work::ApplyTls(_) => "ApplyTls",
            Work::ChangeConfig(_) => "ChangeConfig",
        })
    }
}

/// What a helper found.
pub enum Answer {
    /// For [`Work::SaltServer`] and [`Work::SaltClient`].
    Salted([u8; 32]),
    /// For [`Work::CheckPassword`]: why it is not right, or could not be checked, in a line for the log.
    Checked(Result<(), String>),
    /// For [`Work::NameOfUser`]; `None` where it knows no name.
    UserName(Option<String>),
    /// For [`Work::LoadConfig`]: a configuration that is valid as a whole, or one line that says what is wrong and where.
    Config(Result<Arc<Config>, String>),
    /// For [`Work::ChangeConfig`]: the configuration that is to follow, and where the change is kept; or why there is none.
    Changed(Result<(Arc<Config>, Persisted), ChangeError>),
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Answer::Salted(_) => "Salted",
            Answer::Checked(_) => "Checked",
            Answer::UserName(_) => "UserName",
            Answer::Config(_) => "Config",
            Answer::Changed(_) => "Changed",
        })
    }
}

/// How much a line of the log matters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// For developers.
    Debug,
    /// Connections, disconnections, statistics.
    Info,
    /// Something an operator should look at.
    Warning,
    /// Something failed.
    Error,
}

/// What a line of the log is about.
#[derive(Clone, Copy, Debug)]
pub enum About<'a> {
    /// The process, or a pool.
    Process,
    /// A client or a server.
    Peer {
        /// Which of the two.
        side: Side,
        /// Its number, unique in the process.
        id: u64,
        /// The database as clients name it; empty while unknown.
        database: &'a str,
        /// The user; empty while unknown.
        user: &'a str,
        /// The other end, as `address:port`.
        address: &'a str,
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
    /// The front of a line as PgBouncer writes it: `C-0x1f: database/user@address:port `; nothing for the process.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let About::Peer { side, id, database, user, address } = self else { return Ok(()) };
        let letter = if *side == Side::Client { 'C' } else { 'S' };
        let database = if database.is_empty() { "(nodb)" } else { database };
        let user = if user.is_empty() { "(nouser)" } else { user };
        write!(f, "{letter}-{id:#x}: {database}/{user}@{address} ")
    }
}

/// What an engine may ask for.
pub trait Io {
    /// Queues a part of the bytes of the current [`Input::Bytes`] for `to`, without copying them.
    fn forward(&mut self, to: Peer, range: Range<usize>);
    /// Queues bytes of our own for `to`.
    fn send(&mut self, to: Peer, bytes: &[u8]);
    /// Begins a connection; a name is looked up on the way, unless its last answer still holds.
    fn connect(&mut self, to: &Target) -> Peer;
    /// Looks a name up, whether or not its last answer holds; answered by [`Input::Resolved`].
    fn look_up(&mut self, name: &Arc<str>);
    /// Closes a connection, after what is queued for it.
    fn close(&mut self, peer: Peer);
    /// Stops reading from a peer.
    fn pause(&mut self, peer: Peer);
    /// Reads from a peer again; what arrived meanwhile is delivered.
    fn resume(&mut self, peer: Peer);
    /// Asks for a socket to leave this worker's loop; answered by [`Input::Detached`] (or by [`Input::Closed`]). From this
    /// call on the peer delivers no bytes.
    fn detach(&mut self, peer: Peer);
    /// Sends a message to another worker (or to this one), with a detached socket where `socket` names one.
    fn post(&mut self, to: WorkerId, message: Message, socket: Option<Peer>);
    /// Begins a handshake, after what is queued for the peer; answered by [`Input::Secured`], [`Input::TlsFailed`] or
    /// [`Input::Closed`]. Until then the peer delivers no bytes, and nothing may be sent to it.
    fn start_tls(&mut self, peer: Peer, handshake: Handshake);
    /// Gives slow work to a helper. It is answered when a helper of its kind is free, never dropped: work of one kind does
    /// not wait for work of another.
    fn help(&mut self, job: u64, work: Work);
    /// Whether lines of this level are written: what is not need not be made.
    fn logs(&self, level: Level) -> bool {
        let _ = level;
        true
    }
    /// Answers what the control plane has asked by [`Input::Asked`].
    fn answer(&mut self, number: u64, response: Response);
    /// Writes a line to the log, without ever waiting for it.
    fn log(&mut self, level: Level, about: About<'_>, text: fmt::Arguments<'_>);
    /// A configuration is in force from now on: what the port itself goes by (the log, its sockets' options) follows.
    fn adopt(&mut self, config: &Arc<Config>);
    /// Stops (`false`) or starts (`true`) accepting clients by TCP, for the whole process. Over the Unix socket they are
    /// accepted always, so that the console stays reachable; the engine refuses the others.
    fn accept(&mut self, on: bool);
    /// Ends the process in order, with this exit status.
    fn exit(&mut self, status: i32);
}
