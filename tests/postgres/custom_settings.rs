//! `mode = "auto"`: settings with names of two parts (`my.own`), which no server lists, follow their client and are found by
//! no other: as of tenants whose rows a policy selects by such a setting.

use std::collections::BTreeSet;

use weir_pgclient::Connection;
use weir_tests::{Batch, Mode, Setup, Site, ask};

fn auto(size: u32, workers: u32, more: &str) -> Site {
    let limits = format!("server_round_robin = true\nmax_pinned = 100\n{more}");
    Site::with(Setup::new(Mode::Auto).size(size).limit(&limits).workers(workers).spread("always"), Mode::Auto)
}

/// What a client finds; nothing is left of one that was reset but an empty text.
fn own(client: &mut Connection, name: &str) -> String {
    client.value(&format!("SELECT coalesce(current_setting('{name}', true), '')")).unwrap().unwrap()
}

/// The kinds of state for which clients are pinned.
fn pinned(site: &Site) -> Vec<String> {
    let clients = site.weir().show("CLIENTS");
    let by = |row| clients.get(row, "pinned_by").unwrap_or_default().to_owned();
    (0..clients.rows.len()).map(by).filter(|by| !by.is_empty()).collect()
}

fn servers(client: &mut Connection, times: usize) -> BTreeSet<Option<String>> {
    (0..times).map(|_| client.value("SELECT pg_backend_pid()").unwrap()).collect()
}

#[test]
fn each_of_many_clients_finds_its_own_tenant_on_every_server_and_none_is_pinned() {
    for (size, workers) in [(1, 1), (3, 1), (3, 2)] {
        let site = auto(size, workers, "");
        let mut clients: Vec<Connection> = (0..20).map(|_| site.connect()).collect();
        for (number, client) in clients.iter_mut().enumerate() {
            let value = format!("it''s = {number}");
            match number % 5 {
                0 => drop(client.query(&format!("SET app.tenant = '{value}'")).unwrap()),
                1 => drop(client.query(&format!("SELECT set_config('App.Tenant', '{value}', false)")).unwrap()),
                2 => drop(client.query(&format!("DO $$BEGIN SET \"app\".tenant TO '{value}'; END$$")).unwrap()),
                3 => {
                    drop(client.query_all(&format!("BEGIN; SAVEPOINT a; SET SESSION app.tenant TO '{value}'; COMMIT")))
                }
                _ => {
                    let sql = format!("SELECT set_config('app.tenant', '{value}', $1)");
                    let named = Batch::new().parse("s", &sql).bind("", "s", &["false"]).execute("", 0).sync();
                    ask(client, &named, 1);
                }
            }
        }
        for round in 0..4 {
            for (number, client) in clients.iter_mut().enumerate() {
                let found = own(client, "app.tenant");
                assert_eq!(found, format!("it's = {number}"), "{size} servers, {workers} workers, round {round}");
            }
            assert_eq!(own(&mut site.connect(), "app.tenant"), "", "a new client");
        }
        assert_eq!(pinned(&site), Vec::<String>::new());
        clients[0].query("RESET app.tenant").unwrap();
        clients[1].query("RESET ALL").unwrap();
        clients[2].query("DISCARD ALL").unwrap();
        clients[3].query_all("BEGIN; SET app.tenant = 'x'; ROLLBACK").unwrap();
        for _ in 0..3 {
            (0..3).for_each(|number| assert_eq!(own(&mut clients[number], "app.tenant"), "", "client {number}"));
            assert_eq!(own(&mut clients[3], "app.tenant"), "it's = 3");
        }
    }
}

#[test]
fn a_policy_by_a_custom_setting_shows_each_client_its_own_rows() {
    let site = auto(3, 1, "");
    site.superuser()
        .query_all(
            "CREATE TABLE notes (tenant int, note text); INSERT INTO notes SELECT n, 'of ' || n FROM generate_series(0, 9) n; \
             ALTER TABLE notes ENABLE ROW LEVEL SECURITY; GRANT SELECT ON notes TO app; \
             CREATE POLICY own ON notes USING (tenant = nullif(current_setting('app.tenant', true), '')::int)",
        )
        .unwrap();
    let mut clients: Vec<Connection> = (0..10).map(|_| site.connect()).collect();
    for round in 0..6 {
        for (number, client) in clients.iter_mut().enumerate() {
            let tenant = (number + round / 3) % 10;
            if round % 3 == 0 {
                client.query(&format!("SET app.tenant = {tenant}")).unwrap();
            }
            let shared = Batch::new().parse("s", "SELECT string_agg(note, ',') FROM notes");
            let batch = if round == 0 { shared } else { Batch::new() }.bind("", "s", &[]).execute("", 0).sync();
            let answer = ask(client, &batch, 1);
            assert!(answer.contains(&format!("Row of {tenant}")), "client {number}, round {round}: {answer:?}");
        }
        assert_eq!(site.connect().value("SELECT count(*) FROM notes").unwrap().as_deref(), Some("0"));
    }
    assert_eq!(pinned(&site), Vec::<String>::new());
    // As many statements as texts, and not as many as there are tenants.
    let prepared = "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%string_agg%'";
    assert_eq!(clients[0].value(prepared).unwrap().as_deref(), Some("1"));
}

#[test]
fn a_text_that_leaves_no_setting_does_not_pin_its_client() {
    let site = auto(2, 1, "");
    site.superuser().query_all("CREATE TABLE t (a numeric); GRANT ALL ON t TO app").unwrap();
    let long = format!("BEGIN; SET LOCAL my.x = '1'; SELECT '{}', t.a FROM t; COMMIT", "x".repeat(3000));
    for text in [
        "begin; set local my.x='1'; commit",
        "begin; set my.x='1'; rollback",
        "set my.x='1'; reset my.x",
        "begin; set my.x='1'; reset all; commit",
        "set my.x = '1'; set my.x to default",
        "insert into t values (1.5); set local statement_timeout='1.5s'; select t.a from t",
        "select t.a from t; set work_mem = '5MB'; select 1.5; reset work_mem",
        "do $$begin perform 1; end$$",
        "do 'declare n int; begin select count(t.a) into n from t; update t set a = 1.5; end'",
        "do $$begin set local my.x = '1'; end$$",
        "select set_config('my.x', '1', true)",
        "create or replace function pg_temp.f() returns text language sql as 'select set_config(''my.x'', ''1'', false)'; \
         drop function pg_temp.f()",
        &long,
    ] {
        let mut client = site.connect();
        client.query_all(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(pinned(&site), Vec::<String>::new(), "{text}");
        assert_eq!(own(&mut client, "my.x"), "", "{text}");
        for text in ["set my.x = '2'", "reset all"] {
            client.query(text).unwrap();
        }
        assert_eq!((own(&mut client, "my.x"), pinned(&site)), (String::new(), vec![]), "{text}");
    }
}

#[test]
fn what_can_not_follow_keeps_its_client_until_it_is_gone_and_no_other_finds_it() {
    let site = auto(3, 1, "");
    let long = "x".repeat(10_001);
    let many: String = (0..65).map(|n| format!("SET my.n{n} = '1';")).collect();
    for (text, name, value) in [
        ("SET my.own = 'é'", "my.own", "é"),
        (&*format!("SET my.own = '{long}'"), "my.own", &*long),
        ("SET \"my.öwn\" = '1'", "my.öwn", "1"),
        ("DO $$BEGIN EXECUTE 'SET my.' || 'own = 1'; END$$", "my.own", "1"),
        ("DO 'BEGIN SE'\n'T my.own = 1; END'", "my.own", "1"),
        ("SELECT set_config('my.' || 'own', '1', false)", "my.own", "1"),
        ("SELECT set_config(name, '1', false) FROM (VALUES ('my.own')) AS of (name)", "my.own", "1"),
        // The library of an extension, which its server may not have loaded.
        ("SET plpgsql.own = '1'", "plpgsql.own", "1"),
        (&*many, "my.n64", "1"),
    ] {
        let (mut client, mut other) = (site.connect(), site.connect());
        if client.query_all(text).is_err() {
            // A server that has loaded it refuses names that it does not know.
            assert!(text.contains("plpgsql"), "{text}");
            continue;
        }
        assert_eq!(servers(&mut client, 4).len(), 1, "{text}");
        for _ in 0..3 {
            assert_eq!((&*own(&mut client, name), &*own(&mut other, name)), (value, ""), "{text}");
        }
        client.query("DISCARD ALL").unwrap();
        assert_eq!(own(&mut client, name), "");
        assert!(servers(&mut client, 6).len() > 1, "{text}");
    }
    let mut client = site.connect();
    client.query("SET my.own = 'é'").unwrap();
    client.query("RESET my.own").unwrap();
    assert!(servers(&mut client, 6).len() > 1, "it is gone, and keeps its client");
}

/// A setting that each session has from its start is no client's, and an empty one in its place is.
#[test]
fn what_a_client_sets_in_place_of_a_default_of_its_role_is_found_by_no_other() {
    let site = auto(2, 1, "");
    let mut superuser = site.superuser();
    let database = superuser.value("SELECT quote_ident(current_database())").unwrap().unwrap();
    let defaults =
        format!("ALTER ROLE app SET my.usual = 'role''s'; ALTER DATABASE {database} SET my.usual = 'database''s'");
    superuser.query_all(&defaults).unwrap();
    site.weir().command("RECONNECT").unwrap();
    let (mut client, mut other) = (site.connect(), site.connect());
    for value in ["", "database's", "other"] {
        client.query(&format!("SELECT set_config('my.usual', '{}', false)", value.replace('\'', "''"))).unwrap();
        for _ in 0..4 {
            assert_eq!((&*own(&mut client, "my.usual"), &*own(&mut other, "my.usual")), (value, "role's"));
        }
    }
    client.query("RESET my.usual").unwrap();
    (0..4).for_each(|_| assert_eq!(own(&mut client, "my.usual"), "role's"));
    assert_eq!(pinned(&site), Vec::<String>::new());
    superuser.query("ALTER ROLE app RESET my.usual").unwrap();
}

/// A question about other settings does not make Weir forget what a client has asked for at its login.
#[test]
fn a_custom_setting_of_a_login_is_found_by_no_other_after_its_client_has_set_something_else() {
    for more in [
        "untracked_startup_parameters = \"set\"",
        "untracked_startup_parameters = \"set\"\ntrack_extra_parameters = [\"my.own\"]",
    ] {
        let setup = Setup::new(Mode::Auto).size(1).general(more);
        let site = Site::with(setup, Mode::Auto);
        let mut client = Connection::connect(&site.params().option("my.own", "x")).unwrap();
        for text in ["SET work_mem = '5MB'", "SET my.own = 'y'", "RESET ALL", "SELECT set_config('my.own', 'y', true)"]
        {
            client.query(text).unwrap();
            assert_eq!(own(&mut site.connect(), "my.own"), "", "{text}");
            let value = if text.contains("'y', t") || !text.contains("'y'") { "x" } else { "y" };
            assert_eq!(own(&mut client, "my.own"), value, "{text}");
        }
    }
}

/// Procedures commit, and functions set by names that only their bodies have.
#[test]
fn what_procedures_and_prepared_statements_set_follows_their_client() {
    let site = auto(3, 1, "");
    site.superuser()
        .query_all(
            "CREATE PROCEDURE enters() LANGUAGE plpgsql AS \
             'BEGIN SET my.one = ''1''; COMMIT; SET my.two = ''2''; ROLLBACK; END'",
        )
        .unwrap();
    let (mut client, mut other) = (site.connect(), site.connect());
    client.query("CALL enters()").unwrap();
    for _ in 0..3 {
        assert_eq!((own(&mut client, "my.one"), own(&mut client, "my.two")), ("1".into(), String::new()));
        assert_eq!(own(&mut other, "my.one"), "");
    }
    assert_eq!(pinned(&site), Vec::<String>::new());
    let sets = Batch::new().parse("sets", "SELECT set_config('my.own', $1, false)").sync();
    ask(&mut client, &sets, 1);
    client.query("EXECUTE sets('by sql')").unwrap();
    for _ in 0..3 {
        assert_eq!((own(&mut client, "my.own"), own(&mut other, "my.own")), ("by sql".into(), String::new()));
    }
    // A pipeline of one transaction each.
    let batch = Batch::new().query("SET my.own = 'a'").query("BEGIN; SET my.own = 'b'; SELECT 1/0").query("ROLLBACK");
    ask(&mut client, &batch, 3);
    for _ in 0..3 {
        assert_eq!((own(&mut client, "my.own"), own(&mut other, "my.own")), ("a".into(), String::new()));
    }
    assert_eq!(pinned(&site), Vec::<String>::new());
    // The statement stays, and may set it at any time.
    client.query("PREPARE mine AS SELECT set_config('my.late', $1, false)").unwrap();
    for value in ["one", "two", "three", "four"] {
        client.query(&format!("EXECUTE mine('{value}')")).unwrap();
        assert_eq!((own(&mut client, "my.late"), own(&mut other, "my.late")), (value.into(), String::new()));
    }
    client.query("DEALLOCATE mine").unwrap();
    for _ in 0..4 {
        assert_eq!((own(&mut client, "my.late"), own(&mut other, "my.late")), ("four".into(), String::new()));
    }
}

/// PostgreSQL makes a constant of such a function when it plans a statement, which clients share.
#[test]
fn what_an_immutable_function_reads_of_one_client_is_in_no_plan_of_another() {
    for direct in [true, false] {
        let site = auto(2, 1, "");
        let reads = "RETURNS text IMMUTABLE LANGUAGE plpgsql AS";
        let body = if direct { "current_setting('app.tenant', true)" } else { "reads()" };
        let helper = "CREATE FUNCTION reads() RETURNS text STABLE LANGUAGE sql AS \
                      $$ SELECT current_setting('app.tenant', true) $$; ";
        site.superuser()
            .query_all(&format!("{helper}CREATE FUNCTION tenant() {reads} $$ BEGIN RETURN {body}; END $$"))
            .unwrap();
        let mut clients: Vec<(&str, Connection)> = ["ann", "bob", "eve"].map(|name| (name, site.connect())).into();
        for (_, client) in &mut clients {
            client.query("SELECT 1").unwrap();
            ask(client, &Batch::new().parse("s", "SELECT coalesce(tenant(), '')").sync(), 1);
        }
        let run = |client: &mut Connection| {
            let answer = ask(client, &Batch::new().bind("", "s", &[]).execute("", 0).sync(), 1);
            answer.iter().find_map(|line| line.strip_prefix("Row ").map(str::to_owned)).unwrap_or_default()
        };
        // What a session has planned before it has a value stays, with a direct connection, too. Another's value is never there.
        let is_own = |found: &str, name: &str| found.is_empty() || found == name;
        for turn in 0..24 {
            let (name, client) = &mut clients[turn % 3];
            let set = match turn / 3 % 3 {
                0 => format!("SET LOCAL app.tenant = '{name}'"),
                1 => format!("SELECT set_config('app.tenant', '{name}', true)"),
                _ => format!("SELECT 1; SET LOCAL app.tenant = '{name}'"),
            };
            client.query("BEGIN").unwrap();
            client.query_all(&set).unwrap();
            let found = run(client);
            assert!(is_own(&found, name), "{direct}, {turn}: {set}: {found}");
            client.query("COMMIT").unwrap();
            let (_, other) = &mut clients[(turn + 1) % 3];
            assert_eq!(run(other), "", "{direct}, {turn}: one who has set nothing");
        }
        for turn in 0..12 {
            let (name, client) = &mut clients[turn % 3];
            client.query(&format!("SET app.tenant = '{name}'")).unwrap();
            assert_eq!(run(client), *name, "{direct}, {turn}: SET");
            for (name, other) in &mut clients {
                let found = run(other);
                assert!(is_own(&found, name), "{direct}, {turn}: after SET: {found}");
            }
        }
    }
}

/// PostgreSQL keeps such a name until the library is loaded, and then warns whoever has the session.
#[test]
fn a_setting_that_an_extension_refuses_later_is_seen_by_no_other_client() {
    let site = auto(1, 1, "");
    let mut client = site.connect();
    client.query("SET plpgsql.nosuch = '1'").unwrap();
    assert_eq!(own(&mut client, "plpgsql.nosuch"), "1");
    let before = client.value("SELECT pg_backend_pid()").unwrap();
    client.end().unwrap();
    let mut next = site.connect();
    next.query("DO $$BEGIN END$$").unwrap();
    let notices: Vec<String> = next.take_notices().into_iter().map(|notice| notice.message).collect();
    assert_eq!(notices, Vec::<String>::new());
    assert_ne!(next.value("SELECT pg_backend_pid()").unwrap(), before);
}

#[test]
fn a_setting_that_a_server_refuses_costs_no_other_client_its_connection() {
    let setup = Setup::new(Mode::Auto).size(1).general("untracked_startup_parameters = \"set\"");
    let site = Site::with(setup, Mode::Auto);
    site.superuser()
        .query_all(
            "CREATE FUNCTION sets(text, text) RETURNS text SECURITY DEFINER LANGUAGE sql AS 'SELECT set_config($1, $2, false)'",
        )
        .unwrap();
    for name in ["session_replication_role", "log_min_messages", "temp_buffers"] {
        let value = if name == "log_min_messages" {
            "fatal"
        } else if name == "temp_buffers" {
            "-5"
        } else {
            "replica"
        };
        let refused = site.params().option("options", &format!("-c {name}={value}"));
        if let Ok(mut client) = Connection::connect(&refused) {
            assert!(client.query("SELECT 1").is_err(), "{name}");
        }
        for _ in 0..3 {
            let mut next = site.connect();
            assert_ne!(next.value(&format!("SHOW {name}")).unwrap().as_deref(), Some(value), "{name}");
        }
        if name == "temp_buffers" {
            continue;
        }
        // What a function sets for its client with its owner's rights.
        let mut client = site.connect();
        client.query(&format!("SELECT sets('{name}', '{value}')")).unwrap();
        assert_eq!(client.value(&format!("SHOW {name}")).unwrap().as_deref(), Some(value), "{name}");
        client.end().unwrap();
        for _ in 0..3 {
            let mut next = site.connect();
            assert_ne!(next.value(&format!("SHOW {name}")).unwrap().as_deref(), Some(value), "{name}");
        }
    }
}
