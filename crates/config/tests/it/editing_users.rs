//! Users changed while Weir runs: their rules and their secrets, in a file's text and applied to the values.

use std::path::Path;

use weir_config::{
    Config, ConfigErrors, Edit, Edits, EntryKind, Keys, Operation, ShownValue, Value, load_with, rewrite, user_keys,
};

const FILE: &str = r#"# Who may come.
[auth.users]
app = "secret" # the shop's
reports = "hush"

# At night only.
[users.reports]
size = 2

[pools.shop]
host = "db1"
"#;

fn text(value: &str) -> Option<Value> {
    Some(Value::Text(value.to_owned()))
}

fn keys(pairs: &[(&str, Option<Value>)]) -> Keys {
    let mut keys = Keys::of(EntryKind::User);
    pairs.iter().for_each(|(name, value)| assert!(keys.set(name, value.clone()), "{name} is new"));
    keys
}

fn make(user: &str, pairs: &[(&str, Option<Value>)]) -> Edit {
    Edit::User(user.to_owned(), Operation::Create(keys(pairs)))
}

fn alter(user: &str, pairs: &[(&str, Option<Value>)]) -> Edit {
    Edit::User(user.to_owned(), Operation::Alter(keys(pairs)))
}

fn remove(user: &str) -> Edit {
    Edit::User(user.to_owned(), Operation::Drop)
}

fn load(file: &str, text: &str, edits: &Edits) -> Result<Config, ConfigErrors> {
    load_with(Path::new(file), &|_| Ok(text.to_owned()), &|_| None, edits)
}

/// The text after changes; it must mean the same as the changes applied to the values.
#[track_caller]
fn changed(before: &str, edits: impl IntoIterator<Item = Edit>) -> String {
    let mut all = Edits::default();
    edits.into_iter().for_each(|edit| all.add(edit));
    let after = rewrite(before, &all).expect("TOML");
    let written = load("weir.toml", &after, &Edits::default()).expect("a good text");
    let laid_over = load("weir.toml", before, &all).expect("a good change");
    assert_eq!(written.users, laid_over.users, "{after}");
    let secrets = |config: &Config| -> Vec<(String, String)> {
        config.auth.users.iter().map(|(name, secret)| (name.to_owned(), secret.to_owned())).collect()
    };
    assert_eq!(secrets(&written), secrets(&laid_over), "{after}");
    for name in ["app", "reports", "new"] {
        assert_eq!(user_keys(&written, name), user_keys(&laid_over, name), "{name}: {after}");
    }
    after
}

#[test]
fn a_secret_and_a_rule_are_changed_where_they_stand() {
    let after = changed(FILE, [alter("app", &[("password", text("new"))])]);
    assert_eq!(after, FILE.replace("app = \"secret\" #", "app = \"new\" #"));
    let after = changed(FILE, [alter("reports", &[("pool_size", Some(Value::Number(5)))])]);
    assert_eq!(after, FILE.replace("size = 2", "size = 5"));
    assert_eq!(changed(FILE, [alter("reports", &[("size", None)])]), FILE.replace("size = 2\n", ""));
}

#[test]
fn a_user_who_had_no_rules_gets_a_section() {
    let after = changed(FILE, [alter("app", &[("mode", text("session"))])]);
    assert_eq!(after, format!("{FILE}\n[users.app]\nmode = \"session\"\n"));
}

#[test]
fn a_new_user_is_listed_and_one_that_is_deleted_is_so_nowhere() {
    let listed = changed(FILE, [make("new", &[("password", text("x\"y"))])]);
    assert_eq!(listed, FILE.replace("\"hush\"\n", "\"hush\"\nnew = 'x\"y'\n"));
    let with_rules = changed(FILE, [make("new", &[("password", text("x")), ("size", Some(Value::Number(1)))])]);
    assert!(with_rules.ends_with("\n[users.new]\nsize = 1\n"), "{with_rules}");
    assert_eq!(changed(&with_rules, [remove("new")]), FILE);
    let gone = changed(FILE, [remove("reports")]);
    assert!(!gone.contains("reports") && gone.contains("app = \"secret\" # the shop's"), "{gone}");
    assert_eq!(changed(FILE, [make("new", &[("password", text("x"))]), remove("new")]), FILE);
}

#[test]
fn secrets_are_reported_as_set_and_shown_nowhere() {
    let edit = make("new", &[("password", text("hidden")), ("size", Some(Value::Number(1)))]);
    let mut all = Edits::from(edit.clone());
    all.add(alter("app", &[("password", text("hidden"))]));
    assert!(!format!("{edit:?} {all:?}").contains("hidden"));
    let config = load("weir.toml", FILE, &all).unwrap();
    let written = user_keys(&config, "new").expect("a user");
    assert_eq!(written, [("password", ShownValue::Secret), ("size", ShownValue::Value(Value::Number(1)))]);
    assert!(user_keys(&config, "nobody").is_none());
}

#[test]
fn in_an_ini_a_user_is_added_to_those_of_the_file() {
    let ini = "[databases]\nshop = host=db1\n[pgbouncer]\nlisten_addr = 127.0.0.1\nauth_file = users.txt\n[users]\napp = pool_mode=session\n";
    let read =
        |file: &Path| Ok(if file.ends_with("users.txt") { "\"app\" \"secret\"\n".to_owned() } else { ini.to_owned() });
    let mut all = Edits::from(make("new", &[("password", text("x"))]));
    all.add(alter("app", &[("pool_size", Some(Value::Number(3)))]));
    let config = load_with(Path::new("pgbouncer.ini"), &read, &|_| None, &all).unwrap();
    assert_eq!((config.auth.users.get("app"), config.auth.users.get("new")), (Some("secret"), Some("x")));
    assert_eq!((config.users["app"].pool_size, config.users["app"].mode.is_some()), (Some(3), true));
    all.add(alter("app", &[("mode", None)]));
    let config = load_with(Path::new("pgbouncer.ini"), &read, &|_| None, &all).unwrap();
    assert_eq!((config.users["app"].pool_size, config.users["app"].mode), (Some(3), None));
}

#[test]
fn what_no_user_can_have_is_named() {
    for (pairs, why) in [
        (&[("size", text("many"))][..], "size"),
        (&[("host", text("db1"))][..], "host"),
        (&[("password", Some(Value::Number(5)))][..], "password"),
    ] {
        for edits in [Edits::from(make("new", pairs)), Edits::from(alter("app", pairs))] {
            let written = load("weir.toml", &rewrite(FILE, &edits).expect("TOML"), &Edits::default()).unwrap_err();
            let laid_over = load("weir.toml", FILE, &edits).unwrap_err();
            assert!(
                written.first().message.contains(why) && laid_over.first().message.contains(why),
                "{written}; {laid_over}"
            );
        }
    }
}

#[test]
fn whether_and_where_a_user_may_log_in_is_a_rule_like_others() {
    let pools = || Some(Value::List(vec![Value::Text("shop".to_owned())]));
    let after = changed(FILE, [alter("app", &[("disabled", Some(Value::Flag(true))), ("pools", pools())])]);
    assert!(after.contains("[users.app]\ndisabled = true\npools = [\"shop\"]\n"), "{after}");
    let config = load("weir.toml", &after, &Edits::default()).unwrap();
    assert!(config.is_disabled("app") && !config.is_disabled("reports"));
    assert!(config.may_use("app", "shop") && !config.may_use("app", "other") && config.may_use("reports", "other"));
    let back = changed(&after, [alter("app", &[("disabled", None), ("pools", None)])]);
    let config = load("weir.toml", &back, &Edits::default()).unwrap();
    assert!(!config.is_disabled("app") && config.may_use("app", "other"));
}

#[test]
fn a_former_secret_holds_until_its_time() {
    let pairs = [("former_secret", text("x")), ("former_secret_until", text("2026-07-01T12:00:00Z"))];
    let after = changed(FILE, [alter("app", &pairs)]);
    let config = load("weir.toml", &after, &Edits::default()).unwrap();
    let end = 1_782_907_200;
    assert_eq!(config.former_secret("app", end - 1), Some("x"));
    assert_eq!(config.former_secret("app", end), None);
    assert!(!format!("{config:?}").contains("\"x\""), "Debug shows no secret");
    assert!(config.secret_files().iter().any(|(_, what)| what.is_some()));
    let shown = user_keys(&config, "app").unwrap();
    assert!(shown.contains(&("former_secret", ShownValue::Secret)), "it is never shown");
    assert!(load("weir.toml", &after.replace("07-01T", "02-30T"), &Edits::default()).is_err());
}
