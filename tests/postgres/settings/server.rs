//! Servers: where they are, how they start, in which order they are used, and how they are closed.

use std::collections::BTreeSet;
use std::net::TcpListener;

use weir_pgclient::Connection;
use weir_tests::{Batch, Ini, Postgres, Site, Tap, eventually, read_until_ready, until_quiet, users};

fn server(client: &mut Connection) -> String {
    client.value("SELECT pg_backend_pid()").unwrap().unwrap()
}

fn enter(site: &Site, database: &str) -> Connection {
    let params = site.weir().params(users::APP.name, database).password(users::APP.password);
    Connection::connect(&params).unwrap_or_else(|error| panic!("{database}: {error}"))
}

#[test]
fn server_round_robin_uses_servers_alternately() {
    let used = |ini: Ini| {
        let site = Site::ini(&ini);
        let mut clients = [site.connect(), site.connect(), site.connect()];
        clients.iter_mut().for_each(|client| drop(client.query("BEGIN").unwrap()));
        clients.iter_mut().for_each(|client| drop(client.query("COMMIT").unwrap()));
        (0..9).map(|_| server(&mut clients[0])).collect::<BTreeSet<_>>().len()
    };
    assert_eq!(used(Ini::transaction(3).set("server_round_robin", 1)), 3);
    assert_eq!(used(Ini::transaction(3)), 1, "else the one used last");
}

#[test]
fn server_fast_close_ends_sessions_whose_server_must_close() {
    for fast in [false, true] {
        let site = Site::ini(&Ini::new().set("server_fast_close", u8::from(fast)));
        let mut client = site.connect();
        let own = server(&mut client);
        client.query("BEGIN").unwrap();
        site.weir().command("RECONNECT app").unwrap();
        assert_eq!(server(&mut client), own, "a transaction is not cut");
        client.query("COMMIT").unwrap();
        if fast {
            assert_eq!(until_quiet(&mut client, std::time::Duration::from_secs(20)).last().unwrap(), "Closed");
        } else {
            assert_eq!(server(&mut client), own);
            drop(client);
        }
        eventually("its server goes", || {
            let left = site.database().backends();
            if left.iter().any(|(pid, _)| pid.to_string() == own) { Err(left) } else { Ok(()) }
        });
    }
}

#[test]
fn server_connect_timeout_ends_a_login_that_hangs() {
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = silent.local_addr().unwrap().port();
    let ini = Ini::transaction(1).set("server_connect_timeout", 1).set("on_server_down", "refuse");
    let site = Site::ini(&ini.database("silent", &format!("host=127.0.0.1 port={port}")));
    let params = site.weir().params(users::APP.name, "silent").password(users::APP.password);
    let error = Connection::connect(&params).expect_err("nothing answers there");
    let reported = error.server().expect("an error message").message.clone();
    assert!(reported.contains("server_connect_timeout"), "{reported}");
}

#[test]
fn a_database_leads_to_the_server_of_its_connection_string() {
    let postgres = Postgres::shared();
    let socket = postgres.server().socket_dir().display().to_string();
    let ini = Ini::transaction(1)
        .forced(users::OTHER)
        .database("maintenance", &format!("host=127.0.0.1 port={} dbname=postgres", postgres.port()))
        .database("local", &format!("host={socket} port={} dbname=postgres", postgres.port()));
    let site = Site::ini(&ini);
    let ask = |database: &str, sql: &str| enter(&site, database).value(sql).unwrap();
    assert_eq!(ask("app", "SELECT current_database()").as_deref(), Some(site.database().name()));
    assert_eq!(ask("app", "SELECT current_user").as_deref(), Some("other"));
    assert_eq!(ask("maintenance", "SELECT current_database()").as_deref(), Some("postgres"));
    assert_eq!(ask("maintenance", "SELECT current_user").as_deref(), Some("app"));
    assert_eq!(ask("maintenance", "SELECT inet_server_port()"), Some(postgres.port().to_string()));
    assert_eq!(ask("local", "SELECT inet_server_addr() IS NULL").as_deref(), Some("t"));
}

#[test]
fn parameters_of_a_database_are_those_of_its_servers() {
    let words = "client_encoding=LATIN1 datestyle='German, DMY' timezone=Asia/Tokyo application_name='by the pooler'";
    let site = Site::ini(&Ini::new().app(words));
    let mut client = site.connect();
    for (name, wanted) in [("client_encoding", "LATIN1"), ("DateStyle", "German, DMY"), ("TimeZone", "Asia/Tokyo")] {
        assert_eq!(client.value(&format!("SHOW {name}")).unwrap().as_deref(), Some(wanted), "{name}");
        assert_eq!(client.parameter(name), Some(wanted), "{name} as reported");
    }
    assert_eq!(client.value("SHOW application_name").unwrap().as_deref(), Some("by the pooler"));
    // A client's own parameter takes precedence.
    let mut client = Connection::connect(&site.params().option("TimeZone", "Europe/Berlin")).unwrap();
    assert_eq!(client.value("SHOW TimeZone").unwrap().as_deref(), Some("Europe/Berlin"));
}

#[test]
fn load_balance_hosts_alternates_or_uses_the_first() {
    let taps = [Tap::before(&Postgres::shared()), Tap::before(&Postgres::shared())];
    let place = |words: &str| {
        format!("host=127.0.0.1,127.0.0.1 port={},{} dbname=postgres {words}", taps[0].port(), taps[1].port())
    };
    let ini = Ini::transaction(4).database("turns", &place("")).database("first", &place("load_balance_hosts=disable"));
    let site = Site::ini(&ini);
    let open_four = |database: &str| {
        let before = [taps[0].logins(), taps[1].logins()];
        let mut clients: Vec<_> = (0..4).map(|_| enter(&site, database)).collect();
        clients.iter_mut().for_each(|client| drop(client.query("BEGIN").unwrap()));
        [taps[0].logins() - before[0], taps[1].logins() - before[1]]
    };
    assert_eq!(open_four("turns"), [2, 2]);
    assert_eq!(open_four("first"), [4, 0]);
}

#[test]
fn connects_per_second_bounds_how_fast_servers_open() {
    let opened = |ini: Ini| {
        let tap = Tap::before(&Postgres::shared());
        let site = Site::ini(&ini.through(tap.port()));
        let mut clients: Vec<_> = (0..6).map(|_| site.connect()).collect();
        clients.iter_mut().for_each(|c| c.send_bytes(Batch::new().query("SELECT pg_sleep(1.2)").bytes()).unwrap());
        clients.iter_mut().for_each(|client| drop(read_until_ready(client, 1)));
        tap.logins()
    };
    // Each client is busy for longer than a second: all need a server of their own.
    let (few, many) = (opened(Ini::transaction(6).set("connects_per_second", 1)), opened(Ini::transaction(6)));
    assert!(few < many, "{few} with one a second, {many} without");
}

#[test]
fn shutdown_timeout_ends_a_shutdown_that_waits() {
    let site = Site::ini(&Ini::transaction(1).set("shutdown_timeout", 1));
    let mut client = site.connect();
    client.query("BEGIN").unwrap();
    site.weir().command("SHUTDOWN WAIT_FOR_CLIENTS").unwrap();
    assert_eq!(site.weir().wait_for_exit().code(), Some(0), "the client is still there");
}

#[test]
fn a_host_gets_so_many_logins_at_once_whatever_the_number_of_pools() {
    let tap = Tap::before(&Postgres::shared());
    let mut ini = Ini::transaction(1).set("max_logins_per_host", 3).through(tap.port());
    for number in 0..12 {
        ini = ini.database(&format!("pool{number}"), "{dbname}");
    }
    let site = Site::ini(&ini);
    tap.hold_logins(true);
    std::thread::scope(|scope| {
        let site = &site;
        let enter = |number: usize| enter(site, &format!("pool{number}")).value("SELECT 1").unwrap();
        let clients: Vec<_> = (0..12).map(|number| scope.spawn(move || enter(number))).collect();
        eventually("three log in", || if tap.logins_now() == 3 { Ok(()) } else { Err(tap.logins_now()) });
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert_eq!(tap.logins_now(), 3, "and no other pool");
        tap.hold_logins(false);
        clients.into_iter().for_each(|client| assert_eq!(client.join().unwrap().as_deref(), Some("1")));
    });
    assert_eq!(tap.logins(), 12, "each pool has its server in the end");
}
