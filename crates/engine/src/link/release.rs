//! A server is released: its link ends, it is cleaned, and goes to the next waiter or back to its pool.
//!
//! Most functions here are inlined: a transaction passes here once, and each call would cost it as much as a message
//! costs.

use weir_base::{ConnId, OnDirty, PoolMode, Time};
use weir_config::SessionAttrs;
use weir_pgwire::Dirty;
use weir_pool::Release;
use weir_session::{Clean, Refusal, Server};

use crate::client::slot::{ClientPhase, ClientSlot};
use crate::client::table;
use crate::common::{Common, Cx, FollowUp, UnderWay, cx};
use crate::core::Core;
use crate::handles::PoolIx;
use crate::lending::messages;
use crate::lending::state::LendingRole;
use crate::link::wire::Wire;
use crate::link::{acquire, leave};
use crate::pools::PoolSlot;
use crate::port::Io;
use crate::reading::Reason;
use crate::server::hosts::{Fitness, Unfit, fitness, still_takes_writes};
use crate::server::slot::{Reset, ServerPhase, ServerSlot, ServerState, Use};
use crate::server::{close, idle};
use crate::sessions::Sessions;
use crate::timers::Who;

/// Why a server with an old address or login is closed (PgBouncer's text).
pub(crate) const RECONFIGURED: &str = "database configuration changed";
/// Why a server is closed on which functions may have left what nobody asked about.
const DOUBTFUL: &str = "functions have changed";
/// Why a server is closed that can't be given to another client.
const UNCLEAN: &str = "unclean server";

/// A connection may be free at the end of this iteration.
#[cold]
pub(crate) fn export_later(core: &mut Core, conn: Option<ConnId>) {
    conn.into_iter().for_each(|conn| core.common.follow_up(FollowUp::Export(conn)));
}

/// Carries out what a pool has decided about a clean server.
#[inline(always)]
fn pass_on<I: Io>(core: &mut Core, now: Time, server: Box<ServerSlot>, answer: Release, io: &mut I) {
    let ix = server.pool;
    match answer {
        Release::Next { client, waited, check } => {
            acquire::link_waiter(core, now, (client, Some(waited)), server, check, io);
        }
        Release::Idle => {
            if core.common.is_under_way(UnderWay::EXPORT) {
                export_later(core, Some(server.conn));
            }
            core.conns.put_server(server);
            if core.common.is_under_way(UnderWay::IDLE_SEARCH) {
                idle::report_idle(core, ix, io);
            }
        }
        Release::Close(reason) => close::disconnect(core, server, reason.text(), io),
    }
}

/// Carries out what the pool `ix` has decided about the server with this handle, which has just come to it.
pub(crate) fn passed_on<I: Io>(core: &mut Core, now: Time, ix: PoolIx, server: ConnId, answer: Release, io: &mut I) {
    if let Some(server) = core.conns.take::<ServerSlot>(server) {
        pass_on(core, now, server, answer, io);
    }
    core.common.follow_up(FollowUp::PollPool(ix));
}

/// Gives a clean server back to its pool.
#[inline(always)]
pub(crate) fn return_to_pool<I: Io>(core: &mut Core, now: Time, server: Box<ServerSlot>, io: &mut I) {
    return_after(core, now, server, Use::Queries, io);
}

/// Gives a clean server back to its pool, after this use.
#[inline(always)]
fn return_after<I: Io>(core: &mut Core, now: Time, mut server: Box<ServerSlot>, used: Use, io: &mut I) {
    let (conn, ix) = (server.conn, server.pool);
    let slot = core.pools.get_mut(ix);
    let proof = match end_use(slot, &mut server) {
        Ok(proof) => proof,
        Err(why) => return close_unfree(core, now, server, why, io),
    };
    if let LendingRole::Borrower(borrowing) = &slot.lending
        && borrowing.borrower.returns(&slot.pool, conn)
        && !core.common.is_under_way(UnderWay::SUSPEND)
    {
        // It is not for the next client here.
        core.conns.put_server(server);
        return messages::return_server(core, conn, io);
    }
    let pool = &mut slot.pool;
    let answer = match used {
        Use::Welcome => pool.release_unused(conn, proof, now),
        Use::None | Use::Queries => pool.release(conn, proof, now),
    };
    pass_on(core, now, server, answer, io);
    if core.pools.get(ix).needs_poll() || core.common.is_under_way(UnderWay::AWAITS_IDLE) {
        core.common.follow_up(FollowUp::PollPool(ix));
    }
}

/// A server can't be given back to its pool.
#[cold]
fn close_unfree<I: Io>(core: &mut Core, now: Time, server: Box<ServerSlot>, why: Unfree, io: &mut I) {
    let why = match why {
        Unfree::Unclean => UNCLEAN,
        Unfree::Doubtful => DOUBTFUL,
        Unfree::Left => RECONFIGURED,
        Unfree::Unfit(unfit) => {
            if unfit.is_standby {
                core.common.follow_up(FollowUp::demoted(&server, unfit.why));
            }
            unfit.why
        }
    };
    close::close_slot(core, now, server, why, io);
}

/// A server without a client: removes what its last one left, or closes it, or gives it to the next waiter.
#[inline(always)]
pub(crate) fn clean_up<I: Io>(core: &mut Core, now: Time, mut server: Box<ServerSlot>, io: &mut I) {
    let slot = core.pools.get(server.pool);
    match release_action(cx!(core, now, io), slot, &mut server) {
        ReleaseAction::Return(used) => return_after(core, now, server, used, io),
        ReleaseAction::Close(why) => close::close_slot(core, now, server, why, io),
        ReleaseAction::Cleaning => core.conns.put_server(server),
    }
}

/// A server has answered everything: ends its link if nothing holds it, and gives it to the next waiter. Inlined, with
/// the functions that it ends in: a transaction passes here once, and each call would cost it as much as a message
/// costs.
#[inline(always)]
pub(crate) fn finish_transaction<I: Io>(
    core: &mut Core,
    now: Time,
    mut server: Box<ServerSlot>,
    mut client: Option<Box<ClientSlot>>,
    io: &mut I,
) {
    let slot = core.pools.get(server.pool);
    let status = link_status(&core.common, slot, &server, client.as_deref());
    match (status, client.as_deref_mut()) {
        (LinkStatus::Free, client) => {
            client.into_iter().for_each(|client| unlink(cx!(core, now, io), slot, client));
            server.unlinked();
        }
        (LinkStatus::Resume, Some(client)) => table::resume_waiting(core, client, io),
        (LinkStatus::Ask, Some(client)) => {
            let slot = core.pools.get_mut(server.pool);
            acquire::ask_left(cx!(core, now, io), slot, client, &mut server);
        }
        _ => {}
    }
    let conn = client.as_ref().map(|client| client.conn);
    client.into_iter().for_each(|client| core.conns.put_client(client));
    if status == LinkStatus::Free {
        clean_up(core, now, server, io);
        if core.common.is_under_way(UnderWay::EXPORT) {
            // Behind its server, which it may need at once.
            export_later(core, conn);
        }
        return;
    }
    let why = if server.left { Refusal::PrimaryMoved } else { Refusal::PoolGone };
    core.conns.put_server(server);
    if let (LinkStatus::Replaced, Some(client)) = (status, conn) {
        leave::refuse_handle(core, now, client, why, io);
    }
}

/// A client leaves a server that was sent nothing of it.
#[cold]
pub(crate) fn give_up<I: Io>(
    core: &mut Core,
    now: Time,
    mut server: Box<ServerSlot>,
    client: &mut ClientSlot,
    io: &mut I,
) {
    let slot = core.pools.get(server.pool);
    unlink(cx!(core, now, io), slot, client);
    server.unlinked();
    clean_up(core, now, server, io);
}

/// A server may be free, for any reason.
pub(crate) fn release<I: Io>(core: &mut Core, now: Time, server: ConnId, io: &mut I) {
    let Some(server) = core.conns.take::<ServerSlot>(server) else { return };
    let client = server.link.and_then(|client| core.conns.take::<ClientSlot>(client));
    finish_transaction(core, now, server, client, io);
}

/// The state of a link after its server's replies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LinkStatus {
    /// The link is held.
    Held,
    /// The client may go on; it was stopped because the server had too many pending requests.
    Resume,
    /// The server must be replaced, together with its client (server_fast_close).
    Replaced,
    /// The server must be asked what its client has left: then the link is held, or ends (`mode = "auto"`).
    Ask,
    /// The link ends, or there is none: the server is free.
    Free,
}

/// Whether a server is free of its client.
#[inline]
fn link_status(common: &Common, slot: &PoolSlot, server: &ServerSlot, client: Option<&ClientSlot>) -> LinkStatus {
    let ServerState::Up(up, phase) = &server.state else { return LinkStatus::Held };
    if !matches!(phase, ServerPhase::Linked | ServerPhase::Checking | ServerPhase::SyncingParameters) || !up.is_quiet()
    {
        return LinkStatus::Held;
    }
    // A late cancel must not hit the next client.
    let cancelled = server.cancels > 0 && !up.is_unusable();
    if server.link.is_none() {
        return if cancelled { LinkStatus::Held } else { LinkStatus::Free };
    }
    let Some(client) = client.filter(|_| *phase == ServerPhase::Linked) else { return LinkStatus::Held };
    let (mode, asks, mid_message) = match &client.phase {
        ClientPhase::Ready(session) => (session.mode(), session.asks(), session.is_mid_message()),
        _ => (PoolMode::Transaction, Dirty::NONE, false),
    };
    let mut session_mode = mode == PoolMode::Session;
    if !asks.is_empty() && up.may_keep_client(asks) {
        if up.must_ask(asks) && !mid_message && !cancelled {
            return LinkStatus::Ask;
        }
        session_mode = mode == PoolMode::Auto;
    }
    if session_mode && client.reading.has(Reason::Waits) {
        return LinkStatus::Resume;
    }
    let outdated = || server.closes || slot.pool.is_outdated(server.conn);
    let at_once = || server.left || common.config().server_fast_close;
    if session_mode && !mid_message && at_once() && outdated() {
        return LinkStatus::Replaced;
    }
    if session_mode || mid_message || cancelled { LinkStatus::Held } else { LinkStatus::Free }
}

/// The client was not sent its last ReadyForQuery: it is now, unless its server is to be asked first what it has left.
#[cold]
pub(crate) fn send_ready_unless_asked<I: Io>(
    core: &mut Core,
    server: &mut ServerSlot,
    client: Option<&mut ClientSlot>,
    io: &mut I,
) {
    let slot = core.pools.get(server.pool);
    let status = link_status(&core.common, slot, server, client.as_deref());
    if status != LinkStatus::Ask
        && let Some(client) = client
    {
        send_withheld_ready(&mut core.sessions, server, client, io);
    }
}

/// The client is sent the ReadyForQuery that it was not sent when it came.
pub(crate) fn send_withheld_ready<I: Io>(
    sessions: &mut Sessions,
    server: &mut ServerSlot,
    client: &mut ClientSlot,
    io: &mut I,
) {
    let (conn, to, own_pid) = (server.conn, client.conn, client.cancel.pid);
    if let (Some((up, _)), Some(session)) = (server.up(), client.ready()) {
        let mut wire = Wire::new(io, to, conn, &[], None);
        up.send_withheld_ready(session, own_pid, &mut sessions.scratch, &mut wire);
    }
}

/// A client has released its server.
#[inline]
pub(crate) fn unlink<I: Io>(cx: &mut Cx<'_, I>, slot: &PoolSlot, client: &mut ClientSlot) {
    client.unlinked();
    client.acts(cx.now);
    // The client may have been stopped because the server had too many pending requests.
    let waited = client.reading.has(Reason::Waits);
    client.resume(Reason::Waits, cx.io);
    client.resume(Reason::OtherFull, cx.io);
    if waited || !client.waiting.is_empty() {
        cx.common.follow_up(FollowUp::Feed(client.conn));
    }
    let idle = slot.config.limits.client_idle_timeout;
    if !waited && !idle.is_zero() {
        cx.common.arm(Who::Conn(client.conn), cx.now.deadline(idle), client.armed_mut());
    }
}

/// What happens to a server that its client has released.
pub(crate) enum ReleaseAction {
    /// The server returns to the pool after this use.
    Return(Use),
    /// The server is closed, for this reason.
    Close(&'static str),
    /// A query of Weir cleans the server.
    Cleaning,
}

/// A server without a client: removes what its last one left, if something has to be.
#[inline(always)]
fn release_action<I: Io>(cx: &mut Cx<'_, I>, slot: &PoolSlot, server: &mut ServerSlot) -> ReleaseAction {
    server.resume(Reason::OtherFull, cx.io);
    if server.doubted && ask_role(cx, slot, server) {
        return ReleaseAction::Cleaning;
    }
    let used = server.take_use();
    let (marked, conn) = (server.closes, server.conn);
    let Some((up, _)) = server.up() else { return ReleaseAction::Close(UNCLEAN) };
    if marked {
        return ReleaseAction::Close(RECONFIGURED);
    }
    if up.is_unusable() {
        return ReleaseAction::Close(UNCLEAN);
    }
    let (dirty, config) = (up.dirty(), &slot.config);
    let always = used == Use::Queries && (config.policy.mode == PoolMode::Session || config.policy.reset_always);
    if dirty.is_empty() && !always {
        up.clear_dirty();
        return ReleaseAction::Return(used);
    }
    match cleaning(config, always, dirty) {
        Cleaning::None => {
            let query = if dirty.is_empty() { None } else { up.leave_query(&cx.sessions.params) };
            up.clear_dirty();
            match query {
                None => ReleaseAction::Return(used),
                Some(query) => {
                    acquire::own_query(cx, slot, server, &query, ServerPhase::Resetting(Reset::Left));
                    ReleaseAction::Cleaning
                }
            }
        }
        Cleaning::Close if up.is_dirty_by_weir() => {
            acquire::own_query(cx, slot, server, &Server::reset_query(dirty), ServerPhase::Resetting(Reset::Left));
            ReleaseAction::Cleaning
        }
        Cleaning::Close => ReleaseAction::Close(UNCLEAN),
        // A server that is about to be closed need not be cleaned.
        Cleaning::Query(..) if slot.pool.is_outdated(conn) => ReleaseAction::Return(used),
        Cleaning::Query(query, why) => {
            acquire::own_query(cx, slot, server, &query, ServerPhase::Resetting(why));
            ReleaseAction::Cleaning
        }
    }
}

/// Why a server can't be given back to its pool.
enum Unfree {
    /// It is in the middle of something, or holds what a client has left.
    Unclean,
    /// Functions may have left something there that nobody asked about.
    Doubtful,
    /// Its pool has left its host.
    Left,
    /// It has another role than the pool wants.
    Unfit(Unfit),
}

/// Asks a server whether its host still takes writes; returns whether it is asked.
#[cold]
fn ask_role<I: Io>(cx: &mut Cx<'_, I>, slot: &PoolSlot, server: &mut ServerSlot) -> bool {
    server.doubt_settled();
    let usable = !server.closes && server.up().is_some_and(|(up, _)| !up.is_unusable());
    let Some(query) = still_takes_writes(slot.config.session_attrs).filter(|_| usable) else { return false };
    acquire::own_query(cx, slot, server, query, ServerPhase::CheckingRoleAgain);
    true
}

/// Ends a server's use by a client, with the proof that it is clean.
///
/// # Errors
/// Why the server must be closed instead.
#[inline]
fn end_use(slot: &PoolSlot, server: &mut ServerSlot) -> Result<Clean, Unfree> {
    server.clock_mut().unlinked();
    if slot.config.session_attrs != SessionAttrs::Any {
        check_role(slot, server)?;
    }
    let Some((up, phase)) = server.up() else { return Err(Unfree::Unclean) };
    let proof = up.prove_clean().ok_or(Unfree::Unclean)?;
    if up.is_doubtful(&slot.accepted) {
        return Err(Unfree::Doubtful);
    }
    *phase = ServerPhase::Idle;
    Ok(proof)
}

/// Whether a server that was promoted, or has become a standby, still fits its pool.
fn check_role(slot: &PoolSlot, server: &mut ServerSlot) -> Result<(), Unfree> {
    if server.left {
        return Err(Unfree::Left);
    }
    let any = server.connection.attempt().any;
    let Some((up, _)) = server.up() else { return Err(Unfree::Unclean) };
    match fitness(slot.config.session_attrs, any, up.role()) {
        Fitness::Unfit(unfit) => Err(Unfree::Unfit(unfit)),
        Fitness::Fits | Fitness::Ask { .. } => Ok(()),
    }
}

/// How a released server is cleaned.
enum Cleaning {
    /// The server is not cleaned.
    None,
    /// The server is closed.
    Close,
    /// This query runs on the server first.
    Query(String, Reset),
}

/// The rule for a server on which a client has left visible session state (`dirty`), or after whose use one of Weir's
/// queries may have to run (`always`):
///
/// - `on_dirty = close` closes it if state was left, and after each session of session mode, where command tags do not
///   show all state.
/// - Otherwise `server_reset_query` runs after each session of session mode, and, with `server_reset_query_always`, at
///   each release in the other modes.
/// - If that does not apply, or is empty, `on_dirty = reset` and `refuse` remove the state, and `keep` leaves it.
fn cleaning(pool: &weir_config::PoolConfig, always: bool, dirty: Dirty) -> Cleaning {
    let left = !dirty.is_empty() || (always && pool.policy.mode == PoolMode::Session);
    match pool.on_dirty() {
        OnDirty::Close if left => Cleaning::Close,
        _ if always && !pool.policy.reset_query.is_empty() => {
            Cleaning::Query(pool.policy.reset_query.clone(), Reset::Query)
        }
        OnDirty::Reset | OnDirty::Refuse if !dirty.is_empty() => {
            Cleaning::Query(Server::reset_query(dirty), Reset::Left)
        }
        _ => Cleaning::None,
    }
}
