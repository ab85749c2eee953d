//! The values are those of the file.

use std::path::PathBuf;

use weir_base::{Host, OnDirty, PoolMode, Span, Target};
use weir_config::{Config, Limits, Method};

use crate::common::load_with;

const USERLIST: (&str, &str) = ("userlist.txt", "\"app\" \"secret\"\n\"bob\" \"md50123\"\n");

fn read(text: &str) -> Config {
    load_with(text, &[USERLIST, ("app.pass", "from file\r\n")], &[("APP_PASSWORD", "from env")])
        .unwrap_or_else(|e| panic!("{e}"))
}

/// Adds a user, for a file that is about something else.
fn read_with_user(text: &str) -> Config {
    read(&format!("{text}\n[auth.users]\napp = \"secret\"\n"))
}

#[test]
fn the_first_configuration_of_the_documentation_is_understood() {
    let config = read(
        r#"
[listen]
address = "127.0.0.1"
port = 6432

[auth]
type = "scram-sha-256"            # trust, plain, md5, scram-sha-256
file = "userlist.txt"             # PgBouncer's format

[pools.app]                       # clients name the pool as their database
host = "127.0.0.1"                # or a socket's folder
database = "app"                  # default: the pool's name
user = "app"                      # default: each client's own user, one pool a user
password = "…"                    # or password_file, or password_env
mode = "transaction"              # session, transaction, statement
size = 20                         # the most server connections; min_size keeps some open
"#,
    );
    assert_eq!(config.source, PathBuf::from("/etc/weir/weir.toml"));
    assert_eq!(config.auth.method, Method::ScramSha256);
    assert_eq!(config.auth.file, Some(PathBuf::from("/etc/weir/userlist.txt")));
    assert_eq!((config.auth.users.len(), config.auth.users.get("app")), (2, Some("secret")));
    let pool = &config.pools["app"];
    assert_eq!(*pool.target(), Target { host: Host::Ip("127.0.0.1".parse().unwrap()), port: 5432 });
    assert_eq!((pool.name.as_str(), pool.database.as_str(), pool.user.as_deref()), ("app", "app", Some("app")));
    assert_eq!(pool.password.as_deref(), Some("…"));
    assert_eq!((pool.policy.mode, pool.policy.on_dirty), (PoolMode::Transaction, OnDirty::Reset));
    assert_eq!(pool.limits, Limits::default());
}

#[test]
fn a_pool_that_says_little_has_its_name_as_database_and_no_user() {
    let config = read_with_user("[pools.shop]\nhost = \"/run/postgresql\"");
    let pool = &config.pools["shop"];
    assert_eq!((pool.database.as_str(), &pool.user, &pool.password), ("shop", &None, &None));
    assert_eq!(pool.target().host, Host::SocketDir("/run/postgresql".into()));
}

#[test]
fn kinds_of_state_are_a_list_of_known_words() {
    let config = read_with_user(
        "[limits]\npin_refuse = [\"listen\"]\n[pools.a]\nhost = \"db\"\nmode = \"auto\"\n\
         pin_refuse = [\"temporary_objects\", \"advisory_locks\"]\n[pools.b]\nhost = \"db\"\nmode = \"auto\"",
    );
    let of = |pool: &str| config.pools[pool].limits.pin_refuse.to_string();
    assert_eq!((of("a"), of("b")), ("temporary_objects,advisory_locks".to_owned(), "listen".to_owned()));
}

#[test]
fn a_pools_own_limit_wins_over_the_one_for_all_wherever_that_stands() {
    let config = read_with_user(
        "[pools.a]\nhost = \"db\"\nsize = 5\nmode = \"session\"\nquery_timeout = \"1500ms\"\n\
         [pools.b]\nhost = \"db\"\n\
         [limits]\nsize = 7\nmin_size = 2\nserver_lifetime = \"1h\"\nserver_round_robin = true\n\
         statement_memory = \"1GiB\"\n[general]\nmode = \"statement\"\non_dirty = \"close\"",
    );
    let (a, b) = (&config.pools["a"], &config.pools["b"]);
    assert_eq!(
        (a.limits.size, a.limits.min_size, a.policy.mode, a.policy.on_dirty),
        (5, 2, PoolMode::Session, OnDirty::Close)
    );
    assert_eq!(
        (b.limits.size, b.limits.min_size, b.policy.mode, b.policy.on_dirty),
        (7, 2, PoolMode::Statement, OnDirty::Close)
    );
    assert_eq!(a.limits.query_timeout, Span::from_millis(1_500));
    assert_eq!(b.limits.query_timeout, Span::ZERO);
    assert_eq!(b.limits.server_lifetime, Span::from_secs(3_600));
    assert!(a.limits.server_round_robin && config.limits.server_round_robin);
    assert_eq!(config.limits.statement_memory, 1 << 30);
}

#[test]
fn the_process_has_what_its_sections_say() {
    let config = read_with_user(
        "[general]\nworkers = 2\nmax_clients = 50\nadmin_users = [\"root\", \"ops\"]\nstats_users = \"a, b\"\n\
         stats_period = \"5min\"\nclient_login_timeout = 0.5\nignore_startup_parameters = [\"extra_float_digits\"]\n\
         [listen]\naddress = [\"*\", \"0.0.0.0\"]\nport = 7000\nunix_socket_dir = \"/run/weir\"\n\
         unix_socket_mode = 0o770\nbacklog = 1000\n\
         [log]\nconnections = false\nverbose = 2",
    );
    assert_eq!((config.workers, config.max_clients), (2, 50));
    assert_eq!(config.admin_users, ["root", "ops"]);
    assert_eq!(config.stats_users, ["a", "b"]);
    assert_eq!(config.stats_period, Span::from_secs(300));
    assert_eq!(config.client_login_timeout, Span::from_millis(500));
    assert_eq!(config.ignore_startup_parameters, ["extra_float_digits"]);
    let addresses: Vec<String> = config.listen.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["0.0.0.0", "::"]);
    assert_eq!((config.listen.port, config.listen.unix_socket_mode, config.listen.backlog), (7000, 0o770, 1000));
    assert_eq!(config.listen.unix_socket_dir, Some(PathBuf::from("/run/weir")));
    assert!(!config.log.connections && config.log.disconnections);
    assert_eq!(config.log.verbose, 2);
}

#[test]
fn the_number_of_workers_may_be_that_of_the_cores() {
    let mut config = read_with_user("[general]\nworkers = \"auto\"");
    assert_eq!(config.workers, Config::AUTO_WORKERS);
    let findings = weir_config::review(&config, &weir_config::HostLimits { descriptors: 100_000, cores: 3 });
    assert!(findings.iter().all(|finding| !finding.text.contains("workers")), "{findings:?}");
    for (cores, workers) in [(3, 3), (0, 1), (500, 64)] {
        let mut config = config.clone();
        config.set_workers(cores);
        assert_eq!(config.workers, workers);
    }
    config.workers = 2;
    config.set_workers(5);
    assert_eq!(config.workers, 2, "it has a number");
    let error = load_with("[general]\nworkers = \"many\"", &[], &[]).unwrap_err().first().to_string();
    assert!(error.contains("must be \"auto\", or a whole number from 1 to 256"), "{error}");
}

#[test]
fn without_tcp_a_unix_socket_is_enough() {
    let config = read_with_user("[listen]\naddress = []\nunix_socket_dir = \"/run/weir\"\nunix_socket_mode = \"0700\"");
    assert_eq!((config.listen.addresses.len(), config.listen.unix_socket_mode), (0, 0o700));
}

#[test]
fn pgbouncers_names_of_limits_are_understood() {
    let config = read_with_user(
        "[pools.app]\nhost = \"db\"\ndbname = \"shop\"\npool_size = 3\nmin_pool_size = 1\nreserve_pool = 2\n\
         pool_mode = \"session\"\n[limits]\ndefault_pool_size = 9\nreserve_pool_timeout = 1\n\
         [general]\nmax_client_conn = 12",
    );
    let pool = &config.pools["app"];
    assert_eq!((pool.limits.size, pool.limits.min_size, pool.limits.reserve_size), (3, 1, 2));
    assert_eq!((pool.database.as_str(), pool.policy.mode), ("shop", PoolMode::Session));
    assert_eq!((config.limits.size, config.max_clients), (9, 12));
    assert_eq!(config.limits.reserve_timeout, Span::from_secs(1));
}

#[test]
fn a_password_comes_from_a_file_or_from_the_environment() {
    let config = read_with_user(
        "[pools.a]\nhost = \"db\"\nuser = \"u\"\npassword_file = \"app.pass\"\n\
         [pools.b]\nhost = \"db\"\nuser = \"u\"\npassword_env = \"APP_PASSWORD\"",
    );
    assert_eq!(config.pools["a"].password.as_deref(), Some("from file"));
    assert_eq!(config.pools["b"].password.as_deref(), Some("from env"));
}

#[test]
fn a_file_with_a_byte_order_mark_and_windows_line_ends_is_read() {
    let config = read("\u{feff}[auth.users]\r\napp = \"secret\"\r\n[pools.\"my app\"]\r\nhost = \"db\"\r\n");
    assert_eq!(config.auth.users.get("app"), Some("secret"));
    assert_eq!(config.pools["my app"].database, "my app");
    assert_eq!(config.locations.line("pools.my app.host"), Some(4));
}

#[test]
fn neither_debug_nor_show_nor_review_nor_differences_tell_a_secret() {
    let text = "[auth.users]\napp = \"hush\"\n[pools.app]\nhost = \"db\"\nuser = \"app\"\npassword = \"hush\"";
    let config = read(text);
    let other = read(&text.replace("hush", "hushhush"));
    let facts = weir_config::HostLimits { descriptors: 100, cores: 1 };
    let all = format!(
        "{config:?} {:?} {:?} {:?}",
        weir_config::show(&config),
        weir_config::review(&config, &facts),
        weir_config::differences(&config, &other)
    );
    assert!(!all.contains("hush"), "{all}");
}

#[test]
fn peers_are_read_in_both_forms_and_written_down() {
    let toml = "[process]\npeer_id = 1\n[auth]\ntype = \"trust\"\n[pools.a]\nhost = \"h\"\n[peers.1]\nhost = \"/run/one\"\n\
                [peers.2]\nhost = \"10.0.0.2\"\nport = 6433\npool_size = 7\n";
    let config = load_with(toml, &[], &[]).unwrap();
    let peer = |host: &str, port, pool_size| weir_config::PeerRules { host: host.to_owned(), port, pool_size };
    assert_eq!(config.peer_id, 1);
    assert_eq!(config.peers, [(1, peer("/run/one", 6432, None)), (2, peer("10.0.0.2", 6433, Some(7)))].into());
    let written = weir_config::to_toml(&config);
    let again = load_with(&written, &[], &[]).unwrap();
    assert_eq!((again.peer_id, again.peers), (config.peer_id, config.peers));
    for (wrong, why) in [
        ("[peers.x]\nhost = \"h\"\n", "peer x is no number from 1 to 16383"),
        ("[peers.3]\nport = 5\n", "host is missing in [peers.3]"),
        ("[peers.3]\nhost = \"h\"\ncolor = 5\n", "unknown key \"color\""),
    ] {
        let error = load_with(&format!("{toml}{wrong}"), &[], &[]).unwrap_err();
        assert!(error.to_string().contains(why), "{error:?}");
    }
}

#[test]
fn pools_share_the_connections_of_a_server() {
    let config = read_with_user(
        "[pools.a]\nhost = \"db\"\nserver = \"main\"\nguaranteed_connections = 5\nweight = 3\n\
         [pools.b]\nhost = \"db\"\nserver = \"main\"\nguaranteed_connections = 2\nmode = \"session\"\n[pools.c]\nhost = \"db\"\n\
         [users.app]\nmode = \"transaction\"\n[servers.main]\nmax_connections = 90",
    );
    let main = config.servers["main"];
    assert_eq!((main.max_connections, main.guaranteed), (90, 7));
    let share = config.share("a").expect("it has one");
    assert_eq!((share.server.as_deref(), share.guaranteed, share.weight), (Some("main"), 5, 3));
    assert_eq!((config.share("b").map(|share| share.weight), config.share("c")), (Some(1), None));
    assert!(config.is_limited("a", "app") && !config.is_limited("c", "app"));
    let keeps = [("a", "bob"), ("b", "bob"), ("b", "app")].map(|(pool, user)| config.keeps_servers(pool, user));
    assert_eq!(keeps, [false, true, false], "a user's mode comes before the pool's");
}
