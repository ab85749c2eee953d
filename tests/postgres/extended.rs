//! The extended protocol: pipelines, Flush, portals, the unnamed statement.

use std::time::Duration;

use weir_tests::{Batch, Site, ask, lines_of, read_until_ready, until_quiet};

everywhere!(
    a_query_with_parameters_is_answered_message_by_message,
    a_pipeline_of_a_thousand_queries_in_one_packet_is_answered_in_order,
    after_an_error_everything_up_to_the_sync_is_skipped,
    each_sync_of_a_pipeline_has_its_own_ready,
    a_flush_brings_what_is_there_without_a_ready,
    a_portal_hands_out_its_rows_in_portions,
    a_portal_outlives_a_flush_and_dies_with_its_transaction,
    the_unnamed_statement_outlives_a_sync,
    the_unnamed_statement_is_replaced_by_the_next_and_dropped_by_a_query,
    the_unnamed_statement_of_another_is_never_seen,
    describe_tells_types_and_columns,
    a_transaction_over_several_syncs_stays_together,
    an_implicit_transaction_of_a_pipeline_is_rolled_back_as_a_whole,
    a_query_between_extended_messages_keeps_its_place,
    bind_errors_are_the_servers_own,
    a_bind_of_many_megabytes_arrives_whole,
);

#[test]
fn a_flush_behind_a_sync_keeps_no_server() {
    let site = Site::transaction(1);
    let (mut client, mut other) = (site.connect(), site.connect());
    // As libpq ends a pipeline that has failed.
    for run in [Batch::new().run("SELECT 1", &[]), Batch::new().run("SELECT 1/0", &[])] {
        ask(&mut client, &run.clone().sync().flush(), 1);
        other.query("SELECT 1").unwrap();
        ask(&mut client, &run.sync(), 1);
        client.send_bytes(Batch::new().flush().bytes()).unwrap();
        other.query("SELECT 1").unwrap();
    }
}

fn a_query_with_parameters_is_answered_message_by_message(site: &Site) {
    let mut client = site.connect();
    let transcript = ask(&mut client, &Batch::new().run("SELECT $1::int + $2::int AS sum", &["40", "2"]).sync(), 1);
    assert_eq!(transcript, ["ParseComplete", "BindComplete", "Columns sum", "Row 42", "Complete SELECT 1", "Ready I"]);
}

fn a_pipeline_of_a_thousand_queries_in_one_packet_is_answered_in_order(site: &Site) {
    let mut client = site.connect();
    let mut batch = Batch::new();
    for number in 0..1000 {
        batch = batch.run("SELECT $1::text", &[&number.to_string()]);
    }
    // Replies are read while the batch is still being written, so that neither side waits for the other.
    let transcript = ask(&mut client, &batch.sync(), 1);
    let rows: Vec<_> = transcript.iter().filter(|line| line.starts_with("Row")).collect();
    assert_eq!(rows.len(), 1000);
    assert!(rows.iter().enumerate().all(|(number, row)| **row == format!("Row {number}")));
    assert_eq!(transcript.len(), 5001);
}

fn after_an_error_everything_up_to_the_sync_is_skipped(site: &Site) {
    let mut client = site.connect();
    let batch = Batch::new()
        .run("SELECT 1/$1::int", &["0"])
        .run("SELECT 2", &[])
        .close_statement("nothing")
        .flush()
        .sync()
        .run("SELECT 3", &[])
        .sync();
    let transcript = ask(&mut client, &batch, 2);
    let error = transcript.iter().position(|line| line == "Error 22012 division by zero").unwrap();
    assert_eq!(transcript[error + 1], "Ready I");
    assert_eq!(
        transcript[error + 2..],
        ["ParseComplete", "BindComplete", "Columns ?column?", "Row 3", "Complete SELECT 1", "Ready I"]
    );
}

fn each_sync_of_a_pipeline_has_its_own_ready(site: &Site) {
    let mut client = site.connect();
    assert_eq!(ask(&mut client, &Batch::new().sync().sync().sync(), 3), ["Ready I"; 3]);
    let mut batch = Batch::new();
    for number in 0..200 {
        let sql = if number % 7 == 3 { "SELECT 1/($1::int - $1::int)" } else { "SELECT $1::int" };
        batch = batch.run(sql, &[&number.to_string()]).sync();
    }
    let transcript = ask(&mut client, &batch, 200);
    let answers: Vec<_> =
        transcript.iter().filter(|line| line.starts_with("Row") || line.starts_with("Error")).collect();
    for (number, answer) in answers.iter().enumerate() {
        let wanted = if number % 7 == 3 { "Error 22012 division by zero".to_owned() } else { format!("Row {number}") };
        assert_eq!(**answer, wanted);
    }
    assert_eq!(answers.len(), 200);
}

fn a_flush_brings_what_is_there_without_a_ready(site: &Site) {
    let mut client = site.connect();
    client.send_bytes(Batch::new().run("SELECT 'flushed'", &[]).flush().bytes()).unwrap();
    let mut transcript = Vec::new();
    while transcript.len() < 5 {
        transcript.push(weir_tests::line_of(&client.read_frame(Duration::from_secs(20)).unwrap()));
    }
    assert_eq!(transcript[3..], ["Row flushed", "Complete SELECT 1"]);
    assert!(until_quiet(&mut client, Duration::from_millis(100)).is_empty());
    client.send_bytes(Batch::new().run("SELECT 'more'", &[]).sync().bytes()).unwrap();
    assert_eq!(lines_of(&read_until_ready(&mut client, 1))[3], "Row more");
}

fn a_portal_hands_out_its_rows_in_portions(site: &Site) {
    let mut client = site.connect();
    let batch = Batch::new()
        .parse("", "SELECT generate_series(1, 5)")
        .bind("p", "", &[])
        .execute("p", 2)
        .execute("p", 2)
        .execute("p", 2)
        .sync();
    let transcript = ask(&mut client, &batch, 1);
    let wanted = [
        "ParseComplete",
        "BindComplete",
        "Row 1",
        "Row 2",
        "Suspended",
        "Row 3",
        "Row 4",
        "Suspended",
        "Row 5",
        "Complete SELECT 1",
        "Ready I",
    ];
    assert_eq!(transcript, wanted);
}

fn a_portal_outlives_a_flush_and_dies_with_its_transaction(site: &Site) {
    let mut client = site.connect();
    let open = Batch::new().query("BEGIN").parse("", "SELECT generate_series(1, 9)").bind("p", "", &[]).execute("p", 1);
    let transcript = ask(&mut client, &open.sync(), 2);
    assert_eq!(transcript[2..], ["ParseComplete", "BindComplete", "Row 1", "Suspended", "Ready T"]);
    assert_eq!(ask(&mut client, &Batch::new().execute("p", 2).sync(), 1), ["Row 2", "Row 3", "Suspended", "Ready T"]);
    let transcript = ask(&mut client, &Batch::new().close_portal("p").sync().query("COMMIT").execute("p", 1).sync(), 3);
    assert_eq!(transcript[..4], ["CloseComplete", "Ready T", "Complete COMMIT", "Ready I"]);
    assert!(transcript[4].starts_with("Error 34000"), "{transcript:?}");
}

fn the_unnamed_statement_outlives_a_sync(site: &Site) {
    let mut client = site.connect();
    let mut others: Vec<_> = (0..6).map(|_| site.connect()).collect();
    // As lib/pq does: prepare and describe, then bind and execute in a batch of its own, maybe on another server.
    for round in 0..20 {
        let sql = format!("SELECT $1::int + {round} AS n{round}");
        let transcript = ask(&mut client, &Batch::new().parse("", &sql).describe_statement("").sync(), 1);
        assert_eq!(transcript, ["ParseComplete", "Types 23", &format!("Columns n{round}"), "Ready I"]);
        for other in others.iter_mut().skip(round % 5) {
            ask(other, &Batch::new().run("SELECT 'somebody else'", &[]).sync(), 1);
        }
        for again in [100, 200] {
            let transcript =
                ask(&mut client, &Batch::new().bind("", "", &[&again.to_string()]).execute("", 0).sync(), 1);
            assert_eq!(transcript, ["BindComplete", &format!("Row {}", again + round), "Complete SELECT 1", "Ready I"]);
        }
    }
}

fn the_unnamed_statement_is_replaced_by_the_next_and_dropped_by_a_query(site: &Site) {
    let mut client = site.connect();
    ask(&mut client, &Batch::new().parse("", "SELECT 'first'").parse("", "SELECT 'second'").sync(), 1);
    let bind = Batch::new().bind("", "", &[]).execute("", 0).sync();
    assert_eq!(ask(&mut client, &bind, 1)[1], "Row second");
    ask(&mut client, &Batch::new().query("SELECT 'a simple query'"), 1);
    let transcript = ask(&mut client, &bind, 1);
    assert!(transcript[0].starts_with("Error 26000 unnamed prepared statement does not exist"), "{transcript:?}");
    ask(&mut client, &Batch::new().parse("", "SELECT 'third'").close_statement("").sync(), 1);
    assert!(ask(&mut client, &bind, 1)[0].starts_with("Error 26000"));
}

fn the_unnamed_statement_of_another_is_never_seen(site: &Site) {
    let mut first: Vec<_> = (0..8).map(|_| site.connect()).collect();
    for (number, client) in first.iter_mut().enumerate() {
        ask(client, &Batch::new().parse("", &format!("SELECT 'of client {number}'")).sync(), 1);
    }
    if !site.keeps_sessions() {
        let transcript = ask(&mut site.connect(), &Batch::new().bind("", "", &[]).execute("", 0).sync(), 1);
        assert!(transcript[0].starts_with("Error 26000"), "{transcript:?}");
    }
    for (number, client) in first.iter_mut().enumerate().rev() {
        let transcript = ask(client, &Batch::new().bind("", "", &[]).execute("", 0).sync(), 1);
        assert_eq!(transcript[1], format!("Row of client {number}"));
    }
}

fn describe_tells_types_and_columns(site: &Site) {
    let mut client = site.connect();
    let batch = Batch::new()
        .parse_typed("d", "SELECT $1 AS a, $2::text AS b", &[23])
        .describe_statement("d")
        .parse("", "SET LOCAL work_mem = '1MB'")
        .describe_statement("")
        .bind("", "d", &["1", "x"])
        .describe_portal("")
        .sync();
    let transcript = ask(&mut client, &batch, 1);
    let wanted = [
        "ParseComplete",
        "Types 23,25",
        "Columns a,b",
        "ParseComplete",
        "Types ",
        "NoData",
        "BindComplete",
        "Columns a,b",
        "Ready I",
    ];
    assert_eq!(transcript, wanted);
}

fn a_transaction_over_several_syncs_stays_together(site: &Site) {
    let mut client = site.connect();
    client.query("CREATE TABLE kept (n int)").unwrap();
    ask(&mut client, &Batch::new().run("BEGIN", &[]).sync(), 1);
    for number in 0..5 {
        let mut other = site.connect();
        assert_eq!(other.value("SELECT count(*) FROM kept").unwrap().as_deref(), Some("0"));
        let transcript =
            ask(&mut client, &Batch::new().run("INSERT INTO kept VALUES ($1)", &[&number.to_string()]).sync(), 1);
        assert_eq!(transcript.last().unwrap(), "Ready T");
    }
    let transcript = ask(&mut client, &Batch::new().run("COMMIT", &[]).sync(), 1);
    assert_eq!(transcript[3..], ["Complete COMMIT", "Ready I"]);
    assert_eq!(site.connect().value("SELECT count(*) FROM kept").unwrap().as_deref(), Some("5"));
}

fn an_implicit_transaction_of_a_pipeline_is_rolled_back_as_a_whole(site: &Site) {
    let mut client = site.connect();
    client.query("CREATE TABLE whole (n int)").unwrap();
    let insert = "INSERT INTO whole VALUES ($1)";
    let batch = Batch::new().run(insert, &["1"]).run(insert, &["2"]).run("SELECT 1/$1::int", &["0"]).sync();
    ask(&mut client, &batch, 1);
    assert_eq!(client.value("SELECT count(*) FROM whole").unwrap().as_deref(), Some("0"));
}

fn a_query_between_extended_messages_keeps_its_place(site: &Site) {
    let mut client = site.connect();
    let batch = Batch::new()
        .parse("", "SELECT 'one'")
        .bind("", "", &[])
        .execute("", 0)
        .query("SELECT 'two'")
        .run("SELECT 'three'", &[])
        .sync()
        .query("SELECT 'four'");
    let transcript = ask(&mut client, &batch, 3);
    let rows: Vec<_> = transcript.iter().filter(|line| line.starts_with("Row")).map(String::as_str).collect();
    assert_eq!(rows, ["Row one", "Row two", "Row three", "Row four"]);
}

fn bind_errors_are_the_servers_own(site: &Site) {
    let mut client = site.connect();
    let transcript = ask(&mut client, &Batch::new().bind("", "no such", &[]).execute("", 0).sync(), 1);
    assert_eq!(transcript, ["Error 26000 prepared statement \"no such\" does not exist", "Ready I"]);
    let transcript = ask(&mut client, &Batch::new().execute("no such", 0).sync(), 1);
    assert_eq!(transcript, ["Error 34000 portal \"no such\" does not exist", "Ready I"]);
    let transcript = ask(&mut client, &Batch::new().parse("n", "SELECT $1::int").bind("", "n", &[]).sync(), 1);
    let wanted = "Error 08P01 bind message supplies 0 parameters, but prepared statement \"n\" requires 1";
    if site.keeps_sessions() {
        assert_eq!(transcript[1], wanted);
    } else {
        // There the error has the server's own name for it.
        assert!(transcript[1].starts_with("Error 08P01 bind message supplies 0 parameters"), "{transcript:?}");
    }
    let transcript = ask(&mut client, &Batch::new().bind("", "n", &["x"]).sync(), 1);
    assert_eq!(transcript[0], "Error 22P02 invalid input syntax for type integer: \"x\"");
}

fn a_bind_of_many_megabytes_arrives_whole(site: &Site) {
    let mut client = site.connect();
    let large = "0123456789abcdef".repeat(1 << 20);
    let batch = Batch::new().run("SELECT length($1::text), md5($1::text)", &[&large]).sync();
    let wanted = client.value("SELECT md5(repeat('0123456789abcdef', 1 << 20))").unwrap().unwrap();
    let transcript = ask(&mut client, &batch, 1);
    assert_eq!(transcript[3], format!("Row {},{wanted}", large.len()));
}
