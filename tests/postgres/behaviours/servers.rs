//! Behaviours 4 and 12 to 15: idle servers, their logins, their age, their number, their checks.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use weir_pgclient::{Connection, Error};
use weir_pgwire::{ErrorFields, put_back};
use weir_tests::{Batch, Ini, Mode, Site, Tap, ask, eventually, line_of, until_quiet, users, within};

use super::{SHORT, TIMEOUT, await_free, await_gone, refused, server, servers, tapped, waits};

/// An error or a notice as a server would send it.
fn report(put: fn(&mut Vec<u8>, &ErrorFields<'_>), severity: &str, sqlstate: &str, message: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    put(&mut bytes, &ErrorFields { severity, sqlstate, message, detail: None, hint: None });
    bytes
}

/// A pool of one with an idle server, and that server's process.
fn idle(ini: Ini) -> (Site, Tap, Connection, String) {
    let (site, tap) = tapped(ini);
    let mut client = site.connect();
    let own = server(&mut client);
    await_free(&site);
    (site, tap, client, own)
}

#[test]
fn behaviour_04_an_idle_server_that_sends_an_error_a_notice_or_a_parameter_is_not_used_again() {
    let mut parameter = Vec::new();
    put_back::parameter_status(&mut parameter, "TimeZone", "Asia/Tokyo");
    let unsolicited = [
        ("an error", report(put_back::error, "FATAL", "57P01", "terminating connection")),
        ("a notice", report(put_back::notice, "WARNING", "01000", "by the way")),
        ("a parameter", parameter),
    ];
    for (what, bytes) in unsolicited {
        let (site, tap, mut client, before) = idle(Ini::transaction(1));
        tap.inject(&bytes);
        await_gone(&site, &before);
        let transcript = ask(&mut client, &Batch::new().query("SELECT pg_backend_pid()"), 1);
        assert_eq!(transcript.len(), 4, "{what} reaches no client: {transcript:?}");
        assert_ne!(transcript[1], format!("Row {before}"), "{what}");
        assert_eq!(client.value("SHOW TimeZone").unwrap().as_deref(), Some("UTC"), "{what}");
    }
}

#[test]
fn behaviour_04_an_idle_server_that_postgresql_ends_is_not_used_again() {
    let (site, _tap, mut client, before) = idle(Ini::transaction(1));
    site.superuser().query(&format!("SELECT pg_terminate_backend({before})")).unwrap();
    await_gone(&site, &before);
    let now = server(&mut client);
    assert_ne!(now, before);
}

#[test]
fn behaviour_04_a_notification_on_an_idle_server_is_harmless() {
    let (site, _tap, mut client, before) = idle(Ini::transaction(1));
    // As an application should not do in this mode: the server keeps the LISTEN.
    client.query("LISTEN gossip").unwrap();
    for _ in 0..3 {
        site.superuser().query("NOTIFY gossip, 'without a listener'").unwrap();
        thread::sleep(SHORT);
        assert_eq!(server(&mut client), before);
    }
    assert!(client.take_notifications().is_empty(), "it was for no client");
}

#[test]
fn behaviour_12_servers_log_in_one_at_a_time() {
    let (site, tap) = tapped(Ini::transaction(5).forced(users::APP));
    tap.hold_logins(true);
    thread::scope(|scope| {
        let clients: Vec<_> = (0..5)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = site.connect();
                    client.query("BEGIN").unwrap();
                    server(&mut client)
                })
            })
            .collect();
        eventually("a login has begun", || if tap.logins_now() > 0 { Ok(()) } else { Err("none") });
        thread::sleep(SHORT);
        assert_eq!((tap.logins(), tap.logins_now()), (1, 1), "the others wait for its outcome");
        tap.hold_logins(false);
        let different: BTreeSet<_> = clients.into_iter().map(|client| client.join().unwrap()).collect();
        assert!(!different.is_empty());
    });
}

#[test]
fn behaviour_12_with_no_server_left_waiters_get_the_servers_own_error_at_once() {
    let (site, tap) = tapped(Ini::transaction(2).forced(users::APP).set("server_login_retry", 2));
    tap.refuse_logins(Some(report(put_back::error, "FATAL", "53300", "sorry, too many clients already")));
    thread::scope(|scope| {
        let clients: Vec<_> = (0..6).map(|_| scope.spawn(|| refused(&site))).collect();
        for client in clients {
            let error = client.join().unwrap();
            let server_error = error.server().expect("an error message").clone();
            assert_eq!(server_error.sqlstate, "53300", "{error}");
            assert!(server_error.message.contains("sorry, too many clients already"), "{error}");
        }
    });
    // Each got the error at once, not after the two minutes of query_wait_timeout; and few logins were tried.
    let tries = tap.logins();
    assert!(tries <= 8, "{tries} logins for six clients");
    // The next login waits for server_login_retry, whichever client requests it.
    for _ in 0..10 {
        refused(&site);
    }
    assert!(tap.logins() <= tries + 4, "{} logins, {tries} before", tap.logins());
    tap.refuse_logins(None);
    let served = || Connection::connect(&site.params())?.value("SELECT 1");
    eventually("the login is retried without a client", served);
}

#[test]
fn behaviour_12_while_one_server_is_left_a_failed_login_reaches_no_client() {
    let (site, tap) = tapped(Ini::transaction(3).set("server_login_retry", 1));
    let mut holder = site.connect();
    holder.query("BEGIN").unwrap();
    let mut other = site.connect();
    tap.refuse_logins(Some(report(put_back::error, "FATAL", "53300", "sorry, too many clients already")));
    thread::scope(|scope| {
        let query = scope.spawn(|| other.value("SELECT 'patience'"));
        waits(&query);
        holder.query("COMMIT").unwrap();
        assert_eq!(query.join().unwrap().unwrap().as_deref(), Some("patience"));
    });
}

#[test]
fn behaviour_12_a_server_that_starts_up_is_waited_for() {
    let (site, tap) = tapped(Ini::transaction(1).forced(users::APP).set("server_login_retry", 1));
    tap.refuse_logins(Some(report(put_back::error, "FATAL", "57P03", "the database system is starting up")));
    thread::scope(|scope| {
        let query = scope.spawn(|| site.connect().value("SELECT 'patience'"));
        eventually("it has been tried more than once", || if tap.logins() > 1 { Ok(()) } else { Err(tap.logins()) });
        waits(&query);
        tap.refuse_logins(None);
        assert_eq!(query.join().unwrap().unwrap().as_deref(), Some("patience"));
    });
}

#[test]
fn behaviour_13_server_lifetime_never_closes_a_linked_server() {
    let site = Site::ini(&Ini::transaction(1).set("server_lifetime", 1));
    let mut client = site.connect();
    client.query("BEGIN").unwrap();
    let own = server(&mut client);
    thread::sleep(Duration::from_millis(2500));
    assert_eq!(server(&mut client), own);
    client.query("COMMIT").unwrap();
    await_gone(&site, &own);
    assert_ne!(server(&mut client), own);

    // A session is linked until its end.
    let site = Site::ini(&Ini::new().set("server_lifetime", 1));
    let mut client = site.connect();
    let own = server(&mut client);
    thread::sleep(Duration::from_millis(2500));
    assert_eq!(server(&mut client), own);
    drop(client);
    await_gone(&site, &own);
}

/// Opens this many servers at once; returns their processes.
fn open_together(site: &Site, count: usize) -> BTreeSet<String> {
    let mut clients: Vec<_> = (0..count).map(|_| site.connect()).collect();
    clients.iter_mut().for_each(|client| drop(client.query("BEGIN").unwrap()));
    let opened = clients.iter_mut().map(server).collect();
    clients.iter_mut().for_each(|client| drop(client.query("COMMIT").unwrap()));
    opened
}

#[test]
fn behaviour_13_servers_of_one_age_are_not_closed_at_once() {
    let site = Site::ini(&Ini::transaction(5).forced(users::APP).set("server_lifetime", 5));
    let opened = open_together(&site, 5);
    assert_eq!(opened.len(), 5);
    let mut counts = BTreeSet::new();
    let mut superuser = site.superuser();
    within(Duration::from_secs(40), "all are closed", || {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND usename = 'app' \
                   AND pid::text = ANY(string_to_array('PIDS', ','))";
        let pids = opened.iter().cloned().collect::<Vec<_>>().join(",");
        let left: usize = superuser.value(&sql.replace("PIDS", &pids)).unwrap().unwrap().parse().unwrap();
        counts.insert(left);
        if left == 0 { Ok(()) } else { Err(left) }
    });
    let between = counts.iter().filter(|count| (1..5).contains(*count)).count();
    assert!(between >= 2, "they were closed one after the other: {counts:?}");
}

#[test]
fn behaviour_13_the_idle_timeout_respects_min_pool_size() {
    let ini = Ini::transaction(5).forced(users::APP).set("min_pool_size", 2).set("server_idle_timeout", 1);
    let site = Site::ini(&ini);
    open_together(&site, 5);
    let two_left = || {
        let left = servers(&site);
        if left.len() == 2 { Ok(left) } else { Err(left) }
    };
    let left = eventually("two are left", two_left);
    thread::sleep(Duration::from_millis(2500));
    assert_eq!(servers(&site), left, "and these stay");
}

#[test]
fn behaviour_14_min_pool_size_needs_a_client_or_a_forced_user() {
    let site = Site::ini(&Ini::transaction(5).set("min_pool_size", 3));
    thread::sleep(Duration::from_millis(1500));
    assert!(servers(&site).is_empty(), "no user is known for a login");
    let client = site.connect();
    let three = |site: &Site| {
        let now = servers(site);
        if now.len() == 3 { Ok(()) } else { Err(now) }
    };
    eventually("three for the client", || three(&site));
    drop(client);

    let site = Site::ini(&Ini::transaction(5).forced(users::APP).set("min_pool_size", 3));
    eventually("three without a client", || three(&site));
}

#[test]
fn behaviour_14_min_pool_size_fills_gently() {
    let (site, tap) = tapped(Ini::transaction(5).forced(users::APP).set("min_pool_size", 4));
    eventually("it is full", || if servers(&site).len() == 4 { Ok(()) } else { Err(servers(&site)) });
    // Counted and paused first: a login begins as soon as a server has gone.
    let before = tap.logins();
    tap.hold_logins(true);
    super::end_servers(&site);
    eventually("the first begins", || if tap.logins() > before { Ok(()) } else { Err("not yet") });
    thread::sleep(Duration::from_millis(1500));
    assert_eq!(tap.logins_now(), 1, "one after the other");
    tap.hold_logins(false);
    eventually("it is full again", || if servers(&site).len() == 4 { Ok(()) } else { Err(servers(&site)) });
    assert_eq!(tap.logins(), before + 4, "and no more than needed");
}

#[test]
fn behaviour_14_the_reserve_opens_only_for_clients_that_have_waited() {
    let site = Site::ini(&Ini::transaction(1).set("reserve_pool_size", 1).set("reserve_pool_timeout", 2));
    let mut holder = site.connect();
    holder.query("BEGIN").unwrap();
    // Short waits never use the reserve.
    for _ in 0..3 {
        let mut other = site.connect();
        thread::scope(|scope| {
            let query = scope.spawn(|| other.value("SELECT 'soon'"));
            waits(&query);
            assert_eq!(servers(&site).len(), 1);
            holder.query("COMMIT").unwrap();
            assert_eq!(query.join().unwrap().unwrap().as_deref(), Some("soon"));
            holder.query("BEGIN").unwrap();
        });
    }
    assert_eq!(servers(&site).len(), 1);
    let mut second = site.connect();
    second.query("BEGIN").unwrap();
    assert_eq!(servers(&site).len(), 2, "it was opened while the first one was still held");
    let mut third = site.connect();
    thread::scope(|scope| {
        let query = scope.spawn(|| third.value("SELECT 'late'"));
        thread::sleep(Duration::from_millis(2500));
        assert!(!query.is_finished() && servers(&site).len() == 2, "the reserve is used up");
        second.query("COMMIT").unwrap();
        assert_eq!(query.join().unwrap().unwrap().as_deref(), Some("late"));
    });
}

/// How many checks with this query there were.
fn checks(tap: &Tap, sql: &str) -> usize {
    tap.times(&format!("Query {sql}"))
}

#[test]
fn behaviour_15_a_check_delay_of_zero_checks_before_every_use() {
    let (site, tap) = tapped(Ini::transaction(1).set("server_check_delay", 0));
    let mut client = site.connect();
    client.query("SELECT 1").unwrap();
    let before = checks(&tap, "");
    for round in 1..=4 {
        let transcript = ask(&mut client, &Batch::new().query("SELECT 1"), 1);
        assert_eq!(transcript.len(), 4, "the check's answer is swallowed: {transcript:?}");
        assert_eq!(checks(&tap, ""), before + round);
    }
    // A client that keeps its server is not checked between its queries.
    client.query_all("BEGIN; SELECT 1").unwrap();
    client.query("SELECT 2").unwrap();
    client.query("COMMIT").unwrap();
    assert_eq!(checks(&tap, ""), before + 5);
}

#[test]
fn behaviour_15_the_check_delay_counts_from_the_last_use() {
    let (site, tap) = tapped(Ini::transaction(1).set("server_check_delay", 2));
    let mut client = site.connect();
    // In use all the time, for longer than the delay.
    for _ in 0..8 {
        client.query("SELECT 1").unwrap();
        thread::sleep(Duration::from_millis(400));
    }
    assert_eq!(checks(&tap, ""), 0, "{:?}", tap.sent());
    thread::sleep(Duration::from_millis(2500));
    client.query("SELECT 1").unwrap();
    assert_eq!(checks(&tap, ""), 1);
    client.query("SELECT 1").unwrap();
    assert_eq!(checks(&tap, ""), 1);
}

#[test]
fn behaviour_15_the_check_query_is_configurable_and_may_be_empty() {
    let ini = || Ini::transaction(1).set("server_check_delay", 0);
    let (site, tap) = tapped(ini().set("server_check_query", "SELECT 'are you there?'"));
    let mut client = site.connect();
    for _ in 0..3 {
        let transcript = ask(&mut client, &Batch::new().query("SELECT 1"), 1);
        assert_eq!(transcript[1..], ["Row 1", "Complete SELECT 1", "Ready I"]);
    }
    assert!(checks(&tap, "SELECT 'are you there?'") >= 2, "{:?}", tap.sent());
    assert_eq!(checks(&tap, ""), 0);

    let (site, tap) = tapped(ini().set("server_check_query", ""));
    let mut client = site.connect();
    for _ in 0..3 {
        client.query("SELECT 1").unwrap();
    }
    assert_eq!(checks(&tap, ""), 0, "an empty setting turns the check off: {:?}", tap.sent());
}

#[test]
fn behaviour_15_a_server_whose_check_fails_is_replaced_and_its_client_does_not_notice() {
    let (site, tap) =
        tapped(Ini::transaction(1).set("server_check_delay", 0).set("server_check_query", "SELECT check_me()"));
    site.superuser().query_all("CREATE FUNCTION check_me() RETURNS int LANGUAGE sql AS 'SELECT 1'").unwrap();
    let mut client = site.connect();
    let own = server(&mut client);
    assert_eq!(server(&mut client), own);
    site.superuser().query("DROP FUNCTION check_me()").unwrap();
    let logins = tap.logins();
    assert_ne!(server(&mut client), own);
    assert!(tap.logins() > logins);
}

#[test]
fn behaviour_15_servers_of_sessions_are_checked_and_watched_too() {
    let (site, tap) = tapped(Ini::of(Mode::Session).set("server_check_delay", 0));
    let mut first = site.connect();
    let own = server(&mut first);
    drop(first);
    await_free(&site);
    let mut second = site.connect();
    assert_eq!(server(&mut second), own);
    assert!(checks(&tap, "") >= 1);
    drop(second);
    await_free(&site);
    tap.inject(&report(put_back::notice, "WARNING", "01000", "by the way"));
    await_gone(&site, &own);
    assert_ne!(server(&mut site.connect()), own);
}

#[test]
fn behaviour_04_unrequested_messages_of_a_linked_server_go_to_its_client() {
    let (site, tap) = tapped(Ini::transaction(1));
    let mut client = site.connect();
    client.query("BEGIN").unwrap();
    tap.inject(&report(put_back::notice, "WARNING", "01000", "by the way"));
    let frame = client.read_frame(TIMEOUT).unwrap();
    assert_eq!(line_of(&frame), "Notice 01000 by the way");
    client.query("COMMIT").unwrap();
    let quiet = until_quiet(&mut client, Duration::from_millis(200));
    assert!(quiet.is_empty(), "{quiet:?}");
    let _: Result<(), Error> = client.close();
}
