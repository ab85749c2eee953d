//! What a client leaves behind on a server, and who finds it: `on_dirty = keep | reset | close`.

use weir_pglocal::client::Connection;
use weir_tests::{Batch, Mode, Setup, Site, ask};

/// A kind of state, how it is left, and a question that answers 0 where there is none of it.
const LEFTOVERS: [(&str, &str, &str); 9] = [
    (
        "a setting",
        "SET work_mem = '77MB'",
        "SELECT count(*) FROM pg_settings WHERE name = 'work_mem' AND setting <> '4096'",
    ),
    ("a role", "SET ROLE other_role", "SELECT count(*) WHERE current_user <> 'app'"),
    (
        "a session's characteristics",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
        "SELECT count(*) WHERE current_setting('default_transaction_read_only') = 'on'",
    ),
    ("a channel", "LISTEN gossip", "SELECT count(*) FROM pg_listening_channels()"),
    ("a temporary table", "CREATE TEMP TABLE scratch (n int)", TEMPORARY),
    ("a temporary table from a query", "CREATE TEMPORARY TABLE scratch2 AS SELECT 1 AS n", TEMPORARY),
    ("a prepared statement", "PREPARE left_behind AS SELECT 1", PREPARED),
    ("a cursor", "DECLARE held CURSOR WITH HOLD FOR SELECT 1", "SELECT count(*) FROM pg_cursors WHERE is_holdable"),
    ("a view that is temporary", "CREATE TEMP VIEW glimpse AS SELECT 1", TEMPORARY),
];

const TEMPORARY: &str = "SELECT count(*) FROM pg_class WHERE relnamespace = pg_my_temp_schema()";
const PREPARED: &str = "SELECT count(*) FROM pg_prepared_statements WHERE from_sql";

fn site(mode: Mode, on_dirty: &str) -> Site {
    let site = Site::with(Setup::new(mode).size(1).pool(&format!("on_dirty = \"{on_dirty}\"")), mode);
    let mut superuser = site.superuser();
    let sql = "SELECT count(*) FROM pg_roles WHERE rolname = 'other_role'";
    if superuser.value(sql).unwrap().as_deref() == Some("0") {
        // Two tests may be here at once.
        let _ = superuser.query("CREATE ROLE other_role");
    }
    superuser.query("GRANT other_role TO app").unwrap();
    site
}

fn server(client: &mut Connection) -> String {
    client.value("SELECT pg_backend_pid()").unwrap().unwrap()
}

/// Leaves each kind of state by simple and by extended queries, and asks the next client what it finds.
fn find(site: &Site, mut check: impl FnMut(&str, &str, bool)) {
    for (what, leave, question) in LEFTOVERS {
        for extended in [false, true] {
            let mut client = site.connect();
            let before = server(&mut client);
            let batch = if extended { Batch::new().run(leave, &[]).sync() } else { Batch::new().query(leave) };
            let story = ask(&mut client, &batch, 1);
            assert!(!story.iter().any(|line| line.starts_with("Error")), "{what}: {story:?}");
            drop(client);
            let mut next = site.connect();
            let found = next.value(question).unwrap().unwrap();
            let kept = server(&mut next) == before;
            check(&format!("{what}{}", if extended { ", extended" } else { "" }), &found, kept);
            next.query("DISCARD ALL").unwrap();
        }
    }
}

#[test]
fn with_reset_the_next_client_finds_nothing_in_transaction_mode() {
    find(&site(Mode::Transaction, "reset"), |what, found, kept| {
        assert_eq!(found, "0", "{what}");
        assert!(kept, "{what}: the server is cleaned, not replaced");
    });
}

#[test]
fn with_reset_the_next_client_finds_nothing_in_session_mode() {
    find(&site(Mode::Session, "reset"), |what, found, _| assert_eq!(found, "0", "{what}"));
}

#[test]
fn with_close_the_next_client_gets_another_server() {
    for mode in [Mode::Session, Mode::Transaction] {
        find(&site(mode, "close"), |what, found, kept| {
            assert_eq!(found, "0", "{what}");
            assert!(!kept, "{what}: the server is replaced");
        });
    }
}

#[test]
fn with_keep_the_next_client_finds_what_was_left_in_transaction_mode() {
    find(&site(Mode::Transaction, "keep"), |what, found, kept| {
        // Whether transactions are read-only is a tracked parameter, so it follows its client.
        assert!(found != "0" || what.starts_with("a session's characteristics"), "{what}");
        assert!(kept, "{what}");
    });
}

#[test]
fn a_clean_server_is_handed_on_as_it_is() {
    for on_dirty in ["reset", "close"] {
        let site = site(Mode::Transaction, on_dirty);
        let mut client = site.connect();
        let first = server(&mut client);
        for sql in [
            "SELECT 1",
            "BEGIN",
            "SET LOCAL work_mem = '77MB'",
            "COMMIT",
            "CREATE TABLE lasting (n int)",
            "INSERT INTO lasting VALUES (1)",
            "SELECT set_config('work_mem', '77MB', true)",
            "BEGIN",
            "DECLARE c CURSOR FOR SELECT 1",
            "COMMIT",
            "DROP TABLE lasting",
            "NOTIFY gossip",
        ] {
            let _ = client.query_all(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
        for _ in 0..5 {
            ask(&mut client, &Batch::new().run("SELECT $1::int", &["1"]).sync(), 1);
            assert_eq!(server(&mut site.connect()), first, "{on_dirty}");
        }
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query = 'DISCARD ALL'";
        assert_eq!(site.superuser().value(sql).unwrap().as_deref(), Some("0"), "{on_dirty}");
    }
}

#[test]
fn state_within_a_transaction_that_is_rolled_back_does_no_harm() {
    let site = site(Mode::Transaction, "reset");
    for (what, leave, question) in LEFTOVERS {
        let mut client = site.connect();
        client.query_all(&format!("BEGIN; {leave}")).unwrap();
        client.query("ROLLBACK").unwrap();
        assert_eq!(site.connect().value(question).unwrap().as_deref(), Some("0"), "{what}");
    }
}

#[test]
fn state_in_a_query_of_many_statements_is_seen() {
    let site = site(Mode::Transaction, "reset");
    for (what, leave, question) in LEFTOVERS {
        let mut client = site.connect();
        client.query_all(&format!("SELECT 1; {leave}; SELECT 2")).unwrap();
        assert_eq!(site.connect().value(question).unwrap().as_deref(), Some("0"), "{what}");
        // Committed in a transaction, and before an error in the same query.
        client.query_all(&format!("BEGIN; {leave}; COMMIT")).unwrap();
        assert_eq!(site.connect().value(question).unwrap().as_deref(), Some("0"), "{what} committed");
        assert!(client.query_all(&format!("BEGIN; {leave}; COMMIT; SELECT 1/0")).is_err());
        assert_eq!(site.connect().value(question).unwrap().as_deref(), Some("0"), "{what} before an error");
    }
}

#[test]
fn a_session_keeps_its_own_state_to_its_end() {
    let site = site(Mode::Session, "reset");
    let mut client = site.connect();
    client.query_all("SET work_mem = '77MB'; CREATE TEMP TABLE scratch (n int); LISTEN gossip").unwrap();
    client.query("PREPARE mine AS SELECT 'mine'").unwrap();
    for _ in 0..5 {
        assert_eq!(client.value("SHOW work_mem").unwrap().as_deref(), Some("77MB"));
        assert_eq!(client.value("SELECT count(*) FROM scratch").unwrap().as_deref(), Some("0"));
        assert_eq!(client.value("EXECUTE mine").unwrap().as_deref(), Some("mine"));
    }
}

#[test]
fn a_client_that_leaves_within_a_transaction_costs_its_server_and_leaves_nothing() {
    for mode in [Mode::Session, Mode::Transaction] {
        let site = site(mode, "reset");
        site.connect().query("CREATE TABLE unfinished (n int)").unwrap();
        let mut client = site.connect();
        client.query_all("BEGIN; INSERT INTO unfinished VALUES (1)").unwrap();
        let before = server(&mut client);
        drop(client);
        let mut next = site.connect();
        assert_ne!(server(&mut next), before, "no ROLLBACK is sent on a client's behalf: the server is closed");
        assert_eq!(next.value("SELECT count(*) FROM unfinished").unwrap().as_deref(), Some("0"));
    }
}

#[test]
fn after_a_session_nothing_is_left_that_only_a_function_call_shows() {
    let site = site(Mode::Session, "reset");
    for (what, leave, question) in [
        ("an advisory lock", "SELECT pg_advisory_lock(7)", "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"),
        (
            "a setting by a function",
            "SELECT set_config('work_mem', '77MB', false)",
            "SELECT count(*) WHERE current_setting('work_mem') <> '4MB'",
        ),
        (
            "a sequence's value",
            "CREATE SEQUENCE IF NOT EXISTS s; SELECT nextval('s')",
            "SELECT count(*) FROM pg_cursors",
        ),
    ] {
        let mut client = site.connect();
        client.query_all(leave).unwrap();
        drop(client);
        assert_eq!(site.connect().value(question).unwrap().as_deref(), Some("0"), "{what}");
    }
    // The next client must not have the last one's currval either.
    let error = site.connect().query("SELECT currval('s')").unwrap_err();
    assert_eq!(error.sqlstate(), Some("55000"), "{error}");
}
