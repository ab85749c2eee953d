//! The incident view of a running Weir: who holds what others wait for, and what can be done about it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use weir_pgclient::{ConnectParams, Connection};
use weir_tests::{Api, Mode, Postgres, Setup, Site, eventually, users, within};

const SECRET: &str = "hunter2";
/// Generous, because the machine may be busy.
const TIMEOUT: Duration = Duration::from_secs(180);

/// A site with an API, whose table t has one row.
fn site(size: u32) -> (Site, Api) {
    let api = Api::default();
    let setup = Setup::new(Mode::Transaction).size(size).more(&api.section());
    let site = Site::with(setup, Mode::Transaction);
    site.connect().query("CREATE TABLE t AS SELECT 1 AS id, 'a' AS name").unwrap();
    (site, api)
}

fn named(site: &Site, name: &str) -> Connection {
    // Longer than anything here waits.
    let params: ConnectParams = site.params().option("application_name", name).timeout(Duration::from_secs(180));
    Connection::connect(&params).unwrap()
}

/// The incident of the pool, once it fits.
#[track_caller]
fn incident(api: Api, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
    eventually(what, || {
        let found = api.get("/api/v1/incidents?pool=app")["incidents"][0].clone();
        if fits(&found) { Ok(found) } else { Err(found.to_string()) }
    })
}

/// Clients that each run this query, until `then` has ended; returns the results of their queries.
fn behind<T>(site: &Site, clients: usize, query: &str, then: impl FnOnce() -> T) -> (T, Vec<Result<(), String>>) {
    thread::scope(|scope| {
        let run = || named(site, "web").query(query).map(|_| ()).map_err(|error| error.to_string());
        let queries: Vec<_> = (0..clients).map(|_| scope.spawn(run)).collect();
        let done = then();
        (done, queries.into_iter().map(|query| query.join().unwrap()).collect())
    })
}

fn update() -> String {
    format!("UPDATE t SET name = '{SECRET}' WHERE id = 1")
}

#[test]
fn one_client_idle_in_transaction_with_a_lock_is_named_and_no_size_is_advised() {
    let (site, api) = site(5);
    let mut holder = named(&site, "billing");
    holder.query("BEGIN").unwrap();
    holder.query(&update()).unwrap();
    // Four queries behind the lock have the other servers; two more clients wait for a server.
    let (found, results) = behind(&site, 6, &update(), || {
        let found = incident(api, "all are seen", |found| {
            found["holders"][0]["blocks_total"] == 4
                && found["clients_waiting"] == 2
                && found["seconds"].as_f64() > Some(1.0)
        });
        // Longer than the advice needs to know a pool: half a minute of figures.
        thread::sleep(Duration::from_secs(33));
        let advice = api.get("/api/v1/advice");
        assert_eq!(advice["live"][0]["pool"], "app", "{advice}");
        let text = advice["live"][0]["text"].as_str().unwrap();
        assert!(text.starts_with("Blocked by process ") && text.contains("\"billing\" of"), "{text}");
        assert_eq!(advice["advice"].as_array().map(Vec::len), Some(0), "{advice}");
        holder.query("COMMIT").unwrap();
        found
    });
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    // Nor when all that was blocked has ended at once.
    thread::sleep(Duration::from_secs(3));
    let after = api.get("/api/v1/advice");
    assert_eq!((&after["live"], &after["advice"]), (&Value::Array(Vec::new()), &Value::Array(Vec::new())), "{after}");

    assert_eq!((&found["cause"], &found["seen"]["complete"]), (&"blocked".into(), &true.into()), "{found}");
    let first = &found["holders"][0];
    assert_eq!(
        (&first["client"]["application_name"], &first["state"]),
        (&"billing".into(), &"idle in transaction".into())
    );
    assert_eq!((&first["of_pool"], &first["client"]["address"]), (&true.into(), &"127.0.0.1".into()), "{first}");
    let blocked = &first["blocks"][0];
    assert_eq!(blocked["statement"], "update t set name = ? where id = ?", "{blocked}");
    assert_eq!(blocked["blocked_by"].as_array().unwrap().len(), 1, "{blocked}");
    assert!(blocked["waits_for"].as_str().unwrap().starts_with("Lock: ") && blocked["state_seconds"].is_number());
    assert_eq!(found["waiting"][0]["application_name"], "web", "{found}");
    assert!(!found.to_string().contains(SECRET), "{found}");
}

/// Work that a larger pool does not speed up: each waits for the one before it.
const ONE_AT_A_TIME: &str = "SELECT pg_advisory_xact_lock(1), pg_sleep(0.2)";

#[test]
fn a_change_by_advice_that_did_not_help_is_taken_back_and_the_audit_has_it() {
    let (site, api) = site(2);
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..30 {
            scope.spawn(|| {
                let mut client = named(&site, "web");
                while !ended.load(Ordering::Relaxed) {
                    if client.query(ONE_AT_A_TIME).is_err() {
                        break;
                    }
                }
            });
        }
        let applied = within(TIMEOUT, "advice can be applied", || {
            thread::sleep(Duration::from_millis(500));
            match api.ask("POST", "/api/v1/advice/app/apply", "{\"watch_seconds\": 10}") {
                (200, applied) => Ok(serde_json::from_str::<Value>(&applied).unwrap()),
                other => Err(other),
            }
        });
        assert_eq!((&applied["state"], &applied["before"]["size"]), (&"watched".into(), &2.into()), "{applied}");
        assert!(api.get("/api/v1/pools/app")["size"].as_u64() > Some(2));
        assert_eq!(api.ask("POST", "/api/v1/advice/app/apply", "{}").0, 409, "one at a time");
        let applied = within(TIMEOUT, "it is compared", || {
            thread::sleep(Duration::from_millis(500));
            let applied = api.get("/api/v1/advice")["applied"][0].clone();
            if applied["state"] == "watched" { Err(applied) } else { Ok(applied) }
        });
        ended.store(true, Ordering::Relaxed);
        assert_eq!(applied["state"], "taken_back", "{applied}");
    });
    assert_eq!(api.get("/api/v1/pools/app")["size"], 2);
    let audit = api.get("/api/v1/audit").to_string();
    assert!(audit.contains("weir (advice)") && audit.contains("/api/v1/advice/app/undo"), "{audit}");
}

#[test]
fn a_query_is_cancelled_and_a_backend_terminated_only_while_they_do_what_was_seen() {
    let (site, api) = site(3);
    let mut holder = named(&site, "billing");
    holder.query("BEGIN").unwrap();
    holder.query(&update()).unwrap();
    let send = |process: &Value, what: &str| {
        let path = format!("/api/v1/pools/app/backends/{}/{what}", process["process_id"]);
        api.ask("POST", &path, &process["key"].to_string())
    };
    let ((), results) = behind(&site, 1, &update(), || {
        let found = incident(api, "a query is blocked", |found| found["holders"][0]["blocks_total"] == 1);
        let blocked = found["holders"][0]["blocks"][0].clone();
        assert_eq!(send(&blocked, "cancel"), (204, String::new()));
        eventually("its query has ended, and a later one is not cancelled", || match send(&blocked, "cancel") {
            (409, why) if why.contains("something else by now") => Ok(()),
            other => Err(other),
        });
    });
    assert!(results[0].as_ref().unwrap_err().contains("canceling statement due to user request"), "{results:?}");
    let ((), results) = behind(&site, 1, &update(), || {
        let found = incident(api, "a query is blocked", |found| found["holders"][0]["blocks_total"] == 1);
        let first = found["holders"][0].clone();
        let other = Value::Object([("started".to_owned(), 1.into())].into_iter().collect());
        assert_eq!(
            api.ask(
                "POST",
                &format!("/api/v1/pools/app/backends/{}/terminate", first["process_id"]),
                &other.to_string()
            )
            .0,
            409
        );
        assert_eq!(send(&first, "terminate"), (204, String::new()));
    });
    assert!(results[0].is_ok(), "the lock is free: {results:?}");
    assert!(holder.query("COMMIT").is_err(), "its server is gone");
    let audit = api.get("/api/v1/audit").to_string();
    assert!(audit.contains("/backends/") && audit.contains("/terminate"), "{audit}");
}

#[test]
fn a_holder_that_the_pool_s_user_may_not_see_is_named_by_its_process_and_the_reason_is_given() {
    let (site, api) = site(2);
    let mut other = site.superuser();
    other.query("BEGIN").unwrap();
    other.query("LOCK TABLE t").unwrap();
    let pid = other.backend_pid();
    let (found, results) = behind(&site, 1, &update(), || {
        let found = incident(api, "a query is blocked", |found| found["holders"][0]["blocks_total"] == 1);
        other.query("COMMIT").unwrap();
        found
    });
    assert!(results[0].is_ok());
    let first = &found["holders"][0];
    assert_eq!((&first["process_id"], &first["of_pool"]), (&pid.into(), &false.into()));
    assert_eq!((&first["key"], &first["statement"]), (&Value::Null, &Value::Null), "{first}");
    assert_eq!(found["seen"]["complete"], false);
    let reason = found["seen"]["reason"].as_str().unwrap();
    assert!(reason.contains(users::APP.name) && reason.contains("pg_read_all_stats"), "{reason}");
}

/// The process ids of the connections that Weir keeps at a server for looks.
fn kept_looks(server: &mut Connection) -> Vec<String> {
    let text = "SELECT pid FROM pg_stat_activity WHERE application_name = 'weir incident view' ORDER BY 1";
    server.query(text).unwrap().rows.into_iter().filter_map(|row| row.into_iter().next().flatten()).collect()
}

/// One connection for looks, once there is one.
fn kept_look(server: &mut Connection) -> String {
    eventually("a connection is kept", || {
        let kept = kept_looks(server);
        if kept.len() == 1 { Ok(kept[0].clone()) } else { Err(kept) }
    })
}

#[test]
fn a_server_that_takes_no_more_connections_is_still_looked_at_and_the_holder_can_be_ended() {
    let postgres = Postgres::with(14, &[]);
    let api = Api::default();
    let setup = Setup::new(Mode::Transaction).size(3).more(&api.section());
    let site = Site::on(&postgres, setup, Mode::Transaction);
    let mut watcher = site.superuser();
    watcher.query("CREATE TABLE t AS SELECT 1 AS id, 'a' AS name; GRANT ALL ON t TO PUBLIC").unwrap();
    let mut holder = named(&site, "billing");
    holder.query("BEGIN").unwrap();
    holder.query(&update()).unwrap();
    let kept = kept_look(&mut watcher);
    // All servers of the pool are open, and others have the rest.
    let (mut one, mut two) = (named(&site, "web"), named(&site, "web"));
    for client in [&mut one, &mut two] {
        client.query("BEGIN").unwrap();
    }
    for client in [&mut one, &mut two] {
        client.query("COMMIT").unwrap();
    }
    let params = postgres.params(users::OTHER, site.database().name());
    let others: Vec<_> = std::iter::from_fn(|| Connection::connect(&params).ok()).take(30).collect();
    assert!(!others.is_empty() && others.len() < 30, "the server is full");
    let ((), results) = behind(&site, 2, &update(), || {
        let found = incident(api, "the holder is named", |found| {
            found["cause"] == "blocked" && found["holders"][0]["blocks_total"] == 2
        });
        let holder = &found["holders"][0];
        assert_eq!(holder["client"]["application_name"], "billing", "{found}");
        assert_eq!(found["seen"]["by"], users::APP.name, "{found}");
        assert_eq!(api.get("/api/v1/status")["faults"], Value::Array(Vec::new()), "no look has failed");
        let capacity = api.get("/api/v1/database-servers")["servers"][0]["capacity"].clone();
        assert_eq!((&capacity["free"], &capacity["looks"]), (&0.into(), &1.into()), "{capacity}");
        assert!(Connection::connect(&params).is_err(), "it is full still");
        let path = format!("/api/v1/pools/app/backends/{}/terminate", holder["process_id"]);
        assert_eq!(api.ask("POST", &path, &holder["key"].to_string()), (204, String::new()));
    });
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    assert_eq!(kept_looks(&mut watcher), [kept], "it is the same connection");
}

#[test]
fn a_connection_for_looks_ends_with_a_pause_or_another_user_and_not_with_a_reload_or_a_password() {
    let postgres = Postgres::private();
    let api = Api::default();
    let setup = Setup::new(Mode::Transaction).size(2).more(&api.section());
    let site = Site::on(&postgres, setup.clone(), Mode::Transaction);
    let mut watcher = site.superuser();
    let mut client = site.connect();
    client.query("SELECT 1").unwrap();
    let kept = kept_look(&mut watcher);
    site.weir().command("RELOAD").unwrap();
    // It is still the one with which a look is made.
    let _ = api.get("/api/v1/database-servers");
    assert_eq!(kept_look(&mut watcher), kept);
    assert_eq!(api.ask("POST", "/api/v1/pools/app/pause", "{}").0, 204);
    eventually("nobody is connected", || match kept_looks(&mut watcher) {
        kept if kept.is_empty() => Ok(()),
        kept => Err(kept),
    });
    assert_eq!(api.ask("POST", "/api/v1/pools/app/resume", "{}").0, 204);
    client.query("SELECT 1").unwrap();
    let second = kept_look(&mut watcher);
    assert_ne!(second, kept);
    // Another password is none of a connection that is logged in; another user is.
    watcher.query(&format!("ALTER ROLE \"{}\" PASSWORD 'tomorrow'", users::APP.name)).unwrap();
    let changed = |change: &Value| {
        let (status, answer) = api.ask("PATCH", "/api/v1/pools/app", &change.to_string());
        assert_eq!(status, 200, "{answer}");
    };
    changed(&json!({ "password": "tomorrow" }));
    client.query("SELECT 1").unwrap();
    let _ = api.get("/api/v1/database-servers");
    assert_eq!(kept_look(&mut watcher), second);
    changed(&json!({ "user": users::OTHER.name, "password": users::OTHER.password }));
    eventually("another connection", || {
        client.query("SELECT 1").unwrap();
        match kept_looks(&mut watcher) {
            kept if kept.len() == 1 && kept[0] != second => Ok(()),
            kept => Err(kept),
        }
    });
}

#[test]
fn a_connection_for_looks_is_given_back_where_the_pools_user_has_no_other_left() {
    let postgres = Postgres::private();
    let api = Api::default();
    let setup = Setup::new(Mode::Transaction).size(2).more(&api.section());
    let site = Site::on(&postgres, setup, Mode::Transaction);
    let mut watcher = site.superuser();
    watcher.query(&format!("ALTER ROLE \"{}\" CONNECTION LIMIT 2", users::APP.name)).unwrap();
    let (mut one, mut two) = (named(&site, "web"), named(&site, "web"));
    one.query("BEGIN").unwrap();
    kept_look(&mut watcher);
    two.query("BEGIN").unwrap();
    assert_eq!(kept_looks(&mut watcher), [""; 0], "the pool has what is allowed");
    one.query("COMMIT").unwrap();
    two.query("COMMIT").unwrap();
}

#[test]
fn a_pool_that_is_made_on_demand_is_looked_at_in_the_database_of_its_pattern() {
    let postgres = Postgres::private();
    let api = Api::default();
    let star = format!(
        "[pools.\"*\"]\nhost = \"127.0.0.1\"\nport = {}\ndatabase = \"postgres\"\nuser = \"{}\"\npassword = {}\n",
        postgres.port(),
        users::APP.name,
        json!(users::APP.password)
    );
    let site =
        Site::on(&postgres, Setup::new(Mode::Transaction).more(&format!("{star}{}", api.section())), Mode::Transaction);
    let mut watcher = site.superuser();
    let params = site.weir().params(users::APP.name, "named by a client").password(users::APP.password);
    let mut client = Connection::connect(&params).unwrap();
    assert_eq!(client.value("SELECT current_database()::text").unwrap().as_deref(), Some("postgres"));
    let kept = kept_look(&mut watcher);
    let of = watcher.value(&format!("SELECT datname::text FROM pg_stat_activity WHERE pid = {kept}")).unwrap();
    assert_eq!(of.as_deref(), Some("postgres"));
}

#[test]
fn a_database_is_dropped_although_the_connection_for_looks_is_in_it() {
    let postgres = Postgres::private();
    let api = Api::default();
    let (app, mut watcher) = (users::APP, postgres.superuser("postgres"));
    let pool = format!(
        "[pools.dropped]\nhost = \"127.0.0.1\"\nport = {}\ndatabase = \"dropped\"\nuser = \"{}\"\npassword = {}\n",
        postgres.port(),
        app.name,
        json!(app.password)
    );
    watcher.query(&format!("CREATE DATABASE dropped OWNER \"{}\"", app.name)).unwrap();
    let more = format!("{pool}{}", api.section());
    let site = Site::on(&postgres, Setup::new(Mode::Transaction).size(2).more(&more), Mode::Transaction);
    let params = site.weir().params(app.name, "dropped").password(app.password);
    Connection::connect(&params).unwrap().query("SELECT 1").unwrap();
    let kept = kept_look(&mut watcher);
    let of = watcher.value(&format!("SELECT datname::text FROM pg_stat_activity WHERE pid = {kept}")).unwrap();
    assert_eq!(of.as_deref(), Some("dropped"));
    // The pool's idle servers are closed for it, and PostgreSQL waits five seconds for others.
    site.connect().query("DROP DATABASE dropped").unwrap();
}
