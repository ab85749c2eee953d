//! The console's tables: columns in their order, states of clients and servers, and the settings in SHOW CONFIG.

use std::collections::BTreeMap;

use weir_pgclient::{Answer, Connection};
use weir_tests::{ADMIN, Postgres, TABLES, users};

use crate::harness::{Setup, Site, compare, same};

/// Columns that later versions have renamed: the table, 1.18's name, and the later name.
const RENAMED: [(&str, &str, &str); 1] = [("DATABASES", "reserve_pool", "reserve_pool_size")];

/// Settings of 1.18 with another default in 1.25.
const NEW_DEFAULTS: [(&str, &str); 4] = [
    ("client_tls_ciphers", "default"),
    ("server_tls_ciphers", "default"),
    ("server_check_query", "<empty>"),
    ("server_tls_sslmode", "prefer"),
];

fn rows<'a>(answer: &'a Answer, wanted: impl Fn(usize) -> bool + 'a) -> impl Iterator<Item = usize> + 'a {
    (0..answer.rows.len()).filter(move |row| wanted(*row))
}

/// Runs a case against each, and passes both results to `check`.
fn both<T: Send>(setup: &Setup, look: impl Fn(&Site) -> T + Sync, check: impl Fn(&BTreeMap<&'static str, T>)) {
    let found = std::sync::Mutex::new(BTreeMap::new());
    compare(&[], |pooler| {
        let site = Site::start(pooler, setup, &Postgres::shared());
        let seen = look(&site);
        found.lock().expect("no panic before").insert(pooler.name(), seen);
        site.facts()
    });
    check(&found.into_inner().expect("no panic before"));
}

/// Whether the list contains each of these, in this order.
fn in_order(few: &[String], many: &[&str]) -> bool {
    let mut rest = many.iter();
    few.iter().all(|wanted| rest.any(|name| name == wanted))
}

#[test]
fn every_table_has_its_columns() {
    let look = |site: &Site| {
        let mut client = site.client();
        client.query("BEGIN").expect("done");
        let mut console = site.console();
        let mut tables = BTreeMap::new();
        for (table, _) in TABLES {
            let answer = console.query(&format!("SHOW {table}"));
            let columns = answer.map(|answer| answer.columns).unwrap_or_else(|error| vec![error.to_string()]);
            tables.insert(table, columns);
        }
        tables
    };
    both(&Setup::new().mode("transaction"), look, |found| {
        for (table, columns) in TABLES {
            let expected: Vec<_> = columns.split_whitespace().collect();
            if let Some(weir) = found.get("weir") {
                assert_eq!(weir[table], expected, "{table}");
            }
            let Some(old) = found.get("pgbouncer").map(|tables| &tables[table]) else { continue };
            let renamed = |name: &String| {
                let new = RENAMED.iter().find(|(of, old, _)| *of == table && old == name);
                new.map_or_else(|| name.clone(), |(_, _, new)| (*new).to_owned())
            };
            let old: Vec<_> = old.iter().map(renamed).collect();
            // SHOW STATE came later.
            assert!(table == "STATE" || in_order(&old, &expected), "{table}: {old:?}");
        }
    });
}

#[test]
fn every_setting_is_in_show_config_with_its_default() {
    let look = |site: &Site| {
        let answer = site.show("CONFIG");
        let value = |row: usize, column| answer.get(row, column).unwrap_or("NULL").to_owned();
        let rows = rows(&answer, |_| true);
        let facts = site.facts();
        let plain = |value: &str| facts.plain(value);
        rows.map(|row| {
            (value(row, "key"), [plain(&value(row, "value")), plain(&value(row, "default")), value(row, "changeable")])
        })
        .collect::<BTreeMap<_, _>>()
    };
    both(&Setup::new(), look, |found| {
        let (Some(old), Some(weir)) = (found.get("pgbouncer"), found.get("weir")) else { return };
        let mut wrong = Vec::new();
        // The default query of later versions is safe with a hostile search_path.
        for (key, theirs) in old.iter().filter(|(key, _)| *key != "auth_query") {
            let expected = as_later(key, theirs);
            match weir.get(key) {
                None => wrong.push(format!("{key} is missing")),
                Some(value) if *value != expected => wrong.push(format!("{key}: {value:?} instead of {expected:?}")),
                Some(_) => {}
            }
        }
        assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    });
}

/// Value, default and changeability of a setting as 1.25 would show those of 1.18. An unset value is NULL in 1.18 and
/// empty here.
fn as_later(key: &str, old: &[String; 3]) -> [String; 3] {
    let new = NEW_DEFAULTS.iter().find(|(name, _)| *name == key).map(|(_, new)| (*new).to_owned());
    let [value, default, changeable] = old.clone();
    match new {
        Some(new) => [new.clone(), new, changeable],
        None if key == "verbose" => [value, "0".to_owned(), changeable],
        None => [if value == "NULL" { String::new() } else { value }, default, changeable],
    }
}

#[test]
fn values_of_the_file_are_shown_as_they_were_written() {
    let values = [
        ("pool_mode", "statement"),
        ("max_client_conn", "321"),
        ("default_pool_size", "7"),
        ("min_pool_size", "1"),
        ("reserve_pool_size", "2"),
        ("reserve_pool_timeout", "1.5"),
        ("server_idle_timeout", "77"),
        ("server_lifetime", "1234.5"),
        ("server_round_robin", "1"),
        ("ignore_startup_parameters", "extra_float_digits,options"),
        ("server_reset_query", "DISCARD ALL; SELECT 1"),
        ("server_check_query", ""),
        ("server_check_delay", "5"),
        ("log_connections", "0"),
        ("log_stats", "0"),
        ("tcp_keepalive", "1"),
        ("tcp_keepidle", "30"),
        ("tcp_keepintvl", "10"),
        ("tcp_keepcnt", "3"),
        ("client_tls_sslmode", "disable"),
        ("server_tls_sslmode", "prefer"),
        ("application_name_add_host", "1"),
        ("unix_socket_mode", "0770"),
        ("verbose", "0"),
        ("stats_period", "30"),
        ("dns_max_ttl", "20"),
        ("pkt_buf", "8192"),
        ("max_packet_size", "1000000"),
        ("so_reuseport", "1"),
        ("listen_backlog", "256"),
        ("disable_pqexec", "0"),
        ("suspend_timeout", "3"),
    ];
    let setup = values.iter().fold(Setup::new(), |setup, (key, value)| setup.set(key, value));
    same(&setup, |site, facts| {
        for (key, _) in values {
            facts.note(key, site.config(key));
        }
    });
}

#[test]
fn clients_and_servers_show_their_states() {
    same(&Setup::new().mode("transaction").set("default_pool_size", "1"), |site, facts| {
        let (mut one, mut two, _three) = (site.client(), site.client(), site.client());
        one.query("BEGIN").expect("done");
        two.send_bytes(weir_tests::Batch::new().query("SELECT 1").bytes()).expect("it reads");
        site.await_pool("app", "cl_waiting", 1);
        let shown = |site: &Site, table: &str| {
            let answer = site.show(table);
            let columns =
                ["type", "user", "database", "state", "addr", "local_addr", "close_needed", "tls", "application_name"];
            let line = |row| columns.map(|column| answer.get(row, column).unwrap_or("NULL").to_owned()).join(",");
            let app = rows(&answer, |row| answer.get(row, "database") == Some("app"));
            let mut lines: Vec<_> = app.map(line).collect();
            lines.sort();
            lines.join("; ")
        };
        facts.note("clients", shown(site, "CLIENTS").replace(",idle,", ",active,"));
        facts.note("servers", shown(site, "SERVERS"));
        let (clients, servers) = (site.show("CLIENTS"), site.show("SERVERS"));
        let linked =
            rows(&clients, |row| clients.get(row, "link").is_some_and(|link| !link.is_empty())).collect::<Vec<_>>();
        let of = |row: usize| clients.get(row, "database").unwrap_or("NULL");
        facts.note("linked clients", linked.iter().map(|row| of(*row)).collect::<Vec<_>>().join(","));
        let pair = linked.first().map(|row| (clients.get(*row, "ptr"), clients.get(*row, "link")));
        facts.note("linked both ways", pair == Some((servers.get(0, "link"), servers.get(0, "ptr"))));
        facts.note("ptr", servers.get(0, "ptr").is_some_and(|ptr| ptr.starts_with("0x")));
        facts.note(
            "remote_pid",
            servers.get(0, "remote_pid") == one.value("SELECT pg_backend_pid()").expect("it answers").as_deref(),
        );
        let stamp = servers.get(0, "connect_time").unwrap_or_default();
        facts.note("connect_time", stamp.chars().map(|c| if c.is_ascii_digit() { '9' } else { c }).collect::<String>());
    });
}

#[test]
fn lists_have_their_rows() {
    same(&Setup::new().mode("transaction"), |site, facts| {
        let mut client = site.client();
        client.query("BEGIN").expect("done");
        let answer = site.show("LISTS");
        let item = |name: &str| {
            rows(&answer, |row| answer.get(row, "list") == Some(name))
                .next()
                .and_then(|row| answer.get(row, "items").map(str::to_owned))
        };
        for name in [
            "databases",
            "users",
            "pools",
            "used_clients",
            "login_clients",
            "used_servers",
            "dns_names",
            "dns_zones",
            "dns_queries",
            "dns_pending",
        ] {
            facts.note(name, item(name).unwrap_or_else(|| "missing".to_owned()));
        }
    });
}

#[test]
fn databases_and_users_show_their_settings() {
    let setup =
        Setup::new().set("max_db_connections", "9").database("forced", "user=other pool_size=3 pool_mode=transaction");
    let setup = setup.tail("[users]\napp = pool_mode=statement max_user_connections=4\n");
    same(&setup, |site, facts| {
        let mut client = site.client();
        client.query("SELECT 1").expect("it answers");
        let databases = site.show("DATABASES");
        let columns = [
            "host",
            "port",
            "database",
            "force_user",
            "pool_size",
            "min_pool_size",
            "pool_mode",
            "max_connections",
            "current_connections",
            "paused",
            "disabled",
        ];
        // The console's own row has limits without a meaning.
        for row in rows(&databases, |row| databases.get(row, "name") != Some("pgbouncer")) {
            let line = columns.map(|column| databases.get(row, column).unwrap_or("NULL"));
            facts.note(databases.get(row, "name").unwrap_or("NULL"), line.join(","));
        }
        let users = site.show("USERS");
        let line =
            |row| ["name", "pool_mode"].map(|column| users.get(row, column).unwrap_or("NULL").to_owned()).join("=");
        let mut lines: Vec<_> = rows(&users, |_| true).map(line).collect();
        lines.sort();
        facts.note("users", lines.join(","));
    });
}

#[test]
fn statistics_count_the_same() {
    same(&Setup::new().mode("transaction"), |site, facts| {
        let mut client = site.client();
        for _ in 0..10 {
            client.query("SELECT repeat('x', 1000)").expect("it answers");
        }
        client.query_all("BEGIN; SELECT 1").expect("done");
        client.query("COMMIT").expect("done");
        facts.batch("extended", &mut client, &weir_tests::Batch::new().run("SELECT $1::int", &["1"]).sync(), 1);
        for table in ["STATS", "STATS_TOTALS"] {
            let stats = site.show(table);
            let row = rows(&stats, |row| stats.get(row, "database") == Some("app")).next().expect("its row");
            for column in [
                "xact_count",
                "query_count",
                "total_xact_count",
                "total_query_count",
                "total_received",
                "total_sent",
                "bytes_received",
                "bytes_sent",
            ] {
                if let Some(value) = stats.get(row, column) {
                    facts.note(&format!("{table} {column}"), value);
                }
            }
            facts.note(
                &format!("{table} databases"),
                rows(&stats, |_| true)
                    .map(|row| stats.get(row, "database").unwrap_or("NULL"))
                    .collect::<Vec<_>>()
                    .join(","),
            );
        }
    });
}

#[test]
fn totals_have_their_names() {
    let look = |site: &Site| {
        let answer = site.show("TOTALS");
        rows(&answer, |_| true).map(|row| answer.get(row, "name").unwrap_or("NULL").to_owned()).collect::<Vec<_>>()
    };
    both(&Setup::new(), look, |found| {
        let (Some(old), Some(weir)) = (found.get("pgbouncer"), found.get("weir")) else { return };
        let weir: Vec<_> = weir.iter().map(String::as_str).collect();
        assert!(in_order(old, &weir), "{old:?} are not among {weir:?}");
    });
}

#[test]
fn the_version_is_the_programs() {
    let look = |site: &Site| {
        let mut command = site.pooler().command();
        command.arg("--version");
        let output = site.finish(command);
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        (site.show("VERSION").get(0, "version").unwrap_or("NULL").to_owned(), printed)
    };
    both(&Setup::new(), look, |found| {
        for (name, (shown, printed)) in found {
            assert_eq!(printed.lines().next(), Some(shown.as_str()), "{name}");
        }
    });
}

#[test]
fn columns_keep_their_types() {
    let look = |site: &Site| {
        let mut client = site.client();
        client.query("BEGIN").expect("done");
        let mut console = site.console();
        // Memory has wider numbers, and STATE is newer.
        let tables = TABLES.iter().filter(|(table, _)| !["STATE", "MEM"].contains(table));
        tables.map(|(table, _)| (*table, types(&mut console, table))).collect::<BTreeMap<_, _>>()
    };
    both(&Setup::new().mode("transaction"), look, |found| {
        let (Some(old), Some(weir)) = (found.get("pgbouncer"), found.get("weir")) else { return };
        let mut wrong = Vec::new();
        for (table, columns) in old {
            for (column, kind) in columns {
                let value = weir[table].get(column);
                if value.is_some_and(|value| value != kind) {
                    wrong.push(format!("{table}.{column}: {value:?} instead of {kind}"));
                }
            }
        }
        assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    });
}

/// The type OIDs of a table's columns.
fn types(console: &mut Connection, table: &str) -> BTreeMap<String, u32> {
    console.send_bytes(weir_tests::Batch::new().query(&format!("SHOW {table}")).bytes()).expect("it reads");
    let frames = console.read_until_ready().unwrap_or_else(|error| panic!("{table}: {error}"));
    let description = frames.iter().find(|frame| frame.tag == weir_pgwire::tag::back::ROW_DESCRIPTION);
    let Some(description) = description else { return BTreeMap::new() };
    let columns = weir_pgwire::backend::row_description(&description.body).expect("it is well-formed");
    columns.map(|column| (weir_tests::body_text(column.name), column.type_oid)).collect()
}

#[test]
fn a_table_in_psql_looks_like_one() {
    same(&Setup::new().set("auth_type", "trust"), |site, facts| {
        for command in ["show version", "show databases", "show pools", "select pools"] {
            facts.note(command, psql(site, ADMIN.0, "pgbouncer", command).lines().count());
        }
        facts.note("as a client", psql(site, users::APP.name, "app", "select 1"));
    });
}

fn psql(site: &Site, user: &str, database: &str, command: &str) -> String {
    let port = site.port().to_string();
    let mut psql = std::process::Command::new("psql");
    psql.args(["-X", "-A", "-t", "-h", "127.0.0.1", "-p", &port, "-U", user, "-d", database, "-c", command]);
    let output = site.finish(psql);
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)).trim().to_owned()
}
