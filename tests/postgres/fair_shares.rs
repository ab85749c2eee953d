//! Pools that share the connections of one database server (`[servers.NAME]`): a storm of one leaves the others theirs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weir_pgclient::Connection;
use weir_tests::{Api, Mode, Postgres, Setup, Site, eventually, users};

/// The clients of the storm, and how long each holds a server.
const STORM: usize = 200;
const HELD: &str = "SELECT pg_sleep(0.2)";

/// With five servers, so long would the whole storm need: 200 × 0.2 s / 5. A client behind it waits for as long.
const BACKLOG: Duration = Duration::from_secs(8);

/// The pool `app`, with the greater weight, and `two`, which is guaranteed two of five connections.
fn site(workers: u32, more: &str) -> Site {
    let port = Postgres::shared().port();
    let (user, password) = (users::APP.name, users::APP.password);
    let two = format!(
        "[servers.main]\nmax_connections = 5\n[pools.two]\nhost = \"127.0.0.1\"\nport = {port}\ndatabase = \"postgres\"\n\
         user = \"{user}\"\npassword = {password:?}\nserver = \"main\"\nguaranteed_connections = 2\n{more}"
    );
    let setup = Setup::new(Mode::Transaction).size(20).workers(workers);
    Site::with(setup.pool("server = \"main\"").pool("weight = 1000").more(&two), Mode::Transaction)
}

fn connect(site: &Site, pool: &str) -> Connection {
    let params = site.weir().params(users::APP.name, pool).password(users::APP.password);
    Connection::connect(&params).unwrap_or_else(|error| panic!("{pool}: {error}"))
}

const SERVERS: [&str; 7] =
    ["sv_active", "sv_active_cancel", "sv_being_canceled", "sv_idle", "sv_used", "sv_tested", "sv_login"];

/// The sum of these columns of SHOW POOLS; 0 for a pool that nobody has used.
fn count(site: &Site, pool: &str, columns: &[&str]) -> i64 {
    let pools = site.weir().show("POOLS");
    let rows = (0..pools.rows.len()).filter(|row| pools.get(*row, "database") == Some(pool));
    let of = |row| columns.iter().filter_map(|column| pools.get(row, column)?.parse::<i64>().ok()).sum::<i64>();
    rows.map(of).sum()
}

/// The servers of the pools `app` and `two`, in any state.
fn servers(site: &Site) -> (i64, i64) {
    (count(site, "app", &SERVERS), count(site, "two", &SERVERS))
}

/// Runs `during` while the storm rages in the pool `app`.
fn storm(site: &Site, during: impl FnOnce()) {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..STORM {
            scope.spawn(|| {
                let mut client = connect(site, "app");
                while !over.load(Ordering::Relaxed) {
                    client.query(HELD).unwrap();
                }
            });
        }
        eventually("the storm rages", || match count(site, "app", &["cl_waiting"]) {
            waiting if waiting > STORM as i64 / 2 => Ok(()),
            waiting => Err(waiting),
        });
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(during));
        over.store(true, Ordering::Relaxed);
        if let Err(panic) = ended {
            std::panic::resume_unwind(panic);
        }
    });
}

#[test]
fn a_storm_of_one_pool_leaves_another_its_guarantee_at_once() {
    for workers in [1, 3] {
        let site = site(workers, "");
        storm(&site, || {
            eventually("the storm uses what nobody needs", || match servers(&site) {
                (5, 0) => Ok(()),
                others => Err(format!("{others:?}")),
            });
            let begun = Instant::now();
            let mut first = connect(&site, "two");
            assert_eq!(first.value("SELECT 'served'").unwrap().as_deref(), Some("served"));
            let waited = begun.elapsed();
            println!("{workers} workers: the first query was served after {} ms", waited.as_millis());
            assert!(waited < BACKLOG / 2, "it waited for {waited:?}");
            // A second one, while the first holds its server: the guarantee is two.
            first.query("BEGIN").unwrap();
            let begun = Instant::now();
            connect(&site, "two").query("SELECT 1").unwrap();
            assert!(begun.elapsed() < BACKLOG / 2, "the second waited for {:?}", begun.elapsed());
            let mut most = 0;
            for _ in 0..20 {
                let (of_storm, of_two) = servers(&site);
                most = most.max(of_storm + of_two);
                assert_eq!(of_two, 2, "what is idle within the guarantee stays");
                thread::sleep(Duration::from_millis(20));
            }
            assert!(most <= 5, "{most} connections");
            first.query("COMMIT").unwrap();
        });
    }
}

#[test]
fn what_is_idle_beyond_a_guarantee_goes_to_who_needs_it() {
    let site = site(1, "");
    let mut held: Vec<Connection> = (0..5).map(|_| connect(&site, "two")).collect();
    held.iter_mut().for_each(|client| drop(client.query("BEGIN").unwrap()));
    assert_eq!(servers(&site), (0, 5));
    held.iter_mut().for_each(|client| drop(client.query("COMMIT").unwrap()));
    let mut others: Vec<Connection> = (0..3).map(|_| connect(&site, "app")).collect();
    others.iter_mut().for_each(|client| drop(client.query("BEGIN").unwrap()));
    assert_eq!(servers(&site), (3, 2));
    // What is left is guaranteed to the other one.
    thread::scope(|scope| {
        let fourth = scope.spawn(|| connect(&site, "app").query("SELECT 1").unwrap().rows.len());
        eventually("it waits", || match count(&site, "app", &["cl_waiting"]) {
            1 => Ok(()),
            waiting => Err(waiting),
        });
        assert_eq!(servers(&site), (3, 2));
        others[0].query("COMMIT").unwrap();
        assert_eq!(fourth.join().unwrap(), 1);
    });
}

#[test]
fn the_console_the_api_and_the_metrics_show_who_shares_what() {
    let api = Api::default();
    let site = site(1, &api.section());
    connect(&site, "two").query("SELECT 1").unwrap();
    let shown = site.weir().show("DATABASES");
    let row = shown.rows.iter().position(|row| row[0].as_deref() == Some("two")).expect("a row");
    let last =
        ["server", "guaranteed_connections", "weight", "giving_back"].map(|column| shown.get(row, column).unwrap());
    assert_eq!(last, ["main", "2", "1", "0"]);
    let seen = api.get("/api/v1/database-servers")["servers"][0].clone();
    let limit = serde_json::json!([{"name": "main", "max_connections": 5, "guaranteed": 2, "open": 1}]);
    assert_eq!((&seen["limits"], &seen["most"]), (&limit, &5.into()), "{seen}");
    let (_, metrics) = api.ask("GET", "/metrics", "");
    for line in ["weir_shared_server_limit{server=\"main\"} 5", "weir_shared_server_connections{server=\"main\"} 1"] {
        assert!(metrics.contains(line), "{line} is missing");
    }
}

#[test]
fn a_lower_limit_takes_effect_with_a_reload_as_transactions_end() {
    let site = site(1, "");
    let mut held: Vec<Connection> = (0..5).map(|_| connect(&site, "app")).collect();
    held.iter_mut().for_each(|client| drop(client.query("BEGIN").unwrap()));
    let file = site.weir().folder().join("weir.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("max_connections = 5", "max_connections = 3")).unwrap();
    site.weir().command("RELOAD").unwrap();
    assert_eq!(servers(&site), (5, 0), "no transaction is broken");
    held.iter_mut().for_each(|client| drop(client.query("COMMIT").unwrap()));
    eventually("two are closed", || match servers(&site) {
        (3, 0) => Ok(()),
        other => Err(format!("{other:?}")),
    });
}
