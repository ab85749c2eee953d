//! The soak test: mixed traffic with clients killed at random. Counters stay consistent, memory and descriptors
//! bounded.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weir_tests::{Batch, Mode, Rng, Setup, Site, ask, users};

fn seconds() -> u64 {
    std::env::var("WEIR_SOAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(600)
}

#[test]
fn ten_minutes_of_mixed_traffic_leave_counters_memory_and_descriptors_as_they_were() {
    let setup = Setup::new(Mode::Transaction).size(8).workers(2).pool("server_lifetime = \"20s\"");
    let site = Site::with(setup.pool("max_prepared_statements = 20"), Mode::Transaction);
    site.connect().query("CREATE TABLE soak (n int, t text)").unwrap();
    let end = Instant::now() + Duration::from_secs(seconds());
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut levels = Vec::new();
    thread::scope(|scope| {
        let clients: Vec<_> = (0..24)
            .map(|number| {
                let (site, stop, done) = (&site, &stop, &done);
                scope.spawn(move || traffic(site, stop, done, number))
            })
            .collect();
        while Instant::now() < end && clients.iter().all(|client| !client.is_finished()) {
            thread::sleep(Duration::from_secs(1));
            let pool = site.weir().pool("app");
            assert!(pool.servers() <= 8, "{pool:?}");
            levels.push(site.weir().memory().now);
        }
        stop.store(true, Ordering::Relaxed);
    });
    site.weir().assert_at_rest();
    println!("{} lives, memory from {:?} to {:?} kB", done.load(Ordering::Relaxed), levels.first(), levels.last());
    let early = levels[levels.len() / 4];
    let late = site.weir().memory().now;
    assert!(late < early + early / 4 + 2048, "memory rose from {early} to {late} kB");
}

fn traffic(site: &Site, stop: &AtomicBool, done: &AtomicU64, number: u64) {
    let mut rng = Rng::new(number);
    while !stop.load(Ordering::Relaxed) {
        life(site, &mut rng, number);
        done.fetch_add(1, Ordering::Relaxed);
    }
}

/// One client: some queries with answers that only it knows, then a disconnect, orderly or not.
fn life(site: &Site, rng: &mut Rng, number: u64) {
    let mut client = site.connect();
    for _ in 0..rng.below(20) {
        let tag = format!("{number}-{}", rng.bits());
        match rng.below(7) {
            0 => assert_eq!(client.value(&format!("SELECT '{tag}'")).unwrap(), Some(tag)),
            1 => {
                let name = format!("s{}", rng.below(40));
                let sql = format!("SELECT $1::text, {}", rng.below(40));
                let batch = Batch::new().parse(&name, &sql).bind("", &name, &[&tag]).execute("", 0);
                let transcript = ask(&mut client, &batch.close_statement(&name).sync(), 1);
                assert!(transcript[2].starts_with(&format!("Row {tag},")), "{transcript:?}");
            }
            2 => {
                client.query("BEGIN").unwrap();
                client.query(&format!("INSERT INTO soak VALUES (1, '{tag}')")).unwrap();
                let sql = format!("SELECT count(*) FROM soak WHERE t = '{tag}'");
                assert_eq!(client.value(&sql).unwrap().as_deref(), Some("1"));
                client.query("ROLLBACK").unwrap();
            }
            3 => assert!(client.query("SELECT 1/0").is_err()),
            4 => {
                let size = rng.below(200_000);
                let text = client.value(&format!("SELECT repeat('x', {size})")).unwrap().unwrap();
                assert_eq!(text.len(), size);
            }
            5 => {
                client.query(&format!("SET application_name = '{tag}'")).unwrap();
                assert_eq!(client.value("SHOW application_name").unwrap(), Some(tag));
            }
            _ => thread::sleep(Duration::from_millis(rng.below(20) as u64)),
        }
    }
    if rng.one_in(2) {
        let last = Batch::new().query("BEGIN").run("SELECT repeat('x', 100000), pg_sleep(0.01)", &[]).sync();
        let cut = rng.below(last.bytes().len());
        client.send_bytes(&last.bytes()[..cut]).unwrap();
    } else {
        client.close().unwrap();
    }
    if rng.one_in(50) {
        let _ = weir_pgclient::Connection::connect(&site.params_of(users::OTHER).password("wrong"));
    }
}
