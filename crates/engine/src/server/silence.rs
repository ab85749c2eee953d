//! Servers whose hosts acknowledge nothing of what was sent to them (`server_tcp_timeout`).
//!
//! Keep-alive probes find a silent host while a connection is idle; the kernel sends none while bytes are on their way,
//! and sends those again for many minutes. So the kernel is asked now and then while clients have servers. Owns when.

use weir_base::{ConnId, Span, Time};
use weir_config::Config;

use crate::common::{Common, FollowUp};
use crate::core::Core;
use crate::handles::PoolIx;
use crate::lines;
use crate::link::lost;
use crate::pools::PoolSlot;
use crate::port::{Io, Level};
use crate::server::close;
use crate::server::slot::{ServerPhase, ServerSlot, ServerState};
use crate::timers::Who;

/// Why a pool leaves a host.
const SILENT: &str = "its host acknowledges nothing";

/// The pools whose servers are looked at, and when.
#[derive(Debug)]
pub(crate) struct SilenceWatch {
    /// How long a host may acknowledge nothing; `None`: as long as the system permits.
    limit: Option<Span>,
    /// Whose clients have servers ([`PoolSlot::is_watched`]).
    pools: Vec<PoolIx>,
    at: Time,
}

impl SilenceWatch {
    pub(crate) fn new(config: &Config) -> SilenceWatch {
        SilenceWatch { limit: limit(config), pools: Vec::new(), at: Time::NEVER }
    }

    /// A configuration is in force.
    pub(crate) fn apply_config(&mut self, config: &Config) {
        self.limit = limit(config);
    }

    /// Whether servers are looked at.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.limit.is_some()
    }
}

fn limit(config: &Config) -> Option<Span> {
    let keepalive = &config.listen.keepalive;
    (keepalive.on && !keepalive.server.is_zero()).then_some(keepalive.server)
}

/// A client of a pool gets a server, and none had one when its servers were last looked at.
#[cold]
pub(crate) fn watch(common: &mut Common, now: Time, ix: PoolIx, slot: &mut PoolSlot) {
    slot.is_watched = true;
    common.silence.pools.push(ix);
    if let Some(limit) = common.silence.limit.filter(|_| common.silence.at == Time::NEVER) {
        look_at(common, now + limit);
    }
}

fn look_at(common: &mut Common, when: Time) {
    let mut at = Time::NEVER;
    common.arm(Who::Silence, when, &mut at);
    common.silence.at = at;
}

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
        slot.is_watched = in_use;
        in_use
    });
    if let (Some(limit), false) = (core.common.silence.limit, pools.is_empty()) {
        let pause = Span::from_micros(limit.micros() / 5);
        look_at(&mut core.common, now + if busy.is_empty() { limit } else { pause });
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
    core.common.follow_up(FollowUp::demoted(&server, SILENT));
    close::drop_connection(core, &server, io);
    lost::server_lost(core, now, server, io);
}
