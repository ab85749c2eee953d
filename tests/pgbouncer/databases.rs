//! `[databases]`: names, the fallback, connection strings and their quotes, the user at the server.

use std::time::Duration;

use weir_tests::{Batch, users};

use crate::harness::{Difference, Setup, differ, prepared, same};

fn quoted(password: &str) -> String {
    format!("'{}'", password.replace('\'', "''"))
}

#[test]
fn the_fallback_database_serves_every_other_name() {
    let setup = Setup::new().line("*", "host=127.0.0.1 port={server}");
    let differences = [Difference::of_sqlstate(
        "a database that the server lacks",
        "FATAL 08P01 database \"nowhere\" does not exist",
        "FATAL 3D000 database \"nowhere\" does not exist",
    )];
    differ(&setup, &differences, |site, facts| {
        let mut client = site.connect(&site.params(users::APP, site.database().name()));
        facts.query("by its own name", &mut client, "SELECT current_database()");
        facts.login("a database that the server lacks", &site.params(users::APP, "nowhere"));
        let mut client = site.client();
        facts.query("a listed name", &mut client, "SELECT current_database()");
        let databases = site.show("DATABASES");
        let row = (0..databases.rows.len()).find(|row| databases.get(*row, "name") == Some(site.database().name()));
        facts.note("it is listed now", row.and_then(|row| databases.get(row, "database")).unwrap_or("no"));
        facts.note("the fallback itself", (0..databases.rows.len()).any(|row| databases.get(row, "name") == Some("*")));
    });
}

#[test]
fn the_fallback_may_name_the_database_too() {
    same(&Setup::new().database("*", ""), |site, facts| {
        let mut client = site.connect(&site.params(users::APP, "whatever"));
        facts.query("whatever", &mut client, "SELECT current_database()");
        facts.note("its pool", site.pool("whatever", "cl_active"));
    });
}

#[test]
fn the_server_sees_the_forced_user() {
    let forced = format!("user={} password={}", users::OTHER.name, quoted(users::OTHER.password));
    same(&Setup::new().database("app", &forced), |site, facts| {
        for user in [users::APP, users::MD5] {
            let mut client = site.connect(&site.params(user, "app"));
            facts.query(user.name, &mut client, "SELECT current_user, session_user");
        }
        let pools = site.show("POOLS");
        let users = (0..pools.rows.len()).map(|row| pools.get(row, "user").unwrap_or_default().to_owned());
        facts.note("pools", users.collect::<Vec<_>>().join(","));
        let databases = site.show("DATABASES");
        facts.note("force_user", databases.get(0, "force_user").unwrap_or("NULL"));
    });
}

#[test]
fn a_forced_user_without_a_password_takes_it_from_the_list() {
    same(&Setup::new().database("app", "user=other"), |site, facts| {
        let mut client = site.client();
        facts.query("app", &mut client, "SELECT current_user");
    });
    let differences = [Difference::of(
        "its password is unknown",
        "FATAL 08P01 password authentication failed for user \"other\"",
        "FATAL 08P01 server login failed: wrong password type: the server asks for a password, and none is known for user \"other\"",
        "1.18 logs in with an empty password, and passes the server's error on",
    )];
    differ(&Setup::new().database("app", "user=other").without(users::OTHER), &differences, |site, facts| {
        facts.login("its password is unknown", &site.params(users::APP, "app"));
    });
}

#[test]
fn quotes_in_connection_strings() {
    let strings = [
        ("plain", "host=127.0.0.1 port={server} dbname={db}"),
        ("quoted", "host='127.0.0.1' port='{server}' dbname='{db}'"),
        ("spaced", "  host=127.0.0.1   port={server}     dbname={db}  "),
        ("single", "host=127.0.0.1 port={server} dbname={db} application_name='it''s mine'"),
        ("connects", "host=127.0.0.1 port={server} dbname={db} connect_query='SELECT ''a;b#c'''"),
    ];
    let setup = strings.iter().fold(Setup::new(), |setup, (name, string)| setup.line(name, string));
    let setup = setup.line("a-strange.name_1", "host=127.0.0.1 port={server} dbname={db}");
    same(&setup, |site, facts| {
        for name in strings.iter().map(|(name, _)| *name).chain(["a-strange.name_1"]) {
            let mut client = site.connect(&site.params(users::APP, name));
            facts.query(name, &mut client, "SELECT current_database(), current_setting('application_name')");
        }
    });
}

#[test]
fn a_connection_string_that_cant_be_read_is_an_error_at_start() {
    let wrong = [
        ("unclosed", "host='127.0.0.1"),
        ("no value", "host=127.0.0.1 port"),
        ("unknown", "host=127.0.0.1 colour=red"),
        ("mode", "host=127.0.0.1 pool_mode=perhaps"),
        ("port", "host=127.0.0.1 port=zero"),
        ("port too", "host=127.0.0.1 port=0"),
    ];
    for (name, string) in wrong {
        prepared(&Setup::new().line("bad", string), &[], |site, facts| {
            site.run();
            facts.note(&format!("{name}: ends well"), site.await_exit().success());
        });
    }
}

#[test]
fn parameters_of_the_connection_string_reach_the_server() {
    let extra = "client_encoding=LATIN1 datestyle=German timezone=Asia/Tokyo application_name=billing";
    let sql = "SELECT current_setting('client_encoding'), current_setting('DateStyle'), current_setting('TimeZone'), \
               current_setting('application_name')";
    same(&Setup::new().database("app", extra).mode("transaction"), |site, facts| {
        let mut client = site.client();
        facts.query("as configured", &mut client, sql);
        let params = site.params(users::APP, "app").option("client_encoding", "UTF8").option("timezone", "UTC");
        let mut client = site.connect(&params.option("application_name", "mine"));
        facts.query("as the client wants", &mut client, sql);
        facts.note(
            "reported at login",
            ["client_encoding", "DateStyle", "TimeZone", "application_name"]
                .map(|name| client.parameter(name).unwrap_or("nothing").to_owned())
                .join(","),
        );
    });
}

#[test]
fn a_host_may_be_the_folder_of_a_socket() {
    let setup = Setup::new().line("local", "host={socket} port={server} dbname={db}");
    same(&setup, |site, facts| {
        let mut client = site.connect(&site.params(users::APP, "local"));
        facts.query("no address", &mut client, "SELECT inet_server_addr()");
        let databases = site.show("DATABASES");
        let row = (0..databases.rows.len()).find(|row| databases.get(*row, "name") == Some("local"));
        facts.note("host", row.and_then(|row| databases.get(row, "host")).unwrap_or("NULL"));
        let servers = site.show("SERVERS");
        facts.note("addr", servers.get(0, "addr").unwrap_or("NULL"));
    });
}

#[test]
fn hosts_of_a_list_are_used_alternately() {
    let setup = Setup::new().line("app", "host=127.0.0.1,localhost port={server} dbname={db}");
    same(&setup, |site, facts| {
        let mut clients: Vec<_> = (0..4).map(|_| site.client()).collect();
        clients.iter_mut().for_each(|client| drop(client.query("SELECT 1").expect("it answers")));
        facts.note("servers", site.pool("app", "sv_active"));
        facts.note("host", site.show("DATABASES").get(0, "host").unwrap_or("NULL"));
    });
}

#[test]
fn a_server_that_is_not_there() {
    let setup = Setup::new().line("gone", "host=127.0.0.1 port=1 dbname=x").set("server_login_retry", "1");
    // Clients wait, for query_wait_timeout at the most.
    same(&setup, |site, facts| {
        facts.login("refused", &site.params(users::APP, "gone").timeout(Duration::from_secs(3)));
        facts.login("a wrong password there", &site.params(users::APP, "gone").password("wrong"));
    });
}

#[test]
fn the_servers_own_refusal_reaches_the_client() {
    let setup = Setup::new().line("nodb", "host=127.0.0.1 port={server} dbname=does_not_exist");
    let setup = setup.secret("unknown", "x").database("badpass", "user=app password=wrong");
    let differences = [
        Difference::of_sqlstate(
            "no database",
            "FATAL 08P01 database \"does_not_exist\" does not exist",
            "FATAL 3D000 database \"does_not_exist\" does not exist",
        ),
        Difference::of_sqlstate(
            "no role",
            "FATAL 08P01 password authentication failed for user \"unknown\"",
            "FATAL 28P01 password authentication failed for user \"unknown\"",
        ),
        Difference::of_sqlstate(
            "wrong password",
            "FATAL 08P01 password authentication failed for user \"app\"",
            "FATAL 28P01 password authentication failed for user \"app\"",
        ),
    ];
    differ(&setup, &differences, |site, facts| {
        facts.login("no database", &site.params(users::APP, "nodb"));
        facts.login("no role", &site.named("unknown", "app").password("x"));
        facts.login("wrong password", &site.params(users::APP, "badpass"));
        let mut client = site.client();
        facts.batch("others are served", &mut client, &Batch::new().query("SELECT 1"), 1);
    });
}
