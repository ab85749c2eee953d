//! Thousands of pools, and a hundred thousand prepared statements: their cost, and that they are served.
//!
//! Small by default; `WEIR_SCALE=50` multiplies the numbers by fifty, as in docs/scale.md. With `--nocapture` the
//! figures are printed.

use std::io::Write;
use std::thread;
use std::time::Instant;

use weir_pgclient::Connection;
use weir_pglocal::Signal;
use weir_pgwire::tag;
use weir_tests::{Batch, Bulk, Mode, Postgres, Setup, Site, eventually, users};

/// The number, multiplied by `WEIR_SCALE`.
fn scaled(count: usize) -> usize {
    std::env::var("WEIR_SCALE").ok().and_then(|text| text.parse::<usize>().ok()).unwrap_or(1) * count
}

fn connect(site: &Site, pool: &str) -> Connection {
    let params = site.weir().params(users::APP.name, pool).password(users::APP.password);
    Connection::connect(&params).unwrap_or_else(|error| panic!("{pool}: {error}"))
}

/// One client uses each pool once and disconnects.
fn visit(site: &Site, pools: usize) {
    thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for number in (thread..pools).step_by(4) {
                    let mut client = connect(site, &format!("pool{number}"));
                    let sql = format!("SELECT {number}");
                    assert_eq!(client.value(&sql).unwrap(), Some(number.to_string()));
                    client.close().unwrap();
                }
            });
        }
    });
}

fn known(site: &Site) -> usize {
    let stats = site.weir().show("STATS");
    (0..stats.rows.len()).filter(|row| stats.get(*row, "database").is_some_and(|name| name.starts_with("pool"))).count()
}

/// One pool after the other is made of `*`; at most twenty servers are open at a time, whatever the number of pools.
#[test]
fn thousands_of_pools_on_demand_are_served_by_few_servers_and_dropped() {
    let pools = scaled(200);
    let star =
        format!("[pools.\"*\"]\nhost = \"127.0.0.1\"\nport = {}\ndatabase = \"postgres\"", Postgres::shared().port());
    let setup = |forget: &str| {
        let setup = Setup::new(Mode::Transaction).auth("plain").no_server_user().more(&star);
        setup.general("max_user_connections = 20").general(&format!("autodb_idle_timeout = \"{forget}\""))
    };
    let site = Site::with(setup("1h"), Mode::Transaction);
    connect(&site, "pool0").close().unwrap();
    let (before, begin) = (site.weir().memory().now, Instant::now());
    visit(&site, pools);
    let (after, visited) = (site.weir().memory().now, begin.elapsed());
    assert_eq!(known(&site), pools, "each has its statistics");
    let each = (after.saturating_sub(before)) * 1024 / pools as u64;
    // With its judgements of errors, latency and shares.
    assert!(each <= 18 * 1024, "{each} B a pool");
    let begin = Instant::now();
    let shown = site.weir().show("POOLS").rows.len();
    println!(
        "{pools} pools on demand, visited in {visited:.1?}: {each} B resident each ({before} -> {after} kB); SHOW POOLS \
         lists the {shown} that have servers, in {:.1?}",
        begin.elapsed()
    );
    assert!(shown <= 22, "{shown} pools have servers");
    let forgetful = setup("1s").limit("server_idle_timeout = \"1s\"");
    site.weir().rewrite(&forgetful.toml(site.database()), &forgetful.userlist());
    site.weir().signal(Signal::SIGHUP);
    eventually("all are dropped", || match known(&site) {
        0 => Ok(()),
        left => Err(left),
    });
    connect(&site, "pool1").query("SELECT 1").unwrap();
}

/// Thousands of pools in the file.
#[test]
fn thousands_of_pools_in_the_file_are_reloaded_and_served() {
    let pools = scaled(200);
    let setup = || Setup::new(Mode::Transaction).auth("plain").no_server_user().general("max_user_connections = 20");
    let site = Site::with(setup(), Mode::Transaction);
    let before = site.weir().memory().now;
    let port = Postgres::shared().port();
    let section =
        |n| format!("[pools.pool{n}]\nhost = \"127.0.0.1\"\nport = {port}\ndatabase = \"postgres\"\nsize = 3\n");
    let many = setup().more(&(0..pools).map(section).collect::<String>());
    site.weir().rewrite(&many.toml(site.database()), &many.userlist());
    let begin = Instant::now();
    site.weir().command("RELOAD").unwrap();
    let (first, read) = (begin.elapsed(), site.weir().memory().now);
    visit(&site, pools);
    let begin = Instant::now();
    site.weir().command("RELOAD").unwrap();
    let second = begin.elapsed();
    let begin = Instant::now();
    assert_eq!(site.weir().show("POOLS").rows.len(), pools + 1, "all of them, and the console's");
    let shown = begin.elapsed();
    let after = site.weir().memory().now;
    println!(
        "{pools} pools in the file: RELOAD in {first:.1?}, {before} -> {read} kB; all used once, {after} kB; then RELOAD in \
         {second:.1?}, SHOW POOLS in {shown:.1?}"
    );
    connect(&site, &format!("pool{}", pools - 1)).query("SELECT 1").unwrap();
}

/// Distinct statements, each kept under its name by its client; then the same number of others.
#[test]
fn a_hundred_thousand_distinct_statements_stay_under_their_limit() {
    let (clients, each) = (10, scaled(200));
    let setup = Setup::new(Mode::Transaction).auth("trust").size(4);
    let site = Site::with(setup.limit("statement_memory = \"64MiB\""), Mode::Transaction);
    let before = site.weir().memory().now;
    let mut levels = Vec::new();
    for round in 0..5 {
        let held: Vec<Bulk> = (0..clients).map(|client| prepared(&site, round, client, each)).collect();
        levels.push(site.weir().memory().now);
        drop(held);
    }
    println!(
        "{} distinct statements held at once, of 10 clients; five times others: {before} kB before, then {levels:?} kB",
        clients * each
    );
    assert!(levels.iter().all(|level| *level < before + 72 * 1024), "{before} kB, then {levels:?} kB");
    assert!(
        levels[4] < levels[3] + levels[3] / 10 + 2048,
        "the fifth round costs no more than the fourth: {levels:?} kB"
    );
}

/// A client that has prepared this many, and has used the last one.
fn prepared(site: &Site, round: usize, client: usize, count: usize) -> Bulk {
    let mut bulk = Bulk::connect(site);
    for first in (0..count).step_by(500) {
        let mut batch = Batch::new();
        for number in first..count.min(first + 500) {
            let sql = format!("SELECT {round} AS round, {client} AS client, {number} AS number, $1::text AS padding");
            batch = batch.parse(&format!("s{number}"), &sql);
        }
        let last = format!("s{}", count.min(first + 500) - 1);
        let batch = batch.bind("", &last, &["x"]).execute("", 0).sync();
        let mut socket = bulk.socket();
        thread::scope(|scope| {
            scope.spawn(move || socket.write_all(batch.bytes()).expect("the bytes can be sent"));
            bulk.skim(|tag, _| assert_ne!(tag, tag::back::ERROR));
        });
    }
    bulk
}
