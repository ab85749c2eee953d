//! Pools created, changed, deleted and tried over the API of a Weir with a real server.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::{Value, json};
use weir_pgclient::Connection;
use weir_tests::{Api, Ini, Mode, Setup, Site, eventually, users};

/// A site with an API, and a file with comments.
struct Stage {
    site: Site,
    api: Api,
}

const COMMENT: &str = "\n# What follows was decided in May.\n[log]\nlog_stats = false # too much of it\n# The end.\n";

impl Stage {
    fn new(setup: Setup) -> Stage {
        let api = Api::default();
        let setup = setup.more(&format!("{}{COMMENT}", api.section()));
        Stage { site: Site::with(setup, Mode::Transaction), api }
    }

    fn file(&self) -> PathBuf {
        self.site.weir().folder().join("weir.toml")
    }

    fn text(&self) -> String {
        fs::read_to_string(self.file()).unwrap()
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        ask(self.api, method, path, body)
    }

    /// The settings of a pool for the site's database.
    fn pool(&self, name: &str) -> Value {
        let database = self.site.database();
        json!({
            "name": name, "host": "127.0.0.1", "port": database.postgres().port(), "database": database.name(),
            "user": users::APP.name, "password": users::APP.password, "size": 2,
        })
    }

    fn connect(&self, pool: &str) -> Result<Connection, weir_pgclient::Error> {
        Connection::connect(&self.site.weir().params(users::APP.name, pool).password(users::APP.password))
    }
}

fn ask(api: Api, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let (status, text) = api.ask(method, path, &body.to_string());
    (status, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
}

fn stage() -> Stage {
    Stage::new(Setup::new(Mode::Transaction).size(2))
}

#[test]
fn a_pool_created_over_the_api_serves_is_written_to_the_file_and_can_be_deleted() {
    let stage = stage();
    let before = stage.text();
    let (status, made) = stage.ask("POST", "/api/v1/pools", &stage.pool("new"));
    assert_eq!((status, &made["persisted"], &made["pool"]["size"]), (201, &true.into(), &2.into()), "{made}");
    assert!(!made.to_string().contains(users::APP.password));
    let mut client = stage.connect("new").unwrap();
    assert_eq!(client.value("SELECT current_user").unwrap().as_deref(), Some(users::APP.name));
    let text = stage.text();
    assert!(text.starts_with(&before), "the old text is unchanged: {text}");
    assert!(text[before.len()..].contains("[pools.new]\n"), "{text}");
    // The file and the running configuration agree.
    assert_eq!(stage.api.post("/api/v1/reload").0, 204);
    assert_eq!(client.value("SELECT 2").unwrap().as_deref(), Some("2"));
    let (status, again) = stage.ask("POST", "/api/v1/pools", &stage.pool("new"));
    assert_eq!((status, &again["key"]), (409, &"name".into()), "{again}");
    let (status, gone) = stage.ask("DELETE", "/api/v1/pools/new", &Value::Null);
    assert_eq!((status, gone), (200, json!({ "persisted": true, "version": 3 })));
    assert_eq!(stage.text(), before);
    assert_eq!(stage.connect("new").unwrap_err().sqlstate(), Some("3D000"));
    assert_eq!(stage.ask("DELETE", "/api/v1/pools/new", &Value::Null).0, 404);
    assert_eq!(stage.ask("PATCH", "/api/v1/pools/new", &json!({ "size": 3 })).0, 404);
}

/// The path of a test of a pool has this name too.
#[test]
fn a_pool_with_the_name_test_can_be_read_changed_and_deleted() {
    let stage = stage();
    assert_eq!(stage.ask("POST", "/api/v1/pools", &stage.pool("test")).0, 201);
    let (status, pool) = stage.ask("GET", "/api/v1/pools/test", &Value::Null);
    assert_eq!((status, &pool["name"]), (200, &"test".into()), "{pool}");
    let (status, changed) = stage.ask("PATCH", "/api/v1/pools/test", &json!({ "size": 3 }));
    assert_eq!((status, &changed["pool"]["size"]), (200, &3.into()), "{changed}");
    let (_, tried) = stage.ask("POST", "/api/v1/pools/test", &stage.pool("test"));
    assert_eq!(tried["ok"], true, "{tried}");
    assert_eq!(stage.ask("DELETE", "/api/v1/pools/test", &Value::Null).0, 200);
    assert_eq!(stage.ask("GET", "/api/v1/pools/test", &Value::Null).0, 404);
}

#[test]
fn a_pool_resized_under_load_disconnects_no_client() {
    let stage = stage();
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let work = || {
            let mut client = stage.site.connect();
            let mut done = 0_u64;
            while !ended.load(Ordering::Relaxed) || done == 0 {
                client.query("BEGIN").unwrap();
                client.query("SELECT 1").unwrap();
                client.query("COMMIT").unwrap();
                done += 1;
            }
        };
        let clients: Vec<_> = (0..8).map(|_| scope.spawn(work)).collect();
        for size in [6, 1, 4, 2, 5, 1] {
            let (status, changed) = stage.ask("PATCH", "/api/v1/pools/app", &json!({ "size": size }));
            assert_eq!((status, &changed["pool"]["size"]), (200, &size.into()), "{changed}");
            eventually("it has no more servers than that", || {
                let pool = stage.api.get("/api/v1/pools/app");
                let servers = ["active", "idle", "used", "tested", "login"].map(|state| &pool["servers"][state]);
                let open: u64 = servers.iter().map(|count| count.as_u64().unwrap()).sum();
                if open <= size { Ok(()) } else { Err(open) }
            });
        }
        ended.store(true, Ordering::Relaxed);
        clients.into_iter().for_each(|client| client.join().expect("no client was affected"));
    });
}

#[test]
fn a_key_returns_to_its_default_and_written_values_are_shown_without_secrets() {
    let stage = stage();
    let before = stage.text();
    let change = json!({ "query_wait_timeout": "7s", "max_db_connections": 9, "reserve_size": 1 });
    assert_eq!(stage.ask("PATCH", "/api/v1/pools/app", &change).0, 200);
    let config = stage.api.get("/api/v1/pools/app/config");
    assert_eq!((&config["query_wait_timeout"], &config["max_db_connections"]), (&"7s".into(), &9.into()), "{config}");
    assert_eq!((&config["size"], &config["password"]), (&2.into(), &json!({ "set": true })), "{config}");
    assert!(!config.to_string().contains(users::APP.password));
    let back = json!({ "query_wait_timeout": null, "max_db_connections": null, "reserve_size": null });
    let (status, changed) = stage.ask("PATCH", "/api/v1/pools/app", &back);
    assert_eq!((status, &changed["pool"]["reserve_size"]), (200, &0.into()), "{changed}");
    assert_eq!(stage.text(), before);
    assert_eq!(stage.ask("GET", "/api/v1/pools/nowhere/config", &Value::Null).0, 404);
}

#[test]
fn what_is_not_valid_changes_nothing() {
    let stage = stage();
    let before = stage.text();
    for (method, path, body, key) in [
        ("PATCH", "/api/v1/pools/app", json!({ "size": "many" }), "size"),
        ("PATCH", "/api/v1/pools/app", json!({ "size": 3, "mode": "sesion" }), "mode"),
        ("PATCH", "/api/v1/pools/app", json!({ "sice": 3 }), "sice"),
        ("PATCH", "/api/v1/pools/app", json!({ "host": null }), "host"),
        ("POST", "/api/v1/pools", json!({ "name": "new" }), "host"),
        ("POST", "/api/v1/pools", json!({ "name": "weir", "host": "h" }), "name"),
        ("POST", "/api/v1/pools", json!({ "name": "", "host": "h" }), "name"),
        ("POST", "/api/v1/pools", json!({ "name": "a\u{1b}b", "host": "h" }), "name"),
        ("POST", "/api/v1/pools", json!({ "name": "new", "host": "h", "password_file": "none" }), "password_file"),
        ("POST", "/api/v1/pools", json!({ "name": "new", "host": "h", "password": "hush\u{0}hush" }), "password"),
    ] {
        let (status, error) = stage.ask(method, path, &body);
        assert_eq!(status, 400, "{body}: {error}");
        assert_eq!(error["key"], key, "{body}: {error}");
        assert!(!error["error"].as_str().unwrap().is_empty() && !error.to_string().contains("hush"), "{error}");
    }
    assert_eq!(stage.text(), before);
    assert_eq!(stage.api.get("/api/v1/pools/app")["size"], 2);
    assert_eq!(
        fs::read_dir(stage.site.weir().folder())
            .unwrap()
            .filter(|e| { e.as_ref().unwrap().file_name().to_string_lossy().ends_with(".new") })
            .count(),
        0
    );
}

#[test]
fn a_file_changed_by_hand_is_a_conflict_until_it_is_read_again() {
    let stage = stage();
    let by_hand = format!("{}\n# I was here.\n", stage.text());
    fs::write(stage.file(), &by_hand).unwrap();
    let (status, error) = stage.ask("PATCH", "/api/v1/pools/app", &json!({ "size": 5 }));
    assert_eq!(status, 409, "{error}");
    assert!(error["hint"].as_str().unwrap().contains("reload"), "{error}");
    assert_eq!((stage.text(), &stage.api.get("/api/v1/pools/app")["size"]), (by_hand.clone(), &2.into()));
    // An invalid file does not count as a reload.
    fs::write(stage.file(), "nonsense").unwrap();
    assert_eq!(stage.api.post("/api/v1/reload").0, 422);
    assert_eq!(stage.ask("PATCH", "/api/v1/pools/app", &json!({ "size": 5 })).0, 409);
    fs::write(stage.file(), &by_hand).unwrap();
    assert_eq!(stage.api.post("/api/v1/reload").0, 204);
    assert_eq!(stage.ask("PATCH", "/api/v1/pools/app", &json!({ "size": 5 })).0, 200);
    assert_eq!(stage.text(), by_hand.replacen("size = 2", "size = 5", 1));
}

#[test]
fn with_a_read_only_file_changes_live_until_the_restart_and_are_written_once_it_is_not() {
    let stage = stage();
    let before = stage.text();
    let mode = |mode| fs::set_permissions(stage.file(), fs::Permissions::from_mode(mode)).unwrap();
    mode(0o444);
    let (status, made) = stage.ask("POST", "/api/v1/pools", &stage.pool("new"));
    assert_eq!((status, &made["persisted"]), (201, &false.into()), "{made}");
    assert!(made["reason"].as_str().unwrap().contains("read-only"), "{made}");
    let mut client = stage.connect("new").unwrap();
    // A reload keeps it.
    assert_eq!(stage.api.post("/api/v1/reload").0, 204);
    assert_eq!(client.value("SELECT 1").unwrap().as_deref(), Some("1"));
    assert_eq!(stage.ask("PATCH", "/api/v1/pools/app", &json!({ "size": 4 })).1["persisted"], false);
    assert_eq!(stage.api.get("/api/v1/pools/app/config")["size"], 4);
    assert_eq!(stage.text(), before);
    mode(0o644);
    assert_eq!(stage.ask("PATCH", "/api/v1/pools/app", &json!({ "mode": "session" })).1["persisted"], true);
    let text = stage.text();
    assert!(text.contains("size = 4") && text.contains("[pools.new]") && text.contains("# The end."), "{text}");
    assert_eq!(client.value("SELECT 1").unwrap().as_deref(), Some("1"));
}

#[test]
fn an_ini_is_not_written_but_accepts_changes() {
    let api = Api::default();
    let ini = api.keys().into_iter().fold(Ini::transaction(1), |ini, (key, value)| ini.set(key, &value));
    let site = Site::ini(&ini);
    let (status, changed) = ask(api, "PATCH", "/api/v1/pools/app", &json!({ "size": 3 }));
    assert_eq!((status, &changed["pool"]["size"], &changed["persisted"]), (200, &3.into(), &false.into()));
    assert!(changed["reason"].as_str().unwrap().contains("weir convert"), "{changed}");
    site.connect().query("SELECT 1").unwrap();
    assert_eq!(api.post("/api/v1/reload").0, 204);
    assert_eq!(api.get("/api/v1/pools/app")["size"], 3);
}

#[test]
fn changes_at_once_are_made_one_after_another_and_none_is_lost() {
    let stage = stage();
    thread::scope(|scope| {
        for number in 0..8 {
            let stage = &stage;
            scope.spawn(move || {
                let (status, made) = stage.ask("POST", "/api/v1/pools", &stage.pool(&format!("pool{number}")));
                assert_eq!(status, 201, "{made}");
            });
        }
    });
    let text = stage.text();
    for number in 0..8 {
        assert!(text.contains(&format!("[pools.pool{number}]")), "{text}");
        stage.connect(&format!("pool{number}")).unwrap().query("SELECT 1").unwrap();
    }
}

#[test]
fn a_pool_is_tried_before_it_is_made() {
    let stage = stage();
    let (status, response) = stage.ask("POST", "/api/v1/pools/test", &stage.pool("new"));
    assert_eq!((status, &response["ok"]), (200, &true.into()), "{response}");
    let mut superuser = stage.site.superuser();
    let mut shown = |name: &str| superuser.value(&format!("SHOW {name}")).unwrap().unwrap();
    assert!(shown("server_version").starts_with(response["version"].as_str().unwrap()));
    assert_eq!(shown("max_connections"), response["max_connections"].to_string());
    assert_eq!(shown("superuser_reserved_connections"), response["superuser_reserved_connections"].to_string());
    assert!(
        response["connections"].as_u64().unwrap() >= 1 && response["milliseconds"].as_f64().unwrap() > 0.0,
        "{response}"
    );
    assert_eq!(stage.ask("GET", "/api/v1/pools/new/config", &Value::Null).0, 404, "it was only tried");
    // For an existing pool, the password need not be given.
    let (_, response) = stage.ask("POST", "/api/v1/pools/test", &json!({ "name": "app", "size": 9 }));
    assert_eq!(response["ok"], true, "{response}");
    let mut wrong = stage.pool("new");
    wrong["password"] = "wrong".into();
    let (status, response) = stage.ask("POST", "/api/v1/pools/test", &wrong);
    assert_eq!((status, &response["ok"]), (200, &false.into()), "{response}");
    assert!(
        response["error"].as_str().unwrap().contains("password") && !response.to_string().contains("wrong"),
        "{response}"
    );
    assert_eq!(stage.ask("POST", "/api/v1/pools/test", &json!({ "name": "new" })).0, 400);
}

#[test]
fn a_user_created_over_the_api_logs_in_with_its_current_password_until_it_is_deleted() {
    let api = Api::default();
    let ini =
        api.keys().into_iter().fold(Ini::transaction(2).forced(users::APP), |ini, (key, value)| ini.set(key, &value));
    let site = Site::ini(&ini);
    let come =
        |password: &str| Connection::connect(&site.weir().params("new user", "app").password(password)).map(drop);
    let ask = |method: &str, path: &str, body: &Value| ask(api, method, path, body);
    let made = json!({ "name": "new user", "password": "one", "size": 1 });
    let (status, response) = ask("POST", "/api/v1/users", &made);
    assert_eq!(
        (status, &response["persisted"], &response["user"]["rules"]["size"]),
        (201, &false.into(), &1.into()),
        "{response}"
    );
    assert!(response["user"]["listed"] == true && !response.to_string().contains("one\""), "{response}");
    come("one").unwrap();
    assert_eq!(ask("POST", "/api/v1/users", &made).0, 409);
    let change = json!({ "password": "two", "size": null, "mode": "session" });
    let (status, changed) = ask("PATCH", "/api/v1/users/new%20user", &change);
    assert_eq!((status, &changed["user"]["rules"]), (200, &json!({ "mode": "session" })), "{changed}");
    assert_eq!(come("one").unwrap_err().sqlstate(), Some("08P01"), "PgBouncer's, as it is an ini");
    come("two").unwrap();
    assert_eq!(api.post("/api/v1/reload").0, 204);
    come("two").expect("a user that is in no file survives a reload");
    let users = api.get("/api/v1/users?limit=1000");
    let known = users["users"].as_array().unwrap().iter().find(|user| user["name"] == "new user").cloned();
    assert_eq!(known.as_ref(), Some(&api.get("/api/v1/users/new%20user")), "{users}");
    let (status, error) = ask("PATCH", "/api/v1/users/new%20user", &json!({ "size": "many" }));
    assert_eq!((status, &error["key"]), (400, &"size".into()), "{error}");
    assert_eq!(ask("DELETE", "/api/v1/users/new%20user", &Value::Null).0, 200);
    assert_eq!(come("two").unwrap_err().sqlstate(), Some("08P01"));
    assert_eq!(ask("DELETE", "/api/v1/users/new%20user", &Value::Null).0, 404);
}

#[test]
fn a_users_rules_are_written_into_the_file_though_its_password_is_listed_elsewhere() {
    let stage = stage();
    let before = stage.text();
    let path = format!("/api/v1/users/{}", users::APP.name);
    let (status, changed) = stage.ask("PATCH", &path, &json!({ "max_user_connections": 3 }));
    assert_eq!((status, &changed["persisted"]), (200, &true.into()), "{changed}");
    assert_eq!(changed["user"]["rules"], json!({ "max_user_connections": 3 }));
    assert!(stage.text().contains(&format!("[users.{}]\nmax_user_connections = 3\n", users::APP.name)));
    assert_eq!(stage.ask("PATCH", &path, &json!({ "max_user_connections": null })).0, 200);
    assert_eq!(stage.text().replace(&format!("\n[users.{}]\n", users::APP.name), ""), before);
}

#[test]
fn databases_are_listed_with_their_pools() {
    let stage = stage();
    assert_eq!(stage.ask("POST", "/api/v1/pools", &stage.pool("second")).0, 201);
    let databases = stage.api.get("/api/v1/databases")["databases"].clone();
    let database = databases.as_array().unwrap().iter().find(|one| one["pools"] == json!(["app", "second"]));
    let database = database.unwrap_or_else(|| panic!("both pools lead to one database: {databases}"));
    assert_eq!(
        (&database["size"], &database["database"]),
        (&4.into(), &stage.site.database().name().into()),
        "{database}"
    );
}
