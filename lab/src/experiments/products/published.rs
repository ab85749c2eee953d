//! The articles' figures.
//!
//! "Database connection pooling: Overview and benchmark with Go" and its Vietnamese version: a laptop with an i7-1185G7
//! (4 cores, 8 threads) and PostgreSQL 13.1 on the same machine; a load of 10 s.

use super::plan::Way;

/// The duration of the article's load, in seconds.
pub(crate) const SECONDS: f64 = 10.0;

/// The averages that the servers printed for 200 requests of a browser, in µs.
pub(crate) fn browser_us(way: Way) -> Option<f64> {
    match way {
        Way::New => Some(6380.0),
        Way::Normal => Some(5704.0),
        Way::Pooled => Some(1034.0),
        Way::Weir => None,
    }
}

/// A line of the article's table of loads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Line {
    pub(crate) served: f64,
    /// Requests a second, as counted by the article's tool.
    pub(crate) rate: f64,
    /// Megabytes a second, as counted by the article's tool.
    pub(crate) megabytes: f64,
    pub(crate) average_ms: f64,
    pub(crate) fastest_ms: f64,
    pub(crate) slowest_ms: f64,
    pub(crate) errors: f64,
}

impl Line {
    /// Successful requests a second of wall-clock time, which the article did not print: its requests divided by its
    /// seconds.
    pub(crate) fn wall_rate(&self) -> f64 {
        self.served / SECONDS
    }
}

/// The article's line for this number of connections on this endpoint.
pub(crate) fn line(way: Way, connections: usize) -> Option<Line> {
    let [served, rate, megabytes, average_ms, fastest_ms, slowest_ms, errors] = match (connections, way) {
        (20, Way::New) => [100.0, 538.55, 45.56, 37.1, 12.7, 58.5, 29_433.0],
        (20, Way::Normal) => [9_358.0, 935.56, 79.14, 21.4, 2.4, 102.7, 0.0],
        (20, Way::Pooled) => [17_010.0, 1_702.88, 144.04, 11.7, 1.6, 84.1, 0.0],
        (200, Way::New) => [100.0, 1_923.55, 162.71, 104.0, 48.6, 126.7, 24_624.0],
        (200, Way::Normal) => [8_206.0, 1_058.33, 89.53, 189.0, 2.7, 965.1, 3_171.0],
        (200, Way::Pooled) => [16_792.0, 1_678.34, 141.97, 119.2, 2.6, 1_004.3, 15.0],
        _ => return None,
    };
    Some(Line { served, rate, megabytes, average_ms, fastest_ms, slowest_ms, errors })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_articles_rates_are_successes_by_a_connections_share_of_the_time_in_successes() {
        for (way, connections) in [(Way::New, 20), (Way::New, 200), (Way::Normal, 20), (Way::Pooled, 200)] {
            let line = line(way, connections).unwrap();
            #[allow(clippy::cast_precision_loss)]
            let rate = connections as f64 / (line.average_ms / 1e3);
            assert!((rate / line.rate - 1.0).abs() < 0.01, "{way:?} at {connections}: {rate} and {}", line.rate);
        }
    }
}
