//! What is to be done next with a client that logs in: what the parts of `entry` return, and the engine carries out.

use weir_config::AuthLookup;
use weir_session::Refusal;
use weir_session::startup::StartupRequest;

/// What becomes of a client after one step of its login.
pub(crate) enum EntryStep {
    /// It is read from: more bytes are needed.
    Read,
    /// It is not read from until an answer has come: from a helper, a server, another worker, or the throttle's time.
    Wait,
    /// Its startup packet has come: where does it log in?
    Startup(Box<StartupRequest>),
    /// It asks to cancel what another client runs.
    Cancel { pid: u32, secret: Vec<u8> },
    /// A server is asked for its user's secret; then the login begins anew.
    LookUp(Box<StartupRequest>, AuthLookup),
    /// It has proven who it is.
    Proven,
    /// It has failed to.
    Failed(Refusal),
    /// It is refused: told why, and its connection closed.
    Refuse(Refusal),
    /// Its connection is closed without an answer, which it would not understand; the log has why, as a warning.
    Drop(&'static str),
    /// Its connection is closed without an answer, for this reason.
    Close(&'static str),
    /// It has ended its connection in order.
    Leave,
}
