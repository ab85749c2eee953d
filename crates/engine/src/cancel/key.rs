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
    pub(crate) pid: u32,
}

/// A key as its client is sent it.
pub(crate) struct IssuedKey {
    pub(crate) pid: u32,
    pub(crate) secret: [u8; 16],
    /// How many bytes of the secret the client is sent.
    pub(crate) length: usize,
}

impl CancelSecret {
    /// The secret of a client that speaks protocol 3 with this minor version: 3.0 has room for four bytes of it.
    pub(crate) fn new(bytes: [u8; 16], minor: u16, pid: u32) -> CancelSecret {
        CancelSecret { bytes, issued: if minor >= 2 { bytes.len() } else { 4 }, peer_key: None, pid }
    }

    /// The secret of a client of a process that is peer `peer_id`; `ends` are the highest and the lowest byte of the
    /// process id.
    pub(crate) fn of_peer(mut bytes: [u8; 16], minor: u16, peer_id: u16, ends: (u8, u8)) -> CancelSecret {
        let key = PeerKey::new(ends, peer_id, &bytes);
        issued_secret(&mut bytes);
        CancelSecret { peer_key: Some(key), ..CancelSecret::new(bytes, minor, key.pid()) }
    }

    /// The key as its client is sent it.
    pub(crate) fn key(&self) -> IssuedKey {
        IssuedKey { pid: self.pid, secret: self.bytes, length: self.issued }
    }
    /// The key by which the client is found, where the process has peers.
    pub(crate) fn peer_key(&self) -> Option<PeerKey> {
        self.peer_key
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
        let accepted = |secret: CancelSecret| {
            (0..=16).filter(|length| secret.is(secret.pid, &bytes[..*length])).collect::<Vec<_>>()
        };
        assert_eq!(accepted(CancelSecret::default()), [0_usize; 0], "nothing cancels a client that has no key yet");
        let issued = |minor| accepted(CancelSecret::new(bytes, minor, 7));
        assert_eq!((issued(0), issued(1), issued(2)), (vec![4], vec![4], vec![16]));
        let secret = CancelSecret::new([0; 16], 2, 7);
        assert!(secret.is(7, &[0; 16]) && !secret.is(7 | 1 << 24, &[0; 16]));
        assert!(!secret.is(7, &[0; 17]) && !secret.is(7, &[0; 15]) && !secret.is(7, &[1; 16]));
    }
}
