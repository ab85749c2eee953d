//! Connected clients of one hot pool move to a worker that has nothing to do, and notice nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use weir_pgclient::Connection;
use weir_tests::{Api, Batch, Mode, Setup, Site, eventually, within};

/// Clients that are connected all the time.
const CLIENTS: usize = 6;

/// ReadyForQuery, outside of a transaction.
const READY: &[u8] = b"Z\0\0\0\x05I";

/// Ends the clients' load.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// What a client keeps a worker busy with: statements that Weir forgets itself, and then one transaction.
fn load() -> Batch {
    let forget = (0..500).fold(Batch::new(), |batch, _| batch.close_statement("no such one"));
    forget.run("SELECT $1::text", &["mine"]).sync()
}

/// A figure of each worker, or of a database, in the metrics.
fn figure(api: &Api, name: &str) -> Vec<f64> {
    let (_, metrics) = api.ask("GET", "/metrics", "");
    let lines = metrics.lines().filter(|line| line.starts_with(&format!("{name}{{")));
    lines.map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect()
}

#[test]
fn clients_of_a_hot_pool_move_to_the_other_worker_and_are_cancelled_there() {
    let api = Api::default();
    let setup = Setup::new(Mode::Transaction).workers(2).size(4).spread("busy").more(&api.section());
    let site = Site::with(setup, Mode::Transaction);
    // All log in while nothing is busy: at their pool's owner.
    let mut clients: Vec<Connection> = (0..CLIENTS).map(|_| site.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.query(&format!("SET application_name = 'client {number}'")).unwrap();
    }
    let before = figure(&api, "weir_worker_cpu_seconds_total");
    let busy = AtomicBool::new(true);
    thread::scope(|scope| {
        for client in &mut clients {
            let busy = &busy;
            scope.spawn(move || {
                let batch = load();
                while busy.load(Ordering::Relaxed) {
                    client.send_bytes(batch.bytes()).unwrap();
                    // Not taken apart: the client is to cost less than the worker.
                    let mut answer = Vec::new();
                    while !answer.ends_with(READY) {
                        answer.extend(client.read_bytes(Duration::from_secs(30)).unwrap());
                    }
                    assert!(answer.windows(4).any(|part| part == b"mine"));
                }
            });
        }
        // The load ends with this, also when the test fails.
        let _ends = Ends(&busy);
        within(Duration::from_secs(60), "clients move, and both workers work", || {
            let moved: f64 = figure(&api, "weir_clients_moved_total").iter().sum();
            let now = figure(&api, "weir_worker_cpu_seconds_total");
            let used: Vec<f64> = now.iter().zip(&before).map(|(now, before)| now - before).collect();
            let both = used.len() == 2 && used.iter().all(|used| *used > 0.5);
            if moved >= 2.0 && both { Ok(()) } else { Err((moved, used)) }
        });
    });
    eventually("each client is shown once", || {
        let shown = site.weir().show("CLIENTS");
        let of_pool = (0..shown.rows.len()).filter(|row| shown.get(*row, "database") == Some("app")).count();
        if of_pool == CLIENTS { Ok(()) } else { Err(of_pool) }
    });
    for (number, client) in clients.iter_mut().enumerate() {
        let name = client.value("SHOW application_name").unwrap();
        assert_eq!(name.as_deref(), Some(format!("client {number}").as_str()));
        let canceller = client.canceller();
        thread::scope(|scope| {
            let asked = scope.spawn(|| client.query("SELECT pg_sleep(60)"));
            eventually("it is cancelled, wherever it is", || {
                let _ = canceller.cancel();
                if asked.is_finished() { Ok(()) } else { Err("it runs") }
            });
            assert_eq!(asked.join().unwrap().unwrap_err().sqlstate(), Some("57014"));
        });
    }
}
