//! Questions to the workers, as futures: who stops waiting takes the question back.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;
use weir_admin::{Command, Connections, Control, Cursor, Persisted, Reply, Report, Request, SocketRecord};
use weir_config::{Config, Edit};

use crate::error::ApiError;

/// The time that workers have to answer. They answer each other within ten seconds, or not at all.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(12);

/// The workers; cheap to clone.
#[derive(Clone)]
pub(crate) struct Workers(Arc<dyn Control>);

/// Takes a request back when it is dropped; of no effect once the answer has come.
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
    pub(crate) fn new(control: Arc<dyn Control>) -> Workers {
        Workers(control)
    }

    /// What all workers report, and the configuration in force.
    pub(crate) async fn report(&self) -> Result<(Report, Arc<Config>), ApiError> {
        match self.ask(Request::Report, ANSWER_TIMEOUT).await? {
            Reply::Report(report, config) => Ok((*report, config)),
            _ => Err(ApiError::NoAnswer),
        }
    }

    /// Some connections, from a place on, and where to go on.
    pub(crate) async fn connections(
        &self,
        of: Connections,
        from: Cursor,
    ) -> Result<(Vec<SocketRecord>, Option<Cursor>), ApiError> {
        match self.ask(Request::Connections(of, from), ANSWER_TIMEOUT).await? {
            Reply::Connections(records, next) => Ok((records, next)),
            _ => Err(ApiError::NoAnswer),
        }
    }

    /// Has something done that is done at once.
    pub(crate) async fn run(&self, command: Command) -> Result<(), ApiError> {
        self.ask(Request::Run(command), ANSWER_TIMEOUT).await.map(drop)
    }

    /// Has something done that waits for clients or servers; after `longest` it is taken back.
    pub(crate) async fn run_within(&self, command: Command, longest: Duration) -> Result<(), ApiError> {
        match self.ask(Request::Run(command), longest).await {
            Err(ApiError::NoAnswer) => Err(ApiError::TakenBack(longest)),
            done => done.map(drop),
        }
    }

    /// Has the configuration changed.
    pub(crate) async fn change(&self, edit: Edit) -> Result<Persisted, ApiError> {
        match self.ask(Request::Change(Arc::new(edit)), ANSWER_TIMEOUT).await? {
            Reply::Changed(made) => made.map_err(ApiError::NotChanged),
            _ => Err(ApiError::NoAnswer),
        }
    }

    /// Has a line written into the log; nobody waits for it.
    pub(crate) fn log(&self, line: String) {
        self.0.ask(Request::Log(line), Box::new(drop));
    }

    async fn ask(&self, request: Request, longest: Duration) -> Result<Reply, ApiError> {
        let (sender, answer) = oneshot::channel();
        // Who does not listen any more is not told.
        let number = self.0.ask(request, Box::new(move |response| drop(sender.send(response))));
        let _pending = PendingRequest { control: &*self.0, number };
        match timeout(longest, answer).await {
            Ok(Ok(response)) => response.map_err(ApiError::Refused),
            // The process ends.
            Ok(Err(_)) => Err(ApiError::Ending),
            Err(_) => Err(ApiError::NoAnswer),
        }
    }
}
