//! Where to connect to, and as which user.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use weir_auth::{RequireAuth, Trust};

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A host's name or address, and a port.
    Tcp {
        /// Looked up when connecting.
        host: String,
        /// The port.
        port: u16,
    },
    /// The path of a socket, down to `.s.PGSQL.5432`.
    Unix(PathBuf),
}

impl Address {
    /// Reads a host as libpq does: a leading `/` is a socket's folder.
    pub fn new(host: &str, port: u16) -> Self {
        match host.strip_prefix('/') {
            Some(_) => Address::Unix(Path::new(host).join(format!(".s.PGSQL.{port}"))),
            None => Address::Tcp { host: host.to_owned(), port },
        }
    }
}

/// All that a connection needs to begin.
#[derive(Clone)]
pub struct ConnectParams {
    /// Where to.
    pub address: Address,
    /// The user.
    pub user: String,
    /// To which database.
    pub database: String,
    /// The password, if one is requested.
    pub password: Option<String>,
    /// Further startup parameters, names and values.
    pub options: Vec<(String, String)>,
    /// The longest a connect, and after that each single read, may take.
    pub timeout: Duration,
    /// What the server may take besides; none: as long and as much as it likes.
    pub bounds: Option<Bounds>,
    /// Which requests for a proof are answered.
    pub require: RequireAuth,
    /// What is known of the server when it requests a proof.
    pub trust: Trust,
    /// The `tls-server-end-point` of an encrypted connection (RFC 5929, section 4), to which SCRAM then binds.
    pub binding: Option<Vec<u8>>,
}

/// What a server that is not trusted may take.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// When the whole connection must be over.
    pub until: Instant,
    /// The most bytes that the server may send in total.
    pub bytes: usize,
}

impl ConnectParams {
    /// A server at this host (a name, an address, or a socket's folder) and port.
    pub fn new(host: &str, port: u16, user: &str, database: &str) -> Self {
        ConnectParams {
            address: Address::new(host, port),
            user: user.to_owned(),
            database: database.to_owned(),
            password: None,
            options: Vec::new(),
            timeout: Duration::from_secs(60),
            bounds: None,
            require: RequireAuth::Any,
            trust: Trust::default(),
            binding: None,
        }
    }

    /// A server at this address.
    pub fn tcp(address: SocketAddr, user: &str, database: &str) -> Self {
        ConnectParams::new(&address.ip().to_string(), address.port(), user, database)
    }

    /// A server with its socket in this folder.
    pub fn unix(folder: &Path, port: u16, user: &str, database: &str) -> Self {
        let address = Address::Unix(folder.join(format!(".s.PGSQL.{port}")));
        ConnectParams { address, ..ConnectParams::new("", port, user, database) }
    }

    /// With this password.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// With this startup parameter.
    #[must_use]
    pub fn option(mut self, name: &str, value: &str) -> Self {
        self.options.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With these bounds for the connection as a whole.
    #[must_use]
    pub fn bounds(mut self, bounds: Bounds) -> Self {
        self.bounds = Some(bounds);
        self
    }

    /// With this time limit for a connect and for each single read.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

impl fmt::Debug for ConnectParams {
    // A password never reaches a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Params")
            .field("address", &self.address)
            .field("user", &self.user)
            .field("database", &self.database)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_begins_with_a_slash_is_a_sockets_folder() {
        assert_eq!(Address::new("/run/postgresql", 5433), Address::Unix("/run/postgresql/.s.PGSQL.5433".into()));
        assert_eq!(Address::new("::1", 5433), Address::Tcp { host: "::1".to_owned(), port: 5433 });
    }

    #[test]
    fn a_password_is_not_printed() {
        let params = ConnectParams::new("localhost", 5432, "ann", "app").password("hunter2");
        assert!(!format!("{params:?}").contains("hunter2"));
    }
}
