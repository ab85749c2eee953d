//! Moderate traffic for the live view: clients that run a transaction and pause; in some seconds the pauses are short,
//! so that clients wait in the queue.

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use weir_pgclient::{ConnectParams, Connection};

use crate::stop::Stop;

/// How many clients.
const CLIENTS: u64 = 60;
/// In these seconds of every [`PERIOD`] clients pause only briefly.
const RUSH: std::ops::Range<u64> = 4..8;
const PERIOD: u64 = 12;

/// The clients' threads; they end when it is dropped.
pub(super) struct Traffic {
    stop: Stop,
    threads: Vec<JoinHandle<()>>,
}

impl Traffic {
    pub(super) fn start(params: &ConnectParams) -> Self {
        let stop = Stop::default();
        let begin = Instant::now();
        let client = |number| {
            let (params, stop) = (params.clone(), stop.clone());
            thread::Builder::new().stack_size(256 * 1024).spawn(move || run_client(number, &params, &stop, begin))
        };
        // Without room for all threads, there is less traffic.
        let threads = (0..CLIENTS).map_while(|number| client(number).ok()).collect();
        Traffic { stop, threads }
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.stop.request();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Runs a client until the stop. When its connection ends (by KILL on the console, say), it connects again.
fn run_client(number: u64, params: &ConnectParams, stop: &Stop, begin: Instant) {
    let mut rng = SmallRng::seed_from_u64(number);
    let params = params.clone().timeout(Duration::from_secs(5));
    while !stop.is_requested() {
        if let Ok(mut connection) = Connection::connect(&params) {
            while !stop.is_requested() && work(&mut connection, &mut rng).is_ok() {
                stop.sleep(Duration::from_millis(pause(&mut rng, begin.elapsed())));
            }
        }
        stop.sleep(Duration::from_millis(500));
    }
}

/// In milliseconds.
fn pause(rng: &mut SmallRng, age: Duration) -> u64 {
    if RUSH.contains(&(age.as_secs() % PERIOD)) { rng.random_range(5..25) } else { rng.random_range(50..250) }
}

fn work(connection: &mut Connection, rng: &mut SmallRng) -> Result<(), weir_pgclient::Error> {
    let millis = rng.random_range(5..35);
    connection.query("begin")?;
    connection.query(&format!("select count(*), pg_sleep({}) from visit", millis as f64 / 1000.0))?;
    connection.query("commit")?;
    Ok(())
}
