//! The worker to which a client moves.

use weir_base::{ConnId, Time, WorkerId};

use crate::cancel::pids::worker_of;
use crate::client::slot::ClientSlot;
use crate::core::Core;
use crate::log::log;
use crate::moves::ClientMove;
use crate::port::{Io, Level};
use crate::upgrade::import::{self, Counted};
use crate::workers::client_counts;
use crate::workers::messages::{Message, Payload};

/// A client has come from another worker, or back to this one.
pub(crate) fn arrived<I: Io>(
    core: &mut Core,
    now: Time,
    from: WorkerId,
    ClientMove { client, counts_for }: ClientMove,
    conn: ConnId,
    io: &mut I,
) {
    core.away.returns((client.pid, client.id));
    import::client_came(core, now, client, conn, Counted::For(counts_for), io);
    if from != core.common.worker() {
        if let Some(pool) = core.conns.get::<ClientSlot>(conn).map(|client| client.pool) {
            core.pools.get_mut(pool).counts.counters.clients_moved += 1;
        }
        io.post(from, Message(Payload::MoveArrived), None);
    }
}

/// A client was to come, and its socket has not: the client is gone.
pub(crate) fn lost<I: Io>(core: &mut Core, from: WorkerId, moved: ClientMove, io: &mut I) {
    log(Level::Error, format_args!("a client arrived without its socket"), io);
    let key = (moved.client.pid, moved.client.id);
    io.post(worker_of(key.0, core.common.workers()), Message(Payload::AwayGone(key)), None);
    client_counts::uncount_one(core, moved.counts_for, io);
    if from != core.common.worker() {
        io.post(from, Message(Payload::MoveArrived), None);
    }
}
