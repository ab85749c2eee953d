//! `mode = "auto"`: what keeps a client at its server is seen, explained and bounded.

use std::thread;

use serde_json::Value;
use weir_pgclient::Connection;
use weir_tests::{Api, Batch, Mode, Setup, Site, ask, eventually};

fn site(size: u32, limits: &str) -> (Site, Api) {
    let api = Api::default();
    let limits = format!("listen = \"own\"\n{limits}");
    (Site::with(Setup::new(Mode::Auto).size(size).limit(&limits).more(&api.section()), Mode::Auto), api)
}

fn named(site: &Site, name: &str) -> Connection {
    Connection::connect(&site.params().option("application_name", name)).unwrap()
}

/// The connection of this application, once it fits.
#[track_caller]
fn connection(api: Api, of: &str, application: &str, fits: impl Fn(&Value) -> bool) -> Value {
    eventually("the connection fits", || {
        let list = api.get(&format!("/api/v1/{of}?pool=app"));
        let all = list["connections"].as_array().expect("a list");
        let found = all.iter().find(|one| one["application_name"] == application && fits(one));
        found.cloned().ok_or(list.to_string())
    })
}

#[test]
fn pins_name_each_kind_of_state_with_its_statement_until_it_is_gone() {
    let (site, api) = site(4, "max_pinned = 100");
    site.superuser()
        .query_all("CREATE FUNCTION locks(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_lock($1); RETURN 1; END'")
        .unwrap();
    let mut client = named(&site, "jobs");
    client.query("LISTEN gossip").unwrap();
    client.query_all("BEGIN; CREATE TEMP TABLE scratch (secret text DEFAULT 'hunter2'); COMMIT").unwrap();
    client.query("SELECT locks(1471147114)").unwrap();
    for of in ["clients", "servers"] {
        let pinned = connection(api, of, "jobs", |one| one["pinned"]["by"].as_array().map(Vec::len) == Some(3));
        let pinned = &pinned["pinned"];
        let by = |place: usize| (pinned["by"][place]["kind"].clone(), pinned["by"][place]["statement"].clone());
        assert_eq!(by(0), ("listen".into(), "listen gossip".into()), "{pinned}");
        assert_eq!(by(1).0, "temporary_objects", "{pinned}");
        assert_eq!(by(2), ("advisory_locks".into(), "select locks(?)".into()), "{pinned}");
        assert!(by(1).1.as_str().unwrap().contains("create temp table scratch"), "{pinned}");
        assert!(!pinned.to_string().contains("hunter2") && !pinned.to_string().contains("1471147114"), "{pinned}");
        assert!(pinned["idle_since"].as_f64() >= pinned["since"].as_f64(), "{pinned}");
    }
    let clients = site.weir().show("CLIENTS");
    let row = (0..clients.rows.len()).find(|row| clients.get(*row, "application_name") == Some("jobs")).unwrap();
    assert_eq!(clients.get(row, "pinned_by"), Some("listen, temporary_objects, advisory_locks"));
    assert_eq!(clients.get(row, "pinned_statement"), Some("listen gossip"));
    assert!(clients.get(row, "pinned_since").is_some_and(|since| !since.is_empty()));
    let pool = api.get("/api/v1/pools/app");
    let wanted = serde_json::json!({
        "clients": 1, "by": {"listen": 1, "temporary_objects": 1, "advisory_locks": 1},
        "applications": [{"user": "app", "application_name": "jobs", "clients": 1}],
    });
    assert_eq!(pool["pinned"], wanted);
    let metrics = api.ask("GET", "/metrics", "").1;
    assert!(
        metrics.contains("weir_pinned_clients{database=\"app\",user=\"app\",reason=\"advisory_locks\"} 1"),
        "{metrics}"
    );

    client.query_all("UNLISTEN *; DROP TABLE scratch").unwrap();
    let left = connection(api, "servers", "jobs", |one| one["pinned"]["by"].as_array().map(Vec::len) == Some(1));
    assert_eq!(left["pinned"]["by"][0]["kind"], "advisory_locks");
    client.query("SELECT pg_advisory_unlock_all()").unwrap();
    connection(api, "clients", "jobs", |one| one["pinned"].is_null());
    assert_eq!(api.get("/api/v1/pools/app")["pinned"]["clients"], 0);
}

#[test]
fn a_statement_that_is_prepared_by_the_protocol_is_named_too() {
    let (site, api) = site(2, "max_pinned = 100");
    for (name, statement) in [("unnamed", ""), ("prepared", "s")] {
        let mut client = named(&site, name);
        let text = "CREATE TEMP TABLE scratch AS SELECT 'hunter2'::text AS a";
        let batch = Batch::new().parse(statement, text).bind("", statement, &[]).execute("", 0).sync();
        ask(&mut client, &batch, 1);
        let pinned = connection(api, "clients", name, |one| one["pinned"].is_object());
        let wanted = "create temp table scratch as select ?::text as a";
        assert_eq!(pinned["pinned"]["by"][0]["statement"], wanted, "{pinned}");
    }
}

#[test]
fn what_a_text_leaves_after_it_ran_unasked_is_counted_and_logged_once() {
    let (site, api) = site(1, "");
    site.superuser()
        .query_all(
            "CREATE TABLE calls (n int); INSERT INTO calls VALUES (0); GRANT ALL ON calls TO app; \
             CREATE TABLE taken (n int, got bool DEFAULT pg_try_advisory_lock(7)); GRANT ALL ON taken TO app; \
             CREATE FUNCTION sometimes() RETURNS int LANGUAGE plpgsql AS \
             'DECLARE called int; BEGIN UPDATE calls SET n = n + 1 RETURNING n INTO called; \
              IF called >= 4 THEN EXECUTE format(''INSERT INTO %I (n) VALUES (1)'', ''tak'' || ''en''); END IF; \
              RETURN called; END'",
        )
        .unwrap();
    let mut client = named(&site, "jobs");
    // With its first question a pool reads what leaves state.
    client.query("SELECT 1").unwrap();
    // Asked about after the first, the second and the fourth.
    (0..4).for_each(|_| drop(client.query("SELECT sometimes()").unwrap()));
    let late = "weir_state_found_late_total{database=\"app\",kind=\"advisory_locks\"} 1";
    eventually("it is counted", || {
        let metrics = api.ask("GET", "/metrics", "").1;
        if metrics.contains(late) { Ok(()) } else { Err(metrics) }
    });
    client.query("SELECT pg_advisory_unlock_all()").unwrap();
    client.query("SELECT sometimes()").unwrap();
    connection(api, "clients", "jobs", |one| one["pinned"].is_object());
    assert!(api.ask("GET", "/metrics", "").1.contains(late), "it is asked about each time now");
    let log = site.weir().log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("was found late")).collect();
    assert!(lines.len() == 1 && lines[0].contains("select sometimes()") && lines[0].contains("jobs"), "{log}");
}

#[test]
fn the_first_screen_says_that_pins_have_the_servers_and_what_to_do() {
    let (site, api) = site(3, "max_pinned = 100");
    let mut kept: Vec<Connection> = (0..3).map(|_| named(&site, "jobs")).collect();
    kept.iter_mut().for_each(|client| drop(client.query("LISTEN gossip").unwrap()));
    thread::scope(|scope| {
        let waits = scope.spawn(|| named(&site, "web").value("SELECT 7").unwrap());
        let status = eventually("the pool's health has the cause", || {
            let health = api.get("/api/v1/pools/app")["health"].clone();
            if health["cause"].is_string() { Ok(health) } else { Err(health.to_string()) }
        });
        let cause = status["cause"].as_str().unwrap();
        assert!(
            cause.contains("3 of 3 servers in use are kept by idle clients for what they have left there"),
            "{cause}"
        );
        assert!(cause.contains("(listen: 3), most by \"jobs\" of app (3)"), "{cause}");
        assert!(status["advice"].as_str().unwrap().contains("UNLISTEN"), "{status}");
        let incident = api.get("/api/v1/incidents?pool=app")["incidents"][0].clone();
        assert_eq!((&incident["cause"], &incident["holders"].as_array().unwrap().len()), (&"pins".into(), &3));
        let holder = &incident["holders"][0];
        assert_eq!(
            (&holder["pinned"]["by"][0]["kind"], &holder["client"]["application_name"]),
            (&"listen".into(), &"jobs".into())
        );
        // Dropping one of them frees its server.
        let client = holder["client"]["id"].as_u64().unwrap();
        assert_eq!(api.ask("DELETE", &format!("/api/v1/clients/{client}"), "").0, 204);
        assert_eq!(waits.join().unwrap().as_deref(), Some("7"));
    });
}

#[test]
fn a_client_that_waits_for_pinned_servers_is_given_the_kinds() {
    let (site, _) = site(2, "max_pinned = 100\nquery_wait_timeout = \"1s\"");
    let mut kept: Vec<Connection> = (0..2).map(|_| named(&site, "jobs")).collect();
    kept[0].query("LISTEN gossip").unwrap();
    kept[1].query_all("LISTEN gossip; CREATE TEMP TABLE scratch (n int)").unwrap();
    let error = named(&site, "web").query("SELECT 1").unwrap_err();
    let detail = format!("{error:?}");
    let wanted = "2 by idle clients that keep them for what they have left there, for up to";
    assert!(detail.contains(wanted) && detail.contains("(listen: 2, temporary_objects: 1)"), "{detail}");
}

#[test]
fn a_kind_that_a_pool_refuses_is_an_error_and_where_it_is_found_afterwards_the_client_goes() {
    let (site, api) = site(2, "pin_refuse = [\"listen\", \"temporary_objects\"]");
    site.superuser()
        .query_all("CREATE FUNCTION listens() RETURNS int LANGUAGE plpgsql AS 'BEGIN LISTEN gossip; RETURN 1; END'")
        .unwrap();
    let mut client = named(&site, "jobs");
    for text in ["LISTEN gossip", "CREATE TEMP TABLE scratch (n int)"] {
        let error = client.query(text).unwrap_err();
        assert_eq!(error.sqlstate(), Some("0A000"), "{text}: {error}");
        assert!(error.to_string().contains("its client would keep a server connection (pin_refuse)"), "{error}");
        let transcript = ask(&mut client, &Batch::new().run(text, &[]).sync(), 1);
        assert!(transcript[0].starts_with("Error 0A000"), "{text}: {transcript:?}");
    }
    // What ends with its transaction, and other kinds, are as ever.
    client.query_all("BEGIN; CREATE TEMP TABLE scratch (n int) ON COMMIT DROP; COMMIT").unwrap();
    client.query("SET work_mem = '77MB'").unwrap();
    client.query("PREPARE mine AS SELECT 1").unwrap();
    client.query("DEALLOCATE mine").unwrap();
    let error = client.query("SELECT listens()").unwrap_err();
    assert!(error.to_string().contains("this pool keeps no server for its client (pin_refuse): LISTEN"), "{error}");
    let mut next = named(&site, "web");
    assert_eq!(next.value("SELECT count(*)::text FROM pg_listening_channels()").unwrap().as_deref(), Some("0"));
    assert!(
        api.ask("GET", "/metrics", "")
            .1
            .contains("weir_session_state_lost_total{database=\"app\",kind=\"listen\",outcome=\"refused\"} 3")
    );
}

#[test]
fn a_client_that_listens_by_the_shared_connection_is_not_pinned_and_not_refused() {
    let api = Api::default();
    let limits = "pin_refuse = [\"listen\"]";
    let site = Site::with(Setup::new(Mode::Auto).size(3).limit(limits).more(&api.section()), Mode::Auto);
    let mut client = named(&site, "jobs");
    client.query("LISTEN gossip").unwrap();
    connection(api, "clients", "jobs", |one| one["pinned"].is_null());
    assert_eq!(api.get("/api/v1/pools/app")["pinned"]["clients"], 0);
}

/// What the server that the client keeps was sent last.
fn last_text(site: &Site, pid: &str) -> String {
    site.superuser().value(&format!("SELECT query FROM pg_stat_activity WHERE pid = {pid}")).unwrap().expect("a server")
}

/// The executions of a text after which the server was asked.
fn asked(site: &Site, client: &mut Connection, text: &str) -> Vec<u32> {
    let pid = client.value("SELECT pg_backend_pid()").unwrap().unwrap();
    let mut is_asked = |_: &u32| {
        client.query(text).unwrap();
        last_text(site, &pid) != text
    };
    (1..=9).filter(|execution| is_asked(execution)).collect()
}

#[test]
fn a_client_that_keeps_its_server_is_asked_about_a_text_ever_more_rarely() {
    let (site, _api) = site(1, "max_pinned = 100");
    let functions = "CREATE FUNCTION drops() RETURNS void LANGUAGE plpgsql AS 'BEGIN DROP TABLE scratch; END'; \
                     CREATE FUNCTION third(int) RETURNS text LANGUAGE plpgsql AS \
                     'BEGIN RETURN CASE $1 WHEN 3 THEN set_config(''work_mem'', ''777'', false) END; END'";
    site.superuser().query_all(functions).unwrap();
    let create = "CREATE TEMP TABLE scratch (a int)";
    let mut client = named(&site, "jobs");
    client.query(create).unwrap();
    assert_eq!(asked(&site, &mut client, "SELECT count(*) FROM scratch"), [1, 2, 4, 8]);

    // It is asked about another text, which ends the pin; and what one that was not asked about has left is found then.
    let pid = client.value("SELECT pg_backend_pid()").unwrap().unwrap();
    for call in 1..=3 {
        client.query(&format!("SELECT third({call})")).unwrap();
    }
    assert_eq!(last_text(&site, &pid), "SELECT third(3)");
    client.query("SELECT drops()").unwrap();
    let mut other = named(&site, "other");
    assert_eq!(other.value("SHOW work_mem").unwrap().as_deref(), Some("4MB"));
    assert_eq!(client.value("SHOW work_mem").unwrap().as_deref(), Some("777kB"));

    // Nor does the next client find what such a text has left, if its client goes.
    client.query(create).unwrap();
    for call in 1..=3 {
        client.query(&format!("SELECT third({call})")).unwrap();
    }
    drop(client);
    eventually("the server is free, and clean", || match other.value("SHOW work_mem") {
        Ok(Some(value)) if value == "4MB" => Ok(()),
        found => Err(found),
    });
}

#[test]
fn a_client_that_listens_by_the_shared_connection_is_asked_about_a_text_ever_more_rarely_too() {
    let site = Site::with(Setup::new(Mode::Auto).size(4), Mode::Auto);
    let mut client = named(&site, "jobs");
    client.query("LISTEN gossip").unwrap();
    client.query("CREATE TEMP TABLE scratch (a int)").unwrap();
    assert_eq!(asked(&site, &mut client, "SELECT count(*) FROM scratch"), [1, 2, 4, 8]);
}
