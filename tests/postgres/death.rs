//! Clients that die: at any byte, in any state. No server stays stuck, no counter stays up.

use std::thread;
use std::time::Duration;

use weir_pglocal::client::Connection;
use weir_tests::{Batch, Mode, Rng, Setup, Site};

/// Every kind of message that a driver pipelines, about 250 bytes.
fn batch() -> Batch {
    Batch::new()
        .parse("s", "SELECT $1::int")
        .describe_statement("s")
        .bind("", "s", &["1"])
        .execute("", 0)
        .flush()
        .query("BEGIN")
        .run("INSERT INTO cut VALUES ($1)", &["2"])
        .sync()
        .query("COMMIT; COPY cut FROM STDIN")
        .copy_data("3\n")
        .copy_done()
        .close_statement("s")
        .sync()
        .terminate()
}

fn site(mode: Mode) -> Site {
    let site = Site::with(Setup::new(mode).size(3).auth("trust"), mode);
    site.connect().query("CREATE TABLE cut (n int)").unwrap();
    site
}

/// No server of the pool is within a transaction or busy.
fn assert_no_stuck_server(site: &Site) {
    weir_tests::eventually("no stuck server", || {
        let backends = site.database().backends();
        let stuck = backends.len() > 3 || backends.iter().any(|(_, state)| state != "idle");
        if stuck { Err(backends) } else { Ok(()) }
    });
    site.weir().await_pool("counters are back", |pool| {
        pool.get("cl_active") + pool.get("cl_waiting") + pool.get("sv_active") + pool.get("sv_login") == 0
    });
    for _ in 0..4 {
        assert_eq!(site.connect().value("SELECT 'clean'").unwrap().as_deref(), Some("clean"));
    }
}

fn cut_after_every_byte(site: &Site, before_the_cut: impl Fn(&mut Connection)) {
    let batch = batch();
    for end in 0..=batch.bytes().len() {
        let mut client = site.connect();
        client.send_bytes(&batch.bytes()[..end]).unwrap();
        before_the_cut(&mut client);
    }
}

#[test]
fn a_client_cut_after_every_byte_of_a_batch_leaves_no_stuck_server_in_transaction_mode() {
    let site = site(Mode::Transaction);
    cut_after_every_byte(&site, |_| {});
    assert_no_stuck_server(&site);
}

#[test]
fn a_client_cut_after_every_byte_of_a_batch_leaves_no_stuck_server_in_session_mode() {
    let site = site(Mode::Session);
    cut_after_every_byte(&site, |_| {});
    assert_no_stuck_server(&site);
}

#[test]
fn a_client_that_dies_when_its_server_has_begun_to_answer_leaves_no_stuck_server() {
    let site = site(Mode::Transaction);
    cut_after_every_byte(&site, |client| drop(client.read_frame(Duration::from_millis(3))));
    assert_no_stuck_server(&site);
}

#[test]
fn half_a_close_is_a_close() {
    // A client that has shut down its writing side has no more to say; what it asked is answered or not, but it goes.
    for mode in [Mode::Session, Mode::Transaction] {
        let site = site(mode);
        let batch = batch();
        for end in (0..=batch.bytes().len()).step_by(7) {
            let mut client = site.connect();
            client.send_bytes(&batch.bytes()[..end]).unwrap();
            client.shutdown_write().unwrap();
            let story = weir_tests::until_quiet(&mut client, Duration::from_secs(20));
            assert_eq!(story.last().unwrap(), "Closed", "after {end} bytes: {story:?}");
        }
        assert_no_stuck_server(&site);
    }
}

#[test]
fn clients_that_die_during_their_login_leave_nothing() {
    let site = Site::transaction(3);
    let params = site.params();
    let mut packet = Vec::new();
    let startup = [("user", params.user.as_str()), ("database", params.database.as_str())];
    weir_pgwire::put_front::startup(&mut packet, &startup, 0);
    weir_pgwire::put_front::sasl_initial(&mut packet, "SCRAM-SHA-256", b"n,,n=,r=abcdefghijklmnopqrstuvwx");
    for end in 0..=packet.len() {
        let mut client = Connection::open(&params).unwrap();
        client.send_bytes(&packet[..end]).unwrap();
        if end % 3 == 0 {
            let _ = client.read_frame(Duration::from_millis(2));
        }
    }
    weir_tests::eventually("only the console is left", || {
        let lists = site.weir().show("LISTS");
        let row = (0..lists.rows.len()).find(|row| lists.get(*row, "list") == Some("used_clients")).unwrap();
        if lists.get(row, "items") == Some("1") { Ok(()) } else { Err(lists) }
    });
}

#[test]
fn a_client_that_dies_while_its_query_runs_costs_that_server_only() {
    let site = site(Mode::Transaction);
    for _ in 0..6 {
        let mut client = site.connect();
        client.send_bytes(Batch::new().query("SELECT pg_sleep(0.3)").bytes()).unwrap();
        drop(client);
        assert_eq!(site.connect().value("SELECT 'next'").unwrap().as_deref(), Some("next"));
    }
    assert_no_stuck_server(&site);
}

#[test]
fn random_deaths_under_load_leave_the_rest_unharmed() {
    for mode in [Mode::Session, Mode::Transaction] {
        let site = site(mode);
        thread::scope(|scope| {
            for number in 0..4 {
                let site = &site;
                scope.spawn(move || dying(site, number));
            }
            for number in 0..4 {
                let site = &site;
                scope.spawn(move || living(site, number));
            }
        });
        assert_no_stuck_server(&site);
    }
}

fn dying(site: &Site, number: u64) {
    let mut rng = Rng::new(number);
    let batch = batch();
    for _ in 0..60 {
        let mut client = site.connect();
        client.send_bytes(&batch.bytes()[..rng.below(batch.bytes().len())]).unwrap();
        if rng.one_in(2) {
            let _ = client.read_frame(Duration::from_millis(rng.below(5) as u64 + 1));
        }
    }
}

fn living(site: &Site, number: u64) {
    for life in 0..15 {
        let mut client = site.connect();
        for round in 0..6 {
            let tag = format!("living {number}.{life}.{round}");
            let story = weir_tests::ask(&mut client, &Batch::new().run("SELECT $1::text", &[&tag]).sync(), 1);
            assert_eq!(story[3], format!("Row {tag}"), "{story:?}");
        }
    }
}
