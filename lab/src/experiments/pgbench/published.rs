//! The figures of DigitalOcean's tutorial on managed connection pools (`docs/articles/managed-pools-pgbench.md`).

use super::plan::{Load, Route};

/// The source of the figures.
pub(super) const SOURCE: &str =
    "DigitalOcean: managed connection pools and PostgreSQL benchmarking with pgbench (a tutorial)";

/// One line of the article's table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Line {
    pub(super) route: Route,
    pub(super) clients: u32,
    pub(super) tps: f64,
    pub(super) transactions: u32,
    pub(super) latency_ms: f64,
    pub(super) stddev_ms: f64,
    pub(super) errors: &'static str,
}

pub(super) const LINES: [Line; 4] = [
    Line {
        route: Route::Direct,
        clients: 50,
        tps: 175.3,
        transactions: 105_256,
        latency_ms: 282.0,
        stddev_ms: 84.2,
        errors: "none",
    },
    Line {
        route: Route::Direct,
        clients: 150,
        tps: 258.0,
        transactions: 154_892,
        latency_ms: 281.4,
        stddev_ms: 125.9,
        errors: "clients refused",
    },
    Line {
        route: Route::Pool,
        clients: 150,
        tps: 344.2,
        transactions: 206_768,
        latency_ms: 421.7,
        stddev_ms: 114.7,
        errors: "none",
    },
    Line {
        route: Route::Pool,
        clients: 50,
        tps: 171.5,
        transactions: 102_938,
        latency_ms: 288.5,
        stddev_ms: 83.5,
        errors: "none",
    },
];

/// The article's line for a load, if it has one.
pub(super) fn line(load: Load) -> Option<&'static Line> {
    LINES.iter().find(|line| line.route == load.route && line.clients == load.clients)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_connection_did_three_and_a_half_transactions_a_second() {
        // Connections at work: 50, those that connected (clients at work are throughput times latency), 97, 50.
        let at_work = [50.0, 258.0 * 0.2814, 97.0, 50.0];
        for (line, at_work) in LINES.iter().zip(at_work) {
            let each = line.tps / at_work;
            assert!((3.4..3.6).contains(&each), "{line:?}: {each}");
        }
    }
}
