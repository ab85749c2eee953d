//! Behaviours 17 and 18: authentication, and the contents of a startup packet.

use std::thread;

use weir_pgclient::{Connection, Error};
use weir_pgwire::{put_front, tag};
use weir_tests::{Ini, Postgres, Site, ask, line_of, read_until_ready, users};

use super::{TIMEOUT, shown, tapped, waits};

/// Only `users::APP` and the console's users are listed; all others are looked up.
pub(super) fn asking() -> Ini {
    let ini = Ini::of(weir_tests::Mode::Transaction);
    let ini = ini.set("auth_user", "app").set("auth_query", "SELECT usename, passwd FROM user_lookup($1)");
    users::ALL.iter().filter(|user| user.name != "app").fold(ini, |ini, user| ini.without(user.name))
}

/// The function that PgBouncer's documentation recommends for `auth_query`.
pub(super) fn lookup(site: &Site) {
    let sql = "CREATE FUNCTION user_lookup(name text, OUT usename text, OUT passwd text) RETURNS record \
               LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog \
               AS 'SELECT rolname::text, rolpassword FROM pg_authid WHERE rolname = name'";
    site.superuser().query(sql).unwrap();
}

fn enter(site: &Site, user: &str, password: &str) -> Result<Option<String>, Error> {
    let params = site.weir().params(user, "app").password(password);
    Connection::connect(&params)?.value("SELECT current_user")
}

#[track_caller]
fn error_of(outcome: Result<Option<String>, Error>) -> (String, String) {
    let error = outcome.expect_err("the login must fail");
    let error_of = error.server().unwrap_or_else(|| panic!("an error message: {error}"));
    (error_of.sqlstate.clone(), error_of.message.clone())
}

/// A role that only this test has; its name ends with that of the test's database.
fn role(site: &Site, kind: &str, options: &str) -> String {
    let name = format!("{kind}_{}", site.database().name());
    site.superuser().query_all(&format!("DROP ROLE IF EXISTS {name}; CREATE ROLE {name} LOGIN {options}")).unwrap();
    name
}

#[test]
fn behaviour_17_auth_query_runs_as_auth_user_in_its_own_visible_pool() {
    let (site, tap) = tapped(asking());
    lookup(&site);
    assert_eq!(enter(&site, users::OTHER.name, users::OTHER.password).unwrap().as_deref(), Some("other"));
    assert_eq!(shown(&site, "POOLS", "user", "app", "database"), "app");
    assert_eq!(shown(&site, "POOLS", "user", "other", "database"), "app");
    let asked = tap.sent_as("app");
    assert!(asked.iter().any(|line| line.contains("user_lookup")), "{asked:?}");
    assert!(!tap.sent_as("other").iter().any(|line| line.contains("user_lookup")));
    // auth_query returns md5 secrets too.
    assert_eq!(enter(&site, users::MD5.name, users::MD5.password).unwrap().as_deref(), Some("md5er"));
}

#[test]
fn behaviour_17_the_users_name_is_bound_and_never_spliced() {
    let (site, tap) = tapped(asking());
    lookup(&site);
    for name in ["x' OR 'a'='a", "$1", "other'--", "\\", "other\"; DROP TABLE x; --"] {
        let (code, _) = error_of(enter(&site, name, users::OTHER.password));
        assert_eq!(code, "08P01", "{name}");
    }
    let asked = tap.sent_as("app");
    for line in asked.iter().filter(|line| line.contains("user_lookup")) {
        assert!(line.starts_with("Parse ") && line.ends_with("user_lookup($1)"), "{asked:?}");
    }
    assert!(!asked.iter().any(|line| line.contains("OR 'a'")), "{asked:?}");
}

#[test]
fn behaviour_17_a_null_password_cannot_log_in() {
    for auth in ["md5", "scram-sha-256", "plain"] {
        let site = Site::ini(&asking().set("auth_type", auth));
        lookup(&site);
        let name = role(&site, "without", "");
        for password in ["", "x", "md5", "null"] {
            let (code, _) = error_of(enter(&site, &name, password));
            assert_eq!(code, "08P01", "{auth} {password:?}");
        }
        site.superuser().query(&format!("DROP ROLE {name}")).unwrap();
    }
}

#[test]
fn behaviour_17_a_missing_user_is_indistinguishable_from_a_wrong_password() {
    for auth in ["scram-sha-256", "plain"] {
        let site = Site::ini(&asking().set("auth_type", auth).set("auth_hide_unknown_users", 1));
        lookup(&site);
        let wrong = error_of(enter(&site, users::OTHER.name, "wrong"));
        let missing = error_of(enter(&site, "no_such_user", "wrong"));
        assert_eq!(wrong, missing, "{auth}");
        assert_eq!(wrong.0, "08P01");
        assert_eq!(first_request(&site, users::OTHER.name), first_request(&site, "no_such_user"), "{auth}");
    }
}

#[test]
fn behaviour_17_a_user_that_auth_query_does_not_find_is_told_so_under_every_type() {
    for auth in ["trust", "plain", "md5", "scram-sha-256"] {
        let site = Site::ini(&asking().set("auth_type", auth));
        lookup(&site);
        let (_, message) = error_of(enter(&site, "no_such_user", "x"));
        assert_eq!(message, "no such user", "{auth}");
    }
}

#[test]
fn behaviour_17_trust_lets_in_users_that_auth_query_finds_with_a_secret_or_without() {
    let site = Site::ini(&asking().set("auth_type", "trust").forced(users::APP));
    lookup(&site);
    let without = role(&site, "without", "");
    for name in [users::OTHER.name, &without] {
        assert_eq!(enter(&site, name, "").unwrap().as_deref(), Some("app"), "as the forced user");
    }
    site.superuser().query(&format!("DROP ROLE {without}")).unwrap();
}

/// The first authentication request to a user.
fn first_request(site: &Site, user: &str) -> String {
    let mut client = Connection::open(&site.weir().params(user, "app")).unwrap();
    let mut packet = Vec::new();
    put_front::startup(&mut packet, &[("user", user), ("database", "app")], 0);
    client.send_bytes(&packet).unwrap();
    line_of(&client.read_frame(TIMEOUT).unwrap())
}

#[test]
fn behaviour_17_the_default_auth_query_reads_pg_authid_and_honours_valid_until() {
    let ini = users::ALL.iter().filter(|user| user.name != "app").fold(Ini::new(), |ini, user| ini.without(user.name));
    let site = Site::ini(&ini.set("auth_user", "app"));
    site.superuser().query("GRANT SELECT ON pg_catalog.pg_authid TO app").unwrap();
    assert_eq!(enter(&site, users::OTHER.name, users::OTHER.password).unwrap().as_deref(), Some("other"));
    let name = role(&site, "expired", "PASSWORD 'was good' VALID UNTIL '2001-01-01'");
    assert_eq!(error_of(enter(&site, &name, "was good")).0, "08P01");
    site.superuser().query(&format!("DROP ROLE {name}")).unwrap();
}

#[test]
fn behaviour_17_scram_keys_learnt_from_a_client_log_in_to_the_server() {
    // Only the client knows the password: the secret comes from auth_query, or from the list.
    let (site, tap) = tapped(asking().set("auth_type", "scram-sha-256"));
    lookup(&site);
    for _ in 0..2 {
        assert_eq!(enter(&site, users::OTHER.name, users::OTHER.password).unwrap().as_deref(), Some("other"));
    }
    assert!(!tap.sent_as("other").is_empty());
    let secret = Postgres::shared().secret(users::OTHER);
    let site = Site::ini(&Ini::new().set("auth_type", "scram-sha-256").secret("other", &secret));
    assert_eq!(enter(&site, users::OTHER.name, users::OTHER.password).unwrap().as_deref(), Some("other"));
}

#[test]
fn behaviour_17_each_method_accepts_the_secrets_that_it_can_use() {
    let scram = Postgres::shared().secret(users::APP);
    let md5 = "SELECT 'md5' || md5($$app's \"secret\"app$$)";
    let md5 = Postgres::shared().superuser("postgres").value(md5).unwrap().unwrap();
    let site = |auth: &str, secret: &str| Site::ini(&Ini::new().set("auth_type", auth).secret("app", secret));
    // md5 also accepts SCRAM secrets, and then uses SCRAM.
    let with_scram = site("md5", &scram);
    assert!(first_request(&with_scram, "app").contains("SCRAM-SHA-256"), "{}", first_request(&with_scram, "app"));
    assert_eq!(enter(&with_scram, "app", users::APP.password).unwrap().as_deref(), Some("app"));
    // scram-sha-256 refuses md5 secrets.
    assert_eq!(error_of(enter(&site("scram-sha-256", &md5), "app", users::APP.password)).0, "08P01");
    // trust still requires a listed user.
    let trusting = site("trust", users::APP.password);
    assert_eq!(enter(&trusting, "app", "").unwrap().as_deref(), Some("app"));
    assert_eq!(error_of(enter(&trusting, "nobody", "")).0, "08P01");
    // any accepts every user, as the forced user.
    let any = Site::ini(&Ini::new().set("auth_type", "any").forced(users::OTHER));
    for name in ["app", "nobody", "whoever"] {
        assert_eq!(enter(&any, name, "").unwrap().as_deref(), Some("other"));
    }
    let unforced = Site::ini(&Ini::new().set("auth_type", "any"));
    assert!(enter(&unforced, "whoever", "").is_err(), "without a user");
}

#[test]
fn behaviour_18_unknown_startup_parameters_are_refused_unless_ignored() {
    let site = Site::ini(&Ini::transaction(1).set("ignore_startup_parameters", "extra_thing, work_mem"));
    let error = Connection::connect(&site.params().option("enable_seqscan", "off")).unwrap_err();
    let error_of = error.server().unwrap();
    assert_eq!((error_of.severity.as_str(), error_of.sqlstate.as_str()), ("FATAL", "08P01"));
    assert_eq!(error_of.message, "unsupported startup parameter: enable_seqscan");
    let mut client = Connection::connect(&site.params().option("extra_thing", "x").option("work_mem", "1MB")).unwrap();
    assert_eq!(client.value("SHOW work_mem").unwrap().as_deref(), Some("4MB"), "ignored, not set");
}

#[test]
fn behaviour_18_options_are_read_in_both_forms() {
    let site = Site::ini(&Ini::transaction(1).set("ignore_startup_parameters", "work_mem"));
    for options in [
        "-c DateStyle=SQL,DMY -c TimeZone=Asia/Tokyo",
        "--DateStyle=SQL,DMY --TimeZone=Asia/Tokyo",
        "-cDateStyle=SQL,DMY --TimeZone=Asia/Tokyo -c work_mem=1MB",
    ] {
        let mut client = Connection::connect(&site.params().option("options", options)).unwrap();
        assert_eq!(client.value("SHOW TimeZone").unwrap().as_deref(), Some("Asia/Tokyo"), "{options}");
        assert_eq!(client.value("SELECT '2024-02-01'::date").unwrap().as_deref(), Some("01/02/2024"), "{options}");
        assert_eq!(client.value("SHOW work_mem").unwrap().as_deref(), Some("4MB"), "{options}");
    }
    for options in ["-c enable_seqscan=off", "--enable-seqscan=off"] {
        let error = Connection::connect(&site.params().option("options", options)).unwrap_err();
        assert_eq!(error.sqlstate(), Some("08P01"), "{options}: {error}");
    }
}

#[test]
fn behaviour_18_versions_and_protocol_options_are_negotiated_once() {
    let site = Site::ini(&Ini::transaction(1).set("auth_type", "trust"));
    let login = |minor: u16, more: &[(&str, &str)]| {
        let mut client = Connection::open(&site.params()).unwrap();
        let mut packet = Vec::new();
        let all = [&[("user", "app"), ("database", "app")], more].concat();
        put_front::startup(&mut packet, &all, minor);
        client.send_bytes(&packet).unwrap();
        let frames = read_until_ready(&mut client, 1);
        let negotiations = frames.iter().filter(|frame| frame.tag == tag::back::NEGOTIATE).count();
        (client, negotiations)
    };
    let options = [("_pq_.command_tag", "1"), ("_pq_.x", "y")];
    for (minor, more, wanted) in
        [(0, &[][..], 0), (2, &[], 0), (3, &[], 1), (9999, &options, 1), (0, &options, 1), (2, &options[..1], 1)]
    {
        let (mut client, negotiations) = login(minor, more);
        assert_eq!(negotiations, wanted, "3.{minor} with {more:?}");
        let transcript = ask(&mut client, &weir_tests::Batch::new().query("SELECT 'after it'"), 1);
        assert_eq!(transcript[1], "Row after it");
    }
}

#[test]
fn behaviour_18_clients_of_a_new_pool_wait_for_the_first_servers_parameters() {
    let (site, tap) = tapped(Ini::transaction(1));
    tap.hold_logins(true);
    thread::scope(|scope| {
        let clients: Vec<_> = (0..3).map(|_| scope.spawn(|| site.connect())).collect();
        for client in &clients {
            waits(client);
        }
        tap.hold_logins(false);
        let version = site.superuser().value("SHOW server_version").unwrap();
        for client in clients {
            let client = client.join().unwrap();
            assert_eq!(client.parameter("server_version").map(str::to_owned), version);
            assert_eq!(client.parameter("server_encoding"), Some("UTF8"));
        }
    });
    // Once they are known, no client waits for a server's login for longer than a second.
    tap.hold_logins(true);
    super::end_servers(&site);
    let client = site.connect();
    assert_eq!(client.parameter("server_encoding"), Some("UTF8"));
    tap.hold_logins(false);
}

#[test]
fn behaviour_18_a_client_of_a_new_pool_without_a_server_waits_and_gets_an_error() {
    let away = weir_pglocal::free_port().unwrap();
    for (setting, message) in
        [("query_wait_timeout", "query_wait_timeout"), ("client_login_timeout", "client_login_timeout (server down)")]
    {
        let site = Site::ini(&Ini::transaction(1).through(away).set(setting, 2));
        let begin = std::time::Instant::now();
        let error = Connection::connect(&site.params()).unwrap_err();
        let reported = error.server().unwrap_or_else(|| panic!("an error, not silence: {error}"));
        assert_eq!((reported.sqlstate.as_str(), reported.message.as_str()), ("08P01", message));
        assert!(begin.elapsed() >= std::time::Duration::from_secs(2), "{:?}", begin.elapsed());
    }
}
