//! Servers whose hosts acknowledge nothing of what was sent to them (`server_tcp_timeout`).
//!
//! Keep-alive probes find a silent host while a connection is idle; the kernel sends none while bytes are on their way,
//! and sends those again for many minutes. So the kernel is asked now and then while clients have servers. Owns when.

use weir_base::{ConnId, Span, Time};
use weir_config::Config;

use crate::common::{Common, FollowUp};
use crate::core::Core;
use crate::lines;
use crate::link::lost;
use crate::port::{Io, Level};
use crate::server::close;
use crate::server::slot::{ServerPhase, ServerSlot, ServerState};
use crate::timers::Who;

/// Why a pool leaves a host.
const SILENT: &str = "its host acknowledges nothing";

/// When servers are looked at next.
#[derive(Debug)]
pub(crate) struct SilenceWatch {
    at: Time,
}

impl Default for SilenceWatch {
    fn default() -> Self {
        SilenceWatch { at: Time::NEVER }
    }
}

impl SilenceWatch {
    /// Whether nothing is due: a client that gets a server has it looked at.
    #[inline]
    pub(crate) fn rests(&self) -> bool {
        self.at == Time::NEVER
    }
}

/// How long a host may acknowledge nothing; `None`: as long as the system permits.
fn limit(config: &Config) -> Option<Span> {
    let keepalive = &config.listen.keepalive;
    (keepalive.on && !keepalive.server.is_zero()).then_some(keepalive.server)
}

/// A client gets a server while nothing is due.
#[cold]
pub(crate) fn watch(common: &mut Common, now: Time) {
    if let Some(limit) = limit(common.config()) {
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
    core.common.silence = SilenceWatch::default();
    let Some(limit) = limit(core.common.config()) else { return };
    let pause = Span::from_micros(limit.micros() / 5);
    let (mut busy, mut linked) = (Vec::new(), false);
    for server in core.conns.all::<ServerSlot>() {
        linked |= server.link.is_some();
        busy.extend(is_busy(server).then_some(server.conn));
    }
    let silent: Vec<ConnId> = busy
        .iter()
        .copied()
        .filter(|conn| io.unacknowledged(*conn).is_some_and(|span| span.micros() + pause.micros() >= limit.micros()))
        .collect();
    match (busy.is_empty(), linked) {
        (false, _) => look_at(&mut core.common, now + pause),
        (true, true) => look_at(&mut core.common, now + limit),
        (true, false) => {}
    }
    silent.into_iter().for_each(|conn| lose(core, now, conn, io));
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
