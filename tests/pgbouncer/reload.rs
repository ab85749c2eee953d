//! RELOAD: which changes take effect when, and that no client is disconnected.

use weir_pgclient::Connection;
use weir_tests::{eventually, users};

use crate::harness::{Difference, Facts, Setup, Site, differ, same};

fn setup() -> Setup {
    Setup::new().mode("transaction")
}

fn pid(client: &mut Connection) -> String {
    client.value("SELECT pg_backend_pid()").expect("it answers").expect("it has one")
}

fn reload(site: &Site, facts: &mut Facts, name: &str, setup: &Setup) {
    site.rewrite(setup);
    let outcome = site.console().query("RELOAD");
    facts.note(name, outcome.map_or_else(|error| crate::harness::error_line(&error), |answer| answer.tag));
}

#[test]
fn clients_and_servers_stay_where_nothing_changed() {
    same(&setup(), |site, facts| {
        let mut client = site.client();
        let mut busy = site.client();
        let first = pid(&mut client);
        busy.query("BEGIN").expect("done");
        reload(site, facts, "the same file", &setup());
        reload(site, facts, "another setting", &setup().set("query_timeout", "99").database("second", ""));
        facts.note(
            "the same server",
            first == {
                busy.query("COMMIT").expect("done");
                pid(&mut client)
            } || first == pid(&mut busy),
        );
        facts.login("a new database", &site.params(users::APP, "second"));
        facts.note("the setting", site.config("query_timeout"));
    });
}

#[test]
fn a_changed_database_reconnects_when_its_servers_are_free() {
    same(&setup(), |site, facts| {
        let (mut busy, mut idle) = (site.client(), site.client());
        busy.query("BEGIN").expect("done");
        let first = pid(&mut busy);
        pid(&mut idle);
        reload(site, facts, "reload", &setup().database("app", "connect_query='SELECT 1' application_name=changed"));
        facts.note("in its transaction it stays", pid(&mut busy) == first);
        busy.query("COMMIT").expect("done");
        facts.note("then it is another", pid(&mut busy) != first);
        facts.query("the client stays", &mut idle, "SELECT 1");
    });
}

#[test]
fn a_removed_database() {
    let error_line = "Error 08P01 database removed; Closed";
    let why = "a reload disconnects no client; connected clients finish their work";
    let stays = |fact| Difference::of(fact, error_line, "", why);
    differ(&setup().database("gone", ""), &[stays("an idle client"), stays("a busy client")], |site, facts| {
        let mut idle = site.connect(&site.params(users::APP, "gone"));
        let mut busy = site.connect(&site.params(users::APP, "gone"));
        busy.query("BEGIN").expect("done");
        reload(site, facts, "reload", &setup());
        facts.login("a new client", &site.params(users::APP, "gone"));
        facts.rest("an idle client", &mut idle);
        facts.rest("a busy client", &mut busy);
        let databases = site.show("DATABASES");
        facts.note("still listed", (0..databases.rows.len()).any(|row| databases.get(row, "name") == Some("gone")));
    });
}

#[test]
fn a_key_that_left_the_file_returns_to_its_default() {
    same(&setup().set("query_timeout", "33").set("max_client_conn", "50"), |site, facts| {
        facts.note("before", [site.config("query_timeout"), site.config("max_client_conn")].join(","));
        reload(site, facts, "reload", &setup());
        facts.note("after", [site.config("query_timeout"), site.config("max_client_conn")].join(","));
    });
}

#[test]
fn what_needs_a_restart_stays_as_it_was() {
    same(&setup(), |site, facts| {
        let changed = setup().set("listen_port", "1").set("unix_socket_mode", "0700").set("so_reuseport", "1");
        reload(site, facts, "reload", &changed);
        for key in ["listen_port", "unix_socket_mode", "so_reuseport"] {
            facts.note(key, site.config(key));
        }
        facts.login("the port", &site.params(users::APP, "app"));
    });
}

#[test]
fn sizes_and_modes_change_at_once() {
    same(&setup().set("default_pool_size", "1"), |site, facts| {
        let (mut one, mut two) = (site.client(), site.client());
        one.query("BEGIN").expect("done");
        two.send_bytes(weir_tests::Batch::new().query("SELECT 2").bytes()).expect("it reads");
        site.await_pool("app", "cl_waiting", 1);
        reload(site, facts, "a bigger pool", &setup().set("default_pool_size", "2"));
        facts.rest_after_first("the waiting client is served", &mut two);
        one.query("COMMIT").expect("done");
        reload(site, facts, "another mode", &setup().mode("session").set("default_pool_size", "2"));
        eventually("the mode", || {
            let pools = site.show("POOLS");
            let modes: Vec<_> = (0..pools.rows.len())
                .filter(|row| pools.get(*row, "database") == Some("app"))
                .map(|row| pools.get(row, "pool_mode").unwrap_or("NULL").to_owned())
                .collect();
            if modes == ["session"] { Ok(()) } else { Err(modes) }
        });
    });
}

#[test]
fn users_and_secrets_change_with_the_list() {
    let setup = || setup().database("app", "user=app");
    same(&setup(), |site, facts| {
        let mut client = site.client();
        facts.login("before", &site.named("late", "app").password("x"));
        let changed = setup().secret("late", "x").secret(users::OTHER.name, "changed").without(users::MD5);
        reload(site, facts, "reload", &changed);
        facts.login("a new user", &site.named("late", "app").password("x"));
        facts.login("a changed one, old password", &site.params(users::OTHER, "app"));
        facts.login("a changed one", &site.params(users::OTHER, "app").password("changed"));
        facts.login("a removed one", &site.params(users::MD5, "app"));
        facts.query("a connected client", &mut client, "SELECT 1");
    });
}

#[test]
fn administrators_change_too() {
    same(&setup(), |site, facts| {
        let mut console = site.console();
        site.rewrite(&setup().set("admin_users", "watcher").set("stats_users", "admin"));
        facts.query("reload", &mut console, "RELOAD");
        facts.query("a connected administrator", &mut console, "PAUSE");
        facts.query("a new stats user", &mut site.watcher(), "RECONNECT");
        let mut again = site.console();
        facts.query("the old one again", &mut again, "RECONNECT");
    });
}

#[test]
fn authentication_changes_for_new_clients() {
    same(&setup(), |site, facts| {
        let mut client = site.client();
        reload(site, facts, "trust", &setup().set("auth_type", "trust"));
        facts.login("without a password", &site.named("app", "app"));
        reload(site, facts, "scram", &setup().set("auth_type", "scram-sha-256"));
        facts.login("with one", &site.params(users::APP, "app"));
        facts.login("with a wrong one", &site.params(users::APP, "app").password("x"));
        facts.query("a connected client", &mut client, "SELECT 1");
    });
}
