//! What the pools of this process use, from the workers' reports; all users of a database together.
//!
//! Servers in use are counted as their maximum of the last reports: a pool whose transactions are short is not idle
//! between two of them.

use std::collections::BTreeMap;

use weir_admin::Report;
use weir_base::Span;
use weir_cluster::Usage;

/// This many reports count.
const REPORTS: usize = 4;

#[derive(Default)]
struct Pool {
    active: [u32; REPORTS],
    waiting: u32,
    oldest: Span,
}

/// See the head of the file.
#[derive(Default)]
pub(crate) struct Usages {
    pools: BTreeMap<String, Pool>,
}

impl Usages {
    pub(crate) fn note(&mut self, report: &Report) {
        for pool in self.pools.values_mut() {
            pool.active.rotate_right(1);
            pool.active[0] = 0;
            (pool.waiting, pool.oldest) = (0, Span::ZERO);
        }
        for record in &report.pools {
            let pool = self.pools.entry(record.database.clone()).or_default();
            pool.active[0] += record.sv_active + record.sv_being_canceled + record.sv_tested;
            pool.waiting += record.cl_waiting;
            pool.oldest = pool.oldest.max(record.maxwait);
        }
    }

    /// What a pool uses that has this many servers open, under this limit.
    pub(crate) fn usage(&self, name: &str, open: u32, limit: u32) -> Usage {
        let usage = Usage { open, limit, ..Usage::default() };
        self.pools.get(name).map_or(usage, |pool| Usage {
            active: pool.active.into_iter().max().unwrap_or(0),
            waiting: pool.waiting,
            oldest: pool.oldest,
            ..usage
        })
    }
}
