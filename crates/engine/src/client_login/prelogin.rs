//! Clients without a login: how much memory they may hold, and which of them are closed to make room for others.
//!
//! Each client may send a little ahead of its login; further bytes come from a shared budget. Where the budget is
//! exhausted, clients of the origin that holds the most are refused to make room, those that hold the most first, if
//! another origin with less needs it; otherwise the client that needs it is refused. If all connections are in use, one
//! client makes room for a new one: the oldest of the origin with the most clients, so that a flood from one origin
//! closes its own; without such an origin the oldest of all. A client that has sent a request to cancel counts as well,
//! as it shows no login.
//!
//! Bounds: [`OWN_SHARE`] bytes for each client, [`MAX_OF_ONE`] for one, [`MAX_OF_ALL`] beyond the own shares for all
//! of a worker. `arrive` bounds their number, `client_login_timeout` their time.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use weir_base::{ClientAddr, ConnId, FairRoom, Origin, Span, Time, shrink};
use weir_session::Refusal;

use crate::client::slot::{ClientPhase, ClientSlot};
use crate::conns::ConnTable;

/// Bytes that each client may send in any case: startup packets and passwords are shorter.
const OWN_SHARE: usize = 2 << 10;
/// The most bytes that are held for one client: its password, and what it sends ahead of its login.
const MAX_OF_ONE: usize = 80 << 10;
/// The most bytes beyond the own shares.
const MAX_OF_ALL: usize = 16 << 20;
/// After this time without a login a client may be closed to make room.
const EVICT_AFTER: Span = Span::from_secs(5);
/// After this time a client may be closed to make room, if its origin has more of them than the new client's: longer
/// than a login usually takes.
const EVICT_BUSY_AFTER: Span = Span::from_millis(500);
/// How many clients and origins are looked at for one that makes room.
const LOOKS: usize = 64;
/// The shortest interval between requests to other workers to make room.
const ASK_AGAIN: Span = Span::from_millis(10);

/// The clients of a worker without a login.
pub(crate) struct PreLogin {
    /// The clients by their numbers, so in order of arrival.
    clients: BTreeMap<u64, (ConnId, Origin)>,
    /// The numbers of the clients of each origin.
    origins: HashMap<Origin, BTreeSet<u64>>,
    /// The origins by how many clients they have.
    ranks: BTreeSet<(usize, Origin)>,
    /// The bytes that the clients hold beyond their own shares.
    held: FairRoom,
    asked_others: Time,
}

impl Default for PreLogin {
    fn default() -> Self {
        PreLogin {
            clients: BTreeMap::new(),
            origins: HashMap::new(),
            ranks: BTreeSet::new(),
            held: FairRoom::new(MAX_OF_ALL),
            asked_others: Time::default(),
        }
    }
}

impl PreLogin {
    /// Buffers input that can't be handled yet: all of it, or nothing if that exceeds a limit. The result are the
    /// clients that must be refused, as they made room. Logged-in clients are not limited here.
    ///
    /// # Errors
    /// The refusal for the client.
    pub(crate) fn hold(&mut self, client: &mut ClientSlot, bytes: &[u8]) -> Result<Vec<ConnId>, Refusal> {
        if !client.phase.is_unauthenticated() {
            client.waiting_mut().extend_from_slice(bytes);
            return Ok(Vec::new());
        }
        let length = client.waiting.len() + bytes.len();
        if length > MAX_OF_ONE {
            return Err(Refusal::Protocol("too many bytes before the login is over".into()));
        }
        let beyond = length.saturating_sub(OWN_SHARE);
        let made = self.held.make(Origin::of(&client.addr), client.conn, beyond);
        let displaced = made.ok_or(Refusal::TooManyLogins)?;
        client.waiting_mut().reserve_exact(bytes.len());
        client.waiting_mut().extend_from_slice(bytes);
        self.charge(client);
        Ok(displaced)
    }

    /// A client's buffer, address or phase has changed: updates its charge, and counts it or does so no more.
    pub(crate) fn charge(&mut self, client: &mut ClientSlot) {
        self.count(client);
        let unauthenticated = client.phase.is_unauthenticated();
        if unauthenticated && client.waiting.is_empty() {
            *client.waiting_mut() = Vec::new();
        }
        let now = if unauthenticated { client.waiting.capacity().saturating_sub(OWN_SHARE) } else { 0 };
        self.held.set(Origin::of(&client.addr), client.conn, now);
    }

    /// A client has disconnected, or moves to another worker.
    pub(crate) fn discharge(&mut self, client: &mut ClientSlot) {
        self.held.release(client.conn);
        if client.counted {
            self.remove(client.id);
            client.count(false);
        }
    }

    fn count(&mut self, client: &mut ClientSlot) {
        let (counts, origin) = (client.phase.may_make_room(), Origin::of(&client.addr));
        client.count(counts);
        let counted_for = self.clients.get(&client.id).map(|(_, origin)| *origin);
        // A load balancer's header may have named another address.
        if counts && counted_for == Some(origin) {
            return;
        }
        if counted_for.is_some() {
            self.remove(client.id);
        }
        if !counts {
            return;
        }
        self.clients.insert(client.id, (client.conn, origin));
        let of_origin = self.origins.entry(origin).or_default();
        self.ranks.remove(&(of_origin.len(), origin));
        of_origin.insert(client.id);
        self.ranks.insert((of_origin.len(), origin));
    }

    fn remove(&mut self, id: u64) {
        let Some((_, origin)) = self.clients.remove(&id) else { return };
        let Some(of_origin) = self.origins.get_mut(&origin) else { return };
        self.ranks.remove(&(of_origin.len(), origin));
        of_origin.remove(&id);
        match of_origin.len() {
            0 => {
                self.origins.remove(&origin);
                shrink(&mut self.origins, 64);
            }
            left => drop(self.ranks.insert((left, origin))),
        }
    }

    /// How many clients of this origin have no login.
    fn of_origin(&self, origin: Origin) -> usize {
        self.origins.get(&origin).map_or(0, BTreeSet::len)
    }

    /// The client to close for a connection from `from`, if one is old enough and not `spared`. Clients whose socket is
    /// on its way to another worker are skipped, and those that are being handled now.
    pub(crate) fn evict(
        &self,
        now: Time,
        conns: &ConnTable,
        from: Origin,
        spared: impl Fn(&ClientAddr) -> bool,
    ) -> Option<ConnId> {
        let closable = |conn: ConnId, age: Span| {
            conns.get::<ClientSlot>(conn).is_some_and(|client| {
                client.phase.may_make_room()
                    && !matches!(client.phase, ClientPhase::Moving(_))
                    && now.since(client.connected_at) >= age
                    && !spared(&client.addr)
            })
        };
        let share = self.of_origin(from);
        let busier = self.ranks.iter().rev().take_while(|(count, origin)| *count > share + 1 && *origin != from);
        let of_busier = busier.flat_map(|(_, origin)| self.origins.get(origin).into_iter().flatten());
        let of_busier = of_busier.filter_map(|id| self.clients.get(id)).take(LOOKS);
        let busy = of_busier.map(|(conn, _)| *conn).find(|conn| closable(*conn, EVICT_BUSY_AFTER));
        // A flood must not close clients of quieter origins.
        let oldest = || {
            let others = self.clients.values().filter(|(_, origin)| self.of_origin(*origin) >= share);
            others.take(LOOKS).map(|(conn, _)| *conn).find(|conn| closable(*conn, EVICT_AFTER))
        };
        busy.or_else(oldest)
    }

    /// No client here can be closed: returns whether to send other workers a request, at a limited rate.
    pub(crate) fn asks_others(&mut self, now: Time) -> bool {
        let due = now.since(self.asked_others) >= ASK_AGAIN;
        if due {
            self.asked_others = now;
        }
        due
    }

    /// The bytes held beyond the own shares.
    pub(crate) fn held(&self) -> usize {
        self.held.held()
    }
}
