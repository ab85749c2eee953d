//! Behaviours 19 and 20: reloads; pause, suspend and shutdown by the console and by signals.

use std::thread;
use std::time::Duration;

use weir_pgclient::{ConnectParams, Connection};
use weir_pglocal::Signal;
use weir_tests::{
    Batch, Ini, NameServer, Postgres, Site, Tap, ask, eventually, lines_of, read_until_ready, until_quiet, users,
};

use super::{SHORT, TIMEOUT, server, servers, shown, waits};

fn connect(site: &Site, database: &str) -> Connection {
    let params = site.weir().params(users::APP.name, database).password(users::APP.password);
    Connection::connect(&params).unwrap_or_else(|error| panic!("{database}: {error}"))
}

/// Runs a command on the console in its own thread.
fn command<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    site: &'scope Site,
    command: &'static str,
) -> thread::ScopedJoinHandle<'scope, String> {
    scope.spawn(move || site.weir().command(command).map_or_else(|error| error.to_string(), |answer| answer.tag))
}

#[test]
fn behaviour_19_only_changed_databases_reconnect_at_release_and_no_client_is_disconnected() {
    let ini = |second: &str| Ini::transaction(2).database("second", &format!("{{dbname}} {second}"));
    let site = Site::ini(&ini("application_name=before"));
    let (mut same, mut idle, mut busy) = (connect(&site, "app"), connect(&site, "second"), connect(&site, "second"));
    let of_same = server(&mut same);
    busy.query("BEGIN").unwrap();
    let (of_busy, of_idle) = (server(&mut busy), server(&mut idle));
    site.reload_ini(&ini("application_name=after connect_query='SELECT 1'"));
    assert_eq!(server(&mut same), of_same, "an unchanged database keeps its servers");
    assert_eq!(server(&mut busy), of_busy, "a linked server is not closed");
    busy.query("COMMIT").unwrap();
    let old = [of_busy, of_idle];
    for client in [&mut busy, &mut idle] {
        assert!(!old.contains(&server(client)));
    }
    eventually("the old ones are gone", || {
        let now = servers(&site);
        if now.iter().any(|pid| old.contains(pid)) { Err(now) } else { Ok(()) }
    });
    assert_eq!(server(&mut same), of_same);
}

#[test]
fn behaviour_19_a_reload_of_the_same_file_changes_no_server() {
    let ini = Ini::transaction(2).database("second", "{dbname}").user("app", "pool_mode=transaction");
    let site = Site::ini(&ini);
    let (mut one, mut two) = (connect(&site, "app"), connect(&site, "second"));
    let before = (server(&mut one), server(&mut two));
    for _ in 0..5 {
        site.reload_ini(&ini);
        assert_eq!((server(&mut one), server(&mut two)), before);
    }
}

#[test]
fn behaviour_19_a_key_that_left_the_file_returns_to_its_default() {
    let site = Site::ini(&Ini::transaction(2).set("query_wait_timeout", 7).set("server_idle_timeout", 8));
    let value = |key: &str| shown(&site, "CONFIG", "key", key, "value");
    assert_eq!((value("query_wait_timeout"), value("server_idle_timeout")), ("7".to_owned(), "8".to_owned()));
    site.reload_ini(&Ini::transaction(2).set("server_idle_timeout", 9));
    assert_eq!((value("query_wait_timeout"), value("server_idle_timeout")), ("120".to_owned(), "9".to_owned()));
}

#[test]
fn behaviour_19_session_clients_keep_their_server_over_a_reload_that_changes_it() {
    let ini = |words: &str| Ini::new().app(words);
    let site = Site::ini(&ini("application_name=before"));
    let mut client = site.connect();
    let own = server(&mut client);
    site.reload_ini(&ini("application_name=after timezone=Asia/Tokyo"));
    thread::sleep(SHORT);
    assert_eq!(server(&mut client), own);
    drop(client);
    super::await_gone(&site, &own);
    assert_eq!(site.connect().value("SELECT 'served'").unwrap().as_deref(), Some("served"));
}

#[test]
fn behaviour_19_a_change_of_dns_recycles_only_the_servers_on_vanished_addresses() {
    let names = NameServer::start(&["127.0.0.2", "127.0.0.3"]);
    let postgres = Postgres::shared();
    let staying = Tap::at(&postgres, "127.0.0.3", 0);
    let leaving = Tap::at(&postgres, "127.0.0.2", staying.port());
    let ini = Ini::transaction(6).set("dns_max_ttl", 1).set("resolv_conf", "{folder}/resolv.conf");
    let ini = ini.file("resolv.conf", &names.resolv_conf());
    let words = format!("host=db.weir.example port={} dbname=postgres", staying.port());
    let site = Site::ini(&ini.database("named", &words));
    let mut clients: Vec<_> = (0..6).map(|_| connect(&site, "named")).collect();
    clients.iter_mut().for_each(|client| drop(client.query("BEGIN").unwrap()));
    let (on_staying, on_leaving) = (staying.open(), leaving.open());
    assert!(on_staying > 0 && on_leaving > 0, "{on_staying} and {on_leaving}: both addresses are used");
    names.answer(&["127.0.0.3"]);
    // The TTL is an hour; dns_max_ttl makes it a second.
    eventually("the change is seen", || match shown(&site, "DNS_HOSTS", "hostname", "db.weir.example", "addrs") {
        addresses if addresses.contains("127.0.0.2") => Err(addresses),
        _ => Ok(()),
    });
    assert_eq!((staying.open(), leaving.open()), (on_staying, on_leaving), "a linked server is not closed");
    for client in &mut clients {
        assert_eq!(client.value("SELECT 'in peace'").unwrap().as_deref(), Some("in peace"));
        client.query("COMMIT").unwrap();
    }
    eventually("the servers on the old address go", || match leaving.open() {
        0 => Ok(()),
        left => Err(left),
    });
    assert_eq!(staying.open(), on_staying, "the others stay");
    for client in &mut clients {
        assert_eq!(client.value("SELECT 'served'").unwrap().as_deref(), Some("served"));
    }
    // A DNS failure closes no server.
    names.answer(&[]);
    thread::sleep(Duration::from_millis(2500));
    assert_eq!(clients[0].value("SELECT 'served'").unwrap().as_deref(), Some("served"));
    assert!(staying.open() >= on_staying);
}

#[test]
fn behaviour_20_a_pause_waits_for_all_transactions() {
    let site = Site::ini(&Ini::transaction(3).database("second", "{dbname}"));
    let (mut one, mut two) = (connect(&site, "app"), connect(&site, "second"));
    let mut next = connect(&site, "app");
    one.query("BEGIN").unwrap();
    two.query("BEGIN").unwrap();
    thread::scope(|scope| {
        let pause = command(scope, &site, "PAUSE");
        waits(&pause);
        // Transactions are finished, new ones wait.
        one.query("SELECT 1").unwrap();
        one.query("COMMIT").unwrap();
        waits(&pause);
        let held = scope.spawn(move || next.value("SELECT 'resumed'"));
        waits(&held);
        two.query("COMMIT").unwrap();
        assert_eq!(pause.join().unwrap(), "PAUSE");
        eventually("so that the servers can be closed", || {
            let left = servers(&site);
            if left.is_empty() { Ok(()) } else { Err(left) }
        });
        assert_eq!(shown(&site, "STATE", "key", "paused", "value"), "yes");
        waits(&held);
        assert_eq!(site.weir().command("RESUME").unwrap().tag, "RESUME");
        assert_eq!(held.join().unwrap().unwrap().as_deref(), Some("resumed"));
    });
}

#[test]
fn behaviour_20_a_pause_of_sessions_waits_for_their_clients() {
    let site = Site::ini(&Ini::new());
    let mut client = site.connect();
    client.query("SELECT 1").unwrap();
    thread::scope(|scope| {
        let pause = command(scope, &site, "PAUSE app");
        waits(&pause);
        client.query("SELECT 'still served'").unwrap();
        drop(client);
        assert_eq!(pause.join().unwrap(), "PAUSE");
    });
    assert_eq!(site.weir().command("RESUME app").unwrap().tag, "RESUME");
}

#[test]
fn behaviour_20_a_suspend_flushes_and_holds_all_clients_until_resume() {
    let site = Site::ini(&Ini::transaction(2));
    let (mut busy, mut idle) = (site.connect(), site.connect());
    busy.query("BEGIN").unwrap();
    let own = server(&mut busy);
    // The answer is complete before the suspend is.
    busy.send_bytes(Batch::new().query("SELECT 'flushed'").bytes()).unwrap();
    let mut console = site.weir().console();
    assert_eq!(console.query("SUSPEND").unwrap().tag, "SUSPEND");
    let transcript = until_quiet(&mut busy, SHORT);
    assert!(transcript.is_empty() || transcript.last().unwrap() == "Ready T", "whole answers only: {transcript:?}");
    idle.send_bytes(Batch::new().query("SELECT 'held'").bytes()).unwrap();
    assert!(until_quiet(&mut idle, SHORT).is_empty(), "nothing is read during the suspend");
    assert_eq!(console.query("RESUME").unwrap().tag, "RESUME");
    let answer = lines_of(&read_until_ready(&mut idle, 1));
    assert_eq!(answer[1], "Row held");
    if transcript.is_empty() {
        assert_eq!(lines_of(&read_until_ready(&mut busy, 1))[1], "Row flushed");
    }
    assert_eq!(server(&mut busy), own, "transactions survive it");
    busy.query("COMMIT").unwrap();
}

#[test]
fn behaviour_20_a_suspend_closes_what_could_not_be_flushed_in_time() {
    let site = Site::ini(&Ini::transaction(2).set("suspend_timeout", 1));
    let mut slow = site.connect();
    let mut other = site.connect();
    other.query("SELECT 1").unwrap();
    // More than all buffers on the way hold, and the client does not read it.
    slow.send_bytes(Batch::new().query("SELECT repeat('x', 1000) FROM generate_series(1, 200000)").bytes()).unwrap();
    super::await_busy(&site, 1);
    thread::sleep(SHORT);
    let mut console = site.weir().console();
    assert_eq!(console.query("SUSPEND").unwrap().tag, "SUSPEND");
    assert_eq!(console.query("RESUME").unwrap().tag, "RESUME");
    assert_eq!(other.value("SELECT 'spared'").unwrap().as_deref(), Some("spared"));
    let transcript = until_quiet(&mut slow, TIMEOUT);
    assert_eq!(transcript.last().unwrap(), "Closed");
}

/// The console over the Unix socket, as the operating-system user that runs Weir.
fn unix_console(site: &Site) -> ConnectParams {
    ConnectParams::unix(site.weir().folder(), site.weir().port(), "pgbouncer", "pgbouncer")
}

#[test]
fn behaviour_20_a_shutdown_that_waits_keeps_the_unix_console_reachable() {
    let by_console: fn(&Site) = |site| drop(site.weir().command("SHUTDOWN WAIT_FOR_CLIENTS").unwrap());
    let by_signal: fn(&Site) = |site| site.weir().signal(Signal::SIGTERM);
    for begin in [by_console, by_signal] {
        let site = Site::ini(&Ini::transaction(1));
        let mut client = site.connect();
        client.query("BEGIN").unwrap();
        Connection::connect(&unix_console(&site)).unwrap().query("SHOW VERSION").unwrap();
        begin(&site);
        eventually("new clients are refused", || match Connection::connect(&site.params()) {
            Ok(_) => Err("accepted"),
            Err(_) => Ok(()),
        });
        let mut console = Connection::connect(&unix_console(&site)).expect("the operator logs in");
        let pools = console.query("SHOW POOLS").unwrap();
        assert!((0..pools.rows.len()).any(|row| pools.get(row, "sv_active") == Some("1")), "{pools:?}");
        assert_eq!(client.value("SELECT 'still served'").unwrap().as_deref(), Some("still served"));
        assert!(site.weir().exited().is_none());
        drop(console);
        drop(client);
        assert_eq!(site.weir().wait_for_exit().code(), Some(0));
    }
}

#[test]
fn behaviour_20_a_waiting_shutdown_can_be_forced_from_the_unix_console() {
    let site = Site::ini(&Ini::transaction(1));
    let mut client = site.connect();
    client.query("BEGIN").unwrap();
    site.weir().command("SHUTDOWN WAIT_FOR_CLIENTS").unwrap();
    let mut console = Connection::connect(&unix_console(&site)).expect("the operator logs in");
    let _ = console.query("SHUTDOWN");
    assert_eq!(site.weir().wait_for_exit().code(), Some(0));
}

#[test]
fn behaviour_20_ctrl_c_in_the_console_undoes_a_pause() {
    for pause in ["PAUSE", "PAUSE app"] {
        let site = Site::ini(&Ini::transaction(2));
        let mut busy = site.connect();
        busy.query("BEGIN").unwrap();
        let mut console = site.weir().console();
        console.send_bytes(Batch::new().query(pause).bytes()).unwrap();
        assert!(until_quiet(&mut console, SHORT).is_empty(), "it waits");
        console.canceller().cancel().unwrap();
        let mut other = site.connect();
        let outcome = eventually("others are served again", || other.value("SELECT 'served'"));
        assert_eq!(outcome.as_deref(), Some("served"), "{pause}");
        assert_eq!(shown(&site, "DATABASES", "name", "app", "paused"), "0");
        // The transaction that it waited for is unchanged.
        assert_eq!(ask(&mut busy, &Batch::new().query("COMMIT"), 1), ["Complete COMMIT", "Ready I"]);
    }
}

#[test]
fn behaviour_20_int_waits_for_transactions_and_drops_waiting_clients() {
    let site = Site::ini(&Ini::transaction(1));
    let (mut busy, mut waiting) = (site.connect(), site.connect());
    busy.query("BEGIN").unwrap();
    waiting.send_bytes(Batch::new().query("SELECT 1").bytes()).unwrap();
    site.weir().await_pool("it waits", |pool| pool.get("cl_waiting") == 1);
    site.weir().signal(Signal::SIGINT);
    let transcript = until_quiet(&mut waiting, TIMEOUT);
    assert!(transcript[0].starts_with("Error 08P01"), "{transcript:?}");
    assert_eq!(busy.value("SELECT 'in peace'").unwrap().as_deref(), Some("in peace"));
    thread::sleep(Duration::from_millis(300));
    assert!(site.weir().exited().is_none());
    busy.query("COMMIT").unwrap();
    assert_eq!(site.weir().wait_for_exit().code(), Some(0));
}
