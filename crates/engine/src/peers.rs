//! The table of peers: the session of each handle.
//!
//! Owns the states of clients, servers and cancel requests. A session is taken out of the table while it is changed,
//! so that both ends of a link can be changed at once, and put back after.

use std::sync::Arc;

use weir_base::{ClientAddr, Peer, Target, Time, WorkerId};
use weir_pool::lending::BorrowRequest;
use weir_session::server_login::ServerLogin;
use weir_session::startup::{Replication, StartupRequest};
use weir_session::{Client, ParamTable, Refusal, Server};

use crate::admin::console::Console;
use crate::backends::connection::Connection;
use crate::backends::hosts::Attempt;
use crate::cluster::ending::EndingSlot;
use crate::cluster::peering::ForwardSlot;
use crate::cluster::quota::ClientUse;
use crate::entry::reported::Welcome;
use crate::entry::state::{Delayed, Handoff, LoginPhase, SslNegotiation};
use crate::handles::{NO_POOL, PoolIx};
use crate::secured::Secured;
use crate::traffic::cancel_key::CancelSecret;
use crate::traffic::cancel_pids::CancelPids;
use crate::traffic::cancel_state::CancelSlot;
use crate::traffic::link_clock::LinkClock;
use crate::traffic::reading::ServerReading;
use crate::traffic::stream::Stream;

/// What stands behind a handle.
#[derive(Default)]
pub(crate) enum Entry {
    /// Free, or taken out now.
    #[default]
    Free,
    Client(Box<ClientSlot>),
    Server(Box<ServerSlot>),
    Cancel(Box<CancelSlot>),
    Forward(Box<ForwardSlot>),
    Ending(Box<EndingSlot>),
    /// A probe of this host.
    Probe(Box<Target>),
}

/// A client.
pub(crate) struct ClientSlot {
    pub(crate) peer: Peer,
    /// Unique in the process.
    pub(crate) id: u64,
    pub(crate) addr: ClientAddr,
    pub(crate) phase: ClientPhase,
    /// Its pool, once it has logged in.
    pub(crate) pool: PoolIx,
    /// Its server.
    pub(crate) link: Option<Peer>,
    /// Input that can't be handled yet. Bounded: the client is paused while this is not empty, so it holds at most one
    /// read of the runtime.
    pub(crate) waiting: Vec<u8>,
    pub(crate) pause: Pause,
    /// Its server was lost within a message to it: nothing more can be sent to it.
    pub(crate) cut: bool,
    /// It has closed its side while it had a server and was not read from.
    pub(crate) ended: bool,
    /// The log has a line that a statement of its was refused: one is enough.
    pub(crate) statements_refused: bool,
    pub(crate) user: Arc<str>,
    /// The result of its TLS handshake; `None` without encryption.
    pub(crate) tls: Option<Box<Secured>>,
    /// The keys under which it counts, if clients are limited and it is admitted.
    pub(crate) counts_for: Option<Box<ClientUse>>,
    pub(crate) connected_at: Time,
    /// When it last requested a server, or sent something.
    pub(crate) request_at: Time,
    /// Its earliest timer.
    pub(crate) armed: Time,
    /// Whether it counts among those without a login.
    pub(crate) counted: bool,
    /// The secret that a cancel request must contain.
    pub(crate) cancel: CancelSecret,
}

/// Why a client is paused. Reading continues when no reason is left.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Pause {
    /// It waits: for a server, a prelude, a helper.
    pub(crate) waits: bool,
    /// Its server's socket is full.
    pub(crate) peer_full: bool,
    /// Its own socket is full: it does not read its replies, so it may not request more.
    pub(crate) full: bool,
    /// Everything is suspended.
    pub(crate) suspended: bool,
}

impl Pause {
    pub(crate) fn any(self) -> bool {
        self != Pause::default()
    }
}

/// The phase of a client.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are ready, and a box would be one access more for each message"
)]
pub(crate) enum ClientPhase {
    /// It is a load balancer: a PROXY header must follow.
    Header,
    /// Its first packet must follow; it may still send this many requests for encryption.
    Opening { asks_left: u8 },
    /// A TLS handshake is under way, which it began like this.
    Handshake(SslNegotiation),
    /// Its socket is being moved to another worker.
    Moving(Box<Handoff>),
    /// An auth_query for its secret is under way.
    AuthLookup(Arc<StartupRequest>),
    /// Authentication.
    Login(Box<LoginPhase>),
    /// Authentication has failed, and the refusal is delayed.
    Delayed(Box<Delayed>),
    /// It is authenticated, and waits for the parameters of its pool's servers.
    Welcome(Box<LoginPhase>),
    /// It may ask.
    Ready(Client),
    /// It replicates, on a server of its own.
    Streaming(Box<Stream>),
    /// It is an operator.
    Console(Box<Console>),
    /// It sent a cancel request, and is closed when that has ended.
    Canceller,
    /// It is being removed.
    Gone,
}

/// A server.
pub(crate) struct ServerSlot {
    pub(crate) peer: Peer,
    pub(crate) id: u64,
    pub(crate) pool: PoolIx,
    pub(crate) state: ServerState,
    /// Its target, and how it was connected.
    pub(crate) connection: Connection,
    /// Its client; also while the link is being prepared.
    pub(crate) link: Option<Peer>,
    /// The times of events on its link.
    pub(crate) clock: LinkClock,
    /// Whether it is paused.
    pub(crate) reading: ServerReading,
    /// Its earliest timer.
    pub(crate) armed: Time,
    /// Cancel requests under way for it: it gets no other client before they have ended.
    pub(crate) cancels: u32,
    /// Its last error, if that was fatal.
    pub(crate) fatal_error: Option<Refusal>,
    /// It had a client since its last reset.
    pub(crate) used: bool,
    /// Close it at its release (KILL, RECONNECT).
    pub(crate) marked_for_close: bool,
    /// Its client has only received its reported parameters: that does not count as a use.
    pub(crate) unused: bool,
    /// It is for one client only.
    pub(crate) dedicated: Option<Box<Dedicated>>,
    /// When it was granted, if servers are limited.
    pub(crate) granted_at: Time,
}

/// Whom a server of one client is for.
pub(crate) struct Dedicated {
    pub(crate) owner: Peer,
    pub(crate) replication: Replication,
    /// What it has reported, once it is up, until its client knows.
    pub(crate) welcome: Option<Welcome>,
}

/// The state of a server connection; the same names in SHOW SERVERS.
#[allow(clippy::large_enum_variant)]
pub(crate) enum ServerState {
    Connecting,
    /// SSLRequest is sent; one byte must follow.
    SslRequest,
    /// In the TLS handshake.
    TlsHandshake,
    Login(Box<ServerLogin>),
    /// Logged in, in this phase. Not boxed: a server's slot is boxed as a whole, and is nearly always in this state.
    Up(Server, ServerPhase),
}

/// The phase of a server that is logged in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ServerPhase {
    /// Answers whether it is fit for the pool. For its pool it is still logging in.
    CheckingRole,
    /// Says which backend it is. For its pool it is still logging in.
    Identifying,
    /// Runs connect_query. For its pool it is still logging in.
    ConnectQuery,
    /// Idle in the pool.
    Idle,
    /// Runs a check before it is linked.
    Checking,
    /// Sets its next client's parameters.
    SyncingParameters,
    /// Working for its client.
    Linked,
    /// It is its client's alone, whose bytes it gets as they are.
    Streaming,
    /// Being cleaned of what its client left.
    Resetting(Reset),
    /// Runs connect_query again, after a reset.
    ConnectQueryAgain,
    /// Runs an auth_query, with this handle.
    AuthQuery(Peer),
    /// On its way to a borrower of the pool, for this request; `check`: it must be checked there first.
    Lending { request: BorrowRequest, check: bool },
    /// On its way home from a guest.
    Returning,
    /// On its way to another process, which takes over. The pool has forgotten it.
    Leaving,
}

/// Why a server is being reset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reset {
    /// Its client left session state, and `on_dirty` requires a reset.
    Left,
    /// The operator configured this query for each release.
    Query,
}

impl ClientPhase {
    /// The first phase of clients, except for load balancers: each kind of encryption request is allowed once.
    pub(crate) const OPENING: ClientPhase = ClientPhase::Opening { asks_left: 2 };

    /// Whether the client is not authenticated.
    pub(crate) fn is_unauthenticated(&self) -> bool {
        match self {
            ClientPhase::Header
            | ClientPhase::Opening { .. }
            | ClientPhase::Handshake(_)
            | ClientPhase::Moving(_)
            | ClientPhase::AuthLookup(_)
            | ClientPhase::Login(_)
            | ClientPhase::Delayed(_) => true,
            ClientPhase::Welcome(_)
            | ClientPhase::Ready(_)
            | ClientPhase::Streaming(_)
            | ClientPhase::Console(_)
            | ClientPhase::Canceller
            | ClientPhase::Gone => false,
        }
    }
}

impl ClientPhase {
    /// Whether the client may be closed to make room for others: it has shown no login.
    pub(crate) fn may_make_room(&self) -> bool {
        self.is_unauthenticated() || matches!(self, ClientPhase::Canceller)
    }

    /// Whether the client has proven who it is.
    pub(crate) fn has_logged_in(&self) -> bool {
        matches!(
            self,
            ClientPhase::Welcome(_) | ClientPhase::Ready(_) | ClientPhase::Streaming(_) | ClientPhase::Console(_)
        )
    }
}

impl ClientSlot {
    /// Its state in SHOW CLIENTS.
    pub(crate) fn state(&self) -> &'static str {
        match self.phase {
            ClientPhase::Canceller => "active_cancel_req",
            ClientPhase::Ready(_) if self.link.is_some() => "active",
            ClientPhase::Streaming(_) => "active",
            ClientPhase::Ready(_) | ClientPhase::Welcome(_) if self.pause.waits => "waiting",
            ClientPhase::Ready(_) | ClientPhase::Welcome(_) | ClientPhase::Console(_) => "idle",
            _ => "login",
        }
    }

    /// Whether a shutdown that waits for clients waits for it. A client that connects during one is an operator, or is
    /// refused.
    pub(crate) fn is_waited_for(&self) -> bool {
        match &self.phase {
            ClientPhase::Header | ClientPhase::Opening { .. } | ClientPhase::Handshake(_) | ClientPhase::Console(_) => {
                false
            }
            ClientPhase::Login(phase) => !phase.is_console(),
            _ => true,
        }
    }

    /// A new client.
    pub(crate) fn new(
        peer: Peer,
        id: u64,
        addr: ClientAddr,
        phase: ClientPhase,
        now: Time,
        cancel_secret: [u8; 16],
    ) -> ClientSlot {
        ClientSlot {
            peer,
            id,
            addr,
            phase,
            pool: NO_POOL,
            link: None,
            waiting: Vec::new(),
            pause: Pause::default(),
            cut: false,
            ended: false,
            statements_refused: false,
            user: "".into(),
            tls: None,
            counts_for: None,
            connected_at: now,
            request_at: now,
            armed: Time::NEVER,
            counted: false,
            cancel: CancelSecret::new(cancel_secret),
        }
    }

    /// Its pool, once it has one.
    pub(crate) fn pool(&self) -> Option<PoolIx> {
        (self.pool != NO_POOL).then_some(self.pool)
    }

    /// The database that it requested, while it has no pool; for operators always.
    pub(crate) fn requested_database(&self) -> &str {
        match &self.phase {
            ClientPhase::Console(console) => console.database(),
            ClientPhase::Login(phase) | ClientPhase::Welcome(phase) => &phase.request().database,
            ClientPhase::AuthLookup(request) => &request.database,
            ClientPhase::Delayed(delayed) => &delayed.database,
            _ => "",
        }
    }

    /// The application_name that it gave; empty if it gave none, or while that is unknown.
    pub(crate) fn application<'c>(&'c self, table: &'c ParamTable) -> &'c str {
        let params = match &self.phase {
            ClientPhase::Ready(session) => Some(session.params()),
            ClientPhase::Streaming(stream) => Some(stream.params()),
            ClientPhase::Login(phase) | ClientPhase::Welcome(phase) => {
                return phase.request().param("application_name").unwrap_or_default();
            }
            _ => None,
        };
        params.and_then(|params| table.get(params, "application_name")).unwrap_or_default()
    }

    /// Whether it is a replication connection, as far as that is known.
    pub(crate) fn replication(&self) -> Replication {
        match &self.phase {
            ClientPhase::Streaming(stream) => stream.kind(),
            ClientPhase::Login(phase) | ClientPhase::Welcome(phase) => phase.request().replication,
            _ => Replication::None,
        }
    }

    /// Whether it may ask.
    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.phase, ClientPhase::Ready(_))
    }

    /// Whether it has logged in, to a pool or the console.
    pub(crate) fn has_logged_in(&self) -> bool {
        self.is_pooled() || matches!(self.phase, ClientPhase::Console(_))
    }

    /// Whether it has a pool, and is welcome there or about to be.
    pub(crate) fn is_pooled(&self) -> bool {
        matches!(self.phase, ClientPhase::Ready(_) | ClientPhase::Streaming(_) | ClientPhase::Welcome(_))
    }

    /// The session, if it is ready for queries.
    pub(crate) fn ready(&mut self) -> Option<&mut Client> {
        if let ClientPhase::Ready(client) = &mut self.phase { Some(client) } else { None }
    }
}

impl ServerSlot {
    /// A server of `pool` to which a connect has begun.
    pub(crate) fn new(peer: Peer, id: u64, pool: PoolIx, target: Target, attempt: Attempt, now: Time) -> ServerSlot {
        ServerSlot {
            peer,
            id,
            pool,
            state: ServerState::Connecting,
            connection: Connection::new(target, attempt, now),
            link: None,
            clock: LinkClock::new(now),
            reading: ServerReading::default(),
            armed: Time::NEVER,
            cancels: 0,
            fatal_error: None,
            used: false,
            marked_for_close: false,
            dedicated: None,
            unused: false,
            granted_at: now,
        }
    }

    /// The session, if it is logged in.
    #[inline]
    pub(crate) fn up(&mut self) -> Option<(&mut Server, &mut ServerPhase)> {
        if let ServerState::Up(server, phase) = &mut self.state { Some((server, phase)) } else { None }
    }

    pub(crate) fn phase(&self) -> Option<ServerPhase> {
        if let ServerState::Up(_, phase) = &self.state { Some(*phase) } else { None }
    }

    /// Whether its client is idle in a transaction.
    pub(crate) fn is_idle_in_transaction(&self) -> bool {
        self.link.is_some() && self.clock.holding().silence != Time::NEVER
    }

    /// Whether it is still logging in for its pool.
    pub(crate) fn is_new(&self) -> bool {
        matches!(
            self.phase(),
            None | Some(ServerPhase::CheckingRole | ServerPhase::Identifying | ServerPhase::ConnectQuery)
        )
    }
}

/// The table.
#[derive(Default)]
pub(crate) struct Peers {
    slots: Vec<(u32, Entry)>,
    pids: CancelPids,
    /// The number of visited slots, for tests: work that grows with the number of clients shows here.
    #[cfg(test)]
    looks: std::cell::Cell<u64>,
}

impl Peers {
    /// Counts a visited slot.
    #[inline]
    fn look(&self) {
        #[cfg(test)]
        self.looks.set(self.looks.get() + 1);
    }

    /// The number of visited slots so far.
    #[cfg(test)]
    pub(crate) fn looks(&self) -> u64 {
        self.looks.get()
    }

    /// Adds a new peer. A handle whose slot is in use breaks the port's rules.
    pub(crate) fn put(&mut self, peer: Peer, entry: Entry) {
        let slot = peer.slot as usize;
        if slot >= self.slots.len() {
            self.slots.resize_with(slot + 1, || (0, Entry::Free));
        }
        self.slots[slot] = (peer.generation, entry);
    }

    /// Takes a peer out, to change or to remove it.
    #[inline]
    pub(crate) fn take(&mut self, peer: Peer) -> Entry {
        self.look();
        match self.slots.get_mut(peer.slot as usize) {
            Some((generation, entry)) if *generation == peer.generation => std::mem::take(entry),
            _ => Entry::Free,
        }
    }

    /// Puts a client back, or adds a new one.
    #[inline]
    pub(crate) fn put_client(&mut self, client: Box<ClientSlot>) {
        self.put_back(client.peer, Entry::Client(client));
    }

    /// Puts a server back, or adds a new one.
    #[inline]
    pub(crate) fn put_server(&mut self, server: Box<ServerSlot>) {
        self.put_back(server.peer, Entry::Server(server));
    }

    #[inline]
    fn put_back(&mut self, peer: Peer, entry: Entry) {
        match self.slots.get_mut(peer.slot as usize) {
            Some((generation, place @ Entry::Free)) if *generation == peer.generation => {
                // Nothing is to be dropped there, which an assignment would ask.
                std::mem::forget(std::mem::replace(place, entry));
            }
            _ => self.put(peer, entry),
        }
    }

    #[inline]
    pub(crate) fn take_client(&mut self, peer: Peer) -> Option<Box<ClientSlot>> {
        self.look();
        match self.slots.get_mut(peer.slot as usize) {
            Some((generation, entry @ Entry::Client(_))) if *generation == peer.generation => {
                if let Entry::Client(client) = std::mem::take(entry) { Some(client) } else { None }
            }
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn take_server(&mut self, peer: Peer) -> Option<Box<ServerSlot>> {
        self.look();
        match self.slots.get_mut(peer.slot as usize) {
            Some((generation, entry @ Entry::Server(_))) if *generation == peer.generation => {
                if let Entry::Server(server) = std::mem::take(entry) { Some(server) } else { None }
            }
            _ => None,
        }
    }

    /// The number of slots; some are free.
    pub(crate) fn slots(&self) -> u32 {
        self.slots.len() as u32
    }

    /// The client in a slot.
    pub(crate) fn client_at(&self, slot: u32) -> Option<&ClientSlot> {
        self.look();
        if let Some((_, Entry::Client(client))) = self.slots.get(slot as usize) { Some(client) } else { None }
    }

    /// The server in a slot.
    pub(crate) fn server_at(&self, slot: u32) -> Option<&ServerSlot> {
        self.look();
        if let Some((_, Entry::Server(server))) = self.slots.get(slot as usize) { Some(server) } else { None }
    }

    /// A server, for reading.
    pub(crate) fn get_server(&self, peer: Peer) -> Option<&ServerSlot> {
        self.look();
        match self.slots.get(peer.slot as usize) {
            Some((generation, Entry::Server(server))) if *generation == peer.generation => Some(server),
            _ => None,
        }
    }

    /// A client, for reading.
    pub(crate) fn get_client(&self, peer: Peer) -> Option<&ClientSlot> {
        self.look();
        match self.slots.get(peer.slot as usize) {
            Some((generation, Entry::Client(client))) if *generation == peer.generation => Some(client),
            _ => None,
        }
    }

    pub(crate) fn client(&mut self, peer: Peer) -> Option<&mut ClientSlot> {
        self.look();
        match self.slots.get_mut(peer.slot as usize) {
            Some((generation, Entry::Client(client))) if *generation == peer.generation => Some(client),
            _ => None,
        }
    }

    pub(crate) fn server(&mut self, peer: Peer) -> Option<&mut ServerSlot> {
        self.look();
        match self.slots.get_mut(peer.slot as usize) {
            Some((generation, Entry::Server(server))) if *generation == peer.generation => Some(server),
            _ => None,
        }
    }

    /// A connection of a cancel request, for reading.
    pub(crate) fn get_cancel(&self, peer: Peer) -> Option<&CancelSlot> {
        match self.slots.get(peer.slot as usize) {
            Some((generation, Entry::Cancel(cancel))) if *generation == peer.generation => Some(cancel),
            _ => None,
        }
    }

    pub(crate) fn cancel(&mut self, peer: Peer) -> Option<&mut CancelSlot> {
        match self.slots.get_mut(peer.slot as usize) {
            Some((generation, Entry::Cancel(cancel))) if *generation == peer.generation => Some(cancel),
            _ => None,
        }
    }

    pub(crate) fn forward(&mut self, peer: Peer) -> Option<&mut ForwardSlot> {
        match self.slots.get_mut(peer.slot as usize) {
            Some((generation, Entry::Forward(forward))) if *generation == peer.generation => Some(forward),
            _ => None,
        }
    }

    pub(crate) fn ending(&mut self, peer: Peer) -> Option<&mut EndingSlot> {
        match self.slots.get_mut(peer.slot as usize) {
            Some((generation, Entry::Ending(ending))) if *generation == peer.generation => Some(ending),
            _ => None,
        }
    }

    /// The host that a probe is for.
    pub(crate) fn probe(&self, peer: Peer) -> Option<&Target> {
        match self.slots.get(peer.slot as usize) {
            Some((generation, Entry::Probe(target))) if *generation == peer.generation => Some(target),
            _ => None,
        }
    }

    /// Whether a peer is there, and waits to be woken at this very moment.
    pub(crate) fn is_armed(&mut self, peer: Peer, when: Time) -> bool {
        match self.slots.get(peer.slot as usize) {
            Some((generation, entry)) if *generation == peer.generation => match entry {
                Entry::Client(client) => client.armed == when,
                Entry::Server(server) => server.armed == when,
                Entry::Cancel(cancel) => cancel.armed == when,
                Entry::Forward(forward) => forward.armed == when,
                Entry::Ending(ending) => ending.armed == when,
                // It has no timer.
                Entry::Probe(_) => false,
                // Taken out to be worked on.
                Entry::Free => true,
            },
            _ => false,
        }
    }

    /// The process ids of this worker's cancel keys count on from this number.
    pub(crate) fn begin_pids_at(&mut self, count: u64) {
        self.pids.begin_at(count);
    }

    /// Gives a client, which is out of the table, the process id of its cancel key. `own_peer`: this process's number among
    /// its peers, 0 without any.
    pub(crate) fn issue_pid(&mut self, worker: (WorkerId, u16), own_peer: u16, client: &mut ClientSlot) {
        if own_peer > 0 {
            return client.cancel.become_peer_key(self.pids.issue_bytes(worker), own_peer);
        }
        let slots = &self.slots;
        let has = |slot: u32, low, mask| match slots.get(slot as usize) {
            Some((_, Entry::Client(client))) => client.cancel.pid() & mask == low,
            _ => false,
        };
        let pid = self.pids.issue(worker, (client.peer.slot, slots.len() as u32), has);
        client.cancel.set_pid(pid);
    }

    /// The client that may have this process id, which this worker issued.
    pub(crate) fn client_with_pid(&mut self, pid: u32) -> Option<&mut ClientSlot> {
        self.look();
        match self.slots.get_mut(self.pids.slot(pid)? as usize) {
            Some((_, Entry::Client(client))) => Some(client),
            _ => None,
        }
    }

    pub(crate) fn clients(&self) -> impl Iterator<Item = &ClientSlot> {
        self.slots
            .iter()
            .inspect(|_| self.look())
            .filter_map(|(_, e)| if let Entry::Client(client) = e { Some(&**client) } else { None })
    }

    /// How many connections are closed here that the server has not ended yet.
    pub(crate) fn endings(&self) -> usize {
        self.slots.iter().inspect(|_| self.look()).filter(|(_, e)| matches!(e, Entry::Ending(_))).count()
    }

    pub(crate) fn servers(&self) -> impl Iterator<Item = &ServerSlot> {
        self.slots
            .iter()
            .inspect(|_| self.look())
            .filter_map(|(_, e)| if let Entry::Server(server) = e { Some(&**server) } else { None })
    }
}
