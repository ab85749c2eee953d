//! Lines of the log about a client or a server, in one form.
//!
//! Owns how a line names a connection. Must not decide what is logged.

use std::fmt;

use weir_config::Config;

use crate::client::slot::ClientSlot;
use crate::port::{About, Io, Level, Side};
use crate::server::slot::ServerSlot;

/// A line about a client that has named this database.
pub(crate) fn log_client<I: Io>(
    level: Level,
    config: &Config,
    client: &ClientSlot,
    database: &str,
    text: fmt::Arguments<'_>,
    io: &mut I,
) {
    if !io.logs(level) {
        return;
    }
    let address = client.addr.with_port(config.listen.port);
    let logged_in = client.phase.has_logged_in();
    let about = About::Connection {
        side: Side::Client,
        id: client.id,
        database,
        user: &client.user,
        address: &address,
        logged_in,
    };
    io.log(level, about, text);
}

/// A line about a server, of the pool of this database and user.
pub(crate) fn log_server<I: Io>(
    level: Level,
    server: &ServerSlot,
    (database, user): (&str, &str),
    text: fmt::Arguments<'_>,
    io: &mut I,
) {
    let address = server.connection.address();
    let about =
        About::Connection { side: Side::Server, id: server.id, database, user, address: &address, logged_in: true };
    io.log(level, about, text);
}

/// A line about the process or a pool.
pub(crate) fn log<I: Io>(level: Level, text: fmt::Arguments<'_>, io: &mut I) {
    io.log(level, About::Process, text);
}
