//! A worker's encrypted sockets: handshakes through the helpers, records in and out.
//!
//! Encrypted bytes are handled as plain ones are: what a socket refuses is its backlog, sealed already, so `Blocked`,
//! `Drained` and lingering need to know nothing of encryption. While a step of a handshake is with a helper, its socket is
//! not read. Invariant: a peer has an entry in `Port::tls` from the end of the turn that began its handshake until it is
//! dropped or travels, and takes plain bytes of the engine only outside of a handshake.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use weir_base::Peer;
use weir_engine::port::{Gone, Handshake, Input, Level};

use super::session::{End, Session};
use super::step::{Outcome, Side, Step};
use crate::handler::Handler;
use crate::output::Rest;
use crate::port::{Notice, Port};
use crate::slots::{NONE, Ready, Stage};
use crate::worker::Worker;

/// Plain bytes that are encrypted at once: four full records.
const PORTION: usize = 64 * 1024;
/// The most bytes of a handshake that are kept, of what a server sent and of what a client sent, who is a stranger. A
/// message of a handshake may have 64 KiB; no client's has a quarter of that.
pub(super) const MOST_OF_SERVER: usize = 128 * 1024;
const MOST_OF_CLIENT: usize = 32 * 1024;
/// So many bytes of a client's handshake are kept whatever others have. Most are done with fewer.
const OWN_SHARE: usize = 2048;
/// What all handshakes of a worker's clients may keep beyond that.
const MOST_OF_ALL: usize = 16 << 20;
/// Bytes of a handshake that are read at once: a record.
const READ: usize = 17 * 1024;
/// The most clients whose step waits for a helper: a second or two of work.
const MOST_DUE: usize = 1000;

/// Why a handshake fails that keeps more than it may.
const TOO_LONG: &str = "more bytes of the handshake came than are kept for it";

/// The encryption of one socket.
#[derive(Debug)]
pub(crate) enum Tls {
    /// In its handshake; without a step while that is with a helper.
    Shaking(Option<Box<Step>>),
    /// Done.
    Open(Box<Session>),
}

impl Tls {
    /// Whether decrypted bytes wait to be delivered, although the socket has none.
    pub(crate) fn has_early(&self) -> bool {
        matches!(self, Tls::Open(session) if session.has_early())
    }
}

/// What a worker keeps for encryption: buffers, and who waits for a helper.
#[derive(Debug, Default)]
pub(crate) struct Sealing {
    /// Handshakes that the turn asked for.
    pub(crate) asked: Vec<(Peer, Handshake)>,
    /// Peers whose step waits until a helper has room: servers, and clients.
    due_servers: VecDeque<Peer>,
    due_clients: VecDeque<Peer>,
    /// What handshakes of clients keep beyond [`OWN_SHARE`].
    kept: Arc<AtomicUsize>,
    gather: Vec<u8>,
    sealed: Vec<u8>,
}

/// What a client's handshake is charged for, until it is over.
#[derive(Debug)]
pub(super) struct Charge {
    all: Arc<AtomicUsize>,
    own: usize,
}

impl Charge {
    fn new(all: &Arc<AtomicUsize>) -> Charge {
        Charge { all: Arc::clone(all), own: 0 }
    }

    /// The handshake keeps so many bytes now; whether it may.
    pub(super) fn set(&mut self, bytes: usize) -> bool {
        let beyond = bytes.saturating_sub(OWN_SHARE);
        let before = std::mem::replace(&mut self.own, beyond);
        // One thread adds, others only take away.
        let all = self.all.fetch_add(beyond, Relaxed) + beyond - before;
        self.all.fetch_sub(before, Relaxed);
        bytes <= MOST_OF_CLIENT && (beyond == 0 || all <= MOST_OF_ALL)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.all.fetch_sub(self.own, Relaxed);
    }
}

impl Port {
    /// Begins the handshakes that the turn asked for.
    pub(crate) fn finish_securing(&mut self) {
        for (peer, handshake) in mem::take(&mut self.sealing.asked) {
            self.begin_handshake(peer, handshake);
        }
    }

    fn begin_handshake(&mut self, peer: Peer, handshake: Handshake) {
        let contexts = self.shared.vault.now();
        let Some(slot) = self.peers.live(peer) else { return };
        let step = match handshake {
            Handshake::Accept { received } => {
                let charge = Charge::new(&self.sealing.kept);
                contexts.accept().map(|accept| Step::accept(accept, received, charge))
            }
            Handshake::Connect { host, mode, direct } => {
                contexts.connect(mode, direct).map(|config| Step::connect(config, host, mode))
            }
        };
        let Some(step) = step.filter(|_| slot.tls == NONE && slot.stage == Stage::Open) else {
            let error = "the configuration in force has no TLS of this kind".to_owned();
            return self.notices.push_back(Notice::TlsFailed(peer, error));
        };
        let mut step = Box::new(step);
        let is_due = step.is_due();
        let fits = step.is_kept_within_bounds();
        slot.tls = self.tls.insert(Tls::Shaking(Some(step)));
        if !fits {
            return self.fail_handshake(peer, TOO_LONG);
        }
        if is_due {
            self.ask_step(peer);
        }
    }

    fn fail_handshake(&mut self, peer: Peer, error: &str) {
        self.notices.push_back(Notice::TlsFailed(peer, error.to_owned()));
    }

    /// Has a helper take a handshake's next step, now or when one has room.
    fn ask_step(&mut self, peer: Peer) {
        let Some(slot) = self.peers.get(peer) else { return };
        let Some(Tls::Shaking(Some(step))) = self.tls.get(slot.tls) else { return };
        let side = step.side();
        let due = match side {
            Side::Connect => &mut self.sealing.due_servers,
            Side::Accept => &mut self.sealing.due_clients,
        };
        if due.len() >= MOST_DUE {
            due.retain(|peer| self.peers.live(*peer).is_some());
        }
        if side == Side::Accept && due.len() >= MOST_DUE {
            return self.fail_handshake(peer, "too many handshakes wait for their turn");
        }
        due.push_back(peer);
        self.ask_steps(side);
    }

    fn ask_steps(&mut self, side: Side) {
        while self.asking.may_step(side) {
            let due = match side {
                Side::Connect => &mut self.sealing.due_servers,
                Side::Accept => &mut self.sealing.due_clients,
            };
            let Some(peer) = due.pop_front() else { return };
            // Some may be gone meanwhile.
            let Some(slot) = self.peers.live(peer) else { continue };
            let Some(Tls::Shaking(step)) = self.tls.get_mut(slot.tls) else { continue };
            if let Some(step) = step.take() {
                self.asking.step(peer, step);
            }
        }
    }

    /// A helper has taken a step.
    pub(crate) fn stepped(&mut self, peer: Peer, mut step: Box<Step>, outcome: Outcome) {
        let side = step.side();
        self.asking.stepped(side);
        self.ask_steps(side);
        if self.peers.live(peer).is_none() {
            return;
        }
        let reply = mem::take(&mut step.reply);
        self.deliver(peer, &reply);
        let Some(slot) = self.peers.live(peer) else { return };
        let Some(tls) = self.tls.get_mut(slot.tls) else { return };
        match outcome {
            Outcome::More => {
                let fits = step.is_kept_within_bounds();
                *tls = Tls::Shaking(Some(step));
                if !fits {
                    return self.fail_handshake(peer, TOO_LONG);
                }
            }
            Outcome::Failed(error) => return self.notices.push_back(Notice::TlsFailed(peer, error)),
            Outcome::Done(secured) => {
                let Some(session) = step.into_session() else { return };
                let ended = session.end() != End::Open;
                *tls = Tls::Open(session);
                if ended || tls.has_early() {
                    slot.ready = slot.ready.max(Ready::Bytes);
                }
                self.notices.push_back(Notice::Secured(peer, secured));
            }
        }
        if slot.ready != Ready::Nothing {
            self.enqueue(peer);
        }
    }

    /// Encrypts what a turn queued for a peer, and writes it.
    pub(crate) fn flush_sealed(&mut self, peer: Peer, rest: Rest<'_>) {
        let mut buffers = (mem::take(&mut self.sealing.gather), mem::take(&mut self.sealing.sealed));
        let (gather, sealed) = &mut buffers;
        let mut pieces = rest.pieces();
        match (pieces.next(), pieces.next()) {
            // One piece is encrypted from where it is.
            (Some(piece), None) => piece.chunks(PORTION).for_each(|portion| self.seal(peer, portion, sealed)),
            _ => {
                for piece in rest.pieces() {
                    self.gather(peer, piece, gather, sealed);
                }
                self.seal(peer, gather, sealed);
                gather.clear();
            }
        }
        (self.sealing.gather, self.sealing.sealed) = buffers;
    }

    /// Adds a piece to a portion, and encrypts the portion each time that it is full.
    fn gather(&mut self, peer: Peer, mut piece: &[u8], gather: &mut Vec<u8>, sealed: &mut Vec<u8>) {
        while !piece.is_empty() {
            let (now, later) = piece.split_at(piece.len().min(PORTION - gather.len()));
            gather.extend_from_slice(now);
            piece = later;
            if gather.len() == PORTION {
                self.seal(peer, gather, sealed);
                gather.clear();
            }
        }
    }

    fn seal(&mut self, peer: Peer, plain: &[u8], sealed: &mut Vec<u8>) {
        let Some(slot) = self.peers.get(peer) else { return };
        if plain.is_empty() || slot.ready == Ready::Broken {
            return;
        }
        let Some(Tls::Open(session)) = self.tls.get_mut(slot.tls) else {
            debug_assert!(false, "nothing is sent in a handshake");
            return;
        };
        sealed.clear();
        let result = session.seal(plain, sealed);
        self.deliver(peer, sealed);
        if let Err(error) = result {
            self.shared.log.line(Level::Warning, format_args!("{peer:?}: TLS: {error}"));
            self.break_off(peer);
        }
    }

    /// Says to an encrypted peer that is being closed that nothing more will come.
    pub(crate) fn say_closed(&mut self, peer: Peer) {
        let Some(slot) = self.peers.get(peer) else { return };
        let Some(Tls::Open(session)) = self.tls.get_mut(slot.tls) else { return };
        let mut sealed = mem::take(&mut self.sealing.sealed);
        sealed.clear();
        session.close(&mut sealed);
        self.deliver(peer, &sealed);
        self.sealing.sealed = sealed;
    }
}

impl<B: Handler> Worker<B> {
    /// Reads an encrypted peer once, and has the brain handle what came.
    pub(crate) fn read_sealed(&mut self, peer: Peer) {
        let Worker { scratch, port, .. } = self;
        let Some(slot) = port.peers.get(peer) else { return };
        let held = slot.held;
        let (Some(socket), Some(tls)) = (slot.socket.as_mut(), port.tls.get_mut(slot.tls)) else { return };
        let mut most = scratch.len();
        let front = match tls {
            // Its bytes wait in the socket until the step is taken.
            Tls::Shaking(None) => return,
            Tls::Shaking(Some(_)) => {
                most = most.min(READ);
                Some(0)
            }
            Tls::Open(session) if session.has_early() || session.end() != End::Open => return self.read_early(peer),
            Tls::Open(session) => session.put_held(scratch),
        };
        let Some(front) = front else { return self.gone(peer, Gone::Error) };
        if held {
            return self.read_held_sealed(peer, front);
        }
        match socket.read(&mut scratch[front..most]) {
            Ok(0) => {
                // Without its close_notify the end may be anybody's doing.
                let cause = if matches!(tls, Tls::Shaking(_)) { Gone::Eof } else { Gone::Error };
                self.gone(peer, cause);
            }
            Ok(length) => {
                let end = front + length;
                let again = end == most || slot.ready > Ready::Bytes;
                if !again {
                    slot.ready = Ready::Nothing;
                }
                self.sealed_came(peer, end, again);
                if !again {
                    self.port.emptied(peer, length);
                }
            }
            Err(error) => self.read_failed(peer, &error),
        }
    }

    /// Bytes of an encrypted peer came ahead.
    pub(crate) fn receive_sealed(&mut self, peer: Peer, bytes: &[u8]) {
        let Worker { scratch, port, .. } = self;
        let Some(slot) = port.peers.get(peer) else { return };
        let Some(tls) = port.tls.get_mut(slot.tls) else { return };
        let front = match tls {
            // They wait until the step is taken, or behind what is to be delivered first.
            Tls::Shaking(None) => return port.hold(peer, bytes),
            Tls::Open(session) if session.has_early() || session.end() != End::Open => {
                port.hold(peer, bytes);
                return port.enqueue(peer);
            }
            Tls::Shaking(Some(_)) => Some(0),
            Tls::Open(session) => session.put_held(scratch),
        };
        let room = front.and_then(|front| scratch.get_mut(front..front + bytes.len()));
        let (Some(front), Some(room)) = (front, room) else { return self.gone(peer, Gone::Error) };
        room.copy_from_slice(bytes);
        let again = slot.ready > Ready::Bytes;
        self.sealed_came(peer, front + bytes.len(), again);
    }

    /// Takes a portion of what came ahead of the wish to read it; `front` bytes of a record stand before it.
    fn read_held_sealed(&mut self, peer: Peer, front: usize) {
        let Worker { scratch, port, .. } = self;
        let Some(slot) = port.peers.get(peer) else { return };
        let length = port.ahead.portion(peer, slot, &mut scratch[front..]);
        if !slot.has_more_than_held() {
            slot.ready = Ready::Nothing;
        }
        let again = slot.ready != Ready::Nothing;
        self.sealed_came(peer, front + length, again);
    }

    fn sealed_came(&mut self, peer: Peer, end: usize, again: bool) {
        let Some(slot) = self.port.peers.get(peer) else { return };
        if matches!(self.port.tls.get(slot.tls), Some(Tls::Shaking(_))) {
            self.shake(peer, end, again)
        } else {
            self.unseal(peer, end, again)
        }
    }

    /// Bytes of a handshake came.
    fn shake(&mut self, peer: Peer, end: usize, again: bool) {
        let Worker { scratch, port, .. } = self;
        let Some(slot) = port.peers.get(peer) else { return };
        let Some(Tls::Shaking(Some(step))) = port.tls.get_mut(slot.tls) else { return };
        step.received.reserve_exact(end);
        step.received.extend_from_slice(&scratch[..end]);
        if !step.is_kept_within_bounds() {
            port.fail_handshake(peer, TOO_LONG);
            return self.tell_notices();
        }
        if step.is_due() {
            port.ask_step(peer);
            self.tell_notices();
        } else if again {
            port.enqueue(peer);
        }
    }

    /// Records came: the scratch buffer holds them, up to `end`.
    fn unseal(&mut self, peer: Peer, end: usize, again: bool) {
        let Worker { brain, scratch, plain, port, .. } = self;
        let Some(slot) = port.peers.get(peer) else { return };
        let Some(Tls::Open(session)) = port.tls.get_mut(slot.tls) else { return };
        plain.clear();
        let mut reply = Vec::new();
        let result = session.take_in(&mut scratch[..end], plain, &mut reply);
        let ended = session.end() != End::Open;
        if !reply.is_empty() {
            port.deliver(peer, &reply);
        }
        if !plain.is_empty() {
            brain.handle(port.now, Input::Bytes { peer, bytes: plain }, port);
            port.finish(plain);
        }
        if let Err(error) = result {
            port.shared.log.line(Level::Info, format_args!("{peer:?}: TLS: {error}"));
            return self.gone(peer, Gone::Error);
        }
        if ended {
            // Only a peer that is still read may hear of the end.
            if let Some(slot) = port.peers.get(peer) {
                slot.ready = slot.ready.max(Ready::Bytes);
            }
        }
        if again || ended {
            port.enqueue(peer);
        }
        self.tell_notices();
    }

    /// Delivers what was decrypted with the end of the handshake, or the end of a connection that its other side has closed.
    fn read_early(&mut self, peer: Peer) {
        let Worker { brain, port, .. } = self;
        let Some(slot) = port.peers.get(peer) else { return };
        let Some(Tls::Open(session)) = port.tls.get_mut(slot.tls) else { return };
        let early = session.take_early();
        if early.is_empty() {
            let cause = if session.end() == End::Closed { Gone::Eof } else { Gone::Error };
            return self.gone(peer, cause);
        }
        brain.handle(port.now, Input::Bytes { peer, bytes: &early }, port);
        port.finish(&early);
        port.enqueue(peer);
        self.tell_notices();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_have_a_share_each_and_share_the_rest() {
        let all = Arc::new(AtomicUsize::new(0));
        let mut small: Vec<Charge> = (0..10_000).map(|_| Charge::new(&all)).collect();
        assert!(small.iter_mut().all(|charge| charge.set(OWN_SHARE)) && all.load(Relaxed) == 0);
        let mut large: Vec<Charge> = (0..600).map(|_| Charge::new(&all)).collect();
        let taken = large.iter_mut().map(|charge| charge.set(MOST_OF_CLIENT)).take_while(|fits| *fits).count();
        assert_eq!(taken, MOST_OF_ALL / (MOST_OF_CLIENT - OWN_SHARE));
        assert!(small[0].set(OWN_SHARE) && !small[0].set(OWN_SHARE + 1000), "only the own share is left");
        assert!(
            large[0].set(0) && large[1].set(0) && small[0].set(OWN_SHARE + 1000),
            "what one gives back another may have"
        );
        drop((small, large));
        assert_eq!(all.load(Relaxed), 0);
        assert!(!Charge::new(&all).set(MOST_OF_CLIENT + 1));
    }
}
