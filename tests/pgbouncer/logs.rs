//! The log: the form of its lines, and the reasons for closed connections.

use std::time::Duration;

use weir_pgclient::Connection;
use weir_tests::{Batch, User, eventually, users};

use crate::harness::{Difference, Facts, Setup, Site, differ, same};

/// A line without its varying parts: the time, process ids, pointers, clients' ports, ages.
fn shape(line: &str) -> String {
    let words = line.split(' ').enumerate().map(|(number, word)| match number {
        0 => digits_as_nines(word),
        1 => digits_as_nines(word),
        3 if word.starts_with('[') => "[PID]".to_owned(),
        _ => plain_word(word),
    });
    // 1.18 does not say whether it is a replication connection.
    words.collect::<Vec<_>>().join(" ").replace(" replication=no", "")
}

fn digits_as_nines(word: &str) -> String {
    word.chars().map(|c| if c.is_ascii_digit() { '9' } else { c }).collect()
}

fn plain_word(word: &str) -> String {
    let pointer = ["C-0x", "S-0x"].iter().find(|start| word.starts_with(**start));
    if let Some(start) = pointer {
        return format!("{start}…{}", if word.ends_with(':') { ":" } else { "" });
    }
    if let Some((before, port)) = word.rsplit_once(':') {
        let digits = port.trim_end_matches([')', ',', ';']);
        if before.contains('.') && !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
            return format!("{before}:N{}", &port[digits.len()..]);
        }
    }
    if word.starts_with("unix(") {
        return "unix(PID):N".to_owned();
    }
    if word.starts_with("(age=") { "(age=N)".to_owned() } else { word.to_owned() }
}

/// What lines say that contain one of these, in order: the level and the text. Before the user is known, PgBouncer's
/// lines do not name the database.
fn said(site: &Site, whats: &[&str], last: &str) -> String {
    lines(site, last, 1);
    let log = site.log();
    // Our own check whether it listens is a client that sends nothing.
    let found = log.lines().filter(|line| !line.contains("client unexpected eof"));
    let found = found.filter(|line| whats.iter().any(|what| line.contains(what)));
    let text = |line: &str| {
        let line = shape(line);
        let (before, after) = line.split_once("…: ").expect("about a connection");
        let level = before.split(' ').nth(4).expect("it has a level");
        format!("{level} {}", after.split_once(' ').expect("it says something").1)
    };
    found.map(text).collect::<Vec<_>>().join("\n")
}

#[test]
fn logins_that_fail() {
    let whats = ["login attempt", "login failed", "no such user:", "closing because", "pooler error"];
    for (name, user, database, last) in [
        ("a wrong password", users::APP, "app", "pooler error: password authentication failed"),
        ("an unknown user", User { name: "nobody_here", ..users::APP }, "app", "pooler error: password"),
        ("no database", users::APP, "nowhere", "pooler error: no such database"),
        ("neither", User { name: "nobody_here", ..users::APP }, "nowhere", "pooler error: password"),
    ] {
        same(&Setup::new(), |site, facts| {
            let mut params = site.params(user, database);
            if name == "a wrong password" {
                params = params.password("x");
            }
            facts.login(name, &params);
            let end = said(site, &whats, last).replace("(nodb)", "nowhere");
            facts.note("logged", end);
        });
    }
}

/// All lines that contain this, after a wait.
#[track_caller]
fn lines(site: &Site, what: &str, count: usize) -> Vec<String> {
    eventually(what, || {
        let log = site.log();
        // Our own check whether it listens is a client that sends nothing.
        let ours = |line: &&str| !line.contains("(nodb)/(nouser)") || !line.contains("client unexpected eof");
        let found: Vec<_> = log.lines().filter(|line| line.contains(what)).filter(ours).map(shape).collect();
        if found.len() >= count { Ok(found) } else { Err(log) }
    })
}

#[track_caller]
fn note(site: &Site, facts: &mut Facts, name: &str, what: &str) {
    note_some(site, facts, name, what, 1);
}

/// Notes the lines that contain this, when there are this many.
#[track_caller]
fn note_some(site: &Site, facts: &mut Facts, name: &str, what: &str, count: usize) {
    let mut lines = lines(site, what, count);
    lines.sort();
    facts.note(name, lines.join("\n"));
}

#[test]
fn a_client_and_its_server() {
    same(&Setup::new(), |site, facts| {
        let mut client = site.client();
        client.query("SELECT 1").expect("it answers");
        client.close().expect("it reads");
        note(site, facts, "login", "login attempt: db=app");
        note(site, facts, "server", "new connection to server");
        note(site, facts, "terminate", "closing because: client close request");
    });
}

#[test]
fn why_clients_were_closed() {
    same(&Setup::new().mode("transaction").set("server_login_retry", "1"), |site, facts| {
        site.client().close().expect("it reads");
        note(site, facts, "terminated", "closing because: client close request");
        drop(site.client());
        note(site, facts, "dropped", "closing because: client unexpected eof");
        facts.login("wrong password", &site.params(users::APP, "app").password("x"));
        note_some(site, facts, "wrong password: logged", "password authentication failed", 2);
        facts.login("no database", &site.params(users::APP, "nowhere"));
        // 1.18 forgets the database's name before it writes the line.
        let logged = lines(site, "closing because: no such database", 1).join("\n");
        facts.note("no database: logged", logged.replace("(nodb)", "nowhere"));
        facts.login("a parameter", &site.params(users::APP, "app").option("work_mem", "1"));
        // 1.18 reads the user's name after the parameters.
        let logged = lines(site, "closing because: unsupported startup parameter", 1).join("\n");
        facts.note("a parameter: logged", logged.replace("(nouser)", "app"));
        let mut killed = site.client();
        site.console().query("KILL app").expect("done");
        facts.end("killed", &mut killed);
        note(site, facts, "killed: logged", "KILL");
    });
}

#[test]
fn timeouts_are_reasons_too() {
    let setup = Setup::new().mode("transaction").set("idle_transaction_timeout", "0.5").set("client_idle_timeout", "1");
    let setup = setup.set("client_login_timeout", "1").set("default_pool_size", "1").set("query_wait_timeout", "1");
    same(&setup, |site, facts| {
        let mut client = site.client();
        client.query("BEGIN").expect("done");
        facts.end("transaction", &mut client);
        note_some(site, facts, "transaction: logged", "idle transaction timeout", 3);
        let mut client = site.client();
        facts.end("idle", &mut client);
        note_some(site, facts, "idle: logged", "client_idle_timeout", 2);
        let mut silent = Connection::open(&site.params(users::APP, "app")).expect("it listens");
        silent.send_bytes(&[0]).expect("it reads");
        facts.end("login", &mut silent);
        note_some(site, facts, "login: logged", "client_login_timeout", 2);
    });
}

#[test]
fn a_wait_that_times_out() {
    let setup = Setup::new().mode("transaction").set("default_pool_size", "1").set("query_wait_timeout", "1");
    same(&setup, |site, facts| {
        let (mut one, mut two) = (site.client(), site.client());
        one.query("BEGIN").expect("done");
        two.send_bytes(Batch::new().query("SELECT 1").bytes()).expect("it reads");
        facts.end("error", &mut two);
        note_some(site, facts, "logged", "query_wait_timeout", 2);
    });
}

#[test]
fn why_servers_were_closed() {
    let setup = Setup::new().mode("transaction").set("query_timeout", "1").set("server_idle_timeout", "2");
    same(&setup.set("log_pooler_errors", "0"), |site, facts| {
        let mut client = site.client();
        client.query("SELECT 1").expect("it answers");
        site.console().query("RECONNECT").expect("done");
        note(site, facts, "reconnect", "closing because: database configuration changed");
        let mut slow = site.client();
        slow.send_bytes(Batch::new().query("SELECT pg_sleep(20)").bytes()).expect("it reads");
        facts.end("slow", &mut slow);
        note_some(site, facts, "slow: logged", "query timeout", 2);
        client.query("SELECT 1").expect("it answers");
        note(site, facts, "idle", "server idle timeout");
        client.query("BEGIN").expect("done");
        drop(client);
        note_some(site, facts, "left in a transaction", "client unexpected eof", 2);
        note(site, facts, "its server", "client disconnect while server was not ready");
    });
}

#[test]
fn a_server_that_dies() {
    let both =
        "Error 57P01 terminating connection due to administrator command; Error 08P01 server conn crashed?; Closed";
    let why = "the server's own error says more than a second error after it";
    let differences = [Difference {
        fact: "error",
        pgbouncer: both,
        weir: "Error 57P01 terminating connection due to administrator command; Closed",
        why,
    }];
    differ(&Setup::new().mode("transaction"), &differences, |site, facts| {
        let mut client = site.client();
        client.query("BEGIN").expect("done");
        let pid = client.value("SELECT pg_backend_pid()").expect("it answers").expect("it has one");
        site.database().superuser().query(&format!("SELECT pg_terminate_backend({pid})")).expect("done");
        facts.end("error", &mut client);
        eventually("both are closed", || {
            if site.log().matches("closing because").count() >= 2 { Ok(()) } else { Err(site.log()) }
        });
        let log = site.log();
        let closing = log.lines().filter(|line| line.contains("closing because: server conn crashed?"));
        let mut closing: Vec<_> = closing.map(shape).collect();
        closing.sort();
        facts.note("logged", closing.join("\n"));
    });
}

#[test]
fn connections_and_disconnections_may_be_left_out() {
    let setup = Setup::new().set("log_connections", "0").set("log_disconnections", "0").set("log_pooler_errors", "0");
    same(&setup, |site, facts| {
        site.client().close().expect("it reads");
        facts.login("a wrong password", &site.params(users::APP, "app").password("x"));
        std::thread::sleep(Duration::from_millis(300));
        let log = site.log();
        facts.note("logins", log.contains("login attempt"));
        facts.note("ends", log.contains("closing because"));
        facts.note("servers", log.contains("new connection to server"));
    });
}

#[test]
fn commands_are_logged() {
    same(&Setup::new(), |site, facts| {
        let mut console = site.console();
        for command in [
            "RELOAD",
            "PAUSE",
            "RESUME",
            "PAUSE app",
            "RESUME app",
            "RECONNECT",
            "DISABLE app",
            "ENABLE app",
            "SET query_timeout = 5",
            "SUSPEND",
            "RESUME",
            "SHOW POOLS",
        ] {
            console.query(command).unwrap_or_else(|error| panic!("{command}: {error}"));
        }
        facts.note("said", lines(site, "command issued", 10).join("\n"));
    });
}

#[test]
fn statistics_are_written_each_period() {
    let one = "UTC [PID] LOG stats: xacts/s, queries/s, in B/s, out B/s, xact us, query us, wait us";
    let new = "UTC [PID] LOG stats: xacts/s, queries/s, client parses/s, server parses/s, binds/s, in B/s, out B/s, \
               xact us, query us, wait us";
    let differences = [Difference::of("words", one, new, "later versions count statements too")];
    differ(&Setup::new().set("stats_period", "1"), &differences, |site, facts| {
        let mut client = site.client();
        client.query("SELECT 1").expect("it answers");
        let line = &lines(site, "stats:", 1)[0];
        // Figures differ, texts must not.
        let words = line.split(' ').filter(|word| !word.is_empty() && !word.as_bytes()[0].is_ascii_digit());
        facts.note("words", words.collect::<Vec<_>>().join(" "));
    });
    same(&Setup::new().set("stats_period", "1").set("log_stats", "0"), |site, facts| {
        std::thread::sleep(Duration::from_millis(1500));
        facts.note("left out", site.log().contains("stats:"));
    });
}

#[test]
fn the_beginning_and_the_end() {
    same(&Setup::new(), |site, facts| {
        facts.note("listening", lines(site, "listening on", 2).join("\n"));
        facts.note(
            "up",
            lines(site, "process up", 1)[0].split_inclusive("process up").next().unwrap_or_default().to_owned(),
        );
        site.signal(weir_pglocal::Signal::SIGINT);
        site.await_exit();
        let said = &lines(site, "got SIGINT", 1)[0];
        // Later versions name what they wait for.
        facts.note("signal", said.split_inclusive("shutting down").next().unwrap_or_default().to_owned());
    });
}
