//! General settings, changed over the API of a Weir with a real server.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};
use weir_tests::{Api, Ini, Mode, Setup, Site};

/// Further contents of the file.
const COMMENT: &str = "\n# What follows was decided in May.\n[log]\nstats = false # too much of it\n# The end.\n";

struct Stage {
    site: Site,
    api: Api,
}

impl Stage {
    fn new() -> Stage {
        let api = Api::default();
        let setup = Setup::new(Mode::Transaction).size(2).more(&format!("{}{COMMENT}", api.section()));
        Stage { site: Site::with(setup, Mode::Transaction), api }
    }

    fn file(&self) -> PathBuf {
        self.site.weir().folder().join("weir.toml")
    }

    fn text(&self) -> String {
        fs::read_to_string(self.file()).unwrap()
    }

    fn set(&self, key: &str, value: &str) -> (u16, Value) {
        set(self.api, key, value)
    }
}

fn set(api: Api, key: &str, value: &str) -> (u16, Value) {
    let (status, text) = api.ask("PUT", &format!("/api/v1/settings/{key}"), &json!({ "value": value }).to_string());
    (status, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
}

fn shown(api: Api, key: &str) -> Value {
    let settings = api.get("/api/v1/settings");
    settings.as_array().unwrap().iter().find(|row| row["key"] == key).unwrap().clone()
}

#[test]
fn a_setting_is_changed_at_once_and_written_to_the_file() {
    let stage = Stage::new();
    let before = stage.text();
    let (status, changed) = stage.set("query_wait_timeout", "7s");
    let expected = json!({ "key": "query_wait_timeout", "value": "7", "persisted": true, "version": 2 });
    assert_eq!((status, &changed), (200, &expected), "as SHOW CONFIG has it");
    assert_eq!(shown(stage.api, "query_wait_timeout")["value"], "7");
    let text = stage.text();
    assert!(text.contains("query_wait_timeout = \"7s\"\n"), "{text}");
    // A reload reads the written value.
    assert_eq!(stage.api.post("/api/v1/reload").0, 204);
    assert_eq!(shown(stage.api, "query_wait_timeout")["value"], "7");
    // An existing line is changed in place.
    assert_eq!(stage.set("log_stats", "1").1["persisted"], true);
    assert_eq!(stage.text(), text.replacen("stats = false # too", "stats = true # too", 1));
    assert!(before.lines().all(|line| line.starts_with("stats") || text.lines().any(|kept| kept == line)), "{text}");
    // A pool without its own value uses it.
    assert_eq!(stage.set("reserve_pool_size", "1").0, 200);
    assert_eq!(stage.api.get("/api/v1/pools/app")["reserve_size"], 1);
    assert_eq!(stage.set("default_pool_size", "9").0, 200);
    assert_eq!(stage.api.get("/api/v1/pools/app")["size"], 2, "it has its own");
}

#[test]
fn what_is_not_valid_changes_nothing_and_names_the_setting() {
    let stage = Stage::new();
    let before = stage.text();
    for (key, value, status) in [
        ("query_wait_timeout", "soon", 400),
        ("default_pool_size", "-1", 400),
        ("pool_mode", "sesion", 400),
        ("client_tls_sslmode", "require", 400),
        ("server_tls_ca_file", "no-such-file", 409),
        ("logfile", "/tmp/weir.log", 409),
        ("auth_type", "hba", 400),
        ("auth_dbname", "weir", 400),
        ("no_such_setting", "1", 404),
        ("password", "hush", 409),
        ("listen_port", "1", 409),
        ("pkt_buf", "1", 409),
    ] {
        let (answered, error) = stage.set(key, value);
        assert_eq!((answered, error["key"].as_str()), (status, Some(key)), "{key} {value}: {error}");
        assert!(!error["error"].as_str().unwrap().is_empty() && !error.to_string().contains("hush"), "{error}");
    }
    assert_eq!(stage.text(), before);
    for key in ["listen_port", "pkt_buf", "conffile"] {
        assert_eq!(shown(stage.api, key)["changeable"], false, "{key}");
    }
    assert_eq!(shown(stage.api, "query_wait_timeout")["changeable"], true);
    stage.site.connect().query("SELECT 1").unwrap();
}

#[test]
fn a_file_changed_by_hand_is_a_conflict_until_it_is_read_again() {
    let stage = Stage::new();
    let by_hand = format!("{}\n# I was here.\n", stage.text());
    fs::write(stage.file(), &by_hand).unwrap();
    let (status, error) = stage.set("query_wait_timeout", "7");
    assert_eq!((status, &error["key"]), (409, &"query_wait_timeout".into()), "{error}");
    assert!(error["hint"].as_str().unwrap().contains("reload"), "{error}");
    assert_eq!(stage.text(), by_hand);
    assert_ne!(shown(stage.api, "query_wait_timeout")["value"], "7");
    assert_eq!(stage.api.post("/api/v1/reload").0, 204);
    assert_eq!(stage.set("query_wait_timeout", "7").1["persisted"], true);
    assert!(stage.text().contains("# I was here.\n"));
}

#[test]
fn with_a_read_only_file_a_setting_lives_until_the_restart_and_is_written_once_it_is_not() {
    let stage = Stage::new();
    let before = stage.text();
    let mode = |mode| fs::set_permissions(stage.file(), fs::Permissions::from_mode(mode)).unwrap();
    mode(0o444);
    let (status, changed) = stage.set("reserve_pool_size", "3");
    assert_eq!((status, &changed["persisted"]), (200, &false.into()), "{changed}");
    assert!(changed["reason"].as_str().unwrap().contains("read-only"), "{changed}");
    // A reload keeps it.
    assert_eq!(stage.api.post("/api/v1/reload").0, 204);
    assert_eq!(shown(stage.api, "reserve_pool_size")["value"], "3");
    assert_eq!(stage.api.get("/api/v1/pools/app")["reserve_size"], 3);
    assert_eq!(stage.text(), before);
    mode(0o644);
    assert_eq!(stage.set("query_wait_timeout", "7").1["persisted"], true);
    let text = stage.text();
    assert!(text.contains("reserve_size = 3\n") && text.contains("query_wait_timeout = \"7s\"\n"), "{text}");
}

#[test]
fn an_ini_is_not_written_but_accepts_settings() {
    let api = Api::default();
    let ini = api.keys().into_iter().fold(Ini::transaction(1), |ini, (key, value)| ini.set(key, &value));
    let site = Site::ini(&ini);
    let (status, changed) = set(api, "query_wait_timeout", "7");
    assert_eq!((status, &changed["value"], &changed["persisted"]), (200, &"7".into(), &false.into()), "{changed}");
    assert!(changed["reason"].as_str().unwrap().contains("weir convert"), "{changed}");
    site.connect().query("SELECT 1").unwrap();
    assert_eq!(api.post("/api/v1/reload").0, 204);
    assert_eq!(shown(api, "query_wait_timeout")["value"], "7");
}
