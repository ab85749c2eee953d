//! A running pooler: the folder with the files of a case, the process, and the database.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weir_pgclient::{Answer, ConnectParams, Connection};
use weir_pglocal::{Signal, TempFolder, free_port, send_signal};
use weir_tests::{ADMIN, Database, Postgres, User, WATCHER, account, eventually, users};

use super::{Facts, Pooler, Setup};

/// How long a pooler may take until it listens.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a Unix socket may take to follow; a pooler without one costs a test so long.
const SOCKET_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a command may run that is expected to end.
const RUN_TIMEOUT: Duration = Duration::from_secs(8);

/// How many lines of a log are shown when a case has failed.
const LOG_LINES: usize = 30;

/// One pooler with the files of one case.
#[derive(Debug)]
pub(crate) struct Site {
    pooler: Pooler,
    setup: Setup,
    port: u16,
    database: Database,
    child: Mutex<Option<Child>>,
    // Dropped last: the folder with the logs.
    folder: TempFolder,
}

impl Site {
    /// The files alone, without a process.
    pub(crate) fn prepare(pooler: Pooler, setup: &Setup, postgres: &Postgres) -> Site {
        let folder = TempFolder::owned_by(account()).unwrap_or_else(|error| panic!("{error}"));
        let database = postgres.database();
        let port = free_port().expect("a free port");
        let site = Site { pooler, setup: setup.clone(), port, database, child: Mutex::new(None), folder };
        setup.files().iter().for_each(|(name, text)| site.write(name, text));
        site
    }

    /// Starts the pooler and waits until it listens.
    ///
    /// # Panics
    ///
    /// With its log, when it does not.
    #[track_caller]
    pub(crate) fn start(pooler: Pooler, setup: &Setup, postgres: &Postgres) -> Site {
        for attempt in 0.. {
            let site = Site::prepare(pooler, setup, postgres);
            site.run();
            if site.listens() {
                return site;
            }
            let log = site.output();
            // Another process may have taken the port first.
            let taken = log.contains("in use") && attempt < 3;
            assert!(taken, "{} did not start:\n{}\n{log}", pooler.name(), site.fill(&setup.ini()));
        }
        unreachable!("the last attempt returns or panics")
    }

    /// Which pooler the site runs.
    pub(crate) fn pooler(&self) -> Pooler {
        self.pooler
    }

    /// Starts the process of a site that was only prepared, or whose process has ended.
    pub(crate) fn run(&self) {
        let mut command = self.pooler.command();
        command.args(self.setup.flags.iter().map(|flag| self.fill(flag))).arg(self.path("pgbouncer.ini"));
        self.spawn(command);
    }

    /// Starts this command as the process of the site.
    pub(crate) fn spawn(&self, mut command: Command) {
        let output = fs::File::options().create(true).append(true).open(self.path("output")).expect("our own file");
        let child = command
            .current_dir(self.folder.path())
            .stdout(output.try_clone().expect("a descriptor"))
            .stderr(output)
            .spawn()
            .unwrap_or_else(|error| panic!("run {command:?}: {error}"));
        Postgres::shared().server().reaper().watch(child.id());
        *self.child() = Some(child);
    }

    /// Runs a command in the site's folder to its end; after some seconds it is killed.
    pub(crate) fn finish(&self, mut command: Command) -> Output {
        command.current_dir(self.folder.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("run {command:?}: {error}"));
        let begin = Instant::now();
        while child.try_wait().is_ok_and(|status| status.is_none()) && begin.elapsed() < RUN_TIMEOUT {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = child.kill();
        child.wait_with_output().unwrap_or_else(|error| panic!("wait for {command:?}: {error}"))
    }

    /// Whether the pooler listens before it exits and before the timeout.
    pub(crate) fn listens(&self) -> bool {
        let begin = Instant::now();
        while begin.elapsed() < START_TIMEOUT && self.exited().is_none() {
            if std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    /// An empty list of facts with this site's placeholders.
    pub(crate) fn facts(&self) -> Facts {
        let words = [
            (self.folder.path().display().to_string(), "DIR"),
            (self.socket_folder(), "SOCKET"),
            (self.port.to_string(), "PORT"),
            (self.postgres().port().to_string(), "SERVER"),
            (self.database.name().to_owned(), "DB"),
        ];
        Facts::new(words.into())
    }

    /// Writes a file into the folder, names in braces filled in.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::write(&path, self.fill(text)).unwrap_or_else(|error| panic!("write {}: {error}", path.display()));
        if let Some(account) = account() {
            chown(&path, Some(account.uid), Some(account.gid)).expect("root may give files away");
        }
    }

    /// Writes the files of another setup over those of this one.
    pub(crate) fn rewrite(&self, setup: &Setup) {
        setup.files().iter().for_each(|(name, text)| self.write(name, text));
    }

    /// A text with the names in braces filled in.
    pub(crate) fn fill(&self, text: &str) -> String {
        text.replace("{port}", &self.port.to_string())
            .replace("{server}", &self.postgres().port().to_string())
            .replace("{db}", self.database.name())
            .replace("{dir}", &self.folder.path().display().to_string())
            .replace("{socket}", &self.socket_folder())
    }

    /// A path in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The folder.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The port that the pooler listens on.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// PostgreSQL.
    pub(crate) fn postgres(&self) -> &Postgres {
        self.database.postgres()
    }

    /// The database behind the pooler.
    pub(crate) fn database(&self) -> &Database {
        &self.database
    }

    /// How a client connects with this user's correct password.
    pub(crate) fn params(&self, user: User, database: &str) -> ConnectParams {
        self.named(user.name, database).password(user.password)
    }

    /// How a client connects as any user, without a password.
    pub(crate) fn named(&self, user: &str, database: &str) -> ConnectParams {
        ConnectParams::tcp(([127, 0, 0, 1], self.port).into(), user, database).timeout(Duration::from_secs(20))
    }

    /// How a client connects as any user over the Unix socket, which listens.
    pub(crate) fn unix(&self, user: &str, database: &str) -> ConnectParams {
        self.socket();
        ConnectParams::unix(self.folder.path(), self.port, user, database).timeout(Duration::from_secs(20))
    }

    /// The path of the Unix socket, if there is one.
    pub(crate) fn socket_path(&self) -> PathBuf {
        self.path(&format!(".s.PGSQL.{}", self.port))
    }

    /// The same, once the pooler listens there: later than on its port, and after the file has its mode.
    pub(crate) fn socket(&self) -> PathBuf {
        let (socket, begin) = (self.socket_path(), Instant::now());
        while UnixStream::connect(&socket).is_err() && begin.elapsed() < SOCKET_TIMEOUT {
            std::thread::sleep(Duration::from_millis(5));
        }
        socket
    }

    /// The usual client.
    #[track_caller]
    pub(crate) fn client(&self) -> Connection {
        self.connect(&self.params(users::APP, "app"))
    }

    /// A client whose login must succeed.
    #[track_caller]
    pub(crate) fn connect(&self, params: &ConnectParams) -> Connection {
        Connection::connect(params).unwrap_or_else(|error| panic!("{params:?}: {error}"))
    }

    /// The administrator on the console.
    #[track_caller]
    pub(crate) fn console(&self) -> Connection {
        self.connect(&self.named(ADMIN.0, "pgbouncer").password(ADMIN.1))
    }

    /// The stats user on the console.
    #[track_caller]
    pub(crate) fn watcher(&self) -> Connection {
        self.connect(&self.named(WATCHER.0, "pgbouncer").password(WATCHER.1))
    }

    /// A table of the console.
    #[track_caller]
    pub(crate) fn show(&self, what: &str) -> Answer {
        self.console().query(&format!("SHOW {what}")).unwrap_or_else(|error| panic!("SHOW {what}: {error}"))
    }

    /// The states of all clients of a database, sorted.
    pub(crate) fn states(&self, table: &str, database: &str) -> String {
        let answer = self.show(table);
        let rows = (0..answer.rows.len()).filter(|row| answer.get(*row, "database") == Some(database));
        let mut states: Vec<_> = rows.map(|row| answer.get(row, "state").unwrap_or("NULL").to_owned()).collect();
        states.sort();
        states.join(",")
    }

    /// A number of SHOW POOLS, summed over the users of a database.
    pub(crate) fn pool(&self, database: &str, column: &str) -> i64 {
        let answer = self.show("POOLS");
        let rows = (0..answer.rows.len()).filter(|row| answer.get(*row, "database") == Some(database));
        rows.filter_map(|row| answer.get(row, column)?.parse::<i64>().ok()).sum()
    }

    /// Waits until a number of SHOW POOLS is this.
    #[track_caller]
    pub(crate) fn await_pool(&self, database: &str, column: &str, value: i64) {
        eventually(column, || match self.pool(database, column) {
            now if now == value => Ok(()),
            now => Err(format!("{now} instead of {value}")),
        });
    }

    /// A value of SHOW CONFIG.
    pub(crate) fn config(&self, key: &str) -> String {
        let answer = self.show("CONFIG");
        let row = (0..answer.rows.len()).find(|row| answer.get(*row, "key") == Some(key));
        row.and_then(|row| answer.get(row, "value")).unwrap_or("NULL").to_owned()
    }

    /// The process's id; for one in the background, the one in its pidfile.
    pub(crate) fn pid(&self) -> u32 {
        self.child().as_ref().map_or(0, Child::id)
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        send_signal(self.pid(), signal);
    }

    /// The pooler's exit status, once it has ended.
    pub(crate) fn exited(&self) -> Option<ExitStatus> {
        self.child().as_mut().and_then(|child| child.try_wait().ok().flatten())
    }

    /// Waits until the pooler has ended.
    #[track_caller]
    pub(crate) fn await_exit(&self) -> ExitStatus {
        eventually("the pooler has ended", || self.exited().ok_or_else(|| self.log()))
    }

    /// The text of the pooler's logfile.
    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.path("pgbouncer.log")).unwrap_or_default()).into_owned()
    }

    /// The pooler's output on the terminal, and its logfile.
    pub(crate) fn output(&self) -> String {
        let said = fs::read(self.path("output")).unwrap_or_default();
        format!("{}{}", String::from_utf8_lossy(&said), self.log())
    }

    /// The end of the pooler's log.
    pub(crate) fn end_of_log(&self) -> String {
        let output = self.output();
        let lines: Vec<_> = output.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }

    fn socket_folder(&self) -> String {
        self.postgres().server().socket_dir().display().to_string()
    }

    /// Kills a process in the background: the process of the pidfile, if its command line names our folder.
    fn end_background(&self) {
        let pid = fs::read_to_string(self.path("pgbouncer.pid")).unwrap_or_default();
        let Ok(pid) = pid.trim().parse::<u32>() else { return };
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&command).contains(&self.folder.path().display().to_string()) {
            send_signal(pid, Signal::SIGKILL);
        }
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("the end of {}'s log:\n{}", self.pooler.name(), self.end_of_log());
        }
        self.end_background();
        if let Some(mut child) = self.child().take() {
            let _ = child.kill();
            let _ = child.wait();
            Postgres::shared().server().reaper().forget(child.id());
        }
    }
}
