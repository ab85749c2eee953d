//! What fails though pools are healthy: a file for each kind of fault.

mod cluster;
mod growth;
mod limit;
mod login;
mod read_only;
mod reload;
mod unread;

use weir_admin::Report;
use weir_config::Config;

use crate::faults::FaultView;
use cluster::Cluster;
pub(super) use limit::Connected;
use limit::Limit;
use login::Logins;
use read_only::ReadOnly;
use unread::Unread;

/// What is remembered of the last looks, for each kind of fault.
#[derive(Default)]
pub(super) struct Failing {
    limit: Limit,
    read_only: ReadOnly,
    login: Logins,
    cluster: Cluster,
    unread: Unread,
}

impl Failing {
    /// Whether it is to be found out who is connected, for [`Failing::connected`].
    pub(super) fn asks_who_is_connected(&self, now: f64) -> bool {
        self.limit.asks_who_is_connected(now)
    }

    /// Takes in who is connected.
    pub(super) fn connected(&mut self, who: Connected, now: f64) {
        self.limit.connected(who, now);
    }

    /// The faults now, in seconds since 1970.
    pub(super) fn look(&mut self, report: &Report, config: &Config, now: f64) -> Vec<FaultView> {
        let clients =
            [self.limit.look(report, config, now), self.read_only.look(report, now), self.login.look(report, now)];
        let weir = [self.unread.look(report, now), reload::fault(report), self.cluster.look(report, now)];
        clients.into_iter().chain(weir).flatten().collect()
    }
}
