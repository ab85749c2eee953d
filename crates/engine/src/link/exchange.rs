//! A client gets another server in place of the one that it has: the one that has what it asks for.

use weir_base::{ConnId, Time};
use weir_session::{Client, StopReason};

use crate::client::slot::ClientSlot;
use crate::common::cx;
use crate::core::Core;
use crate::link::{acquire, release};
use crate::port::Io;
use crate::server::slot::{ServerSlot, ServerState};

/// A client's next request asks for what it has drawn of sequences, or it may: it is linked to the server that has that,
/// if that is free, instead of the one that it has, which was sent nothing.
///
/// # Errors
/// The client waits for a server.
#[cold]
pub(crate) fn for_values<I: Io>(
    core: &mut Core,
    now: Time,
    client: &mut ClientSlot,
    server: Box<ServerSlot>,
    io: &mut I,
) -> Result<Box<ServerSlot>, StopReason> {
    let slot = core.pools.get_mut(client.pool);
    let session = client.ready();
    let has_values = |conn: &ConnId| {
        let Some(ServerState::Up(up, _)) = core.conns.get::<ServerSlot>(*conn).map(|server| &server.state) else {
            return false;
        };
        session.as_deref().is_some_and(|session| up.has_values_of(session))
    };
    let found = if server.cancels == 0 { slot.pool.idle().find(has_values) } else { None };
    let taken = found.and_then(|conn| slot.pool.take(conn, client.conn, now).map(|check| (conn, check)));
    let other = taken.and_then(|(conn, check)| Some((core.conns.take::<ServerSlot>(conn)?, check)));
    let Some((mut other, check)) = other else {
        client.ready().into_iter().for_each(Client::stay_without_values);
        return Ok(server);
    };
    release::give_up(core, now, server, client, io);
    let slot = core.pools.get_mut(client.pool);
    if acquire::link(cx!(core, now, io), slot, client, &mut other, check) {
        return Ok(other);
    }
    core.conns.put_server(other);
    Err(StopReason::NeedServer)
}
