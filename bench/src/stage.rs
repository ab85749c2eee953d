//! The stage: one PostgreSQL, and poolers before it that are configured alike.
//!
//! Owns the processes and their configuration files; all of it is gone when the value is. Nothing here knows what is
//! measured. Alike means: the same pool size, mode and login, logging off, room for as many clients as there are
//! descriptors. Each pooler's log goes to a file, whose end is shown when the pooler fails.

use std::fmt::{self, Write as _};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use weir_pglocal::client::{Connection, Params};
use weir_pglocal::{Auth, Options, Server, Signal, free_port, send_signal};

use crate::error::{Error, Outcome};
use crate::find::{self, Program};

/// User, password and database of every run.
pub(crate) const USER: &str = "bench";
/// How long a pooler may take to serve its first query, or to end.
const PATIENCE: Duration = Duration::from_secs(20);
/// What poolers are told to accept; both lower it to what the descriptors allow.
const MAX_CLIENTS: u32 = 20_000;

/// What stands between pgbench and PostgreSQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Kind {
    /// PgBouncer, to which all others are compared.
    Pgbouncer,
    /// Weir.
    Weir,
    /// Nothing: PostgreSQL itself. It has TPS and latency, but no pooler whose CPU time could be taken.
    Direct,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Pgbouncer => "PgBouncer",
            Kind::Weir => "Weir",
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
}

/// What the poolers are told.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) pools: Vec<Pool>,
    pub(crate) login: Login,
    /// Worker threads, where a pooler has them.
    pub(crate) workers: u32,
    pub(crate) weir: Option<PathBuf>,
    pub(crate) pgbouncer: Option<PathBuf>,
}

/// One PostgreSQL, and what it takes to put poolers before it.
#[derive(Debug)]
pub(crate) struct Stage {
    server: Arc<Server>,
    setup: Setup,
}

impl Stage {
    /// Starts PostgreSQL with these further settings, and makes user and database.
    pub(crate) fn start(setup: Setup, settings: &[(&str, &str)]) -> Outcome<Stage> {
        let auth = match setup.login {
            Login::Trust => Auth::Trust,
            Login::Md5 => Auth::Md5,
        };
        let always = [
            ("shared_buffers", "256MB"),
            ("max_wal_size", "4GB"),
            ("checkpoint_timeout", "1h"),
            ("log_checkpoints", "off"),
            ("log_min_messages", "fatal"),
            ("jit", "off"),
        ];
        let settings = always.iter().chain(settings).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let options = Options { max_connections: 300, settings: settings.collect(), auth, ..Options::default() };
        let server = Arc::new(Server::start(options)?);
        server.execute("postgres", &format!("create role {USER} login password '{USER}'"))?;
        server.execute("postgres", &format!("create database {USER} owner {USER}"))?;
        Ok(Stage { server, setup })
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    /// Starts a pooler, and returns when it answers a query on its first pool.
    pub(crate) fn pooler(&self, kind: Kind) -> Outcome<Pooler> {
        let Some(program) = find::program(kind, &self.setup)? else {
            let name = kind.to_string();
            let first_pool = USER;
            return Ok(Pooler { kind, name, port: self.server.port(), process: None, first_pool });
        };
        let port = free_port().map_err(|e| Error::at("find a free port", e))?;
        let process = Process::start(&self.server, kind, &program, port, &self.setup)?;
        let name = format!("{kind} {}", program.version);
        let first_pool = self.setup.pools[0].name;
        let mut pooler = Pooler { kind, name, port, process: Some(process), first_pool };
        pooler.await_ready()?;
        Ok(pooler)
    }
}

/// A running pooler, or the place of one before PostgreSQL alone.
#[derive(Debug)]
pub(crate) struct Pooler {
    pub(crate) kind: Kind,
    /// With its version.
    pub(crate) name: String,
    pub(crate) port: u16,
    process: Option<Process>,
    first_pool: &'static str,
}

impl Pooler {
    /// The pooler's process; `None` for PostgreSQL alone.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(|process| process.child.id())
    }

    /// What to connect to as the database: the first pool.
    pub(crate) fn database(&self) -> &'static str {
        self.first_pool
    }

    /// How to connect to one of its pools.
    pub(crate) fn params(&self, pool: &str) -> Params {
        let database = if self.kind == Kind::Direct { USER } else { pool };
        Params::new("127.0.0.1", self.port, USER, database).password(USER)
    }

    /// Whether its process still runs; PostgreSQL alone always does.
    pub(crate) fn alive(&mut self) -> bool {
        self.process.as_mut().is_none_or(|process| matches!(process.child.try_wait(), Ok(None)))
    }

    /// The last lines of its log.
    pub(crate) fn log_end(&self) -> String {
        let text = self.process.as_ref().map(|process| fs::read(&process.log).unwrap_or_default()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }

    fn await_ready(&mut self) -> Outcome<()> {
        let end = Instant::now() + PATIENCE;
        let params = self.params(self.first_pool).timeout(Duration::from_secs(5));
        loop {
            let answer = Connection::connect(&params).and_then(|mut connection| connection.query("select 1"));
            let Err(error) = answer else { return Ok(()) };
            if !self.alive() || Instant::now() > end {
                let (name, log) = (&self.name, self.log_end());
                return Err(Error::new(format!("{name} does not serve: {error}\n{log}")));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A pooler's process, ended when dropped; the server's caretaker ends it if we cannot.
#[derive(Debug)]
struct Process {
    child: Child,
    log: PathBuf,
    server: Arc<Server>,
}

impl Process {
    fn start(server: &Arc<Server>, kind: Kind, program: &Program, port: u16, setup: &Setup) -> Outcome<Process> {
        let folder = server.socket_dir().join(format!("pooler-{port}"));
        fs::create_dir_all(&folder).map_err(|e| Error::at(format!("create {}", folder.display()), e))?;
        write(&folder.join("userlist.txt"), &format!("\"{USER}\" \"{USER}\"\n"))?;
        let mut command = Command::new(&program.path);
        match kind {
            Kind::Weir => {
                let file = folder.join("weir.toml");
                write(&file, &weir_toml(setup, port, server.port()))?;
                command.arg("serve").arg(&file);
            }
            Kind::Pgbouncer | Kind::Direct => {
                let file = folder.join("pgbouncer.ini");
                write(&file, &pgbouncer_ini(setup, &folder, port, server.port()))?;
                // It refuses to be root, as PostgreSQL does, and drops to the same user.
                if let Some(user) = server.runs_as() {
                    command.args(["-u", user]);
                }
                command.arg(&file);
            }
        }
        let log = folder.join("log");
        let out = File::create(&log).map_err(|e| Error::at(format!("create {}", log.display()), e))?;
        let errors = out.try_clone().map_err(|e| Error::at("duplicate a descriptor", e))?;
        let child = command.current_dir("/").stdin(Stdio::null()).stdout(out).stderr(errors).spawn();
        let child = child.map_err(|e| Error::at(format!("run {}", program.path.display()), e))?;
        server.caretaker().watch(child.id());
        Ok(Process { child, log, server: Arc::clone(server) })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let end = Instant::now() + Duration::from_secs(3);
        send_signal(self.child.id(), Signal::SIGQUIT);
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < end {
            thread::sleep(Duration::from_millis(5));
        }
        let pid = self.child.id();
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.server.caretaker().forget(pid);
    }
}

fn write(path: &Path, text: &str) -> Outcome<()> {
    fs::write(path, text).map_err(|e| Error::at(format!("write {}", path.display()), e))
}

fn weir_toml(setup: &Setup, port: u16, server_port: u16) -> String {
    let (workers, login) = (setup.workers, setup.login.name());
    let mut text = format!(
        "[general]\nworkers = {workers}\nmax_clients = {MAX_CLIENTS}\nadmin_users = [\"{USER}\"]\n\n\
         [listen]\naddress = \"127.0.0.1\"\nport = {port}\n\n\
         [auth]\ntype = \"{login}\"\nfile = \"userlist.txt\"\n\n\
         [log]\nconnections = false\ndisconnections = false\npooler_errors = false\nstats = false\n",
    );
    for Pool { name, mode, size } in &setup.pools {
        let mode = mode.name();
        let _ = write!(
            text,
            "\n[pools.{name}]\nhost = \"127.0.0.1\"\nport = {server_port}\ndatabase = \"{USER}\"\nmode = \"{mode}\"\n\
             size = {size}\n"
        );
    }
    text
}

fn pgbouncer_ini(setup: &Setup, folder: &Path, port: u16, server_port: u16) -> String {
    let mut text = String::from("[databases]\n");
    for Pool { name, mode, size } in &setup.pools {
        let mode = mode.name();
        let _ = writeln!(
            text,
            "{name} = host=127.0.0.1 port={server_port} dbname={USER} pool_mode={mode} pool_size={size}"
        );
    }
    let (login, folder) = (setup.login.name(), folder.display());
    let _ = write!(
        text,
        "\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
         auth_type = {login}\nauth_file = {folder}/userlist.txt\nadmin_users = {USER}\n\
         pool_mode = transaction\nmax_client_conn = {MAX_CLIENTS}\n\
         log_connections = 0\nlog_disconnections = 0\nlog_pooler_errors = 0\nlog_stats = 0\n"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup() -> Setup {
        let pools = vec![
            Pool { name: "a", mode: Mode::Transaction, size: 20 },
            Pool { name: "b", mode: Mode::Session, size: 3 },
        ];
        Setup { pools, login: Login::Trust, workers: 1, weir: None, pgbouncer: None }
    }

    #[test]
    fn both_poolers_get_the_same_pools() {
        let toml = weir_toml(&setup(), 6432, 5432);
        assert!(toml.contains("[pools.b]\nhost = \"127.0.0.1\"\nport = 5432\n"));
        assert!(toml.contains("mode = \"session\"\nsize = 3\n"));
        let ini = pgbouncer_ini(&setup(), Path::new("/tmp/x"), 6432, 5432);
        assert!(ini.contains("b = host=127.0.0.1 port=5432 dbname=bench pool_mode=session pool_size=3\n"));
        assert!(ini.contains("auth_type = trust\nauth_file = /tmp/x/userlist.txt\n"));
    }
}
