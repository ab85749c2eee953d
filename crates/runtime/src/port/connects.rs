//! Connections that we begin, and what is known of servers' names.
//!
//! Owns the attempts under way, by slot, and the answers of look-ups while they hold.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use weir_base::{Peer, Time};
use weir_config::Dns;

/// A connect under way.
#[derive(Debug)]
pub(super) enum Attempt {
    /// The addresses are not known yet.
    LookUp,
    /// One address after the other is tried.
    Tcp { left: std::vec::IntoIter<SocketAddr>, named: bool, now: Option<SocketAddr> },
    /// PostgreSQL's socket at this path.
    Unix(PathBuf),
}

/// Who waits for a name, each with its port.
pub(super) type Waiting = Vec<(Peer, u16)>;

/// All connects under way in a worker.
#[derive(Debug, Default)]
pub(crate) struct Connects {
    pub(super) attempts: HashMap<u32, Attempt>,
    /// Names that are being looked up, and who waits for each, with its port. Connects to the same name share one
    /// look-up.
    pub(super) asked: Vec<(Arc<str>, Waiting)>,
    /// What look-ups said, for as long as it holds. As many as the configuration has names, and a few of its past.
    pub(super) known: HashMap<Arc<str>, KnownName>,
    /// How names are looked up.
    pub(super) dns: Arc<Dns>,
}

/// What a look-up said.
#[derive(Debug)]
pub(super) struct KnownName {
    pub(super) addresses: Result<Vec<IpAddr>, String>,
    pub(super) until: Time,
    /// Which of the addresses is tried first by the next connect: each connect begins with the next one.
    pub(super) turn: usize,
}

/// So many answers are kept; old ones go first.
pub(super) const MOST_KNOWN: usize = 1024;

impl Connects {
    /// Takes over how names are looked up. What is known from elsewhere is forgotten.
    pub(crate) fn adopt(&mut self, dns: &Dns) {
        if *self.dns != *dns {
            self.dns = Arc::new(dns.clone());
            self.known.clear();
        }
    }

    /// A peer is gone; nothing is under way for it any more.
    #[inline]
    pub(crate) fn forget(&mut self, peer: Peer) {
        if !self.attempts.is_empty() {
            self.attempts.remove(&peer.slot);
        }
    }
}

impl KnownName {
    /// A connect to the next of the addresses, and then to the others.
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
