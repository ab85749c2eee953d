//! Looks for hosts that give no answer: what connections show, and the probe of a suspected one.

use std::collections::HashMap;

use weir_base::{ConnId, Target, Time};
use weir_pool::ServerState as InPool;

use crate::common::UnderWay;
use crate::conns::{Conn, ConnTable};
use crate::core::Core;
use crate::pools::Pools;
use crate::port::Io;
use crate::server::login_steps::ask_for_encryption;
use crate::server::slot::{ServerPhase, ServerSlot, ServerState};
use crate::server::unresponsive::{Signs, Step};

fn close_probe<I: Io>(core: &mut Core, probe: ConnId, io: &mut I) {
    if let Conn::Probe(_) = core.conns.take_any(probe) {
        io.close(probe);
    }
}

/// Somebody looks at the health of pools. Walks over all servers.
pub(crate) fn look_for_unresponsive<I: Io>(core: &mut Core, now: Time, io: &mut I) {
    if core.common.is_under_way(UnderWay::SUSPEND) {
        return;
    }
    let mut signs = signs(&core.pools, &core.conns);
    // Without a connection nothing is seen of a host, and its pools still want to know.
    for target in core.hosts.unresponsive.known() {
        let wanted = || core.pools.iter().any(|slot| slot.config.targets.contains(&target));
        if signs.iter().any(|(seen, _)| *seen == target) {
            continue;
        }
        if wanted() {
            signs.push((target.clone(), Signs::new(target)));
        } else if let Some(probe) = core.hosts.unresponsive.forget(&target) {
            close_probe(core, probe, io);
        }
    }
    for (target, signs) in signs {
        let (old, again) = match core.hosts.unresponsive.look(&target, &signs, now) {
            Step::Nothing => continue,
            Step::Probe(old) => (old, true),
            Step::Forget(old) => (old, false),
        };
        old.into_iter().for_each(|probe| close_probe(core, probe, io));
        if again {
            let probe = io.connect(&signs.machine);
            core.hosts.unresponsive.probed(&target, probe, now);
            core.conns.put_at(probe, Conn::Probe(Box::new(target)));
        }
    }
}

/// The connection of a probe is open.
pub(crate) fn connected<I: Io>(core: &mut Core, probe: ConnId, io: &mut I) {
    let now = core.common.now();
    if let Some(target) = core.conns.get::<Target>(probe) {
        core.hosts.unresponsive.accepted(target, now);
        ask_for_encryption(probe, io);
    }
}

/// A probe was answered, with whatever bytes.
pub(crate) fn answered<I: Io>(core: &mut Core, now: Time, probe: ConnId, target: &Target, io: &mut I) {
    io.close(probe);
    core.hosts.unresponsive.answered(target, now);
}

/// A probe has failed, or was closed; it is out of the table.
pub(crate) fn over(core: &mut Core, target: &Target) {
    core.hosts.unresponsive.ended(target, core.common.now());
}

/// What all connections show of their hosts.
fn signs(pools: &Pools, conns: &ConnTable) -> Vec<(Target, Signs)> {
    let (mut all, mut places): (Vec<(Target, Signs)>, HashMap<&Target, usize>) = (Vec::new(), HashMap::new());
    for slot in pools.iter() {
        let waits = slot.pool.oldest_wait().is_some();
        for (server, state, _) in slot.pool.servers() {
            let Some(server) = conns.get::<ServerSlot>(server).filter(|_| state != InPool::Closing) else { continue };
            let target = server.connection.target();
            let place = *places.entry(target).or_insert_with(|| {
                all.push((target.clone(), Signs::new(server.connection.machine())));
                all.len() - 1
            });
            let signs = &mut all[place].1;
            signs.waits |= waits;
            add(signs, server);
        }
    }
    all
}

fn add(signs: &mut Signs, server: &ServerSlot) {
    let received = server.clock.received_at();
    let ServerState::Up(_, phase) = &server.state else {
        signs.logs_in = true;
        // A connect that is not accepted says nothing of the host's connections: server_connect_timeout ends it.
        if matches!(server.state, ServerState::Connecting) {
            return;
        }
        let began = server.connection.connected_at();
        match received > began {
            true => signs.heard = signs.heard.max(received),
            false => signs.knocked = signs.knocked.min(began),
        }
        return signs.pending(began);
    };
    signs.heard = signs.heard.max(received);
    match phase {
        ServerPhase::Linked => signs.pending(server.clock.holding().query),
        ServerPhase::Idle | ServerPhase::Streaming => {}
        _ => signs.pending(server.clock.own_query_at()),
    }
}
