//! The file's syntax: comments, includes, duplicates, quotes, and which mistakes are errors at start.

use weir_tests::users;

use crate::harness::{Difference, Setup, prepared, same};

/// Starts with a file as it is, and notes the result.
fn starts(name: &str, ini: &str) {
    starts_unless(name, ini, &[]);
}

/// Starts with a file as it is, and notes the result, with known differences.
fn starts_unless(name: &str, ini: &str, differences: &[Difference]) {
    prepared(&Setup::new(), differences, |site, facts| {
        site.write("pgbouncer.ini", ini);
        site.run();
        let outcome = if site.listens() { "listens".to_owned() } else { site.await_exit().to_string() };
        facts.note(name, outcome);
    });
}

/// A valid file, with these texts at its beginning and its end.
fn around(before: &str, after: &str) -> String {
    format!(
        "{before}\n[databases]\napp = host=127.0.0.1 port={{server}} dbname={{db}}\n\
         [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {{port}}\nunix_socket_dir = {{dir}}\n\
         auth_type = md5\nauth_file = {{dir}}/userlist.txt\n{after}\n"
    )
}

#[test]
fn comments_and_blank_lines() {
    starts("semicolons", &around("; a comment\n\n;another = one", "  ; indented\n\t\n;"));
    starts("hashes", &around("# a comment\n#another = one", "  # indented"));
    starts("carriage returns", &around("", "").replace('\n', "\r\n"));
    starts("no newline at the end", around("", "").trim_end());
    let mark = Difference::of("a byte order mark", "exit status: 1", "listens", "editors write it invisibly");
    starts_unless("a byte order mark", &format!("\u{feff}{}", around("", "")), &[mark]);
}

#[test]
fn values_are_trimmed_and_go_to_the_end_of_the_line() {
    let setup = Setup::new().tail(
        "  server_reset_query   =   DISCARD ALL ; not a comment   \nserver_check_query=select 2\nmin_pool_size\t=\t1\n",
    );
    same(&setup, |site, facts| {
        for key in ["server_reset_query", "server_check_query", "min_pool_size"] {
            facts.note(key, format!("{:?}", site.config(key)));
        }
    });
}

#[test]
fn of_duplicate_keys_the_last_wins() {
    let setup = Setup::new().tail(
        "query_timeout = 5\nquery_timeout = 6\nquery_timeout = 7\n\
         [databases]\napp = host=127.0.0.1 port={server} dbname={db} pool_size=7\n",
    );
    same(&setup, |site, facts| {
        facts.note("query_timeout", site.config("query_timeout"));
        facts.note("pool_size", site.show("DATABASES").get(0, "pool_size").unwrap_or("NULL"));
    });
}

#[test]
fn files_are_included() {
    let setup =
        Setup::new().tail("%include {dir}/more.ini\n").file("more.ini", "query_timeout = 9\n%include {dir}/dbs.ini\n");
    let setup = setup.file("dbs.ini", "[databases]\nextra = host=127.0.0.1 port={server} dbname={db}\n");
    same(&setup, |site, facts| {
        facts.note("query_timeout", site.config("query_timeout"));
        facts.login("extra", &site.params(users::APP, "extra"));
    });
}

#[test]
fn an_include_in_the_working_directory() {
    let setup = Setup::new().tail("%include more.ini\n").file("more.ini", "query_timeout = 9\n");
    same(&setup, |site, facts| facts.note("query_timeout", site.config("query_timeout")));
}

#[test]
fn what_is_wrong_is_an_error_at_start() {
    starts("a missing include", &around("", "%include {dir}/missing.ini"));
    starts("an include of itself", &around("", "%include {dir}/pgbouncer.ini"));
    starts("an unknown key", &around("", "nonsense = 1"));
    starts("an unknown section", &around("[nonsense]\nx = 1", ""));
    starts("a key before any section", &around("x = 1", ""));
    starts("an unclosed section", &around("[databases", ""));
    starts("a line without a value", &around("", "just words"));
    starts("no number", &around("", "query_timeout = soon"));
    starts("no mode", &around("", "pool_mode = perhaps"));
    starts("no auth_type", &around("", "auth_type = maybe"));
    starts("no flag", &around("", "log_connections = perhaps"));
    starts("a negative number", &around("", "default_pool_size = -1"));
    starts("an empty number", &around("", "default_pool_size ="));
    starts("an unknown directive", &around("", "%exclude x"));
    starts("a reserved database", &around("[databases]\npgbouncer = host=127.0.0.1", ""));
}

#[test]
fn odd_but_valid_files_are_accepted() {
    starts("no userlist", &around("", "auth_file = {dir}/missing.txt"));
    starts(
        "no databases",
        "[databases]\n[pgbouncer]\nlisten_addr=127.0.0.1\nlisten_port={port}\nunix_socket_dir={dir}\nauth_type=any\n",
    );
    starts(
        "nothing but an address",
        "[pgbouncer]\nlisten_addr=127.0.0.1\nlisten_port={port}\nunix_socket_dir={dir}\nauth_type=any\n",
    );
    starts(
        "capital letters",
        &around("", "").replace("[pgbouncer]", "[PgBouncer]").replace("listen_port", "LISTEN_PORT"),
    );
    let words = Difference::of("booleans as words", "exit status: 1", "listens", "their meaning is clear");
    starts_unless(
        "booleans as words",
        &around("", "log_connections = yes\nlog_disconnections = off\nlog_stats = true"),
        &[words],
    );
    starts("an empty list", &around("", "admin_users =\nstats_users =\nignore_startup_parameters ="));
    starts("several addresses", &around("", "listen_addr = 127.0.0.1,localhost"));
    starts("no Unix socket", &around("", "unix_socket_dir ="));
    starts("users", &around("[users]\napp = pool_mode=transaction max_user_connections=3", ""));
    starts("a user that is listed nowhere", &around("[users]\nghost = pool_mode=transaction", ""));
    starts("an unknown user's setting", &around("[users]\nghost = colour=red", ""));
}

/// Starts with a userlist as it is, and notes which users can log in.
fn with_userlist(name: &str, list: &str) {
    prepared(&Setup::new(), &[], |site, facts| {
        site.write("userlist.txt", list);
        site.run();
        facts.note(&format!("{name}: listens"), site.listens());
        for user in [users::APP, users::OTHER] {
            facts.login(&format!("{name}: {}", user.name), &site.params(user, "app"));
        }
    });
}

#[test]
fn userlists() {
    let (app, other) = ("\"app\" \"app's \"\"secret\"\"\"", "\"other\" \"quite another\"");
    with_userlist("more fields", &format!("{app} \"more\" fields\n\n  {other}  \n"));
    with_userlist("semicolons", &format!("; a comment\n{app}\n;{other}\n"));

    with_userlist("twice", &format!("{app}\n{other}\n\"app\" \"another\"\n"));
    with_userlist("carriage returns", &format!("{app}\r\n{other}\r\n"));
    with_userlist("empty", "");
}

#[test]
fn a_userlist_with_a_broken_line_is_an_error_at_start() {
    let why = "1.18 stops reading there, and those below can't log in";
    for line in ["broken line", "\"other\"", "\"other\" \"quite another"] {
        prepared(&Setup::new(), &[Difference::of("listens", "true", "false", why)], |site, facts| {
            site.write("userlist.txt", &format!("\"app\" \"x\"\n{line}\n\"md5er\" \"y\"\n"));
            site.run();
            facts.note("listens", site.listens());
        });
    }
}
