//! A server is lost, or closed: the consequences for its client and its pool.

use weir_base::{Peer, Time};
use weir_config::LoginFailure;
use weir_pool::Acquire;
use weir_session::{Refusal, ServerError};

use crate::backends::login::own_error;
use crate::backends::outlook::FailedLogin;
use crate::common::FollowUp;
use crate::engine::Engine;
use crate::peers::{ClientPhase, Entry, ServerPhase, ServerSlot, ServerState};
use crate::port::{Io, Level};

impl Engine {
    /// A server's connection has ended, or is closed because the server can't be trusted; it is out of the table.
    pub(crate) fn server_gone<I: Io>(&mut self, now: Time, mut server: Box<ServerSlot>, io: &mut I) {
        let (peer, ix) = (server.peer, server.pool);
        let Some(phase) = server.phase().filter(|_| !server.is_new()) else {
            let shaking = matches!(server.state, ServerState::TlsHandshake);
            let ending = if shaking { LoginFailure::Handshake } else { LoginFailure::Other };
            let failed = match server.fatal_error.take() {
                Some(Refusal::ServerDown { sqlstate, message, .. }) => {
                    FailedLogin::answered(ServerError { sqlstate, message })
                }
                _ => FailedLogin::away(own_error("server closed the connection during the login".to_owned())),
            };
            return self.login_failed(now, server, failed.or(ending), io);
        };
        if self.common.config().log.disconnections {
            let age = now.since(server.connection.connected_at()).micros() / 1_000_000;
            let text = format_args!("closing because: server conn crashed? (age={age}s)");
            self.log_server(Level::Info, &server, text, io);
        }
        self.pools.get_mut(ix).pool.lost(peer, now);
        self.keep_trying(now, ix);
        self.takeover.left(peer);
        self.common.follow_up(FollowUp::PollPool(ix));
        match phase {
            ServerPhase::AuthQuery(query) => return self.auth_query_lost(now, query, server.fatal_error, io),
            ServerPhase::Lending { request, .. } => return self.lending_failed(ix, request, io),
            _ => {}
        }
        let Some(client) = server.link else { return };
        let Some(mut client) = self.peers.take_client(client) else { return };
        client.link = None;
        client.cut = server.up().is_some_and(|(up, _)| up.is_mid_message());
        if matches!(phase, ServerPhase::Checking | ServerPhase::SyncingParameters)
            && matches!(client.phase, ClientPhase::Ready(_) | ClientPhase::Welcome(_))
        {
            // Nothing of the client's was sent yet: it may get another server, at its old position in the queue.
            let (peer, since) = (client.peer, client.request_at);
            let cancelled = client.ready().is_some_and(|session| session.is_cancelled());
            self.peers.put(peer, Entry::Client(client));
            if cancelled {
                return self.resume_client(peer, io);
            }
            return self.requeue(now, ix, peer, since, io);
        }
        if phase == ServerPhase::Streaming {
            let peer = client.peer;
            self.peers.put_client(client);
            return self.end_stream(now, peer, "server conn crashed?", io);
        }
        let seen = server.fatal_error.as_ref().is_some_and(|error| !matches!(error, Refusal::ServerUnexpected));
        if seen {
            // It has received the server's own error.
            io.close_after_error(client.peer);
            return self.remove_client(now, client, "server conn crashed?", io);
        }
        let refusal = server.fatal_error.unwrap_or(Refusal::ServerLost);
        self.refuse(now, client, refusal, io);
    }

    fn requeue<I: Io>(&mut self, now: Time, ix: u32, client: Peer, since: Time, io: &mut I) {
        match self.pools.get_mut(ix).pool.requeue(client, since, now) {
            Acquire::Granted { server, check } => self.grant(now, client, server, check, io),
            Acquire::Queued => {}
            Acquire::Refused(why) => {
                let refusal = self.refusal(ix, why);
                self.refuse_handle(now, client, refusal, io);
            }
        }
    }

    /// Closes a server that is up and has no client to notify, and reports it to the pool.
    pub(crate) fn close_server<I: Io>(&mut self, now: Time, server: Peer, why: &str, io: &mut I) {
        if let Some(server) = self.peers.take_server(server) {
            self.close_server_slot(now, server, why, io);
        }
    }

    /// The same for one that is out of the table.
    pub(crate) fn close_server_slot<I: Io>(&mut self, now: Time, server: Box<ServerSlot>, why: &str, io: &mut I) {
        let ix = server.pool;
        self.pools.get_mut(ix).pool.lost(server.peer, now);
        self.takeover.left(server.peer);
        self.common.follow_up(FollowUp::PollPool(ix));
        let phase = server.phase();
        self.disconnect_server(server, why, io);
        match phase {
            Some(ServerPhase::AuthQuery(query)) => self.auth_query_lost(now, query, None, io),
            Some(ServerPhase::Lending { request, .. }) => self.lending_failed(ix, request, io),
            _ => {}
        }
    }

    /// Closes a server that the pool no longer has.
    pub(crate) fn disconnect_server<I: Io>(&mut self, server: Box<ServerSlot>, why: &str, io: &mut I) {
        let now = self.common.now();
        self.end_connection(&server, io);
        if self.common.config().log.disconnections {
            let age = now.since(server.connection.connected_at()).micros() / 1_000_000;
            self.log_server(Level::Info, &server, format_args!("closing because: {why} (age={age}s)"), io);
        }
    }

    /// Marks a server to be closed at its release.
    pub(crate) fn mark_for_close(&mut self, server: Peer) {
        if let Some(server) = self.peers.server(server) {
            server.marked_for_close = true;
        }
    }
}
