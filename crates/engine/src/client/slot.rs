//! A client in the table of connections, and its phases.

use std::ops::Deref;
use std::sync::Arc;

use weir_base::{ClientAddr, ConnId, Time};
use weir_session::startup::{Replication, StartupRequest};
use weir_session::{Client, ParamTable};

use crate::admin::console::Console;
use crate::cancel::key::CancelSecret;
use crate::client_login::state::{Delayed, Handoff, LoginPhase, SslNegotiation};
use crate::handles::{NO_POOL, PoolIx};
use crate::link::stream::Stream;
use crate::port::Io;
use crate::reading::{Reading, Reason};
use crate::secured::Secured;
use crate::workers::quota::ClientUse;

/// A client. Other rooms read its [`ClientRow`], and change it by the methods here.
pub(crate) struct ClientSlot {
    row: ClientRow,
}

impl Deref for ClientSlot {
    type Target = ClientRow;

    #[inline]
    fn deref(&self) -> &ClientRow {
        &self.row
    }
}

/// What other rooms may read of a client.
pub(crate) struct ClientRow {
    pub(crate) conn: ConnId,
    /// Unique in the process.
    pub(crate) id: u64,
    pub(crate) addr: ClientAddr,
    pub(crate) phase: ClientPhase,
    /// The client's pool, once the client has logged in.
    pub(crate) pool: PoolIx,
    /// The client's server.
    pub(crate) link: Option<ConnId>,
    /// Input that can't be handled yet. Bounded: the client is paused while this is not empty, so it holds at most one
    /// read of the runtime.
    pub(crate) waiting: Vec<u8>,
    /// Why the client is not read from.
    pub(crate) reading: Reading,
    /// The client's server was lost within a message to the client: nothing more can be sent to the client.
    pub(crate) cut: bool,
    /// Whether the client has closed its side while it had a server.
    pub(crate) ended: Ended,
    /// The log has a line that a statement of this client was refused: one is enough.
    pub(crate) statements_refused: bool,
    pub(crate) user: Arc<str>,
    /// The result of the client's TLS handshake; `None` without encryption.
    pub(crate) tls: Option<Box<Secured>>,
    /// The keys under which the client counts, if clients are limited and it is admitted.
    pub(crate) counts_for: Option<Box<ClientUse>>,
    pub(crate) connected_at: Time,
    /// When the client last requested a server, or sent something.
    pub(crate) request_at: Time,
    /// The client's earliest timer.
    pub(crate) armed: Time,
    /// Until when the client stays at this worker.
    pub(crate) rests_until: Time,
    /// Whether the client counts among those without a login.
    pub(crate) counted: bool,
    /// The secret that a cancel request must contain, once the client has logged in.
    pub(crate) cancel: CancelSecret,
}

/// How a client's side was closed while the client had a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ended {
    /// It is open.
    No,
    /// Behind what is still to be read from it, as a Terminate.
    Paused,
    /// After whole messages, of which none is a Terminate.
    Unannounced,
}

/// The phase of a client.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are ready, and a box would be one access more for each message"
)]
pub(crate) enum ClientPhase {
    /// The connection is from a load balancer: a PROXY header must follow.
    Header,
    /// The client's first packet must follow; it may still send this many requests for encryption. Whether the last one
    /// was for TLS, which is not offered.
    Opening { asks_left: u8, declined: bool },
    /// A TLS handshake is under way, which the client began like this.
    Handshake(SslNegotiation),
    /// The client's socket is being moved to another worker.
    Moving(Box<Handoff>),
    /// An auth_query for the user's secret is under way.
    AuthLookup(Arc<StartupRequest>),
    /// Authentication.
    Login(Box<LoginPhase>),
    /// Authentication has failed, and the refusal is delayed.
    Delayed(Box<Delayed>),
    /// The client is authenticated, and waits for the parameters of its pool's servers.
    Welcome(Box<LoginPhase>),
    /// The client may send queries.
    Ready(Client),
    /// The client replicates, on a server of its own.
    Streaming(Box<Stream>),
    /// The client is an operator.
    Console(Box<Console>),
    /// The client sent a cancel request, and is closed when that has ended.
    Canceller,
    /// The client is being removed.
    Gone,
}

impl ClientPhase {
    /// The first phase of clients, except for load balancers: each kind of encryption request is allowed once.
    pub(crate) const OPENING: ClientPhase = ClientPhase::Opening { asks_left: 2, declined: false };

    /// Whether the client, logged in to a pool, moves to another worker or process.
    pub(crate) fn moves_session(&self) -> bool {
        matches!(self, ClientPhase::Moving(handoff) if matches!(**handoff, Handoff::Upgrade | Handoff::Move(..)))
    }

    /// Whether the client is not authenticated.
    pub(crate) fn is_unauthenticated(&self) -> bool {
        match self {
            ClientPhase::Moving(_) => !self.moves_session(),
            ClientPhase::Header
            | ClientPhase::Opening { .. }
            | ClientPhase::Handshake(_)
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

    /// Whether the rooms of logins and operators know the client.
    pub(crate) fn concerns_others(&self) -> bool {
        matches!(
            self,
            ClientPhase::Console(_) | ClientPhase::AuthLookup(_) | ClientPhase::Login(_) | ClientPhase::Delayed(_)
        )
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
    /// The client's state in SHOW CLIENTS.
    pub(crate) fn state(&self) -> &'static str {
        match self.phase {
            ClientPhase::Canceller => "active_cancel_req",
            ClientPhase::Ready(_) if self.link.is_some() => "active",
            ClientPhase::Streaming(_) => "active",
            ClientPhase::Ready(_) | ClientPhase::Welcome(_) if self.reading.has(Reason::Waits) => "waiting",
            ClientPhase::Ready(_) | ClientPhase::Welcome(_) | ClientPhase::Console(_) => "idle",
            _ if self.phase.moves_session() => "idle",
            _ => "login",
        }
    }

    /// Whether a shutdown that waits for clients waits for this one. A client that connects during a shutdown is an
    /// operator, or is refused.
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
    pub(crate) fn new(conn: ConnId, id: u64, addr: ClientAddr, phase: ClientPhase, now: Time) -> ClientSlot {
        let row = ClientRow {
            conn,
            id,
            addr,
            phase,
            pool: NO_POOL,
            link: None,
            waiting: Vec::new(),
            reading: Reading::OF_CLIENT,
            cut: false,
            ended: Ended::No,
            statements_refused: false,
            user: "".into(),
            tls: None,
            counts_for: None,
            connected_at: now,
            request_at: now,
            armed: Time::NEVER,
            rests_until: Time::START,
            counted: false,
            cancel: CancelSecret::default(),
        };
        ClientSlot { row }
    }

    /// The client's pool, once it has one.
    pub(crate) fn pool(&self) -> Option<PoolIx> {
        (self.pool != NO_POOL).then_some(self.pool)
    }

    /// The database that the client requested, while it has no pool; for operators always.
    pub(crate) fn requested_database(&self) -> &str {
        match &self.phase {
            ClientPhase::Console(console) => console.database(),
            ClientPhase::Login(phase) | ClientPhase::Welcome(phase) => &phase.request().database,
            ClientPhase::AuthLookup(request) => &request.database,
            ClientPhase::Delayed(delayed) => &delayed.database,
            _ => "",
        }
    }

    /// The application_name that the client gave; empty if it gave none, or while that is unknown.
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

    /// Whether the client's is a replication connection, as far as that is known.
    pub(crate) fn replication(&self) -> Replication {
        match &self.phase {
            ClientPhase::Streaming(stream) => stream.kind(),
            ClientPhase::Login(phase) | ClientPhase::Welcome(phase) => phase.request().replication,
            _ => Replication::None,
        }
    }

    /// Whether the client may send queries.
    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.phase, ClientPhase::Ready(_))
    }

    /// Whether the client has logged in, to a pool or the console.
    pub(crate) fn has_logged_in(&self) -> bool {
        self.is_pooled() || matches!(self.phase, ClientPhase::Console(_))
    }

    /// Whether the client has a pool, and has logged in or is about to receive its login messages.
    pub(crate) fn is_pooled(&self) -> bool {
        matches!(self.phase, ClientPhase::Ready(_) | ClientPhase::Streaming(_) | ClientPhase::Welcome(_))
    }

    /// The session, if the client is ready for queries.
    pub(crate) fn ready(&mut self) -> Option<&mut Client> {
        if let ClientPhase::Ready(client) = &mut self.row.phase { Some(client) } else { None }
    }
}

/// What changes in a client's life.
impl ClientSlot {
    /// The client enters another phase.
    #[inline]
    pub(crate) fn enter(&mut self, phase: ClientPhase) {
        self.row.phase = phase;
    }

    /// Takes the client's phase, to make another phase of it: until then the phase is [`ClientPhase::Gone`].
    pub(crate) fn take_phase(&mut self) -> ClientPhase {
        std::mem::replace(&mut self.row.phase, ClientPhase::Gone)
    }

    /// The client's phase, to be changed.
    #[inline]
    pub(crate) fn phase_mut(&mut self) -> &mut ClientPhase {
        &mut self.row.phase
    }

    /// Both the client's phase and the buffer of its input.
    pub(crate) fn phase_and_waiting(&mut self) -> (&mut ClientPhase, &mut Vec<u8>) {
        (&mut self.row.phase, &mut self.row.waiting)
    }

    /// What is left of a client that is out of the table for good.
    pub(crate) fn into_row(self) -> ClientRow {
        self.row
    }

    /// The client is not read from, for this reason too.
    #[inline]
    pub(crate) fn pause<I: Io>(&mut self, reason: Reason, io: &mut I) {
        if self.row.reading.add(reason) {
            io.pause(self.row.conn);
        }
    }

    /// This reason not to read from the client is gone.
    #[inline]
    pub(crate) fn resume<I: Io>(&mut self, reason: Reason, io: &mut I) {
        if self.row.reading.remove(reason) {
            io.resume(self.row.conn);
        }
    }

    /// The client has this server.
    #[inline]
    pub(crate) fn linked(&mut self, server: ConnId) {
        self.row.link = Some(server);
    }

    /// The client has no server any more; returns the one that it had.
    #[inline]
    pub(crate) fn unlinked(&mut self) -> Option<ConnId> {
        self.row.link.take()
    }

    /// The client's pool is this one.
    pub(crate) fn joined(&mut self, pool: PoolIx) {
        self.row.pool = pool;
    }

    /// The client sends something, or requests a server, or has released one.
    #[inline]
    pub(crate) fn acts(&mut self, now: Time) {
        self.row.request_at = now;
    }

    /// The buffer of input that can't be handled yet.
    #[inline]
    pub(crate) fn waiting_mut(&mut self) -> &mut Vec<u8> {
        &mut self.row.waiting
    }

    /// The record of the client's earliest timer, for [`Common::arm`](crate::common::Common::arm).
    #[inline]
    pub(crate) fn armed_mut(&mut self) -> &mut Time {
        &mut self.row.armed
    }

    /// A load balancer has named the client's address.
    pub(crate) fn comes_from(&mut self, addr: ClientAddr) {
        self.row.addr = addr;
    }

    /// The client has named its user.
    pub(crate) fn named(&mut self, user: Arc<str>) {
        self.row.user = user;
    }

    /// The client's connection is encrypted.
    pub(crate) fn secured(&mut self, tls: Option<Box<Secured>>) {
        self.row.tls = tls;
    }

    /// The client connected earlier, at another worker or process.
    pub(crate) fn connected(&mut self, at: Time) {
        self.row.connected_at = at;
    }

    /// The client has come from another worker or process, and stays for a while.
    pub(crate) fn rests(&mut self, until: Time) {
        self.row.rests_until = until;
    }

    /// The client is admitted under limits of clients, and counts under these keys.
    pub(crate) fn counts_for(&mut self, counts_for: ClientUse) {
        self.row.counts_for = Some(Box::new(counts_for));
    }

    /// The client counts under no key any more; returns those under which it counted.
    pub(crate) fn counts_no_more(&mut self) -> Option<Box<ClientUse>> {
        self.row.counts_for.take()
    }

    /// Whether the client counts among those without a login.
    pub(crate) fn count(&mut self, counted: bool) {
        self.row.counted = counted;
    }

    /// The client's server was lost, maybe within a message to the client.
    pub(crate) fn lost_server(&mut self, mid_message: bool) {
        self.row.link = None;
        self.row.cut = mid_message;
    }

    /// The client has closed its side while it had a server.
    pub(crate) fn ends(&mut self, how: Ended, now: Time) {
        self.row.ended = how;
        self.row.request_at = now;
    }

    /// A statement of the client is refused. Returns whether that is its first refused one.
    pub(crate) fn is_first_refusal(&mut self) -> bool {
        !std::mem::replace(&mut self.row.statements_refused, true)
    }

    /// The secret that a cancel request must contain, to be changed.
    pub(crate) fn cancel_mut(&mut self) -> &mut CancelSecret {
        &mut self.row.cancel
    }
}
