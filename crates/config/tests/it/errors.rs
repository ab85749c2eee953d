//! Each mistake gets one line: where, what, and what to do.

use std::io;
use std::path::Path;

use crate::common::load_with;

/// The message for a file with this text, without the folder.
fn error(text: &str) -> String {
    error_with(text, &[], &[])
}

fn error_with(text: &str, files: &[(&str, &str)], env: &[(&str, &str)]) -> String {
    let error = load_with(text, files, env).map(|_| ()).unwrap_err().first().to_string();
    assert!(!error.contains('\n'), "one line: {error}");
    error.replace("/etc/weir/", "")
}

/// The message for a pool `app` whose section holds these lines from line 5 on.
fn pool_error(lines: &str) -> String {
    pool_error_with(lines, &[], &[])
}

fn pool_error_with(lines: &str, files: &[(&str, &str)], env: &[(&str, &str)]) -> String {
    error_with(&format!("[auth.users]\napp = \"hush\"\n[pools.app]\nhost = \"db\"\n{lines}"), files, env)
}

#[test]
fn a_file_that_cannot_be_read() {
    let read = |_: &Path| Err(io::Error::from(io::ErrorKind::NotFound));
    let error = weir_config::load(Path::new("weir.toml"), &read, &|_| None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "weir.toml: can't be read: entity not found; give the path of a weir.toml or a \
         pgbouncer.ini"
    );
}

#[test]
fn text_that_is_no_toml() {
    assert_eq!(error("[listen]\nport 6432\n"), "weir.toml:2: the line has no \"=\"; write name = value");
    let message = pool_error("password = hush");
    assert!(message.starts_with("weir.toml:5: ") && !message.contains("hush"), "{message}");
}

#[test]
fn a_key_twice() {
    assert_eq!(pool_error("size = 1\nsize = 2"), "weir.toml:6: \"size\" is there twice; keep one of them");
    assert_eq!(
        pool_error("size = 1\npool_size = 2"),
        "weir.toml:6: \"size\" in [pools.app] is given twice; line 5 has it already; pool_size, \
         default_pool_size are other names for it"
    );
}

#[test]
fn an_unknown_key_with_a_near_one() {
    assert_eq!(pool_error("sizee = 20"), "weir.toml:5: unknown key \"sizee\" in [pools.app]; did you mean \"size\"?");
    assert_eq!(error("[log]\nverbos = 1"), "weir.toml:2: unknown key \"verbos\" in [log]; did you mean \"verbose\"?");
}

#[test]
fn an_unknown_key_without_a_near_one() {
    assert_eq!(
        error("[listen]\ncolour = 1"),
        "weir.toml:2: unknown key \"colour\" in [listen]; the keys of [listen] are listed by `weir man weir.toml`, and in \
         docs/settings.md#listen"
    );
}

#[test]
fn a_key_in_the_wrong_section() {
    assert_eq!(
        error("[listen]\nworkers = 2"),
        "weir.toml:2: unknown key \"workers\" in [listen]; \"workers\" belongs in [general]"
    );
    assert_eq!(
        pool_error("statement_memory = 1"),
        "weir.toml:5: unknown key \"statement_memory\" in [pools.app]; \"statement_memory\" belongs in [limits]"
    );
    assert_eq!(
        error("[listen]\nlisten_port = 1"),
        "weir.toml:2: unknown key \"listen_port\" in [listen]; PgBouncer's \"listen_port\" is \"port\" in [listen] here"
    );
    assert_eq!(
        error("workers = 2"),
        "weir.toml:1: key \"workers\" is outside of all sections; \"workers\" belongs in [general]"
    );
    assert_eq!(
        error("colour = 2"),
        "weir.toml:1: key \"colour\" is outside of all sections; each key belongs in a section, as in [listen]"
    );
    assert_eq!(
        error("[pools]\nsize = 2"),
        "weir.toml:2: the pool in [pools] has no name; write [pools.NAME] in its place, with the name that clients give as \
         their database"
    );
    assert_eq!(
        error("[databases.app]\nhost = \"h\""),
        "weir.toml:1: unknown section [databases.app]; PgBouncer's [databases] is [pools.NAME] here"
    );
    assert_eq!(
        error("[pgbouncer]\nlisten_port = 1"),
        "weir.toml:1: unknown section [pgbouncer]; its settings are in several sections here: `weir convert FILE.ini` \
         translates a file"
    );
    assert!(
        pool_error("sslmode = \"require\"").ends_with("; \"sslmode\" is \"mode\" here, which belongs in [tls.server]")
    );
    assert!(error("[auth]\ntype = \"scram\"").ends_with("; did you mean \"scram-sha-256\"?"));
}

#[test]
fn an_unknown_section() {
    assert_eq!(error("[pool.app]\nhost = \"h\""), "weir.toml:1: unknown section [pool.app]; did you mean [pools.app]?");
    assert_eq!(error("\n[limit]\nsize = 2"), "weir.toml:2: unknown section [limit]; did you mean [limits]?");
    assert_eq!(
        error("[colours]"),
        "weir.toml:1: unknown section [colours]; there are [general], [listen], [auth], [tls.client], \
         [tls.server], [dns], [process], [web], [web.oidc], [cluster], [alerts], [telemetry], [log], [limits], \
         [users.NAME], [peers.NUMBER], [servers.NAME], [pools.NAME]"
    );
}

#[test]
fn a_section_that_is_something_else() {
    assert_eq!(
        error("listen = 6432"),
        "weir.toml:1: \"listen\" must be a section; write [listen] on a line of its own, and its keys below it"
    );
    assert_eq!(
        error("[[pools]]\nname = \"app\""),
        "weir.toml:1: \"pools\" must be a section; write [pools.NAME] on a line of its own, and its keys below it"
    );
    assert_eq!(
        error("[pools]\napp = \"db\""),
        "weir.toml:2: \"app\" in [pools] must be a section; write [pools.NAME] on a line of its own, and its keys \
         below it"
    );
}

#[test]
fn a_value_of_the_wrong_type() {
    assert_eq!(
        pool_error("size = \"20\""),
        "weir.toml:5: \"size\" in [pools.app] must be a whole number from 0 to 1000000, not text; the default \
         is size = 20"
    );
    assert_eq!(
        pool_error("query_timeout = true"),
        "weir.toml:5: \"query_timeout\" in [pools.app] must be a time from 0 to 36500d, as in 5, \"500ms\" or \"2min\", \
         not true or false; the default is query_timeout = \"0\""
    );
    assert_eq!(
        error("[log]\nstats = 1"),
        "weir.toml:2: \"stats\" in [log] must be true or false, not a whole number; the default is stats = true"
    );
    assert_eq!(
        pool_error("user = 7"),
        "weir.toml:5: \"user\" in [pools.app] must be text in quotes, not a whole number"
    );
    assert_eq!(
        pool_error("password = 7"),
        "weir.toml:5: \"password\" in [pools.app] must be text in quotes, not a whole number"
    );
    assert_eq!(
        error("[general]\nadmin_users = [1]"),
        "weir.toml:2: \"admin_users\" in [general] must be a list of names, as in [\"one\", \"two\"], not a list"
    );
    assert_eq!(
        pool_error("[pools.app.size]\n"),
        "weir.toml:5: \"size\" in [pools.app] must be a whole number from 0 to 1000000, not a section; the \
         default is size = 20"
    );
}

#[test]
fn a_value_out_of_range() {
    assert_eq!(
        pool_error("size = 1000001"),
        "weir.toml:5: \"size\" in [pools.app] must be a whole number from 0 to 1000000, not 1000001; the default is \
         size = 20"
    );
    assert_eq!(
        pool_error("size = -1"),
        "weir.toml:5: \"size\" in [pools.app] must be a whole number from 0 to 1000000, not -1; the default is size = 20"
    );
    assert_eq!(
        error("[listen]\nport = 70000"),
        "weir.toml:2: \"port\" in [listen] must be a whole number from 1 to 65535, not 70000; the default \
         is port = 6432"
    );
    assert_eq!(
        error("[listen]\nunix_socket_mode = 777"),
        "weir.toml:2: \"unix_socket_mode\" in [listen] must be permission bits from \"0000\" to \"0777\", in octal, \
         not 1411; the default is unix_socket_mode = \"0777\""
    );
    assert_eq!(
        error("[limits]\nstatement_memory = \"1kB\""),
        "weir.toml:2: \"statement_memory\" in [limits] must be a size from 1MiB to 1024GiB, as in \"256MiB\", \
         not \"1kB\"; the default is statement_memory = \"256MiB\""
    );
    assert_eq!(
        error("[general]\nstats_period = \"1 week\""),
        "weir.toml:2: \"stats_period\" in [general] must be a time from 1s to 36500d, as in 5, \"500ms\" or \"2min\", \
         not \"1 week\"; the default is stats_period = \"60s\""
    );
}

#[test]
fn an_unknown_word() {
    assert_eq!(
        pool_error("mode = \"transactoin\""),
        "weir.toml:5: \"mode\" in [pools.app] must be one of session, transaction, statement, auto, not \"transactoin\"; \
         did you mean \"transaction\"?"
    );
    assert_eq!(
        error("[auth]\ntype = \"ldap\""),
        "weir.toml:2: type ldap needs options; say where and how in ldap_options, as in ldapurl=\"ldap://HOST/BASE?uid?sub\""
    );
    assert_eq!(
        error("[auth]\ntype = \"oauth\""),
        "weir.toml:2: type oauth needs options; say which tokens in oauth_options, as in issuer=\"https://HOST\" \
         scope=\"openid\" audience=\"weir\""
    );
    let options = |text: &str| error(&format!("[auth]\ntype = \"oauth\"\noauth_options = '{text}'"));
    assert_eq!(
        options("issuer=http://idp scope=a audience=b"),
        "weir.toml:3: issuer must be an https:// address without a query; http:// only for the loopback"
    );
    assert_eq!(
        options("issuer=https://idp scope=a audience=b map=m"),
        "weir.toml:3: the ident file (auth_ident_file) has no map \"m\": add its lines there"
    );
}

#[test]
fn an_empty_value() {
    assert_eq!(pool_error("user = \"\""), "weir.toml:5: \"user\" in [pools.app] must not be empty");
    assert_eq!(
        pool_error("user = \"a\\u0000\""),
        "weir.toml:5: \"user\" in [pools.app] must not contain control characters"
    );
    assert_eq!(
        error("[general]\nadmin_users = [\"\"]"),
        "weir.toml:2: \"admin_users\" in [general] must not list an empty name"
    );
}

#[test]
fn nothing_to_listen_on() {
    assert_eq!(
        error("[listen]\naddress = []"),
        "weir.toml:2: there is nothing to listen on; give an address or a unix_socket_dir in [listen]"
    );
    assert_eq!(
        error("[listen]\naddress = \"example.com\""),
        "weir.toml:2: \"address\" in [listen] must be an address or a list of addresses, as in \
         [\"127.0.0.1\", \"::1\"] or \"*\", not \"example.com\""
    );
    assert_eq!(
        error("[listen]\nunix_socket_dir = \"@run\""),
        "weir.toml:2: unix_socket_dir names a socket without a file, which is not supported; name a folder, as in \
         /run/weir"
    );
}

#[test]
fn users_that_are_missing_or_broken() {
    assert_eq!(
        error("[listen]"),
        "weir.toml: there are no users, so nobody could log in; name a file of users as \"file\" in [auth], or list \
         them in [auth.users]"
    );
    // With the API, the first user can be created there.
    let config = load_with("[listen]\n[web]\naddress = \"127.0.0.1\"", &[], &[]).unwrap();
    assert!(config.users.is_empty());
    assert!(config.remarks[0].text.starts_with("there are no users yet"));
    // A file without any setting has the panel for that.
    for blank in ["", "# later\n", "\u{feff}\n"] {
        let config = load_with(blank, &[], &[]).unwrap();
        assert_eq!(config.web.addresses, [std::net::Ipv4Addr::LOCALHOST]);
        assert!(config.remarks[0].text.contains("http://127.0.0.1:8432/"), "{}", config.remarks[0].text);
        assert_eq!(config.remarks.len(), 1, "it is said once: {:?}", config.remarks);
    }
    assert_eq!(
        error("[auth]\nfile = \"users\""),
        "weir.toml:2: the auth file users can't be read: No such file; create it with lines of \"user\" \"secret\", or \
         change \"file\" in [auth]"
    );
    assert_eq!(
        error_with("[auth]\nfile = \"users\"", &[("users", "; who\n\"app\" hush\n")], &[]),
        "users:2: the secret must follow the user in double quotes; each line reads \"user\" \"secret\", a quote \
         within is written twice"
    );
    assert_eq!(
        error_with("[auth]\nfile = \"users\"\n[auth.users]\na = \"hush\"", &[("users", "")], &[]),
        "weir.toml:3: users are listed in a file and in [auth.users]; keep one of them"
    );
    let hint = "write [auth.users] and below it lines of name = \"secret\"";
    assert_eq!(
        error("[auth]\nusers = 1"),
        format!("weir.toml:2: \"users\" in [auth] must be a table of users and secrets; {hint}")
    );
    assert_eq!(
        error("[auth.users]\nbob = 1"),
        format!("weir.toml:2: the secret of \"bob\" in [auth.users] must be text in quotes; {hint}")
    );
    assert_eq!(
        error("[auth.users]\n\"\" = \"hush\""),
        format!("weir.toml:2: a user in [auth.users] has an empty name; {hint}")
    );
}

#[test]
fn a_pool_with_an_impossible_name() {
    let named = |name: &str| error(&format!("[auth.users]\na = \"b\"\n[pools.{name}]\nhost = \"db\""));
    for name in ["weir", "pgbouncer"] {
        assert_eq!(
            named(name),
            format!(
                "weir.toml:3: the pool name \"{name}\" is reserved for the console; choose another name; \"database\" \
                 may still be this one"
            )
        );
    }
    assert_eq!(named("\"\""), "weir.toml:3: \"\" can't be the name of a pool; use letters, digits, _ and -");
    assert_eq!(named("\"a\\nb\""), "weir.toml:3: \"a\\nb\" can't be the name of a pool; use letters, digits, _ and -");
}

#[test]
fn a_pool_without_a_usable_host() {
    let with = |lines: &str| error(&format!("[auth.users]\na = \"b\"\n[pools.app]\n{lines}"));
    assert_eq!(
        with(""),
        "weir.toml:3: [pools.app] has no host; write host = \"127.0.0.1\", or the folder of the server's socket"
    );
    assert_eq!(
        with("host = \"a,b\"\nport = [1, 2, 3]"),
        "weir.toml:5: [pools.app] has 3 ports for 2 hosts; give one port for all hosts, or one for each"
    );
    assert_eq!(
        with("host = \"db:5432\""),
        "weir.toml:4: \"host\" in [pools.app] is not a host: \"db:5432\"; write the port as \"port\", and the host \
         alone as \"host\""
    );
    assert_eq!(
        with("host = \"a b\""),
        "weir.toml:4: \"host\" in [pools.app] is not a host: \"a b\"; give an address, a name, or the folder of the \
         server's socket"
    );
}

#[test]
fn a_connection_string_is_no_host_and_is_not_repeated() {
    for host in ["postgres://app:hush@db/app", "app:hush@db", "host=db password=hush"] {
        let text = format!("[auth]\ntype = \"trust\"\n[pools.app]\nhost = \"{host}\"\n");
        assert_eq!(
            error(&text),
            "weir.toml:4: \"host\" in [pools.app] is a whole connection string; write its parts as host, port, database, \
             user and password"
        );
    }
}

#[test]
fn a_password_that_is_not_there() {
    assert_eq!(
        pool_error("password_file = \"pass\""),
        "weir.toml:5: the password file pass of [pools.app] can't be read: No such file; create it, or change \
         \"password_file\""
    );
    assert_eq!(
        pool_error_with("password_file = \"pass\"", &[("pass", "\n")], &[]),
        "weir.toml:5: the password file pass of [pools.app] is empty; write the password into it, on one line"
    );
    assert_eq!(
        pool_error_with("password_file = \"pass\"", &[("pass", "hush\nhush\n")], &[]),
        "weir.toml:5: the password file pass of [pools.app] holds more than one line; write the password into it, on \
         one line"
    );
    assert_eq!(
        pool_error("password_env = \"APP_PASSWORD\""),
        "weir.toml:5: the environment variable APP_PASSWORD of [pools.app] is not set; set it, or change \
         \"password_env\""
    );
    // What can't be a name may be the password itself.
    assert_eq!(
        pool_error("password_env = \"hush!\""),
        "weir.toml:5: \"password_env\" in [pools.app] is not the name of an environment variable; name one, of letters, \
         digits and _; a password itself is \"password\""
    );
    assert_eq!(
        pool_error_with("password_env = \"P\"", &[], &[("P", "")]),
        "weir.toml:5: the environment variable P of [pools.app] is empty; let it hold the password, on one line"
    );
    assert_eq!(
        pool_error("password = \"hush\"\npassword_env = \"P\""),
        "weir.toml:3: [pools.app] has more than one of password, password_file, password_env, password_command and \
         password_source; keep one of them"
    );
    assert_eq!(
        pool_error("user = \"u\"\npassword_command = [\"\", \"app\"]"),
        "weir.toml:6: \"password_command\" in [pools.app] must not list an empty name"
    );
    assert_eq!(
        pool_error("password_command = [\"token\"]"),
        "weir.toml:5: [pools.app] has a password_command and no user; give the user whose password it prints"
    );
    assert_eq!(
        pool_error("password_source = [\"google\"]"),
        "weir.toml:5: [pools.app] has a password_source and no user; give the user whose token it is"
    );
    assert_eq!(
        pool_error("user = \"u\"\npassword_source = [\"google\", \"acount=x\"]"),
        "weir.toml:6: \"password_source\" in [pools.app] has an unknown option, \"acount\"; google has account"
    );
    assert_eq!(
        pool_error("user = \"u\"\npassword_source = [\"vault\", \"path=database/creds/app\"]"),
        "weir.toml:6: \"password_source\" in [pools.app] names a role of Vault that makes another user for each lease; a \
         pool has one user; use a static role, \"path=database/static-creds/ROLE\""
    );
    assert_eq!(
        pool_error("user = \"u\"\npassword_source = [\"google\"]\npassword_env = \"P\""),
        "weir.toml:3: [pools.app] has more than one of password, password_file, password_env, password_command and \
         password_source; keep one of them"
    );
}

#[test]
fn an_account_is_a_role_and_a_hash_and_a_mistake_in_one_shows_no_hash() {
    let digest = "0".repeat(64);
    for (section, line) in [
        ("users", "ann = \"hush hush\"".to_owned()),
        ("users", "ann = \"boss $argon2id$hush\"".to_owned()),
        ("users", format!("ann = \"admin sha256:{digest}\"")),
        ("users", "ann = 7".to_owned()),
        ("tokens", "grafana = \"viewer $argon2id$hush\"".to_owned()),
        ("tokens", "grafana = \"viewer sha256:hush\"".to_owned()),
    ] {
        let text = format!("[auth]\ntype = \"trust\"\n[web.{section}]\n{line}\n[pools.a]\nhost = \"h\"\n");
        let error = load_with(&text, &[], &[]).map(|_| ()).unwrap_err().first().to_string();
        assert!(error.contains("weir.toml:4: ") && error.contains("weir account"), "{error}");
        assert!(!error.contains("hush"), "{error}");
    }
}

#[test]
fn shares_of_a_server_that_is_not_there_or_can_not_keep_what_it_guarantees() {
    assert_eq!(
        pool_error("server = \"main\""),
        "weir.toml:5: [pools.app] shares the connections of server \"main\", which is not there; write [servers.main], and \
         max_connections below it"
    );
    assert_eq!(
        pool_error("[servers.main]"),
        "weir.toml:5: max_connections is missing in [servers.main]; write the most connections that the server's pools \
         may have together"
    );
    let two = "server = \"main\"\nguaranteed_connections = 6\n[pools.b]\nhost = \"db\"\nserver = \"main\"\n\
               guaranteed_connections = 5\n[servers.main]\nmax_connections = 10";
    assert_eq!(
        pool_error(two),
        "weir.toml:12: the pools of server \"main\" are guaranteed 11 connections (guaranteed_connections), and \
         max_connections is 10; guarantee less, or raise max_connections if the server takes more"
    );
    let any = "[pools.\"*\"]\nhost = \"db\"\nserver = \"main\"\nguaranteed_connections = 1\n[servers.main]\nmax_connections = 10";
    assert_eq!(
        pool_error(any),
        "weir.toml:8: [pools.\"*\"] has guaranteed_connections, and any number of databases may use it; guarantee \
         connections to pools with a name; weight may be here"
    );
    assert_eq!(
        pool_error("[servers]\nmain = 5"),
        "weir.toml:6: \"main\" in [servers] must be a section; write [servers.NAME], and max_connections below it"
    );
}

#[test]
fn a_list_that_is_there_and_empty() {
    for (line, what) in [
        (
            "user = \"u\"\npassword_source = []",
            "\"password_source\" in [pools.a] names no service; write one of [\"aws-iam\"]",
        ),
        ("user = \"u\"\npassword_command = []", "\"password_command\" in [pools.a] names no program; write ["),
        ("patroni_api = []", "\"patroni_api\" in [pools.a] has no address; write http://HOST:8008"),
    ] {
        let error = error(&format!("[auth.users]\na = \"b\"\n[pools.a]\nhost = \"h\"\n{line}\n"));
        assert!(error.contains(what) && error.contains("leave it out"), "{error}");
    }
}

#[test]
fn an_unknown_state_of_health_and_an_address_with_an_impossible_port() {
    let with = |lines: &str| error(&format!("[auth.users]\na = \"b\"\n[pools.a]\nhost = \"h\"\n{lines}\n"));
    let error = with("[alerts]\nstates = [\"paused\", \"slwo\"]");
    assert!(error.contains("\"states\" in [alerts] must list words of not tried yet, healthy, waiting, "), "{error}");
    assert!(error.ends_with("\"slwo\" is none; did you mean \"slow\"?"), "{error}");
    let error = with("[cluster]\netcd = [\"http://h:99999\"]");
    assert!(error.contains("\"etcd\" in [cluster] must be a list of addresses"), "{error}");
    assert!(error.ends_with("\"http://h:99999\" is none"), "{error}");
    let error = with("[cluster]\netcd = [\"http://root:hush@h:1\"]");
    assert!(!error.contains("hush"), "{error}");
    for host in ["h:99999", "h:5432", "10.0.0.1:0"] {
        let error = error_with(&format!("[auth.users]\na = \"b\"\n[pools.a]\nhost = {host:?}"), &[], &[]);
        assert!(error.contains(host) && error.contains("write the port as \"port\""), "{error}");
    }
    let error = with("[listen]\naddress = \"127.0.0.1:99999\"");
    assert!(error.contains("\"address\" in [listen] must be an address or a list of addresses"), "{error}");
}
