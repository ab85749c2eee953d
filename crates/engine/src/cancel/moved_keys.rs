//! The cancel keys of clients that came from another process: they name slots of that process.
//!
//! Two clients may have a key of the same process id, as they came from different processes; their secrets differ.

use std::collections::{BTreeSet, HashMap};

use weir_base::Peer;

/// See the head of the file. Empty, and without cost, where no client came so.
#[derive(Default)]
pub(crate) struct MovedKeys {
    by_pid: BTreeSet<(u32, Peer)>,
    by_peer: HashMap<Peer, u32>,
}

impl MovedKeys {
    /// A client came with a key of this process id.
    pub(crate) fn add(&mut self, pid: u32, peer: Peer) {
        self.by_pid.insert((pid, peer));
        self.by_peer.insert(peer, pid);
    }

    /// A client is gone, or has left.
    #[inline]
    pub(crate) fn remove(&mut self, peer: Peer) {
        if !self.by_peer.is_empty()
            && let Some(pid) = self.by_peer.remove(&peer)
        {
            self.by_pid.remove(&(pid, peer));
        }
    }

    /// The clients that a process id may mean.
    pub(crate) fn named(&self, pid: u32) -> impl Iterator<Item = Peer> {
        let (first, last) = (Peer::new(0, 0), Peer::new(u32::MAX, u32::MAX));
        self.by_pid.range((pid, first)..=(pid, last)).map(|(_, peer)| *peer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_all_that_came_with_it_until_they_leave() {
        let mut keys = MovedKeys::default();
        let (a, b, c) = (Peer::new(1, 0), Peer::new(2, 7), Peer::new(3, 0));
        keys.add(6, a);
        keys.add(6, b);
        keys.add(7, c);
        assert_eq!(keys.named(6).collect::<Vec<_>>(), [a, b]);
        keys.remove(a);
        keys.remove(a);
        assert_eq!(keys.named(6).collect::<Vec<_>>(), [b]);
    }
}
