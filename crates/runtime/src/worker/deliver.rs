//! What a worker has, and how its handler gets inputs other than bytes: those that the port has pending, and ends of
//! connections.

use std::io::{Error, ErrorKind};

use weir_base::ConnId;
use weir_engine::port::{Gone, Input};

use crate::clock::WallWatch;
use crate::handler::Handler;
use crate::load::Load;
use crate::port::{MakeRing, PendingInput, Port};
use crate::slots::Ready;

/// One worker.
pub(crate) struct Worker<B> {
    pub(crate) handler: B,
    pub(crate) scratch: Box<[u8]>,
    /// Decrypted bytes of a turn; without memory until a connection is encrypted.
    pub(crate) plain: Vec<u8>,
    pub(crate) port: Port,
    pub(super) load: Load,
    pub(super) wall: WallWatch,
    /// Makes the io_uring, if one is used.
    pub(super) ring: Option<MakeRing>,
}

impl<B: Handler> Worker<B> {
    /// A read returned no bytes: there are none now, or the other end has closed.
    pub(crate) fn read_failed(&mut self, conn: ConnId, error: &Error) {
        let Some(slot) = self.port.conns.get(conn) else { return };
        match error.kind() {
            ErrorKind::WouldBlock if slot.ready == Ready::Broken => self.gone(conn, Gone::Error),
            ErrorKind::WouldBlock => {
                slot.ready = Ready::Nothing;
                if self.port.pace.is_on() {
                    self.port.leave_pace(conn);
                }
            }
            ErrorKind::Interrupted => self.port.enqueue(conn),
            _ => {
                slot.ready = Ready::Broken;
                self.gone(conn, Gone::Error);
            }
        }
    }

    pub(crate) fn gone(&mut self, conn: ConnId, cause: Gone) {
        let Some(slot) = self.port.conns.get(conn) else { return };
        let cause = if slot.ready == Ready::Broken { Gone::Error } else { cause };
        self.port.pending.push_back(PendingInput::Closed(conn, cause));
        self.deliver_pending();
    }

    /// The other end has closed its side, and all that it had sent was read: the connection is closed, unless the
    /// handler pauses it. Then this comes again when it is resumed.
    pub(crate) fn ended(&mut self, conn: ConnId) {
        let Some(slot) = self.port.conns.get(conn) else { return };
        slot.ready = slot.ready.max(Ready::Ending);
        if slot.ready == Ready::Broken {
            return self.gone(conn, Gone::Error);
        }
        self.turn(Input::Ending { conn });
        if self.port.conns.get(conn).is_some_and(|slot| slot.reads()) {
            self.gone(conn, Gone::Eof);
        }
    }

    /// One turn for an input other than bytes.
    pub(super) fn turn(&mut self, input: Input<'_>) {
        self.handler.handle(self.port.now, input, &mut self.port);
        self.port.finish(&[]);
        self.deliver_pending();
    }

    #[inline]
    pub(crate) fn deliver_pending(&mut self) {
        while let Some(notice) = self.port.pending.pop_front() {
            self.tell(notice);
        }
    }

    /// Passes a pending input to the handler, unless it has closed the connection meanwhile.
    pub(super) fn tell(&mut self, notice: PendingInput) {
        let port = &mut self.port;
        let input = match notice {
            PendingInput::Closed(conn, cause) if port.close_conn(conn, cause) => Input::Closed { conn, cause },
            PendingInput::ConnectFailed(conn, error) if port.close_conn(conn, Gone::Error) => {
                Input::ConnectFailed { conn, error }
            }
            PendingInput::Blocked(conn) if port.conns.live(conn).is_some() => Input::Blocked { conn },
            PendingInput::Drained(conn) if port.conns.live(conn).is_some() => Input::Drained { conn },
            PendingInput::Detached(conn) if port.conns.live(conn).is_some() => Input::Detached { conn },
            PendingInput::Connected(conn, local, remote) if port.conns.live(conn).is_some() => {
                Input::Connected { conn, local, remote }
            }
            PendingInput::Secured(conn, tls) if port.conns.live(conn).is_some() => Input::Secured { conn, tls },
            PendingInput::Resolved(name, addresses, ttl) => Input::Resolved { name, addresses, ttl },
            PendingInput::TlsFailed(conn, error) if port.close_conn(conn, Gone::Error) => {
                Input::TlsFailed { conn, error }
            }
            _ => return,
        };
        self.handler.handle(port.now, input, port);
        port.finish(&[]);
    }
}
