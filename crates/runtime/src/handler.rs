//! The handler of a worker's inputs: an engine, or in tests something smaller.

use weir_base::{Time, WorkerId};
use weir_engine::port::{Input, Io, OfferedState};

/// The handler that a worker's loop calls; in production an [`Engine`](weir_engine::Engine).
pub trait Handler: Send + 'static {
    /// Handles one input: a turn. Must not block.
    fn handle<I: Io>(&mut self, now: Time, input: Input<'_>, io: &mut I);
    /// When [`Input::Tick`] is due; [`Time::NEVER`] for never.
    fn next_deadline(&self) -> Time;
}

/// What a handler receives when it is made.
#[derive(Clone, Debug)]
pub struct WorkerSetup {
    /// The handler's worker.
    pub worker: WorkerId,
    /// The number of workers.
    pub workers: u16,
    /// The wall clock at [`Time::START`], in microseconds since 1970.
    pub wall_at_start: u64,
    /// Random bytes from the operating system, different for each worker.
    pub seed: [u8; 32],
    /// Randomness of the operating system, the same for all workers.
    pub process_key: [u8; 32],
    /// What the process has said that this one takes over from; `None`: there is none.
    pub old_process: Option<OfferedState>,
}
