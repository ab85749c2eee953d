//! Messages between the owner of a pool and its borrowers, and what is due between them.
//!
//! `weir_pool::lending` decides which messages are sent. A server moves only between two links, clean, so that what
//! moves is a value, and the receiving worker uses it like a server of its own.
//!
//! Always true: a server is in the table of one worker, or in one message; the owner learns exactly once of a borrowed
//! server's end, because what is borrowed is compared with the servers whenever the borrower's pool is polled.

use weir_base::{ConnId, Time, WorkerId};
use weir_pool::lending::ToOwner;

use crate::core::Core;
use crate::handles::PoolIx;
use crate::lending::state::{Body, LendingMessage};
use crate::lending::{borrower, messages, owner};
use crate::log::log;
use crate::port::{Io, Level};

/// A message about a pool that this worker owns or borrows from.
pub(crate) fn received<I: Io>(
    core: &mut Core,
    now: Time,
    from: WorkerId,
    message: LendingMessage,
    socket: Option<ConnId>,
    io: &mut I,
) {
    let LendingMessage { pool, body } = message;
    match (body, socket) {
        (Body::ToOwner(ToOwner::Closed(lent)), _) => owner::lent_closed(core, now, lent),
        (Body::ToOwner(message), _) => owner::receives(core, now, from, pool, message, io),
        (Body::ToBorrower(message, error), _) => {
            borrower::receives(core, now, &pool, message, io);
            if let (Some(ix), Some((error, too_slow))) = (borrower::borrowed_pool(core, &pool), error) {
                core.pools.get_mut(ix).failures.add(error, too_slow, now);
            }
        }
        (Body::Lent(lent), Some(conn)) => borrower::lent_received(core, now, from, pool, *lent, conn, io),
        (Body::Returned { lent, server }, Some(conn)) => owner::lent_returned(core, now, lent, server.0, conn, io),
        (Body::Lent(lent), None) => {
            log(Level::Error, format_args!("a server arrived without its socket"), io);
            borrower::lent_not_taken(core, now, from, pool, lent.id, lent.lent, io);
        }
        (Body::Returned { lent, .. }, None) => {
            log(Level::Error, format_args!("a server arrived without its socket"), io);
            owner::lent_closed(core, now, lent);
        }
        (Body::Captured(captured), _) => owner::capture_forwarded(core, now, &pool, &captured, io),
        (Body::RequestCause, _) => owner::cause_requested(core, now, from, pool, io),
        (Body::WaitCause(cause, detail), _) => borrower::cause_received(core, now, &pool, (cause, detail), io),
    }
}

/// Handles what is due between the workers of a pool; returns when something will be due, if nothing happens
/// before.
pub(crate) fn settle<I: Io>(core: &mut Core, now: Time, ix: PoolIx, io: &mut I) -> Time {
    if messages::is_borrower(core, ix) { borrower::settle(core, now, ix, io) } else { owner::settle(core, now, ix, io) }
}
