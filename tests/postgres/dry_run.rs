//! What is recorded of a pool's traffic, and that mode auto does with it what the report says.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use weir_pgclient::Connection;
use weir_tests::{Api, Batch, Mode, Setup, Site, ask, weir_binary};

fn site(mode: Mode) -> (Site, Api) {
    let api = Api::default();
    let site = Site::with(Setup::new(mode).size(20).limit("max_pinned = 100").more(&api.section()), mode);
    site.superuser()
        .query_all(
            "CREATE FUNCTION nothing(int) RETURNS int LANGUAGE sql AS 'SELECT 1'; CREATE SEQUENCE numbers; \
             GRANT ALL ON SEQUENCE numbers TO app",
        )
        .unwrap();
    (site, api)
}

fn named(site: &Site, name: &str) -> Connection {
    Connection::connect(&site.params().option("application_name", name)).unwrap()
}

/// Sessions that use a session's state, each with what it does one after the other. They stay connected.
fn play(site: &Site) -> Vec<Connection> {
    let sessions: [(&str, &[&str]); 8] = [
        ("web", &["SET work_mem = '5MB'", "SET timezone = 'UTC'", "SELECT 1", "SET LOCAL work_mem = '6MB'"]),
        ("jobs", &["LISTEN gossip", "SELECT pg_advisory_lock(1471147114)", "LISTEN gossip", "UNLISTEN gossip"]),
        ("batch", &["PREPARE mine AS SELECT 'hunter2'", "EXECUTE mine", "CREATE TEMP TABLE scratch (n int)"]),
        ("owner", &["SET ROLE app"]),
        ("calls", &["SELECT nothing(1471247124)", "SELECT nothing(1471347134)"]),
        ("blocks", &["DO 'BEGIN PERFORM 1; END'"]),
        ("undone", &["BEGIN", "LISTEN never", "CREATE TEMP TABLE never (n int)", "ROLLBACK"]),
        (
            "tidy",
            &["PREPARE mine AS SELECT 1", "DEALLOCATE mine", "CREATE TEMP TABLE scratch (n int)", "DROP TABLE scratch"],
        ),
    ];
    let mut connections: Vec<Connection> = Vec::new();
    for (name, texts) in sessions {
        let mut client = named(site, name);
        texts.iter().for_each(|text| drop(client.query_all(text).unwrap_or_else(|error| panic!("{text}: {error}"))));
        connections.push(client);
    }
    let mut client = named(site, "driver");
    let batch = Batch::new().parse("s", "SET my.own = 'hunter2'").bind("", "s", &[]).execute("", 0).sync();
    ask(&mut client, &batch, 1);
    connections.push(client);
    connections
}

/// The rows of SHOW DRY_RUN, without the times of day.
fn lines(site: &Site) -> Vec<String> {
    let table = site.weir().show("DRY_RUN");
    let columns = ["application_name", "does", "kind", "in_transaction", "in_auto", "times", "clients", "statement"];
    let row = |row| columns.map(|column| table.get(row, column).unwrap_or_default().to_owned()).join(" | ");
    (0..table.rows.len()).map(row).collect()
}

/// The kinds of state that keep the clients of each application, as `kinds` says of each row.
fn pinned(rows: impl Iterator<Item = (String, String)>) -> BTreeMap<String, BTreeSet<String>> {
    let mut pinned = BTreeMap::<String, BTreeSet<String>>::new();
    for (application, kinds) in rows {
        let kinds = kinds.split(", ").filter(|kind| !kind.is_empty()).map(str::to_owned);
        pinned.entry(application).or_default().extend(kinds);
    }
    pinned.retain(|_, kinds| !kinds.is_empty());
    pinned
}

#[test]
fn the_report_names_each_statement_with_its_outcome_and_mode_auto_does_what_it_says() {
    let (site, api) = site(Mode::Session);
    site.weir().command("START_RECORD app 600").unwrap();
    let kept = play(&site);
    let wanted = [
        "batch | leaves | temporary_objects | lost | pinned | 1 | 1 | create temp table scratch(n int)",
        "batch | finds | statements | read from another client | kept | 1 | 1 | execute mine",
        "batch | leaves | statements | lost | pinned | 1 | 1 | prepare mine as select ?",
        "driver | leaves | settings | lost | kept | 1 | 1 | set my.own = ?",
        "jobs | leaves | listen | lost | kept | 2 | 1 | listen gossip",
        "jobs | leaves | advisory_locks | lost | pinned | 1 | 1 | select pg_advisory_lock(?)",
        "jobs | finds | listen | read from another client | kept | 1 | 1 | unlisten gossip",
        "owner | leaves | settings | lost | pinned | 1 | 1 | set role app",
        "tidy | leaves | temporary_objects | lost | pinned | 1 | 1 | create temp table scratch(n int)",
        "tidy | finds | statements | read from another client | kept | 1 | 1 | deallocate mine",
        "tidy | leaves | statements | lost | pinned | 1 | 1 | prepare mine as select ?",
        "web | leaves | settings | lost | kept | 1 | 1 | set work_mem = ?",
        "blocks | may leave | unknown | unknown | asked | 1 | 1 | do ?",
        "calls | may leave | unknown | unknown | asked | 2 | 1 | select nothing(?)",
        "web | leaves | settings | kept | kept | 1 | 1 | set timezone = ?",
    ];
    assert_eq!(lines(&site), wanted);
    let run = api.get("/api/v1/pools/app/dry-run");
    assert_eq!(
        (&run["mode"], &run["recording"], &run["missed"]),
        (&"session".into(), &true.into(), &0.into()),
        "{run}"
    );
    assert_eq!((&run["sizes"]["session"], &run["sizes"]["transaction"]), (&9.into(), &1.into()), "{run}");
    // Four hold state that keeps a server at the end; each was the only one in a transaction then.
    assert_eq!((&run["levels"]["holders"]["peak"], &run["levels"]["either"]["peak"]), (&4.into(), &4.into()), "{run}");
    let text = run.to_string();
    assert!(!["hunter2", "1471147114", "1471247124"].iter().any(|value| text.contains(value)), "{text}");

    site.weir().command("STOP_RECORD app").unwrap();
    named(&site, "late").query("LISTEN gossip").unwrap();
    assert_eq!(lines(&site), wanted, "nothing is recorded any more");
    let check = Command::new(weir_binary())
        .args(["check", "--dry-run", "--pool", "app"])
        .arg(site.weir().folder().join("weir.toml"))
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&check.stdout).into_owned();
    assert!(check.status.success(), "{printed} {}", String::from_utf8_lossy(&check.stderr));
    for part in [
        "app: recorded in mode session",
        "pinned (advisory_locks)",
        "kept (follows)",
        "can't be judged",
        "advice: mode transaction breaks statements of batch, driver, jobs, owner, tidy, web",
    ] {
        assert!(printed.contains(part), "{part} is not in {printed}");
    }

    let (auto, _) = self::site(Mode::Auto);
    let kept_in_auto = play(&auto);
    let clients = auto.weir().show("CLIENTS");
    let get = |row, column| clients.get(row, column).unwrap_or_default().to_owned();
    let found = pinned((0..clients.rows.len()).map(|row| (get(row, "application_name"), get(row, "pinned_by"))));
    let rows = run["statements"].as_array().unwrap().iter().filter(|line| line["in_auto"] == "pinned");
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let mut said = pinned(rows.map(|line| (text(&line["application"]), text(&line["kind"]))));
    assert!(said.remove("tidy").is_some(), "it has removed again what it had left");
    assert_eq!(found, said);
    drop((kept, kept_in_auto));
}

#[test]
fn in_mode_transaction_what_clients_lose_is_recorded_and_how_many_servers_they_need() {
    let (site, _) = site(Mode::Transaction);
    site.weir().command("START_RECORD").unwrap();
    let mut clients: Vec<Connection> = (0..3).map(|_| named(&site, "web")).collect();
    clients.iter_mut().for_each(|client| drop(client.query("BEGIN").unwrap()));
    clients[0].query_all("SELECT nextval('numbers'); SELECT currval('numbers')").unwrap();
    clients.iter_mut().for_each(|client| drop(client.query("COMMIT").unwrap()));
    clients[0].query("CREATE TEMP TABLE scratch (n int)").unwrap();
    // Another client's value, or none: an error is no use.
    let _ = clients[0].query("SELECT currval('numbers')");
    let table = site.weir().show("RECORDS");
    let get = |column| table.get(0, column).unwrap_or_default().to_owned();
    let levels = ["database", "state", "sessions", "transactions", "holders", "either"].map(get);
    assert_eq!(levels, ["app", "recording", "3", "3", "1", "3"]);
    assert!(lines(&site).contains(
        &"web | leaves | temporary_objects | lost | pinned | 1 | 1 | create temp table scratch(n int)".to_owned()
    ));
}

#[test]
fn without_a_record_nothing_is_kept_and_a_wrong_wish_is_refused() {
    let (site, api) = site(Mode::Session);
    let _kept = play(&site);
    assert!(lines(&site).is_empty() && site.weir().show("RECORDS").rows.is_empty());
    let memory = site.weir().show("MEM");
    assert!((0..memory.rows.len()).all(|row| memory.get(row, "name") != Some("traffic_record")));
    assert_eq!(api.ask("GET", "/api/v1/pools/app/dry-run", "").0, 404);
    for (path, status) in [
        ("pools/app/start-record?seconds=0", 400),
        ("pools/nothing/start-record", 404),
        ("pools/app/start-record?seconds=60", 204),
        ("pools/app/stop-record", 204),
        ("start-record", 204),
        ("stop-record", 204),
    ] {
        assert_eq!(api.ask("POST", &format!("/api/v1/{path}"), "").0, status, "{path}");
    }
    assert_eq!(site.weir().command("START_RECORD nothing").unwrap_err().sqlstate(), Some("08P01"));
    let failed = Command::new(weir_binary())
        .args(["check", "--dry-run", "--pool", "other"])
        .arg(site.weir().folder().join("weir.toml"))
        .output()
        .unwrap();
    assert!(!failed.status.success());
    assert!(String::from_utf8_lossy(&failed.stderr).contains("no traffic of other was recorded"));
}
