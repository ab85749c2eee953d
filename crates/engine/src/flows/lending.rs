//! One pool over several workers: messages between a pool's owner and its borrowers, and servers whose sockets move.
//!
//! `weir_pool::lending` decides which messages are sent. A server moves only between two links, clean, so that what
//! moves is a value, and the receiving worker uses it like a server of its own.
//!
//! Always true: a server is in the table of one worker, or in one message; the owner learns exactly once of a borrowed
//! server's end, because what is borrowed is compared with the servers whenever the borrower's pool is polled.

use std::sync::Arc;

use weir_base::{Peer, Time, WorkerId};
use weir_pool::lending::{BorrowRequest, ToBorrower, ToOwner};
use weir_pool::{Acquire, RefuseReason, Release};
use weir_session::{Cause, Clean};

use crate::cluster::lending::{Body, Learnings, LendingMessage, LendingRole, Lent, LentServer, MovedServer, ToInform};
use crate::cluster::messages::{Message, Payload};
use crate::cluster::quota::PoolId;
use crate::common::FollowUp;
use crate::engine::Engine;
use crate::handles::PoolIx;
use crate::log::log;
use crate::peers::{Entry, ServerPhase, ServerSlot};
use crate::port::{Io, Level};
use crate::traffic::reading::ServerReading;

/// A pool on a worker, for tests and the simulator.
#[derive(Debug)]
pub struct PoolQueue<'a> {
    /// The pool's name.
    pub database: &'a Arc<str>,
    /// Its user on the server.
    pub user: &'a Arc<str>,
    /// The client of this worker that is served next, and since when it waits.
    pub head: Option<(Peer, Time)>,
    /// Since when a server is idle here.
    pub idle: Option<Time>,
    /// It hands out no servers now, or is being removed.
    pub stopped: bool,
}

/// For tests and the simulator.
impl Engine {
    /// The pools of this worker.
    pub fn pool_queues(&self) -> impl Iterator<Item = PoolQueue<'_>> {
        self.pools.iter().map(|slot| PoolQueue {
            database: &slot.name,
            user: &slot.user,
            head: slot.pool.waiting().find(|(peer, _)| BorrowRequest::from_handle(*peer).is_none()),
            idle: slot.pool.longest_idle(),
            stopped: slot.removed || slot.pool.is_paused(),
        })
    }

    /// Whether a client has a server now.
    pub fn is_served(&self, client: Peer) -> bool {
        self.peers.get_client(client).is_some_and(|client| client.link.is_some())
    }
}

/// The owner's side.
impl Engine {
    /// The pool has granted a server to a borrower's request: its socket moves.
    pub(crate) fn lend<I: Io>(&mut self, request: BorrowRequest, server: Peer, check: bool, io: &mut I) {
        let Some(slot) = self.peers.server(server) else { return };
        slot.link = None;
        let ix = slot.pool;
        let Some((_, phase)) = slot.up() else { return };
        *phase = ServerPhase::Lending { request, check };
        if let Some(lender) = self.pools.get_mut(ix).lending.lender() {
            lender.answered(request, true);
        }
        io.detach(server);
    }

    /// The socket of a lent server is detached.
    fn send_lent<I: Io>(&mut self, mut server: Box<ServerSlot>, request: BorrowRequest, check: bool, io: &mut I) {
        let (lent, ix) = (server.peer, server.pool);
        let resolved = server.connection.on().map(|(name, address)| (name.into(), address));
        self.untie(&mut server);
        let slot = self.pools.get(ix);
        let unwanted = slot.pool.is_unwanted(lent) || server.marked_for_close;
        let body = Body::Lent(Box::new(Lent {
            id: request.id,
            lent,
            server: MovedServer(server),
            ages: slot.pool.ages(lent),
            check,
            welcome: slot.welcome.clone(),
            schema: slot.accepted.schema_version(),
        }));
        let pool = slot.id();
        self.cluster.lent.insert(lent, LentServer { pool: ix, borrower: request.from, resolved });
        send(request.from, pool, body, Some(lent), io);
        if unwanted {
            // The recall was sent before this worker was a borrower.
            self.recall_from(ix, request.from, io);
        }
    }

    /// The server for a borrower's request was lost before it left.
    pub(crate) fn lending_failed<I: Io>(&mut self, ix: PoolIx, request: BorrowRequest, io: &mut I) {
        let slot = self.pools.get_mut(ix);
        if let Some(lender) = slot.lending.lender() {
            lender.server_ended(request.from);
        }
        send(request.from, slot.id(), Body::ToBorrower(ToBorrower::Failed(request.id), None), None, io);
        self.common.follow_up(FollowUp::PollPool(ix));
    }

    /// The pool refuses a borrower's request.
    pub(crate) fn refuse_request<I: Io>(
        &mut self,
        now: Time,
        ix: PoolIx,
        request: BorrowRequest,
        why: RefuseReason,
        io: &mut I,
    ) {
        let slot = self.pools.get_mut(ix);
        if let Some(lender) = slot.lending.lender() {
            lender.answered(request, false);
        }
        let retry_at = slot.pool.snapshot(now).retry_at.unwrap_or(now);
        let error = slot.failures.last().map(|(error, too_slow)| (error.clone(), too_slow));
        let refused = ToBorrower::Refused { id: request.id, why, retry_at };
        send(request.from, slot.id(), Body::ToBorrower(refused, error), None, io);
    }

    /// Lent servers must be closed as they become free.
    pub(crate) fn recall<I: Io>(&mut self, ix: PoolIx, io: &mut I) {
        if let LendingRole::Owner(lender) = &self.pools.get(ix).lending {
            lender.with_servers().for_each(|borrower| self.recall_from(ix, borrower, io));
        }
    }

    /// The same for one borrower's servers.
    pub(crate) fn recall_from<I: Io>(&self, ix: PoolIx, borrower: WorkerId, io: &mut I) {
        send(borrower, self.pools.get(ix).id(), Body::ToBorrower(ToBorrower::Recall, None), None, io);
    }

    /// Whether a handle of a pool that is owned here names a server that is lent.
    pub(crate) fn is_lent(&self, server: Peer) -> bool {
        self.cluster.lent.contains_key(&server)
    }

    /// Handles a message from a borrower of a pool.
    fn owner_receives<I: Io>(&mut self, now: Time, from: WorkerId, pool: PoolId, message: ToOwner, io: &mut I) {
        let creates = matches!(message, ToOwner::Request { .. } | ToOwner::HasClients(true));
        let Some(ix) = self.owned_pool(now, &pool, creates) else {
            if let ToOwner::Request { id, .. } = message {
                // A reload has removed the pool, or not created it yet; the borrower will adopt the same
                // configuration.
                let refused = ToBorrower::Refused { id, why: RefuseReason::ShuttingDown, retry_at: now };
                send(from, pool, Body::ToBorrower(refused, None), None, io);
            }
            return;
        };
        let slot = self.pools.get_mut(ix);
        let LendingRole::Owner(lender) = &mut slot.lending else { return misdirected(io) };
        match lender.receive(&mut slot.pool, from, message, now) {
            Some((request, Acquire::Granted { server, check })) => self.lend(request, server, check, io),
            Some((request, Acquire::Refused(why))) => self.refuse_request(now, ix, request, why, io),
            Some((_, Acquire::Queued)) | None => {}
        }
        if let ToOwner::HasClients(_) = message {
            self.count_client(ix, 0);
        }
        self.common.follow_up(FollowUp::PollPool(ix));
    }

    /// The pool of a borrower's message. If its first clients are a borrower's, it is created here with the first
    /// message.
    fn owned_pool(&mut self, now: Time, pool: &PoolId, create: bool) -> Option<PoolIx> {
        let known = self.pools.find(&pool.database, &pool.user);
        if known.is_some() || !create {
            return known;
        }
        let config = self.common.config().pool(&pool.database).filter(|config| self.fits(config, &pool.user))?;
        Some(self.pool_of(&pool.database, &config, &pool.user, now))
    }

    /// A lent server has closed, or its socket has not come with it.
    fn lent_closed(&mut self, now: Time, lent: Peer) {
        let Some(LentServer { pool: ix, borrower, .. }) = self.cluster.lent.remove(&lent) else { return };
        let slot = self.pools.get_mut(ix);
        if let Some(lender) = slot.lending.lender() {
            lender.receive(&mut slot.pool, borrower, ToOwner::Closed(lent), now);
        }
        self.common.follow_up(FollowUp::PollPool(ix));
    }

    /// A lent server has returned.
    fn lent_returned<I: Io>(&mut self, now: Time, lent: Peer, mut server: Box<ServerSlot>, peer: Peer, io: &mut I) {
        let Some(&LentServer { pool: ix, borrower, .. }) = self.cluster.lent.get(&lent) else { return io.close(peer) };
        let Some(proof) = self.tie(&mut server, peer, ix) else {
            let database = self.pools.get(ix).name.clone();
            self.drop_moved(peer, &server, &database, io);
            return self.lent_closed(now, lent);
        };
        self.cluster.lent.remove(&lent);
        server.marked_for_close |= self.backends.dns.has_vanished(&server);
        if let Some(lender) = self.pools.get_mut(ix).lending.lender() {
            lender.server_ended(borrower);
        }
        self.add_moved(server, io);
        let answer = self.pools.get_mut(ix).pool.returned(lent, peer, proof, now);
        self.passed_on(now, ix, peer, answer, io);
    }

    /// A borrower requests the reason for its clients' waits. There is always an answer, since they get no notice
    /// before it.
    fn cause_requested<I: Io>(&mut self, now: Time, from: WorkerId, pool: PoolId, io: &mut I) {
        let (cause, detail) = match self.pools.find(&pool.database, &pool.user) {
            Some(ix) => self.cause_of_wait(now, ix),
            None => (Cause::ServerDown, "A reload has taken the pool away.".to_owned()),
        };
        send(from, pool, Body::WaitCause(cause, detail), None, io);
    }

    /// Takes over credentials from a login at a borrower.
    fn owner_learns(&mut self, now: Time, pool: &PoolId, learnt: &Learnings) {
        if let Some(ix) = self.owned_pool(now, pool, true) {
            self.pools.get_mut(ix).credentials.learn(&learnt.learnt, &learnt.asked);
            self.common.follow_up(FollowUp::PollPool(ix));
        }
    }

    fn settle_owner<I: Io>(&mut self, now: Time, ix: PoolIx, io: &mut I) -> Time {
        let slot = self.pools.get_mut(ix);
        let LendingRole::Owner(lender) = &mut slot.lending else { return Time::NEVER };
        if lender.lent_count() == 0 {
            return Time::NEVER;
        }
        let (updates, again) = lender.updates(&slot.pool, now);
        for (borrower, since) in updates {
            send(borrower, slot.id(), Body::ToBorrower(ToBorrower::OldestElsewhere(since), None), None, io);
        }
        again
    }
}

/// A borrower's side.
impl Engine {
    /// The borrower's pool requests a server.
    pub(crate) fn request_from_owner<I: Io>(&mut self, now: Time, ix: PoolIx, io: &mut I) {
        let slot = self.pools.get_mut(ix);
        let LendingRole::Borrower(borrowing) = &mut slot.lending else { return };
        let request = borrowing.borrower.request(&slot.pool, now);
        send(borrowing.owner, slot.id(), Body::ToOwner(request), None, io);
    }

    /// Whether a clean server is returned to the owner instead of given to the next client here.
    #[inline]
    pub(crate) fn returns_to_owner(&self, ix: PoolIx, server: Peer) -> bool {
        let slot = self.pools.get(ix);
        match &slot.lending {
            LendingRole::Owner(_) => false,
            LendingRole::Borrower(borrowing) => {
                borrowing.borrower.returns(&slot.pool, server) && !self.admin.halt.is_suspended()
            }
        }
    }

    /// Returns a clean server, which the borrower's pool counts as linked.
    pub(crate) fn return_server<I: Io>(&mut self, server: Peer, io: &mut I) {
        let Some(slot) = self.peers.server(server) else { return };
        let Some((_, phase)) = slot.up() else { return };
        *phase = ServerPhase::Returning;
        io.detach(server);
    }

    /// The socket of a returned server is detached.
    fn send_returned<I: Io>(&mut self, now: Time, mut server: Box<ServerSlot>, io: &mut I) {
        let (peer, ix) = (server.peer, server.pool);
        let slot = self.pools.get_mut(ix);
        let LendingRole::Borrower(borrowing) = &mut slot.lending else { return };
        let Some(lent) = borrowing.borrower.returned(&mut slot.pool, peer, now) else { return };
        let (owner, pool) = (borrowing.owner, slot.id());
        self.untie(&mut server);
        send(owner, pool, Body::Returned { lent, server: MovedServer(server) }, Some(peer), io);
        self.common.follow_up(FollowUp::PollPool(ix));
    }

    /// A lent server has arrived.
    fn lent_received<I: Io>(&mut self, now: Time, from: WorkerId, pool: PoolId, lent: Lent, peer: Peer, io: &mut I) {
        let Lent { id, lent, server: MovedServer(mut server), ages, check, welcome, schema } = lent;
        let ix = self.borrowed_pool(&pool);
        let Some((ix, proof)) = ix.and_then(|ix| self.tie(&mut server, peer, ix).map(|proof| (ix, proof))) else {
            // The pool has been removed here, or the server sent something as it was about to leave.
            self.drop_moved(peer, &server, &pool.database, io);
            return self.lent_not_taken(now, from, pool, id, lent, io);
        };
        let slot = self.pools.get_mut(ix);
        if welcome.is_some() {
            slot.welcome = welcome;
            slot.welcome_confirmed(now);
        }
        let LendingRole::Borrower(borrowing) = &mut slot.lending else { return };
        slot.accepted.share_schema_version(schema);
        slot.failures.succeed();
        let mut answer = borrowing.borrower.received(&mut slot.pool, id, (peer, lent), ages, proof, now);
        if let Release::Next { check: checked, .. } = &mut answer {
            *checked |= check;
        }
        self.add_moved(server, io);
        self.passed_on(now, ix, peer, answer, io);
    }

    /// A lent server can't be used: reports it to the owner as closed, and requests another one.
    fn lent_not_taken<I: Io>(&mut self, now: Time, owner: WorkerId, pool: PoolId, id: u32, lent: Peer, io: &mut I) {
        self.borrower_receives(now, &pool, ToBorrower::Failed(id), io);
        send(owner, pool, Body::ToOwner(ToOwner::Closed(lent)), None, io);
    }

    /// Handles a message from the owner of a pool.
    fn borrower_receives<I: Io>(&mut self, now: Time, pool: &PoolId, message: ToBorrower, io: &mut I) {
        let Some(ix) = self.pools.find(&pool.database, &pool.user) else { return };
        let slot = self.pools.get_mut(ix);
        let LendingRole::Borrower(borrowing) = &mut slot.lending else { return misdirected(io) };
        borrowing.borrower.receive(&mut slot.pool, message, now);
        if message == ToBorrower::Recall {
            self.recheck_linked(ix);
        }
        self.common.follow_up(FollowUp::PollPool(ix));
    }

    pub(crate) fn is_borrower(&self, ix: PoolIx) -> bool {
        self.pools.get(ix).lending.is_borrower()
    }

    /// A client must get the reason for its wait; the owner is asked when the pool is polled.
    pub(crate) fn request_cause(&mut self, ix: PoolIx, client: ToInform) {
        if let LendingRole::Borrower(borrowing) = &mut self.pools.get_mut(ix).lending {
            borrowing.to_tell.push(client);
            self.common.follow_up(FollowUp::PollPool(ix));
        }
    }

    /// The owner has sent the reason for the waits of its pool.
    fn cause_received<I: Io>(&mut self, now: Time, pool: &PoolId, why: (Cause, String), io: &mut I) {
        let Some(ix) = self.borrowed_pool(pool) else { return };
        let LendingRole::Borrower(borrowing) = &mut self.pools.get_mut(ix).lending else { return };
        borrowing.cause_requested = false;
        // During a SUSPEND no client gets a notice; RESUME asks again.
        if !self.admin.halt.is_suspended() {
            let to_tell = std::mem::take(&mut borrowing.to_tell);
            self.wait_explained(now, ix, &to_tell, why, io);
        }
    }

    /// Refuses clients that waited for a pool that has been removed here: the owner no longer answers for them.
    fn refuse_uninformed<I: Io>(&mut self, now: Time, ix: PoolIx, io: &mut I) {
        let slot = self.pools.get_mut(ix);
        let LendingRole::Borrower(borrowing) = &mut slot.lending else { return };
        if !slot.removed || borrowing.to_tell.is_empty() {
            return;
        }
        for waiting in std::mem::take(&mut borrowing.to_tell) {
            if let ToInform::Refused(client) = waiting {
                let refusal = self.refusal(ix, RefuseReason::ShuttingDown);
                self.refuse_handle(now, client, refusal, io);
            }
        }
    }

    fn borrowed_pool(&self, pool: &PoolId) -> Option<PoolIx> {
        self.pools.find(&pool.database, &pool.user).filter(|ix| self.is_borrower(*ix))
    }

    /// Sends the owner credentials from a client's login.
    pub(crate) fn teach<I: Io>(&mut self, ix: PoolIx, learnt: Learnings, io: &mut I) {
        let slot = self.pools.get(ix);
        if let LendingRole::Borrower(borrowing) = &slot.lending {
            send(borrowing.owner, slot.id(), Body::Learnt(Box::new(learnt)), None, io);
        }
    }

    /// Reports closed servers to the owner at once, during a SUSPEND too: it counts them until then.
    pub(crate) fn report_closed<I: Io>(&mut self, ix: PoolIx, io: &mut I) {
        let slot = self.pools.get_mut(ix);
        let LendingRole::Borrower(borrowing) = &mut slot.lending else { return };
        let (owner, closed) = (borrowing.owner, borrowing.borrower.take_closed(&slot.pool));
        closed.into_iter().for_each(|closed| send(owner, slot.id(), Body::ToOwner(closed), None, io));
    }

    fn settle_borrower<I: Io>(&mut self, now: Time, ix: PoolIx, io: &mut I) -> Time {
        self.refuse_uninformed(now, ix, io);
        let slot = self.pools.get_mut(ix);
        // Under a limit that pools share no server may be idle where it can't be closed for another pool.
        let keep = !self.common.config().is_limited(&slot.name, &slot.user);
        let LendingRole::Borrower(borrowing) = &mut slot.lending else { return Time::NEVER };
        let settled = borrowing.borrower.settle(&mut slot.pool, keep, slot.clients > 0, now);
        let asks = !borrowing.to_tell.is_empty() && !std::mem::replace(&mut borrowing.cause_requested, true);
        let owner = borrowing.owner;
        for message in settled.messages {
            send(owner, slot.id(), Body::ToOwner(message), None, io);
        }
        if asks {
            send(owner, slot.id(), Body::RequestCause, None, io);
        }
        settled.to_return.into_iter().for_each(|server| self.return_server(server, io));
        settled.again
    }
}

/// Both sides.
impl Engine {
    /// A message about a pool that this worker owns or borrows from.
    pub(crate) fn lending_received<I: Io>(
        &mut self,
        now: Time,
        from: WorkerId,
        message: LendingMessage,
        socket: Option<Peer>,
        io: &mut I,
    ) {
        let LendingMessage { pool, body } = message;
        match (body, socket) {
            (Body::ToOwner(ToOwner::Closed(lent)), _) => self.lent_closed(now, lent),
            (Body::ToOwner(message), _) => self.owner_receives(now, from, pool, message, io),
            (Body::ToBorrower(message, error), _) => {
                self.borrower_receives(now, &pool, message, io);
                if let (Some(ix), Some((error, too_slow))) = (self.borrowed_pool(&pool), error) {
                    self.pools.get_mut(ix).failures.add(error, too_slow, now);
                }
            }
            (Body::Lent(lent), Some(peer)) => self.lent_received(now, from, pool, *lent, peer, io),
            (Body::Returned { lent, server }, Some(peer)) => self.lent_returned(now, lent, server.0, peer, io),
            (Body::Lent(lent), None) => {
                log(Level::Error, format_args!("a server arrived without its socket"), io);
                self.lent_not_taken(now, from, pool, lent.id, lent.lent, io);
            }
            (Body::Returned { lent, .. }, None) => {
                log(Level::Error, format_args!("a server arrived without its socket"), io);
                self.lent_closed(now, lent);
            }
            (Body::Learnt(learnt), _) => self.owner_learns(now, &pool, &learnt),
            (Body::RequestCause, _) => self.cause_requested(now, from, pool, io),
            (Body::WaitCause(cause, detail), _) => self.cause_received(now, &pool, (cause, detail), io),
        }
    }

    /// A server's socket is detached, as requested.
    pub(crate) fn server_detached<I: Io>(&mut self, now: Time, server: Box<ServerSlot>, io: &mut I) {
        match server.phase() {
            Some(ServerPhase::Lending { request, check }) => self.send_lent(server, request, check, io),
            Some(ServerPhase::Returning) => self.send_returned(now, server, io),
            Some(ServerPhase::Leaving) => self.server_leaves(server, io),
            _ => self.peers.put(server.peer, Entry::Server(server)),
        }
    }

    /// Takes a server's ties to this worker off it.
    pub(crate) fn untie(&mut self, server: &mut ServerSlot) {
        if std::mem::replace(&mut server.armed, Time::NEVER) != Time::NEVER {
            self.common.timers().forget();
            self.tidy_timers();
        }
        server.reading = ServerReading::default();
    }

    /// Gives a server its new handle and pool, with the proof that it is clean.
    fn tie(&mut self, server: &mut ServerSlot, peer: Peer, ix: PoolIx) -> Option<Clean> {
        (server.peer, server.pool) = (peer, ix);
        let welcome = self.pools.get(ix).welcome.as_ref().map(|welcome| welcome.params.clone());
        let (up, phase) = server.up()?;
        *phase = ServerPhase::Idle;
        welcome.iter().for_each(|known| up.share_params(known));
        up.prove_clean()
    }

    /// Adds a moved server to this worker's peers.
    fn add_moved<I: Io>(&mut self, server: Box<ServerSlot>, io: &mut I) {
        let peer = server.peer;
        self.peers.put(peer, Entry::Server(server));
        if self.admin.halt.is_suspended() {
            self.hold(peer, io);
        }
    }

    /// Handles what is due between the workers of a pool; returns when something will be due, if nothing happens
    /// before.
    pub(crate) fn settle_lending<I: Io>(&mut self, now: Time, ix: PoolIx, io: &mut I) -> Time {
        if self.is_borrower(ix) { self.settle_borrower(now, ix, io) } else { self.settle_owner(now, ix, io) }
    }
}

fn send<I: Io>(to: WorkerId, pool: PoolId, body: Body, socket: Option<Peer>, io: &mut I) {
    io.post(to, Message(Payload::Lending(Box::new(LendingMessage { pool, body }))), socket);
}

fn misdirected<I: Io>(io: &mut I) {
    log(Level::Error, format_args!("a message about lending reached the wrong worker"), io);
}
