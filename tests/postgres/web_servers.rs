//! Who may connect, and how a database server's connections are shared, as the API shows them with a real server.

use std::thread;

use serde_json::Value;
use weir_tests::{Api, Mode, Postgres, Setup, Site, eventually, users};

/// A server that takes 20 connections, 3 of which are reserved; and a pool of 5, with an API.
fn small(setup: Setup) -> (Postgres, Site, Api) {
    let (postgres, api) = (Postgres::with(20, &[]), Api::default());
    let site = Site::on(&postgres, setup.more(&api.section()), Mode::Transaction);
    (postgres, site, api)
}

/// The server in the API, once it fits.
#[track_caller]
fn server(api: Api, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
    eventually(what, || {
        let found = api.get("/api/v1/database-servers")["servers"][0].clone();
        if fits(&found) { Ok(found) } else { Err(found.to_string()) }
    })
}

#[test]
fn a_server_s_connections_are_shared_among_our_pools_others_and_what_is_free() {
    let (postgres, site, api) = small(Setup::new(Mode::Transaction).size(5));
    let mut one = site.connect();
    let mut two = site.connect();
    one.query("BEGIN").unwrap();
    two.query("BEGIN").unwrap();
    // Another role's connections, whose state the pool's user may not see.
    let _others: Vec<_> = (0..4).map(|_| postgres.superuser("postgres")).collect();
    let seen = server(api, "it has answered", |server| server["capacity"]["looks"] == 1);
    assert_eq!(seen["address"], format!("127.0.0.1:{}", postgres.port()));
    let capacity = &seen["capacity"];
    let figures = ["max_connections", "reserved", "connections", "others", "free"].map(|name| capacity[name].as_u64());
    assert_eq!(figures, [20, 3, 7, 4, 10].map(Some), "{seen}");
    assert_eq!((&seen["most"], &seen["open"], &seen["warning"]), (&5.into(), &2.into(), &Value::Null), "{seen}");
    assert_eq!(capacity["asked_by"], users::APP.name);
    assert_eq!((&capacity["top"][0]["database"], &capacity["top"][0]["connections"]), (&"postgres".into(), &4.into()));
    let pool = &seen["pools"][0];
    assert_eq!((&pool["name"], &pool["most"], &pool["open"]), (&"app".into(), &5.into(), &2.into()));
    assert!(!seen.to_string().contains(users::APP.password), "secrets are never shown");
}

#[test]
fn pools_that_may_open_more_than_the_server_takes_are_a_warning() {
    let (_postgres, _site, api) = small(Setup::new(Mode::Transaction).size(18));
    let seen = server(api, "it has answered", |server| server["capacity"].is_object());
    let warning = seen["warning"].as_str().unwrap_or_default();
    assert!(warning.starts_with("The pools may open 18 connections, and the server takes 17:"), "{seen}");
}

#[test]
fn a_server_that_can_not_be_asked_is_unknown_with_the_reason_and_known_again_later() {
    let (postgres, _site, api) = small(Setup::new(Mode::Transaction).size(5));
    postgres.server().shutdown();
    let seen = server(api, "it is down", |server| server["unknown"].is_string());
    let why = seen["unknown"].as_str().unwrap();
    assert!(seen["capacity"].is_null() && why.contains("Connection refused"), "{seen}");
    assert_eq!((&seen["most"], &seen["pools"][0]["name"]), (&5.into(), &"app".into()), "the rest is known: {seen}");
    postgres.server().start_again().unwrap();
    server(api, "it answers again", |server| server["capacity"].is_object());
}

#[test]
fn without_a_login_of_its_own_a_pool_s_server_is_unknown() {
    let setup = Setup::new(Mode::Transaction).no_server_user();
    let hashed = users::ALL.iter().fold(setup, |setup, user| setup.secret(user.name, &format!("md5{:032}", 0)));
    let (_postgres, _site, api) = small(hashed.auth("md5"));
    let seen = server(api, "the reason is there", |server| server["unknown"].is_string());
    assert!(seen["unknown"].as_str().unwrap().contains("each client's own password"), "{seen}");
}

#[test]
fn a_user_has_limits_clients_that_wait_and_pools() {
    let setup = Setup::new(Mode::Transaction).size(1);
    let limits = format!("[users.{}]\nmax_user_connections = 7\nquery_timeout = \"30s\"\n", users::APP.name);
    let (_postgres, site, api) = small(setup.more(&limits));
    let mut holder = site.connect();
    holder.query("BEGIN").unwrap();
    let path = format!("/api/v1/users/{}", users::APP.name);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| site.connect().query("SELECT 1").map(|_| ()));
        let user = eventually("one waits", || {
            let user = api.get(&path);
            if user["waiting"] == 1 { Ok(user) } else { Err(user.to_string()) }
        });
        assert_eq!(
            (&user["clients"], &user["servers"], &user["listed"]),
            (&2.into(), &1.into(), &true.into()),
            "{user}"
        );
        assert_eq!(
            (&user["max_connections"], &user["rules"]["max_user_connections"]),
            (&7.into(), &7.into()),
            "{user}"
        );
        let pool = &user["pools"][0];
        assert_eq!(
            (&pool["name"], &pool["clients"], &pool["waiting"]),
            (&"app".into(), &2.into(), &1.into()),
            "{user}"
        );
        assert_eq!((&pool["size"], &pool["servers"]), (&1.into(), &1.into()), "{user}");
        assert!(!user.to_string().contains(users::APP.password), "secrets are never shown");
        holder.query("COMMIT").unwrap();
        waiter.join().unwrap().unwrap();
    });
}

#[test]
fn rules_of_the_hba_file_are_shown_with_the_users_that_they_name() {
    let rules = format!(
        "host all {} 127.0.0.1/32 scram-sha-256\nhost all all 10.0.0.0/8 reject\nhost all admin,watcher all trust\n",
        users::APP.name
    );
    let setup = Setup::new(Mode::Transaction).auth("hba").auth_line("hba_file = \"{folder}/hba.conf\"");
    let (_postgres, site, api) = small(setup.file("hba.conf", &rules));
    let mut client = site.connect();
    client.query("SELECT 1").unwrap();
    let entry = api.get("/api/v1/access-rules");
    assert_eq!((&entry["method"], &entry["rules_total"]), (&"hba".into(), &3.into()), "{entry}");
    assert_eq!(
        (&entry["rules"][0]["users"][0], &entry["rules"][1]["method"]),
        (&users::APP.name.into(), &"reject".into())
    );
    assert_eq!(api.get(&format!("/api/v1/users/{}", users::APP.name))["hba_lines"], serde_json::json!([1, 2]));
    assert!(!entry.to_string().contains(users::APP.password), "secrets are never shown");
}
