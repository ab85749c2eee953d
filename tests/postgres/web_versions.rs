//! The history of the configuration and the audit log: versions, the way back, restarts, and who did what.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::thread;

use serde_json::{Value, json};
use weir_pglocal::Signal;
use weir_tests::{Api, Ini, Mode, Setup, Site, eventually, users};

struct Stage {
    site: Site,
    api: Api,
    folder: Folder,
}

/// A folder that is removed after Weir, which is dropped before it and still writes into it.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Stage {
    fn new(name: &str) -> Stage {
        let folder = std::env::temp_dir().join(format!("weir-versions-of-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let api = Api::default();
        let more = format!("{}history = {folder:?}\n", api.section());
        let site = Site::with(Setup::new(Mode::Transaction).size(2).more(&more), Mode::Transaction);
        Stage { site, api, folder: Folder(folder) }
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let (status, text) = self.api.ask(method, path, &body.to_string());
        (status, serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    fn size(&self, size: u32, comment: &str) {
        let path = format!("/api/v1/pools/app?comment={comment}");
        let (status, answer) = self.ask("PATCH", &path, &json!({ "size": size }));
        assert_eq!(status, 200, "{answer}");
    }

    fn present_size(&self) -> Value {
        self.api.get("/api/v1/pools/app")["size"].clone()
    }

    fn file(&self) -> PathBuf {
        self.site.weir().folder().join("weir.toml")
    }

    /// The versions, once there are this many.
    #[track_caller]
    fn versions(&self, latest: u64) -> Vec<Value> {
        let page = eventually("the version is there", || {
            let page = self.api.get("/api/v1/config/versions");
            if page["latest"] == latest { Ok(page) } else { Err(page.to_string()) }
        });
        page["versions"].as_array().unwrap().clone()
    }

    fn preview(&self, number: u64, body: &Value) -> Value {
        let (status, preview) = self.ask("POST", &format!("/api/v1/config/versions/{number}/preview"), body);
        assert_eq!(status, 200, "{preview}");
        preview
    }

    fn restore(&self, number: u64, body: &Value) -> (u16, Value) {
        self.ask("POST", &format!("/api/v1/config/versions/{number}/restore"), body)
    }

    /// A pool for the site's database, with a secret.
    fn create(&self, name: &str) {
        let database = self.site.database();
        let pool = json!({
            "name": name, "host": "127.0.0.1", "port": database.postgres().port(), "database": database.name(),
            "user": users::APP.name, "password": users::APP.password, "size": 2,
        });
        let (status, answer) = self.ask("POST", "/api/v1/pools", &pool);
        assert_eq!(status, 201, "{answer}");
    }
}

fn all_files(folder: &Path) -> String {
    let read = |entry: std::io::Result<fs::DirEntry>| {
        let bytes = fs::read(entry.unwrap().path()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    fs::read_dir(folder).unwrap().map(read).collect()
}

#[test]
fn each_change_is_a_version_with_its_author_and_a_roll_back_disconnects_no_client() {
    let stage = Stage::new("each");
    let mut client = stage.site.connect();
    client.query("SELECT 1").unwrap();
    stage.size(7, "for%20the%20sale");
    stage.site.weir().command("SET query_wait_timeout = 77").unwrap();
    let versions = stage.versions(3);
    let of = |at: usize, key: &str| versions[at][key].clone();
    assert_eq!((of(0, "via"), of(0, "command"), of(0, "restorable")), ("console".into(), "SET".into(), false.into()));
    assert!(versions[0]["changes"].to_string().contains("query_wait_timeout"), "{}", versions[0]);
    assert_eq!((of(1, "via"), of(1, "comment")), ("api".into(), "for the sale".into()));
    assert_eq!(of(1, "changes"), json!([{ "object": "pool app", "key": "size", "old": "2", "new": "7" }]));
    assert_eq!((of(2, "via"), of(2, "restorable")), ("start".into(), true.into()));

    let preview = stage.preview(1, &json!({}));
    assert_eq!(preview["text"], "This will disconnect nobody.");
    assert_eq!((stage.present_size(), preview["latest"].clone()), (7.into(), 3.into()), "nothing has changed");
    let (status, answer) = stage.restore(1, &json!({ "latest": 3 }));
    assert_eq!((status, stage.present_size()), (200, 2.into()), "{answer}");
    client.query("SELECT 2").unwrap();
    let versions = stage.versions(4);
    assert_eq!(versions[0]["comment"], "roll back to version 1");
    // The setting that was set at the console goes with it.
    assert!(versions[0]["changes"].to_string().contains("query_wait_timeout"), "{}", versions[0]);
}

#[test]
fn versions_and_audit_survive_a_restart_and_a_damaged_file_and_have_no_secret() {
    let stage = Stage::new("restart");
    stage.size(5, "");
    stage.create("shop");
    stage.versions(3);
    stage.site.weir().kill9();
    // A line that a crash cut off, and one that is nonsense.
    let path = stage.folder.0.join("config.versions");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{text}nonsense\n{{\"number\": 9")).unwrap();
    stage.site.weir().start_again();
    let versions = stage.versions(3);
    assert_eq!(versions.len(), 3, "the same file is no new version");
    let audit = stage.api.get("/api/v1/audit?object=pool&outcome=done");
    let entries = audit["entries"].as_array().unwrap();
    assert_eq!((entries.len(), &audit["persisted"]), (2, &true.into()), "{audit}");
    assert_eq!((&entries[0]["object"], &entries[0]["version"]), (&"pool shop".into(), &3.into()), "{audit}");
    assert_eq!(entries[1]["changes"][0], json!({ "object": "pool app", "key": "size", "old": "2", "new": "5" }));
    let (status, csv) = stage.api.ask("GET", "/api/v1/audit?format=csv&search=SIZE", "");
    assert!(status == 200 && csv.contains("pool app size: 2 → 5") && csv.lines().count() == 3, "{csv}");
    assert_eq!(stage.restore(1, &json!({})).0, 200);
    let kept = all_files(&stage.folder.0);
    let secrets = [users::APP.password, "app's"];
    assert!(secrets.iter().all(|secret| !kept.contains(secret)), "a secret is on the disk");
}

#[test]
fn a_pool_that_is_gone_comes_back_with_its_secret_given_again_only() {
    let stage = Stage::new("gone");
    stage.create("shop");
    let mut client = weir_pgclient::Connection::connect(
        &stage.site.weir().params(users::APP.name, "shop").password(users::APP.password),
    )
    .unwrap();
    client.query("SELECT 1").unwrap();
    let text = stage.preview(1, &json!({}))["text"].clone();
    assert_eq!(text, "This will disconnect 1 client: it deletes pool shop.");
    assert_eq!(stage.ask("DELETE", "/api/v1/pools/shop", &Value::Null).0, 200);
    stage.versions(3);
    let preview = stage.preview(2, &json!({}));
    assert_eq!(preview["secrets_needed"], json!(["pools.shop.password"]), "{preview}");
    let (status, refused) = stage.restore(2, &json!({}));
    assert_eq!((status, &refused["key"]), (400, &"pools.shop.password".into()), "{refused}");
    let given = json!({ "secrets": { "pools.shop.password": users::APP.password } });
    assert_eq!(stage.preview(2, &given)["added"], json!(["shop"]));
    let (status, answer) = stage.restore(2, &given);
    assert_eq!(status, 200, "{answer}");
    let params = stage.site.weir().params(users::APP.name, "shop").password(users::APP.password);
    weir_pgclient::Connection::connect(&params).unwrap().query("SELECT 1").unwrap();
}

#[test]
fn a_present_secret_is_not_sent_to_the_server_of_an_older_version() {
    let stage = Stage::new("exposed");
    let away = json!({ "host": "127.0.0.9", "password": "guess" });
    assert_eq!(stage.ask("PATCH", "/api/v1/pools/app", &away).0, 200);
    let port = stage.site.database().postgres().port();
    let back = json!({ "host": "127.0.0.1", "port": port, "password": users::APP.password });
    assert_eq!(stage.ask("PATCH", "/api/v1/pools/app", &back).0, 200);
    stage.versions(3);
    let (status, refused) = stage.restore(2, &json!({}));
    assert_eq!(status, 400, "{refused}");
    assert!(refused["error"].as_str().unwrap().contains("127.0.0.9"), "{refused}");
}

#[test]
fn an_edited_file_with_a_mistake_is_no_version_and_two_editors_do_not_overwrite_each_other() {
    let stage = Stage::new("edited");
    let text = fs::read_to_string(stage.file()).unwrap();
    fs::write(stage.file(), text.replace("size = 2", "size = \"two\"")).unwrap();
    assert_eq!(stage.api.post("/api/v1/reload").0, 422);
    let (status, wrong) = stage.ask("GET", "/api/v1/config/pending", &Value::Null);
    assert_eq!(status, 400, "{wrong}");
    // Neither does a roll back write over what is being edited.
    assert_eq!(stage.restore(1, &json!({})).0, 409);
    assert_eq!(stage.versions(1).len(), 1);
    fs::write(stage.file(), text.replace("size = 2", "size = 4")).unwrap();
    let pending = stage.api.get("/api/v1/config/pending");
    assert_eq!((&pending["text"], &pending["adjusted"]), (&"This will disconnect nobody.".into(), &json!(["app"])));
    // It was edited once more behind the preview.
    let previewed = format!("/api/v1/reload?file={}", pending["file"].as_str().unwrap());
    fs::write(stage.file(), text.replace("size = 2", "size = 5")).unwrap();
    let (status, other) = stage.ask("POST", &previewed, &Value::Null);
    assert_eq!((status, stage.versions(1).len()), (409, 1), "{other}");
    fs::write(stage.file(), text.replace("size = 2", "size = 4")).unwrap();
    assert_eq!(stage.api.post(&previewed).0, 204);
    let versions = stage.versions(2);
    assert_eq!((&versions[0]["via"], &versions[0]["command"]), (&"api".into(), &"RELOAD".into()));
    fs::write(stage.file(), text.replace("size = 2", "size = 6")).unwrap();
    stage.site.weir().signal(Signal::SIGHUP);
    let versions = stage.versions(3);
    assert_eq!((&versions[0]["via"], &versions[0]["command"]), (&"signal".into(), &"RELOAD".into()));
    // Another editor was faster than this one, who has seen version 3.
    stage.size(9, "");
    stage.versions(4);
    let (status, late) = stage.restore(1, &json!({ "latest": 3 }));
    assert_eq!((status, stage.present_size()), (409, 9.into()), "{late}");
}

#[test]
fn a_preview_of_a_reload_knows_what_set_has_changed_and_each_file_that_is_read() {
    let stage = Stage::new("previewed");
    let pending = || stage.api.get("/api/v1/config/pending");
    assert_eq!((&pending()["text"], &pending()["changes"]), (&"This would change nothing.".into(), &json!([])));
    stage.site.weir().command("SET query_wait_timeout = 7").unwrap();
    let changes = pending()["changes"].clone();
    assert!(changes.to_string().contains("query_wait_timeout"), "{changes}");
    assert_eq!(stage.api.post("/api/v1/reload").0, 204);
    assert_eq!(pending()["changes"], json!([]));
    // The file is the same, and a list that it names is not.
    let reload = format!("/api/v1/reload?file={}", pending()["file"].as_str().unwrap());
    let list = stage.file().with_file_name("userlist.txt");
    let text = fs::read_to_string(&list).unwrap();
    fs::write(&list, format!("{text}\"mallory\" \"x\"\n")).unwrap();
    assert_eq!(stage.api.post(&reload).0, 409);
    fs::write(&list, text).unwrap();
    assert_eq!(stage.api.post(&reload).0, 204);
    assert_eq!(stage.api.post("/api/v1/reload?fil=0123").0, 400, "what is misspelt does not count as left out");
}

#[test]
fn of_changes_that_know_the_same_version_and_come_at_once_one_is_made() {
    let stage = Stage::new("at-once");
    for round in 0..8 {
        // A change adds one version, and none when it changes nothing: each size is another one.
        let latest = stage.api.get("/api/v1/config/versions")["latest"].as_u64().unwrap();
        let (stage, barrier) = (&stage, &Barrier::new(4));
        let changed = |by: u64| {
            barrier.wait();
            let path = format!("/api/v1/pools/app?latest={latest}");
            stage.ask("PATCH", &path, &json!({ "size": 10 + 4 * round + by })).0
        };
        let restored = || {
            barrier.wait();
            // Another version than the round before may have returned to.
            stage.restore(1 + u64::from(round % 2 == 0), &json!({ "latest": latest })).0
        };
        let mut statuses = thread::scope(|threads| {
            let changes = [1, 2, 3].map(|by| threads.spawn(move || changed(by)));
            // In the first round a return to the first version would change nothing.
            let last = threads.spawn(move || if round == 0 { changed(0) } else { restored() });
            changes.into_iter().chain([last]).map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 409, 409, 409], "round {round}");
        stage.versions(latest + 1);
    }
    assert_eq!(stage.ask("PATCH", "/api/v1/pools/app?latest=nine", &json!({ "size": 2 })).0, 400);
}

#[test]
fn a_disk_that_refuses_costs_no_change_and_is_reported() {
    let stage = Stage::new("full");
    stage.size(3, "");
    stage.versions(2);
    // A folder in the place of the file refuses everybody.
    let path = stage.folder.0.join("config.versions");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    stage.size(4, "");
    stage.versions(3);
    eventually("it is on the page", || {
        let page = stage.api.get("/api/v1/config/versions");
        if page["persisted"] == false { Ok(()) } else { Err(page) }
    });
    eventually("it is in the log", || {
        let log = stage.site.weir().log();
        if log.contains("the history of the configuration can't be kept") { Ok(()) } else { Err(log) }
    });
    assert_eq!((stage.restore(1, &json!({})).0, stage.present_size()), (200, 2.into()));
}

#[test]
fn a_disk_that_refuses_the_audit_log_is_a_fault_until_a_write_succeeds() {
    let stage = Stage::new("audit");
    stage.size(3, "");
    let faults = || stage.api.get("/api/v1/status")["faults"].clone();
    let path = stage.folder.0.join("audit.done");
    eventually("the entry is there", || if path.exists() { Ok(()) } else { Err(()) });
    assert_eq!(faults(), json!([]));
    // A folder in the place of the file refuses everybody.
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    stage.size(4, "");
    let fault = eventually("it is a fault", || match faults() {
        Value::Array(found) if found.len() == 1 => Ok(found[0].clone()),
        other => Err(other),
    });
    assert_eq!((&fault["kind"], &fault["problem"]), (&"disk".into(), &true.into()), "{fault}");
    assert!(fault["summary"].as_str().unwrap().contains("audit.done"), "{fault}");
    let table = stage.site.weir().command("SHOW FAULTS").unwrap();
    assert_eq!(table.rows[0][3].as_deref(), fault["summary"].as_str());
    stage.size(5, "");
    fs::remove_dir(&path).unwrap();
    // Without another entry.
    eventually("it is over", || if faults() == json!([]) { Ok(()) } else { Err(faults()) });
    let kept = fs::read_to_string(&path).unwrap();
    assert_eq!(kept.lines().count(), 3, "{kept}");
    assert_eq!(stage.site.weir().log().matches("audit.done").count(), 1, "it is logged once");
}

#[test]
fn a_pgbouncer_ini_has_versions_to_read_and_none_to_return_to() {
    let api = Api::default();
    let ini = api.keys().into_iter().fold(Ini::transaction(2), |ini, (key, value)| ini.set(key, value));
    let site = Site::ini(&ini);
    site.weir().command("SET query_wait_timeout = 77").unwrap();
    let page = eventually("it is there", || {
        let page = api.get("/api/v1/config/versions");
        if page["latest"] == 2 { Ok(page) } else { Err(page.to_string()) }
    });
    assert_eq!((&page["persisted"], &page["versions"][1]["restorable"]), (&false.into(), &false.into()), "{page}");
    assert!(page["versions"][0]["changes"].to_string().contains("query_wait_timeout"), "{page}");
}
