//! Servers that are opened for one client and closed with it: those of replication connections.
//!
//! Owns the clients that wait for such a server, and the client that the login under way is for. The other rules of a
//! pool apply: these servers count towards its size and take the place of the idle server that is due to close first,
//! and their clients wait in the order of their age beside the clients that share servers.

use weir_base::{ConnId, Time};

use crate::queue::Queue;

#[derive(Clone, Debug, Default)]
pub(crate) struct Dedicated {
    pub(crate) queue: Queue,
    /// The client that the login under way is for, and since when it has waited.
    login: Option<(ConnId, Time)>,
}

impl Dedicated {
    /// A login begins: it is for the client that has waited longest, if that client waits for a server of its own.
    pub(crate) fn begin_login(&mut self, oldest_other: Option<Time>) -> Option<ConnId> {
        let since = self.queue.oldest()?;
        if oldest_other.is_some_and(|other| other < since) {
            return None;
        }
        self.login = self.queue.pop();
        self.login.map(|(client, _)| client)
    }

    /// The login under way is over. With `again`, its client waits for the next one, in its old place.
    pub(crate) fn end_login(&mut self, again: bool) -> Option<(ConnId, Time)> {
        let (client, since) = self.login.take()?;
        if again {
            self.queue.insert_by_age(client, since, true);
        }
        Some((client, since))
    }

    /// A client gives up. Returns whether the login under way is for it.
    pub(crate) fn leave(&mut self, client: ConnId) -> bool {
        self.queue.remove(client);
        self.login.take_if(|(owner, _)| *owner == client).is_some()
    }

    /// How many wait, including the client that the login under way is for.
    pub(crate) fn waiting(&self) -> u32 {
        self.queue.len() + u32::from(self.login.is_some())
    }
}

/// The earlier of two moments; `None` if there is neither.
pub(crate) fn earlier(one: Option<Time>, other: Option<Time>) -> Option<Time> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        _ => one.or(other),
    }
}
