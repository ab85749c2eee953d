//! Startup packets: parameters that are kept, ignored, refused; TLS and cancel requests; invalid startup packets.

use std::time::Duration;

use weir_pgclient::{ConnectParams, Connection};
use weir_tests::{Batch, eventually, users};

use crate::harness::{Difference, Facts, Setup, Site, differ, same};

/// Sends these bytes as a client's first bytes.
fn first(site: &Site, facts: &mut Facts, name: &str, bytes: &[u8]) {
    let mut connection = Connection::open(&site.params(users::APP, "app")).expect("it listens");
    connection.send_bytes(bytes).expect("it reads");
    facts.rest(name, &mut connection);
}

fn with(site: &Site, name: &str, value: &str) -> ConnectParams {
    site.params(users::APP, "app").option(name, value)
}

#[test]
fn parameters_are_kept_or_refused() {
    let kept = "Weir keeps it for the client, as it does with what servers report";
    let refused = |fact, pgbouncer| Difference::of(fact, pgbouncer, "welcome", kept);
    let spelt = "the server's own spelling is reported";
    let differences = [
        refused("extra_float_digits=2", "FATAL 08P01 unsupported startup parameter: extra_float_digits"),
        refused("search_path=x", "FATAL 08P01 unsupported startup parameter: search_path"),
        Difference::of("DateStyle=German reported", "UTF8 | German | UTC | ", "UTF8 | German, DMY | UTC | ", spelt),
    ];
    differ(&Setup::new().mode("transaction"), &differences, |site, facts| {
        for (name, value) in [
            ("client_encoding", "LATIN1"),
            ("DateStyle", "German"),
            ("datestyle", "SQL, DMY"),
            ("TimeZone", "Asia/Tokyo"),
            ("timezone", "UTC"),
            ("standard_conforming_strings", "on"),
            ("application_name", "me"),
        ] {
            let Some(mut client) = facts.login(&format!("{name}={value}"), &with(site, name, value)) else { continue };
            let sql = format!("SELECT current_setting('{name}')");
            facts.query(&format!("{name}={value} on the server"), &mut client, &sql);
            let reported = ["client_encoding", "DateStyle", "TimeZone", "application_name"];
            let reported = reported.map(|name| client.parameter(name).unwrap_or("nothing").to_owned());
            facts.note(&format!("{name}={value} reported"), reported.join(" | "));
        }
        for (name, value) in [("extra_float_digits", "2"), ("work_mem", "1MB"), ("search_path", "x"), ("nonsense", "x")]
        {
            facts.login(&format!("{name}={value}"), &with(site, name, value));
        }
    });
}

#[test]
fn parameters_may_be_ignored() {
    let setup = Setup::new().set("ignore_startup_parameters", "extra_float_digits, work_mem,options");
    let why = "Weir keeps the parameters that it tracks; only the others are ignored";
    differ(&setup, &[Difference::of("are without effect", "(on) SHOW", "(off) SHOW", why)], |site, facts| {
        for (name, value) in [("extra_float_digits", "2"), ("work_mem", "1234kB"), ("nonsense", "x")] {
            facts.login(name, &with(site, name, value));
        }
        if let Some(mut client) = facts.login("options", &with(site, "options", "-c geqo=off")) {
            facts.query("are without effect", &mut client, "SHOW geqo");
        }
    });
}

#[test]
fn a_bad_value_of_a_parameter() {
    let why = "the server's own error names it";
    let own = |fact, weir| Difference::of(fact, "FATAL 08P01 invalid server parameter", weir, why);
    let differences = [
        own("client_encoding: then", "FATAL 22023 invalid value for parameter \"client_encoding\": \"KLINGON\""),
        own("timezone: then", "FATAL 22023 invalid value for parameter \"TimeZone\": \"Moon/Base\""),
        own("datestyle: then", "FATAL 22023 invalid value for parameter \"DateStyle\": \"Stardate\""),
    ];
    differ(&Setup::new().mode("transaction"), &differences, |site, facts| {
        for (name, value) in [("client_encoding", "KLINGON"), ("timezone", "Moon/Base"), ("datestyle", "Stardate")] {
            if let Some(mut client) = facts.login(name, &with(site, name, value)) {
                facts.query(&format!("{name}: then"), &mut client, "SELECT 1");
            }
        }
    });
}

#[test]
fn application_name_add_host() {
    same(&Setup::new().set("application_name_add_host", "1"), |site, facts| {
        for name in ["mine", ""] {
            let params = site.params(users::APP, "app");
            let params = if name.is_empty() { params } else { params.option("application_name", name) };
            let mut client = site.connect(&params);
            let seen = client.value("SHOW application_name").expect("it answers").expect("it has one");
            let (host, port) = seen.rsplit_once(':').unwrap_or((&seen, ""));
            facts.note(
                &format!("{name:?}"),
                format!("{host} {}", !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit())),
            );
        }
    });
}

#[test]
fn application_names_follow_their_client() {
    same(&Setup::new().mode("transaction").set("default_pool_size", "1"), |site, facts| {
        let mut one = site.connect(&with(site, "application_name", "one"));
        let mut two = site.connect(&with(site, "application_name", "two"));
        facts.query("one", &mut one, "SHOW application_name");
        facts.query("two", &mut two, "SHOW application_name");
        facts.query("set", &mut one, "SET application_name = 'uno'");
        facts.query("two again", &mut two, "SHOW application_name");
        facts.query("one again", &mut one, "SHOW application_name");
        facts.query("an encoding", &mut one, "SET client_encoding = 'LATIN1'");
        facts.query("not the other's", &mut two, "SHOW client_encoding");
        facts.query("still the first's", &mut one, "SHOW client_encoding");
        let clients = site.show("CLIENTS");
        let names = (0..clients.rows.len()).filter(|row| clients.get(*row, "database") == Some("app"));
        let mut names: Vec<_> = names.map(|row| clients.get(row, "application_name").unwrap_or("NULL")).collect();
        names.sort_unstable();
        facts.note("on the console", names.join(","));
    });
}

#[test]
fn encryption_and_cancel_requests() {
    same(&Setup::new(), |site, facts| {
        for (name, code) in [("SSLRequest", 80_877_103_u32), ("GSSENCRequest", 80_877_104)] {
            let mut connection = Connection::open(&site.params(users::APP, "app")).expect("it listens");
            connection.send_bytes(&[&8u32.to_be_bytes()[..], &code.to_be_bytes()].concat()).expect("it reads");
            let answer = connection.read_bytes(Duration::from_secs(5));
            facts.note(name, answer.map_or_else(|error| error.to_string(), |bytes| bytes.escape_ascii().to_string()));
            facts.note(&format!("a login after {name}"), connection.login(&site.params(users::APP, "app")).is_ok());
        }
        let cancel = [16u32, 80_877_102, 4711, 4712].map(u32::to_be_bytes).concat();
        first(site, facts, "a cancel without a client", &cancel);
    });
}

#[test]
fn what_is_no_startup_packet() {
    let why = "what has an impossible length is closed without an answer, as by PostgreSQL, and otherwise the text names the mistake";
    let length = "Closed";
    let layout =
        "Error 08P01 unsupported protocol: invalid startup packet layout: expected terminator as last byte; Closed";
    let version = "Error 08P01 unsupported protocol: version 2.0; the server speaks 3.0 to 3.2; Closed";
    let differences = [
        Difference::of("HTTP", "Error 08P01 client sent partial pkt in startup phase; Closed", length, why),
        Difference::of("protocol 2", "Error 08P01 old V2 protocol not supported; Closed", version, why),
        Difference::of("a tiny length", "Error 08P01 bad packet header: '0000000400000000'; Closed", length, why),
        Difference::of("a huge one", "Error 08P01 bad packet header: '7fffffff00030000'; Closed", length, why),
        Difference::of("a name without a value", "Error 08P01 no username supplied; Closed", layout, why),
    ];
    differ(&Setup::new(), &differences, |site, facts| {
        first(site, facts, "HTTP", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        first(site, facts, "protocol 2", &[8u32, 0x0002_0000].map(u32::to_be_bytes).concat());
        first(site, facts, "a tiny length", &[4u32, 0].map(u32::to_be_bytes).concat());
        first(site, facts, "a huge one", &[0x7fff_ffffu32, 0x0003_0000].map(u32::to_be_bytes).concat());
        first(site, facts, "no user", b"\0\0\0\x14\0\x03\0\0database\0x\0\0");
        first(site, facts, "a name without a value", b"\0\0\0\x0e\0\x03\0\0user\0\0");
        first(site, facts, "a query first", Batch::new().query("SELECT 1").bytes());
        let mut client = site.client();
        facts.query("others are served", &mut client, "SELECT 1");
    });
}

#[test]
fn a_cancel_reaches_its_query() {
    for mode in ["session", "transaction"] {
        same(&Setup::new().mode(mode), |site, facts| {
            let mut client = site.client();
            let canceller = client.canceller();
            client.send_bytes(Batch::new().query("SELECT pg_sleep(30)").bytes()).expect("it reads");
            eventually("it runs", || {
                let running = site.database().backends().iter().any(|(_, state)| state == "active");
                running.then_some(()).ok_or("not yet")
            });
            canceller.cancel().expect("it is taken");
            facts.rest_after_first("cancelled", &mut client);
            facts.query("and then", &mut client, "SELECT 1");
        });
    }
}

#[test]
fn a_cancel_while_waiting_ends_the_request() {
    let why = "1.18 ignores it, and the client waits on";
    let differences = [
        Difference::of("the waiting client", "", "Error 57014 canceling statement due to user request; Ready I", why),
        Difference::of("is served", "Columns ?column?; Row 2; Complete SELECT 1; Ready I", "", why),
    ];
    differ(&Setup::new().mode("transaction").set("default_pool_size", "1"), &differences, |site, facts| {
        let (mut one, mut two) = (site.client(), site.client());
        one.query("BEGIN").expect("done");
        two.send_bytes(Batch::new().query("SELECT 2").bytes()).expect("it reads");
        site.await_pool("app", "cl_waiting", 1);
        two.canceller().cancel().expect("it is taken");
        facts.rest("the waiting client", &mut two);
        facts.query("the other", &mut one, "COMMIT");
        facts.rest("is served", &mut two);
    });
}

#[test]
fn the_login_reports_the_servers_parameters() {
    same(&Setup::new(), |site, facts| {
        let client = site.client();
        for name in [
            "server_version",
            "server_encoding",
            "client_encoding",
            "DateStyle",
            "IntervalStyle",
            "TimeZone",
            "integer_datetimes",
            "standard_conforming_strings",
            "is_superuser",
            "session_authorization",
            "application_name",
            "default_transaction_read_only",
            "in_hot_standby",
        ] {
            facts.note(name, client.parameter(name).unwrap_or("nothing"));
        }
    });
}
