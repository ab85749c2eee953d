//! SHOW CLIENTS, SERVERS, SOCKETS and ACTIVE_SOCKETS: one row for each connection.

use super::table::{Column, Row, flag, int4, int8, text, text_column};
use crate::clock::timestamp;
use crate::pins::PinRecord;
use crate::records::SocketRecord;
use crate::show::{Connections, Show};

/// What all these tables begin with. `id` is an int8 here: PgBouncer's int4 wraps after 2³¹ connections.
const COMMON: [Column; PGBOUNCERS_CONNECTIONS] = [
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
];

/// How many columns PgBouncer's SHOW CLIENTS and SHOW SERVERS have.
pub(super) const PGBOUNCERS_CONNECTIONS: usize = 21;

/// The last three are Weir's own.
pub(super) const CONNECTIONS: &[Column] = &joined::<3, { PGBOUNCERS_CONNECTIONS + 3 }>([
    text_column("pinned_by"),
    text_column("pinned_since"),
    text_column("pinned_statement"),
]);

pub(super) const SOCKETS: &[Column] = &joined::<7, { PGBOUNCERS_CONNECTIONS + 7 }>([
    int4("recv_pos"),
    int4("pkt_pos"),
    int4("pkt_remain"),
    int4("send_pos"),
    int4("send_remain"),
    int4("pkt_avail"),
    int4("send_avail"),
]);

/// The common columns, and `more`.
const fn joined<const MORE: usize, const ALL: usize>(more: [Column; MORE]) -> [Column; ALL] {
    let mut all = [COMMON[0]; ALL];
    let mut at = 0;
    while at < ALL {
        all[at] = if at < COMMON.len() { COMMON[at] } else { more[at - COMMON.len()] };
        at += 1;
    }
    all
}

/// A connection's row, if the table has one for it. SHOW CLIENTS leaves out clients that are not logged in yet.
///
/// PgBouncer's ACTIVE_SOCKETS lists connections with data in their buffer. Here a connection has no buffer of its own,
/// so the table lists those that are in use or wait for a server.
pub(super) fn row_of(what: Show, of: Connections, record: &SocketRecord) -> Option<Row> {
    let in_use = || matches!(record.state, "active" | "waiting" | "tested" | "new" | "login");
    match (what, of) {
        (Show::Clients, Connections::Clients) if record.state != "login" => Some(with_pin(of, record)),
        (Show::Servers, Connections::Servers) => Some(with_pin(of, record)),
        (Show::Sockets, _) => debug_row(of, record),
        (Show::ActiveSockets, _) if in_use() => debug_row(of, record),
        _ => None,
    }
}

/// A row with the reason why a client keeps its server.
fn with_pin(side: Connections, socket: &SocketRecord) -> Row {
    let mut values = row(side, socket, socket.state);
    let pin = socket.pinned.as_deref();
    values.push(pin.map(PinRecord::kinds));
    values.push(pin.map(|pin| timestamp(pin.since)));
    values.push(pin.and_then(PinRecord::statement).map(str::to_owned));
    values
}

/// A row with the debugging columns, all zero: a connection has no such figures here. None for a cancel request, which
/// these tables leave out.
fn debug_row(side: Connections, socket: &SocketRecord) -> Option<Row> {
    let mut values = row(side, socket, debug_state(side, socket.state)?);
    values.resize_with(SOCKETS.len(), || text(0));
    Some(values)
}

/// The longer names of states in SHOW SOCKETS.
fn debug_state(side: Connections, state: &str) -> Option<&'static str> {
    Some(match (side, state) {
        (Connections::Clients, "active" | "idle") => "cl_active",
        (Connections::Clients, "waiting") => "cl_waiting",
        (Connections::Clients, "login") => "cl_login",
        (Connections::Servers, "active") => "sv_active",
        (Connections::Servers, "idle") => "sv_idle",
        (Connections::Servers, "used") => "sv_used",
        (Connections::Servers, "tested") => "sv_tested",
        (Connections::Servers, "new") => "sv_login",
        _ => return None,
    })
}

fn row(side: Connections, socket: &SocketRecord, state: &str) -> Row {
    let kind = match side {
        Connections::Clients => "C",
        Connections::Servers => "S",
    };
    let wait = socket.wait.micros();
    vec![
        text(kind),
        text(or(&socket.user, "(nouser)")),
        text(or(&socket.database, "(nodb)")),
        text(or(socket.replication, "none")),
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
