//! The deadlines of clients and servers.
//!
//! A deadline is computed from the state that it depends on, when its timer fires. `timeouts` does what follows.

use weir_base::{Span, Time};
use weir_config::{Limits, OnServerDown};
use weir_session::Refusal;

use crate::client::slot::{ClientPhase, ClientSlot, Ended};
use crate::common::{Common, Cx};
use crate::core::Core;
use crate::link::link_clock::LinkState;
use crate::pools::{PoolSlot, Pools};
use crate::port::Io;
use crate::reading::Reason;
use crate::server::slot::{ServerPhase, ServerSlot, ServerState};
use crate::timers::Who;

/// The timeout of a query of Weir, if the operator set none.
const OWN_QUERY_TIMEOUT: Span = Span::from_secs(60);

/// How long a server may send nothing that still answers a client that has closed its side; after it both are closed.
pub(crate) const LAST_ANSWERS: Span = Span::from_secs(60);

/// The same for a client that has sent no Terminate before: it may be gone, so that others have the server sooner.
pub(crate) const LAST_ANSWERS_UNREAD: Span = Span::from_secs(5);

/// What the end of a client's input means.
pub(crate) const TERMINATE: [u8; 5] = *b"X\0\0\0\x04";

/// What a server's replies have ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Progress {
    /// A request was answered.
    pub(crate) answered: bool,
    /// A transaction ended.
    pub(crate) ended: bool,
}

/// Something has happened to a link: is the server held, and is it the client's or the server's turn? `rests`: the server
/// is quiet, and no message of the client has reached it in part.
#[inline(always)]
pub(crate) fn follow<I: Io>(
    cx: &mut Cx<'_, I>,
    slot: &PoolSlot,
    server: &mut ServerSlot,
    rests: bool,
    progress: Progress,
) {
    let Some((up, ServerPhase::Linked)) = server.up() else { return };
    if rests {
        let progress = up.progress();
        return server.clock_mut().rests(progress);
    }
    follow_held(cx, slot, server, progress);
}

/// Something has happened to a link whose server is held by its client: is it the client's or the server's turn?
#[inline(never)]
pub(crate) fn follow_held<I: Io>(cx: &mut Cx<'_, I>, slot: &PoolSlot, server: &mut ServerSlot, progress: Progress) {
    let reading = server.reading;
    let Some((up, _)) = server.up() else { return };
    let state = LinkState {
        held: true,
        working: up.is_working(),
        awaits_client: reading.has(Reason::OtherFull) || (!reading.has(Reason::OwnFull) && up.awaits_client()),
        progress: up.progress(),
        answered: progress.answered,
        ended: progress.ended,
    };
    server.clock_mut().follow(cx.now, state);
    watch_server(cx.common, slot, server);
}

/// Sets the timer of a linked server's timeouts.
#[inline]
pub(crate) fn watch_server(common: &mut Common, slot: &PoolSlot, server: &mut ServerSlot) {
    let limits = &slot.config.limits;
    // Usually none of the timeouts is set.
    let Limits { query_timeout, idle_transaction_timeout, transaction_timeout, .. } = limits;
    if query_timeout.micros() | idle_transaction_timeout.micros() | transaction_timeout.micros() != 0 {
        let (deadline, _) = server.clock.holding().deadline(limits);
        common.arm(Who::Conn(server.conn), deadline, server.armed_mut());
    }
}

/// A query of Weir was sent to a server: it has a deadline like a client's.
pub(crate) fn watch_own_query<I: Io>(cx: &mut Cx<'_, I>, slot: &PoolSlot, server: &mut ServerSlot) {
    server.clock_mut().own_query_sent(cx.now);
    let deadline = server_deadline(slot, server).0;
    cx.common.arm(Who::Conn(server.conn), deadline, server.armed_mut());
}

/// The deadline of a server that is linked, or runs a query of Weir; and the error for its client after it.
pub(crate) fn server_deadline(slot: &PoolSlot, server: &ServerSlot) -> (Time, Refusal) {
    let limits = &slot.config.limits;
    match &server.state {
        ServerState::Up(_, ServerPhase::Linked) => server.clock.holding().deadline(limits),
        ServerState::Up(
            _,
            ServerPhase::Checking
            | ServerPhase::SyncingParameters
            | ServerPhase::Asking
            | ServerPhase::Subscribing
            | ServerPhase::Resetting(_)
            | ServerPhase::ConnectQueryAgain
            | ServerPhase::AuthQuery(_),
        ) => {
            // A query of Weir: as long as a client's may take, but never without a limit.
            let limit = [limits.query_timeout, limits.server_connect_timeout].into_iter().find(|t| !t.is_zero());
            (server.clock.own_query_at().deadline(limit.unwrap_or(OWN_QUERY_TIMEOUT)), Refusal::QueryTimeout)
        }
        _ => (Time::NEVER, Refusal::QueryTimeout),
    }
}

/// How long a client waits for a new server's login messages, where there are those of the last one.
const NEW_WELCOME_WAIT: Span = Span::from_secs(1);

/// The deadline of a client.
pub(crate) fn client_deadline(core: &Core, client: &ClientSlot) -> Time {
    let Core { common, pools, .. } = core;
    match &client.phase {
        phase @ ClientPhase::Moving(_) if phase.moves_session() => Time::NEVER,
        ClientPhase::Header
        | ClientPhase::Opening { .. }
        | ClientPhase::Handshake(_)
        | ClientPhase::Moving(_)
        | ClientPhase::AuthLookup(_)
        | ClientPhase::Login(_) => login_due(common, client),
        ClientPhase::Welcome(_) => welcome_due(common, pools, client),
        ClientPhase::Ready(_) if client.link.is_none() && !client.reading.has(Reason::Waits) => {
            client.request_at.deadline(idle_timeout(common, pools, client))
        }
        ClientPhase::Ready(_) | ClientPhase::Streaming(_) if client.ended != Ended::No => {
            last_answers_due(core, client)
        }
        ClientPhase::Delayed(delayed) => delayed.until,
        ClientPhase::Canceller => client.connected_at.deadline(common.config().limits.cancel_wait_timeout),
        _ => Time::NEVER,
    }
}

/// The pause between two looks at why no server of a pool has been reached, where the reason is not known in time.
const LOOK_AGAIN: Span = Span::from_secs(1);

/// Until when a client waits for login messages, or for the next look at what keeps them away.
#[cold]
fn welcome_due(common: &Common, pools: &Pools, client: &ClientSlot) -> Time {
    let due = login_due(common, client);
    if may_take_last_welcome(pools, client) {
        return due.min(client.request_at.deadline(NEW_WELCOME_WAIT));
    }
    match first_server_due(pools, client) {
        first if first > common.now() => due.min(first),
        _ => due.min(common.now() + LOOK_AGAIN),
    }
}

/// Until when a client waits for the first server of its pool; never if there has been one, or if a failed login is an
/// error at once. A borrower does not see the logins of its pool.
pub(crate) fn first_server_due(pools: &Pools, client: &ClientSlot) -> Time {
    let slot = pools.get(client.pool);
    let limits = &slot.config.limits;
    let refuses = limits.on_server_down == OnServerDown::Refuse;
    if refuses || client.link.is_some() || slot.failures.logged_in() || slot.lending.is_borrower() {
        return Time::NEVER;
    }
    client.request_at.deadline(limits.first_server_timeout)
}

/// Until when a client must have logged in.
pub(crate) fn login_due(common: &Common, client: &ClientSlot) -> Time {
    client.connected_at.deadline(common.config().client_login_timeout)
}

/// Whether a client that waits for the login messages of a new server may be sent those of the last one.
pub(crate) fn may_take_last_welcome(pools: &Pools, client: &ClientSlot) -> bool {
    let ClientPhase::Welcome(phase) = &client.phase else { return false };
    client.link.is_none() && !phase.request().replication.is_some() && pools.get(client.pool).welcome.is_some()
}

/// Until when the server of a client that has closed its side must have sent something. This time does not count
/// while one of the two does not read what the other has sent.
fn last_answers_due(core: &Core, client: &ClientSlot) -> Time {
    let Some(server) = client.link.and_then(|server| core.conns.get::<ServerSlot>(server)) else { return Time::NEVER };
    let stuck = client.reading.has(Reason::OwnFull) || client.reading.has(Reason::OtherFull);
    let received_at = if stuck { core.common.now() } else { server.clock.received_at() };
    let limit = if client.ended == Ended::Unannounced { LAST_ANSWERS_UNREAD } else { LAST_ANSWERS };
    received_at.max(client.request_at).deadline(limit)
}

/// How long a client without a server may be idle: by the rules of its own user (PgBouncer), not of the one that its
/// pool forces on it.
fn idle_timeout(common: &Common, pools: &Pools, client: &ClientSlot) -> Span {
    let (slot, config) = (pools.get(client.pool), common.config());
    if config.users.is_empty() || *slot.user == *client.user {
        return slot.config.limits.client_idle_timeout;
    }
    let own = config.users.get(&*client.user).and_then(|rules| rules.client_idle_timeout);
    let pool = || config.pool(&slot.name).map(|pool| pool.limits.client_idle_timeout);
    own.or_else(pool).unwrap_or(slot.config.limits.client_idle_timeout)
}
