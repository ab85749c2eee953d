//! Users that the list does not name are looked up at the server (auth_query), with each kind of secret, on one worker
//! and on three.

use weir_pgclient::{Connection, Error};
use weir_tests::{Mode, Postgres, Setup, Site, User, eventually, users};

/// The role of the lookup; a superuser, as it reads pg_authid.
const ASKER: (&str, &str) = ("asker", "asks for others");

/// A server on which [`ASKER`] exists.
fn postgres() -> Postgres {
    let postgres = Postgres::private();
    let (name, password) = ASKER;
    let sql = format!("CREATE ROLE {name} LOGIN SUPERUSER PASSWORD '{password}'");
    postgres.superuser("postgres").query(&sql).unwrap();
    postgres
}

/// A Weir that has only the asker's secret.
fn setup(auth: &'static str, workers: u32) -> Setup {
    let setup = Setup::new(Mode::Transaction).auth(auth).workers(workers).no_server_user();
    let setup = users::ALL.iter().fold(setup, |setup, user| setup.without(user.name));
    // The server requests a cleartext password from one of the users.
    setup.secret(ASKER.0, ASKER.1).pool(&format!("auth_user = \"{}\"", ASKER.0)).pool("require_auth = \"any\"")
}

fn site(postgres: &Postgres, auth: &'static str, workers: u32) -> Site {
    Site::on(postgres, setup(auth, workers), Mode::Transaction)
}

fn connect(site: &Site, user: &str, password: &str) -> Result<Connection, Error> {
    Connection::connect(&site.weir().params(user, "app").password(password))
}

#[track_caller]
fn gets_in(site: &Site, user: &str, password: &str) {
    let mut client = connect(site, user, password).unwrap_or_else(|error| panic!("{user}: {error}"));
    assert_eq!(client.value("SELECT current_user::text").unwrap().as_deref(), Some(user));
}

#[track_caller]
fn refused(site: &Site, user: &str, password: &str) -> Error {
    match connect(site, user, password) {
        Ok(_) => panic!("{user} was logged in"),
        Err(error) => error,
    }
}

#[test]
fn users_with_every_kind_of_secret_log_in_and_reach_the_server() {
    let postgres = postgres();
    let all: &[(&str, &[User])] = &[
        ("scram-sha-256", &[users::APP, users::OTHER]),
        ("md5", &[users::MD5, users::APP]),
        ("plain", &[users::PLAIN, users::MD5, users::APP]),
    ];
    for (auth, users) in all {
        for workers in [1, 3] {
            let site = site(&postgres, auth, workers);
            for user in *users {
                gets_in(&site, user.name, user.password);
                let error = refused(&site, user.name, "wrong");
                assert_eq!(error.sqlstate(), Some("28P01"), "{auth} {}: {error}", user.name);
                gets_in(&site, user.name, user.password);
            }
            let error = refused(&site, "nobody", "wrong");
            assert_eq!(error.sqlstate(), Some("28P01"), "{auth}: {error}");
            let pools = site.weir().show("POOLS");
            let asker = (0..pools.rows.len()).any(|row| pools.get(row, "user") == Some(ASKER.0));
            assert!(asker, "the pool of the lookup is visible");
        }
    }
}

#[test]
fn a_password_changed_on_the_server_counts_after_a_failed_login() {
    let postgres = postgres();
    for workers in [1, 3] {
        // With several workers, a login may come to one that has no looked-up secret yet.
        let setup = setup("scram-sha-256", workers).spread("never");
        let site = Site::on(&postgres, setup, Mode::Transaction);
        let sql = |sql: &str| drop(postgres.superuser("postgres").query(sql).unwrap());
        sql("CREATE ROLE unlisted LOGIN PASSWORD 'first'");
        gets_in(&site, "unlisted", "first");
        sql("ALTER ROLE unlisted PASSWORD 'second'");
        refused(&site, "unlisted", "second");
        gets_in(&site, "unlisted", "second");
        sql("ALTER ROLE unlisted VALID UNTIL '2001-01-01'");
        refused(&site, "unlisted", "wrong");
        refused(&site, "unlisted", "second");
        sql("ALTER ROLE unlisted VALID UNTIL 'infinity'");
        eventually("the new password is accepted", || {
            connect(&site, "unlisted", "second").map_err(|error| error.to_string())
        });
        site.weir().command("KILL app").unwrap();
        site.weir().command("RESUME app").unwrap();
        sql("DROP ROLE unlisted");
        refused(&site, "unlisted", "wrong");
        let error = refused(&site, "unlisted", "second");
        assert_eq!(error.sqlstate(), Some("28P01"), "{error}");
    }
}

#[test]
fn a_login_that_fails_at_one_worker_renews_the_secret_on_all() {
    let postgres = postgres();
    let site = Site::on(&postgres, setup("scram-sha-256", 2).spread("always"), Mode::Transaction);
    let sql = |sql: &str| drop(postgres.superuser("postgres").query(sql).unwrap());
    sql("CREATE ROLE unlisted LOGIN PASSWORD 'first'");
    // Alternately at both workers, which cache the secrets.
    let _held: Vec<Connection> = (0..2).map(|_| connect(&site, "unlisted", "first").unwrap()).collect();
    sql("ALTER ROLE unlisted PASSWORD 'second'");
    refused(&site, "unlisted", "second");
    let _held: Vec<Connection> = (0..4).map(|_| connect(&site, "unlisted", "second").unwrap()).collect();
}

#[test]
fn a_lookup_that_fails_is_logged_and_refuses_the_client() {
    let postgres = postgres();
    postgres.superuser("postgres").query("ALTER ROLE asker NOSUPERUSER").unwrap();
    let site = site(&postgres, "scram-sha-256", 1);
    let error = refused(&site, "app", users::APP.password);
    assert!(error.to_string().contains("bouncer config error"), "{error}");
    eventually("the log has the server's error", || {
        let log = site.weir().log();
        if log.contains("auth_query failed: permission denied for table pg_authid") { Ok(()) } else { Err(log) }
    });
    postgres.superuser("postgres").query("ALTER ROLE asker SUPERUSER").unwrap();
    gets_in(&site, "app", users::APP.password);
}

#[test]
fn one_server_is_enough_for_lookups_and_queries() {
    let postgres = postgres();
    for workers in [1, 3] {
        let setup = setup("scram-sha-256", workers).size(1).limit("max_db_connections = 1");
        let site = Site::on(&postgres, setup, Mode::Transaction);
        for user in [users::APP, users::OTHER, users::APP] {
            gets_in(&site, user.name, user.password);
            assert!(site.database().backends().len() <= 2, "one, and one that is being closed");
        }
    }
}
