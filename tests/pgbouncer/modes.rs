//! Pool modes, and the pooler's own queries: at connect, before use, at release.

use std::time::Duration;

use weir_pgclient::Connection;
use weir_tests::{Batch, eventually, users};

use crate::harness::{Difference, Facts, Setup, Site, differ, same};

fn pid(client: &mut Connection) -> String {
    client.value("SELECT pg_backend_pid()").expect("it answers").expect("it has one")
}

fn alike(facts: &mut Facts, name: &str, one: &str, other: &str) {
    facts.note(name, if one == other { "the same server" } else { "another server" });
}

/// The observable behaviour of a mode, with two clients.
fn look(site: &Site, facts: &mut Facts) {
    let (mut one, mut two) = (site.client(), site.client());
    let first = pid(&mut one);
    facts.note("after a query", site.states("SERVERS", "app"));
    // 1.18 calls every client active that does not wait; later versions also distinguish clients without a server.
    facts.note("clients", site.states("CLIENTS", "app").replace("idle", "active"));
    alike(facts, "the next query of the same client", &first, &pid(&mut one));
    alike(facts, "another client meanwhile", &first, &pid(&mut two));
    facts.query("a setting", &mut one, "SET work_mem = '1234kB'");
    facts.query("is there", &mut one, "SHOW work_mem");
    facts.batch("a transaction", &mut one, &Batch::new().query("BEGIN"), usize::from(!statement(site)));
    if statement(site) {
        facts.end("is not allowed", &mut one);
    } else {
        let inside = pid(&mut one);
        facts.note("servers within", site.states("SERVERS", "app"));
        alike(facts, "another client within", &inside, &pid(&mut two));
        facts.batch("an error", &mut one, &Batch::new().query("SELECT 1/0"), 1);
        facts.batch("and after it", &mut one, &Batch::new().query("SELECT 1"), 1);
        facts.batch("rolled back", &mut one, &Batch::new().query("ROLLBACK"), 1);
        alike(facts, "the server after it", &inside, &pid(&mut one));
    }
    facts.batch("two statements", &mut two, &Batch::new().query("SELECT 1; SELECT 2"), 1);
    facts.batch("extended", &mut two, &Batch::new().run("SELECT $1::int", &["7"]).sync(), 1);
    facts.note("pool_mode", site.show("POOLS").get(0, "pool_mode").unwrap_or("NULL"));
    drop((one, two));
    site.await_pool("app", "cl_active", 0);
    site.await_pool("app", "sv_active", 0);
    let mut next = site.client();
    facts.query("what is left of the setting", &mut next, "SHOW work_mem");
}

fn statement(site: &Site) -> bool {
    site.config("pool_mode") == "statement"
}

#[test]
fn session_mode() {
    same(&Setup::new().mode("session"), look);
}

#[test]
fn transaction_mode() {
    same(&Setup::new().mode("transaction"), look);
}

#[test]
fn statement_mode() {
    let refused = "Error 08P01 transaction blocks not allowed in statement pooling mode; Closed";
    let after = "Complete BEGIN; Error 08P01 transaction blocks not allowed in statement pooling mode; Closed";
    let why = "earlier answers of the server are passed on, whether they came in one packet or in two";
    differ(
        &Setup::new().mode("statement"),
        &[Difference { fact: "is not allowed", pgbouncer: refused, weir: after, why }],
        look,
    );
}

#[test]
fn modes_of_databases_and_users_override_the_general_one() {
    let setup = Setup::new().mode("session").database("tx", "pool_mode=transaction").database("plain", "");
    let setup = setup.tail("[users]\nother = pool_mode=statement\n");
    same(&setup, |site, facts| {
        let mut clients = Vec::new();
        for (user, database) in
            [(users::APP, "tx"), (users::APP, "plain"), (users::OTHER, "plain"), (users::OTHER, "tx")]
        {
            let mut client = site.connect(&site.params(user, database));
            facts.query(&format!("{} in {database}", user.name), &mut client, "SELECT 1");
            clients.push(client);
        }
        let pools = site.show("POOLS");
        let rows = (0..pools.rows.len()).map(|row| {
            ["database", "user", "pool_mode", "sv_active", "sv_idle"]
                .map(|column| pools.get(row, column).unwrap_or("NULL"))
                .join(" ")
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort();
        facts.note("pools", rows.join("; "));
    });
}

#[test]
fn the_reset_query_runs_when_a_session_ends() {
    same(&Setup::new().set("default_pool_size", "1"), |site, facts| {
        let mut one = site.client();
        let first = pid(&mut one);
        one.query_all("SET work_mem = '1234kB'; PREPARE x AS SELECT 1; CREATE TEMPORARY TABLE t (i int)")
            .expect("done");
        drop(one);
        let mut two = site.client();
        alike(facts, "the next client", &first, &pid(&mut two));
        facts.query("the setting", &mut two, "SHOW work_mem");
        facts.query("the statement", &mut two, "EXECUTE x");
        facts.query("the table", &mut two, "SELECT * FROM t");
    });
}

#[test]
fn a_custom_reset_query_runs() {
    let setup = Setup::new().set("default_pool_size", "1").set("server_reset_query", "SET work_mem = '777kB'");
    same(&setup, |site, facts| {
        let mut one = site.client();
        let first = pid(&mut one);
        one.query("PREPARE x AS SELECT 1").expect("done");
        drop(one);
        let mut two = site.client();
        alike(facts, "the next client", &first, &pid(&mut two));
        facts.query("the setting", &mut two, "SHOW work_mem");
        facts.query("the statement", &mut two, "EXECUTE x");
    });
}

#[test]
fn a_reset_query_that_fails_is_ignored() {
    let setup = Setup::new().set("default_pool_size", "1").set("server_reset_query", "SELECT 1/0");
    same(&setup, |site, facts| {
        let mut one = site.client();
        let first = pid(&mut one);
        drop(one);
        let mut two = site.client();
        alike(facts, "the next client", &first, &pid(&mut two));
    });
}

#[test]
fn without_a_reset_query_state_stays() {
    let setup = Setup::new().set("default_pool_size", "1").set("server_reset_query", "");
    same(&setup, |site, facts| {
        let mut one = site.client();
        one.query_all("SET work_mem = '1234kB'; PREPARE x AS SELECT 1").expect("done");
        drop(one);
        let mut two = site.client();
        facts.query("the setting", &mut two, "SHOW work_mem");
        facts.query("the statement", &mut two, "EXECUTE x");
    });
}

#[test]
fn the_reset_query_may_run_in_every_mode() {
    for (always, mode) in [("0", "transaction"), ("1", "transaction"), ("1", "statement")] {
        let setup = Setup::new().mode(mode).set("default_pool_size", "1").set("server_reset_query_always", always);
        same(&setup, |site, facts| {
            let mut one = site.client();
            one.query("SET work_mem = '1234kB'").expect("done");
            facts.query("the setting", &mut one, "SHOW work_mem");
        });
    }
}

#[test]
fn the_connect_query_runs_once_a_server() {
    let setup = Setup::new().mode("transaction").set("default_pool_size", "1");
    let setup = setup.database("app", "connect_query='SET work_mem = ''555kB'''");
    same(&setup.database("bad", "connect_query='SELECT 1/0'"), |site, facts| {
        let mut client = site.client();
        facts.query("the setting", &mut client, "SHOW work_mem");
        client.query("SET work_mem = '1234kB'").expect("done");
        facts.query("it is not run again", &mut client, "SHOW work_mem");
        let mut client = site.connect(&site.params(users::APP, "bad"));
        facts.query("one that fails is ignored", &mut client, "SELECT 1");
    });
}

#[test]
fn the_check_query_runs_before_use() {
    let setup = Setup::new().mode("transaction").set("server_check_delay", "0").set("default_pool_size", "1");
    let setup = setup.set("server_check_query", "SET work_mem = '999kB'");
    same(&setup, |site, facts| {
        let mut client = site.client();
        client.query("SELECT 1").expect("it answers");
        site.await_pool("app", "sv_used", 1);
        facts.note("state", site.states("SERVERS", "app"));
        facts.query("after the check", &mut client, "SHOW work_mem");
    });
}

#[test]
fn a_server_whose_check_fails_is_replaced() {
    let setup = Setup::new().mode("transaction").set("server_check_delay", "0").set("default_pool_size", "1");
    same(&setup.set("server_check_query", "SELECT 1"), |site, facts| {
        let mut client = site.client();
        let first = pid(&mut client);
        site.await_pool("app", "sv_used", 1);
        site.database().superuser().query(&format!("SELECT pg_terminate_backend({first})")).expect("done");
        eventually("the server is gone", || match site.pool("app", "sv_used") {
            0 => Ok(()),
            left => Err(left),
        });
        alike(facts, "the next query", &first, &pid(&mut client));
    });
}

#[test]
fn a_client_that_leaves_in_a_transaction_closes_its_server() {
    for mode in ["session", "transaction"] {
        same(&Setup::new().mode(mode).set("default_pool_size", "1"), |site, facts| {
            let mut one = site.client();
            let first = pid(&mut one);
            one.query("BEGIN").expect("done");
            drop(one);
            let mut two = site.client();
            alike(facts, "the next client", &first, &pid(&mut two));
        });
    }
}

#[test]
fn a_server_that_dies_closes_its_client() {
    let both =
        "Error 57P01 terminating connection due to administrator command; Error 08P01 server conn crashed?; Closed";
    let own = "Error 57P01 terminating connection due to administrator command; Closed";
    let why = "the server's own error says more than a second error after it";
    let differences = [Difference { fact: "in a transaction", pgbouncer: both, weir: own, why }];
    differ(&Setup::new().mode("transaction"), &differences, |site, facts| {
        let mut client = site.client();
        client.query("BEGIN").expect("done");
        let victim = pid(&mut client);
        site.database().superuser().query(&format!("SELECT pg_terminate_backend({victim})")).expect("done");
        facts.end("in a transaction", &mut client);
        let mut client = site.client();
        let victim = pid(&mut client);
        site.database().superuser().query(&format!("SELECT pg_terminate_backend({victim})")).expect("done");
        std::thread::sleep(Duration::from_millis(200));
        facts.query("between transactions", &mut client, "SELECT 1");
    });
}
