//! Queries for users' secrets (auth_query), in the pool that runs them.
//!
//! A query waits in its pool's queue like a client, under a handle of its own kind
//! ([`Waiter`](crate::handles::Waiter)), has a server for one exchange, and releases it. So a pool's limits and its
//! order apply to queries, too.
//!
//! Always true: a query ends with exactly one answer to the worker that sent it, unless that worker has withdrawn it.

use std::collections::HashMap;
use std::sync::Arc;

use weir_auth::{Mocks, Secret, Shape};
use weir_base::{ConnId, Slab, Span, Time, WorkerId};
use weir_session::{ProtocolViolation, Refusal, auth_query};

use crate::client_login::secret_query::{SecretQuery, UserSecret};
use crate::common::Cx;
use crate::handles::{FIRST_QUERY, PoolIx};
use crate::link::wire::Wire;
use crate::log::log;
use crate::pools::PoolSlot;
use crate::port::{Io, Level};
use crate::server::slot::{ServerPhase, ServerSlot};

/// How many servers a query may lose before it fails.
const MAX_ATTEMPTS: u32 = 3;

/// The queries in this worker's pools.
#[derive(Default)]
pub(crate) struct AuthQueries {
    queries: Slab<Query>,
    by_id: HashMap<u64, ConnId>,
    /// Distinguishes handles of the same slot.
    generation: u32,
    /// Statistics of the secrets in the answers of this worker's servers.
    seen: Arc<Mocks>,
}

struct Query {
    /// The query's handle in the pool's queue.
    handle: ConnId,
    from: WorkerId,
    query: SecretQuery,
    pool: PoolIx,
    since: Time,
    attempts: u32,
    /// The exchange with the query's server, if the query has one.
    exchange: Option<auth_query::AuthQuery>,
}

/// The result of a query's input.
pub(crate) enum QueryEvent {
    /// The answer is not complete.
    More,
    Answer(auth_query::AuthQueryResult),
    /// Input that does not answer the query.
    Unexpected(&'static str),
    /// There is no such query.
    NoSuchQuery,
}

/// The result of a lost server for its query.
pub(crate) enum LostServer {
    /// The query returns to its old position in its pool's queue.
    Retry { pool: PoolIx, since: Time },
    /// The query has lost too many servers.
    Failed,
    /// There is no such query.
    NoSuchQuery,
}

/// A finished query: where its answer goes, and under which number.
pub(crate) struct Over {
    pub(crate) to: WorkerId,
    pub(crate) id: u64,
    pub(crate) pool: PoolIx,
}

impl AuthQueries {
    /// Adds a query for a pool; returns the handle with which it requests a server.
    pub(crate) fn begin(&mut self, from: WorkerId, query: SecretQuery, pool: PoolIx, now: Time) -> ConnId {
        self.generation = self.generation.wrapping_add(1);
        let id = query.id;
        let carried = Query { handle: ConnId::NONE, from, query, pool, since: now, attempts: 0, exchange: None };
        let index = self.queries.insert(carried);
        let handle = ConnId::new(FIRST_QUERY + index, self.generation);
        if let Some(query) = self.queries.get_mut(index) {
            query.handle = handle;
        }
        self.by_id.insert(id, handle);
        handle
    }

    /// A query has its server, and is sent; returns its pool. The server is not checked before, since a broken one
    /// costs only an attempt.
    pub(crate) fn send<I: Io>(
        &mut self,
        cx: &mut Cx<'_, I>,
        handle: ConnId,
        server: &mut ServerSlot,
    ) -> Option<PoolIx> {
        let query = self.find(handle)?;
        let conn = server.conn;
        server.clock_mut().unlinked();
        server.clock_mut().linked(cx.now);
        let (up, phase) = server.up()?;
        *phase = ServerPhase::AuthQuery(handle);
        query.attempts += 1;
        let mut wire = Wire::new(cx.io, ConnId::NONE, conn, &[], None);
        let (text, user) = (&query.query.lookup.query, &query.query.user);
        query.exchange = Some(auth_query::AuthQuery::begin(up, text, user, &mut cx.sessions.scratch, &mut wire));
        Some(query.pool)
    }

    /// Handles input of a query's server.
    pub(crate) fn feed<I: Io>(
        &mut self,
        cx: &mut Cx<'_, I>,
        handle: ConnId,
        server: &mut ServerSlot,
        bytes: &[u8],
    ) -> QueryEvent {
        let exchange = self.find(handle).and_then(|query| query.exchange.as_mut());
        let (Some(exchange), Some((up, _))) = (exchange, server.up()) else { return QueryEvent::NoSuchQuery };
        match exchange.feed(up, bytes, &cx.sessions.params) {
            Ok(None) => QueryEvent::More,
            Ok(Some(answer)) => QueryEvent::Answer(answer),
            Err(ProtocolViolation(what)) => QueryEvent::Unexpected(what),
        }
    }

    /// Converts a server's answer about the user; `iterations` is the number of SCRAM iterations.
    pub(crate) fn judge<I: Io>(
        &mut self,
        handle: ConnId,
        answer: auth_query::AuthQueryResult,
        pool: &PoolSlot,
        iterations: u32,
        io: &mut I,
    ) -> Result<UserSecret, Refusal> {
        let Some(query) = self.find(handle) else { return Err(Refusal::BadConfig) };
        let (name, asker, user) = (&pool.name, &pool.user, &query.query.user);
        let found = match answer {
            Ok(Some(found)) if found.user == **user => Some(found.secret.filter(|secret| !secret.is_empty())),
            Ok(Some(found)) => {
                let text = format_args!("{name}/{asker}: auth_query for \"{user}\" answers about \"{}\"", found.user);
                log(Level::Warning, text, io);
                None
            }
            Ok(None) => None,
            Err(error) => {
                let error = format!("{} ({})", error.message, error.sqlstate);
                log(Level::Error, format_args!("{name}/{asker}: auth_query failed: {error}"), io);
                return Err(Refusal::AuthQueryFailed { error });
            }
        };
        Ok(self.with_mocks(found, pool, iterations))
    }

    /// Adds to a server's answer the mock secrets of users without a secret: they are like the secrets that the server
    /// has answered with, and before the first of those like the asker's, whose own login has shown how it was asked
    /// for a proof. `found` is the user's secret, if there is such a user and it has one.
    fn with_mocks(&mut self, found: Option<Option<Arc<str>>>, pool: &PoolSlot, iterations: u32) -> UserSecret {
        let (exists, text) = (found.is_some(), found.flatten());
        if let Some(secret) = text.as_ref().and_then(|text| Secret::parse(text).ok()) {
            Arc::make_mut(&mut self.seen).learn(&secret);
        }
        if !self.seen.is_empty() {
            return UserSecret { exists, text, mocks: self.seen.clone() };
        }
        let own = pool.credentials.hashed();
        let own = own.map(|((_, salt, iterations), _)| Shape { iterations: *iterations, salt: salt.len() });
        UserSecret { exists, text, mocks: Arc::new(Mocks::of_shape(own.unwrap_or(Shape::usual(iterations)))) }
    }

    /// A query has lost its server.
    pub(crate) fn lost_server(&mut self, handle: ConnId) -> LostServer {
        let Some(query) = self.find(handle) else { return LostServer::NoSuchQuery };
        query.exchange = None;
        if query.attempts < MAX_ATTEMPTS {
            LostServer::Retry { pool: query.pool, since: query.since }
        } else {
            LostServer::Failed
        }
    }

    /// A query has ended; it is in no queue and has no server.
    pub(crate) fn end(&mut self, handle: ConnId) -> Option<Over> {
        self.find(handle)?;
        let query = self.queries.remove(handle.slot - FIRST_QUERY)?;
        self.by_id.remove(&query.query.id);
        Some(Over { to: query.from, id: query.query.id, pool: query.pool })
    }

    /// Withdraws a query: returns its handle, and its pool, whose queue it leaves. One that has been sent continues,
    /// and its answer is ignored.
    pub(crate) fn withdraw(&mut self, id: u64) -> Option<(ConnId, PoolIx)> {
        let handle = self.by_id.get(&id).copied()?;
        self.find(handle).filter(|query| query.exchange.is_none())?;
        self.end(handle).map(|over| (handle, over.pool))
    }

    /// The number of queries in a pool's queue.
    pub(crate) fn waiting(&self, pool: PoolIx) -> u32 {
        self.queries.iter().filter(|(_, query)| query.pool == pool && query.exchange.is_none()).count() as u32
    }

    /// The queries that have waited in a pool's queue for this long.
    pub(crate) fn overdue(&self, pool: PoolIx, longest: Span, now: Time) -> Vec<ConnId> {
        let waits = |query: &&Query| query.pool == pool && query.exchange.is_none();
        let waiting = self.queries.iter().map(|(_, query)| query).filter(waits);
        waiting.filter(|query| query.since.deadline(longest) <= now).map(|query| query.handle).collect()
    }

    /// Whether this handle is a query that waits in that pool; for checks.
    pub(crate) fn waits(&self, handle: ConnId, pool: PoolIx) -> bool {
        let query = self.queries.get(handle.slot - FIRST_QUERY);
        query.is_some_and(|query| query.handle == handle && query.pool == pool && query.exchange.is_none())
    }

    fn find(&mut self, handle: ConnId) -> Option<&mut Query> {
        self.queries.get_mut(handle.slot - FIRST_QUERY).filter(|query| query.handle == handle)
    }
}
