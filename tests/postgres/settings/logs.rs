//! The contents of the log, and its destination.

use std::fs;
use std::thread;
use std::time::Duration;

use weir_pgclient::{ConnectParams, Connection};
use weir_tests::{ADMIN, Ini, Site, WATCHER, eventually, users};

fn logged(site: &Site, what: &str) -> bool {
    site.weir().log().contains(what)
}

#[track_caller]
fn await_logged(site: &Site, what: &str) {
    eventually(what, || if logged(site, what) { Ok(()) } else { Err(site.weir().log()) });
}

/// A client that connects, gets an error, and disconnects.
fn traffic(site: &Site) {
    site.connect().query("SELECT 1").unwrap();
    let unknown = site.weir().params("app", "nowhere").password(users::APP.password);
    assert!(Connection::connect(&unknown).is_err());
}

#[test]
fn the_log_goes_to_the_file_and_pidfile_names_the_process() {
    let ini = Ini::new().set("logfile", "{folder}/pooler.log").set("pidfile", "{folder}/pooler.pid");
    let site = Site::ini(&ini);
    traffic(&site);
    let file = |name: &str| fs::read_to_string(site.weir().folder().join(name)).unwrap_or_default();
    let wanted = format!("[{}]", site.weir().pid());
    eventually("the file has the log", || {
        let log = file("pooler.log");
        if log.contains(&wanted) && log.contains("login attempt: db=app user=app") { Ok(()) } else { Err(log) }
    });
    assert_eq!(file("pooler.pid").trim(), site.weir().pid().to_string());
    // A file that was moved away is opened again.
    fs::rename(site.weir().folder().join("pooler.log"), site.weir().folder().join("pooler.old")).unwrap();
    site.weir().command("RELOAD").unwrap();
    eventually("a new file", || if file("pooler.log").is_empty() { Err("not yet") } else { Ok(()) });
}

#[test]
fn what_is_logged_is_chosen() {
    let site = Site::ini(&Ini::new());
    traffic(&site);
    for what in
        ["login attempt: db=app user=app", "closing because: client unexpected eof", "no such database: nowhere"]
    {
        await_logged(&site, what);
    }
    let ini = Ini::new().set("log_connections", 0).set("log_disconnections", 0).set("log_pooler_errors", 0);
    let site = Site::ini(&ini);
    traffic(&site);
    // A line that is always logged, after it.
    site.weir().command("RELOAD").unwrap();
    await_logged(&site, "RELOAD");
    for what in ["login attempt", "closing because", "pooler error"] {
        assert!(!logged(&site, what), "{what}: {}", site.weir().log());
    }
}

#[test]
fn statistics_are_logged_each_stats_period() {
    let site = Site::ini(&Ini::transaction(1).set("stats_period", 1));
    for round in 0..3 {
        traffic(&site);
        eventually("another line", || {
            let lines = site.weir().log().matches("stats: ").count();
            if lines > round { Ok(()) } else { Err(lines) }
        });
    }
    let silent = Site::ini(&Ini::transaction(1).set("stats_period", 1).set("log_stats", 0));
    traffic(&silent);
    thread::sleep(Duration::from_millis(2500));
    assert!(!logged(&silent, "stats: "), "{}", silent.weir().log());
}

#[test]
fn verbose_logs_more() {
    let lines = |verbose: u32| {
        let site = Site::ini(&Ini::transaction(1).set("verbose", verbose));
        traffic(&site);
        await_logged(&site, "no such database: nowhere");
        let log = site.weir().log();
        log.lines().filter(|line| line.contains(" DEBUG ") || line.contains(" NOISE ")).count()
    };
    assert_eq!(lines(0), 0);
    assert!(lines(2) > 0);
}

#[test]
fn admin_users_and_stats_users_decide_about_the_console() {
    let ini = Ini::new().set("admin_users", "app, admin").set("stats_users", "other");
    let site = Site::ini(&ini);
    let console =
        |user: &str, password: &str| Connection::connect(&site.weir().params(user, "pgbouncer").password(password));
    for (name, password) in [(users::APP.name, users::APP.password), ADMIN] {
        assert_eq!(console(name, password).unwrap().query("RELOAD").unwrap().tag, "RELOAD");
    }
    let mut watcher = console(users::OTHER.name, users::OTHER.password).unwrap();
    watcher.query("SHOW POOLS").unwrap();
    assert!(watcher.query("RELOAD").is_err());
    let outcome = console(WATCHER.0, WATCHER.1).and_then(|mut console| console.query("SHOW POOLS"));
    assert!(outcome.is_err(), "it is no longer among them");
}

#[test]
fn verbose_steps_are_logged_by_their_level() {
    for (verbose, debug, noise) in [(0, false, false), (1, true, false), (2, true, true), (3, true, true)] {
        let site = Site::ini(&Ini::transaction(1).set("verbose", verbose));
        traffic(&site);
        site.weir().command("RELOAD").unwrap();
        await_logged(&site, "RELOAD");
        let (got, linking) =
            (logged(&site, "DEBUG C-"), logged(&site, " NOISE C-") && logged(&site, "linking client to S-"));
        assert_eq!((got, linking), (debug, noise), "{verbose}: {}", site.weir().log());
    }
}

#[test]
fn a_client_of_the_unix_socket_is_logged_with_its_process_and_the_port() {
    let site = Site::ini(&Ini::new());
    let port = site.weir().port();
    let params = ConnectParams::unix(site.weir().folder(), port, "app", "app").password(users::APP.password);
    Connection::connect(&params).unwrap().query("SELECT 1").unwrap();
    await_logged(&site, &format!("app/app@unix({}):{port} login attempt: db=app user=app", std::process::id()));
}

#[test]
fn the_reason_of_an_end_is_logged_before_the_error() {
    let site = Site::ini(&Ini::new());
    traffic(&site);
    await_logged(&site, "pooler error: no such database: nowhere");
    let log = site.weir().log();
    let at = |what: &str| log.find(what).unwrap_or_else(|| panic!("{what}: {log}"));
    let in_order = [
        "login attempt: db=nowhere user=app tls=no replication=no",
        "login failed: db=nowhere user=app",
        "closing because: no such database: nowhere",
        "pooler error: no such database: nowhere",
    ];
    assert!(in_order.map(at).is_sorted(), "{log}");
}
