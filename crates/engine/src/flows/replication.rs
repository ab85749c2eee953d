//! Replication connections: a client that gets a server of its own, opened with its startup parameters and closed with it.
//!
//! The client waits in its pool for such a server (`weir-pool`, `dedicated`), receives what that server has reported,
//! and from then on the two are a link whose bytes are forwarded unchanged.

use weir_base::{Peer, Time};
use weir_pool::Acquire;
use weir_session::{Refusal, ServerError};

use crate::backends::login;
use crate::common::{FollowUp, cx};
use crate::engine::Engine;
use crate::entry::state::LoginPhase;
use crate::entry::welcome;
use crate::peers::{ClientPhase, ClientSlot, ServerPhase, ServerSlot};
use crate::port::{Io, Level};
use crate::traffic::stream::Stream;

/// Why a client and its server are closed if the server has refused the login (PgBouncer's words).
const LOGIN_FAILED: &str = "login failed";

impl Engine {
    /// A client that requests replication has a pool: it waits for a server of its own.
    pub(crate) fn await_own_server<I: Io>(
        &mut self,
        now: Time,
        mut client: Box<ClientSlot>,
        phase: Box<LoginPhase>,
        io: &mut I,
    ) {
        let ix = client.pool;
        client.request_at = now;
        client.phase = ClientPhase::Welcome(phase);
        match self.pools.get_mut(ix).pool.acquire_dedicated(client.peer, now) {
            Acquire::Refused(why) => {
                let refusal = self.refusal(ix, why);
                self.refuse(now, client, refusal, io);
            }
            Acquire::Granted { .. } | Acquire::Queued => self.insert_waiting(client, io),
        }
        self.common.follow_up(FollowUp::PollPool(ix));
    }

    /// The additional startup parameters of a client's own server.
    pub(crate) fn own_startup(&self, server: &ServerSlot) -> Vec<(String, String)> {
        let owner = server.dedicated.as_ref().and_then(|dedicated| self.peers.get_client(dedicated.owner));
        let Some((client, ClientPhase::Welcome(phase))) = owner.map(|client| (client, &client.phase)) else {
            return Vec::new();
        };
        let (table, request) = (&self.sessions.params, phase.request());
        let wanted = welcome::wanted(&self.common, table, client, request);
        wanted.map(|wanted| request.for_own_server(table, &wanted)).unwrap_or_default()
    }

    /// A client's own server has logged in: from now on bytes are forwarded between the two.
    pub(crate) fn begin_stream<I: Io>(
        &mut self,
        now: Time,
        mut client: Box<ClientSlot>,
        mut server: Box<ServerSlot>,
        io: &mut I,
    ) {
        (client.link, server.link) = (Some(server.peer), Some(client.peer));
        server.clock.linked(now);
        server.up().into_iter().for_each(|(_, phase)| *phase = ServerPhase::Streaming);
        let known = server.dedicated.as_mut().and_then(|dedicated| dedicated.welcome.take());
        let peer = server.peer;
        self.peers.put_server(server);
        let ClientPhase::Welcome(phase) = std::mem::replace(&mut client.phase, ClientPhase::Gone) else {
            return self.refuse(now, client, Refusal::Broken("a server of its own for a client that is not new"), io);
        };
        let Some(known) = known else {
            return self.refuse(now, client, Refusal::Broken("a server without a welcome"), io);
        };
        self.issue_cancel_pid(&mut client);
        let cx = cx!(self, now, io);
        welcome::greet(cx, &mut client, phase.request(), &known.reported, &known.params);
        let slot = self.pools.get_mut(client.pool);
        slot.counts.tally.logins += 1;
        slot.counts.stats.server_assignment_count += 1;
        let mut stream = Stream::new(phase.request().replication, known.params);
        let ahead = std::mem::take(&mut client.waiting);
        let terminated = stream.client_sent(&ahead);
        client.phase = ClientPhase::Streaming(Box::new(stream));
        self.unpause_client(&mut client, io);
        let owner = client.peer;
        self.insert_ready(client);
        if !ahead.is_empty() {
            io.send(peer, &ahead);
        }
        self.sessions.recycle(ahead);
        if let Some(client) = terminated.then(|| self.peers.take_client(owner)).flatten() {
            self.client_leaves(now, client, io);
        }
    }

    /// A client of such a link sent something.
    pub(crate) fn stream_to_server<I: Io>(&mut self, now: Time, mut client: Box<ClientSlot>, bytes: &[u8], io: &mut I) {
        let ClientPhase::Streaming(stream) = &mut client.phase else { return self.peers.put_client(client) };
        let terminated = stream.client_sent(bytes);
        self.pools.get_mut(client.pool).counts.stats.received += bytes.len() as u64;
        // All of it, also what arrived with Terminate: the position up to which a standby has written may be in it.
        if let Some(server) = client.link.and_then(|server| self.peers.server(server)) {
            server.clock.request_sent(now);
            io.forward(server.peer, 0..bytes.len());
        }
        if terminated {
            return self.client_leaves(now, client, io);
        }
        self.peers.put_client(client);
    }

    /// A server of such a link sent something.
    pub(crate) fn stream_to_client<I: Io>(&mut self, now: Time, mut server: Box<ServerSlot>, bytes: &[u8], io: &mut I) {
        let slot = self.pools.get_mut(server.pool);
        slot.counts.stats.sent += bytes.len() as u64;
        if let Some(client) = server.link.and_then(|client| self.peers.client(client)) {
            io.forward(client.peer, 0..bytes.len());
            if let ClientPhase::Streaming(stream) = &mut client.phase {
                let ended = stream.server_sent(bytes);
                if ended.queries > 0 {
                    let took = server.clock.queries_ended(now, ended.transactions, false, Time::NEVER);
                    let stats = &mut slot.counts.stats;
                    stats.query_count += u64::from(ended.queries);
                    stats.xact_count += u64::from(ended.transactions);
                    stats.query_time += took.query.unwrap_or(0);
                    stats.xact_time += took.transaction.unwrap_or(0);
                }
            }
        }
        self.peers.put_server(server);
    }

    /// A server has refused the login for the one client that it was for. No conclusion about other logins of the pool
    /// is drawn: a role may lack REPLICATION, or `pg_hba.conf` a line for it.
    pub(crate) fn own_login_refused<I: Io>(&mut self, now: Time, server: &ServerSlot, error: ServerError, io: &mut I) {
        let Some(owner) = server.dedicated.as_ref().map(|dedicated| dedicated.owner) else { return };
        self.pools.get_mut(server.pool).pool.dedicated_refused(server.peer);
        self.common.follow_up(FollowUp::PollPool(server.pool));
        self.log_server_end(now, server, LOGIN_FAILED, io);
        let Some(client) = self.peers.take_client(owner) else { return };
        let refusal = login::refusal(self.pools.get(server.pool), error.of_own_login());
        self.refuse_because(now, client, refusal, LOGIN_FAILED, io);
    }

    /// The client of a server that is closed is closed with it: no other server can serve it.
    pub(crate) fn end_stream<I: Io>(&mut self, now: Time, client: Peer, why: &str, io: &mut I) {
        let Some(mut client) = self.peers.take_client(client) else { return };
        client.link = None;
        io.close(client.peer);
        self.remove_client(now, client, why, io);
    }

    /// The line in the log that a server's connection ends.
    pub(crate) fn log_server_end<I: Io>(&mut self, now: Time, server: &ServerSlot, why: &str, io: &mut I) {
        if self.common.config().log.disconnections {
            let age = now.since(server.connection.connected_at()).micros() / 1_000_000;
            self.log_server(Level::Info, server, format_args!("closing because: {why} (age={age}s)"), io);
        }
    }
}
