//! A client's cancel key: the worker and slot in it, and its secret.

use weir_base::{Peer, WorkerId};

use crate::cluster::peering::{PeerKey, issued_secret};

/// The process id of a client's cancel key: seven bits of worker, twenty-four of slot, counted from one. Positive as a
/// signed number, since drivers take anything else for "no key".
pub(crate) fn pid_of(worker: WorkerId, client: Peer) -> u32 {
    u32::from(worker.0) << 24 | ((client.slot + 1) & 0xff_ffff)
}

/// The worker in a key's process id.
pub(crate) fn worker_of(pid: u32) -> WorkerId {
    WorkerId((pid >> 24) as u16)
}

/// The secret of a client's cancel key.
#[derive(Debug)]
pub(crate) struct CancelSecret {
    bytes: [u8; 16],
    /// How many of the bytes the client received; none before it has logged in, and then nothing cancels it.
    issued: usize,
    /// By what the client is found, where the process has peers.
    peer_key: Option<PeerKey>,
    /// The process id that it was sent with; 0 before.
    pid: u32,
}

impl CancelSecret {
    pub(crate) fn new(bytes: [u8; 16]) -> Self {
        CancelSecret { bytes, issued: 0, peer_key: None, pid: 0 }
    }

    /// What a client of protocol 3 with this minor version receives, beside the process id: 3.0 has room for four bytes.
    pub(crate) fn issue(&mut self, minor: u16, pid: u32) -> &[u8] {
        self.pid = pid;
        self.issued = if minor >= 2 { self.bytes.len() } else { 4 };
        &self.bytes[..self.issued]
    }

    /// The process id that goes with it in a process that is peer `peer_id`. The secret names it too.
    pub(crate) fn become_peer_key(&mut self, worker: WorkerId, peer_id: u16) -> u32 {
        let key = PeerKey::new(worker, peer_id, &self.bytes);
        issued_secret(&mut self.bytes);
        self.peer_key = Some(key);
        key.pid()
    }

    /// By what the client is found, where the process has peers.
    pub(crate) fn peer_key(&self) -> Option<PeerKey> {
        self.peer_key
    }

    /// The process id that the client received; 0 before it has logged in.
    #[inline]
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// The secret, and how many of its bytes the client received.
    pub(crate) fn parts(&self) -> ([u8; 16], usize) {
        (self.bytes, self.issued)
    }

    /// The same from another process, with the process id that the client received there.
    pub(crate) fn of_parts((bytes, issued): ([u8; 16], usize), pid: u32) -> CancelSecret {
        CancelSecret { bytes, issued: issued.min(bytes.len()), peer_key: None, pid }
    }

    /// Whether this is the key that the client received: its process id, and all of its secret and no more.
    pub(crate) fn is(&self, pid: u32, secret: &[u8]) -> bool {
        self.issued > 0 && self.pid == pid && weir_auth::same_secret(&self.bytes[..self.issued], secret)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_what_was_issued_and_neither_its_beginning_nor_more_nor_another_process_id() {
        let bytes: [u8; 16] = std::array::from_fn(|i| i as u8);
        let accepted = |minor: Option<u16>| {
            let mut secret = CancelSecret::new(bytes);
            minor.map(|minor| secret.issue(minor, 7).to_vec());
            (0..=16).filter(|length| secret.is(7, &bytes[..*length])).collect::<Vec<_>>()
        };
        assert_eq!(accepted(None), [0_usize; 0], "nothing cancels a client that has no key yet");
        assert_eq!((accepted(Some(0)), accepted(Some(1)), accepted(Some(2))), (vec![4], vec![4], vec![16]));
        let mut secret = CancelSecret::new([0; 16]);
        secret.issue(2, 7);
        assert!(secret.is(7, &[0; 16]) && !secret.is(7 | 1 << 24, &[0; 16]));
        assert!(!secret.is(7, &[0; 17]) && !secret.is(7, &[0; 15]) && !secret.is(7, &[1; 16]));
    }
}
