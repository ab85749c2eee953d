//! Behaviour 5: parameters that follow their client from server to server.

use weir_pgclient::Connection;
use weir_tests::{Batch, Ini, Mode, Site, Tap, ask, users};

use super::{TIMEOUT, server, tapped};

/// The parameters that are always tracked, and the one that PgBouncer adds by default; two values as clients write
/// them, and as the server reports them.
const TRACKED: [(&str, [&str; 2], [&str; 2]); 6] = [
    ("client_encoding", ["LATIN1", "win1252"], ["LATIN1", "WIN1252"]),
    ("DateStyle", ["german", "SQL, DMY"], ["German, DMY", "SQL, DMY"]),
    ("TimeZone", ["Asia/Tokyo", "Europe/Berlin"], ["Asia/Tokyo", "Europe/Berlin"]),
    ("standard_conforming_strings", ["off", "on"], ["off", "on"]),
    ("application_name", ["first app", "it's another"], ["first app", "it's another"]),
    ("IntervalStyle", ["iso_8601", "sql_standard"], ["iso_8601", "sql_standard"]),
];

fn show(client: &mut Connection, name: &str) -> String {
    client.value(&format!("SHOW {name}")).unwrap().unwrap()
}

/// How many messages that set parameters Weir has sent.
fn sets(tap: &Tap) -> usize {
    tap.sent().iter().filter(|line| line.contains("SET ") || line.contains("set_config")).count()
}

#[test]
fn behaviour_05_tracked_parameters_are_set_when_a_server_is_linked_whose_values_differ() {
    for mode in super::SHARING {
        let site = Site::ini(&Ini::of(mode).set("default_pool_size", 1));
        for (name, written, reported) in TRACKED {
            let mut plain = site.connect();
            let before = show(&mut plain, name);
            let mut clients = written.map(|value| Connection::connect(&site.params().option(name, value)).unwrap());
            for round in 0..3 {
                for (client, reported) in clients.iter_mut().zip(reported) {
                    assert_eq!(show(client, name), reported, "{name} in round {round}");
                    assert_eq!(client.parameter(name), Some(reported), "{name} as reported");
                }
                assert_eq!(show(&mut plain, name), before, "{name} of a client that requested nothing");
            }
        }
        assert_eq!(site.database().backends().len(), 1, "all on one server");
    }
}

#[test]
fn behaviour_05_a_set_by_the_client_is_followed_too() {
    let site = Site::ini(&Ini::transaction(1));
    let (mut one, mut two) = (site.connect(), site.connect());
    one.query("SET TimeZone = 'Asia/Tokyo'").unwrap();
    assert_eq!(show(&mut two, "TimeZone"), "UTC");
    assert_eq!(show(&mut one, "TimeZone"), "Asia/Tokyo");
}

#[test]
fn behaviour_05_what_is_not_tracked_is_not_followed() {
    let site = Site::ini(&Ini::transaction(1).set("track_extra_parameters", "IntervalStyle, search_path"));
    site.superuser().query("CREATE SCHEMA aside").unwrap();
    let mut client = site.connect();
    let mut other = site.connect();
    client.query("SET work_mem = '77MB'").unwrap();
    assert_eq!(show(&mut other, "work_mem"), "77MB", "as in PgBouncer, with on_dirty = keep");
    other.query("RESET work_mem").unwrap();
    // A parameter that the operator adds is followed if the server reports it; it reports search_path from 18 on.
    other.query("SET IntervalStyle = 'iso_8601'").unwrap();
    assert_eq!(show(&mut client, "IntervalStyle"), "postgres");
}

#[test]
fn behaviour_05_the_replies_are_swallowed() {
    let (site, tap) = tapped(Ini::transaction(1));
    let params = site.params();
    let mut one = Connection::connect(&params.clone().option("TimeZone", "Asia/Tokyo")).unwrap();
    let mut two = Connection::connect(&params.option("TimeZone", "Europe/Berlin")).unwrap();
    for _ in 0..3 {
        for client in [&mut one, &mut two] {
            let simple = ask(client, &Batch::new().query("SELECT 1"), 1);
            assert_eq!(simple, ["Columns ?column?", "Row 1", "Complete SELECT 1", "Ready I"]);
        }
        for client in [&mut one, &mut two] {
            let extended = ask(client, &Batch::new().run("SELECT 1", &[]).sync(), 1);
            assert_eq!(extended[..2], ["ParseComplete", "BindComplete"]);
            assert_eq!(extended.len(), 6, "{extended:?}");
        }
    }
    assert!(sets(&tap) >= 5, "they were set: {:?}", tap.sent());
}

#[test]
fn behaviour_05_nothing_is_set_where_nothing_differs_and_the_servers_spelling_counts() {
    let (site, tap) = tapped(Ini::transaction(1));
    let params = site.params().option("DateStyle", "iso").option("client_encoding", "utf-8");
    let params = params.option("TimeZone", "utc").option("standard_conforming_strings", "true");
    let mut clients: Vec<_> = (0..3).map(|_| Connection::connect(&params).unwrap()).collect();
    for client in &clients {
        let reported =
            ["DateStyle", "client_encoding", "standard_conforming_strings"].map(|name| client.parameter(name));
        assert_eq!(reported, [Some("ISO, MDY"), Some("UTF8"), Some("on")], "at the login too");
    }
    clients.iter_mut().for_each(|client| drop(server(client)));
    let before = sets(&tap);
    for _ in 0..5 {
        clients.iter_mut().for_each(|client| drop(server(client)));
    }
    assert_eq!(sets(&tap), before, "the first reply had the server's spelling: {:?}", tap.sent());
    assert_eq!(clients[0].parameter("DateStyle"), Some("ISO, MDY"));
    assert_eq!(clients[0].parameter("client_encoding"), Some("UTF8"));
}

#[test]
fn behaviour_05_a_failing_set_fails_the_client() {
    for mode in [Mode::Session, Mode::Transaction] {
        let site = Site::ini(&Ini::of(mode).set("default_pool_size", 1));
        let mut other = Connection::connect(&site.params().option("application_name", "unharmed")).unwrap();
        if mode != Mode::Session {
            other.query("SELECT 1").unwrap();
        }
        let outcome = Connection::connect(&site.params().option("TimeZone", "Middle/Earth"));
        let error = outcome.and_then(|mut client| client.value("SELECT 1")).unwrap_err();
        assert_eq!(error.sqlstate(), Some("22023"), "{error}");
        assert!(error.to_string().contains("Middle/Earth"), "{error}");
        assert_eq!(show(&mut other, "application_name"), "unharmed");
        assert_eq!(show(&mut other, "TimeZone"), "UTC");
    }
}

#[test]
fn behaviour_05_nothing_is_set_on_a_connection_of_auth_query() {
    let ini = super::authentication::asking().set("default_pool_size", 1);
    let (site, tap) = tapped(ini);
    super::authentication::lookup(&site);
    let params = site.params_of(users::OTHER).option("TimeZone", "Asia/Tokyo").option("application_name", "asks");
    let mut client = Connection::connect(&params.timeout(TIMEOUT)).unwrap();
    assert_eq!(client.value("SHOW TimeZone").unwrap().as_deref(), Some("Asia/Tokyo"));
    let asked = tap.sent_as(users::APP.name);
    assert!(asked.iter().any(|line| line.contains("user_lookup")), "{asked:?}");
    assert!(!asked.iter().any(|line| line.contains("SET ")), "{asked:?}");
}
