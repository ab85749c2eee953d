//! One query's path: from a client to its server and back.
//!
//! A client and its server are taken out of the table once, passed to the parts, and put back once.

use weir_base::{ConnId, PoolMode, Time};
use weir_config::{FileFormat, SessionAttrs};
use weir_session::{Refusal, Repeat, ServerError, StopReason, from_client, from_server};

use crate::client::slot::{ClientPhase, ClientSlot, Ended};
use crate::client::table;
use crate::common::{FollowUp, cx};
use crate::core::Core;
use crate::lines;
use crate::link::relay::MAX_PIPELINED_SEGMENTS;
use crate::link::{acquire, deadlines, exchange, full, leave, lost, lost_state, own_query, relay, release};
use crate::port::{Io, Level};
use crate::reading::Reason;
use crate::server::close;
use crate::server::slot::{ServerPhase, ServerSlot, ServerState};
use crate::timers::Who;
use crate::workers::messages::{Message, Payload};

/// The SQLSTATE of a write where none are taken (read_only_sql_transaction).
const READ_ONLY_TRANSACTION: &[u8; 5] = b"25006";

/// Requests of a client failed because of a limit of statements. The log has one line for each client.
#[inline]
fn requests_refused<I: Io>(core: &mut Core, client: &mut ClientSlot, refused: &[&'static str], io: &mut I) {
    let Some(what) = refused.first() else { return };
    let counts = &mut core.pools.get_mut(client.pool).counts;
    (counts.refusals.limit_reached, counts.limit) = (counts.refusals.limit_reached + refused.len() as u64, None);
    if core.common.config().log.pooler_errors && client.is_first_refusal() {
        let text = format_args!("request refused: {what}; further ones of this client are only counted");
        lines::about_client(core, Level::Warning, client, text, io);
    }
}

/// Counts the requests of a server's client that were refused, and what state it lost or was refused; the log names each
/// kind once a pool.
#[cold]
fn count_refused<I: Io>(
    core: &mut Core,
    server: &ServerSlot,
    mut client: Option<&mut ClientSlot>,
    unusual: &from_server::Unusual,
    io: &mut I,
) {
    if let Some(client) = client.as_deref_mut() {
        requests_refused(core, client, &unusual.refused, io);
    }
    if unusual.lost.is_empty() && unusual.refused_state.is_empty() {
        return;
    }
    let pool = core.pools.get_mut(server.pool);
    let new = lost_state::count(pool, unusual);
    if let Some(client) = client.filter(|_| !new.is_empty()) {
        lost_state::log(core.common.config(), new, unusual, client, &pool.name, &core.sessions.params, io);
    }
}

/// Why a server does not take the writes that its pool wants, as it reports without a client's doing.
fn says_read_only(attrs: SessionAttrs, is_idle: bool, reported: &[(String, String)]) -> Option<&'static str> {
    let says = |what: &str| reported.iter().any(|(name, value)| name == what && value == "on");
    match attrs {
        SessionAttrs::ReadWrite | SessionAttrs::Primary if says("in_hot_standby") => {
            Some("server is in hot standby mode")
        }
        SessionAttrs::ReadWrite if is_idle && says("default_transaction_read_only") => Some("session is read-only"),
        _ => None,
    }
}

/// The host of a server may take no writes any more: the server is asked at its release; where its client keeps it, a
/// login shows it. `reported`: the server reports that its transactions are read-only, and not by its client's doing;
/// otherwise a write was refused.
#[cold]
fn doubt(core: &mut Core, now: Time, server: &mut ServerSlot, reported: bool) {
    let slot = core.pools.get_mut(server.pool);
    if !slot.config.session_attrs.wants_primary() || server.left {
        return;
    }
    let is_kept = slot.config.policy.mode == PoolMode::Session || server.is_pinned();
    // What a login would show, such a server reports by itself: its client has asked for read-only transactions.
    let knows = || match &server.state {
        ServerState::Up(up, _) => up.role().standby.is_some() && up.role().read_only.is_some(),
        _ => false,
    };
    if !reported && ((is_kept && knows()) || !slot.looks.may_look(now)) {
        return;
    }
    server.doubt();
    if is_kept && let Some(look) = if reported { slot.looks.plan(now) } else { Some(now) } {
        slot.pool.try_now(look);
        core.common.follow_up(FollowUp::PollPool(server.pool));
    }
}

/// Takes in what a server has reported without a client's doing: new defaults, or a new role.
fn take_reports(
    core: &mut Core,
    now: Time,
    server: &mut ServerSlot,
    client: Option<&mut ClientSlot>,
    reported: &[(String, String)],
) {
    let session = client.and_then(|client| match &client.phase {
        ClientPhase::Ready(session) => Some(session),
        _ => None,
    });
    let is_idle = server.phase() == Some(ServerPhase::Idle);
    if let Some(why) = says_read_only(core.pools.get(server.pool).config.session_attrs, is_idle, reported) {
        core.common.follow_up(FollowUp::demoted(server, why));
    }
    if server.left && reported.iter().any(|(name, value)| name == "in_hot_standby" && value == "off") {
        // It was promoted, and its pool is leaving it.
        core.primaries.hold_out(&core.pools.get(server.pool).name, [server.conn]);
    }
    let (ix, table) = (server.pool, &core.sessions.params);
    let Some((up, phase)) = server.up() else { return };
    if !matches!(
        phase,
        ServerPhase::Idle
            | ServerPhase::Linked
            | ServerPhase::Asking
            | ServerPhase::Checking
            | ServerPhase::SyncingParameters
    ) {
        return;
    }
    for (name, value) in reported {
        if session.is_some_and(|session| session.owns(table, name)) {
            continue;
        }
        up.is_default(table, name);
        core.pools.get_mut(ix).default_changed(table, name, value, now);
        core.common.follow_up(FollowUp::PollPool(ix));
    }
}

/// Feeds a client's bytes to its session, with a server as soon as it needs one. `base` is their position in the
/// runtime's input, if they are a part of it.
pub(crate) fn feed<I: Io>(
    core: &mut Core,
    now: Time,
    mut client: Box<ClientSlot>,
    bytes: &[u8],
    base: Option<usize>,
    io: &mut I,
) {
    let mut server = client.link.and_then(|server| core.conns.take::<ServerSlot>(server));
    let mut at = 0;
    let stop = loop {
        let slot = core.pools.get_mut(client.pool);
        let (rest, base) = (&bytes[at..], base.map(|base| base + at));
        let messages = core.sessions.messages;
        let known = server.is_none() && client.ready().is_some_and(|it| from_client::needs_server(it, rest, messages));
        if !known {
            let fed = relay::feed_client(cx!(core, now, io), slot, &mut client, server.as_deref_mut(), rest, base);
            at += fed.used;
            if !matches!(fed.stop, StopReason::NeedServer | StopReason::OtherServer) {
                break fed.stop;
            }
        }
        let acquired = match server.take() {
            Some(server) => exchange::for_values(core, now, &mut client, server, io),
            None => acquire::acquire(core, now, &mut client, io),
        };
        match acquired {
            Ok(acquired) => server = Some(acquired),
            Err(stop) => break stop,
        }
    };
    if let Some(server) = server {
        core.conns.put_server(server);
    }
    match stop {
        StopReason::EndOfInput => {}
        StopReason::NeedServer | StopReason::OtherServer | StopReason::AwaitReplies(_) => {
            core.sessions.keep(client.waiting_mut(), &bytes[at..]);
            client.pause(Reason::Waits, io);
        }
        StopReason::TurnOver => {
            core.sessions.keep(client.waiting_mut(), &bytes[at..]);
            // A client that is paced has its next turn later.
            if !client.reading.has(Reason::NextTurn) {
                client.pause(Reason::NextTurn, io);
                io.post(core.common.worker(), Message(Payload::NextTurn(client.conn)), None);
            }
        }
        StopReason::Terminate => return leave::client_leaves(core, now, client, io),
        StopReason::Refuse(refusal) => return leave::refuse(core, now, client, *refusal, io),
    }
    core.conns.put_client(client);
}

/// A client has closed its side. One that is not paused has sent all: what its server does for it is answered first, as
/// behind a Terminate (PostgreSQL's backend reads the end of its input behind all that came before it), unless the
/// server sends nothing for [`LAST_ANSWERS_UNREAD`](deadlines::LAST_ANSWERS_UNREAD). Otherwise, and with an ini as by
/// PgBouncer, its connection is closed next.
pub(crate) fn ending<I: Io>(core: &mut Core, now: Time, conn: ConnId, io: &mut I) {
    let Some(client) = core.conns.get_mut::<ClientSlot>(conn) else { return };
    if client.reading.is_paused() {
        return full::ending(core, now, conn, io);
    }
    let is_whole = client.ready().is_some_and(|session| session.is_between_messages());
    if !is_whole || core.common.config().format == FileFormat::Ini {
        return;
    }
    let server = client.link.and_then(|server| core.conns.get_mut::<ServerSlot>(server));
    let owes = matches!(server.and_then(|server| server.up()), Some((up, ServerPhase::Linked)) if up.owes_answers());
    if !owes {
        return;
    }
    let Some(mut client) = core.conns.take::<ClientSlot>(conn) else { return };
    client.ends(Ended::Unannounced, now);
    let deadline = deadlines::client_deadline(core, &client);
    core.common.arm(Who::Conn(conn), deadline, client.armed_mut());
    feed(core, now, client, &deadlines::TERMINATE, None, io);
}

/// A client continues with the input that was buffered while it waited.
pub(crate) fn feed_waiting<I: Io>(core: &mut Core, now: Time, mut client: Box<ClientSlot>, io: &mut I) {
    // The input continues when the server's socket has room: a few bytes of it may become many.
    let paused =
        [Reason::Waits, Reason::OtherFull, Reason::NextTurn].into_iter().any(|reason| client.reading.has(reason));
    if paused {
        return core.conns.put_client(client);
    }
    let waiting = std::mem::take(client.waiting_mut());
    feed(core, now, client, &waiting, None, io);
    core.sessions.recycle(waiting);
}

/// A client's next turn: what it had sent too much of for one is read.
pub(crate) fn next_turn<I: Io>(core: &mut Core, client: ConnId, io: &mut I) {
    let Some(slot) = core.conns.get_mut::<ClientSlot>(client) else { return };
    slot.resume(Reason::NextTurn, io);
    // After a SUSPEND, RESUME feeds the client.
    if !slot.reading.has(Reason::Suspended) {
        core.common.follow_up(FollowUp::Feed(client));
    }
}

/// A server has sent a fatal error: it is the reason that its client or its pool gets.
pub(crate) fn note_fatal<I: Io>(core: &Core, server: &mut ServerSlot, fatal: ServerError, io: &mut I) {
    lines::about_server(core, Level::Warning, server, format_args!("the server said: {}", fatal.message), io);
    let (sqlstate, message) = (fatal.sqlstate, fatal.message);
    server.has_fatal_error(Refusal::ServerDown { sqlstate, message, detail: String::new() });
}

/// A server has broken the protocol: its connection is closed.
pub(crate) fn note_violation<I: Io>(
    core: &mut Core,
    server: &mut ServerSlot,
    violation: &weir_session::ProtocolViolation,
    io: &mut I,
) {
    let text = format_args!("unexpected response from server: {}", violation.0);
    lines::about_server(core, Level::Warning, server, text, io);
    server.has_fatal_error(Refusal::ServerUnexpected);
    close::drop_connection(core, server, io);
}

/// The first messages of a client's transaction, or the first in its block, had no effect on its server, and nobody has
/// seen the answer: they are read again, before what the client has sent since. Its server is the same.
#[cold]
fn repeat<I: Io>(core: &mut Core, now: Time, server: Box<ServerSlot>, repeat: Repeat, io: &mut I) {
    let client = server.link.and_then(|client| core.conns.take::<ClientSlot>(client));
    let (conn, cancels) = (server.conn, server.cancels > 0);
    core.conns.put_server(server);
    let Some(mut client) = client else { return release::release(core, now, conn, io) };
    let Repeat { mut messages, counted: (binds, parses), cancelled } = repeat;
    let stats = &mut core.pools.get_mut(client.pool).counts.stats;
    stats.received = stats.received.saturating_sub(messages.len() as u64);
    stats.bind_count = stats.bind_count.saturating_sub(binds);
    stats.client_parse_count = stats.client_parse_count.saturating_sub(parses);
    messages.append(client.waiting_mut());
    if cancelled || cancels {
        // The request that the cancel means has not begun.
        client.ready().into_iter().for_each(|session| session.cancel());
    }
    client.resume(Reason::Waits, io);
    if client.reading.has(Reason::OtherFull) {
        *client.waiting_mut() = messages;
        return core.conns.put_client(client);
    }
    feed(core, now, client, &messages, None, io);
}

/// A server sent more than replies. Returns it, and its client, where it may have answered something.
#[cold]
fn unusual_reply<I: Io>(
    core: &mut Core,
    now: Time,
    mut server: Box<ServerSlot>,
    mut client: Option<Box<ClientSlot>>,
    unusual: from_server::Unusual,
    io: &mut I,
) -> Option<(Box<ServerSlot>, Option<Box<ClientSlot>>)> {
    let link = server.link;
    take_reports(core, now, &mut server, client.as_deref_mut(), &unusual.reported);
    count_refused(core, &server, client.as_deref_mut(), &unusual, io);
    client.into_iter().for_each(|client| core.conns.put_client(client));
    if unusual.read_only || unusual.errors.iter().any(|code| code == READ_ONLY_TRANSACTION) {
        doubt(core, now, &mut server, unusual.read_only);
    }
    let violation = relay::violation(&unusual);
    if let Some(fatal) = unusual.fatal {
        note_fatal(core, &mut server, fatal, io);
    }
    if let (Some(client), Some(refusal)) = (link, violation) {
        core.conns.put_server(server);
        leave::refuse_handle(core, now, client, refusal, io);
        return None;
    }
    if let Some(result) = unusual.own_query_done {
        own_query::done(core, now, server, result, io);
        return None;
    }
    if let Some(again) = unusual.repeat {
        repeat(core, now, server, again, io);
        return None;
    }
    let mut client = link.and_then(|client| core.conns.take::<ClientSlot>(client));
    if unusual.ready_withheld {
        release::send_ready_unless_asked(core, &mut server, client.as_deref_mut(), io);
    }
    Some((server, client))
}

/// A server has answered something: it may be free, or its client may go on.
#[inline]
fn replied<I: Io>(
    core: &mut Core,
    now: Time,
    mut server: Box<ServerSlot>,
    mut client: Option<Box<ClientSlot>>,
    io: &mut I,
) {
    if let Some((up, ServerPhase::Linked)) = server.up() {
        let (quiet, ahead) = (up.is_quiet(), up.pending_segments());
        if quiet {
            return release::finish_transaction(core, now, server, client, io);
        }
        if let Some(client) = client.as_deref_mut().filter(|client| client.reading.has(Reason::Waits))
            && ahead <= MAX_PIPELINED_SEGMENTS / 2
            && (ahead == 0 || !core.pools.get(client.pool).is_wanted())
        {
            // The client was stopped because the server had too many pending requests.
            table::resume_waiting(core, client, io);
        }
    } else if matches!(server.up(), Some((up, ServerPhase::Idle)) if up.is_unusable()) {
        // The server has sent something that no request expects.
        close::drop_connection(core, &server, io);
        return lost::server_lost(core, now, server, io);
    }
    client.into_iter().for_each(|client| core.conns.put_client(client));
    core.conns.put_server(server);
}

/// Handles bytes of a server.
#[inline]
pub(crate) fn server_bytes<I: Io>(core: &mut Core, now: Time, mut server: Box<ServerSlot>, bytes: &[u8], io: &mut I) {
    let mut client = server.link.and_then(|client| core.conns.take::<ClientSlot>(client));
    let slot = core.pools.get_mut(server.pool);
    match relay::feed_server(cx!(core, now, io), slot, &mut server, client.as_deref_mut(), bytes) {
        Ok(outcome) => {
            if let Some(unusual) = outcome.unusual {
                let Some(both) = unusual_reply(core, now, server, client, *unusual, io) else { return };
                (server, client) = both;
            }
            replied(core, now, server, client, io);
        }
        Err(from_server::Violated { violation, before }) => {
            if let Some(unusual) = before.unusual {
                count_refused(core, &server, client.as_deref_mut(), &unusual, io);
            }
            client.into_iter().for_each(|client| core.conns.put_client(client));
            note_violation(core, &mut server, &violation, io);
            lost::server_lost(core, now, server, io);
        }
    }
}
