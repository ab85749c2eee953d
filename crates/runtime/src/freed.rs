//! Returns freed memory to the operating system: the allocator keeps pages between blocks that are in use.
//!
//! Frees configurations that no worker uses any more, which takes milliseconds with thousands of pools: no client waits
//! for that.
//!
//! Owns a thread that looks every few seconds. The thread returns memory only where more is free or more is resident
//! than after the last time, so a process that frees as much as it allocates pays for a look only. Callers free and
//! allocate without regard to this.

use std::fs::File;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use weir_config::Config;

/// The time between two looks.
const PERIOD: Duration = Duration::from_secs(2);
/// A look may take this fraction of the time: it walks over what is free, while no other thread can allocate there. So
/// far below a hundredth that the 99th percentile of clients stays what it is.
const FRACTION: u32 = 500;
/// What may be free without being returned.
const SLACK: u64 = 512 << 10;

/// The configurations that the thread holds as long as others do; none without the thread.
static CONFIGS: OnceLock<Mutex<Vec<Arc<Config>>>> = OnceLock::new();

/// A configuration is in force: the thread frees it when it is not any more.
pub(crate) fn hold(config: &Arc<Config>) {
    if let Some(held) = CONFIGS.get() {
        held.lock().unwrap_or_else(PoisonError::into_inner).push(config.clone());
    }
}

/// The configurations that nobody else holds.
fn unused() -> Vec<Arc<Config>> {
    let held = CONFIGS.get().map(|held| held.lock().unwrap_or_else(PoisonError::into_inner));
    held.map(|mut held| held.extract_if(.., |config| Arc::strong_count(config) == 1).collect()).unwrap_or_default()
}

/// Starts the thread, which ends with the process.
///
/// # Errors
/// There can be no further thread.
pub(crate) fn start() -> io::Result<()> {
    weir_heap::keep_little();
    CONFIGS.get_or_init(Mutex::default);
    thread::Builder::new().name("weir-freed".into()).stack_size(64 << 10).spawn(watch).map(drop)
}

fn watch() {
    let mut after = Sizes::default();
    let mut pause = PERIOD;
    loop {
        thread::sleep(pause);
        drop(unused());
        let began = Instant::now();
        if Sizes::now().exceed(after) {
            weir_heap::give_back();
            after = Sizes::now();
        }
        pause = PERIOD.max(began.elapsed() * FRACTION);
    }
}

/// The memory of the process, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Sizes {
    /// Free in the heaps, whether it was returned or not.
    free: u64,
    resident: u64,
}

impl Sizes {
    fn now() -> Sizes {
        Sizes { free: weir_heap::free().into(), resident: resident().unwrap_or(0) }
    }

    /// Whether there is something to return that was not there after the last time.
    fn exceed(self, after: Sizes) -> bool {
        self.free > SLACK && (self.free > after.free + SLACK || self.resident > after.resident + SLACK)
    }
}

/// The resident memory; without a heap of this thread's own.
fn resident() -> io::Result<u64> {
    let mut buffer = [0; 2048];
    let length = File::open("/proc/self/status")?.read(&mut buffer)?;
    let status = str::from_utf8(&buffer[..length]).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    Ok(kilobytes.unwrap_or(0) << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn memory_is_returned_where_more_is_free_or_resident_than_after_the_last_time() {
        let sizes = |free, resident| Sizes { free, resident };
        let after = sizes(20 * MIB, 30 * MIB);
        assert!(!sizes(20 * MIB, 30 * MIB).exceed(after), "nothing has changed");
        assert!(sizes(21 * MIB, 30 * MIB).exceed(after), "something was freed");
        assert!(sizes(20 * MIB, 31 * MIB).exceed(after), "what was returned is in use, and free again");
        assert!(!sizes(MIB / 4, 90 * MIB).exceed(after), "all of it is in use");
        assert!(sizes(MIB, 30 * MIB).exceed(Sizes::default()), "for the first time");
    }

    #[test]
    fn the_resident_memory_of_this_process_is_known() {
        assert!(resident().unwrap() > MIB);
    }
}
