//! A client leaves, or is refused: its server is released, and every table forgets it.

use weir_admin::TLS_NOT_OFFERED;
use weir_base::{ConnId, Origin, Time};
use weir_config::FileFormat;
use weir_session::{Refusal, SqlStates};

use crate::cancel::home;
use crate::client::slot::{ClientPhase, ClientSlot};
use crate::client::table;
use crate::client_login::state::Handoff;
use crate::common::FollowUp;
use crate::core::Core;
use crate::handles::NO_POOL;
use crate::lines;
use crate::listen::clients;
use crate::pause::watch;
use crate::pools::create;
use crate::port::{Io, Level};
use crate::server::close;
use crate::server::slot::{ServerPhase, ServerSlot};
use crate::workers::client_counts;
use crate::workers::messages::{Message, Payload};

/// Why a server is closed that was its client's alone.
const OWNER_GONE: &str = "replication client disconnected";

/// Why a server is closed whose client left it in the middle of something.
const NOT_READY: &str = "client disconnect while server was not ready";

/// A client is refused or disconnected: counts it at its pool, or at the one that it requested, if that is here.
fn count_refusal(core: &mut Core, now: Time, client: &ClientSlot, refusal: &Refusal) {
    if refusal.is_expected() {
        return;
    }
    let (origin, at) = (Origin::of(&client.addr), core.common.wall(now));
    if refusal.denies_login() && !client.phase.has_logged_in() {
        let names = (&*client.user, client.requested_database());
        core.refusals.count_login(names, origin, refusal, at);
    }
    let pool = client.pool().or_else(|| {
        let database = client.requested_database();
        let config = core.common.config();
        let pool = config.pool(database)?;
        let user = pool.user.as_deref().unwrap_or(&client.user);
        let own = core.pools.find(&database.into(), &user.into());
        own.or_else(|| {
            // A failed auth_query: the pool that it was to run in, as there is no other.
            let asks = pool.auth_user.as_ref().or(config.auth.query_user.as_ref())?;
            core.pools.find(&database.into(), &asks.as_str().into())
        })
    });
    let names = (&*client.user, client.application(&core.sessions.params), client.phase.has_logged_in());
    core.refusals.count(pool.map(|ix| core.pools.get_mut(ix)), refusal, (names, origin), at);
}

/// A client left its server; `why` is logged if the server must be closed.
fn abandon<I: Io>(core: &mut Core, now: Time, client: &ClientSlot, server: ConnId, why: &str, io: &mut I) {
    let Some(slot) = core.conns.get_mut::<ServerSlot>(server) else { return };
    slot.unlinked();
    let mid_message = matches!(&client.phase, ClientPhase::Ready(c) if c.is_mid_message());
    let Some((up, phase)) = slot.up() else { return };
    match *phase {
        ServerPhase::Linked if up.is_quiet() && !mid_message => core.common.follow_up(FollowUp::Release(server)),
        ServerPhase::Linked | ServerPhase::Checking | ServerPhase::SyncingParameters => {
            close::close(core, now, server, why, io);
        }
        ServerPhase::Subscribing => {
            *phase = ServerPhase::Linked;
            core.common.follow_up(FollowUp::Release(server));
        }
        ServerPhase::Streaming => close::close(core, now, server, OWNER_GONE, io),
        _ => {}
    }
}

/// Removes a client from all parts, without a line in the log; `servers`: the reason for closing its server, if that
/// must be closed with it.
fn leave<I: Io>(core: &mut Core, now: Time, mut client: Box<ClientSlot>, servers: &str, io: &mut I) {
    core.client_counts.remove(&client.phase);
    if let Some(key) = client.cancel.peer_key() {
        core.peering.forget(key);
    }
    table::forget_timer(core, &client);
    core.upgrade.keys.remove(client.conn);
    core.upgrade.left(client.conn);
    core.moves.gone(client.conn, io);
    for sender in core.moves.unpark(client.conn).into_iter().filter_map(|cancel| cancel.requester) {
        if let Some(sender) = core.conns.take::<ClientSlot>(sender) {
            client_leaves(core, now, sender, io);
        }
    }
    home::forget(core, &client, io);
    client_counts::uncount(core, &mut client, io);
    core.prelogin.discharge(&mut client);
    core.sessions.recycle(std::mem::take(client.waiting_mut()));
    if client.pool != NO_POOL {
        if core.sessions.statements.traffic().is_on() {
            core.sessions.statements.traffic_mut().client_left(client.pool, client.id, now);
        }
        clients::client_leaves(core, &client);
        core.pools.get_mut(client.pool).pool.leave(client.conn, now);
        core.common.follow_up(FollowUp::PollPool(client.pool));
        create::count_client(core, client.pool, -1);
        if let Some(server) = client.unlinked() {
            abandon(core, now, &client, server, servers, io);
        }
    }
    watch::check_drained(core, io);
    if client.phase.concerns_others() {
        core.common.follow_up(FollowUp::ClientGone(client));
    }
}

/// Removes a client from all parts. Its connection is closed already, or being closed.
pub(crate) fn remove_client<I: Io>(core: &mut Core, now: Time, client: Box<ClientSlot>, why: &str, io: &mut I) {
    lines::client_leaves(core, now, &client, why, io);
    leave(core, now, client, NOT_READY, io);
}

/// A client has sent Terminate: its server is kept only if it is clean.
pub(crate) fn client_leaves<I: Io>(core: &mut Core, now: Time, client: Box<ClientSlot>, io: &mut I) {
    io.close(client.conn);
    remove_client(core, now, client, "client close request", io);
}

/// A client's connection has closed; its handle is dead already.
pub(crate) fn client_gone<I: Io>(core: &mut Core, now: Time, client: Box<ClientSlot>, io: &mut I) {
    if let ClientPhase::Moving(handoff) = &client.phase
        && let Handoff::Cancel { to, pid, secret } = &**handoff
    {
        // PostgreSQL does what a sender asks that has closed its connection, too.
        io.post(*to, Message(Payload::CancelAlone { pid: *pid, secret: secret.clone() }), None);
    }
    let why = match client.phase {
        ClientPhase::Opening { declined: true, .. } => {
            // Behind one address with others, one that tries again without TLS may reach another process.
            if !core.common.config().has_siblings() {
                core.refusals.declined_leaves(Origin::of(&client.addr), now, |at| core.common.wall(at));
            }
            TLS_NOT_OFFERED
        }
        _ => "client unexpected eof",
    };
    remove_client(core, now, client, why, io);
}

/// Refuses a client, where the log gets another reason than the client.
pub(crate) fn refuse_because<I: Io>(
    core: &mut Core,
    now: Time,
    client: Box<ClientSlot>,
    refusal: Refusal,
    why: &str,
    io: &mut I,
) {
    count_refusal(core, now, &client, &refusal);
    let server = client.link.and_then(|server| core.conns.get_mut::<ServerSlot>(server));
    let mid_message = match &client.phase {
        ClientPhase::Streaming(stream) => stream.is_mid_message(),
        _ => server.and_then(|s| s.up()).is_some_and(|(up, _)| up.is_mid_message()),
    };
    // In a handshake the client would take the error for a part of the handshake.
    if !mid_message && !client.cut && !matches!(client.phase, ClientPhase::Handshake(_)) {
        let scratch = &mut core.sessions.scratch;
        scratch.clear();
        let states = match core.common.config().format {
            FileFormat::Toml => SqlStates::PostgreSql,
            FileFormat::Ini => SqlStates::PgBouncer,
        };
        refusal.write(states, scratch);
        io.send(client.conn, scratch);
    }
    lines::client_leaves(core, now, &client, why, io);
    if core.common.config().log.pooler_errors && !refusal.is_expected() {
        lines::about_client(core, Level::Warning, &client, format_args!("pooler error: {refusal}"), io);
    }
    io.close(client.conn);
    // A server that is closed because of a time-out has the time-out for a reason, as its client has.
    let timed_out =
        matches!(refusal, Refusal::QueryTimeout | Refusal::IdleTransactionTimeout | Refusal::TransactionTimeout);
    leave(core, now, client, if timed_out { why } else { NOT_READY }, io);
}

/// Sends a client an error, and closes its connection. In the middle of a message from its server nothing is sent: the
/// client would take the error for the rest of that message.
pub(crate) fn refuse<I: Io>(core: &mut Core, now: Time, client: Box<ClientSlot>, refusal: Refusal, io: &mut I) {
    let why = refusal.to_string();
    refuse_because(core, now, client, refusal, &why, io);
}

/// Refuses a client by its handle.
pub(crate) fn refuse_handle<I: Io>(core: &mut Core, now: Time, client: ConnId, refusal: Refusal, io: &mut I) {
    if let Some(client) = core.conns.take::<ClientSlot>(client) {
        refuse(core, now, client, refusal, io);
    }
}
