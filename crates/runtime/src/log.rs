//! The log: one thread that writes lines, and a bounded channel to it.
//!
//! Nobody waits for the log. A line that finds the channel full is dropped and counted, and the count is logged when there
//! is room again. A target that fails (a full disk, a closed pipe) loses lines, and nothing else. Lines have PgBouncer's
//! form: `TIMESTAMP TZ [PID] LEVEL line`, here always in UTC.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::iter;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use weir_engine::port::Level;

use crate::clock::unix_micros;

/// Lines that may wait for the log's thread.
const LINES: usize = 4096;
/// A line is cut after so many bytes.
const LINE_LIMIT: usize = 8 * 1024;
/// Lines are gathered up to about this many bytes for one write; whole lines, so that those of several processes sharing
/// a pipe do not mix.
const GATHER: usize = 2048;
/// After a write the log's thread rests: whoever logs meanwhile need not wake it, and many lines share a write.
const BREATH: Duration = Duration::from_millis(10);
/// How long an end of the process waits for the last lines.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Where the log goes.
pub enum LogTarget {
    /// Standard error.
    Stderr,
    /// A file, appended to; opened again at each reload, so that it can be rotated.
    File(PathBuf),
    /// Anything else, for programs that run the pooler inside themselves.
    Writer(Box<dyn Write + Send>),
}

impl fmt::Debug for LogTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogTarget::Stderr => f.write_str("Stderr"),
            LogTarget::File(path) => f.debug_tuple("File").field(path).finish(),
            LogTarget::Writer(_) => f.write_str("Writer"),
        }
    }
}

enum Entry {
    Line { level: Level, at: u64, text: String },
    Reopen,
}

/// The way into the log; cheap to clone.
#[derive(Clone)]
pub(crate) struct Log {
    entries: SyncSender<Entry>,
    dropped: Arc<AtomicU64>,
    least: Level,
}

/// The log's thread, to be waited for at the end.
pub(crate) struct LogThread(Receiver<()>);

impl LogThread {
    /// Waits for the last lines, but not for a target that takes none. Every [`Log`] has to be gone by now.
    pub(crate) fn finish(self) {
        // An error is the answer: the thread never sends, it hangs up.
        let _ = self.0.recv_timeout(LAST_LINES);
    }
}

impl Log {
    /// Opens the target and starts the thread. Lines below `least` are not written.
    pub(crate) fn start(target: LogTarget, least: Level) -> io::Result<(Log, LogThread)> {
        let writer = Writer::open(target)?;
        let (entries, inbox) = sync_channel(LINES);
        let (end, ended) = sync_channel::<()>(0);
        let dropped = Arc::new(AtomicU64::new(0));
        let count = dropped.clone();
        thread::Builder::new().name("weir-log".into()).spawn(move || {
            write_lines(inbox, writer, &count);
            drop(end);
        })?;
        Ok((Log { entries, dropped, least }, LogThread(ended)))
    }

    /// Queues a line.
    pub(crate) fn line(&self, level: Level, line: fmt::Arguments<'_>) {
        if level < self.least {
            return;
        }
        let mut text = line.to_string();
        if text.len() > LINE_LIMIT {
            let whole = (0..=LINE_LIMIT).rev().find(|i| text.is_char_boundary(*i));
            text.truncate(whole.unwrap_or_default());
        }
        let entry = Entry::Line { level, at: unix_micros(), text };
        if let Err(TrySendError::Full(_)) = self.entries.try_send(entry) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Opens a log file again.
    pub(crate) fn reopen(&self) {
        // With the channel full the file stays as it is until the next reload; waiting would be worse.
        let _ = self.entries.try_send(Entry::Reopen);
    }
}

struct Writer {
    path: Option<PathBuf>,
    sink: Box<dyn Write + Send>,
}

impl Writer {
    fn open(target: LogTarget) -> io::Result<Self> {
        Ok(match target {
            LogTarget::Stderr => Writer { path: None, sink: Box::new(io::stderr()) },
            LogTarget::File(path) => Writer { sink: Box::new(append(&path)?), path: Some(path) },
            LogTarget::Writer(sink) => Writer { path: None, sink },
        })
    }

    fn reopen(&mut self) {
        if let Some(Ok(file)) = self.path.as_ref().map(append) {
            self.sink = Box::new(file);
        }
    }

    /// Writes what has been gathered. A target that fails loses it.
    fn write(&mut self, lines: &mut Vec<u8>) {
        let _ = self.sink.write_all(lines);
        let _ = self.sink.flush();
        lines.clear();
    }
}

fn format_line(lines: &mut Vec<u8>, pid: u32, level: Level, at: u64, text: &str) {
    // Writing to memory does not fail.
    let _ = writeln!(lines, "{} [{pid}] {} {}", Utc(at), label(level), OneLine(text));
}

fn append(path: &PathBuf) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

fn write_lines(inbox: Receiver<Entry>, mut writer: Writer, dropped: &AtomicU64) {
    let pid = std::process::id();
    let mut lines = Vec::new();
    while let Ok(first) = inbox.recv() {
        for entry in iter::once(first).chain(inbox.try_iter()) {
            match entry {
                Entry::Line { level, at, text } => format_line(&mut lines, pid, level, at, &text),
                Entry::Reopen => {
                    writer.write(&mut lines);
                    writer.reopen();
                }
            }
            if lines.len() > GATHER {
                writer.write(&mut lines);
            }
        }
        let lost = dropped.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let text = format!("{lost} lines of the log were dropped: it could not keep up");
            format_line(&mut lines, pid, Level::Warning, unix_micros(), &text);
        }
        writer.write(&mut lines);
        thread::sleep(BREATH);
    }
}

fn label(level: Level) -> &'static str {
    match level {
        Level::Debug => "DEBUG",
        Level::Info => "LOG",
        Level::Warning => "WARNING",
        Level::Error => "ERROR",
    }
}

/// A text without line breaks and other control characters: a client's words must not forge lines.
struct OneLine<'a>(&'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut pieces = self.0.split(|c: char| c.is_control() && c != '\t');
        f.write_str(pieces.next().unwrap_or_default())?;
        pieces.try_for_each(|piece| write!(f, " {piece}"))
    }
}

/// A moment as `2026-11-21 10:00:00.123 UTC`.
struct Utc(u64);

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (secs, millis) = (self.0 / 1_000_000, self.0 / 1_000 % 1_000);
        let (year, month, day) = civil(secs / 86_400);
        let (hour, minute, second) = (secs / 3_600 % 24, secs / 60 % 60, secs % 60);
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{millis:03} UTC")
    }
}

/// The date of a day counted from 1970-01-01, in the Gregorian calendar. Years are counted from March, so that the leap
/// day comes last; the calendar repeats every 400 years, which have 146,097 days.
fn civil(days: u64) -> (u64, u64, u64) {
    // Day 0 of the shifted count is 0000-03-01.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Shared {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    #[test]
    fn dates_are_right_across_leap_years() {
        assert_eq!(Utc(0).to_string(), "1970-01-01 00:00:00.000 UTC");
        assert_eq!(Utc(951_782_400_000_000).to_string(), "2000-02-29 00:00:00.000 UTC");
        assert_eq!(Utc(1_795_255_200_123_000).to_string(), "2026-11-21 10:00:00.123 UTC");
        assert_eq!(Utc(4_107_542_399_999_999).to_string(), "2100-02-28 23:59:59.999 UTC");
    }

    #[test]
    fn lines_have_pgbouncers_form_and_levels_are_filtered() {
        let sink = Shared::default();
        let (log, thread) = Log::start(LogTarget::Writer(Box::new(sink.clone())), Level::Info).unwrap();
        log.line(Level::Debug, format_args!("not shown"));
        log.line(Level::Info, format_args!("C-{}: {}", 1, "login\nattempt"));
        drop(log);
        thread.finish();
        let text = sink.text();
        let pid = std::process::id();
        assert!(text.ends_with(&format!(" UTC [{pid}] LOG C-1: login attempt\n")), "{text}");
        assert_eq!(text.lines().count(), 1);
    }

    /// Takes a line only when it is told to.
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
    fn a_stuck_target_stops_nobody_and_the_losses_are_counted() {
        let (go, gate) = channel();
        let (started, begun) = channel();
        let sink = Shared::default();
        let target = LogTarget::Writer(Box::new(Stuck(gate, started, sink.clone())));
        let (log, thread) = Log::start(target, Level::Debug).unwrap();
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
        let (log, thread) = Log::start(LogTarget::Writer(Box::new(Full)), Level::Debug).unwrap();
        (0..10).for_each(|_| log.line(Level::Error, format_args!("lost")));
        drop(log);
        thread.finish();
    }
}
