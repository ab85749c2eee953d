//! Tickets, by which a client of TLS 1.3 continues a session: without our signature, and without its certificate.
//!
//! The process keeps nothing of such a session: the ticket has it, encrypted, with the client's certificate. Keys follow
//! from the process's key, which a process that takes over has as well, from the time, and from all that a session was
//! accepted by: our certificate, the authorities for clients' certificates, the mode, and the rules for logins. So a
//! ticket from before a reload that changes one of these opens nothing, and its client does a whole handshake.
//!
//! A session of TLS 1.2 gets no ticket: its traffic could be read by whoever finds the key later. That of TLS 1.3 agrees
//! on new secrets each time (RFC 8446, section 2.2).

use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::{hmac, rand};
use rustls::ProtocolVersion;
use rustls::server::ProducesTickets;

/// How long a key makes tickets, in seconds. It opens them for as long again.
const PERIOD: u32 = 6 * 60 * 60;
const EPOCH: usize = 8;

/// The key of the process; none before it is known, and no tickets then.
#[derive(Clone, Default)]
pub(crate) struct ProcessKey(Arc<OnceLock<[u8; 32]>>);

impl std::fmt::Debug for ProcessKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ProcessKey")
    }
}

impl ProcessKey {
    /// The key is known. The first one stays.
    pub(crate) fn set(&self, key: [u8; 32]) {
        let _ = self.0.set(key);
    }
}

/// Makes and opens tickets.
#[derive(Debug)]
pub(super) struct Tickets {
    process_key: ProcessKey,
    /// A hash of what sessions are accepted by.
    accepted_by: [u8; 32],
}

impl Tickets {
    pub(super) fn new(process_key: ProcessKey, accepted_by: [u8; 32]) -> Tickets {
        Tickets { process_key, accepted_by }
    }

    fn key(&self, epoch: u64) -> Option<LessSafeKey> {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.process_key.0.get()?);
        let parts = [b"weir session tickets".as_slice(), &self.accepted_by, &epoch.to_be_bytes()].concat();
        Some(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, hmac::sign(&key, &parts).as_ref()).ok()?))
    }

    fn encrypt_at(&self, plain: &[u8], epoch: u64) -> Option<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).ok()?;
        let (name, mut sealed) = (epoch.to_be_bytes(), plain.to_vec());
        self.key(epoch)?
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(name), &mut sealed)
            .ok()?;
        Some([name.as_slice(), &nonce, &sealed].concat())
    }

    fn decrypt_at(&self, ticket: &[u8], now: u64) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_first_chunk::<EPOCH>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let epoch = u64::from_be_bytes(*name);
        if epoch != now && epoch != now.checked_sub(1)? {
            return None;
        }
        let mut sealed = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let length = self.key(epoch)?.open_in_place(nonce, Aad::from(*name), &mut sealed).ok()?.len();
        sealed.truncate(length);
        Some(sealed)
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        PERIOD
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        if is_tls13(plain) { self.encrypt_at(plain, epoch()) } else { None }
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.decrypt_at(ticket, epoch()).filter(|plain| is_tls13(plain))
    }
}

/// The number of the present period.
fn epoch() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs() / u64::from(PERIOD)
}

/// Whether a session, as rustls writes it, is one of TLS 1.3: the name of the server, if there is one, then the version.
fn is_tls13(plain: &[u8]) -> bool {
    let version = match plain {
        [0, rest @ ..] => rest.first_chunk(),
        [1, length, rest @ ..] => rest.get(usize::from(*length)..).and_then(<[u8]>::first_chunk),
        _ => None,
    };
    version.is_some_and(|version| u16::from_be_bytes(*version) == u16::from(ProtocolVersion::TLSv1_3))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A session of TLS 1.3 without a name.
    const SESSION: &[u8] = &[0, 3, 4, 0x13, 2, 9, 9];

    fn tickets(process_key: u8, accepted_by: u8) -> Tickets {
        let key = ProcessKey::default();
        key.set([process_key; 32]);
        Tickets::new(key, [accepted_by; 32])
    }

    #[test]
    fn a_ticket_is_opened_by_who_accepts_the_same_and_has_the_process_key() {
        let ticket = tickets(1, 1).encrypt_at(SESSION, 100).unwrap();
        assert!(!ticket.windows(SESSION.len()).any(|part| part == SESSION));
        assert_eq!(tickets(1, 1).decrypt_at(&ticket, 100).as_deref(), Some(SESSION), "also another process");
        assert_eq!(tickets(1, 2).decrypt_at(&ticket, 100), None, "something has changed by which it was accepted");
        assert_eq!(tickets(2, 1).decrypt_at(&ticket, 100), None, "another process without the key");
        assert!(Tickets::new(ProcessKey::default(), [1; 32]).encrypt(SESSION).is_none(), "without any key");
    }

    #[test]
    fn a_ticket_lasts_to_the_end_of_the_next_period() {
        let ticket = tickets(1, 1).encrypt_at(SESSION, 100).unwrap();
        let opens = |now| tickets(1, 1).decrypt_at(&ticket, now).is_some();
        assert_eq!([99, 100, 101, 102].map(opens), [false, true, true, false]);
    }

    #[test]
    fn a_changed_or_cut_ticket_opens_nothing() {
        let (tickets, ticket) = (tickets(1, 1), tickets(1, 1).encrypt_at(SESSION, 100).unwrap());
        for at in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[at] ^= 1;
            assert_eq!(tickets.decrypt_at(&changed, 100), None, "byte {at}");
            assert_eq!(tickets.decrypt_at(&ticket[..at], 100), None, "{at} bytes");
        }
        assert_eq!(tickets.decrypt_at(&[ticket.as_slice(), b"x"].concat(), 100), None);
    }

    #[test]
    fn only_sessions_of_tls_1_3_get_tickets() {
        let named = [&[1, 2, b'd', b'b'], &SESSION[1..]].concat();
        assert!(is_tls13(SESSION) && is_tls13(&named));
        let older = [0, 3, 3, 0xc0, 0x2f];
        assert!(!is_tls13(&older) && tickets(1, 1).encrypt(&older).is_none());
        assert!([&[][..], &[0], &[1], &[1, 200, 3, 4], &[2, 3, 4]].iter().all(|plain| !is_tls13(plain)));
    }
}
