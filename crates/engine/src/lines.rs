//! Lines of the log about a client or a server, with the names from the tables.

use std::fmt;

use weir_base::Time;

use crate::client::slot::{ClientPhase, ClientSlot};
use crate::core::Core;
use crate::log::{log_client, log_server};
use crate::port::{Io, Level};
use crate::server::slot::ServerSlot;

/// The database that a client named, as far as it is known.
pub(crate) fn database_of<'a>(core: &'a Core, client: &'a ClientSlot) -> &'a str {
    match client.requested_database() {
        "" => client.pool().map_or("", |ix| &core.pools.get(ix).name),
        requested => requested,
    }
}

/// A line about a client.
pub(crate) fn about_client<I: Io>(
    core: &Core,
    level: Level,
    client: &ClientSlot,
    text: fmt::Arguments<'_>,
    io: &mut I,
) {
    log_client(level, core.common.config(), client, database_of(core, client), text, io);
}

/// A line about a server.
pub(crate) fn about_server<I: Io>(
    core: &Core,
    level: Level,
    server: &ServerSlot,
    text: fmt::Arguments<'_>,
    io: &mut I,
) {
    let pool = core.pools.get(server.pool);
    log_server(level, server, (&pool.name, &pool.user), text, io);
}

/// The line in the log that a server's connection ends.
pub(crate) fn server_ends<I: Io>(core: &mut Core, now: Time, server: &ServerSlot, why: &str, io: &mut I) {
    if core.common.config().log.disconnections {
        let age = now.since(server.connection.connected_at()).micros() / 1_000_000;
        about_server(core, Level::Info, server, format_args!("closing because: {why} (age={age}s)"), io);
    }
}

/// The line in the log that a client's connection ends.
pub(crate) fn client_leaves<I: Io>(core: &Core, now: Time, client: &ClientSlot, why: &str, io: &mut I) {
    if core.common.config().log.disconnections && !matches!(client.phase, ClientPhase::Canceller) {
        let age = now.since(client.connected_at).micros() / 1_000_000;
        about_client(core, Level::Info, client, format_args!("closing because: {why} (age={age}s)"), io);
    }
}
