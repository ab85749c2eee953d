//! A client's channels change.

use weir_base::{ConnId, Time};
use weir_pgwire::Dirty;
use weir_session::Left;

use crate::client::slot::ClientSlot;
use crate::common::{FollowUp, cx};
use crate::core::Core;
use crate::listen::state::By;
use crate::listen::{clients, server};
use crate::port::Io;
use crate::server::slot::{ServerPhase, ServerSlot};

/// What comes of the channels on which a server listens for its client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Followed {
    /// There are none, or the client gets its notifications by the shared server.
    Shared,
    /// The same, once the shared server has listened and received.
    Waits,
    /// The client's server listens for all clients from now on; the client has none.
    Left,
    /// The client keeps its server for them.
    Own,
    /// The client loses them with its server.
    Lost,
}

/// A server has said on which channels it listens for its client. `was_own`: the client had kept it for its channels.
pub(crate) fn follow<I: Io>(
    core: &mut Core,
    now: Time,
    server: &mut ServerSlot,
    client: &mut ClientSlot,
    (left, was_own): (&Left, bool),
    io: &mut I,
) -> Followed {
    let conn = client.conn;
    let Some(session) = client.ready() else { return Followed::Own };
    let keeps = session.mode().keeps_state();
    let not_shared = if keeps { Followed::Own } else { Followed::Lost };
    let Some(names) = &left.channels else { return not_shared };
    let before = session.channels().map(|channels| channels.names().to_vec()).unwrap_or_default();
    if names.is_empty() && before.is_empty() {
        return Followed::Shared;
    }
    let slot = core.pools.get_mut(server.pool);
    if (!slot.rules.shares_listen || was_own || slot.removed) && before.is_empty() {
        return not_shared;
    }
    let encoding = server.up().and_then(|(up, _)| core.sessions.params.get(up.params(), "client_encoding"));
    let encoding = encoding.map(str::to_owned);
    let table = slot.listening.table_or_new();
    let by = table.by;
    let becomes = !matches!(by, By::Server(_)) && left.kept.without(Dirty::LISTEN).is_empty() && !names.is_empty();
    let becomes = becomes && server::may_listen(core, server);
    let table = core.pools.get_mut(server.pool).listening.table_or_new();
    let fits = becomes || table.encoding.is_none() || table.encoding == encoding;
    let listens = becomes || matches!(by, By::Server(_));
    if before.is_empty() && (!fits || (keeps && !listens)) {
        core.pools.get_mut(server.pool).listening.drop_if_unused();
        return not_shared;
    }
    let gone = before.iter().filter(|name| !names.contains(name));
    gone.for_each(|name| table.remove(name, conn));
    names.iter().for_each(|name| table.add(name, conn));
    session.listen(names.clone());
    let gap = !listens && before.is_empty();
    if gap {
        // Until another server listens.
        session.channels_mut().into_iter().for_each(|channels| channels.gap());
    }
    if let Some((up, _)) = server.up().filter(|_| !names.is_empty()) {
        up.listens_for_client();
    }
    core.common.follow_up(FollowUp::PollPool(server.pool));
    if becomes {
        table.encoding = encoding;
        table.is_heard(names);
        server::becomes(core, now, server, io);
        return Followed::Left;
    }
    core.pools.get_mut(server.pool).counts.counters.notification_gaps += u64::from(gap);
    if let By::Server(listener) = by {
        server::send_commands(cx!(core, now, io), core.pools.get_mut(server.pool), &mut core.conns, listener);
    }
    if clients::is_ready(
        session,
        core.pools.get_mut(server.pool).listening.table().as_deref(),
        Some(server.connection.target()),
    ) {
        return Followed::Shared;
    }
    Followed::Waits
}

/// The client's server waits with it for the server that listens; what is `left` there counts then.
pub(crate) fn wait(core: &mut Core, server: &mut ServerSlot, client: &ClientSlot, left: Left) {
    server.up().into_iter().for_each(|(_, phase)| *phase = ServerPhase::Subscribing);
    let table = core.pools.get_mut(server.pool).listening.table_or_new();
    table.waiting.insert(client.conn, Box::new(left));
}

/// The session of a client whose server waits with it for the server that listens.
pub(crate) fn server_of(core: &mut Core, client: ConnId) -> Option<(Box<ServerSlot>, Box<ClientSlot>)> {
    let client = core.conns.take::<ClientSlot>(client)?;
    let server = client.link.and_then(|server| core.conns.take::<ServerSlot>(server));
    match server {
        Some(server) if server.phase() == Some(ServerPhase::Subscribing) => Some((server, client)),
        server => {
            server.into_iter().for_each(|server| core.conns.put_server(server));
            core.conns.put_client(client);
            None
        }
    }
}
