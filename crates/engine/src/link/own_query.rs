//! Queries of Weir on a server that its pool has: those before a client's work, and those after it.

use weir_base::{OnDirty, Time};
use weir_session::{Refusal, ServerError, param_sync};

use crate::client::slot::{ClientPhase, ClientSlot};
use crate::common::{FollowUp, cx};
use crate::core::Core;
use crate::lines;
use crate::link::{acquire, full, leave, lost, pin, release};
use crate::port::{Io, Level};
use crate::reading::Reason;
use crate::server::close;
use crate::server::hosts::READ_ONLY;
use crate::server::slot::{Reset, ServerPhase, ServerSlot};

/// The query was cancelled: by a timeout that an earlier client has set, or from outside. The values are not the
/// cause.
const QUERY_CANCELED: &str = "57014";

/// A server has been reset, including what its connect_query had set: runs that query again.
fn run_connect_query_again<I: Io>(core: &mut Core, now: Time, mut server: Box<ServerSlot>, io: &mut I) {
    let slot = core.pools.get(server.pool);
    let Some(query) = &slot.config.connect_query else { return release::return_to_pool(core, now, server, io) };
    acquire::own_query(cx!(core, now, io), slot, &mut server, query, ServerPhase::ConnectQueryAgain);
    core.conns.put_server(server);
}

/// A server has set its client's parameters: the client gets those that differ from what it requested.
fn parameters_done<I: Io>(core: &mut Core, server: &mut ServerSlot, client: &mut ClientSlot, io: &mut I) {
    let (ClientPhase::Ready(session), Some((up, phase))) = (client.phase_mut(), server.up()) else { return };
    *phase = ServerPhase::Linked;
    if io.logs(Level::Debug) {
        let respelled = param_sync::respelled(up, session, &core.sessions.params);
        let lines: Vec<_> = respelled
            .map(|(name, old, new)| format!("setting {name} to its canonical version {old} -> {new}"))
            .collect();
        for line in lines {
            lines::about_client(core, Level::Debug, client, format_args!("varcache_set_canonical: {line}"), io);
        }
    }
    let (ClientPhase::Ready(session), Some((up, _))) = (client.phase_mut(), server.up()) else { return };
    core.sessions.scratch.clear();
    param_sync::finish(up, session, Some((&core.sessions.params, &mut core.sessions.scratch)));
    if !core.sessions.scratch.is_empty() {
        io.send(client.conn, &core.sessions.scratch);
    }
}

/// A server has passed its check, or set its client's parameters.
fn setup_query_done<I: Io>(core: &mut Core, now: Time, mut server: Box<ServerSlot>, io: &mut I) {
    let Some(mut client) = server.link.and_then(|client| core.conns.take::<ClientSlot>(client)) else {
        return core.conns.put_server(server);
    };
    if let ClientPhase::Welcome(_) = client.phase {
        client.resume(Reason::Waits, io);
        core.common.follow_up(FollowUp::WelcomeConfirmed(client.conn));
        core.conns.put_client(client);
        return core.conns.put_server(server);
    }
    let checked = server.phase() == Some(ServerPhase::Checking);
    let slot = core.pools.get(server.pool);
    let waits = checked && acquire::sync_parameters(cx!(core, now, io), slot, &mut client, &mut server);
    if !waits {
        if !checked {
            parameters_done(core, &mut server, &mut client, io);
        }
        let paused = client.reading.has(Reason::OwnFull) && server.pause_for_client(io);
        let full = paused.then_some(server.conn);
        client.resume(Reason::Waits, io);
        core.common.follow_up(FollowUp::Feed(client.conn));
        core.conns.put_client(client);
        core.conns.put_server(server);
        full.into_iter().for_each(|server| full::follow_link(core, server, io));
        return;
    }
    core.conns.put_client(client);
    core.conns.put_server(server);
}

/// A server has refused a client's parameters. All of them were one transaction, so the server is unchanged, and
/// free for others.
fn parameters_failed<I: Io>(core: &mut Core, now: Time, mut server: Box<ServerSlot>, error: ServerError, io: &mut I) {
    let client = server.unlinked();
    server.up().into_iter().for_each(|(up, _)| up.params_rejected(&core.sessions.params));
    core.common.follow_up(FollowUp::Release(server.conn));
    core.conns.put_server(server);
    let Some(mut client) = client.and_then(|client| core.conns.take::<ClientSlot>(client)) else { return };
    client.unlinked();
    let refusal = Refusal::ParameterFailed { sqlstate: error.sqlstate, message: error.message };
    leave::refuse(core, now, client, refusal, io);
}

/// A server has said whether its host still takes writes; then it is released.
fn role_checked<I: Io>(core: &mut Core, now: Time, mut server: Box<ServerSlot>, io: &mut I) {
    let Some((up, phase)) = server.up() else { return core.conns.put_server(server) };
    *phase = ServerPhase::Linked;
    if up.found_row() {
        core.common.follow_up(FollowUp::demoted(&server, READ_ONLY));
        return close::close_slot(core, now, server, READ_ONLY, io);
    }
    release::clean_up(core, now, server, io);
}

/// A query of Weir on a server has ended.
pub(crate) fn done<I: Io>(
    core: &mut Core,
    now: Time,
    mut server: Box<ServerSlot>,
    outcome: Result<(), ServerError>,
    io: &mut I,
) {
    let Some(phase) = server.phase() else { return core.conns.put_server(server) };
    match (phase, outcome) {
        (ServerPhase::Resetting(why), Ok(())) => {
            if let Some((up, _)) = server.up() {
                match why {
                    Reset::Left => up.was_reset(&core.sessions.params),
                    Reset::Query => up.was_cleaned(&core.sessions.params),
                }
            }
            run_connect_query_again(core, now, server, io);
        }
        (ServerPhase::Resetting(Reset::Query), Err(error))
            if core.pools.get(server.pool).config.on_dirty() == OnDirty::Keep =>
        {
            // With PgBouncer's policy its errors are ignored.
            let text = format_args!("error while executing server_reset_query: {}", error.message);
            lines::about_server(core, Level::Warning, &server, text, io);
            server.up().into_iter().for_each(|(up, _)| up.was_cleaned(&core.sessions.params));
            run_connect_query_again(core, now, server, io);
        }
        (ServerPhase::ConnectQueryAgain, outcome) => {
            if let Err(error) = outcome {
                let text = format_args!("error while executing connect_query: {}", error.message);
                lines::about_server(core, Level::Warning, &server, text, io);
            }
            release::return_to_pool(core, now, server, io);
        }
        (ServerPhase::CheckingRoleAgain, Ok(())) => role_checked(core, now, server, io),
        (ServerPhase::Asking, Err(error)) if error.sqlstate == QUERY_CANCELED => pin::cancelled(core, now, server, io),
        (ServerPhase::Asking, outcome) => pin::answered(core, now, server, outcome.is_ok(), io),
        (ServerPhase::Checking | ServerPhase::SyncingParameters, Ok(())) => setup_query_done(core, now, server, io),
        (ServerPhase::SyncingParameters, Err(error)) if error.sqlstate != QUERY_CANCELED => {
            parameters_failed(core, now, server, error, io);
        }
        _ => {
            close::drop_connection(core, &server, io);
            lost::server_lost(core, now, server, io);
        }
    }
}
