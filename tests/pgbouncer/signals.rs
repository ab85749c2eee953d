//! Signals: reload, both safe shutdowns, the immediate one, pause and resume.

use std::fs;
use std::time::Duration;

use weir_pgclient::Connection;
use weir_pglocal::Signal;
use weir_tests::{Batch, eventually, users};

use crate::harness::{Difference, Setup, Site, differ, same};

fn setup() -> Setup {
    Setup::new().mode("transaction").set("query_wait_timeout", "20")
}

fn code(site: &Site) -> String {
    site.await_exit().code().map_or("none".to_owned(), |code| code.to_string())
}

fn send(connection: &mut Connection, sql: &str) {
    connection.send_bytes(Batch::new().query(sql).bytes()).expect("it reads");
}

/// Waits until the log contains this.
fn logged(site: &Site, what: &str) {
    eventually(what, || if site.log().contains(what) { Ok(()) } else { Err("not yet") });
}

#[test]
fn hup_reloads_and_reopens_the_log() {
    same(&setup(), |site, facts| {
        let mut client = site.client();
        client.query("SELECT 1").expect("it answers");
        site.rewrite(&setup().set("query_timeout", "33").database("late", ""));
        fs::rename(site.path("pgbouncer.log"), site.path("old.log")).expect("ours");
        site.signal(Signal::SIGHUP);
        eventually("the setting", || if site.config("query_timeout") == "33" { Ok(()) } else { Err("not yet") });
        facts.query("the client stays", &mut client, "SELECT 2");
        facts.login("a new database", &site.params(users::APP, "late"));
        eventually("a new log", || fs::metadata(site.path("pgbouncer.log")));
        let old = || fs::read_to_string(site.path("old.log")).unwrap_or_default();
        let reports = |both: String| if both.contains("got SIGHUP, re-reading config") { Ok(()) } else { Err(both) };
        eventually("one of the logs reports it", || reports(format!("{}{}", old(), site.log())));
    });
}

#[test]
fn a_reload_with_a_broken_file_changes_nothing() {
    same(&setup().set("query_timeout", "44"), |site, facts| {
        let mut client = site.client();
        site.write("pgbouncer.ini", "[pgbouncer]\nquery_timeout = 55\nthis is no line\n");
        site.signal(Signal::SIGHUP);
        logged(site, "got SIGHUP");
        std::thread::sleep(Duration::from_millis(300));
        facts.query("the client stays", &mut client, "SELECT 1");
        facts.login("others come", &site.params(users::APP, "app"));
        facts.note(
            "the log reports it",
            site.log().lines().any(|line| line.contains(" ERROR ") || line.contains(" WARNING ")),
        );
    });
}

#[test]
fn int_waits_for_transactions() {
    let differences = [Difference {
        fact: "a waiting client",
        pgbouncer: "",
        weir: "Error 08P01 server shutting down; Closed",
        why: "1.18 lets them wait until it ends; later versions drop them",
    }];
    differ(&setup().set("default_pool_size", "1"), &differences, |site, facts| {
        let (mut busy, mut idle, mut waiting) = (site.client(), site.client(), site.client());
        busy.query("BEGIN").expect("done");
        send(&mut waiting, "SELECT 1");
        site.await_pool("app", "cl_waiting", 1);
        site.signal(Signal::SIGINT);
        logged(site, "got SIGINT");
        facts.during(Duration::from_secs(2), "a waiting client", &mut waiting);
        facts.query("the transaction continues", &mut busy, "SELECT 1");
        facts.note("still running", site.exited().is_none());
        facts.query("and ends", &mut busy, "COMMIT");
        facts.end("then it is closed", &mut busy);
        facts.end("the idle client is closed too", &mut idle);
        facts.note("status", code(site));
    });
}

#[test]
fn int_without_clients_ends_at_once() {
    same(&setup(), |site, facts| {
        site.signal(Signal::SIGINT);
        facts.note("status", code(site));
        facts.note("pidfile", site.path("pgbouncer.pid").exists());
        facts.note("socket", site.path(&format!(".s.PGSQL.{}", site.port())).exists());
    });
}

#[test]
fn term_waits_for_clients() {
    let why = "1.18 ends at once; since 1.23 TERM waits for all clients to leave";
    let differences = [
        Difference { fact: "a client after it", pgbouncer: "closed", weir: "(1) SELECT 1", why },
        Difference { fact: "still running", pgbouncer: "false", weir: "true", why },
        Difference { fact: "status", pgbouncer: "1", weir: "0", why },
    ];
    differ(&setup(), &differences, |site, facts| {
        let mut client = site.client();
        client.query("SELECT 1").expect("it answers");
        site.signal(Signal::SIGTERM);
        logged(site, "got SIGTERM");
        std::thread::sleep(Duration::from_millis(300));
        facts.query("a client after it", &mut client, "SELECT 1");
        facts.note("still running", site.exited().is_none());
        let outcome = Connection::connect(&site.params(users::APP, "app")).map(drop);
        facts.note(
            "a late client",
            outcome.map_or_else(|error| crate::harness::error_line(&error), |()| "welcome".to_owned()),
        );
        drop(client);
        facts.note("status", code(site));
    });
}

#[test]
fn a_second_term_ends_at_once() {
    let why = "1.18 treats the first as a failure";
    differ(&setup(), &[Difference { fact: "status", pgbouncer: "1", weir: "0", why }], |site, facts| {
        let mut client = site.client();
        client.query("BEGIN").expect("done");
        site.signal(Signal::SIGTERM);
        logged(site, "got SIGTERM");
        std::thread::sleep(Duration::from_millis(200));
        site.signal(Signal::SIGTERM);
        facts.note("status", code(site));
    });
}

#[test]
fn quit_ends_at_once() {
    let differences = [Difference {
        fact: "status",
        pgbouncer: "none",
        weir: "0",
        why: "1.18 leaves QUIT to the system, which ends it with a core; later versions shut down",
    }];
    differ(&setup(), &differences, |site, facts| {
        let mut client = site.client();
        client.query("BEGIN").expect("done");
        site.signal(Signal::SIGQUIT);
        facts.note("status", code(site));
        facts.end("a client", &mut client);
    });
}

#[test]
fn usr1_pauses_and_usr2_resumes() {
    same(&setup(), |site, facts| {
        let mut client = site.client();
        client.query("SELECT 1").expect("it answers");
        site.signal(Signal::SIGUSR1);
        logged(site, "got SIGUSR1");
        site.await_pool("app", "sv_idle", 0);
        send(&mut client, "SELECT 2");
        site.await_pool("app", "cl_waiting", 1);
        facts.rest("while it is paused", &mut client);
        let mut console = site.console();
        facts.query("on the console", &mut console, "PAUSE");
        site.signal(Signal::SIGUSR2);
        facts.rest_after_first("resumed", &mut client);
        facts.query("on the console again", &mut console, "RESUME");
        site.signal(Signal::SIGUSR2);
        std::thread::sleep(Duration::from_millis(200));
        facts.query("a resume of nothing does no harm", &mut client, "SELECT 3");
    });
}
