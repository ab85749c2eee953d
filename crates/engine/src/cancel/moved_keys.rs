//! The cancel keys of clients that came from another process: they name slots of that process.
//!
//! Two clients may have a key of the same process id, as they came from different processes; their secrets differ.

use std::collections::{BTreeSet, HashMap};

use weir_base::ConnId;

/// See the head of the file. Empty, and without cost, where no client came so.
#[derive(Default)]
pub(crate) struct MovedKeys {
    by_pid: BTreeSet<(u32, ConnId)>,
    by_conn: HashMap<ConnId, u32>,
}

impl MovedKeys {
    /// A client came with a key of this process id.
    pub(crate) fn add(&mut self, pid: u32, conn: ConnId) {
        self.by_pid.insert((pid, conn));
        self.by_conn.insert(conn, pid);
    }

    /// A client is gone, or has left.
    #[inline]
    pub(crate) fn remove(&mut self, conn: ConnId) {
        if !self.by_conn.is_empty()
            && let Some(pid) = self.by_conn.remove(&conn)
        {
            self.by_pid.remove(&(pid, conn));
        }
    }

    /// The clients that a process id may mean.
    pub(crate) fn named(&self, pid: u32) -> impl Iterator<Item = ConnId> {
        let (first, last) = (ConnId::new(0, 0), ConnId::new(u32::MAX, u32::MAX));
        self.by_pid.range((pid, first)..=(pid, last)).map(|(_, conn)| *conn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_all_that_came_with_it_until_they_leave() {
        let mut keys = MovedKeys::default();
        let (a, b, c) = (ConnId::new(1, 0), ConnId::new(2, 7), ConnId::new(3, 0));
        keys.add(6, a);
        keys.add(6, b);
        keys.add(7, c);
        assert_eq!(keys.named(6).collect::<Vec<_>>(), [a, b]);
        keys.remove(a);
        keys.remove(a);
        assert_eq!(keys.named(6).collect::<Vec<_>>(), [b]);
    }
}
