//! The connection of a login by LDAP: which server, encrypted how, and how long it may take. The exchange is
//! `weir-auth`'s.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use rustls::{ClientConnection, StreamOwned};
use weir_auth::{Ldap, LdapCheck, LdapStep};

use super::ldap_conf::LdapConf;
use crate::timed::{Timed, left};
use crate::tls::{With, in_words, to_directory};

/// How long a server may take to accept a connection (PgBouncer's network time-out), before the next one is tried.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Whether an LDAP server accepts a password. The first server that can be reached decides.
pub(super) fn check(ldap: &Ldap, user: &str, password: &str, limit: Duration) -> Result<(), String> {
    let until = Instant::now() + limit;
    let mut why = String::new();
    for host in &ldap.servers {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        match connect(host, ldap.port, until) {
            Ok(socket) => {
                let described = |error: &dyn std::fmt::Display| format!("LDAP server {host}:{}: {error}", ldap.port);
                return exchange(ldap, host, Timed { socket, until }, user, password)
                    .unwrap_or_else(|error| Err(described(&error)));
            }
            Err(error) => why = format!("could not connect to LDAP server {host}:{}: {error}", ldap.port),
        }
    }
    Err(why)
}

fn connect(host: &str, port: u16, until: Instant) -> io::Result<TcpStream> {
    let mut last = io::Error::other("its name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, left(until)?.min(CONNECT_TIMEOUT)) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Goes through a check on a connection that is up. The inner result is what the server said.
fn exchange(ldap: &Ldap, host: &str, socket: Timed, user: &str, password: &str) -> io::Result<Result<(), String>> {
    let mut channel = Channel::Plain(socket);
    if ldap.tls && !ldap.start_tls {
        channel = channel.encrypted(host)?;
    }
    let mut check = LdapCheck::new(ldap, user, password);
    let (mut step, mut received) = (check.begin(), Vec::new());
    loop {
        match step {
            LdapStep::Send(request) => channel.write_all(&request).and_then(|()| channel.flush())?,
            LdapStep::Read => {}
            LdapStep::StartTls => {
                if !received.is_empty() {
                    // This data would be read as if it had come encrypted.
                    return Err(io::Error::other("received unencrypted data after the answer to StartTLS"));
                }
                channel = channel.encrypted(host)?;
                step = check.secured();
                continue;
            }
            LdapStep::Done(result, last) => {
                let _ = channel.write_all(&last).and_then(|()| channel.flush());
                return Ok(result);
            }
        }
        let message = read_message(&mut channel, &mut received)?;
        step = check.message(&message);
    }
}

fn read_message(channel: &mut Channel, received: &mut Vec<u8>) -> io::Result<Vec<u8>> {
    let mut buffer = [0; 4096];
    loop {
        if let Some(length) = LdapCheck::length(received).map_err(io::Error::other)?
            && received.len() >= length
        {
            return Ok(received.drain(..length).collect());
        }
        match channel.read(&mut buffer)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            count => received.extend_from_slice(&buffer[..count]),
        }
    }
}

/// A connection, encrypted or not.
enum Channel {
    Plain(Timed),
    Tls(Box<StreamOwned<ClientConnection, Timed>>),
}

impl Channel {
    /// Performs the TLS handshake.
    fn encrypted(self, host: &str) -> io::Result<Channel> {
        let Channel::Plain(mut socket) = self else {
            return Err(io::Error::other("the connection is encrypted already"));
        };
        let conf = LdapConf::load();
        let (config, name) = to_directory(host, conf.verify, conf.ca_file.as_deref()).map_err(io::Error::other)?;
        let mut connection =
            ClientConnection::new(config, name).map_err(|error| in_words(io::Error::other(error), With::Directory))?;
        while connection.is_handshaking() {
            connection
                .complete_io(&mut socket)
                .map_err(|error| in_words(error, With::Directory))
                .map_err(|error| io::Error::other(format!("could not start LDAP TLS session: {error}")))?;
        }
        Ok(Channel::Tls(Box::new(StreamOwned::new(connection, socket))))
    }
}

impl Read for Channel {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Channel::Plain(socket) => socket.read(buffer),
            Channel::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Channel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Channel::Plain(socket) => socket.write(bytes),
            Channel::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Channel::Plain(socket) => socket.flush(),
            Channel::Tls(stream) => stream.flush(),
        }
    }
}
