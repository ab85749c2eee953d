//! What the owner of a pool and its borrowers send each other, and how a server's socket is prepared to move.

use weir_base::{ConnId, Time, WorkerId};
use weir_pool::RefuseReason;
use weir_pool::lending::{BorrowRequest, ToBorrower};
use weir_session::Clean;

use crate::client::table;
use crate::common::{FollowUp, UnderWay};
use crate::conns::Conn;
use crate::core::Core;
use crate::handles::PoolIx;
use crate::lending::state::{Body, ForwardedCredentials, LendingMessage, LendingRole, ToInform};
use crate::log::log;
use crate::pause::hold;
use crate::port::{Io, Level};
use crate::server::slot::{ServerPhase, ServerSlot};
use crate::workers::messages::{Message, Payload};
use crate::workers::quota::PoolId;

/// Servers that are lent to one borrower must be closed as they become free.
pub(crate) fn recall_from<I: Io>(core: &Core, ix: PoolIx, borrower: WorkerId, io: &mut I) {
    send(borrower, core.pools.get(ix).id(), Body::ToBorrower(ToBorrower::Recall, None), None, io);
}

/// Lent servers must be closed as they become free.
pub(crate) fn recall<I: Io>(core: &mut Core, ix: PoolIx, io: &mut I) {
    if let LendingRole::Owner(lender) = &core.pools.get(ix).lending {
        lender.with_servers().for_each(|borrower| recall_from(core, ix, borrower, io));
    }
}

/// Whether a handle of a pool that is owned here names a server that is lent.
pub(crate) fn is_lent(core: &Core, server: ConnId) -> bool {
    core.lent.contains_key(&server)
}

/// Whether this worker borrows a pool's servers.
pub(crate) fn is_borrower(core: &Core, ix: PoolIx) -> bool {
    core.pools.get(ix).lending.is_borrower()
}

/// A client must get the reason for its wait; the owner is asked when the pool is polled.
pub(crate) fn request_cause(core: &mut Core, ix: PoolIx, client: ToInform) {
    if let LendingRole::Borrower(borrowing) = &mut core.pools.get_mut(ix).lending {
        borrowing.to_tell.push(client);
        core.common.follow_up(FollowUp::PollPool(ix));
    }
}

/// Sends the owner credentials from a client's login.
pub(crate) fn forward_captured<I: Io>(core: &mut Core, ix: PoolIx, captured: ForwardedCredentials, io: &mut I) {
    let slot = core.pools.get(ix);
    if let LendingRole::Borrower(borrowing) = &slot.lending {
        send(borrowing.owner, slot.id(), Body::Captured(Box::new(captured)), None, io);
    }
}

/// Reports closed servers to the owner at once, during a SUSPEND too: it counts them until then.
pub(crate) fn report_closed<I: Io>(core: &mut Core, ix: PoolIx, io: &mut I) {
    let slot = core.pools.get_mut(ix);
    let LendingRole::Borrower(borrowing) = &mut slot.lending else { return };
    let (owner, closed) = (borrowing.owner, borrowing.borrower.take_closed(&slot.pool));
    closed.into_iter().for_each(|closed| send(owner, slot.id(), Body::ToOwner(closed), None, io));
}

/// The borrower's pool requests a server.
pub(crate) fn request_from_owner<I: Io>(core: &mut Core, now: Time, ix: PoolIx, io: &mut I) {
    let slot = core.pools.get_mut(ix);
    let LendingRole::Borrower(borrowing) = &mut slot.lending else { return };
    let request = borrowing.borrower.request(&slot.pool, now);
    send(borrowing.owner, slot.id(), Body::ToOwner(request), None, io);
}

/// The pool has granted a server to a borrower's request: its socket moves.
pub(crate) fn lend<I: Io>(core: &mut Core, request: BorrowRequest, server: ConnId, check: bool, io: &mut I) {
    let Some(slot) = core.conns.get_mut::<ServerSlot>(server) else { return };
    slot.unlinked();
    let ix = slot.pool;
    let Some((_, phase)) = slot.up() else { return };
    *phase = ServerPhase::Lending { request, check };
    if let Some(lender) = core.pools.get_mut(ix).lending.lender() {
        lender.answered(request, true);
    }
    core.common.follow_up(FollowUp::PollPool(ix));
    io.detach(server);
}

/// Returns a clean server, which the borrower's pool counts as linked.
pub(crate) fn return_server<I: Io>(core: &mut Core, server: ConnId, io: &mut I) {
    let Some(slot) = core.conns.get_mut::<ServerSlot>(server) else { return };
    let Some((_, phase)) = slot.up() else { return };
    *phase = ServerPhase::Returning;
    io.detach(server);
}

/// The server for a borrower's request was lost before it left.
pub(crate) fn lending_failed<I: Io>(core: &mut Core, ix: PoolIx, request: BorrowRequest, io: &mut I) {
    let slot = core.pools.get_mut(ix);
    if let Some(lender) = slot.lending.lender() {
        lender.server_ended(request.from);
    }
    send(request.from, slot.id(), Body::ToBorrower(ToBorrower::Failed(request.id), None), None, io);
    core.common.follow_up(FollowUp::PollPool(ix));
}

/// The pool refuses a borrower's request.
pub(crate) fn refuse_request<I: Io>(
    core: &mut Core,
    now: Time,
    ix: PoolIx,
    request: BorrowRequest,
    why: RefuseReason,
    io: &mut I,
) {
    let slot = core.pools.get_mut(ix);
    if let Some(lender) = slot.lending.lender() {
        lender.answered(request, false);
    }
    let retry_at = slot.pool.snapshot(now).retry_at.unwrap_or(now);
    let error = slot.failures.last().map(|(error, too_slow)| (error.clone(), too_slow));
    let refused = ToBorrower::Refused { id: request.id, why, retry_at };
    send(request.from, slot.id(), Body::ToBorrower(refused, error), None, io);
}

/// Whether a pool still uses a server that comes from another worker.
pub(crate) fn may_stay(core: &Core, ix: PoolIx, server: &mut ServerSlot) -> bool {
    let slot = core.pools.get(ix);
    !server.up().is_some_and(|(up, _)| up.is_doubtful(&slot.accepted))
        && core.primaries.may_stay(&slot.name, slot.config.session_attrs, server.connection.target())
}

/// Gives a server its new handle and pool, with the proof that it is clean.
pub(crate) fn tie(core: &mut Core, server: &mut ServerSlot, conn: ConnId, ix: PoolIx) -> Option<Clean> {
    server.moves_to(conn, ix);
    let welcome = core.pools.get(ix).welcome.as_ref().map(|welcome| welcome.params.clone());
    let (up, phase) = server.up()?;
    *phase = ServerPhase::Idle;
    welcome.iter().for_each(|known| up.share_params(known));
    up.prove_clean()
}

/// Removes a server's ties to this worker: its timer, and the reasons not to read from it.
pub(crate) fn untie(core: &mut Core, server: &mut ServerSlot) {
    if server.leaves_worker() {
        core.common.timers().forget();
        table::tidy_timers(core);
    }
}

/// Adds a moved server to this worker's connections.
pub(crate) fn add_moved<I: Io>(core: &mut Core, server: Box<ServerSlot>, io: &mut I) {
    let conn = server.conn;
    core.conns.put_at(conn, Conn::Server(server));
    if core.common.is_under_way(UnderWay::SUSPEND) {
        hold::hold(core, conn, io);
    }
}

/// Sends a message about a pool, maybe with a socket.
pub(crate) fn send<I: Io>(to: WorkerId, pool: PoolId, body: Body, socket: Option<ConnId>, io: &mut I) {
    io.post(to, Message(Payload::Lending(Box::new(LendingMessage { pool, body }))), socket);
}

/// A message has reached a worker that it is not for.
pub(crate) fn misdirected<I: Io>(io: &mut I) {
    log(Level::Error, format_args!("a message about lending reached the wrong worker"), io);
}
