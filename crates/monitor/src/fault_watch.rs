//! The faults of Weir itself without a `[web]` section, for SHOW FAULTS and the log.
//!
//! Owns one thread, which looks for them once a second. With a `[web]` section `watch` does that.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use weir_admin::{ConfigAccess, Control, Fault};
use weir_config::Config;

use crate::ask::Workers;
use crate::faults::Faults;

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// The thread; dropping it ends it.
#[derive(Debug)]
pub struct FaultWatch {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl FaultWatch {
    /// Starts the thread. `in_force` returns the configuration, without a request to the workers.
    ///
    /// # Errors
    ///
    /// The thread can't be started.
    pub fn start(
        control: Arc<dyn Control>,
        access: Arc<dyn ConfigAccess>,
        in_force: impl Fn() -> Arc<Config> + Send + 'static,
    ) -> io::Result<FaultWatch> {
        let (workers, faults) = (Workers::new(control), Faults::new(access, Vec::new()));
        let ended = Arc::new(AtomicBool::new(false));
        let stop = ended.clone();
        let watch = move || {
            let mut known: Arc<[Fault]> = Arc::default();
            while !stop.load(Ordering::Acquire) {
                let (found, lines) = faults.now_blocking(&in_force(), workers.log_file_error());
                let found: Arc<[Fault]> = found.iter().map(Fault::from).collect();
                if found != known {
                    known = found.clone();
                    workers.set_faults(found);
                }
                lines.into_iter().for_each(|line| workers.log(line));
                thread::park_timeout(PAUSE);
            }
        };
        let thread = thread::Builder::new().name("weir-faults".into()).spawn(watch)?;
        Ok(FaultWatch { ended, thread: Some(thread) })
    }
}

impl Drop for FaultWatch {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic there has been printed.
            let _ = thread.join();
        }
    }
}
