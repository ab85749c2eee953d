//! The worker to which a client moves.

use weir_base::{ConnId, Time, WorkerId};

use crate::core::Core;
use crate::moves::ClientMove;
use crate::port::Io;
use crate::upgrade::import::{self, Counted};
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
        if let Some(pool) = core.conns.get::<crate::client::slot::ClientSlot>(conn).map(|client| client.pool) {
            core.pools.get_mut(pool).counts.counters.clients_moved += 1;
        }
        io.post(from, Message(Payload::MoveArrived), None);
    }
}
