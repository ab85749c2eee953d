//! The adoption of the cluster's configuration by this node, between etcd, the configuration store and the workers.
//!
//! Owns the reload that tries a revision, one at a time. Nothing here blocks: the thread has a lease to renew.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, TryRecvError};

use weir_admin::{CommandError, Control, ControlRequest, Response};
use weir_cluster::{BudgetRule, Node, Revision};
use weir_store::{AdoptionStatus, ConfigStore};

use crate::etcd::Etcd;

/// See the head of the file.
pub(crate) struct Adopting {
    store: Arc<ConfigStore>,
    control: Arc<dyn Control>,
    /// The revision that a reload tries, and its end.
    trial: Option<(Revision, Receiver<Response>)>,
    /// What the node has described to others.
    described: Option<AdoptionStatus>,
}

impl Adopting {
    pub(crate) fn new(store: Arc<ConfigStore>, control: Arc<dyn Control>) -> Adopting {
        Adopting { store, control, trial: None, described: None }
    }

    /// A request to etcd has succeeded.
    pub(crate) fn replied(&self, etcd: &mut Etcd) {
        let (revision, settings) = etcd.take_settings();
        self.store.seen(revision, settings);
    }

    /// Ends a trial whose reload has ended, and begins the next one; describes the result to other nodes. Returns lines
    /// for the log.
    pub(crate) fn step(&mut self, node: &mut Node) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some((revision, end)) = self.trial.take() {
            match end.try_recv() {
                Err(TryRecvError::Empty) => self.trial = Some((revision, end)),
                Err(TryRecvError::Disconnected) => {}
                Ok(result) => self.ended(revision, result, &mut lines),
            }
        }
        if self.trial.is_none()
            && let Some((revision, author)) = self.store.next_adoption()
        {
            let (sender, receiver) = mpsc::sync_channel(1);
            let answer = move |response| drop(sender.try_send(response));
            self.control.ask(ControlRequest::Reload(author), Box::new(answer));
            self.trial = Some((revision, receiver));
        }
        self.describe(node);
        lines
    }

    fn ended(&self, revision: Revision, result: Response, lines: &mut Vec<String>) {
        let why = match result {
            Ok(_) => {
                lines.push(format!("cluster: revision {revision} of the configuration is in force"));
                return lines.extend(self.store.adoption_ended(Ok(())));
            }
            Err(CommandError::ReloadFailed(why)) => why,
            Err(error) => error.to_string(),
        };
        lines.extend(self.store.adoption_ended(Err(&why)));
        lines
            .push(format!("cluster: revision {revision} of the configuration is refused, the former one stays: {why}"));
    }

    fn describe(&mut self, node: &mut Node) {
        let Some(status) = self.store.status().filter(|status| self.described.as_ref() != Some(status)) else { return };
        let refused = status.refused.as_ref().map(|(revision, why)| format!("revision {revision}: {why}"));
        node.describe(env!("CARGO_PKG_VERSION"), status.revision, &refused.unwrap_or_default());
        node.decide_budgets(match (status.revision, status.is_newest) {
            (0, true) => BudgetRule::OwnFile,
            (_, true) if status.ended => BudgetRule::OwnFile,
            (_, true) => BudgetRule::Newest,
            (_, false) => BudgetRule::Outdated,
        });
        self.described = Some(status);
    }
}
