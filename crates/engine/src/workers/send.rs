//! Sends messages to workers.

use weir_base::WorkerId;

use crate::port::Io;
use crate::workers::messages::{Message, Payload, WorkerAnswer};
use crate::workers::quota::QuotaRequest;

/// Sends an answer to a worker.
pub(crate) fn answer<I: Io>(to: WorkerId, id: u64, answer: WorkerAnswer, io: &mut I) {
    io.post(to, Message(Payload::CommandAnswer { id, answer }), None);
}

/// Sends a request to worker 0, which may be this one.
pub(crate) fn request<I: Io>(request: QuotaRequest, io: &mut I) {
    io.post(COUNTER, Message(Payload::QuotaRequest(Box::new(request))), None);
}

/// The worker that counts.
pub(crate) const COUNTER: WorkerId = WorkerId(0);
