//! Replication connections: PostgreSQL's own programs and a subscriber, through a pool in transaction mode.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use weir_pgclient::Connection;
use weir_pglocal::TempFolder;
use weir_pgwire::tag;
use weir_tests::{Batch, Ini, Postgres, Site, eventually, users};

const TIMEOUT: Duration = Duration::from_secs(20);

/// A private server whose WAL can be decoded.
fn postgres() -> Postgres {
    Postgres::with(40, &[("wal_level", "logical"), ("max_replication_slots", "8"), ("max_wal_senders", "8")])
}

/// A pool in transaction mode that logs in as the superuser, who may replicate over the Unix socket.
fn ini(postgres: &Postgres, size: u32) -> Ini {
    let folder = postgres.server().socket_dir().display().to_string();
    let superuser = format!("user={}", postgres.server().superuser());
    Ini::transaction(size)
        .at(&folder, &postgres.port().to_string())
        .app(&superuser)
        .set("ignore_startup_parameters", "extra_float_digits")
        .database("replication", &format!("{{dbname}} {superuser}"))
}

fn site(postgres: &Postgres, ini: &Ini) -> Site {
    Site::ini_on(postgres, ini)
}

/// A connection string of `users::APP` to Weir.
fn conninfo(site: &Site) -> String {
    let password = users::APP.password.replace('\'', "\\'");
    format!("host=127.0.0.1 port={} user={} dbname=app password='{password}'", site.weir().port(), users::APP.name)
}

/// One of PostgreSQL's programs, with Weir as its server.
fn program(site: &Site, name: &str) -> Command {
    let mut command = Command::new(site.database().postgres().server().programs().bin().join(name));
    command.arg("-d").arg(conninfo(site));
    command
}

/// Runs one of them to its end.
fn run(site: &Site, name: &str, arguments: &[&str]) {
    let output = program(site, name).args(arguments).output().unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
}

fn path(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn replicating(site: &Site, kind: &str) -> Connection {
    Connection::connect(&site.params().option("replication", kind)).unwrap_or_else(|error| panic!("{kind}: {error}"))
}

/// Begins to send all WAL from this position on, and waits until it flows.
fn stream(client: &mut Connection, from: &str) {
    client.send_bytes(Batch::new().query(&format!("START_REPLICATION PHYSICAL {from}")).bytes()).unwrap();
    assert_eq!(client.read_frame(TIMEOUT).unwrap().tag, tag::back::COPY_BOTH);
}

fn position(site: &Site) -> String {
    site.superuser().value("SELECT pg_current_wal_lsn()").unwrap().unwrap()
}

#[test]
fn a_base_backup_and_a_stream_of_wal_go_through_a_pool_in_transaction_mode() {
    let postgres = postgres();
    let site = site(&postgres, &ini(&postgres, 5));
    let folder = TempFolder::new().unwrap();
    let (backup, wal) = (folder.path().join("backup"), folder.path().join("wal"));
    run(&site, "pg_basebackup", &["-D", path(&backup), "-c", "fast", "-X", "stream"]);
    assert!(backup.join("PG_VERSION").is_file() && backup.join("backup_label").is_file());
    site.superuser().query("CREATE TABLE bulk AS SELECT repeat('x', 500) FROM generate_series(1, 50000)").unwrap();
    std::fs::create_dir(&wal).unwrap();
    run(&site, "pg_receivewal", &["--create-slot", "-S", "kept"]);
    site.superuser().query("INSERT INTO bulk SELECT repeat('y', 500) FROM generate_series(1, 50000)").unwrap();
    run(
        &site,
        "pg_receivewal",
        &["-D", path(&wal), "-S", "kept", "--no-loop", &format!("--endpos={}", position(&site))],
    );
    assert!(std::fs::read_dir(&wal).unwrap().count() > 0);
    // The pool's servers are gone with their clients.
    eventually("no walsender is left", || {
        let count = site.superuser().value("SELECT count(*) FROM pg_stat_replication").unwrap();
        if count.as_deref() == Some("0") { Ok(()) } else { Err(count) }
    });
}

#[test]
fn decoded_changes_arrive_and_a_subscriber_follows() {
    let postgres = postgres();
    let site = site(&postgres, &ini(&postgres, 5));
    let mut source = site.superuser();
    source.query_all("CREATE TABLE t (a int); INSERT INTO t VALUES (1); CREATE PUBLICATION p FOR TABLE t").unwrap();
    source.query("SELECT pg_create_logical_replication_slot('decoded', 'test_decoding')").unwrap();
    source.query("SELECT pg_create_logical_replication_slot('followed', 'pgoutput')").unwrap();
    let mut decoder = program(&site, "pg_recvlogical")
        .args(["-S", "decoded", "--start", "-f", "-", "--no-loop"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    source.query("INSERT INTO t VALUES (2)").unwrap();
    let lines = BufReader::new(decoder.stdout.take().unwrap()).lines().map_while(Result::ok);
    let decoded: Vec<_> = lines.take(3).collect();
    let _ = decoder.kill();
    let _ = decoder.wait();
    assert_eq!(decoded[1], "table public.t: INSERT: a[integer]:2", "{decoded:?}");
    let follower = postgres.database();
    let mut target = follower.superuser();
    target.query("CREATE TABLE t (a int)").unwrap();
    let from = conninfo(&site).replace('\'', "''");
    target
        .query(&format!(
            "CREATE SUBSCRIPTION s CONNECTION '{from}' PUBLICATION p WITH (slot_name = followed, create_slot = false)"
        ))
        .unwrap();
    let mut rows = |wanted: &str| {
        eventually("the rows arrive", || {
            let found = target.value("SELECT string_agg(a::text, ',' ORDER BY a) FROM t").unwrap();
            if found.as_deref() == Some(wanted) { Ok(()) } else { Err(found) }
        });
    };
    rows("1,2");
    source.query("INSERT INTO t VALUES (3)").unwrap();
    rows("1,2,3");
    let mut target = follower.superuser();
    target.query("ALTER SUBSCRIPTION s DISABLE").unwrap();
    target.query("ALTER SUBSCRIPTION s SET (slot_name = NONE)").unwrap();
    target.query("DROP SUBSCRIPTION s").unwrap();
    eventually("the slot is free", || {
        let sql = "SELECT count(*) FROM pg_replication_slots WHERE active";
        let active = source.value(sql).unwrap();
        if active.as_deref() == Some("0") { Ok(()) } else { Err(active) }
    });
}

#[test]
fn its_server_is_its_own_begins_with_its_parameters_and_counts_in_the_pool() {
    let postgres = postgres();
    let site = site(&postgres, &ini(&postgres, 1));
    let mut usual = site.connect();
    assert_eq!(usual.value("SELECT 1").unwrap().as_deref(), Some("1"));
    let params = site.params().option("replication", "database").option("application_name", "follower");
    let mut own = Connection::connect(&params.option("options", "-c enable_seqscan=off")).unwrap();
    assert!(site.weir().log().contains("closing because: evicted"), "an idle server made room");
    assert_eq!(own.value("SHOW enable_seqscan").unwrap().as_deref(), Some("off"));
    assert_eq!(own.value("SHOW application_name").unwrap().as_deref(), Some("follower"));
    for table in ["CLIENTS", "SERVERS"] {
        let rows = site.weir().show(table);
        let found = (0..rows.rows.len()).any(|row| rows.get(row, "replication") == Some("logical"));
        assert!(found, "SHOW {table}: {rows:?}");
    }
    // Others wait for its end, and it is never shared.
    thread::scope(|scope| {
        let waiting = scope.spawn(|| usual.value("SHOW enable_seqscan").unwrap());
        site.weir().await_pool("one waits", |pool| pool.get("cl_waiting") == 1 && pool.get("sv_active") == 1);
        own.close().unwrap();
        assert_eq!(waiting.join().unwrap().as_deref(), Some("on"));
    });
    let own = replicating(&site, "true");
    let mut cut = site.connect();
    site.weir().command("RECONNECT").unwrap();
    eventually("RECONNECT ends it: it would never be free", || {
        if site.weir().log().contains("closing because: database configuration changed") { Ok(()) } else { Err(()) }
    });
    drop(own);
    assert_eq!(cut.value("SELECT 2").unwrap().as_deref(), Some("2"));
}

#[test]
fn a_login_that_the_server_refuses_affects_no_other_client() {
    let site = Site::ini(&Ini::transaction(2));
    let mut usual = site.connect();
    assert_eq!(usual.value("SELECT 1").unwrap().as_deref(), Some("1"));
    for kind in ["true", "database"] {
        let refused = Connection::connect(&site.params().option("replication", kind)).unwrap_err().to_string();
        assert!(refused.contains("server login failed: "), "{refused}");
    }
    let refused = Connection::connect(&site.params().option("replication", "perhaps")).unwrap_err().to_string();
    assert!(refused.contains("replication"), "{refused}");
    assert_eq!(site.weir().log().matches("closing because: login failed (age").count(), 4, "{}", site.weir().log());
    assert_eq!(usual.value("SELECT 2").unwrap().as_deref(), Some("2"));
    assert_eq!(site.connect().value("SELECT 3").unwrap().as_deref(), Some("3"));
}

#[test]
fn a_stream_outlives_the_time_outs_of_queries_and_can_be_cancelled() {
    let postgres = postgres();
    let ini = ini(&postgres, 2)
        .set("query_timeout", 1)
        .set("client_idle_timeout", 1)
        .set("idle_transaction_timeout", 1)
        .set("transaction_timeout", 1)
        .set("server_idle_timeout", 1)
        .set("server_lifetime", 1);
    let site = site(&postgres, &ini);
    let mut client = replicating(&site, "true");
    thread::sleep(Duration::from_millis(1_500));
    stream(&mut client, &position(&site));
    thread::sleep(Duration::from_millis(2_500));
    site.superuser().query("CREATE TABLE noise AS SELECT generate_series(1, 1000)").unwrap();
    assert_eq!(client.read_frame(TIMEOUT).unwrap().tag, tag::back::COPY_DATA);
    let canceller = client.canceller();
    canceller.cancel().unwrap();
    let last = loop {
        let frame = client.read_frame(TIMEOUT).unwrap();
        if frame.tag != tag::back::COPY_DATA {
            break frame.tag;
        }
    };
    assert_eq!(last, tag::back::ERROR);
}

#[test]
fn unread_wal_waits_at_the_server() {
    let postgres = postgres();
    let site = site(&postgres, &ini(&postgres, 2));
    let from = position(&site);
    site.superuser().query("CREATE TABLE bulk AS SELECT repeat('x', 1000) FROM generate_series(1, 60000)").unwrap();
    let before = site.weir().memory().now;
    let mut client = replicating(&site, "true");
    stream(&mut client, &from);
    thread::sleep(Duration::from_secs(2));
    let grown = site.weir().memory().now.saturating_sub(before);
    assert!(grown < 6 * 1024, "{grown} kB for a client that does not read");
    // All WAL is there for a client that reads again.
    let mut read = 0;
    while read < 60_000_000 {
        read += client.read_frame(TIMEOUT).unwrap().body.len();
    }
}
