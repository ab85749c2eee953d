//! The control queue: requests of the control plane to worker 0, and the callback of each response.
//!
//! Owns the numbers of requests and their callbacks. Requests go to worker 0's mailbox. No query uses this; the lock
//! is held for table operations only, never while a response is delivered.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use weir_admin::{BusyWorker, CommandError, Control, ControlRequest, Deliver, LogPage, LogQuery, Response};
use weir_base::WorkerId;

use crate::clock::Clock;
use crate::log::Recent;
use crate::mailbox::{Mailboxes, WorkerMessage};
use crate::rounds::Rounds;

/// The most requests under way at the same time; more are refused.
const MOST: usize = 1024;

/// The `Control` of running workers; cheap to clone.
#[derive(Clone)]
pub(crate) struct ControlQueue(Arc<Inner>);

struct Inner {
    mailboxes: Mailboxes,
    log: Recent,
    clock: Clock,
    rounds: Rounds,
    number: AtomicU64,
    waiting: Mutex<HashMap<u64, Deliver>>,
}

impl ControlQueue {
    pub(crate) fn new(mailboxes: Mailboxes, log: Recent, (clock, rounds): (Clock, Rounds)) -> Self {
        let number = AtomicU64::new(1);
        ControlQueue(Arc::new(Inner { mailboxes, log, clock, rounds, number, waiting: Mutex::default() }))
    }

    /// Delivers an engine's response.
    pub(crate) fn answer(&self, number: u64, response: Response) {
        if let Some(deliver) = self.take(number) {
            deliver(response);
        }
    }

    fn take(&self, number: u64) -> Option<Deliver> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&number)
    }

    /// Registers a callback; returns it if there are too many.
    fn enter(&self, number: u64, deliver: Deliver) -> Result<(), Deliver> {
        let mut waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= MOST {
            return Err(deliver);
        }
        waiting.insert(number, deliver);
        Ok(())
    }
}

impl Control for ControlQueue {
    fn ask(&self, request: ControlRequest, deliver: Deliver) -> u64 {
        let number = self.0.number.fetch_add(1, Ordering::Relaxed);
        match self.enter(number, deliver) {
            Err(deliver) => deliver(Err(CommandError::TooBusy)),
            // Without workers there is no response: the caller sees that its callback is dropped.
            Ok(()) if !self.0.mailboxes.send(WorkerId(0), WorkerMessage::ControlRequest { number, request }) => {
                drop(self.take(number))
            }
            Ok(()) => {}
        }
        number
    }

    fn forget(&self, number: u64) {
        if self.take(number).is_some() {
            self.0.mailboxes.send(WorkerId(0), WorkerMessage::ControlRequestDropped { number });
        }
    }

    fn busiest(&self) -> Option<BusyWorker> {
        self.0.rounds.longest(self.0.clock.now())
    }

    fn log_lines(&self, query: &LogQuery) -> LogPage {
        self.0.log.select(query)
    }

    fn log_file_error(&self) -> Option<String> {
        self.0.log.file_error()
    }
}
