//! A temporary server and the small client, for real: with this machine's PostgreSQL.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use weir_pgclient::{Connection, Error};
use weir_pglocal::{Auth, Options, Server, Signal, free_port, send_signal};

fn start(auth: Auth) -> Server {
    Server::start(Options { auth, ..Options::default() }).unwrap()
}

fn within(timeout: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + timeout;
    while Instant::now() < end {
        if condition() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    condition()
}

const SOON: Duration = Duration::from_secs(20);

#[test]
fn a_server_serves_and_leaves_nothing_behind() {
    let server = start(Auth::Trust);
    let (folder, pid) = (server.socket_dir().to_owned(), server.pid().unwrap());
    let mut connection = Connection::connect(&server.params("postgres", "postgres")).unwrap();
    assert_eq!(connection.value("select 40 + 2").unwrap().as_deref(), Some("42"));
    assert_eq!(server.backends(), 1);
    assert!(server.processes() > 2);
    let max = connection.value("show max_connections").unwrap();
    assert_eq!(max.as_deref(), Some("100"));
    server.stop();
    assert!(!folder.exists());
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
    assert!(matches!(connection.value("select 1"), Err(Error::Server(_) | Error::Closed | Error::Io(_))));
}

#[test]
fn each_way_to_log_in_takes_the_right_password_and_no_other() {
    for auth in [Auth::Cleartext, Auth::Md5, Auth::ScramSha256] {
        let server = start(auth);
        server.execute("postgres", "create role ann login password 's3crét'").unwrap();
        let params = server.params("ann", "postgres");
        let mut connection = Connection::connect(&params.clone().password("s3crét")).unwrap();
        assert_eq!(connection.value("select current_user").unwrap().as_deref(), Some("ann"), "{auth:?}");
        let refused = Connection::connect(&params.clone().password("wrong")).unwrap_err();
        assert_eq!(refused.sqlstate(), Some("28P01"), "{auth:?}");
        assert!(matches!(Connection::connect(&params), Err(Error::NoPassword(_))), "{auth:?}");
    }
}

#[test]
fn a_full_server_refuses_in_its_own_words() {
    let server = Server::start(Options { max_connections: 8, ..Options::default() }).unwrap();
    server.execute("postgres", "create role ann login").unwrap();
    assert!(within(SOON, || server.backends() == 0));
    let params = server.params("ann", "postgres");
    let (served, refused): (Vec<_>, Vec<_>) =
        (0..12).map(|_| Connection::connect(&params)).partition(std::result::Result::is_ok);
    assert_eq!((served.len(), refused.len()), (5, 7));
    for outcome in refused {
        assert_eq!(outcome.unwrap_err().sqlstate(), Some("53300"));
    }
    assert!(within(SOON, || server.backends() == 5), "those that refused are gone");
}

#[test]
fn answers_errors_notices_and_parameters_are_told_apart() {
    let server = start(Auth::Trust);
    let mut connection =
        Connection::connect(&server.params("postgres", "postgres").option("application_name", "pglocal")).unwrap();
    assert_eq!(connection.parameter("application_name"), Some("pglocal"));
    let answers = connection.query_all("select 1 as a, null as b; select 'x' as c where false; ").unwrap();
    assert_eq!(answers[0].rows, [[Some("1".to_owned()), None]]);
    assert_eq!((answers[0].get(0, "a"), answers[0].get(0, "b")), (Some("1"), None));
    assert_eq!((answers[1].columns[0].as_str(), answers[1].tag.as_str()), ("c", "SELECT 0"));

    let error = connection.query("select 1; select 1 / 0").unwrap_err();
    assert_eq!(error.sqlstate(), Some("22012"));
    assert_eq!(error.to_string(), "ERROR:  division by zero");
    connection.query("do $$ begin raise notice 'hello'; end $$").unwrap();
    assert_eq!(connection.take_notices()[0].message, "hello");
    connection.query("begin").unwrap();
    assert_eq!(connection.status().as_byte(), b'T');

    assert_eq!(connection.copy_in("copy nothing from stdin", b"").unwrap_err().sqlstate(), Some("42P01"));
    connection.query("rollback; create temp table t (a int)").unwrap();
    assert_eq!(connection.copy_in("copy t from stdin", b"1\n2\n").unwrap(), "COPY 2");
    assert_eq!(connection.copy_out("copy t to stdout").unwrap(), b"1\n2\n");
    assert_eq!(connection.query("copy t from stdin").unwrap_err().sqlstate(), Some("57014"));
    connection.query("listen news; notify news, 'flood'").unwrap();
    assert_eq!(connection.take_notifications(), [("news".to_owned(), "flood".to_owned())]);
    connection.close().unwrap();
}

#[test]
fn a_query_can_be_cancelled_and_a_silent_server_is_noticed() {
    let server = start(Auth::Trust);
    let mut connection = Connection::connect(&server.params("postgres", "postgres")).unwrap();
    let canceller = connection.canceller();
    let waiter = std::thread::spawn(move || connection.query("select pg_sleep(60)").unwrap_err());
    let sleeping = "select count(*) from pg_stat_activity where query like '%sleep(60)' and state = 'active'";
    let mut superuser = server.superuser_connection("postgres").unwrap();
    assert!(within(SOON, || superuser.value(sleeping).unwrap().as_deref() == Some("1")));
    canceller.cancel().unwrap();
    assert_eq!(waiter.join().unwrap().sqlstate(), Some("57014"));

    let timeout = Duration::from_millis(200);
    let mut connection = Connection::connect(&server.params("postgres", "postgres").timeout(timeout)).unwrap();
    server.sigstop();
    assert!(matches!(connection.query("select 1"), Err(Error::Timeout)));
    server.sigcont();
    let frame = connection.read_frame(SOON).unwrap();
    assert_eq!(frame.tag, b'T', "the answer comes when the server continues");
}

#[test]
fn a_server_comes_back_on_its_port_after_a_restart_and_after_a_kill() {
    let server = start(Auth::Trust);
    let port = server.port();
    server.execute("postgres", "create table kept (a int); checkpoint").unwrap();
    server.restart().unwrap();
    server.execute("postgres", "insert into kept values (1)").unwrap();
    let mut connection = Connection::connect(&server.params("postgres", "postgres")).unwrap();
    server.kill9();
    assert_eq!(server.pid(), None);
    assert!(connection.query("select 1").is_err());
    server.start_again().unwrap();
    assert_eq!(server.port(), port);
    server.execute("postgres", "select * from kept").unwrap();
    let segment = shared_memory(server.socket_dir());
    server.kill9();
    drop(server);
    assert!(!shared_memory_exists(&segment), "the segment of a killed server is removed too");
}

/// The id of the server's System V segment, from the seventh line of postmaster.pid.
fn shared_memory(folder: &Path) -> String {
    let status = fs::read_to_string(folder.join("data/postmaster.pid")).unwrap();
    status.lines().nth(6).unwrap().split_whitespace().nth(1).unwrap().to_owned()
}

fn shared_memory_exists(id: &str) -> bool {
    let list = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    list.lines().any(|line| line.split_whitespace().nth(1) == Some(id))
}

#[test]
fn a_setting_that_postgresql_refuses_is_explained_with_its_own_words() {
    let settings = vec![("shared_buffers".to_owned(), "plenty".to_owned())];
    let error = Server::start(Options { settings, ..Options::default() }).unwrap_err();
    assert!(error.to_string().contains("shared_buffers"), "{error}");
}

#[test]
fn a_port_of_the_callers_own_is_used_or_refused() {
    let port = free_port().unwrap();
    let server = Server::start(Options { port: Some(port), ..Options::default() }).unwrap();
    assert_eq!(server.port(), port);
    let error = Server::start(Options { port: Some(port), ..Options::default() }).unwrap_err();
    assert!(error.to_string().contains("Address already in use"), "{error}");
}

/// This test runs itself a second time; that process starts a server and is then killed hard.
#[test]
fn nothing_is_left_behind_when_the_parent_is_killed() {
    if let Some(report) = std::env::var_os("WEIR_TEST_REPORT") {
        return be_killed(&PathBuf::from(report));
    }
    let report = std::env::temp_dir().join(format!("weir-killed-{}", std::process::id()));
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "nothing_is_left_behind_when_the_parent_is_killed"])
        .env("WEIR_TEST_REPORT", &report)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    assert!(within(Duration::from_secs(60), || report.exists()));
    let text = fs::read_to_string(&report).unwrap();
    let (pid, folder) = text.split_once(' ').unwrap();
    assert!(Path::new(folder).exists());
    send_signal(child.id(), Signal::SIGKILL);
    child.wait().unwrap();
    assert!(within(SOON, || !Path::new(folder).exists()), "the folder is removed");
    assert!(within(SOON, || !running(pid)), "the server is gone");
    fs::remove_file(&report).unwrap();
}

fn be_killed(report: &Path) {
    let server = start(Auth::Trust);
    let draft = report.with_extension("draft");
    fs::write(&draft, format!("{} {}", server.pid().unwrap(), server.socket_dir().display())).unwrap();
    fs::rename(&draft, report).unwrap();
    std::thread::sleep(Duration::from_secs(120));
}

fn running(pid: &str) -> bool {
    Command::new("sh").args(["-c", "kill -0 $0", pid]).stderr(Stdio::null()).status().unwrap().success()
}
