//! The distribution's PgBouncer: where it is, the user that runs it, and an instance in front of a database. A test
//! that must fail with PgBouncer shows that the test can fail.

use std::env;
use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use weir_pgclient::{ConnectParams, Connection};
use weir_pglocal::{Account, TempFolder, free_port};

use crate::ini::Ini;
use crate::postgres::{Database, Postgres, User};
use crate::watch::eventually;

/// PgBouncer, where it is installed: the program that `PGBOUNCER_BIN` names, or the first one on the path.
pub fn pgbouncer_binary() -> Option<&'static Path> {
    static BINARY: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        if let Some(named) = env::var_os("PGBOUNCER_BIN") {
            return Some(PathBuf::from(named));
        }
        let folders = env::var_os("PATH").unwrap_or_default();
        let mut folders: Vec<_> = env::split_paths(&folders).collect();
        folders.push("/usr/sbin".into());
        folders.into_iter().map(|folder| folder.join("pgbouncer")).find(|path| path.is_file())
    };
    BINARY.get_or_init(find).as_deref()
}

/// The ordinary user that runs poolers when we are root: PgBouncer refuses to run as root.
///
/// # Panics
///
/// When there is no such user.
pub fn account() -> Option<&'static Account> {
    static ACCOUNT: OnceLock<Option<Account>> = OnceLock::new();
    ACCOUNT.get_or_init(|| Account::to_drop_to().unwrap_or_else(|error| panic!("{error}"))).as_ref()
}

/// A running PgBouncer; killed when dropped.
#[derive(Debug)]
pub struct PgBouncer {
    child: Mutex<Child>,
    port: u16,
    // Dropped last.
    folder: TempFolder,
}

impl PgBouncer {
    /// Starts one in front of a database; `None` if it is not installed.
    ///
    /// # Panics
    ///
    /// When it does not accept connections.
    #[track_caller]
    pub fn start(ini: &Ini, database: &Database) -> Option<PgBouncer> {
        let binary = pgbouncer_binary()?;
        let folder = TempFolder::owned_by(account()).unwrap_or_else(|error| panic!("{error}"));
        let port = free_port().expect("a free port");
        let own = folder.path().display().to_string();
        let log = "log_connections = 0\nlog_disconnections = 0\n";
        let text = ini.text(database).replace("\n[databases]", &format!("{log}\n[databases]"));
        for (name, text) in ini.files().iter().chain([&("pgbouncer.ini".to_owned(), text)]) {
            let path = folder.path().join(name);
            fs::write(&path, text.replace("{port}", &port.to_string()).replace("{folder}", &own)).expect("a file");
            if let Some(account) = account() {
                chown(&path, Some(account.uid), Some(account.gid)).expect("root may give files away");
            }
        }
        let mut command = Command::new(binary);
        if let Some(account) = account() {
            account.run(&mut command);
        }
        let output = fs::File::create(folder.path().join("output")).expect("a file");
        command.arg(folder.path().join("pgbouncer.ini")).current_dir(folder.path()).stdin(Stdio::null());
        command.stdout(output.try_clone().expect("a descriptor")).stderr(output);
        let child = command.spawn().unwrap_or_else(|error| panic!("run {command:?}: {error}"));
        Postgres::shared().server().reaper().watch(child.id());
        let pgbouncer = PgBouncer { child: Mutex::new(child), port, folder };
        eventually("PgBouncer listens", || {
            let opened = Connection::open(&pgbouncer.named("nobody", "app"));
            opened.map(drop).map_err(|error| format!("{error}: {}", pgbouncer.output()))
        });
        Some(pgbouncer)
    }

    /// How a client connects as a user of the server.
    pub fn params(&self, user: User) -> ConnectParams {
        self.named(user.name, "app").password(user.password)
    }

    /// How a client connects as any user, without a password.
    pub fn named(&self, user: &str, database: &str) -> ConnectParams {
        ConnectParams::tcp(([127, 0, 0, 1], self.port).into(), user, database).timeout(Duration::from_secs(10))
    }

    /// PgBouncer's exit status, if it has ended.
    pub fn ended(&self) -> Option<String> {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        child.try_wait().ok().flatten().map(|status| status.to_string())
    }

    /// PgBouncer's output.
    pub fn output(&self) -> String {
        let bytes = fs::read(self.folder.path().join("output")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = child.kill();
        let _ = child.wait();
        Postgres::shared().server().reaper().forget(child.id());
    }
}
