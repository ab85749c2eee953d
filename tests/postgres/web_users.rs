//! Users made and changed over the API of a Weir with a real server: in the list of users in a file, as README has it, and in
//! the configuration itself.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};
use weir_pgclient::{Connection, Error};
use weir_tests::{Api, Ini, Mode, Setup, Site, eventually, users};

struct Stage {
    site: Site,
    api: Api,
}

impl Stage {
    fn new(setup: Setup) -> Stage {
        let api = Api::default();
        Stage { site: Site::with(setup.more(&api.section()), Mode::Transaction), api }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.site.weir().folder().join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let (status, text) = self.api.ask(method, path, &body.to_string());
        (status, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
    }

    /// A change that is made, and its answer.
    #[track_caller]
    fn done(&self, method: &str, path: &str, body: &Value) -> Value {
        let (status, answer) = self.ask(method, path, body);
        assert!(status == 200 || status == 201, "{method} {path} {body}: {answer}");
        answer
    }

    fn come(&self, user: &str, password: &str) -> Result<Connection, Error> {
        Connection::connect(&self.site.weir().params(user, "app").password(password))
    }

    #[track_caller]
    fn refused(&self, user: &str, password: &str, sqlstate: &str) -> String {
        let error = self.come(user, password).expect_err("it is refused");
        assert_eq!(error.sqlstate(), Some(sqlstate), "{error}");
        error.to_string()
    }

    /// Weir is killed, and starts with what is in its files.
    fn crash(&self) {
        self.site.weir().kill9();
        self.site.weir().start_again();
    }
}

fn mode(path: PathBuf) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// README's way: a list of users in a file of its own.
fn stage() -> Stage {
    Stage::new(Setup::new(Mode::Transaction).size(2))
}

#[test]
fn users_of_a_list_in_a_file_are_made_changed_and_deleted_in_that_file() {
    let stage = stage();
    let list = format!("; who may log in\n{}", stage.text("userlist.txt"));
    fs::write(stage.path("userlist.txt"), &list).unwrap();
    fs::set_permissions(stage.path("userlist.txt"), fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(stage.api.post("/api/v1/reload").0, 204);
    let settings = stage.text("weir.toml");
    let made = stage.done("POST", "/api/v1/users", &json!({ "name": "new \"user\"", "password": "one two" }));
    assert_eq!((&made["persisted"], &made["user"]["secret"]), (&true.into(), &"scram-sha-256".into()), "{made}");
    let text = stage.text("userlist.txt");
    let line = text.strip_prefix(list.as_str()).expect("the other lines stay");
    assert!(line.starts_with("\"new \"\"user\"\"\" \"SCRAM-SHA-256$") && !text.contains("one two"), "{line}");
    assert_eq!((mode(stage.path("userlist.txt")), stage.text("weir.toml")), (0o600, settings));
    let mut client = stage.come("new \"user\"", "one two").unwrap();
    assert_eq!(client.value("SELECT current_user").unwrap().as_deref(), Some(users::APP.name));
    stage.done("PATCH", "/api/v1/users/new%20%22user%22", &json!({ "password": "three" }));
    stage.refused("new \"user\"", "one two", "28P01");
    stage.crash();
    stage.come("new \"user\"", "three").unwrap();
    // What is listed there by others is changed there, too.
    stage.done("PATCH", &format!("/api/v1/users/{}", users::APP.name), &json!({ "password": "another" }));
    stage.come(users::APP.name, "another").unwrap();
    stage.done("DELETE", "/api/v1/users/new%20%22user%22", &Value::Null);
    stage.refused("new \"user\"", "three", "28P01");
    let lines =
        |text: &str| text.lines().filter(|line| !line.starts_with("\"app\"")).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(lines(&stage.text("userlist.txt")), lines(&list));
}

#[test]
fn users_without_a_file_are_stored_as_hashes_in_the_configuration_which_others_can_not_read() {
    let stage = stage();
    let listed = stage.text("userlist.txt").lines().fold(String::new(), |all, line| {
        let (name, secret) = line[1..].split_once("\" \"").expect("a line of the list");
        let secret = secret.strip_suffix('"').expect("its end").replace("\"\"", "\"");
        format!("{all}{name} = '''{secret}'''\n")
    });
    let text = stage.text("weir.toml").replace("file = \"userlist.txt\"\n", "");
    fs::write(stage.path("weir.toml"), format!("{text}\n[auth.users]\n{listed}")).unwrap();
    fs::set_permissions(stage.path("weir.toml"), fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(stage.api.post("/api/v1/reload").0, 204);
    let made = stage.done(
        "POST",
        "/api/v1/users",
        &json!({ "name": "new", "password": "one two", "max_user_client_connections": 3 }),
    );
    assert_eq!((&made["persisted"], &made["user"]["secret"]), (&true.into(), &"scram-sha-256".into()), "{made}");
    let text = stage.text("weir.toml");
    assert!(
        text.contains("new = \"SCRAM-SHA-256$") && text.contains("[users.new]\nmax_user_client_connections = 3\n"),
        "{text}"
    );
    assert!(!text.contains("one two"));
    assert_eq!(mode(stage.path("weir.toml")), 0o600);
    stage.come("new", "one two").unwrap();
    stage.crash();
    stage.come("new", "one two").unwrap();
}

#[test]
fn an_old_password_is_valid_beside_the_new_one_until_its_end_also_after_a_reload_and_a_crash() {
    for auth in ["scram-sha-256", "md5"] {
        let stage = Stage::new(Setup::new(Mode::Transaction).size(2).auth(auth));
        stage.done("POST", "/api/v1/users", &json!({ "name": "new", "password": "one" }));
        let (status, error) = stage.ask("PATCH", "/api/v1/users/new", &json!({ "keep_old_for": "1h" }));
        assert_eq!((status, &error["key"]), (400, &"keep_old_for".into()), "{error}");
        let changed = stage.done("PATCH", "/api/v1/users/new", &json!({ "password": "two", "keep_old_for": "1h" }));
        assert!(changed["user"]["former_secret_until"].is_u64(), "{changed}");
        assert_eq!(changed["user"]["rules"], json!({}), "no secret is shown: {changed}");
        let both = |stage: &Stage| {
            stage.come("new", "one").unwrap().query("SELECT 1").unwrap();
            stage.come("new", "two").unwrap().query("SELECT 1").unwrap();
            stage.refused("new", "three", "28P01");
        };
        both(&stage);
        assert_eq!(stage.api.post("/api/v1/reload").0, 204);
        both(&stage);
        stage.crash();
        both(&stage);
        // It ends by its time alone.
        stage.done("PATCH", "/api/v1/users/new", &json!({ "password": "three", "keep_old_for": 1 }));
        stage.refused("new", "one", "28P01");
        eventually("the old one has ended", || match stage.come("new", "two") {
            Err(error) if error.sqlstate() == Some("28P01") => Ok(()),
            other => Err(format!("{:?}", other.map(drop))),
        });
        stage.come("new", "three").unwrap();
        assert_eq!(stage.api.get("/api/v1/users/new")["former_secret_until"], Value::Null);
        // Or when an operator ends it, or changes the password again.
        stage.done("PATCH", "/api/v1/users/new", &json!({ "password": "four", "keep_old_for": "1d" }));
        stage.come("new", "three").unwrap();
        let end = json!({ "former_secret": null, "former_secret_until": null });
        stage.done("PATCH", "/api/v1/users/new", &end);
        stage.refused("new", "three", "28P01");
        stage.done("PATCH", "/api/v1/users/new", &json!({ "password": "five", "keep_old_for": "1d" }));
        stage.done("PATCH", "/api/v1/users/new", &json!({ "password": "six" }));
        stage.refused("new", "five", "28P01");
        stage.come("new", "six").unwrap();
        // Nobody gives a user a second password, or a longer time.
        stage.done("PATCH", "/api/v1/users/new", &json!({ "password": "seven", "keep_old_for": 1 }));
        for (key, value) in [("former_secret_until", "2099-01-01T00:00:00Z"), ("former_secret", "backdoor")] {
            let (status, error) = stage.ask("PATCH", "/api/v1/users/new", &json!({ key: value }));
            assert_eq!((status, &error["key"]), (400, &key.into()), "{error}");
        }
        stage.done("PATCH", "/api/v1/users/new", &json!({ "password": "eight" }));
        assert!(!stage.text("weir.toml").contains("former_secret"), "{}", stage.text("weir.toml"));
    }
}

#[test]
fn a_password_that_a_server_needs_is_kept_and_can_not_be_two() {
    let stage = Stage::new(Setup::new(Mode::Transaction).size(2).no_server_user());
    let path = format!("/api/v1/users/{}", users::OTHER.name);
    stage.done("PATCH", &path, &json!({ "password": users::OTHER.password }));
    let user = stage.api.get(&path);
    assert_eq!((&user["secret"], &user["server_needs_password"]), (&"plain".into(), &true.into()), "{user}");
    let mut client = stage.come(users::OTHER.name, users::OTHER.password).unwrap();
    assert_eq!(client.value("SELECT current_user").unwrap().as_deref(), Some(users::OTHER.name));
    let (status, error) = stage.ask("PATCH", &path, &json!({ "password": "x", "keep_old_for": "1h" }));
    assert_eq!(status, 400, "{error}");
    assert!(error["error"].as_str().unwrap().contains("own password"), "{error}");
}

#[test]
fn a_disabled_user_can_not_log_in_and_connected_clients_stay() {
    let stage = stage();
    stage.done("POST", "/api/v1/users", &json!({ "name": "new", "password": "one" }));
    let mut client = stage.come("new", "one").unwrap();
    let changed = stage.done("PATCH", "/api/v1/users/new", &json!({ "disabled": true }));
    assert_eq!(changed["user"]["disabled"], true, "{changed}");
    let why = stage.refused("new", "one", "28000");
    assert!(why.contains("user \"new\" is disabled"), "{why}");
    stage.refused("new", "another", "28P01");
    client.query("SELECT 1").unwrap();
    stage.crash();
    stage.refused("new", "one", "28000");
    stage.done("PATCH", "/api/v1/users/new", &json!({ "disabled": null }));
    stage.come("new", "one").unwrap();
}

#[test]
fn a_user_may_use_only_the_pools_that_it_is_given() {
    let stage = stage();
    stage.done("POST", "/api/v1/users", &json!({ "name": "new", "password": "one", "pools": ["another"] }));
    let why = stage.refused("new", "one", "28000");
    assert!(why.contains("may not use pool \"app\""), "{why}");
    let unknown = stage.site.weir().params("new", "nowhere").password("one");
    assert_eq!(Connection::connect(&unknown).unwrap_err().sqlstate(), Some("28000"), "it learns nothing of pools");
    let changed = stage.done("PATCH", "/api/v1/users/new", &json!({ "pools": ["another", "app"] }));
    assert_eq!(changed["user"]["rules"]["pools"], json!(["another", "app"]), "{changed}");
    stage.come("new", "one").unwrap();
    let (status, error) = stage.ask("PATCH", "/api/v1/users/new", &json!({ "pools": [] }));
    assert_eq!(status, 400, "neither none nor all: {error}");
    stage.done("PATCH", "/api/v1/users/new", &json!({ "pools": null }));
    stage.come("new", "one").unwrap();
}

#[test]
fn a_login_is_tried_as_a_client_would_and_a_failure_says_what_to_do() {
    let stage = stage();
    stage.done("POST", "/api/v1/users", &json!({ "name": "new", "password": "one two" }));
    let attempt = |user: &str, pool: &str, password: &str| {
        stage.done("POST", &format!("/api/v1/users/{user}/test"), &json!({ "pool": pool, "password": password }))
    };
    let good = attempt("new", "app", "one two");
    assert_eq!((&good["ok"], &good["server_user"]), (&true.into(), &users::APP.name.into()), "{good}");
    let fails = |tested: Value, sqlstate: &str, hint: &str| {
        assert_eq!((&tested["ok"], &tested["sqlstate"]), (&false.into(), &sqlstate.into()), "{tested}");
        assert!(tested["hint"].as_str().is_some_and(|text| text.contains(hint)), "{tested}");
    };
    fails(attempt("new", "app", "wrong"), "28P01", "type it again");
    fails(attempt("nobody", "app", "one two"), "28P01", "create it");
    fails(attempt("new", "nowhere", "one two"), "3D000", "name a pool");
    stage.done("PATCH", "/api/v1/users/new", &json!({ "disabled": true }));
    fails(attempt("new", "app", "one two"), "28000", "Enable the user");
    let (status, error) = stage.ask("POST", "/api/v1/users/new/test", &json!({ "pool": "app" }));
    assert_eq!(status, 422, "{error}");
    // Neither the log of the process nor that of changes has the password.
    let audit = stage.api.get("/api/v1/audit").to_string();
    assert!(
        audit.contains("/api/v1/users/new") && !audit.contains("one two") && !audit.contains("SCRAM-SHA"),
        "{audit}"
    );
    assert!(!stage.site.weir().log().contains("one two"), "{}", stage.site.weir().log());
}

#[test]
fn a_list_that_was_changed_by_hand_or_can_not_be_written_is_not_lost() {
    let stage = Stage::new(Setup::new(Mode::Transaction).size(2).more("[process]\nwatch_files = \"off\"\n"));
    let by_hand = format!("{}\"hand\" \"made\"\n", stage.text("userlist.txt"));
    fs::write(stage.path("userlist.txt"), &by_hand).unwrap();
    let (status, error) = stage.ask("POST", "/api/v1/users", &json!({ "name": "new", "password": "one" }));
    assert_eq!(status, 409, "{error}");
    assert!(error["error"].as_str().unwrap().contains("userlist.txt was changed by hand"), "{error}");
    assert_eq!(stage.text("userlist.txt"), by_hand);
    assert_eq!(stage.api.post("/api/v1/reload").0, 204);
    // A user without rights would be refused by the mode alone; root is by the check of it.
    fs::set_permissions(stage.path("userlist.txt"), fs::Permissions::from_mode(0o400)).unwrap();
    let made = stage.done("POST", "/api/v1/users", &json!({ "name": "new", "password": "one" }));
    assert_eq!(made["persisted"], false, "{made}");
    assert!(made["reason"].as_str().unwrap().contains("read-only"), "{made}");
    stage.come("new", "one").unwrap();
    assert_eq!(stage.api.post("/api/v1/reload").0, 204);
    stage.come("new", "one").expect("it survives a reload");
    fs::set_permissions(stage.path("userlist.txt"), fs::Permissions::from_mode(0o600)).unwrap();
    let next = stage.done("POST", "/api/v1/users", &json!({ "name": "next", "password": "two" }));
    assert_eq!(next["persisted"], true, "{next}");
    stage.crash();
    stage.come("new", "one").expect("it was written with the next one");
    stage.come("next", "two").unwrap();
}

#[test]
fn a_file_that_is_emptied_is_refused_by_a_reload_though_weir_starts_with_an_empty_one() {
    let stage = stage();
    let mut client = stage.site.connect();
    let text = stage.text("weir.toml");
    fs::write(stage.path("weir.toml"), "# nothing\n").unwrap();
    assert_eq!(stage.api.post("/api/v1/reload").0, 422);
    // The log has a thread of its own.
    eventually("the log says why", || {
        let log = stage.site.weir().log();
        if log.contains("there is no setting in it any more") { Ok(()) } else { Err(log) }
    });
    client.query("SELECT 1").unwrap();
    stage.site.connect().query("SELECT 1").unwrap();
    fs::write(stage.path("weir.toml"), text).unwrap();
    assert_eq!(stage.api.post("/api/v1/reload").0, 204);
}

#[test]
fn the_auth_file_of_an_ini_is_written_too() {
    let api = Api::default();
    let ini =
        api.keys().into_iter().fold(Ini::transaction(2).forced(users::APP), |ini, (key, value)| ini.set(key, &value));
    let site = Site::ini(&ini);
    let stage = Stage { site, api };
    let made = stage.done("POST", "/api/v1/users", &json!({ "name": "new", "password": "one" }));
    assert_eq!((&made["persisted"], &made["user"]["secret"]), (&true.into(), &"scram-sha-256".into()), "{made}");
    stage.crash();
    stage.come("new", "one").unwrap();
    let ruled = stage.done("PATCH", "/api/v1/users/new", &json!({ "size": 1 }));
    assert_eq!(ruled["persisted"], false, "an ini itself is not written to: {ruled}");
}
