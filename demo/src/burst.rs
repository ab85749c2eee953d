//! A burst of clients: all connect at the same moment, stay connected, work, and leave together.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weir_pgclient::{ConnectParams, Connection, Error};

/// How often server processes and waiting clients are counted.
const INTERVAL: Duration = Duration::from_millis(50);
/// The stack of a client's thread, in bytes.
const STACK: usize = 256 * 1024;

/// The result of a burst.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Clients that logged in and ran all their transactions.
    pub(super) served: usize,
    /// The errors of the others, each with the number of clients that got it.
    pub(super) refusals: BTreeMap<String, usize>,
    /// Transactions that were committed.
    pub(super) transactions: usize,
    /// The server's processes for clients while all were connected: the median.
    pub(super) backends: usize,
    /// The clients in Weir's queue at each count, from the first wait to the last.
    pub(super) queue: Vec<usize>,
    /// From the first connect to the last commit.
    pub(super) took: Duration,
}

/// What the clients of a burst share.
struct Shared {
    /// All have tried to log in.
    connected: Barrier,
    /// All have finished their work; no connection closes before.
    done: Barrier,
    /// How many are beyond `connected`.
    working: AtomicUsize,
}

/// Runs `clients` at once, each with `rounds` transactions; `backends` and `waiting` are called while they work.
pub(super) fn run(
    params: &ConnectParams,
    clients: usize,
    rounds: usize,
    backends: &dyn Fn() -> usize,
    waiting: &mut dyn FnMut() -> usize,
) -> Outcome {
    let start = Instant::now();
    let shared = Arc::new(Shared {
        connected: Barrier::new(clients),
        done: Barrier::new(clients),
        working: AtomicUsize::new(0),
    });
    let threads: Vec<_> = (0..clients).map(|number| spawn_client(number, rounds, params.clone(), &shared)).collect();
    let mut outcome = Outcome::default();
    let mut processes = Vec::new();
    while !threads.iter().all(JoinHandle::is_finished) {
        thread::sleep(INTERVAL);
        let all_connected = shared.working.load(Ordering::Relaxed) == clients;
        if all_connected {
            processes.push(backends());
            outcome.queue.push(waiting());
        }
    }
    outcome.took = start.elapsed();
    for thread in threads {
        match thread.join() {
            Ok(Ok(transactions)) => {
                outcome.served += 1;
                outcome.transactions += transactions;
            }
            Ok(Err(error)) => *outcome.refusals.entry(error_text(&error)).or_default() += 1,
            Err(_) => *outcome.refusals.entry("its thread failed".to_owned()).or_default() += 1,
        }
    }
    // The median: at the edges some are still connecting or already gone.
    outcome.backends = median(processes);
    trim(&mut outcome.queue);
    outcome
}

fn spawn_client(
    number: usize,
    rounds: usize,
    params: ConnectParams,
    shared: &Arc<Shared>,
) -> JoinHandle<Result<usize, Error>> {
    let shared = Arc::clone(shared);
    let run = move || {
        let connection = Connection::connect(&params);
        shared.connected.wait();
        shared.working.fetch_add(1, Ordering::Relaxed);
        let (worked, connection) = match connection {
            Ok(mut connection) => (work(&mut connection, number, rounds), Some(connection)),
            Err(error) => (Err(error), None),
        };
        shared.done.wait();
        drop(connection);
        worked
    };
    thread::Builder::new().stack_size(STACK).spawn(run).expect("the system has room for a few more threads")
}

/// A transaction of four statements, as a program sends them; the sleep stands for a real one's work.
fn work(connection: &mut Connection, number: usize, rounds: usize) -> Result<usize, Error> {
    for _ in 0..rounds {
        connection.query("begin")?;
        connection
            .query(&format!("insert into visit values (default, {number}, current_setting('application_name'))"))?;
        connection.query("select pg_sleep(0.1)")?;
        connection.query("commit")?;
    }
    Ok(rounds)
}

fn error_text(error: &Error) -> String {
    match error.server() {
        Some(error) => format!("{error} ({})", error.sqlstate),
        None => error.to_string(),
    }
}

fn median(mut values: Vec<usize>) -> usize {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

/// Cuts the zeros before the first wait and after the last.
fn trim(queue: &mut Vec<usize>) {
    let end = queue.iter().rposition(|waiting| *waiting > 0).map_or(0, |last| last + 1);
    queue.truncate(end);
    let begin = queue.iter().position(|waiting| *waiting > 0).unwrap_or(0);
    queue.drain(..begin);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_is_shown_from_its_first_wait_to_its_last() {
        let mut queue = vec![0, 0, 3, 0, 1, 0];
        trim(&mut queue);
        assert_eq!(queue, [3, 0, 1]);
        let mut empty = vec![0, 0];
        trim(&mut empty);
        assert!(empty.is_empty());
    }

    #[test]
    fn the_median_ignores_outliers() {
        assert_eq!(median(vec![97, 98, 97, 97, 12]), 97);
        assert_eq!(median(Vec::new()), 0);
    }
}
