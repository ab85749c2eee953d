//! What the poolers are told: pools, logins, limits, and how each wants it written.
//!
//! Alike means: the same pools, modes and login, logging off, room for as many clients as there are descriptors. What
//! is not said here is left at each pooler's default.

use std::fmt::{self, Write as _};
use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{CertificateParams, KeyPair, PKCS_RSA_SHA256, RsaKeySize};

use crate::error::{Error, Outcome};

/// User, password and database of every run.
pub(crate) const USER: &str = "bench";
/// The pool whose servers are reached by a Unix socket.
pub(crate) const SOCKET_POOL: &str = "bench_socket";
/// What poolers are told to accept; both lower it to what the descriptors allow.
const MAX_CLIENTS: u32 = 20_000;

/// What stands between pgbench and PostgreSQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Kind {
    /// PgBouncer, to which all others are compared.
    Pgbouncer,
    /// Weir.
    Weir,
    /// A bare forwarder, the limit: it pools pgbench's small queries, and nothing else.
    Forwarder,
    /// Nothing: PostgreSQL itself. It has TPS and latency, but no pooler whose CPU time could be taken.
    Direct,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Pgbouncer => "PgBouncer",
            Kind::Weir => "Weir",
            Kind::Forwarder => "bare forwarder",
            Kind::Direct => "direct",
        })
    }
}

/// How clients and poolers log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Login {
    /// No password: what is measured is the pooling.
    Trust,
    /// md5, to clients and to the server.
    Md5,
}

impl Login {
    fn name(self) -> &'static str {
        match self {
            Login::Trust => "trust",
            Login::Md5 => "md5",
        }
    }
}

/// How long a client keeps a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Session,
    Transaction,
    Statement,
}

impl Mode {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::Session => "session",
            Mode::Transaction => "transaction",
            Mode::Statement => "statement",
        }
    }
}

/// A pool: a name that clients connect to, for PostgreSQL's one database.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pool {
    pub(crate) name: &'static str,
    pub(crate) mode: Mode,
    pub(crate) size: u32,
    /// How the pooler reaches PostgreSQL.
    pub(crate) server: Link,
}

/// How a pooler reaches PostgreSQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Tcp,
    UnixSocket,
}

/// What the poolers are told.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) pools: Vec<Pool>,
    pub(crate) login: Login,
    /// Worker threads, where a pooler has them.
    pub(crate) workers: u32,
    /// With it, clients may encrypt.
    pub(crate) certificate: Option<Certificate>,
    pub(crate) weir: Option<PathBuf>,
    pub(crate) pgbouncer: Option<PathBuf>,
}

/// A self-signed certificate and its key, both as PEM.
#[derive(Clone, Debug)]
pub(crate) struct Certificate {
    key: String,
    pem: String,
}

impl Certificate {
    /// A new one, for RSA with 2,048 bits: what most poolers are given, and the dearest login.
    pub(crate) fn new() -> Outcome<Certificate> {
        let failed = |e| Error::new(format!("make a certificate: {e}"));
        let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).map_err(failed)?;
        let params = CertificateParams::new(vec!["localhost".to_owned()]).map_err(failed)?;
        let pem = params.self_signed(&key).map_err(failed)?.pem();
        Ok(Certificate { key: key.serialize_pem(), pem })
    }
}

/// Where PostgreSQL is reached.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub(crate) port: u16,
    pub(crate) socket_dir: PathBuf,
}

impl Address {
    fn host(&self, link: Link) -> String {
        match link {
            Link::Tcp => "127.0.0.1".to_owned(),
            Link::UnixSocket => self.socket_dir.display().to_string(),
        }
    }
}

/// The files of a running pooler; written again before a RELOAD.
#[derive(Clone, Debug)]
pub(crate) struct Configuration {
    kind: Kind,
    folder: PathBuf,
    port: u16,
    server: Address,
    setup: Setup,
}

impl Configuration {
    pub(crate) fn new(kind: Kind, folder: &Path, port: u16, server: Address, setup: Setup) -> Configuration {
        Configuration { kind, folder: folder.to_owned(), port, server, setup }
    }

    /// What the program is started with; the user is who it has to become, where that is told on the command line.
    pub(crate) fn arguments(&self, user: Option<&str>) -> Vec<String> {
        let file = self.file().display().to_string();
        match (self.kind, user) {
            (Kind::Weir, _) => vec!["serve".to_owned(), file],
            (Kind::Forwarder, _) => {
                let (port, server) = (self.port, self.server.port);
                let flags =
                    format!("forwarder --port {port} --server-port {server} --servers {}", self.setup.pools[0].size);
                flags.split(' ').map(str::to_owned).collect()
            }
            // It refuses to be root, as PostgreSQL does, and drops to the same user.
            (_, Some(user)) => vec!["-u".to_owned(), user.to_owned(), file],
            (_, None) => vec![file],
        }
    }

    /// The file that the pooler is given.
    fn file(&self) -> PathBuf {
        self.folder.join(if self.kind == Kind::Weir { "weir.toml" } else { "pgbouncer.ini" })
    }

    /// Writes all files.
    pub(crate) fn write(&self) -> Outcome<()> {
        write(&self.folder.join("userlist.txt"), &format!("\"{USER}\" \"{USER}\"\n"))?;
        if let Some(certificate) = &self.setup.certificate {
            write(&self.folder.join("server.key"), &certificate.key)?;
            write(&self.folder.join("server.crt"), &certificate.pem)?;
        }
        let text = match self.kind {
            Kind::Weir => weir_toml(&self.setup, self.port, &self.server),
            Kind::Pgbouncer => pgbouncer_ini(&self.setup, &self.folder, self.port, &self.server),
            Kind::Forwarder | Kind::Direct => return Ok(()),
        };
        write(&self.file(), &text)
    }

    /// Writes the file with another size for one pool; the pooler learns of it by a RELOAD.
    pub(crate) fn resize(&mut self, pool: &str, size: u32) -> Outcome<()> {
        self.setup.pools.iter_mut().filter(|known| known.name == pool).for_each(|known| known.size = size);
        self.write()
    }
}

fn write(path: &Path, text: &str) -> Outcome<()> {
    fs::write(path, text).map_err(|e| Error::at(format!("write {}", path.display()), e))
}

fn weir_toml(setup: &Setup, port: u16, server: &Address) -> String {
    let (workers, login, sockets) = (setup.workers, setup.login.name(), server.socket_dir.display());
    let mut text = format!(
        "[general]\nworkers = {workers}\nmax_clients = {MAX_CLIENTS}\nadmin_users = [\"{USER}\"]\n\n\
         [listen]\naddress = \"127.0.0.1\"\nport = {port}\nunix_socket_dir = \"{sockets}\"\n\n\
         [auth]\ntype = \"{login}\"\nfile = \"userlist.txt\"\n\n\
         [log]\nconnections = false\ndisconnections = false\npooler_errors = false\nstats = false\n",
    );
    if setup.certificate.is_some() {
        let files = "key_file = \"server.key\"\ncert_file = \"server.crt\"";
        let _ = write!(text, "\n[tls.client]\nmode = \"allow\"\n{files}\n");
    }
    for Pool { name, mode, size, server: link } in &setup.pools {
        let (mode, host, server_port) = (mode.name(), server.host(*link), server.port);
        let _ = write!(
            text,
            "\n[pools.{name}]\nhost = \"{host}\"\nport = {server_port}\ndatabase = \"{USER}\"\nmode = \"{mode}\"\n\
             size = {size}\n"
        );
    }
    text
}

fn pgbouncer_ini(setup: &Setup, folder: &Path, port: u16, server: &Address) -> String {
    let mut text = String::from("[databases]\n");
    for Pool { name, mode, size, server: link } in &setup.pools {
        let (mode, host, server_port) = (mode.name(), server.host(*link), server.port);
        let _ =
            writeln!(text, "{name} = host={host} port={server_port} dbname={USER} pool_mode={mode} pool_size={size}");
    }
    let (login, folder, sockets) = (setup.login.name(), folder.display(), server.socket_dir.display());
    let _ = write!(
        text,
        "\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir = {sockets}\n\
         auth_type = {login}\nauth_file = {folder}/userlist.txt\nadmin_users = {USER}\n\
         pool_mode = transaction\nmax_client_conn = {MAX_CLIENTS}\n\
         log_connections = 0\nlog_disconnections = 0\nlog_pooler_errors = 0\nlog_stats = 0\n"
    );
    if setup.certificate.is_some() {
        let files = format!("client_tls_key_file = {folder}/server.key\nclient_tls_cert_file = {folder}/server.crt");
        let _ = writeln!(text, "client_tls_sslmode = allow\n{files}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup() -> Setup {
        let pools = vec![
            Pool { name: "a", mode: Mode::Transaction, size: 20, server: Link::UnixSocket },
            Pool { name: "b", mode: Mode::Session, size: 3, server: Link::Tcp },
        ];
        let certificate = Certificate { key: String::new(), pem: String::new() };
        let certificate = Some(certificate);
        Setup { pools, login: Login::Trust, workers: 1, certificate, weir: None, pgbouncer: None }
    }

    fn address() -> Address {
        Address { port: 5432, socket_dir: PathBuf::from("/tmp/s") }
    }

    #[test]
    fn both_poolers_get_the_same_pools() {
        let toml = weir_toml(&setup(), 6432, &address());
        assert!(toml.contains("[pools.b]\nhost = \"127.0.0.1\"\nport = 5432\n"));
        assert!(toml.contains("mode = \"session\"\nsize = 3\n"));
        assert!(toml.contains("[pools.a]\nhost = \"/tmp/s\"\nport = 5432\n"));
        assert!(toml.contains("[tls.client]\nmode = \"allow\"\n"));
        let ini = pgbouncer_ini(&setup(), Path::new("/tmp/x"), 6432, &address());
        assert!(ini.contains("b = host=127.0.0.1 port=5432 dbname=bench pool_mode=session pool_size=3\n"));
        assert!(ini.contains("a = host=/tmp/s port=5432 ") && ini.contains("client_tls_sslmode = allow\n"));
        assert!(ini.contains("auth_type = trust\nauth_file = /tmp/x/userlist.txt\n"));
    }
}
