//! Global settings changed while Weir runs: what a change leaves of a file's text, and that applying it to the values
//! means the same.

use std::path::Path;

use weir_config::{Assignment, Config, Edit, Edits, SetError, is_settable, load_with, rewrite, show};

const FILE: &str = r#"# The users.
[auth.users]
app = "secret"

# For all pools.
[limits]
default_pool_size = 12 # measured
# Nobody waits for longer.
query_wait_timeout = "1min"

[pools.shop]
host = "db1"
size = 20
"#;

fn set(pairs: &[(&str, &str)]) -> Edits {
    let mut edits = Edits::default();
    pairs.iter().for_each(|(name, value)| edits.add(Edit::Setting(Assignment::new(name, value).expect("it may be"))));
    edits
}

fn load(text: &str, edits: &Edits) -> Config {
    load_with(Path::new("weir.toml"), &|_| Ok(text.to_owned()), &|_| None, edits)
        .unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The text after a change; it must mean the same as the change applied to the values.
#[track_caller]
fn changed(before: &str, edits: &Edits) -> String {
    let after = rewrite(before, edits).expect("TOML");
    let (written, laid_over) = (load(&after, &Edits::default()), load(before, edits));
    assert_eq!(show(&written), show(&laid_over), "{after}");
    assert_eq!(written.pools, laid_over.pools, "{after}");
    after
}

#[test]
fn a_value_is_changed_where_it_stands_and_nothing_else_is() {
    let after = changed(FILE, &set(&[("default_pool_size", "30"), ("query_wait_timeout", "5")]));
    assert_eq!(after, FILE.replace("= 12 #", "= 30 #").replace("\"1min\"", "\"5s\""));
    let pools = load(&after, &Edits::default()).pools;
    assert_eq!((pools["shop"].limits.size, pools["shop"].limits.query_wait_timeout.micros()), (20, 5_000_000));
}

#[test]
fn a_new_key_joins_its_section_and_a_new_section_stands_at_the_end() {
    let after = changed(FILE, &set(&[("reserve_pool_size", "3")]));
    assert_eq!(after, FILE.replace("\"1min\"\n", "\"1min\"\nreserve_size = 3\n"));
    let after = changed(FILE, &set(&[("log_stats", "0")]));
    assert_eq!(after, format!("{FILE}\n[log]\nstats = false\n"));
    let after = changed(FILE, &set(&[("server_tls_sslmode", "require")]));
    assert_eq!(after, format!("{FILE}\n[tls.server]\nmode = \"require\"\n"));
    let both = changed(&after, &set(&[("server_tls_sslmode", "verify-full"), ("client_tls_sslmode", "disable")]));
    assert!(both.contains("[tls.server]\nmode = \"verify-full\"\n") && both.contains("[tls.client]\n"), "{both}");
}

#[test]
fn nothing_takes_a_key_out_that_has_no_empty_value() {
    let with = changed(FILE, &set(&[("auth_user", "asker")]));
    assert!(with.contains("\nquery_user = \"asker\"\n"), "{with}");
    let without = changed(&with, &set(&[("auth_user", "")]));
    assert_eq!(load(&without, &Edits::default()).auth.query_user, None);
    assert_eq!(changed(FILE, &set(&[("auth_user", "")])), FILE, "it had none");
}

#[test]
fn sections_in_other_shapes_of_toml_are_changed_too() {
    let users = "[auth.users]\napp = \"x\"\n[pools.a]\nhost = \"h\"\n";
    for section in [
        "limits.size = 9\ntls.server.mode = \"allow\"\n",
        "limits = { size = 9 }\ntls = { server = { mode = \"allow\" } }\n",
        "tls = { client = { mode = \"disable\" } }\n",
        "[tls]\nserver = { mode = \"allow\" }\n[limits]\r\nsize = 9 # here\r\n",
        "[tls]\n[tls.client]\nmode = \"disable\"\n",
    ] {
        let before = format!("{section}{users}");
        let after = changed(&before, &set(&[("default_pool_size", "3"), ("server_tls_sslmode", "prefer")]));
        assert_eq!(load(&after, &Edits::default()).pools["a"].limits.size, 3, "{after}");
        assert_eq!(after.matches('#').count(), before.matches('#').count());
    }
}

#[test]
fn each_setting_that_may_change_can_be_written_with_the_value_it_has() {
    let config = load(FILE, &Edits::default());
    for row in show(&config) {
        match Assignment::new(row.key, &row.value) {
            Ok(assign) => drop(changed(FILE, &Edits::from(Edit::Setting(assign)))),
            Err(SetError::Fixed(_)) => assert!(!is_settable(row.key), "{}", row.key),
            Err(error) => panic!("{}: {error}", row.key),
        }
    }
}

#[test]
fn in_memory_pools_follow_unless_their_own_value_is_in_the_file() {
    let ini =
        "[databases]\napp = host=h pool_size=3\nother = host=h\n[pgbouncer]\nlisten_addr = *\nauth_type = trust\n";
    let edits = set(&[("default_pool_size", "8"), ("pool_mode", "Transaction"), ("query_timeout", "1.5")]);
    let config = load_with(Path::new("pgbouncer.ini"), &|_| Ok(ini.to_owned()), &|_| None, &edits).unwrap();
    assert_eq!((config.pools["app"].limits.size, config.pools["other"].limits.size), (3, 8));
    assert_eq!(config.pools["other"].policy.mode.to_string(), "transaction");
    assert_eq!(config.pools["app"].limits.query_timeout.micros(), 1_500_000);
}

#[test]
fn what_can_not_be_is_refused_with_the_reason() {
    let refused = |name: &str, value: &str| Assignment::new(name, value).expect_err("it can't be");
    assert!(matches!(refused("defualt_pool_size", "1"), SetError::Unknown(why) if why.contains("default_pool_size?")));
    assert!(matches!(refused("listen_port", "1"), SetError::Fixed(_)));
    assert!(matches!(refused("query_timeout", "soon"), SetError::Unfit(_)));
    assert!(matches!(refused("log_stats", "maybe"), SetError::Unfit(_)));
    assert!(matches!(Assignment::new("auth_file", "users.txt"), Err(SetError::Fixed(_))), "it names a file");
    assert!(Assignment::new("auth_type", "trust").is_ok());
}
