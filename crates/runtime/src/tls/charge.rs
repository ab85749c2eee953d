//! Limits the stored bytes of handshakes: of each, and of all clients of a worker together.

use weir_base::{ConnId, FairRoom, Origin};

/// The limits of a handshake's stored bytes, from a server and from a client. A message of a handshake may have 64
/// KiB; no client's has a quarter of that.
const MOST_OF_SERVER: usize = 128 * 1024;
const MOST_OF_CLIENT: usize = 32 * 1024;
/// Bytes of a client's handshake that are always allowed. Most handshakes need fewer.
const OWN_SHARE: usize = 2048;
/// The limit of what all handshakes of a worker's clients may store beyond that.
const MOST_OF_ALL: usize = 16 << 20;

/// The stored bytes of a worker's handshakes, until they end.
#[derive(Debug)]
pub(crate) struct StoredBytes(FairRoom);

impl Default for StoredBytes {
    fn default() -> Self {
        StoredBytes(FairRoom::new(MOST_OF_ALL))
    }
}

impl StoredBytes {
    /// Notes that a handshake stores `bytes`; `from`: where a client comes from, none for a server. Returns the clients
    /// whose handshakes must fail to make room; `None` if the handshake itself must fail.
    pub(crate) fn set(&mut self, conn: ConnId, from: Option<Origin>, bytes: usize) -> Option<Vec<ConnId>> {
        let Some(from) = from else { return (bytes <= MOST_OF_SERVER).then(Vec::new) };
        let beyond = bytes.saturating_sub(OWN_SHARE);
        let displaced = if bytes <= MOST_OF_CLIENT { self.0.make(from, conn, beyond) } else { None }?;
        self.0.set(from, conn, beyond);
        Some(displaced)
    }

    /// A handshake is over, or its connection is gone.
    pub(crate) fn release(&mut self, conn: ConnId) {
        self.0.release(conn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOOD: Option<Origin> = Some(Origin::V4(1));
    const QUIET: Option<Origin> = Some(Origin::V4(2));

    fn conn(number: usize) -> ConnId {
        ConnId::new(number as u32, 1)
    }

    /// As many handshakes of one origin as fit; returns their number.
    fn fill(stored: &mut StoredBytes) -> usize {
        (0..10_000).take_while(|number| stored.set(conn(*number), FLOOD, MOST_OF_CLIENT).is_some()).count()
    }

    #[test]
    fn clients_have_a_share_each_and_share_the_rest() {
        let mut stored = StoredBytes::default();
        assert_eq!(fill(&mut stored), MOST_OF_ALL / (MOST_OF_CLIENT - OWN_SHARE));
        let next = conn(20_000);
        assert!(stored.set(next, FLOOD, OWN_SHARE).is_some(), "only the own share is left");
        assert!(stored.set(next, FLOOD, MOST_OF_CLIENT / 2).is_none());
        assert!(stored.set(next, None, MOST_OF_SERVER).is_some(), "servers have limits of their own");
        assert!(stored.set(next, None, MOST_OF_SERVER + 1).is_none());
        stored.release(conn(0));
        assert!(stored.set(next, FLOOD, MOST_OF_CLIENT / 2).is_some(), "what one gives back another may have");
        assert!(StoredBytes::default().set(next, FLOOD, MOST_OF_CLIENT + 1).is_none());
    }

    #[test]
    fn a_flood_of_one_origin_makes_room_for_another() {
        let mut stored = StoredBytes::default();
        let fitted = fill(&mut stored);
        let displaced = stored.set(conn(20_000), QUIET, MOST_OF_CLIENT).expect("there is room");
        assert!(displaced.len() == 1 && displaced[0] < conn(fitted), "{displaced:?}");
        assert!(stored.set(conn(20_001), FLOOD, MOST_OF_CLIENT).is_none());
    }
}
