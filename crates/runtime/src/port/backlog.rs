//! What a connection's socket does not accept: it is kept, and written once the socket has room.

use weir_base::ConnId;
use weir_engine::port::Level;

use super::Port;
use super::pending::PendingInput;
use crate::output::{Offer, take};
use crate::slots::{NONE, Outgoing, Ready, Slot, Stage, Watch};

impl Port {
    /// Writes bytes to a connection's socket, unencrypted, behind its backlog.
    pub(crate) fn deliver(&mut self, conn: ConnId, mut bytes: &[u8]) {
        let Some(slot) = self.conns.get(conn) else { return };
        let first = slot.backlog == NONE;
        let open = first && writes(slot);
        if open && self.ring_io.on && self.ring_io.stage(conn, slot, std::iter::once(bytes)) {
            return;
        }
        if let (true, Outgoing::Nothing, Some(socket)) = (open, slot.outgoing, slot.socket.as_mut()) {
            match take(|| socket.write(bytes)) {
                Ok(taken) => bytes = &bytes[taken..],
                Err(_) => return self.fail_conn(conn),
            }
        }
        if bytes.is_empty() || slot.ready == Ready::Broken || slot.stage == Stage::Detached {
            return;
        }
        let kept = self.backlogs.keep(slot, std::iter::once(bytes));
        self.kept(conn, first, kept);
    }

    /// A connection has a backlog: `first`: a new one; `kept`: it is within the limit.
    pub(crate) fn kept(&mut self, conn: ConnId, first: bool, kept: bool) {
        if !kept {
            self.shared.log.line(Level::Error, format_args!("{conn:?}: too many bytes wait for one connection"));
            self.fail_conn(conn);
        } else if first {
            self.pending.push_back(PendingInput::Blocked(conn));
            self.watch(conn, Watch::Both);
        }
    }

    /// Writes a connection's backlog to its socket, which has room again.
    pub(crate) fn drain(&mut self, conn: ConnId) {
        let Some(slot) = self.conns.get(conn) else { return };
        if slot.backlog == NONE || slot.outgoing != Outgoing::Nothing || !writes(slot) {
            return;
        }
        let stage = slot.stage;
        match self.backlogs.offer(slot) {
            Ok(Offer::Waits) => {
                self.watch(conn, Watch::Both);
                if stage == Stage::Lingering {
                    self.closing.note_taken(conn.slot);
                }
            }
            Ok(Offer::Drained) if stage == Stage::Lingering => self.note_progress(conn),
            Ok(Offer::Drained) => {
                self.watch(conn, Watch::Reads);
                self.pending.push_back(PendingInput::Drained(conn));
                self.take_out(conn);
            }
            Err(_) => self.fail_conn(conn),
        }
    }
}

/// Whether a connection's socket accepts bytes now.
#[inline]
pub(super) fn writes(slot: &Slot) -> bool {
    matches!(slot.stage, Stage::Open | Stage::Detaching | Stage::Lingering) && slot.ready != Ready::Broken
}
