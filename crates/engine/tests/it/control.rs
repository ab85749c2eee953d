//! Requests of the control plane, answered by one worker's engine.

use weir_admin::{Author, Command, CommandError, Connections, ControlReply, ControlRequest, Cursor, Response};
use weir_base::Span;
use weir_engine::port::{Input, UpgradeStep, WorkResult};
use weir_pgwire::put_back::{self, ErrorFields};

use crate::common::*;

/// Sends a request with this number.
fn ask(world: &mut World, number: u64, request: ControlRequest) {
    world.input(Input::ControlRequest { number, request });
}

/// The one answer since the last call.
#[track_caller]
fn answer(world: &mut World, number: u64) -> Response {
    let mut answers = std::mem::take(&mut world.port.answers);
    assert_eq!(answers.len(), 1, "{answers:?}");
    let (answered, response) = answers.remove(0);
    assert_eq!(answered, number);
    response
}

fn paused(world: &mut World) -> bool {
    ask(world, 99, ControlRequest::Report);
    let Ok(ControlReply::Report(report, _)) = answer(world, 99) else { panic!("no report") };
    report.paused.contains("db")
}

#[test]
fn a_report_comes_with_the_configuration_in_force() {
    let mut world = World::new(config(1));
    world.client();
    ask(&mut world, 7, ControlRequest::Report);
    let Ok(ControlReply::Report(report, config)) = answer(&mut world, 7) else { panic!("no report") };
    assert_eq!((report.pools.len(), report.pools[0].database.as_str()), (1, "db"));
    assert!(config.pools.contains_key("db") && !report.draining);
}

#[test]
fn connections_come_in_pages_until_there_are_no_more() {
    let mut world = World::new(config(1));
    world.client();
    for _ in 0..600 {
        world.arrival("ann", "db");
    }
    let (mut from, mut ids, mut pages) = (Some(Cursor::START), Vec::new(), 0);
    while let Some(cursor) = from {
        ask(&mut world, pages, ControlRequest::Connections(Connections::Clients, cursor));
        let Ok(ControlReply::Connections(records, next)) = answer(&mut world, pages) else { panic!("no page") };
        assert!(records.len() <= 16);
        ids.extend(records.iter().map(|record| record.id));
        (from, pages) = (next, pages + 1);
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((ids.len(), pages), (601, 38));
    // A slot that no worker has is beyond the end.
    let beyond = Cursor { worker: weir_base::WorkerId(9), slot: 0 };
    ask(&mut world, 50, ControlRequest::Connections(Connections::Servers, beyond));
    assert!(matches!(answer(&mut world, 50), Ok(ControlReply::Connections(records, None)) if records.is_empty()));
}

#[test]
fn a_command_is_answered_when_it_is_done_and_refused_with_the_consoles_words() {
    let mut world = World::new(config(1));
    let (client, server) = (world.arrival("ann", "db"), world.server());
    world.received(client);
    world.bytes(client, &query("select 1"));
    ask(&mut world, 1, ControlRequest::Run(Command::Pause(Some("db".into()))));
    assert!(world.port.answers.is_empty(), "a server is in use");
    world.bytes(server, &done("SELECT 1", b'I'));
    assert!(matches!(answer(&mut world, 1), Ok(ControlReply::Done)));
    assert!(paused(&mut world));
    ask(&mut world, 2, ControlRequest::Run(Command::Resume(Some("db".into()))));
    assert!(matches!(answer(&mut world, 2), Ok(ControlReply::Done)));
    ask(&mut world, 3, ControlRequest::Run(Command::Resume(Some("db".into()))));
    assert!(matches!(answer(&mut world, 3), Err(CommandError::DatabaseNotPaused(name)) if name == "db"));
    ask(&mut world, 4, ControlRequest::Run(Command::Pause(Some("nowhere".into()))));
    assert!(matches!(answer(&mut world, 4), Err(CommandError::NoSuchDatabase(name)) if name == "nowhere"));
}

#[test]
fn a_caller_that_waits_no_longer_withdraws_the_command() {
    let mut world = World::new(config(1));
    let (client, server) = (world.arrival("ann", "db"), world.server());
    world.received(client);
    world.bytes(client, &query("select 1"));
    ask(&mut world, 1, ControlRequest::Run(Command::Pause(Some("db".into()))));
    world.input(Input::ControlRequestDropped { number: 1 });
    assert!(!paused(&mut world));
    world.bytes(server, &done("SELECT 1", b'I'));
    assert!(world.port.answers.is_empty(), "no caller waits");
    world.input(Input::ControlRequestDropped { number: 1 });
}

#[test]
fn a_reload_that_fails_is_answered_with_the_reason_and_one_that_works_when_all_have_it() {
    let mut world = World::new(config(1));
    world.client();
    ask(&mut world, 1, ControlRequest::Reload(Author::signal()));
    world.config_read(config(5));
    assert!(matches!(answer(&mut world, 1), Ok(ControlReply::Done)));
    ask(&mut world, 2, ControlRequest::Report);
    let Ok(ControlReply::Report(_, config)) = answer(&mut world, 2) else { panic!("no report") };
    assert_eq!(config.pools["db"].limits.size, 5);
    ask(&mut world, 3, ControlRequest::Reload(Author::signal()));
    let job = world.requested_help().expect("a helper was asked");
    world.input(Input::JobDone { job, result: WorkResult::Config(Err("weir.toml:3: no".into())) });
    assert!(matches!(answer(&mut world, 3), Err(CommandError::ReloadFailed(why)) if why == "weir.toml:3: no"));
}

#[test]
fn workers_that_do_not_answer_are_not_waited_for_for_ever() {
    let mut world = World::with_workers(config(1), 2);
    ask(&mut world, 1, ControlRequest::Report);
    assert!(world.port.answers.is_empty(), "the other worker has not answered");
    world.pass(Span::from_secs(11));
    assert!(matches!(answer(&mut world, 1), Ok(ControlReply::Report(..))));
}

#[test]
fn a_report_has_the_times_by_their_length_the_errors_by_code_and_who_holds_a_server_idle() {
    let mut world = World::new(config(1));
    let (client, server) = (world.arrival("ann", "db"), world.server());
    let other = world.client();
    world.bytes(client, &query("begin"));
    world.bytes(other, &query("select 1"));
    world.pass(Span::from_millis(3));
    world.bytes(server, &done("BEGIN", b'T'));
    ask(&mut world, 1, ControlRequest::Report);
    let Ok(ControlReply::Report(report, _)) = answer(&mut world, 1) else { panic!("no report") };
    assert_eq!((report.pools[0].sv_active, report.pools[0].sv_idle_in_transaction), (1, 1));
    world.pass(Span::from_millis(5));
    world.bytes(client, &query("select no"));
    let mut failed = Vec::new();
    let fields = ErrorFields { severity: "ERROR", sqlstate: "42703", message: "no", detail: None, hint: None };
    put_back::error(&mut failed, &fields);
    failed.extend_from_slice(&ready(b'E'));
    world.bytes(server, &failed);
    world.bytes(client, &query("rollback"));
    world.bytes(server, &done("ROLLBACK", b'I'));
    world.bytes(server, &done("SELECT 1", b'I'));
    ask(&mut world, 2, ControlRequest::Report);
    let Ok(ControlReply::Report(report, _)) = answer(&mut world, 2) else { panic!("no report") };
    let counters = &report.stats[0].counters;
    let times = counters.counted().expect("something was counted");
    assert_eq!((times.query.total(), times.transaction.total()), (4, 2));
    assert_eq!((times.query.below(2_048), times.transaction.below(4_096)), (3, 1), "{times:?}");
    assert_eq!((times.wait.total(), times.wait.below(1)), (3, 2), "one waited: {times:?}");
    assert_eq!((counters.logins, counters.connects, counters.errors.by_code()), (2, 1, vec![("42703".to_owned(), 1)]));
    assert_eq!(report.pools[0].sv_idle_in_transaction, 0);
}

#[test]
fn an_offer_waits_for_what_is_under_way_and_nothing_is_changed_from_then_on_until_it_has_failed() {
    let mut world = World::new(config(1));
    let disable = || ControlRequest::Run(Command::Disable("db".into()));
    ask(&mut world, 1, ControlRequest::Reload(Author::signal()));
    world.input(Input::Upgrade(UpgradeStep::Prepare));
    ask(&mut world, 2, disable());
    assert!(matches!(answer(&mut world, 2), Err(CommandError::TakenOver)));
    assert!(world.port.offered.is_empty(), "the reload is not over");
    world.config_read(config(5));
    assert!(matches!(answer(&mut world, 1), Ok(ControlReply::Done)));
    assert_eq!(world.port.offered.iter().map(Result::is_ok).collect::<Vec<_>>(), [true]);
    for (number, request) in [(3, ControlRequest::Reload(Author::signal())), (4, disable())] {
        ask(&mut world, number, request);
        assert!(matches!(answer(&mut world, number), Err(CommandError::TakenOver)));
    }
    world.input(Input::Upgrade(UpgradeStep::Abort));
    ask(&mut world, 5, disable());
    assert!(matches!(answer(&mut world, 5), Ok(ControlReply::Done)));
    world.input(Input::Upgrade(UpgradeStep::Prepare));
    let prepared = world.port.offered.remove(1).expect("an offer");
    assert_eq!(prepared.disabled, ["db".to_owned()].into());
}

#[test]
fn a_pause_that_waits_is_in_the_way_of_an_offer() {
    let mut world = World::new(config(1));
    let client = world.arrival("ann", "db");
    world.server();
    world.bytes(client, &query("select 1"));
    ask(&mut world, 1, ControlRequest::Run(Command::Pause(Some("db".into()))));
    world.input(Input::Upgrade(UpgradeStep::Prepare));
    assert!(world.port.offered[0].as_ref().is_err_and(|why| why.contains("RESUME first")));
    world.input(Input::ControlRequestDropped { number: 1 });
    assert!(!paused(&mut world), "commands are taken again");
}

#[test]
fn servers_that_are_lost_again_and_again_without_a_word_make_their_pool_failing() {
    let mut world = World::new(config(1));
    let client = world.arrival("ann", "db");
    let failing = |world: &mut World| {
        ask(world, 98, ControlRequest::Report);
        let Ok(ControlReply::Report(report, _)) = answer(world, 98) else { panic!("no report") };
        report.pools[0].symptoms.failing.as_ref().map(|failing| (failing.of, failing.sqlstate))
    };
    for round in 0..4 {
        let asked = round > 0;
        if asked {
            world.bytes(client, &query("select 1"));
        }
        let server = world.server();
        if !asked {
            world.bytes(client, &query("select 1"));
        }
        world.bytes(server, &done("SELECT 1", b'I'));
        world.received(client);
        assert!(failing(&mut world).is_none() || round == 3);
        // It crashes while nobody uses it, which costs no client anything.
        world.reset(server);
        world.pass(Span::from_secs(2));
    }
    assert_eq!(failing(&mut world), Some((weir_admin::FailingOf::Servers, *b"08006")));
}

#[test]
fn what_changes_something_at_the_console_is_in_the_report_with_who_did_it() {
    let mut world = World::new(config(1));
    world.client();
    let console = world.arrival("admin", "pgbouncer");
    for text in ["SHOW POOLS", "PAUSE db", "RESUME db", "KILL_CLIENT 999", "SET query_timeout = 5", "DISABLE nothing"] {
        world.bytes(console, &query(text));
        world.received(console);
    }
    ask(&mut world, 7, ControlRequest::Report);
    let Ok(ControlReply::Report(report, _)) = answer(&mut world, 7) else { panic!("no report") };
    let deeds: Vec<_> = report.console_deeds.iter().map(|deed| (deed.command, deed.object.as_deref())).collect();
    assert_eq!(deeds, [("PAUSE", Some("db")), ("RESUME", Some("db")), ("KILL_CLIENT", Some("999"))]);
    assert!(report.console_deeds.iter().all(|deed| deed.user == "admin" && !deed.from.is_empty()));
    assert!(report.console_deeds.is_sorted_by(|one, next| one.at < next.at));
}
