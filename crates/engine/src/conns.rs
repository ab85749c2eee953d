//! The table of connections: clients, servers and others, each by its handle.
//!
//! A connection is taken out of the table while it is changed, so that both ends of a link can be changed at once, and
//! put back after.

use weir_base::{ConnId, Target, Time, WorkerId};

use crate::cancel::peering::ForwardSlot;
use crate::cancel::pids::CancelPids;
use crate::cancel::state::CancelSlot;
use crate::client::slot::ClientSlot;
use crate::server::ending::EndingSlot;
use crate::server::slot::ServerSlot;

/// What is behind a handle.
#[derive(Default)]
pub(crate) enum Conn {
    /// Free, or taken out now.
    #[default]
    Free,
    Client(Box<ClientSlot>),
    Server(Box<ServerSlot>),
    /// A request to cancel, on its way to a server.
    Cancel(Box<CancelSlot>),
    /// A request to cancel, on its way to another process.
    Forward(Box<ForwardSlot>),
    /// A connection that is closed here, and that the server has not ended yet.
    Ending(Box<EndingSlot>),
    /// A probe of this host.
    Probe(Box<Target>),
}

/// A type that a [`Conn`] may hold.
pub(crate) trait Kind: Sized + 'static {
    fn of(conn: &Conn) -> Option<&Self>;
    fn of_mut(conn: &mut Conn) -> Option<&mut Self>;
    fn take(conn: &mut Conn) -> Option<Box<Self>>;
}

/// Makes a type the content of a variant of [`Conn`].
macro_rules! kind {
    ($variant:ident, $slot:ty) => {
        impl Kind for $slot {
            #[inline]
            fn of(conn: &Conn) -> Option<&Self> {
                if let Conn::$variant(slot) = conn { Some(slot) } else { None }
            }

            #[inline]
            fn of_mut(conn: &mut Conn) -> Option<&mut Self> {
                if let Conn::$variant(slot) = conn { Some(slot) } else { None }
            }

            #[inline]
            fn take(conn: &mut Conn) -> Option<Box<Self>> {
                if !matches!(conn, Conn::$variant(_)) {
                    return None;
                }
                if let Conn::$variant(slot) = std::mem::take(conn) { Some(slot) } else { None }
            }
        }

        impl From<Box<$slot>> for Conn {
            #[inline]
            fn from(slot: Box<$slot>) -> Conn {
                Conn::$variant(slot)
            }
        }
    };
}

kind!(Client, ClientSlot);
kind!(Server, ServerSlot);
kind!(Cancel, CancelSlot);
kind!(Forward, ForwardSlot);
kind!(Ending, EndingSlot);
kind!(Probe, Target);

/// The table.
#[derive(Default)]
pub(crate) struct ConnTable {
    slots: Vec<(u32, Conn)>,
    pids: CancelPids,
    /// The number of visited slots, for tests: work that grows with the number of clients shows here.
    #[cfg(test)]
    looks: std::cell::Cell<u64>,
}

impl ConnTable {
    /// Counts a visited slot, for tests.
    #[inline(always)]
    fn look(&self) {
        #[cfg(test)]
        self.looks.set(self.looks.get() + 1);
    }

    /// The number of visited slots so far.
    #[cfg(test)]
    pub(crate) fn looks(&self) -> u64 {
        self.looks.get()
    }

    /// Adds a connection, or puts it back. A handle whose slot is another's breaks the port's rules.
    pub(crate) fn put_at(&mut self, handle: ConnId, conn: impl Into<Conn>) {
        let slot = handle.slot as usize;
        if slot >= self.slots.len() {
            self.slots.resize_with(slot + 1, || (0, Conn::Free));
        }
        self.slots[slot] = (handle.generation, conn.into());
    }

    /// Puts a client back, or adds a new one.
    #[inline]
    pub(crate) fn put_client(&mut self, client: Box<ClientSlot>) {
        self.put_back(client.conn, Conn::Client(client));
    }

    /// Puts a server back, or adds a new one.
    #[inline]
    pub(crate) fn put_server(&mut self, server: Box<ServerSlot>) {
        self.put_back(server.conn, Conn::Server(server));
    }

    /// Inlined: each turn puts back what it has taken out, and a call would cost more than that.
    #[inline(always)]
    fn put_back(&mut self, handle: ConnId, conn: Conn) {
        match self.slots.get_mut(handle.slot as usize) {
            Some((generation, place @ Conn::Free)) if *generation == handle.generation => {
                // The slot holds nothing to drop; an assignment would check for that.
                std::mem::forget(std::mem::replace(place, conn));
            }
            _ => self.put_at(handle, conn),
        }
    }

    /// Takes a connection out, to change or to remove it.
    #[inline]
    pub(crate) fn take_any(&mut self, handle: ConnId) -> Conn {
        self.look();
        match self.slots.get_mut(handle.slot as usize) {
            Some((generation, conn)) if *generation == handle.generation => std::mem::take(conn),
            _ => Conn::Free,
        }
    }

    /// Takes a connection of this kind out, to change or to remove it.
    #[inline]
    pub(crate) fn take<K: Kind>(&mut self, handle: ConnId) -> Option<Box<K>> {
        self.look();
        match self.slots.get_mut(handle.slot as usize) {
            Some((generation, conn)) if *generation == handle.generation => K::take(conn),
            _ => None,
        }
    }

    /// A connection of this kind, for reading.
    #[inline]
    pub(crate) fn get<K: Kind>(&self, handle: ConnId) -> Option<&K> {
        self.look();
        match self.slots.get(handle.slot as usize) {
            Some((generation, conn)) if *generation == handle.generation => K::of(conn),
            _ => None,
        }
    }

    /// A connection of this kind.
    #[inline]
    pub(crate) fn get_mut<K: Kind>(&mut self, handle: ConnId) -> Option<&mut K> {
        self.look();
        match self.slots.get_mut(handle.slot as usize) {
            Some((generation, conn)) if *generation == handle.generation => K::of_mut(conn),
            _ => None,
        }
    }

    /// The number of slots; some are free.
    pub(crate) fn slots(&self) -> u32 {
        self.slots.len() as u32
    }

    /// The connection in a slot, if it is of this kind.
    pub(crate) fn at<K: Kind>(&self, slot: u32) -> Option<&K> {
        self.look();
        self.slots.get(slot as usize).and_then(|(_, conn)| K::of(conn))
    }

    /// All connections of this kind.
    pub(crate) fn all<K: Kind>(&self) -> impl Iterator<Item = &K> {
        self.slots.iter().inspect(|_| self.look()).filter_map(|(_, conn)| K::of(conn))
    }

    /// Whether a timer at `when` is the current one of a connection; true also for one that is taken out of the table.
    pub(crate) fn is_armed(&mut self, handle: ConnId, when: Time) -> bool {
        match self.slots.get(handle.slot as usize) {
            Some((generation, conn)) if *generation == handle.generation => match conn {
                Conn::Client(client) => client.armed == when,
                Conn::Server(server) => server.armed == when,
                Conn::Cancel(cancel) => cancel.armed == when,
                Conn::Forward(forward) => forward.armed == when,
                Conn::Ending(ending) => ending.armed == when,
                // A probe has no timer.
                Conn::Probe(_) => false,
                // Taken out to be worked on.
                Conn::Free => true,
            },
            _ => false,
        }
    }

    /// The process ids of this worker's cancel keys count on from this number.
    pub(crate) fn begin_pids_at(&mut self, count: u64) {
        self.pids.begin_at(count);
    }

    /// Issues the process id of a cancel key to the client of a slot, which is out of the table.
    pub(crate) fn issue_pid(&mut self, worker: (WorkerId, u16), slot: u32) -> u32 {
        let slots = &self.slots;
        let has = |slot: u32, low, mask| match slots.get(slot as usize) {
            Some((_, Conn::Client(client))) => client.cancel.pid & mask == low,
            _ => false,
        };
        self.pids.issue(worker, (slot, slots.len() as u32), has)
    }

    /// The highest and the lowest byte of the process id of a new cancel key, in a process with peers.
    pub(crate) fn issue_pid_bytes(&mut self, worker: (WorkerId, u16)) -> (u8, u8) {
        self.pids.issue_bytes(worker)
    }

    /// The client that may have this process id, which this worker issued.
    pub(crate) fn client_with_pid(&mut self, pid: u32) -> Option<&mut ClientSlot> {
        self.look();
        match self.slots.get_mut(self.pids.slot(pid)? as usize) {
            Some((_, Conn::Client(client))) => Some(client),
            _ => None,
        }
    }
}
