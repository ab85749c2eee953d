//! The path of an auth_query through the pool that runs it.

use weir_base::{Peer, Time, WorkerId};
use weir_pool::Acquire;
use weir_session::{Refusal, auth_query};

use crate::cluster::messages::{Message, Payload};
use crate::common::{FollowUp, cx};
use crate::engine::Engine;
use crate::entry::auth_query::{LostServer, QueryEvent};
use crate::entry::secret_query::{SecretQuery, UserSecret};
use crate::handles::PoolIx;
use crate::peers::{Entry, ServerPhase, ServerSlot};
use crate::port::{Io, Level};
use crate::traffic::deadlines;

impl Engine {
    /// A worker requests a user's secret.
    pub(crate) fn begin_auth_query<I: Io>(&mut self, now: Time, from: WorkerId, query: SecretQuery, io: &mut I) {
        let Some(config) = self.common.config().pool(&query.lookup.database) else {
            return send_answer(from, query.id, Err(Refusal::BadConfig), io);
        };
        let ix = self.pool_of(&query.lookup.database, &config, &query.lookup.user, now);
        let slot = self.pools.get_mut(ix);
        slot.lookups += 1;
        let handle = self.entry.queries.begin(from, query, ix, now);
        let acquire = slot.pool.acquire(handle, now);
        self.auth_query_acquires(now, handle, ix, acquire, io);
    }

    fn auth_query_acquires<I: Io>(&mut self, now: Time, handle: Peer, ix: PoolIx, acquire: Acquire, io: &mut I) {
        match acquire {
            Acquire::Granted { server, .. } => self.send_auth_query(now, handle, server, io),
            Acquire::Queued => self.common.follow_up(FollowUp::PollPool(ix)),
            Acquire::Refused(why) => {
                let refusal = self.refusal(ix, why);
                self.end_auth_query(handle, Err(refusal), io);
            }
        }
    }

    /// A query has its server.
    pub(crate) fn send_auth_query<I: Io>(&mut self, now: Time, handle: Peer, server: Peer, io: &mut I) {
        let Some(slot) = self.peers.server(server) else { return };
        let cx = cx!(self, now, io);
        let Some(ix) = self.entry.queries.send(cx, handle, slot) else { return };
        let pool = self.pools.get_mut(ix);
        pool.counts.stats.server_assignment_count += 1;
        deadlines::watch_own_query(cx, pool, slot);
    }

    /// Handles input of a query's server.
    pub(crate) fn auth_query_bytes<I: Io>(
        &mut self,
        now: Time,
        mut server: Box<ServerSlot>,
        handle: Peer,
        bytes: &[u8],
        io: &mut I,
    ) {
        let peer = server.peer;
        let cx = cx!(self, now, io);
        match self.entry.queries.feed(cx, handle, &mut server, bytes) {
            QueryEvent::More => self.peers.put(peer, Entry::Server(server)),
            QueryEvent::Answer(answer) => {
                if let Some((_, phase)) = server.up() {
                    *phase = ServerPhase::Linked;
                }
                let ix = server.pool;
                self.auth_query_answered(handle, ix, answer, io);
                self.clean_up(now, server, io);
            }
            QueryEvent::Unexpected(what) => {
                let text = format_args!("unexpected response to auth_query: {what}");
                self.log_server(Level::Warning, &server, text, io);
                io.close(peer);
                self.server_gone(now, server, io);
            }
            QueryEvent::NoSuchQuery => {
                io.close(peer);
                self.server_gone(now, server, io);
            }
        }
    }

    fn auth_query_answered<I: Io>(
        &mut self,
        handle: Peer,
        ix: PoolIx,
        answer: auth_query::AuthQueryResult,
        io: &mut I,
    ) {
        let iterations = self.entry.logins.iterations();
        let answer = self.entry.queries.judge(handle, answer, self.pools.get(ix), iterations, io);
        self.end_auth_query(handle, answer, io);
    }

    /// A query has lost its server; `error` is the server's last one, if it was fatal.
    pub(crate) fn auth_query_lost<I: Io>(&mut self, now: Time, handle: Peer, error: Option<Refusal>, io: &mut I) {
        match self.entry.queries.lost_server(handle) {
            LostServer::Retry { pool, since } => {
                let acquire = self.pools.get_mut(pool).pool.requeue(handle, since, now);
                self.auth_query_acquires(now, handle, pool, acquire, io);
            }
            LostServer::Failed => self.end_auth_query(handle, Err(error.unwrap_or(Refusal::ServerLost)), io),
            LostServer::NoSuchQuery => {}
        }
    }

    /// A query has ended; it is in no queue and has no server.
    pub(crate) fn end_auth_query<I: Io>(&mut self, handle: Peer, answer: Result<UserSecret, Refusal>, io: &mut I) {
        let Some(over) = self.entry.queries.end(handle) else { return };
        self.pools.get_mut(over.pool).lookups -= 1;
        self.common.follow_up(FollowUp::PollPool(over.pool));
        send_answer(over.to, over.id, answer, io);
    }

    /// A query was withdrawn.
    pub(crate) fn withdraw_auth_query(&mut self, now: Time, id: u64) {
        let Some((handle, ix)) = self.entry.queries.withdraw(id) else { return };
        let slot = self.pools.get_mut(ix);
        slot.pool.leave(handle, now);
        slot.lookups -= 1;
        self.common.follow_up(FollowUp::PollPool(ix));
    }
}

fn send_answer<I: Io>(to: WorkerId, id: u64, answer: Result<UserSecret, Refusal>, io: &mut I) {
    io.post(to, Message(Payload::LookedUp { id, answer }), None);
}
