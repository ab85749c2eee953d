//! What Weir asks a server behind a client's transaction (`mode = "auto"`) is not ended by what the client has set, and
//! leaves that as it is.

use std::thread;

use weir_pgclient::Connection;
use weir_tests::{Mode, Postgres, Setup, Site, eventually, users};

fn auto(size: u32) -> Site {
    Site::with(Setup::new(Mode::Auto).size(size).limit("server_round_robin = true\nmax_pinned = 100"), Mode::Auto)
}

fn pinned(site: &Site) -> Vec<String> {
    let clients = site.weir().show("CLIENTS");
    let by = |row| clients.get(row, "pinned_by").unwrap_or_default().to_owned();
    (0..clients.rows.len()).map(by).filter(|by| !by.is_empty()).collect()
}

fn show(client: &mut Connection, name: &str) -> String {
    client.value(&format!("SHOW {name}")).unwrap().unwrap()
}

#[test]
fn the_time_limits_of_a_client_do_not_end_a_question() {
    // What the question waits for is a table of the whole server.
    let setup = Setup::new(Mode::Auto).size(3).limit("server_round_robin = true\nmax_pinned = 100");
    let site = Site::on(&Postgres::private(), setup, Mode::Auto);
    for set in [
        "SET lock_timeout = '40ms'",
        "SET statement_timeout = '40ms'",
        "SET lock_timeout = '40ms'; SET statement_timeout = '1min'",
        "SELECT set_config('statement_timeout', '40', false)",
    ] {
        let mut client = site.connect();
        client.query_all(set).unwrap();
        let limits = ["lock_timeout", "statement_timeout"].map(|name| show(&mut client, name));
        // The question reads this table, and waits; so does a login.
        let (mut blocker, mut looker) = (site.superuser(), site.superuser());
        blocker.query_all("BEGIN; LOCK TABLE pg_db_role_setting IN ACCESS EXCLUSIVE MODE").unwrap();
        thread::scope(|scope| {
            let asked = scope.spawn(|| client.query("SET work_mem = '77MB'").map(drop));
            let longer = "clock_timestamp() - query_start > interval '100ms'";
            await_question(&mut looker, "it waits for longer than the client's limits", longer);
            let asked_at = looker.value("SELECT clock_timestamp()").unwrap().expect("a time");
            // One that is cancelled from outside is repeated.
            let cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
            blocker.query(cancel).unwrap();
            await_question(&mut looker, "it is repeated", &format!("query_start > '{asked_at}'"));
            blocker.query("ROLLBACK").unwrap();
            asked.join().unwrap().unwrap();
        });
        assert_eq!(pinned(&site), Vec::<String>::new(), "{set}");
        for _ in 0..4 {
            let now = ["lock_timeout", "statement_timeout"].map(|name| show(&mut client, name));
            assert_eq!((now, show(&mut client, "work_mem")), (limits.clone(), "77MB".to_owned()), "{set}");
        }
    }
}

/// One question waits for a lock, and fulfils the condition. `looker` is in no transaction: there these figures would not
/// change.
fn await_question(looker: &mut Connection, what: &str, condition: &str) {
    let waits = format!("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND {condition}");
    eventually(what, || match looker.value(&waits).unwrap() {
        Some(one) if one == "1" => Ok(()),
        other => Err(other),
    });
}

#[test]
fn a_time_limit_follows_its_client_whatever_it_was_set_to() {
    let site = auto(3);
    let mut superuser = site.superuser();
    let database = superuser.value("SELECT quote_ident(current_database())").unwrap().unwrap();
    superuser.query(&format!("ALTER DATABASE {database} SET statement_timeout = '90s'")).unwrap();
    site.weir().command("RECONNECT").unwrap();
    let asking = site.params_of(users::APP).option("options", "-c statement_timeout=7000 -c lock_timeout=8s");
    for (asks, before) in [(false, ["1500ms", "0"]), (true, ["7s", "8s"])] {
        let mut client = if asks { Connection::connect(&asking).unwrap() } else { site.connect() };
        let both = |client: &mut Connection| ["statement_timeout", "lock_timeout"].map(|name| show(client, name));
        for (text, wanted) in [
            ("SET statement_timeout = '1500ms'", ["1500ms", before[1]]),
            ("SET statement_timeout = 0", ["0", before[1]]),
            ("SET statement_timeout = '90s'", ["90s", before[1]]),
            ("SET statement_timeout = '90s'; SET lock_timeout = 0", ["90s", "0"]),
            ("SET lock_timeout = '1d'", ["90s", "1d"]),
            ("BEGIN; SET statement_timeout = 5; ROLLBACK", ["90s", "1d"]),
            ("BEGIN; SET LOCAL lock_timeout = 5; COMMIT", ["90s", "1d"]),
            ("RESET statement_timeout; RESET lock_timeout", if asks { ["7s", "8s"] } else { ["90s", "0"] }),
        ] {
            client.query_all(text).unwrap();
            for _ in 0..4 {
                // Another setting lets the server be asked again.
                client.query("SET work_mem = '77MB'").unwrap();
                assert_eq!(both(&mut client), wanted, "{asks} {text}");
                assert_eq!(both(&mut site.connect()), ["90s".to_owned(), "0".to_owned()], "another client");
            }
        }
    }
    assert_eq!(pinned(&site), Vec::<String>::new());
    superuser.query(&format!("ALTER DATABASE {database} RESET statement_timeout")).unwrap();
}

#[test]
fn each_setting_by_which_postgresql_weighs_plans_is_known() {
    let site = Site::direct();
    let mut superuser = site.superuser();
    let rows = superuser.query("SELECT name FROM pg_settings WHERE category LIKE 'Query Tuning%'").unwrap().rows;
    let names: Vec<String> = rows.into_iter().filter_map(|row| row.into_iter().next()?).collect();
    assert!(names.len() > 40, "{names:?}");
    let unknown: Vec<&String> = names.iter().filter(|name| !weir_pgwire::sql::weighs_plans(name)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}
