//! What Patroni says of hosts (`patroni_api`), as a worker knows it.
//!
//! A hint: it decides which host is tried first, and when; only a server that says so itself is fit.

use std::collections::HashSet;
use std::sync::Arc;

use weir_base::Target;
use weir_config::{PatroniQuestion, PoolConfig};

/// The questions to which Patroni says yes.
#[derive(Default)]
pub(crate) struct Hints(HashSet<Arc<PatroniQuestion>>);

impl Hints {
    /// Patroni has answered; returns whether that is new.
    pub(crate) fn set(&mut self, question: &Arc<PatroniQuestion>, yes: bool) -> bool {
        if yes { self.0.insert(question.clone()) } else { self.0.remove(question) }
    }

    /// The hosts of a pool that are what it wants, in their order.
    pub(crate) fn fit<'p>(&self, pool: &'p PoolConfig) -> Vec<&'p Target> {
        if self.0.is_empty() || pool.patroni.api.is_empty() {
            return Vec::new();
        }
        let hosts = pool.targets.iter().zip(pool.patroni_questions());
        hosts.filter(|(_, question)| self.0.contains(question)).map(|(host, _)| host).collect()
    }
}
