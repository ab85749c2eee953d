//! Limits the stored bytes of handshakes: of each, and of all clients of a worker together.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// The limits of a handshake's stored bytes, from a server and from a client. A message of a handshake may have 64
/// KiB; no client's has a quarter of that.
pub(crate) const MOST_OF_SERVER: usize = 128 * 1024;
const MOST_OF_CLIENT: usize = 32 * 1024;
/// Bytes of a client's handshake that are always allowed. Most handshakes need fewer.
const OWN_SHARE: usize = 2048;
/// The limit of what all handshakes of a worker's clients may store beyond that.
const MOST_OF_ALL: usize = 16 << 20;

/// A client's share of the limit, until its handshake ends.
#[derive(Debug)]
pub(crate) struct Charge {
    all: Arc<AtomicUsize>,
    own: usize,
}

impl Charge {
    pub(crate) fn new(all: &Arc<AtomicUsize>) -> Charge {
        Charge { all: Arc::clone(all), own: 0 }
    }

    /// Charges for this many stored bytes; returns whether they are allowed.
    pub(crate) fn set(&mut self, bytes: usize) -> bool {
        let beyond = bytes.saturating_sub(OWN_SHARE);
        let before = std::mem::replace(&mut self.own, beyond);
        // Only one thread adds, others only subtract.
        let all = self.all.fetch_add(beyond, Relaxed) + beyond - before;
        self.all.fetch_sub(before, Relaxed);
        bytes <= MOST_OF_CLIENT && (beyond == 0 || all <= MOST_OF_ALL)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.all.fetch_sub(self.own, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_have_a_share_each_and_share_the_rest() {
        let all = Arc::new(AtomicUsize::new(0));
        let mut small: Vec<Charge> = (0..10_000).map(|_| Charge::new(&all)).collect();
        assert!(small.iter_mut().all(|charge| charge.set(OWN_SHARE)) && all.load(Relaxed) == 0);
        let mut large: Vec<Charge> = (0..600).map(|_| Charge::new(&all)).collect();
        let taken = large.iter_mut().map(|charge| charge.set(MOST_OF_CLIENT)).take_while(|fits| *fits).count();
        assert_eq!(taken, MOST_OF_ALL / (MOST_OF_CLIENT - OWN_SHARE));
        assert!(small[0].set(OWN_SHARE) && !small[0].set(OWN_SHARE + 1000), "only the own share is left");
        assert!(
            large[0].set(0) && large[1].set(0) && small[0].set(OWN_SHARE + 1000),
            "what one gives back another may have"
        );
        drop((small, large));
        assert_eq!(all.load(Relaxed), 0);
        assert!(!Charge::new(&all).set(MOST_OF_CLIENT + 1));
    }
}
