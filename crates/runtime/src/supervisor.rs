//! What a supervisor hears that watches the process (systemd's sd_notify(3)). Without one nothing happens.

use sd_notify::{NotifyState, notify};

/// Clients may come, or a reload is over.
pub(crate) fn ready() {
    tell(&[NotifyState::Ready]);
}

/// The configuration is being read again.
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
    // A supervisor that can't be reached has lost interest; serving goes on.
    let _ = notify(false, states);
}
