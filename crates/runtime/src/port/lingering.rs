//! A closed connection proceeds: its output is sent, or its input has come. The rules are at the top of `closing`.

use weir_base::ConnId;

use super::Port;

impl Port {
    /// A closed connection's output may all be sent: its stream ends.
    pub(super) fn note_progress(&mut self, conn: ConnId) {
        let Some(slot) = self.conns.get(conn).filter(|slot| !slot.owes()) else { return };
        match self.closing.note_sent(conn.slot) {
            Some(false) => {
                let ends = slot.socket.as_ref().is_some_and(|socket| socket.end_stream().is_ok());
                if !ends || self.shared.is_starved() {
                    self.drop_conn(conn);
                }
            }
            Some(true) => self.drop_conn(conn),
            None => {}
        }
    }

    /// The other end of a closed connection has sent everything.
    pub(super) fn closed_ended(&mut self, conn: ConnId) {
        if self.closing.note_end(conn.slot) {
            self.drop_conn(conn);
        }
    }

    /// Bytes of a closed connection have come, and are dropped.
    pub(super) fn dropped(&mut self, conn: ConnId, length: usize) {
        if !self.closing.note_dropped(conn.slot, length) {
            self.drop_conn(conn);
        }
    }
}
