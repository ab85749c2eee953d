//! Host names of servers: which servers are on old addresses, and which names are looked up again.
//!
//! Lent servers are checked here, at the owner: otherwise workers with different addresses for one name would close
//! each other's servers.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use weir_base::{ConnId, Host, Span, Time};

use crate::common::cx;
use crate::core::Core;
use crate::lending::messages;
use crate::lending::state::LentServer;
use crate::link::release::RECONFIGURED;
use crate::pools::reconnect;
use crate::port::Io;
use crate::server::close;
use crate::server::slot::{ServerPhase, ServerSlot};

/// The names in use. Walks over the pools' servers, and over no client.
fn names_in_use(core: &Core) -> HashSet<Box<str>> {
    let servers = core.pools.iter().flat_map(|slot| slot.pool.servers());
    let hosts = servers.filter_map(|(conn, ..)| Some(&core.conns.get::<ServerSlot>(conn)?.connection.target().host));
    let here = hosts.filter_map(|host| if let Host::Name(name) = host { Some((**name).into()) } else { None });
    let lent = core.lent.values().filter_map(|lent| Some((*lent.resolved.as_ref()?.0).into()));
    here.chain(lent).collect()
}

/// Borrowers of servers on addresses that their name no longer has return them, and all others of the same pools.
fn recall_vanished<I: Io>(core: &mut Core, io: &mut I) {
    let dns = &core.hosts.dns;
    let left =
        |lent: &&mut LentServer| lent.resolved.as_ref().is_some_and(|(name, address)| dns.has_left(name, *address));
    let mut informed = Vec::new();
    for lent in core.lent.values_mut().filter(left) {
        // Once: a server in use may stay long.
        lent.resolved = None;
        informed.push((lent.pool, lent.borrower));
    }
    informed.sort_unstable();
    informed.dedup();
    informed.into_iter().for_each(|(pool, borrower)| messages::recall_from(core, pool, borrower, io));
}

/// Marks servers for close on addresses that their name no longer has.
fn close_vanished<I: Io>(core: &mut Core, now: Time, name: &str, io: &mut I) {
    let on_it = |server: &&ServerSlot| matches!(&server.connection.target().host, Host::Name(host) if host == name);
    let vanished: Vec<(ConnId, u32)> = core
        .conns
        .all::<ServerSlot>()
        .filter(on_it)
        .filter(|server| !server.closes && core.hosts.dns.has_vanished(server))
        .map(|server| (server.conn, server.pool))
        .collect();
    for (server, pool) in vanished {
        if core.conns.get_mut::<ServerSlot>(server).is_some_and(|server| server.phase() == Some(ServerPhase::Idle)) {
            close::close(core, now, server, RECONFIGURED, io);
        } else {
            close::mark_for_close(core, server);
            reconnect::recheck_linked(core, pool);
        }
    }
}

/// A name has been looked up.
pub(crate) fn resolved<I: Io>(
    core: &mut Core,
    now: Time,
    name: Arc<str>,
    addresses: Vec<IpAddr>,
    ttl: Span,
    io: &mut I,
) {
    if core.hosts.dns.resolved(cx!(core, now, io), name.clone(), addresses, ttl) {
        close_vanished(core, now, &name, io);
        recall_vanished(core, io);
    }
}

/// Answers may have expired.
pub(crate) fn dns_due<I: Io>(core: &mut Core, now: Time, io: &mut I) {
    let used = if core.hosts.dns.is_due(now) { names_in_use(core) } else { HashSet::new() };
    core.hosts.dns.renew(cx!(core, now, io), &used);
}
