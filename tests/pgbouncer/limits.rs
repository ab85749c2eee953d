//! The limits on servers and clients, and the errors beyond them.

use std::thread;
use std::time::Duration;

use weir_pgclient::Connection;
use weir_tests::{Batch, eventually, until_quiet, users};

use crate::harness::{Facts, Setup, Site, same};

/// Sends a query without waiting for its answer.
fn ask(client: &mut Connection, sql: &str) {
    client.send_bytes(Batch::new().query(sql).bytes()).expect("it reads");
}

/// Notes whether an answer came within a moment.
fn waiting(facts: &mut Facts, name: &str, client: &mut Connection) {
    let transcript = until_quiet(client, Duration::from_millis(700)).join("; ");
    facts.note(name, if transcript.is_empty() { "waits" } else { &transcript });
}

/// The numbers of a pool that the cases check.
fn counts(site: &Site, database: &str) -> String {
    let columns = ["cl_active", "cl_waiting", "sv_active", "sv_idle"];
    columns.map(|column| format!("{column}={}", site.pool(database, column))).join(" ")
}

#[test]
fn a_full_pool_lets_clients_wait_until_query_wait_timeout() {
    let setup = Setup::new().mode("transaction").set("default_pool_size", "1").set("query_wait_timeout", "2");
    same(&setup, |site, facts| {
        let (mut one, mut two, mut three) = (site.client(), site.client(), site.client());
        one.query("BEGIN").expect("done");
        ask(&mut two, "SELECT 2");
        site.await_pool("app", "cl_waiting", 1);
        facts.note("counts", counts(site, "app"));
        facts.note("states", site.states("CLIENTS", "app").replace("idle", "active"));
        facts.end("after the time", &mut two);
        ask(&mut three, "SELECT 3");
        site.await_pool("app", "cl_waiting", 1);
        one.query("COMMIT").expect("done");
        waiting(facts, "served in time", &mut three);
    });
}

#[test]
fn waiting_clients_are_served_in_their_order() {
    let setup = Setup::new().mode("transaction").set("default_pool_size", "1");
    same(&setup, |site, facts| {
        let mut first = site.client();
        first.query("BEGIN").expect("done");
        let mut others: Vec<_> = (0..3).map(|_| site.client()).collect();
        first.query("CREATE TABLE log (i int, at serial)").expect("done");
        for (number, client) in others.iter_mut().enumerate() {
            ask(client, &format!("INSERT INTO log VALUES ({number})"));
            site.await_pool("app", "cl_waiting", i64::try_from(number).expect("few") + 1);
        }
        first.query("COMMIT").expect("done");
        eventually("all are served", || match site.pool("app", "cl_waiting") {
            0 => Ok(()),
            left => Err(left),
        });
        facts.query("the order", &mut first, "SELECT string_agg(i::text, ',' ORDER BY at) FROM log");
    });
}

#[test]
fn the_reserve_opens_for_clients_that_have_waited() {
    let setup = Setup::new().mode("transaction").set("default_pool_size", "1");
    let setup = setup.set("reserve_pool_size", "1").set("reserve_pool_timeout", "1");
    same(&setup, |site, facts| {
        let (mut one, mut two, mut three) = (site.client(), site.client(), site.client());
        one.query("BEGIN").expect("done");
        ask(&mut two, "BEGIN");
        facts.end_of_answer("the second", &mut two);
        facts.note("counts", counts(site, "app"));
        ask(&mut three, "SELECT 3");
        thread::sleep(Duration::from_millis(1500));
        waiting(facts, "the third", &mut three);
    });
}

#[test]
fn too_many_clients_get_an_error() {
    let setup = Setup::new().set("max_client_conn", "3");
    same(&setup, |site, facts| {
        let _one = site.client();
        let _two = site.client();
        let three = site.client();
        facts.login("the fourth", &site.params(users::APP, "app"));
        facts.login("the administrator", &site.named("admin", "pgbouncer").password("console secret"));
        drop(three);
        thread::sleep(Duration::from_millis(300));
        facts.login("after one has gone", &site.params(users::APP, "app"));
    });
}

#[test]
fn max_db_connections_holds_for_all_users_of_a_database() {
    for setup in [
        Setup::new().mode("transaction").set("max_db_connections", "2"),
        Setup::new().mode("transaction").database("app", "max_db_connections=2"),
    ] {
        same(&setup, |site, facts| {
            let (mut one, mut two) = (site.client(), site.client());
            one.query("BEGIN").expect("done");
            two.query("BEGIN").expect("done");
            let mut other = Connection::open(&site.params(users::OTHER, "app")).expect("it listens");
            let login = site.params(users::OTHER, "app").timeout(Duration::from_secs(2));
            facts.login("another user's login", &login);
            let databases = site.show("DATABASES");
            facts.note("max_connections", databases.get(0, "max_connections").unwrap_or("NULL"));
            facts.note("current_connections", databases.get(0, "current_connections").unwrap_or("NULL"));
            two.query("COMMIT").expect("done");
            facts.login("when a server is idle", &site.params(users::OTHER, "app"));
            facts.note("the idle one was closed", counts(site, "app"));
            drop(other.shutdown_write());
        });
    }
}

#[test]
fn max_user_connections_holds_for_all_databases_of_a_user() {
    for setup in
        [Setup::new().set("max_user_connections", "1"), Setup::new().tail("[users]\napp = max_user_connections=1\n")]
    {
        same(&setup.mode("transaction").database("second", ""), |site, facts| {
            let mut one = site.client();
            one.query("BEGIN").expect("done");
            let second = site.params(users::APP, "second");
            facts.login("in another database", &second.clone().timeout(Duration::from_secs(2)));
            one.query("COMMIT").expect("done");
            if let Some(mut client) = facts.login("when its server is idle", &second) {
                facts.query("and served", &mut client, "SELECT 1");
            }
            facts.note("first", counts(site, "app"));
            facts.note("second", counts(site, "second"));
        });
    }
}

#[test]
fn sizes_of_a_database_override_the_general_ones() {
    let setup = Setup::new().mode("transaction").set("default_pool_size", "1").set("reserve_pool_size", "4");
    let setup = setup.database("app", "pool_size=2 reserve_pool=3 min_pool_size=1").database("plain", "");
    same(&setup, |site, facts| {
        let (mut one, mut two, mut three) = (site.client(), site.client(), site.client());
        one.query("BEGIN").expect("done");
        two.query("BEGIN").expect("done");
        ask(&mut three, "SELECT 3");
        waiting(facts, "the third", &mut three);
        let databases = site.show("DATABASES");
        for name in ["app", "plain"] {
            let row =
                (0..databases.rows.len()).find(|row| databases.get(*row, "name") == Some(name)).expect("it is there");
            let value = |column| databases.get(row, column).unwrap_or("NULL");
            facts.note(name, ["pool_size", "min_pool_size", "max_connections", "pool_mode"].map(value).join(","));
        }
    });
}

#[test]
fn min_pool_size_fills_up_after_the_first_client() {
    let setup = Setup::new().mode("transaction").set("min_pool_size", "3");
    let forced = Setup::new().mode("transaction").set("min_pool_size", "2").database("app", "user=app");
    same(&setup, |site, facts| {
        thread::sleep(Duration::from_millis(1500));
        facts.note("before", site.pool("app", "sv_idle"));
        let client = site.client();
        site.await_pool("app", "sv_idle", 3);
        facts.note("after", counts(site, "app"));
        drop(client);
    });
    same(&forced, |site, facts| {
        let mut client = site.client();
        client.query("SELECT 1").expect("it answers");
        site.await_pool("app", "sv_idle", 2);
        facts.note("forced", counts(site, "app"));
    });
}
