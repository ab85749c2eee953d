//! A borrower's side: servers arrive, and are given back.

use weir_base::{ConnId, Time, WorkerId};
use weir_pool::lending::{ToBorrower, ToOwner};
use weir_pool::{RefuseReason, Release};
use weir_session::Cause;

use crate::admin::wait_diagnosis;
use crate::common::{FollowUp, UnderWay};
use crate::core::Core;
use crate::handles::PoolIx;
use crate::lending::messages;
use crate::lending::messages::{misdirected, send};
use crate::lending::state::{Body, LendingRole, Lent, MovedServer, ToInform};
use crate::link::{leave, release};
use crate::pools::{reconnect, refuse};
use crate::port::Io;
use crate::server::close;
use crate::server::slot::ServerSlot;
use crate::workers::quota::PoolId;

/// The pool of an owner's message.
pub(crate) fn borrowed_pool(core: &Core, pool: &PoolId) -> Option<PoolIx> {
    core.pools.find(&pool.database, &pool.user).filter(|ix| messages::is_borrower(core, *ix))
}

/// Handles a message from the owner of a pool.
pub(crate) fn receives<I: Io>(core: &mut Core, now: Time, pool: &PoolId, message: ToBorrower, io: &mut I) {
    let Some(ix) = core.pools.find(&pool.database, &pool.user) else { return };
    let slot = core.pools.get_mut(ix);
    let LendingRole::Borrower(borrowing) = &mut slot.lending else { return misdirected(io) };
    borrowing.borrower.receive(&mut slot.pool, message, now);
    if message == ToBorrower::Recall {
        reconnect::recheck_linked(core, ix);
    }
    core.common.follow_up(FollowUp::PollPool(ix));
}

/// The socket of a returned server is detached.
pub(crate) fn send_returned<I: Io>(core: &mut Core, now: Time, mut server: Box<ServerSlot>, io: &mut I) {
    let (conn, ix) = (server.conn, server.pool);
    let slot = core.pools.get_mut(ix);
    let LendingRole::Borrower(borrowing) = &mut slot.lending else { return };
    let Some(lent) = borrowing.borrower.returned(&mut slot.pool, conn, now) else { return };
    let (owner, pool) = (borrowing.owner, slot.id());
    messages::untie(core, &mut server);
    send(owner, pool, Body::Returned { lent, server: MovedServer(server) }, Some(conn), io);
    core.common.follow_up(FollowUp::PollPool(ix));
}

/// A lent server can't be used: reports it to the owner as closed, and requests another one.
pub(crate) fn lent_not_taken<I: Io>(
    core: &mut Core,
    now: Time,
    owner: WorkerId,
    pool: PoolId,
    id: u32,
    lent: ConnId,
    io: &mut I,
) {
    receives(core, now, &pool, ToBorrower::Failed(id), io);
    send(owner, pool, Body::ToOwner(ToOwner::Closed(lent)), None, io);
}

/// A lent server has arrived.
pub(crate) fn lent_received<I: Io>(
    core: &mut Core,
    now: Time,
    from: WorkerId,
    pool: PoolId,
    lent: Lent,
    conn: ConnId,
    io: &mut I,
) {
    let Lent { id, lent, server: MovedServer(mut server), ages, check, welcome, shared } = lent;
    let ix = borrowed_pool(core, &pool);
    // Whether the server may stay depends on it.
    ix.into_iter().for_each(|ix| core.pools.get_mut(ix).accepted.share(shared.clone()));
    let ix = ix.filter(|ix| messages::may_stay(core, *ix, &mut server));
    let Some((ix, proof)) = ix.and_then(|ix| messages::tie(core, &mut server, conn, ix).map(|proof| (ix, proof)))
    else {
        // The pool has been removed here, or has left the host, or the server sent something as it was about to leave.
        close::drop_moved(core, conn, &server, &pool.database, io);
        return lent_not_taken(core, now, from, pool, id, lent, io);
    };
    let slot = core.pools.get_mut(ix);
    if welcome.is_some() {
        slot.set_welcome(welcome);
        slot.welcome_confirmed(now);
    }
    let LendingRole::Borrower(borrowing) = &mut slot.lending else { return };
    slot.failures.succeed();
    let mut answer = borrowing.borrower.received(&mut slot.pool, id, (conn, lent), ages, proof, now);
    if let Release::Next { check: checked, .. } = &mut answer {
        *checked |= check;
    }
    messages::add_moved(core, server, io);
    release::passed_on(core, now, ix, conn, answer, io);
}

/// A borrower's clients get the owner's reason for their waits, completed by their own worker.
fn wait_explained<I: Io>(
    core: &mut Core,
    now: Time,
    ix: PoolIx,
    to_tell: &[ToInform],
    (cause, detail): (Cause, String),
    io: &mut I,
) {
    let holders = refuse::diagnose(core, now, ix, |diagnosis| diagnosis.holders());
    let detail = format!("{detail} At the client's own worker: {holders}");
    for waiting in to_tell {
        match *waiting {
            ToInform::Notified(client) => {
                wait_diagnosis::notify(&core.conns, core.pools.get(ix), client, &detail, io);
            }
            ToInform::Refused(client) => {
                let pool = core.pools.get_mut(ix);
                let config = core.common.config();
                let refusal = wait_diagnosis::timed_out(now, config, pool, (cause, detail.clone()), io);
                leave::refuse_handle(core, now, client, refusal, io);
            }
        }
    }
}

/// The owner has sent the reason for the waits of its pool.
pub(crate) fn cause_received<I: Io>(core: &mut Core, now: Time, pool: &PoolId, why: (Cause, String), io: &mut I) {
    let Some(ix) = borrowed_pool(core, pool) else { return };
    let LendingRole::Borrower(borrowing) = &mut core.pools.get_mut(ix).lending else { return };
    borrowing.cause_requested = false;
    // During a SUSPEND no client gets a notice; RESUME asks again.
    if !core.common.is_under_way(UnderWay::SUSPEND) {
        let to_tell = std::mem::take(&mut borrowing.to_tell);
        wait_explained(core, now, ix, &to_tell, why, io);
    }
}

/// Refuses clients that waited for a pool that has been removed here: the owner no longer answers for them.
fn refuse_uninformed<I: Io>(core: &mut Core, now: Time, ix: PoolIx, io: &mut I) {
    let slot = core.pools.get_mut(ix);
    let LendingRole::Borrower(borrowing) = &mut slot.lending else { return };
    if !slot.removed || borrowing.to_tell.is_empty() {
        return;
    }
    for waiting in std::mem::take(&mut borrowing.to_tell) {
        if let ToInform::Refused(client) = waiting {
            let refusal = refuse::refusal(core, ix, RefuseReason::ShuttingDown);
            leave::refuse_handle(core, now, client, refusal, io);
        }
    }
}

/// What is due at a borrower; returns when more will be, if nothing happens before.
pub(crate) fn settle<I: Io>(core: &mut Core, now: Time, ix: PoolIx, io: &mut I) -> Time {
    refuse_uninformed(core, now, ix, io);
    let slot = core.pools.get_mut(ix);
    // Under a limit that pools share no server may be idle where it can't be closed for another pool.
    let keep = !core.common.config().is_limited(&slot.name, &slot.user);
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
    settled.to_return.into_iter().for_each(|server| messages::return_server(core, server, io));
    settled.again
}
