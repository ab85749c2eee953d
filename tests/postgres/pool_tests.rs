//! Trials of servers before they are used, over the API and by `weir check --connect`: encrypted as `[tls.server]`
//! says.

use std::process::Command;

use serde_json::{Value, json};
use weir_tests::{Api, Certificates, Mode, Postgres, Setup, Site, encrypting_postgres, eventually, weir_binary};

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
