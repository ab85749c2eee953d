//! State that a client leaves on a server, and which clients find it: `on_dirty = keep | reset | close | refuse`.

use weir_pgclient::Connection;
use weir_tests::{Batch, Mode, Setup, Site, ask, eventually};

/// A kind of state, the SQL that leaves it, and a query that returns 0 if there is none of it.
const LEFTOVERS: [(&str, &str, &str); 32] = [
    ("a setting", "SET work_mem = '77MB'", SETTING),
    ("a role", "SET ROLE other_role", "SELECT count(*) WHERE current_user <> 'app'"),
    (
        "a session's characteristics",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
        "SELECT count(*) WHERE current_setting('default_transaction_read_only') = 'on'",
    ),
    ("a channel", "LISTEN gossip", LISTENING),
    ("a temporary table", "CREATE TEMP TABLE scratch (n int)", TEMPORARY),
    ("a temporary table from a query", "CREATE TEMPORARY TABLE scratch2 AS SELECT 1 AS n", TEMPORARY),
    ("a prepared statement", "PREPARE left_behind AS SELECT 1", PREPARED),
    ("a cursor", "DECLARE held CURSOR WITH HOLD FOR SELECT 1", HELD),
    ("a view that is temporary", "CREATE TEMP VIEW glimpse AS SELECT 1", TEMPORARY),
    ("a temporary table by SELECT INTO", "SELECT 1 AS n INTO TEMP scratch3", TEMPORARY),
    ("the same under a label", "SELECT 1 AS insert INTO TEMP scratch4", TEMPORARY),
    ("the same behind a comment", "SELECT 1--;\n insert INTO/**/pg_temp.scratch5", TEMPORARY),
    ("a temporary table of WITH", "WITH one AS (SELECT 1 AS n) SELECT n INTO TEMP scratch6 FROM one", TEMPORARY),
    ("what EXPLAIN ANALYZE runs", "EXPLAIN (ANALYZE) CREATE TEMP TABLE scratch7 AS SELECT 1 AS n", TEMPORARY),
    ("a schema in escapes", "CREATE TABLE U&\"pg\\005ftemp\".scratch8 AS SELECT 1 AS n", TEMPORARY),
    ("a temporary type", "CREATE TYPE pg_temp.pair AS (a int, b int)", TEMPORARY),
    ("what a block makes", "DO $$BEGIN CREATE TEMP TABLE scratch9 (n int); END$$", TEMPORARY),
    ("a temporary function", "CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE sql AS 'SELECT 1'", FUNCTIONS),
    ("a setting by a function", "SELECT set_config('work_mem', '77MB', false)", SETTING),
    ("a setting by the view of settings", "UPDATE pg_settings SET setting = '77MB' WHERE name = 'work_mem'", SETTING),
    (
        "the same within a query",
        "EXPLAIN ANALYZE UPDATE pg_catalog.\"pg_settings\" AS s SET setting = '77MB' WHERE s.name = 'work_mem'",
        SETTING,
    ),
    ("a setting that a block sets", "DO $$BEGIN SET work_mem = '77MB'; END$$", SETTING),
    ("a role that a block takes", "DO 'BEGIN SET ROLE other_role; END'", "SELECT count(*) WHERE current_user <> 'app'"),
    ("a channel of a block", "DO LANGUAGE plpgsql $a$BEGIN LISTEN gossip; END$a$", LISTENING),
    ("what a block executes", "/* DO */ DO $$BEGIN EXECUTE 'LIS' || 'TEN gossip'; END$$", LISTENING),
    ("a block's prepared statement", "DO E'BEGIN EXECUTE \\'PREPARE left_behind AS SELECT 1\\'; END'", PREPARED),
    ("a block's cursor", "DO $$BEGIN EXECUTE 'DECLARE held CURSOR WITH HOLD FOR SELECT 1'; END$$", HELD),
    ("a setting by a block", "DO $$BEGIN PERFORM pg_catalog.\"set_config\"('work_mem', '77MB', false); END$$", SETTING),
    ("a lock", "SELECT pg_advisory_lock(42)", LOCKED),
    ("a lock that is tried", "SELECT pg_catalog.Pg_Try_Advisory_Lock_Shared(42, 1)", LOCKED),
    ("a lock by a name in escapes", "SELECT U&\"pg\\005f\\0061dvisory_lock\"(42)", LOCKED),
    ("a lock by a block", "DO $$BEGIN PERFORM pg_advisory_lock(42); END$$", LOCKED),
];

pub(crate) const SETTING: &str = "SELECT count(*) FROM pg_settings WHERE name = 'work_mem' AND setting <> '4096'";
pub(crate) const LISTENING: &str = "SELECT count(*) FROM pg_listening_channels()";
const HELD: &str = "SELECT count(*) FROM pg_cursors WHERE is_holdable";
pub(crate) const LOCKED: &str = "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'";
const FUNCTIONS: &str = "SELECT count(*) FROM pg_proc WHERE pronamespace = pg_my_temp_schema()";

pub(crate) const TEMPORARY: &str = "SELECT count(*) FROM pg_class WHERE relnamespace = pg_my_temp_schema()";
pub(crate) const PREPARED: &str = "SELECT count(*) FROM pg_prepared_statements WHERE from_sql";

fn site(mode: Mode, on_dirty: &str) -> Site {
    let site = Site::with(Setup::new(mode).size(1).pool(&format!("on_dirty = \"{on_dirty}\"")), mode);
    let mut superuser = site.superuser();
    let sql = "SELECT count(*) FROM pg_roles WHERE rolname = 'other_role'";
    if superuser.value(sql).unwrap().as_deref() == Some("0") {
        // Two tests may do this at once.
        let _ = superuser.query("CREATE ROLE other_role");
    }
    let _ = superuser.query("GRANT other_role TO app");
    site
}

/// A pool in `mode = "auto"`, with another's default for one setting.
fn auto(size: u32, more: &str) -> Site {
    let site = Site::with(Setup::new(Mode::Auto).size(size).limit(more), Mode::Auto);
    let mut superuser = site.superuser();
    let _ = superuser.query("CREATE ROLE other_role");
    let _ = superuser.query("GRANT other_role TO app");
    // All servers are open from here on.
    let mut clients: Vec<Connection> = (0..size).map(|_| site.connect()).collect();
    clients.iter_mut().for_each(|client| drop(client.query("BEGIN").unwrap()));
    clients.iter_mut().for_each(|client| drop(client.query("COMMIT").unwrap()));
    site
}

fn server(client: &mut Connection) -> String {
    client.value("SELECT pg_backend_pid()").unwrap().unwrap()
}

/// Leaves each kind of state by simple and by extended queries, and checks the next client's view.
fn find(site: &Site, mut check: impl FnMut(&str, &str, bool)) {
    for (what, leave, question) in LEFTOVERS {
        for extended in [false, true] {
            if extended && leave.contains("--;") {
                continue;
            }
            let mut client = site.connect();
            let before = server(&mut client);
            let batch = if extended { Batch::new().run(leave, &[]).sync() } else { Batch::new().query(leave) };
            let transcript = ask(&mut client, &batch, 1);
            assert!(!transcript.iter().any(|line| line.starts_with("Error")), "{what}: {transcript:?}");
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
fn what_a_block_has_prepared_before_it_fails_is_gone_too() {
    let site = site(Mode::Transaction, "reset");
    let long = "x".repeat(700);
    for begin in ["", "SELECT 1; ", &format!("SELECT '{long}'; ")] {
        let block = format!("{begin}DO $$BEGIN EXECUTE 'PREPARE left_behind AS SELECT 1'; RAISE EXCEPTION 'x'; END$$");
        site.connect().query(&block).unwrap_err();
        assert_eq!(site.connect().value(PREPARED).unwrap().as_deref(), Some("0"), "{begin}");
    }
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
fn a_clean_server_is_reused_unchanged() {
    for on_dirty in ["reset", "close", "refuse"] {
        let site = site(Mode::Transaction, on_dirty);
        // Any CREATE may be temporary, by the search_path: it always counts as dirty.
        site.connect().query("CREATE TABLE lasting (n int)").unwrap();
        let mut client = site.connect();
        let first = server(&mut client);
        for sql in [
            "SELECT 1",
            "BEGIN",
            "SET LOCAL work_mem = '77MB'",
            "COMMIT",
            "INSERT INTO lasting SELECT n FROM lasting",
            "WITH one AS (SELECT 1 AS n) INSERT INTO lasting SELECT n FROM one",
            "SELECT pg_advisory_xact_lock(1)",
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
fn a_client_that_leaves_within_a_transaction_closes_its_server_and_leaves_nothing() {
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
        (
            "an advisory lock",
            "SELECT pg_advisory_lock(7)",
            // Other tests have databases of the same server.
            "SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database WHERE locktype = 'advisory' AND datname = current_database()",
        ),
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
    // Nor may the next client have the previous one's currval.
    let error = site.connect().query("SELECT currval('s')").unwrap_err();
    assert_eq!(error.sqlstate(), Some("55000"), "{error}");
}

/// The kinds again where statements are not shared, so that texts pass unchanged.
#[test]
fn with_reset_the_next_client_finds_nothing_without_shared_statements() {
    let setup = Setup::new(Mode::Transaction).size(1).limit("max_prepared_statements = 0");
    let site = Site::with(setup, Mode::Transaction);
    let mut superuser = site.superuser();
    let _ = superuser.query("CREATE ROLE other_role");
    superuser.query("GRANT other_role TO app").unwrap();
    find(&site, |what, found, kept| {
        assert_eq!(found, "0", "{what}");
        assert!(kept, "{what}: the server is cleaned, not replaced");
    });
}

/// For every length of the text, every cut, and every position of the statement.
#[test]
fn state_is_seen_anywhere_in_a_long_text() {
    for prepared in [200, 0] {
        let setup = Setup::new(Mode::Transaction).size(1).limit(&format!("max_prepared_statements = {prepared}"));
        let site = Site::with(setup, Mode::Transaction);
        for length in [400, 505, 511, 512, 513, 520, 5_000, 70_000] {
            for leave in ["CREATE TEMP TABLE t AS SELECT 1", "SELECT pg_advisory_lock(42)"] {
                for extended in [false, true] {
                    let filling = "x".repeat(length);
                    let sql = if extended {
                        format!("/* {filling} */ {leave}")
                    } else {
                        format!("SELECT '{filling}'; {leave}; SELECT 1")
                    };
                    let batch = if extended { Batch::new().run(&sql, &[]).sync() } else { Batch::new().query(&sql) };
                    let transcript = ask(&mut site.connect(), &batch, 1);
                    assert!(!transcript.iter().any(|line| line.starts_with("Error")), "{transcript:?}");
                    for question in [TEMPORARY, LOCKED] {
                        let found = site.connect().value(question).unwrap();
                        assert_eq!(found.as_deref(), Some("0"), "{leave}, {length}, extended: {extended}");
                    }
                }
            }
        }
    }
}

/// With `search_path = pg_temp` any CREATE is temporary, whatever its text says.
#[test]
fn a_table_made_by_a_temporary_search_path_shadows_nothing_for_the_next_client() {
    let site = site(Mode::Transaction, "reset");
    site.connect().query_all("CREATE TABLE people (n int); INSERT INTO people VALUES (1)").unwrap();
    for paths in ["SET LOCAL search_path = pg_temp", "SELECT set_config('search_path', 'pg_' || 'temp', true)"] {
        for make in ["CREATE TABLE people (n int)", "SELECT 2 AS n INTO people", "CREATE TABLE people AS SELECT 2 AS n"]
        {
            let mut client = site.connect();
            for sql in ["BEGIN", paths, make, "COMMIT"] {
                client.query(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
            }
            assert_eq!(site.connect().value("SELECT n FROM people").unwrap().as_deref(), Some("1"), "{paths}, {make}");
        }
    }
    let mut params = site.params();
    params.options.push(("search_path".to_owned(), "pg_temp".to_owned()));
    let mut client = Connection::connect(&params).unwrap();
    client.query("CREATE TABLE people (n int)").unwrap();
    assert_eq!(site.connect().value("SELECT n FROM people").unwrap().as_deref(), Some("1"), "the path of a startup");
}

/// A named portal is a cursor, too, which SQL can run; the pooler's own statements have names that SQL's EXECUTE takes.
#[test]
fn what_sql_runs_of_the_protocols_portals_and_statements_leaves_nothing() {
    let site = site(Mode::Transaction, "reset");
    let lock = "SELECT pg_advisory_lock(i), 1 / (i - 2) FROM generate_series(1, 3) i";
    for run in ["FETCH ALL FROM p", "MOVE ALL FROM p", "SELECT cursor_to_xml('p', 1, true, true, '')"] {
        for begin in ["SELECT 1", "DISCARD ALL"] {
            let simple = Batch::new().query(begin).query("BEGIN").parse("", lock).bind("p", "", &[]).sync().query(run);
            let extended = Batch::new().query(begin).parse("a", lock).bind("p", "a", &[]).run(run, &[]).sync();
            for (batch, ready) in [(simple.query("ROLLBACK"), 5), (extended, 2)] {
                ask(&mut site.connect(), &batch, ready);
                assert_eq!(site.connect().value(LOCKED).unwrap().as_deref(), Some("0"), "{run}");
            }
        }
    }
    let mut client = site.connect();
    ask(&mut client, &Batch::new().run("SELECT 1", &[]).sync().parse("b", lock).bind("", "b", &[]).sync(), 2);
    let named = "SELECT name FROM pg_prepared_statements WHERE statement LIKE '%generate_series(1, 3)%'";
    let name = client.value(named).unwrap().expect("the statement is there");
    for execute in [format!("EXECUTE {name}"), format!("EXPLAIN (ANALYZE) EXECUTE {name}")] {
        ask(&mut site.connect(), &Batch::new().query(&execute), 1);
        assert_eq!(site.connect().value(LOCKED).unwrap().as_deref(), Some("0"), "{execute}");
        ask(&mut client, &Batch::new().bind("", "b", &[]).sync(), 1);
    }
}

/// The client does not wait for a reply before it sends the Bind of its next transaction.
#[test]
fn a_portal_that_is_bound_ahead_of_an_earlier_reply_leaves_nothing() {
    let site = site(Mode::Transaction, "reset");
    for (portal, statement) in [("", ""), ("p", ""), ("", "a"), ("p", "a")] {
        let mut client = site.connect();
        let ahead = Batch::new().query("SELECT pg_sleep(0.2)").parse(statement, "SELECT pg_advisory_lock(42)");
        ask(&mut client, &ahead.bind(portal, statement, &[]).flush(), 1);
        ask(&mut client, &Batch::new().execute(portal, 0).sync(), 1);
        assert_eq!(site.connect().value(LOCKED).unwrap().as_deref(), Some("0"), "{portal:?} {statement:?}");
    }
}

/// A request's state counts when the request is answered: a DISCARD ALL before it in the pipeline does not hide it.
#[test]
fn a_discard_hides_nothing_that_is_pipelined_after_it() {
    let site = site(Mode::Transaction, "reset");
    for leave in ["CREATE TEMP TABLE t AS SELECT 1", "SELECT pg_advisory_lock(42)", "SELECT 1 AS a INTO TEMP t"] {
        let simple = Batch::new().query("DISCARD ALL").query(leave);
        let extended =
            Batch::new().parse("d", "DISCARD ALL").bind("", "d", &[]).execute("", 0).sync().run(leave, &[]).sync();
        let prepared = Batch::new()
            .parse("a", leave)
            .sync()
            .query("DISCARD ALL")
            .parse("a", leave)
            .bind("p", "a", &[])
            .execute("p", 0)
            .sync();
        for (batch, ready) in [(simple, 2), (extended, 2), (prepared, 3)] {
            ask(&mut site.connect(), &batch, ready);
            for question in [TEMPORARY, LOCKED] {
                assert_eq!(site.connect().value(question).unwrap().as_deref(), Some("0"), "{leave}");
            }
        }
    }
}

#[test]
fn a_function_called_by_its_number_leaves_nothing() {
    let site = site(Mode::Transaction, "reset");
    let oid = site.superuser().value("SELECT 'pg_advisory_lock(bigint)'::regprocedure::oid").unwrap().unwrap();
    let batch = Batch::new().function(oid.parse().unwrap(), &["42"]);
    ask(&mut site.connect(), &batch, 1);
    assert_eq!(site.connect().value(LOCKED).unwrap().as_deref(), Some("0"));
}

/// The next client's statements do not refer to the previous one's temporary tables, nor the other way round.
#[test]
fn a_shared_statement_does_not_mean_a_temporary_table_that_is_gone() {
    let site = site(Mode::Transaction, "reset");
    site.connect().query_all("CREATE TABLE meant (n int); INSERT INTO meant VALUES (1)").unwrap();
    let select = || Batch::new().parse("s", "SELECT n::text FROM meant").bind("", "s", &[]).execute("", 0).sync();
    let value = |connection: &mut Connection| {
        ask(connection, &select(), 1).into_iter().find(|line| line.contains("Row")).unwrap()
    };
    let lasting = value(&mut site.connect());
    let mut client = site.connect();
    for temporary in ["CREATE TEMP TABLE meant AS SELECT 2 AS n", "SELECT 2 AS n INTO TEMP meant"] {
        client.query("BEGIN").unwrap();
        client.query(temporary).unwrap();
        let mut inside = ask(&mut client, &select(), 1);
        inside.retain(|line| line.contains("Row"));
        assert_ne!(inside, std::slice::from_ref(&lasting), "{temporary}");
        client.query("COMMIT").unwrap();
        ask(&mut client, &Batch::new().close_statement("s").sync(), 1);
        assert_eq!(value(&mut site.connect()), lasting, "{temporary}");
    }
}

/// DDL of a temporary table changes no definition for other clients: their statements stay shared.
#[test]
fn temporary_tables_do_not_end_the_sharing_of_statements() {
    let site = Site::with(Setup::new(Mode::Transaction).size(1), Mode::Transaction);
    let parses = || {
        let stats = site.weir().show("STATS");
        let row = (0..stats.rows.len()).find(|row| stats.get(*row, "database") == Some("app")).unwrap();
        stats.get(row, "total_server_parse_count").unwrap().parse::<u32>().unwrap()
    };
    let names = |client: &mut Connection| {
        ask(
            client,
            &Batch::new().run("SELECT name FROM pg_prepared_statements WHERE statement = 'SELECT 2'", &[]).sync(),
            1,
        )
    };
    let mut first = site.connect();
    ask(&mut first, &Batch::new().parse("s", "SELECT 2").sync(), 1);
    let before = names(&mut first);
    for n in 0..5 {
        for sql in ["BEGIN", &format!("CREATE TEMP TABLE t{n} (a int) ON COMMIT DROP"), "COMMIT"] {
            first.query(sql).unwrap();
        }
        let mut other = site.connect();
        ask(&mut other, &Batch::new().parse("s", "SELECT 2").bind("", "s", &[]).execute("", 0).sync(), 1);
        assert_eq!(names(&mut other), before, "the statement is the same one");
    }
    assert!(parses() > 0);
    site.connect().query("CREATE TABLE lasting (a int)").unwrap();
    let mut other = site.connect();
    ask(&mut other, &Batch::new().parse("s", "SELECT 2").bind("", "s", &[]).execute("", 0).sync(), 1);
    assert_ne!(names(&mut other), before, "another definition makes it another statement");
}

/// The kinds with their names in SHOW LOST_STATE, and a statement that leaves each.
const KINDS: [(&str, &str); 9] = [
    ("settings", "SET work_mem = '77MB'"),
    ("settings", "SELECT set_config('work_mem', '77MB', false)"),
    ("listen", "LISTEN gossip"),
    ("statements", "PREPARE left_behind AS SELECT 1"),
    ("cursors", "DECLARE held CURSOR WITH HOLD FOR SELECT 1"),
    ("temporary_objects", "CREATE TEMP TABLE scratch (n int)"),
    ("temporary_objects", "SELECT 1 AS n INTO TEMP scratch2"),
    ("advisory_locks", "SELECT pg_advisory_lock(42)"),
    ("advisory_locks", "SELECT pg_try_advisory_lock(43)"),
];

fn count(site: &Site, kind: &str, column: &str) -> u64 {
    let table = site.weir().show("LOST_STATE");
    let rows = (0..table.rows.len()).filter(|row| table.get(*row, "kind") == Some(kind));
    rows.map(|row| table.get(row, column).unwrap().parse::<u64>().unwrap()).sum()
}

fn batch_of(sql: &str, extended: bool) -> Batch {
    if extended { Batch::new().run(sql, &[]).sync() } else { Batch::new().query(sql) }
}

fn warnings(transcript: &[String]) -> usize {
    transcript.iter().filter(|line| line.starts_with("Notice 01000")).count()
}

#[test]
fn a_client_is_warned_once_for_each_kind_of_state_that_it_loses() {
    for extended in [false, true] {
        let site = Site::with(Setup::new(Mode::Transaction).size(1), Mode::Transaction);
        for (kind, leave) in KINDS {
            let mut client = site.connect();
            let before = count(&site, kind, "lost");
            let transcript = ask(&mut client, &batch_of(leave, extended), 1);
            assert_eq!(warnings(&transcript), 1, "{leave}: {transcript:?}");
            assert!(transcript.last().unwrap().starts_with("Ready"), "{transcript:?}");
            assert_eq!(count(&site, kind, "lost"), before + 1, "{leave}");
            let again = ask(
                &mut client,
                &batch_of(
                    &leave.replace("scratch", "again").replace("held", "again").replace("left_behind", "again"),
                    extended,
                ),
                1,
            );
            assert_eq!(warnings(&again), 0, "once a connection: {again:?}");
            assert_eq!(count(&site, kind, "lost"), before + 2, "{leave}");
        }
        for kind in ["settings", "listen", "statements", "cursors", "temporary_objects", "advisory_locks"] {
            // The log is written by a thread of its own.
            weir_tests::eventually(&format!("one line for each pool and kind, {kind}"), || {
                let lines =
                    site.weir().log().matches(&format!("session state of the kind \"{kind}\" was lost")).count();
                if lines == 1 { Ok(()) } else { Err(lines) }
            });
        }
    }
}

#[test]
fn no_warning_for_state_that_ends_with_its_transaction_or_follows_its_client() {
    let site = Site::with(Setup::new(Mode::Transaction).size(1), Mode::Transaction);
    let mut client = site.connect();
    for sql in [
        "SET TimeZone = 'UTC'",
        "SET TIME ZONE 'UTC'",
        "SET application_name = 'x'",
        "SET NAMES 'utf8'",
        "SELECT set_config('DateStyle', 'ISO', false)",
        "SET default_transaction_read_only = off",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
        "SET SESSION AUTHORIZATION DEFAULT",
        "BEGIN",
        "SET LOCAL work_mem = '77MB'",
        "CREATE TEMP TABLE scratch (n int) ON COMMIT DROP",
        "DECLARE c CURSOR FOR SELECT 1",
        "SELECT pg_advisory_xact_lock(1)",
        "COMMIT",
        "BEGIN",
        "SET work_mem = '77MB'",
        "LISTEN gossip",
        "ROLLBACK",
        "BEGIN",
        "SET work_mem = '77MB'",
        "RESET work_mem",
        "COMMIT",
        "SELECT 'LISTEN gossip; LISTEN gossip'",
        "SELECT pg_advisory_lock(1), pg_advisory_unlock(1)",
        "CREATE TABLE IF NOT EXISTS lasting (n int)",
        "DISCARD ALL",
    ] {
        for extended in [false, true] {
            // Not twice, and not again in a transaction that already warned.
            let once =
                matches!(sql, "BEGIN" | "COMMIT" | "ROLLBACK") || sql.contains("scratch") || sql.starts_with("DECLARE");
            if extended && once {
                continue;
            }
            let transcript = ask(&mut client, &batch_of(sql, extended), 1);
            assert!(
                !transcript.iter().any(|line| line.starts_with("Notice 01000") || line.starts_with("Error")),
                "{sql}: {transcript:?}"
            );
        }
    }
    let site = Site::with(Setup::new(Mode::Transaction).size(1).pool("warn_on_dirty = false"), Mode::Transaction);
    assert_eq!(warnings(&ask(&mut site.connect(), &batch_of("SET work_mem = '77MB'", false), 1)), 0);
    assert_eq!(count(&site, "settings", "lost"), 0, "a disabled warning counts nothing");
    let site = site_of_sessions();
    assert_eq!(warnings(&ask(&mut site.connect(), &batch_of("SET work_mem = '77MB'", false), 1)), 0, "session mode");
}

fn site_of_sessions() -> Site {
    Site::with(Setup::new(Mode::Session).size(1), Mode::Session)
}

#[test]
fn with_refuse_state_that_would_be_lost_is_an_error_and_the_connection_goes_on() {
    let site = site(Mode::Transaction, "refuse");
    for (kind, leave) in KINDS {
        for extended in [false, true] {
            let mut client = site.connect();
            let before = (server(&mut client), count(&site, kind, "refused"));
            let transcript = ask(&mut client, &batch_of(leave, extended), 1);
            let refused =
                transcript.iter().any(|line| line.starts_with("Error 0A000") && line.contains("would be lost"));
            assert!(refused && transcript.last().unwrap() == "Ready I", "{leave}: {transcript:?}");
            assert_eq!(client.value("SELECT 1").unwrap().as_deref(), Some("1"));
            assert_eq!(count(&site, kind, "refused"), before.1 + 1);
            // In a transaction it fails the transaction, as any error does.
            client.query("BEGIN").unwrap();
            let transcript = ask(&mut client, &batch_of(leave, extended), 1);
            assert!(transcript.last().unwrap() == "Ready E", "{leave}: {transcript:?}");
            client.query("ROLLBACK").unwrap();
            assert_eq!(server(&mut client), before.0, "{leave}: the server stays");
        }
    }
    // Statements before and after it in the same pipeline behave as after any error.
    let mut client = site.connect();
    let batch = Batch::new().parse("s", "SELECT 1").parse("t", "LISTEN gossip").bind("", "s", &[]).sync();
    let transcript = ask(&mut client, &batch, 1);
    assert!(
        transcript[0] == "ParseComplete" && transcript[1].starts_with("Error 0A000") && transcript.len() == 3,
        "{transcript:?}"
    );
    let transcript = ask(&mut client, &Batch::new().bind("", "s", &[]).execute("", 0).sync(), 1);
    assert_eq!(transcript, ["BindComplete", "Row 1", "Complete SELECT 1", "Ready I"]);
    let transcript = ask(&mut client, &Batch::new().bind("", "t", &[]).sync(), 1);
    assert!(transcript[0].starts_with("Error 26000"), "{transcript:?}");
}

/// `on_dirty = keep`: a setting that one client changed is set again for another client whose startup packet had it.
#[test]
fn with_keep_a_startup_setting_still_belongs_to_its_client() {
    for (name, own, changed) in [("search_path", "pg_catalog", "public"), ("extra_float_digits", "2", "0")] {
        for change in [format!("SET {name} = '{changed}'"), format!("SELECT set_config('{name}', '{changed}', false)")]
        {
            for extended in [false, true] {
                let site = site(Mode::Transaction, "keep");
                let mut params = site.params();
                params.options.push((name.to_owned(), own.to_owned()));
                let connect = || Connection::connect(&params).unwrap();
                let (mut one, mut other) = (connect(), connect());
                assert_eq!(other.value(&format!("SHOW {name}")).unwrap().as_deref(), Some(own));
                ask(&mut one, &batch_of(&change, extended), 1);
                assert_eq!(other.value(&format!("SHOW {name}")).unwrap().as_deref(), Some(own), "{change}");
            }
        }
    }
}

#[test]
fn in_auto_the_next_client_finds_nothing() {
    find(&auto(1, ""), |what, found, _| assert_eq!(found, "0", "{what}"));
}

/// Each kind stays with its client, whatever other clients do meanwhile on servers that go from one to the other.
#[test]
fn in_auto_a_client_finds_what_it_has_left_and_no_other_does() {
    let site = auto(3, "server_round_robin = true\nmax_pinned = 100");
    for (what, leave, question) in LEFTOVERS {
        let (mut client, mut other) = (site.connect(), site.connect());
        let alone = other.value(question).unwrap();
        client.query_all(leave).unwrap_or_else(|error| panic!("{what}: {error}"));
        for _ in 0..4 {
            assert_ne!(client.value(question).unwrap(), alone, "{what}: its own client has lost it");
            assert_eq!(other.value(question).unwrap(), alone, "{what}: another client has it");
        }
    }
}

#[test]
fn in_auto_settings_follow_the_client_to_every_server_and_keep_none() {
    let site = auto(3, "server_round_robin = true");
    let (mut one, mut two) = (site.connect(), site.connect());
    one.query("SET work_mem = '77MB'").unwrap();
    two.query("SET search_path = pg_catalog, public").unwrap();
    one.query_all("BEGIN; SET work_mem = '78MB'; ROLLBACK; BEGIN; SET LOCAL work_mem = '79MB'; COMMIT").unwrap();
    one.query_all("BEGIN; SAVEPOINT a; SET statement_timeout = '1h'; ROLLBACK TO a; SET lock_timeout = '2h'; COMMIT")
        .unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..6 {
        seen.extend([server(&mut one), server(&mut one)]);
        assert_eq!(one.value("SHOW work_mem").unwrap().as_deref(), Some("77MB"));
        assert_eq!(one.value("SHOW lock_timeout").unwrap().as_deref(), Some("2h"));
        assert_eq!(one.value("SHOW statement_timeout").unwrap().as_deref(), Some("0"));
        assert_eq!(two.value("SHOW search_path").unwrap().as_deref(), Some("pg_catalog, public"));
        assert_eq!(two.value("SHOW work_mem").unwrap().as_deref(), Some("4MB"));
    }
    assert!(seen.len() > 1, "the client has one server, as in session mode: {seen:?}");
    one.query("RESET work_mem").unwrap();
    two.query("DISCARD ALL").unwrap();
    for _ in 0..4 {
        assert_eq!(one.value("SHOW work_mem").unwrap().as_deref(), Some("4MB"));
        assert_eq!(one.value("SHOW lock_timeout").unwrap().as_deref(), Some("2h"));
        assert_eq!(two.value("SHOW search_path").unwrap().as_deref(), Some("\"$user\", public"));
    }
}

#[test]
fn in_auto_a_client_keeps_its_server_as_long_as_its_state_is_there() {
    let site = auto(2, "server_round_robin = true");
    let mut client = site.connect();
    for (what, leave, remove) in [
        ("a channel", "LISTEN gossip", "UNLISTEN gossip"),
        ("a statement", "PREPARE mine AS SELECT 1", "DEALLOCATE mine"),
        ("a cursor", "DECLARE held CURSOR WITH HOLD FOR SELECT 1", "CLOSE held"),
        ("a temporary table", "CREATE TEMP TABLE scratch (n int)", "DROP TABLE scratch"),
        ("a lock", "SELECT pg_advisory_lock(42)", "SELECT pg_advisory_unlock(42)"),
        ("a setting that can't follow", "SET my.own = 'é'", "DISCARD ALL"),
        ("everything", "LISTEN gossip; CREATE TEMP TABLE scratch (n int)", "DISCARD ALL"),
    ] {
        let servers =
            |client: &mut Connection| (0..4).map(|_| server(client)).collect::<std::collections::BTreeSet<_>>().len();
        client.query_all(leave).unwrap();
        assert_eq!(servers(&mut client), 1, "{what}: its client has changed servers");
        client.query(remove).unwrap();
        assert_eq!(servers(&mut client), 2, "{what} is gone, and its client keeps the server");
    }
    // What ends with its transaction keeps nothing.
    client.query_all("BEGIN; CREATE TEMP TABLE scratch (n int) ON COMMIT DROP; LISTEN a; UNLISTEN a; COMMIT").unwrap();
    client.query_all("BEGIN; CREATE TEMP TABLE scratch (n int); LISTEN a; SET my.own = 'x'").unwrap();
    client.query("ROLLBACK").unwrap();
}

#[test]
fn in_auto_only_a_share_of_a_pool_is_kept_and_one_client_more_is_given_the_reason() {
    let site = auto(5, "max_pinned = 40");
    let mut kept: Vec<Connection> = (0..2).map(|_| site.connect()).collect();
    kept.iter_mut().for_each(|client| drop(client.query("CREATE TEMP TABLE scratch (n int)").unwrap()));
    let mut third = site.connect();
    third.query("SELECT 1").unwrap();
    let error = third.query("CREATE TEMP TABLE scratch (n int)").unwrap_err();
    assert!(error.to_string().contains("too many clients of this pool keep a server connection"), "{error}");
    let mut other = site.connect();
    assert_eq!(other.value(TEMPORARY).unwrap().as_deref(), Some("0"));
    kept.pop();
    let mut fourth = eventually("a client that has left keeps no server", || {
        let mut client = site.connect();
        client.query("CREATE TEMP TABLE scratch (n int)").map(|_| client)
    });
    assert_ne!(fourth.value(TEMPORARY).unwrap().as_deref(), Some("0"));
}

/// What no text says: functions, triggers, views and rules do it.
#[test]
fn in_auto_what_functions_and_triggers_leave_stays_with_its_client_and_with_no_other() {
    let site = auto(3, "server_round_robin = true\nmax_pinned = 100");
    site.superuser()
        .query_all(
            "CREATE TABLE things (n int); GRANT ALL ON things TO app; \
             CREATE FUNCTION listens() RETURNS int LANGUAGE plpgsql AS 'BEGIN LISTEN gossip; RETURN 1; END'; \
             CREATE FUNCTION sets() RETURNS int LANGUAGE plpgsql AS 'BEGIN SET work_mem = ''77MB''; RETURN 1; END'; \
             CREATE FUNCTION locks() RETURNS int LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_lock(42); RETURN 1; END'; \
             CREATE FUNCTION keeps() RETURNS int LANGUAGE plpgsql AS 'BEGIN CREATE TEMP TABLE scratch (n int); RETURN 1; END'; \
             CREATE FUNCTION prepares() RETURNS int LANGUAGE plpgsql AS 'BEGIN EXECUTE ''PREPARE mine AS SELECT 1''; RETURN 1; END'; \
             CREATE FUNCTION fires() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN CREATE TEMP TABLE IF NOT EXISTS scratch (n int); RETURN NEW; END'; \
             CREATE TRIGGER fires BEFORE INSERT ON things FOR EACH ROW EXECUTE FUNCTION fires(); \
             CREATE VIEW looks AS SELECT listens() AS n; GRANT ALL ON looks TO app",
        )
        .unwrap();
    for (leave, question) in [
        ("SELECT listens()", LISTENING),
        ("SELECT n FROM looks", LISTENING),
        ("SELECT sets()", SETTING),
        ("SELECT locks()", LOCKED),
        ("SELECT keeps()", TEMPORARY),
        ("SELECT prepares()", PREPARED),
        ("INSERT INTO things VALUES (1)", TEMPORARY),
        ("BEGIN; SELECT listens(); COMMIT", LISTENING),
        ("ROLLBACK; SELECT locks()", LOCKED),
    ] {
        for extended in [false, true] {
            if extended && leave.contains(';') {
                continue;
            }
            for round in 0..6 {
                let (mut client, mut other) = (site.connect(), site.connect());
                let batch = if extended { Batch::new().run(leave, &[]).sync() } else { Batch::new().query(leave) };
                let transcript = ask(&mut client, &batch, 1);
                assert!(!transcript.iter().any(|line| line.starts_with("Error")), "{leave}: {transcript:?}");
                for _ in 0..3 {
                    assert_ne!(client.value(question).unwrap().as_deref(), Some("0"), "{leave}, {round}: it is lost");
                    assert_eq!(
                        other.value(question).unwrap().as_deref(),
                        Some("0"),
                        "{leave}, {round}: another has it"
                    );
                }
            }
        }
    }
}

#[test]
fn in_auto_what_a_function_leaves_is_found_also_in_a_text_that_begins_and_commits() {
    let site = auto(1, "");
    site.superuser()
        .query_all("CREATE FUNCTION listens() RETURNS int LANGUAGE plpgsql AS 'BEGIN LISTEN gossip; RETURN 1; END'")
        .unwrap();
    for text in ["BEGIN; SELECT listens(); COMMIT", "begin;select listens();end", "COMMIT; SELECT listens()"] {
        site.connect().query_all(text).unwrap();
        assert_eq!(site.connect().value(LISTENING).unwrap().as_deref(), Some("0"), "{text}");
    }
}

/// `keep` is PgBouncer's, and the default of an ini: in auto it means nothing.
#[test]
fn in_auto_with_keep_a_reset_returns_to_what_the_client_asked_for_and_nothing_is_left() {
    let setup = Setup::new(Mode::Auto).size(1).pool("on_dirty = \"keep\"");
    let site = Site::with(setup, Mode::Auto);
    let mut params = site.params();
    params.options.push(("search_path".to_owned(), "pg_catalog".to_owned()));
    let mut client = Connection::connect(&params).unwrap();
    client.query_all("SET search_path = public; SET work_mem = '77MB'; LISTEN gossip").unwrap();
    client.query("RESET ALL").unwrap();
    assert_eq!(client.value("SHOW search_path").unwrap().as_deref(), Some("pg_catalog"));
    drop(client);
    let mut next = site.connect();
    for question in [SETTING, LISTENING] {
        assert_eq!(next.value(question).unwrap().as_deref(), Some("0"), "{question}");
    }
}

/// Texts that differ only in what quotes, comments and digits may hide are asked about each for itself.
#[test]
fn in_auto_a_text_is_not_taken_for_another_one() {
    let site = auto(1, "max_pinned = 100");
    site.superuser()
        .query_all(
            "CREATE FUNCTION f1() RETURNS int LANGUAGE sql AS 'SELECT 1'; \
             CREATE FUNCTION f2() RETURNS int LANGUAGE plpgsql AS 'BEGIN LISTEN gossip; RETURN 1; END'",
        )
        .unwrap();
    let long = format!("SELECT {}", "1 AS column_of_a_long_list, ".repeat(60));
    for begin in
        ["SELECT ", "/* don't */ SELECT ", "SELECT E'\\'', ", "SELECT $$it's$$, ", "SELECT 1 AS \"it's\", ", &long]
    {
        let mut client = site.connect();
        (0..3).for_each(|_| drop(client.query_all(&format!("{begin}f1()")).unwrap()));
        client.query_all(&format!("{begin}f2()")).unwrap();
        assert_eq!(client.value(LISTENING).unwrap().as_deref(), Some("1"), "{begin}");
        drop(client);
        assert_eq!(site.connect().value(LISTENING).unwrap().as_deref(), Some("0"), "{begin}");
    }
}

/// PostgreSQL lists them as settings of the session for ever.
#[test]
fn in_auto_properties_of_a_transaction_keep_no_server() {
    let site = auto(2, "server_round_robin = true");
    for (number, sql) in [
        "BEGIN; SET TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE; COMMIT",
        "SET transaction_isolation = 'serializable'",
        "SET TRANSACTION READ ONLY",
        "BEGIN ISOLATION LEVEL REPEATABLE READ; COMMIT",
    ]
    .into_iter()
    .enumerate()
    {
        for mut client in [site.connect(), site.connect()] {
            client.query_all(sql).unwrap();
            // A new text, after which each server is asked.
            let servers: std::collections::BTreeSet<_> = ["a", "b", "c", "d"]
                .map(|name| client.value(&format!("SELECT pg_backend_pid() AS {name}{number}")).unwrap())
                .into();
            assert_eq!(servers.len(), 2, "{sql}: the client keeps its server");
        }
    }
}

/// `temp_buffers` can't be changed where a temporary table was used, and a setting of superusers by no one else.
#[test]
fn in_auto_a_setting_that_can_not_be_set_elsewhere_keeps_its_client_and_harms_no_other() {
    let site = auto(2, "server_round_robin = true\nmax_pinned = 100");
    site.superuser()
        .query_all(
            "CREATE FUNCTION logs() RETURNS text LANGUAGE sql SECURITY DEFINER \
             AS $$SELECT set_config('log_min_duration_statement', '7777', false)$$; \
             CREATE FUNCTION logging() RETURNS text LANGUAGE sql SECURITY DEFINER \
             AS $$SELECT current_setting('log_min_duration_statement')$$",
        )
        .unwrap();
    let usual = site.connect().value("SELECT logging()").unwrap();
    let use_temporary = "CREATE TEMP TABLE scratch (n int); INSERT INTO scratch VALUES (1); DROP TABLE scratch";
    // One after the other, so that each comes to a server that the one before has had.
    for _ in 0..3 {
        let mut client = site.connect();
        client.query("SELECT logs()").unwrap();
        (0..4).for_each(|_| assert_eq!(client.value("SELECT logging()").unwrap().as_deref(), Some("7777ms")));
        drop(client);
        let mut client = site.connect();
        client.query_all(use_temporary).unwrap();
        let set = client.query("SET temp_buffers = '2MB'");
        let size = if set.is_ok() { "2MB" } else { "8MB" };
        client.query_all(use_temporary).unwrap();
        (0..4).for_each(|_| assert_eq!(client.value("SHOW temp_buffers").unwrap().as_deref(), Some(size)));
        drop(client);
        let (mut one, mut other) = (site.connect(), site.connect());
        for client in [&mut one, &mut other] {
            (0..2).for_each(|_| assert_eq!(client.value("SHOW temp_buffers").unwrap().as_deref(), Some("8MB")));
            (0..2).for_each(|_| assert_eq!(client.value("SELECT logging()").unwrap(), usual));
        }
    }
}

/// Where statements are not shared, a client's own are on its server.
#[test]
fn in_auto_without_shared_statements_they_keep_their_client_too() {
    let site = auto(3, "server_round_robin = true\nmax_pinned = 100\nmax_prepared_statements = 0");
    let mut clients: Vec<Connection> = (0..3).map(|_| site.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        let batch = Batch::new().parse("mine", &format!("SELECT {number}")).sync();
        assert_eq!(ask(client, &batch, 1)[0], "ParseComplete", "client {number}");
    }
    for _ in 0..2 {
        for (number, client) in clients.iter_mut().enumerate() {
            let answer = ask(client, &Batch::new().bind("", "mine", &[]).execute("", 0).sync(), 1);
            assert_eq!(answer[1], format!("Row {number}"), "{answer:?}");
        }
    }
}

/// A client may leave before its server is asked: its texts are asked about when the next client sends them.
#[test]
fn in_auto_what_a_client_leaves_that_waits_for_no_answer_is_not_found_by_the_next() {
    let site = auto(1, "");
    site.superuser()
        .query_all("CREATE FUNCTION locks() RETURNS text LANGUAGE sql AS 'SELECT pg_advisory_lock(42)::text'")
        .unwrap();
    for round in 0..6 {
        let mut client = site.connect();
        let mut query = Vec::new();
        weir_pgwire::put_front::query(&mut query, b"SELECT locks()");
        client.send_bytes(&query).unwrap();
        drop(client);
        assert_eq!(site.connect().value(LOCKED).unwrap().as_deref(), Some("0"), "round {round}");
    }
}

/// A transaction of that kind waits until no other can harm it.
#[test]
fn in_auto_no_client_waits_for_transactions_of_others_for_being_asked_about() {
    let site = auto(1, "");
    let mut other = site.superuser();
    other.query("CREATE TABLE things (n int)").unwrap();
    other.query("BEGIN ISOLATION LEVEL SERIALIZABLE").unwrap();
    other.query("INSERT INTO things VALUES (1)").unwrap();
    let mut client = site.connect();
    client
        .query("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE")
        .unwrap();
    client.query("SET work_mem = '77MB'").unwrap();
    assert_eq!(client.value("SHOW work_mem").unwrap().as_deref(), Some("77MB"));
    other.query("ROLLBACK").unwrap();
}

/// No view lists such a setting: its name is in the function.
#[test]
fn in_auto_a_functions_setting_with_a_name_of_two_parts_stays_with_its_client() {
    let site = auto(3, "server_round_robin = true\nmax_pinned = 100");
    let mut superuser = site.superuser();
    superuser
        .query_all(
            "CREATE FUNCTION enters(tenant text) RETURNS text LANGUAGE sql AS $$SELECT set_config('my.Tenant', tenant, false)$$; \
             CREATE FUNCTION sets() RETURNS int LANGUAGE plpgsql AS 'BEGIN SET my.own TO ''x''; RETURN 1; END'; \
             CREATE FUNCTION begins() RETURNS text LANGUAGE sql AS $$SELECT set_config('my.transaction', 'x', true)$$; \
             CREATE FUNCTION usual() RETURNS text LANGUAGE sql AS $$SELECT set_config('my.usual', 'y', false) WHERE false$$; \
             ALTER ROLE app SET my.usual = 'of each session'",
        )
        .unwrap();
    let mut created = site.connect();
    for (number, sql) in ["SELECT enters('a')", "SELECT sets()", "BEGIN; SELECT sets(); COMMIT"].into_iter().enumerate()
    {
        let name = if number == 0 { "my.tenant" } else { "my.own" };
        let question = format!("SELECT coalesce(current_setting('{name}', true), '')");
        for round in 0..4 {
            let (mut client, mut other) = (site.connect(), site.connect());
            client.query_all(sql).unwrap();
            for _ in 0..3 {
                assert_ne!(client.value(&question).unwrap().as_deref(), Some(""), "{sql}, {round}: it is lost");
                assert_eq!(other.value(&question).unwrap().as_deref(), Some(""), "{sql}, {round}: another has it");
            }
        }
    }
    // What ends with a transaction, and what each session has from the start, keeps no server.
    let mut client = site.connect();
    client.query("SELECT begins()").unwrap();
    client.query("SELECT usual()").unwrap();
    let servers: std::collections::BTreeSet<_> = (0..6).map(|_| server(&mut client)).collect();
    assert!(servers.len() > 1, "the client keeps its server");
    // A function that was created since.
    created
        .query("CREATE FUNCTION later() RETURNS text LANGUAGE sql AS $$SELECT set_config('my.later', 'z', false)$$")
        .unwrap();
    let (mut client, mut other) = (site.connect(), site.connect());
    client.query("SELECT later()").unwrap();
    for _ in 0..3 {
        let question = "SELECT coalesce(current_setting('my.later', true), '')";
        assert_eq!(client.value(question).unwrap().as_deref(), Some("z"));
        assert_eq!(other.value(question).unwrap().as_deref(), Some(""));
    }
    superuser.query("ALTER ROLE app RESET my.usual").unwrap();
}
