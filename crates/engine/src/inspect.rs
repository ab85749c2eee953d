//! For tests and the simulator: what an engine holds, invariants between inputs, and clients that are frozen and
//! thawed.

use std::sync::Arc;

use weir_admin::Refusals;
use weir_base::{ClientAddr, ConnId, PoolMode, Target, Time, WorkerId};
use weir_pool::lending::BorrowRequest;

use crate::admin::logging_in;
use crate::client::slot::{ClientPhase, ClientSlot};
use crate::common::UnderWay;
use crate::core::Core;
use crate::engine::Engine;
use crate::handles::{PoolIx, Waiter};
use crate::lines;
use crate::link::relay::MAX_PIPELINED_SEGMENTS;
use crate::reading::Reason;
use crate::server::open;
use crate::server::slot::{ServerPhase, ServerSlot, ServerState};

/// A pool on a worker, for tests and the simulator.
#[derive(Debug)]
pub struct PoolQueue<'a> {
    /// The pool's name.
    pub database: &'a Arc<str>,
    /// The pool's user on the server.
    pub user: &'a Arc<str>,
    /// The client of this worker that is served next, and since when it waits.
    pub head: Option<(ConnId, Time)>,
    /// Since when a server is idle here.
    pub idle: Option<Time>,
    /// The pool hands out no servers now, or is being removed.
    pub stopped: bool,
    /// How many servers it has, if this worker owns it, and whether it waits for the permission to open one more.
    pub owned: Option<(usize, bool)>,
}

impl Engine {
    /// Freezes a client to bytes and thaws it, in place: as if it had moved. Returns whether that was possible now.
    /// For the simulator, which does it to clients at random moments.
    pub fn refreeze(&mut self, conn: ConnId) -> bool {
        let Some(mut slot) = self.core.conns.take::<ClientSlot>(conn) else { return false };
        let frozen = match &slot.phase {
            ClientPhase::Ready(client) if slot.link.is_none() => {
                weir_session::frozen::freeze(client, &self.core.sessions.params)
            }
            _ => None,
        };
        let done = frozen.is_some();
        if let Some(bytes) = frozen {
            // Releases the client's charge before the client is charged again.
            slot.enter(ClientPhase::Gone);
            let pool = self.core.pools.get(slot.pool);
            let (table, interner) = (&self.core.sessions.params, &mut self.core.sessions.interner);
            let thawed = weir_session::frozen::thaw(&bytes, table, interner, &pool.accepted);
            let mut session = thawed.expect("what was frozen here thaws here");
            session.share_channels(pool.rules.shares_listen);
            let again = weir_session::frozen::freeze(&session, table);
            assert_eq!(again.as_ref(), Some(&bytes), "a client thaws as it was frozen");
            slot.enter(ClientPhase::Ready(session));
        }
        self.core.conns.put_client(slot);
        done
    }

    /// Has clients move between two workers, with this engine's next [`Input::Load`](crate::port::Input::Load) (it is
    /// worker 0's), unless something else is under way then. For tests and the simulator.
    pub fn want_moves(&mut self, from: WorkerId, to: WorkerId) {
        self.client_login.loads.want(from, to);
    }

    /// What the engine holds, for tests and the simulator.
    pub fn inspect(&self) -> Inspect<'_> {
        Inspect { engine: self }
    }
}

/// A look at what an engine holds, for tests and the simulator.
#[derive(Clone, Copy)]
pub struct Inspect<'a> {
    engine: &'a Engine,
}

impl<'a> Inspect<'a> {
    /// Whether a connection is a probe of a host that may give no answer. For tests.
    pub fn is_probe(self, conn: ConnId) -> bool {
        self.engine.core.conns.get::<Target>(conn).is_some()
    }

    /// The pools of this worker.
    pub fn pool_queues(self) -> impl Iterator<Item = PoolQueue<'a>> {
        self.engine.core.pools.iter().map(|slot| PoolQueue {
            database: &slot.name,
            user: &slot.user,
            head: slot.pool.waiting().find(|(conn, _)| BorrowRequest::from_handle(*conn).is_none()),
            idle: slot.pool.longest_idle(),
            stopped: slot.removed || slot.pool.is_paused(),
            owned: (!slot.lending.is_borrower()).then(|| (slot.pool.len(), slot.quota.is_waiting())),
        })
    }

    /// Whether a client has a server now.
    pub fn is_served(self, client: ConnId) -> bool {
        self.engine.core.conns.get::<ClientSlot>(client).is_some_and(|client| client.link.is_some())
    }

    /// The clients that are admitted on this worker: database, user and address. For tests and the simulator.
    pub fn inside(self) -> impl Iterator<Item = (&'a str, &'a str, &'a ClientAddr)> {
        let clients =
            self.engine.core.conns.all::<ClientSlot>().filter(|c| {
                matches!(c.phase, ClientPhase::Ready(_) | ClientPhase::Streaming(_) | ClientPhase::Welcome(_))
            });
        clients.map(|client| (lines::database_of(&self.engine.core, client), &*client.user, &client.addr))
    }

    /// The bytes that unauthenticated clients of this worker hold beyond their own shares. For tests and the
    /// simulator.
    pub fn held_before_login(self) -> usize {
        self.engine.core.prelogin.held()
    }

    /// How many connected clients have come from other workers, as pools count them. For tests and the simulator.
    pub fn clients_moved(self) -> u64 {
        self.engine.core.pools.iter().map(|slot| slot.counts.counters.clients_moved).sum()
    }

    /// How many clients this worker has, and how many of them are counted under limits. For tests and the simulator.
    pub fn clients(self) -> (u32, u32) {
        let counted = self.engine.core.conns.all::<ClientSlot>().filter(|client| client.counts_for.is_some());
        (self.engine.core.client_counts.all(), counted.count() as u32)
    }

    /// The same for all workers, as worker 0 counts them. For tests and the simulator.
    pub fn clients_counted(self) -> (u32, u32) {
        (self.engine.core.client_quota.total(), self.engine.workers.clients_counted())
    }

    /// The sum of all refused clients.
    pub fn refusals(self) -> Refusals {
        self.engine.core.refusals.sum(&self.engine.core.pools)
    }

    /// Asserts the invariants between inputs. Walks over everything.
    ///
    /// # Panics
    /// When an invariant is broken.
    pub fn check(self) {
        assert!(self.engine.core.common.is_done(), "a turn has left work to do");
        check_under_way(&self.engine.core);
        check_client_counts(&self.engine.core);
        check_links(&self.engine.core);
        open::check_logins(&self.engine.core);
        self.engine.core.pools.indices().into_iter().for_each(|ix| check_pool(&self.engine.core, ix));
    }
}

/// Asserts that rooms have said what is under way.
fn check_under_way(core: &Core) {
    let shutdown = (UnderWay::SHUTDOWN, core.shutdown.draining().is_some());
    let search = (UnderWay::IDLE_SEARCH, core.idle_search.is_under_way());
    for (what, busy) in core.pause.under_way().into_iter().chain([shutdown, search]) {
        assert_eq!(core.common.is_under_way(what), busy, "{what:?}");
    }
}

fn check_links(core: &Core) {
    for client in core.conns.all::<ClientSlot>() {
        let Some(server) = client.link else { continue };
        let owner = core.conns.all::<ServerSlot>().find(|s| s.conn == server).map(|s| s.link);
        assert_eq!(owner, Some(Some(client.conn)), "a client's server does not know it");
        let asked =
            core.conns.all::<ServerSlot>().any(|s| s.conn == server && s.phase() == Some(ServerPhase::Checking));
        let linked = match client.phase {
            ClientPhase::Ready(_) | ClientPhase::Streaming(_) => true,
            ClientPhase::Welcome(_) => asked,
            _ => false,
        };
        assert!(linked, "a client that may not ask has a server");
    }
    for server in core.conns.all::<ServerSlot>() {
        let Some(client) = server.link else { continue };
        let link = core.conns.all::<ClientSlot>().find(|c| c.conn == client).map(|c| c.link);
        assert_eq!(link, Some(Some(server.conn)), "a server's client does not know it");
        assert!(server.phase() != Some(ServerPhase::Idle), "an idle server has a client");
        check_pipeline(core, server);
    }
    for server in core.conns.all::<ServerSlot>() {
        if let Some(pinned) = &server.pinned {
            assert!(server.link.is_some() && !pinned.kinds().is_empty(), "a server is kept by nobody, or for nothing");
        }
        if let ServerState::Up(session, ServerPhase::Idle) = &server.state {
            assert!(!session.is_unusable(), "an idle server sent an unsolicited message, and is kept");
        }
    }
}

fn check_pipeline(core: &Core, server: &ServerSlot) {
    let released = core.pools.get(server.pool).config.policy.mode != PoolMode::Session && !server.is_pinned();
    let pipelined = server.clock.pipelined();
    assert!(
        pipelined <= MAX_PIPELINED_SEGMENTS || !released,
        "others wait, and a pipeline continues for {pipelined} transactions"
    );
}

fn check_pool(core: &Core, ix: PoolIx) {
    let slot = core.pools.get(ix);
    slot.check();
    assert_eq!(slot.is_plain, slot.seems_plain(), "{}: a change without a poll", slot.name);
    for (conn, ..) in slot.pool.servers() {
        let here = || core.conns.all::<ServerSlot>().any(|s| s.conn == conn && s.pool == ix);
        let known = core.lent.get(&conn).is_some_and(|lent| lent.pool == ix) || here();
        assert!(known, "a pool has a server that is gone: {conn:?}");
    }
    for (conn, _) in slot.pool.waiting() {
        let waits = match Waiter::of(conn) {
            Waiter::Client(_) => {
                core.conns.all::<ClientSlot>().any(|c| c.conn == conn && c.pool == ix && c.reading.has(Reason::Waits))
            }
            Waiter::AuthQuery(_) => core.auth_queries.waits(conn, ix),
            Waiter::Listener(_) => slot.listening.requests(conn),
            Waiter::Borrower(_) => !slot.lending.is_borrower(),
        };
        assert!(waits, "a pool's queue holds one who does not wait: {conn:?}");
    }
}

/// Asserts that the counts of clients are right. Walks over all of them.
fn check_client_counts(core: &Core) {
    let (mut counts, mut logging_in) = (crate::admin::client_counts::ClientCounts::default(), 0);
    for client in core.conns.all::<ClientSlot>() {
        counts.add(&client.phase);
        logging_in += u32::from(client.phase.is_unauthenticated());
    }
    let expected = (core.client_counts, logging_in::clients_logging_in(core));
    assert_eq!(expected, (counts, logging_in), "clients are miscounted");
}
