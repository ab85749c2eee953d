//! Connects under way, and the cached addresses of servers' names.
//!
//! Owns the attempts under way, by slot, and the answers of look-ups until their TTL ends.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use weir_base::{ConnId, Time};
use weir_config::Dns;

/// A connect under way.
#[derive(Debug)]
pub(super) enum Attempt {
    /// The look-up is under way.
    LookUp,
    /// The connect tries one address after the other.
    Tcp { left: std::vec::IntoIter<SocketAddr>, named: bool, now: Option<SocketAddr> },
    /// PostgreSQL's socket at this path.
    Unix(PathBuf),
}

/// The connections that wait for a name, each with its port.
pub(super) type Waiting = Vec<(ConnId, u16)>;

/// All connects under way in a worker.
#[derive(Debug, Default)]
pub(crate) struct Connects {
    pub(super) attempts: HashMap<u32, Attempt>,
    /// Look-ups under way, each with the connections that wait for it. Connects to the same name share one look-up.
    pub(super) asked: Vec<(Arc<str>, Waiting)>,
    /// Cached answers. As many as the configuration has names, and a few of its past.
    pub(super) known: HashMap<Arc<str>, KnownName>,
    /// The DNS settings.
    pub(super) dns: Arc<Dns>,
}

/// A cached answer.
#[derive(Debug)]
pub(super) struct KnownName {
    pub(super) addresses: Result<Vec<IpAddr>, String>,
    pub(super) until: Time,
    /// The index of the address that the next connect tries first: each connect begins with the next one.
    pub(super) turn: usize,
}

/// The limit of cached answers; beyond it old ones are dropped.
pub(super) const MOST_KNOWN: usize = 1024;

impl Connects {
    /// Applies DNS settings. If they change, the cache is cleared.
    pub(crate) fn apply_config(&mut self, dns: &Dns) {
        if *self.dns != *dns {
            self.dns = Arc::new(dns.clone());
            self.known.clear();
        }
    }

    /// Drops the attempt of a closed connection.
    #[inline]
    pub(crate) fn forget(&mut self, conn: ConnId) {
        if !self.attempts.is_empty() {
            self.attempts.remove(&conn.slot);
        }
    }
}

impl KnownName {
    /// An attempt at the next of the addresses, and then at the others.
    pub(super) fn attempt(&mut self, port: u16) -> Result<Attempt, String> {
        let addresses = self.addresses.as_ref().map_err(Clone::clone)?;
        let first = self.turn % addresses.len().max(1);
        self.turn = first + 1;
        let (before, from) = addresses.split_at(first);
        let in_order = from.iter().chain(before).map(|address| SocketAddr::new(*address, port));
        Ok(tcp(in_order.collect(), true))
    }
}

pub(super) fn tcp(addresses: Vec<SocketAddr>, named: bool) -> Attempt {
    Attempt::Tcp { left: addresses.into_iter(), named, now: None }
}
