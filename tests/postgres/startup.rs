//! The first packets of a connection: requests for encryption, versions, parameters.

use std::time::Duration;

use weir_pgclient::{Connection, Error};
use weir_pgwire::{backend, put_front, tag};
use weir_tests::{Mode, Setup, Site, line_of, until_quiet};

everywhere!(
    a_request_for_tls_is_declined_and_the_login_goes_on,
    an_unknown_minor_version_and_unknown_options_are_negotiated,
    an_unknown_major_version_is_refused,
    a_startup_packet_with_an_impossible_length_is_refused,
    the_usual_parameters_are_reported_before_the_first_query,
    parameters_of_the_startup_packet_are_in_force,
    options_set_parameters,
    parameters_that_drivers_always_send_are_accepted,
    a_missing_user_is_refused,
);

const TIMEOUT: Duration = Duration::from_secs(20);

fn open(site: &Site) -> Connection {
    Connection::open(&site.params()).unwrap()
}

/// A startup packet with the usual parameters and these, for this minor version.
fn startup(site: &Site, more: &[(&str, &str)], minor: u16) -> Vec<u8> {
    let params = site.params();
    let mut all = vec![("user", params.user.as_str()), ("database", params.database.as_str())];
    all.extend(more);
    let mut packet = Vec::new();
    put_front::startup(&mut packet, &all, minor);
    packet
}

fn request(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut packet = Vec::new();
    write(&mut packet);
    packet
}

fn a_request_for_tls_is_declined_and_the_login_goes_on(site: &Site) {
    let mut client = open(site);
    client.send_bytes(&request(put_front::ssl_request)).unwrap();
    assert_eq!(client.read_bytes(TIMEOUT).unwrap(), b"N");
    client.login(&site.params()).unwrap();
    assert_eq!(client.value("SELECT 1").unwrap().as_deref(), Some("1"));
}

#[test]
fn a_request_for_gss_encryption_is_declined_and_the_login_goes_on() {
    // A PostgreSQL that was built with GSSAPI may accept it, so only Weir is tested.
    let site = &Site::transaction(1);
    let mut client = open(site);
    client.send_bytes(&request(put_front::gss_request)).unwrap();
    assert_eq!(client.read_bytes(TIMEOUT).unwrap(), b"N");
    client.send_bytes(&request(put_front::ssl_request)).unwrap();
    assert_eq!(client.read_bytes(TIMEOUT).unwrap(), b"N");
    client.login(&site.params()).unwrap();
    assert_eq!(client.value("SELECT 1").unwrap().as_deref(), Some("1"));
}

fn an_unknown_minor_version_and_unknown_options_are_negotiated(site: &Site) {
    // What is answered before the login begins: the minor version, and the options that are unknown.
    let negotiated = |asked: u16, options: &[&str]| {
        let mut client = open(site);
        let options: Vec<(&str, &str)> = options.iter().map(|name| (*name, "1")).collect();
        client.send_bytes(&startup(site, &options, asked)).unwrap();
        let first = client.read_frame(TIMEOUT).unwrap();
        if first.tag != tag::back::NEGOTIATE {
            assert_eq!(first.tag, tag::back::AUTHENTICATION, "{}", line_of(&first));
            return None;
        }
        assert_eq!(client.read_frame(TIMEOUT).unwrap().tag, tag::back::AUTHENTICATION);
        let found = backend::negotiate(&first.body).unwrap();
        Some((found.minor, found.unrecognised.map(|name| String::from_utf8_lossy(name).into_owned()).collect()))
    };
    // libpq of PostgreSQL 19 begins like this.
    let grease = "_pq_.test_protocol_negotiation";
    let (newest, unknown) = negotiated(9999, &[grease]).expect("there is no such version");
    assert_eq!(unknown, [grease]);
    assert!(newest == if site.mode().is_some() { 2 } else { newest.min(2) }, "{newest}");
    for options in [&[][..], &["_pq_.command_tag", "_pq_.x"], &["_pq_."], &["_pq_.x", "_pq_.x"]] {
        for asked in [0, 2, 3, 9999, u16::MAX] {
            let due = asked > newest || !options.is_empty();
            let options_of = || options.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
            let expected = due.then(|| (asked.min(newest), options_of()));
            assert_eq!(negotiated(asked, options), expected, "3.{asked} {options:?}");
        }
    }
}

fn an_unknown_major_version_is_refused(site: &Site) {
    for version in [[0, 2, 0, 0], [0, 4, 0, 0], [9, 9, 9, 9]] {
        let mut client = open(site);
        let mut packet = startup(site, &[], 0);
        packet[4..8].copy_from_slice(&version);
        client.send_bytes(&packet).unwrap();
        // PostgreSQL answers protocol 2 with messages of protocol 2, which we can't parse.
        let mut answer = Vec::new();
        while let Ok(more) = client.read_bytes(TIMEOUT) {
            answer.extend_from_slice(&more);
        }
        assert!(String::from_utf8_lossy(&answer).contains("unsupported"), "{version:?}: {answer:?}");
    }
}

fn a_startup_packet_with_an_impossible_length_is_refused(site: &Site) {
    for length in [0, 3, 7, 20_000, u32::MAX] {
        let mut client = open(site);
        client.send_bytes(&[&u32::to_be_bytes(length)[..], &[0, 3, 0, 0, 0, 0, 0, 0]].concat()).unwrap();
        let transcript = until_quiet(&mut client, TIMEOUT);
        assert_eq!(transcript.last().unwrap(), "Closed", "{length}: {transcript:?}");
        assert!(!transcript.iter().any(|line| line.starts_with('R')), "{length}: {transcript:?}");
    }
}

fn the_usual_parameters_are_reported_before_the_first_query(site: &Site) {
    let client = site.connect();
    for (name, value) in [
        ("client_encoding", "UTF8"),
        ("server_encoding", "UTF8"),
        ("DateStyle", "ISO, MDY"),
        ("TimeZone", "UTC"),
        ("integer_datetimes", "on"),
        ("standard_conforming_strings", "on"),
        ("IntervalStyle", "postgres"),
    ] {
        assert_eq!(client.parameter(name), Some(value), "{name}");
    }
    let version = site.superuser().value("SHOW server_version").unwrap();
    assert_eq!(client.parameter("server_version").map(str::to_owned), version);
    assert_ne!(client.backend_pid(), 0);
}

fn parameters_of_the_startup_packet_are_in_force(site: &Site) {
    let params = site.params();
    let params = params.option("application_name", "the app").option("DateStyle", "German, DMY");
    let params = params.option("TimeZone", "Europe/Berlin").option("client_encoding", "LATIN1");
    let mut client = Connection::connect(&params).unwrap();
    for (name, value) in [
        ("application_name", "the app"),
        ("DateStyle", "German, DMY"),
        ("TimeZone", "Europe/Berlin"),
        ("client_encoding", "LATIN1"),
    ] {
        assert_eq!(client.parameter(name), Some(value), "reported {name}");
        assert_eq!(client.value(&format!("SHOW {name}")).unwrap().as_deref(), Some(value), "{name}");
    }
    assert_eq!(client.value("SELECT '2024-02-01'::date").unwrap().as_deref(), Some("01.02.2024"));
}

fn options_set_parameters(site: &Site) {
    for options in ["-c DateStyle=SQL,DMY -c TimeZone=Asia/Tokyo", "--DateStyle=SQL,DMY --TimeZone=Asia/Tokyo"] {
        let mut client = Connection::connect(&site.params().option("options", options)).unwrap();
        assert_eq!(client.value("SHOW TimeZone").unwrap().as_deref(), Some("Asia/Tokyo"), "{options}");
        assert_eq!(client.value("SELECT '2024-02-01'::date").unwrap().as_deref(), Some("01/02/2024"), "{options}");
    }
}

fn parameters_that_drivers_always_send_are_accepted(site: &Site) {
    // pgjdbc, lib/pq, older drivers.
    let params = site.params().option("extra_float_digits", "2").option("client_encoding", "'utf-8'");
    let mut client = Connection::connect(&params).unwrap();
    assert_eq!(client.value("SHOW extra_float_digits").unwrap().as_deref(), Some("2"));
    let mut client = Connection::connect(&site.params().option("extra_float_digits", "3")).unwrap();
    assert_eq!(client.value("SHOW extra_float_digits").unwrap().as_deref(), Some("3"));
}

fn a_missing_user_is_refused(site: &Site) {
    let mut client = open(site);
    let mut packet = Vec::new();
    put_front::startup(&mut packet, &[("database", site.params().database.as_str())], 0);
    client.send_bytes(&packet).unwrap();
    let transcript = until_quiet(&mut client, TIMEOUT);
    assert!(transcript[0].starts_with("Error 28") && transcript[1..] == ["Closed"], "{transcript:?}");
}

#[test]
fn protocol_3_2_has_keys_that_cancel() {
    let site = Site::transaction(1);
    let mut client = open(&site);
    client.send_bytes(&startup(&site, &[], 2)).unwrap();
    let first = client.read_frame(TIMEOUT).unwrap();
    assert_eq!(first.tag, tag::back::AUTHENTICATION, "3.2 needs no negotiation: {}", line_of(&first));
}

#[test]
fn a_parameter_that_is_not_tracked_is_refused_unless_it_is_ignored() {
    let setup = Setup::new(Mode::Transaction).general("ignore_startup_parameters = [\"work_mem\"]");
    let site = Site::with(setup, Mode::Transaction);
    let refused = Connection::connect(&site.params().option("enable_seqscan", "off")).unwrap_err();
    let error = refused.server().expect("the refusal is an error message");
    assert_eq!(error.sqlstate, "08P01");
    assert_eq!(error.message, "unsupported startup parameter: enable_seqscan");
    assert_eq!(error.severity, "FATAL");
    let mut client = Connection::connect(&site.params().option("work_mem", "1MB")).unwrap();
    assert_eq!(client.value("SHOW work_mem").unwrap().as_deref(), Some("4MB"));
    let refused = Connection::connect(&site.params().option("options", "-c enable_seqscan=off")).unwrap_err();
    assert_eq!(refused.sqlstate(), Some("08P01"), "{refused}");
}

#[test]
fn an_unknown_pool_is_refused_as_an_unknown_database() {
    let site = Site::transaction(1);
    let params = site.weir().params("app", "nowhere").password(weir_tests::users::APP.password);
    let refused = Connection::connect(&params).unwrap_err();
    assert_eq!(refused.sqlstate(), Some("3D000"), "{refused}");
    assert!(refused.to_string().contains("no such database: nowhere"), "{refused}");
}

#[test]
fn a_client_that_never_logs_in_is_disconnected_in_time() {
    let site = Site::with(Setup::new(Mode::Transaction).general("client_login_timeout = \"1s\""), Mode::Transaction);
    for bytes in [Vec::new(), startup(&site, &[], 0), startup(&site, &[], 0)[..9].to_vec()] {
        let mut client = open(&site);
        client.send_bytes(&bytes).unwrap();
        let transcript = loop {
            let transcript = until_quiet(&mut client, TIMEOUT);
            if transcript.last().is_some() {
                break transcript;
            }
        };
        assert_eq!(transcript.last().unwrap(), "Closed", "{transcript:?}");
    }
    assert!(matches!(open(&site).read_frame(Duration::from_secs(20)), Ok(_) | Err(Error::Closed | Error::Io(_))));
}

#[test]
fn clients_and_servers_may_use_unix_sockets() {
    let postgres = weir_tests::Postgres::shared();
    let folder = weir_pglocal::TempFolder::new().unwrap();
    let more = format!(
        "[pools.socket]\nhost = \"{}\"\nport = {}\ndatabase = \"postgres\"\nuser = \"app\"\n\
         password = \"app's \\\"secret\\\"\"\n",
        postgres.server().socket_dir().display(),
        postgres.port()
    );
    let listen = format!("[listen]\nunix_socket_dir = \"{}\"\n", folder.path().display());
    let database = postgres.database();
    let setup = Setup::new(Mode::Transaction).more(&more);
    let toml = setup.toml(&database).replace("[listen]\n", &listen);
    let weir = weir_tests::Weir::start(&toml, &setup.userlist());
    let params = weir_pgclient::ConnectParams::unix(folder.path(), weir.port(), "app", "socket");
    let mut client = Connection::connect(&params.password(weir_tests::users::APP.password)).unwrap();
    for _ in 0..3 {
        assert_eq!(client.value("SELECT inet_server_addr() IS NULL").unwrap().as_deref(), Some("t"));
    }
    let servers = weir.show("SERVERS");
    assert_eq!(servers.rows.len(), 1);
    drop(client);
}
