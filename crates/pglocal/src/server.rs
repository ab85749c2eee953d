//! A temporary PostgreSQL server: made, used, and gone without a trace.
//!
//! Owns the folder with its data and sockets, the process, and the reaper that ends both if we cannot. Durability is
//! off (`fsync`, `full_page_writes`): the data does not outlive the process. The server listens on loopback and on a
//! Unix socket in its folder, never elsewhere.

mod standby;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{OpenOptionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use weir_pgclient::{ConnectParams, Connection};

use crate::account::{self, Account};
use crate::process::{self, Entry, Signal, send_signal};
use crate::{Error, Programs, Reaper, TempFolder};

/// How long a server may take to begin serving; a slow disk and a busy machine included.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a fast shutdown may take before a harder one.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a port that another process snatched is replaced by another.
const PORT_ATTEMPTS: u32 = 5;

/// What PostgreSQL asks of those who connect; the superuser needs no password on the Unix socket in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Auth {
    /// Nothing.
    #[default]
    Trust,
    /// The password itself (`password` in pg_hba.conf).
    Cleartext,
    /// `md5`, with passwords stored so.
    Md5,
    /// `scram-sha-256`, with passwords stored so.
    ScramSha256,
}

impl Auth {
    /// The method's name in pg_hba.conf.
    fn method(self) -> &'static str {
        match self {
            Auth::Trust => "trust",
            Auth::Cleartext => "password",
            Auth::Md5 => "md5",
            Auth::ScramSha256 => "scram-sha-256",
        }
    }

    /// How new passwords are stored.
    fn password_encryption(self) -> &'static str {
        if self == Auth::Md5 { "md5" } else { "scram-sha-256" }
    }
}

/// What kind of server to start.
#[derive(Clone, Debug)]
pub struct Options {
    /// `max_connections`; three of them are kept for the superuser.
    pub max_connections: u32,
    /// More settings for postgresql.conf, names and values; a value is quoted as needed.
    pub settings: Vec<(String, String)>,
    /// How clients authenticate.
    pub auth: Auth,
    /// Lines of pg_hba.conf that come before ours.
    pub hba: Vec<String>,
    /// The superuser's name.
    pub superuser: String,
    /// The superuser's password; matters over TCP where [`Options::auth`] is not trust.
    pub password: String,
    /// The port, or `None` for any free one.
    pub port: Option<u16>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            max_connections: 100,
            settings: Vec::new(),
            auth: Auth::Trust,
            hba: Vec::new(),
            superuser: "postgres".to_owned(),
            password: "postgres".to_owned(),
            port: None,
        }
    }
}

/// A running temporary server; stopped and removed when dropped.
#[derive(Debug)]
pub struct Server {
    programs: Programs,
    options: Options,
    account: Option<Account>,
    port: u16,
    child: Mutex<Option<Child>>,
    // Dropped in this order: the folder is removed, and only then is the reaper sent home.
    folder: TempFolder,
    reaper: Reaper,
}

impl Server {
    /// Finds PostgreSQL (see [`crate::find`]) and starts a server.
    pub fn start(options: Options) -> Result<Self, Error> {
        Self::start_with(crate::find()?, options)
    }

    /// Starts a server with these programs. Errors carry the last lines of the server's own log.
    pub fn start_with(programs: Programs, options: Options) -> Result<Self, Error> {
        let account = account::to_drop_to()?;
        account::check(account.as_ref())?;
        let folder = TempFolder::owned_by(account.as_ref())?;
        let reaper = Reaper::of(folder.path())?;
        let child = Mutex::new(None);
        let mut server = Server { programs, options, account, port: 0, child, folder, reaper };
        server.init()?;
        server.begin()?;
        Ok(server)
    }

    /// The TCP port on 127.0.0.1, and the number in the socket's name.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The folder with the Unix socket; libpq takes it as `host`.
    pub fn socket_dir(&self) -> &Path {
        self.folder.path()
    }

    /// The superuser's name.
    pub fn superuser(&self) -> &str {
        &self.options.superuser
    }

    /// The programs that the server runs with.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// The operating-system user that the server runs as, where we are root.
    pub fn runs_as(&self) -> Option<&str> {
        self.account.as_ref().map(|account| account.name.as_str())
    }

    /// The reaper, which also ends processes that are added to it.
    pub fn reaper(&self) -> &Reaper {
        &self.reaper
    }

    /// The postmaster's process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child().as_ref().map(Child::id)
    }

    /// All processes of the server, the postmaster and its helpers included.
    pub fn processes(&self) -> usize {
        self.pid().map_or(0, |pid| 1 + process::children(pid).len())
    }

    /// The processes that serve clients, one each.
    pub fn backends(&self) -> usize {
        self.backend_pids().len()
    }

    /// The ids of the processes that serve clients.
    pub fn backend_pids(&self) -> Vec<u32> {
        let children = self.pid().map(process::children).unwrap_or_default();
        children.iter().filter(|entry| serves_client(entry)).map(|entry| entry.pid).collect()
    }

    /// What the server has logged so far.
    pub fn log(&self) -> String {
        fs::read(self.log_path()).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// How to reach the server over TCP as this user; the password is empty.
    pub fn params(&self, user: &str, database: &str) -> ConnectParams {
        ConnectParams::tcp(([127, 0, 0, 1], self.port).into(), user, database)
    }

    /// A connection of the superuser's over the Unix socket.
    pub fn superuser_connection(&self, database: &str) -> Result<Connection, weir_pgclient::Error> {
        Connection::connect(&ConnectParams::unix(self.socket_dir(), self.port, self.superuser(), database))
    }

    /// Runs statements as the superuser, in this database.
    pub fn execute(&self, database: &str, sql: &str) -> Result<(), weir_pgclient::Error> {
        self.superuser_connection(database)?.query(sql).map(drop)
    }

    /// Stops the server in order (fast shutdown) and starts it again, on the same port with the same data.
    pub fn restart(&self) -> Result<(), Error> {
        self.shutdown();
        self.start_again()
    }

    /// Stops the server in order: sessions are ended, data is written. [`Server::start_again`] starts it again.
    pub fn shutdown(&self) {
        self.end(&[(Signal::SIGINT, STOP_TIMEOUT), (Signal::SIGQUIT, STOP_TIMEOUT)]);
    }

    /// Has the server let nobody in any more and end when its last session has (smart shutdown). To be followed by
    /// [`Server::shutdown`].
    pub fn begin_shutdown(&self) {
        self.pid().into_iter().for_each(|pid| send_signal(pid, Signal::SIGTERM));
    }

    /// Starts the server again after [`Server::shutdown`] or [`Server::kill9`].
    pub fn start_again(&self) -> Result<(), Error> {
        self.launch()
    }

    /// Kills all processes of the server, as a crashed machine would: no connection is closed in order.
    pub fn kill9(&self) {
        let children = self.pid().map(process::children).unwrap_or_default();
        self.end(&[]);
        children.iter().for_each(|entry| send_signal(entry.pid, Signal::SIGKILL));
        let end = Instant::now() + STOP_TIMEOUT;
        while children.iter().any(|entry| process::alive(entry.pid)) && Instant::now() < end {
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Freezes all processes of the server (SIGSTOP): connections stay open, and nothing answers.
    pub fn sigstop(&self) {
        self.signal_all(Signal::SIGSTOP);
    }

    /// Freezes the postmaster alone: sessions go on, new connections are accepted by the kernel, and no one answers them.
    /// [`Server::sigcont`] ends that.
    pub fn sigstop_postmaster(&self) {
        self.pid().into_iter().for_each(|pid| send_signal(pid, Signal::SIGSTOP));
    }

    /// Lets the server's processes continue after [`Server::sigstop`].
    pub fn sigcont(&self) {
        self.signal_all(Signal::SIGCONT);
    }

    /// Stops the server in order and removes everything; dropping it does the same in haste.
    pub fn stop(self) {
        self.shutdown();
    }

    fn signal_all(&self, signal: Signal) {
        let Some(pid) = self.pid() else { return };
        // The postmaster first, so that it starts no child between the two.
        send_signal(pid, signal);
        process::children(pid).iter().for_each(|entry| send_signal(entry.pid, signal));
    }

    /// Sends signals of growing harshness, each with the time it is given to work; SIGKILL comes last.
    fn end(&self, steps: &[(Signal, Duration)]) {
        let Some(mut child) = self.child().take() else { return };
        for (signal, timeout) in steps {
            send_signal(child.id(), *signal);
            send_signal(child.id(), Signal::SIGCONT);
            if process::wait(&mut child, *timeout).is_some() {
                break;
            }
        }
        let pid = child.id();
        // Harmless for a child that has been waited for: std knows, and sends nothing.
        let _ = child.kill();
        let _ = child.wait();
        self.reaper.forget(pid);
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// A command that runs as the right user, speaks plain English, and knows nothing of the caller's PG… variables.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"PG")) {
            command.env_remove(name);
        }
        command.env("LC_ALL", "C").current_dir(self.folder.path()).stdin(Stdio::null()).process_group(0);
        account::run_as(&mut command, self.account.as_ref());
        command
    }

    /// initdb, and our part of the configuration.
    fn init(&self) -> Result<(), Error> {
        let password_file = self.folder.path().join("password");
        self.write(&password_file, &format!("{}\n", self.options.password))?;
        let child = self
            .command(&self.programs.initdb())
            .args(["--no-locale", "--encoding=UTF8", "--no-sync", "--username", &self.options.superuser])
            .args(["--auth", self.options.auth.method(), "--pwfile"])
            .arg(&password_file)
            .arg("--pgdata")
            .arg(self.data())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| Error::io(format!("run {}", self.programs.initdb().display()), &e))?;
        let pid = child.id();
        self.reaper.watch(pid);
        let output = child.wait_with_output().map_err(|e| Error::io("wait for initdb", &e))?;
        self.reaper.forget(pid);
        let _ = fs::remove_file(&password_file);
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            return Err(Error::new(format!("initdb failed ({}):\n{}", output.status, last_lines(&stderr, 8))));
        }
        self.write(&self.data().join("pg_hba.conf"), &hba(&self.options))
    }

    /// Picks a port and starts; takes another port if that one was taken meanwhile.
    fn begin(&mut self) -> Result<(), Error> {
        for attempt in 1.. {
            self.port = match self.options.port {
                Some(port) => port,
                None => free_port().map_err(|e| Error::io("find a free port on 127.0.0.1", &e))?,
            };
            self.configure()?;
            match self.launch() {
                Err(_) if self.lost_port() && self.options.port.is_none() && attempt < PORT_ATTEMPTS => {
                    let _ = fs::remove_file(self.log_path());
                }
                outcome => return outcome,
            }
        }
        unreachable!("the last attempt returns")
    }

    fn lost_port(&self) -> bool {
        self.log().contains("Address already in use")
    }

    /// Writes our settings into a file of their own, which postgresql.conf's last line includes.
    fn configure(&self) -> Result<(), Error> {
        let socket_dir = self.folder.path().display().to_string();
        self.write(&self.data().join("weir.conf"), &settings(&self.options, self.port, &socket_dir))?;
        let main = self.data().join("postgresql.conf");
        let text = fs::read_to_string(&main).map_err(|e| Error::io(format!("read {}", main.display()), &e))?;
        if text.ends_with(INCLUDE) {
            return Ok(());
        }
        let mut file = OpenOptions::new()
            .append(true)
            .open(&main)
            .map_err(|e| Error::io(format!("open {}", main.display()), &e))?;
        file.write_all(INCLUDE.as_bytes()).map_err(|e| Error::io(format!("write {}", main.display()), &e))
    }

    /// Starts the postmaster and waits until it accepts connections.
    fn launch(&self) -> Result<(), Error> {
        if self.pid().is_some() {
            return Ok(());
        }
        let log = File::options().create(true).append(true).open(self.log_path());
        let log = log.map_err(|e| Error::io(format!("open {}", self.log_path().display()), &e))?;
        let errors = log.try_clone().map_err(|e| Error::io("duplicate a descriptor", &e))?;
        let child = self
            .command(&self.programs.postgres())
            .arg("-D")
            .arg(self.data())
            .stdout(log)
            .stderr(errors)
            .spawn()
            .map_err(|e| Error::io(format!("run {}", self.programs.postgres().display()), &e))?;
        self.reaper.watch(child.id());
        *self.child() = Some(child);
        self.await_ready()
    }

    /// The eighth line of postmaster.pid turns `ready` when connections are accepted (PostgreSQL 10 and later).
    fn await_ready(&self) -> Result<(), Error> {
        let end = Instant::now() + START_TIMEOUT;
        let mine = self.pid().map(|pid| pid.to_string());
        while Instant::now() < end {
            let status = fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
            let ready = status.lines().nth(7).is_some_and(|line| line.trim() == "ready");
            if ready && status.lines().next().map(str::to_owned) == mine {
                return Ok(());
            }
            if self.exited() {
                self.end(&[]);
                return Err(Error::new(format!("PostgreSQL did not start:\n{}", last_lines(&self.log(), 8))));
            }
            thread::sleep(Duration::from_millis(10));
        }
        self.end(&[]);
        let secs = START_TIMEOUT.as_secs();
        Err(Error::new(format!("PostgreSQL was not ready after {secs} s:\n{}", last_lines(&self.log(), 8))))
    }

    fn exited(&self) -> bool {
        self.child().as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(Some(_))))
    }

    /// Writes a file that belongs to the server's user and that no other user may read.
    fn write(&self, path: &Path, text: &str) -> Result<(), Error> {
        let write = || -> io::Result<()> {
            let mut file = File::options().create(true).write(true).truncate(true).mode(0o600).open(path)?;
            file.write_all(text.as_bytes())?;
            match &self.account {
                Some(account) => chown(path, Some(account.uid), Some(account.gid)),
                None => Ok(()),
            }
        };
        write().map_err(|e| Error::io(format!("write {}", path.display()), &e))
    }

    /// A postmaster that was killed leaves a small System V segment, named in its pid file: "key id" on the seventh
    /// line.
    fn remove_shared_memory(&self) {
        let Ok(status) = fs::read_to_string(self.data().join("postmaster.pid")) else { return };
        let id = status.lines().nth(6).and_then(|line| line.split_whitespace().nth(1));
        if let Some(id) = id.filter(|id| id.bytes().all(|b| b.is_ascii_digit())) {
            let _ = Command::new("ipcrm").args(["-m", id]).stdout(Stdio::null()).stderr(Stdio::null()).status();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end(&[(Signal::SIGQUIT, STOP_TIMEOUT)]);
        self.remove_shared_memory();
    }
}

const INCLUDE: &str = "\ninclude 'weir.conf'\n";

/// Titles of PostgreSQL's own helpers, after `postgres: `; what else has such a title serves a client.
const HELPERS: [&str; 17] = [
    "archiver",
    "autovacuum ",
    "background w",
    "bgworker",
    "checkpointer",
    "io worker",
    "logger",
    "logical replication",
    "parallel worker",
    "slotsync",
    "startup",
    "stats collector",
    "walreceiver",
    "walsender",
    "walsummarizer",
    "walwriter",
    "wal ",
];

fn serves_client(entry: &Entry) -> bool {
    let role = entry.title.strip_prefix("postgres: ");
    role.is_some_and(|role| !HELPERS.iter().any(|helper| role.starts_with(helper)))
}

/// A TCP port on 127.0.0.1 that is free at this moment. It is none that the kernel gives to outgoing connections, which
/// could take it before its server does, and no later call of this process returns it soon again.
pub fn free_port() -> io::Result<u16> {
    const FIRST: u32 = 12_000;
    const PORTS: u32 = 20_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Processes that start at once begin far apart.
    let start = std::process::id().wrapping_mul(2_654_435_761) >> 8;
    let mut last = None;
    for _ in 0..PORTS {
        let port = FIRST + start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % PORTS;
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port as u16)) {
            Ok(_) => return Ok(port as u16),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| io::Error::other("no free port")))
}

fn settings(options: &Options, port: u16, socket_dir: &str) -> String {
    let ours = [
        ("listen_addresses", "127.0.0.1".to_owned()),
        ("port", port.to_string()),
        ("unix_socket_directories", socket_dir.to_owned()),
        ("max_connections", options.max_connections.to_string()),
        ("password_encryption", options.auth.password_encryption().to_owned()),
        ("fsync", "off".to_owned()),
        ("synchronous_commit", "off".to_owned()),
        ("full_page_writes", "off".to_owned()),
        // Shared memory in the data folder goes with it, also after a kill.
        ("dynamic_shared_memory_type", "mmap".to_owned()),
        ("log_timezone", "UTC".to_owned()),
        ("timezone", "UTC".to_owned()),
    ];
    let theirs = options.settings.iter().map(|(name, value)| (name.as_str(), value.clone()));
    ours.into_iter().chain(theirs).map(|(name, value)| format!("{name} = {}\n", quoted(&value))).collect()
}

/// A value as postgresql.conf wants it: in single quotes, which are doubled within, as are backslashes.
fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\\', "\\\\").replace('\'', "''"))
}

fn hba(options: &Options) -> String {
    let method = options.auth.method();
    let mut text: String = options.hba.iter().map(|line| format!("{line}\n")).collect();
    text.push_str(&format!("local all \"{}\" trust\n", options.superuser));
    text.push_str(&format!("local all all {method}\n"));
    text.push_str(&format!("host all all 127.0.0.1/32 {method}\n"));
    text.push_str(&format!("local replication \"{}\" trust\n", options.superuser));
    text
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(title: &str) -> Entry {
        Entry { pid: 1, title: title.to_owned() }
    }

    #[test]
    fn helpers_are_not_counted_as_backends() {
        assert!(serves_client(&entry("postgres: app demo 127.0.0.1(4711) idle")));
        assert!(serves_client(&entry("postgres: postgres postgres [local] SELECT")));
        assert!(!serves_client(&entry("postgres: checkpointer")));
        assert!(!serves_client(&entry("postgres: autovacuum worker template1")));
        assert!(!serves_client(&entry("/usr/lib/postgresql/15/bin/postgres -D /tmp/x/data")));
    }

    #[test]
    fn the_callers_settings_come_after_ours_and_are_quoted() {
        let options =
            Options { settings: vec![("application_name".to_owned(), "it's".to_owned())], ..Options::default() };
        let text = settings(&options, 5544, "/tmp/weir-1");
        assert!(text.contains("port = '5544'\n"));
        assert!(text.ends_with("application_name = 'it''s'\n"));
    }

    #[test]
    fn only_the_superuser_on_the_socket_needs_no_password() {
        let text = hba(&Options { auth: Auth::ScramSha256, ..Options::default() });
        assert!(text.starts_with("local all \"postgres\" trust\nlocal all all scram-sha-256\n"));
    }

    #[test]
    fn the_end_of_a_log_is_shown() {
        assert_eq!(last_lines("a\nb\nc", 2), "b\nc");
        assert_eq!(last_lines("a", 8), "a");
    }
}
