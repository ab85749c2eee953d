//! The stage: one PostgreSQL, and poolers before it that are configured alike.
//!
//! Owns the processes; all of it is gone when the value is. Nothing here knows what is measured. Each pooler's log goes
//! to a file, whose end is shown when the pooler fails.

use std::fs::{self, File};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use weir_pgclient::{ConnectParams, Connection};
use weir_pglocal::proc;
use weir_pglocal::{Account as Person, Auth, Options, Server, Signal, free_port, send_signal};

use crate::contender::{Kind, MAX_SESSIONS};
use crate::error::{Error, Outcome};
use crate::find::Program;
use crate::rival::{self, Account, Rival, Rivals};
use crate::setup::{Address, Configuration, Login, SOCKET_POOL, Setup, USER};

/// `max_connections` beside one for each client of a pooler with a server a client.
const CONNECTIONS: u32 = 300;

/// How long a pooler may take to serve its first query, or to end.
const TIMEOUT: Duration = Duration::from_secs(20);

/// One PostgreSQL, and the settings for poolers before it.
#[derive(Debug)]
pub(crate) struct Stage {
    server: Arc<Server>,
    setup: Setup,
}

impl Stage {
    /// Starts PostgreSQL with these further settings, on this port or a free one, and makes user and database.
    pub(crate) fn start(setup: Setup, settings: &[(&str, &str)], port: Option<u16>) -> Outcome<Stage> {
        let auth = match setup.login {
            Login::Trust | Login::Scram => Auth::Trust,
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
        let max_connections = CONNECTIONS + MAX_SESSIONS;
        let options = Options { max_connections, settings: settings.collect(), auth, port, ..Options::default() };
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
        self.pooler_with(kind, &self.setup)
    }

    /// Starts a pooler as `pooler` does, with another setup than the stage's.
    pub(crate) fn pooler_with(&self, kind: Kind, setup: &Setup) -> Outcome<Pooler> {
        let host = "127.0.0.1".to_owned();
        let Some(program) = kind.program(setup)? else {
            let (name, port, account) = (kind.to_string(), self.server.port(), Account::ours(USER));
            return Ok(Pooler { kind, name, host, port, account, owner: Owner::Nobody });
        };
        let port = free_port().map_err(|e| Error::at("find a free port", e))?;
        let process = Process::start(&self.server, kind, &program, port, setup)?;
        let name = format!("{kind} {}", program.version).trim_end().to_owned();
        let account = Account::ours(setup.pools[0].name);
        let mut pooler = Pooler { kind, name, host, port, account, owner: Owner::We(Box::new(process)) };
        pooler.await_ready()?;
        Ok(pooler)
    }

    /// The configuration of the stage's poolers.
    pub(crate) fn setup(&self) -> &Setup {
        &self.setup
    }
}

/// A running pooler, or the place of one before PostgreSQL alone.
#[derive(Debug)]
pub(crate) struct Pooler {
    pub(crate) kind: Kind,
    /// The pooler's name with its version.
    pub(crate) name: String,
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Who logs in, and to which database: the first pool.
    pub(crate) account: Account,
    owner: Owner,
}

/// The owner of the process.
#[derive(Debug)]
enum Owner {
    We(Box<Process>),
    /// Another owner, by the process id.
    Other(u32),
    /// There is none.
    Nobody,
}

impl Pooler {
    /// A rival that was started elsewhere. It has to answer a query, in a bounded time.
    pub(crate) fn of(rival: &Rival, rivals: &Rivals) -> Outcome<Pooler> {
        let mut pooler = Pooler {
            kind: Kind::Other,
            name: rival.name.clone(),
            host: rival.host.clone(),
            port: rival.port,
            account: rivals.account(),
            owner: Owner::Other(rival.pid),
        };
        if !pooler.alive() {
            return Err(Error::new(format!("{}: there is no process {}", rival.name, rival.pid)));
        }
        pooler.await_ready()?;
        Ok(pooler)
    }

    /// The pooler's process; `None` for PostgreSQL alone.
    pub(crate) fn pid(&self) -> Option<u32> {
        match &self.owner {
            Owner::We(process) => Some(process.child.id()),
            Owner::Other(pid) => Some(*pid),
            Owner::Nobody => None,
        }
    }

    /// What to connect to as the database: the first pool.
    pub(crate) fn database(&self) -> &str {
        &self.account.database
    }

    /// The pool whose servers are reached by a Unix socket.
    pub(crate) fn socket_pool(&self) -> &str {
        if self.kind == Kind::Direct { USER } else { SOCKET_POOL }
    }

    /// The pooler's Unix socket; `None` if it has no known one.
    pub(crate) fn socket(&self) -> Option<PathBuf> {
        let Owner::We(process) = &self.owner else { return None };
        Some(process.server.socket_dir().join(format!(".s.PGSQL.{}", self.port)))
    }

    /// How to connect to one of the pooler's pools.
    pub(crate) fn params(&self, pool: &str) -> ConnectParams {
        let database = match self.kind {
            Kind::Direct => USER,
            // Only one of its pools is known.
            Kind::Other => &self.account.database,
            _ => pool,
        };
        let params = self.account.params(&self.host, self.port, database);
        if self.kind == Kind::Other { params.timeout(rival::TIMEOUT) } else { params }
    }

    /// The pooler's configuration, which can be changed before a RELOAD; `None` for a pooler that is not ours.
    pub(crate) fn configuration(&self) -> Option<Configuration> {
        match &self.owner {
            Owner::We(process) => Some(process.configuration.clone()),
            Owner::Other(_) | Owner::Nobody => None,
        }
    }

    /// Whether the pooler's process still runs; PostgreSQL alone always does.
    pub(crate) fn alive(&mut self) -> bool {
        match &mut self.owner {
            Owner::We(process) => matches!(process.child.try_wait(), Ok(None)),
            Owner::Other(pid) => proc::cpu(*pid).is_some(),
            Owner::Nobody => true,
        }
    }

    /// Reports that the pooler's process is gone, with the end of its log.
    pub(crate) fn gone(&self) -> Error {
        Error::new(format!("{} has ended:\n{}", self.name, self.log_end()))
    }

    /// The last lines of the pooler's log.
    pub(crate) fn log_end(&self) -> String {
        let Owner::We(process) = &self.owner else { return String::new() };
        let text = fs::read(&process.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }

    fn await_ready(&mut self) -> Outcome<()> {
        let end = Instant::now() + TIMEOUT;
        let params = self.params(self.database()).timeout(Duration::from_secs(5));
        loop {
            let answer = Connection::connect(&params).and_then(|mut connection| connection.query("select 1"));
            let Err(error) = answer else { return Ok(()) };
            if !self.alive() || Instant::now() > end {
                let (name, log) = (&self.name, self.log_end());
                return Err(Error::new(format!("{name} does not serve: {error}\n{log}").trim_end()));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A pooler's process, ended when dropped; the server's reaper ends it if we cannot.
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
        command.args(kind.arguments(&configuration, server.runs_as()));
        if let Some(person) = Person::to_drop_to()?.filter(|_| kind.drops_root()) {
            person.run(&mut command);
            hand_over(&folder, &person)?;
        }
        let log = folder.join("log");
        let out = File::create(&log).map_err(|e| Error::at(format!("create {}", log.display()), e))?;
        let errors = out.try_clone().map_err(|e| Error::at("duplicate a descriptor", e))?;
        let child = command.current_dir("/").stdin(Stdio::null()).stdout(out).stderr(errors).spawn();
        let child = child.map_err(|e| Error::at(format!("run {}", program.path.display()), e))?;
        server.reaper().watch(child.id());
        Ok(Process { child, log, configuration, server: Arc::clone(server) })
    }
}

/// The folder and its files, for a process that is not root any more.
fn hand_over(folder: &Path, person: &Person) -> Outcome<()> {
    let failed = |e| Error::at(format!("hand {} over to {}", folder.display(), person.name), e);
    let files = fs::read_dir(folder).map_err(failed)?.flatten().map(|file| file.path());
    for path in files.chain([folder.to_owned()]) {
        chown(&path, Some(person.uid), Some(person.gid)).map_err(failed)?;
    }
    Ok(())
}

impl Drop for Process {
    fn drop(&mut self) {
        let end = Instant::now() + TIMEOUT;
        send_signal(self.child.id(), Signal::SIGQUIT);
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < end {
            thread::sleep(Duration::from_millis(5));
        }
        let pid = self.child.id();
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.server.reaper().forget(pid);
    }
}
