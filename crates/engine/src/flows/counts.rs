//! Counters of clients that need several parts: refusals, and lost session state.

use weir_admin::Refusals;
use weir_session::{Refusal, from_server};

use crate::admin::lost;
use crate::engine::Engine;
use crate::peers::{ClientSlot, Entry, ServerSlot};
use crate::port::{Io, Level};

impl Engine {
    /// A client is refused or disconnected: counts it at its pool, or at the one that it requested, if that is here.
    pub(crate) fn count_refusal(&mut self, client: &ClientSlot, refusal: &Refusal) {
        let pool = client.pool().or_else(|| {
            let database = client.requested_database();
            let config = self.common.config();
            let pool = config.pool(database)?;
            let user = pool.user.as_deref().unwrap_or(&client.user);
            let own = self.pools.find(&database.into(), &user.into());
            own.or_else(|| {
                // A failed auth_query: the pool that it was to run in, as there is no other.
                let asks = pool.auth_user.as_ref().or(config.auth.query_user.as_ref())?;
                self.pools.find(&database.into(), &asks.as_str().into())
            })
        });
        let names = (&*client.user, client.application(&self.sessions.params), client.phase.has_logged_in());
        self.admin.refusals.count(pool.map(|ix| self.pools.get_mut(ix)), refusal, names);
    }

    /// Requests of a client failed because of a limit of statements. The log has one line for each client.
    #[inline]
    pub(crate) fn requests_refused<I: Io>(&mut self, client: &mut ClientSlot, refused: &[&'static str], io: &mut I) {
        let Some(what) = refused.first() else { return };
        self.pools.get_mut(client.pool).counts.refusals.limit_reached += refused.len() as u64;
        if self.common.config().log.pooler_errors && !std::mem::replace(&mut client.statements_refused, true) {
            let text = format_args!("request refused: {what}; further ones of this client are only counted");
            self.log_client(Level::Warning, client, text, io);
        }
    }

    /// Counts what the client of a server lost or was refused; the log names each kind once a pool.
    #[cold]
    pub(crate) fn count_lost<I: Io>(&mut self, server: &ServerSlot, unusual: &from_server::Unusual, io: &mut I) {
        let pool = self.pools.get_mut(server.pool);
        let new = lost::count(pool, unusual);
        let client = server.link.filter(|_| !new.is_empty()).and_then(|client| self.peers.take_client(client));
        if let Some(mut client) = client {
            lost::log(self.common.config(), new, unusual, &mut client, &pool.name, &self.sessions.params, io);
            self.peers.put(client.peer, Entry::Client(client));
        }
    }

    /// The sum of all refused clients.
    pub fn refusals(&self) -> Refusals {
        self.admin.refusals.sum(&self.pools)
    }
}
