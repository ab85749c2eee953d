//! A server in the table of connections, and its phases.

use std::ops::Deref;

use weir_base::{Peer, Target, Time};
use weir_pool::lending::BorrowRequest;
use weir_session::server_login::ServerLogin;
use weir_session::startup::Replication;
use weir_session::{Refusal, Server};

use crate::client_login::reported::Welcome;
use crate::handles::PoolIx;
use crate::link::link_clock::LinkClock;
use crate::reading::Reading;
use crate::server::connection::Connection;
use crate::server::hosts::Attempt;

/// A server. Other rooms read its [`ServerRow`], and change it by the methods here.
pub(crate) struct ServerSlot {
    row: ServerRow,
}

impl Deref for ServerSlot {
    type Target = ServerRow;

    #[inline]
    fn deref(&self) -> &ServerRow {
        &self.row
    }
}

/// What other rooms may read of a server.
pub(crate) struct ServerRow {
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
    /// Why it is not read from.
    pub(crate) reading: Reading,
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

impl ServerSlot {
    /// A server of `pool` to which a connect has begun.
    pub(crate) fn new(peer: Peer, id: u64, pool: PoolIx, target: Target, attempt: Attempt, now: Time) -> ServerSlot {
        let row = ServerRow {
            peer,
            id,
            pool,
            state: ServerState::Connecting,
            connection: Connection::new(target, attempt, now),
            link: None,
            clock: LinkClock::new(now),
            reading: Reading::of_server(),
            armed: Time::NEVER,
            cancels: 0,
            fatal_error: None,
            used: false,
            marked_for_close: false,
            dedicated: None,
            unused: false,
            granted_at: now,
        };
        ServerSlot { row }
    }

    /// The session, if it is logged in.
    #[inline]
    pub(crate) fn up(&mut self) -> Option<(&mut Server, &mut ServerPhase)> {
        if let ServerState::Up(server, phase) = &mut self.row.state { Some((server, phase)) } else { None }
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

/// What changes in a server's life.
impl ServerSlot {
    /// Why it is not read from, to be changed.
    #[inline]
    pub(super) fn reading_mut(&mut self) -> &mut Reading {
        &mut self.row.reading
    }

    /// Its login is at this step, or over.
    pub(crate) fn enter(&mut self, state: ServerState) {
        self.row.state = state;
    }

    /// What its state holds, to be changed.
    pub(crate) fn state_mut(&mut self) -> &mut ServerState {
        &mut self.row.state
    }

    /// It has this client.
    #[inline]
    pub(crate) fn linked(&mut self, client: Peer) {
        self.row.link = Some(client);
    }

    /// It has no client any more; returns the one that it had.
    #[inline]
    pub(crate) fn unlinked(&mut self) -> Option<Peer> {
        self.row.link.take()
    }

    /// A client sends queries to it.
    #[inline]
    pub(crate) fn is_in_use(&mut self) {
        self.row.used = true;
    }

    /// Whether a client has sent queries to it since this was asked last.
    #[inline]
    pub(crate) fn take_used(&mut self) -> bool {
        std::mem::take(&mut self.row.used)
    }

    /// Its client only receives its reported parameters.
    pub(crate) fn is_not_in_use(&mut self) {
        self.row.unused = true;
    }

    /// Whether that was all, since this was asked last.
    #[inline]
    pub(crate) fn take_unused(&mut self) -> bool {
        std::mem::take(&mut self.row.unused)
    }

    /// It is closed at its release, if `close`.
    pub(crate) fn mark_for_close(&mut self, close: bool) {
        self.row.marked_for_close |= close;
    }

    /// Why its next end is one.
    pub(crate) fn has_fatal_error(&mut self, error: Refusal) {
        self.row.fatal_error = Some(error);
    }

    /// Takes its last error, if that was fatal.
    pub(crate) fn take_fatal_error(&mut self) -> Option<Refusal> {
        self.row.fatal_error.take()
    }

    /// It was granted then, and is for this client only, if for one.
    pub(crate) fn granted(&mut self, at: Time, dedicated: Option<Dedicated>) {
        self.row.granted_at = at;
        self.row.dedicated = dedicated.map(Box::new);
    }

    /// Whom it is for, if for one client only.
    pub(crate) fn dedicated_mut(&mut self) -> Option<&mut Dedicated> {
        self.row.dedicated.as_deref_mut()
    }

    /// A cancel request is under way for it.
    pub(crate) fn cancel_begins(&mut self) {
        self.row.cancels += 1;
    }

    /// A cancel request has ended.
    pub(crate) fn cancel_ends(&mut self) {
        self.row.cancels = self.row.cancels.saturating_sub(1);
    }

    /// The record of its earliest timer, for [`Common::arm`](crate::common::Common::arm).
    #[inline]
    pub(crate) fn armed_mut(&mut self) -> &mut Time {
        &mut self.row.armed
    }

    /// The times of events on its link.
    #[inline]
    pub(crate) fn clock_mut(&mut self) -> &mut LinkClock {
        &mut self.row.clock
    }

    /// Where it is, and how it was reached.
    pub(crate) fn connection_mut(&mut self) -> &mut Connection {
        &mut self.row.connection
    }

    /// It comes to this worker: its handle, and its pool, are others.
    pub(crate) fn moves_to(&mut self, peer: Peer, pool: PoolIx) {
        (self.row.peer, self.row.pool) = (peer, pool);
    }

    /// It leaves this worker: nothing stops reading from it any more. Returns whether it had a timer.
    pub(crate) fn leaves_worker(&mut self) -> bool {
        self.row.reading = Reading::of_server();
        std::mem::replace(&mut self.row.armed, Time::NEVER) != Time::NEVER
    }
}
