//! Clients under limits of the process: the keys under which each counts.

use weir_base::{ClientAddr, ConnId};

use crate::client::slot::{ClientPhase, ClientSlot};
use crate::conns::Conn;
use crate::core::Core;
use crate::lines;
use crate::port::Io;
use crate::workers::messages::{Message, Payload};
use crate::workers::quota::{ClientUse, QuotaRequest, Resource};
use crate::workers::send::{COUNTER, request};

/// The keys under which a client counts; none before it has named a database.
pub(crate) fn client_use(core: &Core, client: &ClientSlot) -> Option<ClientUse> {
    let database = lines::database_of(core, client);
    (!database.is_empty()).then(|| use_of(client, database))
}

/// The keys under which a client of this database counts.
pub(crate) fn use_of(client: &ClientSlot, database: &str) -> ClientUse {
    let address = match client.addr {
        ClientAddr::Tcp(from) => Some(from.ip().to_canonical()),
        ClientAddr::Unix { .. } => None,
    };
    ClientUse { database: database.into(), user: client.user.clone(), address }
}

/// Counts a client that is admitted, whatever the limit.
pub(crate) fn count_in<I: Io>(client: &mut ClientSlot, counts_for: ClientUse, io: &mut I) {
    client.counts_for(counts_for.clone());
    request(QuotaRequest::Add { resource: Resource::Client(counts_for), count: 1 }, io);
}

/// A client has disconnected, in any phase.
pub(crate) fn uncount<I: Io>(core: &mut Core, client: &mut ClientSlot, io: &mut I) {
    let counts_for = client.counts_no_more();
    uncount_one(core, counts_for, io);
}

/// A client that counted under these keys is gone.
pub(crate) fn uncount_one<I: Io>(core: &mut Core, counts_for: Option<Box<ClientUse>>, io: &mut I) {
    if let Some(counts_for) = counts_for {
        request(QuotaRequest::Release { resource: Resource::Client(*counts_for), count: 1 }, io);
    }
    if core.common.worker() == COUNTER {
        core.client_quota.remove();
    } else {
        io.post(COUNTER, Message(Payload::ClientGone), None);
    }
}

/// Counts the clients that were admitted when no limit was set.
pub(crate) fn count_uncounted<I: Io>(core: &mut Core, io: &mut I) {
    if !core.common.limits_clients() {
        return;
    }
    let is_in = |client: &&ClientSlot| {
        client.counts_for.is_none()
            && matches!(
                client.phase,
                ClientPhase::Ready(_) | ClientPhase::Streaming(_) | ClientPhase::Welcome(_) | ClientPhase::Console(_)
            )
    };
    let uncounted: Vec<ConnId> = core.conns.all::<ClientSlot>().filter(is_in).map(|client| client.conn).collect();
    for conn in uncounted {
        let Some(mut client) = core.conns.take::<ClientSlot>(conn) else { continue };
        if let Some(counts_for) = client_use(core, &client) {
            count_in(&mut client, counts_for, io);
        }
        core.conns.put_at(conn, Conn::Client(client));
    }
}

/// Counts a client that has arrived from another process, whatever the limit.
pub(crate) fn count_imported<I: Io>(core: &mut Core, client: &mut ClientSlot, io: &mut I) {
    if core.common.worker() == COUNTER {
        core.client_quota.add();
    } else {
        io.post(COUNTER, Message(Payload::ClientCame), None);
    }
    count_under_limits(core, client, io);
}

/// Counts a client that has come from another worker, where it counted under these keys.
pub(crate) fn count_moved<I: Io>(
    core: &mut Core,
    client: &mut ClientSlot,
    counts_for: Option<Box<ClientUse>>,
    io: &mut I,
) {
    match counts_for {
        Some(counts_for) => client.counts_for(*counts_for),
        // A limit may have been set meanwhile.
        None => count_under_limits(core, client, io),
    }
}

fn count_under_limits<I: Io>(core: &Core, client: &mut ClientSlot, io: &mut I) {
    if core.common.limits_clients()
        && let Some(counts_for) = client_use(core, client)
    {
        count_in(client, counts_for, io);
    }
}
