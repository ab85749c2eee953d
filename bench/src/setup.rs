//! The poolers' configuration: pools, logins, limits, in each pooler's format.
//!
//! Alike means: the same pools, modes and login, logging off, room for as many clients as there are descriptors. All
//! other settings have each pooler's default.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256, RsaKeySize};

use crate::contender::Kind;
use crate::error::{Error, Outcome};

/// User, password and database of every run.
pub(crate) const USER: &str = "bench";
/// The pool whose servers are reached by a Unix socket.
pub(crate) const SOCKET_POOL: &str = "bench_socket";
/// The limit of clients that poolers are given; both lower it to what the descriptors allow.
const MAX_CLIENTS: u32 = 20_000;

/// How clients and poolers log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Login {
    /// No password: what is measured is the pooling.
    Trust,
    /// md5, to clients and to the server.
    Md5,
    /// SCRAM-SHA-256 with clients, whose verifiers are listed; the server trusts.
    Scram,
}

/// The verifier of the password `bench`.
const VERIFIER: &str = "SCRAM-SHA-256$4096:YSBzYWx0IG9mIDE2IGJ5dA==$fjCS3RXci8w+1asvPjar9dQfQFPQayU2ikUq2Tkv0P0=:+qrV976aLbCcr0jTpGhBGA4pRVo9W7Z9dmPVAwN1I9o=";

/// The kind of key for encryption.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Key {
    /// RSA with 2,048 bits: what most poolers are given, and the dearest login.
    Rsa,
    /// ECDSA with P-256.
    P256,
}

impl Login {
    pub(crate) fn is_trust(self) -> bool {
        self == Login::Trust
    }

    fn name(self) -> &'static str {
        match self {
            Login::Trust => "trust",
            Login::Md5 => "md5",
            Login::Scram => "scram-sha-256",
        }
    }
}

/// How long a client keeps a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Mode {
    Session,
    Transaction,
    Statement,
    /// Weir's alone.
    Auto,
}

impl Mode {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::Session => "session",
            Mode::Transaction => "transaction",
            Mode::Statement => "statement",
            Mode::Auto => "auto",
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

/// The poolers' configuration.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) pools: Vec<Pool>,
    pub(crate) login: Login,
    /// Worker threads, where a pooler has them.
    pub(crate) workers: u32,
    /// With it, clients may encrypt.
    pub(crate) certificate: Option<Certificate>,
    /// Clients that a pooler with a server for each of them must have room for.
    pub(crate) sessions: u32,
    pub(crate) programs: Programs,
}

/// Programs that the operator names; the others are looked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Programs {
    pub(crate) weir: Option<PathBuf>,
    pub(crate) pgbouncer: Option<PathBuf>,
    pub(crate) pgpool: Option<PathBuf>,
}

/// A self-signed certificate and its key, both as PEM.
#[derive(Clone, Debug)]
pub(crate) struct Certificate {
    key: String,
    pem: String,
}

impl Certificate {
    /// A new one.
    pub(crate) fn new(key: Key) -> Outcome<Certificate> {
        let failed = |e| Error::new(format!("make a certificate: {e}"));
        let key = match key {
            Key::Rsa => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048),
            Key::P256 => KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256),
        };
        let key = key.map_err(failed)?;
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

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn server_port(&self) -> u16 {
        self.server.port
    }

    pub(crate) fn setup(&self) -> &Setup {
        &self.setup
    }

    /// The first pool; some poolers are configured with this one only.
    pub(crate) fn pool(&self) -> &Pool {
        &self.setup.pools[0]
    }

    /// The program's configuration file.
    pub(crate) fn file(&self) -> String {
        self.beside(self.kind.file().map_or("none", |(name, _)| name))
    }

    /// A file in the pooler's folder.
    pub(crate) fn beside(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// The arguments of the bare forwarder, which has no file.
    pub(crate) fn forwarder_arguments(&self) -> Vec<String> {
        let (port, server, size) = (self.port, self.server.port, self.setup.pools[0].size);
        let flags = format!("forwarder --port {port} --server-port {server} --servers {size}");
        flags.split(' ').map(str::to_owned).collect()
    }

    /// Writes all files.
    pub(crate) fn write(&self) -> Outcome<()> {
        let secret = if self.setup.login == Login::Scram { VERIFIER } else { USER };
        write(&self.folder.join("userlist.txt"), &format!("\"{USER}\" \"{secret}\"\n"))?;
        write(&self.folder.join("pcp.conf"), "")?;
        if let Some(certificate) = &self.setup.certificate {
            write(&self.folder.join("server.key"), &certificate.key)?;
            write(&self.folder.join("server.crt"), &certificate.pem)?;
        }
        let Some((name, text)) = self.kind.file() else { return Ok(()) };
        write(&self.folder.join(name), &text(self))
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

pub(crate) fn weir_toml(Configuration { kind, setup, port, server, .. }: &Configuration) -> String {
    let io = if *kind == Kind::WeirEpoll { "io = \"epoll\"\n" } else { "" };
    let (workers, login, sockets) = (setup.workers, setup.login.name(), server.socket_dir.display());
    let mut text = format!(
        "[general]\n{io}workers = {workers}\nmax_clients = {MAX_CLIENTS}\nadmin_users = [\"{USER}\"]\n\n\
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

pub(crate) fn pgbouncer_ini(Configuration { setup, folder, port, server, .. }: &Configuration) -> String {
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

/// The settings of its package, except for paths, the number of children, and the checks of a server without replicas.
///
/// Source: the manual of Pgpool-II 4.3, "Server configuration". A child serves one client at a time, and all are
/// started beforehand; `raw` is the mode without replication, which asks least of it.
pub(crate) fn pgpool_conf(configuration: &Configuration) -> String {
    let Configuration { setup, folder, port, server, .. } = configuration;
    let (folder, server_port, children) = (folder.display(), server.port, setup.sessions);
    let mut text = format!(
        "listen_addresses = '127.0.0.1'\nport = {port}\nsocket_dir = '{folder}'\n\
         pcp_listen_addresses = ''\npcp_port = 9898\npcp_socket_dir = '{folder}'\n\
         wd_ipc_socket_dir = '{folder}'\npid_file_name = '{folder}/pgpool.pid'\nlogdir = '{folder}'\n\
         memqcache_oiddir = '{folder}'\npool_passwd = ''\nbackend_clustering_mode = 'raw'\n\
         backend_hostname0 = '127.0.0.1'\nbackend_port0 = {server_port}\n\
         num_init_children = {children}\nmax_pool = 1\nlisten_backlog_multiplier = 2\n\
         sr_check_period = 0\nhealth_check_period = 0\n"
    );
    if setup.certificate.is_some() {
        let _ = write!(text, "ssl = on\nssl_key = '{folder}/server.key'\nssl_cert = '{folder}/server.crt'\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::others;

    fn configuration(kind: Kind) -> Configuration {
        let pools = vec![
            Pool { name: "a", mode: Mode::Transaction, size: 20, server: Link::UnixSocket },
            Pool { name: "b", mode: Mode::Session, size: 3, server: Link::Tcp },
        ];
        let certificate = Some(Certificate { key: String::new(), pem: String::new() });
        let programs = Programs::default();
        let setup = Setup { pools, login: Login::Trust, workers: 1, certificate, sessions: 50, programs };
        let address = Address { port: 5432, socket_dir: PathBuf::from("/tmp/s") };
        Configuration::new(kind, Path::new("/tmp/x"), 6432, address, setup)
    }

    #[test]
    fn both_poolers_get_the_same_pools() {
        let toml = weir_toml(&configuration(Kind::Weir));
        assert!(toml.contains("[pools.b]\nhost = \"127.0.0.1\"\nport = 5432\n"));
        assert!(toml.contains("mode = \"session\"\nsize = 3\n"));
        assert!(toml.contains("[pools.a]\nhost = \"/tmp/s\"\nport = 5432\n"));
        assert!(toml.contains("[tls.client]\nmode = \"allow\"\n"));
        let ini = pgbouncer_ini(&configuration(Kind::Pgbouncer));
        assert!(ini.contains("b = host=127.0.0.1 port=5432 dbname=bench pool_mode=session pool_size=3\n"));
        assert!(ini.contains("a = host=/tmp/s port=5432 ") && ini.contains("client_tls_sslmode = allow\n"));
        assert!(ini.contains("auth_type = trust\nauth_file = /tmp/x/userlist.txt\n"));
    }

    #[test]
    fn pgpool_gets_a_child_for_each_client_and_stays_in_its_folder() {
        let text = pgpool_conf(&configuration(Kind::Pgpool));
        assert!(text.contains("\nnum_init_children = 50\n") && text.contains("\nbackend_port0 = 5432\n"), "{text}");
        for name in ["socket_dir", "wd_ipc_socket_dir", "logdir", "memqcache_oiddir"] {
            assert!(text.contains(&format!("\n{name} = '/tmp/x'\n")), "{name}: {text}");
        }
        assert!(text.contains("\nssl_key = '/tmp/x/server.key'\n"), "{text}");
    }

    #[test]
    fn the_others_get_the_first_pool() {
        let text = others::odyssey_conf(&configuration(Kind::Odyssey));
        assert!(text.contains("database \"a\" {") && text.contains("pool_size 20\n"), "{text}");
        assert!(text.contains("    tls_key_file \"/tmp/x/server.key\"\n") && text.contains("port 6432\n"), "{text}");
        let text = others::pgcat_toml(&configuration(Kind::Pgcat));
        assert!(text.contains("[pools.a.users.0]\n") && text.contains("servers = [[\"127.0.0.1\", 5432, "), "{text}");
        let text = others::pg_doorman_toml(&configuration(Kind::PgDoorman));
        assert!(text.contains("[pools.a]\nserver_host = \"127.0.0.1\"\n"), "{text}");
        assert!(text.contains("\ntls_certificate = \"/tmp/x/server.crt\"\n"), "{text}");
    }

    #[test]
    fn the_file_is_named_for_the_program() {
        assert_eq!(configuration(Kind::Weir).file(), "/tmp/x/weir.toml");
        let arguments = Kind::Pgbouncer.arguments(&configuration(Kind::Pgbouncer), Some("postgres"));
        assert_eq!(arguments, ["-u", "postgres", "/tmp/x/pgbouncer.ini"]);
        let arguments = Kind::Forwarder.arguments(&configuration(Kind::Forwarder), None);
        assert_eq!(arguments.join(" "), "forwarder --port 6432 --server-port 5432 --servers 20");
    }
}
