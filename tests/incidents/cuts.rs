//! Clients that are cut off at any byte: no server stays assigned to a client that has gone.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_pgclient::Connection;
use weir_tests::{Batch, Mode, Setup, Site, eventually, until_quiet};

use crate::report::{Report, size};

const SERVERS: usize = 3;

fn site(mode: Mode) -> Site {
    let site = Site::with(Setup::new(mode).size(SERVERS as u32).auth("trust"), mode);
    site.connect().query("CREATE TABLE cut (n int)").unwrap();
    site
}

/// The console's counters that must return to their initial values: all of SHOW LISTS, and SHOW POOLS without the age
/// of an idle server.
fn counters(site: &Site) -> BTreeMap<String, i64> {
    let lists = site.weir().show("LISTS");
    let cell = |row: usize, column| lists.get(row, column).unwrap_or_default().to_owned();
    let mut counters: BTreeMap<_, _> = (0..lists.rows.len())
        .map(|row| (cell(row, "list"), cell(row, "items").parse().unwrap_or_default()))
        .filter(|(list, _): &(String, i64)| !list.contains("servers") && !list.starts_with("dns"))
        .collect();
    let pool = site.weir().pool("app");
    for column in ["cl_active", "cl_waiting", "cl_active_cancel_req", "cl_waiting_cancel_req", "sv_active", "sv_login"]
    {
        counters.insert(column.to_owned(), pool.get(column));
    }
    counters
}

/// Cuts a client off after each byte of the batch, and checks the counters.
fn cut_after_every_byte(mode: Mode, cut: impl Fn(&mut Connection)) -> usize {
    let site = site(mode);
    let before = eventually("the clients that made the table, and have asked for counters, have gone", || {
        let now = counters(&site);
        if now["cl_active"] == 0 && now["used_clients"] == 1 { Ok(now) } else { Err(now) }
    });
    let batch = Batch::to_be_cut();
    for end in 0..=batch.bytes().len() {
        let mut client = site.connect();
        client.send_bytes(&batch.bytes()[..end]).unwrap();
        cut(&mut client);
    }
    site.await_no_stuck_server(SERVERS);
    eventually("the counters are back", || {
        let now = counters(&site);
        if now == before { Ok(()) } else { Err(format!("{now:?} instead of {before:?}")) }
    });
    // All servers serve: more clients at once than servers, each in a transaction of its own.
    for _ in 0..2 {
        let mut clients: Vec<_> = (0..SERVERS).map(|_| site.connect()).collect();
        for client in &mut clients {
            client.query("BEGIN").unwrap();
            assert_eq!(client.value("SELECT 'clean'").unwrap().as_deref(), Some("clean"));
        }
    }
    batch.bytes().len() + 1
}

/// A client disconnects after each byte of a pipelined batch: at once, after reading part of the answer, or by shutting
/// down its writing side only. A pooler that waits for the rest of a message whose sender has gone keeps the server for
/// ever, in the state `ClientRead` in a transaction.
#[test]
fn a_client_cut_off_after_any_byte_leaves_no_server_stuck() {
    let report = Report::begin();
    let mut cuts = 0;
    for mode in [Mode::Transaction, Mode::Session] {
        cuts += cut_after_every_byte(mode, |_| {});
        let timeout = Duration::from_millis(size(2, 10));
        cuts += cut_after_every_byte(mode, |client| drop(client.read_frame(timeout)));
        cuts += cut_after_every_byte(mode, |client| {
            client.shutdown_write().unwrap();
            // The batch is answered or not; the client disconnects.
            let transcript = until_quiet(client, Duration::from_secs(20));
            assert_eq!(transcript.last().map(String::as_str), Some("Closed"), "{transcript:?}");
        });
    }
    report.figure(format!("{cuts} clients cut off, 0 servers stuck"));
}
