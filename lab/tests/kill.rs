//! A lab that is killed, at any moment and by any signal, leaves no process and no folder behind.

mod place;

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use weir_pglocal::{Signal, send_signal};

use place::{Place, needed, wait};

/// The timeout of cleaning up: a reaper gives servers six seconds to end, and the machine may be busy.
const TIMEOUT: Duration = Duration::from_secs(15);

/// When to kill, in ms after the start: while programs are searched for, while drivers are installed, while servers
/// are created, and while something is measured.
const MOMENTS: [u64; 4] = [300, 1000, 3000, 6000];

#[test]
fn node_is_gone_after_sigkill_at_any_moment() {
    let Some(weir) = needed(&["node", "npm"]) else { return };
    for moment in MOMENTS {
        strike("node", &weir, moment, Signal::SIGKILL);
    }
}

#[test]
fn reconnect_is_gone_after_sigkill_at_any_moment() {
    let Some(weir) = needed(&[]) else { return };
    for moment in MOMENTS {
        strike("reconnect", &weir, moment, Signal::SIGKILL);
    }
}

#[test]
fn products_is_gone_after_sigkill_at_any_moment() {
    let Some(weir) = needed(&[]) else { return };
    for moment in MOMENTS {
        strike("products", &weir, moment, Signal::SIGKILL);
    }
}

#[test]
fn a_lab_that_gets_a_signal_clears_up_first() {
    let Some(weir) = needed(&["node", "npm"]) else { return };
    for (experiment, moment, signal) in [
        ("node", 4500, Signal::SIGINT),
        ("products", 6000, Signal::SIGINT),
        ("reconnect", 3500, Signal::SIGTERM),
        ("node", 2000, Signal::SIGHUP),
    ] {
        strike(experiment, &weir, moment, signal);
    }
}

#[test]
fn a_lab_that_began_with_signals_ignored_clears_up_as_any_other() {
    let Some(weir) = needed(&[]) else { return };
    for (experiment, moment, signal) in [
        ("reconnect", 3500, Signal::SIGINT),
        ("reconnect", 3500, Signal::SIGKILL),
        ("products", 6000, Signal::SIGTERM),
        ("products", 6000, Signal::SIGKILL),
    ] {
        let place = Place::new();
        let lab = place.lab_with_signals_ignored(&[experiment, "--smoke", "--fresh"], &weir);
        end(&place, lab, experiment, moment, signal);
    }
}

/// Runs an experiment, sends it `signal` after `moment` ms, and asserts that nothing of it is left.
fn strike(experiment: &str, weir: &Path, moment: u64, signal: Signal) {
    let place = Place::new();
    let lab = place.lab(&[experiment, "--smoke", "--fresh"], weir);
    end(&place, lab, experiment, moment, signal);
}

fn end(place: &Place, mut lab: Child, experiment: &str, moment: u64, signal: Signal) {
    let what = format!("{experiment} after {moment} ms, {signal}");
    thread::sleep(Duration::from_millis(moment));
    let (before, running) = (place.processes(), lab.try_wait().expect("a child of ours").is_none());
    send_signal(lab.id(), signal);
    let status = wait(&mut lab, TIMEOUT);
    eprintln!("{what}: {} processes before, running: {running}, then {status:?}", before.len());
    let status = status.unwrap_or_else(|| panic!("{what}: it continues\n{}", place.said()));
    // At least the lab and its reaper, or this test would not detect what is left.
    assert!(!running || before.len() >= 2, "{what}: only {before:?}\n{}", place.said());
    match signal {
        _ if !running => eprintln!("{what}: it had ended already:\n{}", place.said()),
        Signal::SIGKILL => assert_eq!(status.signal(), Some(signal as i32), "{what}"),
        _ => {
            assert_eq!(status.code(), Some(128 + signal as i32), "{what}: {}", place.said());
            // What the signal ended is no result, and the run can be resumed.
            assert_eq!(place.unfinished(), 1, "{what}: {}", place.said());
            assert!(!place.said().contains("failed"), "{what}: {}", place.said());
        }
    }
    let end = Instant::now() + TIMEOUT;
    while !(place.processes().is_empty() && place.folders().is_empty()) && Instant::now() < end {
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(place.processes(), Vec::<String>::new(), "{what}: processes are left");
    assert_eq!(place.folders(), Vec::<PathBuf>::new(), "{what}: folders are left");
}
