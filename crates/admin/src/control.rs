//! What the control plane asks of running workers, and what it hears.
//!
//! Owns the way from outside of any connection to the workers, as values and one trait. The HTTP API and the metrics
//! stand before it, the runtime and the engines behind it. Every request is answered once, or never if the process
//! ends; who does not wait any more says so.

use std::sync::Arc;

use weir_base::WorkerId;
use weir_config::{Config, Edit};

use crate::change::{ChangeError, Persisted};
use crate::command::Command;
use crate::error::CommandError;
use crate::records::{Report, SocketRecord};
use crate::show::Connections;

/// What is asked.
#[derive(Clone, Debug)]
pub enum Request {
    /// What all workers report, merged.
    Report,
    /// Some connections: at most a page's worth, from a place on.
    Connections(Connections, Cursor),
    /// Something is to be done; everything but SHOW, SHUTDOWN and what is about a console's own session.
    Run(Command),
    /// The configuration is to be changed, and what comes of it taken over like a RELOAD.
    Change(Arc<Edit>),
    /// A line is to be written into the log.
    Log(String),
}

/// What is answered.
#[derive(Debug)]
pub enum Reply {
    /// To [`Request::Report`]: it, and the configuration that is in force.
    Report(Box<Report>, Arc<Config>),
    /// To [`Request::Connections`]: some, perhaps none, and where to go on; `None`: there are no more. Each was true
    /// when it was looked at; the whole is no snapshot.
    Connections(Vec<SocketRecord>, Option<Cursor>),
    /// It has been done.
    Done,
    /// To [`Request::Change`]: it has been made, and all workers have taken it over; or nothing was changed.
    Changed(Result<Persisted, ChangeError>),
}

/// A reply, or why there is none.
pub type Response = Result<Reply, CommandError>;

/// Where a list of connections goes on. Connections that come and go meanwhile move nobody else's place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cursor {
    /// The worker whose turn it is.
    pub worker: WorkerId,
    /// The place in its table.
    pub slot: u32,
}

impl Cursor {
    /// The beginning.
    pub const START: Cursor = Cursor { worker: WorkerId(0), slot: 0 };
}

/// Takes a response, on some thread of the data plane: it must not wait.
pub type Deliver = Box<dyn FnOnce(Response) + Send>;

/// Running workers, as the control plane sees them.
pub trait Control: Send + Sync {
    /// Asks; returns a number for [`forget`](Control::forget).
    fn ask(&self, request: Request, deliver: Deliver) -> u64;
    /// The response to this number is not wanted any more: a command that waits for others is taken back, as when an
    /// operator leaves the console. Without effect once it has come.
    fn forget(&self, number: u64);
}
