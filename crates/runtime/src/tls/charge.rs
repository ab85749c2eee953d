//! How many bytes of handshakes are kept: of each, and of all clients of a worker together.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// The most bytes of a handshake that are kept, of what a server sent and of what a client sent. A
/// message of a handshake may have 64 KiB; no client's has a quarter of that.
pub(crate) const MOST_OF_SERVER: usize = 128 * 1024;
const MOST_OF_CLIENT: usize = 32 * 1024;
/// So many bytes of a client's handshake are kept whatever others have. Most are done with fewer.
const OWN_SHARE: usize = 2048;
/// What all handshakes of a worker's clients may keep beyond that.
const MOST_OF_ALL: usize = 16 << 20;

/// What a client's handshake is charged for, until it is over.
#[derive(Debug)]
pub(crate) struct Charge {
    all: Arc<AtomicUsize>,
    own: usize,
}

impl Charge {
    pub(crate) fn new(all: &Arc<AtomicUsize>) -> Charge {
        Charge { all: Arc::clone(all), own: 0 }
    }

    /// The handshake keeps so many bytes now; whether it may.
    pub(crate) fn set(&mut self, bytes: usize) -> bool {
        let beyond = bytes.saturating_sub(OWN_SHARE);
        let before = std::mem::replace(&mut self.own, beyond);
        // One thread adds, others only take away.
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
