//! Which clients may connect from where, and how many: HBA rules, PROXY headers, limits of clients, failed logins.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use weir_pgclient::{ConnectParams, Connection, Error};
use weir_pgwire::put_front;
use weir_tests::{Mode, Setup, Site, User, eventually, users};

/// A site with this HBA file and these ident maps.
fn ruled(rules: &str, maps: &str, setup: Setup) -> Site {
    let setup = setup.auth("hba").auth_line("hba_file = \"hba.conf\"").auth_line("ident_file = \"ident.conf\"");
    Site::with(setup.file("hba.conf", rules).file("ident.conf", maps), Mode::Transaction)
}

#[track_caller]
fn refused(answer: Result<Connection, Error>) -> Error {
    match answer {
        Ok(_) => panic!("the client is refused"),
        Err(error) => error,
    }
}

#[track_caller]
fn refused_with(answer: Result<Connection, Error>, text: &str, sqlstate: &str) {
    let error = refused(answer);
    assert!(error.to_string().contains(text), "{error}");
    assert_eq!(error.sqlstate(), Some(sqlstate), "{error}");
}

/// Waits until the log contains this.
#[track_caller]
fn logged(site: &Site, text: &str) {
    eventually(text, || {
        let log = site.weir().log();
        if log.contains(text) { Ok(()) } else { Err(log) }
    });
}

/// How a user connects by the Unix socket, whose folder is Weir's own.
fn local(site: &Site, user: User) -> ConnectParams {
    ConnectParams::unix(site.weir().folder(), site.weir().port(), user.name, "app").password(user.password)
}

#[test]
fn rules_decide_by_connection_type_database_and_user() {
    let rules = format!(
        "host all {admin} 127.0.0.1/32 md5\nhost app {app} 127.0.0.1/32 scram-sha-256\n\
         host app {other} all reject\nlocal app {other} trust\n",
        admin = weir_tests::ADMIN.0,
        app = users::APP.name,
        other = users::OTHER.name,
    );
    let setup = Setup::new(Mode::Transaction).listen("unix_socket_dir = \"{folder}\"");
    let site = ruled(&rules, "", setup);
    assert_eq!(site.connect().value("SELECT 1").unwrap().as_deref(), Some("1"));
    refused_with(Connection::connect(&site.params().password("wrong")), "SASL authentication failed", "28P01");
    refused_with(Connection::connect(&site.params_of(users::OTHER)), "login rejected", "28000");
    let mut trusted = Connection::connect(&local(&site, users::OTHER).password("")).unwrap();
    assert_eq!(trusted.value("SELECT 1").unwrap().as_deref(), Some("1"));
    refused_with(Connection::connect(&local(&site, users::APP)), "no authentication method is found", "28000");
    logged(&site, "(line 3 of the HBA file)");
}

#[test]
fn a_peer_logs_in_as_its_ident_map_says() {
    let rules = format!(
        "host all {admin} all md5\nlocal app {app} peer map=here\nlocal app {other} peer\n",
        admin = weir_tests::ADMIN.0,
        app = users::APP.name,
        other = users::OTHER.name,
    );
    let me = std::process::Command::new("id").arg("-un").output().expect("id runs");
    let me = String::from_utf8(me.stdout).unwrap();
    let maps = format!("here \"{}\" {}\n", me.trim(), users::APP.name);
    let site = ruled(&rules, &maps, Setup::new(Mode::Transaction).listen("unix_socket_dir = \"{folder}\""));
    let mut client = Connection::connect(&local(&site, users::APP).password("")).unwrap();
    assert_eq!(client.value("SELECT 1").unwrap().as_deref(), Some("1"));
    refused_with(Connection::connect(&local(&site, users::OTHER)), "unix socket login rejected", "28000");
}

#[test]
fn the_owner_of_the_process_administers_it_by_the_unix_socket_also_while_a_shutdown_waits() {
    let site = Site::with(Setup::new(Mode::Transaction).listen("unix_socket_dir = \"{folder}\""), Mode::Transaction);
    let weir = site.weir();
    let owner = ConnectParams::unix(weir.folder(), weir.port(), "pgbouncer", "pgbouncer");
    let mut console = Connection::connect(&owner).unwrap();
    assert!(!console.query("SHOW POOLS").unwrap().columns.is_empty());
    let client = site.connect();
    console.query("SHUTDOWN WAIT_FOR_CLIENTS").unwrap();
    eventually("TCP refuses", || {
        Connection::connect(&site.params()).err().map_or(Err("the client is accepted"), |_| Ok(()))
    });
    let mut again = Connection::connect(&owner).unwrap();
    again.query("SHOW CLIENTS").unwrap();
    refused_with(Connection::connect(&local(&site, users::APP)), "pooler is shutting down", "57P01");
    drop(client);
    assert!(weir.wait_for_exit().success());
}

/// Sends a header and a startup packet, and returns the first bytes of the answer; empty if the connection is closed.
fn through_balancer(site: &Site, header: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", site.weir().port())).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut bytes = header.to_vec();
    put_front::startup(&mut bytes, &[("user", users::APP.name), ("database", "app")], 0);
    stream.write_all(&bytes).unwrap();
    let mut answer = vec![0; 512];
    let length = stream.read(&mut answer).unwrap_or(0);
    answer.truncate(length);
    answer
}

#[test]
fn behind_a_balancer_rules_use_the_address_in_the_header() {
    let rules = format!("local all all md5\nhost app {} 192.0.2.7/32 trust\n", users::APP.name);
    let setup = Setup::new(Mode::Transaction).listen("proxy_from = [\"127.0.0.0/8\"]").console_by_socket();
    let site = ruled(&rules, "", setup);
    let welcome = through_balancer(&site, b"PROXY TCP4 192.0.2.7 127.0.0.1 5000 6432\r\n");
    assert!(welcome.starts_with(b"R\0\0\0\x08\0\0\0\0"), "{welcome:?}");
    let mut second = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
    second.extend_from_slice(&[192, 0, 2, 7, 127, 0, 0, 1, 0x13, 0x88, 0x19, 0x20]);
    assert!(through_balancer(&site, &second).starts_with(b"R\0\0\0\x08\0\0\0\0"));
    let rejected = through_balancer(&site, b"PROXY TCP4 192.0.2.8 127.0.0.1 5000 6432\r\n");
    assert!(String::from_utf8_lossy(&rejected).contains("no authentication method is found"));
    assert_eq!(through_balancer(&site, b""), b"", "a client without a header is closed without an error");
    logged(&site, "192.0.2.8:5000");
}

/// Checks a limit, on one worker and on three.
fn limit(change: impl Fn(Setup) -> Setup, text: &str) {
    for workers in [1, 3] {
        let site = Site::with(change(Setup::new(Mode::Transaction).workers(workers)), Mode::Transaction);
        let first = site.connect();
        let second = site.connect();
        refused_with(Connection::connect(&site.params()), text, "53300");
        drop(first);
        let third = eventually("its slot is free again", || Connection::connect(&site.params()));
        refused_with(Connection::connect(&site.params()), text, "53300");
        drop((second, third));
    }
}

#[test]
fn clients_of_a_database_are_limited() {
    limit(
        |setup| setup.pool("max_db_client_connections = 2"),
        "client connections exceeded (max_db_client_connections)",
    );
}

#[test]
fn clients_of_a_user_are_limited_over_all_databases() {
    limit(
        |setup| setup.general("max_user_client_connections = 2"),
        "client connections exceeded (max_user_client_connections)",
    );
}

#[test]
fn clients_of_an_address_are_limited() {
    let site =
        Site::with(Setup::new(Mode::Transaction).workers(3).general("max_address_connections = 3"), Mode::Transaction);
    let clients = [site.connect(), site.connect(), site.connect()];
    refused_with(Connection::connect(&site.params()), "client connections exceeded (max_address_connections)", "53300");
    drop(clients);
    eventually("slots are free again", || Connection::connect(&site.params()));
}

#[test]
fn failed_logins_are_slowed_down_and_good_ones_are_not() {
    failures_are_slowed_down(Setup::new(Mode::Transaction));
}

#[test]
fn failed_logins_are_slowed_down_on_every_worker() {
    failures_are_slowed_down(Setup::new(Mode::Transaction).workers(2).spread("always"));
}

fn failures_are_slowed_down(setup: Setup) {
    let site = Site::with(setup.auth_line("failure_delay = \"200ms\""), Mode::Transaction);
    let begin = Instant::now();
    for _ in 0..3 {
        refused_with(Connection::connect(&site.params().password("wrong")), "SASL authentication failed", "28P01");
    }
    // 200, 400 and 800 ms: a delay may be longer, never shorter.
    assert!(begin.elapsed() >= Duration::from_millis(1_400), "{:?}", begin.elapsed());
    assert_eq!(site.connect().value("SELECT 1").unwrap().as_deref(), Some("1"));
}

#[test]
fn unauthenticated_clients_do_not_learn_which_databases_exist() {
    let site = Site::with(Setup::new(Mode::Transaction), Mode::Transaction);
    let params = |database: &str, password: &str| site.weir().params(users::APP.name, database).password(password);
    refused_with(Connection::connect(&params("nothing", "wrong")), "SASL authentication failed", "28P01");
    let known = params("nothing", users::APP.password);
    refused_with(Connection::connect(&known), "no such database: nothing", "3D000");
}

#[test]
fn servers_see_the_clients_host_if_configured() {
    let setup = Setup::new(Mode::Transaction).general("application_name_add_host = true");
    let site = Site::with(setup.general("login_notify_message = \"mind the gap\""), Mode::Transaction);
    let mut client = Connection::connect(&site.params().option("application_name", "who")).unwrap();
    let name = client.value("SELECT current_setting('application_name')").unwrap().unwrap();
    assert!(name.starts_with("who - 127.0.0.1:"), "{name}");
}
