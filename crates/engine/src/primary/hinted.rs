//! Patroni says that a host is a pool's primary: the pool tries it now.

use std::sync::Arc;

use weir_base::{ConnId, Span, Target, Time};
use weir_config::PatroniQuestion;
use weir_session::Refusal;

use crate::common::Demotion;
use crate::core::Core;
use crate::handles::PoolIx;
use crate::link::leave;
use crate::port::Io;
use crate::primary::fence;
use crate::primary::view::View;
use crate::server::slot::ServerSlot;
use crate::server::{close, open};

/// How long the servers of a full pool may send nothing at a host that Patroni does not name, while it names another one.
const HANGS: Span = Span::from_secs(5);

/// How long a login at such a host may take. A host that Patroni names may take no writes yet, so the others are tried,
/// too, also because Patroni may be wrong.
const LOGIN_HANGS: Span = Span::from_secs(1);

/// Patroni has answered. A pool that writes to another host leaves that one only when a login at this one has found it
/// fit, as if a client had needed it; or when it is full of servers that hang.
pub(crate) fn heard<I: Io>(core: &mut Core, now: Time, question: &Arc<PatroniQuestion>, yes: bool, io: &mut I) {
    let new = core.primaries.hints.set(question, yes);
    if !yes && !new {
        return;
    }
    let eager = if new { Turn::First } else { Turn::Usual };
    for ix in core.pools.indices() {
        let slot = core.pools.get(ix);
        if !slot.config.session_attrs.wants_primary() || slot.config.asks_patroni(question).is_none() {
            continue;
        }
        let named = core.primaries.hints.fit(&slot.config);
        let Some(host) = named.first().copied().cloned() else { continue };
        let tries = match core.primaries.of(&slot.name) {
            Some(View::Leaving { .. }) => None,
            // An operator wants it there.
            Some(View::Looking(at)) => named.contains(&at).then_some(Turn::Usual),
            Some(View::At(at)) if named.contains(&at) => None,
            Some(View::At(_)) if hangs(core, now, ix) => Some(Turn::Instead),
            // It may take a while until the other one refuses writes, or is given up.
            Some(View::At(_)) => new.then_some(Turn::First),
            Some(View::Unknown) => Some(eager),
            None => (slot.pool.wants_server() || slot.pool.is_logging_in()).then_some(eager),
        };
        if let Some(turn) = tries {
            try_at(core, now, ix, &host, turn, io);
        }
    }
}

/// When a pool tries a host.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// At once, and a login under way at another host is given up. Only when Patroni says something new.
    First,
    /// Without a pause, where the pool's turn is; a login under way at another host is given up if it takes long.
    Usual,
    /// In place of the servers at its other host, which hang.
    Instead,
}

/// Whether a pool waits for servers that are all in use and have sent nothing for a while: as long as they do, there is no
/// room for a login at another host.
fn hangs(core: &Core, now: Time, ix: PoolIx) -> bool {
    let slot = core.pools.get(ix);
    if slot.config.patroni.api.is_empty() || slot.pool.oldest_wait().is_none() || slot.pool.wants_server() {
        return false;
    }
    let silent = |server: &ServerSlot| {
        (server.link.is_some() || server.is_new()) && now.since(server.clock.received_at()) >= HANGS
    };
    // Those that are lent to another worker are not here: they may be at work.
    servers_of(core, ix).filter(|server| silent(server)).count() == slot.pool.len()
}

fn try_at<I: Io>(core: &mut Core, now: Time, ix: PoolIx, host: &Target, turn: Turn, io: &mut I) {
    if turn == Turn::Instead {
        leave_hanging(core, now, ix, io);
    }
    let hangs = |server: &ServerSlot| turn != Turn::Usual || now.since(server.connection.connected_at()) >= LOGIN_HANGS;
    let elsewhere = |server: &&ServerSlot| server.is_new() && server.connection.target() != host && hangs(server);
    let logins: Vec<ConnId> = servers_of(core, ix).filter(elsewhere).map(|server| server.conn).collect();
    if turn != Turn::Usual || !logins.is_empty() {
        logins.into_iter().for_each(|login| close::close(core, now, login, "Patroni names another primary", io));
        let slot = core.pools.get_mut(ix);
        slot.hosts.hint(&slot.config, host);
    }
    open::try_host_now(core, now, host, io);
    open::wait_anew(core, now, ix, io);
    fence::try_now(core, now, ix);
}

/// All workers leave the host at which the pool's servers hang, and the clients of those are disconnected.
fn leave_hanging<I: Io>(core: &mut Core, now: Time, ix: PoolIx, io: &mut I) {
    let clients: Vec<ConnId> = servers_of(core, ix).filter_map(|server| server.link).collect();
    if let Some(at) = core.primaries.first(&core.pools.get(ix).name).cloned() {
        let why = "its servers send nothing, and Patroni names another primary";
        fence::demoted(core, now, Demotion { pool: ix, at, why, at_login: false }, io);
    }
    clients.into_iter().for_each(|client| leave::refuse_handle(core, now, client, Refusal::PrimaryMoved, io));
}

/// The servers of a pool, but those that have one client for good.
fn servers_of(core: &Core, ix: PoolIx) -> impl Iterator<Item = &ServerSlot> {
    core.conns.all::<ServerSlot>().filter(move |server| server.pool == ix && server.dedicated.is_none())
}
