//! The load during a fault: clients at a steady pace. Each reply carries its client's own token.
//!
//! Owns the clients' threads and their results. Invariant: a reply that is not exactly for its client is a mix-up,
//! which no fault excuses; so is an acknowledged write that is not there exactly once.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weir_pgclient::{ConnectParams, Connection, Error, Frame, ServerErrorFields};
use weir_pgwire::{TxStatus, tag};

use crate::rng::Rng;
use crate::wire::{Batch, lines_of};

/// How long a client waits for an answer before it disconnects.
const TIMEOUT: Duration = Duration::from_secs(12);
/// How long a client that lost its connection waits before it reconnects, as an application's own pool does.
const RECONNECT_DELAY: Duration = Duration::from_millis(50);

/// One action of a client, and its result.
#[derive(Clone, Debug)]
pub(super) struct Event {
    /// When the action ended.
    pub(super) at: Instant,
    pub(super) client: usize,
    /// An SQLSTATE, or `closed` between two messages, `torn` within one, `reset`, `refused`, `silence`.
    pub(super) failed: Option<String>,
}

/// The running clients.
pub(super) struct Load {
    shared: Arc<Shared>,
    clients: Vec<JoinHandle<()>>,
}

struct Shared {
    params: ConnectParams,
    pace: Duration,
    stop: AtomicBool,
    events: Mutex<Vec<Event>>,
    mixed_up: Mutex<Vec<String>>,
    written: Mutex<BTreeSet<String>>,
}

/// The results after all clients have stopped.
pub(super) struct Results {
    pub(super) events: Vec<Event>,
    pub(super) mixed_up: Vec<String>,
    /// Tokens of the writes that were acknowledged.
    pub(super) written: BTreeSet<String>,
}

impl Load {
    /// Starts this many clients, each of which acts about once a `pace`.
    pub(super) fn start(params: &ConnectParams, clients: usize, pace: Duration) -> Load {
        let shared = Arc::new(Shared {
            params: params.clone().timeout(TIMEOUT),
            pace,
            stop: AtomicBool::new(false),
            events: Mutex::default(),
            mixed_up: Mutex::default(),
            written: Mutex::default(),
        });
        let client = |number| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.client(number))
        };
        Load { clients: (0..clients).map(client).collect(), shared }
    }

    /// The events so far, from the `from`th on.
    pub(super) fn events_from(&self, from: usize) -> Vec<Event> {
        let events = lock(&self.shared.events);
        events.get(from..).map(<[Event]>::to_vec).unwrap_or_default()
    }

    /// How many clients there are.
    pub(super) fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Stops the clients; each finishes its current action.
    pub(super) fn stop(self) -> Results {
        self.shared.stop.store(true, Ordering::SeqCst);
        for client in self.clients {
            assert!(client.join().is_ok(), "a client panicked");
        }
        let take = |list: &Mutex<Vec<_>>| std::mem::take(&mut *lock(list));
        Results {
            events: std::mem::take(&mut *lock(&self.shared.events)),
            mixed_up: take(&self.shared.mixed_up),
            written: std::mem::take(&mut *lock(&self.shared.written)),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn client(&self, client: usize) {
        let mut rng = Rng::new(client as u64 + 1);
        let mut connection = None;
        for turn in 0.. {
            if self.stop.load(Ordering::SeqCst) {
                break;
            }
            let token = format!("c{client}-{turn}");
            let outcome = self.act(&mut connection, &token, &mut rng);
            let failed = outcome.as_ref().err().map(name);
            let lost = outcome.is_err_and(|error| error.server().is_none_or(|said| said.severity != "ERROR"))
                || connection.as_ref().is_some_and(|connection| connection.status() != TxStatus::Idle);
            lock(&self.events).push(Event { at: Instant::now(), client, failed });
            if lost {
                connection = None;
                thread::sleep(RECONNECT_DELAY);
            }
            // Clients start at different times.
            thread::sleep(self.pace.mul_f64(0.5 + rng.below(1000) as f64 / 1000.0));
        }
    }

    fn act(&self, connection: &mut Option<Connection>, token: &str, rng: &mut Rng) -> Result<(), Error> {
        let connection = match connection {
            Some(connection) => connection,
            None => connection.insert(Connection::connect(&self.params)?),
        };
        match rng.below(8) {
            0..=2 => {
                let value = connection.value(&format!("SELECT '{token}'"));
                self.compare(token, value?.as_deref());
            }
            3..=5 => self.extended(connection, token)?,
            6 => {
                connection.query("BEGIN")?;
                let value = connection.value(&format!("SELECT '{token}'"));
                self.compare(token, value?.as_deref());
                connection.query("COMMIT")?;
            }
            _ => {
                let value = connection.value(&format!("INSERT INTO ledger VALUES ('{token}') RETURNING token"));
                self.compare(token, value?.as_deref());
                lock(&self.written).insert(token.to_owned());
            }
        }
        Ok(())
    }

    /// A pipeline of two statements, each with an answer of its own.
    fn extended(&self, connection: &mut Connection, token: &str) -> Result<(), Error> {
        let second = format!("{token}b");
        let batch = Batch::new().run("SELECT $1::text", &[token]).run("SELECT $1::text", &[&second]).sync();
        connection.send_bytes(batch.bytes())?;
        let mut frames = Vec::new();
        while frames.last().is_none_or(|frame: &Frame| frame.tag != tag::back::READY) {
            match connection.read_frame(TIMEOUT) {
                Ok(frame) => frames.push(frame),
                Err(error) => return Err(error_in(&frames).unwrap_or(error)),
            }
        }
        let transcript = lines_of(&frames);
        let rows: Vec<_> = transcript.iter().filter_map(|line| line.strip_prefix("Row ")).collect();
        match error_in(&frames) {
            Some(error) => return Err(error),
            None if rows != [token, &second] => self.mixed_up(format!("{token}: {transcript:?}")),
            None => {}
        }
        Ok(())
    }

    fn compare(&self, token: &str, value: Option<&str>) {
        if value != Some(token) {
            self.mixed_up(format!("{token} was answered {value:?}"));
        }
    }

    fn mixed_up(&self, what: String) {
        lock(&self.mixed_up).push(what);
    }
}

/// The error among these messages.
fn error_in(frames: &[Frame]) -> Option<Error> {
    let error = frames.iter().find(|frame| frame.tag == tag::back::ERROR)?;
    Some(
        ServerErrorFields::read(&error.body)
            .map_or_else(|_| Error::Protocol("?".into()), |e| Error::Server(Box::new(e))),
    )
}

/// The name under which a failure is counted.
pub(super) fn name(error: &Error) -> String {
    use std::io::ErrorKind as Kind;
    match error {
        Error::Server(said) => said.sqlstate.clone(),
        Error::Closed => "closed".to_owned(),
        Error::Timeout => "silence".to_owned(),
        Error::Io(io) => match io.kind() {
            Kind::ConnectionRefused => "refused".to_owned(),
            Kind::ConnectionReset | Kind::BrokenPipe => "reset".to_owned(),
            Kind::UnexpectedEof => "torn".to_owned(),
            Kind::TimedOut | Kind::WouldBlock => "silence".to_owned(),
            other => format!("{other:?}"),
        },
        Error::Protocol(what) => format!("protocol: {what}"),
        Error::Login(_) | Error::NoPassword(_) => format!("login: {error}"),
    }
}
