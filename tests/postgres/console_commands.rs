//! What operators do to pools under load, on one worker and on three.

use std::thread;
use std::time::Duration;

use weir_pgclient::Connection;
use weir_tests::{ADMIN, Batch, Mode, Postgres, Setup, Site, eventually, until_quiet, users};

/// Four pools on these workers: `app`, `p0`, `p1` and `p2`.
fn site(workers: u32) -> Site {
    let mut setup = Setup::new(Mode::Transaction).workers(workers);
    for number in 0..3 {
        setup = setup.more(&format!(
            "[pools.p{number}]\nhost = \"127.0.0.1\"\nport = {}\ndatabase = \"postgres\"\nuser = \"truster\"\n",
            Postgres::shared().port()
        ));
    }
    Site::with(setup, Mode::Transaction)
}

const POOLS: [&str; 4] = ["app", "p0", "p1", "p2"];

fn connect(site: &Site, pool: &str) -> Connection {
    let params = site.weir().params(users::APP.name, pool).password(users::APP.password);
    Connection::connect(&params).unwrap_or_else(|error| panic!("{pool}: {error}"))
}

fn refusal(site: &Site, pool: &str, password: &str) -> String {
    let params = site.weir().params(users::APP.name, pool).password(password);
    Connection::connect(&params).expect_err("it is refused").to_string()
}

fn one(client: &mut Connection) -> String {
    client.value("SELECT 1").unwrap().unwrap()
}

fn pid(client: &mut Connection) -> String {
    client.value("SELECT pg_backend_pid()").unwrap().unwrap()
}

/// A command that must succeed; its tag is its own name.
#[track_caller]
fn done(console: &mut Connection, command: &str) {
    let answer = console.query(command).unwrap_or_else(|error| panic!("{command}: {error}"));
    assert_eq!(answer.tag, command.split(' ').next().unwrap(), "{command}");
}

#[track_caller]
fn fails(console: &mut Connection, command: &str, text: &str) {
    let error = console.query(command).expect_err(command);
    assert_eq!(error.server().unwrap().message, text, "{command}");
}

/// A setting's value by SHOW CONFIG.
fn setting(console: &mut Connection, key: &str) -> String {
    let config = console.query("SHOW CONFIG").unwrap();
    let row = (0..config.rows.len()).find(|row| config.get(*row, "key") == Some(key)).expect(key);
    config.get(row, "value").unwrap_or_default().to_owned()
}

#[test]
fn a_suspend_keeps_transactions_and_servers_until_resume() {
    for workers in [1, 3] {
        let site = site(workers);
        let mut console = site.weir().console();
        let mut busy: Vec<Connection> = POOLS.iter().map(|pool| connect(&site, pool)).collect();
        busy.iter_mut().for_each(|client| drop(client.query("BEGIN").unwrap()));
        let pids: Vec<String> = busy.iter_mut().map(pid).collect();
        done(&mut console, "SUSPEND");
        fails(&mut console, "SUSPEND", "already suspended/paused");
        fails(&mut console, "PAUSE app", "already suspended/paused");
        let state = console.query("SHOW STATE").unwrap();
        assert_eq!(state.get(2, "value"), Some("yes"), "{state:?}");
        thread::scope(|scope| {
            let asked: Vec<_> = busy.iter_mut().map(|client| scope.spawn(move || pid(client))).collect();
            let late = scope.spawn(|| one(&mut connect(&site, "p1")));
            thread::sleep(Duration::from_millis(300));
            assert!(asked.iter().all(|asked| !asked.is_finished()) && !late.is_finished(), "nothing is read");
            done(&mut console, "RESUME");
            let after: Vec<String> = asked.into_iter().map(|asked| asked.join().unwrap()).collect();
            assert_eq!(after, pids, "the servers are the same");
            assert_eq!(late.join().unwrap(), "1");
        });
        busy.iter_mut().for_each(|client| drop(client.query("COMMIT").unwrap()));
        fails(&mut console, "RESUME", "pooler is not paused/suspended");
    }
}

#[test]
fn a_suspend_lasts_while_an_operator_is_there_and_ends_with_the_last() {
    for workers in [1, 3] {
        let site = site(workers);
        let mut consoles: Vec<Connection> = (0..6).map(|_| site.weir().console()).collect();
        let mut client = connect(&site, "app");
        done(&mut consoles[0], "SUSPEND");
        client.send_bytes(Batch::new().query("SELECT 1").bytes()).unwrap();
        let mut last = consoles.pop().unwrap();
        drop(consoles);
        assert!(until_quiet(&mut client, Duration::from_millis(500)).is_empty(), "one operator is still there");
        assert_eq!(last.query("SHOW STATE").unwrap().get(2, "value"), Some("yes"));
        drop(last);
        let transcript = until_quiet(&mut client, Duration::from_secs(3));
        assert_eq!(transcript.last().unwrap(), "Ready I", "{transcript:?}");
        assert!(site.weir().log().contains("admin disappeared when suspended, doing RESUME"));
    }
}

#[test]
fn wait_close_answers_when_what_reconnect_replaces_is_closed() {
    for workers in [1, 3] {
        let site = site(workers);
        let mut console = site.weir().console();
        let mut busy = connect(&site, "p0");
        let mut idle = connect(&site, "app");
        busy.query("BEGIN").unwrap();
        let old = pid(&mut busy);
        one(&mut idle);
        done(&mut console, "WAIT_CLOSE");
        done(&mut console, "RECONNECT");
        thread::scope(|scope| {
            let wait = scope.spawn(|| site.weir().command("WAIT_CLOSE"));
            done(&mut console, "WAIT_CLOSE p2");
            thread::sleep(Duration::from_millis(300));
            assert!(!wait.is_finished(), "a server is still at work");
            busy.query("COMMIT").unwrap();
            assert_eq!(wait.join().unwrap().unwrap().tag, "WAIT_CLOSE");
        });
        assert_ne!(pid(&mut busy), old);
    }
}

#[test]
fn a_disabled_database_keeps_its_clients_and_takes_no_others() {
    for workers in [1, 3] {
        let site = site(workers);
        let mut console = site.weir().console();
        let mut old: Vec<Connection> = POOLS.iter().map(|pool| connect(&site, pool)).collect();
        for pool in POOLS {
            done(&mut console, &format!("DISABLE {pool}"));
        }
        for pool in POOLS {
            assert!(refusal(&site, pool, users::APP.password).contains(&format!("database \"{pool}\" is disabled")));
            assert!(refusal(&site, pool, "wrong").contains("SASL authentication failed"));
        }
        old.iter_mut().for_each(|client| assert_eq!(one(client), "1"));
        for pool in POOLS {
            done(&mut console, &format!("ENABLE {pool}"));
            assert_eq!(one(&mut connect(&site, pool)), "1");
        }
        fails(&mut console, "DISABLE nowhere", "no such database: nowhere");
        fails(&mut console, "ENABLE", "a database is required");
    }
}

#[test]
fn a_kill_drops_all_clients_and_leaves_the_databases_paused() {
    for workers in [1, 3] {
        let site = site(workers);
        let mut console = site.weir().console();
        let mut clients: Vec<Connection> = POOLS.iter().map(|pool| connect(&site, pool)).collect();
        clients.iter_mut().for_each(|client| drop(client.query("BEGIN").unwrap()));
        done(&mut console, "KILL");
        for client in &mut clients {
            let transcript = until_quiet(client, Duration::from_secs(20));
            assert!(transcript[0].starts_with("Error 57P01"), "{transcript:?}");
        }
        thread::scope(|scope| {
            let late = scope.spawn(|| one(&mut connect(&site, "p2")));
            thread::sleep(Duration::from_millis(300));
            assert!(!late.is_finished());
            for pool in POOLS {
                done(&mut console, &format!("RESUME {pool}"));
            }
            assert_eq!(late.join().unwrap(), "1");
        });
        fails(&mut console, "RESUME p0", "database p0 is not paused");
    }
}

#[test]
fn a_client_is_killed_on_whichever_worker_it_is() {
    for workers in [1, 3] {
        let site = site(workers);
        let mut console = site.weir().console();
        let mut clients: Vec<Connection> = POOLS.iter().map(|pool| connect(&site, pool)).collect();
        let table = console.query("SHOW CLIENTS").unwrap();
        for (pool, client) in POOLS.iter().zip(&mut clients) {
            let row = (0..table.rows.len()).find(|row| table.get(*row, "database") == Some(pool)).unwrap();
            done(&mut console, &format!("KILL_CLIENT {}", table.get(row, "id").unwrap()));
            let transcript = until_quiet(client, Duration::from_secs(20));
            assert!(transcript[0].starts_with("Error 57P01"), "{transcript:?}");
        }
        fails(&mut console, "KILL_CLIENT 999999", "client not found");
        fails(&mut console, "KILL_CLIENT", "invalid client pointer supplied");
    }
}

#[test]
fn set_changes_every_worker_at_once_and_reload_takes_it_back() {
    for workers in [1, 3] {
        let site = site(workers);
        let mut console = site.weir().console();
        let before = (setting(&mut console, "default_pool_size"), setting(&mut console, "query_wait_timeout"));
        assert_eq!(console.query("SET default_pool_size = 1").unwrap().tag, "SET default_pool_size=1");
        assert_eq!(console.query("SET query_wait_timeout = '1'").unwrap().tag, "SET query_wait_timeout=1");
        assert_eq!(setting(&mut console, "default_pool_size"), "1");
        for pool in &POOLS[1..] {
            let mut holder = connect(&site, pool);
            let mut next = connect(&site, pool);
            holder.query("BEGIN").unwrap();
            let error = next.query("SELECT 1").expect_err("there is one server and a short timeout");
            assert!(error.to_string().contains("query_wait_timeout"), "{pool}: {error}");
        }
        done(&mut console, "RELOAD");
        let after = (setting(&mut console, "default_pool_size"), setting(&mut console, "query_wait_timeout"));
        assert_eq!(after, before);
        for pool in &POOLS[1..] {
            let mut holder = connect(&site, pool);
            holder.query("BEGIN").unwrap();
            assert_eq!(one(&mut connect(&site, pool)), "1", "{pool}");
        }
        for wrong in ["SET listen_port = 1", "SET nothing = 1", "SET default_pool_size = many"] {
            fails(&mut console, wrong, "SET failed");
        }
        assert_eq!(console.query("SET client_encoding = 'x'").unwrap().tag, "SET");
    }
}

#[test]
fn clients_of_all_workers_are_listed_in_one_table() {
    let site = site(3);
    let clients: Vec<Connection> = (0..200).map(|number| connect(&site, POOLS[number % 4])).collect();
    let mut console = site.weir().console();
    for _ in 0..3 {
        let table = console.query("SHOW CLIENTS").unwrap();
        for pool in POOLS {
            let rows = (0..table.rows.len()).filter(|row| table.get(*row, "database") == Some(pool)).count();
            assert_eq!(rows, 50, "{pool}");
        }
        let mut ids: Vec<_> = (0..table.rows.len()).map(|row| table.get(row, "id").unwrap().to_owned()).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 201, "the operator is one of them");
    }
    drop(clients);
    eventually("only the operator is left", || {
        let rows = console.query("SHOW CLIENTS").unwrap().rows.len();
        if rows == 1 { Ok(()) } else { Err(rows) }
    });
}

#[test]
fn impossible_commands_get_pgbouncers_errors() {
    let site = site(3);
    let mut console = site.weir().console();
    fails(&mut console, ";", "invalid command ';', use SHOW HELP;");
    fails(&mut console, "PAUSE pgbouncer", "cannot pause admin db: pgbouncer");
    fails(&mut console, "WAIT_CLOSE pgbouncer", "cannot wait in admin db: pgbouncer");
    fails(&mut console, "RESUME app", "database app is not paused");
    let error = console.query("SHOW FDS").expect_err("SHOW FDS");
    assert_eq!(error.sqlstate(), Some("0A000"));
    done(&mut console, "PAUSE p1");
    fails(&mut console, "SUSPEND", "cannot suspend with paused databases");
    done(&mut console, "RESUME p1");
    done(&mut console, "PAUSE");
    fails(&mut console, "KILL nowhere", "no such database: nowhere");
    fails(&mut console, "KILL app", "already suspended/paused");
    done(&mut console, "RESUME");
    let roles = Connection::connect(&site.weir().params(ADMIN.0, "pgbouncer").password("wrong"));
    assert!(roles.is_err());
}
