//! What a process inherits from its parent: ignored signals.
//!
//! `nohup`, and a shell that starts a job in the background, leave signals ignored; an ignored signal stays so in every
//! program that is started from there on. A server, or a test, that waits for one then waits for ever.
//!
//! Owns the set of those that were ignored when this process began. Only the kernel's own table says so (proc(5),
//! `SigIgn`); where there is none, nothing counts as ignored.

use std::fs;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Once, OnceLock};

use nix::sys::signal::Signal;

/// The signals that end a process in order, and that others are used to being able to send.
const ENDING: [Signal; 4] = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM];

/// A bit for each signal that was ignored at first.
static IGNORED: OnceLock<u64> = OnceLock::new();

/// Whether a signal was ignored when this process began: its parent did not want it to be ended so.
pub fn is_ignored(signal: Signal) -> bool {
    let mask = IGNORED.get_or_init(|| fs::read_to_string("/proc/self/status").map_or(0, |status| mask_of(&status)));
    mask >> (signal as i32 - 1) & 1 == 1
}

fn mask_of(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// What is started from now on receives the signals that end a process, also where this process began with them
/// ignored. This process itself still ignores them.
pub fn restore_signals_for_children() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for signal in ENDING.into_iter().filter(|signal| is_ignored(*signal)) {
            // A handler does not outlive exec(2), as ignoring does. This one only sets a flag that is not read.
            let _ = signal_hook::flag::register(signal as i32, Arc::<AtomicBool>::default());
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_table_is_read() {
        let mask = mask_of("Name:\tx\nSigBlk:\t0000000000000002\nSigIgn:\t0000000000001007\nSigCgt:\t0\n");
        let ignored = |signal: Signal| mask >> (signal as i32 - 1) & 1 == 1;
        assert!([Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGPIPE].into_iter().all(ignored));
        assert!(!ignored(Signal::SIGTERM) && !ignored(Signal::SIGKILL));
        assert_eq!((mask_of(""), mask_of("SigIgn:\tx\n")), (0, 0));
    }
}
