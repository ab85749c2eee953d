//! A burst: many connections opened at the same moment, each for one query.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use weir_pgclient::{ConnectParams, Connection, Error};

/// Each query takes some time, so that early connections are still open when the others arrive.
const QUERY: &str = "select pg_sleep(0.2)";
/// The stack of a thread, which only waits for a server.
const STACK: usize = 128 * 1024;
/// By then all threads have started, and wait for the same moment.
const HEAD_START: Duration = Duration::from_millis(150);

/// The result of a burst.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Burst {
    pub(super) asked: u32,
    pub(super) served: u32,
    /// Refused with an error of the server.
    pub(super) refused: u32,
    /// Others: timeouts, broken connections.
    pub(super) lost: u32,
    /// The first refusal's text.
    pub(super) said: String,
    /// From the start to the answer, of those that were served.
    pub(super) median_ms: f64,
    pub(super) slowest_ms: f64,
}

/// Opens `count` connections at once and runs a query on each.
pub(super) fn burst(params: &ConnectParams, count: u32) -> Burst {
    let params = params.clone().timeout(Duration::from_secs(30));
    let (params, began) = (&params, Instant::now() + HEAD_START);
    let outcomes: Vec<Result<f64, Error>> = thread::scope(|scope| {
        let one = move || {
            thread::sleep(began.saturating_duration_since(Instant::now()));
            let mut connection = Connection::connect(params)?;
            connection.query(QUERY)?;
            let took = began.elapsed().as_secs_f64() * 1000.0;
            let _ = connection.close();
            Ok(took)
        };
        let start = |_| thread::Builder::new().stack_size(STACK).spawn_scoped(scope, one);
        let threads: Vec<io::Result<_>> = (0..count).map(start).collect();
        threads.into_iter().map(|thread| thread?.join().unwrap_or(Err(Error::Closed))).collect()
    });
    sum_up(count, outcomes)
}

fn sum_up(asked: u32, outcomes: Vec<Result<f64, Error>>) -> Burst {
    let mut burst = Burst { asked, ..Burst::default() };
    let mut times = Vec::new();
    for outcome in outcomes {
        match outcome {
            Ok(took) => times.push(took),
            Err(Error::Server(error)) => {
                burst.refused += 1;
                if burst.said.is_empty() {
                    burst.said = error.to_string();
                }
            }
            Err(_) => burst.lost += 1,
        }
    }
    times.sort_by(f64::total_cmp);
    burst.served = u32::try_from(times.len()).unwrap_or(u32::MAX);
    burst.median_ms = times.get(times.len() / 2).copied().unwrap_or(0.0);
    burst.slowest_ms = times.last().copied().unwrap_or(0.0);
    burst
}

#[cfg(test)]
mod tests {
    use weir_pgclient::ServerErrorFields;

    use super::*;

    #[test]
    fn refusals_are_counted_apart_from_what_broke() {
        let refusal = ServerErrorFields {
            severity: "FATAL".into(),
            sqlstate: "53300".into(),
            message: "sorry, too many clients already".into(),
            detail: None,
            hint: None,
        };
        let outcomes = vec![Ok(30.0), Err(refusal.into()), Err(Error::Timeout), Ok(20.0), Ok(90.0)];
        let burst = sum_up(5, outcomes);
        assert_eq!((burst.served, burst.refused, burst.lost), (3, 1, 1));
        assert_eq!((burst.median_ms, burst.slowest_ms), (30.0, 90.0));
        assert_eq!(burst.said, "FATAL:  sorry, too many clients already");
    }
}
