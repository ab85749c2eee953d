//! The stage: one PostgreSQL, and poolers before it that are configured alike.
//!
//! Owns the processes; all of it is gone when the value is. Nothing here knows what is measured. Each pooler's log goes
//! to a file, whose end is shown when the pooler fails.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use weir_pglocal::client::{Connection, Params};
use weir_pglocal::{Auth, Options, Server, Signal, free_port, send_signal};

use crate::error::{Error, Outcome};
use crate::find::{self, Program};
use crate::setup::{Address, Configuration, Kind, Login, Setup, USER};

/// How long a pooler may take to serve its first query, or to end.
const PATIENCE: Duration = Duration::from_secs(20);

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
        let name = format!("{kind} {}", program.version).trim_end().to_owned();
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

    /// Its Unix socket; `None` for PostgreSQL alone.
    pub(crate) fn socket(&self) -> Option<PathBuf> {
        let process = self.process.as_ref()?;
        Some(process.server.socket_dir().join(format!(".s.PGSQL.{}", self.port)))
    }

    /// How to connect to one of its pools.
    pub(crate) fn params(&self, pool: &str) -> Params {
        let database = if self.kind == Kind::Direct { USER } else { pool };
        Params::new("127.0.0.1", self.port, USER, database).password(USER)
    }

    /// What it is told, which can be changed before a RELOAD; `None` for PostgreSQL alone.
    pub(crate) fn configuration(&self) -> Option<Configuration> {
        self.process.as_ref().map(|process| process.configuration.clone())
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
    configuration: Configuration,
    server: Arc<Server>,
}

impl Process {
    fn start(server: &Arc<Server>, kind: Kind, program: &Program, port: u16, setup: &Setup) -> Outcome<Process> {
        let folder = server.socket_dir().join(format!("pooler-{port}"));
        fs::create_dir_all(&folder).map_err(|e| Error::at(format!("create {}", folder.display()), e))?;
        let address = Address { port: server.port(), socket_dir: server.socket_dir().to_owned() };
        let configuration = Configuration::new(kind, &folder, port, address, setup.clone());
        configuration.write()?;
        let mut command = Command::new(&program.path);
        command.args(configuration.arguments(server.runs_as()));
        let log = folder.join("log");
        let out = File::create(&log).map_err(|e| Error::at(format!("create {}", log.display()), e))?;
        let errors = out.try_clone().map_err(|e| Error::at("duplicate a descriptor", e))?;
        let child = command.current_dir("/").stdin(Stdio::null()).stdout(out).stderr(errors).spawn();
        let child = child.map_err(|e| Error::at(format!("run {}", program.path.display()), e))?;
        server.caretaker().watch(child.id());
        Ok(Process { child, log, configuration, server: Arc::clone(server) })
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
