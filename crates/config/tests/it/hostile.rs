//! Any file is read or refused, with one line for each mistake; no input panics, and what was read can be shown.

use proptest::prelude::*;
use weir_config::{Config, ConfigErrors, HostLimits, Users};

use crate::common::{load_ini, load_with};

fn use_everything(result: Result<Config, ConfigErrors>) {
    match result {
        Ok(config) => {
            let _ = weir_config::show(&config);
            let _ = weir_config::review(&config, &HostLimits { descriptors: 0, cores: 0 });
            assert!(weir_config::differences(&config, &config).is_empty());
        }
        Err(mistakes) => {
            let each = mistakes.iter().map(ToString::to_string);
            each.for_each(|line| assert!(!line.chars().any(char::is_control), "{line:?}"));
        }
    }
}

const SECTIONS: &[&str] = &[
    "[general]",
    "[listen]",
    "[auth]",
    "[auth.users]",
    "[log]",
    "[limits]",
    "[pools]",
    "[pools.app]\nhost = \"db\"",
    "[pools.\"a\\nb\"]\nhost = \"db\"",
    "[pools.app.size]",
    "[[pools]]",
    "[x]",
    "",
];

#[rustfmt::skip]
const KEYS: &[&str] = &[
    "size", "min_size", "host", "port", "address", "type", "file", "users", "mode", "on_dirty", "user", "password",
    "password_file", "password_env", "query_timeout", "statement_memory", "admin_users", "unix_socket_mode", "workers",
    "unix_socket_dir", "connections", "verbose", "a.b", "\"\"", "\"x\\ny\"", "app", "pools",
];

#[rustfmt::skip]
const VALUES: &[&str] = &[
    "1", "-1", "0", "0o777", "256", "65536", "9223372036854775807", "-9223372036854775808", "1.5", "nan", "-inf",
    "1e300", "true", "\"\"", "\"*\"", "\"db\"", "\"5s\"", "\"99999999d\"", "\"1.0000000000000000000000000001s\"",
    "\"٣\"", "\"\\u0000\"", "\"\\n\"", "[]", "[\"a\", \"\"]", "[1]", "{}", "{ a = \"b\" }", "1979-05-27", "\"trust\"",
    "\"session\"", "\"users\"", "\"reset\"", "",
];

#[rustfmt::skip]
const INI: &[&str] = &[
    "\n", "\n", "\n", "\n[pgbouncer]\n", "\n[databases]\n", "\n[users]\n", "\n[peers]\n", "%include a\n", "=", " = ", "'", "\"", ";",
    "*", "a", "host=", "port=", "auth_type = ", "hba", "any", "auth_hba_file = hba\n", "auth_file = users\n", "listen_addr = ",
    "1,2", "0x", "-1", "pool_size=", "password=", "''", " ", "\u{0}", "\t", "é", "server_tls_ciphers = ", "HIGH:!", "+", "@", "!",
    "client_tls_protocols = ", "tlsv1.3,", "all", "peer_id = ", "unix_socket_mode = ", "0777", "99999999999999999999", "1e308",
    "server_lifetime = ", "max_client_conn = ", ".", "inf", "resolv_conf = ", "stats_users = ", ",", "/",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_text_is_read_or_refused(text in "\\PC*|(.|\n)*") {
        use_everything(load_with(&text, &[("users", &text), ("pass", &text)], &[]));
        let _ = Users::parse(&text);
    }

    #[test]
    fn an_arbitrary_ini_is_read_or_refused(text in "\\PC*|(.|\n)*") {
        use_everything(load_ini(&text, &[]));
        use_everything(load_ini(&format!("[pgbouncer]\n{text}\n[databases]\na = {text}\n"), &[]));
    }

    #[test]
    fn an_ini_of_likely_words_is_read_or_refused(words in prop::collection::vec(0..INI.len(), 0..40)) {
        let text: String = words.into_iter().map(|word| INI[word]).collect();
        use_everything(load_ini(&text, &[("a", &text), ("users", "\"a\" \"b\""), ("hba", "local all all peer")]));
    }
}

#[test]
fn any_value_of_any_key_in_any_section_is_read_or_refused() {
    for (section, key) in SECTIONS.iter().flat_map(|section| KEYS.iter().map(move |key| (section, key))) {
        for value in VALUES {
            let text = format!("{section}\n{key} = {value}\n");
            use_everything(load_with(&text, &[("users", "\"a\" \"b\"")], &[]));
            use_everything(load_with(&format!("{text}\n[auth.users]\nx = \"y\"\n"), &[], &[]));
        }
    }
}

#[test]
fn deep_nesting_is_refused() {
    let text = format!("[listen]\naddress = {}1{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(load_with(&text, &[], &[]).is_err());
    let text = format!("{}a = 1", "a.".repeat(100_000));
    assert!(load_with(&text, &[], &[]).is_err());
}
