//! What a process that takes over knows of the other one, as long as something may come from it.
//!
//! Requests to cancel come to the new process, while their clients may still be at the old one: the old process gets
//! the requests that mean no client here. That must not block a worker, and a request that finds no room is lost, as if
//! it had come too late.

use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::net::SendFlags;
use serde::Serialize;

use super::wire::{self, CancelRequest, Kind};

/// The state of what may still come, see the head of the file; cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct OldProcessLink(Arc<State>);

#[derive(Default)]
struct State {
    lasts: AtomicBool,
    /// It is not known yet what the other process has.
    is_new: AtomicBool,
    /// The connection, once this process serves.
    stream: Mutex<Option<UnixStream>>,
}

impl OldProcessLink {
    /// Notes that there is another process, which may give something from now on.
    pub(crate) fn begin(&self) {
        self.0.is_new.store(true, Ordering::Release);
        self.0.lasts.store(true, Ordering::Release);
    }

    /// Notes that the other process knows that this one serves.
    pub(super) fn serves(&self, stream: Option<UnixStream>) {
        *self.0.stream.lock().unwrap_or_else(PoisonError::into_inner) = stream;
    }

    /// Notes that the other process has said what it has, or does not say it.
    pub(super) fn known(&self) {
        self.0.is_new.store(false, Ordering::Release);
    }

    /// Whether this process only begins to take over: it can't be taken over from yet.
    pub(super) fn is_new(&self) -> bool {
        self.0.is_new.load(Ordering::Acquire)
    }

    /// Notes that nothing comes any more.
    pub(super) fn end(&self) {
        self.known();
        self.serves(None);
        self.0.lasts.store(false, Ordering::Release);
    }

    /// Whether something may still come.
    pub(super) fn lasts(&self) -> bool {
        self.0.lasts.load(Ordering::Acquire)
    }

    /// Passes on a request to cancel, if there is another process that may know its client.
    pub(crate) fn cancel(&self, pid: u32, secret: &[u8]) {
        if !self.lasts() {
            return;
        }
        self.send(Kind::Cancel, &CancelRequest { pid, secret: secret.to_vec() });
    }

    /// Tells the other process that this one runs.
    pub(super) fn alive(&self) {
        self.send(Kind::Alive, &());
    }

    /// Tells the other process that this one shuts down, so that both do.
    pub(crate) fn leaves(&self) {
        self.send(Kind::Leaves, &());
    }

    /// Sends `said` to what runs beside the other process's workers.
    pub(crate) fn say(&self, said: &[u8]) {
        self.send(Kind::Participant, &said.to_vec());
    }

    fn send<T: Serialize>(&self, kind: Kind, value: &T) {
        let stream = self.0.stream.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(stream), Ok(frame)) = (stream.as_ref(), wire::frame(kind, value)) {
            // All of it or nothing: it is far smaller than what a Unix socket takes at once.
            let _ = rustix::net::send(stream, &frame, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        }
    }
}
