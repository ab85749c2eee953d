//! Addresses of clients and of servers.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Where a client connects from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClientAddr {
    /// Over TCP, from this address.
    Tcp(SocketAddr),
    /// Over our Unix socket, by a process of this operating-system user.
    Unix {
        /// Process id, as the kernel reports it; 0 where it does not.
        pid: u32,
        /// User id, as the kernel reports it.
        uid: u32,
    },
}

impl ClientAddr {
    /// The address as PgBouncer appends it to an application_name: that of the log, with the machine's name for a
    /// process at the Unix socket.
    pub fn with_host(&self, listen_port: u16, host_name: &str) -> String {
        match self {
            ClientAddr::Unix { pid, .. } if *pid != 0 => format!("unix({pid}@{host_name}):{listen_port}"),
            other => other.with_port(listen_port),
        }
    }

    /// The address as PgBouncer's log writes it; a Unix socket has the port of its name, which is the listener's.
    pub fn with_port(&self, listen_port: u16) -> String {
        match self {
            ClientAddr::Tcp(addr) => addr.to_string(),
            // The kernel does not report a process of another namespace.
            ClientAddr::Unix { pid: 0, .. } => format!("unix:{listen_port}"),
            ClientAddr::Unix { pid, .. } => format!("unix({pid}):{listen_port}"),
        }
    }
}

/// Where a server listens, as the operator wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Host {
    /// A numeric address.
    Ip(IpAddr),
    /// A DNS name.
    Name(String),
    /// A folder with PostgreSQL's socket `.s.PGSQL.<port>`.
    SocketDir(PathBuf),
}

impl Host {
    /// Reads a host as libpq does: a leading `/` is a socket's folder, otherwise an address or a name.
    pub fn parse(text: &str) -> Host {
        if text.starts_with('/') {
            Host::SocketDir(PathBuf::from(text))
        } else if let Ok(ip) = text.parse() {
            Host::Ip(ip)
        } else {
            Host::Name(text.to_owned())
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Ip(ip) => ip.fmt(f),
            Host::Name(name) => f.write_str(name),
            Host::SocketDir(dir) => dir.display().fmt(f),
        }
    }
}

/// One server's address: a host and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Target {
    /// The machine, or the socket's folder.
    pub host: Host,
    /// The port; for a Unix socket a part of the socket's name.
    pub port: u16,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Ip(IpAddr::V6(ip)) => write!(f, "[{ip}]:{}", self.port),
            host => write!(f, "{host}:{}", self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_of_the_unix_socket_has_the_listeners_port() {
        assert_eq!(ClientAddr::Unix { pid: 17, uid: 5 }.with_port(6432), "unix(17):6432");
        assert_eq!(ClientAddr::Unix { pid: 0, uid: 5 }.with_port(6432), "unix:6432");
        assert_eq!(ClientAddr::Tcp("[::1]:9".parse().unwrap()).with_port(6432), "[::1]:9");
    }

    #[test]
    fn an_application_name_has_the_machine_of_a_local_process() {
        assert_eq!(ClientAddr::Unix { pid: 17, uid: 5 }.with_host(6432, "db1"), "unix(17@db1):6432");
        assert_eq!(ClientAddr::Unix { pid: 0, uid: 5 }.with_host(6432, "db1"), "unix:6432");
        assert_eq!(ClientAddr::Tcp("[::1]:9".parse().unwrap()).with_host(6432, "db1"), "[::1]:9");
    }

    #[test]
    fn a_leading_slash_is_a_socket_folder() {
        assert_eq!(Host::parse("/run/postgresql"), Host::SocketDir("/run/postgresql".into()));
        assert_eq!(Host::parse("::1"), Host::Ip("::1".parse().unwrap()));
        assert_eq!(Host::parse("db.example"), Host::Name("db.example".into()));
    }
}
