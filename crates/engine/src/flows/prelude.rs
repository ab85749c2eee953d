//! Queries of Weir on a server that its pool has: those before a client's work, and those after it.

use weir_base::{OnDirty, Time};
use weir_session::{Refusal, ServerError, param_sync};

use crate::common::{FollowUp, cx};
use crate::engine::Engine;
use crate::peers::{ClientPhase, ClientSlot, Reset, ServerPhase, ServerSlot};
use crate::port::{Io, Level};
use crate::traffic::{links, relay};

/// The query was cancelled: by a timeout that an earlier client has set, or from outside. The values are not the
/// cause.
const QUERY_CANCELED: &str = "57014";

impl Engine {
    /// A query of Weir on a server has ended.
    pub(crate) fn own_query_done<I: Io>(
        &mut self,
        now: Time,
        mut server: Box<ServerSlot>,
        outcome: Result<(), ServerError>,
        io: &mut I,
    ) {
        let Some(phase) = server.phase() else { return self.peers.put_server(server) };
        match (phase, outcome) {
            (ServerPhase::CheckingRole | ServerPhase::ConnectQuery, outcome) => {
                self.first_query_done(now, server, outcome, io);
            }
            (ServerPhase::Resetting(why), Ok(())) => {
                if let Some((up, _)) = server.up() {
                    match why {
                        Reset::Left => up.was_reset(&self.sessions.params),
                        Reset::Query => up.was_cleaned(&self.sessions.params),
                    }
                }
                self.run_connect_query_again(now, server, io);
            }
            (ServerPhase::Resetting(Reset::Query), Err(error))
                if self.pools.get(server.pool).config.on_dirty == OnDirty::Keep =>
            {
                // With PgBouncer's policy its errors are ignored.
                let text = format_args!("error while executing server_reset_query: {}", error.message);
                self.log_server(Level::Warning, &server, text, io);
                server.up().into_iter().for_each(|(up, _)| up.was_cleaned(&self.sessions.params));
                self.run_connect_query_again(now, server, io);
            }
            (ServerPhase::ConnectQueryAgain, outcome) => {
                if let Err(error) = outcome {
                    let text = format_args!("error while executing connect_query: {}", error.message);
                    self.log_server(Level::Warning, &server, text, io);
                }
                self.return_to_pool(now, server, io);
            }
            (ServerPhase::Checking | ServerPhase::SyncingParameters, Ok(())) => self.prelude_done(now, server, io),
            (ServerPhase::SyncingParameters, Err(error)) if error.sqlstate != QUERY_CANCELED => {
                self.parameters_failed(now, server, error, io);
            }
            _ => {
                self.drop_connection(&server, io);
                self.server_gone(now, server, io);
            }
        }
    }

    /// A server has refused a client's parameters. All of them were one transaction, so the server is unchanged, and
    /// free for others; what it does not report by itself is set again for the next client.
    fn parameters_failed<I: Io>(&mut self, now: Time, mut server: Box<ServerSlot>, error: ServerError, io: &mut I) {
        let client = server.link.take();
        server.up().into_iter().for_each(|(up, _)| up.params_rejected(&self.sessions.params));
        self.common.follow_up(FollowUp::Release(server.peer));
        self.peers.put_server(server);
        let Some(mut client) = client.and_then(|client| self.peers.take_client(client)) else { return };
        client.link = None;
        let refusal = Refusal::ParameterFailed { sqlstate: error.sqlstate, message: error.message };
        self.refuse(now, client, refusal, io);
    }

    /// A server has passed its check, or set its client's parameters.
    fn prelude_done<I: Io>(&mut self, now: Time, mut server: Box<ServerSlot>, io: &mut I) {
        let Some(mut client) = server.link.and_then(|client| self.peers.take_client(client)) else {
            return self.peers.put_server(server);
        };
        if let ClientPhase::Welcome(_) = client.phase {
            self.unpause_client(&mut client, io);
            return self.welcome_confirmed(now, client, server, io);
        }
        let checked = server.phase() == Some(ServerPhase::Checking);
        let slot = self.pools.get(server.pool);
        let waits = checked && links::sync_parameters(cx!(self, now, io), slot, &mut client, &mut server);
        if !waits {
            if !checked {
                self.parameters_done(&mut server, &mut client, io);
            }
            let paused = client.pause.full && relay::pause_server(&mut server, io);
            let full = paused.then_some(server.peer);
            self.unpause_client(&mut client, io);
            self.common.follow_up(FollowUp::Feed(client.peer));
            self.peers.put_client(client);
            self.peers.put_server(server);
            full.into_iter().for_each(|server| self.follow_link(server, io));
            return;
        }
        self.peers.put_client(client);
        self.peers.put_server(server);
    }

    /// A server has set its client's parameters: the client gets those that differ from what it requested.
    fn parameters_done<I: Io>(&mut self, server: &mut ServerSlot, client: &mut ClientSlot, io: &mut I) {
        let (ClientPhase::Ready(session), Some((up, phase))) = (&mut client.phase, server.up()) else { return };
        *phase = ServerPhase::Linked;
        if io.logs(Level::Debug) {
            let respelled = param_sync::respelled(up, session, &self.sessions.params);
            let lines: Vec<_> = respelled
                .map(|(name, old, new)| format!("setting {name} to its canonical version {old} -> {new}"))
                .collect();
            for line in lines {
                self.log_client(Level::Debug, client, format_args!("varcache_set_canonical: {line}"), io);
            }
        }
        let (ClientPhase::Ready(session), Some((up, _))) = (&mut client.phase, server.up()) else { return };
        self.sessions.scratch.clear();
        param_sync::finish(up, session, Some((&self.sessions.params, &mut self.sessions.scratch)));
        if !self.sessions.scratch.is_empty() {
            io.send(client.peer, &self.sessions.scratch);
        }
    }

    /// A server has been reset, including what its connect_query had set: runs that query again.
    fn run_connect_query_again<I: Io>(&mut self, now: Time, mut server: Box<ServerSlot>, io: &mut I) {
        let slot = self.pools.get(server.pool);
        let Some(query) = &slot.config.connect_query else { return self.return_to_pool(now, server, io) };
        links::own_query(cx!(self, now, io), slot, &mut server, query, ServerPhase::ConnectQueryAgain);
        self.peers.put_server(server);
    }

    /// A client that waited for its pool's first server completes its login, and the server is free again.
    pub(crate) fn finish_welcome<I: Io>(&mut self, now: Time, mut client: Box<ClientSlot>, io: &mut I) {
        if let Some(server) = client.link.take() {
            self.peers.server(server).into_iter().for_each(|server| server.link = None);
            self.common.follow_up(FollowUp::Release(server));
        }
        let Some(welcome) = self.pools.get(client.pool).welcome.clone() else {
            return self.refuse(now, client, Refusal::Broken("a server without a welcome"), io);
        };
        let ClientPhase::Welcome(phase) = std::mem::replace(&mut client.phase, ClientPhase::Gone) else { return };
        self.welcome(now, client, phase, &welcome, io);
    }
}
