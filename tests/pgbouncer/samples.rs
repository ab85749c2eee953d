//! Configuration files from practice, and the distribution's own: they load, and the console shows the same values.

use std::fs;

use weir_pgclient::{ConnectParams, Connection};
use weir_tests::Postgres;

use crate::harness::{Facts, Setup, Site, compare};

/// The folders of files and sockets in the samples.
const FOLDERS: [&str; 7] = [
    "/var/run/postgresql",
    "/var/run/pgbouncer",
    "/var/log/postgresql",
    "/var/log/pgbouncer",
    "/etc/pgbouncer",
    "/var/log",
    "/var/run",
];

/// The columns to compare for each database: those of both versions, except for momentary values.
const OF_DATABASES: [&str; 11] = [
    "name",
    "host",
    "port",
    "database",
    "force_user",
    "pool_size",
    "min_pool_size",
    "pool_mode",
    "max_connections",
    "paused",
    "disabled",
];

/// Settings that differ between sites, or belong to the test.
const OWN: [&str; 9] = [
    "conffile",
    "listen_addr",
    "listen_port",
    "logfile",
    "pidfile",
    "auth_file",
    "auth_hba_file",
    "unix_socket_dir",
    "user",
];

/// A sample with its folders and its port replaced by the site's.
fn moved(text: &str) -> String {
    let text = FOLDERS.iter().fold(text.to_owned(), |text, folder| text.replace(folder, "{dir}"));
    let text = text
        .replace("6432", "{port}")
        .replace("listen_addr = 0.0.0.0", "listen_addr = 127.0.0.1")
        .replace("listen_addr = *", "listen_addr = 127.0.0.1");
    let user = crate::harness::account().map_or("root", |account| account.name.as_str());
    text.replace("user = postgres\n", &format!("user = {user}\n"))
        .replace("unix_socket_dir=/tmp", "unix_socket_dir={dir}")
}

/// Starts with a sample and the files beside it, and reads the console as one of its administrators.
fn load(name: &str, text: &str, beside: &[(&str, &str)], administrator: &str) {
    let known = known(text, beside);
    compare(&[], |pooler| {
        let site = Site::prepare(pooler, &Setup::new(), &Postgres::shared());
        site.write("pgbouncer.ini", &moved(text));
        let users = [administrator, "gatekeeper", "pgbouncer", "app"].map(|user| format!("\"{user}\" \"secret\"\n"));
        site.write("userlist.txt", &users.concat());
        beside.iter().for_each(|(name, text)| site.write(name, &moved(text)));
        site.run();
        assert!(site.listens(), "{name}: {}", site.output());
        let params = site.named(administrator, "pgbouncer").password("secret");
        let mut facts = site.facts();
        look(&mut facts, &params, &known);
        facts.with_log(site.end_of_log())
    });
}

/// The keys that a sample sets.
fn known(text: &str, beside: &[(&str, &str)]) -> Vec<String> {
    let all = beside.iter().map(|(_, text)| *text).chain([text]);
    let keys = all.flat_map(str::lines).filter_map(|line| line.split_once('=')).map(|(key, _)| key.trim().to_owned());
    keys.filter(|key| !OWN.contains(&key.as_str())).collect()
}

fn look(facts: &mut Facts, params: &ConnectParams, known: &[String]) {
    let mut console = Connection::connect(params).unwrap_or_else(|error| panic!("{params:?}: {error}"));
    let databases = console.query("SHOW DATABASES").expect("it answers");
    // The console's own row has limits without a meaning.
    for row in (0..databases.rows.len()).filter(|row| databases.get(*row, "name") != Some("pgbouncer")) {
        let line = OF_DATABASES.map(|column| databases.get(row, column).unwrap_or("NULL"));
        facts.note(&format!("database {}", line[0]), line.join(","));
    }
    let config = console.query("SHOW CONFIG").expect("it answers");
    let shown = |key: &str| (0..config.rows.len()).find(|row| config.get(*row, "key") == Some(key));
    let mut keys = known.to_vec();
    keys.sort();
    keys.dedup();
    for key in keys {
        if let Some(value) = shown(&key).and_then(|row| config.get(row, "value")) {
            // A list is shown with or without blanks after its commas.
            let value = value.split(',').map(str::trim).collect::<Vec<_>>().join(",");
            facts.note(&format!("setting {key}"), value);
        }
    }
    for table in ["POOLS", "USERS", "LISTS", "STATS", "CLIENTS", "SERVERS", "MEM"] {
        facts.note(table, console.query(&format!("SHOW {table}")).is_ok());
    }
}

#[test]
fn kubernetes() {
    load("kubernetes.ini", include_str!("samples/kubernetes.ini"), &[], "postgres");
}

#[test]
fn a_cloud() {
    load("cloud.ini", include_str!("samples/cloud.ini"), &[], "admin");
}

#[test]
fn django() {
    load("django.ini", include_str!("samples/django.ini"), &[], "postgres");
}

#[test]
fn minimal() {
    load("minimal.ini", include_str!("samples/minimal.ini"), &[], "postgres");
}

#[test]
fn lines_of_hba() {
    load("hba.ini", include_str!("samples/hba.ini"), &[("hba.conf", include_str!("samples/hba.conf"))], "postgres");
}

#[test]
fn split_into_files() {
    let beside = [
        ("split-limits.ini", include_str!("samples/split-limits.ini")),
        ("split-databases.ini", include_str!("samples/split-databases.ini")),
    ];
    load("split.ini", include_str!("samples/split.ini"), &beside, "postgres");
}

#[test]
fn statements_only() {
    load("statement.ini", include_str!("samples/statement.ini"), &[], "postgres");
}

#[test]
fn the_distributions_own() {
    // The distribution's file names no administrator; one more line adds one.
    let Ok(text) = fs::read_to_string("/etc/pgbouncer/pgbouncer.ini") else {
        println!("/etc/pgbouncer/pgbouncer.ini does not exist, or is not readable");
        return;
    };
    load("the distribution's", &format!("{text}\nadmin_users = postgres\n"), &[], "postgres");
}

#[test]
fn the_distributions_smallest() {
    let Ok(text) = fs::read_to_string("/usr/share/doc/pgbouncer/pgbouncer-minimal.ini") else { return };
    // The smallest file is complete for clients of the Unix socket in /tmp; this test needs an address and a userlist.
    let more = "listen_addr = 127.0.0.1\nlisten_port = 6432\nunix_socket_dir = /var/run/postgresql\n\
                admin_users = postgres\nauth_file = /etc/pgbouncer/userlist.txt\n";
    load("the distribution's smallest", &format!("{text}\n{more}"), &[], "postgres");
}
