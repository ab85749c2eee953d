//! The console's commands: tags, errors, and their effect on clients and servers.

use std::time::Duration;

use weir_pgclient::Connection;
use weir_tests::{Batch, eventually, users};

use crate::harness::{Difference, Facts, Setup, Site, differ, error_line, same};

fn site_setup() -> Setup {
    Setup::new().mode("transaction").database("second", "")
}

fn pid(client: &mut Connection) -> String {
    client.value("SELECT pg_backend_pid()").expect("it answers").expect("it has one")
}

/// Runs commands one after the other, and notes all answers.
fn run_all(facts: &mut Facts, console: &mut Connection, commands: &[&str]) {
    for (number, command) in commands.iter().enumerate() {
        facts.batch(&format!("{} {command}", number + 1), console, &Batch::new().query(command), 1);
    }
}

/// Sends a command without waiting for its answer.
fn send(connection: &mut Connection, sql: &str) {
    connection.send_bytes(Batch::new().query(sql).bytes()).expect("it reads");
}

fn column(site: &Site, table: &str, name: &str, column: &str) -> String {
    let answer = site.show(table);
    let row = (0..answer.rows.len()).find(|row| answer.get(*row, "name") == Some(name));
    row.and_then(|row| answer.get(row, column)).unwrap_or("NULL").to_owned()
}

#[test]
fn what_is_no_command() {
    let new = "1.18 has no such command";
    let all = Difference::of(
        "33 KILL",
        "Error 08P01 a database is required; Ready I",
        "Complete KILL; Ready I",
        "later versions apply it to all databases",
    );
    let pointer = "Error 08P01 invalid client pointer supplied; Ready I";
    let differences = [
        all,
        Difference::of(
            "22 KILL_CLIENT",
            "Error 08P01 invalid command 'KILL_CLIENT', use SHOW HELP;; Ready I",
            pointer,
            new,
        ),
        Difference::of(
            "23 KILL_CLIENT x",
            "Error 08P01 invalid command 'KILL_CLIENT x', use SHOW HELP;; Ready I",
            pointer,
            new,
        ),
    ];
    differ(&site_setup(), &differences, |site, facts| {
        let commands = [
            "FLY",
            "SHOW",
            "SHOW NOTHING",
            "SHOW POOLS twice",
            "SELECT 1",
            "PAUSE a b",
            "",
            ";",
            " ; ",
            "-- nothing",
            "show version; show version",
            "SET",
            "SET x",
            "SET x =",
            "SHOW 'POOLS'",
            "DISABLE",
            "ENABLE",
            "RELOAD now",
            "SHUTDOWN later",
            "SHUTDOWN WAIT",
            "RECONNECT nowhere",
            "KILL_CLIENT",
            "KILL_CLIENT x",
            "\u{1}",
            "WAIT_CLOSE nowhere",
            "RESUME nowhere",
            "PAUSE nowhere",
            "KILL nowhere",
            "DISABLE nowhere",
            "ENABLE nowhere",
            "SUSPEND app",
            "RELOAD app",
            "KILL",
        ];
        run_all(facts, &mut site.console(), &commands);
    });
}

#[test]
fn help() {
    same(&site_setup(), |site, facts| {
        let mut console = site.console();
        console.query("SHOW HELP").expect("a notice and a tag");
        let notices = console.take_notices();
        facts.note("notices", notices.len());
        facts.note("severity", notices.first().map_or("none", |notice| notice.severity.as_str()));
        facts.batch("parts", &mut console, &Batch::new().query("SHOW help").raw(b""), 1);
    });
}

#[test]
fn set_changes_a_setting_at_once() {
    let failed = "Error 08P01 SET failed; Ready I";
    let restart = "1.18 reports success, and changes nothing until a restart";
    let differences = [
        Difference::of(
            "4 set QUERY_TIMEOUT = 10",
            failed,
            "Complete SET query_timeout=10; Ready I",
            "commands have no case",
        ),
        Difference::of(
            "7 SET query_timeout = -1",
            "Error 08P01 invalid command 'SET query_timeout = -1', use SHOW HELP;; Ready I",
            failed,
            "it is a command with an invalid value",
        ),
        Difference::of("8 SET listen_port = 7000", "Complete SET listen_port=7000; Ready I", failed, restart),
        Difference::of("9 SET listen_addr = '*'", "Complete SET listen_addr=*; Ready I", failed, restart),
        Difference::of(
            "16 SET log_connections = off",
            failed,
            "Complete SET log_connections=off; Ready I",
            "the meaning of the word is clear",
        ),
        Difference::of("ignore_startup_parameters", "a, b", "a,b", "lists are shown without blanks"),
    ];
    differ(&site_setup(), &differences, |site, facts| {
        let mut console = site.console();
        let commands = [
            "SET query_timeout = 7",
            "SET query_timeout TO 8",
            "SET query_timeout = '9'",
            "set QUERY_TIMEOUT = 10",
            "SET query_timeout=11;",
            "SET query_timeout = 'soon'",
            "SET query_timeout = -1",
            "SET listen_port = 7000",
            "SET listen_addr = '*'",
            "SET max_client_conn = '77'",
            "SET default_pool_size TO 3",
            "SET pool_mode = transaction",
            "SET pool_mode = perhaps",
            "SET server_reset_query = 'DISCARD ALL'",
            "SET nonsense = 1",
            "SET log_connections = off",
            "SET log_connections = 0",
            "SET application_name = 'x'",
            "SET ignore_startup_parameters = 'a, b'",
        ];
        run_all(facts, &mut console, &commands);
        for key in [
            "query_timeout",
            "listen_port",
            "max_client_conn",
            "default_pool_size",
            "pool_mode",
            "log_connections",
            "ignore_startup_parameters",
        ] {
            facts.note(key, site.config(key));
        }
        let mut client = site.client();
        client.query("SELECT 1").expect("it answers");
        facts.note("a pool's size", column(site, "DATABASES", "app", "pool_size"));
    });
}

#[test]
fn pause_and_resume_of_one_database() {
    same(&site_setup(), |site, facts| {
        let mut client = site.client();
        let mut other = site.connect(&site.params(users::APP, "second"));
        client.query("SELECT 1").expect("it answers");
        let mut console = site.console();
        run_all(facts, &mut console, &["PAUSE app"]);
        facts.note("servers", site.states("SERVERS", "app"));
        facts.note("paused", column(site, "DATABASES", "app", "paused"));
        send(&mut client, "SELECT 2");
        site.await_pool("app", "cl_waiting", 1);
        facts.rest("a query waits", &mut client);
        facts.query("the other database", &mut other, "SELECT 3");
        run_all(
            facts,
            &mut console,
            &["PAUSE app ", "RESUME app", "RESUME app ", "RESUME", "PAUSE pgbouncer", "KILL pgbouncer"],
        );
        facts.rest_after_first("it is served", &mut client);
    });
}

#[test]
fn pause_waits_for_transactions() {
    same(&site_setup(), |site, facts| {
        let mut client = site.client();
        client.query("BEGIN").expect("done");
        let mut console = site.console();
        send(&mut console, "PAUSE");
        facts.rest("with one open", &mut console);
        let mut late = Connection::open(&site.params(users::APP, "app")).expect("it listens");
        facts.query("it continues", &mut client, "SELECT 1");
        facts.query("and ends", &mut client, "COMMIT");
        facts.rest_after_first("then it is done", &mut console);
        facts.note("servers", site.show("SERVERS").rows.len());
        run_all(facts, &mut console, &["PAUSE", "PAUSE app", "RESUME app", "SUSPEND"]);
        send(&mut client, "SELECT 2");
        site.await_pool("app", "cl_waiting", 1);
        facts.note(
            "a login meanwhile",
            late.login(&site.params(users::APP, "app").timeout(Duration::from_secs(1))).is_ok(),
        );
        run_all(facts, &mut console, &["RESUME", "RESUME "]);
        facts.rest_after_first("served again", &mut client);
    });
}

#[test]
fn a_cancel_on_the_console_undoes_a_pause_that_is_not_done() {
    let cancelled = "Error 57014 canceling statement due to user request; Ready I";
    let differences = [Difference::of("cancelled", "", cancelled, "1.18 never answers the command that was cancelled")];
    differ(&site_setup(), &differences, |site, facts| {
        let mut client = site.client();
        client.query("BEGIN").expect("done");
        let mut console = site.console();
        send(&mut console, "PAUSE");
        facts.rest("waits", &mut console);
        console.canceller().cancel().expect("it is taken");
        facts.rest("cancelled", &mut console);
        client.query("COMMIT").expect("done");
        facts.query("served", &mut client, "SELECT 1");
        facts.note(
            "resume",
            site.console().query("RESUME").map_or_else(|error| error_line(&error), |answer| answer.tag),
        );
    });
}

#[test]
fn session_clients_hold_a_pause_up() {
    same(&Setup::new(), |site, facts| {
        let mut client = site.client();
        client.query("SELECT 1").expect("it answers");
        let mut console = site.console();
        send(&mut console, "PAUSE app");
        facts.rest("while a session is open", &mut console);
        drop(client);
        facts.rest_after_first("then", &mut console);
    });
}

#[test]
fn kill_drops_clients_and_servers_at_once() {
    let why = "1.18 forgets the servers' parameters with them, so a login waits; the queries wait in either";
    let differences = [Difference::of("a login meanwhile", "silence", "welcome", why)];
    differ(&site_setup(), &differences, |site, facts| {
        let (mut client, mut idle) = (site.client(), site.client());
        client.query("BEGIN").expect("done");
        let mut other = site.connect(&site.params(users::APP, "second"));
        let mut console = site.console();
        run_all(facts, &mut console, &["KILL app"]);
        facts.end("in a transaction", &mut client);
        facts.end("idle", &mut idle);
        facts.note("paused now", column(site, "DATABASES", "app", "paused"));
        facts.query("the other database", &mut other, "SELECT 1");
        facts.login("a login meanwhile", &site.params(users::APP, "app").timeout(Duration::from_secs(1)));
        run_all(facts, &mut console, &["RESUME app"]);
        facts.login("after it", &site.params(users::APP, "app"));
    });
}

#[test]
fn disable_refuses_new_clients_only() {
    same(&site_setup(), |site, facts| {
        let mut client = site.client();
        let mut console = site.console();
        run_all(facts, &mut console, &["DISABLE app", "DISABLE app "]);
        facts.note("disabled", column(site, "DATABASES", "app", "disabled"));
        facts.query("a connected client", &mut client, "SELECT 1");
        facts.login("a new client", &site.params(users::APP, "app"));
        facts.login("with a wrong password", &site.params(users::APP, "app").password("x"));
        run_all(facts, &mut console, &["ENABLE app", "ENABLE app ", "DISABLE pgbouncer"]);
        facts.login("afterwards", &site.params(users::APP, "app"));
    });
}

#[test]
fn reconnect_replaces_servers_between_transactions() {
    same(&site_setup(), |site, facts| {
        let (mut idle, mut busy) = (site.client(), site.client());
        busy.query("BEGIN").expect("done");
        let first = pid(&mut busy);
        let waiting = pid(&mut idle);
        let mut console = site.console();
        run_all(facts, &mut console, &["RECONNECT app"]);
        facts.note("the busy one stays", pid(&mut busy) == first);
        busy.query("COMMIT").expect("done");
        eventually("the old ones are gone", || {
            let backends = site.database().backends();
            let left = backends.iter().any(|(pid, _)| [&first, &waiting].contains(&&pid.to_string()));
            if left { Err(backends) } else { Ok(()) }
        });
        facts.note("replaced", [pid(&mut busy) == first, pid(&mut idle) == waiting].iter().all(|same| !same));
        run_all(facts, &mut console, &["RECONNECT", "RECONNECT pgbouncer"]);
    });
}

#[test]
fn wait_close_waits_for_the_servers_that_are_to_go() {
    same(&site_setup(), |site, facts| {
        let mut busy = site.client();
        busy.query("BEGIN").expect("done");
        let (mut console, mut second) = (site.console(), site.console());
        run_all(facts, &mut console, &["WAIT_CLOSE app", "RECONNECT app"]);
        send(&mut second, "WAIT_CLOSE app");
        facts.rest("while a transaction is open", &mut second);
        busy.query("COMMIT").expect("done");
        facts.rest_after_first("then", &mut second);
        run_all(facts, &mut console, &["WAIT_CLOSE", "WAIT_CLOSE pgbouncer"]);
    });
}

#[test]
fn suspend_holds_all_clients_and_resume_releases_them() {
    same(&site_setup(), |site, facts| {
        let mut client = site.client();
        client.query("SELECT 1").expect("it answers");
        let mut console = site.console();
        run_all(facts, &mut console, &["SUSPEND"]);
        send(&mut client, "SELECT 2");
        facts.rest("nothing comes", &mut client);
        run_all(facts, &mut console, &["SUSPEND ", "PAUSE", "RESUME", "RESUME "]);
        facts.rest_after_first("it is served", &mut client);
    });
}

#[test]
fn shutdown_is_at_once() {
    same(&site_setup(), |site, facts| {
        let mut client = site.client();
        client.query("BEGIN").expect("done");
        let mut console = site.console();
        send(&mut console, "SHUTDOWN");
        facts.end("the console", &mut console);
        facts.end("a client", &mut client);
        facts.note("exit status", site.await_exit().code().map_or("none".to_owned(), |code| code.to_string()));
        facts.note("its pidfile", site.path("pgbouncer.pid").exists());
    });
}

#[test]
fn reload_reports_its_result() {
    let differences = [Difference {
        fact: "with a broken file",
        pgbouncer: "Complete RELOAD; Ready I",
        weir: "Error F0000 RELOAD failed, see logs for additional details; Ready I",
        why: "1.18 reports nothing; later versions do",
    }];
    differ(&site_setup(), &differences, |site, facts| {
        let mut console = site.console();
        run_all(facts, &mut console, &["RELOAD", "reload;"]);
        site.write("pgbouncer.ini", "[pgbouncer]\nnonsense = 1\n");
        facts.batch("with a broken file", &mut console, &Batch::new().query("RELOAD"), 1);
        facts.login("others go on", &site.params(users::APP, "app"));
    });
}

#[test]
fn the_extended_protocol_is_refused() {
    let refused = "Error 08P01 extended query protocol not supported by admin console; Ready I";
    let differences = [Difference::of(
        "extended",
        "Error 08P01 extended query protocol not supported by admin console; Ready I; Error 08P01 bad packet; Closed",
        refused,
        "1.18 fails on the messages after the first",
    )];
    differ(&site_setup(), &differences, |site, facts| {
        let mut console = site.console();
        console.send_bytes(Batch::new().run("SHOW POOLS", &[]).sync().bytes()).expect("it reads");
        facts.rest_after_first("extended", &mut console);
    });
}

#[test]
fn the_console_answers_the_first_queries_of_drivers() {
    let why = "drivers send them at every login; the console ignores them";
    let differences = [
        Difference::of(
            "with extra_float_digits",
            "FATAL 08P01 unsupported startup parameter: extra_float_digits",
            "welcome",
            why,
        ),
        Difference::of("with options", "FATAL 08P01 unsupported startup parameter: options", "welcome", why),
    ];
    differ(&site_setup(), &differences, |site, facts| {
        let console = site.console();
        for name in [
            "server_version",
            "server_encoding",
            "client_encoding",
            "DateStyle",
            "TimeZone",
            "standard_conforming_strings",
            "is_superuser",
            "application_name",
            "integer_datetimes",
        ] {
            let value = console.parameter(name).unwrap_or("nothing");
            facts.note(
                name,
                if name == "server_version" {
                    value.rsplit('/').next().unwrap_or_default().len().min(1).to_string()
                } else {
                    value.to_owned()
                },
            );
        }
        let params = site.named("admin", "pgbouncer").password("console secret");
        facts.login(
            "with parameters",
            &params.clone().option("application_name", "psql").option("client_encoding", "UTF8"),
        );
        facts.login("with extra_float_digits", &params.clone().option("extra_float_digits", "2"));
        facts.login("with options", &params.option("options", "-c x=y"));
    });
}

#[test]
fn each_role_has_its_commands() {
    let commands = [
        "SHOW POOLS",
        "SHOW FDS",
        "SHOW SOCKETS",
        "SHOW MEM",
        "SHOW CONFIG",
        "PAUSE",
        "RESUME",
        "RELOAD",
        "RECONNECT",
        "KILL app",
        "SHUTDOWN",
        "SUSPEND",
        "ENABLE app",
        "DISABLE app",
        "WAIT_CLOSE",
        "SET query_timeout = 1",
        "FLY",
        "SHOW NOTHING",
    ];
    same(&site_setup(), |site, facts| {
        let mut watcher = site.watcher();
        for command in commands {
            let outcome = watcher.query(command);
            let error_line = outcome.as_ref().map_or_else(error_line, |answer| answer.tag.clone());
            facts.note(command, error_line);
        }
        facts.login("a client", &site.params(users::APP, "app"));
    });
}
