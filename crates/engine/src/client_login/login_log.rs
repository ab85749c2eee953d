//! The log's lines about logins of clients, as PgBouncer writes them.
//!
//! Owns no state. Lines about connections follow `log_connections`; a user that does not exist is always reported.

use weir_session::startup::{Replication, StartupRequest};

use crate::client::slot::ClientSlot;
use crate::common::Cx;
use crate::log;
use crate::port::{Io, Level};

/// A client's user, database and login method are known; whether the client can prove who it is, is not.
pub(super) fn attempt<I: Io>(cx: &mut Cx<'_, I>, client: &ClientSlot, request: &StartupRequest) {
    let config = cx.common.config();
    if !config.log.connections {
        return;
    }
    let tls = client.tls.as_ref().map_or("no", |tls| &tls.description);
    let replication = match request.replication {
        Replication::None => "no",
        Replication::Logical => "database",
        Replication::Physical => "yes",
    };
    let (database, user) = (&request.database, &request.user);
    let text = format_args!("login attempt: db={database} user={user} tls={tls} replication={replication}");
    log::log_client(Level::Info, config, client, database, text, cx.io);
}

/// This line of the HBA file decides how the client must log in.
pub(super) fn rule_matched<I: Io>(cx: &mut Cx<'_, I>, client: &ClientSlot, database: &str, line: usize) {
    let text = format_args!("HBA Line {line} is matched");
    log::log_client(Level::Noise, cx.common.config(), client, database, text, cx.io);
}

/// No list has the client's user, and no server is queried for it.
pub(super) fn unknown_user<I: Io>(cx: &mut Cx<'_, I>, client: &ClientSlot, request: &StartupRequest) {
    let text = format_args!("no such user: {}", request.user);
    log::log_client(Level::Info, cx.common.config(), client, &request.database, text, cx.io);
}

/// A server that was asked knows no such user.
pub(super) fn not_found<I: Io>(cx: &mut Cx<'_, I>, client: &ClientSlot, request: &StartupRequest) {
    failed(cx, client, &request.database, format_args!("login failed: db={}", request.database));
}

/// A client has proven who it is, but there is no such database.
pub(crate) fn no_database<I: Io>(cx: &mut Cx<'_, I>, client: &ClientSlot, database: &str) {
    failed(cx, client, database, format_args!("login failed: db={database} user={}", client.user));
}

fn failed<I: Io>(cx: &mut Cx<'_, I>, client: &ClientSlot, database: &str, text: std::fmt::Arguments<'_>) {
    let config = cx.common.config();
    if config.log.connections {
        log::log_client(Level::Info, config, client, database, text, cx.io);
    }
}
