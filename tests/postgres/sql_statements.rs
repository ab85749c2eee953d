//! Statements of the protocol that SQL names, wherever in a text: as with PostgreSQL alone. Other clients' are out of
//! its reach.

use weir_pgclient::Connection;
use weir_tests::{Batch, Mode, Setup, Site, ask};

everywhere!(
    a_driver_deallocates_its_statement_between_two_savepoints,
    what_a_text_deallocates_is_gone_as_far_as_the_text_has_run,
    sql_executes_a_statement_of_the_protocol,
    sql_prepares_no_second_statement_of_a_name,
    the_protocol_prepares_no_second_statement_of_a_name,
    a_name_that_begins_like_ours_is_a_name_like_any_other,
    a_prepared_text_names_statements_too,
    strings_end_where_the_clients_settings_say,
);

/// The answer to a query, without columns, and without the warnings about state that is lost.
fn query(client: &mut Connection, sql: &str) -> Vec<String> {
    let replies = ask(client, &Batch::new().query(sql), 1);
    replies.into_iter().filter(|line| !line.starts_with("Columns ") && !line.starts_with("Notice ")).collect()
}

fn parse(client: &mut Connection, name: &str, sql: &str) {
    assert_eq!(ask(client, &Batch::new().parse(name, sql).sync(), 1)[0], "ParseComplete", "{name}");
}

fn run(client: &mut Connection, name: &str) -> String {
    let replies = ask(client, &Batch::new().bind("", name, &[]).execute("", 0).sync(), 1);
    replies.get(usize::from(replies[0] == "BindComplete")).cloned().unwrap_or_default()
}

fn missing(name: &str) -> String {
    format!("Error 26000 prepared statement \"{name}\" does not exist")
}

/// What psqlODBC does.
fn a_driver_deallocates_its_statement_between_two_savepoints(site: &Site) {
    let mut client = site.connect();
    for round in 0..3 {
        query(&mut client, "BEGIN");
        parse(&mut client, "_PLAN0x1", &format!("SELECT {round}"));
        assert_eq!(run(&mut client, "_PLAN0x1"), format!("Row {round}"));
        let replies = query(&mut client, "SAVEPOINT s;DEALLOCATE \"_PLAN0x1\";RELEASE s");
        assert_eq!(replies, ["Complete SAVEPOINT", "Complete DEALLOCATE", "Complete RELEASE", "Ready T"]);
        query(&mut client, if round == 1 { "ROLLBACK" } else { "COMMIT" });
    }
    assert_eq!(run(&mut client, "_PLAN0x1"), missing("_PLAN0x1"));
}

fn what_a_text_deallocates_is_gone_as_far_as_the_text_has_run(site: &Site) {
    let mut client = site.connect();
    for name in ["a", "b", "c", "Mixed Case"] {
        parse(&mut client, name, &format!("SELECT '{name}'"));
    }
    let replies = query(&mut client, "DEALLOCATE a; SELECT 1/0; DEALLOCATE b");
    assert_eq!(replies, ["Complete DEALLOCATE", "Error 22012 division by zero", "Ready I"]);
    assert_eq!((run(&mut client, "a"), run(&mut client, "b")), (missing("a"), "Row b".into()));
    let replies = query(&mut client, "SELECT 1; DEALLOCATE PREPARE B -- not c\n; DEALLOCATE b; DEALLOCATE c");
    assert_eq!(
        replies,
        ["Row 1", "Complete SELECT 1", "Complete DEALLOCATE", &missing("b"), "Ready I"].map(String::from)[..]
    );
    assert_eq!(run(&mut client, "c"), "Row c");
    // In a failed transaction it is refused, and behind a ROLLBACK it is not.
    query(&mut client, "BEGIN");
    query(&mut client, "SELECT 1/0");
    assert!(query(&mut client, "/* */ DEALLOCATE c")[0].starts_with("Error 25P02"));
    assert_eq!(query(&mut client, "ROLLBACK; DEALLOCATE c"), ["Complete ROLLBACK", "Complete DEALLOCATE", "Ready I"]);
    assert_eq!(run(&mut client, "c"), missing("c"));
    assert_eq!(run(&mut client, "Mixed Case"), "Row Mixed Case");
    let replies = query(&mut client, "SELECT 1 WHERE false; DEALLOCATE ALL; EXECUTE \"Mixed Case\"");
    let gone = ["Complete SELECT 0", "Complete DEALLOCATE ALL", &missing("Mixed Case"), "Ready I"];
    assert_eq!(replies, gone);
    assert_eq!(run(&mut client, "Mixed Case"), missing("Mixed Case"));
}

fn sql_executes_a_statement_of_the_protocol(site: &Site) {
    let mut client = site.connect();
    parse(&mut client, "add", "SELECT $1::int + $2::int AS sum");
    parse(&mut client, "none", "SELECT FROM pg_class WHERE false");
    for taken in 0..4 {
        let others: Vec<_> = (0..taken).map(|_| site.connect()).collect();
        let mut others = others;
        others.iter_mut().for_each(|other| drop(query(other, "BEGIN")));
        assert_eq!(query(&mut client, "EXECUTE add(40, 2)"), ["Row 42", "Complete SELECT 1", "Ready I"]);
        let replies = query(&mut client, "BEGIN; EXECUTE Add(1, 1); SELECT 3; EXECUTE none; COMMIT");
        let want = ["Complete BEGIN", "Row 2", "Complete SELECT 1", "Row 3", "Complete SELECT 1", "Complete SELECT 0"];
        assert_eq!(replies, [&want[..], &["Complete COMMIT", "Ready I"]].concat());
        let replies = query(&mut client, "CREATE TEMP TABLE t ON COMMIT DROP AS EXECUTE add(1, 2)");
        assert_eq!(replies, ["Complete SELECT 1", "Ready I"]);
        assert!(query(&mut client, "EXPLAIN (COSTS OFF) EXECUTE add(1, 2)")[0].starts_with("Row Result"));
    }
    assert_eq!(query(&mut client, "EXECUTE other"), [&*missing("other"), "Ready I"]);
}

fn sql_prepares_no_second_statement_of_a_name(site: &Site) {
    let mut client = site.connect();
    parse(&mut client, "s", "SELECT 'first'");
    let replies = query(&mut client, "SELECT 1; PREPARE s AS SELECT 'second'");
    assert_eq!(replies[2..], ["Error 42P05 prepared statement \"s\" already exists", "Ready I"]);
    let replies =
        query(&mut client, "BEGIN; DEALLOCATE s; PREPARE s AS SELECT 'second'; EXECUTE s; DEALLOCATE s; COMMIT");
    assert_eq!(replies[3..5], ["Row second", "Complete SELECT 1"]);
    assert_eq!(run(&mut client, "s"), missing("s"));
}

/// In one pipeline, and in a transaction, as what SQL prepares ends with it in mode transaction.
fn the_protocol_prepares_no_second_statement_of_a_name(site: &Site) {
    let taken = |name: &str| format!("Error 42P05 prepared statement \"{name}\" already exists");
    let long = "x".repeat(70);
    for name in ["s", "weir_x", "Ab c", &*long] {
        for sql in [
            format!("PREPARE \"{name}\" AS SELECT 'first'"),
            format!("DO $$BEGIN EXECUTE 'PREPARE \"{name}\" AS SELECT 1'; END$$"),
        ] {
            if name == "weir_x" && sql.starts_with("DO") {
                continue;
            }
            let mut client = site.connect();
            let begin = Batch::new().query("BEGIN").query(&sql);
            let replies = ask(&mut client, &begin.parse(name, "SELECT 'second'").sync(), 3);
            assert_eq!(replies[replies.len() - 2..], [&*taken(name), "Ready E"], "{sql}: {replies:?}");
            assert_eq!(query(&mut client, "ROLLBACK"), ["Complete ROLLBACK", "Ready I"]);
            let begin = Batch::new().query(&format!("BEGIN; DEALLOCATE ALL; {sql}"));
            ask(&mut client, &begin, 1);
            // An error in the text comes first.
            let replies = ask(&mut client, &Batch::new().parse(name, "SELECT nothing").sync(), 1);
            assert!(replies[0].starts_with("Error 42703"), "{replies:?}");
            ask(&mut client, &Batch::new().query("ROLLBACK; BEGIN"), 1);
            if name == "weir_x" {
                // A Close of such a name reaches nothing that SQL has prepared.
                continue;
            }
            // Closed, it is free again.
            let close = Batch::new()
                .query(&format!("DEALLOCATE ALL; {sql}"))
                .close_statement(name)
                .parse(name, "SELECT 'second'");
            let replies = ask(&mut client, &close.bind("", name, &[]).execute("", 0).sync(), 2);
            assert!(replies.contains(&"Row second".to_owned()), "{sql}: {replies:?}");
            assert_eq!(query(&mut client, "COMMIT"), ["Complete COMMIT", "Ready I"]);
            assert_eq!(run(&mut client, name), "Row second");
        }
    }
}

fn a_name_that_begins_like_ours_is_a_name_like_any_other(site: &Site) {
    let mut client = site.connect();
    let long = format!("weir_{}", "x".repeat(90));
    for name in ["weir_x", "\"weir_\"\"X\"", "WEIR_00000000000000000000000000000000", "U&\"w\\0065ir_y\"", &long] {
        let text = format!("BEGIN; PREPARE {name} AS SELECT 'own'; EXECUTE {name}; DEALLOCATE {name}; COMMIT");
        let replies = query(&mut client, &text);
        assert_eq!(replies[2..5], ["Row own", "Complete SELECT 1", "Complete DEALLOCATE"], "{name}");
    }
    for (name, shown) in [("Weir_x", "weir_x"), ("\"weir_A b\"", "weir_A b")] {
        for verb in ["EXECUTE", "DEALLOCATE", "SELECT 1 WHERE false; DEALLOCATE", "EXPLAIN EXECUTE"] {
            let replies = query(&mut client, &format!("{verb} {name}"));
            assert_eq!(replies[replies.len() - 2..], [&*missing(shown), "Ready I"], "{verb}");
        }
        let replies = ask(&mut client, &Batch::new().run(&format!("EXECUTE {name}"), &[]).sync(), 1);
        assert!(replies.contains(&missing(shown)), "{replies:?}");
    }
}

fn a_prepared_text_names_statements_too(site: &Site) {
    let mut client = site.connect();
    parse(&mut client, "s", "SELECT 'one' AS what");
    parse(&mut client, "e", "EXECUTE s");
    for _ in 0..2 {
        assert_eq!(run(&mut client, "e"), "Row one");
        let replies = ask(&mut client, &Batch::new().describe_statement("e").sync(), 1);
        assert!(replies.iter().any(|line| line.starts_with("Columns")), "{replies:?}");
        let replies = ask(&mut client, &Batch::new().run("EXECUTE s", &[]).run("EXPLAIN EXECUTE s", &[]).sync(), 1);
        assert!(
            replies.contains(&"Row one".to_owned()) && replies.iter().any(|line| line.starts_with("Row Result")),
            "{replies:?}"
        );
    }
    let replies = ask(&mut client, &Batch::new().run("PREPARE s AS SELECT 2", &[]).sync(), 1);
    assert!(replies.contains(&"Error 42P05 prepared statement \"s\" already exists".to_owned()), "{replies:?}");
    ask(&mut client, &Batch::new().run("DEALLOCATE s", &[]).sync(), 1);
    assert_eq!(run(&mut client, "e"), missing("s"));
}

fn strings_end_where_the_clients_settings_say(site: &Site) {
    let mut client = site.connect();
    for (setting, text) in [("on", "SELECT '\\'; DEALLOCATE a; --'"), ("off", "SELECT '\\'; DEALLOCATE a; --'")] {
        parse(&mut client, "a", "SELECT 'a'");
        let replies = query(&mut client, &format!("BEGIN; SET LOCAL standard_conforming_strings = {setting}"));
        assert_eq!(replies[replies.len() - 1], "Ready T");
        let replies = query(&mut client, text);
        assert_eq!(replies.contains(&"Complete DEALLOCATE".to_owned()), setting == "on", "{replies:?}");
        query(&mut client, "COMMIT");
        assert_eq!(run(&mut client, "a"), if setting == "on" { missing("a") } else { "Row a".into() });
        query(&mut client, "DEALLOCATE ALL");
    }
}

/// The names of the shared statements on a server, as SQL shows them.
const SHARED: &str = "SELECT name FROM pg_prepared_statements WHERE statement LIKE 'SELECT _shared_' LIMIT 1";

#[test]
fn no_sql_of_one_client_drops_the_statements_of_another() {
    let site = Site::with(Setup::new(Mode::Transaction).size(1), Mode::Transaction);
    let mut victim = site.connect();
    parse(&mut victim, "s", "SELECT 'shared'");
    let mut other = site.connect();
    let name = other.value(SHARED).unwrap().expect("it is there");
    let long = format!("SELECT '{}'; DEALLOCATE {name}", "x".repeat(20_000));
    let escaped = name.replace('_', "\\005f");
    for sql in [
        format!("DEALLOCATE {name}"),
        format!("DEALLOCATE PREPARE \"{name}\"; SELECT 1"),
        format!("SELECT 1; /* */ deallocate {} ;", name.to_uppercase()),
        format!("BEGIN; DEALLOCATE U&\"{escaped}\"; COMMIT"),
        format!("PREPARE {name} AS SELECT 'other'"),
        format!("DO $$ BEGIN EXECUTE 'DEALLOCATE {name}'; END $$"),
        long,
    ] {
        query(&mut other, &sql);
        query(&mut other, "ROLLBACK");
        assert_eq!(run(&mut victim, "s"), "Row shared", "{sql}");
        ask(&mut other, &Batch::new().run(&sql, &[]).sync(), 1);
        assert_eq!(run(&mut victim, "s"), "Row shared", "{sql}, prepared");
    }
}

/// What a function does is seen only afterwards.
#[test]
fn a_server_whose_statements_a_function_has_dropped_is_found_out_once() {
    let site = Site::with(Setup::new(Mode::Transaction).size(1), Mode::Transaction);
    let mut victim = site.connect();
    for name in ["s", "t"] {
        parse(&mut victim, name, if name == "s" { "SELECT 'shared'" } else { "SELECT 'too'" });
    }
    let mut other = site.connect();
    let create = "CREATE FUNCTION drop_all_of_them() RETURNS int LANGUAGE plpgsql AS $f$
        DECLARE one text;
        BEGIN
            FOR one IN SELECT name FROM pg_prepared_statements WHERE name LIKE 'weir%' LOOP
                EXECUTE format('DEALLOCATE %I', one);
            END LOOP;
            RETURN 1;
        END $f$";
    other.query(create).unwrap();
    parse(&mut victim, "u", "SELECT 'shared'");
    assert_eq!(run(&mut victim, "t"), "Row too");
    let server = victim.value("SELECT pg_backend_pid()").unwrap();
    query(&mut other, "SELECT drop_all_of_them()");
    assert_eq!(run(&mut victim, "t"), missing("t"));
    assert_eq!((run(&mut victim, "t"), run(&mut victim, "s")), ("Row too".into(), "Row shared".into()));
    assert_ne!(victim.value("SELECT pg_backend_pid()").unwrap(), server, "it is not used again");
}

#[test]
fn an_error_that_a_function_raises_says_nothing_of_the_statements() {
    let site = Site::with(Setup::new(Mode::Transaction).size(1), Mode::Transaction);
    let mut victim = site.connect();
    parse(&mut victim, "s", "SELECT 'shared'");
    let mut other = site.connect();
    let create = "CREATE FUNCTION fail_as(code text, message text) RETURNS int LANGUAGE plpgsql AS $f$
        BEGIN RAISE EXCEPTION USING errcode = code, message = message; END $f$";
    other.query(create).unwrap();
    parse(&mut victim, "s2", "SELECT 'shared'");
    assert_eq!(run(&mut victim, "s2"), "Row shared");
    let name = other.value(SHARED).unwrap().expect("it is there");
    let server = victim.value("SELECT pg_backend_pid()").unwrap();
    for (code, text) in
        [("26000", "does not exist"), ("42P05", "already exists"), ("0A000", "cached plan must not change")]
    {
        let raise = format!("SELECT fail_as('{code}', 'prepared statement \"{name}\" {text}')");
        ask(&mut other, &Batch::new().query(&raise), 1);
        assert_eq!(run(&mut victim, "s2"), "Row shared", "{code}");
        assert_eq!(victim.value("SELECT pg_backend_pid()").unwrap(), server, "{code}");
    }
}
