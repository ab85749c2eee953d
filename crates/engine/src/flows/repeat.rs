//! A client's messages are read again, for a server that refused its statement for what the client could not know.

use weir_base::Time;
use weir_session::Repeat;

use crate::engine::Engine;
use crate::peers::ServerSlot;
use crate::port::Io;

impl Engine {
    /// The first messages of a client's transaction, or the first in its block, had no effect on its server, and nobody has seen the
    /// answer: they are read again, before what the client has sent since. Its server is the same.
    #[cold]
    pub(crate) fn repeat<I: Io>(&mut self, now: Time, server: Box<ServerSlot>, repeat: Repeat, io: &mut I) {
        let client = server.link.and_then(|client| self.peers.take_client(client));
        let (peer, cancels) = (server.peer, server.cancels > 0);
        self.peers.put_server(server);
        let Some(mut client) = client else { return self.release(now, peer, io) };
        let Repeat { mut messages, counted: (binds, parses), cancelled } = repeat;
        let stats = &mut self.pools.get_mut(client.pool).counts.stats;
        stats.received = stats.received.saturating_sub(messages.len() as u64);
        stats.bind_count = stats.bind_count.saturating_sub(binds);
        stats.client_parse_count = stats.client_parse_count.saturating_sub(parses);
        messages.append(&mut client.waiting);
        if cancelled || cancels {
            // The request that it means has not begun.
            client.ready().into_iter().for_each(|session| session.cancel());
        }
        self.unpause_client(&mut client, io);
        if client.pause.peer_full {
            client.waiting = messages;
            return self.peers.put_client(client);
        }
        self.feed(now, client, &messages, None, io);
    }
}
