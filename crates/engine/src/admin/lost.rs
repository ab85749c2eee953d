//! Session state that clients lost at the end of a transaction, or were refused: counted, and said once in the log.
//!
//! What is lost is decided in `weir-session`, which also warns the client.

use weir_admin::STATE_KINDS;
use weir_pgwire::Dirty;
use weir_session::from_server::ServerOutcome;

use crate::Engine;
use crate::peers::{Entry, ServerSlot};
use crate::port::{Io, Level};

impl Engine {
    /// Counts what the client of a server lost or was refused. The log names each kind once a pool, with the application
    /// that did it first: whoever reads it can find the program that needs session mode.
    #[cold]
    pub(crate) fn count_lost<I: Io>(&mut self, server: &ServerSlot, told: &ServerOutcome, io: &mut I) {
        let pool = self.pools.get_mut(server.pool);
        for (place, kind) in Dirty::KINDS.into_iter().enumerate() {
            let counter = pool.tally.lost.of(place);
            counter.lost += u64::from(told.lost.contains(kind));
            counter.refused += u64::from(told.refused_state.contains(kind));
        }
        let new = told.lost.union(told.refused_state).without(pool.lost_logged);
        pool.lost_logged.insert(new);
        let Some(mut client) =
            server.link.filter(|_| !new.is_empty()).and_then(|client| self.peers.take_client(client))
        else {
            return;
        };
        let params = client.ready().map(|session| session.params().clone());
        let application = params.as_ref().and_then(|params| self.sessions.params.get(params, "application_name"));
        let application = application.unwrap_or_default();
        for (place, kind) in Dirty::KINDS.into_iter().enumerate().filter(|(_, kind)| new.contains(*kind)) {
            let what = STATE_KINDS[place];
            let done =
                if told.refused_state.contains(kind) { "was refused" } else { "was lost at the end of a transaction" };
            let text = format_args!(
                "session state of the kind \"{what}\" {done} (application_name \"{application}\"); see SHOW LOST_STATE"
            );
            self.log_client(Level::Warning, &client, text, io);
        }
        self.peers.put(client.peer, Entry::Client(client));
    }
}

const _: () = assert!(STATE_KINDS.len() == Dirty::KINDS.len());
