//! Simple queries, and the messages beside their answers.

use std::time::Duration;

use weir_tests::{Batch, Site, ask, eventually, lines_of, read_until_ready};

everywhere!(
    statements_of_one_query_answer_in_their_order,
    an_error_ends_the_query_and_nothing_of_it_is_left_for_the_next,
    a_failed_transaction_stays_the_clients_until_it_ends_it,
    notices_arrive_where_the_statement_raised_them,
    an_empty_query_is_answered_as_one,
    several_queries_in_one_packet_are_answered_one_by_one,
    a_function_call_is_answered_by_its_result,
    a_failed_function_call_is_an_error_and_the_next_one_works,
    a_value_with_every_byte_arrives_unchanged,
    an_unknown_message_type_ends_the_connection_with_an_error,
);

fn statements_of_one_query_answer_in_their_order(site: &Site) {
    let mut client = site.connect();
    let transcript = ask(&mut client, &Batch::new().query("SELECT 1 AS a; SELECT 2, NULL; VALUES ('x'), ('y')"), 1);
    let wanted = [
        "Columns a",
        "Row 1",
        "Complete SELECT 1",
        "Columns ?column?,?column?",
        "Row 2,NULL",
        "Complete SELECT 1",
        "Columns column1",
        "Row x",
        "Row y",
        "Complete SELECT 2",
        "Ready I",
    ];
    assert_eq!(transcript, wanted);
}

fn an_error_ends_the_query_and_nothing_of_it_is_left_for_the_next(site: &Site) {
    let mut client = site.connect();
    let transcript = ask(&mut client, &Batch::new().query("SELECT 1; SELECT 1/0; SELECT 3"), 1);
    let wanted = [
        "Columns ?column?",
        "Row 1",
        "Complete SELECT 1",
        "Columns ?column?",
        "Error 22012 division by zero",
        "Ready I",
    ];
    // Whether columns are announced before the division is up to PostgreSQL.
    assert!(transcript == wanted || transcript == [&wanted[..3], &wanted[4..]].concat(), "{transcript:?}");
    assert_eq!(client.value("SELECT 4").unwrap().as_deref(), Some("4"));
}

fn a_failed_transaction_stays_the_clients_until_it_ends_it(site: &Site) {
    let mut client = site.connect();
    let mut others: Vec<_> = (0..3).map(|_| site.connect()).collect();
    ask(&mut client, &Batch::new().query("BEGIN"), 1);
    let transcript = ask(&mut client, &Batch::new().query("SELECT nothing"), 1);
    assert_eq!(transcript.last().unwrap(), "Ready E");
    for other in &mut others {
        assert_eq!(other.value("SELECT 1").unwrap().as_deref(), Some("1"), "others have servers of their own");
    }
    let transcript = ask(&mut client, &Batch::new().query("SELECT 1"), 1);
    assert!(transcript[0].starts_with("Error 25P02"), "{transcript:?}");
    assert_eq!(ask(&mut client, &Batch::new().query("COMMIT"), 1), ["Complete ROLLBACK", "Ready I"]);
    assert_eq!(ask(&mut client, &Batch::new().query("SELECT 1"), 1)[1], "Row 1");
}

fn notices_arrive_where_the_statement_raised_them(site: &Site) {
    let mut client = site.connect();
    let sql = "SELECT 1; DO $$ BEGIN RAISE NOTICE 'half-way'; END $$; SELECT 2";
    let transcript = ask(&mut client, &Batch::new().query(sql), 1);
    assert_eq!(transcript[3..5], ["Notice 00000 half-way", "Complete DO"]);
    assert_eq!(transcript[6], "Row 2");
}

fn an_empty_query_is_answered_as_one(site: &Site) {
    let mut client = site.connect();
    for empty in ["", "  ", "-- nothing", ";;"] {
        assert_eq!(ask(&mut client, &Batch::new().query(empty), 1), ["Empty", "Ready I"], "{empty:?}");
    }
}

fn several_queries_in_one_packet_are_answered_one_by_one(site: &Site) {
    let mut client = site.connect();
    let mut batch = Batch::new();
    for number in 0..300 {
        batch = batch.query(&format!("SELECT {number}"));
    }
    let transcript = ask(&mut client, &batch, 300);
    for number in 0..300 {
        assert_eq!(transcript[4 * number + 1], format!("Row {number}"));
        assert_eq!(transcript[4 * number + 3], "Ready I");
    }
}

/// `pg_catalog.int4pl`, by its fixed number.
const INT4PL: u32 = 177;

fn a_function_call_is_answered_by_its_result(site: &Site) {
    let mut client = site.connect();
    let batch = Batch::new().function(INT4PL, &["40", "2"]).function(INT4PL, &["1", "1"]).query("SELECT 'after'");
    let transcript = ask(&mut client, &batch, 3);
    let wanted = [
        "Result 42",
        "Ready I",
        "Result 2",
        "Ready I",
        "Columns ?column?",
        "Row after",
        "Complete SELECT 1",
        "Ready I",
    ];
    assert_eq!(transcript, wanted);
}

fn a_failed_function_call_is_an_error_and_the_next_one_works(site: &Site) {
    let mut client = site.connect();
    let transcript = ask(&mut client, &Batch::new().function(INT4PL, &["x", "2"]).function(INT4PL, &["1", "2"]), 2);
    assert!(transcript[0].starts_with("Error 22P02"), "{transcript:?}");
    assert_eq!(transcript[1..], ["Ready I", "Result 3", "Ready I"]);
}

fn a_value_with_every_byte_arrives_unchanged(site: &Site) {
    let mut client = site.connect();
    let all: String = (0..=255u8).map(|byte| format!("{byte:02x}")).collect();
    let value = client.value(&format!("SELECT encode('\\x{all}'::bytea, 'hex')")).unwrap();
    assert_eq!(value.as_deref(), Some(all.as_str()));
}

fn an_unknown_message_type_ends_the_connection_with_an_error(site: &Site) {
    let mut client = site.connect();
    client.send_bytes(b"y\0\0\0\x04").unwrap();
    let transcript = weir_tests::until_quiet(&mut client, Duration::from_secs(20));
    assert_eq!(transcript.len(), 2, "{transcript:?}");
    assert!(transcript[0].starts_with("Error 08P01"), "{transcript:?}");
    assert_eq!(transcript[1], "Closed");
}

#[test]
fn a_notification_reaches_its_listener_in_session_mode() {
    let site = Site::session(2);
    let (mut listener, mut speaker) = (site.connect(), site.connect());
    listener.query("LISTEN news").unwrap();
    speaker.query("NOTIFY news, 'while you were idle'").unwrap();
    let frame = listener.read_frame(Duration::from_secs(20)).unwrap();
    assert_eq!(weir_tests::line_of(&frame), "Notify news while you were idle");
    speaker.query("NOTIFY news, 'and again'").unwrap();
    eventually("the second one", || {
        listener.query("SELECT 1").unwrap();
        let received = listener.take_notifications();
        if received.iter().any(|(_, text)| text == "and again") { Ok(()) } else { Err(received) }
    });
}

#[test]
fn a_query_in_pieces_of_one_byte_is_one_query() {
    for site in [Site::direct(), Site::session(1), Site::transaction(1)] {
        let mut client = site.connect();
        let batch = Batch::new().query("SELECT 'in pieces'").parse("s", "SELECT $1::int").bind("", "s", &["7"]);
        let batch = batch.execute("", 0).sync();
        for byte in batch.bytes() {
            client.send_bytes(&[*byte]).unwrap();
            std::thread::sleep(Duration::from_micros(200));
        }
        let transcript = lines_of(&read_until_ready(&mut client, 2));
        assert_eq!(transcript[1], "Row in pieces");
        assert_eq!(transcript[4..], ["ParseComplete", "BindComplete", "Row 7", "Complete SELECT 1", "Ready I"]);
    }
}
