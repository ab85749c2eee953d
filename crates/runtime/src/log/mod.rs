//! The log: one thread that writes lines, and a bounded channel to it.
//!
//! A worker waits for the log only before it sends an error, so that the log has the reason first (`progress`). A line
//! that finds the channel full is dropped and counted, and the count is logged when there is room again. A target that
//! fails (a full disk, a closed pipe) loses lines, and nothing else. The form of a line is in `form`, its targets in
//! `sink`.

mod form;
mod progress;
mod sink;

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use weir_admin::{LogPage, LogQuery, RecentLog};
use weir_base::{plural, prefix};
use weir_config::Log as Settings;
use weir_engine::port::{About, Level};

use crate::clock::unix_micros;
use form::{Line, Who};
use progress::Progress;
pub use sink::LogTarget;
use sink::Sinks;

/// Lines that the channel holds, and those of them that may be about clients without a login.
const LINES: usize = 4096;
const OF_STRANGERS: usize = LINES / 2;
/// The length in bytes at which a line is cut.
const LINE_LIMIT: usize = 8 * 1024;
/// The number of writes a second that follow their lines at once, so that the log has what a client has just received.
const PROMPT_WRITES: u32 = 100;
/// The pause after each further write within the second: lines queued meanwhile need no wake, and share a write.
const PAUSE: Duration = Duration::from_millis(10);
/// The pause before a file that refuses lines is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// How long an end of the process waits for the last lines.
const LAST_LINES: Duration = Duration::from_secs(1);

enum Entry {
    Line(Line),
    Reopen,
    Follow(Box<Settings>),
}

/// A sender to the log; cheap to clone.
#[derive(Clone)]
pub(crate) struct Log {
    entries: SyncSender<Entry>,
    progress: Arc<Progress>,
    dropped: Arc<AtomicU64>,
    /// Lines in the channel about clients without a login.
    strangers: Arc<AtomicUsize>,
    /// Lines below this level are not written.
    min_level: Arc<AtomicU8>,
    recent: Recent,
}

/// The last lines, for readers elsewhere; cheap to clone. The log's thread fills it.
#[derive(Clone, Default)]
pub(crate) struct Recent(Arc<RecentLines>);

#[derive(Default)]
struct RecentLines {
    lines: Mutex<RecentLog>,
    /// Why the last lines are not in the configured file.
    file_error: Mutex<Option<String>>,
}

impl Recent {
    pub(crate) fn select(&self, query: &LogQuery) -> LogPage {
        self.0.lines.lock().unwrap_or_else(PoisonError::into_inner).select(query)
    }

    pub(crate) fn file_error(&self) -> Option<String> {
        self.0.file_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_file_error(&self, error: Option<String>) {
        *self.0.file_error.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }

    fn push(&self, line: Line) {
        self.0.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line.into_recent());
    }
}

/// The log's thread; the end of the process waits for it.
pub(crate) struct LogThread(Receiver<()>);

impl LogThread {
    /// Waits for the last lines, with a timeout for a target that blocks. Every [`Log`] must have been dropped.
    pub(crate) fn finish(self) {
        // Returns an error in any case: the thread never sends, it drops its end.
        let _ = self.0.recv_timeout(LAST_LINES);
    }
}

/// The lowest level that is written with these settings.
fn min_level(settings: &Settings) -> Level {
    match settings.verbose {
        0 => Level::Info,
        1 => Level::Debug,
        _ => Level::Noise,
    }
}

impl Log {
    /// Opens `target` and the configured targets, and starts the thread. Fails if a file can't be opened.
    pub(crate) fn start(target: LogTarget, settings: &Settings) -> io::Result<(Log, LogThread)> {
        let sinks = Sinks::open(target, settings)?;
        let (entries, inbox) = sync_channel(LINES);
        let (end, ended) = sync_channel::<()>(0);
        let dropped = Arc::new(AtomicU64::new(0));
        let strangers = Arc::new(AtomicUsize::new(0));
        let counts = Counts { dropped: dropped.clone(), strangers: strangers.clone() };
        let progress = Arc::new(Progress::new());
        let reached = progress.clone();
        let recent = Recent::default();
        let filled = recent.clone();
        thread::Builder::new().name("weir-log".into()).spawn(move || {
            write_lines(inbox, sinks, &counts, (&reached, &filled));
            drop(end);
        })?;
        let min_level = Arc::new(AtomicU8::new(min_level(settings) as u8));
        Ok((Log { entries, progress, dropped, strangers, min_level, recent }, LogThread(ended)))
    }

    /// The last lines.
    pub(crate) fn recent(&self) -> Recent {
        self.recent.clone()
    }

    /// Queues a line about the process. Never blocks.
    pub(crate) fn line(&self, level: Level, line: fmt::Arguments<'_>) {
        self.about(level, About::Process, line);
    }

    /// Whether lines of this level are written.
    pub(crate) fn takes(&self, level: Level) -> bool {
        (level as u8) >= self.min_level.load(Ordering::Relaxed)
    }

    /// Queues a line about a connection or the process. Never blocks.
    pub(crate) fn about(&self, level: Level, about: About<'_>, line: fmt::Arguments<'_>) {
        if !self.takes(level) {
            return;
        }
        let mut text = line.to_string();
        text.truncate(prefix(&text, LINE_LIMIT).len());
        let line = Line { level, at: unix_micros(), who: Who::of(about), text };
        let stranger = line.who.is_stranger();
        if stranger && self.strangers.fetch_add(1, Ordering::Relaxed) >= OF_STRANGERS {
            self.strangers.fetch_sub(1, Ordering::Relaxed);
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        match self.entries.try_send(Entry::Line(line)) {
            Ok(()) => self.progress.queued(),
            Err(error) => {
                self.strangers.fetch_sub(usize::from(stranger), Ordering::Relaxed);
                let full = matches!(error, TrySendError::Full(_));
                self.dropped.fetch_add(u64::from(full), Ordering::Relaxed);
            }
        }
    }

    /// Waits until what has been queued is written, for 20 ms at most.
    pub(crate) fn settle(&self) {
        self.progress.wait();
    }

    /// Opens the log's file again, since the old one may have been moved away.
    pub(crate) fn reopen(&self) {
        // With a full channel the file is not reopened until the next request; blocking would be worse.
        let _ = self.entries.try_send(Entry::Reopen);
    }

    /// Applies other settings.
    pub(crate) fn follow(&self, settings: &Settings) {
        self.min_level.store(min_level(settings) as u8, Ordering::Relaxed);
        let _ = self.entries.try_send(Entry::Follow(Box::new(settings.clone())));
    }
}

/// Writes why a process can't start as the log's lines, to the configured file and syslog, and to standard error if it
/// is `printed`: init scripts discard that. Returns whether a target has the lines.
pub fn log_start_error(settings: &Settings, lines: &[String], printed: bool) -> bool {
    let target = || if printed { LogTarget::Stderr } else { LogTarget::Quiet };
    let plain = Settings { file: None, syslog: false, ..settings.clone() };
    // The file may be the reason.
    let started = Log::start(target(), settings).or_else(|error| match printed {
        true => Log::start(target(), &plain),
        false => Err(error),
    });
    let Ok((log, thread)) = started else { return false };
    for (i, line) in lines.iter().enumerate() {
        let level = if i + 1 == lines.len() { Level::Fatal } else { Level::Error };
        log.line(level, format_args!("{line}"));
    }
    drop(log);
    thread.finish();
    printed || settings.file.is_some() || settings.syslog
}

/// Whether the configured log file can be written; creates it.
pub fn check_log_file(settings: &Settings) -> io::Result<()> {
    settings
        .file
        .as_deref()
        .map_or(Ok(()), |path| sink::append(path).map(drop).map_err(|error| sink::unopened(path, &error)))
}

/// What the log's thread shares with its senders.
struct Counts {
    dropped: Arc<AtomicU64>,
    strangers: Arc<AtomicUsize>,
}

fn write_lines(inbox: Receiver<Entry>, mut sinks: Sinks, counts: &Counts, (progress, recent): (&Progress, &Recent)) {
    let (mut second, mut writes) = (Instant::now(), 0);
    loop {
        // A file that refused lines is tried again, whether there are new lines or not.
        let first = match recent.file_error() {
            Some(_) => inbox.recv_timeout(TRY_AGAIN),
            None => inbox.recv().map_err(RecvTimeoutError::from),
        };
        if matches!(first, Err(RecvTimeoutError::Disconnected)) {
            return;
        }
        let mut lines = 0;
        for entry in first.into_iter().chain(inbox.try_iter()) {
            match entry {
                Entry::Line(line) => {
                    lines += 1;
                    counts.strangers.fetch_sub(usize::from(line.who.is_stranger()), Ordering::Relaxed);
                    sinks.put(&line);
                    recent.push(line);
                }
                Entry::Reopen => sinks.reopen(),
                Entry::Follow(settings) => sinks.follow(&settings),
            }
        }
        let lost = counts.dropped.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let text = format!(
                "{} dropped: it could not keep up",
                plural(lost, "line of the log was", "lines of the log were")
            );
            sinks.put(&Line { level: Level::Warning, at: unix_micros(), who: Who::Process, text });
        }
        sinks.flush();
        recent.set_file_error(sinks.file_error());
        progress.written(lines);
        if second.elapsed() >= Duration::from_secs(1) {
            (second, writes) = (Instant::now(), 0);
        }
        writes += 1;
        if writes > PROMPT_WRITES {
            thread::sleep(PAUSE);
        }
    }
}

#[cfg(test)]
mod tests;
