//! Worker 0 orders a batch of clients to move, if one worker is busy and another is not.

use weir_base::{Span, Time};
use weir_config::Spread;

use crate::client_login::loads::Loads;
use crate::common::UnderWay;
use crate::core::Core;
use crate::moves::MoveOrder;
use crate::port::{Io, Level};
use crate::timers::Who;
use crate::workers::messages::{Message, Payload};
use crate::workers::send::COUNTER;

/// The next look, if commands are under way: some come at the same pace as looks.
const SOON: Span = Span::from_millis(100);

/// How long commands for all workers wait for a batch: longer than this, a worker hangs. A client on its way may miss them.
const HOLD: Span = Span::from_secs(1);

/// A load has changed; or the time for a look has come, which is when a batch begins, so that the loads are measured
/// between two of them. `commands`: whether commands for all workers are under way.
pub(crate) fn consider<I: Io>(core: &mut Core, loads: &mut Loads, now: Time, looks: bool, commands: bool, io: &mut I) {
    if core.common.workers() == 1 || core.common.worker() != COUNTER {
        return;
    }
    if looks && core.common.gives_up_moves(now, io) {
        let text = format_args!("clients that move to another worker have not arrived within a second: it hangs");
        crate::log::log(Level::Warning, text, io);
    }
    let due = loads.next_look(now);
    core.common.arm(Who::Moves, due, loads.armed());
    let wanted = loads.take_wanted();
    let spreads = looks && core.common.config().spread == Spread::Busy;
    let any = wanted.is_some();
    let uneven = || if spreads { loads.uneven(core.common.workers(), now) } else { None };
    let Some((from, to)) = wanted.or_else(uneven) else { return };
    let stopped = core.shutdown.is_under_way()
        || core.pause.is_stopped()
        || core.primaries.is_moving()
        || core.common.is_under_way(UnderWay::EXPORT);
    if stopped {
        return;
    }
    if commands {
        // They are answered soon, and others may come with each look.
        return core.common.arm(Who::Moves, now + SOON, loads.armed());
    }
    if let Some(batch) = core.common.hold_commands(now + HOLD) {
        core.common.arm(Who::Moves, now + HOLD, loads.armed());
        io.post(from, Message(Payload::MoveClients(MoveOrder { to, batch, any })), None);
    }
}
