//! The owner's side: servers are lent, and return.

use weir_base::{ConnId, Time, WorkerId};
use weir_pool::lending::{BorrowRequest, ToBorrower, ToOwner};
use weir_pool::{Acquire, RefuseReason};
use weir_session::Cause;

use crate::common::FollowUp;
use crate::core::Core;
use crate::handles::PoolIx;
use crate::lending::messages;
use crate::lending::messages::{misdirected, send};
use crate::lending::state::{Body, ForwardedCredentials, LendingRole, Lent, LentServer, MovedServer};
use crate::link::release;
use crate::pools::{apply_config, create, refuse};
use crate::port::Io;
use crate::server::close;
use crate::server::slot::ServerSlot;
use crate::workers::quota::PoolId;

/// The socket of a lent server is detached.
pub(crate) fn send_lent<I: Io>(
    core: &mut Core,
    mut server: Box<ServerSlot>,
    request: BorrowRequest,
    check: bool,
    io: &mut I,
) {
    let (lent, ix) = (server.conn, server.pool);
    let resolved = server.connection.on().map(|(name, address)| (name.into(), address));
    messages::untie(core, &mut server);
    let slot = core.pools.get(ix);
    let unwanted = slot.pool.is_recalled(lent) || server.closes;
    let body = Body::Lent(Box::new(Lent {
        id: request.id,
        lent,
        server: MovedServer(server),
        ages: slot.pool.ages(lent),
        check,
        welcome: slot.welcome.clone(),
        shared: slot.accepted.shared(),
    }));
    let pool = slot.id();
    core.lent.insert(lent, LentServer { pool: ix, borrower: request.from, resolved });
    send(request.from, pool, body, Some(lent), io);
    if unwanted {
        // The recall was sent before this worker was a borrower.
        messages::recall_from(core, ix, request.from, io);
    }
}

/// The pool of a borrower's message. If its first clients are a borrower's, it is created here with the first
/// message.
fn owned_pool<I: Io>(core: &mut Core, now: Time, pool: &PoolId, create: bool, io: &mut I) -> Option<PoolIx> {
    let known = core.pools.find(&pool.database, &pool.user);
    if known.is_some() || !create {
        return known;
    }
    let config = core.common.config().pool(&pool.database).filter(|config| create::fits(core, config, &pool.user))?;
    Some(apply_config::pool_of(core, now, &pool.database, &config, &pool.user, io))
}

/// Handles a message from a borrower of a pool.
pub(crate) fn receives<I: Io>(core: &mut Core, now: Time, from: WorkerId, pool: PoolId, message: ToOwner, io: &mut I) {
    let creates = matches!(message, ToOwner::Request { .. } | ToOwner::HasClients(true));
    let Some(ix) = owned_pool(core, now, &pool, creates, io) else {
        if let ToOwner::Request { id, .. } = message {
            // A reload has removed the pool, or not created it yet; the borrower will adopt the same
            // configuration.
            let refused = ToBorrower::Refused { id, why: RefuseReason::ShuttingDown, retry_at: now };
            send(from, pool, Body::ToBorrower(refused, None), None, io);
        }
        return;
    };
    let slot = core.pools.get_mut(ix);
    slot.follow_functions();
    let LendingRole::Owner(lender) = &mut slot.lending else { return misdirected(io) };
    match lender.receive(&mut slot.pool, from, message, now) {
        Some((request, Acquire::Granted { server, check })) => messages::lend(core, request, server, check, io),
        Some((request, Acquire::Refused(why))) => messages::refuse_request(core, now, ix, request, why, io),
        Some((_, Acquire::Queued)) | None => {}
    }
    if let ToOwner::HasClients(_) = message {
        create::count_client(core, ix, 0);
    }
    core.common.follow_up(FollowUp::PollPool(ix));
}

/// A lent server has closed, or its socket has not come with it.
pub(crate) fn lent_closed(core: &mut Core, now: Time, lent: ConnId) {
    let Some(LentServer { pool: ix, borrower, .. }) = core.lent.remove(&lent) else { return };
    let slot = core.pools.get_mut(ix);
    if let Some(lender) = slot.lending.lender() {
        lender.receive(&mut slot.pool, borrower, ToOwner::Closed(lent), now);
    }
    core.common.follow_up(FollowUp::PollPool(ix));
}

/// A lent server has returned.
pub(crate) fn lent_returned<I: Io>(
    core: &mut Core,
    now: Time,
    lent: ConnId,
    mut server: Box<ServerSlot>,
    conn: ConnId,
    io: &mut I,
) {
    let Some(&LentServer { pool: ix, borrower, .. }) = core.lent.get(&lent) else { return io.close(conn) };
    let stays = messages::may_stay(core, ix, &mut server);
    let Some(proof) = messages::tie(core, &mut server, conn, ix).filter(|_| stays) else {
        let database = core.pools.get(ix).name.clone();
        close::drop_moved(core, conn, &server, &database, io);
        return lent_closed(core, now, lent);
    };
    core.lent.remove(&lent);
    server.mark_for_close(core.hosts.dns.has_vanished(&server));
    if let Some(lender) = core.pools.get_mut(ix).lending.lender() {
        lender.server_ended(borrower);
    }
    messages::add_moved(core, server, io);
    let slot = core.pools.get_mut(ix);
    let answer = slot.pool.returned(lent, conn, proof, now);
    release::passed_on(core, now, ix, conn, answer, io);
}

/// A borrower requests the reason for its clients' waits. There is always an answer, since they get no notice
/// before it.
pub(crate) fn cause_requested<I: Io>(core: &mut Core, now: Time, from: WorkerId, pool: PoolId, io: &mut I) {
    let (cause, detail) = match core.pools.find(&pool.database, &pool.user) {
        Some(ix) => refuse::cause_of_wait(core, now, ix),
        None => (Cause::ServerDown, "A reload has taken the pool down.".to_owned()),
    };
    send(from, pool, Body::WaitCause(cause, detail), None, io);
}

/// Takes over credentials from a login at a borrower.
pub(crate) fn capture_forwarded<I: Io>(
    core: &mut Core,
    now: Time,
    pool: &PoolId,
    captured: &ForwardedCredentials,
    io: &mut I,
) {
    if let Some(ix) = owned_pool(core, now, pool, true, io) {
        core.pools.get_mut(ix).credentials.capture(&captured.captured, &captured.asked);
        core.common.follow_up(FollowUp::PollPool(ix));
    }
}

/// What is due at the owner; returns when more will be, if nothing happens before.
pub(crate) fn settle<I: Io>(core: &mut Core, now: Time, ix: PoolIx, io: &mut I) -> Time {
    let slot = core.pools.get_mut(ix);
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
