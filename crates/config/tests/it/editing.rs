//! Pools changed while Weir runs: what a change leaves of a file's text, and that applying it to the values means the
//! same.

use std::path::Path;

use weir_config::{
    Config, ConfigErrors, Edit, Edits, Keys, Operation, ShownValue, Value, load_with, pool_keys, rewrite,
};

const FILE: &str = r#"# The pools of the shop.
[auth.users]
app = "secret"

[limits]
size = 12 # for all

# The shop itself.
[pools.shop]
host = "db1"  # the new machine
# Measured in May.
pool_size = 20
mode = "session"
# user = "later"

# Reports run at night.
[pools.reports]
host = ["db1", "db2"]
password = "hush"

# What the log says.
[log]
log_pooler_errors = true
# The end.
"#;

fn text(value: &str) -> Option<Value> {
    Some(Value::Text(value.to_owned()))
}

fn keys(pairs: &[(&str, Option<Value>)]) -> Keys {
    let mut keys = Keys::default();
    pairs.iter().for_each(|(name, value)| assert!(keys.set(name, value.clone()), "{name} is new"));
    keys
}

fn edit(pool: &str, act: Operation) -> Edits {
    Edits::from(Edit::Pool(pool.to_owned(), act))
}

fn alter(pool: &str, pairs: &[(&str, Option<Value>)]) -> Edits {
    edit(pool, Operation::Alter(keys(pairs)))
}

fn make(pool: &str, pairs: &[(&str, Option<Value>)]) -> Edits {
    edit(pool, Operation::Create(keys(pairs)))
}

fn load(file: &str, text: &str, edits: &Edits) -> Result<Config, ConfigErrors> {
    load_with(Path::new(file), &|_| Ok(text.to_owned()), &|_| None, edits)
}

/// The text after a change; it must mean the same as the change applied to the values.
#[track_caller]
fn changed(before: &str, edits: &Edits) -> String {
    let after = rewrite(before, edits).expect("TOML");
    let written = load("weir.toml", &after, &Edits::default()).expect("a good text");
    let laid_over = load("weir.toml", before, edits).expect("a good change");
    assert_eq!(written.pools, laid_over.pools, "{after}");
    assert_eq!(written.fallback, laid_over.fallback);
    for name in written.pools.keys() {
        assert_eq!(weir_config::pool_keys(&written, name), weir_config::pool_keys(&laid_over, name));
    }
    after
}

#[test]
fn a_changed_value_leaves_every_other_byte_as_it_was() {
    let after = changed(FILE, &alter("shop", &[("size", Some(Value::Number(30))), ("host", text("db9"))]));
    assert_eq!(after, FILE.replace("pool_size = 20", "pool_size = 30").replace("\"db1\"  #", "\"db9\"  #"));
    let after = changed(FILE, &alter("reports", &[("query_wait_timeout", text("5s"))]));
    assert_eq!(after, FILE.replace("\"hush\"\n", "\"hush\"\nquery_wait_timeout = \"5s\"\n"));
}

#[test]
fn a_key_taken_out_leaves_what_was_said_above_it() {
    let after = changed(FILE, &alter("shop", &[("size", None)]));
    assert_eq!(after, FILE.replace("pool_size = 20\n", ""));
    let after = changed(FILE, &alter("shop", &[("size", None), ("mode", None)]));
    assert_eq!(after, FILE.replace("pool_size = 20\nmode = \"session\"\n", ""));
    assert_eq!(changed(FILE, &alter("shop", &[("user", None)])), FILE, "it had none");
    let shop = &load("weir.toml", &after, &Edits::default()).unwrap().pools["shop"];
    assert_eq!(shop.limits.size, 12, "the default is that for all");
}

#[test]
fn a_new_pool_stands_at_the_end() {
    let new = make("new", &[("host", text("db3")), ("size", Some(Value::Number(4)))]);
    assert_eq!(changed(FILE, &new), format!("{FILE}\n[pools.new]\nhost = \"db3\"\nsize = 4\n"));
    // The comment at the end of the file belongs to the pool above it.
    let short = "[auth.users]\napp = \"x\"\n\n[pools.a]\nhost = \"h\"\n# size = 9\n";
    assert_eq!(
        changed(short, &make("b c", &[("host", text("h"))])),
        format!("{short}\n[pools.\"b c\"]\nhost = \"h\"\n")
    );
}

#[test]
fn a_pool_that_was_made_and_deleted_leaves_nothing() {
    for end in ["", "# The end.\n", "# The end.\n\n", "# One.\n\n# Two.\n"] {
        let before = format!("[auth.users]\napp = \"x\"\n\n[pools.a]\nhost = \"h\"\n{end}");
        let made = changed(&before, &make("b", &[("host", text("h"))]));
        assert!(made.starts_with(&before), "{made}");
        assert_eq!(changed(&made, &edit("b", Operation::Drop)), before);
    }
}

#[test]
fn a_pool_goes_with_its_own_comment_and_with_no_other() {
    let end = FILE.find("# Reports run").unwrap();
    let after = &FILE[FILE.find("# What the log").unwrap()..];
    assert_eq!(changed(FILE, &edit("reports", Operation::Drop)), format!("{}{after}", &FILE[..end]));
    let last = "[auth.users]\napp = \"x\"\n[pools.a]\nhost = \"h\"\n# size = 9\n\n# Theirs.\n[pools.b]\nhost = \"h\"\n";
    assert_eq!(
        changed(last, &edit("b", Operation::Drop)).trim_end(),
        "[auth.users]\napp = \"x\"\n[pools.a]\nhost = \"h\"\n# size = 9"
    );
}

#[test]
fn pools_in_other_shapes_of_toml_are_changed_too() {
    let users = "[auth.users]\napp = \"x\"\n";
    let two = [("size", Some(Value::Number(3))), ("mode", text("statement"))];
    for pools in [
        "[pools]\na = { host = \"h\", size = 9 } # small\n",
        "[pools]\na.host = \"h\"\na.size = 9\n",
        "[pools]\n[pools.a]\nhost = \"h\"\nsize = 9\n",
        "[pools.a]\r\nhost = \"h\" # here\r\nsize = 9\r\n",
    ] {
        let before = format!("{users}{pools}");
        let after = changed(&before, &alter("a", &two));
        assert!(after.contains("size = 3") && after.contains("mode = \"statement\""), "{after}");
        assert_eq!(after.matches('#').count(), before.matches('#').count());
        let more = changed(&before, &make("b", &[("host", text("h2"))]));
        assert_eq!(load("weir.toml", &more, &Edits::default()).unwrap().pools.len(), 2, "{more}");
        changed(&more, &edit("a", Operation::Drop));
    }
    let inline = format!("pools = {{ a = {{ host = \"h\" }} }}\n{users}");
    changed(&inline, &make("b", &[("host", text("h2"))]));
    changed(&inline, &alter("a", &two));
    let crlf = changed("[auth.users]\r\napp = \"x\"\r\n[pools.a]\r\nhost = \"h\"\r\n", &alter("a", &two));
    assert_eq!(crlf.matches('\n').count(), crlf.matches("\r\n").count());
    let marked = rewrite(&format!("\u{feff}{users}[pools.a]\nhost = \"h\"\n"), &alter("a", &two)).unwrap();
    assert!(marked.starts_with('\u{feff}'));
    assert_eq!(rewrite("no toml", &alter("a", &two)), None);
}

#[test]
fn the_first_pool_of_a_file_is_made() {
    changed("[auth.users]\napp = \"x\"\n", &make("a", &[("host", text("h"))]));
    changed("[auth.users]\napp = \"x\"", &make("*", &[("host", text("h"))]));
}

#[test]
fn changes_one_after_another_are_one() {
    let mut all = make("new", &[("host", text("h")), ("size", Some(Value::Number(1)))]);
    let add = |all: &mut Edits, pool: &str, act| all.add(Edit::Pool(pool.to_owned(), act));
    add(&mut all, "new", Operation::Alter(keys(&[("size", None), ("pool_mode", text("session"))])));
    add(&mut all, "shop", Operation::Alter(keys(&[("size", Some(Value::Number(1)))])));
    add(&mut all, "shop", Operation::Alter(keys(&[("size", None)])));
    add(&mut all, "reports", Operation::Drop);
    add(&mut all, "reports", Operation::Create(keys(&[("host", text("other"))])));
    let after = changed(FILE, &all);
    let config = load("weir.toml", &after, &Edits::default()).unwrap();
    assert_eq!((config.pools["new"].limits.size, config.pools["shop"].limits.size), (12, 12));
    assert_eq!(config.pools["reports"].password, None);
    let mut none = make("new", &[("host", text("h"))]);
    add(&mut none, "new", Operation::Drop);
    assert!(none.is_empty());
}

#[test]
fn an_ini_takes_changes_in_memory() {
    let ini = "[databases]\napp = host=h pool_size=3\nother = host=h\n[pgbouncer]\nlisten_addr = *\nauth_type = trust\n\
               default_pool_size = 8\n";
    let mut all = alter("app", &[("size", None), ("mode", text("transaction"))]);
    let new = keys(&[("host", text("h3")), ("reserve_size", Some(Value::Number(2)))]);
    all.add(Edit::Pool("new".into(), Operation::Create(new)));
    all.add(Edit::Pool("other".into(), Operation::Drop));
    let config = load("pgbouncer.ini", ini, &all).unwrap();
    assert_eq!(config.pools.keys().collect::<Vec<_>>(), ["app", "new"]);
    assert_eq!((config.pools["app"].limits.size, config.pools["new"].limits.reserve_size), (8, 2));
    assert_eq!(config.pools["app"].policy.mode.to_string(), "transaction");
    // A global change reaches a pool whose own value was removed, and no other.
    let set = weir_config::set(&config, "reserve_pool_size", "7").unwrap();
    assert_eq!((set.pools["app"].limits.reserve_size, set.pools["new"].limits.reserve_size), (7, 2));
}

#[test]
fn what_does_not_suit_is_said_with_its_key() {
    let refused =
        |edits: &Edits| load("weir.toml", FILE, edits).map(|_| ()).expect_err("it does not suit").first().clone();
    let error = refused(&alter("shop", &[("size", text("many"))]));
    assert_eq!(error.key.as_deref(), Some("pools.shop.size"));
    assert_eq!(error.message, "\"size\" in [pools.shop] must be a whole number from 0 to 1000000, not text");
    let error = refused(&alter("shop", &[("sice", Some(Value::Number(1)))]));
    assert_eq!(
        (error.key.as_deref(), error.hint.as_deref()),
        (Some("pools.shop.sice"), Some("did you mean \"size\"?"))
    );
    assert_eq!(refused(&make("new", &[])).key.as_deref(), Some("pools.new.host"));
    assert_eq!(refused(&make("weir", &[("host", text("h"))])).key.as_deref(), Some("pools.weir.name"));
    assert_eq!(refused(&alter("shop", &[("host", text("a:b:c"))])).key.as_deref(), Some("pools.shop.host"));
    let secret = alter("shop", &[("password", text("hush"))]);
    assert!(!format!("{secret:?}").contains("hush"), "{secret:?}");
}

#[test]
fn what_is_written_is_shown_without_its_secrets() {
    let config = load("weir.toml", FILE, &Edits::default()).unwrap();
    let shop = pool_keys(&config, "shop").unwrap();
    let host = |name: &str| Value::Text(name.to_owned());
    let value = |value| ShownValue::Value(value);
    assert!(shop.contains(&("size", value(Value::Number(20)))) && shop.contains(&("mode", value(host("session")))));
    assert!(shop.contains(&("host", value(host("db1")))) && shop.len() == 3, "{shop:?}");
    let reports = pool_keys(&config, "reports").unwrap();
    assert!(reports.contains(&("password", ShownValue::Secret)), "{reports:?}");
    assert!(reports.contains(&("host", value(Value::List(vec![host("db1"), host("db2")])))));
    assert_eq!(pool_keys(&config, "nowhere"), None);
}
