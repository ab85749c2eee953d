//! Tests of outlines: what is kept of a file, and the return to it.

use super::*;

const FILE: &str = "\
# The shop's pooler; the old password was hunter1.
[listen]
port = 6432 # as PgBouncer

[auth]
type = \"scram-sha-256\"

[auth.users]
ann = \"hunter2\"

[web]
port = 8432

[web.users]
root = \"admin $argon2id$hunter3\"

[pools.app]
host = [\"db1\", \"db2\"] # hunter4
user = \"app\"
password = \"hunter5\"
size = 20

[pools.\"odd.name\"]
host = \"db1\"
password_env = \"HUNTER6\"
";

fn kept() -> String {
    outline(FILE).expect("TOML")
}

fn back(text: &str, outline: &str, secrets: &[(&str, &str)]) -> Result<String, NotRestored> {
    let secrets = secrets.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    restore(text, &Restore { outline: outline.to_owned(), secrets })
}

#[test]
fn an_outline_has_no_secret_no_comment_and_no_account() {
    let kept = kept();
    assert!(!kept.to_lowercase().contains("hunter") && !kept.contains('#') && !kept.contains("argon2"), "{kept}");
    assert!(
        kept.contains("port = 6432") && kept.contains("[pools.\"odd.name\"]") && kept.contains("size = 20"),
        "{kept}"
    );
}

#[test]
fn a_file_that_has_not_changed_stays_as_it_is_to_the_byte() {
    assert_eq!(back(FILE, &kept(), &[]).as_deref(), Ok(FILE));
    let crlf = FILE.replace('\n', "\r\n");
    assert_eq!(back(&crlf, &outline(&crlf).expect("TOML"), &[]).as_deref(), Ok(crlf.as_str()));
}

#[test]
fn a_return_changes_keys_and_keeps_present_secrets_comments_and_accounts() {
    let now = FILE
        .replace("size = 20", "size = 5\nmin_size = 2")
        .replace("hunter5", "changed5")
        .replace("admin $argon2id$hunter3", "viewer $argon2id$changed3")
        .replace("port = 8432", "port = 9000");
    let text = back(&now, &kept(), &[]).expect("it can");
    assert!(text.contains("size = 20\n") && !text.contains("min_size") && text.contains("port = 8432"), "{text}");
    assert!(text.contains("password = \"changed5\"") && text.contains("viewer $argon2id$changed3"), "{text}");
    assert!(text.contains("# as PgBouncer") && text.contains("# hunter4"), "{text}");
}

#[test]
fn a_pool_that_is_gone_comes_back_only_with_its_secret_and_a_new_one_goes() {
    let from = FILE.find("[pools.app]").expect("it is there");
    let to = FILE.find("[pools.\"odd").expect("it is there");
    let now = format!("{}[pools.new]\nhost = \"db9\"\n\n{}", &FILE[..from], &FILE[to..]);
    assert_eq!(back(&now, &kept(), &[]), Err(NotRestored::Secrets(vec!["pools.app.password".to_owned()])));
    let text = back(&now, &kept(), &[("pools.app.password", "again")]).expect("it can");
    assert!(text.contains("password = \"again\"") && !text.contains("pools.new") && text.contains("db2"), "{text}");
    assert_eq!(outline(&text).map(|text| leaves(&text)), Some(leaves(&kept())));
}

#[test]
fn a_listed_user_that_is_gone_is_requested_too() {
    let now = FILE.replace("ann = \"hunter2\"", "bob = \"x\"");
    assert_eq!(back(&now, &kept(), &[]), Err(NotRestored::Secrets(vec!["auth.users.ann".to_owned()])));
}

#[test]
fn a_place_that_a_secret_is_read_from_or_sent_to_comes_from_no_request() {
    let places = "[auth]\nldap_options = \"ldapserver=ours\"\n\n[alerts]\nslack = \"https://chat\"\nwebhook = \"x\"\n\
                  pagerduty_key = \"k\"\nalertmanager = \"m\"\n\n[pools.a]\nhost = \"h\"\npassword_file = \"/run/secret\"\n\
                  password_env = \"SECRET\"\n";
    let kept = outline(places).expect("TOML");
    assert!(!["ours", "chat", "/run", "SECRET"].iter().any(|place| kept.contains(place)), "{kept}");
    assert_eq!(back(places, &kept, &[]).as_deref(), Ok(places), "what the file has stays");
    let keys = ["auth.ldap_options", "alerts.slack", "alerts.webhook", "alerts.pagerduty_key", "alerts.alertmanager"];
    for key in keys.into_iter().chain(["pools.a.password_file", "pools.a.password_env"]) {
        let given = [(key, "file:/etc/passwd")];
        assert_eq!(back(places, &kept, &given), Err(NotRestored::Places(vec![key.to_owned()])), "{key}");
        let line = key.rsplit('.').next().expect("a name");
        let without: String = places.lines().filter(|it| !it.starts_with(line)).flat_map(|it| [it, "\n"]).collect();
        assert_eq!(back(&without, &kept, &given), Err(NotRestored::Places(vec![key.to_owned()])), "{key}");
        assert_eq!(back(&without, &kept, &[]), Err(NotRestored::Places(vec![key.to_owned()])), "{key}");
    }
}

#[test]
fn differences_of_outlines_name_the_object_and_both_values() {
    let now = outline(&FILE.replace("size = 20", "size = 30").replace("hunter5", "other")).expect("TOML");
    let change = |object: &str, key: &str, old: &str, new: &str| KeyChange {
        object: object.to_owned(),
        key: key.to_owned(),
        old: Some(old.to_owned()),
        new: Some(new.to_owned()),
    };
    assert_eq!(outline_changes(&kept(), &now), Some(vec![change("pool app", "size", "20", "30")]));
    assert_eq!(outline_changes("[", ""), None);
}
