//! Reading encrypted connections: TLS records in, plain bytes to the engine.

use weir_base::ConnId;
use weir_engine::port::{Gone, Input, Level};

use super::Worker;
use crate::handler::Handler;
use crate::slots::Ready;
use crate::tls::{End, Tls, reason};

/// Bytes of a handshake that are read at once: a record.
const READ: usize = 17 * 1024;

impl<B: Handler> Worker<B> {
    /// Reads an encrypted connection once, and passes the bytes to the handler.
    pub(crate) fn read_sealed(&mut self, conn: ConnId) {
        let Worker { scratch, port, .. } = self;
        let Some(slot) = port.conns.get(conn) else { return };
        let held = slot.held;
        let (Some(socket), Some(tls)) = (slot.socket.as_mut(), port.tls.get_mut(slot.tls)) else { return };
        let mut most = scratch.len();
        let front = match tls {
            // The connection's bytes wait in the socket until the helper returns the step.
            Tls::Handshaking(None) => return,
            Tls::Handshaking(Some(_)) => {
                most = most.min(READ);
                Some(0)
            }
            Tls::Open(session) if session.has_early() || session.end() != End::Open => return self.read_early(conn),
            Tls::Open(session) => session.put_held(scratch),
        };
        let Some(front) = front else { return self.gone(conn, Gone::Error) };
        if held {
            return self.read_held_sealed(conn, front);
        }
        match socket.read(&mut scratch[front..most]) {
            Ok(0) => {
                // Without close_notify the end may have been forged.
                let cause = if matches!(tls, Tls::Handshaking(_)) { Gone::Eof } else { Gone::Error };
                self.gone(conn, cause);
            }
            Ok(length) => {
                let end = front + length;
                let again = end == most || slot.ready > Ready::Bytes;
                if !again {
                    slot.ready = Ready::Nothing;
                }
                self.sealed_came(conn, end, again);
                if !again {
                    self.port.emptied(conn, length);
                }
            }
            Err(error) => self.read_failed(conn, &error),
        }
    }

    /// Handles bytes of an encrypted connection that were received ahead.
    pub(crate) fn receive_sealed(&mut self, conn: ConnId, bytes: &[u8]) {
        let Worker { scratch, port, .. } = self;
        let Some(slot) = port.conns.get(conn) else { return };
        let Some(tls) = port.tls.get_mut(slot.tls) else { return };
        let front = match tls {
            // The bytes wait until the helper returns the step, or behind bytes that are delivered first.
            Tls::Handshaking(None) => return port.hold(conn, bytes),
            Tls::Open(session) if session.has_early() || session.end() != End::Open => {
                port.hold(conn, bytes);
                return port.enqueue(conn);
            }
            Tls::Handshaking(Some(_)) => Some(0),
            Tls::Open(session) => session.put_held(scratch),
        };
        let room = front.and_then(|front| scratch.get_mut(front..front + bytes.len()));
        let (Some(front), Some(room)) = (front, room) else { return self.gone(conn, Gone::Error) };
        room.copy_from_slice(bytes);
        let again = slot.ready > Ready::Bytes;
        self.sealed_came(conn, front + bytes.len(), again);
    }

    /// Processes a portion of stored bytes, after `front` bytes of an incomplete record.
    fn read_held_sealed(&mut self, conn: ConnId, front: usize) {
        let Worker { scratch, port, .. } = self;
        let Some(slot) = port.conns.get(conn) else { return };
        let length = port.ring_io.portion(conn, slot, &mut scratch[front..]);
        if !slot.has_more_than_held() {
            slot.ready = Ready::Nothing;
        }
        let again = slot.ready != Ready::Nothing;
        self.sealed_came(conn, front + length, again);
    }

    fn sealed_came(&mut self, conn: ConnId, end: usize, again: bool) {
        let Some(slot) = self.port.conns.get(conn) else { return };
        if matches!(self.port.tls.get(slot.tls), Some(Tls::Handshaking(_))) {
            self.shake(conn, end, again)
        } else {
            self.unseal(conn, end, again)
        }
    }

    /// Handles bytes of a handshake.
    fn shake(&mut self, conn: ConnId, end: usize, again: bool) {
        let Worker { scratch, port, .. } = self;
        let Some(slot) = port.conns.get(conn) else { return };
        let Some(Tls::Handshaking(Some(step))) = port.tls.get_mut(slot.tls) else { return };
        step.received.reserve_exact(end);
        step.received.extend_from_slice(&scratch[..end]);
        let (is_due, stored, from) = (step.is_due(), step.stored(), step.from());
        if !port.store(conn, from, stored) {
            return self.deliver_pending();
        }
        if is_due {
            port.ask_step(conn);
        }
        // Delivers the failures of other handshakes that made room, too.
        self.deliver_pending();
        if !is_due && again {
            self.port.enqueue(conn);
        }
    }

    /// Handles records in the scratch buffer, up to `end`.
    fn unseal(&mut self, conn: ConnId, end: usize, again: bool) {
        let Worker { handler, scratch, plain, port, .. } = self;
        let Some(slot) = port.conns.get(conn) else { return };
        let Some(Tls::Open(session)) = port.tls.get_mut(slot.tls) else { return };
        plain.clear();
        let mut reply = Vec::new();
        let (result, with) = (session.take_in(&mut scratch[..end], plain, &mut reply), session.with());
        let ended = session.end() != End::Open;
        if !reply.is_empty() {
            port.deliver(conn, &reply);
        }
        if !plain.is_empty() {
            handler.handle(port.now, Input::Bytes { conn, bytes: plain }, port);
            port.finish(plain);
        }
        if let Err(error) = result {
            port.shared.log.line(Level::Info, format_args!("{conn:?}: TLS: {}", reason(&error, with)));
            return self.gone(conn, Gone::Error);
        }
        if ended {
            // Only a connection that is not paused learns of the end.
            if let Some(slot) = port.conns.get(conn) {
                slot.ready = slot.ready.max(Ready::Bytes);
            }
        }
        if again || ended {
            port.enqueue(conn);
        }
        self.deliver_pending();
    }

    /// Delivers bytes that were decrypted with the end of the handshake, or the end of a connection that the other
    /// side has closed.
    fn read_early(&mut self, conn: ConnId) {
        let Worker { handler, port, .. } = self;
        let Some(slot) = port.conns.get(conn) else { return };
        let Some(Tls::Open(session)) = port.tls.get_mut(slot.tls) else { return };
        let early = session.take_early();
        if early.is_empty() {
            return if session.end() == End::Closed { self.ended(conn) } else { self.gone(conn, Gone::Error) };
        }
        handler.handle(port.now, Input::Bytes { conn, bytes: &early }, port);
        port.finish(&early);
        port.enqueue(conn);
        self.deliver_pending();
    }
}
