//! The login messages for a pool's clients: where they are asked for again, and what changes them.

use weir_base::Time;

use crate::common::{FollowUp, cx};
use crate::engine::Engine;
use crate::peers::{ClientPhase, ClientSlot, ServerPhase, ServerSlot};
use crate::port::Io;
use crate::traffic::links;

/// A server says what it has become when it answers a query; this one does nothing.
const CONFIRMING: &str = ";";

impl Engine {
    /// A client that logs in has a server: sends it the login messages, once they are known to be those of now.
    pub(crate) fn confirm_welcome<I: Io>(
        &mut self,
        now: Time,
        client: Box<ClientSlot>,
        mut server: Box<ServerSlot>,
        io: &mut I,
    ) {
        let slot = self.pools.get(server.pool);
        if slot.may_confirm_welcome(now) {
            links::own_query(cx!(self, now, io), slot, &mut server, CONFIRMING, ServerPhase::Checking);
            self.peers.put_server(server);
            return self.insert_waiting(client, io);
        }
        server.up().into_iter().for_each(|(_, phase)| *phase = ServerPhase::Linked);
        self.peers.put_server(server);
        self.finish_welcome(now, client, io);
    }

    /// No new server has logged in for some time: the client is sent the login messages of the last one.
    pub(crate) fn take_last_welcome<I: Io>(&mut self, now: Time, client: Box<ClientSlot>, io: &mut I) {
        self.pools.get_mut(client.pool).pool.leave(client.peer, now);
        self.common.follow_up(FollowUp::PollPool(client.pool));
        self.finish_welcome(now, client, io);
    }

    /// A server has answered that query.
    pub(crate) fn welcome_confirmed<I: Io>(
        &mut self,
        now: Time,
        client: Box<ClientSlot>,
        mut server: Box<ServerSlot>,
        io: &mut I,
    ) {
        self.pools.get_mut(server.pool).welcome_confirmed(now);
        server.up().into_iter().for_each(|(_, phase)| *phase = ServerPhase::Linked);
        self.peers.put_server(server);
        self.finish_welcome(now, client, io);
    }

    /// Takes in what a server has reported without a client's doing: new defaults, or a new role.
    pub(crate) fn take_reports(
        &mut self,
        now: Time,
        server: &mut ServerSlot,
        client: Option<&mut ClientSlot>,
        reported: &[(String, String)],
    ) {
        let session = client.and_then(|client| match &client.phase {
            ClientPhase::Ready(session) => Some(session),
            _ => None,
        });
        let (ix, table) = (server.pool, &self.sessions.params);
        let Some((up, phase)) = server.up() else { return };
        if !matches!(
            phase,
            ServerPhase::Idle | ServerPhase::Linked | ServerPhase::Checking | ServerPhase::SyncingParameters
        ) {
            return;
        }
        for (name, value) in reported {
            if session.is_some_and(|session| session.owns(table, name)) {
                continue;
            }
            up.is_default(table, name);
            self.pools.get_mut(ix).default_changed(table, name, value, now);
            self.common.follow_up(FollowUp::PollPool(ix));
        }
    }
}
