//! Several workers: the same guarantees where pools are on other threads than the clients' connections.

use std::thread;

use weir_pgclient::Connection;
use weir_pglocal::Signal;
use weir_tests::{Batch, Mode, Setup, Site, ask, eventually, users};

/// Six pools on these workers, each with its own application name on the server.
fn site(workers: u32, mode: Mode) -> Site {
    let postgres = weir_tests::Postgres::shared();
    let mut setup = Setup::new(mode).workers(workers).size(3);
    for number in 0..5 {
        setup = setup.more(&format!(
            "[pools.p{number}]\nhost = \"127.0.0.1\"\nport = {}\ndatabase = \"postgres\"\nuser = \"truster\"\n\
             mode = \"{mode}\"\nsize = 2\n",
            postgres.port()
        ));
    }
    Site::with(setup, mode)
}

fn connect(site: &Site, pool: usize) -> Connection {
    if pool == 5 {
        return site.connect();
    }
    let params = site.weir().params(users::APP.name, &format!("p{pool}")).password(users::APP.password);
    Connection::connect(&params).unwrap_or_else(|error| panic!("p{pool}: {error}"))
}

#[test]
fn clients_of_all_pools_are_served_on_two_and_three_workers() {
    for (workers, mode) in [(2, Mode::Transaction), (3, Mode::Transaction), (2, Mode::Session)] {
        let site = site(workers, mode);
        thread::scope(|scope| {
            for number in 0..12 {
                let site = &site;
                scope.spawn(move || {
                    for life in 0..4 {
                        let mut client = connect(site, number % 6);
                        for round in 0..10 {
                            let tag = format!("{number}.{life}.{round}");
                            let batch =
                                Batch::new().parse("s", "SELECT $1::text").bind("", "s", &[&tag]).execute("", 0);
                            let transcript = ask(&mut client, &batch.close_statement("s").sync(), 1);
                            assert_eq!(transcript[2], format!("Row {tag}"), "{transcript:?}");
                        }
                    }
                });
            }
        });
    }
}

#[test]
fn the_console_shows_all_workers() {
    let site = site(3, Mode::Transaction);
    let clients: Vec<_> = (0..12)
        .map(|number| {
            let mut client = connect(&site, number % 6);
            client.query("BEGIN").unwrap();
            client
        })
        .collect();
    for _ in 0..4 {
        let pools = site.weir().show("POOLS");
        let active: u32 = (0..pools.rows.len())
            .filter(|row| pools.get(*row, "database") != Some("pgbouncer"))
            .map(|row| pools.get(row, "sv_active").unwrap().parse::<u32>().unwrap())
            .sum();
        assert_eq!(active, 12);
        let names = site.weir().show("DATABASES").rows.len();
        assert_eq!(names, 7, "six pools and the console");
    }
    let rows = site.weir().show("CLIENTS");
    assert!(rows.rows.len() >= 12);
    drop(clients);
}

#[test]
fn a_cancel_finds_its_worker() {
    let site = site(3, Mode::Transaction);
    thread::scope(|scope| {
        for number in 0..6 {
            let site = &site;
            scope.spawn(move || {
                let mut client = connect(site, number);
                let canceller = client.canceller();
                let stop = std::sync::atomic::AtomicBool::new(false);
                thread::scope(|inner| {
                    inner.spawn(|| {
                        while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                            let _ = canceller.cancel();
                            thread::sleep(std::time::Duration::from_millis(50));
                        }
                    });
                    let error = client.query("SELECT pg_sleep(60)").unwrap_err();
                    stop.store(true, std::sync::atomic::Ordering::Relaxed);
                    assert_eq!(error.sqlstate(), Some("57014"), "{error}");
                });
            });
        }
    });
}

#[test]
fn commands_reach_all_workers() {
    let site = site(3, Mode::Transaction);
    let mut clients: Vec<_> = (0..6).map(|pool| connect(&site, pool)).collect();
    clients.iter_mut().for_each(|client| drop(client.query("SELECT 1").unwrap()));
    assert_eq!(site.weir().command("PAUSE").unwrap().tag, "PAUSE");
    thread::scope(|scope| {
        let held: Vec<_> = clients.iter_mut().map(|client| scope.spawn(|| client.value("SELECT 1"))).collect();
        thread::sleep(std::time::Duration::from_millis(200));
        assert!(held.iter().all(|client| !client.is_finished()));
        assert_eq!(site.weir().command("RESUME").unwrap().tag, "RESUME");
        held.into_iter().for_each(|client| assert_eq!(client.join().unwrap().unwrap().as_deref(), Some("1")));
    });
    assert_eq!(site.weir().command("RELOAD").unwrap().tag, "RELOAD");
    clients.iter_mut().for_each(|client| drop(client.query("SELECT 1").unwrap()));
    for pool in 0..5 {
        site.weir().command(&format!("RECONNECT p{pool}")).unwrap();
    }
    clients.iter_mut().for_each(|client| drop(client.query("SELECT 1").unwrap()));
}

#[test]
fn term_drains_all_workers() {
    let site = site(3, Mode::Transaction);
    let mut clients: Vec<_> = (0..6).map(|pool| connect(&site, pool)).collect();
    clients.iter_mut().for_each(|client| drop(client.query("BEGIN").unwrap()));
    site.weir().signal(Signal::SIGTERM);
    eventually("new clients are refused", || match Connection::connect(&site.params()) {
        Ok(_) => Err("accepted"),
        Err(_) => Ok(()),
    });
    clients.iter_mut().for_each(|client| drop(client.query("COMMIT").unwrap()));
    assert!(site.weir().exited().is_none());
    drop(clients);
    assert_eq!(site.weir().wait_for_exit().code(), Some(0));
}
