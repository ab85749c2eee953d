//! Encrypted sockets: handshakes by the helpers, output as TLS records.
//!
//! Encrypted bytes are treated like plain ones: what a socket refuses becomes its backlog, encrypted already, so
//! `Blocked`, `Drained` and lingering need no knowledge of TLS. While a helper has a step of a handshake, its socket
//! is not read. Invariant: a connection has an entry in `Port::tls` from the end of the turn that began its handshake
//! until it is dropped or moves, and accepts plain bytes of the engine only outside of a handshake.

use std::mem;

use weir_base::{ConnId, Origin};
use weir_engine::port::{Handshake, Level};

use super::Port;
use super::pending::PendingInput;
use crate::output::Rest;
use crate::slots::{NONE, Ready, Stage};
use crate::tls::{End, HandshakeStep, Side, StepOutcome, Tls, reason};

/// Plain bytes that are encrypted in one call: four full records.
const PORTION: usize = 64 * 1024;
/// The limit of clients whose step waits for a helper: a second or two of work.
const MOST_DUE: usize = 1000;
/// The error of a handshake whose stored bytes exceed the limit.
const TOO_LONG: &str = "more bytes of the handshake came than are kept for it";
/// The error of a handshake that ends to make room for handshakes from another address.
const DISPLACED: &str = "its address has the most bytes of handshakes that are not done, and others need room";

impl Port {
    /// Begins the handshakes that were requested in the turn.
    pub(crate) fn finish_securing(&mut self) {
        for (conn, handshake) in mem::take(&mut self.tls_state.asked) {
            self.begin_handshake(conn, handshake);
        }
    }

    fn begin_handshake(&mut self, conn: ConnId, handshake: Handshake) {
        let contexts = self.shared.tls_contexts.now();
        let Some(slot) = self.conns.live(conn) else { return };
        let step = match handshake {
            Handshake::Accept { received, from } => {
                contexts.accept().map(|accept| HandshakeStep::accept(accept, received, from))
            }
            Handshake::Connect { host, mode, direct } => {
                contexts.connect(mode, direct).map(|config| HandshakeStep::connect(config, host, mode))
            }
        };
        let Some(step) = step.filter(|_| slot.tls == NONE && slot.stage == Stage::Open) else {
            let error = "the configuration in force has no TLS of this kind".to_owned();
            return self.pending.push_back(PendingInput::TlsFailed(conn, error));
        };
        let step = Box::new(step);
        let (is_due, stored, from) = (step.is_due(), step.stored(), step.from());
        slot.tls = self.tls.insert(Tls::Handshaking(Some(step)));
        if self.store(conn, from, stored) && is_due {
            self.ask_step(conn);
        }
    }

    /// Notes how many bytes a handshake stores. Where that exceeds a limit, the handshake fails, or others fail to make
    /// room; returns whether the handshake goes on.
    pub(crate) fn store(&mut self, conn: ConnId, from: Option<Origin>, bytes: usize) -> bool {
        let fits = self.tls_state.stored.set(conn, from, bytes);
        let goes_on = fits.is_some();
        let (failed, error) = fits.map_or((vec![conn], TOO_LONG), |displaced| (displaced, DISPLACED));
        failed.into_iter().for_each(|conn| self.fail_handshake(conn, error));
        goes_on
    }

    fn fail_handshake(&mut self, conn: ConnId, error: &str) {
        self.pending.push_back(PendingInput::TlsFailed(conn, error.to_owned()));
    }

    /// Queues a handshake's next step, now or when a helper has room.
    pub(crate) fn ask_step(&mut self, conn: ConnId) {
        let Some(slot) = self.conns.get(conn) else { return };
        let Some(Tls::Handshaking(Some(step))) = self.tls.get_mut(slot.tls) else { return };
        // More of it may have come since.
        if std::mem::replace(&mut step.waits, true) {
            return;
        }
        let side = step.side();
        match step.from() {
            None => self.tls_state.due_servers.push_back(conn),
            Some(from) => {
                let due = &mut self.tls_state.due_clients;
                let displaced = if due.len() >= MOST_DUE { due.displace(from, |()| true).or(Some(conn)) } else { None };
                if displaced != Some(conn) {
                    due.push(from, conn, ());
                }
                if let Some(displaced) = displaced {
                    self.fail_handshake(displaced, "too many handshakes wait for their turn");
                }
            }
        }
        self.ask_steps(side);
    }

    fn ask_steps(&mut self, side: Side) {
        while self.asking.may_step(side) {
            let due = match side {
                Side::Connect => self.tls_state.due_servers.pop_front(),
                Side::Accept => self.tls_state.due_clients.take(|()| true).map(|(conn, ())| conn),
            };
            let Some(conn) = due else { return };
            // A server may be closed meanwhile.
            let Some(slot) = self.conns.live(conn) else { continue };
            let Some(Tls::Handshaking(step)) = self.tls.get_mut(slot.tls) else { continue };
            if let Some(mut step) = step.take() {
                step.waits = false;
                self.asking.step(conn, step);
            }
        }
    }

    /// A helper has finished a step.
    pub(crate) fn stepped(&mut self, conn: ConnId, mut step: Box<HandshakeStep>, outcome: StepOutcome) {
        let side = step.side();
        self.asking.stepped(side);
        self.ask_steps(side);
        if self.conns.live(conn).is_none() {
            return self.tls_state.stored.release(conn);
        }
        let reply = mem::take(&mut step.reply);
        self.deliver(conn, &reply);
        let Some(slot) = self.conns.live(conn) else { return };
        let Some(tls) = self.tls.get_mut(slot.tls) else { return };
        match outcome {
            StepOutcome::More => {
                let (stored, from) = (step.stored(), step.from());
                *tls = Tls::Handshaking(Some(step));
                if !self.store(conn, from, stored) {
                    return;
                }
            }
            StepOutcome::Failed(error) => {
                self.tls_state.stored.release(conn);
                return self.pending.push_back(PendingInput::TlsFailed(conn, error));
            }
            StepOutcome::Done(secured) => {
                self.tls_state.stored.release(conn);
                let Some(session) = step.into_session() else { return };
                let ended = session.end() != End::Open;
                *tls = Tls::Open(session);
                if ended || tls.has_early() {
                    slot.ready = slot.ready.max(Ready::Bytes);
                }
                self.pending.push_back(PendingInput::Secured(conn, secured));
            }
        }
        if self.conns.get(conn).is_some_and(|slot| slot.ready != Ready::Nothing) {
            self.enqueue(conn);
        }
    }

    /// Encrypts a turn's output for a connection, and writes it.
    pub(crate) fn flush_sealed(&mut self, conn: ConnId, rest: Rest<'_>) {
        let mut buffers = (mem::take(&mut self.tls_state.gather), mem::take(&mut self.tls_state.sealed));
        let (gather, sealed) = &mut buffers;
        let mut pieces = rest.pieces();
        match (pieces.next(), pieces.next()) {
            // A single piece is encrypted without a copy.
            (Some(piece), None) => piece.chunks(PORTION).for_each(|portion| self.seal(conn, portion, sealed)),
            _ => {
                for piece in rest.pieces() {
                    self.gather(conn, piece, gather, sealed);
                }
                self.seal(conn, gather, sealed);
                gather.clear();
            }
        }
        (self.tls_state.gather, self.tls_state.sealed) = buffers;
    }

    /// Adds a piece to a portion; encrypts each full portion.
    fn gather(&mut self, conn: ConnId, mut piece: &[u8], gather: &mut Vec<u8>, sealed: &mut Vec<u8>) {
        while !piece.is_empty() {
            let (now, later) = piece.split_at(piece.len().min(PORTION - gather.len()));
            gather.extend_from_slice(now);
            piece = later;
            if gather.len() == PORTION {
                self.seal(conn, gather, sealed);
                gather.clear();
            }
        }
    }

    fn seal(&mut self, conn: ConnId, plain: &[u8], sealed: &mut Vec<u8>) {
        let Some(slot) = self.conns.get(conn) else { return };
        if plain.is_empty() || slot.ready == Ready::Broken {
            return;
        }
        let Some(Tls::Open(session)) = self.tls.get_mut(slot.tls) else {
            debug_assert!(false, "nothing is sent in a handshake");
            return;
        };
        sealed.clear();
        let (result, with) = (session.seal(plain, sealed), session.with());
        self.deliver(conn, sealed);
        if let Err(error) = result {
            self.shared.log.line(Level::Warning, format_args!("{conn:?}: TLS: {}", reason(&error, with)));
            self.fail_conn(conn);
        }
    }

    /// Sends close_notify to an encrypted connection that is being closed.
    pub(crate) fn say_closed(&mut self, conn: ConnId) {
        let Some(slot) = self.conns.get(conn) else { return };
        let Some(Tls::Open(session)) = self.tls.get_mut(slot.tls) else { return };
        let mut sealed = mem::take(&mut self.tls_state.sealed);
        sealed.clear();
        session.close(&mut sealed);
        self.deliver(conn, &sealed);
        self.tls_state.sealed = sealed;
    }
}
