//! `listen = "shared"`, in the modes auto and transaction: clients listen through one server of their pool, and get what
//! they would get in a session.

use std::time::Duration;

use weir_pgclient::{Connection, Error, Frame};
use weir_pgwire::{backend, put_front, tag};
use weir_tests::{Mode, Setup, Site, eventually};

/// A notification: the sender's process id, the channel and the payload.
type Notification = (u32, String, String);

/// How long a message may take on a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// The modes in which clients share a server to listen.
const SHARING: [Mode; 2] = [Mode::Auto, Mode::Transaction];

fn shared(mode: Mode, size: u32, more: &str) -> Site {
    let setup = Setup::new(mode).size(size).workers(1).limit("listen = \"shared\"").limit(more);
    Site::with(setup, mode)
}

fn notification(frame: &Frame) -> Option<Notification> {
    if frame.tag != tag::back::NOTIFICATION {
        return None;
    }
    let it = backend::notification(&frame.body).unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some((it.pid, text(it.channel), text(it.payload)))
}

/// What arrives up to the ReadyForQuery of a query.
fn run(client: &mut Connection, sql: &str) -> Vec<Frame> {
    let mut message = Vec::new();
    put_front::query(&mut message, sql);
    client.send_bytes(&message).unwrap();
    client.read_until_ready().unwrap()
}

/// The notifications that arrive before the ReadyForQuery of a query.
fn with(client: &mut Connection, sql: &str) -> Vec<Notification> {
    run(client, sql).iter().filter_map(notification).collect()
}

/// The notifications that arrive up to one with this payload.
fn until(client: &mut Connection, last: &str) -> Vec<Notification> {
    let mut all = Vec::new();
    while all.last().is_none_or(|(_, _, payload): &Notification| payload != last) {
        all.extend(notification(&client.read_frame(SOON).unwrap()));
    }
    all
}

fn payloads(all: &[Notification]) -> Vec<&str> {
    all.iter().map(|(_, _, payload)| &**payload).collect()
}

/// The servers whose last command was to listen, or to say on which channels: they listen for the pool.
const LISTENERS: &str = "FROM pg_stat_activity WHERE datname = current_database() AND usename = 'app' AND state = 'idle' \
    AND (query LIKE '%LISTEN%' OR query LIKE '%listening(channel)%') AND query NOT LIKE '%UNLISTEN%'";

/// How many connections of the pool listen.
fn listeners(site: &Site) -> Option<String> {
    site.superuser().value(&format!("SELECT count(*) {LISTENERS}")).unwrap()
}

#[test]
fn many_clients_listen_on_one_server_and_the_others_serve_everybody() {
    SHARING.into_iter().for_each(|mode| one_server_listens(&shared(mode, 3, "")));
}

fn one_server_listens(site: &Site) {
    let mut clients: Vec<Connection> = (0..50).map(|_| site.connect()).collect();
    for (index, client) in clients.iter_mut().enumerate() {
        client.query_all(&format!("LISTEN everybody; LISTEN \"Number {index}\"")).unwrap();
    }
    let mut other = site.connect();
    other.query_all("NOTIFY everybody, 'one'; NOTIFY \"Number 7\", 'seven'; NOTIFY everybody, 'end'").unwrap();
    for (index, client) in clients.iter_mut().enumerate() {
        let expected: &[&str] = if index == 7 { &["one", "seven", "end"] } else { &["one", "end"] };
        assert_eq!(payloads(&until(client, "end")), expected, "client {index}");
        assert_eq!(client.value("SELECT 1").unwrap().as_deref(), Some("1"));
    }
    let servers = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'app' AND datname = current_database()";
    let servers = site.superuser().value(servers).unwrap();
    assert!(servers.as_deref() <= Some("3"), "{servers:?}");
    drop(clients);
    eventually("no server listens", || match site.weir().pool("app").get("sv_active") {
        0 => Ok(()),
        left => Err(left),
    });
    assert_eq!(other.value("SELECT count(*) FROM pg_listening_channels()").unwrap().as_deref(), Some("0"));
}

#[test]
fn a_clients_own_notifications_have_its_process_id_and_come_before_its_ready_for_query() {
    SHARING.into_iter().for_each(|mode| own_come_first(&shared(mode, 2, "server_round_robin = true")));
}

fn own_come_first(site: &Site) {
    let (mut one, mut two) = (site.connect(), site.connect());
    let own = one.backend_pid();
    assert_eq!(with(&mut one, "BEGIN; LISTEN a; NOTIFY a, 'first'; COMMIT"), [(own, "a".into(), "first".into())]);
    two.query("LISTEN a").unwrap();
    for round in 0..50 {
        let (mine, theirs) = (format!("mine {round}"), format!("theirs {round}"));
        let own_of_two = with(&mut two, &format!("NOTIFY a, '{theirs}'"));
        assert!(own_of_two.contains(&(two.backend_pid(), "a".into(), theirs.clone())), "{own_of_two:?}");
        let seen = with(&mut one, &format!("SELECT pg_notify('a', '{mine}')"));
        assert_eq!(payloads(&seen)[seen.len() - 1], mine, "in the order of the commits: {seen:?}");
        assert_eq!(seen[seen.len() - 1].0, own);
        assert!(seen.iter().all(|(pid, _, payload)| (*pid == own) == payload.starts_with("mine")), "{seen:?}");
        until(&mut two, &mine);
    }
}

#[test]
fn nothing_arrives_within_a_transaction_and_nothing_is_missed() {
    SHARING.into_iter().for_each(|mode| nothing_is_missed(&shared(mode, 3, "")));
}

fn nothing_is_missed(site: &Site) {
    let (mut client, mut other) = (site.connect(), site.connect());
    client.query("LISTEN a").unwrap();
    for round in 0..30 {
        run(&mut client, "BEGIN");
        other.query(&format!("NOTIFY a, '{round}'")).unwrap();
        assert_eq!(with(&mut client, "SELECT pg_sleep(0.01)"), []);
        run(&mut client, "SAVEPOINT s");
        let mut seen = with(&mut client, "COMMIT");
        if seen.is_empty() {
            seen = until(&mut client, &round.to_string());
        }
        assert_eq!(payloads(&seen), [round.to_string()]);
    }
}

#[test]
fn a_client_listens_on_what_it_would_listen_on_in_a_session() {
    SHARING.into_iter().for_each(|mode| listens_as_a_session(&shared(mode, 3, "server_round_robin = true"), mode));
}

fn listens_as_a_session(site: &Site, mode: Mode) {
    site.superuser()
        .query_all(
            "CREATE FUNCTION hears(name text) RETURNS int LANGUAGE plpgsql AS $$BEGIN EXECUTE format('LISTEN %I', name); \
             RETURN 1; END$$; CREATE FUNCTION leaves(name text) RETURNS int LANGUAGE plpgsql AS \
             $$BEGIN EXECUTE format('UNLISTEN %I', name); RETURN 1; END$$",
        )
        .unwrap();
    let (mut client, mut other) = (site.connect(), site.connect());
    // What functions do is seen in mode auto only, and only there a temporary table outlives its transaction.
    let only_in_auto = |sql: &str| sql.contains("hears") || sql.contains("leaves") || sql.contains("scratch");
    let mut seen_by_functions = false;
    let heard = "SELECT string_agg(c, ' ' ORDER BY c) FROM pg_listening_channels() c";
    for (sql, expected) in [
        ("LISTEN a", "a"),
        ("BEGIN; LISTEN b; ROLLBACK", "a"),
        ("BEGIN; SAVEPOINT s; LISTEN b; ROLLBACK TO s; LISTEN c; COMMIT", "a c"),
        ("SELECT hears('d')", "a c d"),
        ("DO $$BEGIN LISTEN e; END$$", "a c d e"),
        ("SELECT leaves('d')", "a c e"),
        ("UNLISTEN a", "c e"),
        ("LISTEN \"odd \"\" name\"", "c e odd \" name"),
        ("BEGIN; UNLISTEN *; ROLLBACK", "c e odd \" name"),
        ("CREATE TEMP TABLE scratch (n int)", "c e odd \" name"),
        ("LISTEN f", "c e f odd \" name"),
        ("DROP TABLE scratch", "c e f odd \" name"),
        ("DISCARD ALL", ""),
        ("LISTEN g", "g"),
        ("UNLISTEN *", ""),
    ] {
        seen_by_functions |= sql.contains("hears");
        if mode != Mode::Auto && only_in_auto(sql) {
            continue;
        }
        seen_by_functions &= !sql.contains("leaves");
        // Before that, the channel of a function.
        let expected = if mode != Mode::Auto && seen_by_functions { &expected.replace(" d", "") } else { expected };
        client.query_all(sql).unwrap();
        for _ in 0..3 {
            assert_eq!(client.value(heard).unwrap().unwrap_or_default(), expected, "{sql}");
            assert_eq!(other.value(heard).unwrap(), None, "{sql}: another client listens");
        }
        for name in ["a", "b", "c", "d", "e", "f", "g", "odd \" name"] {
            other.query_all(&format!("NOTIFY \"{}\", 'x'", name.replace('"', "\"\""))).unwrap();
        }
        let mut names = expected.split_terminator(' ').filter(|name| name.len() == 1 && *name != "\"").count();
        names += usize::from(expected.contains("odd"));
        let mut seen = Vec::new();
        while seen.len() < names {
            seen.extend(notification(
                &client.read_frame(SOON).unwrap_or_else(|error| panic!("{sql}: {error}: {seen:?}")),
            ));
        }
        assert!(seen.iter().all(|(_, name, _)| expected.contains(&**name)), "{sql}: {seen:?}");
    }
    assert_eq!(with(&mut client, "SELECT pg_sleep(0.1)"), []);
}

#[test]
fn clients_are_warned_where_notifications_may_be_missing_and_listen_again() {
    SHARING.into_iter().for_each(|mode| gaps_are_warned_of(&shared(mode, 3, "")));
}

fn gaps_are_warned_of(site: &Site) {
    let mut clients: Vec<Connection> = (0..5).map(|_| site.connect()).collect();
    clients.iter_mut().for_each(|client| drop(client.query("LISTEN a").unwrap()));
    let mut superuser = site.superuser();
    for round in 0..3 {
        eventually(
            "one server listens",
            || {
                if listeners(site).as_deref() == Some("1") { Ok(()) } else { Err("not yet") }
            },
        );
        let old = superuser.value(&format!("SELECT pid {LISTENERS}")).unwrap().unwrap();
        superuser.query(&format!("SELECT pg_terminate_backend({old})")).unwrap();
        let others = format!("SELECT count(*) {LISTENERS} AND pid <> {old}");
        eventually("another one listens", || match superuser.value(&others).unwrap().as_deref() {
            Some("1") => Ok(()),
            other => Err(other.map(str::to_owned)),
        });
        superuser.query(&format!("NOTIFY a, 'round {round}'")).unwrap();
        for client in &mut clients {
            loop {
                let frame = client.read_frame(SOON).unwrap();
                if notification(&frame).is_some_and(|(.., payload)| payload == format!("round {round}")) {
                    break;
                }
            }
            let notices = client.take_notices();
            assert!(notices.iter().any(|it| it.message.contains("notifications may be missing")), "{notices:?}");
        }
    }
}

#[test]
fn a_client_that_does_not_take_its_notifications_is_disconnected_with_the_reason_and_alone() {
    SHARING.into_iter().for_each(|mode| slow_is_alone(&shared(mode, 3, "")));
}

fn slow_is_alone(site: &Site) {
    let (mut slow, mut fast, mut other) = (site.connect(), site.connect(), site.connect());
    slow.query("LISTEN a").unwrap();
    fast.query("LISTEN a").unwrap();
    run(&mut slow, "BEGIN");
    for round in 0..200 {
        other.query(&format!("NOTIFY a, '{round} {}'", "x".repeat(7_000))).unwrap();
    }
    other.query("NOTIFY a, 'end'").unwrap();
    assert_eq!(until(&mut fast, "end").len(), 201);
    let error = loop {
        match slow.read_frame(SOON) {
            Ok(frame) => assert_ne!(frame.tag, tag::back::NOTIFICATION, "within a transaction"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Server(_) | Error::Closed), "{error}");
}

#[test]
fn a_pool_of_one_server_has_none_to_share() {
    let site = shared(Mode::Auto, 1, "");
    let mut client = site.connect();
    client.query("LISTEN a").unwrap();
    let own = client.backend_pid();
    assert_eq!(with(&mut client, "NOTIFY a, 'x'"), [(own, "a".into(), "x".into())]);
    site.superuser().query("NOTIFY a, 'end'").unwrap();
    assert_eq!(payloads(&until(&mut client, "end")), ["end"]);
}

#[test]
fn a_client_that_cannot_listen_in_transaction_mode_is_warned_of_it() {
    let lost = |client: &mut Connection, sql: &str| {
        client.query_all(sql).unwrap();
        client.take_notices().iter().filter(|it| it.message.starts_with("LISTEN is lost")).count()
    };
    // One server is for queries; and by default clients of a pool in transaction mode share none.
    let own = Site::with(Setup::new(Mode::Transaction).size(3), Mode::Transaction);
    for site in [shared(Mode::Transaction, 1, ""), own] {
        let (mut client, mut other) = (site.connect(), site.connect());
        assert_eq!(lost(&mut client, "LISTEN a"), 1);
        assert_eq!(lost(&mut client, "LISTEN b"), 0, "once");
        assert_eq!(other.value("SELECT count(*) FROM pg_listening_channels()").unwrap().as_deref(), Some("0"));
        assert_eq!(with(&mut client, "NOTIFY a"), []);
    }
    // The server that listens has another encoding.
    let site = shared(Mode::Transaction, 3, "");
    let (mut first, mut latin) = (site.connect(), site.connect());
    assert_eq!(lost(&mut first, "LISTEN a"), 0);
    latin.query("SET client_encoding = 'LATIN1'").unwrap();
    assert_eq!(lost(&mut latin, "LISTEN a"), 1);
    first.query("NOTIFY a, 'x'").unwrap();
    assert_eq!(with(&mut latin, "SELECT 1"), []);
}

#[test]
fn who_listens_in_transaction_mode_leaves_nothing_whatever_becomes_of_other_state() {
    for on_dirty in ["keep", "close", "refuse", "reset"] {
        let setup = Setup::new(Mode::Transaction).size(2).workers(1).limit("listen = \"shared\"");
        let setup = setup.pool(&format!("on_dirty = \"{on_dirty}\"")).limit("server_round_robin = true");
        let site = Site::with(setup, Mode::Transaction);
        let (mut client, mut other) = (site.connect(), site.connect());
        client.query("LISTEN a").unwrap();
        let server = |client: &mut Connection| client.value("SELECT pg_backend_pid()").unwrap().unwrap();
        let before = server(&mut other);
        for round in 0..5 {
            assert_eq!(
                payloads(&with(&mut client, &format!("NOTIFY a, '{round}'"))),
                [round.to_string()],
                "{on_dirty}"
            );
            let heard = "SELECT count(*) FROM pg_listening_channels()";
            assert_eq!(other.value(heard).unwrap().as_deref(), Some("0"), "{on_dirty}");
            assert_eq!(server(&mut other), before, "{on_dirty}: the server stays");
        }
        // A channel beside state of other kinds: until another server listens, something may be missing.
        client.query("UNLISTEN *").unwrap();
        eventually("no server listens", || match site.weir().pool("app").get("sv_active") {
            0 => Ok(()),
            left => Err(left),
        });
        if on_dirty == "reset" {
            client.query_all("BEGIN; CREATE TEMP TABLE scratch (n int); LISTEN b; COMMIT").unwrap();
            let notices = client.take_notices();
            assert!(notices.iter().any(|it| it.message.contains("notifications may be missing")), "{notices:?}");
            eventually("another server listens", || match site.weir().pool("app").get("sv_active") {
                1 => Ok(()),
                left => Err(left),
            });
        }
    }
}
