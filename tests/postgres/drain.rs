//! A drain: clients move to another process between their transactions, and the drained one ends.

use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use weir_pgclient::{Connection, Error};
use weir_pglocal::Signal;
use weir_tests::{Api, Mode, Rng, Rolling, Setup, Site, eventually, line_of, weir_binary};

/// What each client gets that is closed.
const LEAVING: &str = "Error 57P01 terminating connection due to administrator command";
/// Lines of `[general]` for a restart behind a balancer.
const DRAIN: &[&str] = &["shutdown_delay = \"500ms\"", "drain_time = \"4s\""];

/// The next message of a connection, as soon as it is there; `None`: nothing is there now.
fn pending(client: &mut Connection) -> Option<Result<String, Error>> {
    match client.read_frame(Duration::from_millis(1)) {
        Err(Error::Timeout) => None,
        read => Some(read.map(|frame| line_of(&frame))),
    }
}

/// Waits until the client is sent away: it gets the error, and then the end of the stream.
#[track_caller]
fn assert_sent_away(client: &mut Connection) {
    let said = client.read_frame(Duration::from_secs(20)).map(|frame| line_of(&frame)).expect("it is sent away");
    assert!(said.starts_with(LEAVING), "{said}");
    assert!(matches!(client.read_frame(Duration::from_secs(20)), Err(Error::Closed)), "the end of the stream follows");
}

/// Runs `weir drain` for a Weir.
fn drain(site: &Site, more: &[&str]) -> Output {
    let mut command = Command::new(weir_binary());
    command.arg("drain").arg(site.weir().folder().join("weir.toml")).args(more);
    command.output().expect("weir drain runs")
}

#[test]
fn weir_drain_closes_idle_clients_at_once_waits_for_a_transaction_and_returns_at_the_end() {
    for mode in [Mode::Transaction, Mode::Session, Mode::Auto] {
        let site = Site::with(Setup::new(mode).size(5), mode);
        let (mut idle, mut used, mut busy) = (site.connect(), site.connect(), site.connect());
        used.query("SET application_name = 'used'; SELECT 1").unwrap();
        busy.query("CREATE TABLE kept (id int); BEGIN; INSERT INTO kept VALUES (1)").unwrap();
        thread::scope(|scope| {
            let drained = scope.spawn(|| drain(&site, &[]));
            assert_sent_away(&mut idle);
            assert_sent_away(&mut used);
            assert_eq!(busy.value("SELECT count(*) FROM kept").unwrap().as_deref(), Some("1"));
            assert!(pending(&mut busy).is_none() && !drained.is_finished(), "{mode}: a transaction is not interrupted");
            busy.query("COMMIT").unwrap();
            assert_sent_away(&mut busy);
            let output = drained.join().unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success() && said.contains("has ended"), "{said}");
        });
        assert_eq!(site.weir().wait_for_exit().code(), Some(0));
        let count = site.superuser().value("SELECT count(*) FROM kept").unwrap();
        assert_eq!(count.as_deref(), Some("1"), "{mode}: it was committed");
    }
}

#[test]
fn what_still_runs_at_the_end_of_shutdown_timeout_is_dropped_and_the_command_can_do_without_waiting() {
    let setup = Setup::new(Mode::Transaction).size(5).general("shutdown_timeout = \"1s\"");
    let site = Site::with(setup, Mode::Transaction);
    let mut client = site.connect();
    client.query("BEGIN").unwrap();
    assert!(drain(&site, &["--no-wait"]).status.success());
    assert_eq!(site.weir().wait_for_exit().code(), Some(0));
    assert!(client.query("COMMIT").is_err());
    let again = drain(&site, &[]);
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(!again.status.success() && said.contains("no process serves there"), "{said}");
}

#[test]
fn a_drain_is_announced_first_and_the_api_shows_how_far_it_is() {
    let api = Api::default();
    let setup = DRAIN.iter().fold(Setup::new(Mode::Transaction).size(5), |setup, line| setup.general(line));
    let site = Site::with(setup.more(&api.section()), Mode::Transaction);
    let (mut held, _idle) = (site.connect(), site.connect());
    held.query("BEGIN").unwrap();
    let status =
        |api: &Api| -> serde_json::Value { serde_json::from_str(&api.ask("GET", "/api/v1/status", "").1).unwrap() };
    assert!(status(&api)["drain"].is_null() && api.ask("GET", "/readyz", "").0 == 200);
    assert_eq!(api.ask("POST", "/api/v1/drain", "").0, 202);
    assert_eq!((api.ask("GET", "/readyz", "").0, status(&api)["drain"]["phase"].as_str()), (503, Some("announced")));
    assert!(site.connect().query("SELECT 1").is_ok(), "new clients are accepted");
    for phase in ["closing clients", "waiting for transactions"] {
        eventually(phase, || match status(&api)["drain"]["phase"].as_str() {
            Some(now) if now == phase => Ok(()),
            other => Err(format!("{other:?}")),
        });
    }
    assert!(Connection::connect(&site.params()).is_err(), "and now none");
    held.query("ROLLBACK").unwrap();
    assert_sent_away(&mut held);
    assert_eq!(site.weir().wait_for_exit().code(), Some(0));
}

/// A client of an application's pool: it looks at its connection before each use, and connects again if that has ended.
struct Pooled<'a> {
    rolling: &'a Rolling,
    connection: Option<Connection>,
}

impl Pooled<'_> {
    /// Runs a statement. One that met the close of its connection was not executed, and is repeated.
    fn query(&mut self, sql: &str) -> Result<(), Error> {
        if self.connection.as_mut().is_some_and(|connection| pending(connection).is_some()) {
            self.connection = None;
        }
        for _ in 0..3 {
            let connection = match &mut self.connection {
                Some(connection) => connection,
                none => none.insert(Connection::connect(&self.rolling.params())?),
            };
            match connection.query(sql) {
                Err(error) if error.sqlstate() == Some("57P01") => self.connection = None,
                other => return other.map(drop),
            }
        }
        Err(Error::Closed)
    }
}

#[test]
fn both_processes_are_restarted_and_each_request_is_executed_once() {
    let rolling = Rolling::start(Mode::Transaction, 5, DRAIN);
    let mut direct = rolling.database().superuser();
    direct.query("CREATE TABLE done (client int, request int); GRANT ALL ON done TO PUBLIC").unwrap();
    let ends = AtomicBool::new(false);
    let work = |number: u64| {
        let mut rng = Rng::new(number);
        let mut client = Pooled { rolling: &rolling, connection: None };
        let mut requests = 0_u32;
        while !ends.load(Ordering::Acquire) {
            let insert = format!("INSERT INTO done VALUES ({number}, {requests})");
            let sql = if requests.is_multiple_of(3) { format!("BEGIN; {insert}; COMMIT") } else { insert };
            client.query(&sql).map_err(|error| format!("client {number}, request {requests}: {error:?}"))?;
            requests += 1;
            // Some never rest, some are idle for seconds.
            let longest = [0, 20, 200, 3000][number as usize % 4];
            thread::sleep(Duration::from_millis(rng.below(longest + 1) as u64));
        }
        Ok::<u32, String>(requests)
    };
    let counts = thread::scope(|scope| {
        let clients: Vec<_> = (0..24).map(|number| scope.spawn(move || work(number))).collect();
        rolling.restart_both();
        rolling.restart_both();
        ends.store(true, Ordering::Release);
        clients.into_iter().map(|client| client.join().unwrap()).collect::<Result<Vec<u32>, String>>()
    });
    let requests: u32 = counts.unwrap().into_iter().sum();
    let count = direct.value("SELECT count(*) || ' ' || count(DISTINCT (client, request)) FROM done").unwrap();
    assert_eq!(count, Some(format!("{requests} {requests}")), "none is lost, and none was executed twice");
    assert!((0..2).all(|weir| rolling.balancer().connections(weir) > 24), "both have served all clients");
}

#[test]
fn a_request_that_meets_the_close_is_answered_by_the_error_and_was_not_executed() {
    let site = Site::with(Setup::new(Mode::Transaction).size(5).general("drain_time = \"1s\""), Mode::Transaction);
    site.superuser().query("CREATE TABLE done (id int); GRANT ALL ON done TO PUBLIC").unwrap();
    let executed: u64 = thread::scope(|scope| {
        let site = &site;
        let insert = move || {
            let mut client = site.connect();
            let mut executed = 0;
            let error = loop {
                match client.query("INSERT INTO done VALUES (1)") {
                    Ok(_) => executed += 1,
                    Err(error) => break error,
                }
            };
            // Never the mere end of the connection.
            assert_eq!(error.sqlstate(), Some("57P01"), "{error:?}");
            executed
        };
        let clients: Vec<_> = (0..12).map(|_| scope.spawn(insert)).collect();
        thread::sleep(Duration::from_millis(200));
        site.weir().signal(Signal::SIGTERM);
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    assert_eq!(site.weir().wait_for_exit().code(), Some(0));
    let count = site.superuser().value("SELECT count(*) FROM done").unwrap();
    assert_eq!(count, Some(executed.to_string()), "those with an error have done nothing");
}
