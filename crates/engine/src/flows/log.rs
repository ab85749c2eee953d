//! Lines of the log that need names from the tables of peers and pools.

use std::fmt;

use crate::engine::Engine;
use crate::log::{log_client, log_server};
use crate::peers::{ClientSlot, ServerSlot};
use crate::port::{Io, Level};

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
        log_client(level, self.common.config(), client, self.database_of(client), text, io);
    }

    /// A line about a server.
    pub(crate) fn log_server<I: Io>(&self, level: Level, server: &ServerSlot, text: fmt::Arguments<'_>, io: &mut I) {
        let pool = self.pools.get(server.pool);
        log_server(level, server, (&pool.name, &pool.user), text, io);
    }
}
