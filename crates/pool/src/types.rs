//! The inputs and answers of a pool. Values only; the rules are in [`crate::Pool`].

use weir_base::{ConnId, Span, Time};

/// The limits of one pool. Names are PgBouncer's; a span of zero means "no limit" unless stated otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The most servers, reserve aside; 0 is unlimited.
    pub size: u32,
    /// How many servers are kept open while there is demand; `size` caps it.
    pub min_size: u32,
    /// How many servers more than `size` may be opened for clients that waited for `reserve_timeout`.
    pub reserve_size: u32,
    /// How long the oldest client must have waited before the reserve is used; zero: it never is.
    pub reserve_timeout: Span,
    /// After this wait a client is refused. It counts during a pause too, as in PgBouncer.
    pub query_wait_timeout: Span,
    /// After this wait a client receives one notice that it is queued. Not during a pause, as in PgBouncer.
    pub query_wait_notify: Span,
    /// An unlinked server older than this is closed. Zero: a server is used once (PgBouncer's documentation,
    /// config.md).
    pub server_lifetime: Span,
    /// A server idle for longer than this is closed, unless `min_size` needs it.
    pub server_idle_timeout: Span,
    /// A server that has not finished its login after this time is closed.
    pub server_connect_timeout: Span,
    /// The longest pause after a failed login; the first pauses are shorter, as are all while clients wait for a server
    /// that is away (see [`ConnectFailure`]).
    pub server_login_retry: Span,
    /// A server unused for this long is checked when it is handed out; zero: at every hand-out.
    pub server_check_delay: Span,
    /// Whether hand-outs are checked at all.
    pub checks: bool,
    /// Hand out the server that has been idle longest, instead of the one used last.
    pub round_robin: bool,
    /// The most connects begun a second, with bursts of a second's worth; 0 is unlimited.
    pub connects_per_second: u32,
    /// The most clients that may wait; 0 is unlimited.
    pub max_waiting: u32,
}

impl Settings {
    /// The most servers, with this many more than `size`; `u32::MAX` where the size is unlimited.
    pub fn most(&self, more: u32) -> u32 {
        if self.size == 0 { u32::MAX } else { self.size.saturating_add(more) }
    }
}

/// The answer to a client that needs a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acquire {
    /// The client has a server.
    Granted {
        /// The client's server, until [`crate::Pool::release`] or [`crate::Pool::lost`].
        server: ConnId,
        /// Whether the server must be checked before it is used.
        check: bool,
    },
    /// The client waits; a [`Release::Next`], [`Effect::Grant`] or [`Effect::Refuse`] will name it.
    Queued,
    /// The client gets no server and does not wait.
    Refused(RefuseReason),
}

/// Why a client gets no server. A full pool, a dead server and a hit limit are different answers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RefuseReason {
    /// The pool was full for all of `query_wait_timeout`.
    WaitTimeout,
    /// No server is left, and the last login failed in a way that waiting does not change.
    ServerDown,
    /// `max_waiting` clients wait already.
    TooManyWaiting,
    /// The pool hands out nothing any more.
    ShuttingDown,
}

/// What happens to a server that is clean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Release {
    /// The server is assigned to the client that waited longest.
    Next {
        /// The server's new owner.
        client: ConnId,
        /// How long the client waited.
        waited: Span,
        /// Whether the server must be checked before it is used.
        check: bool,
    },
    /// The server stays, idle.
    Idle,
    /// The server is to be closed; the pool has forgotten it.
    Close(CloseReason),
}

/// How a login to the server ended without a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConnectFailure {
    /// The login failed, and waiting would not help. The next try waits for 1 s, doubling up to `server_login_retry`;
    /// until then, with no server left, waiting and new clients are refused at once.
    Refused,
    /// The server is away: unreachable, shutting down, starting up. Clients keep waiting. While one does, the next try
    /// begins after 20 ms, doubling up to 50 ms; otherwise as after [`ConnectFailure::Refused`].
    Away,
    /// The server answers, and is not ready for this pool. Clients keep waiting. While one does, the next try begins
    /// after 100 ms, doubling up to 1 s.
    NotReady,
    /// There is another way to a server that has not been tried since the last success: it may be tried at once, and no
    /// client is refused for this failure.
    Elsewhere,
}

/// When a server that goes from one pool to another was connected, and when it is old.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ages {
    /// When the server's login was done.
    pub connected_at: Time,
    /// When the server is closed for its age.
    pub expires: Time,
}

/// What the pool requests of the engine. Each effect is returned once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Connect to the server, and answer with [`crate::Pool::opening`] or [`crate::Pool::open_declined`].
    Open,
    /// Close this server; the pool has forgotten it.
    Close {
        /// Which server.
        server: ConnId,
        /// Why the server is closed.
        reason: CloseReason,
    },
    /// This client waits no longer and gets no server.
    Refuse {
        /// Which client.
        client: ConnId,
        /// Why the client gets no server.
        why: RefuseReason,
        /// How long the client had waited.
        waited: Span,
    },
    /// This client has waited for `query_wait_notify`, and continues waiting.
    Notice {
        /// Which client.
        client: ConnId,
        /// How long the client has waited so far.
        waited: Span,
    },
    /// This client waits no longer: it has this server.
    Grant {
        /// The server's new owner.
        client: ConnId,
        /// The client's server.
        server: ConnId,
        /// How long the client had waited.
        waited: Span,
        /// Whether the server must be checked before it is used.
        check: bool,
    },
}

/// Why the pool closes a server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CloseReason {
    /// Older than `server_lifetime`.
    Lifetime,
    /// Idle for `server_idle_timeout`.
    Idle,
    /// Opened before [`crate::Pool::reconnect`].
    Reconnect,
    /// The pool was made smaller.
    TooMany,
    /// The pool is paused.
    Pause,
    /// The pool is shut.
    Shutdown,
    /// The operator requested it ([`crate::Pool::close_idle`]).
    Killed,
    /// Another pool needs the room ([`crate::Pool::evict`]).
    Evicted,
    /// The login took longer than `server_connect_timeout`.
    ConnectTimeout,
    /// The server was opened for one client, which has left.
    OwnerLeft,
}

impl CloseReason {
    /// The reason as PgBouncer logs it.
    pub fn text(self) -> &'static str {
        match self {
            CloseReason::Lifetime => "server lifetime over",
            CloseReason::Idle => "server idle timeout",
            CloseReason::Reconnect => "database configuration changed",
            CloseReason::TooMany => "too many servers in the pool",
            CloseReason::Pause => "pause mode",
            CloseReason::Shutdown => "server shutting down",
            CloseReason::Killed => "database removed",
            CloseReason::Evicted => "evicted",
            CloseReason::ConnectTimeout => "connect timeout",
            CloseReason::OwnerLeft => "replication client was closed",
        }
    }
}

/// Where a server is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServerState {
    /// Connecting, or logging in.
    Login,
    /// Owned by this client.
    Linked(ConnId),
    /// Free.
    Idle {
        /// Since when.
        since: Time,
    },
    /// About to be named by [`Effect::Close`].
    Closing,
}

/// A pool's figures at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PoolSnapshot {
    /// Servers linked to a client.
    pub active: u32,
    /// Servers that are free.
    pub idle: u32,
    /// Servers logging in: 0 or 1.
    pub login: u32,
    /// Clients that wait.
    pub waiting: u32,
    /// How long the first of them has waited.
    pub oldest_wait: Span,
    /// Whether the pool is paused or suspended.
    pub paused: bool,
    /// While the last login failed: when the next one may begin.
    pub retry_at: Option<Time>,
}
