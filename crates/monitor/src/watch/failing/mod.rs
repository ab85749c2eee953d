//! What fails though pools are healthy: a file for each kind of fault.

mod cluster;
mod growth;
mod limit;
mod login;
mod read_only;
mod reload;

use weir_admin::Report;

use crate::faults::FaultView;
use cluster::Cluster;
use limit::Limit;
use login::Logins;
use read_only::ReadOnly;

/// What is remembered of the last looks, for each kind of fault.
#[derive(Default)]
pub(super) struct Failing {
    limit: Limit,
    read_only: ReadOnly,
    login: Logins,
    cluster: Cluster,
}

impl Failing {
    /// The faults now, in seconds since 1970.
    pub(super) fn look(&mut self, report: &Report, now: f64) -> Vec<FaultView> {
        let clients = [self.limit.look(report, now), self.read_only.look(report, now), self.login.look(report, now)];
        let weir = [reload::fault(report), self.cluster.look(report, now)];
        clients.into_iter().chain(weir).flatten().collect()
    }
}
