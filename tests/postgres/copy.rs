//! COPY in both directions, and its errors.

use std::time::Duration;

use weir_pgclient::Connection;
use weir_tests::{Batch, Site, ask, lines_of, read_until_ready, until_quiet};

everywhere!(
    data_that_is_copied_in_comes_out_the_same,
    a_copy_in_the_extended_protocol_ends_with_its_sync,
    an_error_within_copy_in_discards_the_rest_and_no_request_stays_open,
    late_copy_data_is_ignored,
    a_copy_that_the_client_aborts_leaves_nothing,
    an_error_within_copy_out_ends_it,
    two_copies_in_one_query_work_in_their_order,
    a_copy_within_a_transaction_stays_in_it,
    copy_in_sends_data_before_it_is_asked,
    another_message_within_copy_in_ends_the_connection,
);

fn table(site: &Site) -> Connection {
    let mut client = site.connect();
    client.query("CREATE TABLE items (id int PRIMARY KEY, name text)").unwrap();
    client
}

fn count(client: &mut Connection) -> String {
    client.value("SELECT count(*) FROM items").unwrap().unwrap()
}

fn data_that_is_copied_in_comes_out_the_same(site: &Site) {
    let mut client = table(site);
    let data: String = (0..20_000).map(|id| format!("{id}\tthe item number {id}\n")).collect();
    assert_eq!(client.copy_in("COPY items FROM STDIN", data.as_bytes()).unwrap(), "COPY 20000");
    assert_eq!(client.copy_out("COPY (SELECT * FROM items ORDER BY id) TO STDOUT").unwrap(), data.as_bytes());
    assert_eq!(client.value("SELECT 1").unwrap().as_deref(), Some("1"));
}

fn a_copy_in_the_extended_protocol_ends_with_its_sync(site: &Site) {
    let mut client = table(site);
    let open = Batch::new().parse("", "COPY items FROM STDIN").bind("", "", &[]).execute("", 0);
    client.send_bytes(open.flush().bytes()).unwrap();
    for wanted in ["ParseComplete", "BindComplete", "CopyIn"] {
        assert_eq!(weir_tests::line_of(&client.read_frame(Duration::from_secs(20)).unwrap()), wanted);
    }
    let data = Batch::new().copy_data("1\tone\n").copy_data("2\ttw").copy_data("o\n").copy_done();
    assert_eq!(ask(&mut client, &data.sync(), 1), ["Complete COPY 2", "Ready I"]);
    let batch =
        Batch::new().parse("", "COPY items TO STDOUT").bind("", "", &[]).execute("", 0).run("SELECT 'next'", &[]);
    let transcript = ask(&mut client, &batch.sync(), 1);
    assert_eq!(transcript[2..6], ["CopyOut", "Data 1\tone", "Data 2\ttwo", "CopyDone"]);
    assert_eq!(transcript[10], "Row next");
}

fn an_error_within_copy_in_discards_the_rest_and_no_request_stays_open(site: &Site) {
    let mut client = table(site);
    let batch = Batch::new().query("COPY items FROM STDIN").copy_data("1\tone\nnot a number\ttwo\n");
    client.send_bytes(batch.bytes()).unwrap();
    let mut late = Batch::new();
    for id in 10..2000 {
        late = late.copy_data(&format!("{id}\tlate\n"));
    }
    client.send_bytes(late.copy_done().query("SELECT 'after'").bytes()).unwrap();
    let transcript = lines_of(&read_until_ready(&mut client, 2));
    assert_eq!(transcript[0], "CopyIn");
    assert!(transcript[1].starts_with("Error 22P02"), "{transcript:?}");
    assert_eq!(transcript[2..], ["Ready I", "Columns ?column?", "Row after", "Complete SELECT 1", "Ready I"]);
    assert_eq!(count(&mut client), "0");
}

fn late_copy_data_is_ignored(site: &Site) {
    let mut client = site.connect();
    let late = Batch::new().copy_data("late\n").copy_data("later\n").copy_done().copy_fail("latest");
    client.send_bytes(late.bytes()).unwrap();
    assert!(until_quiet(&mut client, Duration::from_millis(150)).is_empty());
    for _ in 0..5 {
        let batch = Batch::new().copy_data("late\n").query("SELECT 1").copy_done();
        assert_eq!(ask(&mut client, &batch, 1)[1], "Row 1");
    }
    assert_eq!(ask(&mut client, &Batch::new().run("SELECT 2", &[]).sync(), 1)[3], "Row 2");
}

fn a_copy_that_the_client_aborts_leaves_nothing(site: &Site) {
    let mut client = table(site);
    let batch = Batch::new().query("COPY items FROM STDIN").copy_data("1\tone\n").copy_fail("changed my mind");
    let transcript = ask(&mut client, &batch, 1);
    assert_eq!(transcript, ["CopyIn", "Error 57014 COPY from stdin failed: changed my mind", "Ready I"]);
    assert_eq!(count(&mut client), "0");
}

fn an_error_within_copy_out_ends_it(site: &Site) {
    let mut client = site.connect();
    let sql = "COPY (SELECT 100 / (500 - n) FROM generate_series(1, 1000) n) TO STDOUT";
    let transcript = ask(&mut client, &Batch::new().query(sql).query("SELECT 'after'"), 2);
    let error = transcript.iter().position(|line| line == "Error 22012 division by zero").unwrap();
    assert_eq!(transcript.iter().filter(|line| line.starts_with("Data")).count(), 499);
    assert_eq!(transcript[error + 1], "Ready I");
    assert_eq!(transcript[error + 3], "Row after");
}

fn two_copies_in_one_query_work_in_their_order(site: &Site) {
    let mut client = table(site);
    let sql = "COPY items FROM STDIN; SELECT 'between'; COPY items FROM STDIN; COPY items TO STDOUT";
    let batch = Batch::new()
        .query(sql)
        .copy_data("1\tone\n")
        .copy_done()
        .copy_data("2\ttwo\n")
        .copy_done()
        .query("SELECT 'end'");
    // PostgreSQL discards COPY data that comes too early only after an error, so this may be sent at once.
    let transcript = ask(&mut client, &batch, 2);
    let wanted = [
        "CopyIn",
        "Complete COPY 1",
        "Columns ?column?",
        "Row between",
        "Complete SELECT 1",
        "CopyIn",
        "Complete COPY 1",
        "CopyOut",
        "Data 1\tone",
        "Data 2\ttwo",
        "CopyDone",
        "Complete COPY 2",
        "Ready I",
        "Columns ?column?",
        "Row end",
        "Complete SELECT 1",
        "Ready I",
    ];
    assert_eq!(transcript, wanted);
}

fn a_copy_within_a_transaction_stays_in_it(site: &Site) {
    let mut client = table(site);
    client.query("BEGIN").unwrap();
    client.copy_in("COPY items FROM STDIN", b"1\tone\n").unwrap();
    assert_eq!(count(&mut site.connect()), "0");
    let transcript = ask(&mut client, &Batch::new().query("COPY items FROM STDIN").copy_data("x\n").copy_done(), 1);
    assert_eq!(transcript.last().unwrap(), "Ready E");
    client.query("ROLLBACK").unwrap();
    assert_eq!(count(&mut client), "0");
}

fn copy_in_sends_data_before_it_is_asked(site: &Site) {
    let mut client = table(site);
    let mut batch = Batch::new();
    for id in 0..200 {
        batch = batch.query("COPY items FROM STDIN").copy_data(&format!("{id}\tx\n")).copy_done();
    }
    let transcript = ask(&mut client, &batch, 200);
    assert_eq!(transcript.len(), 600);
    assert!(transcript.chunks(3).all(|chunk| chunk == ["CopyIn", "Complete COPY 1", "Ready I"]));
    assert_eq!(count(&mut client), "200");
}

fn another_message_within_copy_in_ends_the_connection(site: &Site) {
    for other in [Batch::new().query("SELECT 1"), Batch::new().run("SELECT 1", &[]).sync()] {
        let mut client = site.connect();
        client.query("CREATE TABLE IF NOT EXISTS items (id int PRIMARY KEY, name text)").unwrap();
        let batch = Batch::new().query("COPY items FROM STDIN").copy_data("1\tone\n").raw(other.bytes());
        client.send_bytes(batch.bytes()).unwrap();
        let transcript = until_quiet(&mut client, Duration::from_secs(20));
        assert_eq!(transcript[0], "CopyIn");
        assert!(transcript[1].starts_with("Error 08P01"), "{transcript:?}");
        assert_eq!(transcript.last().unwrap(), "Closed");
        assert!(!transcript.iter().any(|line| line.starts_with("Row")), "{transcript:?}");
        assert_eq!(count(&mut site.connect()), "0");
    }
}

#[test]
fn a_client_that_dies_within_a_copy_closes_one_server_and_leaves_nothing() {
    for site in [Site::session(2), Site::transaction(2)] {
        let mut setup = table(&site);
        for _ in 0..6 {
            let mut client = site.connect();
            client.send_bytes(Batch::new().query("COPY items FROM STDIN").copy_data("1\tone\n").bytes()).unwrap();
            assert_eq!(weir_tests::line_of(&client.read_frame(Duration::from_secs(20)).unwrap()), "CopyIn");
            drop(client);
            let mut client = site.connect();
            let sql = "COPY (SELECT repeat('x', 1000) FROM generate_series(1, 100000)) TO STDOUT";
            client.send_bytes(Batch::new().query(sql).bytes()).unwrap();
            assert_eq!(weir_tests::line_of(&client.read_frame(Duration::from_secs(20)).unwrap()), "CopyOut");
        }
        assert_eq!(count(&mut setup), "0");
    }
}
