//! Every table against PgBouncer's columns, and the rows of a small example.

use std::path::Path;
use std::sync::Arc;

use weir_base::{Host, PoolMode, Span, Target};
use weir_config::Config;

use super::*;
use crate::cluster::{ClusterNode, ClusterPool, ClusterShare, ClusterView};
use crate::console::help_text;
use crate::fault::Fault;
use crate::pins::{PinReason, PinRecord};
use crate::records::{DnsRecord, MemoryRecord, PeerPoolRecord, PoolRecord, Report, ServiceState, UserClients};
use crate::refusals::{RefusalRecord, Refusals};
use crate::stats::{DatabaseStats, Stats};

/// The columns of PgBouncer 1.25, in order, with the letters of its row descriptions: s text, i int4, q int8, N
/// numeric, b bytea. The last tables are Weir's own.
const REFERENCE: [(Show, &str, &str); 31] = [
    (
        Show::Pools,
        "ssiiiiiiiiiiiiissssqs",
        "database, user, cl_active, cl_waiting, cl_active_cancel_req, cl_waiting_cancel_req, sv_active, \
         sv_active_cancel, sv_being_canceled, sv_idle, sv_used, sv_tested, sv_login, maxwait, maxwait_us, pool_mode, \
         load_balance_hosts, health, health_since, health_clients, health_error",
    ),
    (
        Show::Stats,
        "sNNNNNNNNNNNNNNNNNNNNNNNN",
        "database, total_server_assignment_count, total_xact_count, total_query_count, total_received, total_sent, \
         total_xact_time, total_query_time, total_wait_time, total_client_parse_count, total_server_parse_count, \
         total_bind_count, avg_server_assignment_count, avg_xact_count, avg_query_count, avg_recv, avg_sent, \
         avg_xact_time, avg_query_time, avg_wait_time, avg_client_parse_count, avg_server_parse_count, avg_bind_count, total_client_login_count, avg_client_login_count",
    ),
    (
        Show::StatsTotals,
        "sNNNNNNNNNNNN",
        "database, server_assignment_count, xact_count, query_count, bytes_received, bytes_sent, xact_time, \
         query_time, wait_time, client_parse_count, server_parse_count, bind_count, client_login_count",
    ),
    (
        Show::StatsAverages,
        "sNNNNNNNNNNNN",
        "database, server_assignment_count, xact_count, query_count, bytes_received, bytes_sent, xact_time, \
         query_time, wait_time, avg_client_parse_count, avg_server_parse_count, avg_bind_count, avg_client_login_count",
    ),
    (Show::Totals, "sN", "name, value"),
    (Show::Clients, CONNECTION_KINDS, CONNECTION),
    (Show::Servers, CONNECTION_KINDS, CONNECTION),
    (
        Show::Databases,
        "ssissiiiissiiiiiisiii",
        "name, host, port, database, force_user, pool_size, min_pool_size, reserve_pool_size, server_lifetime, \
         pool_mode, load_balance_hosts, max_connections, current_connections, max_client_connections, \
         current_client_connections, paused, disabled, server, guaranteed_connections, weight, giving_back",
    ),
    (
        Show::Users,
        "ssssiiii",
        "name, pool_size, reserve_pool_size, pool_mode, max_user_connections, current_connections, \
         max_user_client_connections, current_client_connections",
    ),
    (Show::Config, "ssss", "key, value, default, changeable"),
    (Show::Lists, "si", "list, items"),
    (Show::Version, "s", "version"),
    (Show::Help, "s", "help"),
    (Show::Mem, "siiiq", "name, size, used, free, memtotal"),
    (Show::State, "ss", "key, value"),
    (
        Show::Fds,
        "issssiqisssssbb",
        "fd, task, user, database, addr, port, cancel, link, client_encoding, std_strings, datestyle, timezone, \
         password, scram_client_key, scram_server_key",
    ),
    (Show::Sockets, SOCKET_KINDS, SOCKET),
    (Show::ActiveSockets, SOCKET_KINDS, SOCKET),
    (Show::DnsHosts, "sqs", "hostname, ttl, addrs"),
    (Show::DnsZones, "sqi", "zonename, serial, count"),
    (Show::Peers, "isii", "peer_id, host, port, pool_size"),
    (Show::PeerPools, "iiiii", "peer_id, cl_active_cancel_req, cl_waiting_cancel_req, sv_active_cancel, sv_login"),
    (Show::Refusals, "ssNNNNN", "database, user, pool_full, server_slow, server_down, limit_reached, other"),
    (Show::LostState, "ssNNN", "database, kind, lost, refused, found_late"),
    (
        Show::Statements,
        "sssNNNNNNNNNNNss",
        "database, user, fingerprint, calls, errors, rows, bytes, run_time, wait_time, p50, p95, p99, share, missed_time, \
         applications, statement",
    ),
    (
        Show::Records,
        "sssssqqNNqqqqqqq",
        "database, user, state, since, until, lines, bytes, missed, unfollowed, sessions, transactions, \
         transactions_p99, holders, holders_p99, either, either_p99",
    ),
    (
        Show::DryRun,
        "ssssssNNsss",
        "database, application_name, does, kind, in_transaction, in_auto, times, clients, first, last, statement",
    ),
    (Show::Cluster, "ssssiiiiqs", "node, state, version, database, budget, share, floor, shortfall, config, refused"),
    (Show::Patroni, "sssisq", "database, host, url, status, error, seconds_ago"),
    (
        Show::Primaries,
        "sssssqiqqs",
        "database, primary, state, moves_to, moved_from, seconds_ago, clients_waited, longest_wait_us, moves, said",
    ),
    (Show::Faults, "sssss", "kind, state, since, summary, advice"),
];

const CONNECTION_KINDS: &str = "ssssssisissiiississiqsss";
const CONNECTION: &str = "type, user, database, replication, state, addr, port, local_addr, local_port, connect_time, \
    request_time, wait, wait_us, close_needed, ptr, link, remote_pid, tls, application_name, prepared_statements, id, \
    pinned_by, pinned_since, pinned_statement";

const SOCKET_KINDS: &str = "ssssssisissiiississiqiiiiiii";
const SOCKET: &str = "type, user, database, replication, state, addr, port, local_addr, local_port, connect_time, \
    request_time, wait, wait_us, close_needed, ptr, link, remote_pid, tls, application_name, prepared_statements, id, \
    recv_pos, pkt_pos, pkt_remain, send_pos, send_remain, pkt_avail, send_avail";

const SETTINGS: &str = r#"
[general]
mode = "session"

[listen]
port = 6000

[auth.users]
joe = "secret"

[limits]
server_lifetime = "30min"

[pools.app]
host = "127.0.0.1"
port = 5433
database = "app_db"
user = "owner"
password = "secret"
mode = "transaction"
size = 7
min_size = 2
reserve_size = 3

[pools.zoo]
host = "/run/postgresql"

[peers.2]
host = "/run/two"
port = 6433
pool_size = 9
"#;

fn config() -> Config {
    let read = |_: &Path| Ok(SETTINGS.to_owned());
    weir_config::load(Path::new("weir.toml"), &read, &|_| None).expect("the settings are valid")
}

/// Two pools of one database, one client waiting, one linked to its server, one logging in, an admin at the console.
fn report() -> Report {
    let mut owner = PoolRecord::new("app", "owner", PoolMode::Transaction);
    (owner.cl_active, owner.cl_waiting, owner.sv_active, owner.sv_idle) = (2, 1, 1, 3);
    owner.maxwait = Span::from_micros(2_500_000);
    let mut ann = PoolRecord::new("app", "ann", PoolMode::Transaction);
    (ann.cl_active, ann.sv_login) = (1, 1);
    Report {
        draining: false,
        drain: None,
        pools: vec![owner, ann],
        clients_by_user: [("joe".to_owned(), [("app".to_owned(), UserClients { clients: 2, waiting: 0 })].into())]
            .into(),
        peers: vec![PeerPoolRecord { peer_id: 2, active: 3, waiting: 1, sent: 2 }],
        dns: vec![DnsRecord {
            hostname: "db.example".to_owned(),
            ttl: Span::from_secs(9),
            addresses: vec![[10, 0, 0, 1].into(), [10, 0, 0, 2].into()],
        }],
        stats: vec![stats("zoo", 100), stats("app", 300)],
        console_stats: stats("", 30),
        refusals: vec![
            RefusalRecord {
                pool: Some(("app".to_owned(), "joe".to_owned())),
                refusals: Refusals { pool_full: 7, server_down: 2, ..Refusals::default() },
                limit: None,
            },
            RefusalRecord {
                refusals: Refusals { limit_reached: 3, other: 1, ..Refusals::default() },
                ..RefusalRecord::default()
            },
        ],
        console_clients: 1,
        login_clients: 1,
        serving: ServiceState::Paused,
        paused: ["app".to_owned()].into(),
        disabled: ["zoo".to_owned()].into(),
        memory: vec![MemoryRecord { name: "client_cache", size: 100, used: 5, free: 59 }],
        ..Report::default()
    }
}

/// The connections of the report, clients and servers.
fn connections() -> Vec<(Connections, SocketRecord)> {
    let reason = PinReason { kind: "listen", since: 951_782_401_000_000, statement: "listen a".into() };
    let pin = PinRecord { since: 951_782_401_000_000, idle_since: None, reasons: vec![reason] };
    let linked = SocketRecord {
        id: 9,
        user: "joe".into(),
        database: "app".into(),
        state: "active",
        addr: "127.0.0.1".into(),
        port: 40_000,
        local_addr: "127.0.0.1".into(),
        local_port: 6000,
        connect_time: 951_782_400_000_000,
        request_time: 951_782_401_000_000,
        wait: Span::from_micros(1_000_007),
        ptr: 0x70,
        link: Some(0x71),
        application_name: "psql".into(),
        prepared_statements: 4,
        pinned: Some(Box::new(pin)),
        ..SocketRecord::default()
    };
    let waiting = SocketRecord { id: 4, state: "waiting", user: "joe".into(), pinned: None, ..linked.clone() };
    let login = SocketRecord { id: 2, state: "login", ..SocketRecord::default() };
    let cancel = SocketRecord { id: 3, state: "active_cancel_req", ..SocketRecord::default() };
    let server =
        SocketRecord { id: 5, user: "owner".into(), state: "active", ptr: 0x71, link: Some(0x70), ..linked.clone() };
    let idle = SocketRecord { id: 6, state: "idle", link: None, close_needed: true, pinned: None, ..server.clone() };
    let clients = [waiting, login, cancel, linked].map(|client| (Connections::Clients, client));
    clients.into_iter().chain([server, idle].map(|server| (Connections::Servers, server))).collect()
}

fn stats(database: &str, xacts: u64) -> DatabaseStats {
    let total = Stats { xact_count: xacts, xact_time: 50 * xacts, received: 7 * xacts, ..Stats::default() };
    let previous = Stats { xact_count: xacts - 20, xact_time: 50 * (xacts - 20), ..Stats::default() };
    DatabaseStats {
        database: database.into(),
        total,
        previous,
        period: Span::from_secs(10),
        ..DatabaseStats::default()
    }
}

fn table(what: Show) -> Table {
    let (config, report) = (config(), report());
    let snapshot = Snapshot {
        report: &report,
        config: &config,
        version: "Weir 0.1.0",
        now_wall: 951_782_410_000_000,
        hides_queries: false,
    };
    let mut table = show(what, &snapshot);
    table.rows.extend(connections().iter().filter_map(|(of, record)| connection_row(what, *of, record)));
    table
}

/// The table as text: columns separated by commas, NULL as `-`.
fn lines(what: Show) -> Vec<String> {
    let line = |row: &Row| row.iter().map(|v| v.as_deref().unwrap_or("-")).collect::<Vec<_>>().join(",");
    table(what).rows.iter().map(line).collect()
}

fn letter(kind: ColumnType) -> char {
    match kind {
        ColumnType::Text => 's',
        ColumnType::Int4 => 'i',
        ColumnType::Int8 => 'q',
        ColumnType::Numeric => 'N',
        ColumnType::Bytea => 'b',
    }
}

#[test]
fn every_table_has_the_columns_of_the_reference_in_their_order_and_of_their_types() {
    for (what, kinds, names) in REFERENCE {
        let found = columns(what);
        assert_eq!(found.iter().map(|c| c.name).collect::<Vec<_>>().join(", "), names, "{what:?}");
        assert_eq!(found.iter().map(|c| letter(c.kind)).collect::<String>(), kinds, "{what:?}");
    }
    let shown: Vec<Show> = TABLES.iter().map(|entry| entry.show).collect();
    assert_eq!(shown, REFERENCE.map(|(what, ..)| what));
}

#[test]
fn with_a_pgbouncer_ini_the_pools_have_pgbouncers_columns_and_no_other() {
    let (mut config, report) = (config(), report());
    config.format = weir_config::FileFormat::Ini;
    let snapshot =
        Snapshot { report: &report, config: &config, version: "Weir 0.1.0", now_wall: 1, hides_queries: false };
    let table = show(Show::Pools, &snapshot);
    assert_eq!(table.columns.last().map(|column| column.name), Some("load_balance_hosts"));
    assert!(table.columns.len() == 17 && table.rows.iter().all(|row| row.len() == 17));
    let of_clients = columns_with(Show::Clients, config.format);
    assert_eq!((of_clients.len(), of_clients.last().map(|column| column.name)), (21, Some("id")));
    assert_eq!(columns_with(Show::Servers, config.format), of_clients);
}

#[test]
fn every_row_has_a_value_a_column_and_numbers_where_the_column_is_one() {
    for entry in &TABLES {
        let table = table(entry.show);
        assert_eq!(table.columns, columns(entry.show));
        for row in &table.rows {
            assert_eq!(row.len(), table.columns.len(), "{}", entry.show.name());
            for (column, value) in table.columns.iter().zip(row) {
                let Some(value) = value else { continue };
                let fits = match column.kind {
                    ColumnType::Int4 => value.parse::<i32>().is_ok(),
                    ColumnType::Int8 | ColumnType::Numeric => value.parse::<i64>().is_ok(),
                    ColumnType::Text | ColumnType::Bytea => true,
                };
                assert!(fits, "{}.{} is {value:?}", entry.show.name(), column.name);
            }
        }
    }
}

#[test]
fn the_kinds_are_postgresqls_types() {
    let kinds = [ColumnType::Text, ColumnType::Int4, ColumnType::Int8, ColumnType::Numeric, ColumnType::Bytea];
    assert_eq!(kinds.map(|k| (k.oid(), k.size())), [(25, -1), (23, 4), (20, 8), (1700, -1), (17, -1)]);
}

#[test]
fn pools_are_sorted_and_the_console_is_one_of_them() {
    assert_eq!(
        lines(Show::Pools),
        [
            "app,ann,1,0,0,0,0,0,0,0,0,0,1,0,0,transaction,-,not tried yet,-,0,-",
            "app,owner,2,1,0,0,1,0,0,3,0,0,0,2,500000,transaction,-,not tried yet,-,0,-",
            "pgbouncer,pgbouncer,1,0,0,0,0,0,0,0,0,0,0,0,0,statement,-,healthy,-,0,-",
        ]
    );
}

#[test]
fn refusals_are_counted_by_class_and_those_without_a_pool_are_there() {
    assert_eq!(lines(Show::Refusals), ["app,joe,7,0,2,0,0", "-,-,0,0,0,3,1"]);
}

#[test]
fn the_cluster_shows_who_has_how_much_and_nodes_without_anything() {
    let share = |node: &str, share, shortfall| ClusterShare {
        node: node.into(),
        share,
        floor: 1,
        shortfall,
        ..Default::default()
    };
    let node =
        |name: &str, state| ClusterNode { name: name.into(), version: "1.0".into(), state, ..Default::default() };
    let pool = ClusterPool { name: "app".into(), budget: 12, shares: vec![share("a", 8, 2), share("gone", 4, 0)] };
    let mut nodes = vec![node("a", "member"), node("b", "member"), node("c", "left")];
    for (node, id) in nodes.iter_mut().zip(1..) {
        node.peer = Some((id, Target { host: Host::parse("10.0.0.1"), port: 6432 }));
    }
    let view = ClusterView { node: "a".into(), nodes, pools: vec![pool], ..Default::default() };
    let report = Report { cluster: Some(Arc::new(view)), ..Report::default() };
    let config = Config::default();
    let snapshot = Snapshot { report: &report, config: &config, version: "", now_wall: 0, hides_queries: false };
    let lines = |what| -> Vec<String> {
        let joined = |row: &Row| row.iter().map(|value| value.as_deref().unwrap_or("-")).collect::<Vec<_>>().join(",");
        show(what, &snapshot).rows.iter().map(joined).collect()
    };
    let left = "c,left,1.0,-,0,0,0,0,0,";
    assert_eq!(
        lines(Show::Cluster),
        ["a,member,1.0,app,12,8,1,2,0,", "b,member,1.0,-,0,0,0,0,0,", left, "gone,lost,,app,12,4,1,0,0,"]
    );
    assert_eq!(lines(Show::Peers), ["2,10.0.0.1,6432,20"], "neither itself nor one that has left");
}

#[test]
fn faults_of_weir_itself_say_what_since_when_and_what_to_do() {
    let fault = |kind, problem, since| {
        let (summary, advice) = ("what".to_owned(), "do this".to_owned());
        Fault { kind, problem, summary, advice, since, ..Fault::default() }
    };
    let known = Report {
        faults: [fault("disk", true, 951_782_400_000_000), fault("certificate", false, 1_709_251_199_000_000)].into(),
        ..Report::default()
    };
    let mut report = Report::default();
    report.merge(known);
    report.merge(Report::default());
    let config = Config::default();
    let rows = show(
        Show::Faults,
        &Snapshot { report: &report, config: &config, version: "", now_wall: 0, hides_queries: false },
    )
    .rows;
    let lines: Vec<String> =
        rows.into_iter().map(|row| row.into_iter().flatten().collect::<Vec<_>>().join(",")).collect();
    assert_eq!(
        lines,
        ["disk,now,2000-02-29 00:00:00 UTC,what,do this", "certificate,ahead,2024-02-29 23:59:59 UTC,what,do this"]
    );
}

#[test]
fn databases_show_what_is_configured_and_what_is_in_use() {
    assert_eq!(
        lines(Show::Databases),
        [
            "app,127.0.0.1,5433,app_db,owner,7,2,3,1800,transaction,-,0,5,0,4,1,0,-,0,1,0",
            "pgbouncer,-,6000,pgbouncer,pgbouncer,2,0,0,1800,statement,-,0,0,0,1,0,0,-,0,1,0",
            "zoo,/run/postgresql,5432,zoo,-,20,0,0,1800,-,-,0,0,0,0,0,1,-,0,1,0",
        ]
    );
}

#[test]
fn users_are_those_who_may_log_in_and_those_we_log_in_as() {
    let expected = ["ann,,,-,0,1,0,0", "joe,,,-,0,0,0,2", "owner,,,-,0,4,0,0", "pgbouncer,,,-,0,0,0,0"];
    assert_eq!(lines(Show::Users), expected);
}

#[test]
fn clients_are_shown_without_those_that_log_in() {
    let rest = "127.0.0.1,40000,127.0.0.1,6000,2000-02-29 00:00:00 UTC,2000-02-29 00:00:01 UTC,1,7";
    let pinned = "listen,2000-02-29 00:00:01 UTC,listen a";
    assert_eq!(
        lines(Show::Clients),
        [
            format!("C,joe,app,none,waiting,{rest},0,0x70,0x71,0,,psql,4,4,-,-,-"),
            "C,(nouser),(nodb),none,active_cancel_req,,0,,0,,,0,0,0,0x0,,0,,,0,3,-,-,-".to_owned(),
            format!("C,joe,app,none,active,{rest},0,0x70,0x71,0,,psql,4,9,{pinned}"),
        ]
    );
}

#[test]
fn a_server_and_its_client_point_at_each_other() {
    let rest = "127.0.0.1,40000,127.0.0.1,6000,2000-02-29 00:00:00 UTC,2000-02-29 00:00:01 UTC,1,7";
    let pinned = "listen,2000-02-29 00:00:01 UTC,listen a";
    assert_eq!(
        lines(Show::Servers),
        [
            format!("S,owner,app,none,active,{rest},0,0x71,0x70,0,,psql,4,5,{pinned}"),
            format!("S,owner,app,none,idle,{rest},1,0x71,,0,,psql,4,6,-,-,-"),
        ]
    );
}

#[test]
fn sockets_are_all_but_cancel_requests_and_active_ones_those_in_use() {
    let states = |what| -> Vec<String> { table(what).rows.into_iter().map(|mut row| row.remove(4).unwrap()).collect() };
    assert_eq!(states(Show::Sockets), ["cl_waiting", "cl_login", "cl_active", "sv_active", "sv_idle"]);
    assert_eq!(states(Show::ActiveSockets), ["cl_waiting", "cl_login", "cl_active", "sv_active"]);
}

#[test]
fn totals_and_averages_are_shown_by_database() {
    assert_eq!(
        lines(Show::Stats),
        [
            "app,0,300,0,2100,0,15000,0,0,0,0,0,0,2,0,210,0,50,0,0,0,0,0,0,0",
            "pgbouncer,0,30,0,210,0,1500,0,0,0,0,0,0,2,0,21,0,50,0,0,0,0,0,0,0",
            "zoo,0,100,0,700,0,5000,0,0,0,0,0,0,2,0,70,0,50,0,0,0,0,0,0,0",
        ]
    );
    assert_eq!(lines(Show::StatsTotals)[0], "app,0,300,0,2100,0,15000,0,0,0,0,0,0");
    assert_eq!(lines(Show::StatsAverages)[2], "zoo,0,2,0,70,0,50,0,0,0,0,0,0");
}

#[test]
fn totals_are_those_of_all_databases_and_of_the_console() {
    let lines = lines(Show::Totals);
    assert_eq!(lines.len(), 24);
    assert_eq!(lines[0], "total_server_assignment_count,0");
    assert_eq!(lines[1], "total_xact_count,430");
    assert_eq!(lines[3], "total_client_bytes,3010");
    assert_eq!(lines[8], "total_ps_client_parse_count,0");
    assert_eq!(lines[13], "avg_xact_count,6");
    assert_eq!(lines[17], "avg_xact_time,50");
    assert_eq!(lines[22], "avg_ps_bind_count,0");
}

#[test]
fn peers_are_listed_with_the_requests_that_are_passed_on_to_them() {
    assert_eq!(lines(Show::Peers), ["2,/run/two,6433,9"]);
    assert_eq!(lines(Show::PeerPools), ["2,2,2,2,1"]);
}

#[test]
fn the_lists_count_what_the_other_tables_show() {
    let expected = [
        "databases,3",
        "users,4",
        "peers,1",
        "pools,3",
        "peer_pools,1",
        "free_clients,59",
        "used_clients,6",
        "login_clients,1",
        "free_servers,0",
        "used_servers,5",
        "dns_names,1",
        "dns_zones,0",
        "dns_queries,0",
        "dns_pending,0",
    ];
    assert_eq!(lines(Show::Lists), expected);
}

#[test]
fn the_process_tells_its_version_its_state_and_its_memory() {
    assert_eq!(lines(Show::Version), ["Weir 0.1.0"]);
    assert_eq!(lines(Show::State), ["active,no", "paused,yes", "suspended,no"]);
    assert_eq!(lines(Show::Mem), ["client_cache,100,5,59,6400"]);
    assert_eq!(lines(Show::Help).join("\n\t"), help_text().trim_start());
}

#[test]
fn the_settings_are_shown_with_their_defaults_by_pgbouncers_names() {
    let lines = lines(Show::Config);
    assert!(lines.is_sorted());
    for expected in ["listen_port,6000,6432,no", "pool_mode,session,auto,yes", "server_lifetime,1800,3600,yes"] {
        assert!(lines.iter().any(|line| line == expected), "{expected} is not among {lines:#?}");
    }
}

#[test]
fn a_parameter_that_a_driver_asks_for_is_a_table_of_its_own() {
    for parameter in Parameter::ALL {
        let table = table(Show::Parameter(parameter));
        assert_eq!(table.columns, [Column { name: parameter.name(), kind: ColumnType::Text }]);
        assert_eq!(table.rows, [[Some(parameter.value().to_owned())]]);
    }
}

#[test]
fn a_table_that_lists_connections_makes_its_rows_of_them_alone() {
    let (config, report) = (config(), report());
    let snapshot =
        Snapshot { report: &report, config: &config, version: "Weir 0.1.0", now_wall: 0, hides_queries: false };
    for entry in TABLES.iter().filter(|entry| !entry.show.lists().is_empty()) {
        assert!(show(entry.show, &snapshot).rows.is_empty(), "{}", entry.show.name());
        assert!(!table(entry.show).rows.is_empty(), "{}", entry.show.name());
    }
}

#[test]
fn no_table_tells_a_password() {
    for entry in &TABLES {
        // Settings' names have the word; their values are references.
        let text = lines(entry.show).join("\n").replace("client_secret", "").replace("secrets_key_file", "");
        assert!(!text.contains("secret"), "{}", entry.show.name());
    }
}

#[test]
fn names_are_listed_with_what_is_left_of_their_time_and_their_addresses() {
    assert_eq!(lines(Show::DnsHosts), ["db.example,9,10.0.0.1,10.0.0.2"]);
}
