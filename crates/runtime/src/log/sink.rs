//! The targets of log lines: standard error, a file, syslog, a writer of the embedding program.
//!
//! Owns their descriptors. No failure of one affects the others: a line that one does not accept is lost there only.
//! Lost lines are counted, and the count is the first line after the failure.

use std::env;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use rustix::io::ioctl_fionbio;
use weir_base::plural;
use weir_config::{Log as Settings, LogFormat};
use weir_engine::port::Level;

use super::form::{self, Line, Who};
use crate::clock::unix_micros;

/// Lines are collected up to about this many bytes for one write; whole lines, so that those of several processes
/// sharing a pipe do not mix.
const GATHER: usize = 2048;
/// The socket of syslog.
const DEV_LOG: &str = "/dev/log";
/// The target besides the configured file and syslog.
pub enum LogTarget {
    /// Standard error. Under systemd lines carry a priority there instead of a time.
    Stderr,
    /// No further target.
    Quiet,
    /// Any writer, for programs that embed the pooler.
    Writer(Box<dyn Write + Send>),
}

impl fmt::Debug for LogTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LogTarget::Stderr => "Stderr",
            LogTarget::Quiet => "Quiet",
            LogTarget::Writer(_) => "Writer",
        })
    }
}

/// All targets of the log.
pub(super) struct Sinks {
    streams: Vec<Stream>,
    syslog: Option<Syslog>,
    zone: TimeZone,
    settings: Settings,
}

/// A target of bytes.
struct Stream {
    /// The path of the target's file, for reopening.
    path: Option<PathBuf>,
    format: LogFormat,
    sink: Box<dyn Write + Send>,
    waiting: Vec<u8>,
    /// Lines that were lost here and not reported yet.
    lost: u64,
    /// Whether the last write ended within a line.
    torn: bool,
    /// Why the last write failed.
    error: Option<String>,
}

impl Sinks {
    /// Opens all targets; fails with the first file that can't be opened.
    pub(super) fn open(target: LogTarget, settings: &Settings) -> io::Result<Sinks> {
        let mut streams = Vec::new();
        match target {
            LogTarget::Quiet => {}
            LogTarget::Writer(sink) => streams.push(Stream::new(sink, settings.format)),
            LogTarget::Stderr => {
                let journal = settings.format == LogFormat::Text && is_journal();
                let format = if journal { LogFormat::Journal } else { settings.format };
                streams.push(Stream::new(Box::new(io::stderr()), format));
            }
        }
        if let Some(path) = &settings.file {
            streams.push(Stream::file(path, settings.format).map_err(|error| unopened(path, &error))?);
        }
        let syslog = settings.syslog.then(|| Syslog::new(settings));
        Ok(Sinks { streams, syslog, zone: TimeZone::system(), settings: settings.clone() })
    }

    /// Passes a line to all targets.
    pub(super) fn put(&mut self, line: &Line) {
        for stream in &mut self.streams {
            form(&mut stream.waiting, stream.format, line, &self.zone);
            if stream.waiting.len() > GATHER {
                stream.flush(&self.zone);
            }
        }
        if let Some(syslog) = &mut self.syslog {
            syslog.send(&form::syslog(line, syslog.facility, &syslog.ident, &self.zone));
        }
    }

    /// Writes the collected lines.
    pub(super) fn flush(&mut self) {
        self.streams.iter_mut().for_each(|stream| stream.flush(&self.zone));
    }

    /// Why the file does not take lines.
    pub(super) fn file_error(&self) -> Option<String> {
        let failed = |stream: &Stream| Some(format!("{}: {}", stream.path.as_ref()?.display(), stream.error.as_ref()?));
        self.streams.iter().find_map(failed)
    }

    /// Opens files again. If one can't be opened, the old one stays in use.
    pub(super) fn reopen(&mut self) {
        self.flush();
        for stream in &mut self.streams {
            if let Some(Ok(file)) = stream.path.as_deref().map(append) {
                stream.sink = Box::new(file);
                stream.torn = false;
            }
        }
    }

    /// Applies other settings. If a new file can't be opened, the old one stays in use and gets a line about it.
    pub(super) fn follow(&mut self, settings: &Settings) {
        self.flush();
        let old = std::mem::replace(&mut self.settings, settings.clone());
        if old.format != settings.format {
            let journal = |stream: &Stream| stream.format == LogFormat::Journal && stream.path.is_none();
            for stream in self.streams.iter_mut().filter(|stream| !journal(stream)) {
                stream.format = settings.format;
            }
        }
        if old.file != settings.file {
            self.change_file(settings);
        }
        let same = |s: &Settings| (s.syslog, s.syslog_ident.clone(), s.syslog_facility.clone());
        if same(&old) != same(settings) {
            self.syslog = settings.syslog.then(|| Syslog::new(settings));
        }
    }

    fn change_file(&mut self, settings: &Settings) {
        let opened = settings.file.as_deref().map(|path| Stream::file(path, settings.format)).transpose();
        match opened {
            Ok(file) => {
                self.streams.retain(|stream| stream.path.is_none());
                self.streams.extend(file);
            }
            Err(error) => {
                let path = settings.file.as_deref().unwrap_or(Path::new(""));
                let text =
                    format!("the log file {} can't be opened: {error}; the old one stays in use", path.display());
                self.put(&Line { level: Level::Error, at: unix_micros(), who: Who::Process, text });
            }
        }
    }
}

impl Stream {
    fn new(sink: Box<dyn Write + Send>, format: LogFormat) -> Stream {
        Stream { path: None, format, sink, waiting: Vec::new(), lost: 0, torn: false, error: None }
    }

    fn file(path: &Path, format: LogFormat) -> io::Result<Stream> {
        Ok(Stream { path: Some(path.to_owned()), ..Stream::new(Box::new(append(path)?), format) })
    }

    /// Writes the collected lines; what the target does not accept is lost.
    fn flush(&mut self, zone: &TimeZone) {
        if self.lost > 0 && !self.tell_loss(zone) {
            self.lost += lines(&self.waiting);
            self.waiting.clear();
        }
        if !self.waiting.is_empty() {
            let waiting = std::mem::take(&mut self.waiting);
            self.lost += lines(&waiting[self.write(&waiting)..]);
            // Keeps the buffer's memory for the next lines.
            self.waiting = waiting;
            self.waiting.clear();
        }
    }

    /// Whether the target has accepted the line with the number of lost ones.
    fn tell_loss(&mut self, zone: &TimeZone) -> bool {
        let text = format!(
            "{} lost: they could not be written here",
            plural(self.lost, "line of the log was", "lines of the log were")
        );
        let mut report = Vec::new();
        if self.torn {
            report.push(b'\n');
        }
        form(
            &mut report,
            self.format,
            &Line { level: Level::Warning, at: unix_micros(), who: Who::Process, text },
            zone,
        );
        let taken = self.write(&report) == report.len();
        self.lost = if taken { 0 } else { self.lost };
        taken
    }

    /// Writes as much as the target accepts; returns how much.
    fn write(&mut self, bytes: &[u8]) -> usize {
        let mut taken = 0;
        while taken < bytes.len() {
            match self.sink.write(&bytes[taken..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) => {
                    self.error = Some("nothing could be written".to_owned());
                    break;
                }
                Err(error) => {
                    self.error = Some(error.to_string());
                    break;
                }
                Ok(count) => {
                    taken += count;
                    self.error = None;
                }
            }
        }
        if let Some(last) = taken.checked_sub(1) {
            self.torn = bytes[last] != b'\n';
        }
        let _ = self.sink.flush();
        taken
    }
}

fn form(into: &mut Vec<u8>, format: LogFormat, line: &Line, zone: &TimeZone) {
    match format {
        LogFormat::Text => form::text(into, line, zone),
        LogFormat::Json => form::json(into, line),
        LogFormat::Journal => form::journal(into, line),
    }
}

/// The number of line ends.
fn lines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// Why a start without the log's file is refused.
pub(super) fn unopened(path: &Path, error: &io::Error) -> io::Error {
    let folder = path.parent().filter(|folder| error.kind() == io::ErrorKind::NotFound && !folder.exists());
    let advice = folder.map(|folder| format!("; create the folder {}, or change the log's file", folder.display()));
    io::Error::new(error.kind(), format!("{}: {error}{}", path.display(), advice.unwrap_or_default()))
}

/// Opens a file to append lines. The open of a named pipe that nobody reads would not end, and would hold up all other
/// lines.
pub(super) fn append(path: &Path) -> io::Result<File> {
    let opened = OpenOptions::new().append(true).create(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(code) if code == Errno::ENXIO as i32 => io::Error::other("nobody reads this pipe"),
        _ => error,
    })?;
    // A reader may be slow.
    ioctl_fionbio(&file, false)?;
    Ok(file)
}

/// Whether standard error is connected to systemd's journal: `JOURNAL_STREAM` has its device and inode
/// (systemd.exec(5)).
fn is_journal() -> bool {
    let Ok(named) = env::var("JOURNAL_STREAM") else { return false };
    let Ok(file) = io::stderr().as_fd().try_clone_to_owned().map(File::from) else { return false };
    file.metadata().is_ok_and(|m| named == format!("{}:{}", m.dev(), m.ino()))
}

/// Syslog: one datagram a line, without blocking.
struct Syslog {
    socket: Option<UnixDatagram>,
    path: PathBuf,
    ident: String,
    facility: u8,
    lost: u64,
}

impl Syslog {
    fn new(settings: &Settings) -> Syslog {
        let known = weir_config::SYSLOG_FACILITIES.iter().find(|(name, _)| *name == settings.syslog_facility);
        let facility = known.map_or(3, |(_, number)| *number);
        let ident = settings.syslog_ident.clone();
        Syslog { socket: None, path: DEV_LOG.into(), ident, facility, lost: 0 }
    }

    fn send(&mut self, text: &str) {
        if self.try_send(text).is_err() {
            // The daemon may have been restarted, with a new socket.
            self.socket = None;
            if self.try_send(text).is_err() {
                self.lost += 1;
            }
        }
    }

    fn try_send(&mut self, text: &str) -> io::Result<()> {
        if self.socket.is_none() {
            let socket = UnixDatagram::unbound()?;
            socket.set_nonblocking(true)?;
            socket.connect(&self.path)?;
            self.socket = Some(socket);
        }
        let socket = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let lost = std::mem::take(&mut self.lost);
        if lost > 0 {
            let report = socket.send(format!("{} lost here\n", plural(lost, "line was", "lines were")).as_bytes());
            self.lost = if report.is_ok() { 0 } else { lost };
        }
        socket.send(text.as_bytes()).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use weir_config::Config;

    use std::fs;

    use super::*;

    fn line(text: &str) -> Line {
        Line { level: Level::Info, at: 0, who: Who::Process, text: text.into() }
    }

    fn folder(name: &str) -> PathBuf {
        let folder = env::temp_dir().join(format!("weir-log-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_pipe_that_nobody_reads_is_refused_and_one_that_is_read_gets_all_lines() {
        let folder = folder("pipe");
        let pipe = folder.join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(append(&pipe).unwrap_err().to_string(), "nobody reads this pipe");
        let flags = OFlag::O_NONBLOCK.bits();
        let reader = OpenOptions::new().read(true).custom_flags(flags).open(&pipe).unwrap();
        let mut writer = append(&pipe).unwrap();
        ioctl_fionbio(&reader, false).unwrap();
        // More than a pipe holds.
        let all = vec![b'x'; 1 << 20];
        let count = all.len();
        let writing = std::thread::spawn(move || writer.write_all(&all));
        let mut received = Vec::new();
        io::Read::read_to_end(&mut { reader }, &mut received).unwrap();
        writing.join().unwrap().unwrap();
        assert_eq!(received.len(), count);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_file_is_opened_again_and_another_one_followed() {
        let folder = folder("file");
        let (first, moved, second) = (folder.join("a.log"), folder.join("a.log.1"), folder.join("b.log"));
        let mut settings = Settings { file: Some(first.clone()), ..Config::default().log };
        let mut sinks = Sinks::open(LogTarget::Quiet, &settings).unwrap();
        sinks.put(&line("one"));
        sinks.flush();
        fs::rename(&first, &moved).unwrap();
        sinks.put(&line("two"));
        sinks.reopen();
        sinks.put(&line("three"));
        settings.file = Some(second.clone());
        settings.format = LogFormat::Json;
        sinks.follow(&settings);
        sinks.put(&line("four"));
        settings.file = Some(folder.join("no/such/folder"));
        sinks.follow(&settings);
        sinks.flush();
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        assert!(read(&moved).contains("one") && read(&moved).contains("two"));
        assert!(read(&first).contains("three") && !read(&first).contains("two"));
        assert!(read(&second).starts_with("{\"time\":") && read(&second).contains("the old one stays in use"));
        fs::remove_dir_all(&folder).unwrap();
    }

    /// A disk with room for this many bytes.
    struct Disk {
        room: std::sync::Arc<std::sync::Mutex<usize>>,
        written: std::sync::Arc<std::sync::Mutex<Vec<u8>>>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut room = self.room.lock().unwrap();
            if *room == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let count = bytes.len().min(*room);
            *room -= count;
            self.written.lock().unwrap().extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_costs_lines_which_are_counted_when_there_is_room_again() {
        let (room, written) = (std::sync::Arc::new(std::sync::Mutex::new(0)), std::sync::Arc::default());
        let disk = Disk { room: room.clone(), written: std::sync::Arc::clone(&written) };
        let mut sinks = Sinks::open(LogTarget::Writer(Box::new(disk)), &Config::default().log).unwrap();
        let mut put = |room_now: usize, text: &str| {
            *room.lock().unwrap() = room_now;
            sinks.put(&line(text));
            sinks.flush();
        };
        put(10_000, "one");
        // Room for a part of a line.
        put(20, "torn");
        put(0, "lost");
        put(0, "lost as well");
        put(10_000, "two");
        put(10_000, "three");
        let text = String::from_utf8(written.lock().unwrap().clone()).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 5, "{text}");
        assert!(lines[0].ends_with(" one") && lines[1].len() == 20, "{text}");
        assert!(lines[2].ends_with(" WARNING 3 lines of the log were lost: they could not be written here"), "{text}");
        assert!(lines[3].ends_with(" two") && lines[4].ends_with(" three"), "{text}");
    }

    #[test]
    fn a_file_that_can_not_be_opened_is_named_at_start() {
        let settings = Settings { file: Some("/no/such/folder/weir.log".into()), ..Config::default().log };
        let error = Sinks::open(LogTarget::Quiet, &settings).map(drop).unwrap_err();
        assert!(error.to_string().starts_with("/no/such/folder/weir.log: "), "{error}");
    }

    #[test]
    fn the_system_log_gets_datagrams_and_its_absence_stops_nothing() {
        let folder = folder("syslog");
        let path = folder.join("log");
        let mut syslog = Syslog::new(&Settings { syslog_facility: "local0".into(), ..Config::default().log });
        syslog.path.clone_from(&path);
        syslog.send("lost");
        let daemon = UnixDatagram::bind(&path).unwrap();
        syslog.send("found");
        let mut buffer = [0; 100];
        let length = daemon.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"1 line was lost here\n");
        let length = daemon.recv(&mut buffer).unwrap();
        assert_eq!((&buffer[..length], syslog.facility), (&b"found"[..], 16));
        fs::remove_dir_all(&folder).unwrap();
    }
}
