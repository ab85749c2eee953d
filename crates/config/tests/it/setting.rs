//! SET on the console: what it changes, what follows, and what it refuses.

use weir_base::{PoolMode, Span};
use weir_config::{Config, SetError, SslMode, apply_tls, set, show};

use crate::common::{load_ini, load_with};

fn config() -> Config {
    load_ini("[databases]\na = host=x pool_size=3\nb = host=x\n* = host=x\n[pgbouncer]\n", &[]).unwrap()
}

#[test]
fn pools_without_a_value_of_their_own_follow() {
    let config = set(&config(), "default_pool_size", "50").unwrap();
    assert_eq!((config.limits.size, config.pools["a"].limits.size, config.pools["b"].limits.size), (50, 3, 50));
    assert_eq!(config.fallback.as_ref().unwrap().limits.size, 50);
    let config = set(&config, "pool_mode", "transaction").unwrap();
    assert_eq!((config.policy.mode, config.pools["a"].policy.mode), (PoolMode::Transaction, PoolMode::Transaction));
    let config = set(&config, "server_check_query", "").unwrap();
    assert_eq!((config.policy.check_query.clone(), config.pools["b"].policy.check_query.clone()), (None, None));
    let config = set(&config, "limits.query_timeout", "1.5").unwrap();
    assert_eq!(config.pools["b"].limits.query_timeout, Span::from_millis(1_500));
}

#[test]
fn toml_pools_follow_too() {
    let text = "[auth.users]\na = \"b\"\n[pools.x]\nhost = \"h\"\nmode = \"session\"\n[pools.y]\nhost = \"h\"\n";
    let config = set(&load_with(text, &[], &[]).unwrap(), "pool_mode", "statement").unwrap();
    assert_eq!(
        (config.pools["x"].policy.mode, config.pools["y"].policy.mode),
        (PoolMode::Session, PoolMode::Statement)
    );
}

#[test]
fn what_exposes_a_password_is_set_under_an_ini_only() {
    let toml = "[auth.users]\na = \"b\"\n[pools.x]\nhost = \"h\"\nuser = \"a\"\npassword = \"p\"\n\
                [tls.server]\nmode = \"require\"\n";
    let ini = "[databases]\nx = host=h user=a password=p\n[pgbouncer]\nserver_tls_sslmode = require\n";
    let set =
        |config: &Config| set(config, "server_tls_sslmode", "disable").map(drop).map_err(|error| error.to_string());
    let refused = set(&load_with(toml, &[], &[]).unwrap()).unwrap_err();
    assert!(refused.contains("with less protection than now: change the file, and RELOAD"), "{refused}");
    assert_eq!(set(&load_ini(ini, &[]).unwrap()), Ok(()), "as PgBouncer does");
}

#[test]
fn what_can_not_be_set_is_refused_with_the_reason() {
    let error = |key: &str, value: &str| set(&config(), key, value).map(|_| ()).unwrap_err().to_string();
    assert_eq!(
        error("defualt_pool_size", "1"),
        "SET failed: unknown parameter \"defualt_pool_size\"; did you mean default_pool_size?"
    );
    assert_eq!(
        error("listen_port", "1"),
        "SET failed: listen_port can't be changed while Weir runs: change the file, and start it again"
    );
    assert_eq!(
        error("query_timeout", "soon"),
        "SET failed: query_timeout must be a time from 0 to 36500d, as in 5, \"500ms\" or \"2min\""
    );
    assert!(error("auth_type", "hba").starts_with("SET failed: type hba needs rules"));
    assert!(error("auth_file", "x").starts_with("SET failed: auth_file names a file"));
    assert!(error("client_tls_sslmode", "always").starts_with("SET failed: client_tls_sslmode must be one of"));
    assert!(error("pin_refuse", "listen, temp").contains("must list words of settings, listen, "));
}

#[test]
fn a_key_that_belongs_in_a_section_with_a_name_is_refused_with_its_place() {
    let config = config();
    let refused = |key: &str| match set(&config, key, "7") {
        Err(SetError::Fixed(why)) => why,
        other => panic!("{key}: {:?}", other.map(drop)),
    };
    let belongs = |key: &str, places: &str| format!("{key} belongs in {places}: change the file, and RELOAD");
    for key in ["max_connections", "servers.max_connections"] {
        assert_eq!(refused(key), belongs(key, "[servers.NAME]"));
    }
    for key in ["password", "password_source", "guaranteed_connections", "weight", "server", "host"] {
        assert!(refused(key).contains("[pools.NAME]"), "{key}: {}", refused(key));
    }
    assert_eq!(refused("port"), belongs("port", "[peers.NUMBER] or [pools.NAME]"));
    assert!(refused("users").contains("[auth] or [web]"), "{}", refused("users"));
}

#[test]
fn settings_of_encryption_are_pending_until_they_work_together() {
    let shown = |config: &Config, key: &str| show(config).into_iter().find(|row| row.key == key).unwrap().value;
    let first = set(&config(), "client_tls_sslmode", "require").unwrap();
    assert_eq!((first.tls.client.mode, first.pending_tls.is_some()), (SslMode::Disable, true));
    assert_eq!(shown(&first, "client_tls_sslmode"), "require", "what was set is shown");
    assert!(apply_tls(&first).unwrap_err().starts_with("To allow TLS connections from clients"));
    let other = set(&first, "pool_mode", "transaction").expect("others can still be set");
    let key = set(&other, "client_tls_key_file", "a.key").unwrap();
    let both = apply_tls(&set(&key, "client_tls_cert_file", "a.crt").unwrap()).unwrap();
    assert_eq!(
        (both.tls.client.mode, both.policy.mode, both.pending_tls),
        (SslMode::Require, PoolMode::Transaction, None)
    );
    let unknown = set(&config(), "server_tls13_ciphers", "TLS_NULL").unwrap();
    let error = apply_tls(&unknown).unwrap_err();
    assert_eq!(error, "failed to set the TLSv1.3 cipher suites: none of \"TLS_NULL\" is available");
}

#[test]
fn old_versions_alone_are_possible_only_where_an_ini_does_without_encryption() {
    let ini = |mode| {
        let text = format!(
            "[databases]\na = host=x\n[pgbouncer]\nserver_tls_protocols = tlsv1.0\nserver_tls_sslmode = {mode}\n"
        );
        load_ini(&text, &[])
    };
    let config = ini("prefer").unwrap();
    assert!(!config.tls.server.is_available() && shown_protocols(&config) == "tlsv1.0");
    assert!(config.remarks.iter().any(|remark| remark.text.contains("TLS 1.0")));
    assert!(ini("require").unwrap_err().to_string().contains("only versions that are not supported"));
    let toml = "[auth.users]\na = \"b\"\n[tls.server]\nprotocols = \"tlsv1.0\"\n[pools.x]\nhost = \"h\"\n";
    assert!(load_with(toml, &[], &[]).unwrap_err().to_string().contains("only versions that are not supported"));
}

fn shown_protocols(config: &Config) -> String {
    show(config).into_iter().find(|row| row.key == "server_tls_protocols").unwrap().value
}
