//! The table of peers: what stands behind each handle.
//!
//! Owns the states of clients, servers and cancel requests as the engine sees them. A session is taken out of the table
//! while it is worked on, so that both ends of a link can be changed at once, and put back after.

use std::sync::Arc;

use weir_base::{ClientAddr, Peer, Target, Time};
use weir_pool::lending::BorrowRequest;
use weir_session::server_login::ServerLogin;
use weir_session::startup::StartupRequest;
use weir_session::{Client, Refusal, Server};

use crate::admin::console::Console;
use crate::backends::connection::Connection;
use crate::backends::hosts::Attempt;
use crate::cluster::quota::ClientUse;
use crate::entry::state::{Delayed, Handoff, LoginPhase, SslNegotiation};
use crate::handles::{NO_POOL, PoolIx};
use crate::secured::Secured;
use crate::traffic::cancel_key::CancelSecret;
use crate::traffic::cancel_state::CancelSlot;
use crate::traffic::link_clock::LinkClock;
use crate::traffic::reading::ServerReading;

/// What stands behind a handle.
#[derive(Default)]
pub(crate) enum Entry {
    /// Nothing, or what is taken out just now.
    #[default]
    Free,
    Client(Box<ClientSlot>),
    Server(Box<ServerSlot>),
    Cancel(Box<CancelSlot>),
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
    /// What it sent that can't be handled yet. Bounded: the client is paused while this holds anything, so it is what one
    /// turn of the runtime reads.
    pub(crate) waiting: Vec<u8>,
    pub(crate) pause: Pause,
    /// Its server was lost in the middle of a message to it: nothing more can be sent to it.
    pub(crate) cut: bool,
    /// It has closed its side while it had a server and was not read from.
    pub(crate) ended: bool,
    /// The log has a line that it reached a limit on statements.
    pub(crate) statements_refused: bool,
    pub(crate) user: Arc<str>,
    /// What its handshake has shown; `None` without encryption.
    pub(crate) tls: Option<Box<Secured>>,
    /// What it counts for, where clients are limited and it is admitted.
    pub(crate) counts_for: Option<Box<ClientUse>>,
    pub(crate) connected_at: Time,
    /// When it last asked for a server, or was last heard of.
    pub(crate) request_at: Time,
    /// Its earliest wake-up in the timers.
    pub(crate) armed: Time,
    /// What it is charged for while it is unauthenticated.
    pub(crate) charged: u32,
    /// What a cancel request must name.
    pub(crate) cancel: CancelSecret,
}

/// Why a client is not read from. Reading goes on when none is left.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Pause {
    /// It waits: for a server, a prelude, a helper.
    pub(crate) waits: bool,
    /// Its server's socket is full.
    pub(crate) peer_full: bool,
    /// Its own socket is full: it does not read what it asked for, so it may not ask for more.
    pub(crate) full: bool,
    /// Everything is suspended.
    pub(crate) suspended: bool,
}

impl Pause {
    pub(crate) fn any(self) -> bool {
        self != Pause::default()
    }
}

/// Where a client is in its life.
pub(crate) enum ClientPhase {
    /// It is a load balancer: a PROXY header is awaited.
    Header,
    /// Its first packet is awaited; it may ask for encryption so many times yet.
    Opening { asks_left: u8 },
    /// A handshake is under way, which it asked for like this.
    Handshake(SslNegotiation),
    /// Its socket is on the way to another worker.
    Moving(Box<Handoff>),
    /// A server is asked for its secret.
    AuthLookup(Box<StartupRequest>),
    /// It proves who it is.
    Login(Box<LoginPhase>),
    /// It failed to, and its refusal is delayed.
    Delayed(Box<Delayed>),
    /// It is authenticated, and waits for what its pool's servers report.
    Welcome(Box<LoginPhase>),
    /// It may ask.
    Ready(Client),
    /// It is an operator.
    Console(Box<Console>),
    /// It asked for a cancel, and is closed when that is done.
    Canceller,
    /// It is being taken out.
    Gone,
}

/// A server.
pub(crate) struct ServerSlot {
    pub(crate) peer: Peer,
    pub(crate) id: u64,
    pub(crate) pool: PoolIx,
    pub(crate) state: ServerState,
    /// Where it is, and how it was reached.
    pub(crate) connection: Connection,
    /// Its client; also while the link is being made.
    pub(crate) link: Option<Peer>,
    /// When things happened on its link.
    pub(crate) clock: LinkClock,
    /// Whether it is read from.
    pub(crate) reading: ServerReading,
    /// Its earliest wake-up in the timers.
    pub(crate) armed: Time,
    /// Cancel requests under way for it: it is not given away before they are over.
    pub(crate) cancels: u32,
    /// Its last error, if that was fatal.
    pub(crate) fatal_error: Option<Refusal>,
    /// A client has had it since it was last reset.
    pub(crate) used: bool,
    /// Close it at its release (KILL, RECONNECT).
    pub(crate) marked_for_close: bool,
    /// Its client has only been told what it reported: that is no use of it.
    pub(crate) unused: bool,
}

/// Where a server connection is in its life; the same names in SHOW SERVERS.
#[allow(clippy::large_enum_variant)]
pub(crate) enum ServerState {
    Connecting,
    /// Asked whether it can encrypt; one byte is awaited.
    SslRequest,
    /// In the handshake.
    TlsHandshake,
    Login(Box<ServerLogin>),
    /// Logged in, and doing this. Inline: a server's slot is boxed as a whole, and all but its first moments are these.
    Up(Server, ServerPhase),
}

/// What a server that is logged in is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ServerPhase {
    /// Answering whether it is good for the pool. Its pool knows it as logging in.
    CheckingRole,
    /// Running the query that each new server begins with. Its pool knows it as logging in.
    ConnectQuery,
    /// Idle in the pool.
    Idle,
    /// Answering a check before it is linked.
    Checking,
    /// Taking over its next client's parameters.
    SyncingParameters,
    /// Working for its client.
    Linked,
    /// Being cleaned of what its client left.
    Resetting(Reset),
    /// Running the query that it began with once more, after a reset.
    ConnectQueryAgain,
    /// Being asked for a user's secret; the question's handle.
    AuthQuery(Peer),
    /// On its way to a guest of the pool, for this request; `check`: to be checked there first.
    Lending { request: BorrowRequest, check: bool },
    /// On its way home from a guest.
    Returning,
}

/// Why a server is being cleaned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reset {
    /// Its client left something, and `on_dirty` asks for it.
    Left,
    /// The operator wants this query at each release.
    Query,
}

impl ClientPhase {
    /// How clients begin, but for balancers: they may ask for encryption once for each kind.
    pub(crate) const OPENING: ClientPhase = ClientPhase::Opening { asks_left: 2 };

    /// Whether the client has not proven who it is.
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
            | ClientPhase::Console(_)
            | ClientPhase::Canceller
            | ClientPhase::Gone => false,
        }
    }
}

impl ClientSlot {
    /// Where it is, for SHOW CLIENTS.
    pub(crate) fn state(&self) -> &'static str {
        match self.phase {
            ClientPhase::Canceller => "active_cancel_req",
            ClientPhase::Ready(_) if self.link.is_some() => "active",
            ClientPhase::Ready(_) | ClientPhase::Welcome(_) if self.pause.waits => "waiting",
            ClientPhase::Ready(_) | ClientPhase::Welcome(_) | ClientPhase::Console(_) => "idle",
            _ => "login",
        }
    }

    /// Whether a shutdown that waits for clients waits for it. Who comes during one is an operator, or is refused.
    pub(crate) fn is_waited_for(&self) -> bool {
        match &self.phase {
            ClientPhase::Header | ClientPhase::Opening { .. } | ClientPhase::Handshake(_) | ClientPhase::Console(_) => {
                false
            }
            ClientPhase::Login(phase) => !phase.is_console(),
            _ => true,
        }
    }

    /// A client that has just come.
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
            charged: 0,
            cancel: CancelSecret::new(cancel_secret),
        }
    }

    /// Its pool, once it has one.
    pub(crate) fn pool(&self) -> Option<PoolIx> {
        (self.pool != NO_POOL).then_some(self.pool)
    }

    /// The database that it has asked for, as long as it has no pool; operators, all the time.
    pub(crate) fn requested_database(&self) -> &str {
        match &self.phase {
            ClientPhase::Console(console) => console.database(),
            ClientPhase::Login(phase) | ClientPhase::Welcome(phase) => &phase.request().database,
            ClientPhase::AuthLookup(request) => &request.database,
            ClientPhase::Delayed(delayed) => &delayed.database,
            _ => "",
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
        matches!(self.phase, ClientPhase::Ready(_) | ClientPhase::Welcome(_))
    }

    /// The session, once it may ask.
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
            unused: false,
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

    /// Whether its client is in a transaction, and asks nothing.
    pub(crate) fn is_idle_in_transaction(&self) -> bool {
        self.link.is_some() && self.clock.holding().silence != Time::NEVER
    }

    /// Whether its pool knows it as logging in still.
    pub(crate) fn is_new(&self) -> bool {
        matches!(self.phase(), None | Some(ServerPhase::CheckingRole | ServerPhase::ConnectQuery))
    }
}

/// The table.
#[derive(Default)]
pub(crate) struct Peers {
    slots: Vec<(u32, Entry)>,
    /// How many slots have been looked at, for tests: work that grows with the number of clients shows here.
    #[cfg(test)]
    looks: std::cell::Cell<u64>,
}

impl Peers {
    /// A slot is looked at.
    #[inline]
    fn look(&self) {
        #[cfg(test)]
        self.looks.set(self.looks.get() + 1);
    }

    /// How many slots have been looked at so far.
    #[cfg(test)]
    pub(crate) fn looks(&self) -> u64 {
        self.looks.get()
    }

    /// Puts a new peer in. A handle whose slot is still taken breaks the port's rules.
    pub(crate) fn put(&mut self, peer: Peer, entry: Entry) {
        let slot = peer.slot as usize;
        if slot >= self.slots.len() {
            self.slots.resize_with(slot + 1, || (0, Entry::Free));
        }
        self.slots[slot] = (peer.generation, entry);
    }

    /// Takes a peer out to work on it, or for good.
    #[inline]
    pub(crate) fn take(&mut self, peer: Peer) -> Entry {
        self.look();
        match self.slots.get_mut(peer.slot as usize) {
            Some((generation, entry)) if *generation == peer.generation => std::mem::take(entry),
            _ => Entry::Free,
        }
    }

    /// Puts a client back that was taken out, or a new one in.
    #[inline]
    pub(crate) fn put_client(&mut self, client: Box<ClientSlot>) {
        self.put_back(client.peer, Entry::Client(client));
    }

    /// Puts a server back that was taken out, or a new one in.
    #[inline]
    pub(crate) fn put_server(&mut self, server: Box<ServerSlot>) {
        self.put_back(server.peer, Entry::Server(server));
    }

    #[inline]
    fn put_back(&mut self, peer: Peer, entry: Entry) {
        match self.slots.get_mut(peer.slot as usize) {
            Some((generation, place @ Entry::Free)) if *generation == peer.generation => *place = entry,
            _ => self.put(peer, entry),
        }
    }

    #[inline]
    pub(crate) fn take_client(&mut self, peer: Peer) -> Option<Box<ClientSlot>> {
        match self.take(peer) {
            Entry::Client(client) => Some(client),
            other => {
                self.put_if(peer, other);
                None
            }
        }
    }

    #[inline]
    pub(crate) fn take_server(&mut self, peer: Peer) -> Option<Box<ServerSlot>> {
        match self.take(peer) {
            Entry::Server(server) => Some(server),
            other => {
                self.put_if(peer, other);
                None
            }
        }
    }

    fn put_if(&mut self, peer: Peer, entry: Entry) {
        if !matches!(entry, Entry::Free) {
            self.put(peer, entry);
        }
    }

    /// How many slots there are; some are free.
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

    /// A server to look at.
    pub(crate) fn get_server(&self, peer: Peer) -> Option<&ServerSlot> {
        self.look();
        match self.slots.get(peer.slot as usize) {
            Some((generation, Entry::Server(server))) if *generation == peer.generation => Some(server),
            _ => None,
        }
    }

    /// A client to look at.
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

    /// A connection for a cancel request, to look at.
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

    /// Whether a peer is there, and waits to be woken at this very moment.
    pub(crate) fn is_armed(&mut self, peer: Peer, when: Time) -> bool {
        match self.slots.get(peer.slot as usize) {
            Some((generation, entry)) if *generation == peer.generation => match entry {
                Entry::Client(client) => client.armed == when,
                Entry::Server(server) => server.armed == when,
                Entry::Cancel(cancel) => cancel.armed == when,
                // Taken out to be worked on.
                Entry::Free => true,
            },
            _ => false,
        }
    }

    /// The client in a slot, whatever its generation.
    pub(crate) fn client_in_slot(&mut self, slot: u32) -> Option<&mut ClientSlot> {
        self.look();
        match self.slots.get_mut(slot as usize) {
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

    pub(crate) fn servers(&self) -> impl Iterator<Item = &ServerSlot> {
        self.slots
            .iter()
            .inspect(|_| self.look())
            .filter_map(|(_, e)| if let Entry::Server(server) = e { Some(&**server) } else { None })
    }
}
