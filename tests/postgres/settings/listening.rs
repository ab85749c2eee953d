//! Listening addresses and sockets, and the user of the process.

use std::fs;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use weir_pgclient::{ConnectParams, Connection};
use weir_pglocal::Signal;
use weir_tests::{Ini, Mode, Setup, Site, eventually, users, weir_binary};

#[test]
fn clients_connect_to_listen_addr() {
    let site = Site::ini(&Ini::new().set("listen_addr", "127.0.0.1, 127.0.0.3"));
    let at = |host: &str| {
        Connection::connect(&ConnectParams::new(host, site.weir().port(), "app", "app").password(users::APP.password))
    };
    assert_eq!(at("127.0.0.1").unwrap().value("SELECT 1").unwrap().as_deref(), Some("1"));
    assert_eq!(at("127.0.0.3").unwrap().value("SELECT 1").unwrap().as_deref(), Some("1"));
    assert!(at("127.0.0.2").is_err(), "nothing listens there");
}

#[test]
fn the_unix_socket_has_its_folder_its_mode_and_its_group() {
    // Only root may give a file to any group; other users only to their own groups.
    let groups = fs::read_to_string("/etc/group").unwrap();
    let gid_of = |line: &str| line.split(':').nth(2).and_then(|gid| gid.parse::<u32>().ok());
    let own = fs::metadata("/proc/self").unwrap().gid();
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let group = groups.lines().find(|line| gid_of(line).is_some_and(|gid| if is_root { gid > 0 } else { gid == own }));
    let group = group.expect("there is a group").to_owned();
    let name = group.split(':').next().unwrap();
    let site = Site::ini(&Ini::new().set("unix_socket_mode", "0710").set("unix_socket_group", name));
    let socket = site.weir().folder().join(format!(".s.PGSQL.{}", site.weir().port()));
    let meta = fs::metadata(&socket).unwrap();
    assert!(meta.file_type().is_socket());
    assert_eq!(meta.permissions().mode() & 0o777, 0o710);
    assert_eq!(Some(meta.gid()), gid_of(&group));
    let params =
        ConnectParams::unix(site.weir().folder(), site.weir().port(), "app", "app").password(users::APP.password);
    assert_eq!(Connection::connect(&params).unwrap().value("SELECT 1").unwrap().as_deref(), Some("1"));
}

/// How many connections the kernel accepts for a stopped Weir.
fn taken_while_frozen(ini: &Ini, words: &[u8]) -> usize {
    let site = Site::ini(ini);
    let address = SocketAddr::from(([127, 0, 0, 1], site.weir().port()));
    site.weir().signal(Signal::SIGSTOP);
    eventually("it is stopped", || if site.weir().is_stopped() { Ok(()) } else { Err("it runs") });
    let mut taken = Vec::new();
    while taken.len() < 60 {
        let Ok(mut socket) = TcpStream::connect_timeout(&address, Duration::from_millis(700)) else { break };
        let _ = std::io::Write::write_all(&mut socket, words);
        taken.push(socket);
    }
    site.weir().signal(Signal::SIGCONT);
    taken.len()
}

#[test]
fn listen_backlog_bounds_connections_that_are_not_accepted_yet() {
    let few = taken_while_frozen(&Ini::new().set("listen_backlog", 4).set("tcp_defer_accept", 0), b"");
    assert!(few <= 10, "{few} with a backlog of 4");
    let many = taken_while_frozen(&Ini::new().set("listen_backlog", 100).set("tcp_defer_accept", 0), b"");
    assert!(many >= 50, "{many} with a backlog of 100");
}

#[test]
fn so_reuseport_lets_two_share_a_port() {
    for shared in [false, true] {
        let site = Site::ini(&Ini::new().set("so_reuseport", u8::from(shared)));
        let first = fs::read_to_string(site.weir().folder().join("pgbouncer.ini")).unwrap();
        let second = site.weir().folder().join("second.ini");
        fs::write(&second, first.replace("[databases]", "unix_socket_dir =\n[databases]")).unwrap();
        let mut child = Command::new(weir_binary())
            .arg("serve")
            .arg(&second)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        thread::sleep(Duration::from_millis(1500));
        let ended = child.try_wait().unwrap();
        let _ = child.kill();
        let mut printed = String::new();
        child.stderr.take().unwrap().read_to_string(&mut printed).unwrap();
        let _ = child.wait();
        assert_eq!(ended.is_none(), shared, "{printed}");
        assert!(shared || printed.contains("in use"), "{printed}");
    }
}

#[test]
fn the_process_becomes_its_user() {
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let own = fs::metadata("/proc/self").unwrap().uid().to_string();
    let wanted = |line: &&str| {
        let mut parts = line.split(':');
        let name = parts.next();
        if is_root { name == Some("nobody") } else { parts.nth(1) == Some(own.as_str()) }
    };
    let line = users.lines().find(wanted).expect("there is a user");
    let (name, uid) = (line.split(':').next().unwrap(), line.split(':').nth(2).unwrap());
    let site = Site::ini(&Ini::new().set("user", name).set("unix_socket_dir", ""));
    let status = fs::read_to_string(format!("/proc/{}/status", site.weir().pid())).unwrap();
    let uids = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap();
    assert!(uids.split_whitespace().all(|one| one == uid), "{uids} for {name}");
    assert_eq!(site.connect().value("SELECT 1").unwrap().as_deref(), Some("1"));
}

/// The core dump settings of a process: the limit, and which parts of the memory may be dumped.
fn after_a_crash(site: &Site) -> (String, String) {
    let read = |name: &str| fs::read_to_string(format!("/proc/{}/{name}", site.weir().pid())).unwrap_or_default();
    let limits = read("limits");
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max core file size")).unwrap_or_default();
    (limit.split_whitespace().take(2).collect::<Vec<_>>().join(" "), read("coredump_filter").trim().to_owned())
}

#[test]
fn a_crash_dumps_no_memory_unless_configured() {
    let own = fs::read_to_string("/proc/self/coredump_filter").unwrap();
    let none = ("0 0".to_owned(), "00000000".to_owned());
    let strict = Setup::new(Mode::Transaction);
    assert_eq!(after_a_crash(&Site::with(strict.clone(), Mode::Transaction)), none);
    let lax = Site::with(strict.more("[process]\ncore_dumps = true"), Mode::Transaction);
    assert_eq!(after_a_crash(&lax).1, own.trim());
    // As PgBouncer, unless the file says otherwise.
    assert_eq!(after_a_crash(&Site::ini(&Ini::new())).1, own.trim());
    assert_eq!(after_a_crash(&Site::ini(&Ini::new().set("core_dumps", "0"))), none);
    // The process can be inspected in any case.
    assert!(lax.weir().descriptors() > 0);
}

#[test]
fn world_readable_secrets_and_root_are_warned_of_in_the_log() {
    let site = Site::with(Setup::new(Mode::Transaction), Mode::Transaction);
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    eventually("the warning", || {
        let log = site.weir().log();
        if log.contains("it serves as root") == is_root { Ok(()) } else { Err(log) }
    });
    let count = |site: &Site| site.weir().log().matches("by everybody on this machine").count();
    let reload = |mode: u32| {
        for name in ["weir.toml", "userlist.txt"] {
            let path = site.weir().folder().join(name);
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        site.weir().command("RELOAD").unwrap();
    };
    reload(0o600);
    let before = count(&site);
    reload(0o644);
    eventually("both files are named", || match count(&site) - before {
        2 => Ok(()),
        other => Err(other),
    });
    assert!(site.weir().log().contains("userlist.txt holds secrets of users, and can be read by everybody"));
    assert!(!site.weir().log().contains(users::APP.password), "no secret is in the log");
}

/// How long it takes until a client that sends nothing is accepted.
fn silent_client_accepted_after(site: &Site) -> Duration {
    let began = Instant::now();
    let socket = TcpStream::connect(("127.0.0.1", site.weir().port())).unwrap();
    let wanted = format!("@{} got connection", socket.local_addr().unwrap());
    eventually("it is accepted", || {
        let log = site.weir().log();
        if log.contains(&wanted) { Ok(()) } else { Err(log) }
    });
    began.elapsed()
}

#[test]
fn a_silent_client_is_accepted_a_second_later_where_accepting_is_deferred() {
    let second = Duration::from_millis(900);
    for io in ["epoll", "auto"] {
        let site = Site::ini(&Ini::new().set("verbose", 1).set("io", io).set("listen_addr", "127.0.0.1"));
        let mut console = site.weir().console();
        assert_eq!(shown_setting(&mut console, "tcp_defer_accept"), "1");
        assert!(silent_client_accepted_after(&site) >= second);
        // A client that speaks does not wait.
        let began = Instant::now();
        site.connect().query("SELECT 1").unwrap();
        assert!(began.elapsed() < second);
        console.query("SET tcp_defer_accept = 0").unwrap();
        assert!(silent_client_accepted_after(&site) < second);
        console.query("SET tcp_defer_accept = 1").unwrap();
        assert!(silent_client_accepted_after(&site) >= second);
    }
}

fn shown_setting(console: &mut Connection, key: &str) -> String {
    let rows = console.query("SHOW CONFIG").unwrap().rows;
    let row = rows.into_iter().find(|row| row[0].as_deref() == Some(key)).expect("it is shown");
    row[1].clone().expect("it has a value")
}
