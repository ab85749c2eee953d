//! Which clients of a pool listen on which channels, and which of its servers listens for them.
//!
//! Owns both tables of a pool. Must not know connections' contents, or when something is sent.
//!
//! Invariant: a channel has clients, and is heard only while a server listens.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_base::{ConnId, Target, Time};
use weir_config::PoolConfig;
use weir_session::channels::Hearing;
use weir_session::listener::Listener;
use weir_session::{Client, Left};

/// The listening of a pool's clients.
#[derive(Default)]
pub(crate) struct Listening {
    table: Option<Box<Table>>,
}

/// Whether a pool with this configuration has a server that clients may share for their channels. Each worker's clients
/// share one server, and one more must be there for queries: so there is none to share in a pool that is too small, or
/// whose servers are limited together with others'.
pub(crate) fn has_room(config: &PoolConfig, workers: u16, is_limited: bool) -> bool {
    let limits = &config.limits;
    !is_limited && (limits.size == 0 || limits.size > u32::from(workers))
}

/// See [`Listening`]; present while somebody listens.
#[derive(Default)]
pub(crate) struct Table {
    pub(crate) by: By,
    /// Where the server is that listens.
    pub(crate) at: Option<Target>,
    channels: BTreeMap<Arc<str>, Channel>,
    /// Channels that have lost their last client, and on which the server still listens.
    left: BTreeSet<Arc<str>>,
    /// On which the query under way listens.
    asked: Vec<Arc<str>>,
    /// Clients that get their ReadyForQuery once their channels are heard, and their own notifications have arrived.
    pub(crate) waiting: BTreeMap<ConnId, Box<Left>>,
    pub(crate) exchange: Listener,
    /// The client_encoding of the server, in which all get what is sent.
    pub(crate) encoding: Option<String>,
    /// When a server is requested again, after a refusal.
    pub(crate) again: Time,
    generation: u32,
}

/// Who listens for a pool's clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum By {
    #[default]
    Nobody,
    /// A server is requested under this handle.
    Requested(ConnId),
    Server(ConnId),
}

#[derive(Default)]
struct Channel {
    clients: BTreeSet<ConnId>,
    heard: bool,
}

impl Listening {
    pub(crate) fn table(&mut self) -> Option<&mut Table> {
        self.table.as_deref_mut()
    }

    /// A client's next request is sent to a server of this host: whether a server listens on all of its channels before.
    pub(crate) fn note_heard(&self, session: &mut Client, at: &Target) {
        if let Some(channels) = session.channels_mut() {
            let table = self.table.as_deref();
            channels.set_hearing(table.map_or(Hearing::Unsure, |table| table.hearing(channels.names(), Some(at))));
        }
    }

    pub(crate) fn table_or_new(&mut self) -> &mut Table {
        self.table.get_or_insert_default()
    }

    /// Nobody listens any more, and no server does.
    pub(crate) fn drop_if_unused(&mut self) {
        if self.table.as_ref().is_some_and(|table| table.is_empty() && table.by == By::Nobody) {
            self.table = None;
        }
    }

    /// Whether a server is requested under this handle. For checks.
    pub(crate) fn requests(&self, handle: ConnId) -> bool {
        self.table.as_ref().is_some_and(|table| table.by == By::Requested(handle))
    }
}

impl Table {
    pub(crate) fn is_empty(&self) -> bool {
        self.channels.is_empty()
    }

    /// Tells a request for a server from those before.
    pub(crate) fn next_generation(&mut self) -> u32 {
        self.generation = self.generation.wrapping_add(1);
        self.generation
    }

    /// The clients that listen on a channel.
    pub(crate) fn clients_of(&self, channel: &[u8]) -> Vec<ConnId> {
        let channel = std::str::from_utf8(channel).ok().and_then(|name| self.channels.get(name));
        channel.map(|channel| channel.clients.iter().copied().collect()).unwrap_or_default()
    }

    /// All clients that listen.
    pub(crate) fn clients(&self) -> BTreeSet<ConnId> {
        self.channels.values().flat_map(|channel| channel.clients.iter().copied()).collect()
    }

    /// A client listens on a channel.
    pub(crate) fn add(&mut self, name: &Arc<str>, client: ConnId) {
        let heard = self.left.remove(name) && !self.asked.contains(name);
        let channel = self.channels.entry(name.clone()).or_insert_with(|| Channel { heard, ..Channel::default() });
        channel.clients.insert(client);
    }

    /// A client listens on a channel no more.
    pub(crate) fn remove(&mut self, name: &Arc<str>, client: ConnId) {
        let Some(channel) = self.channels.get_mut(name) else { return };
        channel.clients.remove(&client);
        if channel.clients.is_empty() {
            let heard = channel.heard || self.asked.contains(name);
            self.channels.remove(name);
            if heard {
                self.left.insert(name.clone());
            }
        }
    }

    /// Whether the server listens on all of these.
    pub(crate) fn hears(&self, names: &[Arc<str>]) -> bool {
        names.iter().all(|name| self.channels.get(name).is_some_and(|channel| channel.heard))
    }

    /// What the server that listens hears of what a client with these channels sends at this host.
    pub(crate) fn hearing(&self, names: &[Arc<str>], at: Option<&Target>) -> Hearing {
        match self.by {
            By::Server(_) if self.at.as_ref() != at => Hearing::Nothing,
            By::Server(_) if self.hears(names) => Hearing::All,
            _ => Hearing::Unsure,
        }
    }

    /// The server listens on these already.
    pub(crate) fn is_heard(&mut self, names: &[Arc<str>]) {
        names.iter().for_each(|name| self.channels.get_mut(name).into_iter().for_each(|channel| channel.heard = true));
    }

    /// No server listens any more. Returns whether one did on any of the channels: something may be missing.
    pub(crate) fn is_lost(&mut self) -> bool {
        self.by = By::Nobody;
        self.exchange = Listener::default();
        self.asked.clear();
        self.left.clear();
        let any = self.channels.values().any(|channel| channel.heard);
        self.channels.values_mut().for_each(|channel| channel.heard = false);
        any
    }

    /// The commands that are missing, if no query is under way: the server is to listen on what clients need. Where
    /// they need nothing it is given back.
    pub(crate) fn next_commands(&mut self) -> Option<String> {
        if self.exchange.is_busy() || self.channels.is_empty() {
            return None;
        }
        let mut query = String::new();
        for name in std::mem::take(&mut self.left) {
            weir_session::channels::unlisten(&name, &mut query);
        }
        let unheard = self.channels.iter().filter(|(_, channel)| !channel.heard);
        self.asked = unheard.map(|(name, _)| name.clone()).take(MOST_AT_ONCE).collect();
        self.asked.iter().for_each(|name| weir_session::channels::listen(name, &mut query));
        (!query.is_empty()).then_some(query)
    }

    /// The query under way has succeeded.
    pub(crate) fn commands_done(&mut self) {
        for name in std::mem::take(&mut self.asked) {
            self.channels.get_mut(&name).into_iter().for_each(|channel| channel.heard = true);
        }
    }
}

/// The most channels of one query.
const MOST_AT_ONCE: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn conn(slot: u32) -> ConnId {
        ConnId::new(slot, 1)
    }

    #[test]
    fn the_server_listens_on_what_somebody_needs() {
        let mut table = Table::default();
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        table.add(&a, conn(1));
        table.add(&a, conn(2));
        table.add(&b, conn(2));
        assert_eq!(table.next_commands().as_deref(), Some("LISTEN \"a\";LISTEN \"b\""));
        assert!(!table.hears(std::slice::from_ref(&a)));
        table.commands_done();
        assert!(table.hears(&[a.clone(), b.clone()]) && table.next_commands().is_none());
        assert_eq!(table.clients_of(b"a"), [conn(1), conn(2)]);
        table.remove(&b, conn(2));
        assert_eq!(table.next_commands().as_deref(), Some("UNLISTEN \"b\""));
        table.remove(&a, conn(1));
        assert_eq!((table.next_commands(), table.clients().len()), (None, 1));
        table.is_lost();
        assert_eq!(table.next_commands().as_deref(), Some("LISTEN \"a\""));
    }

    #[test]
    fn a_channel_that_is_wanted_again_before_it_is_left_stays_heard() {
        let mut table = Table::default();
        let a: Arc<str> = "a".into();
        table.add(&a, conn(1));
        table.next_commands();
        table.commands_done();
        table.remove(&a, conn(1));
        table.add(&a, conn(2));
        assert!(table.hears(&[a]) && table.next_commands().is_none());
    }
}
