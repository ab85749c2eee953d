//! A connection to look at a pool's server, with the pool's own login.
//!
//! Owns its limits on time and bytes, and its end: a connection of a node's share of a pool goes back to it.

use std::time::Duration;

use weir_admin::ProbeError;
use weir_config::{Config, PoolConfig};
use weir_pgclient::{Answer, Bounds, Connection, Error};

use crate::permit::Permit;
use crate::pool_test::{OwnLogin, log_in_as_pool};

/// How long connecting, logging in and the query may take together.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);
/// The most bytes that a server may send for a look over a kept connection.
pub(crate) const MAX_BYTES: usize = 1 << 20;
/// The server ends the query itself after this time, in milliseconds.
const STATEMENT_TIMEOUT: &str = "3000";

/// A read-only connection with a pool's own login.
pub(crate) struct Look {
    pub(crate) connection: Connection,
    pub(crate) user: String,
    permit: Option<Permit>,
    /// Whether it outlasts the look.
    pub(crate) is_kept: bool,
}

impl Look {
    pub(crate) fn query(&mut self, text: &str) -> Result<Answer, Error> {
        self.connection.query(text)
    }

    /// Other bounds from here on, for one that is kept.
    pub(crate) fn renew(&mut self, bounds: Bounds) {
        self.connection.renew(bounds);
    }

    /// Ends the connection.
    pub(crate) fn end(self) {
        // A permit is for another connection when the server counts this one no more.
        if self.connection.end().is_ok() {
            self.permit.into_iter().for_each(Permit::ended);
        }
    }
}

/// Opens such a connection. `permit`: it is one of this node's share, which ends with the node's lease.
pub(crate) fn open(
    config: &Config,
    pool: &PoolConfig,
    application: &str,
    permit: Option<Permit>,
) -> Result<Look, ProbeError> {
    let options = [
        ("application_name", application),
        ("client_encoding", "UTF8"),
        ("statement_timeout", STATEMENT_TIMEOUT),
        ("default_transaction_read_only", "on"),
    ];
    let timeout = permit.as_ref().map_or(TIMEOUT, |permit| permit.limit(TIMEOUT));
    let OwnLogin { connection, user } = log_in_as_pool(timeout, config, pool, &options)?;
    Ok(Look { connection, user, permit, is_kept: false })
}
