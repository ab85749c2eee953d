//! Tests of causes: which is found for which state.

use std::sync::Arc;

use weir_admin::{Backend, BackendKey, ProbeError};
use weir_base::Span;

use super::*;

const NOW: u64 = 1_700_000_000_000_000;

fn server(pid: u32, query: Option<f64>, transaction: f64) -> SocketRecord {
    let ago = |seconds: f64| NOW - (seconds * 1e6) as u64;
    SocketRecord {
        state: "active",
        remote_pid: pid,
        ptr: u64::from(pid),
        link: Some(1000 + u64::from(pid)),
        held_for: Some(if query.is_some() { "replies outstanding" } else { "in transaction" }),
        query_time: query.map(ago),
        transaction_time: Some(ago(transaction)),
        ..SocketRecord::default()
    }
}

fn client(pid: u32, application: &str) -> SocketRecord {
    SocketRecord {
        id: pid.into(),
        state: "active",
        user: "joe".into(),
        addr: "10.0.0.5".into(),
        ptr: 1000 + u64::from(pid),
        application_name: application.into(),
        ..SocketRecord::default()
    }
}

fn waiting(seconds: f64) -> SocketRecord {
    SocketRecord { state: "waiting", wait: Span::from_micros((seconds * 1e6) as u64), ..client(9999, "web") }
}

fn pool(servers: Vec<SocketRecord>, waits: &[f64]) -> PoolNow {
    let clients =
        servers.iter().map(|server| client(server.remote_pid, if server.remote_pid == 1 { "billing" } else { "web" }));
    let clients = clients.chain(waits.iter().map(|seconds| waiting(*seconds))).collect();
    PoolNow {
        name: "app".into(),
        size: 5,
        mode: PoolMode::Transaction,
        servers,
        clients,
        at: NOW,
        ..PoolNow::default()
    }
}

fn backend(pid: u32, state: &str, seconds: f64, blocked_by: &[u32]) -> Backend {
    Backend {
        key: BackendKey { process_id: pid, started: Some(1), transaction: Some(2), query: Some(3) },
        user: "joe".into(),
        state: Some(state.into()),
        state_seconds: Some(seconds),
        transaction_seconds: Some(seconds),
        blocked_by: blocked_by.to_vec(),
        statement: Some("update t set a = ?".into()),
        ..Backend::default()
    }
}

fn look(backends: Vec<Backend>) -> ProbedActivity {
    Arc::new(Ok(Activity { backends, user: "joe".into(), ..Activity::default() }))
}

/// One client idle in transaction, and four queries behind it.
fn locked(waits: &[f64]) -> (PoolNow, ProbedActivity) {
    let servers = (1..=5).map(|pid| server(pid, (pid > 1).then_some(8.0 + f64::from(pid)), 20.0)).collect();
    let queries =
        (2..=5).map(|pid| backend(pid, "active", 8.0 + f64::from(pid), if pid == 2 { &[1] } else { &[1, 2] }));
    (pool(servers, waits), look([backend(1, "idle in transaction", 20.0, &[])].into_iter().chain(queries).collect()))
}

#[test]
fn a_lock_is_found_with_its_holder_and_all_behind_it() {
    let (now, seen) = locked(&[3.0]);
    let found = incident(&now, Some(&seen)).expect("an incident");
    assert_eq!(found.cause, IncidentCause::Blocked);
    let affected = serde_json::json!([{ "user": "joe", "application_name": "web", "clients": 5 }]);
    assert_eq!((found.clients_affected, serde_json::to_value(&found.affected).ok()), (5, Some(affected)));
    let wanted = "Blocked by process 1 (\"billing\" of joe at 10.0.0.5), idle in its transaction for 20 s: 4 queries wait for \
                  its locks, the first for 13 s, and 1 client waits for a server.";
    assert_eq!(found.text, wanted);
    assert_eq!((found.holders.len(), found.holders[0].blocks.len(), found.seconds), (1, 4, 20.0));
    assert_eq!(found.holders[0].blocks[0].process_id, 5, "the longest first");
    assert!(found.seen.complete);
    // Also where no client waits for a server.
    assert_eq!(incident(&locked(&[]).0, Some(&seen)).map(|found| found.cause), Some(IncidentCause::Blocked));
}

#[test]
fn commits_that_no_standby_confirms_are_the_cause_of_the_locks_behind_them_too() {
    let (now, seen) = locked(&[]);
    let mut activity = seen.as_ref().as_ref().expect("an activity").clone();
    activity.backends[0] = Backend {
        waits_for: Some("IPC: SyncRep".into()),
        statement: Some("commit".into()),
        ..backend(1, "active", 20.0, &[])
    };
    let found = incident(&now, Some(&Arc::new(Ok(activity)))).expect("an incident");
    assert_eq!(found.text, "1 commit waits for a synchronous standby (SyncRep), the first for 20 s.");
    assert!(found.advice.contains("synchronous_standby_names") && found.title == "commits wait for a standby");
    let lock = found.finding(NOW).and_then(|finding| finding.lock).expect("clients that wait");
    assert_eq!((lock.since, lock.clients), (NOW - 20_000_000, 5));
}

#[test]
fn what_the_server_does_not_show_is_reported_and_the_rest_still_found() {
    let (now, _) = locked(&[3.0]);
    let failed: ProbedActivity = Arc::new(Err(ProbeError::Server("127.0.0.1:5432 as joe: no".into())));
    let found = incident(&now, Some(&failed)).expect("an incident");
    assert_eq!((found.cause, found.seen.complete), (IncidentCause::OneApplication, false));
    assert!(found.seen.reason.as_deref().is_some_and(|reason| reason.contains("as joe: no")));
    let hidden: ProbedActivity = Arc::new(Ok(Activity { hidden: true, user: "joe".into(), ..Activity::default() }));
    let reason = incident(&now, Some(&hidden)).and_then(|found| found.seen.reason).expect("a reason");
    assert!(reason.contains("pg_read_all_stats"), "{reason}");
}

#[test]
fn each_state_has_its_cause() {
    let all = |query: Option<f64>, transaction| (1..=5).map(|pid| server(pid, query, transaction)).collect::<Vec<_>>();
    let mixed = |application: bool| {
        let mut now = pool(all(Some(30.0), 30.0), &[2.0]);
        let name = |pid: usize| if application && pid < 4 { "reports".to_owned() } else { format!("app{pid}") };
        now.clients.iter_mut().enumerate().for_each(|(pid, client)| client.application_name = name(pid));
        now
    };
    let table = [
        ("nobody waits", pool(all(Some(30.0), 30.0), &[]), None),
        ("a moment", pool(all(Some(0.1), 0.1), &[0.3]), None),
        ("a queue that moves", pool(all(Some(0.2), 0.2), &[2.0]), None),
        ("idle in transactions", pool(all(None, 9.0), &[2.0]), Some(IncidentCause::IdleInTransaction)),
        ("one application", mixed(true), Some(IncidentCause::OneApplication)),
        ("many applications", mixed(false), Some(IncidentCause::LongQueries)),
        ("fewer servers", pool(all(Some(30.0), 30.0).split_off(3), &[2.0]), Some(IncidentCause::FewerServers)),
        ("no servers", pool(Vec::new(), &[2.0]), Some(IncidentCause::FewerServers)),
    ];
    for (name, now, wanted) in table {
        assert_eq!(incident(&now, None).map(|found| found.cause), wanted, "{name}");
    }
}

#[test]
fn clients_that_do_not_read_and_idle_sessions_are_causes_of_their_own() {
    let now = pool((1..=5).map(|pid| server(pid, Some(30.0), 30.0)).collect(), &[2.0]);
    let mut writes = Activity::default();
    for pid in 1..=4 {
        let waits_for = Some("Client: ClientWrite".to_owned());
        writes.backends.push(Backend { waits_for, ..backend(pid, "active", 30.0, &[]) });
    }
    let found = incident(&now, Some(&Arc::new(Ok(writes)))).expect("an incident");
    assert_eq!((found.cause, found.advice.contains("A larger pool would")), (IncidentCause::UnreadResults, true));
    let mut sessions = pool((1..=5).map(|pid| server(pid, None, 30.0)).collect(), &[2.0]);
    sessions.mode = PoolMode::Session;
    sessions.servers.iter_mut().for_each(|server| server.transaction_time = None);
    let found = incident(&sessions, None).expect("an incident");
    assert_eq!(found.cause, IncidentCause::IdleSessions);
    let finding = found.finding(NOW).expect("a finding");
    assert!(
        finding.lock.is_none() && finding.cause.ends_with("5 of 5 servers in use idle in sessions."),
        "{}",
        finding.cause
    );
}

#[test]
fn servers_that_idle_clients_keep_are_a_cause_with_the_kinds_and_the_application() {
    let kept = |pid: u32, kind| {
        let reasons = vec![weir_admin::PinReason { kind, since: NOW - 60_000_000, statement: "LISTEN a".into() }];
        let pin = weir_admin::PinRecord { since: NOW - 60_000_000, idle_since: Some(NOW - 50_000_000), reasons };
        let held_for = Some("LISTEN");
        SocketRecord { pinned: Some(Box::new(pin)), transaction_time: None, held_for, ..server(pid, None, 0.0) }
    };
    let servers = vec![kept(1, "listen"), kept(2, "listen"), kept(3, "temporary_objects"), server(4, Some(0.5), 0.5)];
    let mut now = pool(servers, &[2.0]);
    now.mode = PoolMode::Auto;
    let found = incident(&now, None).expect("an incident");
    assert_eq!(found.cause, IncidentCause::Pins);
    let wanted = "1 client waits for a server, the first for 2 s; 3 of 4 servers in use are kept by idle clients for what \
                  they have left there (listen: 2, temporary_objects: 1), most by \"web\" of joe (2), the longest for 50 s.";
    assert_eq!(found.text, wanted);
    assert_eq!((found.holders.len(), found.holders[0].process.pinned_idle_seconds), (3, Some(50.0)));
    // Where few are kept, they are not the cause.
    now.servers.truncate(1);
    now.servers.extend((5..9).map(|pid| server(pid, Some(30.0), 30.0)));
    assert_ne!(incident(&now, None).map(|found| found.cause), Some(IncidentCause::Pins));
}

#[test]
fn the_workers_learn_who_waits_for_a_lock_and_since_when_and_what_to_do_depends_on_who_holds_it() {
    let advice = |holder: Backend, of_pool: bool| {
        let mut servers = vec![server(2, Some(5.0), 5.0)];
        servers.extend(of_pool.then(|| server(holder.key.process_id, None, 20.0)));
        let waits = backend(2, "active", 5.0, &[holder.key.process_id]);
        let found = incident(&pool(servers, &[]), Some(&look(vec![holder, waits]))).expect("an incident");
        assert_eq!((found.cause, found.title), (IncidentCause::Blocked, "blocked"));
        let lock = found.finding(NOW).and_then(|finding| finding.lock).expect("a lock");
        assert_eq!((lock.since, lock.clients, lock.names.most(1).len()), (NOW - 5_000_000, 1, 1));
        found.advice
    };
    assert!(advice(backend(1, "idle in transaction", 20.0, &[]), true).contains("drop its client"));
    assert!(advice(backend(1, "active", 20.0, &[]), true).contains("cancel it"));
    assert!(advice(backend(77, "active", 20.0, &[]), false).contains("not a client of this pool"));
    let hidden = Backend { key: weir_admin::BackendKey { process_id: 77, ..Default::default() }, ..Backend::default() };
    assert!(advice(hidden, false).contains("pg_terminate_backend"));
    let prepared = Backend::default();
    assert!(advice(prepared, false).contains("ROLLBACK PREPARED"));
}

#[test]
fn a_paused_pool_whose_clients_wait_and_one_without_clients_whose_server_is_away_are_incidents() {
    let health =
        PoolHealth { state: weir_admin::Health::Paused, waiting: 1, since: NOW - 9_000_000, ..PoolHealth::default() };
    let paused = PoolNow { health, explained: true, ..pool(Vec::new(), &[4.0]) };
    let found = incident(&paused, None).expect("an incident");
    assert_eq!((found.cause, found.title, found.seconds), (IncidentCause::Paused, "paused", 9.0));
    let health = PoolHealth { state: weir_admin::Health::LoginRejected, refused_clients: 7, ..PoolHealth::default() };
    let refuses = PoolNow { health, explained: true, ..pool(Vec::new(), &[]) };
    let found = incident(&refuses, None).expect("an incident");
    assert_eq!((found.cause, found.title, found.clients_affected), (IncidentCause::ServerDown, "login rejected", 7));
    assert!(found.finding(NOW).is_none(), "its health says it");
}

#[test]
fn a_lock_of_a_moment_is_no_incident() {
    let (now, _) = locked(&[]);
    let brief = look(vec![backend(1, "active", 0.2, &[]), backend(2, "active", 0.1, &[1])]);
    assert!(incident(&now, Some(&brief)).is_none());
}

#[test]
fn a_holder_that_is_not_of_the_pool_is_named_and_chains_of_others_are_not() {
    let now = pool(vec![server(2, Some(5.0), 5.0)], &[]);
    let seen = look(vec![
        backend(77, "active", 60.0, &[]),
        backend(2, "active", 5.0, &[77]),
        backend(88, "active", 9.0, &[99]),
    ]);
    let found = incident(&now, Some(&seen)).expect("an incident");
    assert_eq!((found.holders.len(), found.holders[0].process.of_pool), (1, false));
    assert!(
        found.text.starts_with("Blocked by process 77 (a client of joe), whose query runs for 1 min: 1 query waits"),
        "{}",
        found.text
    );
    assert!(incident(&pool(vec![server(3, Some(5.0), 5.0)], &[]), Some(&seen)).is_none());
}

#[test]
fn a_pool_whose_server_is_down_has_the_words_of_its_health_and_no_hint_at_its_size() {
    let (error, message) =
        (weir_admin::LoginFailure::new, "server db:5432 accepts connections but has not answered since noon");
    let health = PoolHealth {
        state: weir_admin::Health::NotAnswering,
        unanswered: 2,
        error: Some(error(1, 1, "08006", message)),
        ..PoolHealth::default()
    };
    let mut of = pool(Vec::new(), &[4.0, 3.0]);
    let before = incident(&of, None).expect("an incident");
    assert_eq!(before.cause, IncidentCause::FewerServers);
    (of.health, of.explained) = (health.clone(), true);
    let found = incident(&of, None).expect("an incident");
    assert_eq!(
        (found.cause, found.text.as_str(), found.advice),
        (
            IncidentCause::ServerDown,
            "The pool is in the state \"not answering\": server db:5432 accepts connections but has not answered since noon \
             (08006); 2 clients wait for a server, the first for 4 s, 2 clients get no answer.",
            health.advice()
        )
    );
}

#[test]
fn queries_behind_a_queued_lock_wait_for_its_query_which_is_named_and_not_for_the_holder() {
    let servers = (2..=8).map(|pid| server(pid, Some(58.0), 58.0)).collect();
    let mut seen = vec![backend(1, "idle in transaction", 60.0, &[]), backend(2, "active", 58.0, &[1])];
    seen.extend((3..=8).map(|pid| backend(pid, "active", 50.0, &[2])));
    let now = pool(servers, &[]);
    // Of a row, the next one in the queue waits for the holder, too.
    assert!(incident(&now, Some(&look(seen.clone()))).expect("an incident").text.starts_with("Blocked by process 1 "));
    seen.iter_mut().skip(1).for_each(|one| one.waits_for = Some("Lock: relation".into()));
    let found = incident(&now, Some(&look(seen))).expect("an incident");
    let words = "Blocked: 6 queries wait behind process 2 (\"web\" of joe";
    assert!(found.text.starts_with(words), "{}", found.text);
    assert!(found.text.contains("waited for 58 s for a lock of process 1 (a client of joe)"), "{}", found.text);
    assert!(found.advice.contains("Cancel the query that the others wait behind"), "{}", found.advice);
    // Those that wait for the holder itself would gain nothing.
    let (now, seen) = locked(&[]);
    assert!(incident(&now, Some(&seen)).expect("an incident").text.starts_with("Blocked by process 1 "));
}

#[test]
fn an_application_that_is_alone_in_its_pool_takes_nothing_from_others() {
    let alone = pool((2..=6).map(|pid| server(pid, Some(9.0), 9.0)).collect(), &[2.0]);
    let found = incident(&alone, None).expect("an incident");
    assert_eq!(found.cause, IncidentCause::LongQueries);
    assert!(!found.advice.contains("pool of its own"), "{}", found.advice);
}

#[test]
fn a_limit_of_weir_that_pools_share_is_named_with_its_value_and_who_has_the_servers() {
    let limit = Some("max_user_connections = 2 of user app".to_owned());
    let now = PoolNow { limit, ..pool((2..=3).map(|pid| server(pid, None, 0.1)).collect(), &[4.0]) };
    let found = incident(&now, None).expect("an incident");
    assert_eq!(found.cause, IncidentCause::FewerServers);
    let words = "max_user_connections = 2 of user app is reached; \"web\" has 2 of 2 servers in use.";
    assert!(found.text.ends_with(words), "{}", found.text);
    assert!(found.advice.starts_with("Raise this limit"), "{}", found.advice);
}
