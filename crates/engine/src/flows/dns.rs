//! Host names of servers: which servers are on old addresses, and which names are looked up again.
//!
//! Lent servers are checked here, at the owner: otherwise workers with different addresses for one name would close
//! each other's servers.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use weir_base::{Host, Peer, Span, Time};

use crate::cluster::lending::LentServer;
use crate::common::cx;
use crate::engine::Engine;
use crate::peers::{ServerPhase, ServerSlot};
use crate::port::Io;
use crate::traffic::links::RECONFIGURED;

impl Engine {
    /// A name has been looked up.
    pub(crate) fn resolved<I: Io>(&mut self, now: Time, name: Arc<str>, addresses: Vec<IpAddr>, ttl: Span, io: &mut I) {
        if self.backends.dns.resolved(cx!(self, now, io), name.clone(), addresses, ttl) {
            self.close_vanished(now, &name, io);
            self.recall_vanished(io);
        }
    }

    /// Marks servers for close on addresses that their name no longer has.
    fn close_vanished<I: Io>(&mut self, now: Time, name: &str, io: &mut I) {
        let on_it = |server: &&ServerSlot| matches!(&server.connection.target().host, Host::Name(host) if host == name);
        let vanished: Vec<(Peer, u32)> = self
            .peers
            .servers()
            .filter(on_it)
            .filter(|server| !server.marked_for_close && self.backends.dns.has_vanished(server))
            .map(|server| (server.peer, server.pool))
            .collect();
        for (server, pool) in vanished {
            if self.peers.server(server).is_some_and(|server| server.phase() == Some(ServerPhase::Idle)) {
                self.close_server(now, server, RECONFIGURED, io);
            } else {
                self.mark_for_close(server);
                self.recheck_linked(pool);
            }
        }
    }

    /// Borrowers of servers on such addresses return them, and all others of the same pools.
    fn recall_vanished<I: Io>(&mut self, io: &mut I) {
        let dns = &self.backends.dns;
        let left =
            |lent: &&mut LentServer| lent.resolved.as_ref().is_some_and(|(name, address)| dns.has_left(name, *address));
        let mut informed = Vec::new();
        for lent in self.cluster.lent.values_mut().filter(left) {
            // Once: a server in use may stay long.
            lent.resolved = None;
            informed.push((lent.pool, lent.borrower));
        }
        informed.sort_unstable();
        informed.dedup();
        informed.into_iter().for_each(|(pool, borrower)| self.recall_from(pool, borrower, io));
    }

    /// Answers may have expired.
    pub(crate) fn dns_due<I: Io>(&mut self, now: Time, io: &mut I) {
        let used = if self.backends.dns.is_due(now) { self.names_in_use() } else { HashSet::new() };
        self.backends.dns.renew(cx!(self, now, io), &used);
    }

    /// The names in use. Walks over the pools' servers, and over no client.
    fn names_in_use(&self) -> HashSet<Box<str>> {
        let servers = self.pools.iter().flat_map(|slot| slot.pool.servers());
        let hosts = servers.filter_map(|(peer, ..)| Some(&self.peers.get_server(peer)?.connection.target().host));
        let here = hosts.filter_map(|host| if let Host::Name(name) = host { Some((**name).into()) } else { None });
        let lent = self.cluster.lent.values().filter_map(|lent| Some((*lent.resolved.as_ref()?.0).into()));
        here.chain(lent).collect()
    }
}
