//! Clients that have not logged in: what they may make us hold, and who of them leaves when there is no more room.
//!
//! Anybody can be one, so nothing here is theirs for long. Each may send a little ahead of its login; what goes beyond that
//! they share, and whoever asks for more than is left is refused. Where all connections are taken, those who have been
//! about to log in for longest make room for those who come.
//!
//! Bounds: [`OWN_SHARE`] bytes for each stranger, [`MOST_OF_ONE`] for one, [`MOST_OF_ALL`] beyond the own shares for all of
//! a worker. Their number is bounded in `arrive`, their time by `client_login_timeout`.

use std::collections::VecDeque;

use weir_base::{ClientAddr, Peer, Span, Time};
use weir_session::Refusal;

use crate::Engine;
use crate::cluster::messages::Payload;
use crate::peers::{ClientPhase, ClientSlot};
use crate::port::Io;

/// So many bytes a stranger may have sent whatever others have: startup packets and passwords are shorter.
const OWN_SHARE: usize = 2 << 10;
/// The most bytes that are held for a stranger: its password, and what it says ahead of its login.
const MOST_OF_ONE: usize = 32 << 10;
/// The most bytes beyond the own shares.
const MOST_OF_ALL: usize = 16 << 20;
/// Who has been about to log in for so long makes room for others.
const PATIENCE: Span = Span::from_secs(5);
/// How often other workers are asked to make room, at most.
const ASK_AGAIN: Span = Span::from_millis(10);

/// The strangers of a worker.
#[derive(Default)]
pub(crate) struct PreLogin {
    /// In the order in which they came; some have logged in or left since.
    line: VecDeque<Peer>,
    /// When the line is this long it is tidied.
    tidied_at: usize,
    /// What they hold beyond their own shares.
    held: usize,
    asked_others: Time,
}

impl ClientSlot {
    /// Whether it has not proven who it is.
    pub(crate) fn is_prelogin(&self) -> bool {
        match self.phase {
            ClientPhase::Header
            | ClientPhase::Opening { .. }
            | ClientPhase::Handshake(_)
            | ClientPhase::Moving(_)
            | ClientPhase::Asking(_)
            | ClientPhase::Login(_)
            | ClientPhase::Held(_) => true,
            ClientPhase::Welcome(_)
            | ClientPhase::Ready(_)
            | ClientPhase::Console(_)
            | ClientPhase::Canceller
            | ClientPhase::Gone => false,
        }
    }
}

impl PreLogin {
    /// Charges a client for what it holds.
    fn charge(&mut self, client: &mut ClientSlot) {
        let stranger = client.is_prelogin();
        if stranger && client.waiting.is_empty() {
            client.waiting = Vec::new();
        }
        let now = if stranger { client.waiting.capacity().saturating_sub(OWN_SHARE) } else { 0 };
        self.held = self.held + now - client.charged as usize;
        client.charged = now as u32;
    }
}

impl Engine {
    /// A client has come that has to log in yet.
    pub(crate) fn prelogin_began(&mut self, peer: Peer) {
        if self.entry.prelogin.line.len() >= self.entry.prelogin.tidied_at {
            let peers = &self.peers;
            self.entry.prelogin.line.retain(|peer| peers.get_client(*peer).is_some_and(ClientSlot::is_prelogin));
            self.entry.prelogin.tidied_at = 2 * self.entry.prelogin.line.len() + 64;
        }
        self.entry.prelogin.line.push_back(peer);
    }

    /// Takes in what a client sent before it may ask: all of it, or nothing if that would be too much.
    ///
    /// # Errors
    /// Why the client has to go.
    pub(crate) fn hold_ahead(&mut self, client: &mut ClientSlot, bytes: &[u8]) -> Result<(), Refusal> {
        if !client.is_prelogin() {
            client.waiting.extend_from_slice(bytes);
            return Ok(());
        }
        let length = client.waiting.len() + bytes.len();
        if length > MOST_OF_ONE {
            return Err(Refusal::Protocol("too many bytes before the login is over".into()));
        }
        let beyond = length.saturating_sub(OWN_SHARE);
        if beyond > 0 && self.entry.prelogin.held - client.charged as usize + beyond > MOST_OF_ALL {
            return Err(Refusal::TooManyLogins);
        }
        client.waiting.reserve_exact(bytes.len());
        client.waiting.extend_from_slice(bytes);
        self.entry.prelogin.charge(client);
        Ok(())
    }

    /// A client's buffer or phase has changed.
    pub(crate) fn recharge(&mut self, client: &mut ClientSlot) {
        self.entry.prelogin.charge(client);
    }

    /// A client is gone, or goes to another worker.
    pub(crate) fn uncharge(&mut self, client: &mut ClientSlot) {
        self.entry.prelogin.held -= client.charged as usize;
        client.charged = 0;
    }

    /// All connections are taken: whoever has been about to log in for longest goes, here or elsewhere. Whether there is
    /// room at once.
    pub(crate) fn make_room<I: Io>(&mut self, now: Time, io: &mut I) -> bool {
        if self.evict_prelogin(now, io) {
            return true;
        }
        if now.since(self.entry.prelogin.asked_others) >= ASK_AGAIN {
            self.entry.prelogin.asked_others = now;
            self.tell_others(|| Payload::MakeRoom, io);
        }
        false
    }

    /// Sends the oldest stranger away, if it is old enough. Nobody who may administer the process without a password has to
    /// go.
    pub(crate) fn evict_prelogin<I: Io>(&mut self, now: Time, io: &mut I) -> bool {
        while let Some(peer) = self.entry.prelogin.line.front().copied() {
            let (addr, since) = match self.peers.get_client(peer) {
                Some(client) if client.is_prelogin() => (&client.addr, client.connected_at),
                _ => {
                    self.entry.prelogin.line.pop_front();
                    continue;
                }
            };
            if now.since(since) < PATIENCE {
                return false;
            }
            let spared = self.is_own(addr);
            self.entry.prelogin.line.pop_front();
            if spared {
                continue;
            }
            let Some(client) = self.peers.take_client(peer) else { continue };
            if matches!(client.phase, ClientPhase::Moving(_)) {
                // Its socket is on its way already.
                self.insert_client(client);
                continue;
            }
            self.refuse(now, client, Refusal::TooManyLogins, io);
            return true;
        }
        false
    }

    /// Whether a client is root, or the user of the operating system that this process runs as.
    pub(crate) fn is_own(&self, addr: &ClientAddr) -> bool {
        matches!(addr, ClientAddr::Unix { uid, .. } if *uid == self.admin.uid || *uid == 0)
    }

    /// The bytes that strangers of this worker hold beyond their own shares. For tests and the simulator.
    pub fn held_before_login(&self) -> usize {
        self.entry.prelogin.held
    }
}
