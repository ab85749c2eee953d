//! The next step of a login: the result of the parts of `client_login`, which `steps` carries out.

use std::sync::Arc;

use weir_config::AuthLookup;
use weir_session::Refusal;
use weir_session::startup::StartupRequest;

use crate::client_login::state::LoginPhase;

/// The result of one step of a client's login.
pub(crate) enum EntryStep {
    /// Read more bytes.
    Read,
    /// Do not read until an event: an answer of a helper, a server or another worker, or the end of a delay.
    Wait,
    /// The startup packet has arrived: select the worker of its login.
    Startup(Arc<StartupRequest>),
    /// A cancel request.
    Cancel { pid: u32, secret: Vec<u8> },
    /// Query a server for the user's secret; then start the login again.
    LookUp(Arc<StartupRequest>, AuthLookup),
    /// The authentication has succeeded, and this login with it.
    Proven(Box<LoginPhase>),
    /// The authentication has failed.
    Failed(Refusal),
    /// Send an error, and close the connection.
    Refuse(Refusal),
    /// Close the connection without an answer, which the client would not understand; log the reason as a warning.
    Drop(&'static str),
    /// Close the connection, which begins with a TLS handshake, where none is offered.
    NoTls,
    /// Close the connection without an answer, for this reason.
    Close(&'static str),
    /// The client has ended its connection with Terminate.
    Leave,
}
