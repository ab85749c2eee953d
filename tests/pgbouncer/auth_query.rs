//! `auth_user` and `auth_query`: users that no list names, asked for at the server.

use std::time::Duration;

use weir_pgclient::Params;
use weir_tests::{Postgres, User, users};

use crate::harness::{Difference, Facts, Setup, Site, compare, differ, same};

/// A user that only the server knows, with its SCRAM secret.
const GUEST: User = User { name: "plainer", password: "in the clear", method: "password" };

/// Only the one who asks is listed, with a password, and the administrators.
fn setup() -> Setup {
    let setup = Setup::new().without(users::OTHER).without(users::MD5).without(users::PLAIN).without(users::TRUSTED);
    setup.set("auth_user", users::APP.name).set("auth_query", "SELECT name, secret FROM lookup($1)")
}

/// Not waiting for long.
fn soon(params: Params) -> Params {
    params.timeout(Duration::from_secs(3))
}

/// A function that knows what the superuser knows, since ours may not read pg_authid.
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

/// The same, and those who can't log in whatever they give.
fn all(site: &Site, facts: &mut Facts) {
    known(site, facts);
    facts.login("no such database", &site.params(users::OTHER, "nowhere"));
    facts.login("a stranger", &site.named("stranger", "app").password("x"));
    facts.login("quotes", &site.named("o'neil\"", "app").password("x"));
}

/// Whom nobody knows must look like who mistyped a password; 1.18 tells them apart.
const UNKNOWN: &str = "1.18 betrays that there is no such user";

/// Where no password is known, the server need not be asked.
const NO_PASSWORD: &str = "1.18 logs in with an empty password, and passes the server's refusal on";

const WRONG: &str = "FATAL 28P01 password authentication failed";
const WRONG_SASL: &str = "FATAL 28P01 SASL authentication failed";
/// 1.18 lets clients wait for query_wait_timeout where later versions pass the failure on.
const AT_ONCE: &str = "1.18 lets clients wait";
const NO_USER: &str = "FATAL 08P01 no such user";

#[test]
fn with_md5() {
    // Somebody unknown is asked by SCRAM or by md5, as often as known users are: either text may come.
    differ(&setup(), &[], known);
}

#[test]
fn with_scram() {
    let unknown = |fact| Difference::of(fact, NO_USER, WRONG_SASL, UNKNOWN);
    differ(&setup().set("auth_type", "scram-sha-256"), &[unknown("a stranger"), unknown("quotes")], all);
}

#[test]
fn with_plain() {
    let unknown = |fact| Difference::of(fact, NO_USER, WRONG, UNKNOWN);
    let why = "a password that came in the clear serves at the server too, beside a SCRAM secret";
    let differences = [
        unknown("a stranger"),
        unknown("quotes"),
        Difference::of("other", "FATAL 08P01 server login failed: wrong password type", "welcome", why),
        Difference::of("other is", "(not seen)", "(other) SELECT 1", why),
    ];
    differ(&setup().set("auth_type", "plain"), &differences, all);
}

#[test]
fn with_trust() {
    let none = "FATAL 08006 server login failed: the server asks for a password, and none is known for user \"other\"";
    let differences = [
        Difference::of("a stranger", NO_USER, "FATAL 28P01 \"trust\" authentication failed", UNKNOWN),
        Difference::of(
            "a user of the server",
            "FATAL 08P01 server login failed: wrong password type",
            none,
            NO_PASSWORD,
        ),
    ];
    differ(&setup().set("auth_type", "trust"), &differences, |site, facts| {
        prepare(site);
        facts.login("a user of the server", &site.named("other", "app"));
        facts.login("a stranger", &site.named("stranger", "app"));
    });
}

#[test]
fn the_database_may_name_another_user_to_ask_as() {
    let setup = setup().set("auth_user", "nobody").database("app", "auth_user=app").database("plain", "");
    let none = "FATAL 08006 server login failed: the server asks for a password, and none is known for user \"nobody\"";
    let differences = [Difference::of("with the general one", "silence", none, AT_ONCE)];
    differ(&setup, &differences, |site, facts| {
        prepare(site);
        facts.login("with its own", &site.params(users::OTHER, "app"));
        facts.login("with the general one", &soon(site.params(users::OTHER, "plain")));
    });
}

#[test]
fn without_an_auth_user_nobody_is_asked() {
    same(&setup().unset("auth_user"), |site, facts| {
        prepare(site);
        facts.login("a user of the server", &site.params(users::OTHER, "app"));
    });
}

#[test]
fn a_query_that_fails_lets_nobody_in() {
    // Who has no secret is asked by SCRAM or by md5, as somebody unknown is (with_scram).
    let queries = [
        ("an error", "SELECT 1/0, $1::text"),
        ("no such function", "SELECT * FROM nothing($1)"),
        ("one column", "SELECT $1::text"),
        ("three columns", "SELECT $1::text, 'md5x'::text, 'z'::text"),
        ("another name", "SELECT 'app'::text, 'secret'::text WHERE $1 IS NOT NULL"),
        ("two rows", "SELECT $1::text, 'secret'::text UNION ALL SELECT 'b', 'c'"),
        ("in the clear", "SELECT $1::text, 'quite another'::text"),
    ];
    let whole = "what the query returns beside name and secret is not looked at";
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
fn the_one_who_asks_must_be_able_to_log_in() {
    let refused = "FATAL 28P01 password authentication failed for user \"app\"";
    let differences = [Difference::of("the server refuses it", "silence", refused, AT_ONCE)];
    differ(&setup().secret(users::APP.name, "wrong"), &differences, |site, facts| {
        facts.login("the server refuses it", &soon(site.params(users::OTHER, "app")));
    });
}

#[test]
fn its_connections_are_in_a_pool_of_their_own() {
    let differences = [Difference::of(
        "another",
        "FATAL 08P01 password authentication failed for user \"plainer\"",
        "FATAL 08006 server login failed: the server asks for a password, and none is known for user \"plainer\"",
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
        facts.login("another", &site.params(GUEST, "app"));
    });
}

#[test]
fn a_password_that_was_changed_counts_at_once() {
    same(&setup().mode("transaction"), |site, facts| {
        let sql = "CREATE TABLE secrets (name text, secret text); INSERT INTO secrets VALUES ('other', 'first'); \
                   GRANT ALL ON secrets TO PUBLIC; \
                   CREATE FUNCTION lookup(who text) RETURNS TABLE (name text, secret text) LANGUAGE sql AS \
                   $$ SELECT name, secret FROM secrets WHERE name = who $$";
        site.database().superuser().query_all(sql).unwrap_or_else(|error| panic!("{error}"));
        let told = |password: &str| {
            let outcome = weir_pgclient::Connection::connect(&site.params(users::OTHER, "app").password(password));
            outcome.map_or_else(|error| crate::harness::told(&error), |_| "welcome".to_owned())
        };
        facts.note("the right one of the pooler", told("first"));
        site.database().superuser().query("UPDATE secrets SET secret = 'quite another'").expect("done");
        weir_tests::eventually("the new one counts", || match told("quite another") {
            answer if answer == "welcome" => Ok(()),
            answer => Err(answer),
        });
        facts.note("the old one", told("first"));
    });
}
