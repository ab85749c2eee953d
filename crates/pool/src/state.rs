//! The states of a pool and of its servers.

use weir_base::{ConnId, Time};

use crate::table::Key;
use crate::types::{CloseReason, ServerState};

/// Whether servers are handed out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum RunState {
    /// As usual.
    Running,
    /// No, but idle servers are kept.
    Suspended,
    /// No, and servers are closed as they become free.
    Paused,
    /// Never again.
    Shut,
}

/// The one login that may be under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Login {
    /// There is none.
    None,
    /// The engine was asked to open a server.
    Asked,
    /// This server is logging in.
    Begun(Key),
}

#[derive(Clone, Debug)]
pub(crate) struct Server<P> {
    pub(crate) state: State<P>,
    /// When the connect began; after the login, when that was done.
    pub(crate) connected_at: Time,
    /// When the server is old.
    pub(crate) expires: Time,
    pub(crate) epoch: u32,
    /// The server was opened for one client, and goes with that client ([`crate::Pool::acquire_dedicated`]).
    pub(crate) dedicated: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum State<P> {
    Login,
    Linked(ConnId),
    Idle { since: Time, _proof: P },
    Closing(CloseReason),
}

impl RunState {
    /// Why servers are closed as they become free.
    pub(crate) fn closes(self) -> Option<CloseReason> {
        match self {
            RunState::Running | RunState::Suspended => None,
            RunState::Paused => Some(CloseReason::Pause),
            RunState::Shut => Some(CloseReason::Shutdown),
        }
    }
}

impl Login {
    pub(crate) fn begun(self) -> Option<Key> {
        match self {
            Login::Begun(key) => Some(key),
            Login::None | Login::Asked => None,
        }
    }
}

impl<P> State<P> {
    pub(crate) fn public(&self) -> ServerState {
        match *self {
            State::Login => ServerState::Login,
            State::Linked(client) => ServerState::Linked(client),
            State::Idle { since, .. } => ServerState::Idle { since },
            State::Closing(_) => ServerState::Closing,
        }
    }
}
