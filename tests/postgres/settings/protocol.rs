//! What clients may send, what they get at login, and where their secrets are looked up.

use std::time::Duration;

use weir_pgclient::{Connection, Error};
use weir_pgwire::{AuthRequest, backend, put_front};
use weir_tests::{Batch, Ini, Site, Tap, User, ask, body_text, lines_of, read_until_ready, until_quiet, users};

const TIMEOUT: Duration = Duration::from_secs(20);

fn enter(site: &Site, user: User, database: &str) -> Result<Option<String>, Error> {
    let params = site.weir().params(user.name, database).password(user.password);
    Connection::connect(&params)?.value("SELECT current_user")
}

#[test]
fn track_extra_parameters_decides_what_is_followed() {
    let params = |site: &Site, value: &str| site.params().option("work_mem", value);
    let site = Site::ini(&Ini::transaction(1));
    let error = Connection::connect(&params(&site, "1MB")).unwrap_err();
    assert_eq!(error.sqlstate(), Some("08P01"), "{error}");
    let site = Site::ini(&Ini::transaction(1).set("track_extra_parameters", "IntervalStyle, work_mem"));
    let mut clients = ["1MB", "2MB"].map(|value| Connection::connect(&params(&site, value)).unwrap());
    for _ in 0..3 {
        for (client, wanted) in clients.iter_mut().zip(["1MB", "2MB"]) {
            assert_eq!(client.value("SHOW work_mem").unwrap().as_deref(), Some(wanted));
        }
    }
    let mut other = site.connect();
    other.query("SET IntervalStyle = 'iso_8601'").unwrap();
    assert_eq!(clients[0].value("SHOW IntervalStyle").unwrap().as_deref(), Some("postgres"));
}

#[test]
fn disable_pqexec_refuses_simple_queries_and_nothing_else() {
    let site = Site::ini(&Ini::transaction(1).set("disable_pqexec", 1));
    let mut client = site.connect();
    let transcript = ask(&mut client, &Batch::new().run("SELECT 'extended'", &[]).sync(), 1);
    assert_eq!(transcript[3], "Row extended");
    client.send_bytes(Batch::new().query("SELECT 'simple'").bytes()).unwrap();
    let transcript = until_quiet(&mut client, TIMEOUT);
    assert!(transcript[0].starts_with("Error ") && transcript[0].contains("PQexec disallowed"), "{transcript:?}");
    assert!(!transcript.iter().any(|line| line.starts_with("Row")), "{transcript:?}");
    site.weir().command("SHOW VERSION").expect("the console speaks nothing else");
}

#[test]
fn application_name_add_host_names_the_clients_address() {
    let site = Site::ini(&Ini::transaction(1).set("application_name_add_host", 1));
    let mut client = Connection::connect(&site.params().option("application_name", "shop")).unwrap();
    let name = client.value("SHOW application_name").unwrap().unwrap();
    assert!(name.starts_with("shop - 127.0.0.1:"), "{name}");
    let site = Site::ini(&Ini::transaction(1));
    let mut client = Connection::connect(&site.params().option("application_name", "shop")).unwrap();
    assert_eq!(client.value("SHOW application_name").unwrap().as_deref(), Some("shop"));
}

#[test]
fn login_notify_message_is_sent_to_each_client() {
    let greeted = Ini::new().set("auth_type", "trust").set("login_notify_message", "Good day; we move house at noon.");
    let site = Site::ini(&greeted);
    for _ in 0..2 {
        let transcript = greeting(&site);
        let notices: Vec<_> = transcript.iter().filter(|line| line.starts_with("Notice")).collect();
        assert_eq!(notices, ["Notice 00000 Good day; we move house at noon."], "{transcript:?}");
    }
    let silent = Site::ini(&Ini::new().set("auth_type", "trust"));
    assert!(!greeting(&silent).iter().any(|line| line.starts_with("Notice")));
}

/// The messages to a trusted client up to its first ReadyForQuery.
fn greeting(site: &Site) -> Vec<String> {
    let mut client = Connection::open(&site.params()).unwrap();
    let mut packet = Vec::new();
    put_front::startup(&mut packet, &[("user", "app"), ("database", "app")], 0);
    client.send_bytes(&packet).unwrap();
    lines_of(&read_until_ready(&mut client, 1))
}

#[test]
fn auth_file_lists_the_users() {
    let site = Site::ini(
        &Ini::new()
            .file("others.txt", "\"other\" \"quite another\"\n\"admin\" \"console secret\"\n")
            .set("auth_file", "{folder}/others.txt"),
    );
    assert_eq!(enter(&site, users::OTHER, "app").unwrap().as_deref(), Some("other"));
    assert!(enter(&site, users::APP, "app").is_err());
}

#[test]
fn auth_hba_file_and_auth_ident_file_decide_about_logins() {
    let account = std::process::Command::new("id").arg("-un").output().unwrap();
    let account = String::from_utf8_lossy(&account.stdout).trim().to_owned();
    let rules = "host pgbouncer,weir all 127.0.0.1/32 md5\nhost all other 127.0.0.1/32 trust\n\
                 host all app 127.0.0.1/32 reject\nlocal all all peer map=crew\n";
    let map = format!("crew {account} app\n");
    let ini = Ini::new().set("auth_type", "hba").set("auth_hba_file", "{folder}/hba.conf");
    let ini = ini.set("auth_ident_file", "{folder}/ident.conf").file("hba.conf", rules).file("ident.conf", &map);
    let site = Site::ini(&ini);
    let nothing = |user: User| User { password: "", ..user };
    assert_eq!(enter(&site, nothing(users::OTHER), "app").unwrap().as_deref(), Some("other"));
    let error = enter(&site, users::APP, "app").unwrap_err();
    assert_eq!(error.sqlstate(), Some("08P01"), "{error}");
    let local = |user: &str| {
        let params = weir_pgclient::ConnectParams::unix(site.weir().folder(), site.weir().port(), user, "app");
        Connection::connect(&params)?.value("SELECT current_user")
    };
    assert_eq!(local("app").unwrap().as_deref(), Some("app"), "the map says who {account} is");
    assert!(local("other").is_err());
}

/// A lookup function that only this database has.
fn lookup(site: &Site, name: &str) {
    let sql = format!(
        "CREATE FUNCTION {name}(name text, OUT usename text, OUT passwd text) RETURNS record LANGUAGE sql \
         SECURITY DEFINER SET search_path = pg_catalog \
         AS 'SELECT rolname::text, rolpassword FROM pg_authid WHERE rolname = name'"
    );
    site.superuser().query(&sql).unwrap();
}

#[test]
fn auth_dbname_is_the_database_of_the_lookup() {
    let tap = Tap::before(&weir_tests::Postgres::shared());
    let port = weir_tests::Postgres::shared().port();
    let ini = Ini::new().without("other").set("auth_user", "app").set("auth_dbname", "directory");
    let ini = ini.set("auth_query", "SELECT usename, passwd FROM find_user($1)");
    let ini = ini.through(tap.port()).database("elsewhere", &format!("host=127.0.0.1 port={port} dbname=postgres"));
    // The keys of `app` lead through the proxy, to the only database that has the function.
    let site = Site::ini(&ini.database("directory", "{dbname}"));
    lookup(&site, "find_user");
    assert_eq!(enter(&site, users::OTHER, "elsewhere").unwrap().as_deref(), Some("other"));
    let asked = tap.sent_as("app");
    assert!(asked.iter().any(|line| line.contains("find_user")), "{asked:?}");
}

#[test]
fn auth_settings_of_a_database_take_precedence() {
    let port = weir_tests::Postgres::shared().port();
    let words = "auth_user=app auth_dbname=directory auth_query='SELECT usename, passwd FROM find_user($1)'";
    let ini = Ini::new().without("other").set("auth_user", "nobody").set("auth_query", "SELECT nothing($1)");
    let ini = ini.database("own", &format!("host=127.0.0.1 port={port} dbname=postgres {words}"));
    let site = Site::ini(&ini.database("directory", "{dbname}"));
    lookup(&site, "find_user");
    assert_eq!(enter(&site, users::OTHER, "own").unwrap().as_deref(), Some("other"));
    assert!(enter(&site, users::OTHER, "app").is_err(), "the general settings find no function");
}

#[test]
fn scram_iterations_is_sent_to_clients() {
    for wanted in ["4096", "10000"] {
        let site = Site::ini(&Ini::new().set("auth_type", "scram-sha-256").set("scram_iterations", wanted));
        let mut client = Connection::open(&site.params()).unwrap();
        let mut packet = Vec::new();
        put_front::startup(&mut packet, &[("user", "app"), ("database", "app")], 0);
        put_front::sasl_initial(&mut packet, "SCRAM-SHA-256", b"n,,n=,r=abcdefghijklmnopqrstuvwx");
        client.send_bytes(&packet).unwrap();
        client.read_frame(TIMEOUT).unwrap();
        let frame = client.read_frame(TIMEOUT).unwrap();
        let Ok(AuthRequest::SaslContinue(data)) = backend::authentication(&frame.body) else { panic!("{frame:?}") };
        assert!(body_text(data).ends_with(&format!(",i={wanted}")), "{}", body_text(data));
        assert_eq!(enter(&site, users::APP, "app").unwrap().as_deref(), Some("app"));
    }
}

#[test]
fn max_packet_size_bounds_what_is_passed_on() {
    let long = format!("SELECT length('{}')", "x".repeat(100_000));
    let site = Site::ini(&Ini::transaction(1).set("max_packet_size", 65_536));
    let mut client = site.connect();
    assert_eq!(client.value("SELECT 'short'").unwrap().as_deref(), Some("short"));
    let error = client.query(&long).expect_err("it is too long");
    assert!(!matches!(error, Error::Timeout), "{error}");
    assert_eq!(site.connect().value("SELECT 'others go on'").unwrap().as_deref(), Some("others go on"));
    let site = Site::ini(&Ini::transaction(1));
    assert_eq!(site.connect().value(&long).unwrap().as_deref(), Some("100000"));
}
