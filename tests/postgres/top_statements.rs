//! Statistics of statements: what was run is what is counted, in every protocol and mode, and no value is stored.

use std::thread;
use std::time::Duration;

use weir_pgclient::{Answer, Connection};
use weir_tests::{Api, Batch, Mode, Postgres, Setup, Site, ask, eventually, lines_of, read_until_ready};

/// A value that must be nowhere.
const SECRET: &str = "hunter2hunter2";

fn setup(mode: Mode, more: &str) -> Setup {
    Setup::new(mode).size(2).general("track_statements = 50").more(more)
}

fn site(mode: Mode) -> Site {
    Site::with(setup(mode, ""), mode)
}

fn named(site: &Site, name: &str) -> Connection {
    Connection::connect(&site.params().option("application_name", name)).unwrap()
}

/// A figure of the statement with this text.
fn figure(table: &Answer, statement: &str, column: &str) -> i64 {
    let row = (0..table.rows.len()).find(|row| table.get(*row, "statement") == Some(statement));
    row.map_or(0, |row| table.get(row, column).unwrap().parse().unwrap())
}

fn figures(site: &Site, statement: &str) -> [i64; 3] {
    let table = site.weir().show("STATEMENTS");
    ["calls", "errors", "rows"].map(|column| figure(&table, statement, column))
}

fn modes(check: impl Fn(&Site)) {
    for (mode, line) in [(Mode::Session, "200"), (Mode::Transaction, "200"), (Mode::Transaction, "0")] {
        let setup = setup(mode, "").limit(&format!("max_prepared_statements = {line}"));
        check(&Site::with(setup, mode));
    }
}

#[test]
fn literals_and_parameters_are_one_statement_over_every_protocol() {
    modes(|site| {
        let mut client = site.connect();
        client.query("CREATE TABLE t AS SELECT generate_series(1, 10) AS id").unwrap();
        client.query("SELECT id FROM t WHERE id <= 3").unwrap();
        client.query("select id  from t /* why */ where id <= -3; ").unwrap();
        ask(&mut client, &Batch::new().run("SELECT id FROM t WHERE id <= $1", &["4"]).sync(), 1);
        let named = Batch::new().parse("s", "SELECT id FROM t WHERE id <= $1");
        // Without the cache of statements, names work within their transaction only.
        ask(&mut client, &named.bind("", "s", &["5"]).execute("", 0).sync(), 1);
        assert_eq!(figures(site, "select id from t where id <= ?"), [4, 0, 3 + 4 + 5]);
        client.query("SELECT id FROM t WHERE id IN (1, 2, 3)").unwrap();
        client.query("SELECT id FROM t WHERE id IN (1, 2)").unwrap();
        assert_eq!(figures(site, "select id from t where id in (?)"), [2, 0, 5]);
    });
}

#[test]
fn a_statement_that_is_prepared_once_counts_each_time_on_any_server() {
    for mode in [Mode::Session, Mode::Transaction] {
        let site = site(mode);
        let mut client = site.connect();
        ask(&mut client, &Batch::new().parse("s", "SELECT generate_series(1, $1::int)").sync(), 1);
        for _ in 0..20 {
            ask(&mut client, &Batch::new().bind("", "s", &["3"]).execute("", 0).sync(), 1);
        }
        assert_eq!(figures(&site, "select generate_series(?::int)"), [20, 0, 60], "{mode:?}");
        // Rows that are fetched in parts.
        let parts = Batch::new().bind("", "s", &["5"]).execute("", 2).execute("", 2).execute("", 2).sync();
        ask(&mut client, &parts, 1);
        assert_eq!(figures(&site, "select generate_series(?::int)")[2], 65, "{mode:?}");
    }
}

#[test]
fn errors_count_where_they_happen_and_what_was_skipped_does_not() {
    modes(|site| {
        let mut client = site.connect();
        assert!(client.query("SELECT 1 / 0").is_err());
        ask(&mut client, &Batch::new().run("SELECT 1 / $1::int", &["0"]).run("SELECT 'skipped'", &[]).sync(), 1);
        ask(&mut client, &Batch::new().run("SELECT nothing FROM nowhere", &[]).sync(), 1);
        assert_eq!(figures(site, "select ? / ?"), [1, 1, 0]);
        assert_eq!(figures(site, "select ? / ?::int"), [1, 1, 0]);
        assert_eq!(figures(site, "select nothing from nowhere"), [1, 1, 0]);
        assert_eq!(figures(site, "select ?"), [0, 0, 0]);
    });
}

#[test]
fn a_pipeline_and_an_execute_by_sql_count_one_by_one() {
    let site = site(Mode::Transaction);
    let mut client = site.connect();
    let batch =
        (0..30).fold(Batch::new(), |batch, _| batch.query("SELECT 1, generate_series(1, 2)").run("SELECT $1", &["x"]));
    client.send_bytes(batch.sync().bytes()).unwrap();
    lines_of(&read_until_ready(&mut client, 31));
    assert_eq!(figures(&site, "select ?, generate_series(?)"), [30, 0, 60]);
    assert_eq!(figures(&site, "select ?"), [30, 0, 30]);
    client.query("BEGIN").unwrap();
    client.query("PREPARE q (int) AS SELECT generate_series(7, $1) AS n").unwrap();
    client.query("EXECUTE q(9)").unwrap();
    client.query("EXECUTE q(8)").unwrap();
    client.query("COMMIT").unwrap();
    assert_eq!(figures(&site, "select generate_series(?) as n"), [2, 0, 5]);
    assert_eq!(figures(&site, "begin"), [1, 0, 0]);
}

#[test]
fn calls_and_rows_are_those_of_pg_stat_statements() {
    let postgres = Postgres::with(60, &[("shared_preload_libraries", "pg_stat_statements")]);
    let site = Site::on(&postgres, setup(Mode::Transaction, ""), Mode::Transaction);
    let mut superuser = site.superuser();
    superuser.query("CREATE EXTENSION pg_stat_statements").unwrap();
    let mut client = site.connect();
    client.query("CREATE TABLE accounts (id int PRIMARY KEY, balance int)").unwrap();
    superuser.query("SELECT pg_stat_statements_reset()").unwrap();
    site.weir().command("RESET STATEMENTS").unwrap();
    for id in 0..40 {
        client.query(&format!("INSERT INTO accounts VALUES ({id}, 1), ({}, 2)", id + 1000)).unwrap();
        client.query(&format!("UPDATE accounts SET balance = balance + {id} WHERE id < {id}")).unwrap();
        client.query(&format!("SELECT * FROM accounts WHERE id <= {id}")).unwrap();
        let batch = Batch::new().run("DELETE FROM accounts WHERE id = $1", &[&(id + 1000).to_string()]).sync();
        ask(&mut client, &batch, 1);
    }
    let theirs = superuser
        .query("SELECT lower(split_part(query, ' ', 1)) AS verb, sum(calls) AS calls, sum(rows) AS rows FROM pg_stat_statements WHERE query ~ 'accounts' GROUP BY 1 ORDER BY 1")
        .unwrap();
    assert_eq!(theirs.rows.len(), 4);
    let table = site.weir().show("STATEMENTS");
    for row in 0..theirs.rows.len() {
        let verb = theirs.get(row, "verb").unwrap();
        let ours: Vec<_> = (0..table.rows.len())
            .filter(|row| {
                table.get(*row, "statement").is_some_and(|text| text.starts_with(verb) && text.contains("accounts"))
            })
            .collect();
        assert_eq!(ours.len(), 1, "{verb}");
        for column in ["calls", "rows"] {
            assert_eq!(table.get(ours[0], column), theirs.get(row, column), "{column} of {verb}");
        }
    }
}

#[test]
fn what_runs_long_is_told_from_what_waits_and_each_application_has_its_part() {
    let site = Site::with(setup(Mode::Transaction, "").size(1), Mode::Transaction);
    let mut first = named(&site, "billing");
    first.query("BEGIN").unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| named(&site, "web").query("SELECT pg_sleep(0.3)").map(drop).unwrap());
        thread::sleep(Duration::from_millis(400));
        first.query("SELECT pg_sleep(0.2)").unwrap();
        first.query("COMMIT").unwrap();
        waiting.join().unwrap();
    });
    let table = site.weir().show("STATEMENTS");
    let sleep = "select pg_sleep(?)";
    assert_eq!(figure(&table, sleep, "calls"), 2);
    let (run, wait) = (figure(&table, sleep, "run_time"), figure(&table, sleep, "wait_time"));
    assert!((480_000..5_000_000).contains(&run), "{run}");
    assert!((300_000..60_000_000).contains(&wait), "{wait}");
    assert!((280_000..5_000_000).contains(&figure(&table, sleep, "p99")));
    let row = (0..table.rows.len()).find(|row| table.get(*row, "statement") == Some(sleep)).unwrap();
    let applications = table.get(row, "applications").unwrap();
    assert!(applications.contains("billing: 1") && applications.contains("web: 1"), "{applications}");
    let share: f64 = table.get(row, "share").unwrap().parse().unwrap();
    assert!(share > 90.0 && share <= 100.0, "{share}");
}

#[test]
fn no_value_is_stored_or_logged_and_slow_statements_have_the_fingerprint_of_the_table() {
    let api = Api::default();
    let more = format!("[log]\nmin_duration_statement = \"100ms\"\n{}", api.section());
    let site = Site::with(setup(Mode::Session, &more), Mode::Session);
    let mut client = named(&site, "billing");
    for sql in [
        format!("SELECT pg_sleep(0.15), '{SECRET}'"),
        format!("SELECT $x${SECRET}$x$, E'\\'{SECRET}', U&'{SECRET}' /* {SECRET} */ -- {SECRET}"),
        format!("SET app.token = '{SECRET}'"),
        format!("SET app.token TO {SECRET}"),
        format!("ALTER ROLE app PASSWORD {SECRET}"),
        format!("SELECT '{SECRET}"),
        format!("SELECT \"{SECRET} cut"),
        format!("COPY (SELECT '{SECRET}') TO STDOUT; SELECT 1"),
        format!("SET standard_conforming_strings = off; SELECT 'a\\' {SECRET}'"),
    ] {
        let _ = client.query_all(&sql);
    }
    let all = api.get("/api/v1/statements?limit=1000");
    assert!(all["tracked"].as_u64() >= Some(6), "{all}");
    assert!(!all.to_string().contains("hunter"), "{all}");
    let table = site.weir().show("STATEMENTS");
    assert!(!format!("{:?}", table.rows).contains("hunter"));
    let row = (0..table.rows.len()).find(|row| table.get(*row, "statement") == Some("select pg_sleep(?), ?")).unwrap();
    let fingerprint = table.get(row, "fingerprint").unwrap();
    let wanted = format!("application: \"billing\"  fingerprint: {fingerprint}  statement: select pg_sleep(?), ?");
    let log = eventually("a line about the slow statement", || {
        let log = site.weir().log();
        if log.contains(&wanted) { Ok(log) } else { Err(log) }
    });
    assert!(!log.contains(SECRET));
    assert_eq!(log.matches("  fingerprint: ").count(), 1, "only one was slow");
}

#[test]
fn a_sample_of_the_slow_statements_is_logged() {
    for (percent, logged) in [(0, 0), (100, 3)] {
        let more = format!("[log]\nmin_duration_statement = \"5ms\"\nstatement_sample_percent = {percent}\n");
        let site = Site::with(setup(Mode::Transaction, &more), Mode::Transaction);
        let mut client = named(&site, "billing");
        (0..3).for_each(|_| assert!(client.query("SELECT pg_sleep(0.05)").is_ok()));
        eventually("as many lines", || {
            let log = site.weir().log();
            if log.matches("  fingerprint: ").count() == logged { Ok(()) } else { Err(log) }
        });
        // What is wrongly logged comes a little later.
        thread::sleep(Duration::from_millis(100));
        let log = site.weir().log();
        assert_eq!(log.matches("  fingerprint: ").count(), logged, "{percent} %: {log}");
    }
}

#[test]
fn the_api_sorts_limits_filters_and_resets_and_nothing_is_counted_unless_asked_for() {
    let api = Api::default();
    let site = Site::with(setup(Mode::Transaction, &api.section()).workers(2), Mode::Transaction);
    let mut clients: Vec<_> = (0..4).map(|_| site.connect()).collect();
    for client in &mut clients {
        client.query("SELECT 1 AS often").unwrap();
        client.query("SELECT 1 AS often").unwrap();
    }
    clients[0].query("SELECT generate_series(1, 5000)").unwrap();
    let top = |path: &str| api.get(path)["statements"][0]["statement"].as_str().unwrap_or_default().to_owned();
    assert_eq!(top("/api/v1/statements?sort=calls&limit=1"), "select ? as often");
    assert_eq!(top("/api/v1/statements?sort=rows&pool=app"), "select generate_series(?)");
    assert_eq!(top("/api/v1/statements?sort=bytes"), "select generate_series(?)");
    assert_eq!(top("/api/v1/statements?pool=other"), "");
    let all = api.get("/api/v1/statements?sort=calls");
    assert_eq!((&all["statements"][0]["calls"], &all["capacity"]), (&8.into(), &100.into()), "of two workers");
    assert_eq!(api.ask("GET", "/api/v1/statements?sort=nothing", "").0, 400);
    assert!(api.ask("GET", "/metrics", "").1.contains("weir_statements_tracked "));
    assert_eq!(api.post("/api/v1/statements/reset").0, 204);
    assert_eq!(top("/api/v1/statements"), "");
    site.weir().command("SET track_statements = 0").unwrap();
    clients[0].query("SELECT 1 AS often").unwrap();
    assert_eq!((&api.get("/api/v1/statements")["tracking"], top("/api/v1/statements")), (&false.into(), String::new()));
}
