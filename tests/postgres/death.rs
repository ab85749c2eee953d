//! Clients that die at any byte, in any state: no server stays stuck, no counter stays wrong.

use std::thread;
use std::time::Duration;

use weir_pgclient::Connection;
use weir_tests::{Batch, Mode, Rng, Setup, Site};

fn site(mode: Mode) -> Site {
    let site = Site::with(Setup::new(mode).size(3).auth("trust"), mode);
    site.connect().query("CREATE TABLE cut (n int)").unwrap();
    site
}

/// No server of the pool is within a transaction or busy.
fn assert_no_stuck_server(site: &Site) {
    site.await_no_stuck_server(3);
    site.weir().await_pool("counters are back", |pool| {
        pool.get("cl_active") + pool.get("cl_waiting") + pool.get("sv_active") + pool.get("sv_login") == 0
    });
    for _ in 0..4 {
        assert_eq!(site.connect().value("SELECT 'clean'").unwrap().as_deref(), Some("clean"));
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
fn a_client_that_dies_while_its_query_runs_closes_only_its_server() {
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
    let batch = Batch::to_be_cut();
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
            let transcript = weir_tests::ask(&mut client, &Batch::new().run("SELECT $1::text", &[&tag]).sync(), 1);
            assert_eq!(transcript[3], format!("Row {tag}"), "{transcript:?}");
        }
    }
}
