//! The log from outside: lines written, filtered, dropped.

use std::io::Write;
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};

use weir_config::Config;

use super::*;

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Shared {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn settings(verbose: u8) -> Settings {
    Settings { verbose, ..Config::default().log }
}

#[test]
fn levels_are_filtered_and_followed() {
    let sink = Shared::default();
    let (log, thread) = Log::start(LogTarget::Writer(Box::new(sink.clone())), &settings(0)).unwrap();
    log.line(Level::Debug, format_args!("not shown"));
    log.line(Level::Info, format_args!("C-{}: {}", 1, "login\nattempt"));
    log.follow(&settings(1));
    log.line(Level::Debug, format_args!("shown"));
    drop(log);
    thread.finish();
    let text = sink.text();
    let pid = std::process::id();
    assert!(text.contains(&format!(" [{pid}] LOG C-1: login\\nattempt\n")), "{text}");
    assert!(text.ends_with("DEBUG shown\n"), "{text}");
    assert_eq!(text.lines().count(), 2);
}

/// Accepts a line only when the test allows it.
struct Stuck(Receiver<()>, Sender<()>, Shared);

impl Write for Stuck {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.1.send(());
        let _ = self.0.recv();
        self.2.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_stuck_target_blocks_no_caller_and_the_losses_are_counted() {
    let (go, gate) = channel();
    let (started, begun) = channel();
    let sink = Shared::default();
    let target = LogTarget::Writer(Box::new(Stuck(gate, started, sink.clone())));
    let (log, thread) = Log::start(target, &settings(1)).unwrap();
    log.line(Level::Info, format_args!("first"));
    begun.recv().unwrap();
    (0..LINES + 100).for_each(|i| log.line(Level::Info, format_args!("{i}")));
    drop((go, log));
    thread.finish();
    assert!(sink.text().contains("WARNING 100 lines of the log were dropped"), "{}", sink.text());
}

#[test]
fn a_failing_target_stops_nothing() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let (log, thread) = Log::start(LogTarget::Writer(Box::new(Full)), &settings(1)).unwrap();
    (0..10).for_each(|_| log.line(Level::Error, format_args!("lost")));
    drop(log);
    thread.finish();
}
