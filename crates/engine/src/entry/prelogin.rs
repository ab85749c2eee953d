//! Unauthenticated clients: how much memory they may hold, and who of them makes room for others.
//!
//! Each may send a little ahead of its login; what goes beyond that they share, and whoever asks for more than is left is
//! refused. Where all connections are taken, those who have been about to log in for longest make room for new ones.
//!
//! Bounds: [`OWN_SHARE`] bytes for each client, [`MAX_OF_ONE`] for one, [`MAX_OF_ALL`] beyond the own shares for all of a
//! worker. Their number is bounded in `arrive`, their time by `client_login_timeout`.

use std::collections::VecDeque;

use weir_base::{ClientAddr, Peer, Span, Time};
use weir_session::Refusal;

use crate::peers::{ClientPhase, ClientSlot, Peers};

/// So many bytes a client may have sent whatever others have: startup packets and passwords are shorter.
const OWN_SHARE: usize = 2 << 10;
/// The most bytes that are held for one client: its password, and what it sends ahead of its login.
const MAX_OF_ONE: usize = 80 << 10;
/// The most bytes beyond the own shares.
const MAX_OF_ALL: usize = 16 << 20;
/// Who has been about to log in for so long makes room for others.
const EVICT_AFTER: Span = Span::from_secs(5);
/// How often other workers are asked to make room, at most.
const ASK_AGAIN: Span = Span::from_millis(10);

/// The unauthenticated clients of a worker.
#[derive(Default)]
pub(crate) struct PreLogin {
    /// In the order in which they came; some have logged in or left since.
    queue: VecDeque<Peer>,
    /// The queue's length at which it is cleared of those.
    sweep_at: usize,
    /// Bytes that they hold beyond their own shares.
    held: usize,
    asked_others: Time,
}

impl PreLogin {
    /// A client has come that has to log in yet.
    pub(crate) fn begin(&mut self, peer: Peer, peers: &Peers) {
        if self.queue.len() >= self.sweep_at {
            self.queue.retain(|peer| peers.get_client(*peer).is_some_and(|client| client.phase.is_unauthenticated()));
            self.sweep_at = 2 * self.queue.len() + 64;
        }
        self.queue.push_back(peer);
    }

    /// Takes in what a client sent that can't be handled yet: all of it, or nothing if that would be too much. Clients that
    /// have logged in are not bounded here.
    ///
    /// # Errors
    /// Why the client is refused.
    pub(crate) fn hold(&mut self, client: &mut ClientSlot, bytes: &[u8]) -> Result<(), Refusal> {
        if !client.phase.is_unauthenticated() {
            client.waiting.extend_from_slice(bytes);
            return Ok(());
        }
        let length = client.waiting.len() + bytes.len();
        if length > MAX_OF_ONE {
            return Err(Refusal::Protocol("too many bytes before the login is over".into()));
        }
        let beyond = length.saturating_sub(OWN_SHARE);
        if beyond > 0 && self.held - client.charged as usize + beyond > MAX_OF_ALL {
            return Err(Refusal::TooManyLogins);
        }
        client.waiting.reserve_exact(bytes.len());
        client.waiting.extend_from_slice(bytes);
        self.charge(client);
        Ok(())
    }

    /// A client's buffer or phase has changed: charges it for what it holds now.
    pub(crate) fn charge(&mut self, client: &mut ClientSlot) {
        let unauthenticated = client.phase.is_unauthenticated();
        if unauthenticated && client.waiting.is_empty() {
            client.waiting = Vec::new();
        }
        let now = if unauthenticated { client.waiting.capacity().saturating_sub(OWN_SHARE) } else { 0 };
        self.held = self.held + now - client.charged as usize;
        client.charged = now as u32;
    }

    /// A client is gone, or goes to another worker.
    pub(crate) fn discharge(&mut self, client: &mut ClientSlot) {
        self.held -= client.charged as usize;
        client.charged = 0;
    }

    /// Who makes room for a new connection: the oldest client, if it is old enough and not `spared`. Clients whose socket is
    /// on its way to another worker are passed over.
    pub(crate) fn evict(&mut self, now: Time, peers: &Peers, spared: impl Fn(&ClientAddr) -> bool) -> Option<Peer> {
        while let Some(peer) = self.queue.front().copied() {
            let client = peers.get_client(peer).filter(|client| client.phase.is_unauthenticated());
            if client.is_some_and(|client| now.since(client.connected_at) < EVICT_AFTER) {
                return None;
            }
            self.queue.pop_front();
            let evicted =
                |client: &ClientSlot| !spared(&client.addr) && !matches!(client.phase, ClientPhase::Moving(_));
            if client.is_some_and(evicted) {
                return Some(peer);
            }
        }
        None
    }

    /// Nobody here makes room: whether other workers are asked to, which is done so often and no more.
    pub(crate) fn asks_others(&mut self, now: Time) -> bool {
        let due = now.since(self.asked_others) >= ASK_AGAIN;
        if due {
            self.asked_others = now;
        }
        due
    }

    /// The bytes that are held beyond the own shares.
    pub(crate) fn held(&self) -> usize {
        self.held
    }
}
