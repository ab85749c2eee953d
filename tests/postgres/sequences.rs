//! `mode = "auto"`: what `currval()` and `lastval()` say is what a session says, or an error that names the cause, and
//! never the value of another client.

use weir_pgclient::{Connection, Error};
use weir_tests::{Api, Batch, Mode, Setup, Site, ask, eventually};

/// A pool in mode auto with two sequences, and a table whose trigger draws from one of them.
fn site(size: u32, limits: &str) -> (Site, Api) {
    let api = Api::default();
    let setup = Setup::new(Mode::Auto).size(size).limit(limits).more(&api.section());
    let site = Site::with(setup, Mode::Auto);
    site.superuser()
        .query_all(
            "CREATE SEQUENCE a START 100; CREATE SEQUENCE b START 1000; \
             CREATE TABLE t (id int DEFAULT nextval('a'), n int); \
             CREATE FUNCTION draw() RETURNS bigint LANGUAGE sql AS 'SELECT nextval(''b'')'; \
             GRANT ALL ON SEQUENCE a, b TO app; GRANT ALL ON t TO app",
        )
        .unwrap();
    (site, api)
}

fn named(site: &Site, name: &str) -> Connection {
    Connection::connect(&site.params().option("application_name", name)).unwrap()
}

fn value(client: &mut Connection, sql: &str) -> String {
    client.value(sql).unwrap_or_else(|error| panic!("{sql}: {error}")).unwrap_or_default()
}

#[track_caller]
fn undefined(result: Result<Option<String>, Error>) -> Error {
    let error = result.expect_err("the session has drawn no value");
    assert_eq!(error.sqlstate(), Some("55000"), "{error}");
    error
}

fn detail(error: &Error) -> &str {
    error.server().and_then(|error| error.detail.as_deref()).unwrap_or_default()
}

fn hint(error: &Error) -> &str {
    error.server().and_then(|error| error.hint.as_deref()).unwrap_or_default()
}

fn server(client: &mut Connection) -> String {
    value(client, "SELECT pg_backend_pid()")
}

/// Teaches the pool that an application relies on what an earlier transaction has drawn.
fn teach(site: &Site, name: &str) {
    let mut client = named(site, name);
    client.query("INSERT INTO t VALUES (DEFAULT)").unwrap();
    let _ = client.value("SELECT lastval()");
    client.query("DISCARD ALL").unwrap();
}

/// Another client uses each free server of the pool.
fn disturb(site: &Site, servers: usize, sql: &str) {
    let mut others: Vec<Connection> = (0..servers).map(|_| named(site, "other")).collect();
    others.iter_mut().for_each(|other| drop(other.query("BEGIN").unwrap()));
    others.iter_mut().for_each(|other| drop(other.query(sql).unwrap()));
    others.iter_mut().for_each(|other| drop(other.query("COMMIT").unwrap()));
}

#[test]
fn a_client_that_has_drawn_nothing_gets_no_value_of_another() {
    let (site, _) = site(1, "");
    for question in ["SELECT lastval()", "SELECT currval('a')"] {
        disturb(&site, 1, "INSERT INTO t VALUES (DEFAULT)");
        let error = undefined(named(&site, "web").value(question));
        assert!(error.to_string().contains("is not yet defined in this session"), "{error}");
        // By the extended protocol, in one message and in a block.
        disturb(&site, 1, "SELECT nextval('a')");
        for batch in [
            Batch::new().run(question, &[]).sync(),
            Batch::new().parse("s", question).bind("", "s", &[]).execute("", 0).sync(),
            Batch::new().run("BEGIN", &[]).run(question, &[]).sync(),
            Batch::new().query(&format!("SELECT 1; {question}")),
        ] {
            let lines = ask(&mut named(&site, "web"), &batch, 1);
            assert!(lines.iter().any(|line| line.contains("55000")), "{lines:?}");
            disturb(&site, 1, "SELECT nextval('a')");
        }
    }
}

#[test]
fn the_second_time_a_client_always_gets_its_own_values() {
    let (site, api) = site(2, "max_pinned = 100");
    let mut client = named(&site, "web");
    let first = value(&mut client, "INSERT INTO t VALUES (DEFAULT) RETURNING id");
    disturb(&site, 2, "INSERT INTO t VALUES (DEFAULT)");
    let error = client.value("SELECT currval('a')").map(|found| assert_eq!(found, Some(first)));
    let error = error.expect_err("its server was used by another client");
    assert_eq!(error.sqlstate(), Some("55000"), "{error}");
    assert!(detail(&error).contains("server connection") && hint(&error).contains("RETURNING"), "{error:?}");

    let second = value(&mut client, "INSERT INTO t VALUES (DEFAULT) RETURNING id");
    disturb(&site, 1, "INSERT INTO t VALUES (DEFAULT)");
    let kept = server(&mut client);
    for question in ["SELECT lastval()", "SELECT currval('a')", "SELECT currval('public.a'::regclass)"] {
        assert_eq!(value(&mut client, question), second, "{question}");
        assert_eq!(server(&mut client), kept);
    }
    let clients = site.weir().show("CLIENTS");
    let row = (0..clients.rows.len()).find(|row| clients.get(*row, "application_name") == Some("web")).unwrap();
    assert_eq!(clients.get(row, "pinned_by"), Some("sequences"));
    assert_eq!(clients.get(row, "pinned_statement"), Some("insert into t values (default) returning id"));
    assert_eq!(api.get("/api/v1/pools/app")["pinned"]["by"]["sequences"], 1);
    let metrics = api.ask("GET", "/metrics", "").1;
    let lost = "weir_session_state_lost_total{database=\"app\",kind=\"sequences\",outcome=\"lost\"} 1";
    assert!(metrics.contains(lost), "{metrics}");

    for discard in ["DISCARD SEQUENCES", "DISCARD ALL"] {
        client.query("SELECT nextval('b')").unwrap();
        client.query(discard).unwrap();
        assert_eq!(api.get("/api/v1/pools/app")["pinned"]["clients"], 0, "{discard}");
        let error = undefined(client.value("SELECT lastval()"));
        assert_eq!(detail(&error), "", "it has discarded them itself");
    }
}

#[test]
fn each_further_client_of_the_application_gets_its_own_values_at_once() {
    let (site, _) = site(4, "max_pinned = 100");
    teach(&site, "web");
    for (use_it, question) in [
        ("INSERT INTO t VALUES (DEFAULT)", "SELECT lastval()"),
        ("SELECT nextval('a')", "SELECT currval('a')"),
        ("SELECT setval('a', 5000)", "SELECT currval('a')"),
        ("SELECT draw()", "SELECT lastval()"),
        ("COPY t (n) FROM STDIN", "SELECT lastval()"),
        ("WITH x AS (INSERT INTO t VALUES (DEFAULT) RETURNING id) SELECT id FROM x", "SELECT lastval()"),
    ] {
        let mut client = named(&site, "web");
        match use_it.starts_with("COPY") {
            true => drop(client.copy_in(use_it, b"1\n").unwrap()),
            false => drop(client.query(use_it).unwrap()),
        }
        let sequence = if use_it.contains("draw") { "b" } else { "a" };
        let last = value(&mut site.superuser(), &format!("SELECT last_value FROM {sequence}"));
        disturb(&site, 3, "SELECT nextval('a'), nextval('b')");
        assert_eq!(value(&mut client, question), last, "{use_it}");
        for batch in [
            Batch::new().run(question, &[]).sync(),
            Batch::new().parse("s", question).bind("", "s", &[]).execute("", 0).sync(),
        ] {
            let lines = ask(&mut client, &batch, 1);
            assert!(lines.iter().any(|line| line.contains(&last)), "{use_it}: {lines:?}");
        }
    }
}

#[test]
fn within_its_transaction_a_client_gets_its_values_and_keeps_no_server() {
    let (site, api) = site(1, "max_pinned = 100");
    for round in 0..3 {
        disturb(&site, 1, "SELECT nextval('a'), nextval('b')");
        let mut client = named(&site, "orm");
        client.query("BEGIN").unwrap();
        let id = value(&mut client, "INSERT INTO t VALUES (DEFAULT) RETURNING id");
        assert_eq!(value(&mut client, "SELECT currval('a')"), id);
        assert_eq!(value(&mut client, "SELECT lastval()"), id);
        if round > 0 {
            // The pool knows by now that the application asks: it gets no value that another client has drawn.
            client.query("SAVEPOINT s").unwrap();
            undefined(client.value("SELECT currval('b')"));
            client.query("ROLLBACK TO s").unwrap();
        }
        client.query("COMMIT").unwrap();
        assert_eq!(api.get("/api/v1/pools/app")["pinned"]["clients"], 0);
    }
}

#[test]
fn a_text_that_asks_for_what_it_has_drawn_itself_keeps_no_server() {
    let (site, api) = site(2, "max_pinned = 100");
    let mut client = named(&site, "orm");
    for _ in 0..3 {
        for text in [
            "INSERT INTO t VALUES (DEFAULT); SELECT currval('a')",
            "INSERT INTO t VALUES (DEFAULT) RETURNING lastval()",
            "SELECT nextval('a') WHERE false; INSERT INTO t VALUES (DEFAULT); SELECT lastval()",
        ] {
            let answers = client.query_all(text).unwrap();
            let id = value(&mut site.superuser(), "SELECT last_value FROM a");
            assert_eq!(answers.last().unwrap().rows[0][0].as_deref(), Some(&*id), "{text}");
            disturb(&site, 2, "SELECT nextval('a'), nextval('b')");
        }
    }
    assert_eq!(api.get("/api/v1/pools/app")["pinned"]["clients"], 0);
}

#[test]
fn an_idle_server_that_has_a_clients_values_is_given_back_to_it() {
    let (site, _) = site(3, "");
    // All servers are open, and the one that the client has used is not the next one.
    disturb(&site, 3, "SELECT 1");
    let mut client = named(&site, "web");
    let id = value(&mut client, "INSERT INTO t VALUES (DEFAULT) RETURNING id");
    disturb(&site, 3, "SELECT count(*) FROM t");
    disturb(&site, 2, "SELECT 1");
    assert_eq!(value(&mut client, "SELECT lastval()"), id);
}

#[test]
fn with_pin_refuse_values_last_for_their_transaction_and_then_there_is_an_error() {
    let (site, api) = site(2, "pin_refuse = [\"sequences\"]");
    teach(&site, "web");
    let mut client = named(&site, "web");
    let id = value(&mut client, "BEGIN; INSERT INTO t VALUES (DEFAULT) RETURNING id");
    assert_eq!(value(&mut client, "SELECT lastval()"), id);
    client.query("COMMIT").unwrap();
    assert_eq!(api.get("/api/v1/pools/app")["pinned"]["clients"], 0);
    disturb(&site, 2, "SELECT nextval('a')");
    let error = undefined(client.value("SELECT lastval()"));
    assert!(hint(&error).contains("pin_refuse"), "{error:?}");
}

#[test]
fn beyond_max_pinned_values_are_lost_with_an_error_and_nobody_is_disconnected() {
    let (site, _) = site(4, "max_pinned = 50");
    teach(&site, "web");
    let mut clients: Vec<Connection> = (0..4).map(|_| named(&site, "web")).collect();
    let ids: Vec<String> =
        clients.iter_mut().map(|client| value(client, "INSERT INTO t VALUES (DEFAULT) RETURNING id")).collect();
    disturb(&site, 2, "SELECT nextval('a')");
    let found: Vec<_> = clients.iter_mut().map(|client| client.value("SELECT lastval()")).collect();
    let kept = found.iter().zip(&ids).filter(|(found, id)| matches!(found, Ok(Some(found)) if found == *id)).count();
    let lost: Vec<Error> = found.into_iter().filter(Result::is_err).map(undefined).collect();
    assert_eq!((kept, lost.len()), (2, 2));
}

#[test]
fn clients_that_do_not_ask_keep_no_server_and_other_applications_are_not_concerned() {
    let (site, api) = site(2, "");
    teach(&site, "web");
    let mut client = named(&site, "jobs");
    for sql in ["INSERT INTO t VALUES (DEFAULT)", "SELECT nextval('a')", "SELECT setval('b', 7)", "SELECT draw()"] {
        client.query(sql).unwrap();
        assert_eq!(api.get("/api/v1/pools/app")["pinned"]["clients"], 0, "{sql}");
    }
    let mut reader = named(&site, "web");
    for sql in ["SELECT count(*) FROM t", "BEGIN; SELECT max(id) FROM t WHERE n = 1; COMMIT", "SHOW work_mem"] {
        reader.query_all(sql).unwrap();
        assert_eq!(api.get("/api/v1/pools/app")["pinned"]["clients"], 0, "{sql}");
    }
}

#[test]
fn without_shared_statements_the_same_holds() {
    let (site, _) = site(2, "max_pinned = 100\nmax_prepared_statements = 0");
    disturb(&site, 2, "SELECT nextval('a')");
    undefined(named(&site, "web").value("SELECT lastval()"));
    let batch = Batch::new().run("SELECT lastval()", &[]).sync();
    disturb(&site, 2, "SELECT nextval('a')");
    let lines = ask(&mut named(&site, "web"), &batch, 1);
    assert!(lines.iter().any(|line| line.contains("55000")), "{lines:?}");
    teach(&site, "web");
    let mut client = named(&site, "web");
    let id = value(&mut client, "INSERT INTO t VALUES (DEFAULT) RETURNING id");
    disturb(&site, 1, "SELECT nextval('a')");
    assert_eq!(value(&mut client, "SELECT lastval()"), id);
}

#[test]
fn a_client_of_an_application_that_asks_finds_no_values_of_others_even_by_a_function() {
    for delay in ["30s", "0s"] {
        let (site, _) = site(1, &format!("server_check_delay = \"{delay}\""));
        site.superuser()
            .query("CREATE FUNCTION last() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN lastval(); END'")
            .unwrap();
        teach(&site, "web");
        for _ in 0..3 {
            disturb(&site, 1, "SELECT nextval('a')");
            let mut client = named(&site, "web");
            undefined(client.value("SELECT last()"));
            let drawn = value(&mut client, "SELECT nextval('b')");
            assert_eq!(value(&mut client, "SELECT last()"), drawn, "delay {delay}");
        }
    }
}

#[test]
fn what_is_kept_for_a_client_that_has_left_is_removed() {
    let (site, api) = site(1, "max_pinned = 100");
    teach(&site, "web");
    let mut client = named(&site, "web");
    client.query("INSERT INTO t VALUES (DEFAULT)").unwrap();
    assert_eq!(api.get("/api/v1/pools/app")["pinned"]["clients"], 1);
    client.close().unwrap();
    eventually("the server is free", || match named(&site, "other").value("SELECT 1") {
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    });
    // Not even a function finds them.
    site.superuser()
        .query("CREATE FUNCTION last() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN lastval(); END'")
        .unwrap();
    undefined(named(&site, "other").value("SELECT last()"));
}

/// Weir's own DISCARD SEQUENCES comes first, and each of these texts waits for something else, too.
#[test]
fn a_text_that_asks_for_values_and_names_a_statement_is_answered() {
    let (site, _) = site(1, "");
    let texts = [
        "SELECT lastval(); DEALLOCATE nope",
        "DEALLOCATE nope; SELECT lastval()",
        "EXECUTE mine(lastval())",
        "SAVEPOINT s;DEALLOCATE \"_PLAN0x1\";SELECT lastval();RELEASE s",
        "EXECUTE U&\"nope\"(currval('a'))",
        "SELECT lastval(); RESET ALL",
        "SELECT lastval(); SET TimeZone TO DEFAULT",
        "DISCARD ALL; SELECT lastval()",
    ];
    for text in texts {
        for ahead in [false, true] {
            let mut client = Connection::connect(&site.params().option("TimeZone", "Asia/Tokyo")).unwrap();
            ask(&mut client, &Batch::new().parse("mine", "SELECT $1::bigint").parse("_PLAN0x1", "SELECT 1").sync(), 1);
            named(&site, "other").query("INSERT INTO t VALUES (DEFAULT)").unwrap();
            let batch = if ahead { Batch::new().query("SELECT 1") } else { Batch::new() };
            // Each is an error of PostgreSQL's, since the session has drawn no value.
            let answer = ask(&mut client, &batch.query(text), 1 + usize::from(ahead));
            assert!(answer.iter().any(|message| message.starts_with("Error ")), "{text}: {answer:?}");
            assert_eq!(value(&mut client, "SELECT 1"), "1", "{text}");
        }
    }
}
