//! Servers whose hosts acknowledge nothing of what was sent to them (`server_tcp_timeout`).
//!
//! Keep-alive probes find a silent host while a connection is idle; the kernel sends none while bytes are on their way,
//! and sends those again for many minutes. So the kernel is asked now and then while clients have servers. Owns when.

use weir_base::{ConnId, Span, Time};

use crate::common::FollowUp;
use crate::core::Core;
use crate::lines;
use crate::link::lost;
use crate::port::{Io, Level};
use crate::server::close;
use crate::server::slot::{ServerPhase, ServerSlot, ServerState};

/// Why a pool leaves a host.
const SILENT: &str = "its host acknowledges nothing";

/// Closes the servers whose hosts have been silent for too long.
pub(crate) fn due<I: Io>(core: &mut Core, now: Time, io: &mut I) {
    core.common.silence.at = Time::NEVER;
    let mut pools = std::mem::take(&mut core.common.silence.pools);
    let mut busy = Vec::new();
    pools.retain(|ix| {
        let Some(slot) = core.pools.find_mut(*ix) else { return false };
        let mut in_use = false;
        for (conn, ..) in slot.pool.servers() {
            let Some(server) = core.conns.get::<ServerSlot>(conn) else { continue };
            let is_busy = is_busy(server);
            in_use |= is_busy || server.link.is_some();
            busy.extend(is_busy.then_some(conn));
        }
        slot.set_watched(in_use);
        in_use
    });
    if let (Some(limit), false) = (core.common.silence.limit(), pools.is_empty()) {
        let pause = Span::from_micros(limit.micros() / 5);
        core.common.look_for_silence(now + if busy.is_empty() { limit } else { pause });
        let silent = |span: Span| span.micros() + pause.micros() >= limit.micros();
        busy.retain(|conn| io.unacknowledged(*conn).is_some_and(silent));
        busy.into_iter().for_each(|conn| lose(core, now, conn, io));
    }
    core.common.silence.pools.append(&mut pools);
}

/// Whether something was sent to a server that it has not answered.
fn is_busy(server: &ServerSlot) -> bool {
    let ServerState::Up(up, phase) = &server.state else { return false };
    !matches!(phase, ServerPhase::Lending { .. } | ServerPhase::Returning | ServerPhase::Leaving) && !up.is_quiet()
}

fn lose<I: Io>(core: &mut Core, now: Time, conn: ConnId, io: &mut I) {
    let Some(server) = core.conns.take::<ServerSlot>(conn) else { return };
    lines::about_server(core, Level::Warning, &server, format_args!("lost: {SILENT} (server_tcp_timeout)"), io);
    core.hosts.unresponsive.lost(server.connection.target(), server.clock.received_at());
    core.common.follow_up(FollowUp::demoted(&server, SILENT));
    close::drop_connection(core, &server, io);
    lost::server_lost(core, now, server, io);
}
