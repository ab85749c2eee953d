//! What drives a worker: an engine, or in tests something smaller.

use weir_base::{Time, WorkerId};
use weir_engine::port::{Input, Io};

/// What a worker's loop serves. [`Engine`](weir_engine::Engine) is the one that pools.
pub trait Handler: Send + 'static {
    /// Handles one input: a turn.
    fn handle<I: Io>(&mut self, now: Time, input: Input<'_>, io: &mut I);
    /// When [`Input::Tick`] is due; [`Time::NEVER`] for not at all.
    fn next_deadline(&self) -> Time;
}

/// What a handler is told about its place when it is made.
#[derive(Clone, Copy, Debug)]
pub struct WorkerSetup {
    /// Its worker.
    pub worker: WorkerId,
    /// How many workers there are.
    pub workers: u16,
    /// The wall clock at [`Time::START`], in microseconds since 1970.
    pub wall_at_start: u64,
    /// Randomness of the operating system, different for each worker.
    pub seed: [u8; 32],
    /// Randomness of the operating system, the same for all workers.
    pub process_key: [u8; 32],
    /// The highest number that another process has given, where this one takes over from it; otherwise 0.
    pub ids_after: u64,
}
