//! Startup packets that clients have sent lately: a program's connections all begin with the same bytes.
//!
//! Owns what was read from those bytes, so that the next client with them costs no reading and no allocation, and what
//! its requests have in common is found by comparing pointers. Holds no secret: a startup packet has none.

use std::sync::Arc;

use weir_session::startup::StartupRequest;

/// How many different packets are remembered.
const MAX_PACKETS: usize = 8;
/// A longer packet is not remembered.
const MAX_LENGTH: usize = 512;

/// See the head of the file.
#[derive(Default)]
pub(crate) struct StartupPackets {
    known: Recent<KnownPacket, MAX_PACKETS>,
}

struct KnownPacket {
    bytes: Box<[u8]>,
    request: Arc<StartupRequest>,
    user: Arc<str>,
}

impl StartupPackets {
    /// What these bytes request, and the user in it, if they are a packet that was read before and nothing else.
    pub(crate) fn find(&self, bytes: &[u8]) -> Option<(Arc<StartupRequest>, Arc<str>)> {
        let known = self.known.iter().find(|known| *known.bytes == *bytes)?;
        Some((known.request.clone(), known.user.clone()))
    }

    /// Remembers a packet that was read; returns its user.
    pub(crate) fn remember(&mut self, bytes: &[u8], request: &Arc<StartupRequest>) -> Arc<str> {
        let user: Arc<str> = request.user.as_str().into();
        if bytes.len() <= MAX_LENGTH {
            self.known.push(KnownPacket { bytes: bytes.into(), request: request.clone(), user: user.clone() });
        }
        user
    }
}

/// The last few values of something, at most `MOST`, where a new one replaces the oldest. A lookup costs a look at each, so `MOST` is small.
pub(super) struct Recent<T, const MOST: usize> {
    values: Vec<T>,
    /// The next to be replaced.
    next: usize,
}

impl<T, const MOST: usize> Default for Recent<T, MOST> {
    fn default() -> Self {
        Recent { values: Vec::new(), next: 0 }
    }
}

impl<T, const MOST: usize> Recent<T, MOST> {
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.values.iter()
    }

    /// Adds a value, in the place of the oldest if there is no room.
    pub(super) fn push(&mut self, value: T) {
        match self.values.get_mut(self.next) {
            Some(oldest) => *oldest = value,
            None => self.values.push(value),
        }
        self.next = (self.next + 1) % MOST;
    }

    pub(super) fn clear(&mut self) {
        *self = Recent::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_pgwire::put_front;
    use weir_session::startup::{EncryptionRequests, FirstPacket, read};

    fn packet(user: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_front::startup(&mut bytes, &[("user", user), ("database", "db")], 0);
        bytes
    }

    #[test]
    fn a_packet_is_found_by_all_of_its_bytes_and_the_oldest_is_forgotten() {
        let mut packets = StartupPackets::default();
        for i in 0..=MAX_PACKETS {
            let bytes = packet(&format!("u{i}"));
            let FirstPacket::Startup { request, .. } = read(&bytes, EncryptionRequests::Allowed) else { panic!() };
            assert_eq!(*packets.remember(&bytes, &request), *request.user);
        }
        let found = |bytes: &[u8]| packets.find(bytes).map(|(request, user)| (request.user.clone(), user.to_string()));
        assert_eq!(found(&packet("u0")), None);
        assert_eq!(found(&packet("u8")), Some(("u8".to_owned(), "u8".to_owned())));
        let mut longer = packet("u8");
        longer.push(0);
        assert_eq!((found(&longer), found(&packet("u8")[1..])), (None, None));
        assert_eq!(packets.known.iter().count(), MAX_PACKETS);
    }
}
