//! What runs beside the workers, and has a part in a take-over: its messages go over the same connection, in order with
//! what workers release. Their bytes are its own.

use std::sync::{Arc, Mutex, PoisonError};

/// What runs beside the workers, see the head of the file. The first three methods are called in the old process, the
/// others in the new one, on threads that may wait.
pub trait UpgradeParticipant: Send + Sync {
    /// The process `pid` serves, and takes over: returns what that process is to know. Nothing is given before it has
    /// answered.
    fn export(&self, pid: u32) -> Vec<u8>;
    /// The process that takes over has sent `said`; first its answer.
    fn received(&self, said: &[u8]);
    /// The process that was to take over is gone, or does not answer.
    fn aborted(&self);
    /// The old process has sent `said`; returns the answer. Later messages go by
    /// [`Running::send_to_old_process`](crate::Running).
    fn import(&self, said: &[u8]) -> Vec<u8>;
    /// The old process has given everything, and ends.
    fn imported(&self);
    /// The connection to the old process is lost.
    fn lost(&self);
}

/// The place of what runs beside the workers, once it runs; cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct ParticipantSlot(Arc<Mutex<Option<Arc<dyn UpgradeParticipant>>>>);

impl ParticipantSlot {
    pub(crate) fn set(&self, participant: Option<Arc<dyn UpgradeParticipant>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = participant;
    }

    /// What runs beside the workers; `None`: nothing has a part.
    pub(crate) fn get(&self) -> Option<Arc<dyn UpgradeParticipant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
