//! SHOW CLIENTS, SERVERS, SOCKETS and ACTIVE_SOCKETS: one row a connection.

use super::{Column, Facts, Row, flag, int4, int8, text, text_column};
use crate::clock::timestamp;
use crate::records::SocketRecord;

/// `id` is an int8 here: PgBouncer's int4 wraps after two thousand million connections.
pub(super) const CONNECTIONS: &[Column] = SOCKETS.split_at(21).0;

pub(super) const SOCKETS: &[Column] = &[
    text_column("type"),
    text_column("user"),
    text_column("database"),
    text_column("replication"),
    text_column("state"),
    text_column("addr"),
    int4("port"),
    text_column("local_addr"),
    int4("local_port"),
    text_column("connect_time"),
    text_column("request_time"),
    int4("wait"),
    int4("wait_us"),
    int4("close_needed"),
    text_column("ptr"),
    text_column("link"),
    int4("remote_pid"),
    text_column("tls"),
    text_column("application_name"),
    int4("prepared_statements"),
    int8("id"),
    int4("recv_pos"),
    int4("pkt_pos"),
    int4("pkt_remain"),
    int4("send_pos"),
    int4("send_remain"),
    int4("pkt_avail"),
    int4("send_avail"),
];

/// Which side a connection belongs to.
#[derive(Clone, Copy)]
enum Side {
    Client,
    Server,
}

/// Clients that are logged in, by id.
pub(super) fn clients(facts: &Facts<'_>) -> Vec<Row> {
    let shown = facts.report.clients.iter().filter(|client| client.state != "login");
    by_id(shown).into_iter().map(|client| row(Side::Client, client, client.state)).collect()
}

/// Connections to servers, by id.
pub(super) fn servers(facts: &Facts<'_>) -> Vec<Row> {
    by_id(facts.report.servers.iter()).into_iter().map(|server| row(Side::Server, server, server.state)).collect()
}

/// Every connection that is no cancel request.
pub(super) fn sockets(facts: &Facts<'_>) -> Vec<Row> {
    debug_rows(facts, |_| true)
}

/// PgBouncer lists connections with something in their buffer. Here a connection has no buffer of its own; those that
/// are in use or wait for a server stand for them.
pub(super) fn active_sockets(facts: &Facts<'_>) -> Vec<Row> {
    debug_rows(facts, |socket| matches!(socket.state, "active" | "waiting" | "tested" | "new" | "login"))
}

fn debug_rows(facts: &Facts<'_>, shown: fn(&SocketRecord) -> bool) -> Vec<Row> {
    let clients = by_id(facts.report.clients.iter()).into_iter().map(|client| (Side::Client, client));
    let servers = by_id(facts.report.servers.iter()).into_iter().map(|server| (Side::Server, server));
    let wanted = clients.chain(servers).filter(|(_, socket)| shown(socket));
    wanted.filter_map(|(side, socket)| debug_row(side, socket)).collect()
}

fn by_id<'a>(sockets: impl Iterator<Item = &'a SocketRecord>) -> Vec<&'a SocketRecord> {
    let mut sorted: Vec<&SocketRecord> = sockets.collect();
    sorted.sort_unstable_by_key(|socket| socket.id);
    sorted
}

/// A row with the columns of a debugger, all zero: what they tell of is not kept by connection. None for a cancel
/// request, which these tables leave out.
fn debug_row(side: Side, socket: &SocketRecord) -> Option<Row> {
    let mut values = row(side, socket, debug_state(side, socket.state)?);
    values.resize_with(SOCKETS.len(), || text(0));
    Some(values)
}

/// The longer words that SHOW SOCKETS has for the states of SHOW CLIENTS and SERVERS.
fn debug_state(side: Side, state: &str) -> Option<&'static str> {
    Some(match (side, state) {
        (Side::Client, "active" | "idle") => "cl_active",
        (Side::Client, "waiting") => "cl_waiting",
        (Side::Client, "login") => "cl_login",
        (Side::Server, "active") => "sv_active",
        (Side::Server, "idle") => "sv_idle",
        (Side::Server, "used") => "sv_used",
        (Side::Server, "tested") => "sv_tested",
        (Side::Server, "new") => "sv_login",
        _ => return None,
    })
}

fn row(side: Side, socket: &SocketRecord, state: &str) -> Row {
    let kind = match side {
        Side::Client => "C",
        Side::Server => "S",
    };
    let wait = socket.wait.micros();
    vec![
        text(kind),
        text(or(&socket.user, "(nouser)")),
        text(or(&socket.database, "(nodb)")),
        text("none"),
        text(state),
        text(&socket.addr),
        text(socket.port),
        text(&socket.local_addr),
        text(socket.local_port),
        text(timestamp(socket.connect_time)),
        text(timestamp(socket.request_time)),
        text(wait / 1_000_000),
        text(wait % 1_000_000),
        flag(socket.close_needed),
        text(format_args!("{:#x}", socket.ptr)),
        text(socket.link.map(|link| format!("{link:#x}")).unwrap_or_default()),
        text(socket.remote_pid),
        text(&socket.tls),
        text(&socket.application_name),
        text(socket.prepared_statements),
        text(socket.id),
    ]
}

fn or<'a>(value: &'a str, otherwise: &'a str) -> &'a str {
    if value.is_empty() { otherwise } else { value }
}
