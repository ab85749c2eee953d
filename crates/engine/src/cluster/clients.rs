//! How many clients there are, and how many there may be: of a database, of a user, of an address.
//!
//! Worker 0 keeps the books for all workers. It accepts every client and hears of each that goes; where one of these
//! limits is set, a client that has proven who it is asks it for a place before it is let in. So nobody who has proven
//! nothing takes another's place.
//!
//! Invariant: a place is given back exactly once. It is the client's [`Ticket`] from the moment it is let in; until the
//! answer has come it belongs to the question in `Engine::entering`, whatever becomes of the client meanwhile.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use weir_base::{ClientAddr, Peer, Time, WorkerId};
use weir_config::Config;
use weir_session::Refusal;

use crate::Engine;
use crate::cluster::messages::{Message, Payload};
use crate::cluster::ticket::Ticket;
use crate::entry::state::Awaits;
use crate::peers::{ClientPhase, ClientSlot};
use crate::port::Io;

/// The most clients that may be in beside one; 0 is unlimited.
#[derive(Clone, Copy, Default)]
struct Most {
    database: u32,
    user: u32,
    address: u32,
}

/// Who is in, on all workers.
#[derive(Default)]
pub(crate) struct Ledger {
    databases: HashMap<Arc<str>, u32>,
    users: HashMap<Arc<str>, u32>,
    addresses: HashMap<IpAddr, u32>,
}

impl Ledger {
    /// Lets a client in, or says which limit stands against it.
    fn enter(&mut self, ticket: &Ticket, most: Most) -> Result<(), Refusal> {
        let full = |count: Option<&u32>, most: u32| most > 0 && count.is_some_and(|count| *count >= most);
        if full(self.databases.get(&ticket.database), most.database) {
            return Err(Refusal::TooManyDatabaseClients);
        }
        if full(self.users.get(&ticket.user), most.user) {
            return Err(Refusal::TooManyUserClients);
        }
        if full(ticket.address.and_then(|address| self.addresses.get(&address)), most.address) {
            return Err(Refusal::TooManyAddressClients);
        }
        self.seat(ticket);
        Ok(())
    }

    /// Counts a client that is in.
    fn seat(&mut self, ticket: &Ticket) {
        *self.databases.entry(ticket.database.clone()).or_default() += 1;
        *self.users.entry(ticket.user.clone()).or_default() += 1;
        if let Some(address) = ticket.address {
            *self.addresses.entry(address).or_default() += 1;
        }
    }

    /// A client has gone. What nobody is counted for is forgotten, so the books are as large as the crowd.
    fn leave(&mut self, ticket: &Ticket) {
        take_one(&mut self.databases, &ticket.database);
        take_one(&mut self.users, &ticket.user);
        if let Some(address) = &ticket.address {
            take_one(&mut self.addresses, address);
        }
    }
}

fn take_one<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, u32>, key: &K) {
    let Some(count) = counts.get_mut(key) else {
        debug_assert!(false, "a place is given back that nobody had");
        return;
    };
    *count -= 1;
    if *count == 0 {
        counts.remove(key);
    }
}

impl Most {
    fn of(config: &Config, ticket: &Ticket) -> Most {
        if ticket.admin {
            return Most::default();
        }
        let console = weir_admin::is_console(&ticket.database);
        let pool = if console { None } else { config.pool(&ticket.database) };
        Most {
            database: pool.map_or(0, |pool| pool.limits.max_db_client_connections),
            user: config.user_clients(&ticket.user),
            address: config.max_address_connections,
        }
    }
}

/// Whether any limit of clients is set, so that they must be counted before they are let in.
fn counts_clients(config: &Config) -> bool {
    config.max_user_client_connections > 0
        || config.max_address_connections > 0
        || config.users.values().any(|rules| rules.max_client_connections.is_some_and(|most| most > 0))
        || config.pools.values().chain(&config.fallback).any(|pool| pool.limits.max_db_client_connections > 0)
}

impl Engine {
    /// A client has proven who it is: is there a place for it? Goes on with [`Engine::entered`].
    pub(crate) fn enter<I: Io>(&mut self, now: Time, mut client: Box<ClientSlot>, io: &mut I) {
        if !counts_clients(self.common.config()) {
            return self.entered(now, client, io);
        }
        let Some(ticket) = self.ticket_of(&client) else { return self.entered(now, client, io) };
        if self.common.worker() == WorkerId(0) {
            return match self.give_place(&ticket) {
                Ok(()) => {
                    client.ticket = Some(ticket);
                    self.entered(now, client, io)
                }
                Err(refusal) => self.refuse(now, client, refusal, io),
            };
        }
        let id = self.common.next_id();
        if let ClientPhase::Login(phase) = &mut client.phase {
            phase.set_awaits(Awaits::Quota(id));
        }
        self.cluster.entering.insert(id, (client.peer, ticket.clone()));
        io.post(WorkerId(0), Message(Payload::Enter { id, ticket }), None);
        self.insert_waiting(client, io);
    }

    /// Worker 0: another worker's client wants a place.
    pub(crate) fn asked_for_place<I: Io>(&mut self, from: WorkerId, id: u64, ticket: &Ticket, io: &mut I) {
        let refused = self.give_place(ticket).err();
        io.post(from, Message(Payload::Entered { id, refused }), None);
    }

    fn give_place(&mut self, ticket: &Ticket) -> Result<(), Refusal> {
        self.cluster.ledger.enter(ticket, Most::of(self.common.config(), ticket))
    }

    /// Worker 0 has answered.
    pub(crate) fn place_answered<I: Io>(&mut self, now: Time, id: u64, refused: Option<Refusal>, io: &mut I) {
        let Some((peer, ticket)) = self.cluster.entering.remove(&id) else { return };
        let waits = |client: &ClientSlot| matches!(&client.phase, ClientPhase::Login(phase) if phase.awaits() == Awaits::Quota(id));
        let waits = self.peers.client(peer).is_some_and(|client| waits(client));
        let client = if waits { self.peers.take_client(peer) } else { None };
        match (client, refused) {
            (Some(mut client), None) => {
                client.ticket = Some(ticket);
                if let ClientPhase::Login(phase) = &mut client.phase {
                    phase.set_awaits(Awaits::Client);
                }
                self.unpause_client(&mut client, io);
                self.entered(now, client, io);
            }
            (Some(client), Some(refusal)) => self.refuse(now, client, refusal, io),
            // It did not wait for its place.
            (None, None) => io.post(WorkerId(0), Message(Payload::Left(ticket)), None),
            (None, Some(_)) => {}
        }
    }

    /// Counts the clients that came in when no limit was set.
    pub(crate) fn count_uncounted<I: Io>(&mut self, io: &mut I) {
        if !counts_clients(self.common.config()) {
            return;
        }
        let is_in = |client: &&ClientSlot| {
            client.ticket.is_none()
                && matches!(client.phase, ClientPhase::Ready(_) | ClientPhase::Welcome(_) | ClientPhase::Console(_))
        };
        let uncounted: Vec<Peer> = self.peers.clients().filter(is_in).map(|client| client.peer).collect();
        for peer in uncounted {
            let Some(mut client) = self.peers.take_client(peer) else { continue };
            if let Some(ticket) = self.ticket_of(&client) {
                client.ticket = Some(ticket.clone());
                match self.common.worker() {
                    WorkerId(0) => self.cluster.ledger.seat(&ticket),
                    _ => io.post(WorkerId(0), Message(Payload::Counted(ticket)), None),
                }
            }
            self.peers.put(peer, crate::peers::Entry::Client(client));
        }
    }

    /// Worker 0: a client that is in already is counted from now on.
    pub(crate) fn seat_counted(&mut self, ticket: &Ticket) {
        self.cluster.ledger.seat(ticket);
    }

    /// Worker 0: a place is free again.
    pub(crate) fn place_left(&mut self, ticket: &Ticket) {
        self.cluster.ledger.leave(ticket);
    }

    fn ticket_of(&self, client: &ClientSlot) -> Option<Box<Ticket>> {
        let database: Arc<str> = self.database_of(client).into();
        if database.is_empty() {
            return None;
        }
        let address = match client.addr {
            ClientAddr::Tcp(from) => Some(from.ip().to_canonical()),
            ClientAddr::Unix { .. } => None,
        };
        let admin = weir_admin::is_console(&database)
            && self.entry.logins.role(self.common.config(), client) == Some(weir_admin::Role::Admin);
        Some(Box::new(Ticket { database, user: client.user.clone(), address, admin }))
    }

    /// A client that was counted is gone, wherever it was.
    pub(crate) fn uncount_client<I: Io>(&mut self, client: &mut ClientSlot, io: &mut I) {
        if matches!(client.phase, ClientPhase::Delayed(_)) {
            self.entry.throttle.delay_over();
        }
        let ticket = client.ticket.take();
        if self.common.worker() == WorkerId(0) {
            self.client_uncounted(ticket.as_deref());
        } else {
            io.post(WorkerId(0), Message(Payload::ClientGone(ticket)), None);
        }
    }

    /// Worker 0: a client is gone, and its place with it.
    pub(crate) fn client_uncounted(&mut self, ticket: Option<&Ticket>) {
        self.cluster.all_clients = self.cluster.all_clients.saturating_sub(1);
        ticket.into_iter().for_each(|ticket| self.cluster.ledger.leave(ticket));
    }

    /// The clients that are in on this worker: database, user and address. For tests and the simulator.
    pub fn inside(&self) -> impl Iterator<Item = (&str, &str, &ClientAddr)> {
        let clients =
            self.peers.clients().filter(|c| matches!(c.phase, ClientPhase::Ready(_) | ClientPhase::Welcome(_)));
        clients.map(|client| (self.database_of(client), &*client.user, &client.addr))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(database: &str, user: &str, address: Option<&str>) -> Ticket {
        let address = address.map(|text| text.parse().unwrap());
        Ticket { database: database.into(), user: user.into(), address, admin: false }
    }

    const NONE: Most = Most { database: 0, user: 0, address: 0 };

    #[test]
    fn each_limit_counts_what_it_is_for_and_zero_is_none() {
        let mut ledger = Ledger::default();
        for _ in 0..3 {
            ledger.enter(&ticket("db", "ann", Some("10.0.0.1")), NONE).unwrap();
        }
        let try_in = |ledger: &mut Ledger, database, user, address, most| {
            let ticket = ticket(database, user, address);
            let answer = ledger.enter(&ticket, most);
            if answer.is_ok() {
                ledger.leave(&ticket);
            }
            answer
        };
        let one = Some("10.0.0.1");
        let database = Most { database: 3, ..NONE };
        assert_eq!(try_in(&mut ledger, "db", "bob", None, database), Err(Refusal::TooManyDatabaseClients));
        assert_eq!(try_in(&mut ledger, "other", "ann", one, database), Ok(()));
        let user = Most { user: 3, ..NONE };
        assert_eq!(try_in(&mut ledger, "other", "ann", None, user), Err(Refusal::TooManyUserClients));
        assert_eq!(try_in(&mut ledger, "db", "bob", one, user), Ok(()));
        let address = Most { address: 3, ..NONE };
        assert_eq!(try_in(&mut ledger, "other", "bob", one, address), Err(Refusal::TooManyAddressClients));
        assert_eq!(try_in(&mut ledger, "db", "ann", Some("10.0.0.2"), address), Ok(()));
        assert_eq!(try_in(&mut ledger, "db", "ann", None, address), Ok(()), "the Unix socket has no address");
        assert_eq!(try_in(&mut ledger, "db", "ann", one, Most { database: 4, user: 4, address: 4 }), Ok(()));
    }

    #[test]
    fn a_refused_client_takes_no_place_and_one_that_leaves_gives_all_of_its_own_back() {
        let mut ledger = Ledger::default();
        let most = Most { database: 1, user: 1, address: 1 };
        let (first, second) = (ticket("db", "ann", Some("::1")), ticket("db", "bob", Some("::2")));
        ledger.enter(&first, most).unwrap();
        assert!(ledger.enter(&second, most).is_err());
        ledger.leave(&first);
        ledger.enter(&second, most).unwrap();
        assert!(ledger.enter(&first, most).is_err());
        ledger.leave(&second);
        assert!(ledger.databases.is_empty() && ledger.users.is_empty() && ledger.addresses.is_empty());
    }
}
