//! The pooler under a fault: Weir, or PgBouncer with the same file.
//!
//! Owns PgBouncer's process. Weir is also checked at its end: all its counters must be back.

use std::env;
use std::fs::{self, File};
use std::net::TcpStream;
use std::os::unix::fs::chown;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use weir_pgclient::ConnectParams;
use weir_pglocal::{Account, TempFolder, free_port};

use crate::ini::Ini;
use crate::postgres::{Database, Postgres, users};
use crate::watch::eventually;
use crate::weir::{Launch, Weir};

/// Which pooler is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Weir.
    Weir,
    /// The distribution's, or the one that `PGBOUNCER_BIN` names.
    PgBouncer,
}

impl Kind {
    /// The pooler's name in the tables.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Weir => "Weir",
            Kind::PgBouncer => "PgBouncer",
        }
    }

    /// Whether the pooler's program is installed.
    pub fn is_there(self) -> bool {
        self == Kind::Weir || pgbouncer().is_some()
    }
}

/// A running pooler.
#[derive(Debug)]
pub(super) enum Pooler {
    Weir(Box<Weir>),
    PgBouncer(Bouncer),
}

/// A running PgBouncer.
#[derive(Debug)]
pub(super) struct Bouncer {
    child: Mutex<Child>,
    port: u16,
    env: Vec<(String, String)>,
    folder: TempFolder,
}

impl Pooler {
    pub(super) fn start(kind: Kind, ini: &Ini, database: &Database, launch: &Launch) -> Pooler {
        match kind {
            Kind::Weir => Pooler::Weir(Box::new(Weir::start_ini_with(&ini.text(database), &ini.files(), launch))),
            Kind::PgBouncer => Pooler::PgBouncer(Bouncer::start(ini, database, launch)),
        }
    }

    pub(super) fn port(&self) -> u16 {
        match self {
            Pooler::Weir(weir) => weir.port(),
            Pooler::PgBouncer(bouncer) => bouncer.port,
        }
    }

    pub(super) fn pid(&self) -> u32 {
        match self {
            Pooler::Weir(weir) => weir.pid(),
            Pooler::PgBouncer(bouncer) => bouncer.child().id(),
        }
    }

    /// The pooler's output on standard error.
    pub(super) fn log(&self) -> String {
        match self {
            Pooler::Weir(weir) => weir.log(),
            Pooler::PgBouncer(bouncer) => {
                String::from_utf8_lossy(&fs::read(bouncer.folder.path().join("log")).unwrap_or_default()).into_owned()
            }
        }
    }

    /// How a client connects to this port, which may belong to a proxy.
    pub(super) fn params(&self, port: u16) -> ConnectParams {
        ConnectParams::tcp(([127, 0, 0, 1], port).into(), users::APP.name, "app").password(users::APP.password)
    }

    /// Kills the pooler with SIGKILL.
    pub(super) fn kill9(&self) {
        match self {
            Pooler::Weir(weir) => weir.kill9(),
            Pooler::PgBouncer(bouncer) => bouncer.kill9(),
        }
    }

    /// Starts the pooler again, on the same port.
    pub(super) fn start_again(&self) {
        match self {
            Pooler::Weir(weir) => weir.start_again(),
            Pooler::PgBouncer(bouncer) => bouncer.start_again(),
        }
    }
}

impl Bouncer {
    fn start(ini: &Ini, database: &Database, launch: &Launch) -> Bouncer {
        let folder = TempFolder::owned_by(account()).unwrap_or_else(|error| panic!("{error}"));
        let port = free_port().expect("a free port");
        let own = folder.path().display().to_string();
        for (name, text) in ini.files().iter().chain([&("pgbouncer.ini".to_owned(), ini.text(database))]) {
            let path = folder.path().join(name);
            let text = text.replace("{port}", &port.to_string()).replace("{folder}", &own);
            fs::write(&path, text).unwrap_or_else(|error| panic!("write {}: {error}", path.display()));
            if let Some(account) = account() {
                chown(&path, Some(account.uid), Some(account.gid)).expect("root may give files away");
            }
        }
        let env = launch.env.clone();
        let bouncer = Bouncer { child: Mutex::new(run(&folder, &env)), port, env, folder };
        bouncer.await_port();
        bouncer
    }

    fn kill9(&self) {
        let mut child = self.child();
        let _ = child.kill();
        let _ = child.wait();
        Postgres::shared().server().reaper().forget(child.id());
    }

    fn start_again(&self) {
        *self.child() = run(&self.folder, &self.env);
        self.await_port();
    }

    fn await_port(&self) {
        eventually("PgBouncer listens", || {
            TcpStream::connect(("127.0.0.1", self.port)).map_err(|error| (error, self.folder.path().join("log")))
        });
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Bouncer {
    fn drop(&mut self) {
        self.kill9();
    }
}

/// Runs as an ordinary user: PgBouncer refuses to run as root.
fn run(folder: &TempFolder, env: &[(String, String)]) -> Child {
    let log = File::options().create(true).append(true).open(folder.path().join("log")).expect("a log file");
    let mut command = Command::new(pgbouncer().expect("PgBouncer was chosen, so it is installed"));
    if let Some(account) = account() {
        account.run(&mut command);
    }
    let child = command
        .arg(folder.path().join("pgbouncer.ini"))
        .envs(env.iter().map(|(name, value)| (name, value)))
        .env_remove("NOTIFY_SOCKET")
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a descriptor"))
        .stderr(log)
        .spawn()
        .unwrap_or_else(|error| panic!("run {command:?}: {error}"));
    Postgres::shared().server().reaper().watch(child.id());
    std::thread::sleep(Duration::from_millis(50));
    child
}

fn account() -> Option<&'static Account> {
    static ACCOUNT: OnceLock<Option<Account>> = OnceLock::new();
    ACCOUNT.get_or_init(|| Account::to_drop_to().unwrap_or_else(|error| panic!("{error}"))).as_ref()
}

fn pgbouncer() -> Option<PathBuf> {
    if let Some(named) = env::var_os("PGBOUNCER_BIN") {
        return Some(named.into());
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(["/usr/sbin".into()]);
    folders.map(|folder| folder.join("pgbouncer")).find(|path| path.is_file())
}
