//! Gentle traffic: clients that work, think, and come again; now and then all want something at once, so that a queue
//! forms and goes.

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weir_pgclient::{Connection, Params};

use super::Stop;
use super::rng::Rng;

/// How many clients.
const CLIENTS: u64 = 60;
/// In these seconds of every [`PERIOD`] they hardly stop to think.
const RUSH: std::ops::Range<u64> = 4..8;
const PERIOD: u64 = 12;

/// The clients' threads; they end when it is dropped.
pub(super) struct Traffic {
    stop: Stop,
    threads: Vec<JoinHandle<()>>,
}

impl Traffic {
    pub(super) fn start(params: &Params) -> Self {
        let stop = Stop::default();
        let begin = Instant::now();
        let client = |number| {
            let (params, stop) = (params.clone(), stop.clone());
            thread::Builder::new().stack_size(256 * 1024).spawn(move || live(number, &params, &stop, begin))
        };
        // A machine that has no room for all of them shows less traffic.
        let threads = (0..CLIENTS).map_while(|number| client(number).ok()).collect();
        Traffic { stop, threads }
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.stop.ask();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// A client's life. Whatever ends its connection (the operator may try KILL on the console), it comes again.
fn live(number: u64, params: &Params, stop: &Stop, begin: Instant) {
    let mut rng = Rng::new(number + 1);
    let params = params.clone().timeout(Duration::from_secs(5));
    while !stop.asked() {
        if let Ok(mut connection) = Connection::connect(&params) {
            while !stop.asked() && work(&mut connection, &mut rng).is_ok() {
                stop.pause(Duration::from_millis(thinking_time(&mut rng, begin.elapsed())));
            }
        }
        stop.pause(Duration::from_millis(500));
    }
}

/// In milliseconds.
fn thinking_time(rng: &mut Rng, age: Duration) -> u64 {
    if RUSH.contains(&(age.as_secs() % PERIOD)) { 5 + rng.below(20) } else { 50 + rng.below(200) }
}

fn work(connection: &mut Connection, rng: &mut Rng) -> Result<(), weir_pgclient::Error> {
    let millis = 5 + rng.below(30);
    connection.query("begin")?;
    connection.query(&format!("select count(*), pg_sleep({}) from visit", millis as f64 / 1000.0))?;
    connection.query("commit")?;
    Ok(())
}
