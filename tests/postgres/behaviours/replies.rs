//! Behaviours 6 to 9: prepared statements, pipelines, COPY, and the commands that clear caches.

use std::thread;

use weir_pgclient::Connection;
use weir_tests::{Batch, Ini, Mode, Site, ask, eventually, lines_of, read_until_ready};

use super::{SHARING, await_free, server, tapped};

fn run(statement: &str, values: &[&str]) -> Batch {
    Batch::new().bind("", statement, values).execute("", 0).sync()
}

/// The texts of the statements that the client's server has, and their names.
fn prepared(client: &mut Connection) -> Vec<(String, String)> {
    let sql = "SELECT name, statement FROM pg_prepared_statements WHERE NOT from_sql ORDER BY prepare_time";
    let answer = client.query(sql).unwrap();
    let text = |row: usize, column| answer.get(row, column).unwrap_or_default().to_owned();
    (0..answer.rows.len()).map(|row| (text(row, "name"), text(row, "statement"))).collect()
}

#[test]
fn behaviour_06_a_statement_has_one_identity_and_a_generated_name_on_the_server() {
    for mode in SHARING {
        let (site, tap) = tapped(Ini::of(mode).set("default_pool_size", 1));
        let (mut one, mut two) = (site.connect(), site.connect());
        for (client, name) in [(&mut one, "own"), (&mut two, "another")] {
            ask(client, &Batch::new().parse(name, "SELECT $1::int + 1").sync(), 1);
            assert_eq!(ask(client, &run(name, &["1"]), 1)[1], "Row 2", "{mode}");
        }
        let there = prepared(&mut one);
        assert_eq!(there.len(), 1, "one text is one statement: {there:?}");
        assert!(!["own", "another"].contains(&there[0].0.as_str()), "{there:?}");
        let parses = |text: &str| tap.sent().iter().filter(|line| line.ends_with(&format!(": {text}"))).count();
        assert_eq!(parses("SELECT $1::int + 1"), 1, "{:?}", tap.sent());
        // Another parameter type makes another statement.
        ask(&mut two, &Batch::new().parse_typed("typed", "SELECT $1 + 1", &[23]).sync(), 1);
        ask(&mut one, &Batch::new().parse_typed("typed", "SELECT $1 + 1", &[1700]).sync(), 1);
        assert_eq!(ask(&mut two, &run("typed", &["1"]), 1)[1], "Row 2");
        assert_eq!(ask(&mut one, &run("typed", &["1.5"]), 1)[1], "Row 2.5");
        assert_eq!(prepared(&mut one).len(), 3);
    }
}

#[test]
fn behaviour_06_a_server_keeps_the_statements_used_last() {
    for mode in SHARING {
        let site = Site::ini(&Ini::of(mode).set("default_pool_size", 1).set("max_prepared_statements", 2));
        let mut client = site.connect();
        for number in 0..3 {
            ask(&mut client, &Batch::new().parse(&format!("s{number}"), &format!("SELECT {number}")).sync(), 1);
        }
        for name in ["s0", "s1", "s0", "s2"] {
            assert_eq!(ask(&mut client, &run(name, &[]), 1)[1], format!("Row {}", &name[1..]));
        }
        let there: Vec<_> = prepared(&mut client).into_iter().map(|(_, text)| text).collect();
        assert_eq!(there.len(), 2, "{there:?}");
        assert!(there.contains(&"SELECT 0".to_owned()) && there.contains(&"SELECT 2".to_owned()), "{there:?}");
        // The client still has all of its own.
        assert_eq!(ask(&mut client, &run("s1", &[]), 1)[1], "Row 1");
    }
}

#[test]
fn behaviour_06_a_named_close_is_answered_locally() {
    for mode in SHARING {
        let (site, tap) = tapped(Ini::of(mode).set("default_pool_size", 1));
        let mut client = site.connect();
        let transcript =
            ask(&mut client, &Batch::new().parse("s", "SELECT 's'").bind("", "s", &[]).execute("", 0).sync(), 1);
        assert_eq!(transcript[2], "Row s");
        let transcript = ask(&mut client, &Batch::new().close_statement("s").sync(), 1);
        assert_eq!(transcript, ["CloseComplete", "Ready I"]);
        assert!(!tap.sent().iter().any(|line| line.starts_with("Close ")), "{:?}", tap.sent());
        assert_eq!(prepared(&mut client).len(), 1, "the server keeps it for the next client that prepares it");
        let transcript = ask(&mut client, &run("s", &[]), 1);
        assert!(transcript[0].starts_with("Error 26000"), "for the client it is gone: {transcript:?}");
    }
}

#[test]
fn behaviour_06_a_failed_parse_is_forgotten() {
    for mode in SHARING {
        let site = Site::ini(&Ini::of(mode).set("default_pool_size", 1));
        let (mut one, mut two) = (site.connect(), site.connect());
        let prepare = Batch::new().parse("s", "SELECT n FROM later").sync();
        for client in [&mut one, &mut two] {
            let transcript = ask(client, &prepare, 1);
            assert!(transcript[0].starts_with("Error 42P01"), "{transcript:?}");
            let transcript = ask(client, &run("s", &[]), 1);
            assert!(transcript[0].starts_with("Error 26000"), "{transcript:?}");
        }
        two.query("CREATE TABLE later AS SELECT 7 AS n").unwrap();
        for client in [&mut one, &mut two] {
            assert_eq!(ask(client, &prepare, 1), ["ParseComplete", "Ready I"]);
            assert_eq!(ask(client, &run("s", &[]), 1)[1], "Row 7");
        }
    }
}

#[test]
fn behaviour_06_without_a_cache_names_are_the_clients_own() {
    let site = Site::ini(&Ini::new().set("max_prepared_statements", 0));
    let mut client = site.connect();
    ask(&mut client, &Batch::new().parse("by its name", "SELECT 's'").sync(), 1);
    assert_eq!(ask(&mut client, &run("by its name", &[]), 1)[1], "Row s");
    assert_eq!(prepared(&mut client)[0].0, "by its name");
}

#[test]
fn behaviour_07_a_server_is_released_only_without_pending_replies() {
    let (site, tap) = tapped(Ini::transaction(1));
    let (mut client, mut other) = (site.connect(), site.connect());
    // The server is ready after the first part, and its replies to the second are pending.
    let batch = Batch::new()
        .query("SELECT 'first'")
        .run("SELECT 'second' FROM pg_sleep(0.6)", &[])
        .sync()
        .query("SELECT 'third'");
    client.send_bytes(batch.bytes()).unwrap();
    super::await_busy(&site, 1);
    thread::scope(|scope| {
        let query = scope.spawn(|| other.value("SELECT 'another client'").unwrap());
        let transcript = lines_of(&read_until_ready(&mut client, 3));
        let rows: Vec<_> = transcript.iter().filter(|line| line.starts_with("Row")).map(String::as_str).collect();
        assert_eq!(rows, ["Row first", "Row second", "Row third"]);
        assert_eq!(query.join().unwrap().as_deref(), Some("another client"));
    });
    let sent = tap.sent();
    let place = |text: &str| sent.iter().position(|line| line.ends_with(text)).expect("it was run");
    assert!(place("SELECT 'third'") < place("SELECT 'another client'"), "{sent:?}");
}

#[test]
fn behaviour_07_after_an_error_the_replies_up_to_the_sync_are_skipped_in_order() {
    for mode in [Mode::Session, Mode::Transaction, Mode::Statement] {
        let site = Site::ini(&Ini::of(mode).set("default_pool_size", 1));
        let mut client = site.connect();
        ask(&mut client, &Batch::new().parse("known", "SELECT 'known'").sync(), 1);
        let batch = Batch::new()
            .run("SELECT 1", &[])
            .run("SELECT 1/$1::int", &["0"])
            // All of this is skipped, also requests that Weir answers itself.
            .parse("known too", "SELECT 'known'")
            .close_statement("known")
            .bind("", "known", &[])
            .execute("", 0)
            .sync()
            .bind("", "known", &[])
            .execute("", 0)
            .sync();
        let transcript = ask(&mut client, &batch, 2);
        let wanted = [
            "ParseComplete",
            "BindComplete",
            "Columns ?column?",
            "Row 1",
            "Complete SELECT 1",
            // PostgreSQL divides during planning, at the Bind.
            "ParseComplete",
            "Error 22012 division by zero",
            "Ready I",
            "BindComplete",
            "Row known",
            "Complete SELECT 1",
            "Ready I",
        ];
        assert_eq!(transcript, wanted, "{mode}");
        await_or_keep(&site, mode);
    }
}

/// The pool of one is free for others if the client keeps nothing.
fn await_or_keep(site: &Site, mode: Mode) {
    if mode != Mode::Session {
        await_free(site);
        assert_eq!(site.connect().value("SELECT 'free'").unwrap().as_deref(), Some("free"));
    }
}

#[test]
fn behaviour_07_replies_made_locally_keep_their_place() {
    for mode in SHARING {
        let site = Site::ini(&Ini::of(mode).set("default_pool_size", 1));
        let (mut other, mut client) = (site.connect(), site.connect());
        ask(&mut other, &Batch::new().parse("theirs", "SELECT 'shared'").sync(), 1);
        let batch = Batch::new()
            .run("SELECT 'before'", &[])
            // The server has it, so Weir answers it.
            .parse("s", "SELECT 'shared'")
            .bind("", "s", &[])
            .execute("", 0)
            .close_statement("s")
            .parse("s", "SELECT 'new'")
            .describe_statement("s")
            .close_statement("never there")
            .bind("", "s", &[])
            .execute("", 0)
            .sync();
        let transcript = ask(&mut client, &batch, 1);
        let wanted = [
            "ParseComplete",
            "BindComplete",
            "Columns ?column?",
            "Row before",
            "Complete SELECT 1",
            "ParseComplete",
            "BindComplete",
            "Row shared",
            "Complete SELECT 1",
            "CloseComplete",
            "ParseComplete",
            "Types ",
            "Columns ?column?",
            "CloseComplete",
            "BindComplete",
            "Row new",
            "Complete SELECT 1",
            "Ready I",
        ];
        assert_eq!(transcript, wanted, "{mode}");
    }
}

fn items(site: &Site) -> Connection {
    let mut client = site.connect();
    client.query("CREATE TABLE items (id int PRIMARY KEY, name text)").unwrap();
    client
}

#[test]
fn behaviour_08_an_error_during_copy_in_drains_to_its_end() {
    for mode in [Mode::Session, Mode::Transaction, Mode::Statement] {
        for failing in [false, true] {
            let site = Site::ini(&Ini::of(mode).set("default_pool_size", 1));
            let mut client = items(&site);
            let own = server(&mut client);
            let mut batch = Batch::new().query("COPY items FROM STDIN").copy_data("1\tone\nnot a number\ttwo\n");
            for id in 10..3000 {
                batch = batch.copy_data(&format!("{id}\tlate\n"));
            }
            let batch = if failing { batch.copy_fail("given up") } else { batch.copy_done() };
            let transcript = ask(&mut client, &batch.query("SELECT count(*) FROM items"), 2);
            assert!(transcript[0] == "CopyIn" && transcript[1].starts_with("Error 22P02"), "{transcript:?}");
            assert_eq!(
                transcript[2..],
                ["Ready I", "Columns count", "Row 0", "Complete SELECT 1", "Ready I"],
                "{mode}"
            );
            if mode != Mode::Session {
                await_free(&site);
                assert_eq!(server(&mut site.connect()), own, "the server is free, and the same");
            }
        }
    }
}

#[test]
fn behaviour_08_late_copy_data_and_copy_done_are_discarded_and_open_no_request() {
    for mode in [Mode::Session, Mode::Transaction, Mode::Statement] {
        let (site, tap) = tapped(Ini::of(mode).set("default_pool_size", 1));
        let mut client = items(&site);
        let own = server(&mut client);
        let transcript = ask(&mut client, &Batch::new().query("COPY items FROM STDIN").copy_data("x\n"), 1);
        assert!(transcript[1].starts_with("Error 22P02"), "{transcript:?}");
        if mode != Mode::Session {
            await_free(&site);
        }
        // The COPY is over; its late messages must not take a server, nor wait for an answer.
        client.send_bytes(Batch::new().copy_data("late\n").copy_data("later\n").copy_done().bytes()).unwrap();
        thread::sleep(super::SHORT);
        if mode != Mode::Session {
            assert_eq!(site.weir().pool("app").get("sv_active"), 0, "{mode}");
        }
        assert_eq!(ask(&mut client, &Batch::new().query("SELECT 'after'"), 1)[1], "Row after");
        assert_eq!(server(&mut client), own);
        // The server would ignore them: without an open COPY they never reach it in these modes.
        if mode != Mode::Session {
            let late = tap.sent().iter().filter(|line| *line == "d").count();
            assert_eq!(late, 1, "only the data within the COPY: {:?}", tap.sent());
        }
    }
}

#[test]
fn behaviour_09_discard_all_and_deallocate_all_clear_the_caches() {
    for command in ["DISCARD ALL", "DEALLOCATE ALL", "discard  all", "/* tidy */ DEALLOCATE PREPARE ALL"] {
        for extended in [false, true] {
            let site = Site::ini(&Ini::transaction(1));
            let (mut client, mut other) = (site.connect(), site.connect());
            for client in [&mut client, &mut other] {
                ask(client, &Batch::new().parse("s", "SELECT 'still known'").sync(), 1);
                assert_eq!(ask(client, &run("s", &[]), 1)[1], "Row still known");
            }
            let batch = if extended { Batch::new().run(command, &[]).sync() } else { Batch::new().query(command) };
            let transcript = ask(&mut client, &batch, 1);
            assert!(!transcript.iter().any(|line| line.starts_with("Error")), "{command}: {transcript:?}");
            let left = prepared(&mut client);
            assert!(left.iter().all(|(_, text)| text != "SELECT 'still known'"), "{command}: {left:?}");
            let transcript = ask(&mut client, &run("s", &[]), 1);
            assert!(transcript[0].starts_with("Error 26000"), "{command}: for its client it is gone: {transcript:?}");
            // Other clients are not affected: their statement is prepared again on demand.
            assert_eq!(ask(&mut other, &run("s", &[]), 1)[1], "Row still known", "{command}");
            ask(&mut client, &Batch::new().parse("s", "SELECT 'made anew'").sync(), 1);
            assert_eq!(ask(&mut client, &run("s", &[]), 1)[1], "Row made anew", "{command}");
        }
    }
}

#[test]
fn behaviour_09_commands_that_clear_the_caches_are_recognised_by_their_tag() {
    let site = Site::ini(&Ini::transaction(1));
    site.connect().query("CREATE FUNCTION tidy() RETURNS void LANGUAGE sql AS 'SELECT 1'").unwrap();
    for command in ["SELECT 1; DEALLOCATE ALL; SELECT 2", "SELECT tidy(); DEALLOCATE ALL"] {
        let mut client = site.connect();
        ask(&mut client, &Batch::new().parse("s", "SELECT 'seen'").sync(), 1);
        assert_eq!(ask(&mut client, &run("s", &[]), 1)[1], "Row seen");
        client.query_all(command).unwrap();
        let transcript = ask(&mut client, &run("s", &[]), 1);
        assert!(transcript[0].starts_with("Error 26000"), "{command}: {transcript:?}");
        ask(&mut client, &Batch::new().parse("s", "SELECT 'seen'").sync(), 1);
        assert_eq!(ask(&mut client, &run("s", &[]), 1)[1], "Row seen", "{command}");
        eventually("it is free", || match site.weir().pool("app").get("sv_active") {
            0 => Ok(()),
            other => Err(other),
        });
    }
}
