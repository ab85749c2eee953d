//! A crowd: many clients that come at the same moment, stay, work, and leave together.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weir_pgclient::{Connection, Error, Params};

/// How often the crowd is looked at.
const GLANCE: Duration = Duration::from_millis(50);
/// A client's thread needs little.
const STACK: usize = 256 * 1024;

/// What became of a crowd.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Clients that were let in and ran all their transactions.
    pub(super) served: usize,
    /// What the others were told, and how many of them.
    pub(super) refusals: BTreeMap<String, usize>,
    /// Transactions that were committed.
    pub(super) transactions: usize,
    /// The server's processes for clients, while the crowd worked.
    pub(super) backends: usize,
    /// How many waited in Weir's queue while the crowd worked, at each glance; without the quiet before and after.
    pub(super) queue: Vec<usize>,
    /// From the first connect to the last commit.
    pub(super) took: Duration,
}

/// What the members of a crowd share.
struct Meeting {
    /// All have tried to come in.
    arrived: Barrier,
    /// All have done their work; nobody leaves before.
    done: Barrier,
    /// How many are beyond `arrived`.
    working: AtomicUsize,
}

/// Sends `clients` at once, each with `rounds` transactions; `backends` and `waiting` are asked while they work.
pub(super) fn rush(
    params: &Params,
    clients: usize,
    rounds: usize,
    backends: &dyn Fn() -> usize,
    waiting: &mut dyn FnMut() -> usize,
) -> Outcome {
    let start = Instant::now();
    let meeting =
        Arc::new(Meeting { arrived: Barrier::new(clients), done: Barrier::new(clients), working: AtomicUsize::new(0) });
    let crowd: Vec<_> = (0..clients).map(|number| member(number, rounds, params.clone(), &meeting)).collect();
    let mut outcome = Outcome::default();
    let mut processes = Vec::new();
    while !crowd.iter().all(JoinHandle::is_finished) {
        thread::sleep(GLANCE);
        let all_here = meeting.working.load(Ordering::Relaxed) == clients;
        if all_here {
            processes.push(backends());
            outcome.queue.push(waiting());
        }
    }
    outcome.took = start.elapsed();
    for member in crowd {
        match member.join() {
            Ok(Ok(transactions)) => {
                outcome.served += 1;
                outcome.transactions += transactions;
            }
            Ok(Err(error)) => *outcome.refusals.entry(told(&error)).or_default() += 1,
            Err(_) => *outcome.refusals.entry("its thread failed".to_owned()).or_default() += 1,
        }
    }
    // Most often seen: at the edges some are still coming or already going.
    outcome.backends = median(processes);
    trim(&mut outcome.queue);
    outcome
}

fn member(number: usize, rounds: usize, params: Params, meeting: &Arc<Meeting>) -> JoinHandle<Result<usize, Error>> {
    let meeting = Arc::clone(meeting);
    let life = move || {
        let came = Connection::connect(&params);
        meeting.arrived.wait();
        meeting.working.fetch_add(1, Ordering::Relaxed);
        let (worked, connection) = match came {
            Ok(mut connection) => (work(&mut connection, number, rounds), Some(connection)),
            Err(error) => (Err(error), None),
        };
        meeting.done.wait();
        drop(connection);
        worked
    };
    thread::Builder::new().stack_size(STACK).spawn(life).expect("the system has room for a few more threads")
}

/// A transaction of four statements, as a program sends them; the sleep stands for what a real one does.
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

fn told(error: &Error) -> String {
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
    fn the_queue_is_shown_from_its_first_waiter_to_its_last() {
        let mut queue = vec![0, 0, 3, 0, 1, 0];
        trim(&mut queue);
        assert_eq!(queue, [3, 0, 1]);
        let mut empty = vec![0, 0];
        trim(&mut empty);
        assert!(empty.is_empty());
    }

    #[test]
    fn the_median_ignores_who_comes_and_goes() {
        assert_eq!(median(vec![97, 98, 97, 97, 12]), 97);
        assert_eq!(median(Vec::new()), 0);
    }
}
