//! The records of a connection whose handshake another process has done: its keys, and nothing else of TLS.
//!
//! rustls gives out the keys of a connection (`dangerous_into_kernel_connection`, meant for the kernel's TLS), and has
//! no way to make a connection of them again. So the protection of records is done here, with the same library's
//! algorithms: TLS 1.3 by RFC 8446, section 5.2, TLS 1.2 by RFC 5288, section 3, and RFC 7905, section 2. What a
//! handshake could do later it can't: a connection ends when the other side asks for new keys (KeyUpdate), and before
//! its own are used up.

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use rustls::{ConnectionTrafficSecrets, Error, ExtractedSecrets, ProtocolVersion};
use serde::{Deserialize, Serialize};

use super::end::End;

const HEADER: usize = 5;
const TAG: usize = 16;
/// The most plain bytes of a record.
const MOST: usize = 16 << 10;
/// What TLS 1.2 and 1.3 allow on the wire.
const MOST_SEALED: usize = MOST + 2048;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const DATA: u8 = 23;
/// The alerts that we send: warning, or fatal.
const CLOSE_NOTIFY: [u8; 2] = [1, 0];
/// Of the messages after a handshake only this one needs no answer.
const NEW_SESSION_TICKET: u8 = 4;
/// Blocks of 16 bytes that AES-GCM may encrypt with one key: those of 2^24.5 full records (RFC 8446, section 5.5),
/// rounded down.
const MOST_BLOCKS: u64 = 1 << 34;

/// The keys of one direction.
#[derive(Clone, Serialize, Deserialize)]
struct Keys {
    sequence: u64,
    key: Vec<u8>,
    iv: [u8; 12],
}

/// A connection's protection as bytes, on its way to another process.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct SealedState {
    tls13: bool,
    algorithm: u8,
    out: Keys,
    incoming: Keys,
    blocks: u64,
    /// The beginning of a record, as it came.
    pub(super) held: Vec<u8>,
    /// What was decrypted, and has not been delivered.
    pub(super) early: Vec<u8>,
}

/// The protection of one direction.
struct Direction {
    cipher: LessSafeKey,
    keys: Keys,
}

/// The protection of a connection's records, see the head of the file.
pub(super) struct Records {
    tls13: bool,
    algorithm: u8,
    out: Direction,
    incoming: Direction,
    blocks: u64,
}

impl SealedState {
    /// The protection that rustls had.
    pub(super) fn extracted(version: Option<ProtocolVersion>, secrets: ExtractedSecrets) -> Option<SealedState> {
        let ((out_sequence, out), (in_sequence, incoming)) = (secrets.tx, secrets.rx);
        let (algorithm, out) = keys(out_sequence, &out)?;
        let (_, incoming) = keys(in_sequence, &incoming)?;
        let tls13 = version? == ProtocolVersion::TLSv1_3;
        // How much this key has encrypted is not known: as many full records as there were records.
        let blocks = out_sequence.saturating_mul((MOST / 16) as u64);
        Some(SealedState {
            tls13,
            algorithm,
            out,
            incoming,
            blocks: blocks.min(MOST_BLOCKS / 2),
            held: Vec::new(),
            early: Vec::new(),
        })
    }
}

fn keys(sequence: u64, secrets: &ConnectionTrafficSecrets) -> Option<(u8, Keys)> {
    let (algorithm, key, iv) = match secrets {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (0, key, iv),
        ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (1, key, iv),
        ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (2, key, iv),
        _ => return None,
    };
    Some((algorithm, Keys { sequence, key: key.as_ref().to_vec(), iv: iv.as_ref().try_into().ok()? }))
}

fn algorithm(number: u8) -> Option<&'static Algorithm> {
    [&AES_128_GCM, &AES_256_GCM, &CHACHA20_POLY1305].get(usize::from(number)).copied()
}

impl Direction {
    fn new(number: u8, keys: Keys) -> Option<Direction> {
        let cipher = LessSafeKey::new(UnboundKey::new(algorithm(number)?, &keys.key).ok()?);
        Some(Direction { cipher, keys })
    }

    /// The nonce of the next record: the IV, its end changed by the record's number.
    fn nonce(&self) -> [u8; 12] {
        let mut nonce = self.keys.iv;
        let number = self.keys.sequence.to_be_bytes();
        nonce[4..].iter_mut().zip(number).for_each(|(byte, number)| *byte ^= number);
        nonce
    }

    fn count(&mut self) -> Result<(), Error> {
        self.keys.sequence = self.keys.sequence.checked_add(1).ok_or_else(used_up)?;
        Ok(())
    }
}

fn used_up() -> Error {
    Error::General("the key has been used for as long as it may be".into())
}

fn header(kind: u8, length: usize) -> [u8; HEADER] {
    let [high, low] = (length as u16).to_be_bytes();
    [kind, 3, 3, high, low]
}

impl Records {
    /// `None` if it is not one that is supported here.
    pub(super) fn new(state: &SealedState) -> Option<Records> {
        let SealedState { tls13, algorithm, blocks, .. } = *state;
        let out = Direction::new(algorithm, state.out.clone())?;
        let incoming = Direction::new(algorithm, state.incoming.clone())?;
        Some(Records { tls13, algorithm, out, incoming, blocks })
    }

    /// The protection as it is now.
    pub(super) fn state(&self) -> SealedState {
        let (out, incoming) = (self.out.keys.clone(), self.incoming.keys.clone());
        let (tls13, algorithm, blocks) = (self.tls13, self.algorithm, self.blocks);
        SealedState { tls13, algorithm, out, incoming, blocks, held: Vec::new(), early: Vec::new() }
    }

    /// Whether each record of TLS 1.2 has a part of its nonce in front.
    fn has_explicit_nonce(&self) -> bool {
        !self.tls13 && self.algorithm != 2
    }

    /// Decrypts the whole records at the front of `incoming`, appends what they say to `plain`. Returns how much of it
    /// they were, and what became of the connection.
    pub(super) fn take_in(&mut self, incoming: &mut [u8], plain: &mut Vec<u8>) -> (usize, Result<Option<End>, Error>) {
        let (mut used, mut end) = (0, None);
        while let Some((head, rest)) = incoming[used..].split_first_chunk_mut::<HEADER>() {
            let length = usize::from(u16::from_be_bytes([head[3], head[4]]));
            if length > MOST_SEALED {
                return (used, Err(Error::PeerSentOversizedRecord));
            }
            let Some(body) = rest.get_mut(..length) else { break };
            let head = *head;
            used += HEADER + length;
            match self.open(head, body).and_then(|(kind, opened)| say(kind, opened, plain)) {
                Ok(None) => {}
                Ok(Some(closed)) => end = Some(closed),
                Err(error) => return (used, Err(error)),
            }
        }
        (used, Ok(end))
    }

    /// Decrypts one record; returns its true kind and its content.
    fn open<'a>(&mut self, head: [u8; HEADER], body: &'a mut [u8]) -> Result<(u8, &'a [u8]), Error> {
        let (mut nonce, mut kind) = (self.incoming.nonce(), head[0]);
        let mut body = body;
        if self.has_explicit_nonce() {
            let (explicit, rest) = body.split_at_mut_checked(8).ok_or(Error::DecryptError)?;
            nonce[4..].copy_from_slice(explicit);
            nonce[..4].copy_from_slice(&self.incoming.keys.iv[..4]);
            body = rest;
        }
        let length = body.len().checked_sub(TAG).ok_or(Error::DecryptError)?;
        let nonce = Nonce::assume_unique_for_key(nonce);
        let cipher = &self.incoming.cipher;
        let opened = if self.tls13 {
            cipher.open_in_place(nonce, Aad::from(head), body)
        } else {
            cipher.open_in_place(nonce, Aad::from(aad12(self.incoming.keys.sequence, kind, length)), body)
        };
        let mut opened: &[u8] = opened.map_err(|_| Error::DecryptError)?;
        self.incoming.count()?;
        if self.tls13 {
            // The kind stands behind the text, zeros behind that.
            let last = opened.iter().rposition(|byte| *byte != 0).ok_or(Error::DecryptError)?;
            (kind, opened) = (opened[last], &opened[..last]);
        }
        Ok((kind, opened))
    }

    /// Encrypts `plain` and appends the records to `sealed`.
    pub(super) fn seal(&mut self, plain: &[u8], sealed: &mut Vec<u8>) -> Result<(), Error> {
        plain.chunks(MOST).try_for_each(|piece| self.seal_one(DATA, piece, sealed))
    }

    /// Appends the record that says that nothing more will come.
    pub(super) fn close(&mut self, sealed: &mut Vec<u8>) -> Result<(), Error> {
        self.seal_one(ALERT, &CLOSE_NOTIFY, sealed)
    }

    fn seal_one(&mut self, kind: u8, plain: &[u8], sealed: &mut Vec<u8>) -> Result<(), Error> {
        self.blocks += (plain.len() / 16 + 2) as u64;
        if self.algorithm != 2 && self.blocks > MOST_BLOCKS {
            return Err(used_up());
        }
        let nonce = self.out.nonce();
        let (explicit, inner) = (if self.has_explicit_nonce() { 8 } else { 0 }, usize::from(self.tls13));
        let head = header(if self.tls13 { DATA } else { kind }, explicit + plain.len() + inner + TAG);
        sealed.extend_from_slice(&head);
        sealed.extend_from_slice(&nonce[12 - explicit..]);
        let start = sealed.len();
        sealed.extend_from_slice(plain);
        if self.tls13 {
            sealed.push(kind);
        }
        let (text, cipher) = (&mut sealed[start..], &self.out.cipher);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = if self.tls13 {
            cipher.seal_in_place_separate_tag(nonce, Aad::from(head), text)
        } else {
            let aad = aad12(self.out.keys.sequence, kind, plain.len());
            cipher.seal_in_place_separate_tag(nonce, Aad::from(aad), text)
        };
        let tag = tag.map_err(|_| Error::EncryptError)?;
        sealed.extend_from_slice(tag.as_ref());
        self.out.count()
    }
}

/// What TLS 1.2 authenticates with a record.
fn aad12(sequence: u64, kind: u8, length: usize) -> [u8; 13] {
    let mut aad = [0; 13];
    aad[..8].copy_from_slice(&sequence.to_be_bytes());
    aad[8..].copy_from_slice(&header(kind, length));
    aad
}

/// Handles the content of a record.
fn say(kind: u8, opened: &[u8], plain: &mut Vec<u8>) -> Result<Option<End>, Error> {
    match (kind, opened) {
        (DATA, text) => {
            plain.extend_from_slice(text);
            Ok(None)
        }
        (ALERT, [_, 0]) => Ok(Some(End::Closed)),
        (ALERT, [_, alert]) => Err(Error::AlertReceived((*alert).into())),
        (HANDSHAKE, [NEW_SESSION_TICKET, ..]) => Ok(None),
        _ => {
            Err(Error::General("the other side wants new keys, which a connection that was taken over has not".into()))
        }
    }
}
