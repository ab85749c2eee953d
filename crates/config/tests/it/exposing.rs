//! Changes while Weir runs never send a stored secret to a new target.

use std::path::Path;

use weir_config::{
    Assignment, Config, Edit, Edits, Exposure, Keys, Operation, Value, find_exposure, find_source, load_with,
};

/// Pools with a password, with each client's own, with an auth_query, and one of the attacker's own.
const FILE: &str = r#"
[auth.users]
app = "stored"
asker = "also stored"

[tls.server]
mode = "require"

[pools.shop]
host = "db1"
user = "shop"
password = "hush"

[pools.clients]
host = "db2"

[pools.asked]
host = "db1"
user = "shop"
password = "hush"
auth_user = "asker"

[pools.local]
host = "/run/postgresql"
user = "shop"
password = "hush"

[pools.theirs]
host = "evil"
user = "mallory"
password = "known to mallory"
"#;

fn load(text: &str, edits: &Edits) -> Config {
    let file = |path: &Path| Ok(if path.ends_with("weir.toml") { text } else { "from a file" }.to_owned());
    load_with(Path::new("weir.toml"), &file, &|_| Some("from outside".to_owned()), edits)
        .unwrap_or_else(|error| panic!("{error}"))
}

fn judged(text: &str, edit: Edit) -> Option<Exposure> {
    if let Some(found) = find_source(&edit) {
        return Some(found);
    }
    let (before, after) = (load(text, &Edits::default()), load(text, &Edits::from(edit.clone())));
    find_exposure(&before, &after, &edit)
}

fn keys(pairs: &[(&str, &str)]) -> Keys {
    let mut keys = Keys::default();
    for (name, value) in pairs {
        keys.set(name, (*value != "null").then(|| Value::Text((*value).to_owned())));
    }
    keys
}

fn altered(pool: &str, pairs: &[(&str, &str)]) -> Option<Exposure> {
    judged(FILE, Edit::Pool(pool.to_owned(), Operation::Alter(keys(pairs))))
}

fn made(pairs: &[(&str, &str)]) -> Option<Exposure> {
    judged(FILE, Edit::Pool("new".to_owned(), Operation::Create(keys(pairs))))
}

fn set(name: &str, value: &str) -> Option<Exposure> {
    judged(FILE, Edit::Setting(Assignment::new(name, value).expect("it may be set")))
}

#[track_caller]
fn refused(judged: Option<Exposure>, key: &str) {
    let exposure = judged.expect("it must be refused");
    assert_eq!(exposure.key, key, "{exposure:?}");
    for secret in ["hush", "stored\"", "known to", "from a"] {
        assert!(!format!("{exposure:?}").contains(secret), "{exposure:?}");
    }
}

#[test]
fn a_pool_moves_with_its_password_given_again_or_with_none() {
    for place in [("host", "evil"), ("host", "/tmp"), ("host", "127.0.0.1"), ("user", "other")] {
        refused(altered("shop", &[place]), "password");
        assert_eq!(altered("shop", &[place, ("password", "given")]), None);
        assert_eq!(altered("shop", &[place, ("password", "null")]), None, "nobody else's goes out in its place");
    }
    let mut port = Keys::default();
    port.set("port", Some(Value::Number(6000)));
    refused(judged(FILE, Edit::Pool("shop".to_owned(), Operation::Alter(port))), "password");
    let both = Value::List(["db1", "evil"].map(|host| Value::Text(host.to_owned())).into());
    let mut second = Keys::default();
    second.set("host", Some(both));
    refused(judged(FILE, Edit::Pool("shop".to_owned(), Operation::Alter(second))), "password");
}

/// Whoever may change a pool would read the environment and the files of the process.
#[test]
fn no_change_refers_to_a_value_of_the_environment_or_of_a_file() {
    for value in ["env:HOME", "file:/etc/weir/secrets/app"] {
        for key in ["host", "database", "user", "size", "application_name", "mode", "query_timeout"] {
            refused(altered("theirs", &[(key, value)]), key);
            refused(made(&[("host", "mine"), (key, value)]), key);
        }
        for name in ["admin_users", "application_name_add_host", "query_timeout", "default_pool_size", "stats_users"] {
            let assigned = Assignment::new(name, value).ok().map(|assignment| judged(FILE, Edit::Setting(assignment)));
            // A setting that takes no such text has refused it, without reading anything.
            assert!(assigned.is_none_or(|found| found.is_some()), "{name}");
        }
        let edit = |keys| Edit::User("app".to_owned(), Operation::Alter(keys));
        refused(judged(FILE, edit(keys(&[("mode", value)]))), "mode");
        let mut hosts = Keys::default();
        hosts.set("host", Some(Value::List(vec![Value::Text("mine".to_owned()), Value::Text(value.to_owned())])));
        refused(judged(FILE, Edit::Pool("theirs".to_owned(), Operation::Alter(hosts))), "host");
        // A password is the text itself.
        assert_eq!(altered("theirs", &[("password", value)]), None);
    }
}

#[test]
fn what_moves_no_secret_is_not_refused() {
    assert_eq!(altered("shop", &[("database", "other"), ("mode", "session")]), None);
    assert_eq!(altered("shop", &[("password", "next")]), None);
    assert_eq!(altered("theirs", &[("host", "evil2"), ("password", "known to mallory")]), None);
    assert_eq!(made(&[("host", "db9"), ("user", "u"), ("password", "p")]), None);
    assert_eq!(made(&[("host", "db2")]), None, "clients' secrets go there already");
    assert_eq!(made(&[("host", "db2"), ("user", "app")]), None, "this one among them");
    assert_eq!(made(&[("host", "db9"), ("user", "nobody")]), None, "there is no secret of this name");
    assert_eq!(judged(FILE, Edit::Pool("shop".to_owned(), Operation::Drop)), None);
    let bare = "[auth]\ntype = \"trust\"\n[auth.users]\napp = \"\"\n[pools.a]\nhost = \"h\"\n";
    assert_eq!(judged(bare, Edit::Pool("a".to_owned(), Operation::Alter(keys(&[("host", "elsewhere")])))), None);
}

#[test]
fn listed_secrets_go_to_no_new_place() {
    // Each client's own, and that of the first user in a test of the pool.
    refused(made(&[("host", "evil")]), "user");
    refused(altered("clients", &[("host", "evil")]), "user");
    refused(altered("theirs", &[("user", "null"), ("password", "null")]), "user");
    // The password of the pool's user, whose secret is listed.
    refused(made(&[("host", "evil"), ("user", "app")]), "password");
    refused(altered("theirs", &[("user", "app"), ("password", "null")]), "password");
    // The user of the auth_query.
    refused(altered("theirs", &[("auth_user", "asker")]), "auth_user");
    refused(altered("asked", &[("auth_dbname", "theirs")]), "auth_user");
    refused(made(&[("host", "db9"), ("user", "u"), ("password", "p"), ("auth_user", "app")]), "auth_user");
    refused(altered("asked", &[("host", "evil"), ("password", "given")]), "auth_user");
    refused(set("auth_user", "app"), "auth_user");
    assert_eq!(altered("shop", &[("auth_user", "asker")]), None, "it asks there for another pool");
}

#[test]
fn every_database_s_pool_is_a_pool() {
    let star = format!("{FILE}\n[pools.\"*\"]\nhost = \"db1\"\nuser = \"shop\"\npassword = \"hush\"\n");
    let alter = |pairs| judged(&star, Edit::Pool("*".to_owned(), Operation::Alter(keys(pairs))));
    refused(alter(&[("host", "evil")]), "password");
    refused(judged(FILE, Edit::Pool("*".to_owned(), Operation::Create(keys(&[("host", "evil")])))), "user");
    assert_eq!(alter(&[("mode", "session")]), None);
}

#[test]
fn passwords_are_not_read_from_files_that_a_change_names() {
    for key in ["password_file", "password_env"] {
        refused(made(&[("host", "evil"), ("user", "x"), (key, "PATH")]), key);
        refused(altered("theirs", &[("password", "null"), (key, "PATH")]), key);
        assert_eq!(altered("theirs", &[(key, "null")]), None);
    }
}

#[test]
fn encryption_towards_servers_gets_no_weaker() {
    for mode in ["disable", "allow", "prefer"] {
        refused(set("server_tls_sslmode", mode), "mode");
    }
    assert_eq!(set("server_tls_sslmode", "require"), None);
    assert_eq!(set("server_tls_protocols", "tlsv1.3"), None);
    let local = "[auth]\ntype = \"trust\"\n[auth.users]\na = \"b\"\n[tls.server]\nmode = \"require\"\n[pools.a]\nhost = \"/run\"\n";
    let setting = || Edit::Setting(Assignment::new("server_tls_sslmode", "prefer").expect("it may be set"));
    assert_eq!(judged(local, setting()), None, "a Unix socket is never encrypted");
    for name in [
        "server_tls_ca_file",
        "resolv_conf",
        "logfile",
        "auth_file",
        "auth_hba_file",
        "client_tls_key_file",
        "auth_ldap_options",
        "auth_oauth_options",
    ] {
        let why = Assignment::new(name, "/tmp/x").expect_err("it names a file");
        assert!(!weir_config::is_settable(name), "{name}");
        assert!(why.reason().contains("file"), "{name}: {}", why.reason());
    }
}

#[test]
fn a_server_may_not_ask_for_a_secret_in_more_ways() {
    for words in ["any", "password", "!md5"] {
        refused(altered("shop", &[("require_auth", words)]), "require_auth");
        refused(altered("clients", &[("require_auth", words)]), "require_auth");
        refused(set("require_auth", words), "require_auth");
        assert_eq!(altered("shop", &[("require_auth", words), ("password", "given")]), None);
        assert_eq!(altered("shop", &[("require_auth", words), ("password", "null")]), None, "there is none");
        refused(made(&[("host", "db2"), ("user", "app"), ("require_auth", words)]), "require_auth");
    }
    for words in ["auto", "scram-sha-256", "md5,scram-sha-256", "none"] {
        assert_eq!(altered("shop", &[("require_auth", words)]), None, "{words}");
        assert_eq!(set("require_auth", words), None, "{words}");
    }
}

#[test]
fn a_dropped_pool_leaves_the_auth_query_to_no_new_server() {
    let text = format!("{FILE}\n[pools.\"*\"]\nhost = \"evil\"\nuser = \"x\"\npassword = \"y\"\n")
        .replace("auth_user = \"asker\"", "auth_user = \"asker\"\nauth_dbname = \"local\"");
    refused(judged(&text, Edit::Pool("local".to_owned(), Operation::Drop)), "auth_user");
    assert_eq!(judged(&text, Edit::Pool("shop".to_owned(), Operation::Drop)), None);
}

#[test]
fn clients_have_secrets_also_where_none_is_listed() {
    let file = |auth: &str| format!("[auth]\n{auth}\n[pools.a]\nhost = \"h\"\n");
    let moved =
        |auth: &str| judged(&file(auth), Edit::Pool("a".to_owned(), Operation::Alter(keys(&[("host", "evil")]))));
    refused(moved("type = \"plain\"\nquery_user = \"q\""), "user");
    refused(moved("type = \"pam\""), "user");
    assert_eq!(moved("type = \"trust\""), None);
    assert_eq!(moved("type = \"any\""), None);
}
