//! Which clients each `auth_type` accepts, and the errors for the others.

use weir_pgclient::{ConnectParams, Connection};
use weir_pgwire::{AuthRequest, backend, put_front, tag};
use weir_tests::{ADMIN, Postgres, body_text, line_of, users};

use crate::harness::{Difference, Facts, Setup, Site, differ, error_line, same};

/// The logins that are tried with every kind of authentication.
fn try_all(site: &Site, facts: &mut Facts) {
    let app = || site.params(users::APP, "app");
    facts.note("asked", asked(&app()));
    if let Some(mut client) = facts.login("right password", &app()) {
        facts.query("then", &mut client, "SELECT current_user, 1");
    }
    facts.login("wrong password", &app().password("wrong"));
    facts.login("empty password", &app().password(""));
    facts.note("requested from an unknown user", asked(&site.named("stranger", "app")));
    facts.login("unknown user", &site.named("stranger", "app").password("whatever"));
    facts.login("no such database", &site.params(users::APP, "nowhere"));
    facts.login("unknown user, no such database", &site.named("stranger", "nowhere").password("x"));
    facts.login("wrong password, no such database", &site.named(users::APP.name, "nowhere").password("x"));
    facts.login("administrator", &site.named(ADMIN.0, "pgbouncer").password(ADMIN.1));
    facts.login("administrator, wrong password", &site.named(ADMIN.0, "pgbouncer").password("x"));
    facts.login("console as an ordinary user", &site.params(users::APP, "pgbouncer"));
    facts.login("console as an unknown user", &site.named("stranger", "pgbouncer").password("x"));
}

/// The request in the first message after the startup message.
fn asked(params: &ConnectParams) -> String {
    let mut connection = Connection::open(params).unwrap_or_else(|error| panic!("{params:?}: {error}"));
    let mut message = Vec::new();
    put_front::startup(&mut message, &[("user", &params.user), ("database", &params.database)], 0);
    connection.send_bytes(&message).expect("it reads");
    let Ok(frame) = connection.read_frame(params.timeout) else { return "closed".to_owned() };
    if frame.tag != tag::back::AUTHENTICATION {
        return line_of(&frame);
    }
    match backend::authentication(&frame.body).expect("it is well-formed") {
        AuthRequest::Ok => "nothing".to_owned(),
        AuthRequest::Cleartext => "password".to_owned(),
        AuthRequest::Md5(_) => "md5".to_owned(),
        AuthRequest::Sasl(mechanisms) => mechanisms.map(body_text).collect::<Vec<_>>().join(" "),
        _ => "something else".to_owned(),
    }
}

/// All kinds of stored secrets, tried with the correct and with a wrong password.
fn try_secrets(site: &Site, facts: &mut Facts) {
    for user in [users::APP, users::MD5, users::OTHER] {
        let params = site.params(user, "app");
        facts.note(&format!("{} is asked", user.name), asked(&params));
        if let Some(mut client) = facts.login(&format!("{} with the right password", user.name), &params) {
            facts.query(&format!("{} is on the server", user.name), &mut client, "SELECT current_user");
        }
        facts.login(&format!("{} with a wrong one", user.name), &params.password("wrong"));
    }
}

/// `app` with its SCRAM secret, `md5er` with its md5 secret, as PostgreSQL stores them; `other` in cleartext.
fn stored_secrets() -> Setup {
    let postgres = Postgres::shared();
    let setup = Setup::new().secret(users::APP.name, &postgres.secret(users::APP));
    setup.secret(users::MD5.name, &postgres.secret(users::MD5))
}

#[test]
fn trust() {
    same(&Setup::new().set("auth_type", "trust"), try_all);
}

#[test]
fn plain() {
    same(&Setup::new().set("auth_type", "plain"), try_all);
}

#[test]
fn md5() {
    same(&Setup::new(), try_all);
}

#[test]
fn scram() {
    same(&Setup::new().set("auth_type", "scram-sha-256"), try_all);
}

#[test]
fn any() {
    let forced = format!("user={} password='{}'", users::APP.name, users::APP.password.replace('\'', "''"));
    let why = "administrators must be named: `any` admits all users, but not all users may pause the pooler";
    let refused = |fact| Difference::of(fact, "welcome", "FATAL 08P01 not allowed", why);
    let differences = [refused("console as an ordinary user"), refused("console as an unknown user")];
    differ(&Setup::new().set("auth_type", "any").database("app", &forced), &differences, try_all);
}

#[test]
fn any_without_a_forced_user() {
    same(&Setup::new().set("auth_type", "any"), |site, facts| {
        facts.login("any user", &site.named("somebody", "app"));
        facts.login("a user of the list", &site.params(users::APP, "app"));
    });
}

#[test]
fn stored_secrets_with_md5() {
    same(&stored_secrets(), try_secrets);
}

#[test]
fn stored_secrets_with_scram() {
    same(&stored_secrets().set("auth_type", "scram-sha-256"), try_secrets);
}

#[test]
fn stored_secrets_with_plain() {
    let why = "a cleartext password also works at the server, beside a SCRAM secret";
    let differences = [
        Difference::of(
            "app with the right password",
            "FATAL 08P01 server login failed: wrong password type",
            "welcome",
            why,
        ),
        Difference::of("app is on the server", "(not seen)", "(app) SELECT 1", why),
    ];
    differ(&stored_secrets().set("auth_type", "plain"), &differences, try_secrets);
}

#[test]
fn a_user_with_an_empty_secret_cant_log_in() {
    same(&Setup::new().secret("hollow", ""), |site, facts| {
        facts.login("with an empty password", &site.named("hollow", "app").password(""));
        facts.login("with some password", &site.named("hollow", "app").password("x"));
    });
}

#[test]
fn a_startup_without_a_database_means_the_users_name() {
    same(&Setup::new().set("auth_type", "trust"), |site, facts| {
        for user in [users::APP.name, users::OTHER.name, "stranger"] {
            let mut connection = Connection::open(&site.named(user, "")).expect("it listens");
            let mut message = Vec::new();
            put_front::startup(&mut message, &[("user", user)], 0);
            connection.send_bytes(&message).expect("it reads");
            let first = connection.read_frame(std::time::Duration::from_secs(15)).map(|frame| line_of(&frame));
            facts.note(user, first.unwrap_or_else(|error| error_line(&error)));
        }
    });
}
