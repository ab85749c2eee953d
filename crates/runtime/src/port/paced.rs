//! Sockets that are read at intervals: when that begins, each read, when it ends. Its rules are at the top of `pace`.

use weir_base::{ConnId, Time};

use super::Port;
use super::pace::{INTERVAL, WORTH};
use crate::slots::{Reader, Ready, Stage};

impl Port {
    /// A large read has emptied a socket.
    #[cold]
    pub(super) fn large_read(&mut self, conn: ConnId, length: usize) {
        let begins = self.pace.note(conn, length, self.now);
        let Some(slot) = self.conns.get(conn) else { return };
        match slot.reader {
            Reader::Paced if length < WORTH => drop(self.leave_pace(conn)),
            Reader::Epoll if begins && slot.reads() && slot.ready == Ready::Nothing => {
                slot.reader = Reader::Paced;
                self.watch_by_epoll(conn);
                self.pace.paced.push(conn);
                if !self.pace.is_on() {
                    self.pace.due = self.now + INTERVAL;
                }
            }
            _ => {}
        }
    }

    /// Ends the reads at intervals of a connection; the ring or epoll continues. `false` if it has none.
    pub(crate) fn leave_pace(&mut self, conn: ConnId) -> bool {
        let Some(slot) = self.conns.get(conn).filter(|slot| slot.reader == Reader::Paced) else { return false };
        slot.reader = Reader::Epoll;
        self.pace.begins(conn, self.now);
        let Some(slot) = self.conns.get(conn) else { return true };
        match slot.stage {
            // Bytes received since the last read cause no event by the ring.
            Stage::Open if !slot.paused => self.begin_reading(conn),
            _ => {
                slot.ready = slot.ready.max(Ready::Bytes);
                self.watch_by_epoll(conn);
            }
        }
        true
    }

    /// Has the connections read that are read at intervals, if that is due.
    #[cold]
    pub(crate) fn read_paced(&mut self) {
        if self.now < self.pace.due {
            return;
        }
        let mut paced = std::mem::take(&mut self.pace.paced);
        paced.retain(|conn| {
            let Some(slot) = self.conns.get(*conn).filter(|slot| slot.reader == Reader::Paced) else { return false };
            if !slot.reads() {
                return !self.leave_pace(*conn);
            }
            slot.ready = slot.ready.max(Ready::Bytes);
            self.enqueue(*conn);
            true
        });
        self.pace.due = if paced.is_empty() { Time::NEVER } else { self.now + INTERVAL };
        self.pace.paced = paced;
    }
}
