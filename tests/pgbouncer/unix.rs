//! The Unix socket: its file, the administrator `pgbouncer`, and the rights of each user there.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use weir_tests::users;

use crate::harness::{Setup, Site, account, prepared, same};

/// psql over the Unix socket, as this operating-system user or as the user that runs the tests.
fn psql(site: &Site, as_pooler: bool, user: &str, database: &str, command: &str) -> String {
    let mut psql = Command::new("psql");
    if let Some(account) = account().filter(|_| as_pooler) {
        account.run(&mut psql);
    }
    site.socket();
    psql.args(["-X", "-A", "-t", "-w", "-h"]).arg(site.folder());
    psql.args(["-p", &site.port().to_string(), "-U", user, "-d", database, "-c", command]);
    let output = site.finish(psql);
    let printed = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    printed.trim().to_owned()
}

#[test]
fn the_socket_is_a_file_with_its_mode() {
    for mode in ["0777", "0700", "0660"] {
        same(&Setup::new().set("unix_socket_mode", mode), |site, facts| {
            facts.note("mode", format!("{:o}", fs::metadata(site.socket()).expect("it is there").mode() & 0o7777));
        });
    }
}

#[test]
fn clients_connect_over_the_socket_too() {
    same(&Setup::new(), |site, facts| {
        let params = site.unix(users::APP.name, "app");
        facts.login("right password", &params.clone().password(users::APP.password));
        facts.login("wrong password", &params.clone().password("x"));
        let mut client = site.connect(&params.password(users::APP.password));
        facts.query("served", &mut client, "SELECT 1");
        let clients = site.show("CLIENTS");
        let row =
            (0..clients.rows.len()).find(|row| clients.get(*row, "database") == Some("app")).expect("it is shown");
        for column in ["addr", "local_addr"] {
            facts.note(column, clients.get(row, column).unwrap_or("NULL"));
        }
        facts.note("remote_pid", clients.get(row, "remote_pid") == Some(&std::process::id().to_string()));
    });
}

#[test]
fn the_same_user_is_administrator_as_pgbouncer() {
    same(&Setup::new(), |site, facts| {
        facts.note("version", psql(site, true, "pgbouncer", "pgbouncer", "show version").contains("PgBouncer"));
        facts.note("pause", psql(site, true, "pgbouncer", "pgbouncer", "pause"));
        facts.note("resume", psql(site, true, "pgbouncer", "pgbouncer", "resume"));
        let refused = |text: String| text.rsplit("FATAL:  ").next().unwrap_or_default().to_owned();
        facts
            .note("another name", refused(psql(site, true, "admin", "pgbouncer", "show version")).contains("password"));
        facts.note("another database", refused(psql(site, true, "pgbouncer", "app", "select 1")));
        // Other users are refused, at once or after a password that no user has.
        if account().is_some() {
            facts.note(
                "another user",
                psql(site, false, "pgbouncer", "pgbouncer", "show version").contains("PgBouncer 1."),
            );
        }
        let params = site.named("pgbouncer", "pgbouncer").password("x");
        facts.note("over TCP", weir_pgclient::Connection::connect(&params).is_ok());
    });
}

#[test]
fn without_an_address_only_the_socket_is_there() {
    prepared(&Setup::new().unset("listen_addr"), &[], |site, facts| {
        site.run();
        weir_tests::eventually("the socket", || fs::metadata(site.socket()));
        facts.login("the socket", &site.unix(users::APP.name, "app").password(users::APP.password));
        facts.note("TCP", std::net::TcpStream::connect(("127.0.0.1", site.port())).is_ok());
    });
}

#[test]
fn without_a_folder_there_is_no_socket() {
    same(&Setup::new().set("unix_socket_dir", ""), |site, facts| {
        facts.note("a file", site.socket_path().exists());
        facts.login("TCP", &site.params(users::APP, "app"));
    });
}

#[test]
fn a_socket_that_was_left_behind_is_replaced() {
    prepared(&Setup::new(), &[], |site, facts| {
        drop(std::os::unix::net::UnixListener::bind(site.socket_path()).expect("the folder is ours"));
        if let Some(account) = account() {
            std::os::unix::fs::chown(site.socket_path(), Some(account.uid), Some(account.gid)).expect("root may");
        }
        site.run();
        facts.note("listens", site.listens());
        facts.login("served", &site.unix(users::APP.name, "app").password(users::APP.password));
    });
}
