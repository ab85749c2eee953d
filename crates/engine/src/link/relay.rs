//! The relay between a client and its server: passes bytes to their sessions, and counts.
//!
//! Works on borrowed slots. `weir-session` parses the bytes, `acquire` and `release` make and end links, and `query`
//! orders the calls.

use weir_admin::SqlState;
use weir_base::{ConnId, PoolMode, Span, Time};
use weir_config::Config;
use weir_session::{Executed, Refusal, StopReason, from_client, from_server};

use crate::client::slot::{ClientPhase, ClientSlot};
use crate::common::{Cx, FollowUp};
use crate::link::deadlines::{self, Progress};
use crate::link::recorded;
use crate::link::statements::{Fed, Slow};
use crate::link::wire::Wire;
use crate::log;
use crate::pools::PoolSlot;
use crate::pools::error_rate::CountedError;
use crate::pools::poll::announce_trouble;
use crate::port::{Io, Level};
use crate::reading::Reason;
use crate::server::slot::{ServerPhase, ServerSlot};
use crate::timers::Who;

/// The limit of a client's segments (a simple query, or messages up to a Sync) that its server has pending. What is
/// sent can't be withdrawn, so other clients may have to wait for it; and it is enough to keep a server busy. A client
/// that was stopped at the limit continues at half of it.
pub(crate) const MAX_PIPELINED_SEGMENTS: u32 = 16;

/// A client whose texts are longer than this together, of one turn, is paced: so many bytes.
const UNPACED: u64 = 256 << 10;
/// Two hundred times as long as it takes to read and copy 1 KiB of text, in microseconds: measured were 2 ms for 1 MiB. At a
/// hundred times, the delayed were 1 % of others' requests, and so their p99.
const PACE: u64 = 400;

/// Feeds a client's bytes to its session, with its linked server, if any. `base` is their position in the runtime's
/// input, if they are a part of it.
#[inline]
pub(crate) fn feed_client<I: Io>(
    cx: &mut Cx<'_, I>,
    slot: &mut PoolSlot,
    client: &mut ClientSlot,
    mut server: Option<&mut ServerSlot>,
    bytes: &[u8],
    base: Option<usize>,
) -> from_client::ClientOutcome {
    let ahead = allowed_ahead(slot, server.as_deref());
    let (now, pool) = (cx.now, client.pool);
    let whose = || Fed { now, pool, database: &slot.name, user: &slot.user, mode: slot.config.policy.mode };
    let (conn, id, link) = (client.conn, client.id, client.link.unwrap_or(ConnId::NONE));
    let Some(session) = client.ready() else {
        let stop = StopReason::refuse(Refusal::Broken("a client that is not ready is fed"));
        return from_client::ClientOutcome { used: 0, stop };
    };
    let (fed, watched) = {
        let mut wire = Wire::new(cx.io, conn, link, bytes, base);
        let mut context = cx.sessions.context(whose, &slot.rules, &mut slot.accepted, ahead);
        let up = server.as_mut().and_then(|server| server.up()).map(|(up, _)| up);
        let fed = from_client::feed(session, up, bytes, &mut context, &mut wire);
        let watched = context.watch.is_some();
        slot.counts.stats.sent += wire.finish();
        (fed, watched)
    };
    slot.counts.stats.received += fed.used as u64;
    let mid_message = session.is_mid_message();
    if !cx.sessions.counts.is_empty() {
        count_messages(cx, slot, client);
    }
    if let Some(server) = server {
        if watched && server.up().is_some_and(|(up, _)| up.is_busy()) {
            server.clock_mut().statement_sent(cx.now, client.request_at);
            cx.sessions.statements.sent_to(server.conn);
            recorded::uses_server(&mut cx.sessions.statements, slot, id, cx.now);
        }
        note_request(cx, slot, server, mid_message);
    }
    fed
}

/// Counts what a client's messages were about statements.
#[inline]
fn count_messages<I: Io>(cx: &mut Cx<'_, I>, slot: &mut PoolSlot, client: &mut ClientSlot) {
    let counts = std::mem::take(&mut cx.sessions.counts);
    slot.counts.stats.client_parse_count += counts.client_parses;
    slot.counts.stats.server_parse_count += counts.server_parses;
    slot.counts.stats.bind_count += counts.binds;
    if let Some(name) = counts.name_taken
        && client.is_first_refusal()
    {
        let text = format_args!("prepared statement '{name}' was already prepared");
        log::log_client(Level::Error, cx.common.config(), client, &slot.name, text, cx.io);
    }
    if counts.long_texts > UNPACED {
        pace(cx, client, counts.long_texts);
    }
    if let Some(database) = counts.needed_alone {
        cx.common.follow_up(FollowUp::NeedAlone { pool: client.pool, database });
    }
}

/// A client has had texts of megabytes read or copied, which took the worker some milliseconds: it is not read from for
/// two hundred times as long, so that of what other clients ask, at most one in two hundred was delayed by it.
#[cold]
fn pace<I: Io>(cx: &mut Cx<'_, I>, client: &mut ClientSlot, bytes: u64) {
    if !client.reading.has(Reason::NextTurn) {
        client.pause(Reason::NextTurn, cx.io);
        let pause = Span::from_micros(bytes.saturating_sub(UNPACED) / 1024 * PACE);
        let mut armed = Time::NEVER;
        cx.common.arm(Who::NextTurn(client.conn), cx.now + pause, &mut armed);
    }
}

/// A server may have received a request: notes the time, and sets its timer.
#[inline]
fn note_request<I: Io>(cx: &mut Cx<'_, I>, slot: &PoolSlot, server: &mut ServerSlot, mid_message: bool) {
    let Some((session, phase)) = server.up() else { return };
    if session.is_busy() {
        let linked = *phase == ServerPhase::Linked;
        server.clock_mut().request_sent(cx.now);
        if linked {
            deadlines::follow_held(cx, slot, server, Progress::default());
        }
        return;
    }
    let quiet = session.is_quiet();
    deadlines::follow(cx, slot, server, quiet && !mid_message, Progress::default());
    if quiet {
        // Weir has answered everything itself; the server will send nothing.
        cx.common.follow_up(FollowUp::Release(server.conn));
    }
}

/// The limit of a client's pending segments. If another client waits for the server, it is one: so the server is free
/// at the end of each transaction, whatever else the client has sent.
#[inline]
fn allowed_ahead(slot: &PoolSlot, server: Option<&ServerSlot>) -> u32 {
    let Some(server) = server else { return MAX_PIPELINED_SEGMENTS };
    match slot.config.policy.mode {
        PoolMode::Session => return u32::MAX,
        PoolMode::Auto if server.is_pinned() => return u32::MAX,
        _ => {}
    }
    let wanted = server.closes || slot.is_wanted();
    if wanted || (server.clock.holding().query != Time::NEVER && slot.pool.is_unwanted(server.conn)) {
        1
    } else {
        MAX_PIPELINED_SEGMENTS
    }
}

/// Feeds a server's bytes to its session, with its linked client, if any.
///
/// # Errors
/// The server can't be trusted any more.
#[inline]
pub(crate) fn feed_server<I: Io>(
    cx: &mut Cx<'_, I>,
    slot: &mut PoolSlot,
    server: &mut ServerSlot,
    mut client: Option<&mut ClientSlot>,
    bytes: &[u8],
) -> Result<from_server::ServerOutcome, from_server::Violated> {
    let (to, from) = (server.link.unwrap_or(ConnId::NONE), server.conn);
    let client_pid = client.as_ref().map_or(0, |client| client.cancel.pid);
    let (now, pool) = (cx.now, server.pool);
    let whose = || Fed { now, pool, database: &slot.name, user: &slot.user, mode: slot.config.policy.mode };
    let Some((up, _)) = server.up() else { return Ok(from_server::ServerOutcome::default()) };
    let session = client.as_deref_mut().and_then(|client| client.ready());
    let mid_message = session.as_ref().is_some_and(|session| session.is_mid_message());
    let (fed, watched) = {
        let mut wire = Wire::new(cx.io, to, from, bytes, Some(0));
        let mut context = cx.sessions.context(whose, &slot.rules, &mut slot.accepted, MAX_PIPELINED_SEGMENTS);
        context.client_pid = client_pid;
        let fed = from_server::feed(up, session, bytes, &mut context, &mut wire);
        let watched = context.watch.is_some();
        slot.counts.stats.sent += wire.finish();
        (fed, watched)
    };
    let outcome = match &fed {
        Ok(outcome) => outcome,
        Err(violated) => &*violated.before,
    };
    if watched {
        count_statements(cx, slot, server, client.as_deref_mut());
        if cx.sessions.statements.traffic().records() {
            recorded::replied(cx, slot, server, client.as_deref());
        }
    }
    let progress = Progress { answered: outcome.answered, ended: outcome.committed || outcome.transactions > 0 };
    let quiet = server.up().is_some_and(|(up, _)| up.is_quiet());
    deadlines::follow(cx, slot, server, quiet && !mid_message, progress);
    if outcome.queries > 0 {
        count_queries(cx.now, slot, server, outcome);
    }
    if let Some(unusual) = &outcome.unusual {
        count_errors(cx, slot, client.as_deref(), &unusual.errors);
    }
    if outcome.transactions > 0 && slot.application_errors.counts_transactions {
        count_of_application(cx, slot, client.as_deref(), outcome.transactions);
    }
    fed
}

/// Counts a server's errors; a pool of which many queries fail is looked at.
#[cold]
fn count_errors<I: Io>(cx: &mut Cx<'_, I>, slot: &mut PoolSlot, client: Option<&ClientSlot>, codes: &[SqlState]) {
    for code in codes {
        let counted = (slot.counts.counters.errors.total(), slot.counts.stats.query_count);
        slot.counts.counters.errors.count(*code, 1);
        let Some(client) = client else { continue };
        let application = application(cx, client);
        let error = CountedError { code: *code, client: client.conn, user: &client.user, application };
        let is_failing = slot.error_rate.count(&error, counted, cx.now);
        if slot.application_errors.count(&error, cx.now) || is_failing {
            announce_trouble(cx.common, cx.io);
        }
    }
}

/// Counts the transactions of an application with many errors.
#[cold]
fn count_of_application<I: Io>(
    cx: &mut Cx<'_, I>,
    slot: &mut PoolSlot,
    client: Option<&ClientSlot>,
    transactions: u32,
) {
    if let Some(client) = client {
        let names = (&*client.user, application(cx, client));
        slot.application_errors.ended(names, client.conn, transactions, cx.now);
    }
}

/// The application_name of a client with a session.
fn application<'c, I: Io>(cx: &Cx<'_, I>, client: &'c ClientSlot) -> &'c str {
    let session = if let ClientPhase::Ready(session) = &client.phase { Some(session) } else { None };
    session.map_or("", |session| cx.sessions.application(session))
}

/// Counts the statements that were executed, and logs those that took long.
#[inline(never)]
fn count_statements<I: Io>(
    cx: &mut Cx<'_, I>,
    slot: &PoolSlot,
    server: &mut ServerSlot,
    client: Option<&mut ClientSlot>,
) {
    let some = cx.sessions.statements.has_executed();
    let busy = server.up().is_some_and(|(up, _)| up.is_busy());
    let (run, waited) = server.clock_mut().statements_ended(cx.now, some, busy);
    if !some {
        if !busy {
            cx.sessions.statements.is_idle(server.conn);
        }
        return;
    }
    let session =
        client.as_ref().and_then(|client| if let ClientPhase::Ready(it) = &client.phase { Some(it) } else { None });
    let application = session.map_or("", |session| cx.sessions.application(session));
    let limit = cx.common.config().log.min_duration_statement.micros();
    let Cx { common, io, sessions, .. } = cx;
    sessions.statements.record(server.conn, (run, waited), application, limit, |slow| {
        let percent = u64::from(common.config().log.statement_sample_percent);
        if common.random_number() % 100 < percent
            && let Some(client) = &client
        {
            log_slow(common.config(), slot, client, application, slow, *io);
        }
    });
    if !busy {
        sessions.statements.is_idle(server.conn);
    }
}

/// The line about a statement that took long: never a value of it.
#[cold]
fn log_slow<I: Io>(
    config: &Config,
    slot: &PoolSlot,
    client: &ClientSlot,
    application: &str,
    slow: &Slow<'_>,
    io: &mut I,
) {
    let (run, waited) = (slow.run as f64 / 1000.0, slow.waited as f64 / 1000.0);
    let Executed { rows, bytes, failed, .. } = slow.executed;
    let (result, id, statement) = (if failed { "error" } else { "ok" }, slow.id, slow.text);
    let text = format_args!(
        "duration: {run:.3} ms  waited: {waited:.3} ms  rows: {rows}  bytes: {bytes}  result: {result}  application: \
         {application:?}  fingerprint: {id:016x}  statement: {statement}"
    );
    log::log_client(Level::Info, config, client, &slot.name, text, io);
}

fn count_queries(now: Time, slot: &mut PoolSlot, server: &mut ServerSlot, outcome: &from_server::ServerOutcome) {
    let (queries, transactions) = (u64::from(outcome.queries), u64::from(outcome.transactions));
    let busy = server.up().is_some_and(|(up, _)| up.is_busy());
    let oldest_wait = slot.pool.oldest_wait().unwrap_or(Time::NEVER);
    let took = server.clock_mut().queries_ended(now, outcome.transactions, busy, oldest_wait);
    let (stats, times) = (&mut slot.counts.stats, slot.counts.counters.times());
    stats.query_count += queries;
    stats.xact_count += transactions;
    if let Some(took) = took.query {
        stats.query_time += took;
        times.query.count_shares(took, queries);
    }
    if let Some(took) = took.transaction {
        stats.xact_time += took;
        times.transaction.count_shares(took, transactions);
    }
}

/// What a server's answers show that the client may not do.
#[inline]
pub(crate) fn violation(outcome: &from_server::Unusual) -> Option<Refusal> {
    if outcome.block_in_statement_mode {
        return Some(Refusal::TransactionInStatementMode);
    }
    if outcome.too_many_notifications {
        return Some(Refusal::TooManyNotifications);
    }
    outcome.copy_violated.then(|| Refusal::Protocol("a request during COPY".into()))
}
