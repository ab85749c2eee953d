//! Pools that write to one of several hosts: a primary that is demoted is left, two primaries are never written to at
//! once, and an operator moves a pool without an error.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weir_pgclient::Connection;
use weir_tests::{FaultProxy, Mode, Postgres, Setup, Weir, eventually, may_lose_packets, skipped, users};

use crate::hosts::{connect, port_of, weir};

fn prepare(postgres: &Postgres) {
    let sql =
        "CREATE TABLE written (at timestamptz DEFAULT clock_timestamp(), client int); GRANT ALL ON written TO PUBLIC";
    postgres.superuser("postgres").query_all(sql).unwrap();
}

/// The primary stays up, with all its connections, and takes no more writes.
fn make_read_only(postgres: &Postgres, on: &str) {
    let mut superuser = postgres.superuser("postgres");
    superuser.query(&format!("ALTER SYSTEM SET default_transaction_read_only = {on}")).unwrap();
    superuser.query("SELECT pg_reload_conf()").unwrap();
    eventually("it is read-only", || {
        match postgres.superuser("postgres").value("SHOW default_transaction_read_only") {
            Ok(Some(now)) if now == on => Ok(()),
            other => Err(other),
        }
    });
}

fn setup(mode: Mode) -> Setup {
    Setup::new(mode).size(4).pool("target_session_attrs = \"read-write\"").pool("server_login_retry = \"100ms\"")
}

fn servers_at(weir: &Weir, port: u16) -> usize {
    let shown = weir.show("SERVERS");
    (0..shown.rows.len()).filter(|row| shown.get(*row, "port") == Some(port.to_string().as_str())).count()
}

fn count(postgres: &Postgres, of: &str) -> u64 {
    let value = postgres.superuser("postgres").value(&format!("SELECT {of} FROM written")).unwrap().unwrap();
    value.parse().unwrap()
}

#[test]
fn a_demoted_primary_that_stays_up_is_left_with_all_its_servers() {
    let a = Postgres::private();
    prepare(&a);
    let b = a.standby();
    for workers in [1, 2] {
        let weir = weir(&[a.port(), b.port()], setup(Mode::Transaction).workers(workers).spread("always"));
        let mut clients: Vec<Connection> = (0..4).map(|_| connect(&weir)).collect();
        clients.iter_mut().for_each(|client| drop(client.query("BEGIN").unwrap()));
        assert!(clients.iter_mut().all(|client| port_of(client) == a.port()));
        clients.iter_mut().for_each(|client| drop(client.query("COMMIT").unwrap()));
        assert_eq!(servers_at(&weir, a.port()), 4, "all idle");
        make_read_only(&a, "on");
        let refused = clients[0].query("INSERT INTO written(client) VALUES (0)").unwrap_err();
        assert_eq!(refused.sqlstate(), Some("25006"), "a request that was sent is not repeated");
        eventually("its servers are closed", || match servers_at(&weir, a.port()) {
            0 => Ok(()),
            some => Err(some),
        });
        // Whoever writes now waits.
        let line = format!("127.0.0.1:{} takes no writes any more", a.port());
        eventually("it is in the log", || if weir.log().contains(&line) { Ok(()) } else { Err(weir.log()) });
        make_read_only(&a, "off");
        clients.iter_mut().for_each(|client| drop(client.query("INSERT INTO written(client) VALUES (1)").unwrap()));
    }
}

#[test]
fn a_primary_that_reports_to_be_read_only_is_left_though_nobody_writes() {
    let (a, b) = (Postgres::private(), Postgres::private());
    let weir = weir(&[a.port(), b.port()], setup(Mode::Transaction));
    let mut client = connect(&weir);
    assert_eq!(port_of(&mut client), a.port());
    make_read_only(&a, "on");
    eventually("reads go to the new primary", || match port_of(&mut client) {
        port if port == b.port() => Ok(()),
        other => Err(other),
    });
    let primaries = weir.show("PRIMARIES");
    let host = |port| format!("127.0.0.1:{port}");
    assert_eq!(primaries.get(0, "primary"), Some(&*host(b.port())));
    assert_eq!(primaries.get(0, "moved_from"), Some(&*host(a.port())));
    let line = format!("primary moved from {} to {}", host(a.port()), host(b.port()));
    eventually("it is in the log", || if weir.log().contains(&line) { Ok(()) } else { Err(weir.log()) });
}

#[test]
fn a_client_that_asks_for_read_only_transactions_moves_nothing() {
    let (a, b) = (Postgres::private(), Postgres::private());
    prepare(&a);
    let weir = weir(&[a.port(), b.port()], setup(Mode::Transaction));
    let mut client = connect(&weir);
    for begin in ["BEGIN READ ONLY", "BEGIN; SET TRANSACTION READ ONLY", "BEGIN; SET LOCAL transaction_read_only = on"]
    {
        client.query_all(begin).unwrap();
        let refused = client.query("INSERT INTO written(client) VALUES (0)").unwrap_err();
        assert_eq!(refused.sqlstate(), Some("25006"));
        client.query("ROLLBACK").unwrap();
        assert_eq!(port_of(&mut client), a.port());
    }
    client.query("SET default_transaction_read_only = on").unwrap();
    assert!(client.query("INSERT INTO written(client) VALUES (0)").is_err());
    client.query("RESET default_transaction_read_only").unwrap();
    assert_eq!(port_of(&mut client), a.port());
    assert!(!weir.log().contains("takes no writes any more"));
}

#[test]
fn a_role_that_is_read_only_by_its_own_setting_moves_nobody_else() {
    let a = Postgres::private();
    prepare(&a);
    let b = a.standby();
    let setup = setup(Mode::Transaction).no_server_user().pool("query_wait_timeout = \"2s\"");
    let weir = weir(&[a.port(), b.port()], setup);
    let set = |what: &str| {
        let sql = format!("ALTER ROLE {} {what}", users::OTHER.name);
        a.superuser("postgres").query(&sql).unwrap();
    };
    let insert = "INSERT INTO written(client) VALUES (1) RETURNING pg_backend_pid()";
    let mut other =
        Connection::connect(&weir.params(users::OTHER.name, "app").password(users::OTHER.password)).unwrap();
    let mut client = connect(&weir);
    let process = client.value(insert).unwrap();
    other.query(insert).unwrap();
    set("SET default_transaction_read_only = on");
    weir.command("RECONNECT app").unwrap();
    let process = client.value(insert).unwrap().filter(|now| Some(now) != process.as_ref());
    thread::scope(|scope| {
        let waits = scope.spawn(|| other.query(insert).map(drop));
        while !waits.is_finished() {
            assert_eq!(client.value(insert).unwrap(), process, "its server stays");
        }
        waits.join().unwrap().expect_err("its transactions are read-only");
    });
    set("RESET default_transaction_read_only");
    let mut other =
        Connection::connect(&weir.params(users::OTHER.name, "app").password(users::OTHER.password)).unwrap();
    other.query(insert).unwrap();
    assert_eq!(client.value(insert).unwrap(), process);
    assert!(!weir.log().contains("takes no writes any more"), "{}", weir.log());
}

/// Two hosts take writes, as after an old primary was started again. What one user meets at the primary is no reason to
/// move all others.
#[test]
fn a_login_that_the_primary_refuses_moves_nobody_else() {
    let (a, b) = (Postgres::private(), Postgres::private());
    prepare(&a);
    prepare(&b);
    let setup = setup(Mode::Transaction).no_server_user().pool("query_wait_timeout = \"2s\"");
    let weir = weir(&[a.port(), b.port()], setup.workers(2).spread("always"));
    let mut client = connect(&weir);
    assert_eq!(port_of(&mut client), a.port());
    let other = users::OTHER.name;
    let role = |what: &str| a.superuser("postgres").query(&format!("ALTER ROLE {other} {what}")).map(drop).unwrap();
    let refusals = [
        ("NOLOGIN", "LOGIN", "28000"),
        ("CONNECTION LIMIT 0", "CONNECTION LIMIT -1", "53300"),
        ("PASSWORD 'another'", &format!("PASSWORD '{}'", users::OTHER.password), "28P01"),
        ("SET default_transaction_read_only = on", "RESET default_transaction_read_only", ""),
    ];
    for (refuse, allow, sqlstate) in refusals {
        role(refuse);
        let login = || Connection::connect(&weir.params(other, "app").password(users::OTHER.password));
        match login().and_then(|mut other| other.query("SELECT 1").map(drop)) {
            Err(error) => assert!(error.sqlstate() == Some(sqlstate) || sqlstate.is_empty(), "{refuse}: {error}"),
            Ok(()) => panic!("{refuse}: the other host lets it in"),
        }
        assert_eq!(port_of(&mut client), a.port(), "{refuse}");
        client.query("INSERT INTO written(client) VALUES (1)").unwrap();
        role(allow);
        weir.command("RETRY app").unwrap();
        eventually("it is let in", || {
            login()
                .and_then(|mut other| other.value("SELECT inet_server_port()"))
                .map_err(|error| error.to_string())
                .and_then(|port| if port == Some(a.port().to_string()) { Ok(()) } else { Err(format!("{port:?}")) })
        });
        weir.command("RECONNECT app").unwrap();
    }
    assert_eq!(count(&b, "count(*)"), 0);
    assert_eq!(weir.show("PRIMARIES").get(0, "moves"), Some("0"));
}

/// The first host's packets are lost below TCP: nothing is acknowledged, and nothing is closed. What it was asked for
/// fails, without a setting for that, and all others go on at the other host.
#[test]
fn a_primary_whose_packets_are_lost_is_left_by_default() {
    if let Err(error) = may_lose_packets() {
        return skipped(&format!("packets can't be dropped here: {error}"));
    }
    let (a, b) = (Postgres::private(), Postgres::private());
    prepare(&b);
    let proxy = FaultProxy::before(a.port());
    let weir = weir(&[proxy.port(), b.port()], setup(Mode::Transaction).pool("server_connect_timeout = \"1s\""));
    let (mut first, mut second) = (connect(&weir), connect(&weir));
    assert_eq!(port_of(&mut first), a.port());
    thread::scope(|scope| {
        let asked = scope.spawn(|| first.query("SELECT pg_sleep(3600)").map(drop));
        eventually("it runs", || match weir.show("SERVERS").get(0, "state") {
            Some("active") => Ok(()),
            other => Err(format!("{other:?}")),
        });
        proxy.lose_power(true);
        let lost = asked.join().unwrap().unwrap_err();
        assert_eq!(lost.sqlstate(), Some("08006"), "{lost}");
        second.query("INSERT INTO written(client) VALUES (1)").unwrap();
        proxy.lose_power(false);
    });
    assert_eq!(count(&b, "count(*)"), 1);
}

/// The same while each connection has something to send: no keep-alive probe is sent then.
#[test]
fn a_primary_whose_packets_are_lost_is_left_while_all_its_connections_are_busy() {
    if let Err(error) = may_lose_packets() {
        return skipped(&format!("packets can't be dropped here: {error}"));
    }
    let (a, b) = (Postgres::private(), Postgres::private());
    prepare(&b);
    let proxy = FaultProxy::before(a.port());
    let weir = weir(&[proxy.port(), b.port()], setup(Mode::Transaction).size(2));
    let mut clients: Vec<Connection> = (0..2).map(|_| connect(&weir)).collect();
    for client in &mut clients {
        client.query("BEGIN").unwrap();
        assert_eq!(port_of(client), a.port());
    }
    proxy.lose_power(true);
    thread::scope(|scope| {
        for mut client in clients {
            scope.spawn(move || {
                let lost = client.query("SELECT 1").unwrap_err();
                assert_eq!(lost.sqlstate(), Some("08006"), "{lost}");
            });
        }
    });
    connect(&weir).query("INSERT INTO written(client) VALUES (1)").unwrap();
    proxy.lose_power(false);
    assert_eq!(count(&b, "count(*)"), 1);
    assert!(weir.log().contains("its host acknowledges nothing"), "{}", weir.log());
}

/// The write of a session is refused, which connect_query has made read-only.
#[test]
fn a_refused_write_of_a_session_moves_nothing() {
    let (a, b) = (Postgres::private(), Postgres::private());
    prepare(&a);
    let setup = setup(Mode::Transaction).pool("connect_query = \"SET default_transaction_read_only = on\"");
    let weir = weir(&[a.port(), b.port()], setup);
    let mut client = connect(&weir);
    let refused = client.query("INSERT INTO written(client) VALUES (0)").unwrap_err();
    assert_eq!(refused.sqlstate(), Some("25006"));
    assert_eq!(port_of(&mut client), a.port());
    assert!(!weir.log().contains("takes no writes any more"));
}

/// Two servers take writes at once, as after a failover that went wrong. The pool's clients write without end, over two
/// workers and for two users, while the first one lets nobody in any more.
#[test]
fn two_primaries_are_never_written_to_at_once() {
    let (a, b) = (Postgres::private(), Postgres::private());
    prepare(&a);
    prepare(&b);
    let setup = setup(Mode::Transaction).no_server_user().workers(2).spread("always");
    let weir = weir(&[a.port(), b.port()], setup.pool("old_primary_timeout = \"10s\""));
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for number in 0..12_u32 {
            let (weir, stop, written) = (&weir, &stop, &written);
            scope.spawn(move || {
                let user = if number % 2 == 0 { users::APP } else { users::OTHER };
                let params = weir.params(user.name, "app").password(user.password);
                let mut client = Connection::connect(&params).unwrap();
                let insert = format!("INSERT INTO written(client) VALUES ({number})");
                while !stop.load(Ordering::Relaxed) {
                    if number % 3 == 0 {
                        client.query("BEGIN").unwrap();
                        client.query(&insert).unwrap();
                        client.query("SELECT pg_sleep(0.02)").unwrap();
                        client.query(&insert).unwrap();
                        client.query("COMMIT").unwrap();
                    } else {
                        client.query(&insert).unwrap();
                    }
                    written.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let more = |postgres: &Postgres| {
            let before = count(postgres, "count(*)");
            eventually("clients write there", || match count(postgres, "count(*)") {
                now if now > before + 100 => Ok(()),
                now => Err(now),
            });
        };
        more(&a);
        // From here on logins fail, and those that are logged in stay. One server ends, so that there is a login.
        a.server().begin_shutdown();
        weir.command("RECONNECT app").unwrap();
        more(&b);
        stop.store(true, Ordering::Relaxed);
    });
    a.server().restart().unwrap();
    let micros = |of: &str| format!("(extract(epoch from {of}(at)) * 1000000)::int8");
    let (last, first) = (count(&a, &micros("max")), count(&b, &micros("min")));
    assert!(last < first, "{} µs after the first write to the new primary, the old one was written to", last - first);
    assert!(count(&a, "count(*)") + count(&b, "count(*)") >= written.load(Ordering::Relaxed));
}

#[test]
fn an_operator_can_move_a_pool_only_to_a_host_that_takes_writes() {
    let a = Postgres::private();
    prepare(&a);
    let b = a.standby();
    let weir = weir(&[a.port(), b.port()], setup(Mode::Transaction).pool("switch_timeout = \"1s\""));
    let mut client = connect(&weir);
    client.query("INSERT INTO written(client) VALUES (1)").unwrap();
    let host = format!("127.0.0.1:{}", b.port());
    let error = weir.command(&format!("SWITCH app \"{host}\"")).unwrap_err().to_string();
    assert!(error.contains("SWITCH failed"), "{error}");
    client.query("INSERT INTO written(client) VALUES (2)").unwrap();
    assert_eq!(port_of(&mut client), a.port(), "it has gone back");
    let error = weir.command("SWITCH app 127.0.0.1").unwrap_err().to_string();
    assert!(error.contains("no such host"), "{error}");
}

/// What one client of a switchover has seen.
#[derive(Default)]
struct Seen {
    errors: Vec<String>,
    longest: Duration,
    transactions: u64,
}

/// What the time of a switchover consists of.
#[derive(Debug)]
#[allow(dead_code)] // Printed.
struct Gap {
    /// Until the test has seen that the old primary is left.
    left: Duration,
    /// In which no server takes writes: the old primary stops, the new one is promoted.
    primary: Duration,
    /// Until Weir has found that, and all workers know.
    found: Duration,
}

fn write_until(weir: &Weir, number: u32, stop: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    let mut client = connect(weir);
    let insert = format!("INSERT INTO written(client) VALUES ({number})");
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        let done = match number % 3 {
            0 => client.query("SELECT count(*) FROM written WHERE client = 1").map(drop),
            1 => client.query(&insert).map(drop),
            _ => ["BEGIN", &insert, "SELECT 1", "COMMIT"].iter().try_for_each(|sql| client.query(sql).map(drop)),
        };
        seen.longest = seen.longest.max(began.elapsed());
        match done {
            Ok(()) => seen.transactions += 1,
            Err(error) => {
                seen.errors.push(error.to_string());
                client = connect(weir);
            }
        }
        thread::sleep(Duration::from_millis(u64::from(number % 7) * 10));
    }
    seen
}

/// A planned switchover in the order of docs/howto/failover.md: SWITCH, the old primary is demoted, the new one
/// promoted. No client sees an error, and the longest wait is little more than the time without a primary.
#[test]
fn a_planned_switchover_costs_no_client_an_error() {
    let clients = std::env::var("WEIR_SWITCHOVER_CLIENTS").ok().and_then(|it| it.parse().ok()).unwrap_or(40);
    let a = Postgres::with(60, &[("wal_level", "replica")]);
    prepare(&a);
    let b = a.standby();
    let weir = weir(&[a.port(), b.port()], setup(Mode::Transaction).size(20).workers(2).spread("always"));
    let stop = AtomicBool::new(false);
    let (seen, gap) = thread::scope(|scope| {
        let all: Vec<_> = (0..clients)
            .map(|number| {
                let (weir, stop) = (&weir, &stop);
                scope.spawn(move || write_until(weir, number, stop))
            })
            .collect();
        eventually("they write", || if count(&a, "count(*)") > 500 { Ok(()) } else { Err("not yet") });
        let held = Instant::now();
        let switching = scope.spawn(|| weir.command(&format!("SWITCH app \"127.0.0.1:{}\"", b.port())));
        eventually("the old primary is left", || match servers_at(&weir, a.port()) {
            0 => Ok(()),
            some => Err(some),
        });
        let stopped = Instant::now();
        a.server().shutdown();
        b.server().promote().unwrap();
        let promoted = Instant::now();
        switching.join().unwrap().unwrap();
        let gap = Gap { left: stopped - held, primary: promoted - stopped, found: promoted.elapsed() };
        let before = count(&b, "count(*)");
        eventually("they write there", || if count(&b, "count(*)") > before + 500 { Ok(()) } else { Err("not yet") });
        stop.store(true, Ordering::Relaxed);
        (all.into_iter().map(|one| one.join().unwrap()).collect::<Vec<Seen>>(), gap)
    });
    let errors: Vec<&String> = seen.iter().flat_map(|one| &one.errors).collect();
    assert!(errors.is_empty(), "{} errors, such as {:?}", errors.len(), errors[0]);
    let longest = seen.iter().map(|one| one.longest).max().unwrap_or_default();
    let transactions: u64 = seen.iter().map(|one| one.transactions).sum();
    let said = weir.show("PRIMARIES").get(0, "said").unwrap_or_default().to_owned();
    println!("{clients} clients, {transactions} transactions, 0 errors; {gap:.0?}, longest wait {longest:.0?}; {said}");
    assert!(said.contains(&format!("primary moved from 127.0.0.1:{} to 127.0.0.1:{}", a.port(), b.port())), "{said}");
}
