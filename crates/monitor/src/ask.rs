//! Requests to the workers, as futures: dropping the future withdraws the request.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;
use weir_admin::{
    Author, BusyWorker, ChangeRequest, Command, Connections, Control, ControlReply, ControlRequest, Cursor, Fault,
    Finding, LogPage, LogQuery, Persisted, Report, SocketRecord,
};
use weir_base::Span;
use weir_config::Config;

use crate::error::MonitorError;

/// The time that workers have to answer. They answer each other within ten seconds, or never.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(12);

/// A worker that is busy for longer without a break is called busy. It has this time to answer what is asked before.
const BUSY: Span = Span::from_millis(250);

/// The most pages of connections that are read at a time, to find out who is there.
const PAGES: usize = 64;

/// The workers; cheap to clone.
#[derive(Clone)]
pub struct Workers(Arc<dyn Control>);

/// Withdraws a request when it is dropped; has no effect after the answer.
struct PendingRequest<'a> {
    control: &'a dyn Control,
    number: u64,
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        self.control.forget(self.number);
    }
}

impl Workers {
    /// The workers that `control` reaches.
    pub fn new(control: Arc<dyn Control>) -> Workers {
        Workers(control)
    }

    /// The reports of all workers, and the configuration in force.
    pub async fn report(&self) -> Result<(Report, Arc<Config>), MonitorError> {
        match self.ask(ControlRequest::Report, ANSWER_TIMEOUT).await? {
            ControlReply::Report(report, config) => Ok((*report, config)),
            _ => Err(MonitorError::NoAnswer),
        }
    }

    /// The reports of all workers, and the configuration in force, if no worker is busy.
    ///
    /// # Errors
    /// [`MonitorError::Busy`] within a moment where a worker is; it is not waited for, and gets no request.
    pub async fn prompt_report(&self) -> Result<(Report, Arc<Config>), MonitorError> {
        if let Some(busy) = self.busy() {
            return Err(MonitorError::Busy(busy));
        }
        let mut report = pin!(self.report());
        loop {
            if let Ok(answer) = timeout(Duration::from_micros(BUSY.micros()), &mut report).await {
                return answer;
            }
            if let Some(busy) = self.busy() {
                return Err(MonitorError::Busy(busy));
            }
        }
    }

    /// The worker that is busy, and has been longest.
    pub(crate) fn busy(&self) -> Option<BusyWorker> {
        self.0.busiest().filter(|busiest| busiest.busy >= BUSY)
    }

    /// The reports of all workers with the clients of each user, which costs the workers a walk over all clients.
    pub async fn users(&self) -> Result<(Report, Arc<Config>), MonitorError> {
        match self.ask(ControlRequest::Users, ANSWER_TIMEOUT).await? {
            ControlReply::Report(report, config) => Ok((*report, config)),
            _ => Err(MonitorError::NoAnswer),
        }
    }

    /// The report with the statistics of statements.
    pub async fn statements(&self) -> Result<Report, MonitorError> {
        match self.ask(ControlRequest::Statements, ANSWER_TIMEOUT).await? {
            ControlReply::Report(report, _) => Ok(*report),
            _ => Err(MonitorError::NoAnswer),
        }
    }

    /// The report with what was recorded of pools' traffic, and the configuration in force.
    pub async fn traffic(&self) -> Result<(Report, Arc<Config>), MonitorError> {
        match self.ask(ControlRequest::Traffic, ANSWER_TIMEOUT).await? {
            ControlReply::Report(report, config) => Ok((*report, config)),
            _ => Err(MonitorError::NoAnswer),
        }
    }

    /// Takes the spans of queries that have ended.
    pub(crate) async fn spans(&self) -> Result<Report, MonitorError> {
        match self.ask(ControlRequest::Spans, ANSWER_TIMEOUT).await? {
            ControlReply::Report(report, _) => Ok(*report),
            _ => Err(MonitorError::NoAnswer),
        }
    }

    /// A page of connections, from a position on, and the position of the next page.
    pub async fn connections(
        &self,
        of: Connections,
        from: Cursor,
    ) -> Result<(Vec<SocketRecord>, Option<Cursor>), MonitorError> {
        match self.ask(ControlRequest::Connections(of, from), ANSWER_TIMEOUT).await? {
            ControlReply::Connections(records, next) => Ok((records, next)),
            _ => Err(MonitorError::NoAnswer),
        }
    }

    /// Passes each connection of the first [`PAGES`] pages to `take`.
    ///
    /// # Errors
    /// A page has no answer; those before it were passed.
    pub(crate) async fn each_connection(
        &self,
        of: Connections,
        mut take: impl FnMut(SocketRecord),
    ) -> Result<(), MonitorError> {
        let mut from = Cursor::START;
        for _ in 0..PAGES {
            let (records, next) = self.connections(of, from).await?;
            records.into_iter().for_each(&mut take);
            let Some(next) = next else { break };
            from = next;
        }
        Ok(())
    }

    /// Runs a command that completes at once.
    pub async fn run(&self, command: Command) -> Result<(), MonitorError> {
        self.ask(ControlRequest::Run(command), ANSWER_TIMEOUT).await.map(drop)
    }

    /// Runs a command that waits for clients or servers; withdraws it after `longest`.
    pub async fn run_within(&self, command: Command, longest: Duration) -> Result<(), MonitorError> {
        match self.ask(ControlRequest::Run(command), longest).await {
            Err(MonitorError::NoAnswer) => Err(MonitorError::TakenBack(longest)),
            done => done.map(drop),
        }
    }

    /// Changes the configuration.
    pub async fn change(&self, wanted: ChangeRequest, author: Author) -> Result<Persisted, MonitorError> {
        match self.ask(ControlRequest::Change(Arc::new(wanted), author), ANSWER_TIMEOUT).await? {
            ControlReply::Changed(made) => made.map_err(MonitorError::NotChanged),
            _ => Err(MonitorError::NoAnswer),
        }
    }

    /// Reads the configuration's file again.
    pub async fn reload(&self, author: Author) -> Result<(), MonitorError> {
        self.ask(ControlRequest::Reload(author), ANSWER_TIMEOUT).await.map(drop)
    }

    /// The last lines of the log that fit a query.
    pub fn log_lines(&self, query: &LogQuery) -> LogPage {
        self.0.log_lines(query)
    }

    /// Why the last lines are not in the log's file.
    pub(crate) fn log_file_error(&self) -> Option<String> {
        self.0.log_file_error()
    }

    /// Tells the workers what is wrong with Weir itself; does not wait for it.
    pub(crate) fn set_faults(&self, faults: Arc<[Fault]>) {
        self.0.ask(ControlRequest::SetFaults(faults), Box::new(drop));
    }

    /// Tells the workers what was found out about slow pools; does not wait for it.
    pub(crate) fn set_findings(&self, findings: Arc<BTreeMap<String, Finding>>) {
        self.0.ask(ControlRequest::SetFindings(findings), Box::new(drop));
    }

    /// Writes a line into the log; does not wait for it.
    pub fn log(&self, line: String) {
        self.0.ask(ControlRequest::Log(line), Box::new(drop));
    }

    async fn ask(&self, request: ControlRequest, longest: Duration) -> Result<ControlReply, MonitorError> {
        let (sender, answer) = oneshot::channel();
        // The receiver may be gone: its future was dropped.
        let number = self.0.ask(request, Box::new(move |response| drop(sender.send(response))));
        let _pending = PendingRequest { control: &*self.0, number };
        match timeout(longest, answer).await {
            Ok(Ok(response)) => response.map_err(MonitorError::Refused),
            // The process is shutting down.
            Ok(Err(_)) => Err(MonitorError::Ending),
            Err(_) => Err(MonitorError::NoAnswer),
        }
    }
}
