//! The findings of `weir check`.

use weir_config::{ConfigFinding, HostLimits, Severity, max_servers, review};

use crate::common::load_with;

const FACTS: HostLimits = HostLimits { descriptors: 20_000, cores: 2 };
const LOGIN: &str = "[auth.users]\napp = \"secret\"\n";
const POOL: &str = "[pools.app]\nhost = \"db\"\nuser = \"app\"\npassword = \"secret\"\n";

fn findings(text: &str, facts: HostLimits) -> Vec<ConfigFinding> {
    let config = load_with(text, &[("users", "\"a\" \"x\"\n\"a\" \"y\"\n")], &[]).unwrap_or_else(|e| panic!("{e}"));
    review(&config, &facts)
}

/// The findings that are more than a note, as lines.
fn complaints(text: &str) -> Vec<String> {
    complaints_given(text, FACTS)
}

fn complaints_given(text: &str, facts: HostLimits) -> Vec<String> {
    let found = findings(text, facts).into_iter().filter(|f| f.severity > Severity::Note);
    found.map(|f| format!("{}: {}: {}", f.line.unwrap_or(0), f.severity, f.message())).collect()
}

fn notes(text: &str, facts: HostLimits) -> Vec<String> {
    findings(text, facts).into_iter().filter(|f| f.severity == Severity::Note).map(|f| f.message()).collect()
}

#[test]
fn what_was_understood_is_said() {
    let text =
        format!("{LOGIN}{POOL}[pools.own]\nhost = \"::1\"\nmode = \"session\"\n[listen]\nunix_socket_dir = \"/run\"");
    assert_eq!(
        notes(&text, FACTS),
        [
            "listens on 127.0.0.1:6432",
            "listens on /run/.s.PGSQL.6432",
            "1 user, login by scram-sha-256",
            "pool app: database app at db:5432 as user app, auto mode, at most 20 servers",
            "pool own: database own at [::1]:5432 as each client's own user, session mode, for each user at most 20 \
             servers",
            "10000 clients, 40 servers and 304 others fit into 20000 open files",
        ]
    );
    assert_eq!(complaints(&text), [""; 0]);
    let open = "API and panel on http://127.0.0.1:8432: every user of this machine may change pools, until one is in [web.users]";
    let web = |more: &str| notes(&format!("{text}\n[web]\naddress = \"127.0.0.1\"\n{more}"), FACTS);
    assert!(web("").contains(&open.to_owned()));
    let hash = "viewer sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    assert!(!web(&format!("[web.tokens]\nann = \"{hash}\"")).contains(&open.to_owned()));
}

#[test]
fn a_pool_of_each_clients_user_counts_once_a_user() {
    let text = "[auth.users]\na = \"x\"\nb = \"x\"\n[pools.p]\nhost = \"db\"\nsize = 3\nreserve_size = 1\n";
    assert_eq!(max_servers(&load_with(text, &[], &[]).unwrap()), 8);
}

#[test]
fn pools_of_one_user_open_no_more_together_than_the_user_may_have() {
    let pools = "[pools.a]\nhost = \"db\"\nuser = \"u\"\nsize = 9\n[pools.b]\nhost = \"db\"\nuser = \"u\"\nsize = 9\n\
                 [pools.c]\nhost = \"db\"\nuser = \"v\"\nsize = 3\n";
    let users = "[auth.users]\na = \"x\"\n";
    let most = |text: &str| max_servers(&load_with(&format!("{text}{users}{pools}"), &[], &[]).unwrap());
    assert_eq!(most(""), 21);
    assert_eq!(most("[general]\nmax_user_connections = 5\n"), 5 + 3);
    assert_eq!(most("[users.u]\nmax_user_connections = 10\n"), 10 + 3);
}

#[test]
fn descriptors_that_do_not_suffice_are_named_with_what_will_be_served() {
    let facts = HostLimits { descriptors: 1024, cores: 2 };
    let advice = "10000 clients and 20 servers need 10212 open files, and 1024 are allowed: at most 812 clients \
                  will be served; raise the limit (ulimit -n, in systemd LimitNOFILE)";
    let text = format!("{LOGIN}{POOL}");
    assert!(notes(&text, facts).iter().any(|note| note == advice), "the default is a wish, not a demand");
    assert_eq!(complaints_given(&text, facts), [""; 0]);
    let text = format!("{text}[general]\nmax_clients = 10000");
    assert_eq!(complaints_given(&text, facts), [format!("8: warning: {advice}")]);
    assert_eq!(
        complaints_given(&text, HostLimits { descriptors: 80, cores: 2 }),
        ["0: error: 20 servers alone need more than the 80 files that may be open; raise the limit (ulimit -n, in \
             systemd LimitNOFILE), or lower the pools' sizes"]
    );
}

#[test]
fn logins_that_cannot_succeed_are_found() {
    let md5 = "md5".to_owned() + &"0".repeat(32);
    let text = format!("[auth.users]\na = \"{md5}\"\nb = \"\"\nc = \"md5 is my password\"\n{POOL}");
    assert_eq!(
        complaints(&text),
        [
            "1: warning: user b without a secret can't log in; give a password or a SCRAM secret",
            "1: warning: user a with an md5 secret can't log in with type scram-sha-256; give a password or a SCRAM \
             secret",
        ]
    );
    assert_eq!(
        complaints(&format!("[auth]\ntype = \"trust\"\n{POOL}")),
        ["1: warning: no users are listed, so nobody can log in, but for the console over the Unix socket; \
             that holds for trust too; name a file of users as \"file\" in [auth], or list them in [auth.users]"]
    );
    assert_eq!(
        complaints(&format!("[auth]\nfile = \"users\"\n{POOL}[general]\nadmin_users = [\"root\"]")),
        [
            "2: warning: user a is listed again in line 2 of the users, and the last entry counts; keep one of them",
            "8: warning: user root may use the console, but is not listed, so can't log in; add the user, with a \
             secret, to the list of users",
        ]
    );
}

#[test]
fn many_users_are_not_all_listed() {
    let users: String = (1..=7).map(|n| format!("u{n} = \"\"\n")).collect();
    assert_eq!(
        complaints(&format!("[auth.users]\n{users}{POOL}")),
        ["1: warning: users u1, u2, u3, u4, u5 and 2 more without a secret can't log in; give a password or a SCRAM \
          secret"]
    );
}

#[test]
fn open_doors_are_found() {
    let with = |method: &str, address: &str| {
        let text = format!("[auth]\ntype = \"{method}\"\n{LOGIN}{POOL}[listen]\naddress = \"{address}\"");
        complaints(&text)
    };
    assert_eq!(
        with("trust", "*"),
        [
            "2: warning: type trust on 0.0.0.0: every client that reaches it may log in as any listed user; choose a type \
             with passwords, as scram-sha-256, or listen on 127.0.0.1 only"
        ]
    );
    assert_eq!(
        with("plain", "::"),
        [
            "2: warning: type plain on ::: passwords cross the network as they are; require TLS of clients, or listen on \
          127.0.0.1 only"
        ]
    );
    assert_eq!(with("trust", "127.0.0.1"), [""; 0]);
    assert_eq!(with("md5", "*"), [""; 0]);
}

#[test]
fn a_pool_whose_server_is_weir_itself_is_found() {
    let with = |listen: &str, host: &str| {
        complaints(&format!("{LOGIN}[pools.app]\nhost = \"{host}\"\nport = 6432\nuser = \"app\"\n[listen]\n{listen}"))
    };
    let found = |shown: &str| {
        format!(
            "3: warning: [pools.app] has Weir's own address {shown}:6432 as its server: Weir would wait for itself; give the \
             host and the port of PostgreSQL"
        )
    };
    assert_eq!(with("", "127.0.0.1"), [found("127.0.0.1")]);
    assert_eq!(with("", "localhost"), [found("localhost")]);
    assert_eq!(with("address = \"*\"", "127.0.0.1"), [found("127.0.0.1")]);
    assert_eq!(with("", "10.0.0.7"), [""; 0]);
    assert_eq!(with("port = 7000", "127.0.0.1"), [""; 0]);
}

#[test]
fn pools_that_cannot_log_in_are_found() {
    let with = |lines: &str| complaints(&format!("{LOGIN}[pools.app]\nhost = \"db\"\n{lines}"));
    assert_eq!(
        with("password = \"x\""),
        ["3: warning: the password of [pools.app] has no effect without a user; give the user, too, or remove it"]
    );
    assert_eq!(
        with("user = \"other\""),
        ["3: warning: [pools.app] has no password, so the server must admit user other without one; give the \
          password of that user at the server"]
    );
    assert_eq!(with("user = \"app\""), [""; 0], "the listed password is used");
    // The keys of a client's SCRAM login are as good; no other method provides them.
    let scram = |method: &str| {
        let verifier = "SCRAM-SHA-256$4096:AAAAAAAAAAAAAAAAAAAAAA==$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:\
                        AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
        complaints(&format!(
            "[auth]\ntype = \"{method}\"\nusers = {{ app = \"{verifier}\" }}\n[pools.app]\nhost = \"db\"\nuser = \"app\""
        ))
    };
    assert_eq!(scram("scram-sha-256"), [""; 0]);
    assert!(scram("trust").iter().any(|line| line.contains("must admit user app without one")), "{:?}", scram("trust"));
    assert_eq!(
        complaints("[auth]\ntype = \"trust\"\nusers = { app = \"\" }\n[pools.app]\nhost = \"db\""),
        ["4: warning: [pools.app] has neither user nor password, and type trust learns none: the server must admit \
             each user without one; give the pool a user and a password, or choose a type with passwords"]
    );
}

#[test]
fn what_has_no_effect_is_said() {
    let with = |lines: &str| complaints(&format!("{LOGIN}{POOL}{lines}"));
    assert_eq!(
        with("size = 2\nmin_size = 5"),
        ["8: warning: min_size 5 of [pools.app] is more than its size: at most 2 are opened; lower the \
          one, or raise the other"]
    );
    assert_eq!(
        with("reserve_timeout = 3\nmode = \"session\"\nmax_prepared_statements = 10"),
        [
            "7: warning: reserve_timeout of [pools.app] has no effect: reserve_size is 0",
            "9: warning: max_prepared_statements of [pools.app] has no effect: in session mode a client's statements \
             are its server's",
        ]
    );
    assert_eq!(
        with("query_wait_notify = 9\nreserve_size = 1\nreserve_timeout = 9\nquery_wait_timeout = 9"),
        [
            "9: warning: reserve_timeout of [pools.app] has no effect: query_wait_timeout is over before it",
            "7: warning: query_wait_notify of [pools.app] has no effect: query_wait_timeout is over before it",
        ]
    );
    assert_eq!(
        with("mode = \"statement\"\ntransaction_timeout = 9"),
        ["8: warning: transaction_timeout of [pools.app] has no effect: in statement mode there are no transactions \
             of several statements"]
    );
    assert_eq!(
        with("[listen]\nunix_socket_mode = \"0700\"\n[general]\nworkers = 4"),
        [
            "10: warning: 4 workers share 2 cores; more workers than cores cost time",
            "8: warning: unix_socket_mode has no effect without unix_socket_dir; set unix_socket_dir, or remove it",
        ]
    );
    assert_eq!(
        with("[servers.main]\nmax_connections = 9"),
        ["8: warning: [servers.main] has no effect: no pool names it as its server; write server = \"main\" in the \
          pools that share its connections, or remove it"]
    );
    assert_eq!(
        complaints(LOGIN),
        ["0: warning: there are no pools: only the console can be reached; write [pools.NAME], and its host below it"]
    );
}

#[test]
fn what_needs_the_api_is_named_where_there_is_none() {
    let with = |lines: &str| complaints(&format!("{LOGIN}{POOL}{lines}"));
    let said = |name: &str| {
        format!("8: warning: {name} has no effect without the API; set address in [web], as in \"127.0.0.1\"")
    };
    assert_eq!(with("[alerts]\nslack = \"file:/etc/slack\""), [said("slack")]);
    assert_eq!(with("[telemetry]\notlp_endpoint = \"http://10.0.0.1:4318\""), [said("otlp_endpoint")]);
    assert_eq!(with("[alerts]\nclients_waiting = 3"), [""; 0]);
}

#[test]
fn shares_without_a_server_and_a_guarantee_beyond_the_size_are_found() {
    let with = |lines: &str| complaints(&format!("{LOGIN}{POOL}{lines}"));
    assert_eq!(
        with("weight = 2"),
        ["7: warning: weight of [pools.app] has no effect: the pool has no server, whose connections it could share"]
    );
    assert_eq!(
        with("size = 4\nserver = \"s\"\nguaranteed_connections = 5\n[servers.s]\nmax_connections = 9"),
        [
            "9: warning: guaranteed_connections 5 of [pools.app] is more than the 4 that it may open; lower it, or raise size"
        ]
    );
    assert_eq!(with("size = 0\nserver = \"s\"\n[servers.s]\nmax_connections = 9"), [""; 0], "there is another limit");
    assert_eq!(
        with(
            "server = \"s\"\n[pools.b]\nhost = \"db\"\nuser = \"u\"\npassword = \"p\"\nserver = \"s\"\n\
              guaranteed_connections = 3\n[servers.s]\nmax_connections = 3"
        ),
        [
            "7: warning: [pools.app] gets no server while others keep theirs: all of server s are guaranteed; guarantee it some, \
          too, or others less"
        ]
    );
}

#[test]
fn a_pool_without_a_limit_is_found_with_what_to_write() {
    let with = |lines: &str| complaints(&format!("{LOGIN}{POOL}{lines}"));
    assert_eq!(
        with("size = 0"),
        ["7: warning: [pools.app] may open any number of servers: size = 0 is no limit; write the number of server \
          connections that it may have, as in size = 20"]
    );
    assert_eq!(with("size = 0\nmax_db_connections = 9"), [""; 0], "there is another limit");
    assert_eq!(with("size = 0\n[users.app]\nmax_user_connections = 9"), [""; 0], "there is another limit");
    let found = of_ini("[databases]\na = host=x user=u password=p pool_size=0\n[pgbouncer]\nauth_file = users.txt\n");
    let found: Vec<_> = found.into_iter().filter(|f| f.severity > Severity::Note).map(|f| f.message()).collect();
    assert_eq!(
        found,
        [
            "database a may open any number of servers: pool_size = 0 is no limit; write the number of server connections \
          that it may have, as in pool_size = 20"
        ]
    );
}

#[test]
fn a_unix_socket_whose_path_is_too_long_is_found() {
    let with = |length: usize| {
        let folder = "x".repeat(length - "/".len() - "/.s.PGSQL.6432".len());
        complaints(&format!("{LOGIN}{POOL}[listen]\nunix_socket_dir = \"/{folder}\""))
    };
    assert_eq!(with(107), [""; 0]);
    assert_eq!(
        with(108),
        [
            "8: error: the path of the Unix socket has 108 bytes, and Linux takes 107; set unix_socket_dir to a folder with \
          a shorter path"
        ]
    );
}

#[test]
fn names_that_are_longer_than_postgresqls_are_found() {
    let long = "x".repeat(80);
    let begin = "x".repeat(20);
    let at_server = format!("a name of 80 bytes, and PostgreSQL's have at most 63: \"{begin}…\"");
    let pool = |name: &str, lines: &str| {
        complaints(&format!("{LOGIN}[pools.{name}]\nhost = \"db\"\nuser = \"app\"\npassword = \"x\"\n{lines}"))
    };
    assert_eq!(
        pool(&long, ""),
        [format!("3: warning: the database of [pools.{long}] is {at_server}; give its name at the server as database")]
    );
    assert_eq!(pool(&long, "database = \"app\""), [""; 0], "clients alone use the pool's name");
    assert_eq!(pool(&"x".repeat(63), ""), [""; 0]);
    assert_eq!(
        complaints(&format!("[auth.users]\n{long} = \"secret\"\n{POOL}")),
        [format!(
            "1: warning: a user is {at_server}; shorten it: a pool may name another user for its own logins at the server"
        )]
    );
}

#[test]
fn a_finding_has_its_setting_and_what_to_do_apart_from_its_text() {
    let found = findings(&format!("{LOGIN}{POOL}size = 0"), FACTS);
    let found = found.iter().find(|finding| finding.severity == Severity::Warning).unwrap();
    assert_eq!(found.key.as_deref(), Some("pools.app.size"));
    let help = "write the number of server connections that it may have, as in size = 20";
    assert_eq!(found.help.as_deref(), Some(help));
    assert_eq!(found.message(), format!("{}; {help}", found.text));
}

const SITE: &str = include_str!("../samples/site.ini");

fn of_ini(text: &str) -> Vec<ConfigFinding> {
    let config = crate::common::load_ini(text, &[("users.txt", "\"asker\" \"x\"\n")]).unwrap_or_else(|e| panic!("{e}"));
    review(&config, &FACTS)
}

#[test]
fn what_was_understood_of_an_ini_is_said() {
    let found = of_ini(SITE);
    let notes: Vec<_> = found.iter().filter(|f| f.severity == Severity::Note).map(|f| f.text.as_str()).collect();
    assert_eq!(
        notes,
        [
            "listens on 0.0.0.0:6432",
            "listens on [::]:6432",
            "listens on /var/run/postgresql/.s.PGSQL.6432",
            "clients: TLS prefer, 9 cipher suites",
            "servers: TLS verify-full, 3 cipher suites",
            "1 user from users.txt, login by scram-sha-256",
            "users who are not listed are asked for in database app, as user asker",
            "at most 100 servers of a user",
            "2 users with rules of their own: batch, web app",
            "pool app: database app_production at 10.1.0.5:5432 as each client's own user, transaction mode, for each \
             user at most 40 servers",
            "pool app_ro: database app_production at 10.1.0.6:5432,10.1.0.7:5432 as each client's own user, statement \
             mode, for each user at most 25 servers",
            "pool legacy: database legacy at db.example.com:5432 as each client's own user, transaction mode, for each \
             user at most 25 servers",
            "pool odd name: database odd name at db.example.com:5432 as each client's own user, transaction mode, for \
             each user at most 25 servers",
            "pool reports: database reports at /var/run/postgresql:5432 as user reporter, transaction mode, at most 25 \
             servers",
            "any other pool: the database that the client names at fallback.example.com:6543 as each client's own user, \
             transaction mode, for each user at most 25 servers",
            "5000 clients, 145 servers and 304 others fit into 20000 open files",
            "line 66: pkt_buf has no effect: connections hold no buffer between messages, and a worker reads with one \
             that is large enough",
            "line 67: sbuf_loopcnt has no effect: each connection gets one read per iteration, so that all are served",
        ]
    );
    let troubles: Vec<_> = found.iter().filter(|f| f.severity > Severity::Note).map(|f| f.text.as_str()).collect();
    assert_eq!(troubles, ["not supported in client_tls_ciphers: MEDIUM; left: 9 cipher suites"]);
}

#[test]
fn an_ini_that_pgbouncer_would_serve_has_no_errors() {
    for text in
        ["[pgbouncer]\n", "[pgbouncer]\nauth_type=cert\n", "[databases]\na=\n[pgbouncer]\nmax_client_conn=99999\n"]
    {
        let found = of_ini(text);
        assert!(found.iter().all(|finding| finding.severity < Severity::Error), "{found:?}");
        assert!(found.iter().any(|finding| finding.severity == Severity::Warning), "{found:?}");
    }
}

#[test]
fn doors_of_other_types_are_looked_at() {
    let warned = |lines: &str| {
        let found = of_ini(&format!("[databases]\na = host=x\n[pgbouncer]\nauth_file = users.txt\n{lines}"));
        found.into_iter().filter(|f| f.severity > Severity::Note).map(|f| f.text).collect::<Vec<_>>()
    };
    assert_eq!(
        warned("auth_type = any\nlisten_addr = *"),
        [
            "type any on 0.0.0.0: every client that reaches it may log in",
            "database a has no user, which type any needs: nobody can log in there",
        ]
    );
    assert_eq!(warned("auth_hba_file = x"), ["auth_hba_file has no effect: type is md5, not hba"]);
    assert_eq!(
        warned("auth_type = cert"),
        ["type cert needs client_tls_sslmode verify-full: no certificate is asked for, so nobody can log in"]
    );
    assert_eq!(warned("server_tls_protocols = all"), ["TLS 1.0 and TLS 1.1 are not supported; TLS 1.2 and 1.3 are"]);
}

#[test]
fn an_api_that_others_reach_wants_encryption_and_logins() {
    let hash = "0".repeat(64);
    let errors = |address: &str, more: &str| {
        let text = format!(
            "[auth]\ntype = \"trust\"\n[pools.app]\nhost = \"h\"\nuser = \"app\"\n[web]\naddress = \"{address}\"\n{more}"
        );
        let config = load_with(&text, &[], &[]).unwrap();
        let findings = review(&config, &HostLimits { descriptors: 100_000, cores: 1 });
        let errors = findings.into_iter().filter(|finding| finding.severity == Severity::Error);
        errors.map(|finding| finding.text).collect::<Vec<_>>()
    };
    let tls = "tls_cert_file = \"a.crt\"\ntls_key_file = \"a.key\"\n";
    let token = format!("[web.tokens]\ngrafana = \"viewer sha256:{hash}\"\n");
    assert_eq!(errors("127.0.0.1", ""), Vec::<String>::new());
    assert_eq!(errors("0.0.0.0", &format!("{tls}{token}")), Vec::<String>::new());
    for (more, named) in [("", "tls_cert_file"), (tls, "[web.users]"), (&*token, "tls_key_file")] {
        let found = errors("0.0.0.0", more);
        assert!(found.len() == 1 && found[0].contains(named), "{found:?}");
    }
}

#[test]
fn a_pool_in_transaction_mode_that_has_no_server_to_share_for_listen_is_named() {
    let of_pool = |more: &str| {
        complaints(&format!("[general]\nmode = \"transaction\"\n{LOGIN}{POOL}listen = \"shared\"\n{more}"))
    };
    let names = |more: &str, part: &str| {
        let found = of_pool(more);
        assert!(found.iter().any(|line| line.contains(part)), "{more}: {found:?}");
    };
    assert_eq!(of_pool("size = 5"), [""; 0]);
    assert_eq!(of_pool("mode = \"auto\"\nsize = 1"), [""; 0], "there a client keeps its server");
    names("size = 1", "no server to share for LISTEN, which its clients lose");
    names("max_db_connections = 9", "its servers are limited together with others'");
    names(
        "mode = \"session\"",
        "listen of [pools.app] has no effect: in this mode each client listens by its own server",
    );
    names("mode = \"statement\"", "listen of [pools.app] has no effect");
}

#[test]
fn an_address_of_both_the_panel_and_the_clients_is_found() {
    let with = |address: &str| {
        complaints(&format!("{LOGIN}{POOL}[listen]\nport = 7000\n[web]\naddress = \"{address}\"\nport = 7000\n"))
    };
    let found = with("127.0.0.1");
    assert!(found.len() == 1 && found[0].contains("error: 127.0.0.1:7000 is an address of [listen], too"), "{found:?}");
    assert_eq!(with("127.0.0.2"), [""; 0]);
}

#[test]
fn what_begins_as_a_scram_secret_and_is_none_is_named() {
    let found = complaints(&format!("[auth.users]\napp = \"SCRAM-SHA-256$4096:bad\"\n{POOL}"));
    assert!(
        found.len() == 1 && found[0].contains("user app can't log in: the text begins as a SCRAM secret"),
        "{found:?}"
    );
}

#[test]
fn more_servers_that_are_kept_than_a_database_server_takes() {
    let text = "[auth.users]\nann = \"x\"\n[servers.main]\nmax_connections = 4\n[pools.app]\nhost = \"h\"\nuser = \"u\"\n\
                server = \"main\"\nmin_size = 5\n";
    let config = load_with(text, &[], &[]).unwrap();
    let found = review(&config, &HostLimits { descriptors: 1 << 20, cores: 8 });
    let warning = found.iter().find(|found| found.key.as_deref() == Some("pools.app.min_size")).expect("a warning");
    assert_eq!(
        warning.message(),
        "min_size 5 of [pools.app] is more than max_connections 4 of server main: at most 4 are opened; lower the one, or \
         raise the other"
    );
}

#[test]
fn a_facility_of_syslog_that_is_none() {
    let text =
        "[auth.users]\nann = \"x\"\n[log]\nsyslog_facility = \"lcoal3\"\n[pools.app]\nhost = \"h\"\nuser = \"u\"\n";
    let found = review(&load_with(text, &[], &[]).unwrap(), &HostLimits { descriptors: 1 << 20, cores: 8 });
    let warning = found.iter().find(|found| found.key.as_deref() == Some("log.syslog_facility")).expect("a warning");
    assert!(
        warning.text.starts_with("syslog_facility \"lcoal3\" is none, so daemon is used: there are user, mail, "),
        "{warning}"
    );
    assert_eq!(warning.help.as_deref(), Some("did you mean \"local3\"?"));
}
