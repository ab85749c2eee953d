//! What a client is given at its login, and what its RESET returns to: through a pool as directly, whatever became of
//! the servers.

use weir_pgclient::{ConnectParams, Connection};
use weir_tests::{Batch, Mode, Postgres, Setup, Site, Weir, ask, eventually, users};

/// What servers report that an operator can change.
const DEFAULTS: [(&str, &str, &str); 6] = [
    ("TimeZone", "'Asia/Tokyo'", "Asia/Tokyo"),
    ("DateStyle", "'German, DMY'", "German, DMY"),
    ("IntervalStyle", "'iso_8601'", "iso_8601"),
    ("standard_conforming_strings", "off", "off"),
    ("default_transaction_read_only", "on", "on"),
    ("application_name", "'default name'", "default name"),
];

fn reloaded(postgres: &Postgres, statements: &[String]) {
    let mut superuser = postgres.superuser("postgres");
    for statement in statements {
        superuser.query(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    superuser.query("SELECT pg_reload_conf()").unwrap();
}

fn value(client: &mut Connection, name: &str) -> String {
    client.value(&format!("SHOW {name}")).unwrap().unwrap()
}

/// Waits until a new client is given this, as one is past the pool.
fn is_given(pooled: &ConnectParams, direct: &ConnectParams, name: &str, expected: &str) {
    eventually(name, || {
        let given =
            [pooled, direct].map(|params| Connection::connect(params).unwrap().parameter(name).map(str::to_owned));
        if given.iter().all(|given| given.as_deref().is_none_or(|given| given == expected)) {
            Ok(())
        } else {
            Err(given)
        }
    });
}

#[test]
fn a_changed_default_is_given_to_new_clients_and_to_those_who_asked_for_nothing() {
    let postgres = Postgres::private();
    let site = Site::on(&postgres, Setup::new(Mode::Transaction).size(3), Mode::Transaction);
    let direct = postgres.params(users::APP, site.database().name());
    for (name, literal, expected) in DEFAULTS {
        let mut old = site.connect();
        let before = value(&mut old, name);
        let mut asking = Connection::connect(&site.params().option(name, &before)).unwrap();
        assert_eq!(value(&mut asking, name), before);
        // One more server, on which a client has set it.
        let mut setting = site.connect();
        setting.query("BEGIN").unwrap();
        value(&mut old, name);
        setting.query("COMMIT").unwrap();
        reloaded(&postgres, &[format!("ALTER SYSTEM SET {name} = {literal}")]);
        is_given(&site.params(), &direct, name, expected);
        eventually("a client that asked for nothing has the new default", || {
            let seen = value(&mut old, name);
            if seen == expected { Ok(()) } else { Err(seen) }
        });
        for _ in 0..3 {
            assert_eq!(value(&mut asking, name), before, "{name} of a client that asked for it");
            let mut new = site.connect();
            assert_eq!(value(&mut new, name), expected, "{name} of a new client");
        }
        reloaded(&postgres, &[format!("ALTER SYSTEM RESET {name}")]);
        is_given(&site.params(), &direct, name, &before);
    }
}

#[test]
fn a_standby_that_is_promoted_is_given_as_a_primary_though_no_client_sends_a_query() {
    let primary = Postgres::private();
    let database = primary.database();
    let standby = primary.standby();
    let setup = Setup::new(Mode::Transaction).size(2);
    let port = |postgres: &Postgres| format!("port = {}\n", postgres.port());
    let toml = setup.toml(&database).replace(&port(&primary), &port(&standby));
    let weir = Weir::start_with(&toml, &setup.userlist(), setup.files(), setup.console());
    let direct = standby.params(users::APP, database.name());
    let pooled = weir.params(users::APP.name, "app").password(users::APP.password);
    is_given(&pooled, &direct, "in_hot_standby", "on");
    // No server is left, and no client asks for one.
    weir.command("RECONNECT").unwrap();
    standby.server().promote().unwrap();
    is_given(&pooled, &direct, "in_hot_standby", "off");
}

#[test]
fn the_login_messages_are_those_of_the_servers_that_replaced_the_old_ones() {
    let postgres = Postgres::private();
    let site = Site::on(&postgres, Setup::new(Mode::Transaction).size(2), Mode::Transaction);
    for (number, command) in ["RECONNECT", "KILL app", "PAUSE"].into_iter().enumerate() {
        let zone = ["Asia/Tokyo", "Europe/Berlin", "America/Lima"][number];
        site.connect().query("SELECT 1").unwrap();
        // The new default is for new sessions only.
        let sql = format!("ALTER DATABASE {} SET TimeZone = '{zone}'", site.database().name());
        postgres.superuser("postgres").query(&sql).unwrap();
        site.weir().command(command).unwrap();
        if command != "RECONNECT" {
            site.weir().command("RESUME").unwrap();
        }
        assert_eq!(site.connect().parameter("TimeZone"), Some(zone), "after {command}");
    }
    postgres.superuser("postgres").query(&format!("ALTER DATABASE {} RESET ALL", site.database().name())).unwrap();
}

/// What a client may ask for at its login, with another value that it sets later.
const ASKED: [(&str, &str, &str); 9] = [
    ("TimeZone", "Asia/Tokyo", "Europe/Berlin"),
    ("DateStyle", "German, DMY", "SQL, DMY"),
    ("IntervalStyle", "iso_8601", "sql_standard"),
    ("application_name", "first", "second"),
    ("client_encoding", "LATIN1", "WIN1252"),
    ("extra_float_digits", "2", "3"),
    ("statement_timeout", "41s", "42s"),
    ("search_path", "a, b", "c"),
    ("bytea_output", "escape", "hex"),
];

fn asking(site: &Site) -> Connection {
    let params = ASKED.iter().fold(site.params(), |params, (name, value, _)| params.option(name, value));
    Connection::connect(&params).unwrap()
}

/// All values of a client, as its server has them and as they were reported to it.
fn values(client: &mut Connection) -> Vec<String> {
    let mut seen = Vec::new();
    for (name, ..) in ASKED {
        seen.push(format!("{name} = {}, reported {:?}", value(client, name), client.parameter(name)));
    }
    seen
}

/// The ways to reset, for each of which a client has set everything before.
fn resets(name: &str) -> Vec<Vec<Batch>> {
    let simple = |texts: &[String]| texts.iter().map(|text| Batch::new().query(text)).collect::<Vec<_>>();
    let extended = |text: &str| vec![Batch::new().run(text, &[]).sync()];
    let mut all = Vec::new();
    for command in
        [format!("RESET {name}"), format!("SET {name} TO DEFAULT"), "RESET ALL".to_owned(), "DISCARD ALL".to_owned()]
    {
        all.push(simple(std::slice::from_ref(&command)));
        all.push(extended(&command));
        if command != "DISCARD ALL" {
            all.push(simple(&[format!("SELECT 1; CLOSE ALL; {command};")]));
            all.push(simple(&["BEGIN".into(), command.clone(), "COMMIT".into()]));
            all.push(simple(&["BEGIN".into(), command.clone(), "ROLLBACK".into()]));
            all.push(simple(&["BEGIN".into(), command.clone(), format!("SHOW {name}"), "COMMIT".into()]));
        }
    }
    all
}

#[test]
fn a_reset_returns_to_what_the_client_asked_for_at_its_login() {
    let direct = Site::direct();
    let pools = [Site::transaction(1), Site::transaction(3), Site::session(3)];
    for (name, _, other) in ASKED {
        for (number, batches) in resets(name).into_iter().enumerate() {
            let set =
                format!("SET {name} = {}", if name == "search_path" { other.into() } else { format!("'{other}'") });
            let play = |site: &Site| {
                let (mut client, mut bystander) = (asking(site), site.connect());
                // Outside of session mode, what servers do not report ends with its transaction.
                let follows = site.keeps_sessions() || client.parameter(name).is_some();
                if follows {
                    client.query(&set).unwrap();
                }
                let mut seen = Vec::new();
                for batch in &batches {
                    let transcript = ask(&mut client, batch, 1);
                    seen.extend(
                        transcript.into_iter().filter(|line| line.starts_with("Row") || line.starts_with("Error")),
                    );
                }
                bystander.query("SELECT 1").unwrap();
                seen.extend(values(&mut client));
                (seen, values(&mut bystander), follows)
            };
            let expected = play(&direct);
            for pool in &pools {
                let seen = play(pool);
                if seen.2 {
                    assert_eq!(seen.0, expected.0, "{name}, reset {number}: {batches:?}");
                }
                assert_eq!(seen.1, expected.1, "another client's, after {name}, reset {number}: {batches:?}");
            }
        }
    }
}

/// Texts that reset what their client asked for, and then read it.
const READ_AFTER_RESET: [&str; 30] = [
    "RESET ALL; SHOW TimeZone",
    "RESET ALL;; ;SHOW DateStyle;;",
    "/* c */ RESET ALL -- x\n; SHOW TimeZone",
    "RESET TimeZone; SHOW TimeZone; SELECT 1",
    "RESET \"TimeZone\"; SHOW TimeZone",
    "SET TimeZone TO DEFAULT; SHOW TimeZone",
    "SET SESSION TIME ZONE LOCAL; SHOW TimeZone",
    "SET TIME ZONE DEFAULT; SELECT current_setting('TimeZone')",
    "SET TimeZone = 'UTC'; RESET TimeZone; SHOW TimeZone",
    "SET NAMES DEFAULT; SHOW client_encoding",
    "RESET search_path; SHOW search_path; SELECT current_schemas(false)::text",
    "RESET application_name; SHOW application_name; RESET statement_timeout; SHOW statement_timeout",
    "RESET IntervalStyle; SELECT interval '1 day 2 hours'",
    "RESET extra_float_digits; SELECT 0.1::float8 + 0.2::float8",
    "RESET bytea_output; SELECT '\\x00'::bytea",
    "RESET ALL; RESET ALL; SHOW TimeZone; RESET ALL",
    "UNLISTEN x; RESET TimeZone; UNLISTEN y; SHOW TimeZone",
    "SELECT E'\\';'; RESET TimeZone; SHOW TimeZone",
    "SELECT ';RESET ALL;'; SHOW TimeZone",
    "BEGIN; RESET ALL; SHOW DateStyle; ROLLBACK; SHOW DateStyle",
    "BEGIN; SET LOCAL TimeZone TO DEFAULT; SHOW TimeZone; COMMIT; SHOW TimeZone",
    "BEGIN; SET LOCAL TimeZone = 'UTC'; SET LOCAL TimeZone = DEFAULT; SHOW TimeZone; COMMIT",
    "BEGIN; RESET ALL; SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; SHOW transaction_isolation; COMMIT",
    "BEGIN; SAVEPOINT a; SET TimeZone = 'UTC'; ROLLBACK TO a; RESET TimeZone; SHOW TimeZone; COMMIT",
    "BEGIN READ ONLY; RESET ALL; SHOW TimeZone; COMMIT",
    "SELECT 1; RESET ALL; SELECT 1/0; SHOW TimeZone",
    "RESET ALL; COMMIT; SELECT 1/0; SHOW TimeZone",
    "RESET ALL; COPY (SELECT current_setting('TimeZone')) TO STDOUT",
    "RESET work_mem; SHOW work_mem; DISCARD PLANS",
    "DISCARD ALL; SELECT 1",
];

/// Pipelines in which something follows a reset, a statement each.
const PIPELINES: [&[&str]; 8] = [
    &["RESET TimeZone", "SHOW TimeZone"],
    &["RESET ALL", "SHOW DateStyle", "SHOW TimeZone", "SHOW statement_timeout"],
    &["SET TimeZone TO DEFAULT", "SHOW TimeZone"],
    &["BEGIN", "SET LOCAL TimeZone TO DEFAULT", "SHOW TimeZone", "COMMIT", "SHOW TimeZone"],
    &["SET TimeZone = 'UTC'", "RESET ALL", "SHOW TimeZone", "SELECT 1/0"],
    &["DISCARD ALL", "SHOW TimeZone", "SELECT 1/0"],
    &["BEGIN", "RESET ALL", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "SHOW TimeZone", "ROLLBACK"],
    &["RESET search_path", "SHOW search_path", "RESET search_path", "SELECT current_schemas(false)::text"],
];

#[test]
fn what_follows_a_reset_in_the_same_text_or_pipeline_sees_what_the_client_asked_for() {
    let texts = READ_AFTER_RESET.map(|text| Batch::new().query(text));
    let pipeline =
        |statements: &&[&str]| statements.iter().fold(Batch::new(), |batch, text| batch.run(text, &[])).sync();
    let batches: Vec<Batch> = texts.into_iter().chain(PIPELINES.iter().map(pipeline)).collect();
    let direct = Site::direct();
    let pools = [Site::transaction(1), Site::session(2)];
    let play = |site: &Site, batch: &Batch| {
        let (mut client, mut bystander) = (asking(site), site.connect());
        bystander.query("SELECT 1").unwrap();
        let mut seen = ask(&mut client, batch, 1);
        client.query("ROLLBACK").unwrap();
        bystander.query("SELECT 1").unwrap();
        seen.extend(values(&mut client));
        (seen, values(&mut bystander))
    };
    for batch in &batches {
        let expected = play(&direct, batch);
        for pool in &pools {
            assert_eq!(play(pool, batch), expected, "{batch:?}");
        }
    }
}
