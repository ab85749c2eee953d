//! The health of pools with a real server: the same word in the console, the API, the metrics and the log, and RETRY.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use weir_pglocal::Signal;
use weir_tests::{Api, Ini, Mode, Postgres, Receiver, Setup, Site, eventually, users};

/// A pool's health in SHOW POOLS: state, clients, error.
fn health(site: &Site) -> (String, String, String) {
    let pools = site.weir().command("SHOW POOLS").expect("the console");
    let row = (0..pools.rows.len()).find(|row| pools.get(*row, "database") == Some("app")).expect("the pool");
    let text = |column| pools.get(row, column).unwrap_or_default().to_owned();
    (text("health"), text("health_clients"), text("health_error"))
}

#[track_caller]
fn becomes(site: &Site, state: &str) -> (String, String, String) {
    eventually(state, || {
        let health = health(site);
        if health.0 == state { Ok(health) } else { Err(health) }
    })
}

#[test]
fn a_stopped_server_cannot_be_connected_to_and_is_found_again_though_no_client_asks() {
    let postgres = Postgres::private();
    let api = Api::default();
    let setup = Setup::new(Mode::Transaction).size(2).pool("server_login_retry = \"1s\"").more(&api.section());
    let site = Site::on(&postgres, setup, Mode::Transaction);
    let mut client = site.connect();
    client.query("SELECT 1").unwrap();
    assert_eq!(health(&site).0, "healthy");
    postgres.server().shutdown();
    let (_, _, error) = becomes(&site, "cannot connect");
    assert!(error.ends_with("(08006)") || error.ends_with("(57P03)"), "{error}");
    let pool = api.get("/api/v1/pools/app");
    assert_eq!(pool["health"]["state"], "cannot connect", "{pool}");
    assert!(pool["health"]["since"].as_f64() > Some(1e9) && pool["health"]["problem"] == true, "{pool}");
    let (_, metrics) = api.ask("GET", "/metrics", "");
    assert!(
        metrics.contains("weir_pool_health{database=\"app\",user=\"app\",state=\"cannot connect\"} 1"),
        "{metrics}"
    );
    eventually("the log has it", || {
        let log = site.weir().log();
        if log.contains("app/app: health: cannot connect since") { Ok(()) } else { Err(log) }
    });
    postgres.server().start_again().unwrap();
    becomes(&site, "healthy");
    assert_eq!(client.value("SELECT 1").unwrap().as_deref(), Some("1"));
}

#[test]
fn a_rejected_login_has_the_servers_words_and_retry_tries_at_once() {
    let postgres = Postgres::private();
    let setup = Setup::new(Mode::Transaction).size(2).pool("server_login_retry = \"1min\"");
    let site = Site::on(&postgres, setup, Mode::Transaction);
    let superuser = |sql: &str| postgres.server().execute("postgres", sql).unwrap();
    superuser("ALTER ROLE app NOLOGIN");
    assert!(weir_pgclient::Connection::connect(&site.params()).is_err());
    let (_, _, error) = becomes(&site, "login rejected");
    assert_eq!(error, "role \"app\" is not permitted to log in (28000)");
    superuser("ALTER ROLE app LOGIN");
    assert!(weir_pgclient::Connection::connect(&site.params()).is_err(), "no login is tried before its time");
    assert_eq!(health(&site).0, "login rejected");
    site.weir().command("RETRY app").expect("the console");
    becomes(&site, "healthy");
}

#[test]
fn clients_behind_idle_transactions_are_stalled_and_behind_queries_saturated() {
    let site = Site::with(Setup::new(Mode::Transaction).size(1), Mode::Transaction);
    let mut holder = site.connect();
    holder.query("BEGIN").unwrap();
    let mut waiting = site.connect();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| waiting.query("SELECT 1").unwrap());
        assert_eq!(becomes(&site, "stalled").1, "1");
        holder.query("COMMIT").unwrap();
        waiter.join().unwrap();
    });
    becomes(&site, "healthy");
    thread::scope(|scope| {
        let slow = scope.spawn(|| holder.query("SELECT pg_sleep(6)").unwrap());
        site.weir().await_pool("the query runs", |pool| pool.get("sv_active") == 1);
        let waiter = scope.spawn(|| waiting.query("SELECT 1").unwrap());
        becomes(&site, "saturated");
        slow.join().unwrap();
        waiter.join().unwrap();
    });
    becomes(&site, "healthy");
    site.weir().command("PAUSE app").expect("the console");
    becomes(&site, "paused");
    site.weir().command("RESUME app").expect("the console");
    becomes(&site, "healthy");
}

#[test]
fn a_pool_is_healthy_once_a_login_has_succeeded_and_until_then_not_tried_yet() {
    let api = Api::default();
    let postgres = Postgres::shared();
    let at = format!("host = \"127.0.0.1\"\nport = {}\ndatabase = \"postgres\"\n", postgres.port());
    let more =
        format!("[pools.wrong]\n{at}user = \"app\"\npassword = \"not it\"\n\n[pools.spare]\n{at}\n{}", api.section());
    let site = Site::on(&postgres, Setup::new(Mode::Transaction).size(2).more(&more), Mode::Transaction);
    let state = |pool: &str| {
        let shown = api.get(&format!("/api/v1/pools/{pool}"));
        (shown["health"]["state"].as_str().unwrap_or_default().to_owned(), shown["health"]["problem"] == true)
    };
    for pool in ["app", "wrong", "spare"] {
        assert_eq!(state(pool), ("not tried yet".to_owned(), false), "{pool}");
    }
    let mut client = site.connect();
    client.query("SELECT 1").unwrap();
    assert_eq!(health(&site).0, "healthy");
    let (_, metrics) = api.ask("GET", "/metrics", "");
    assert!(metrics.contains("weir_pool_health{database=\"app\",user=\"app\",state=\"healthy\"} 1"), "{metrics}");
    assert!(metrics.contains("state=\"not tried yet\"} 0"), "{metrics}");
    let wrong = weir_pgclient::ConnectParams { database: "wrong".to_owned(), ..site.params() };
    assert!(weir_pgclient::Connection::connect(&wrong).is_err());
    eventually("its login was tried", || match state("wrong") {
        (found, true) if found == "login rejected" => Ok(()),
        other => Err(other),
    });
    assert_eq!(state("spare").0, "not tried yet");
    // The servers of a pool whose login works may all be closed: that says nothing against it.
    site.weir().command("RECONNECT app").expect("the console");
    eventually("its servers are closed", || match api.get("/api/v1/pools/app")["servers"]["idle"].as_u64() {
        Some(0) => Ok(()),
        other => Err(other),
    });
    assert_eq!(state("app"), ("healthy".to_owned(), false));
}

/// A pool's health in the API: its state, its clients, and all of it as text.
fn of_api(api: &Api, pool: &str) -> (String, u64, String) {
    let health = api.get(&format!("/api/v1/pools/{pool}"))["health"].clone();
    (
        health["state"].as_str().unwrap_or_default().to_owned(),
        health["clients"].as_u64().unwrap_or(0),
        health.to_string(),
    )
}

#[test]
fn a_frozen_server_is_not_answering_for_all_its_pools_and_never_a_small_pool() {
    let postgres = Postgres::private();
    let api = Api::default();
    let at = format!("host = \"127.0.0.1\"\nport = {}\ndatabase = \"postgres\"\n", postgres.port());
    let more = format!("[pools.other]\n{at}user = \"truster\"\n\n{}", api.section());
    let setup = Setup::new(Mode::Transaction).size(1).more(&more);
    let site = Site::on(&postgres, setup, Mode::Transaction);
    let other = weir_pgclient::ConnectParams { database: "other".to_owned(), ..site.params() };
    let (mut one, mut two) = (site.connect(), site.connect());
    let mut third = weir_pgclient::Connection::connect(&other).unwrap();
    for client in [&mut one, &mut two, &mut third] {
        client.query("SELECT 1").unwrap();
    }
    postgres.server().sigstop();
    thread::scope(|scope| {
        let hang: Vec<_> =
            [one, two, third].into_iter().map(|mut client| scope.spawn(move || client.value("SELECT 1"))).collect();
        let mut seen = Vec::new();
        let mut note = |pool: &str| {
            let health = of_api(&api, pool);
            seen.push(health.2.clone());
            health
        };
        eventually("both pools say it", || {
            let (app, other) = (note("app"), note("other"));
            let fits = |health: &(String, u64, String), clients| health.0 == "not answering" && health.1 == clients;
            if fits(&app, 2) && fits(&other, 1) { Ok(()) } else { Err((app, other)) }
        });
        let (_, _, text) = note("app");
        assert!(text.contains("accepts connections but has not answered since"), "{text}");
        let wrong = |text: &String| text.contains("\"saturated\"") || text.contains("nlarge");
        assert!(!seen.iter().any(wrong), "{seen:#?}");
        assert_eq!(health(&site).0, "not answering");
        let incidents = api.get("/api/v1/incidents");
        let cause =
            |pool: &str| incidents["incidents"].as_array()?.iter().find(|it| it["pool"] == pool)?["cause"].as_str();
        assert_eq!((cause("app"), cause("other")), (Some("server_down"), Some("server_down")), "{incidents}");
        postgres.server().sigcont();
        for client in hang {
            assert_eq!(client.join().unwrap().unwrap().as_deref(), Some("1"));
        }
    });
    for pool in ["app", "other"] {
        eventually("it is healthy again", || match of_api(&api, pool) {
            health if health.0 == "healthy" => Ok(()),
            health => Err(health),
        });
    }
}

/// While two clients share the only server that is open, and each waits for a moment only: what `then` finds.
fn while_two_share_a_server<T>(site: &Site, then: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    let shares = || {
        let mut client = site.connect();
        while !over.load(Ordering::Relaxed) {
            client.query("SELECT pg_sleep(0.2)").unwrap();
        }
    };
    thread::scope(|scope| {
        let both = [scope.spawn(shares), scope.spawn(shares)];
        let found = then();
        over.store(true, Ordering::Relaxed);
        both.into_iter().for_each(|client| client.join().unwrap());
        found
    })
}

#[test]
fn a_pool_whose_server_answers_no_login_cannot_grow_while_its_open_servers_work() {
    let (postgres, api, receiver) = (Postgres::private(), Api::default(), Receiver::start());
    let alerts = format!("{}[alerts]\nfor = 1\nwebhook = \"{}\"\n", api.section(), receiver.url("hook"));
    let site = Site::on(&postgres, Setup::new(Mode::Transaction).size(3).more(&alerts), Mode::Transaction);
    site.connect().query("SELECT 1").unwrap();
    postgres.server().sigstop_postmaster();
    while_two_share_a_server(&site, || {
        let (_, _, error) = becomes(&site, "cannot grow");
        let server = format!("server 127.0.0.1:{} has not answered a login since ", postgres.port());
        assert!(error.starts_with(&server) && error.ends_with("(08006)"), "{error}");
        let pool = api.get("/api/v1/pools/app");
        assert!(pool["health"]["problem"] == true && pool["health"]["since"].as_f64() > Some(1e9), "{pool}");
        let incident = eventually("an incident", || {
            let found = api.get("/api/v1/incidents")["incidents"][0].clone();
            if found["cause"] == "fewer_servers" { Ok(found) } else { Err(found) }
        });
        let text = incident["text"].as_str().unwrap_or_default();
        assert!(text.starts_with(&format!("The pool is in the state \"cannot grow\": {server}")), "{incident}");
        let sent = receiver.find("hook", |body| body["status"] == "firing");
        assert_eq!((&sent["rule"], &sent["severity"]), (&"cannot grow".into(), &"warning".into()), "{sent}");
        postgres.server().sigcont();
        becomes(&site, "healthy");
    });
}

#[test]
fn a_pool_at_the_servers_limit_cannot_grow_until_it_can_though_no_client_asks_any_more() {
    let postgres = Postgres::with(10, &[]);
    let setup = Setup::new(Mode::Transaction).size(3).pool("server_login_retry = \"1s\"");
    let site = Site::on(&postgres, setup, Mode::Transaction);
    site.connect().query("SELECT 1").unwrap();
    let params = postgres.params(users::OTHER, site.database().name());
    let others = || std::iter::from_fn(|| weir_pgclient::Connection::connect(&params).ok());
    let open: Vec<_> = others().take(20).collect();
    assert!(open.len() < 20, "the server is full");
    let (_, _, error) = while_two_share_a_server(&site, || becomes(&site, "cannot grow"));
    assert!(error.contains("(53300)"), "{error}");
    assert_eq!(health(&site).0, "cannot grow", "its clients are gone");
    drop(open);
    becomes(&site, "healthy");
}

#[test]
fn a_pause_is_a_problem_and_an_alert_when_clients_wait_too_long_for_its_end() {
    let (api, receiver) = (Api::default(), Receiver::start());
    let alerts = format!("{}[alerts]\nfor = 1\nwebhook = \"{}\"\n", api.section(), receiver.url("hook"));
    let site = Site::with(Setup::new(Mode::Transaction).size(2).more(&alerts), Mode::Transaction);
    let mut client = site.connect();
    client.query("SELECT 1").unwrap();
    site.weir().command("PAUSE app").expect("the console");
    let paused = becomes(&site, "paused");
    assert_eq!((paused.1.as_str(), api.get("/api/v1/pools/app")["health"]["problem"].as_bool()), ("0", Some(false)));
    thread::scope(|scope| {
        let waits = scope.spawn(move || client.query("SELECT 1").map(|_| ()));
        let pool = eventually("a problem", || {
            let pool = api.get("/api/v1/pools/app")["health"].clone();
            if pool["problem"] == true { Ok(pool) } else { Err(pool) }
        });
        assert_eq!((&pool["state"], &pool["clients"], &pool["waiting"]), (&"paused".into(), &1.into(), &1.into()));
        assert!(pool["cause"].as_str().is_some_and(|cause| cause.starts_with("clients wait since 20")), "{pool}");
        assert_eq!(pool["advice"], "Resume the pool to serve its clients.");
        let sent = receiver.find("hook", |body| body["status"] == "firing");
        assert_eq!(
            (&sent["rule"], &sent["clients"], &sent["severity"]),
            (&"paused".into(), &1.into(), &"critical".into())
        );
        let past = api.get("/api/v1/incidents/past")["incidents"][0].clone();
        assert_eq!((&past["what"], &past["lasts"]), (&"paused".into(), &true.into()), "{past}");
        site.weir().command("RESUME app").expect("the console");
        waits.join().unwrap().unwrap();
    });
    becomes(&site, "healthy");
    receiver.find("hook", |body| body["status"] == "resolved");
}

#[test]
fn a_slow_query_on_a_server_that_answers_is_no_silence() {
    let api = Api::default();
    let site = Site::with(Setup::new(Mode::Transaction).size(1).more(&api.section()), Mode::Transaction);
    let (mut slow, mut waiting) = (site.connect(), site.connect());
    thread::scope(|scope| {
        let runs = scope.spawn(move || slow.query("SELECT pg_sleep(7)").map(|_| ()));
        eventually("the query runs", || match api.get("/api/v1/pools/app")["servers"]["active"].as_u64() {
            Some(1) => Ok(()),
            other => Err(other),
        });
        let waits = scope.spawn(move || waiting.query("SELECT 1").map(|_| ()));
        let mut states = Vec::new();
        while !runs.is_finished() {
            states.push(of_api(&api, "app").0);
            thread::sleep(Duration::from_millis(100));
        }
        // Also while the server is asked again whether it answers.
        states.dedup();
        runs.join().unwrap().unwrap();
        waits.join().unwrap().unwrap();
        let times = |state: &str| states.iter().filter(|seen| *seen == state).count();
        assert_eq!((times("saturated"), times("not answering")), (1, 0), "{states:?}");
    });
}

#[test]
fn a_lock_that_queries_wait_for_blocks_a_pool_that_has_free_servers_until_it_is_released() {
    let api = Api::default();
    let site = Site::with(Setup::new(Mode::Transaction).size(20).more(&api.section()), Mode::Transaction);
    let lock = "SELECT pg_advisory_xact_lock(7)";
    let (mut holder, mut behind) = (site.connect(), site.connect());
    holder.query("BEGIN").unwrap();
    holder.query(lock).unwrap();
    thread::scope(|scope| {
        let waits = scope.spawn(move || behind.query(lock).map(|_| ()));
        let (_, clients, cause) = becomes(&site, "blocked");
        assert_eq!(clients, "1");
        assert!(cause.starts_with("Blocked by process ") && cause.contains("idle in its transaction"), "{cause}");
        let pool = api.get("/api/v1/pools/app");
        let health = &pool["health"];
        assert_eq!(
            (&health["state"], &health["blocked"], &health["error"]),
            (&"blocked".into(), &1.into(), &().into())
        );
        assert!(health["advice"].as_str().is_some_and(|advice| advice.starts_with("A larger pool would be")), "{pool}");
        let (_, metrics) = api.ask("GET", "/metrics", "");
        assert!(metrics.contains("weir_pool_health{database=\"app\",user=\"app\",state=\"blocked\"} 1"), "{metrics}");
        eventually("the log has the holder", || {
            let log = site.weir().log();
            let found = log.contains("app/app: health: blocked since") && log.contains(": Blocked by process ");
            if found { Ok(()) } else { Err(log) }
        });
        holder.query("COMMIT").unwrap();
        waits.join().unwrap().unwrap();
        becomes(&site, "healthy");
    });
}

#[test]
fn clients_that_a_limit_refuses_are_a_fault_until_no_more_come() {
    let api = Api::default();
    let setup = Setup::new(Mode::Transaction).size(2).pool("max_db_client_connections = 1").more(&api.section());
    let site = Site::with(setup, Mode::Transaction);
    let _one = site.connect();
    let faults = || api.get("/api/v1/status")["faults"].clone();
    let found = eventually("a fault", || {
        // What was refused before the first look may be old.
        assert!(weir_pgclient::Connection::connect(&site.params()).is_err());
        let faults = faults();
        if faults[0]["kind"] == "limit" { Ok(faults) } else { Err(faults) }
    });
    assert!(
        found[0]["problem"] == true
            && found[0]["summary"].as_str().is_some_and(|it| it.contains(" = 1 of app is reached: ")),
        "{found}"
    );
    eventually("it is over", || {
        let faults = faults();
        if faults.as_array().is_some_and(Vec::is_empty) { Ok(()) } else { Err(faults) }
    });
}

#[test]
fn a_program_that_can_not_log_in_is_a_fault_with_who_from_where_and_why() {
    let api = Api::default();
    let site = Site::with(Setup::new(Mode::Transaction).size(2).more(&api.section()), Mode::Transaction);
    let faults = || api.get("/api/v1/status")["faults"].clone();
    let wrong = site.params().password("of yesterday");
    assert!(weir_pgclient::Connection::connect(&wrong).is_err());
    let found = eventually("a fault", || {
        let _ = weir_pgclient::Connection::connect(&wrong);
        let faults = faults();
        if faults[0]["kind"] == "login" { Ok(faults) } else { Err(faults) }
    });
    let summary = found[0]["summary"].as_str().unwrap_or_default();
    assert!(summary.contains("\"app\" to \"app\" from 127.0.0.1 (") && summary.contains(" refused. "), "{found}");
    assert!(found[0]["advice"].as_str().is_some_and(|advice| advice.contains("auth file")), "{found}");
    let (_, metrics) = api.ask("GET", "/metrics", "");
    assert!(metrics.contains("weir_faults{kind=\"login\",state=\"now\"} 1"), "{metrics}");
}

#[test]
fn queries_without_an_answer_at_a_server_that_can_not_be_looked_at_are_no_health() {
    let postgres = Postgres::with(10, &[]);
    let api = Api::default();
    let site = Site::on(&postgres, Setup::new(Mode::Transaction).size(2).more(&api.section()), Mode::Transaction);
    let lock = "SELECT pg_advisory_xact_lock(7)";
    let mut holder = site.superuser();
    holder.query("BEGIN").unwrap();
    holder.query(lock).unwrap();
    let mut behind = site.connect();
    behind.query("SELECT 1").unwrap();
    // All that is left for ordinary users.
    let params = postgres.params(users::OTHER, site.database().name());
    let others = || std::iter::from_fn(|| weir_pgclient::Connection::connect(&params).ok());
    let mut open: Vec<_> = others().take(20).collect();
    assert!(open.len() < 20, "the server is full");
    thread::scope(|scope| {
        let waits = scope.spawn(move || behind.query(lock).map(|_| ()));
        let found = eventually("a fault", || {
            // The connection that Weir keeps for looks is gone, and another has its place.
            holder.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'weir incident view'").unwrap();
            open.extend(others().take(20));
            let faults = api.get("/api/v1/status")["faults"].clone();
            if faults[0]["kind"] == "look" { Ok(faults) } else { Err(faults) }
        });
        let summary = found[0]["summary"].as_str().unwrap_or_default();
        assert!(summary.starts_with("1 query of app has had no answer for up to "), "{found}");
        assert!(summary.contains("can't look at the server for the reason: "), "{found}");
        assert!(found[0]["advice"].as_str().is_some_and(|advice| advice.contains("max_connections")), "{found}");
        drop(open);
        becomes(&site, "blocked");
        eventually("it is over", || {
            let faults = api.get("/api/v1/status")["faults"].clone();
            if faults.as_array().is_some_and(Vec::is_empty) { Ok(()) } else { Err(faults) }
        });
        holder.query("COMMIT").unwrap();
        waits.join().unwrap().unwrap();
    });
}

#[test]
fn a_file_that_would_not_load_is_a_warning_and_a_reload_that_failed_a_fault_until_one_works() {
    let api = Api::default();
    let setup = Setup::new(Mode::Transaction).size(2).more(&api.section());
    let site = Site::with(setup.clone(), Mode::Transaction);
    let faults = || api.get("/api/v1/status")["faults"].clone();
    let broken = format!("{}\n[pools.other]\nsize = \"many\"\n", setup.toml(site.database()));
    let reload = |problem: bool, begin: &dyn Fn()| {
        eventually("a fault", || {
            begin();
            let faults = faults();
            let fits = faults[0]["kind"] == "reload"
                && faults[0]["problem"] == problem
                && faults[0]["summary"].as_str().is_some_and(|text| text.contains("[pools.other]"));
            if fits && faults[1].is_null() { Ok(faults) } else { Err(faults) }
        })
    };
    // Again and again: Weir takes the file of its first look for the one that it has loaded.
    let warned = reload(false, &|| site.weir().rewrite(&broken, &setup.userlist()));
    let summary = warned[0]["summary"].as_str().unwrap_or_default();
    assert!(summary.contains("was changed and would not load: "), "{warned}");
    site.weir().signal(Signal::SIGHUP);
    let found = reload(true, &|| ());
    let summary = found[0]["summary"].as_str().unwrap_or_default();
    assert!(summary.contains("in [pools.other]") && summary.contains("A restart would fail"), "{found}");
    let past = || api.get("/api/v1/incidents/past")["incidents"].clone();
    let lasting = past();
    assert!(
        lasting[0]["what"] == "reload" && lasting[0]["lasts"] == true && lasting[0]["until"].is_null(),
        "{lasting}"
    );
    site.weir().rewrite(&setup.toml(site.database()), &setup.userlist());
    site.weir().signal(Signal::SIGHUP);
    eventually("it is over", || {
        let faults = faults();
        if faults.as_array().is_some_and(Vec::is_empty) { Ok(()) } else { Err(faults) }
    });
    let over = eventually("it is a past incident", || {
        let past = past();
        if past[0]["lasts"] == false { Ok(past) } else { Err(past) }
    });
    assert!(over[0]["until"].as_f64() >= over[0]["since"].as_f64(), "{over}");
    assert_eq!((&over[0]["id"], &over[0]["cause"]), (&lasting[0]["id"], &lasting[0]["cause"]));
}

#[test]
fn with_a_pgbouncer_ini_show_pools_has_pgbouncers_columns_alone() {
    let site = Site::ini(&Ini::transaction(1));
    let columns = site.weir().command("SHOW POOLS").expect("the console").columns;
    assert_eq!(columns.last().map(String::as_str), Some("load_balance_hosts"));
}

#[test]
fn a_pool_whose_queries_end_in_errors_of_the_server_is_failing_until_they_succeed_again() {
    let api = Api::default();
    let site = Site::with(Setup::new(Mode::Transaction).size(2).more(&api.section()), Mode::Transaction);
    let params = site.params().option("application_name", "orders");
    let mut client = weir_pgclient::Connection::connect(&params).unwrap();
    client.query("SELECT 1").unwrap();
    // What a server answers whose disk is full.
    let full = "DO $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$";
    for _ in 0..5 {
        assert!(client.query(full).is_err());
    }
    let (_, clients, error) = becomes(&site, "failing");
    assert_eq!(clients, "1");
    assert!(error.contains("ended in an error: disk full, of application \"orders\" (53100)"), "{error}");
    let pool = api.get("/api/v1/pools/app");
    assert_eq!(pool["health"]["failed"], 1, "{pool}");
    assert!(pool["health"]["advice"].as_str().is_some_and(|advice| advice.contains("disks")), "{pool}");
    let incidents = api.get("/api/v1/incidents");
    assert_eq!(incidents["incidents"][0]["cause"], "failing", "{incidents}");
    eventually("the log has it", || {
        let log = site.weir().log();
        if log.contains("app/app: health: failing since") { Ok(()) } else { Err(log) }
    });
    becomes(&site, "healthy");
    for _ in 0..20 {
        assert!(client.query("SELECT * FROM dropped_by_a_migration").is_err());
    }
    let (_, _, error) = becomes(&site, "failing");
    assert!(error.contains("undefined table"), "{error}");
}

/// While a client of this application has transactions all the time.
fn while_it_works<T>(site: &Site, application: &str, then: impl FnOnce() -> T) -> T {
    let (over, params) = (AtomicBool::new(false), site.params().option("application_name", application));
    thread::scope(|scope| {
        let works = scope.spawn(|| {
            let mut client = weir_pgclient::Connection::connect(&params).unwrap();
            while !over.load(Ordering::Relaxed) {
                client.query("SELECT 1").unwrap();
            }
        });
        let found = then();
        over.store(true, Ordering::Relaxed);
        works.join().unwrap();
        found
    })
}

#[test]
fn an_application_whose_transactions_all_fail_makes_its_pool_failing_though_the_others_work() {
    let api = Api::default();
    let site = Site::with(Setup::new(Mode::Transaction).size(3).more(&api.section()), Mode::Transaction);
    let orders = site.params().option("application_name", "orders\" works. Ask \"eve");
    while_it_works(&site, "web", || {
        let mut client = weir_pgclient::Connection::connect(&orders).unwrap();
        let found = eventually("its pool is failing", || {
            // As a driver does it that runs each statement in a transaction block.
            client.query("BEGIN").unwrap();
            assert!(client.query("SELECT * FROM dropped_by_a_migration").is_err());
            assert!(client.query("SELECT 1").is_err());
            client.query("ROLLBACK").unwrap();
            let health = health(&site);
            if health.0 == "failing" { Ok(health) } else { Err(health) }
        });
        let words = "transactions of application \"orders\"\" works. Ask \"\"eve\" in the last seconds ended in an error: \
                     undefined table (42P01)";
        assert!(found.2.ends_with(words) && found.1 == "1", "{found:?}");
        let pool = api.get("/api/v1/pools/app")["health"].clone();
        assert_eq!(pool["affected"][0]["application_name"], "orders\" works. Ask \"eve", "{pool}");
        becomes(&site, "healthy");
    });
}

#[test]
fn a_pool_whose_servers_are_ended_again_and_again_is_failing_and_once_is_nothing() {
    let site = Site::with(Setup::new(Mode::Transaction).size(2), Mode::Transaction);
    let mut superuser = site.superuser();
    let database = site.database().name();
    let end_all = format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '{database}' AND pid <> pg_backend_pid()"
    );
    let mut storm = || {
        let mut client = site.connect();
        // It may get a server of the storm before, which is about to end.
        let _ = client.query("SELECT 1");
        superuser.query(&end_all).unwrap();
    };
    storm();
    let (_, _, error) = eventually("the pool is failing", || {
        storm();
        let health = health(&site);
        if health.0 == "failing" { Ok(health) } else { Err(health) }
    });
    assert!(error.starts_with("the server ended "), "{error}");
    assert!(error.ends_with(" connections of the pool in the last seconds: admin shutdown (57P01)"), "{error}");
    becomes(&site, "healthy");
}

#[test]
fn an_application_that_does_not_roll_back_makes_its_pool_failing_though_no_transaction_ends() {
    let site = Site::with(Setup::new(Mode::Transaction).size(3), Mode::Transaction);
    let checkout = site.params().option("application_name", "checkout");
    while_it_works(&site, "web", || {
        let mut client = weir_pgclient::Connection::connect(&checkout).unwrap();
        client.query("BEGIN").unwrap();
        assert!(client.query("SELECT * FROM dropped_by_a_migration").is_err());
        let found = eventually("its pool is failing", || {
            assert!(client.query("SELECT 1").is_err());
            let health = health(&site);
            if health.0 == "failing" { Ok(health) } else { Err(health) }
        });
        let words = " queries of application \"checkout\" in the last seconds ended in an error: 1 client stays in a \
                     transaction that has failed, and does not roll it back (25P02)";
        assert!(found.2.ends_with(words) && found.1 == "1", "{found:?}");
        client.query("ROLLBACK").unwrap();
        becomes(&site, "healthy");
    });
}
