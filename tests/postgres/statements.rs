//! Prepared statements where servers change their clients: shared, bounded, dropped in time.

use std::thread;
use std::time::Duration;

use weir_pgclient::Connection;
use weir_tests::{Batch, Mode, Rng, Setup, Site, ask, lines_of, read_until_ready};

everywhere!(
    a_statement_lives_as_long_as_its_client,
    a_failed_parse_leaves_no_statement,
    a_name_is_taken_until_it_is_closed,
    a_closed_statement_is_gone,
    deallocate_removes_one_statement_and_deallocate_all_every_one,
    discard_all_removes_every_statement,
    describe_alone_works_on_every_server,
    parse_within_a_failed_transaction_is_refused,
    a_statement_prepared_in_a_rolled_back_transaction_stays,
    a_changed_table_makes_one_error_at_most_and_the_statement_works_again,
    two_statements_with_one_text_and_other_types_are_two,
    sql_level_prepare_works_within_a_transaction,
    thousands_of_statements_work,
    a_parse_that_is_skipped_changes_nothing,
    statements_may_be_prepared_again_after_discard_all,
);

fn run(statement: &str, values: &[&str]) -> Batch {
    Batch::new().bind("", statement, values).execute("", 0).sync()
}

/// Makes the pool assign another server to the client: other clients take some and keep them for a moment.
fn others_take_servers(site: &Site, count: usize) -> Vec<Connection> {
    (0..count)
        .map(|_| {
            let mut other = site.connect();
            other.query("BEGIN").unwrap();
            other
        })
        .collect()
}

fn a_statement_lives_as_long_as_its_client(site: &Site) {
    let mut client = site.connect();
    let transcript = ask(&mut client, &Batch::new().parse("add", "SELECT $1::int + $2::int").sync(), 1);
    assert_eq!(transcript, ["ParseComplete", "Ready I"]);
    for taken in 0..4 {
        let others = others_take_servers(site, taken);
        let transcript = ask(&mut client, &run("add", &["40", "2"]), 1);
        assert_eq!(transcript, ["BindComplete", "Row 42", "Complete SELECT 1", "Ready I"], "{taken} servers taken");
        drop(others);
    }
}

fn a_failed_parse_leaves_no_statement(site: &Site) {
    let mut client = site.connect();
    for _ in 0..3 {
        let transcript = ask(&mut client, &Batch::new().parse("later", "SELECT * FROM later").sync(), 1);
        assert_eq!(transcript, ["Error 42P01 relation \"later\" does not exist", "Ready I"]);
        let transcript = ask(&mut client, &run("later", &[]), 1);
        assert_eq!(transcript, ["Error 26000 prepared statement \"later\" does not exist", "Ready I"]);
    }
    client.query("CREATE TABLE later AS SELECT 'now' AS what").unwrap();
    let batch = Batch::new().parse("later", "SELECT * FROM later").bind("", "later", &[]).execute("", 0).sync();
    assert_eq!(ask(&mut client, &batch, 1)[2], "Row now");
}

fn a_name_is_taken_until_it_is_closed(site: &Site) {
    let mut client = site.connect();
    let first = Batch::new().parse("s", "SELECT 'first'").sync();
    ask(&mut client, &first, 1);
    for sql in ["SELECT 'first'", "SELECT 'second'"] {
        let transcript = ask(&mut client, &Batch::new().parse("s", sql).sync(), 1);
        assert!(transcript[0].starts_with("Error 42P05 prepared statement"), "{transcript:?}");
        assert!(transcript[0].contains("already exists"), "{transcript:?}");
    }
    assert_eq!(ask(&mut client, &run("s", &[]), 1)[1], "Row first");
    let again = Batch::new().close_statement("s").parse("s", "SELECT 'second'").sync();
    assert_eq!(ask(&mut client, &again, 1), ["CloseComplete", "ParseComplete", "Ready I"]);
    assert_eq!(ask(&mut client, &run("s", &[]), 1)[1], "Row second");
}

fn a_closed_statement_is_gone(site: &Site) {
    let mut client = site.connect();
    let batch = Batch::new().parse("s", "SELECT 1").close_statement("s").close_statement("s").close_statement("never");
    let transcript = ask(&mut client, &batch.sync(), 1);
    assert_eq!(transcript, ["ParseComplete", "CloseComplete", "CloseComplete", "CloseComplete", "Ready I"]);
    for batch in [run("s", &[]), Batch::new().describe_statement("s").sync()] {
        assert_eq!(ask(&mut client, &batch, 1), ["Error 26000 prepared statement \"s\" does not exist", "Ready I"]);
    }
}

fn deallocate_removes_one_statement_and_deallocate_all_every_one(site: &Site) {
    let mut client = site.connect();
    let three = Batch::new().parse("a", "SELECT 'a'").parse("b", "SELECT 'b'").parse("Mixed Case", "SELECT 'c'").sync();
    ask(&mut client, &three, 1);
    assert_eq!(ask(&mut client, &Batch::new().query("DEALLOCATE a"), 1), ["Complete DEALLOCATE", "Ready I"]);
    assert!(ask(&mut client, &run("a", &[]), 1)[0].starts_with("Error 26000 prepared statement \"a\""));
    assert_eq!(ask(&mut client, &run("b", &[]), 1)[1], "Row b");
    let transcript = ask(&mut client, &Batch::new().query("DEALLOCATE PREPARE \"Mixed Case\""), 1);
    assert_eq!(transcript, ["Complete DEALLOCATE", "Ready I"]);
    assert!(ask(&mut client, &run("Mixed Case", &[]), 1)[0].starts_with("Error 26000"));
    let transcript = ask(&mut client, &Batch::new().query("DEALLOCATE a"), 1);
    assert_eq!(transcript, ["Error 26000 prepared statement \"a\" does not exist", "Ready I"]);
    assert_eq!(ask(&mut client, &Batch::new().query("DEALLOCATE ALL"), 1), ["Complete DEALLOCATE ALL", "Ready I"]);
    assert!(ask(&mut client, &run("b", &[]), 1)[0].starts_with("Error 26000"));
    assert_eq!(ask(&mut client, &three, 1)[..3], ["ParseComplete"; 3]);
    // As drivers do: by the extended protocol.
    let transcript = ask(&mut client, &Batch::new().run("DEALLOCATE a", &[]).sync(), 1);
    assert_eq!(transcript, ["ParseComplete", "BindComplete", "NoData", "Complete DEALLOCATE", "Ready I"]);
    assert!(ask(&mut client, &run("a", &[]), 1)[0].starts_with("Error 26000"));
    assert_eq!(ask(&mut client, &run("b", &[]), 1)[1], "Row b");
    ask(&mut client, &Batch::new().run("DEALLOCATE ALL", &[]).sync(), 1);
    assert!(ask(&mut client, &run("b", &[]), 1)[0].starts_with("Error 26000"));
}

fn discard_all_removes_every_statement(site: &Site) {
    let mut client = site.connect();
    let mut other = site.connect();
    ask(&mut other, &Batch::new().parse("o", "SELECT 'the other one'").sync(), 1);
    ask(&mut client, &Batch::new().parse("s", "SELECT 's'").sync(), 1);
    assert_eq!(ask(&mut client, &Batch::new().query("DISCARD ALL"), 1), ["Complete DISCARD ALL", "Ready I"]);
    assert!(ask(&mut client, &run("s", &[]), 1)[0].starts_with("Error 26000 prepared statement \"s\""));
    assert_eq!(ask(&mut other, &run("o", &[]), 1)[1], "Row the other one");
    ask(&mut client, &Batch::new().parse("s", "SELECT 'anew'").sync(), 1);
    assert_eq!(ask(&mut client, &run("s", &[]), 1)[1], "Row anew");
}

fn describe_alone_works_on_every_server(site: &Site) {
    // Incident: the wrong statement, or none, after a Describe alone.
    let mut client = site.connect();
    ask(&mut client, &Batch::new().parse("d", "SELECT $1::int AS a, $2::date AS b").sync(), 1);
    for taken in 0..4 {
        let others = others_take_servers(site, taken);
        let transcript = ask(&mut client, &Batch::new().describe_statement("d").sync(), 1);
        assert_eq!(transcript, ["Types 23,1082", "Columns a,b", "Ready I"]);
        drop(others);
    }
}

fn parse_within_a_failed_transaction_is_refused(site: &Site) {
    let mut client = site.connect();
    ask(&mut client, &Batch::new().parse("before", "SELECT 'before'").sync(), 1);
    ask(&mut client, &Batch::new().query("BEGIN").query("SELECT 1/0"), 2);
    for name in ["before2", "within"] {
        let transcript = ask(&mut client, &Batch::new().parse(name, "SELECT 'before'").sync(), 1);
        assert!(transcript[0].starts_with("Error 25P02"), "{transcript:?}");
        assert_eq!(transcript[1], "Ready E");
    }
    assert!(ask(&mut client, &run("before", &[]), 1)[0].starts_with("Error 25P02"));
    client.query("ROLLBACK").unwrap();
    assert!(ask(&mut client, &run("within", &[]), 1)[0].starts_with("Error 26000"));
    assert_eq!(ask(&mut client, &run("before", &[]), 1)[1], "Row before");
}

fn a_statement_prepared_in_a_rolled_back_transaction_stays(site: &Site) {
    let mut client = site.connect();
    ask(&mut client, &Batch::new().query("BEGIN").parse("kept", "SELECT 'kept'").sync().query("ROLLBACK"), 3);
    assert_eq!(ask(&mut client, &run("kept", &[]), 1)[1], "Row kept");
    let failing = Batch::new().parse("kept too", "SELECT 'too'").run("SELECT 1/$1::int", &["0"]).sync();
    ask(&mut client, &failing, 1);
    assert_eq!(ask(&mut client, &run("kept too", &[]), 1)[1], "Row too");
}

fn a_changed_table_makes_one_error_at_most_and_the_statement_works_again(site: &Site) {
    // SQLSTATE 0A000, "cached plan must not change result type". Directly it recurs for ever; a driver closes the
    // statement and prepares it again, under the same name or another.
    let mut client = site.connect();
    client.query("CREATE TABLE wide AS SELECT 1 AS a").unwrap();
    ask(&mut client, &Batch::new().parse("all", "SELECT * FROM wide").sync(), 1);
    assert_eq!(ask(&mut client, &run("all", &[]), 1)[1], "Row 1");
    client.query("ALTER TABLE wide ADD COLUMN b int DEFAULT 2").unwrap();
    let first = ask(&mut client, &run("all", &[]), 1);
    if site.keeps_sessions() {
        assert_eq!(first[0], "Error 0A000 cached plan must not change result type");
    }
    let again = Batch::new().close_statement("all").parse("all", "SELECT * FROM wide").sync();
    ask(&mut client, &again, 1);
    for taken in 0..4 {
        let others = others_take_servers(site, taken);
        assert_eq!(ask(&mut client, &run("all", &[]), 1)[1], "Row 1,2");
        drop(others);
    }
}

fn two_statements_with_one_text_and_other_types_are_two(site: &Site) {
    let mut client = site.connect();
    let sql = "SELECT $1 AS v, pg_typeof($1)";
    let batch = Batch::new().parse_typed("int", sql, &[23]).parse_typed("text", sql, &[25]).sync();
    ask(&mut client, &batch, 1);
    assert_eq!(ask(&mut client, &run("int", &["7"]), 1)[1], "Row 7,integer");
    assert_eq!(ask(&mut client, &run("text", &["7"]), 1)[1], "Row 7,text");
}

fn sql_level_prepare_works_within_a_transaction(site: &Site) {
    let mut client = site.connect();
    let sql = "BEGIN; PREPARE p (int) AS SELECT $1 + 1; EXECUTE p(41); DEALLOCATE p; COMMIT";
    let transcript = ask(&mut client, &Batch::new().query(sql), 1);
    assert!(transcript.contains(&"Row 42".to_owned()), "{transcript:?}");
    let mut client = site.connect();
    ask(&mut client, &Batch::new().query("BEGIN").query("PREPARE q AS SELECT 'q'"), 2);
    assert_eq!(ask(&mut client, &run("q", &[]), 1)[1], "Row q");
    assert_eq!(ask(&mut client, &Batch::new().query("DEALLOCATE q"), 1), ["Complete DEALLOCATE", "Ready T"]);
    client.query("COMMIT").unwrap();
}

fn thousands_of_statements_work(site: &Site) {
    let mut client = site.connect();
    let mut batch = Batch::new();
    for number in 0..2000 {
        batch = batch.parse(&format!("s{number}"), &format!("SELECT {number}"));
    }
    assert_eq!(ask(&mut client, &batch.sync(), 1).len(), 2001);
    let mut rng = Rng::new(7);
    for _ in 0..300 {
        let number = rng.below(2000);
        let transcript = ask(&mut client, &run(&format!("s{number}"), &[]), 1);
        assert_eq!(transcript[1], format!("Row {number}"));
    }
}

fn a_parse_that_is_skipped_changes_nothing(site: &Site) {
    let mut client = site.connect();
    ask(&mut client, &Batch::new().parse("kept", "SELECT 'kept'").sync(), 1);
    let failing = Batch::new().run("SELECT 1/$1::int", &["0"]);
    let batch = failing.parse("kept", "SELECT 'other'").parse("never", "SELECT 'never'").close_statement("kept").sync();
    ask(&mut client, &batch, 1);
    assert_eq!(ask(&mut client, &run("kept", &[]), 1)[1], "Row kept");
    let transcript = ask(&mut client, &Batch::new().parse("kept", "SELECT 'third'").sync(), 1);
    assert!(transcript[0].starts_with("Error 42P05"), "{transcript:?}");
    assert!(ask(&mut client, &run("never", &[]), 1)[0].starts_with("Error 26000"));
    let transcript = ask(&mut client, &Batch::new().parse("never", "SELECT 'now'").sync(), 1);
    assert_eq!(transcript, ["ParseComplete", "Ready I"]);
    assert_eq!(ask(&mut client, &run("never", &[]), 1)[1], "Row now");
}

fn statements_may_be_prepared_again_after_discard_all(site: &Site) {
    // Npgsql sends its DISCARD ALL before the next command, in one packet.
    for discard in ["DISCARD ALL", "DEALLOCATE ALL"] {
        let mut client = site.connect();
        ask(&mut client, &Batch::new().parse("s", "SELECT 'old'").parse("t", "SELECT 't'").sync(), 1);
        let batch = Batch::new().query(discard).parse("s", "SELECT 'new'").bind("", "s", &[]).execute("", 0).sync();
        let transcript = ask(&mut client, &batch.bind("", "t", &[]).execute("", 0).sync(), 3);
        assert_eq!(
            transcript[1..6],
            ["Ready I", "ParseComplete", "BindComplete", "Row new", "Complete SELECT 1"],
            "{discard}"
        );
        assert!(transcript[7].starts_with("Error 26000 prepared statement \"t\""), "{transcript:?}");
    }
}

fn cache_of(size: u32, servers: u32) -> Site {
    let setup = Setup::new(Mode::Transaction).size(servers);
    Site::with(setup.pool(&format!("max_prepared_statements = {size}")), Mode::Transaction)
}

#[test]
fn a_server_keeps_only_so_many_statements_and_every_client_has_all_of_its_own() {
    let site = cache_of(2, 1);
    let mut clients: Vec<_> = (0..3).map(|_| site.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        let mut batch = Batch::new();
        for statement in 0..5 {
            batch = batch.parse(&format!("s{statement}"), &format!("SELECT '{number}:{statement}:' || $1"));
        }
        assert_eq!(ask(client, &batch.sync(), 1).len(), 6);
    }
    let mut rng = Rng::seeded("statements");
    for round in 0..200 {
        let (number, statement) = (rng.below(3), rng.below(5));
        // Within one batch too, where an early Close could drop a statement that a later Bind needs.
        let second = rng.below(5);
        let batch = Batch::new()
            .bind("", &format!("s{statement}"), &[&round.to_string()])
            .execute("", 0)
            .bind("", &format!("s{second}"), &["again"])
            .describe_statement(&format!("s{statement}"))
            .execute("", 0)
            .sync();
        let transcript = ask(&mut clients[number], &batch, 1);
        assert_eq!(transcript[1], format!("Row {number}:{statement}:{round}"), "{transcript:?}");
        assert_eq!(transcript[6], format!("Row {number}:{second}:again"), "{transcript:?}");
        let kept = clients[number].value("SELECT count(*) FROM pg_prepared_statements").unwrap().unwrap();
        assert!(kept.parse::<u32>().unwrap() <= 2, "{kept} statements on a server that may have 2");
    }
}

#[test]
fn clients_share_what_is_prepared() {
    let site = cache_of(100, 1);
    for number in 0..20 {
        let mut client = site.connect();
        let batch = Batch::new().parse(&format!("my{number}"), "SELECT 'shared', $1::int").sync();
        assert_eq!(ask(&mut client, &batch, 1), ["ParseComplete", "Ready I"]);
        assert_eq!(ask(&mut client, &run(&format!("my{number}"), &["1"]), 1)[1], "Row shared,1");
    }
    let mut client = site.connect();
    let sql = "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%shared%'";
    assert_eq!(client.value(sql).unwrap().as_deref(), Some("1"));
    let stats = site.weir().show("STATS");
    let row = (0..stats.rows.len()).find(|row| stats.get(*row, "database") == Some("app")).unwrap();
    assert_eq!(stats.get(row, "total_client_parse_count"), Some("20"));
    assert_eq!(stats.get(row, "total_server_parse_count"), Some("1"));
}

#[test]
fn a_statement_that_cannot_be_prepared_again_is_an_error_and_the_batch_is_skipped() {
    // Prepared while the table existed, needed on another server when it does not.
    let site = Site::transaction(2);
    let mut client = site.connect();
    client.query("CREATE TABLE gone (n int)").unwrap();
    ask(&mut client, &Batch::new().parse("g", "SELECT * FROM gone").sync(), 1);
    let others = others_take_servers(&site, 1);
    client.query("DROP TABLE gone").unwrap();
    let batch = Batch::new().bind("", "g", &[]).execute("", 0).run("SELECT 'skipped'", &[]).sync();
    let transcript = ask(&mut client, &batch, 1);
    assert!(transcript[0].starts_with("Error 42P01") && transcript[1..] == ["Ready I"], "{transcript:?}");
    drop(others);
    client.query("CREATE TABLE gone (n int)").unwrap();
    let transcript = ask(&mut client, &run("g", &[]), 1);
    assert_eq!(transcript, ["BindComplete", "Complete SELECT 0", "Ready I"]);
}

#[test]
fn a_statement_works_again_after_its_table_changed_without_the_driver_doing_anything() {
    let site = Site::transaction(2);
    let mut client = site.connect();
    client.query("CREATE TABLE wide AS SELECT 1 AS a").unwrap();
    ask(&mut client, &Batch::new().parse("all", "SELECT * FROM wide").sync(), 1);
    for taken in [0, 1] {
        let others = others_take_servers(&site, taken);
        ask(&mut client, &run("all", &[]), 1);
        drop(others);
    }
    client.query("ALTER TABLE wide ADD COLUMN b int DEFAULT 2").unwrap();
    let mut errors = 0;
    for round in 0..8 {
        let others = others_take_servers(&site, round % 2);
        let transcript = ask(&mut client, &run("all", &[]), 1);
        if transcript[0].starts_with("Error 0A000") {
            errors += 1;
        } else {
            assert_eq!(transcript[1], "Row 1,2", "{transcript:?}");
        }
        drop(others);
    }
    assert!(errors <= 2, "{errors} errors on two servers");
}

#[test]
fn a_client_may_not_hold_more_statements_than_its_limit() {
    let setup = Setup::new(Mode::Transaction).pool("client_statements = 3");
    let site = Site::with(setup, Mode::Transaction);
    let mut client = site.connect();
    let three = Batch::new().parse("a", "SELECT 1").parse("b", "SELECT 2").parse("c", "SELECT 3").sync();
    ask(&mut client, &three, 1);
    client.send_bytes(Batch::new().parse("d", "SELECT 4").sync().bytes()).unwrap();
    let transcript = weir_tests::until_quiet(&mut client, Duration::from_secs(20));
    assert!(transcript[0].starts_with("Error 54000"), "{transcript:?}");
}

#[test]
fn an_unnamed_parse_of_twenty_megabytes_streams_and_a_named_one_is_refused() {
    let site = Site::transaction(1);
    let text = format!("SELECT length('{}')", "x".repeat(20 << 20));
    let mut client = site.connect();
    client.send_bytes(Batch::new().run(&text, &[]).sync().bytes()).unwrap();
    assert_eq!(lines_of(&read_until_ready(&mut client, 1))[3], format!("Row {}", 20 << 20));
    let mut client = site.connect();
    // The error may arrive, and the connection end, before all is sent.
    let _ = client.send_bytes(Batch::new().parse("named", &text).sync().bytes());
    let transcript = weir_tests::until_quiet(&mut client, Duration::from_secs(20));
    assert!(transcript.iter().any(|line| line.starts_with("Error 54000")), "{transcript:?}");
}

#[test]
fn many_clients_with_the_same_names_for_other_statements_are_kept_apart() {
    let site = cache_of(3, 3);
    thread::scope(|scope| {
        for number in 0..16 {
            let site = &site;
            scope.spawn(move || named_work(site, number));
        }
    });
}

fn named_work(site: &Site, number: usize) {
    let mut client = site.connect();
    let mut rng = Rng::new(number as u64);
    let mut version = [0; 4];
    let sql = |name: usize, version: i32| format!("SELECT 'c{number} s{name} v{version}', $1::text");
    for name in 0..4 {
        ask(&mut client, &Batch::new().parse(&format!("s{name}"), &sql(name, 0)).sync(), 1);
    }
    for round in 0..60 {
        let name = rng.below(4);
        let known = format!("s{name}");
        if rng.one_in(4) {
            version[name] += 1;
            let batch = Batch::new().close_statement(&known).parse(&known, &sql(name, version[name])).sync();
            assert_eq!(ask(&mut client, &batch, 1), ["CloseComplete", "ParseComplete", "Ready I"]);
        }
        let transcript = ask(&mut client, &run(&known, &[&round.to_string()]), 1);
        assert_eq!(transcript[1], format!("Row c{number} s{name} v{},{round}", version[name]), "{transcript:?}");
    }
}

#[test]
fn with_no_shared_statements_session_mode_still_prepares() {
    let setup = Setup::new(Mode::Session).pool("max_prepared_statements = 0");
    let site = Site::with(setup, Mode::Session);
    a_statement_lives_as_long_as_its_client(&site);
}
