//! The life of a server process from outside: PgBouncer's command line, daemon, log, signals, systemd.
//!
//! Needs no database: no test here runs a query.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, getuid};

/// How long any step may take on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The user that root switches to; every system has it.
const ORDINARY_USER: &str = "nobody";

/// A folder with a `pgbouncer.ini`, for one test.
struct Place {
    folder: PathBuf,
    port: u16,
}

impl Place {
    fn new(name: &str, more: &str) -> Place {
        let folder = std::env::temp_dir().join(format!("weir-life-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        let place = Place { port: free_port(), folder };
        fs::write(place.path("userlist.txt"), "\"ann\" \"secret\"\n").unwrap();
        place.configure(more);
        place
    }

    fn configure(&self, more: &str) {
        let (folder, port) = (self.folder.display(), self.port);
        let text = format!(
            "[databases]\napp = host=127.0.0.1 port=1\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_file = {folder}/userlist.txt\nlogfile = {folder}/log\npidfile = {folder}/pid\n{more}"
        );
        fs::write(self.path("pgbouncer.ini"), text).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn ini(&self) -> PathBuf {
        self.path("pgbouncer.ini")
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn log_says(&self, words: &str) {
        eventually(&format!("the log says {words:?}: {}", self.read("log")), || self.read("log").contains(words));
    }

    fn pid(&self) -> Pid {
        eventually("there is a pidfile", || self.read("pid").ends_with('\n'));
        Pid::from_raw(self.read("pid").trim().parse().unwrap())
    }

    /// Starts it in the foreground and waits until it accepts clients.
    fn start(&self, words: &[&str]) -> Running {
        let running = Running(pgbouncer(words).arg(self.ini()).stderr(Stdio::null()).spawn().unwrap());
        self.log_says("process up");
        running
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Ok(pid) = self.read("pid").trim().parse() {
            // The process has usually ended before.
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        fs::remove_dir_all(&self.folder).unwrap();
    }
}

/// A child process that is killed at the end of its test.
struct Running(Child);

impl Running {
    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id() as i32), signal).unwrap();
    }

    fn status(&mut self) -> Option<i32> {
        eventually("it has ended", || self.0.try_wait().unwrap().is_some());
        self.0.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn weir() -> Command {
    Command::new(env!("CARGO_BIN_EXE_weir"))
}

/// `weir pgbouncer`, as an ordinary user if the test runs as root.
fn pgbouncer(words: &[&str]) -> Command {
    let mut command = weir();
    command.arg("pgbouncer").args(words);
    if getuid().is_root() {
        command.args(["-u", ORDINARY_USER]);
    }
    command
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[track_caller]
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < TIMEOUT, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn ended(pid: Pid) -> bool {
    kill(pid, None).is_err() || fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|s| s.contains(") Z "))
}

#[test]
fn a_daemon_leaves_its_number_logs_to_its_file_and_ends_at_term() {
    let place = Place::new("daemon", "");
    let output = pgbouncer(&["-d"]).arg(place.ini()).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let pid = place.pid();
    place.log_says("process up");
    place.log_says(&format!("listening on 127.0.0.1:{}", place.port));
    TcpStream::connect(("127.0.0.1", place.port)).unwrap();
    if getuid().is_root() {
        let owner = fs::metadata(format!("/proc/{pid}")).unwrap().uid();
        assert_eq!(owner, User::from_name(ORDINARY_USER).unwrap().unwrap().uid.as_raw());
    }
    let second = pgbouncer(&["-d"]).arg(place.ini()).output().unwrap();
    assert!(said(&second).contains("pidfile exists, another instance running?"), "{}", said(&second));
    kill(pid, Signal::SIGTERM).unwrap();
    eventually("it has ended", || ended(pid));
    assert!(!place.path("pid").exists());
}

#[test]
fn a_daemon_that_can_not_listen_says_why_in_its_log() {
    let place = Place::new("taken", "");
    let _taken = TcpListener::bind(("127.0.0.1", place.port)).unwrap();
    let output = pgbouncer(&["-d"]).arg(place.ini()).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    place.log_says("the address is in use");
}

#[test]
fn a_file_that_can_not_be_served_is_reported_in_the_log_that_it_names() {
    let place = Place::new("mistake", "auth_type = foo\n");
    for flag in ["-d", "-q", "-v"] {
        let output = pgbouncer(&[flag]).arg(place.ini()).output().unwrap();
        assert_eq!((output.status.code(), said(&output).is_empty()), (Some(1), flag == "-q"), "{}", said(&output));
        let log = place.read("log");
        assert!(log.contains("] FATAL ") && log.contains("auth_type"), "{flag}: {log}");
        fs::remove_file(place.path("log")).unwrap();
    }
}

#[test]
fn a_daemon_whose_log_can_not_be_opened_does_not_start() {
    let place = Place::new("no-log-folder", "logfile = /no/such/folder/log\n");
    let output = pgbouncer(&["-d"]).arg(place.ini()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let why = "can't open the log file: /no/such/folder/log: ";
    assert!(
        said(&output).contains(why) && said(&output).contains("create the folder /no/such/folder"),
        "{}",
        said(&output)
    );
}

#[test]
fn an_address_that_the_machine_does_not_have_is_left_out() {
    // An address for documentation (RFC 5737).
    let place = Place::new("left-out", "listen_addr = 192.0.2.1, 127.0.0.1\n");
    let mut running = place.start(&[]);
    place.log_says("WARNING can't listen on 192.0.2.1:");
    TcpStream::connect(("127.0.0.1", place.port)).unwrap();
    running.signal(Signal::SIGINT);
    assert_eq!(running.status(), Some(0));
}

#[test]
fn a_daemon_warns_in_its_log() {
    let place = Place::new("warns", "auth_file = /no/such/file\n");
    assert!(pgbouncer(&["-d"]).arg(place.ini()).output().unwrap().status.success());
    place.log_says("WARNING ");
    place.log_says("/no/such/file");
}

#[test]
fn an_end_does_not_wait_for_the_log() {
    // The log's thread has a second for its last lines; other programs may take the processor once.
    let quickest = (0..3).map(|i| {
        let place = Place::new(&format!("quick-{i}"), "");
        let mut running = place.start(&[]);
        let since = Instant::now();
        running.signal(Signal::SIGTERM);
        assert_eq!(running.status(), Some(0));
        since.elapsed()
    });
    assert!(quickest.min().unwrap() < Duration::from_millis(900));
}

#[test]
fn a_daemon_needs_a_log_and_a_pidfile() {
    let place = Place::new("needs", "logfile =\n");
    let output = pgbouncer(&["-d"]).arg(place.ini()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("set logfile"), "{}", said(&output));
    place.configure("pidfile =\n");
    let output = pgbouncer(&["-d"]).arg(place.ini()).output().unwrap();
    assert!(said(&output).contains("set pidfile"), "{}", said(&output));
}

#[test]
fn hup_opens_the_log_again_and_a_broken_file_changes_nothing() {
    let place = Place::new("hup", "");
    let mut running = place.start(&["-q"]);
    fs::rename(place.path("log"), place.path("log.1")).unwrap();
    running.signal(Signal::SIGHUP);
    place.log_says("RELOAD");
    place.configure("no_such_setting = 1\n");
    running.signal(Signal::SIGHUP);
    place.log_says("the old configuration stays");
    assert!(place.read("log").contains("no_such_setting"), "{}", place.read("log"));
    TcpStream::connect(("127.0.0.1", place.port)).unwrap();
    running.signal(Signal::SIGQUIT);
    assert_eq!(running.status(), Some(0));
}

#[test]
fn without_clients_int_and_term_end_it_at_once() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let place = Place::new(signal.as_str(), "");
        let mut running = place.start(&["-q"]);
        running.signal(signal);
        assert_eq!(running.status(), Some(0));
        assert!(!place.path("pid").exists());
    }
}

#[test]
fn root_is_told_to_become_somebody() {
    let place = Place::new("root", "");
    if getuid().is_root() {
        let output = weir().arg("pgbouncer").arg(place.ini()).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(said(&output).contains("PgBouncer should not run as root"), "{}", said(&output));
    } else {
        let output = weir().args(["pgbouncer", "-u", "root"]).arg(place.ini()).output().unwrap();
        assert!(said(&output).contains("only root can"), "{}", said(&output));
    }
}

#[test]
fn called_by_its_name_it_is_pgbouncer() {
    let place = Place::new("name", "");
    let link = place.path("pgbouncer");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_weir"), &link).unwrap();
    let version = Command::new(&link).arg("-V").output().unwrap();
    assert!(version.status.success() && said(&version).starts_with("PgBouncer 1.25"), "{}", said(&version));
    let help = Command::new(&link).arg("-h").output().unwrap();
    assert!(help.status.success() && said(&help).contains("--daemon"), "{}", said(&help));
    assert_eq!(Command::new(&link).arg("--nonsense").output().unwrap().status.code(), Some(1));
    assert_eq!(Command::new(&link).output().unwrap().status.code(), Some(1));
}

#[test]
fn lines_are_json_where_the_file_says_so() {
    let place = Place::new("json", "log_format = json\n");
    let _running = place.start(&["-q"]);
    for line in place.read("log").lines() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"));
        // There may be warnings, for example about files that other users can read.
        assert!(value["level"] == "log" || value["level"] == "warning", "{line}");
    }
}

#[test]
fn a_socket_of_systemds_is_used_and_readiness_is_reported() {
    let place = Place::new("systemd", "");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let given = listener.local_addr().unwrap();
    let notify = UnixDatagram::bind(place.path("notify")).unwrap();
    fs::set_permissions(place.path("notify"), fs::Permissions::from_mode(0o777)).unwrap();
    notify.set_read_timeout(Some(TIMEOUT)).unwrap();
    // The shell moves the socket to descriptor 3, the first one of systemd's protocol, and its `$$` is the process's
    // id.
    let script = "exec 3<&0 0</dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_weir"), "pgbouncer", "-q"]);
    if getuid().is_root() {
        command.args(["-u", ORDINARY_USER]);
    }
    command.arg(place.ini()).stdin(OwnedFd::from(listener)).env("NOTIFY_SOCKET", place.path("notify"));
    let mut running = Running(command.spawn().unwrap());
    assert!(received(&notify).contains("READY=1"));
    TcpStream::connect(given).unwrap();
    assert!(TcpStream::connect(("127.0.0.1", place.port)).is_err(), "the configured address is not used beside it");
    running.signal(Signal::SIGHUP);
    assert!(received(&notify).contains("RELOADING=1"));
    assert!(received(&notify).contains("READY=1"));
    running.signal(Signal::SIGTERM);
    assert_eq!(running.status(), Some(0));
    assert!(received(&notify).contains("STOPPING=1"));
}

fn received(notify: &UnixDatagram) -> String {
    let mut buffer = [0; 512];
    let length = notify.recv(&mut buffer).unwrap();
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}

#[test]
fn the_unix_socket_has_the_mode_that_the_file_gives_it() {
    let place = Place::new("mode", "unix_socket_mode = 0700\n");
    place.configure(&format!("unix_socket_dir = {}\nunix_socket_mode = 0700\n", place.folder.display()));
    let _running = place.start(&["-q"]);
    let socket: &Path = &place.path(&format!(".s.PGSQL.{}", place.port));
    assert_eq!(fs::metadata(socket).unwrap().permissions().mode() & 0o777, 0o700);
}
