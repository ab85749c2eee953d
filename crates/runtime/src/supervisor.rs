//! Notifications to a supervisor such as systemd (sd_notify(3)). Without a supervisor they have no effect.

use sd_notify::{NotifyState, notify};

/// Clients can connect, or a reload has ended.
pub(crate) fn ready() {
    tell(&[NotifyState::Ready]);
}

/// A reload has begun.
pub(crate) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(_) => tell(&[NotifyState::Reloading]),
    }
}

/// The service's main process is another one from now on.
pub(crate) fn main_process(pid: u32) {
    tell(&[NotifyState::MainPid(pid)]);
}

/// The process is about to end.
pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

fn tell(states: &[NotifyState<'_>]) {
    // A supervisor that can't be reached has lost interest; serving continues.
    let _ = notify(false, states);
}
