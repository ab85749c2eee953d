//! Timeouts: which client gets which error, and which side is closed.

use std::time::Duration;

use weir_pgclient::Connection;
use weir_tests::{Batch, eventually, users};

use crate::harness::{Setup, same};

fn pid(client: &mut Connection) -> String {
    client.value("SELECT pg_backend_pid()").expect("it answers").expect("it has one")
}

#[test]
fn query_timeout() {
    same(&Setup::new().set("query_timeout", "1"), |site, facts| {
        let mut client = site.client();
        client.send_bytes(Batch::new().query("SELECT pg_sleep(30)").bytes()).expect("it reads");
        facts.end("the client", &mut client);
        eventually("the server is closed", || match site.show("SERVERS").rows.len() {
            0 => Ok(()),
            left => Err(left),
        });
        let mut client = site.client();
        facts.query("a quick one", &mut client, "SELECT 1");
    });
}

#[test]
fn idle_transaction_timeout() {
    for mode in ["session", "transaction"] {
        same(&Setup::new().mode(mode).set("idle_transaction_timeout", "1"), |site, facts| {
            let mut client = site.client();
            client.query("BEGIN").expect("done");
            facts.end("in a transaction", &mut client);
            let mut client = site.client();
            client.query("SELECT 1").expect("it answers");
            std::thread::sleep(Duration::from_millis(2000));
            facts.query("between transactions", &mut client, "SELECT 2");
        });
    }
}

#[test]
fn client_idle_timeout() {
    for mode in ["session", "transaction"] {
        same(&Setup::new().mode(mode).set("client_idle_timeout", "1"), |site, facts| {
            let mut client = site.client();
            client.query("SELECT 1").expect("it answers");
            facts.during(Duration::from_secs(3), "after a query", &mut client);
            let mut client = site.client();
            facts.end("without any", &mut client);
        });
    }
}

#[test]
fn client_idle_timeout_leaves_transactions_alone() {
    same(&Setup::new().mode("transaction").set("client_idle_timeout", "1"), |site, facts| {
        let mut client = site.client();
        client.query("BEGIN").expect("done");
        std::thread::sleep(Duration::from_millis(2500));
        facts.query("still there", &mut client, "COMMIT");
    });
}

#[test]
fn client_login_timeout() {
    same(&Setup::new().set("client_login_timeout", "1"), |site, facts| {
        let mut silent = Connection::open(&site.params(users::APP, "app")).expect("it listens");
        // Half a length: with TCP_DEFER_ACCEPT, a connection without any bytes would not be accepted.
        silent.send_bytes(&[0, 0]).expect("it reads");
        facts.end("a client that sends nothing", &mut silent);
        let mut half = Connection::open(&site.params(users::APP, "app")).expect("it listens");
        let mut message = Vec::new();
        weir_pgwire::put_front::startup(&mut message, &[("user", "app"), ("database", "app")], 0);
        half.send_bytes(&message).expect("it reads");
        half.read_frame(Duration::from_secs(5)).expect("it asks for a password");
        facts.end("a client that never answers", &mut half);
    });
}

#[test]
fn server_idle_timeout() {
    same(&Setup::new().mode("transaction").set("server_idle_timeout", "1"), |site, facts| {
        let mut client = site.client();
        let first = pid(&mut client);
        eventually("the server is closed", || match site.show("SERVERS").rows.len() {
            0 => Ok(()),
            left => Err(left),
        });
        facts.note("a new one", pid(&mut client) != first);
    });
}

#[test]
fn server_lifetime() {
    let setup = Setup::new().mode("transaction").set("server_lifetime", "1");
    same(&setup, |site, facts| {
        let mut client = site.client();
        client.query("BEGIN").expect("done");
        let first = pid(&mut client);
        std::thread::sleep(Duration::from_millis(2500));
        facts.note("linked it stays", pid(&mut client) == first);
        client.query("COMMIT").expect("done");
        eventually("the server is closed", || match site.show("SERVERS").rows.len() {
            0 => Ok(()),
            left => Err(left),
        });
        facts.query("the client stays", &mut client, "SELECT 1");
    });
}

#[test]
fn server_lifetime_of_zero_uses_a_server_once() {
    same(&Setup::new().mode("transaction").set("server_lifetime", "0"), |site, facts| {
        let mut client = site.client();
        let first = pid(&mut client);
        facts.note("a new one each time", pid(&mut client) != first);
        facts.note("idle", site.pool("app", "sv_idle"));
    });
}

#[test]
fn timeouts_may_have_fractions() {
    let setup = Setup::new().mode("transaction").set("idle_transaction_timeout", "0.3").set("query_timeout", "1.5");
    same(&setup, |site, facts| {
        let mut client = site.client();
        client.query("BEGIN").expect("done");
        facts.end("in a transaction", &mut client);
        facts.note("shown", [site.config("idle_transaction_timeout"), site.config("query_timeout")].join(","));
    });
}

#[test]
fn a_server_that_never_answers_the_login() {
    // A listener that accepts and sends nothing, like a server that hangs.
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    let setup = Setup::new().line("hung", &format!("host=127.0.0.1 port={port} dbname=x"));
    let setup = setup.set("server_connect_timeout", "1").set("query_wait_timeout", "3").set("server_login_retry", "1");
    same(&setup, |site, facts| {
        // 1.18 reports query_wait_timeout, later versions the reason of the failed login; neither accepts the client.
        let outcome = Connection::connect(&site.params(users::APP, "hung"));
        facts.note("hung", outcome.is_err_and(|error| error.server().is_some()));
    });
}
