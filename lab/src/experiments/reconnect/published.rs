//! The article's figures: transactions a second, pgbench with a new connection for each transaction.

/// The article.
pub(super) const SOURCE: &str =
    "“So sánh Pgpool-II và PgBouncer – Phần 2”, dangxuanduy.com, after ScaleGrid's comparison of the two poolers";

/// The article's words for 200 clients without a figure.
pub(super) const DROPPED: &str = "connections dropped";
pub(super) const DROPPED_OR_HANGS: &str = "dropped, or hangs";

/// One line of the article's table; `None` where it has words in place of a figure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub(super) clients: u32,
    pub(super) none: Option<f64>,
    pub(super) pgbouncer: Option<f64>,
    /// Pgpool-II on the server's machine.
    pub(super) pgpool: Option<f64>,
    /// Pgpool-II on a machine of its own.
    pub(super) pgpool_apart: Option<f64>,
}

/// The article's table.
pub(super) const LINES: [Line; 6] = [
    line(10, 16.96, 26.86, 15.52, 18.22),
    line(20, 16.97, 27.19, 15.67, 18.28),
    line(40, 16.73, 26.77, 15.33, 18.30),
    line(80, 16.75, 26.64, 15.53, 18.13),
    line(100, 16.51, 26.73, 15.66, 18.45),
    Line { clients: 200, none: None, pgbouncer: Some(26.93), pgpool: None, pgpool_apart: None },
];

const fn line(clients: u32, none: f64, pgbouncer: f64, pgpool: f64, pgpool_apart: f64) -> Line {
    Line {
        clients,
        none: Some(none),
        pgbouncer: Some(pgbouncer),
        pgpool: Some(pgpool),
        pgpool_apart: Some(pgpool_apart),
    }
}

/// The line of this number of clients.
pub(super) fn of(clients: u32) -> Option<Line> {
    LINES.into_iter().find(|line| line.clients == clients)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gains_are_those_that_the_article_computed() {
        let gains = [(10, 58.4, -8.5), (20, 60.2, -7.7), (40, 60.0, -8.4), (80, 59.0, -7.3), (100, 61.9, -5.2)];
        for (clients, pgbouncer, pgpool) in gains {
            let line = of(clients).unwrap();
            let gain = |tps: Option<f64>| (tps.unwrap() / line.none.unwrap() - 1.0) * 100.0;
            assert!((gain(line.pgbouncer) - pgbouncer).abs() < 0.15, "{clients}: {}", gain(line.pgbouncer));
            assert!((gain(line.pgpool) - pgpool).abs() < 0.15, "{clients}: {}", gain(line.pgpool));
        }
    }
}
