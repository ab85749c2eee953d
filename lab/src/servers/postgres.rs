//! The PostgreSQL of an experiment, with the settings that all experiments share.

use weir_pglocal::{Options, Server};

use crate::lab::Lab;
use crate::steps::LabError;

/// User, owner and password of everything in the experiments' databases.
pub(crate) const USER: &str = "lab";

/// Reduces noise on a small machine; durability is off already, as the data is temporary.
const SETTINGS: &[(&str, &str)] =
    &[("shared_buffers", "256MB"), ("max_wal_size", "4GB"), ("checkpoint_timeout", "1h"), ("jit", "off")];

/// For runs that fill large tables first and must not be vacuumed in the middle: a bulk load need not be logged.
pub(crate) const FILLED: &[(&str, &str)] = &[("autovacuum", "off"), ("wal_level", "minimal"), ("max_wal_senders", "0")];

/// Starts a server with this `max_connections`, and a database of this name owned by [`USER`].
///
/// `weir_pglocal` finds or downloads its programs; `settings` are added to those that all experiments share.
pub(crate) fn start(
    lab: &Lab,
    max_connections: u32,
    database: &str,
    settings: &[(&str, &str)],
) -> Result<Server, LabError> {
    lab.doing("starting PostgreSQL");
    let settings = SETTINGS.iter().chain(settings).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let options = Options { max_connections, settings: settings.collect(), ..Options::default() };
    let server = Server::start(options)?;
    if let Some(version) = server.superuser_connection("postgres")?.value("show server_version")? {
        // Debian adds its package in brackets.
        lab.note_version("PostgreSQL", version.split_whitespace().next().unwrap_or_default());
    }
    server.execute("postgres", &format!("create role {USER} login password '{USER}'"))?;
    server.execute("postgres", &format!("create database \"{database}\" owner {USER}"))?;
    Ok(server)
}
