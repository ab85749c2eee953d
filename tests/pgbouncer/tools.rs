//! Tools that watch a PgBouncer: what the exporter for Prometheus makes of the console's tables, what scripts read by
//! position, and the name that a process is found by.
//!
//! `PGBOUNCER_EXPORTER` names a built pgbouncer_exporter, or one is on the path: it runs too, before both.

use std::collections::BTreeSet;
use std::env;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use weir_pglocal::free_port;
use weir_tests::{ADMIN, Postgres, eventually};

use crate::harness::{Pooler, Setup, Site, compare};

/// The columns that the exporter makes metrics of, table by table.
const COLUMNS: [(&str, &str); 3] = [
    (
        "DATABASES",
        "name host port database force_user pool_size reserve_pool_size pool_mode max_connections current_connections \
         paused disabled",
    ),
    (
        "STATS_TOTALS",
        "database query_count query_time bytes_received bytes_sent wait_time xact_count xact_time client_parse_count \
         server_parse_count bind_count server_assignment_count",
    ),
    (
        "POOLS",
        "database user cl_active cl_active_cancel_req cl_waiting cl_waiting_cancel_req sv_active sv_active_cancel \
         sv_being_canceled sv_idle sv_used sv_tested sv_login maxwait",
    ),
];

/// The rows of SHOW LISTS and SHOW CONFIG that it makes metrics of.
const ROWS: [(&str, &str); 2] = [
    (
        "LISTS",
        "databases users pools free_clients used_clients login_clients free_servers used_servers dns_names dns_zones \
         dns_queries",
    ),
    ("CONFIG", "max_client_conn max_user_connections"),
];

#[test]
fn every_column_and_row_that_the_exporter_reads_is_a_number_or_a_label() {
    let site = Site::start(Pooler::Weir, &Setup::new().mode("transaction"), &Postgres::shared());
    let mut client = site.client();
    client.query("SELECT 1").expect("done");
    for (table, columns) in COLUMNS {
        let shown = site.show(table);
        for column in columns.split_whitespace() {
            assert!(shown.columns.iter().any(|known| known == column), "SHOW {table} has no {column}");
        }
    }
    for (table, rows) in ROWS {
        let shown = site.show(table);
        let key = shown.columns[0].clone();
        let value = shown.columns[1].clone();
        for name in rows.split_whitespace() {
            let row = (0..shown.rows.len()).find(|row| shown.get(*row, &key) == Some(name));
            let row = row.unwrap_or_else(|| panic!("SHOW {table} has no {name}"));
            let text = shown.get(row, &value).expect("a value");
            assert!(text.parse::<f64>().is_ok(), "{name} is {text}");
        }
    }
}

/// Scripts read SHOW POOLS by position: 16 columns up to PgBouncer 1.23, and one more since.
#[test]
fn the_first_sixteen_columns_of_pools_stand_where_older_versions_have_them() {
    let site = Site::start(Pooler::Weir, &Setup::new(), &Postgres::shared());
    let columns = site.show("POOLS").columns;
    let expected = "database user cl_active cl_waiting cl_active_cancel_req cl_waiting_cancel_req sv_active \
                    sv_active_cancel sv_being_canceled sv_idle sv_used sv_tested sv_login maxwait maxwait_us pool_mode";
    assert_eq!(columns[..16].join(" "), expected.split_whitespace().collect::<Vec<_>>().join(" "));
    assert_eq!(columns[16..].join(" "), "load_balance_hosts");
}

#[test]
fn a_process_is_found_by_the_name_of_pgbouncer() {
    let site = Site::start(Pooler::Weir, &Setup::new(), &Postgres::shared());
    let pid = std::fs::read_to_string(site.path("pgbouncer.pid")).expect("a pidfile");
    let name = std::fs::read_to_string(format!("/proc/{}/comm", pid.trim())).expect("a process");
    assert_eq!(name.trim(), "pgbouncer", "killall -HUP and start-stop-daemon --name go by it");
}

/// The exporter's program, if there is one.
fn exporter() -> Option<PathBuf> {
    if let Some(named) = env::var_os("PGBOUNCER_EXPORTER") {
        return Some(named.into());
    }
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders).map(|folder| folder.join("pgbouncer_exporter")).find(|path| path.is_file())
}

/// The names of the metrics about the pooler that the exporter gives.
fn exported(program: &PathBuf, site: &Site) -> BTreeSet<String> {
    let port = free_port().expect("a free port");
    let (user, password) = ADMIN;
    let connection = format!(
        "postgres://{user}:{}@127.0.0.1:{}/pgbouncer?sslmode=disable",
        password.replace(' ', "%20"),
        site.port()
    );
    let mut child = Command::new(program)
        .args([format!("--pgBouncer.connectionString={connection}"), format!("--web.listen-address=127.0.0.1:{port}")])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    let page = eventually("the exporter answers", || {
        let mut page = String::new();
        let mut stream = TcpStream::connect(("127.0.0.1", port)).map_err(|error| error.to_string())?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").map_err(|error| error.to_string())?;
        stream.read_to_string(&mut page).map_err(|error| error.to_string())?;
        if page.contains("pgbouncer_up 1") { Ok(page) } else { Err(page) }
    });
    let _ = child.kill();
    let _ = child.wait();
    let metrics = page.lines().filter(|line| line.starts_with("pgbouncer_"));
    metrics.filter_map(|line| line.split(['{', ' ']).next()).map(str::to_owned).collect()
}

#[test]
fn the_exporter_gives_every_metric_that_it_gives_for_pgbouncer() {
    let Some(program) = exporter() else {
        println!("there is no pgbouncer_exporter: PGBOUNCER_EXPORTER names one");
        return;
    };
    let found = Mutex::new(Vec::new());
    compare(&[], |pooler| {
        let site = Site::start(pooler, &Setup::new(), &Postgres::shared());
        let mut client = site.client();
        client.query("SELECT 1").expect("done");
        found.lock().expect("no panic before").push((pooler, exported(&program, &site)));
        site.facts()
    });
    let found = found.into_inner().expect("no panic before");
    let of = |wanted: Pooler| found.iter().find(|(pooler, _)| *pooler == wanted).map(|(_, names)| names);
    let weir = of(Pooler::Weir).expect("it runs");
    assert!(weir.len() > 40 && weir.contains("pgbouncer_pools_client_waiting_connections"), "{weir:?}");
    if let Some(pgbouncer) = of(Pooler::PgBouncer) {
        let missing: Vec<_> = pgbouncer.difference(weir).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
