//! Tracked parameters: each client keeps its own, however often servers change their clients.

use std::thread;

use weir_pgclient::Connection;
use weir_tests::{Batch, Mode, Postgres, Rng, Setup, Site, ask, eventually};

everywhere!(
    a_set_is_in_force_for_its_client_and_for_no_other,
    a_set_that_is_rolled_back_is_undone,
    a_set_local_ends_with_its_transaction,
    reset_and_discard_all_return_to_the_startup_values,
    the_application_name_is_each_clients_own,
);

const TRACKED: [(&str, [&str; 3]); 8] = [
    ("client_encoding", ["UTF8", "LATIN1", "WIN1252"]),
    ("DateStyle", ["ISO, MDY", "German, DMY", "SQL, DMY"]),
    ("TimeZone", ["UTC", "Asia/Tokyo", "Europe/Berlin"]),
    ("standard_conforming_strings", ["on", "off", "on"]),
    ("IntervalStyle", ["postgres", "iso_8601", "sql_standard"]),
    ("application_name", ["", "first app", "it's another"]),
    ("extra_float_digits", ["1", "3", "-2"]),
    ("default_transaction_read_only", ["off", "on", "off"]),
];

fn show(client: &mut Connection, name: &str) -> String {
    client.value(&format!("SHOW {name}")).unwrap().unwrap()
}

fn set(client: &mut Connection, name: &str, value: &str) {
    let quoted = value.split(", ").map(|part| format!("'{}'", part.replace('\'', "''"))).collect::<Vec<_>>().join(", ");
    let quoted = if name == "DateStyle" { format!("'{value}'") } else { quoted };
    client.query(&format!("SET {name} = {quoted}")).unwrap_or_else(|error| panic!("SET {name}: {error}"));
}

/// Weir tracks it only if the server reports it: extra_float_digits is known from the startup packet alone.
fn follows_a_set(name: &str) -> bool {
    name != "extra_float_digits"
}

fn a_set_is_in_force_for_its_client_and_for_no_other(site: &Site) {
    for (name, values) in TRACKED.into_iter().filter(|(name, _)| follows_a_set(name)) {
        let mut clients: Vec<_> = (0..6).map(|_| site.connect()).collect();
        for (number, client) in clients.iter_mut().enumerate().rev() {
            set(client, name, values[number % 3]);
        }
        for round in 0..3 {
            for (number, client) in clients.iter_mut().enumerate() {
                assert_eq!(show(client, name), values[number % 3], "{name} of client {number} in round {round}");
                assert_eq!(client.parameter(name), Some(values[number % 3]), "{name} as reported");
            }
        }
    }
}

fn a_set_that_is_rolled_back_is_undone(site: &Site) {
    let mut client = site.connect();
    for (name, values) in TRACKED.into_iter().filter(|(name, _)| follows_a_set(name)) {
        let before = show(&mut client, name);
        client.query("BEGIN").unwrap();
        set(&mut client, name, values[1]);
        assert_eq!(show(&mut client, name), values[1]);
        client.query("ROLLBACK").unwrap();
        assert_eq!(show(&mut client, name), before, "{name}");
        assert_eq!(client.parameter(name), Some(before.as_str()), "{name} as reported");
    }
}

fn a_set_local_ends_with_its_transaction(site: &Site) {
    let mut client = site.connect();
    set(&mut client, "TimeZone", "Asia/Tokyo");
    client.query_all("BEGIN; SET LOCAL TimeZone = 'Europe/Berlin'").unwrap();
    assert_eq!(show(&mut client, "TimeZone"), "Europe/Berlin");
    client.query("COMMIT").unwrap();
    assert_eq!(show(&mut client, "TimeZone"), "Asia/Tokyo");
    assert_eq!(client.parameter("TimeZone"), Some("Asia/Tokyo"));
}

fn reset_and_discard_all_return_to_the_startup_values(site: &Site) {
    for command in ["RESET TimeZone", "RESET ALL", "DISCARD ALL", "SET TimeZone TO DEFAULT"] {
        let mut client = site.connect();
        set(&mut client, "TimeZone", "Asia/Tokyo");
        client.query(command).unwrap();
        assert_eq!(show(&mut client, "TimeZone"), "UTC", "{command}");
        assert_eq!(client.parameter("TimeZone"), Some("UTC"), "{command}");
    }
}

fn the_application_name_is_each_clients_own(site: &Site) {
    let named = |name: &str| Connection::connect(&site.params().option("application_name", name)).unwrap();
    let mut clients = [named("alpha"), named("beta"), named("gamma, with 'quotes' and \\ and \"more\"")];
    for _ in 0..4 {
        for (client, name) in clients.iter_mut().zip(["alpha", "beta", "gamma, with 'quotes' and \\ and \"more\""]) {
            let sql = "SELECT application_name FROM pg_stat_activity WHERE pid = pg_backend_pid()";
            assert_eq!(client.value(sql).unwrap().as_deref(), Some(name));
        }
    }
}

#[test]
fn every_tracked_parameter_follows_its_client_over_one_server() {
    let site = Site::transaction(1);
    let mut clients: Vec<_> = (0..3)
        .map(|number| {
            let add = |params: weir_pgclient::ConnectParams, (name, values): &(&str, [&str; 3])| {
                params.option(name, values[number])
            };
            Connection::connect(&TRACKED.iter().fold(site.params(), add)).unwrap()
        })
        .collect();
    let mut rng = Rng::seeded("parameters");
    for _ in 0..60 {
        let number = rng.below(3);
        for (name, values) in TRACKED {
            assert_eq!(show(&mut clients[number], name), values[number], "{name} of client {number}");
        }
    }
    assert_eq!(site.database().backends().len(), 1);
}

#[test]
fn a_client_without_parameters_gets_the_servers_own_after_one_with_parameters() {
    let site = Site::transaction(1);
    for (name, values) in TRACKED {
        let mut plain = site.connect();
        let before = show(&mut plain, name);
        let mut other = Connection::connect(&site.params().option(name, values[1])).unwrap();
        assert_eq!(show(&mut other, name), values[1], "{name}");
        assert_eq!(show(&mut plain, name), before, "{name}");
        assert_eq!(show(&mut site.connect(), name), before, "{name} of a new client");
    }
}

/// The ways to make a session's transactions read-only.
const READ_ONLY: [&str; 5] = [
    "SET default_transaction_read_only = on",
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
    "SELECT set_config('default_transaction_read_only', 'on', false)",
    "DO $$BEGIN SET default_transaction_read_only = on; END$$",
    "BEGIN; SET LOCAL default_transaction_read_only = off; SET default_transaction_read_only = on; COMMIT",
];

fn set_for_all(superuser: &mut Connection, command: &str) {
    superuser.query(command).unwrap();
    superuser.query("SELECT pg_reload_conf()").unwrap();
}

#[test]
fn what_a_client_sets_follows_it_and_what_an_operator_sets_stays_with_the_server() {
    let postgres = Postgres::private();
    let site = Site::on(&postgres, Setup::new(Mode::Transaction).size(1), Mode::Transaction);
    let mut superuser = site.superuser();
    superuser
        .query(
            "CREATE FUNCTION read_only() RETURNS int LANGUAGE plpgsql AS $$BEGIN \
             EXECUTE 'SET default_transaction_' || 'read_only = on'; RETURN 1; END$$",
        )
        .unwrap();
    let read_only = |client: &mut Connection| show(client, "default_transaction_read_only");
    let mut readers: Vec<_> = READ_ONLY.iter().map(|_| site.connect()).collect();
    let [mut writer, mut setting, mut returned] = [(); 3].map(|()| site.connect());
    for (reader, sql) in readers.iter_mut().zip(READ_ONLY) {
        reader.query_all(sql).unwrap();
        assert!(reader.take_notices().is_empty(), "{sql}");
    }
    returned.query_all("SET default_transaction_read_only = on").unwrap();
    returned.query_all("RESET default_transaction_read_only").unwrap();
    writer.query("SELECT read_only()").unwrap();
    for _ in 0..3 {
        for (reader, sql) in readers.iter_mut().zip(READ_ONLY) {
            assert_eq!((&*read_only(reader), &*read_only(&mut writer)), ("on", "off"), "{sql}");
            assert_eq!(reader.parameter("default_transaction_read_only"), Some("on"), "{sql}");
        }
        assert_eq!(read_only(&mut returned), "off");
    }
    for (command, expected) in [
        ("ALTER SYSTEM SET default_transaction_read_only = on", "on"),
        ("ALTER SYSTEM RESET default_transaction_read_only", "off"),
    ] {
        set_for_all(&mut superuser, command);
        for client in [&mut setting, &mut writer, &mut returned] {
            eventually(command, || {
                // The report of the operator's change may come with that of another one, of the client's own.
                client.query("SET application_name = 'a'; SET work_mem = '5MB'").unwrap();
                client.query("SET application_name = 'b'; SET TimeZone = 'Asia/Tokyo'").unwrap();
                let seen = read_only(client);
                if seen == expected { Ok(()) } else { Err(seen) }
            });
            assert_eq!(client.parameter("default_transaction_read_only"), Some(expected), "{command}");
        }
        for (reader, sql) in readers.iter_mut().zip(READ_ONLY) {
            assert_eq!(read_only(reader), "on", "{sql}");
        }
    }
}

#[test]
fn as_whom_a_client_acts_follows_it_and_nobody_else_acts_as_that() {
    let postgres = Postgres::private();
    postgres
        .superuser("postgres")
        .query_all("CREATE ROLE someone; CREATE ROLE somebody_else; ALTER ROLE app SUPERUSER")
        .unwrap();
    for on_dirty in ["reset", "keep"] {
        let setup = Setup::new(Mode::Transaction).size(1).pool(&format!("on_dirty = \"{on_dirty}\""));
        // Weir's own query at each use, which must run as the pool's user.
        let setup = setup.limit("server_check_delay = 0").pool("server_check_query = \"SELECT check_user()\"");
        let site = Site::on(&postgres, setup, Mode::Transaction);
        site.superuser()
            .query_all(
                "CREATE TABLE users (name name); GRANT ALL ON users TO PUBLIC; CREATE FUNCTION check_user() \
                 RETURNS int LANGUAGE sql AS 'INSERT INTO users SELECT session_user; SELECT 1'",
            )
            .unwrap();
        let user = |client: &mut Connection| client.value("SELECT session_user").unwrap().unwrap();
        let (mut one, mut two, mut plain) = (site.connect(), site.connect(), site.connect());
        one.query("SET SESSION AUTHORIZATION someone").unwrap();
        two.query("SELECT set_config('session_authorization', 'somebody_else', false)").unwrap();
        for _ in 0..3 {
            for (client, expected) in [(&mut one, "someone"), (&mut two, "somebody_else"), (&mut plain, "app")] {
                assert_eq!(user(client), expected, "{on_dirty}");
                assert_eq!(client.parameter("session_authorization"), Some(expected), "{on_dirty}");
                assert!(client.take_notices().is_empty());
            }
        }
        one.query_all("BEGIN; SET SESSION AUTHORIZATION somebody_else; ROLLBACK").unwrap();
        two.query("RESET SESSION AUTHORIZATION").unwrap();
        for (client, expected) in [(&mut plain, "app"), (&mut one, "someone"), (&mut two, "app")] {
            assert_eq!(user(client), expected, "{on_dirty}");
        }
        let users = "SELECT string_agg(DISTINCT name, ' ') FROM users";
        assert_eq!(site.superuser().value(users).unwrap().as_deref(), Some("app"), "{on_dirty}");
        assert!(Connection::connect(&site.params().option("session_authorization", "somebody_else")).is_err());
    }
}

#[test]
fn text_in_the_clients_encoding_is_never_read_in_anothers() {
    let site = Site::transaction(1);
    let mut latin = Connection::connect(&site.params().option("client_encoding", "LATIN1")).unwrap();
    let mut utf8 = site.connect();
    for _ in 0..10 {
        assert_eq!(utf8.value("SELECT 'é'").unwrap().as_deref(), Some("é"));
        let mut message = Vec::new();
        weir_pgwire::put_front::query(&mut message, b"SELECT ascii('\xe9')");
        let transcript = ask(&mut latin, &Batch::new().raw(&message), 1);
        assert_eq!(transcript[1], "Row 233");
    }
}

#[test]
fn a_parameter_that_the_server_refuses_fails_its_client_with_the_servers_error() {
    let site = Site::transaction(1);
    let outcome = Connection::connect(&site.params().option("TimeZone", "Middle/Earth"));
    let error = outcome.and_then(|mut client| client.value("SELECT 1")).unwrap_err();
    assert_eq!(error.sqlstate(), Some("22023"), "{error}");
    assert!(error.to_string().contains("Middle/Earth"), "{error}");
    assert_eq!(site.connect().value("SHOW TimeZone").unwrap().as_deref(), Some("UTC"));
}

#[test]
fn a_parameter_that_cannot_be_set_is_not_sql() {
    // The value is quoted, whatever it contains.
    let site = Site::transaction(1);
    let evil = "x'; CREATE TABLE injected (); --";
    let mut client = Connection::connect(&site.params().option("application_name", evil)).unwrap();
    assert_eq!(show(&mut client, "application_name"), evil);
    let mut client = Connection::connect(&site.params().option("application_name", "a\\'b")).unwrap();
    assert_eq!(show(&mut client, "application_name"), "a\\'b");
    assert_eq!(client.value("SELECT to_regclass('injected')").unwrap(), None);
}

#[test]
fn a_startup_parameter_that_is_never_reported_follows_its_client_too() {
    let site = Site::transaction(1);
    site.superuser().query_all("CREATE SCHEMA one; CREATE SCHEMA two").unwrap();
    let cases = [
        ("search_path", ["one", "two", "one, two"]),
        ("statement_timeout", ["10s", "20s", "30s"]),
        ("lock_timeout", ["1s", "2s", "3s"]),
        ("bytea_output", ["hex", "escape", "hex"]),
        ("default_transaction_isolation", ["serializable", "read committed", "repeatable read"]),
        ("default_transaction_read_only", ["on", "off", "on"]),
    ];
    for (name, values) in cases {
        let mut plain = site.connect();
        let before = show(&mut plain, name);
        let mut clients = values.map(|value| Connection::connect(&site.params().option(name, value)).unwrap());
        for _ in 0..3 {
            for (client, value) in clients.iter_mut().zip(values) {
                assert_eq!(show(client, name), value, "{name}");
            }
            assert_eq!(show(&mut plain, name), before, "{name} of a client that requested nothing");
        }
    }
}

#[test]
fn clients_with_other_parameters_share_three_servers_under_load() {
    let site = Site::with(Setup::new(Mode::Transaction).size(3), Mode::Transaction);
    thread::scope(|scope| {
        for number in 0..12 {
            let site = &site;
            scope.spawn(move || {
                let name = format!("client {number}");
                let zone = TRACKED[2].1[number % 3];
                let params = site.params().option("application_name", &name).option("TimeZone", zone);
                let mut client = Connection::connect(&params).unwrap();
                for _ in 0..60 {
                    let sql = "SELECT current_setting('application_name') || '/' || current_setting('TimeZone')";
                    assert_eq!(client.value(sql).unwrap().unwrap(), format!("{name}/{zone}"));
                }
            });
        }
    });
}

const OTHERS: [(&str, [&str; 2]); 4] = [
    ("client_min_messages", ["warning", "error"]),
    ("work_mem", ["7MB", "9MB"]),
    ("my.own", ["it's mine", "a;b\\c"]),
    ("wal_sender_timeout", ["77s", "88s"]),
];

fn untracked(mode: Mode, policy: &str) -> Site {
    let setup = Setup::new(mode).size(1).general(&format!("untracked_startup_parameters = \"{policy}\""));
    Site::with(setup, mode)
}

fn has(client: &mut Connection, name: &str) -> Option<String> {
    client.value(&format!("SELECT nullif(current_setting('{name}', true), '')")).unwrap()
}

#[test]
fn parameters_that_are_not_tracked_are_set_for_their_client_and_for_no_other() {
    let site = untracked(Mode::Transaction, "set");
    let mut plain = site.connect();
    let defaults = OTHERS.map(|(name, _)| has(&mut plain, name));
    let mut clients = [0, 1].map(|number| {
        let all = OTHERS.into_iter().fold(site.params(), |params, (name, values)| params.option(name, values[number]));
        Connection::connect(&all).unwrap()
    });
    let mut one = Connection::connect(&site.params().option("options", "-c work_mem=5MB")).unwrap();
    for round in 0..4 {
        for (number, client) in clients.iter_mut().enumerate() {
            for (name, values) in OTHERS {
                assert_eq!(has(client, name).as_deref(), Some(values[number]), "{name} in round {round}");
            }
        }
        assert_eq!(has(&mut one, "work_mem").as_deref(), Some("5MB"));
        assert_eq!(has(&mut one, "my.own"), None);
        assert_eq!(OTHERS.map(|(name, _)| has(&mut plain, name)), defaults, "a client that requested nothing");
        // What a client does to them later is its own, and what it requested at its login is there again.
        clients[0].query("BEGIN; SET LOCAL work_mem = '3MB'; COMMIT").unwrap();
        clients[1].query("RESET ALL").unwrap();
        one.query("DISCARD ALL").unwrap();
    }
}

#[test]
fn what_a_statement_means_follows_parameters_that_are_not_tracked() {
    let site = untracked(Mode::Transaction, "set");
    let mut plain = site.connect();
    let mut other = Connection::connect(&site.params().option("transform_null_equals", "on")).unwrap();
    let sql = "SELECT (NULL::int = NULL)::text";
    for _ in 0..3 {
        let batch = Batch::new().parse("s", sql).bind("", "s", &[]).execute("", 0).close_statement("s").sync();
        let of = |client: &mut Connection| ask(client, &batch, 1).join("\n");
        assert!(!of(&mut plain).contains("true"));
        assert!(of(&mut other).contains("true"));
    }
}

#[test]
fn a_refused_value_is_the_error_of_its_client_alone() {
    for mode in [Mode::Session, Mode::Transaction] {
        let site = untracked(mode, "set");
        let good = || site.connect();
        for (name, value, text) in [
            ("work_mem", "much", "invalid value for parameter \"work_mem\": \"much\""),
            ("no_such_parameter", "1", "unrecognized configuration parameter \"no_such_parameter\""),
            ("log_statement", "all", "permission denied to set parameter \"log_statement\""),
            ("max_connections", "7", "parameter \"max_connections\" cannot be changed without restarting the server"),
            // It is tracked, and may not be set back either.
            ("lc_messages", "C", "permission denied to set parameter \"lc_messages\""),
        ] {
            assert_eq!(good().value("SELECT 1").unwrap().as_deref(), Some("1"));
            let params = site.params().option("my.own", "x").option(name, value);
            let error = match Connection::connect(&params) {
                Ok(mut client) => client.query("SELECT 1").unwrap_err().to_string(),
                Err(error) => error.to_string(),
            };
            assert!(error.contains(text), "{name}: {error}");
            let mut next = good();
            assert_eq!(has(&mut next, "my.own"), None, "after {name}");
        }
    }
}

#[test]
fn parameters_that_are_not_tracked_are_refused_or_dropped() {
    for (policy, name, served) in [
        ("refuse", "work_mem", false),
        ("ignore", "work_mem", true),
        ("set", "work_mem", true),
        ("set", "role", false),
        ("set", "session_authorization", false),
        ("set", "bad name", false),
    ] {
        let site = untracked(Mode::Transaction, policy);
        match Connection::connect(&site.params().option(name, "6MB")) {
            Ok(mut client) => {
                assert!(served, "{policy} {name}");
                let set = has(&mut client, "work_mem").as_deref() == Some("6MB");
                assert_eq!(set, policy == "set");
            }
            Err(error) => {
                assert!(!served, "{policy} {name}: {error}");
                assert!(error.to_string().contains("unsupported startup parameter"), "{error}");
            }
        }
    }
}
