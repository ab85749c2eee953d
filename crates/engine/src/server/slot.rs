//! A server in the table of connections, and its phases.

use std::ops::Deref;

use weir_base::{ConnId, Target, Time};
use weir_pool::lending::BorrowRequest;
use weir_session::server_login::ServerLogin;
use weir_session::startup::Replication;
use weir_session::{Left, Refusal, Server};

use crate::client_login::reported::Welcome;
use crate::handles::PoolIx;
use crate::link::link_clock::LinkClock;
use crate::reading::Reading;
use crate::server::connection::Connection;
use crate::server::hosts::Attempt;
use crate::server::pinned::Pinned;

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
    pub(crate) conn: ConnId,
    pub(crate) id: u64,
    pub(crate) pool: PoolIx,
    pub(crate) state: ServerState,
    /// The server's target, and how it was connected.
    pub(crate) connection: Connection,
    /// The server's client; also while the link is being prepared.
    pub(crate) link: Option<ConnId>,
    /// The times of events on the server's link.
    pub(crate) clock: LinkClock,
    /// Why the server is not read from.
    pub(crate) reading: Reading,
    /// The server's earliest timer.
    pub(crate) armed: Time,
    /// Cancel requests under way for this server: it gets no other client before they have ended.
    pub(crate) cancels: u32,
    /// The server's last error, if that was fatal.
    pub(crate) fatal_error: Option<Refusal>,
    /// What the server was used for since its last release.
    pub(crate) used: Use,
    /// The server is closed at its release: it is marked for it, or `left`.
    pub(crate) closes: bool,
    /// Close the server at its release (RECONNECT, a new configuration, …).
    marked_for_close: bool,
    /// Its pool has left its host: it is closed at its release, unless the pool is back by then.
    pub(crate) left: bool,
    /// Its host may take no writes any more: it is asked at its release.
    pub(crate) doubted: bool,
    /// The server is for one client only.
    pub(crate) dedicated: Option<Box<Dedicated>>,
    /// When the server was granted, if servers are limited.
    pub(crate) granted_at: Time,
    /// Why the server's client keeps it between transactions; none: it does not.
    pub(crate) pinned: Option<Box<Pinned>>,
}

/// What a server was used for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Use {
    /// Nothing.
    #[default]
    None,
    /// A client has only received the reported parameters: for the server's age, that is no use.
    Welcome,
    /// A client has sent queries.
    Queries,
}

/// Whom a server of one client is for.
pub(crate) struct Dedicated {
    pub(crate) owner: ConnId,
    pub(crate) replication: Replication,
    /// What the server has reported, once it has logged in, until its client knows.
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
    /// The login begins once a program or a service has made the password (`password_command`, `password_source`).
    AwaitingPassword,
    Login(Box<ServerLogin>),
    /// Logged in, in this phase. Not boxed: a server's slot is boxed as a whole, and is nearly always in this state.
    Up(Server, ServerPhase),
}

/// The phase of a server that is logged in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ServerPhase {
    /// Answers whether it is fit for the pool. For its pool it is still logging in.
    CheckingRole,
    /// Its transactions are read-only: answers whether those of all others are. For its pool it is still logging in.
    CheckingHost,
    /// Is fit for the pool, which has to leave another host first. For its pool it is still logging in.
    AwaitingFence,
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
    /// Says what its client has left (`mode = "auto"`). The client waits.
    Asking,
    /// Its client waits until the pool's server that listens does what the client has been promised.
    Subscribing,
    /// Listens for the pool's clients, and does nothing else.
    Listening,
    /// The server is for one client only, and gets that client's bytes unchanged.
    Streaming,
    /// Being cleaned of the session state that its client left.
    Resetting(Reset),
    /// Runs connect_query again, after a reset.
    ConnectQueryAgain,
    /// Answers whether it is still fit for the pool.
    CheckingRoleAgain,
    /// Runs an auth_query, with this handle.
    AuthQuery(ConnId),
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
    /// The server's client left session state, and `on_dirty` requires a reset.
    Left,
    /// The operator configured this query for each release.
    Query,
}

impl ServerSlot {
    /// A server of `pool` to which a connect has begun.
    pub(crate) fn new(conn: ConnId, id: u64, pool: PoolIx, target: Target, attempt: Attempt, now: Time) -> ServerSlot {
        let row = ServerRow {
            conn,
            id,
            pool,
            state: ServerState::Connecting,
            connection: Connection::new(target, attempt, now),
            link: None,
            clock: LinkClock::new(now),
            reading: Reading::OF_SERVER,
            armed: Time::NEVER,
            cancels: 0,
            fatal_error: None,
            used: Use::None,
            closes: false,
            marked_for_close: false,
            left: false,
            doubted: false,
            dedicated: None,
            granted_at: now,
            pinned: None,
        };
        ServerSlot { row }
    }

    /// The session, if the server has logged in.
    #[inline]
    pub(crate) fn up(&mut self) -> Option<(&mut Server, &mut ServerPhase)> {
        if let ServerState::Up(server, phase) = &mut self.row.state { Some((server, phase)) } else { None }
    }

    pub(crate) fn phase(&self) -> Option<ServerPhase> {
        if let ServerState::Up(_, phase) = &self.state { Some(*phase) } else { None }
    }

    /// Whether the server's client is idle in a transaction.
    pub(crate) fn is_idle_in_transaction(&self) -> bool {
        let holding = self.clock.holding();
        self.link.is_some() && holding.client_idle != Time::NEVER && holding.query == Time::NEVER
    }

    /// Since when the server's client has read nothing of a result that waits for it; `NEVER` if it reads, or has all.
    pub(crate) fn unread_since(&self) -> Time {
        let holding = self.clock.holding();
        let reads = self.link.is_none() || holding.query == Time::NEVER;
        if reads { Time::NEVER } else { holding.client_idle }
    }

    /// Whether the server's client keeps it, and has no transaction and no request there.
    pub(crate) fn is_idle_in_session(&self) -> bool {
        let holding = self.clock.holding();
        self.phase() == Some(ServerPhase::Linked)
            && (holding.client_idle, holding.transaction) == (Time::NEVER, Time::NEVER)
    }

    /// Whether the server is still logging in, as its pool sees it.
    pub(crate) fn is_new(&self) -> bool {
        matches!(
            self.phase(),
            None | Some(
                ServerPhase::CheckingRole
                    | ServerPhase::CheckingHost
                    | ServerPhase::AwaitingFence
                    | ServerPhase::Identifying
                    | ServerPhase::ConnectQuery
            )
        )
    }
}

/// What changes in a server's life.
impl ServerSlot {
    /// Why the server is not read from, to be changed.
    #[inline]
    pub(super) fn reading_mut(&mut self) -> &mut Reading {
        &mut self.row.reading
    }

    /// The server's login is at this step, or over.
    pub(crate) fn enter(&mut self, state: ServerState) {
        self.row.state = state;
    }

    /// The server's state, to be changed.
    pub(crate) fn state_mut(&mut self) -> &mut ServerState {
        &mut self.row.state
    }

    /// The server has this client.
    #[inline]
    pub(crate) fn linked(&mut self, client: ConnId) {
        self.row.link = Some(client);
    }

    /// The server has no client any more; returns the one that it had.
    #[inline]
    pub(crate) fn unlinked(&mut self) -> Option<ConnId> {
        self.row.pinned = None;
        self.row.link.take()
    }

    /// Whether the server is kept between transactions: by its client, or to listen for all.
    pub(crate) fn is_kept(&self) -> bool {
        self.is_pinned() || self.phase() == Some(ServerPhase::Listening)
    }

    /// Whether the server's client keeps it between transactions, for what it has left.
    #[inline]
    pub(crate) fn is_pinned(&self) -> bool {
        self.pinned.is_some()
    }

    /// The server's client keeps it for what it has left, as the server has just said.
    pub(crate) fn pin(&mut self, left: &Left, now: Time) {
        match &mut self.row.pinned {
            Some(pinned) => pinned.found(left, now),
            none => *none = Some(Box::new(Pinned::new(left, now))),
        }
    }

    /// The server's client does not keep it any more.
    pub(crate) fn unpin(&mut self) {
        self.row.pinned = None;
    }

    /// The server has this client, which sends queries to it.
    #[inline]
    pub(crate) fn serves(&mut self, client: ConnId, now: Time) {
        self.row.link = Some(client);
        self.row.used = Use::Queries;
        self.row.clock.linked(now);
    }

    /// The server has this client, which only receives the reported parameters.
    pub(crate) fn welcomes(&mut self, client: ConnId) {
        self.row.link = Some(client);
        self.row.used = Use::Welcome;
    }

    /// What the server was used for since the last call.
    #[inline]
    pub(crate) fn take_use(&mut self) -> Use {
        std::mem::take(&mut self.row.used)
    }

    /// The server is closed at its release, if `close`.
    pub(crate) fn mark_for_close(&mut self, close: bool) {
        self.row.marked_for_close |= close;
        self.row.closes |= close;
    }

    /// The pool has left the server's host: it is closed when its transaction ends.
    pub(crate) fn leave(&mut self) {
        self.row.left = true;
        self.row.closes = true;
    }

    /// The pool is at the server's host again, or at any.
    pub(crate) fn stay(&mut self) {
        self.row.left = false;
        self.row.closes = self.row.marked_for_close;
    }

    /// The server's host may take no writes any more.
    pub(crate) fn doubt(&mut self) {
        self.row.doubted = true;
    }

    /// The server is asked whether its host takes writes.
    pub(crate) fn doubt_settled(&mut self) {
        self.row.doubted = false;
    }

    /// Keeps the fatal error that the server has sent: the reason for the end that follows.
    pub(crate) fn has_fatal_error(&mut self, error: Refusal) {
        self.row.fatal_error = Some(error);
    }

    /// Takes the server's last error, if that was fatal.
    pub(crate) fn take_fatal_error(&mut self) -> Option<Refusal> {
        self.row.fatal_error.take()
    }

    /// The server was granted at this time; `dedicated`: the client that it is for, if it is for one only.
    pub(crate) fn granted(&mut self, at: Time, dedicated: Option<Dedicated>) {
        self.row.granted_at = at;
        self.row.dedicated = dedicated.map(Box::new);
    }

    /// The client that the server is for, if it is for one only.
    pub(crate) fn dedicated_mut(&mut self) -> Option<&mut Dedicated> {
        self.row.dedicated.as_deref_mut()
    }

    /// A cancel request for this server is under way.
    pub(crate) fn cancel_begins(&mut self) {
        self.row.cancels += 1;
    }

    /// A cancel request for this server has ended.
    pub(crate) fn cancel_ends(&mut self) {
        self.row.cancels = self.row.cancels.saturating_sub(1);
    }

    /// The record of the server's earliest timer, for [`Common::arm`](crate::common::Common::arm).
    #[inline]
    pub(crate) fn armed_mut(&mut self) -> &mut Time {
        &mut self.row.armed
    }

    /// The times of events on the server's link.
    #[inline]
    pub(crate) fn clock_mut(&mut self) -> &mut LinkClock {
        &mut self.row.clock
    }

    /// Where the server is, and how it was reached.
    pub(crate) fn connection_mut(&mut self) -> &mut Connection {
        &mut self.row.connection
    }

    /// The server comes to this worker: its handle and its pool are others.
    pub(crate) fn moves_to(&mut self, conn: ConnId, pool: PoolIx) {
        (self.row.conn, self.row.pool) = (conn, pool);
    }

    /// The server leaves this worker: nothing stops reading from it any more. Returns whether it had a timer.
    pub(crate) fn leaves_worker(&mut self) -> bool {
        self.row.reading = Reading::OF_SERVER;
        std::mem::replace(&mut self.row.armed, Time::NEVER) != Time::NEVER
    }
}
