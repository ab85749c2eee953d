//! An ini and the TOML that it is converted to mean the same.

use std::path::Path;

use proptest::prelude::*;
use weir_config::{Config, FileFormat, to_toml};

use crate::common::load_ini;

const FILES: &[(&str, &str)] =
    &[("users.txt", "\"asker\" \"x\"\n"), ("hba", "local all all peer\n"), ("deep.ini", "deep = host=x\n")];

/// The configuration without the locations and the format in which it was written.
fn meaning(mut config: Config) -> Config {
    // Of an ini alone, since PgBouncer starts without an address that is absent.
    config.listen.skip_unusable = false;
    Config {
        source: "".into(),
        format: FileFormat::Toml,
        locations: Config::default().locations,
        remarks: Vec::new(),
        password_files: Vec::new(),
        inert: Config::default().inert,
        ..config
    }
}

fn reload(text: &str) -> Config {
    let read = |path: &Path| match path.to_str() {
        Some("weir.toml") => Ok(text.to_owned()),
        name => {
            let found = FILES.iter().find(|(n, _)| Some(*n) == name);
            found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| std::io::Error::other("No such file"))
        }
    };
    weir_config::load(Path::new("weir.toml"), &read, &|_| None).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn same_meaning(ini: &str) {
    let config = load_ini(ini, FILES).unwrap_or_else(|e| panic!("{e}\n{ini}"));
    let text = to_toml(&config);
    let (before, after) = (meaning(config), meaning(reload(&text)));
    for (name, pool) in &before.pools {
        assert_eq!(after.pools.get(name), Some(pool), "{text}");
    }
    assert_eq!(after, before, "{text}");
}

#[test]
fn a_site_means_the_same_as_toml() {
    same_meaning(include_str!("../samples/site.ini"));
}

#[test]
fn what_is_written_is_short_and_says_what_has_no_effect() {
    let ini = "[databases]\napp = host=127.0.0.1 user=app password=x\n[pgbouncer]\npool_mode = transaction\n\
               listen_addr = 127.0.0.1\nauth_file = users.txt\npkt_buf = 8192\n";
    assert_eq!(
        to_toml(&load_ini(ini, FILES).unwrap()),
        "# Written by \"weir convert pgbouncer.ini\".\n\
         # Here paths are relative to this file's folder, not to the one that Weir is started in.\n\
         # pkt_buf = 8192: connections hold no buffer between messages, and a worker reads with one that is large \
         enough.\n\
         \n[general]\nmax_clients = 100\nmode = \"transaction\"\non_dirty = \"keep\"\nwarn_on_dirty = false\nrequire_auth = \"any\"\n\
         \n[listen]\nunix_socket_dir = \"/tmp\"\nbacklog = 128\nserver_tcp_timeout = 0\n\
         \n[auth]\ntype = \"md5\"\nfile = \"users.txt\"\npam_service = \"pgbouncer\"\n\
         query_cache = 0\nhide_unknown_users = false\nfailure_delay = 0\n\
         \n[process]\ncore_dumps = true\nwatch_files = \"users\"\n\
         \n[log]\nsyslog_ident = \"pgbouncer\"\n\
         \n[limits]\nfirst_server_timeout = 0\n\
         \n[pools.app]\nhost = \"127.0.0.1\"\nuser = \"app\"\npassword = \"x\"\n"
    );
}

#[rustfmt::skip]
const SETTINGS: &[(&str, &[&str])] = &[
    ("default_pool_size", &["0", "5", "0x20"]), ("min_pool_size", &["3"]), ("reserve_pool_size", &["2"]),
    ("reserve_pool_timeout", &["0", "0.25"]), ("pool_mode", &["session", "transaction", "statement"]),
    ("server_reset_query", &["", "DISCARD ALL", "RESET ALL; SELECT 'a\"b\\c'"]), ("server_reset_query_always", &["1"]),
    ("server_check_query", &["", "<empty>", "select 1"]), ("server_lifetime", &["0", "999999999"]),
    ("listen_addr", &["", "*", "localhost", "::1,127.0.0.1"]), ("unix_socket_mode", &["0700"]),
    ("auth_type", &["md5", "plain", "trust", "any", "scram-sha-256", "cert"]), ("auth_user", &["asker"]),
    ("auth_file", &["users.txt"]), ("auth_query", &["SELECT 1, $1"]), ("log_stats", &["0"]), ("syslog", &["1"]),
    ("tcp_user_timeout", &["1500"]), ("tcp_keepidle", &["60"]),
    ("server_tls_protocols", &["secure", "tlsv1.3", "all"]), ("server_tls_ciphers", &["fast", "HIGH:!aNULL"]),
    ("server_tls_sslmode", &["disable", "require"]), ("admin_users", &["a, b"]), ("verbose", &["2"]),
    ("max_db_connections", &["7"]), ("query_wait_timeout", &["0", "1.5"]), ("proxy_from", &["10.0.0.0/8"]),
    ("on_dirty", &["keep", "reset", "close"]), ("workers", &["2", "auto"]), ("io", &["epoll", "io_uring"]), ("statement_memory", &["1048576", "1500000"]),
    ("max_packet_size", &["1048576"]), ("login_notify_message", &["hello # there"]), ("pkt_buf", &["1"]),
    ("resolv_conf", &["/etc/other"]), ("pidfile", &["/run/x.pid"]), ("user", &["postgres"]), ("require_auth", &["any", "auto", "!password,!md5"]), ("log_format", &["json"]),
];

#[rustfmt::skip]
const PARAMETERS: &[&str] = &[
    "host=db", "host=a,b port=1,2", "host=/run/x", "port=6000", "dbname=other", "user=app", "password='it''s = \"x\"'",
    "pool_size=0", "pool_size=9", "pool_mode=statement", "reserve_pool=3", "connect_query='SELECT ''a'''",
    "client_encoding=UTF8", "timezone='Europe/Berlin'", "load_balance_hosts=disable", "auth_user=asker",
    "auth_query='SELECT $1'", "server_lifetime=5", "query_wait_timeout=0", "max_db_client_connections=4",
    "target_session_attrs=standby", "require_auth=scram-sha-256",
];

fn settings() -> impl Strategy<Value = String> {
    let one = (0..SETTINGS.len(), any::<prop::sample::Index>())
        .prop_map(|(i, j)| format!("{} = {}\n", SETTINGS[i].0, SETTINGS[i].1[j.index(SETTINGS[i].1.len())]));
    prop::collection::vec(one, 0..12).prop_map(|lines| lines.concat())
}

fn databases() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec!["app", "*", "'odd name'", "\"a\"\"b\"", "x.y-z"]);
    let words = prop::collection::vec(prop::sample::select(PARAMETERS), 0..6).prop_map(|words| words.join(" "));
    let line = (name, words).prop_map(|(name, words)| {
        // Two ports need two hosts.
        let words = if words.contains("port=1,2") { "host=a,b port=1,2".to_owned() } else { words };
        format!("{name} = {words}\n")
    });
    prop::collection::vec(line, 0..5).prop_map(|lines| lines.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_ini_means_the_same_as_toml(settings in settings(), databases in databases()) {
        same_meaning(&format!("[databases]\n{databases}[users]\nu = pool_size=3 query_timeout=2\n[pgbouncer]\n{settings}"));
    }
}
