//! The secret of a client's cancel key, and the process id that goes with it.

use crate::cancel::peering::{PeerKey, issued_secret};

/// The secret of a client's cancel key.
#[derive(Default, Debug)]
pub(crate) struct CancelSecret {
    bytes: [u8; 16],
    /// How many of the bytes the client received; none before it has logged in, and then nothing cancels it.
    issued: usize,
    /// The key by which the client is found, where the process has peers.
    peer_key: Option<PeerKey>,
    /// The process id that goes with the secret; 0 before the login.
    pid: u32,
}

/// A key as its client is sent it.
pub(crate) struct IssuedKey {
    pub(crate) pid: u32,
    pub(crate) secret: [u8; 16],
    /// How many bytes of the secret the client is sent.
    pub(crate) length: usize,
}

impl CancelSecret {
    pub(crate) fn new(bytes: [u8; 16]) -> Self {
        CancelSecret { bytes, issued: 0, peer_key: None, pid: 0 }
    }

    /// Sets the process id that goes with the secret.
    pub(crate) fn set_pid(&mut self, pid: u32) {
        self.pid = pid;
    }

    /// What a client of protocol 3 with this minor version receives: 3.0 has room for four bytes of the secret.
    pub(crate) fn issue(&mut self, minor: u16) -> IssuedKey {
        self.issued = if minor >= 2 { self.bytes.len() } else { 4 };
        IssuedKey { pid: self.pid, secret: self.bytes, length: self.issued }
    }

    /// Makes the key one of a process that is peer `peer_id`; `bytes` are the highest and the lowest of its process id.
    pub(crate) fn become_peer_key(&mut self, bytes: (u8, u8), peer_id: u16) {
        let key = PeerKey::new(bytes, peer_id, &self.bytes);
        issued_secret(&mut self.bytes);
        self.peer_key = Some(key);
        self.pid = key.pid();
    }

    /// The key by which the client is found, where the process has peers.
    pub(crate) fn peer_key(&self) -> Option<PeerKey> {
        self.peer_key
    }

    /// The process id of the key; 0 before the login.
    #[inline]
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// The secret, and how many of its bytes the client received.
    pub(crate) fn parts(&self) -> ([u8; 16], usize) {
        (self.bytes, self.issued)
    }

    /// A secret from another process, by its [`CancelSecret::parts`], with the process id that the client received
    /// there.
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
            secret.set_pid(7);
            minor.map(|minor| secret.issue(minor));
            (0..=16).filter(|length| secret.is(7, &bytes[..*length])).collect::<Vec<_>>()
        };
        assert_eq!(accepted(None), [0_usize; 0], "nothing cancels a client that has no key yet");
        assert_eq!((accepted(Some(0)), accepted(Some(1)), accepted(Some(2))), (vec![4], vec![4], vec![16]));
        let mut secret = CancelSecret::new([0; 16]);
        secret.set_pid(7);
        secret.issue(2);
        assert!(secret.is(7, &[0; 16]) && !secret.is(7 | 1 << 24, &[0; 16]));
        assert!(!secret.is(7, &[0; 17]) && !secret.is(7, &[0; 15]) && !secret.is(7, &[1; 16]));
    }
}
