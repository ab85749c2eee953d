//! The interface between the control plane and running workers: requests and replies.
//!
//! Owns the path to the workers that needs no connection, as values and one trait. The HTTP API and the metrics call
//! it; the runtime and the engines implement it. Every request is answered once, or never if the process ends; a
//! caller that stops waiting withdraws its request.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use weir_base::{Span, Target, Time, WorkerId};
use weir_config::Config;

use crate::change::{Author, ChangeError, ChangeRequest, Persisted};
use crate::cluster::ClusterView;
use crate::command::Command;
use crate::error::CommandError;
use crate::fault::Fault;
use crate::finding::Finding;
use crate::recent_log::{LogPage, LogQuery};
use crate::records::{Report, SocketRecord};
use crate::show::Connections;

/// A request to the workers.
#[derive(Clone, Debug)]
pub enum ControlRequest {
    /// The merged report of all workers.
    Report,
    /// The merged report with the clients of each user, for which each worker walks over all of its clients.
    Users,
    /// The merged report with the statistics of statements.
    Statements,
    /// The merged report with what was recorded of pools' traffic.
    Traffic,
    /// Takes the spans of queries that have ended; the rest of the report is empty.
    Spans,
    /// A page of connections, from a position on.
    Connections(Connections, Cursor),
    /// Runs a command: any but RELOAD, SET, SHOW, SHUTDOWN and those about a console's own session.
    Run(Command),
    /// Changes the configuration, and applies it like a RELOAD.
    Change(Arc<ChangeRequest>, Author),
    /// Sets the limits of pools that nodes share, from now on.
    SetShared(SharedLimits),
    /// Reads the configuration again, and applies it.
    Reload(Author),
    /// What is wrong with Weir itself, from now on.
    SetFaults(Arc<[Fault]>),
    /// What was found out about slow pools, by database, from now on.
    SetFindings(Arc<BTreeMap<String, Finding>>),
    /// Writes a line into the log.
    Log(String),
}

/// The answer to a request.
#[derive(Debug)]
pub enum ControlReply {
    /// To [`ControlRequest::Report`], [`ControlRequest::Users`] and [`ControlRequest::Statements`]: the report, and the
    /// configuration in force.
    Report(Box<Report>, Arc<Config>),
    /// To [`ControlRequest::Connections`]: a page, maybe empty, and the next position; `None`: there are no more. Each
    /// record was true when it was read; together they are no snapshot.
    Connections(Vec<SocketRecord>, Option<Cursor>),
    /// To [`ControlRequest::SetShared`]: how many servers each of these pools has, and how many more it leaves to the
    /// process that this one takes over from; no more are opened beyond the limits.
    SharedOpen(Vec<(String, u32, u32)>),
    /// To [`ControlRequest::Run`], [`ControlRequest::Reload`], [`ControlRequest::SetFaults`],
    /// [`ControlRequest::SetFindings`] and [`ControlRequest::Log`]: done.
    Done,
    /// To [`ControlRequest::Change`]: stored, and applied by all workers; or why nothing was changed.
    Changed(Result<Persisted, ChangeError>),
}

/// The limits of pools that several nodes share.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SharedLimits {
    /// When the limits end and the floors are in force, by the workers' clock.
    pub until: Time,
    /// What the node knows about its cluster.
    pub view: Arc<ClusterView>,
    /// The limits, by database. A database that is shared and missing here may open no servers.
    pub pools: BTreeMap<String, SharedLimit>,
    /// Where requests to cancel find the clients of each node.
    pub peers: Arc<NodePeers>,
    /// What the other process keeps of the limits while it exports to this one, from now on: less with each server
    /// that comes.
    pub left_to_other: Option<BTreeMap<String, u32>>,
    /// Whether this process exports: it keeps no more than what it has open, less with each server that goes.
    pub is_exporting: bool,
}

/// The numbers of a cluster's nodes in cancel keys.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodePeers {
    /// The number of this node; 0: it has none yet. The number does not change while the process lives.
    pub own: u16,
    /// Where the other nodes are, by their numbers.
    pub others: BTreeMap<u16, Target>,
}

/// The limit of servers of a database at this node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SharedLimit {
    /// The limit while the limits are valid.
    pub limit: u32,
    /// The limit after that.
    pub floor: u32,
}

/// A reply, or why the request failed.
pub type Response = Result<ControlReply, CommandError>;

/// The position where a list of connections continues. New and closed connections do not move the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cursor {
    /// The worker.
    pub worker: WorkerId,
    /// The slot in the worker's table.
    pub slot: u32,
}

impl Cursor {
    /// The beginning of the list.
    pub const START: Cursor = Cursor { worker: WorkerId(0), slot: 0 };
}

/// Receives a response, on a thread of the data plane: must not block.
pub type Deliver = Box<dyn FnOnce(Response) + Send>;

/// A worker that handles events, and answers no request meanwhile. As text: which, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BusyWorker {
    /// Which worker is busy.
    pub worker: WorkerId,
    /// For how long the worker has handled events without a break.
    pub busy: Span,
}

impl fmt::Display for BusyWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker {} has been busy for {:.1} s", self.worker.0, self.busy.micros() as f64 / 1e6)
    }
}

/// Running workers; the control plane's threads call it.
pub trait Control: Send + Sync {
    /// Sends a request; returns a number for [`forget`](Control::forget). Does not block.
    fn ask(&self, request: ControlRequest, deliver: Deliver) -> u64;
    /// Withdraws the request of this number: a command that waits is cancelled, as when an operator leaves the
    /// console. Without effect after the response.
    fn forget(&self, number: u64);
    /// The worker that has been busy longest without a break; `None` if all wait for events. Asks none of them.
    fn busiest(&self) -> Option<BusyWorker> {
        None
    }
    /// The last lines of the log that fit a query. Waits for a line to be added, at most.
    fn log_lines(&self, query: &LogQuery) -> LogPage {
        let _ = query;
        LogPage::default()
    }
    /// Why the last lines are not in the log's file; none if they are, or if there is no file.
    fn log_file_error(&self) -> Option<String> {
        None
    }
}
