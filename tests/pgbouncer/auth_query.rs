//! `auth_user` and `auth_query`: users that no list names, looked up at the server.

use std::time::Duration;

use weir_pgclient::ConnectParams;
use weir_tests::{Postgres, User, users};

use crate::harness::{Difference, Facts, Setup, Site, compare, differ, same};

/// A user that only the server knows, with its SCRAM secret.
const UNLISTED: User = User { name: "plainer", password: "in the clear", method: "password" };

/// Only the auth_user, with a password, and the administrators are listed.
fn setup() -> Setup {
    let setup = Setup::new().without(users::OTHER).without(users::MD5).without(users::PLAIN).without(users::TRUSTED);
    setup.set("auth_user", users::APP.name).set("auth_query", "SELECT name, secret FROM lookup($1)")
}

/// With a short timeout.
fn short_timeout(params: ConnectParams) -> ConnectParams {
    params.timeout(Duration::from_secs(3))
}

/// A SECURITY DEFINER function of the superuser, since our user may not read pg_authid.
fn prepare(site: &Site) {
    let sql = "CREATE FUNCTION lookup(who text) RETURNS TABLE (name text, secret text) \
               LANGUAGE sql SECURITY DEFINER AS \
               $$ SELECT rolname::text, rolpassword FROM pg_authid WHERE rolname = who AND rolcanlogin $$";
    site.database().superuser().query(sql).unwrap_or_else(|error| panic!("{error}"));
}

fn known(site: &Site, facts: &mut Facts) {
    prepare(site);
    facts.login("the listed user", &site.params(users::APP, "app"));
    for user in [users::OTHER, users::MD5, users::TRUSTED] {
        if let Some(mut client) = facts.login(user.name, &site.params(user, "app")) {
            facts.query(&format!("{} is", user.name), &mut client, "SELECT current_user");
        }
        facts.login(&format!("{}, wrong password", user.name), &site.params(user, "app").password("x"));
    }
}

/// The logins of `known`, and of users that can't log in with any password.
fn all(site: &Site, facts: &mut Facts) {
    known(site, facts);
    facts.login("no such database", &site.params(users::OTHER, "nowhere"));
    facts.login("an unknown user", &site.named("stranger", "app").password("x"));
    facts.login("quotes", &site.named("o'neil\"", "app").password("x"));
}

/// Without a known password, no login at the server is needed.
const NO_PASSWORD: &str = "1.18 logs in with an empty password, and passes the server's error on";

const WRONG: &str = "FATAL 08P01 password authentication failed";
/// 1.18 lets clients wait for query_wait_timeout; later versions report the failure at once.
const AT_ONCE: &str = "1.18 lets clients wait";

#[test]
fn with_md5() {
    same(&setup(), all);
}

#[test]
fn with_scram() {
    same(&setup().set("auth_type", "scram-sha-256"), all);
}

#[test]
fn with_plain() {
    let why = "a cleartext password also works at the server, beside a SCRAM secret";
    let differences = [
        Difference::of("other", "FATAL 08P01 server login failed: wrong password type", "welcome", why),
        Difference::of("other is", "(not seen)", "(other) SELECT 1", why),
    ];
    differ(&setup().set("auth_type", "plain"), &differences, all);
}

#[test]
fn with_trust() {
    let none = "FATAL 08P01 server login failed: wrong password type: the server asks for a password, and none is known for user \"other\"";
    let differences = [Difference::of(
        "a user of the server",
        "FATAL 08P01 server login failed: wrong password type",
        none,
        NO_PASSWORD,
    )];
    differ(&setup().set("auth_type", "trust"), &differences, |site, facts| {
        prepare(site);
        facts.login("a user of the server", &site.named("other", "app"));
        facts.login("an unknown user", &site.named("stranger", "app"));
    });
}

#[test]
fn the_database_may_name_another_auth_user() {
    let setup = setup().set("auth_user", "nobody").database("app", "auth_user=app").database("plain", "");
    let none = "FATAL 08P01 server login failed: wrong password type: the server asks for a password, and none is known for user \"nobody\"";
    let differences = [Difference::of("with the general one", "silence", none, AT_ONCE)];
    differ(&setup, &differences, |site, facts| {
        prepare(site);
        facts.login("with its own", &site.params(users::OTHER, "app"));
        facts.login("with the general one", &short_timeout(site.params(users::OTHER, "plain")));
    });
}

#[test]
fn without_an_auth_user_no_lookup_is_made() {
    same(&setup().unset("auth_user"), |site, facts| {
        prepare(site);
        facts.login("a user of the server", &site.params(users::OTHER, "app"));
    });
}

#[test]
fn a_query_that_fails_refuses_the_client() {
    // A user without a secret gets SCRAM or md5, like an unknown user (with_scram).
    let queries = [
        ("an error", "SELECT 1/0, $1::text"),
        ("no such function", "SELECT * FROM nothing($1)"),
        ("one column", "SELECT $1::text"),
        ("three columns", "SELECT $1::text, 'md5x'::text, 'z'::text"),
        ("another name", "SELECT 'app'::text, 'secret'::text WHERE $1 IS NOT NULL"),
        ("two rows", "SELECT $1::text, 'secret'::text UNION ALL SELECT 'b', 'c'"),
        ("in the clear", "SELECT $1::text, 'quite another'::text"),
    ];
    let whole = "columns after name and secret are ignored";
    let differences = [Difference::of("three columns", "FATAL 08P01 bouncer config error", WRONG, whole)];
    compare(&differences, |pooler| {
        let mut all = Facts::default();
        for (name, query) in queries {
            let site = Site::start(pooler, &setup().set("auth_query", query), &Postgres::shared());
            all.login(name, &site.params(users::OTHER, "app"));
            all.login(&format!("{name}, the listed user"), &site.params(users::APP, "app"));
        }
        all
    });
}

#[test]
fn the_auth_user_must_be_able_to_log_in() {
    let refused = "FATAL 28P01 password authentication failed for user \"app\"";
    let differences = [Difference::of("the server refuses it", "silence", refused, AT_ONCE)];
    differ(&setup().secret(users::APP.name, "wrong"), &differences, |site, facts| {
        facts.login("the server refuses it", &short_timeout(site.params(users::OTHER, "app")));
    });
}

#[test]
fn lookup_connections_have_a_pool_of_their_own() {
    let differences = [Difference::of(
        "another",
        "FATAL 08P01 password authentication failed for user \"plainer\"",
        "FATAL 08P01 server login failed: the server asks for a password, and none is known for user \"plainer\"",
        NO_PASSWORD,
    )];
    differ(&setup().mode("transaction"), &differences, |site, facts| {
        prepare(site);
        let mut client = site.connect(&site.params(users::OTHER, "app"));
        facts.query("served", &mut client, "SELECT current_user");
        let pools = site.show("POOLS");
        let line = |row| {
            ["database", "user", "sv_idle"].map(|column| pools.get(row, column).unwrap_or("NULL").to_owned()).join(" ")
        };
        let mut lines: Vec<_> = (0..pools.rows.len()).map(line).collect();
        lines.sort();
        facts.note("pools", lines.join("; "));
        facts.login("another", &site.params(UNLISTED, "app"));
    });
}

#[test]
fn a_password_that_was_changed_counts_at_once() {
    let differences = [Difference::of_sqlstate(
        "the right one of the pooler",
        "FATAL 08P01 password authentication failed for user \"other\"",
        "FATAL 28P01 password authentication failed for user \"other\"",
    )];
    differ(&setup().mode("transaction"), &differences, |site, facts| {
        let sql = "CREATE TABLE secrets (name text, secret text); INSERT INTO secrets VALUES ('other', 'first'); \
                   GRANT ALL ON secrets TO PUBLIC; \
                   CREATE FUNCTION lookup(who text) RETURNS TABLE (name text, secret text) LANGUAGE sql AS \
                   $$ SELECT name, secret FROM secrets WHERE name = who $$";
        site.database().superuser().query_all(sql).unwrap_or_else(|error| panic!("{error}"));
        let error_line = |password: &str| {
            let outcome = weir_pgclient::Connection::connect(&site.params(users::OTHER, "app").password(password));
            outcome.map_or_else(|error| crate::harness::error_line(&error), |_| "welcome".to_owned())
        };
        facts.note("the right one of the pooler", error_line("first"));
        site.database().superuser().query("UPDATE secrets SET secret = 'quite another'").expect("done");
        weir_tests::eventually("the new password is accepted", || match error_line("quite another") {
            answer if answer == "welcome" => Ok(()),
            answer => Err(answer),
        });
        facts.note("the old one", error_line("first"));
    });
}
