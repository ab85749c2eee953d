//! The console: what monitoring reads by name and position, and what operators type.

use std::thread;
use std::time::Duration;

use weir_pgclient::Connection;
use weir_tests::{
    ADMIN, Batch, Mode, Setup, Site, TABLES, WATCHER, ask, eventually, line_of, lines_of, until_quiet, users,
};

fn site() -> Site {
    Site::with(Setup::new(Mode::Transaction).size(2), Mode::Transaction)
}

#[test]
fn every_table_has_its_columns_in_their_order() {
    let site = site();
    let mut client = site.connect();
    client.query("BEGIN").unwrap();
    for (table, columns) in TABLES {
        // Weir's own, after PgBouncer's.
        let own = match table {
            "DATABASES" => " server guaranteed_connections weight giving_back",
            "POOLS" => " health health_since health_clients health_error",
            "CLIENTS" | "SERVERS" => " pinned_by pinned_since pinned_statement",
            _ => "",
        };
        let columns = format!("{columns}{own}");
        for command in [format!("SHOW {table}"), format!("show {}", table.to_lowercase()), format!("SELECT {table};")] {
            let answer = site.weir().command(&command).unwrap_or_else(|error| panic!("{command}: {error}"));
            assert_eq!(answer.columns, columns.split_whitespace().collect::<Vec<_>>(), "{command}");
            assert!(answer.rows.iter().all(|row| row.len() == answer.columns.len()), "{command}");
            assert_eq!(answer.tag, "SHOW", "{command}");
        }
    }
}

#[test]
fn show_faults_has_a_disk_that_refuses_the_log_also_without_a_control_plane() {
    // A device that has no space left.
    let site =
        Site::with(Setup::new(Mode::Transaction).size(2).more("[log]\nfile = \"/dev/full\"\n"), Mode::Transaction);
    let table = eventually("it is a fault", || {
        // Lines come from commands.
        site.weir().command("RELOAD").unwrap();
        let table = site.weir().command("SHOW FAULTS").unwrap();
        if table.rows.is_empty() { Err("no fault") } else { Ok(table) }
    });
    let row: Vec<&str> = table.rows[0].iter().map(|value| value.as_deref().unwrap()).collect();
    assert_eq!((table.rows.len(), &row[..2]), (1, &["disk", "now"][..]), "{row:?}");
    assert!(row[3].contains("/dev/full"), "{row:?}");
}

#[test]
fn both_names_lead_to_the_console_and_only_for_permitted_users() {
    let site = site();
    for name in ["weir", "pgbouncer"] {
        for (user, password) in [ADMIN, WATCHER] {
            let params = site.weir().params(user, name).password(password);
            assert_eq!(Connection::connect(&params).unwrap().query("SHOW VERSION").unwrap().rows.len(), 1);
            assert!(Connection::connect(&params.password("wrong")).is_err());
        }
        let params = site.weir().params(users::APP.name, name).password(users::APP.password);
        let outcome = Connection::connect(&params).and_then(|mut console| console.query("SHOW POOLS"));
        assert!(outcome.unwrap_err().server().is_some());
    }
}

#[test]
fn what_is_no_command_is_an_error_and_the_console_goes_on() {
    let site = site();
    let mut console = site.weir().console();
    for wrong in ["SHOW NOTHING", "FLY", "PAUSE a b c", "SELECT 1 + 1", "PAUSE nowhere", ";", ""] {
        let error = console.query(wrong).expect_err(wrong);
        assert_eq!(error.sqlstate(), Some("08P01"), "{wrong}: {error}");
    }
    assert_eq!(console.query("SHOW VERSION").unwrap().rows.len(), 1);
}

#[test]
fn the_extended_protocol_is_refused_clearly() {
    let site = site();
    let mut console = site.weir().console();
    console.send_bytes(Batch::new().run("SHOW POOLS", &[]).sync().bytes()).unwrap();
    let transcript = until_quiet(&mut console, Duration::from_secs(3));
    let reported = "extended query protocol not supported by admin console";
    assert!(transcript[0].starts_with("Error") && transcript[0].ends_with(reported), "{transcript:?}");
    // A function call ends without a Sync.
    let mut console = site.weir().console();
    let transcript = ask(&mut console, &Batch::new().function(1299, &[]), 1);
    assert!(transcript[0].ends_with(reported) && transcript[1] == "Ready I", "{transcript:?}");
}

#[test]
fn help_is_a_notice() {
    let site = site();
    let mut console = site.weir().console();
    let transcript = ask(&mut console, &Batch::new().query("SHOW HELP"), 1);
    assert!(transcript[0].starts_with("Notice 00000 Console usage"), "{transcript:?}");
    assert_eq!(transcript.last().unwrap(), "Ready I");
}

#[test]
fn clients_and_servers_are_shown_linked_to_each_other() {
    let site = site();
    let params = site.params().option("application_name", "seen on the console");
    let mut client = Connection::connect(&params).unwrap();
    let idle = site.connect();
    client.query("BEGIN").unwrap();
    let pid = client.value("SELECT pg_backend_pid()").unwrap();
    let clients = site.weir().show("CLIENTS");
    let servers = site.weir().show("SERVERS");
    let row = (0..clients.rows.len())
        .find(|row| clients.get(*row, "application_name") == Some("seen on the console"))
        .expect("it is among the clients");
    assert_eq!((clients.get(row, "type"), clients.get(row, "state")), (Some("C"), Some("active")));
    assert_eq!((clients.get(row, "user"), clients.get(row, "database")), (Some("app"), Some("app")));
    let server = (0..servers.rows.len())
        .find(|row| servers.get(*row, "remote_pid") == pid.as_deref())
        .expect("its server is among the servers");
    assert_eq!((servers.get(server, "type"), servers.get(server, "state")), (Some("S"), Some("active")));
    assert_eq!(clients.get(row, "link"), servers.get(server, "ptr"));
    assert_eq!(servers.get(server, "link"), clients.get(row, "ptr"));
    drop((client, idle));
}

#[test]
fn statistics_count_what_was_done() {
    let site = site();
    let mut client = site.connect();
    for _ in 0..10 {
        client.query("SELECT repeat('x', 1000)").unwrap();
    }
    client.query_all("BEGIN; SELECT 1").unwrap();
    client.query("COMMIT").unwrap();
    ask(&mut client, &Batch::new().parse("s", "SELECT 1").bind("", "s", &[]).execute("", 0).sync(), 1);
    let stats = site.weir().show("STATS");
    let row = (0..stats.rows.len()).find(|row| stats.get(*row, "database") == Some("app")).unwrap();
    let figure = |column: &str| stats.get(row, column).unwrap().parse::<u64>().unwrap();
    assert_eq!(figure("total_xact_count"), 12);
    assert_eq!(figure("total_query_count"), 13);
    assert_eq!(figure("total_server_assignment_count"), 12);
    assert_eq!(figure("total_client_parse_count"), 1);
    assert_eq!(figure("total_bind_count"), 1);
    assert!(figure("total_sent") > 10_000 && figure("total_sent") < 20_000, "{}", figure("total_sent"));
    assert!(figure("total_received") > 300 && figure("total_received") < 2_000, "{}", figure("total_received"));
    assert!(figure("total_query_time") > 0 && figure("total_xact_time") >= figure("total_query_time"));
}

#[test]
fn a_pause_waits_for_transactions_and_holds_new_ones_until_resume() {
    let site = site();
    let mut busy = site.connect();
    let mut next = site.connect();
    busy.query("BEGIN").unwrap();
    thread::scope(|scope| {
        let pause = scope.spawn(|| site.weir().command("PAUSE app"));
        thread::sleep(Duration::from_millis(200));
        assert!(!pause.is_finished(), "it waits for the transaction");
        busy.query("SELECT 1").unwrap();
        busy.query("COMMIT").unwrap();
        assert_eq!(pause.join().unwrap().unwrap().tag, "PAUSE");
        eventually("no server is left", || {
            let backends = site.database().backends();
            if backends.is_empty() { Ok(()) } else { Err(backends) }
        });
        let held = scope.spawn(move || next.value("SELECT 'resumed'"));
        let newest = scope.spawn(|| site.connect().value("SELECT 'newcomer'"));
        thread::sleep(Duration::from_millis(300));
        assert!(!held.is_finished() && !newest.is_finished(), "no client is served during a pause");
        assert_eq!(paused(&site), "1");
        assert_eq!(site.weir().command("RESUME app").unwrap().tag, "RESUME");
        assert_eq!(held.join().unwrap().unwrap().as_deref(), Some("resumed"));
        assert_eq!(newest.join().unwrap().unwrap().as_deref(), Some("newcomer"));
    });
    assert_eq!(paused(&site), "0");
}

fn paused(site: &Site) -> String {
    let databases = site.weir().show("DATABASES");
    let row = (0..databases.rows.len()).find(|row| databases.get(*row, "name") == Some("app")).unwrap();
    databases.get(row, "paused").unwrap().to_owned()
}

#[test]
fn a_pause_of_everything_is_undone_when_its_administrator_disconnects() {
    let site = site();
    let mut busy = site.connect();
    busy.query("BEGIN").unwrap();
    let mut console = site.weir().console();
    console.send_bytes(Batch::new().query("PAUSE").bytes()).unwrap();
    assert!(until_quiet(&mut console, Duration::from_millis(300)).is_empty(), "it waits");
    // Ctrl-C in psql: the cancel request undoes the pause.
    console.canceller().cancel().unwrap();
    let transcript = until_quiet(&mut console, Duration::from_secs(2));
    assert!(transcript.iter().any(|line| line.starts_with("Error")) || transcript.is_empty(), "{transcript:?}");
    busy.query("COMMIT").unwrap();
    drop(console);
    eventually("served again", || site.connect().value("SELECT 1"));
}

#[test]
fn reconnect_replaces_servers_as_they_become_free() {
    let site = site();
    let server = |client: &mut Connection| client.value("SELECT pg_backend_pid()").unwrap().unwrap();
    let (mut a, mut b) = (site.connect(), site.connect());
    a.query("BEGIN").unwrap();
    let of_a = server(&mut a);
    let of_b = server(&mut b);
    site.weir().command("RECONNECT app").unwrap();
    assert_eq!(server(&mut a), of_a, "a transaction is not cut");
    a.query("COMMIT").unwrap();
    let old = [of_a, of_b];
    for client in [&mut a, &mut b] {
        assert!(!old.contains(&server(client)));
    }
    eventually("the old ones are gone", || {
        let now = site.database().backends();
        if now.iter().any(|(pid, _)| old.contains(&pid.to_string())) { Err(now) } else { Ok(()) }
    });
}

#[test]
fn kill_drops_clients_and_servers_at_once_until_resume() {
    let site = site();
    let mut client = site.connect();
    client.query("BEGIN").unwrap();
    site.weir().command("KILL app").unwrap();
    let transcript = until_quiet(&mut client, Duration::from_secs(20));
    assert!(transcript[0].starts_with("Error 57P01"), "{transcript:?}");
    assert_eq!(transcript.last().unwrap(), "Closed");
    eventually("no server is left", || {
        let backends = site.database().backends();
        if backends.is_empty() { Ok(()) } else { Err(backends) }
    });
    site.weir().command("RESUME app").unwrap();
    assert_eq!(site.connect().value("SELECT 1").unwrap().as_deref(), Some("1"));
}

#[test]
fn kill_client_drops_one_client() {
    let site = site();
    let mut victim = Connection::connect(&site.params().option("application_name", "victim")).unwrap();
    let mut other = site.connect();
    let clients = site.weir().show("CLIENTS");
    let row = (0..clients.rows.len()).find(|row| clients.get(*row, "application_name") == Some("victim")).unwrap();
    let id = clients.get(row, "id").unwrap().to_owned();
    site.weir().command(&format!("KILL_CLIENT {id}")).unwrap();
    let transcript = until_quiet(&mut victim, Duration::from_secs(20));
    assert!(transcript[0].starts_with("Error 57P01"), "{transcript:?}");
    assert_eq!(other.value("SELECT 1").unwrap().as_deref(), Some("1"));
    assert!(site.weir().command(&format!("KILL_CLIENT {id}")).is_err());
}

#[test]
fn shutdown_ends_weir_at_once_and_with_status_0() {
    let site = site();
    let mut client = site.connect();
    client.query("BEGIN").unwrap();
    let _ = site.weir().command("SHUTDOWN");
    let status = site.weir().wait_for_exit();
    assert_eq!(status.code(), Some(0), "{}", site.weir().log());
    eventually("its servers are gone", || {
        let backends = site.database().backends();
        if backends.is_empty() { Ok(()) } else { Err(backends) }
    });
}

#[test]
fn shutdown_may_wait_for_clients() {
    let site = site();
    let mut client = site.connect();
    site.weir().command("SHUTDOWN WAIT_FOR_CLIENTS").unwrap();
    for _ in 0..3 {
        assert_eq!(client.value("SELECT 'still served'").unwrap().as_deref(), Some("still served"));
        thread::sleep(Duration::from_millis(100));
    }
    assert!(Connection::connect(&site.params()).is_err(), "newcomers are not");
    assert!(site.weir().exited().is_none());
    drop(client);
    assert_eq!(site.weir().wait_for_exit().code(), Some(0));
}

#[test]
fn shutdown_may_wait_for_servers() {
    let site = site();
    let mut busy = site.connect();
    let idle = site.connect();
    busy.query("BEGIN").unwrap();
    site.weir().command("SHUTDOWN WAIT_FOR_SERVERS").unwrap();
    thread::sleep(Duration::from_millis(300));
    assert!(site.weir().exited().is_none());
    assert_eq!(busy.value("SELECT 'in peace'").unwrap().as_deref(), Some("in peace"));
    busy.query("COMMIT").unwrap();
    assert_eq!(site.weir().wait_for_exit().code(), Some(0));
    drop(idle);
}

#[test]
fn kill_ends_waiting_clients_too() {
    let site = site();
    let mut holders = [site.connect(), site.connect()];
    holders.iter_mut().for_each(|holder| drop(holder.query("BEGIN").unwrap()));
    let mut waiting = site.connect();
    waiting.send_bytes(Batch::new().query("SELECT 1").bytes()).unwrap();
    site.weir().await_pool("one waits", |pool| pool.get("cl_waiting") == 1);
    site.weir().command("KILL").unwrap();
    for client in holders.iter_mut().chain([&mut waiting]) {
        let transcript = until_quiet(client, Duration::from_secs(20));
        assert!(transcript[0].starts_with("Error 57P01"), "{transcript:?}");
    }
    site.weir().command("RESUME").unwrap();
    assert_eq!(site.connect().value("SELECT 1").unwrap().as_deref(), Some("1"));
}

#[test]
fn several_commands_in_one_packet_are_answered_in_order() {
    let site = site();
    let mut console = site.weir().console();
    let mut batch = Batch::new();
    for _ in 0..50 {
        batch = batch.query("SHOW VERSION").query("SHOW STATE").query("nonsense");
    }
    let transcript = ask(&mut console, &batch, 150);
    let heads: Vec<_> =
        transcript.iter().filter(|line| line.starts_with("Columns") || line.starts_with("Error")).collect();
    assert_eq!(heads.len(), 150);
    assert!(heads.chunks(3).all(|three| three[0] == "Columns version" && three[1] == "Columns key,value"));
}

#[test]
fn the_console_answers_while_the_pool_is_full() {
    let site = site();
    let holders: Vec<_> = (0..2)
        .map(|_| {
            let mut client = site.connect();
            client.query("BEGIN").unwrap();
            client
        })
        .collect();
    let waiting: Vec<_> = (0..50)
        .map(|_| {
            let mut client = site.connect();
            client.send_bytes(Batch::new().query("SELECT 1").bytes()).unwrap();
            client
        })
        .collect();
    let row = site.weir().await_pool("fifty wait", |pool| pool.get("cl_waiting") == 50);
    assert_eq!(row.get("sv_active"), 2);
    drop(holders);
    for mut client in waiting {
        let frame = client.read_frame(Duration::from_secs(20)).unwrap();
        assert!(line_of(&frame).starts_with("Columns"), "{:?}", lines_of(&[frame]));
    }
}
