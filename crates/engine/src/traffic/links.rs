//! Links: a client and its server, from the grant to the release.
//!
//! Owns the rules by which a link is made (with its prelude), ended, and cleaned up after. `weir-pool` decides which
//! waiter is next, `weir-session` whether a server is clean, and `flows::query` orders the calls.

use weir_base::{OnDirty, Peer, PoolMode};
use weir_pgwire::{Dirty, HEAD};
use weir_session::{Clean, Server, param_sync};

use crate::backends::hosts::{Fitness, fitness};
use crate::common::{Cx, FollowUp};
use crate::log::{log_client, log_server};
use crate::peers::{ClientPhase, ClientSlot, Reset, ServerPhase, ServerSlot, ServerState};
use crate::pools::PoolSlot;
use crate::port::{Io, Level};
use crate::timers::Who;
use crate::traffic::deadlines::watch_own_query;
use crate::traffic::relay::{change_pause, pause_server};
use crate::traffic::wire::Wire;

/// Why a server with an old address or login is closed (PgBouncer's text).
pub(crate) const RECONFIGURED: &str = "database configuration changed";
/// Why a server is closed that can't be given to another client.
const UNCLEAN: &str = "unclean server";

/// Links a client to a server from the pool. Returns whether the client may go on at once; otherwise a prelude is
/// under way.
pub(crate) fn link<I: Io>(
    cx: &mut Cx<'_, I>,
    slot: &mut PoolSlot,
    client: &mut ClientSlot,
    server: &mut ServerSlot,
    check: bool,
) -> bool {
    slot.counts.stats.server_assignment_count += 1;
    client.link = Some(server.peer);
    server.link = Some(client.peer);
    server.clock.linked(cx.now);
    server.used = true;
    if cx.io.logs(Level::Noise) {
        let text = format_args!("linking client to S-{:#x}", server.id);
        log_client(Level::Noise, cx.common.config(), client, &slot.name, text, cx.io);
    }
    if server.reading.is_full() {
        // The output of its last client still waits for its socket.
        change_pause(client, |pause| pause.peer_full = true, cx.io);
    }
    if check {
        let query = slot.config.check_query.as_deref().unwrap_or_default();
        own_query(cx, slot, server, query, ServerPhase::Checking);
        return false;
    }
    if sync_parameters(cx, slot, client, server) {
        return false;
    }
    if client.pause.full {
        pause_server(server, cx.io);
    }
    true
}

/// Sends a client's server the parameters in which the two differ. Returns whether there were any: then they are answered
/// first.
#[inline(always)]
pub(crate) fn sync_parameters<I: Io>(
    cx: &mut Cx<'_, I>,
    slot: &PoolSlot,
    client: &mut ClientSlot,
    server: &mut ServerSlot,
) -> bool {
    if let (ClientPhase::Ready(session), Some((up, phase))) = (&client.phase, server.up())
        && param_sync::are_shared(up, session)
    {
        *phase = ServerPhase::Linked;
        return false;
    }
    send_parameters(cx, slot, client, server)
}

/// The same where the two do not share their parameters.
fn send_parameters<I: Io>(
    cx: &mut Cx<'_, I>,
    slot: &PoolSlot,
    client: &mut ClientSlot,
    server: &mut ServerSlot,
) -> bool {
    let peer = server.peer;
    let (ClientPhase::Ready(session), Some((up, phase))) = (&mut client.phase, server.up()) else { return false };
    let mut wire = Wire::new(cx.io, client.peer, peer, &[], None);
    let differ = param_sync::start(up, session, &cx.sessions.params, &mut cx.sessions.scratch, &mut wire);
    drop(wire);
    *phase = if differ { ServerPhase::SyncingParameters } else { ServerPhase::Linked };
    if differ {
        watch_own_query(cx, slot, server);
        if cx.io.logs(Level::Debug) {
            // The query has just been written there, as a message.
            let query = cx.sessions.scratch.get(HEAD..).and_then(|text| text.strip_suffix(&[0])).unwrap_or_default();
            let query = String::from_utf8_lossy(query);
            let pool = (&*slot.name, &*slot.user);
            log_server(Level::Debug, server, pool, format_args!("varcache_apply: {query}"), cx.io);
        }
    }
    differ
}

/// Sends a query of Weir to a server of the pool; `next` is the phase until its reply.
pub(crate) fn own_query<I: Io>(
    cx: &mut Cx<'_, I>,
    slot: &PoolSlot,
    server: &mut ServerSlot,
    query: &str,
    next: ServerPhase,
) {
    let peer = server.peer;
    let Some((up, phase)) = server.up() else { return };
    *phase = next;
    up.own_query(query, &mut cx.sessions.scratch, &mut Wire::new(cx.io, Peer::NONE, peer, &[], None));
    watch_own_query(cx, slot, server);
}

/// The state of a link after its server's replies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AtRest {
    /// The link is held.
    Held,
    /// The client may go on; it was stopped because the server had too many pending requests.
    GoOn,
    /// The server must be replaced, together with its client (server_fast_close).
    Replaced,
    /// The link ends, or there is none: the server is free.
    Free,
}

/// Whether a server is free of its client.
#[inline]
pub(crate) fn at_rest(
    slot: &PoolSlot,
    server: &ServerSlot,
    client: Option<&ClientSlot>,
    server_fast_close: bool,
) -> AtRest {
    let ServerState::Up(up, phase) = &server.state else { return AtRest::Held };
    if !matches!(phase, ServerPhase::Linked | ServerPhase::Checking | ServerPhase::SyncingParameters) || !up.is_quiet()
    {
        return AtRest::Held;
    }
    // A late cancel must not hit the next client.
    let cancelled = server.cancels > 0 && !up.is_unusable();
    if server.link.is_none() {
        return if cancelled { AtRest::Held } else { AtRest::Free };
    }
    let Some(client) = client.filter(|_| *phase == ServerPhase::Linked) else { return AtRest::Held };
    let (session_mode, mid_message) = match &client.phase {
        ClientPhase::Ready(session) => (session.mode() == PoolMode::Session, session.is_mid_message()),
        _ => (false, false),
    };
    if session_mode && client.pause.waits {
        return AtRest::GoOn;
    }
    let outdated = || server.marked_for_close || slot.pool.is_outdated(server.peer);
    if session_mode && server_fast_close && !mid_message && outdated() {
        return AtRest::Replaced;
    }
    if session_mode || mid_message || cancelled { AtRest::Held } else { AtRest::Free }
}

/// A client has released its server.
#[inline]
pub(crate) fn unlink<I: Io>(cx: &mut Cx<'_, I>, slot: &PoolSlot, client: &mut ClientSlot) {
    client.link = None;
    client.request_at = cx.now;
    // It may have been stopped because the server had too many pending requests.
    let waited = client.pause.waits;
    change_pause(client, |pause| (pause.waits, pause.peer_full) = (false, false), cx.io);
    if waited || !client.waiting.is_empty() {
        cx.common.follow_up(FollowUp::Feed(client.peer));
    }
    let idle = slot.config.limits.client_idle_timeout;
    if !waited && !idle.is_zero() {
        cx.common.arm(Who::Peer(client.peer), cx.now.deadline(idle), &mut client.armed);
    }
}

/// What happens to a server that its client has released.
pub(crate) enum AfterUse {
    /// It returns to the pool.
    Return,
    /// It is closed, for this reason.
    Close(&'static str),
    /// A query of Weir cleans it.
    Cleaning,
}

/// A server without a client: removes what its last one left, if something has to be.
#[inline(always)]
pub(crate) fn clean_up<I: Io>(cx: &mut Cx<'_, I>, slot: &PoolSlot, server: &mut ServerSlot) -> AfterUse {
    server.reading.resume(|| cx.io.resume(server.peer));
    let used = std::mem::take(&mut server.used);
    let (marked, peer) = (server.marked_for_close, server.peer);
    let Some((up, _)) = server.up() else { return AfterUse::Close(UNCLEAN) };
    if marked {
        return AfterUse::Close(RECONFIGURED);
    }
    if up.is_unusable() {
        return AfterUse::Close(UNCLEAN);
    }
    match cleaning(&slot.config, used, up.dirty()) {
        Cleaning::None => {
            up.clear_dirty();
            AfterUse::Return
        }
        Cleaning::Close => AfterUse::Close(UNCLEAN),
        // A server that is about to be closed need not be cleaned.
        Cleaning::Query(..) if slot.pool.is_outdated(peer) => AfterUse::Return,
        Cleaning::Query(query, why) => {
            own_query(cx, slot, server, &query, ServerPhase::Resetting(why));
            AfterUse::Cleaning
        }
    }
}

/// Ends a server's use by a client, with the proof that it is clean.
///
/// # Errors
/// Why it must be closed instead.
#[inline]
pub(crate) fn end_use(slot: &PoolSlot, server: &mut ServerSlot) -> Result<Clean, &'static str> {
    server.clock.unlinked();
    let any = server.connection.attempt().any;
    let Some((up, phase)) = server.up() else { return Err(UNCLEAN) };
    if let Fitness::Unfit(why) = fitness(slot.config.session_attrs, any, up.role()) {
        // It was promoted, or has become a standby.
        return Err(why);
    }
    let proof = up.prove_clean().ok_or(UNCLEAN)?;
    *phase = ServerPhase::Idle;
    Ok(proof)
}

/// How a released server is cleaned.
enum Cleaning {
    /// Not at all.
    None,
    /// It is closed.
    Close,
    /// This query runs on it first.
    Query(String, Reset),
}

/// The rule for a server that a client has used, or has left visible session state on (`dirty`):
///
/// - `on_dirty = close` closes it if state was left, and after each session of session mode, where command tags do not
///   show all state.
/// - Otherwise `server_reset_query` runs after each session of session mode, and, with `server_reset_query_always`, at
///   each release in the other modes.
/// - If that does not apply, or is empty, `on_dirty = reset` and `refuse` remove the state, and `keep` leaves it.
#[inline]
fn cleaning(pool: &weir_config::Pool, used: bool, dirty: Dirty) -> Cleaning {
    let session = pool.mode == PoolMode::Session;
    let always = used && (session || pool.reset_always);
    let left = !dirty.is_empty() || (session && used);
    match pool.on_dirty {
        OnDirty::Close if left => Cleaning::Close,
        _ if always && !pool.reset_query.is_empty() => Cleaning::Query(pool.reset_query.clone(), Reset::Query),
        OnDirty::Reset | OnDirty::Refuse if !dirty.is_empty() => {
            Cleaning::Query(Server::reset_query(dirty), Reset::Left)
        }
        _ => Cleaning::None,
    }
}
