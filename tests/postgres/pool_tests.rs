//! Trials of servers before they are used, over the API and by `weir check --connect`: encrypted as `[tls.server]`
//! says.

use std::process::Command;

use serde_json::{Value, json};
use weir_tests::{
    Api, Certificates, Mode, Postgres, Setup, Site, User, encrypting_postgres, eventually, users, weir_binary,
};

struct Stage {
    site: Site,
    api: Api,
}

impl Stage {
    fn new(postgres: &Postgres, mode: &str, authority: &str) -> Stage {
        let api = Api::default();
        let file = if authority.is_empty() { "" } else { "ca_file = \"ca.crt\"\n" };
        let setup = Setup::new(Mode::Transaction)
            .file("ca.crt", authority)
            .more(&format!("[tls.server]\nmode = \"{mode}\"\n{file}{}", api.section()));
        Stage { site: Site::on(postgres, setup, Mode::Transaction), api }
    }

    fn tried(&self) -> Value {
        let (status, text) = self.api.ask("POST", "/api/v1/pools/test", &json!({ "name": "app" }).to_string());
        assert_eq!(status, 200, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    /// The output of `weir check --connect`.
    fn checked(&self) -> String {
        let file = self.site.weir().folder().join("weir.toml");
        let output = Command::new(weir_binary()).args(["check", "--connect"]).arg(file).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }
}

/// Whether the server was reached, and whether encrypted; otherwise the reason.
fn outcome(tried: &Value) -> Result<bool, String> {
    match tried["ok"].as_bool() {
        Some(true) => Ok(tried["encrypted"].as_bool().unwrap()),
        _ => Err(tried["error"].as_str().unwrap().to_owned()),
    }
}

#[test]
fn a_server_with_tls_is_tried_as_the_mode_says() {
    let (postgres, authority) = encrypting_postgres();
    let other = Certificates::new();
    for (mode, authority, encrypted) in [
        ("disable", "", Some(false)),
        ("allow", "", Some(false)),
        ("prefer", "", Some(true)),
        ("require", "", Some(true)),
        ("verify-ca", authority.as_str(), Some(true)),
        ("verify-full", authority.as_str(), Some(true)),
        ("verify-ca", other.authority(), None),
        ("verify-full", other.authority(), None),
    ] {
        let stage = Stage::new(&postgres, mode, authority);
        let tried = stage.tried();
        assert_eq!(outcome(&tried).ok(), encrypted, "{mode}: {tried}");
        let checked = stage.checked();
        let reported = match encrypted {
            None => "certificate",
            Some(true) => "  ok, encrypted  ",
            Some(false) => "  ok  ",
        };
        assert!(checked.contains(reported), "{mode}: {checked}");
    }
}

#[test]
fn a_server_without_tls_is_tried_as_the_mode_says() {
    let postgres = Postgres::private();
    for (mode, reached) in [("disable", true), ("allow", true), ("prefer", true), ("require", false)] {
        let tried = Stage::new(&postgres, mode, "").tried();
        let outcome = outcome(&tried);
        assert_eq!(outcome.is_ok(), reached, "{mode}: {tried}");
        assert!(
            outcome.map_or_else(|why| why.contains("server refused SSL"), |encrypted| !encrypted),
            "{mode}: {tried}"
        );
    }
}

#[test]
fn a_server_that_requires_one_way_is_tried_in_the_other_too() {
    let (postgres, _) = encrypting_postgres();
    for (line, mode, encrypted) in [("hostssl", "allow", true), ("hostnossl", "prefer", false)] {
        let mut superuser = postgres.superuser("postgres");
        let file = superuser.value("SHOW hba_file").unwrap().expect("a file");
        let edit = format!("sed -i -E 's/^host(ssl)? /{line} /' '{file}'");
        superuser.query(&format!("COPY (SELECT 1) TO PROGRAM $program$ {edit} $program$")).unwrap();
        superuser.query("SELECT pg_reload_conf()").unwrap();
        let stage = Stage::new(&postgres, mode, "");
        eventually("it insists", || {
            let tried = stage.tried();
            if outcome(&tried) == Ok(encrypted) { Ok(()) } else { Err(tried) }
        });
    }
}

#[test]
fn hosts_are_tried_in_order_until_one_is_what_the_pool_wants_and_what_fails_is_said() {
    let postgres = Postgres::private();
    let standby = postgres.standby();
    let stage = Stage::new(&postgres, "disable", "");
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let tried_as = |user: User, attrs: &str, ports: &[u16], query: &str| {
        let hosts = vec!["127.0.0.1"; ports.len()];
        let pool = json!({
            "name": "several", "host": hosts, "port": ports, "database": "postgres", "user": user.name,
            "password": user.password, "target_session_attrs": attrs, "connect_query": query,
        });
        let (status, text) = stage.api.ask("POST", "/api/v1/pools/test", &pool.to_string());
        assert_eq!(status, 200, "{text}");
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let tried = |attrs: &str, ports: &[u16], query: &str| tried_as(users::APP, attrs, ports, query);
    let at = |port: u16| json!(format!("127.0.0.1:{port}"));

    let primary = tried("read-write", &[closed, standby.port(), postgres.port()], "select nothing");
    assert_eq!(primary["server"], at(postgres.port()), "{primary}");
    let notes: Vec<&str> = primary["notes"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let has = |part: &str| notes.iter().any(|note| note.contains(part));
    assert!(has("connect_query fails: ") && has("Connection refused") && has("session is read-only"), "{notes:?}");

    let preferred = tried("prefer-standby", &[postgres.port(), standby.port()], "select 1");
    assert_eq!(preferred["server"], at(standby.port()), "{preferred}");
    let none = tried("standby", &[postgres.port()], "select 1");
    assert!(none["error"].as_str().unwrap().contains("not in hot standby mode (target_session_attrs)"), "{none}");
    assert_eq!(tried("prefer-standby", &[postgres.port()], "select 1")["server"], at(postgres.port()));

    // A server of this machine may trust it.
    let trusting = tried_as(users::TRUSTED, "any", &[postgres.port()], "select 1");
    assert_eq!(trusting["ok"], json!(true), "{trusting}");
    assert!(trusting["notes"].to_string().contains("without asking for the pool's password"), "{trusting}");
}
