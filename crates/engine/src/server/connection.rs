//! The connection of a server: its target, how it was made, and what the server has reported.

use std::net::{IpAddr, SocketAddr};

use weir_base::{Host, Target, Time};
use weir_session::auth_query::AuthQuery;

use crate::printed_password::PrintedPassword;
use crate::secured::Secured;
use crate::server::hosts::Attempt;

/// The input of a slow hash: password, salt, iterations.
pub(crate) type SaltedKey = (std::sync::Arc<str>, Vec<u8>, u32);

/// See the head of the file.
pub(crate) struct Connection {
    /// The pool's host to which the connection goes.
    pub(super) target: Target,
    /// The variant of the attempt.
    pub(super) attempt: Attempt,
    /// Our address, as text; empty until the connection is established.
    local: String,
    /// The server's address, once the connection is established; `None` for a Unix socket.
    remote: Option<IpAddr>,
    /// The TLS handshake began without an SSLRequest.
    direct: bool,
    /// The result of the TLS handshake; `None` without encryption.
    tls: Option<Box<Secured>>,
    /// When the server had logged in; before that, when the connect began.
    connected_at: Time,
    /// The parameters that the server reported at its login, until the login is complete.
    pub(super) reported: Vec<(String, String)>,
    /// What a helper hashes for the server's login.
    hashing: Option<SaltedKey>,
    /// The password of the server's login, where a program or a service has made it.
    printed: Option<PrintedPassword>,
    /// The query by which the server identifies its backend.
    pub(super) identifying: Option<AuthQuery>,
}

impl Connection {
    /// A connect has begun.
    pub(crate) fn new(target: Target, attempt: Attempt, now: Time) -> Connection {
        Connection {
            target,
            attempt,
            local: String::new(),
            remote: None,
            direct: false,
            tls: None,
            connected_at: now,
            reported: Vec::new(),
            hashing: None,
            printed: None,
            identifying: None,
        }
    }

    /// A connection that another process has made.
    pub(crate) fn moved(target: Target, attempt: Attempt, tls: Option<Secured>, connected_at: Time) -> Connection {
        Connection { tls: tls.map(Box::new), ..Connection::new(target, attempt, connected_at) }
    }

    /// The connect has succeeded.
    pub(crate) fn connected(&mut self, local: String, remote: Option<IpAddr>) {
        (self.local, self.remote) = (local, remote);
    }

    /// The handshake begins; `direct`: the server was not asked whether it can encrypt.
    pub(crate) fn begin_handshake(&mut self, direct: bool) {
        self.direct = direct;
    }

    /// Whether the server was not asked whether it can encrypt.
    pub(crate) fn is_direct(&self) -> bool {
        self.direct
    }

    /// The handshake is done.
    pub(crate) fn secured(&mut self, tls: Box<Secured>) {
        self.tls = Some(tls);
    }

    /// The server has logged in, and reported these parameters.
    pub(crate) fn logged_in(&mut self, reported: Vec<(String, String)>, now: Time) {
        (self.reported, self.connected_at) = (reported, now);
    }

    /// A helper hashes this for the server's login.
    pub(crate) fn begin_hashing(&mut self, key: SaltedKey) {
        self.hashing = Some(key);
    }

    /// The helper has finished; returns what it hashed.
    pub(crate) fn end_hashing(&mut self) -> Option<SaltedKey> {
        self.hashing.take()
    }

    /// The login uses this password.
    pub(crate) fn use_printed(&mut self, password: PrintedPassword) {
        self.printed = Some(password);
    }

    /// The login's password, where a program or a service has made it; the login has ended.
    pub(crate) fn take_printed(&mut self) -> Option<PrintedPassword> {
        self.printed.take()
    }

    /// The target.
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// The variant of the attempt.
    pub(crate) fn attempt(&self) -> Attempt {
        self.attempt
    }

    /// Our address, as text.
    pub(crate) fn local(&self) -> &str {
        &self.local
    }

    /// The server's address; `None` for a Unix socket.
    pub(crate) fn remote(&self) -> Option<IpAddr> {
        self.remote
    }

    /// Whether the server is on this machine: the connection is by a Unix socket, or to a loopback address.
    pub(crate) fn is_local(&self) -> bool {
        match self.remote {
            Some(address) => address.to_canonical().is_loopback(),
            None => matches!(self.target.host, Host::SocketDir(_)),
        }
    }

    /// What the TLS handshake has shown; `None` without encryption.
    pub(crate) fn tls(&self) -> Option<&Secured> {
        self.tls.as_deref()
    }

    /// When the server had logged in; before that, when the connect began.
    pub(crate) fn connected_at(&self) -> Time {
        self.connected_at
    }

    /// The host name by which the server was connected, and its address; `None` if no name was looked up.
    pub(crate) fn on(&self) -> Option<(&str, IpAddr)> {
        match (&self.target.host, self.remote) {
            (Host::Name(name), Some(address)) => Some((name, address)),
            _ => None,
        }
    }

    /// The exact machine of this connection, whatever its name resolves to now.
    pub(crate) fn machine(&self) -> Target {
        match self.remote {
            Some(address) => Target { host: Host::Ip(address), port: self.target.port },
            None => self.target.clone(),
        }
    }

    /// The server's address, for the log.
    pub(crate) fn address(&self) -> String {
        match (&self.target.host, self.remote) {
            (Host::SocketDir(_), _) => format!("unix:{}", self.target.port),
            (_, Some(ip)) => SocketAddr::new(ip, self.target.port).to_string(),
            _ => self.target.to_string(),
        }
    }
}
