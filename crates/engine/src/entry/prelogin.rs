//! Unauthenticated clients: how much memory they may hold, and which of them are closed to make room for others.
//!
//! Each may send a little ahead of its login; further bytes come from a shared budget, and a client that exceeds the
//! rest of it is refused. If all connections are in use, the oldest unauthenticated clients are closed for new ones.
//!
//! Bounds: [`OWN_SHARE`] bytes for each client, [`MAX_OF_ONE`] for one, [`MAX_OF_ALL`] beyond the own shares for all
//! of a worker. `arrive` bounds their number, `client_login_timeout` their time.

use std::collections::VecDeque;

use weir_base::{ClientAddr, Peer, Span, Time};
use weir_session::Refusal;

use crate::peers::{ClientPhase, ClientSlot, Peers};

/// Bytes that each client may send in any case: startup packets and passwords are shorter.
const OWN_SHARE: usize = 2 << 10;
/// The most bytes that are held for one client: its password, and what it sends ahead of its login.
const MAX_OF_ONE: usize = 80 << 10;
/// The most bytes beyond the own shares.
const MAX_OF_ALL: usize = 16 << 20;
/// After this time without a login a client may be closed to make room.
const EVICT_AFTER: Span = Span::from_secs(5);
/// The shortest interval between requests to other workers to make room.
const ASK_AGAIN: Span = Span::from_millis(10);

/// The unauthenticated clients of a worker.
#[derive(Default)]
pub(crate) struct PreLogin {
    /// In order of arrival; some have logged in or disconnected since.
    queue: VecDeque<Peer>,
    /// The queue's length at which those are removed.
    sweep_at: usize,
    /// Bytes that they hold beyond their own shares.
    held: usize,
    asked_others: Time,
}

impl PreLogin {
    /// A client has connected.
    pub(crate) fn begin(&mut self, peer: Peer, peers: &Peers) {
        if self.queue.len() >= self.sweep_at {
            self.queue.retain(|peer| peers.get_client(*peer).is_some_and(|client| client.phase.is_unauthenticated()));
            self.sweep_at = 2 * self.queue.len() + 64;
        }
        self.queue.push_back(peer);
    }

    /// Buffers input that can't be handled yet: all of it, or nothing if that exceeds a limit. Logged-in clients are
    /// not limited here.
    ///
    /// # Errors
    /// The refusal for the client.
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

    /// A client's buffer or phase has changed: updates its charge.
    pub(crate) fn charge(&mut self, client: &mut ClientSlot) {
        let unauthenticated = client.phase.is_unauthenticated();
        if unauthenticated && client.waiting.is_empty() {
            client.waiting = Vec::new();
        }
        let now = if unauthenticated { client.waiting.capacity().saturating_sub(OWN_SHARE) } else { 0 };
        self.held = self.held + now - client.charged as usize;
        client.charged = now as u32;
    }

    /// A client has disconnected, or moves to another worker.
    pub(crate) fn discharge(&mut self, client: &mut ClientSlot) {
        self.held -= client.charged as usize;
        client.charged = 0;
    }

    /// The client to close for a new connection: the oldest, if it is old enough and not `spared`. Clients whose
    /// socket is on its way to another worker are skipped.
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

    /// No client here can be closed: returns whether to send other workers a request, at a limited rate.
    pub(crate) fn asks_others(&mut self, now: Time) -> bool {
        let due = now.since(self.asked_others) >= ASK_AGAIN;
        if due {
            self.asked_others = now;
        }
        due
    }

    /// The bytes held beyond the own shares.
    pub(crate) fn held(&self) -> usize {
        self.held
    }
}
