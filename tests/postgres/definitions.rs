//! `mode = "auto"`: which commands that define something make Weir search bodies and what depends on them, and how often.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use weir_tests::{Ini, Mode, Postgres, Setup, Site, Tap};

use crate::dirty::LOCKED;
use crate::leaving_functions::text_leaves_now_and_then;

/// A function that leaves a lock where its argument is 1, so that there is something to search for.
const TAKES: &str = "CREATE FUNCTION takes(n int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS \
     $$ BEGIN IF n = 1 THEN PERFORM pg_try_advisory_lock(42); END IF; RETURN n; END $$";

/// A pool before whose server all messages are seen.
fn tapped() -> (Site, Tap) {
    let tap = Tap::before(&Postgres::shared());
    let site = Site::ini(&Ini::of(Mode::Auto).set("default_pool_size", 8).through(tap.port()));
    site.superuser().query_all(&format!("{TAKES}; CREATE TABLE t (n int); GRANT ALL ON t TO PUBLIC")).unwrap();
    site.connect().query("SELECT takes(0)").unwrap();
    (site, tap)
}

/// How often servers were asked for bodies, and for what depends on them.
fn searches(tap: &Tap) -> usize {
    tap.sent().iter().filter(|line| line.contains("WITH RECURSIVE")).count()
}

#[test]
fn in_auto_temporary_tables_and_indexes_on_columns_make_no_server_search_bodies() {
    let (site, tap) = tapped();
    let mut client = site.connect();
    client.query_all("CREATE TABLE mine (n int)").unwrap();
    let before = searches(&tap);
    assert!(before > 0, "bodies were read");
    for _ in 0..50 {
        for text in [
            "BEGIN; CREATE TEMP TABLE s (n int) ON COMMIT DROP; INSERT INTO s VALUES (1); COMMIT",
            "CREATE TEMP TABLE s (n int); DROP TABLE s",
            "CREATE INDEX IF NOT EXISTS mine_n ON mine (n)",
        ] {
            client.query_all(text).unwrap();
        }
        client.query("CREATE TEMP TABLE s AS SELECT 1").unwrap();
        client.query("DROP TABLE s").unwrap();
    }
    assert!(searches(&tap) <= before + 2, "{before}, {}", searches(&tap));
}

/// Whoever changes definitions has its own server search, and nobody else.
#[test]
fn in_auto_what_one_client_defines_is_searched_for_once_however_many_others_are_there() {
    const ROUNDS: usize = 30;
    let (site, tap) = tapped();
    let (mut client, ended) = (site.connect(), AtomicBool::new(false));
    client.query_all("CREATE TABLE first (n int)").unwrap();
    let before = searches(&tap);
    thread::scope(|scope| {
        for _ in 0..5 {
            scope.spawn(|| {
                let mut other = site.connect();
                while !ended.load(Ordering::SeqCst) {
                    other.query("SELECT n FROM t").unwrap();
                }
            });
        }
        for n in 0..ROUNDS {
            client.query(&format!("CREATE TABLE d{n} (n int DEFAULT takes(0))")).unwrap();
            client.query(&format!("DROP TABLE d{n}")).unwrap();
        }
        ended.store(true, Ordering::SeqCst);
    });
    let searches = searches(&tap) - before;
    assert!((1..=ROUNDS + 5).contains(&searches), "{searches}");
}

#[test]
fn in_auto_what_calls_a_function_that_leaves_state_is_found_behind_any_other_command_of_its_text() {
    let site =
        Site::with(Setup::new(Mode::Auto).size(3).limit("server_round_robin = true\nmax_pinned = 100"), Mode::Auto);
    site.superuser().query_all(TAKES).unwrap();
    let ways = [
        (
            "BEGIN; CREATE TEMP TABLE s (n int) ON COMMIT DROP; CREATE TABLE d1 (n int, CHECK (takes(n) >= 0)); COMMIT",
            "INSERT INTO d1 VALUES (?)",
        ),
        ("CREATE TABLE d2 (n int); CREATE INDEX ON d2 (takes(n))", "INSERT INTO d2 VALUES (?)"),
        ("CREATE TABLE d3 (n int); CREATE INDEX ON d3 (n) WHERE takes(n) >= 0", "INSERT INTO d3 VALUES (?)"),
        (
            "CREATE TABLE d4 (n int); CREATE INDEX ON d4 (n); ALTER TABLE d4 ADD CHECK (takes(n) >= 0)",
            "INSERT INTO d4 VALUES (?)",
        ),
        ("CREATE DOMAIN d5 AS int CHECK (takes(value) >= 0); CREATE TABLE t5 (n d5)", "INSERT INTO t5 VALUES (?)"),
        ("CREATE SCHEMA d6 CREATE TABLE t6 (n int, CHECK (public.takes(n) >= 0))", "INSERT INTO d6.t6 VALUES (?)"),
    ];
    for (prepare, text) in ways {
        let mut client = site.connect();
        client.query_all(prepare).unwrap();
        drop(client);
        text_leaves_now_and_then(&site, text, LOCKED);
    }
}
