//! What accepts connections beside the workers: it leaves that to the process that takes over, at the same moment as they
//! do, and this process answers what it has accepted.

use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};

/// What accepts connections beside the workers, see the head of the file.
pub trait ControlPlane: Send + Sync {
    /// Its listening sockets once more, for a process that takes over.
    fn listeners(&self) -> Vec<TcpListener>;
    /// Accepts from now on, or leaves that to another process, which has the same sockets.
    fn accept(&self, on: bool);
    /// Waits until the connections that were accepted are answered, for a limited time: the workers end after it.
    fn finish(&self);
}

/// The place of the control plane, once it runs; cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct ControlPlaneSlot(Arc<Mutex<Option<Arc<dyn ControlPlane>>>>);

impl ControlPlaneSlot {
    pub(crate) fn set(&self, plane: Option<Arc<dyn ControlPlane>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = plane;
    }

    fn get(&self) -> Option<Arc<dyn ControlPlane>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn listeners(&self) -> Vec<TcpListener> {
        self.get().map(|plane| plane.listeners()).unwrap_or_default()
    }

    pub(super) fn accept(&self, on: bool) {
        self.get().iter().for_each(|plane| plane.accept(on));
    }

    pub(super) fn finish(&self) {
        self.get().iter().for_each(|plane| plane.finish());
    }
}
