//! The path of an auth_query through the pool that runs it.

use weir_base::{ConnId, Time, WorkerId};
use weir_config::OnServerDown;
use weir_pool::Acquire;
use weir_session::{Refusal, auth_query};

use crate::client_login::auth_queries::{LostServer, QueryEvent};
use crate::client_login::secret_query::{SecretQuery, UserSecret};
use crate::common::{FollowUp, cx};
use crate::conns::Conn;
use crate::core::Core;
use crate::handles::PoolIx;
use crate::lines;
use crate::link::{deadlines, lost, release};
use crate::pools::{apply_config, refuse};
use crate::port::{Io, Level};
use crate::server::slot::{ServerPhase, ServerSlot};
use crate::workers::messages::{Message, Payload};

/// A query has ended; it is in no queue and has no server.
pub(crate) fn end<I: Io>(core: &mut Core, handle: ConnId, answer: Result<UserSecret, Refusal>, io: &mut I) {
    let Some(over) = core.auth_queries.end(handle) else { return };
    core.pools.get_mut(over.pool).auth_query_ends();
    core.common.follow_up(FollowUp::PollPool(over.pool));
    send_answer(over.to, over.id, answer, io);
}

/// A query has its server.
pub(crate) fn send<I: Io>(core: &mut Core, now: Time, handle: ConnId, server: ConnId, io: &mut I) {
    let Some(slot) = core.conns.get_mut::<ServerSlot>(server) else { return };
    let cx = cx!(core, now, io);
    let Some(ix) = core.auth_queries.send(cx, handle, slot) else { return };
    let pool = core.pools.get_mut(ix);
    pool.counts.stats.server_assignment_count += 1;
    deadlines::watch_own_query(cx, pool, slot);
}

fn acquires<I: Io>(core: &mut Core, now: Time, handle: ConnId, ix: PoolIx, acquire: Acquire, io: &mut I) {
    match acquire {
        Acquire::Granted { server, .. } => send(core, now, handle, server, io),
        Acquire::Queued => core.common.follow_up(FollowUp::PollPool(ix)),
        Acquire::Refused(why) => {
            let refusal = refuse::refusal(core, ix, why);
            end(core, handle, Err(refusal), io);
        }
    }
}

/// Ends the queries that have waited long enough for the first server of their pool, which no attempt reaches.
pub(crate) fn end_unreached<I: Io>(core: &mut Core, now: Time, ix: PoolIx, io: &mut I) {
    let slot = core.pools.get(ix);
    let limits = &slot.config.limits;
    if !slot.has_auth_queries() || slot.failures.logged_in() || limits.on_server_down == OnServerDown::Refuse {
        return;
    }
    let Some(refusal) = refuse::unreached(core, ix) else { return };
    for handle in core.auth_queries.overdue(ix, limits.first_server_timeout, now) {
        core.pools.get_mut(ix).pool.leave(handle, now);
        end(core, handle, Err(refusal.clone()), io);
    }
}

/// The error for a client whose login ends while it waits for the secret of its user; the reason is known on the worker
/// of the pool that is queried.
pub(crate) fn not_answered(core: &Core, now: Time, database: &str) -> Refusal {
    let lookup = core.common.config().auth_lookup(database);
    let ix = lookup.and_then(|lookup| core.pools.find(&lookup.database.into(), &lookup.user.into()));
    let why = ix.map(|ix| refuse::cause_of_wait(core, now, ix).1).unwrap_or_default();
    let detail = format!("auth_query, which asks a server for the user's secret, has no answer yet. {why}");
    Refusal::LoginTimeoutServerDown { detail: detail.trim_end().to_owned() }
}

/// A worker requests a user's secret.
pub(crate) fn begin<I: Io>(core: &mut Core, now: Time, from: WorkerId, query: SecretQuery, io: &mut I) {
    let Some(config) = core.common.config().pool(&query.lookup.database) else {
        return send_answer(from, query.id, Err(Refusal::BadConfig), io);
    };
    let ix = apply_config::pool_of(core, now, &query.lookup.database, &config, &query.lookup.user, io);
    let slot = core.pools.get_mut(ix);
    slot.auth_query_begins();
    let handle = core.auth_queries.begin(from, query, ix, now);
    let acquire = slot.pool.acquire(handle, now);
    acquires(core, now, handle, ix, acquire, io);
}

fn answered<I: Io>(core: &mut Core, handle: ConnId, ix: PoolIx, answer: auth_query::AuthQueryResult, io: &mut I) {
    let iterations = core.common.config().auth.scram_iterations;
    let answer = core.auth_queries.judge(handle, answer, core.pools.get(ix), iterations, io);
    end(core, handle, answer, io);
}

/// Handles input of a query's server.
pub(crate) fn bytes<I: Io>(
    core: &mut Core,
    now: Time,
    mut server: Box<ServerSlot>,
    handle: ConnId,
    bytes: &[u8],
    io: &mut I,
) {
    let conn = server.conn;
    let cx = cx!(core, now, io);
    match core.auth_queries.feed(cx, handle, &mut server, bytes) {
        QueryEvent::More => core.conns.put_at(conn, Conn::Server(server)),
        QueryEvent::Answer(answer) => {
            if let Some((_, phase)) = server.up() {
                *phase = ServerPhase::Linked;
            }
            let ix = server.pool;
            answered(core, handle, ix, answer, io);
            release::clean_up(core, now, server, io);
        }
        QueryEvent::Unexpected(what) => {
            let text = format_args!("unexpected response to auth_query: {what}");
            lines::about_server(core, Level::Warning, &server, text, io);
            io.close(conn);
            lost::server_lost(core, now, server, io);
        }
        QueryEvent::NoSuchQuery => {
            io.close(conn);
            lost::server_lost(core, now, server, io);
        }
    }
}

/// A query has lost its server; `error` is the server's last one, if it was fatal.
pub(crate) fn lost<I: Io>(core: &mut Core, now: Time, handle: ConnId, error: Option<Refusal>, io: &mut I) {
    match core.auth_queries.lost_server(handle) {
        LostServer::Retry { pool, since } => {
            let acquire = core.pools.get_mut(pool).pool.requeue(handle, since, now);
            acquires(core, now, handle, pool, acquire, io);
        }
        LostServer::Failed => end(core, handle, Err(error.unwrap_or(Refusal::ServerLost)), io),
        LostServer::NoSuchQuery => {}
    }
}

/// A query was withdrawn.
pub(crate) fn withdraw(core: &mut Core, now: Time, id: u64) {
    let Some((handle, ix)) = core.auth_queries.withdraw(id) else { return };
    let slot = core.pools.get_mut(ix);
    slot.pool.leave(handle, now);
    slot.auth_query_ends();
    core.common.follow_up(FollowUp::PollPool(ix));
}

fn send_answer<I: Io>(to: WorkerId, id: u64, answer: Result<UserSecret, Refusal>, io: &mut I) {
    io.post(to, Message(Payload::LookedUp { id, answer }), None);
}
