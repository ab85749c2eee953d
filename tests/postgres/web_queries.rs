//! Queries of the configuration may hold secrets: whoever may not change them reads them nowhere.

use std::fs;

use serde_json::{Value, json};
use weir_pgclient::Connection;
use weir_tests::{Api, Mode, Setup, Site, TABLES, WATCHER};

use crate::web_access::account;

/// A part of each query that only admins may read.
const SECRET: &str = "hunter2";

struct Stage {
    site: Site,
    api: Api,
    tokens: [(&'static str, String); 3],
}

fn stage() -> Stage {
    let api = Api::default();
    let made = ["viewer", "operator", "admin"].map(|role| (role, account(&[role, "--role", role, "--token"], "")));
    let lines: String = made.iter().map(|(_, (line, _))| line.as_str()).collect();
    let section = format!(
        "[web.tokens]\n{lines}\n[pools.secret]\nhost = \"127.0.0.1\"\nuser = \"x\"\n\
         connect_query = \"select '{SECRET} 1'\"\nauth_query = \"select '{SECRET} 2', $1\"\n"
    );
    let setup = Setup::new(Mode::Transaction)
        .general(&format!("server_check_query = \"select '{SECRET} 3'\""))
        .more(&format!("{}{section}", api.section()));
    let site = Site::with(setup, Mode::Transaction);
    Stage { site, api, tokens: made.map(|(role, (_, token))| (role, token)) }
}

impl Stage {
    fn ask(&self, role: &str, method: &str, path: &str, body: &Value) -> (u16, String) {
        let token = &self.tokens.iter().find(|(name, _)| *name == role).expect("a role").1;
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.api.ask_with(method, path, &format!("Authorization: Bearer {token}\r\n"), &body)
    }
}

#[test]
fn who_may_not_change_a_query_reads_it_nowhere() {
    let stage = stage();
    // Versions with old and new values, and a file that differs from what is in force.
    for number in 4..6 {
        let change = json!({ "connect_query": format!("select '{SECRET} {number}'") });
        let (status, text) = stage.ask("admin", "PATCH", "/api/v1/pools/secret", &change);
        assert_eq!(status, 200, "{text}");
        let (status, text) = stage.ask(
            "admin",
            "PUT",
            "/api/v1/settings/auth_query",
            &json!({ "value": format!("select '{SECRET}', $1 -- {number}") }),
        );
        assert_eq!(status, 200, "{text}");
    }
    let file = stage.site.weir().folder().join("weir.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace(&format!("{SECRET} 5"), &format!("{SECRET} 6"))).unwrap();
    let description: Value = serde_json::from_str(&stage.api.ask("GET", "/api/v1/openapi.json", "").1).unwrap();
    let paths: Vec<String> = description["paths"]
        .as_object()
        .unwrap()
        .iter()
        .filter(|(_, methods)| methods.get("get").is_some())
        .map(|(path, _)| {
            path.replace("{name}", "secret")
                .replace("{number}", "2")
                .replace("{report}", "quick")
                .replace("{file}", "report.html")
        })
        .filter(|path| path != "/api/v1/events")
        .collect();
    let more = [
        "/api/v1/audit?format=csv",
        "/api/v1/audit?search=hunter2",
        "/api/v1/config/versions?search=hunter2",
        "/api/v1/log?search=hunter2",
    ];
    let mut seen = 0;
    for path in paths.iter().map(String::as_str).chain(more) {
        for role in ["viewer", "operator"] {
            let (status, text) = stage.ask(role, "GET", path, &Value::Null);
            // What is not there by this name is not found.
            assert!([200, 303, 403, 404].contains(&status), "{role} {path}: {status} {text}");
            assert!(!text.contains(SECRET), "{role} {path}: {text}");
        }
        seen += usize::from(stage.ask("admin", "GET", path, &Value::Null).1.contains(SECRET));
    }
    assert!(seen >= 5, "admins see them at {seen} paths");
    let (_, found) = stage.ask("viewer", "GET", "/api/v1/config/versions?search=hunter2", &Value::Null);
    assert!(found.contains("\"versions\":[]"), "a search tells nothing either: {found}");
}

#[test]
fn a_stats_user_of_the_console_reads_no_query() {
    let stage = stage();
    let weir = stage.site.weir();
    let mut watcher = Connection::connect(&weir.params(WATCHER.0, "weir").password(WATCHER.1)).unwrap();
    for (table, _) in TABLES {
        let answer = watcher.query(&format!("SHOW {table}")).unwrap_or_else(|error| panic!("{table}: {error}"));
        assert!(!answer.rows.iter().flatten().flatten().any(|value| value.contains(SECRET)), "{table}");
    }
    let shown = weir.show("CONFIG");
    assert!(shown.rows.iter().flatten().flatten().any(|value| value.contains(SECRET)), "an admin sees them");
}
