//! The last lines of the log over the API: selected, followed live, and without secrets.

use serde_json::Value;
use weir_pgclient::Connection;
use weir_tests::{Api, Mode, Setup, Site, eventually, users};

fn site() -> (Site, Api) {
    let api = Api::default();
    let more = format!("{}[log]\nlog_connections = true\nverbose = 2\n", api.section());
    (Site::with(Setup::new(Mode::Transaction).size(2).more(&more), Mode::Transaction), api)
}

fn texts(page: &Value) -> String {
    page["lines"].as_array().unwrap().iter().map(|line| format!("{}\n", line["text"].as_str().unwrap())).collect()
}

#[test]
fn lines_are_found_by_pool_level_client_and_text_and_hold_no_password() {
    let (site, api) = site();
    let mut client = site.connect();
    client.query("SELECT 1").unwrap();
    let wrong = site.params_of(users::APP).password("not the password");
    assert!(Connection::connect(&wrong).is_err());
    let page = eventually("the line is there", || {
        let page = api.get("/api/v1/log?pool=app&limit=1000");
        if texts(&page).contains("authentication failed") { Ok(page) } else { Err(texts(&page)) }
    });
    let lines = page["lines"].as_array().unwrap();
    assert!(lines.iter().all(|line| line["pool"] == "app" || line["side"].is_null()), "{page}");
    let of_client = lines.iter().find(|line| line["side"] == "client").expect("a client's line");
    assert_eq!((of_client["user"].as_str(), of_client["level"].as_str().is_some()), (Some(users::APP.name), true));
    let one = api.get(&format!("/api/v1/log?client={}", of_client["id"]));
    assert!(one["lines"].as_array().unwrap().iter().all(|line| line["id"] == of_client["id"]), "{one}");
    let few = api.get("/api/v1/log?level=warning");
    assert!(few["lines"].as_array().unwrap().iter().all(|line| line["level"] != "log" && line["level"] != "noise"));
    assert!(texts(&api.get("/api/v1/log?search=PROCESS%20UP")).contains("process up"));
    let all = api.get("/api/v1/log?limit=1000").to_string();
    assert!(!all.contains(users::APP.password) && !all.contains("not the password"));
    assert_eq!(api.ask("GET", "/api/v1/log?level=loud", "").0, 400);
}

#[test]
fn new_lines_follow_with_the_stream_of_events() {
    let (site, api) = site();
    let last = api.get("/api/v1/log")["last"].as_u64().unwrap();
    let mut events = api.events(&format!("/api/v1/events?limit=1&log=log&log_pool=app&log_after={last}"));
    assert_eq!(Connection::connect(&site.params_of(users::APP).password("no")).err().map(|_| ()), Some(()));
    let found = events.by_ref().take(20).find(|event| event["lines"].is_array()).expect("lines come");
    assert!(found["last"].as_u64().unwrap() > last);
    assert!(found["lines"].as_array().unwrap().iter().all(|line| line["number"].as_u64().unwrap() > last), "{found}");
}
