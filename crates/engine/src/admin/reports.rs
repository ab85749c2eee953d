//! This worker's part of a report.

use weir_admin::{DatabaseStats, Report, ServiceState};
use weir_base::Time;

use crate::admin::{Admin, logging_in, report, tables};
use crate::cancel::forward;
use crate::common::{FollowUp, UnderWay};
use crate::core::Core;
use crate::workers::Workers;
use crate::workers::messages::Drain;

impl Admin {
    /// A snapshot of everything but connections; with `by_user`, clients are counted by user.
    pub(crate) fn report(&self, core: &Core, workers: &Workers, by_user: bool) -> Report {
        let state = match core.shutdown.draining() {
            Some(Drain::Servers) => ServiceState::Paused,
            _ => core.pause.state(),
        };
        let mut console_stats = DatabaseStats::default();
        core.console_counts.add_to(&mut console_stats, core.common.now());
        let report = Report {
            console_stats,
            refusals: core.refusals.records(&core.pools),
            refused_logins: core.refusals.logins(core.common.now(), |at| core.common.wall(at)),
            last_reload: self.reloads.last().cloned(),
            memory: report::memory(core.client_counts, &core.sessions),
            statement_totals: core.sessions.statements.totals(),
            serving: state,
            draining: core.common.is_under_way(UnderWay::SHUTDOWN) || core.shutdown.is_announced(),
            drain: core.shutdown.drain_record(core.common.now()),
            paused: core.pause.paused().clone(),
            disabled: core.pause.disabled().clone(),
            dns: core.hosts.dns.records(core.common.now()),
            peers: forward::peer_pools(core),
            cluster: workers.budget.view(),
            giving_back: workers.giving_back(),
            primaries: self.primaries.records(|at| core.common.wall(at)),
            patroni: self.patroni.records(|at| core.common.wall(at)),
            faults: self.faults.clone(),
            findings: self.findings.clone(),
            console_deeds: self.deeds.iter().cloned().collect(),
            unresponsive: core.hosts.unresponsive.report(|at| core.common.wall(at)),
            console_clients: core.client_counts.consoles(),
            login_clients: logging_in::clients_logging_in(core),
            ..Report::default()
        };
        tables::with_tables(core, |tables| report::with_tables(report, tables, by_user))
    }

    /// A report with the statistics of statements, which are large.
    pub(crate) fn statements_report(&self, core: &Core, workers: &Workers) -> Report {
        let (statements, pools) = core.sessions.statements.records(|at| core.common.wall(at));
        let mut report = self.report(core, workers, false);
        report.statements = statements;
        pools
            .into_iter()
            .for_each(|(database, user, run)| *report.statement_time.entry((database, user)).or_default() += run);
        report
    }

    /// A report with what was recorded of pools' traffic.
    pub(crate) fn traffic_report(&self, core: &Core, workers: &Workers, now: Time) -> Report {
        let traffic = core.sessions.statements.traffic().reports(now, |at| core.common.wall(at));
        Report { traffic, ..self.report(core, workers, false) }
    }

    /// This worker's part of a look at the health of pools. Pools with waiting clients are polled, which
    /// reports their trouble again: otherwise only the first client that waits polls its pool.
    pub(crate) fn health_report(&mut self, core: &mut Core) -> Report {
        core.common.set_under_way(UnderWay::HEALTH_CHECK, false);
        for ix in core.pools.indices() {
            if core.pools.get(ix).pool.oldest_wait().is_some() {
                core.common.follow_up(FollowUp::PollPool(ix));
            }
        }
        let halt = &core.pause;
        let report = Report {
            serving: halt.state(),
            paused: halt.paused().clone(),
            disabled: halt.disabled().clone(),
            findings: self.findings.clone(),
            unresponsive: core.hosts.unresponsive.report(|at| core.common.wall(at)),
            ..Report::default()
        };
        tables::with_tables(core, |tables| Report { pools: tables.pools(), ..report })
    }
}
