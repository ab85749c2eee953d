//! Tables about the process itself: LISTS, VERSION, STATE, MEM, and those whose rows come with later features.

use weir_base::Target;
use weir_config::PeerRules;

use super::table::{Column, Row, Snapshot, bytea, int4, int8, text, text_column};
use crate::records::{DnsRecord, PeerPoolRecord, PoolRecord, ServiceState};

pub(super) const LISTS: &[Column] = &[text_column("list"), int4("items")];

pub(super) const VERSION: &[Column] = &[text_column("version")];

/// The table of SHOW HELP, for callers that can't show the console's notice.
pub(super) const HELP: &[Column] = &[text_column("help")];

pub(super) const STATE: &[Column] = &[text_column("key"), text_column("value")];

/// Sizes are int8 here: PgBouncer's int4 ends at 2 GB.
pub(super) const MEM: &[Column] = &[text_column("name"), int4("size"), int4("used"), int4("free"), int8("memtotal")];

pub(super) const DNS_HOSTS: &[Column] = &[text_column("hostname"), int8("ttl"), text_column("addrs")];

pub(super) const DNS_ZONES: &[Column] = &[text_column("zonename"), int8("serial"), int4("count")];

pub(super) const PEERS: &[Column] = &[int4("peer_id"), text_column("host"), int4("port"), int4("pool_size")];

pub(super) const PEER_POOLS: &[Column] = &[
    int4("peer_id"),
    int4("cl_active_cancel_req"),
    int4("cl_waiting_cancel_req"),
    int4("sv_active_cancel"),
    int4("sv_login"),
];

pub(super) const FDS: &[Column] = &[
    int4("fd"),
    text_column("task"),
    text_column("user"),
    text_column("database"),
    text_column("addr"),
    int4("port"),
    int8("cancel"),
    int4("link"),
    text_column("client_encoding"),
    text_column("std_strings"),
    text_column("datestyle"),
    text_column("timezone"),
    text_column("password"),
    bytea("scram_client_key"),
    bytea("scram_server_key"),
];

/// Host names of servers, with the answers of their last look-ups.
pub(super) fn dns_hosts(snapshot: &Snapshot<'_>) -> Vec<Row> {
    let row = |record: &DnsRecord| {
        let addresses: Vec<String> = record.addresses.iter().map(ToString::to_string).collect();
        vec![text(&record.hostname), text(record.ttl.micros() / 1_000_000), text(addresses.join(","))]
    };
    snapshot.report.dns.iter().map(row).collect()
}

/// The number of each kind. The console counts as one database and one pool, as in the other tables.
pub(super) fn lists(snapshot: &Snapshot<'_>) -> Vec<Row> {
    let report = snapshot.report;
    let clients: u32 = report.pools.iter().map(PoolRecord::clients).sum();
    let servers: u32 = report.pools.iter().map(PoolRecord::servers).sum();
    let free = |name: &str| report.memory.iter().filter(|m| m.name == name).map(|m| m.free).sum::<u64>();
    let counts: [(&str, u64); 14] = [
        ("databases", super::pools::databases(snapshot).len() as u64),
        ("users", super::pools::user_names(snapshot).len() as u64),
        ("peers", snapshot.config.peers.len() as u64),
        ("pools", super::pools::pools(snapshot).len() as u64),
        ("peer_pools", report.peers.len() as u64),
        ("free_clients", free("client_cache")),
        ("used_clients", u64::from(clients) + u64::from(report.console_clients) + u64::from(report.login_clients)),
        ("login_clients", u64::from(report.login_clients)),
        ("free_servers", free("server_cache")),
        ("used_servers", u64::from(servers)),
        ("dns_names", report.dns.len() as u64),
        ("dns_zones", 0),
        ("dns_queries", 0),
        ("dns_pending", 0),
    ];
    counts.into_iter().map(|(list, items)| vec![text(list), text(items)]).collect()
}

/// The other processes behind the same address. A pool size that is not given is that of all pools.
pub(super) fn peers(snapshot: &Snapshot<'_>) -> Vec<Row> {
    let size = snapshot.config.limits.size;
    let row = |(id, peer): (&u16, &PeerRules)| {
        vec![text(id), text(&peer.host), text(peer.port), text(peer.pool_size.unwrap_or(size))]
    };
    let mut rows: Vec<Row> = snapshot.config.peers.iter().map(row).collect();
    if let Some(view) = snapshot.report.cluster.as_ref().filter(|_| snapshot.config.peer_id == 0) {
        let others = view.nodes.iter().filter(|node| node.name != view.node && node.state != "left");
        let node = |(id, at): &(u16, Target)| vec![text(id), text(&at.host), text(at.port), text(size)];
        rows.extend(others.filter_map(|other| other.peer.as_ref()).map(node));
    }
    rows
}

/// The requests to cancel that are passed on to other processes.
pub(super) fn peer_pools(snapshot: &Snapshot<'_>) -> Vec<Row> {
    let row = |peer: &PeerPoolRecord| {
        let logging_in = peer.active - peer.sent;
        [u32::from(peer.peer_id), peer.sent, peer.waiting + logging_in, peer.sent, logging_in].map(text).into()
    };
    snapshot.report.peers.iter().map(row).collect()
}

pub(super) fn version(snapshot: &Snapshot<'_>) -> Vec<Row> {
    vec![vec![text(snapshot.version)]]
}

pub(super) fn help(_: &Snapshot<'_>) -> Vec<Row> {
    crate::console::help_text().split("\n\t").skip(1).map(|line| vec![text(line)]).collect()
}

pub(super) fn state(snapshot: &Snapshot<'_>) -> Vec<Row> {
    let states =
        [("active", ServiceState::Active), ("paused", ServiceState::Paused), ("suspended", ServiceState::Suspended)];
    let is = |state| if snapshot.report.serving == state { "yes" } else { "no" };
    let drain = snapshot.report.drain.map(|drain| vec![text("draining"), text(drain.phase.name())]);
    states.into_iter().map(|(key, state)| vec![text(key), text(is(state))]).chain(drain).collect()
}

pub(super) fn mem(snapshot: &Snapshot<'_>) -> Vec<Row> {
    let row = |of: &crate::records::MemoryRecord| {
        let total = of.size.saturating_mul(of.used.saturating_add(of.free));
        vec![text(of.name), text(of.size), text(of.used), text(of.free), text(total)]
    };
    snapshot.report.memory.iter().map(row).collect()
}
