//! What a link's client does with session state, for a record of the pool's traffic ([`crate::traffic`]).

use weir_base::{PoolMode, Time};
use weir_pgwire::Dirty;

use crate::client::slot::{ClientPhase, ClientSlot};
use crate::common::Cx;
use crate::link::statements::Statements;
use crate::pools::PoolSlot;
use crate::port::Io;
use crate::server::slot::ServerSlot;
use crate::sessions::Sessions;
use crate::traffic::Executor;

/// A client's requests go to a server.
#[inline]
pub(crate) fn uses_server(statements: &mut Statements, slot: &PoolSlot, client: u64, now: Time) {
    if statements.traffic().records() {
        statements.traffic_mut().uses_server(client, now, slot.pool.snapshot(now).waiting);
    }
}

/// A server has answered something.
#[cold]
pub(crate) fn replied<I: Io>(
    cx: &mut Cx<'_, I>,
    slot: &PoolSlot,
    server: &mut ServerSlot,
    client: Option<&ClientSlot>,
) {
    let Some(client) = client else { return };
    let ClientPhase::Ready(session) = &client.phase else { return };
    let Some((up, _)) = server.up() else { return };
    let Sessions { statements, params, .. } = &mut *cx.sessions;
    let by = Executor {
        client: client.id,
        application: params.get(session.params(), "application_name").unwrap_or_default(),
        follows: &|name| params.follows(up.params(), name),
        pins: pins(slot),
        is_free: up.is_quiet(),
    };
    statements.traffic_mut().done_by(&by, cx.now, slot.pool.snapshot(cx.now).waiting);
}

/// The kinds of state, beside settings, for which a client would keep its server in mode auto.
fn pins(slot: &PoolSlot) -> Dirty {
    let kinds = Dirty::ALL.without(Dirty::SETTINGS);
    if slot.config.limits.listen.is_shared_in(PoolMode::Auto) { kinds.without(Dirty::LISTEN) } else { kinds }
}
