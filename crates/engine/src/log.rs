//! Lines of the log that are about a client or a server, in one form.
//!
//! Owns how a peer is named there. Must not decide what is worth a line.

use std::fmt;

use crate::Engine;
use crate::peers::{ClientSlot, ServerSlot};
use crate::port::{About, Io, Level, Side};

impl Engine {
    /// The database that a client named, as far as it is known.
    pub(crate) fn database_of<'a>(&'a self, client: &'a ClientSlot) -> &'a str {
        match client.requested_database() {
            "" => client.pool().map_or("", |ix| &self.pools.get(ix).name),
            requested => requested,
        }
    }

    /// A line about a client.
    pub(crate) fn log_client<I: Io>(&self, level: Level, client: &ClientSlot, text: fmt::Arguments<'_>, io: &mut I) {
        log_client(level, client, self.database_of(client), text, io);
    }

    /// A line about a server.
    pub(crate) fn log_server<I: Io>(&self, level: Level, server: &ServerSlot, text: fmt::Arguments<'_>, io: &mut I) {
        let pool = self.pools.get(server.pool);
        let address = server.connection.address();
        let (database, user) = (&*pool.name, &*pool.user);
        io.log(level, About::Peer { side: Side::Server, id: server.id, database, user, address: &address }, text);
    }
}

/// A line about a client, which has named this database.
pub(crate) fn log_client<I: Io>(
    level: Level,
    client: &ClientSlot,
    database: &str,
    text: fmt::Arguments<'_>,
    io: &mut I,
) {
    if !io.logs(level) {
        return;
    }
    let address = client.addr.to_string();
    let about = About::Peer { side: Side::Client, id: client.id, database, user: &client.user, address: &address };
    io.log(level, about, text);
}

/// A line about the process or a pool.
pub(crate) fn log<I: Io>(level: Level, text: fmt::Arguments<'_>, io: &mut I) {
    io.log(level, About::Process, text);
}
