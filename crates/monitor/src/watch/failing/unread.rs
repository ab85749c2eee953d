//! Clients that do not read their results, so that their servers can't go on.

use weir_admin::{Report, identifier};
use weir_base::plural;

use crate::faults::FaultView;
use crate::named::named;

/// Since when there are such clients, in seconds since 1970.
#[derive(Default)]
pub(super) struct Unread(Option<f64>);

impl Unread {
    /// The pool with most of them.
    pub(super) fn look(&mut self, report: &Report, now: f64) -> Option<FaultView> {
        let pool = report.pools.iter().filter(|pool| pool.symptoms.unread > 0).max_by_key(|pool| pool.symptoms.unread);
        let Some(pool) = pool else {
            self.0 = None;
            return None;
        };
        let (name, count) = (identifier(&pool.database), pool.symptoms.unread);
        let most = pool.symptoms.unread_by.most(1).pop().map(|most| format!(", most of them {}", named(&most)));
        Some(FaultView {
            kind: "unread",
            problem: true,
            summary: format!(
                "{} of {name} can't go on: {} nothing of {}{}.",
                plural(count.into(), "server", "servers"),
                plural(count.into(), "client reads", "clients read"),
                if count == 1 { "its result" } else { "their results" },
                most.unwrap_or_default()
            ),
            advice: "See what holds up the application: it may have stopped, or do something else between two rows. \
                     idle_transaction_timeout ends such a standstill; dropping the clients frees their servers at once."
                .to_owned(),
            since: *self.0.get_or_insert(now - weir_admin::UNREAD.micros() as f64 / 1e6),
            pool: Some(pool.database.clone()),
            clients: count,
            affected: pool.symptoms.unread_by.clone(),
            ..FaultView::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use weir_admin::PoolRecord;
    use weir_base::PoolMode;

    use super::*;

    #[test]
    fn clients_that_do_not_read_are_named_while_there_are_some() {
        let report = |clients| {
            let mut pool = PoolRecord::new("shop", "app", PoolMode::Transaction);
            pool.symptoms.unread = clients;
            pool.symptoms.unread_by.count("app", "exporter", clients);
            Report { pools: vec![pool], ..Report::default() }
        };
        let mut unread = Unread::default();
        let found = unread.look(&report(2), 100.0).expect("a fault");
        let words =
            "2 servers of shop can't go on: 2 clients read nothing of their results, most of them \"exporter\" of app.";
        assert_eq!((found.summary.as_str(), found.since, found.clients), (words, 90.0, 2));
        assert_eq!(unread.look(&report(1), 110.0).map(|found| found.since), Some(90.0));
        assert!(unread.look(&report(0), 111.0).is_none() && unread.0.is_none());
        assert!(weir_admin::FAULT_KINDS.contains(&found.kind));
    }
}
