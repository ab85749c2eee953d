//! PgBouncer's files have the same meaning as in PgBouncer.

use std::path::{Path, PathBuf};

use weir_base::{Host, OnDirty, PoolMode, Span, Target};
use weir_config::{
    Balance, Config, FileFormat, HostLimits, Method, SessionAttrs, Severity, SslMode, describe, review, show,
};

use crate::common::load_ini;

const SITE: &str = include_str!("../samples/site.ini");
const USERS: (&str, &str) = ("users.txt", "\"asker\" \"x\"\n\"postgres\" \"y\"\n");

fn read(text: &str) -> Config {
    load_ini(text, &[USERS]).unwrap_or_else(|e| panic!("{e}"))
}

/// The settings of a file with these lines in `[pgbouncer]`.
fn with(lines: &str) -> Config {
    read(&format!("[pgbouncer]\n{lines}"))
}

fn target(host: &str, port: u16) -> Target {
    Target { host: Host::parse(host), port }
}

#[test]
fn a_site_is_understood() {
    let config = read(SITE);
    assert_eq!(
        (config.format, config.policy.mode, config.policy.on_dirty),
        (FileFormat::Ini, PoolMode::Transaction, OnDirty::Keep)
    );
    assert_eq!((config.max_clients, config.limits.size, config.listen.unix_socket_mode), (5_000, 25, 0o770));
    assert_eq!(config.auth.file, Some(PathBuf::from("users.txt")));
    assert_eq!((config.auth.users.len(), config.auth.query_user.as_deref()), (2, Some("asker")));
    assert_eq!(config.listen.keepalive.user_timeout, Span::from_secs(30));
    assert_eq!((config.tls.client.mode, config.tls.server.mode), (SslMode::Prefer, SslMode::VerifyFull));
    assert_eq!(config.policy.check_query.as_deref(), Some("select 1"));
    assert_eq!(config.limits.idle_transaction_timeout, Span::from_millis(500));
    assert!(config.log.syslog && !config.log.connections && config.listen.reuse_port);
    assert_eq!(config.ignore_startup_parameters, ["extra_float_digits", "options"]);

    let app = &config.pools["app"];
    assert_eq!((app.database.as_str(), app.limits.size, app.limits.reserve_size), ("app_production", 40, 10));
    let replica = &config.pools["app_ro"];
    assert_eq!(replica.targets, [target("10.1.0.6", 5432), target("10.1.0.7", 5432)]);
    assert_eq!((replica.policy.mode, replica.balance), (PoolMode::Statement, Balance::RoundRobin));
    let reports = &config.pools["reports"];
    assert_eq!(reports.password.as_deref(), Some("it's a secret"));
    assert_eq!(reports.connect_query.as_deref(), Some("SET work_mem = '64MB'"));
    let names: Vec<_> = reports.startup.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(names, ["client_encoding=UTF8", "datestyle=ISO", "timezone=UTC", "application_name=reports"]);
    let odd = &config.pools["odd name"];
    assert_eq!((odd.limits.max_db_connections, odd.limits.max_db_client_connections), (5, 50));
    let legacy = &config.pools["legacy"];
    assert_eq!((legacy.auth_user.as_deref(), legacy.auth_database.as_deref()), (Some("asker"), Some("app")));
    assert_eq!((legacy.limits.server_lifetime, legacy.limits.min_size), (Span::from_secs(60), 2));
    assert_eq!(config.users["batch"].mode, Some(PoolMode::Session));
    assert_eq!(config.users["web app"].max_client_connections, Some(100));
    assert_eq!(config.inert["pkt_buf"], "8192");
}

#[test]
fn any_other_database_is_made_of_the_star() {
    let config = read(SITE);
    let pool = config.pool("anything").expect("there is a fallback");
    assert_eq!((pool.name.as_str(), pool.database.as_str()), ("anything", "anything"));
    assert_eq!(*pool.target(), target("fallback.example.com", 6543));
    assert!(config.is_on_demand("anything") && !config.is_on_demand("app"));
}

#[test]
fn the_defaults_are_pgbouncers() {
    let config = with("");
    let rows = show(&config);
    let expected = [
        ("auth_type", "md5"),
        ("autodb_idle_timeout", "3600"),
        ("cancel_wait_timeout", "10"),
        ("client_login_timeout", "60"),
        ("client_tls_ciphers", "default"),
        ("client_tls_protocols", "secure"),
        ("client_tls_sslmode", "disable"),
        ("conffile", "pgbouncer.ini"),
        ("default_pool_size", "20"),
        ("disable_pqexec", "0"),
        ("dns_max_ttl", "15"),
        ("job_name", "pgbouncer"),
        ("listen_addr", ""),
        ("listen_backlog", "128"),
        ("max_client_conn", "100"),
        ("max_packet_size", "2147483647"),
        ("max_prepared_statements", "200"),
        ("pkt_buf", "4096"),
        ("pool_mode", "session"),
        ("query_wait_notify", "5"),
        ("query_wait_timeout", "120"),
        ("reserve_pool_timeout", "5"),
        ("sbuf_loopcnt", "5"),
        ("scram_iterations", "4096"),
        ("server_check_delay", "30"),
        ("server_check_query", "<empty>"),
        ("server_lifetime", "3600"),
        ("server_reset_query", "DISCARD ALL"),
        ("server_tls_sslmode", "prefer"),
        ("stats_period", "60"),
        ("suspend_timeout", "10"),
        ("syslog_facility", "daemon"),
        ("syslog_ident", "pgbouncer"),
        ("tcp_defer_accept", "1"),
        ("tcp_keepalive", "1"),
        ("tcp_user_timeout", "0"),
        ("track_extra_parameters", "IntervalStyle"),
        ("unix_socket_dir", "/tmp"),
    ];
    for (key, value) in expected {
        let row = rows.iter().find(|row| row.key == key).unwrap_or_else(|| panic!("no {key}"));
        assert_eq!(
            (row.value.as_str(), key == "conffile" || row.default.as_deref() == Some(value)),
            (value, true),
            "{key}"
        );
    }
    let fixed: Vec<_> = rows.iter().filter(|row| !row.changeable).map(|row| row.key).collect();
    assert_eq!(
        fixed,
        [
            "cluster_address",
            "cluster_ca_file",
            "cluster_cert_file",
            "cluster_etcd",
            "cluster_floor",
            "cluster_key_file",
            "cluster_lease",
            "cluster_name",
            "cluster_node",
            "cluster_password_file",
            "cluster_secrets_key_file",
            "cluster_state",
            "cluster_user",
            "core_dumps",
            "disable_pqexec",
            "io",
            "job_name",
            "listen_addr",
            "listen_backlog",
            "listen_port",
            "pidfile",
            "pkt_buf",
            "proxy_from",
            "resolv_conf",
            "so_reuseport",
            "track_extra_parameters",
            "unix_socket_dir",
            "unix_socket_group",
            "unix_socket_mode",
            "user",
            "watch_files",
            "web_address",
            "web_history",
            "web_lab",
            "web_port",
            "web_tls_cert_file",
            "web_tls_key_file",
            "workers",
        ]
    );
}

/// Every setting of PgBouncer 1.25 and of its unreleased successor.
#[test]
fn every_setting_of_pgbouncer_is_shown() {
    let names = "admin_users application_name_add_host auth_dbname auth_file auth_hba_file auth_ident_file \
        auth_ldap_options auth_query auth_type auth_user autodb_idle_timeout cancel_wait_timeout client_idle_timeout \
        client_login_timeout client_tls13_ciphers client_tls_ca_file client_tls_cert_file client_tls_ciphers \
        client_tls_dheparams client_tls_ecdhcurve client_tls_key_file client_tls_protocols client_tls_sslmode conffile \
        default_pool_size disable_pqexec dns_max_ttl dns_nxdomain_ttl dns_zone_check_period idle_transaction_timeout \
        ignore_startup_parameters job_name listen_addr listen_backlog listen_port log_connections log_disconnections \
        log_pooler_errors log_stats logfile login_notify_message max_client_conn max_db_client_connections \
        max_db_connections max_packet_size max_prepared_statements max_user_client_connections max_user_connections \
        min_pool_size peer_id pidfile pkt_buf pool_idle_timeout pool_mode query_timeout query_wait_notify \
        query_wait_timeout reserve_pool_size reserve_pool_timeout resolv_conf sbuf_loopcnt scram_iterations \
        server_check_delay server_check_query server_connect_timeout server_fast_close server_idle_timeout \
        server_lifetime server_login_retry server_reset_query server_reset_query_always server_round_robin \
        server_tls13_ciphers server_tls_ca_file server_tls_cert_file server_tls_ciphers server_tls_key_file \
        server_tls_protocols server_tls_sslmode so_reuseport stats_period stats_users suspend_timeout syslog \
        syslog_facility syslog_ident tcp_defer_accept tcp_keepalive tcp_keepcnt tcp_keepidle tcp_keepintvl \
        tcp_socket_buffer tcp_user_timeout track_extra_parameters transaction_timeout unix_socket_dir \
        unix_socket_group unix_socket_mode user verbose";
    let rows = show(&with(""));
    for name in names.split_whitespace() {
        assert!(rows.iter().any(|row| row.key == name), "{name}");
    }
}

#[test]
fn values_are_read_as_c_reads_them() {
    let config = with(
        "default_pool_size = 0x10\nmax_client_conn = 010\nserver_lifetime = 1e3\nquery_wait_timeout = 2.5\n\
         log_stats = no\nlog_connections = 2\nunix_socket_mode = 511\nserver_check_query =\nauth_file =\n\
         pool_mode = Statement\ntcp_user_timeout = 1500\nlisten_addr = localhost, ::1",
    );
    assert_eq!((config.limits.size, config.max_clients), (16, 8));
    assert_eq!(config.limits.server_lifetime, Span::from_secs(1_000));
    assert_eq!(config.limits.query_wait_timeout, Span::from_millis(2_500));
    assert!(!config.log.stats && config.log.connections);
    assert_eq!((config.listen.unix_socket_mode, config.policy.check_query, config.auth.file), (0o777, None, None));
    assert_eq!((config.policy.mode, config.listen.addresses.len()), (PoolMode::Statement, 2));
    assert_eq!(config.listen.keepalive.user_timeout, Span::from_millis(1_500));
}

#[test]
fn zeroes_mean_what_they_mean_there() {
    let config = read(
        "[databases]\na = host=db pool_size=0 server_lifetime=0 min_pool_size=-1\n[pgbouncer]\ndefault_pool_size=0\n\
         reserve_pool_timeout=0",
    );
    let pool = &config.pools["a"];
    assert_eq!((pool.limits.size, pool.limits.server_lifetime, pool.limits.min_size), (0, Span::ZERO, 0));
    assert_eq!(weir_config::max_servers(&config), 0);
}

#[test]
fn the_last_of_equal_keys_counts() {
    let config = read("[databases]\na = host=one port=1\na = host=two\n[pgbouncer]\nlisten_port = 1\nlisten_port = 2");
    assert_eq!((config.listen.port, config.pools["a"].target()), (2, &target("two", 5432)));
    let remarks: Vec<_> = config.remarks.iter().map(|remark| (&remark.key[..], &remark.text[..])).collect();
    assert_eq!(
        remarks,
        [
            ("pools.a", "\"a\" is in line 2, too, and the last one counts, as in PgBouncer"),
            ("listen.port", "\"listen_port\" is in line 5, too, and the last one counts, as in PgBouncer"),
        ]
    );
}

#[test]
fn a_negative_number_counts_as_the_least_and_is_warned_of() {
    let config = with("max_client_conn = -1\ndefault_pool_size = 5");
    assert_eq!(config.max_clients, 1);
    let remarks: Vec<_> = config.remarks.iter().map(|remark| (&remark.key[..], &remark.text[..])).collect();
    assert_eq!(remarks, [("general.max_clients", "max_client_conn = -1 counts as 1, the least that it may be")]);
}

#[test]
fn a_further_main_section_begins_with_the_defaults() {
    let config = with("listen_port = 1\nauth_file = users.txt\n[databases]\n[pgbouncer]\nmax_client_conn = 5");
    assert_eq!((config.listen.port, config.max_clients), (6432, 5));
    assert!(config.auth.file.is_some());
    assert!(config.remarks[0].text.contains("begins again in line 5"));
}

#[test]
fn comments_and_quotes_are_pgbouncers() {
    let config = read("# one\n  ; two\n[databases] a = host=db\n\n[pgbouncer]\nlisten_port=1\nlogfile = 'x' # y\n");
    assert_eq!(config.log.file, Some(PathBuf::from("'x' # y")));
    assert_eq!(*config.pools["a"].target(), target("db", 5432));
}

#[test]
fn without_a_host_it_is_the_unix_socket() {
    let config = read("[databases]\na =\nb = port=5433\n[pgbouncer]\nunix_socket_dir = /run/pooler");
    assert_eq!(*config.pools["a"].target(), target("/run/pooler", 5432));
    assert_eq!(*config.pools["b"].target(), target("/run/pooler", 5433));
}

#[test]
fn hosts_may_be_many_and_ports_one_for_each() {
    let config = read("[databases]\na = host=one,/run/two port=1,2 target_session_attrs=primary\n[pgbouncer]");
    assert_eq!(config.pools["a"].targets, [target("one", 1), target("/run/two", 2)]);
    assert_eq!(config.pools["a"].session_attrs, SessionAttrs::Primary);
}

#[test]
fn included_files_are_read_in_their_place_and_named_in_errors() {
    let files =
        [("more.ini", "listen_port = 7\n[databases]\na = host=db\n%include deep.ini"), ("deep.ini", "\nb = hst=x")];
    let error = load_ini("[pgbouncer]\n%include more.ini\n", &files).unwrap_err();
    assert_eq!(
        error.to_string(),
        "deep.ini:2: unrecognized connection parameter \"hst\" in database b; did you mean \"host\"?"
    );
    let files = [files[0], ("deep.ini", "b = host=x")];
    let config = load_ini("[pgbouncer]\n%include more.ini\nc = host=y\n", &files).unwrap();
    assert_eq!((config.listen.port, config.pools.len()), (7, 3));
    let location = config.locations.get("pools.b").unwrap();
    assert_eq!((location.file.as_deref(), location.line), (Some(Path::new("deep.ini")), 1));
    assert_eq!(config.locations.get("pools.c").unwrap().file, None);
}

#[test]
fn files_that_include_themselves_end() {
    let files = [("self.ini", "%include self.ini\n%include self.ini\n")];
    let error = load_ini("[pgbouncer]\n%include self.ini", &files).unwrap_err().to_string();
    assert!(error.starts_with("self.ini:1: include nesting level too deep"), "{error}");
}

#[test]
fn rules_are_read_with_type_hba_and_their_lines_are_named() {
    let text = "[pgbouncer]\nauth_type = hba\nauth_hba_file = /etc/hba\nauth_ident_file = ident";
    let (hba, ident) =
        (("/etc/hba", "local all all peer map=m\nhost all @names 10.0.0.0/8 md5\n"), ("ident", "m a b\n"));
    let config = load_ini(text, &[hba, ident, ("/etc/names", "bob\n")]).unwrap();
    assert_eq!(config.auth.hba.as_ref().map(|hba| hba.rules().len()), Some(2));
    assert!(config.auth.ident.allows("m", "a", "b"));
    let oauth = "[pgbouncer]\nauth_type = oauth\nauth_ident_file = ident\n\
                 auth_oauth_options = issuer=\"https://idp\" scope=\"a b\" audience=c map=m";
    let config = load_ini(oauth, &[ident]).unwrap();
    assert!(config.auth.ident.allows("m", "a", "b") && config.auth.oauth.unwrap().scopes().eq(["a", "b"]));
    let error = |files: &[(&str, &str)]| load_ini(text, files).unwrap_err().to_string();
    assert!(error(&[("/etc/hba", "\nlocal all all\n"), ident]).starts_with("/etc/hba:2: METHOD"), "{}", error(&[hba]));
    assert!(error(&[("/etc/hba", "local all all peer map=x"), ident]).starts_with("/etc/hba:1: "));
    assert!(error(&[hba]).starts_with("pgbouncer.ini:4: the file of rules ident can't be read"));
    let error = load_ini("[pgbouncer]\nauth_type = hba", &[]).unwrap_err().to_string();
    assert_eq!(
        error,
        "pgbouncer.ini:2: type hba needs a file of rules; name the file of rules as auth_hba_file, or use another type"
    );
    assert!(with("auth_type = md5\nauth_hba_file = gone").auth.hba.is_none());
}

#[test]
fn a_resolv_conf_that_cannot_be_read_is_a_warning() {
    let remarks = |path: &str| {
        let text = format!("[pgbouncer]\nlisten_addr = 127.0.0.1\nresolv_conf = {path}\n");
        load_ini(&text, &[("/etc/other", "")]).unwrap().remarks
    };
    let found = remarks("/nope");
    assert_eq!((found.len(), found[0].key.as_str()), (1, "dns.resolv_conf"));
    assert!(found[0].text.starts_with("resolv_conf /nope can't be read: "), "{}", found[0].text);
    assert!(remarks("/etc/other").is_empty() && remarks("").is_empty());
}

#[test]
fn a_missing_user_file_is_lived_with() {
    let config = load_ini("[pgbouncer]\nauth_file = gone.txt", &[]).unwrap();
    assert!(config.auth.users.is_empty());
    assert_eq!(config.remarks[0].text, "could not open auth_file gone.txt: No such file or directory");
    let facts = HostLimits { descriptors: 10_000, cores: 1 };
    assert!(review(&config, &facts).iter().all(|finding| finding.severity < Severity::Error));
}

#[test]
fn the_files_of_the_distribution_are_read() {
    for name in ["/etc/pgbouncer/pgbouncer.ini", "/usr/share/doc/pgbouncer/examples/pgbouncer.ini"] {
        // PgBouncer is not always installed, and its file not always readable.
        let Ok(text) = std::fs::read_to_string(name) else { continue };
        let config = weir_config::load(
            Path::new(name),
            &|path| if path == Path::new(name) { Ok(text.clone()) } else { std::fs::read_to_string(path) },
            &|_| None,
        );
        let config = config.unwrap_or_else(|e| panic!("{e}"));
        assert_eq!((config.auth.method, config.listen.port), (Method::Md5, 6432));
    }
}

#[test]
fn what_a_file_is_follows_from_its_name_or_else_from_its_sections() {
    let load = |name: &str, text: &str| {
        weir_config::load(Path::new(name), &|_| Ok(text.to_owned()), &|_| None).map(|config| config.format)
    };
    assert_eq!(load("pooler.conf", "; mine\n[databases]\n[pgbouncer]\n"), Ok(FileFormat::Ini));
    assert_eq!(load("pooler.conf", "[auth.users]\na = \"b\"\n"), Ok(FileFormat::Toml));
    assert!(load("weir.toml", "[databases]\n[pgbouncer]\n").is_err());
}

#[test]
fn no_text_of_the_whole_holds_a_secret() {
    let config = read(SITE);
    let facts = HostLimits { descriptors: 100, cores: 1 };
    let all = format!("{config:?} {:?} {:?}", show(&config), review(&config, &facts));
    assert!(!all.contains("a secret"), "{all}");
}

#[test]
fn each_number_and_time_that_pgbouncer_takes_is_taken() {
    let rows = show(&with(""));
    let settings = rows.iter().filter_map(|row| Some((row.key, describe(row.key)?)));
    let settings: Vec<_> = settings.filter(|(_, about)| ["number", "size", "time"].contains(&about.kind)).collect();
    assert!(settings.len() > 40, "{}", settings.len());
    for (key, about) in settings {
        // A port and a peer that do not exist stop PgBouncer too.
        let most = if key.ends_with("_port") || key == "peer_id" { "0x3fff" } else { "2147483647" };
        for value in ["0x10", "010", "10", "+10", "1", most] {
            let text = format!("[pgbouncer]\n{key} = {value}\n");
            let config = weir_config::load(Path::new("pgbouncer.ini"), &|_| Ok(text.clone()), &|_| None);
            assert!(config.is_ok(), "{key} = {value}: {}", config.err().map(|e| e.to_string()).unwrap_or_default());
        }
        assert!(!about.description.is_empty());
    }
    assert_eq!(
        (with("verbose = 10").log.verbose, with("max_packet_size = 2147483647").max_packet_size),
        (9, 0x7fff_ffff)
    );
    assert_eq!(with("query_timeout = 0x10").limits.query_timeout, Span::from_secs(16));
}
