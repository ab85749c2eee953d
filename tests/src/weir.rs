//! One running Weir: the real program with its own configuration, on a free port of loopback.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use weir_pgclient::{Answer, ConnectParams, Connection, Error};
use weir_pglocal::{Signal, TempFolder, free_port, send_signal};

use crate::build::weir_binary;
use crate::postgres::{Database, Postgres};
use crate::setup::{ADMIN, Console, Setup};
use crate::watch::eventually;

/// How long a Weir may take until its console answers.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// How many lines of the log are shown when a test has failed.
const LOG_LINES: usize = 40;

/// A Weir; killed when dropped, after a check that all its counters are back.
#[derive(Debug)]
pub struct Weir {
    child: Mutex<Child>,
    folder: TempFolder,
    /// The name of Weir's configuration in `folder`.
    config: &'static str,
    port: u16,
    console: Console,
    /// Descriptors of neither clients nor servers.
    own_descriptors: usize,
    checked_at_end: AtomicBool,
}

/// How a pooler is started.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// Additional environment variables.
    pub env: Vec<(String, String)>,
    /// The port, if several share one: each is administered over its own Unix socket then. None: a free one.
    pub shared_port: Option<u16>,
}

/// The memory of a Weir, from `/proc`, without its program's own pages: these depend on how it was built.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Resident now, in kB.
    pub now: u64,
    /// The peak resident size, in kB.
    pub peak: u64,
}

/// A row of SHOW POOLS, or the sum of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolRow(BTreeMap<String, i64>);

impl PoolRow {
    /// The number in a column.
    ///
    /// # Panics
    ///
    /// When there is no such column.
    #[track_caller]
    pub fn get(&self, column: &str) -> i64 {
        *self.0.get(column).unwrap_or_else(|| panic!("SHOW POOLS has no {column}: {self:?}"))
    }

    /// Servers in any state.
    pub fn servers(&self) -> i64 {
        ["sv_active", "sv_active_cancel", "sv_being_canceled", "sv_idle", "sv_used", "sv_tested", "sv_login"]
            .iter()
            .map(|column| self.get(column))
            .sum()
    }
}

impl Weir {
    /// Starts one: `toml` has `{port}` in place of the port; waits until the console answers.
    ///
    /// # Panics
    ///
    /// With the log, when it does not start.
    #[track_caller]
    pub fn start(toml: &str, userlist: &str) -> Weir {
        let files = [("userlist.txt".to_owned(), userlist.to_owned())];
        Weir::launch("weir.toml", toml, &files, Console::Tcp)
    }

    /// Starts a Weir with further files in its folder; `{folder}` in `toml` stands for that folder.
    ///
    /// # Panics
    ///
    /// With the log, when it does not start.
    #[track_caller]
    pub fn start_with(toml: &str, userlist: &str, files: &[(String, String)], console: Console) -> Weir {
        let files = [files, &[("userlist.txt".to_owned(), userlist.to_owned())]].concat();
        Weir::launch("weir.toml", toml, &files, console)
    }

    /// Starts a Weir with a setup, in front of a database.
    ///
    /// # Panics
    ///
    /// With the log, when it does not start.
    #[track_caller]
    pub(crate) fn start_under(setup: &Setup, database: &Database) -> Weir {
        let launch = Launch { env: setup.environment().to_vec(), shared_port: None };
        let files = [setup.files(), &[("userlist.txt".to_owned(), setup.userlist())]].concat();
        Weir::launch_with("weir.toml", &setup.toml(database), &files, setup.console(), &launch)
    }

    /// Starts one with a `pgbouncer.ini` and the files beside it; in all of them `{port}` is the port to listen on and
    /// `{folder}` their folder.
    ///
    /// # Panics
    ///
    /// With the log, when it does not start.
    #[track_caller]
    pub fn start_ini(ini: &str, files: &[(String, String)]) -> Weir {
        Weir::launch("pgbouncer.ini", ini, files, Console::Tcp)
    }

    /// Starts a Weir with a `pgbouncer.ini` under a [`Launch`] of its own.
    ///
    /// # Panics
    ///
    /// With the log, when it does not start.
    #[track_caller]
    pub fn start_ini_with(ini: &str, files: &[(String, String)], launch: &Launch) -> Weir {
        let console = if launch.shared_port.is_some() { Console::Socket } else { Console::Tcp };
        Weir::launch_with("pgbouncer.ini", ini, files, console, launch)
    }

    /// Kills Weir with SIGKILL, as a crash would.
    pub fn kill9(&self) {
        let mut child = self.child();
        let _ = child.kill();
        let _ = child.wait();
        Postgres::shared().server().reaper().forget(child.id());
    }

    /// Starts it again in its folder and on its port, after [`Weir::kill9`] or [`Weir::wait_for_exit`].
    ///
    /// # Panics
    ///
    /// With the log, when it does not start.
    #[track_caller]
    pub fn start_again(&self) {
        let config = self.folder.path().join(self.config);
        Postgres::shared().server().reaper().forget(self.pid());
        *self.child() = spawn(&config, &self.folder.path().join("log"), &Launch::default());
        Postgres::shared().server().reaper().watch(self.pid());
        assert!(self.await_console(), "weir did not start again:\n{}", self.log());
    }

    #[track_caller]
    fn launch(config: &'static str, text: &str, files: &[(String, String)], console: Console) -> Weir {
        Weir::launch_with(config, text, files, console, &Launch::default())
    }

    #[track_caller]
    fn launch_with(
        config: &'static str,
        text: &str,
        files: &[(String, String)],
        console: Console,
        launch: &Launch,
    ) -> Weir {
        for attempt in 0.. {
            let folder = TempFolder::new().expect("a temporary folder");
            let port = launch.shared_port.unwrap_or_else(|| free_port().expect("a free port"));
            write_all(folder.path(), port, config, text, files);
            let child = Mutex::new(spawn(&folder.path().join(config), &folder.path().join("log"), launch));
            let checked_at_end = AtomicBool::new(false);
            let mut weir = Weir { child, folder, config, port, console, own_descriptors: 0, checked_at_end };
            Postgres::shared().server().reaper().watch(weir.pid());
            if weir.await_console() {
                weir.own_descriptors = weir.descriptors_at_start().expect("the console answers");
                weir.checked_at_end.store(true, Ordering::Relaxed);
                return weir;
            }
            let log = weir.log();
            // Another process may have taken the port first.
            assert!(log.contains("in use") && attempt < 3, "weir did not start:\n{text}\n{log}");
        }
        unreachable!("the last attempt returns or panics")
    }

    /// Weir's process id.
    pub fn pid(&self) -> u32 {
        self.child().id()
    }

    /// The port that Weir listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The folder with the configuration and `userlist.txt`.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Weir's log so far.
    pub fn log(&self) -> String {
        let bytes = fs::read(self.folder.path().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// How to connect to a pool; the password is empty.
    pub fn params(&self, user: &str, pool: &str) -> ConnectParams {
        ConnectParams::tcp(([127, 0, 0, 1], self.port).into(), user, pool).timeout(Duration::from_secs(30))
    }

    /// How the administrator connects to the console.
    pub fn console_params(&self) -> ConnectParams {
        match self.console {
            Console::Tcp => self.params(ADMIN.0, "weir").password(ADMIN.1),
            Console::Socket => ConnectParams::unix(self.folder(), self.port, "pgbouncer", "weir"),
        }
    }

    /// A connection to the console as its administrator.
    #[track_caller]
    pub fn console(&self) -> Connection {
        Connection::connect(&self.console_params()).unwrap_or_else(|error| panic!("console: {error}"))
    }

    /// A table of the console.
    #[track_caller]
    pub fn show(&self, what: &str) -> Answer {
        self.command(&format!("SHOW {what}")).unwrap_or_else(|error| panic!("SHOW {what}: {error}"))
    }

    /// A command of the console.
    pub fn command(&self, command: &str) -> Result<Answer, Error> {
        Connection::connect(&self.console_params())?.query(command)
    }

    /// The rows of SHOW POOLS for a pool, summed over its users.
    #[track_caller]
    pub fn pool(&self, name: &str) -> PoolRow {
        self.sum_of_pools(|database| database == name).unwrap_or_else(|error| panic!("SHOW POOLS: {error}"))
    }

    /// Waits until the pool `app` fulfils the condition.
    #[track_caller]
    pub fn await_pool(&self, what: &str, fits: impl Fn(&PoolRow) -> bool) -> PoolRow {
        eventually(what, || {
            let row = self.pool("app");
            if fits(&row) { Ok(row) } else { Err(row) }
        })
    }

    /// Writes a new configuration, which takes effect with a reload.
    pub fn rewrite(&self, config: &str, userlist: &str) {
        self.rewrite_all(config, &[("userlist.txt".to_owned(), userlist.to_owned())]);
    }

    /// Writes a new configuration and the files beside it.
    pub fn rewrite_all(&self, config: &str, files: &[(String, String)]) {
        write_all(self.folder.path(), self.port, self.config, config, files);
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        send_signal(self.pid(), signal);
    }

    /// Whether SIGSTOP has stopped Weir (proc(5): the state after the name in /proc/pid/stat).
    pub fn is_stopped(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    }

    /// Waits until it has ended, and skips the final checks.
    ///
    /// # Panics
    ///
    /// When it does not end before the timeout.
    #[track_caller]
    pub fn wait_for_exit(&self) -> ExitStatus {
        self.checked_at_end.store(false, Ordering::Relaxed);
        eventually("weir has ended", || self.exited().ok_or_else(|| self.log()))
    }

    /// Weir's exit status, if it has ended.
    pub fn exited(&self) -> Option<ExitStatus> {
        self.child().try_wait().ok().flatten()
    }

    /// Skips the final checks: the test has left Weir in a special state.
    pub fn skip_final_checks(&self) {
        self.checked_at_end.store(false, Ordering::Relaxed);
    }

    /// Weir's memory.
    pub fn memory(&self) -> Memory {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap_or_default();
        let field = |name: &str| -> u64 {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
        };
        let program = field("RssFile:");
        Memory { now: field("VmRSS:").saturating_sub(program), peak: field("VmHWM:").saturating_sub(program) }
    }

    /// How many descriptors Weir has open.
    pub fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid())).map_or(0, Iterator::count)
    }

    /// Waits until SHOW POOLS counts no client and no busy server, and each descriptor is accounted for.
    ///
    /// # Panics
    ///
    /// When something is left.
    #[track_caller]
    pub fn assert_at_rest(&self) {
        eventually("weir is at rest", || self.at_rest());
    }

    fn at_rest(&self) -> Result<(), String> {
        let pools = self.sum_of_pools(|database| database != "pgbouncer" && database != "weir");
        let pools = pools.map_err(|error| format!("SHOW POOLS: {error}"))?;
        let busy = [
            "cl_active",
            "cl_waiting",
            "cl_active_cancel_req",
            "cl_waiting_cancel_req",
            "sv_active",
            "sv_active_cancel",
            "sv_being_canceled",
            "sv_tested",
            "sv_login",
        ];
        if let Some(column) = busy.iter().find(|column| pools.0.get(**column).is_some_and(|count| *count != 0)) {
            return Err(format!("{column} is not 0: {pools:?}"));
        }
        let descriptors = self.unexplained_descriptors().map_err(|error| error.to_string())?;
        if descriptors > self.own_descriptors {
            return Err(format!("{descriptors} descriptors of its own, {} at its start", self.own_descriptors));
        }
        Ok(())
    }

    /// Descriptors of Weir's own before there are clients. An earlier console that is still listed, and closed before
    /// the count, would make the number one too small.
    fn descriptors_at_start(&self) -> Result<usize, Error> {
        let mut console = Connection::connect(&self.console_params())?;
        while console.query("SHOW CLIENTS")?.rows.len() > 1 {
            thread::sleep(Duration::from_millis(1));
        }
        let servers = console.query("SHOW SERVERS")?.rows.len();
        Ok(self.descriptors().saturating_sub(1 + servers))
    }

    /// Descriptors that belong neither to clients nor to servers.
    fn unexplained_descriptors(&self) -> Result<usize, Error> {
        let mut console = Connection::connect(&self.console_params())?;
        let clients = console.query("SHOW CLIENTS")?.rows.len();
        let servers = console.query("SHOW SERVERS")?.rows.len();
        // One a server is kept to look at it, where there is an API.
        let looks = if self.log().contains("; API on ") { self.database_servers(&mut console)? } else { 0 };
        Ok(self.descriptors().saturating_sub(clients + servers + looks))
    }

    /// How many servers the pools lead to.
    fn database_servers(&self, console: &mut Connection) -> Result<usize, Error> {
        let answer = console.query("SHOW DATABASES")?;
        let of = |row, column| answer.get(row, column).unwrap_or_default();
        let is_console = |row: &usize| matches!(of(*row, "name"), "pgbouncer" | "weir");
        let addresses =
            (0..answer.rows.len()).filter(|row| !is_console(row)).map(|row| (of(row, "host"), of(row, "port")));
        let addresses: BTreeSet<_> = addresses.collect();
        Ok(addresses.len())
    }

    fn sum_of_pools(&self, counts: impl Fn(&str) -> bool) -> Result<PoolRow, Error> {
        let answer = self.command("SHOW POOLS")?;
        let mut sum = PoolRow::default();
        for row in 0..answer.rows.len() {
            if !answer.get(row, "database").is_some_and(&counts) {
                continue;
            }
            for column in &answer.columns {
                let value: i64 = answer.get(row, column).and_then(|text| text.parse().ok()).unwrap_or(0);
                *sum.0.entry(column.clone()).or_default() += value;
            }
        }
        Ok(sum)
    }

    fn await_console(&self) -> bool {
        let begin = Instant::now();
        while begin.elapsed() < START_TIMEOUT && self.exited().is_none() {
            // The API opens its sockets after the console answers, and before this line.
            if self.log().contains(": ready on ") && self.command("SHOW VERSION").is_ok() {
                return true;
            }
            thread::sleep(Duration::from_millis(10));
        }
        false
    }
}

impl Drop for Weir {
    fn drop(&mut self) {
        let failed_before = thread::panicking();
        let verdict =
            if self.checked_at_end.load(Ordering::Relaxed) && !failed_before { self.final_checks() } else { Ok(()) };
        let log = self.log();
        let mut child = self.child();
        let _ = child.kill();
        let _ = child.wait();
        Postgres::shared().server().reaper().forget(child.id());
        drop(child);
        if failed_before || verdict.is_err() {
            let postgres = Postgres::shared().server().log();
            // No test kills the shared server's processes: if one was killed, that explains the failure.
            postgres.lines().filter(|line| line.contains("terminated by signal")).for_each(|line| println!("{line}"));
            let lines: Vec<_> = log.lines().collect();
            println!("the end of weir's log:\n{}", lines[lines.len().saturating_sub(LOG_LINES)..].join("\n"));
        }
        if let Err(what) = verdict {
            panic!("{what}");
        }
    }
}

impl Weir {
    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn final_checks(&self) -> Result<(), String> {
        if let Some(status) = self.exited() {
            return Err(format!("weir has ended unexpectedly: {status}"));
        }
        let begin = Instant::now();
        let mut last = self.at_rest();
        while last.is_err() && begin.elapsed() < Duration::from_secs(15) {
            thread::sleep(Duration::from_millis(20));
            last = self.at_rest();
        }
        last?;
        let log = self.log();
        let broken = |line: &&str| line.contains("panicked") || line.contains("internal error");
        log.lines().find(broken).map_or(Ok(()), |line| Err(format!("weir's log says: {line}")))
    }
}

fn write_all(folder: &Path, port: u16, config: &str, text: &str, files: &[(String, String)]) {
    let main = (config.to_owned(), with_io(config, text));
    let own = folder.display().to_string();
    for (name, text) in files.iter().chain([&main]) {
        write(&folder.join(name), &text.replace("{port}", &port.to_string()).replace("{folder}", &own));
    }
}

/// A configuration with the I/O method in `WEIR_TEST_IO`, unless the test chooses one.
fn with_io(config: &str, text: &str) -> String {
    match std::env::var("WEIR_TEST_IO") {
        Ok(_) if text.contains("\nio = ") => text.to_owned(),
        Ok(word) if config.ends_with(".ini") => {
            text.replacen("[pgbouncer]\n", &format!("[pgbouncer]\nio = {word}\n"), 1)
        }
        Ok(word) => text.replacen("[general]\n", &format!("[general]\nio = \"{word}\"\n"), 1),
        Err(_) => text.to_owned(),
    }
}

fn write(path: &PathBuf, text: &str) {
    fs::write(path, text).unwrap_or_else(|error| panic!("write {}: {error}", path.display()));
}

fn spawn(config: &Path, log: &Path, launch: &Launch) -> Child {
    let log = File::create(log).expect("a log file");
    Command::new(weir_binary())
        .arg("serve")
        .arg(config)
        .envs(launch.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a descriptor"))
        .stderr(log)
        .spawn()
        .unwrap_or_else(|error| panic!("run {}: {error}", weir_binary().display()))
}
