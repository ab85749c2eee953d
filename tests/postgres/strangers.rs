//! Lists of bounded size: a flood of those who have no login displaces no entry of those who have one, in any list that
//! the API's description names.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;
use weir_pgwire::put_front;
use weir_tests::{Api, Batch, Mode, Setup, Site, eventually};

use crate::web_access::account;

/// The fields that may identify an entry of a list; the first one that an entry has counts.
const KEYS: [&str; 7] = ["number", "request", "id", "revision", "name", "key", "at"];
/// More lines and requests than any list holds.
const FLOOD: usize = 2500;

/// All entries of lists within an answer.
fn entries(path: &str, value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => {
            for item in items {
                if let Some(key) = KEYS.iter().find(|key| !item[**key].is_null()) {
                    found.insert(format!("{path} {key} {}", item[*key]));
                }
                entries(path, item, found);
            }
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| entries(&format!("{path}.{name}"), value, found))
        }
        _ => {}
    }
}

/// The entries of every list that can be asked for.
fn all_lists(api: &Api, bearer: &str, paths: &[String]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for path in paths {
        let (status, text) = api.ask_with("GET", path, bearer, "");
        if let (200, Ok(answer)) = (status, serde_json::from_str::<Value>(&text)) {
            entries(path.split('?').next().unwrap_or_default(), &answer, &mut found);
        }
    }
    found
}

/// The paths of the API's description, with the lines of this client since its login instead of all.
fn paths(api: &Api, bearer: &str, client: u64) -> Vec<String> {
    let (_, text) = api.ask_with("GET", "/api/v1/openapi.json", bearer, "");
    let described: Value = serde_json::from_str(&text).expect("JSON");
    let gets = described["paths"].as_object().expect("paths").iter().filter(|(_, methods)| !methods["get"].is_null());
    let plain = gets.map(|(path, _)| path.clone()).filter(|path| !path.contains('{'));
    let plain = plain.filter(|path| !path.contains("/events") && !path.contains("/openapi"));
    plain
        .map(
            |path| {
                if path.ends_with("/log") { format!("{path}?limit=1000&level=warning&client={client}") } else { path }
            },
        )
        .collect()
}

fn stranger(site: &Site, number: usize) {
    let mut stream = TcpStream::connect(("127.0.0.1", site.weir().port())).unwrap();
    let (name, mut message) = (format!("stranger{number}"), Vec::new());
    put_front::startup(&mut message, &[("user", name.as_str()), ("database", "app")], 0);
    put_front::password(&mut message, b"a guess");
    let _ = stream.write_all(&message);
    let _ = stream.read_to_end(&mut Vec::new());
}

#[test]
fn a_flood_without_a_login_displaces_nothing_of_those_who_have_one() {
    let api = Api::default();
    let (admin, token) = account(&["ops", "--role", "admin", "--token"], "");
    let (viewer, weak) = account(&["grafana", "--role", "viewer", "--token"], "");
    let more = format!("{}[web.tokens]\n{admin}{viewer}[log]\nlog_connections = true\n", api.section());
    let setup = Setup::new(Mode::Transaction).auth("plain").auth_line("failure_delay = 0").more(&more);
    let site = Site::with(setup, Mode::Transaction);
    let [bearer, weak] = [token, weak].map(|token| format!("Authorization: Bearer {token}\r\n"));

    let _stays = site.connect();
    let mut refused = site.connect();
    let id = format!("{:?}", site.weir().show("CLIENTS").get(1, "id").unwrap()).trim_matches('"').parse().unwrap();
    refused.send_bytes(Batch::new().raw(b"!\0\0\0\x04").bytes()).unwrap();
    assert_eq!(api.ask_with("PUT", "/api/v1/settings/query_wait_timeout", &bearer, "{\"value\": \"77\"}").0, 200);
    assert_eq!(api.ask_with("POST", "/api/v1/pools/app/pause", &weak, "").0, 403);
    let paths = paths(&api, &bearer, id);
    assert!(paths.len() > 15, "{paths:?}");
    let before = eventually("all lists have entries", || {
        let found = all_lists(&api, &bearer, &paths);
        let has = |list: &str| found.iter().filter(|entry| entry.starts_with(&format!("/api/v1/{list}."))).count();
        if has("audit") >= 2 && has("log") >= 1 && has("config/versions") >= 2 { Ok(found) } else { Err(found) }
    });

    for number in 0..FLOOD {
        stranger(&site, number);
        assert_eq!(api.ask("POST", &format!("/api/v1/pools/pool{number}/pause"), "").0, 401);
    }
    eventually("the flood has been seen", || {
        let (_, text) = api.ask_with("GET", "/api/v1/log?limit=1000&search=stranger", &bearer, "");
        if text.contains(&format!("stranger{}", FLOOD - 1)) { Ok(()) } else { Err(text) }
    });
    let after = all_lists(&api, &bearer, &paths);
    let missing: Vec<_> = before.difference(&after).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}
