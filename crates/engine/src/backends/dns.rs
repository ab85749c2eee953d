//! Dns of servers and their addresses, as look-ups report them.
//!
//! Owns what SHOW DNS_HOSTS lists, when a name is looked up again (as its answer grows old, while servers are on it), and
//! which servers a changed answer leaves behind: those on addresses that the name has no more are closed when they are
//! free. An answer without addresses changes nothing: a name server in trouble must not cost servers that work. What is
//! lent to another worker is looked after here, by its owner: workers that were told different addresses of one name would
//! otherwise close each other's servers.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use weir_admin::DnsRecord;
use weir_base::{Host, Peer, Span, Time};

use crate::Engine;
use crate::backends::login::RECONFIGURED;
use crate::cluster::lending::LentServer;
use crate::peers::{ServerPhase, ServerSlot};
use crate::port::Io;
use crate::timers::Who;

/// The shortest pause between two look-ups of a name that nobody waits for.
const SHORTEST: Span = Span::from_secs(1);

/// What is known of each name.
#[derive(Default)]
pub(crate) struct Dns {
    known: BTreeMap<Arc<str>, Known>,
    /// The earliest wake-up in the timers.
    armed: Option<Time>,
}

/// One name's addresses.
struct Known {
    addresses: Vec<IpAddr>,
    /// Until when the answer holds; never while it is being looked up again.
    until: Time,
}

impl Dns {
    /// Whether a server is on an address that its name has no more.
    pub(crate) fn has_vanished(&self, server: &ServerSlot) -> bool {
        server.on().is_some_and(|(name, address)| self.has_left(name, address))
    }

    fn has_left(&self, name: &str, address: IpAddr) -> bool {
        let known = self.known.get(name);
        known.is_some_and(|known| !known.addresses.is_empty() && !known.addresses.contains(&address))
    }
}

impl Engine {
    /// A name has been looked up.
    pub(crate) fn resolved<I: Io>(&mut self, now: Time, name: Arc<str>, addresses: Vec<IpAddr>, ttl: Span, io: &mut I) {
        let until = now + ttl.max(SHORTEST);
        let known = self.backends.dns.known.entry(name.clone()).or_insert(Known { addresses: Vec::new(), until });
        known.until = until;
        if !addresses.is_empty() {
            known.addresses = addresses;
            self.leave_vanished(now, &name, io);
        }
        self.arm_names();
    }

    fn leave_vanished<I: Io>(&mut self, now: Time, name: &str, io: &mut I) {
        let on_it = |server: &&ServerSlot| matches!(&server.target.host, Host::Name(host) if host == name);
        let left: Vec<(Peer, u32)> = self
            .peers
            .servers()
            .filter(on_it)
            .filter(|server| !server.marked_for_close && self.backends.dns.has_vanished(server))
            .map(|server| (server.peer, server.pool))
            .collect();
        for (server, pool) in left {
            if self.peers.server(server).is_some_and(|server| server.phase() == Some(ServerPhase::Idle)) {
                self.close_server(now, server, RECONFIGURED, io);
            } else {
                self.mark_for_close(server);
                self.hurry(pool);
            }
        }
        self.recall_vanished(io);
    }

    /// Those who have servers that are left behind give them up, and whatever else they have of the same pools.
    fn recall_vanished<I: Io>(&mut self, io: &mut I) {
        let names = &self.backends.dns;
        let left = |lent: &&mut LentServer| {
            lent.resolved.as_ref().is_some_and(|(name, address)| names.has_left(name, *address))
        };
        let mut told = Vec::new();
        for lent in self.cluster.lent.values_mut().filter(left) {
            // Once: what is in use there may stay for long.
            lent.resolved = None;
            told.push((lent.pool, lent.borrower));
        }
        told.sort_unstable();
        told.dedup();
        told.into_iter().for_each(|(pool, borrower)| self.recall_from(pool, borrower, io));
    }

    /// Answers may have grown old: names that servers are on are looked up again, the others are forgotten.
    pub(crate) fn names_due<I: Io>(&mut self, now: Time, io: &mut I) {
        self.backends.dns.armed = None;
        let due: Vec<Arc<str>> = self
            .backends
            .dns
            .known
            .iter()
            .filter(|(_, known)| known.until <= now)
            .map(|(name, _)| name.clone())
            .collect();
        let used = if due.is_empty() { HashSet::new() } else { self.names_in_use() };
        for name in due {
            if !used.contains(&*name) {
                self.backends.dns.known.remove(&name);
                continue;
            }
            if let Some(known) = self.backends.dns.known.get_mut(&name) {
                known.until = Time::NEVER;
            }
            io.look_up(&name);
        }
        self.arm_names();
    }

    /// The names that servers are on. Looks at the pools' servers, and at no client.
    fn names_in_use(&self) -> HashSet<Box<str>> {
        let servers = self.pools.iter().flat_map(|slot| slot.pool.servers());
        let hosts = servers.filter_map(|(peer, ..)| Some(&self.peers.get_server(peer)?.target.host));
        let here = hosts.filter_map(|host| if let Host::Name(name) = host { Some((**name).into()) } else { None });
        let lent = self.cluster.lent.values().filter_map(|lent| Some((*lent.resolved.as_ref()?.0).into()));
        here.chain(lent).collect()
    }

    fn arm_names(&mut self) {
        let next = self.backends.dns.known.values().map(|known| known.until).min().unwrap_or(Time::NEVER);
        let mut armed = self.backends.dns.armed.unwrap_or(Time::NEVER);
        self.common.arm(Who::Dns, next, &mut armed);
        self.backends.dns.armed = Some(armed);
    }

    /// What is known of names, for SHOW DNS_HOSTS.
    pub(crate) fn dns_records(&self, now: Time) -> Vec<DnsRecord> {
        let record = |(name, known): (&Arc<str>, &Known)| DnsRecord {
            hostname: name.to_string(),
            ttl: if known.until == Time::NEVER { Span::ZERO } else { known.until.since(now) },
            addresses: known.addresses.clone(),
        };
        self.backends.dns.known.iter().map(record).collect()
    }
}
