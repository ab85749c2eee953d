//! Host names of servers and their addresses, as look-ups report them.
//!
//! Owns the content of SHOW DNS_HOSTS, and when a name is looked up again: when its answer expires while servers use
//! it. An answer without addresses changes nothing: a failing name server must not cost working servers. This file
//! decides which servers are on addresses that their name no longer has; they are closed when they are free
//! (`server::open`).

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use weir_admin::DnsRecord;
use weir_base::{Span, Time};

use crate::common::Cx;
use crate::port::Io;
use crate::server::slot::ServerSlot;
use crate::timers::Who;

/// The shortest interval between two look-ups of a name that no connect waits for.
const SHORTEST: Span = Span::from_secs(1);

/// The known names.
#[derive(Default)]
pub(crate) struct Dns {
    known: BTreeMap<Arc<str>, Resolved>,
    /// The earliest timer.
    armed: Option<Time>,
}

/// One name's addresses.
struct Resolved {
    addresses: Vec<IpAddr>,
    /// When the answer expires; never while the name is being looked up.
    until: Time,
}

impl Dns {
    /// Whether a server is on an address that its name no longer has.
    pub(crate) fn has_vanished(&self, server: &ServerSlot) -> bool {
        server.connection.on().is_some_and(|(name, address)| self.has_left(name, address))
    }

    /// Whether a name has addresses, and this is none of them.
    pub(crate) fn has_left(&self, name: &str, address: IpAddr) -> bool {
        let known = self.known.get(name);
        known.is_some_and(|known| !known.addresses.is_empty() && !known.addresses.contains(&address))
    }

    /// A name has been looked up; returns whether its addresses changed, so that servers may be on old ones.
    pub(crate) fn resolved<I: Io>(
        &mut self,
        cx: &mut Cx<'_, I>,
        name: Arc<str>,
        addresses: Vec<IpAddr>,
        ttl: Span,
    ) -> bool {
        let until = cx.now + ttl.max(SHORTEST);
        let known = self.known.entry(name).or_insert(Resolved { addresses: Vec::new(), until });
        known.until = until;
        let found = !addresses.is_empty();
        if found {
            known.addresses = addresses;
        }
        self.arm(cx);
        found
    }

    /// Whether an answer may have expired.
    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.known.values().any(|known| known.until <= now)
    }

    /// Answers may have expired: names in use are looked up again, the others are dropped.
    pub(crate) fn renew<I: Io>(&mut self, cx: &mut Cx<'_, I>, used: &HashSet<Box<str>>) {
        self.armed = None;
        let now = cx.now;
        self.known.retain(|name, known| known.until > now || used.contains(&**name));
        for (name, known) in self.known.iter_mut().filter(|(_, known)| known.until <= now) {
            known.until = Time::NEVER;
            cx.io.look_up(name);
        }
        self.arm(cx);
    }

    fn arm<I: Io>(&mut self, cx: &mut Cx<'_, I>) {
        let next = self.known.values().map(|known| known.until).min().unwrap_or(Time::NEVER);
        let armed = self.armed.get_or_insert(Time::NEVER);
        cx.common.arm(Who::Dns, next, armed);
    }

    /// The known names, for SHOW DNS_HOSTS.
    pub(crate) fn records(&self, now: Time) -> Vec<DnsRecord> {
        let record = |(name, known): (&Arc<str>, &Resolved)| DnsRecord {
            hostname: name.to_string(),
            ttl: if known.until == Time::NEVER { Span::ZERO } else { known.until.since(now) },
            addresses: known.addresses.clone(),
        };
        self.known.iter().map(record).collect()
    }
}
