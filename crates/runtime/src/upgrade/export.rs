//! The old process's side: a thread that waits for a process that takes over, and gives it what workers release.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mio::net::UnixListener;
use mio::{Events, Interest, Poll, Token, Waker};
use weir_base::WorkerId;
use weir_engine::port::{Level, OfferedState, Signal, UpgradeStep};
use weir_engine::{UPGRADE_FORMAT, worker_of_cancel_pid};

use super::control_plane::ControlPlaneSlot;
use super::export_queue::ExportMessage;
use super::listeners::{ListenerKind, Offered};
use super::liveness::{Liveness, has_sent};
use super::old_process_link::OldProcessLink;
use super::participant::ParticipantSlot;
use super::process;
use super::socket::{UpgradeSocket, is_trusted};
use super::wire::{self, CancelRequest, Item, Kind, Offer, Serving};
use crate::clock::Clock;
use crate::log::Log;
use crate::mailbox::{Handoff, Mailboxes, WorkerMessage};
use crate::shared::Ending;
use crate::socket_file::FileUsers;
use crate::supervisor;
use crate::tls::Tls;

/// How long a connected process may take to send its request: the thread listens to one at a time, so one that sends
/// nothing delays the next.
const HELLO: Duration = Duration::from_secs(2);
/// How long the other side may send nothing before it serves, and within a frame.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the other side may take within a frame while it takes over.
const FRAME: Duration = Duration::from_millis(1_800);
/// How long workers may take to answer a request.
const WORKERS: Duration = Duration::from_secs(10);
/// How long the thread may take to end with the process; if it waits for another process, it is not joined.
const FAREWELL: Duration = Duration::from_secs(1);
/// The interval of checks for late returns.
const STRAYS: Duration = Duration::from_secs(1);
/// How many may wait for the end of a drain; the connections of others are closed at once.
const MOST_DRAIN_CALLERS: usize = 16;
/// The interval of looks whether this process has begun to take over.
const BEGINNING: Duration = Duration::from_millis(5);
/// The tokens of the thread's event sources.
const ASKED: Token = Token(0);
const ENDS: Token = Token(1);
/// The interval at which workers look for connections that became free unnoticed, and report what is left.
const ROUND: Duration = Duration::from_millis(10);

/// Why the other process does not take over.
enum Stopped {
    /// It shuts down.
    Leaves,
    /// It is gone, or hangs.
    Failed(io::Error),
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Stopped {
        Stopped::Failed(error)
    }
}

impl From<ErrorKind> for Stopped {
    fn from(kind: ErrorKind) -> Stopped {
        Stopped::Failed(kind.into())
    }
}

/// The thread that waits for a process that takes over.
pub(crate) struct ExportThread {
    /// Ends the wait. The socket itself may be shared with another process, so it is not shut down.
    ends: Waker,
    thread: JoinHandle<()>,
}

/// The thread's state.
pub(crate) struct Exporter {
    pub(crate) socket: UpgradeSocket,
    pub(crate) exported: Receiver<ExportMessage>,
    pub(crate) mailboxes: Mailboxes,
    pub(crate) log: Log,
    pub(crate) clock: Clock,
    pub(crate) process_key: [u8; 32],
    pub(crate) ending: Ending,
    pub(crate) control_plane: ControlPlaneSlot,
    /// Set when another process has taken over.
    pub(crate) gone: Arc<AtomicBool>,
    pub(crate) file_users: FileUsers,
    /// The process that this one takes over from, maybe still.
    pub(crate) old_process_link: OldProcessLink,
    pub(crate) participant: ParticipantSlot,
    /// The connections of those who had the process drain, and wait for its end.
    pub(crate) drain_callers: Mutex<Vec<UnixStream>>,
}

impl ExportThread {
    pub(crate) fn start(exporter: Exporter) -> io::Result<ExportThread> {
        let poll = Poll::new()?;
        let ends = Waker::new(poll.registry(), ENDS)?;
        exporter.socket.listener.set_nonblocking(true)?;
        let mut watched = UnixListener::from_std(exporter.socket.listener.try_clone()?);
        poll.registry().register(&mut watched, ASKED, Interest::READABLE)?;
        let run = move || {
            exporter.run(poll);
            drop(watched);
        };
        let thread = thread::Builder::new().name("weir-upgrade".into()).spawn(run)?;
        Ok(ExportThread { ends, thread })
    }

    /// Ends the thread, since the process ends.
    pub(crate) fn finish(self) {
        let by = Instant::now() + FAREWELL;
        let _ = self.ends.wake();
        while !self.thread.is_finished() && Instant::now() < by {
            thread::sleep(Duration::from_millis(1));
        }
        if self.thread.is_finished() {
            let _ = self.thread.join();
        }
    }
}

impl Exporter {
    fn run(self, mut poll: Poll) {
        let mut events = Events::with_capacity(2);
        // After a failed take-over, a client that reads slowly may be released much later.
        let mut strays = None;
        loop {
            if self.ending.status().is_some() {
                return;
            }
            if self.old_process_link.is_new() {
                // Who asks meanwhile waits in the socket's queue, where the old process hears it if this one fails.
                let _ = poll.poll(&mut events, Some(BEGINNING));
                continue;
            }
            let stream = match self.socket.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let _ = poll.poll(&mut events, strays);
                    self.forget_answers();
                    continue;
                }
                // No descriptor is free.
                Err(_) => {
                    thread::sleep(Duration::from_millis(200));
                    continue;
                }
            };
            if !is_trusted(&stream, None) {
                self.log.line(Level::Warning, format_args!("a process of another user asked to take over; refused"));
                continue;
            }
            if self.serve(&stream) {
                self.gone.store(true, Ordering::Release);
                return self.ending.end(0);
            }
            strays = Some(STRAYS);
        }
    }

    /// Handles one process that connects; returns whether it has taken over.
    fn serve(&self, stream: &UnixStream) -> bool {
        match self.offer(stream) {
            Ok(Some(serving)) => return self.export(stream, &serving),
            Ok(None) => {}
            Err(error) => {
                self.log.line(Level::Warning, format_args!("take-over by another process failed, serving on: {error}"));
            }
        }
        // Operators may change things again.
        self.send_step(UpgradeStep::Abort);
        false
    }

    /// Offers the listening sockets, and waits until the other process serves. Nothing is given away before.
    fn offer(&self, stream: &UnixStream) -> io::Result<Option<Serving>> {
        stream.set_read_timeout(Some(HELLO))?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        let hello = wire::receive(stream)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        if hello.kind == Kind::Drain {
            return self.drain(stream).map(|()| None);
        }
        let Some((format, version)) = hello.bytes.split_first_chunk().filter(|_| hello.kind == Kind::Hello) else {
            return Err(ErrorKind::InvalidData.into());
        };
        let (format, version) = (u32::from_be_bytes(*format), String::from_utf8_lossy(version).into_owned());
        self.log.line(Level::Info, format_args!("weir {version} asks to take over"));
        if format != UPGRADE_FORMAT {
            let own = env!("CARGO_PKG_VERSION");
            return self.refuse(stream, &format!("it is weir {own}, whose sessions this version can't read"));
        }
        let prepared = match self.ask_workers()? {
            Ok(prepared) => prepared,
            Err(why) => return self.refuse(stream, why),
        };
        let listeners = self.listeners()?;
        let offer = Offer {
            pid: std::process::id(),
            namespace: process::namespace(),
            process_key: self.process_key,
            wall_at_start: self.clock.wall_at_start(),
            now: self.clock.now().micros(),
            prepared,
            listeners: listeners.iter().map(|(kind, _)| kind.clone()).collect(),
        };
        let descriptors: Vec<_> = listeners.iter().map(|(_, fd)| fd.as_fd()).collect();
        wire::send_value(stream, Kind::Offer, &offer, &descriptors)?;
        drop(listeners);
        let serving = wire::receive(stream)?;
        if serving.kind != Kind::Serving {
            return Err(ErrorKind::InvalidData.into());
        }
        wire::value(&serving).map(Some)
    }

    /// The process is to drain. Its end closes the connection.
    fn drain(&self, stream: &UnixStream) -> io::Result<()> {
        self.mailboxes.send(WorkerId(0), WorkerMessage::Signal(Signal::Drain));
        wire::send(stream, Kind::Drain, &std::process::id().to_be_bytes(), &[])?;
        let mut callers = self.drain_callers.lock().unwrap_or_else(PoisonError::into_inner);
        if callers.len() < MOST_DRAIN_CALLERS {
            callers.push(stream.try_clone()?);
        }
        Ok(())
    }

    fn refuse(&self, stream: &UnixStream, why: &str) -> io::Result<Option<Serving>> {
        self.log.line(Level::Warning, format_args!("take-over refused: {why}"));
        wire::send(stream, Kind::Refused, why.as_bytes(), &[])?;
        Ok(None)
    }

    /// Asks all workers whether another process may take over, and what it begins with.
    fn ask_workers(&self) -> io::Result<Result<OfferedState, &'static str>> {
        self.forget_answers();
        self.send_step(UpgradeStep::Prepare);
        let (mut all, by) = (OfferedState::default(), Instant::now() + WORKERS);
        for _ in 0..self.mailboxes.workers() {
            let exported = self.next(by, |exported| matches!(exported, ExportMessage::Begins(_)))?;
            match exported {
                ExportMessage::Begins(Ok(own)) => {
                    all.last_id = all.last_id.max(own.last_id);
                    all.disabled.extend(own.disabled);
                    all.set.extend(own.set);
                }
                ExportMessage::Begins(Err(why)) => return Ok(Err(why)),
                _ => {}
            }
        }
        Ok(Ok(all))
    }

    fn listeners(&self) -> io::Result<Offered> {
        self.mailboxes.send(WorkerId(0), WorkerMessage::OfferListeners);
        let exported =
            self.next(Instant::now() + WORKERS, |exported| matches!(exported, ExportMessage::Listeners(_)))?;
        let ExportMessage::Listeners(mut listeners) = exported else { return Err(ErrorKind::InvalidData.into()) };
        listeners.extend(self.control_plane.listeners().into_iter().map(|web| (ListenerKind::Web, web.into())));
        let path = self.socket.file.path().to_owned();
        listeners.push((ListenerKind::Upgrade(path), self.socket.listener.try_clone()?.into()));
        if let Ok(errors) = io::stderr().as_fd().try_clone_to_owned() {
            listeners.push((ListenerKind::Errors, errors));
        }
        Ok(listeners)
    }

    /// The other process serves: gives it everything. Returns whether it has received all of it.
    fn export(&self, stream: &UnixStream, serving: &Serving) -> bool {
        let pid = serving.pid;
        self.log
            .line(Level::Info, format_args!("process {pid} takes over: clients move to it between two transactions"));
        self.file_users.add();
        let mut stopped = false;
        let exported = self.agree_with_participant(stream, pid).and_then(|()| {
            // The other process runs, and accepts clients.
            stopped = true;
            self.mailboxes.send(WorkerId(0), WorkerMessage::Listen(false));
            self.control_plane.accept(false);
            self.export_all(stream)
        });
        match exported {
            Ok(()) => {
                self.control_plane.finish();
                self.log.line(Level::Info, format_args!("process {pid} has taken over, exiting"));
                true
            }
            // This process must end: the other one has the sockets, and what it received.
            Err(_) if self.ending.status().is_some() => false,
            Err(why) => {
                self.file_users.remove();
                self.send_step(UpgradeStep::Abort);
                match why {
                    Stopped::Leaves => self.leave_too(pid),
                    Stopped::Failed(error) => self.serve_on(pid, stopped, &error),
                }
                self.keep_rest();
                false
            }
        }
    }

    /// The other process is gone: this one accepts again.
    fn serve_on(&self, pid: u32, stopped: bool, error: &io::Error) {
        if stopped {
            self.mailboxes.send(WorkerId(0), WorkerMessage::Listen(true));
            self.control_plane.accept(true);
        }
        self.participant.get().iter().for_each(|participant| participant.aborted());
        supervisor::main_process(std::process::id());
        self.log
            .line(Level::Error, format_args!("process {pid}, which took over, is gone or hangs: {error}; serving on"));
    }

    /// The other process shuts down: nobody is to serve any more. Clients that are still here have the time of a
    /// drain.
    fn leave_too(&self, pid: u32) {
        self.participant.get().iter().for_each(|participant| participant.aborted());
        // By TCP nobody comes any more, by the Unix socket operators do.
        self.mailboxes.send(WorkerId(0), WorkerMessage::Accept(false));
        self.mailboxes.send(WorkerId(0), WorkerMessage::Listen(true));
        self.control_plane.accept(true);
        self.mailboxes.send(WorkerId(0), WorkerMessage::Signal(Signal::Drain));
        let what =
            format_args!("process {pid}, which took over, shuts down: the clients that are still here leave, too");
        self.log.line(Level::Info, what);
    }

    /// Lets what runs beside the workers exchange messages with its counterpart in the other process, before anything
    /// is given.
    fn agree_with_participant(&self, stream: &UnixStream, pid: u32) -> Result<(), Stopped> {
        let said = self.participant.get().map(|participant| participant.export(pid)).unwrap_or_default();
        stream.set_read_timeout(Some(FRAME))?;
        stream.set_write_timeout(Some(FRAME))?;
        wire::send_value(stream, Kind::Participant, &said, &[])?;
        let mut liveness = Liveness::new();
        while liveness.wait(stream) {
            if self.listen(stream)? {
                return Ok(());
            }
        }
        Err(ErrorKind::TimedOut.into())
    }

    fn export_all(&self, stream: &UnixStream) -> Result<(), Stopped> {
        self.forget_answers();
        // Two rounds in which no worker has anything left: what one sent to another has arrived by the second.
        let (mut quiet, mut liveness, mut is_known) = (0, Liveness::new(), false);
        while quiet < 2 {
            if liveness.hangs(self.listen_to(stream)?) {
                return Err(ErrorKind::TimedOut.into());
            }
            // What this process still takes over is forwarded to the other one. Checked before the workers.
            let taking = self.old_process_link.lasts();
            self.send_step(UpgradeStep::Export);
            let round = Instant::now() + ROUND;
            let (mut left, mut answers, mut values) = (0, 0, 0_usize);
            while answers < self.mailboxes.workers() {
                match self.exported.recv_timeout(WORKERS) {
                    Ok(ExportMessage::Left(count)) => (left, answers) = (left + count, answers + 1),
                    Ok(exported) => values += self.pass_on(stream, exported)?,
                    Err(_) => return Err(ErrorKind::TimedOut.into()),
                }
            }
            if !std::mem::replace(&mut is_known, true) {
                wire::send(stream, Kind::Known, b"", &[])?;
            }
            quiet = if left == 0 && values == 0 && !taking { quiet + 1 } else { 0 };
            if left > 0 || taking {
                self.pass_on_until(round, stream)?;
            }
        }
        wire::send(stream, Kind::Done, b"", &[])?;
        let mut liveness = Liveness::new();
        while liveness.wait(stream) {
            match wire::receive(stream)?.kind {
                Kind::Bye => return Ok(()),
                // No connection that it could mean is left here.
                Kind::Cancel | Kind::Participant | Kind::Alive => {}
                Kind::Leaves => return Err(Stopped::Leaves),
                _ => return Err(ErrorKind::InvalidData.into()),
            }
        }
        Err(ErrorKind::TimedOut.into())
    }

    /// Hands messages that the other process has sent since then to the workers; returns whether there were any.
    fn listen_to(&self, stream: &UnixStream) -> Result<bool, Stopped> {
        let mut heard = false;
        while has_sent(stream) {
            self.listen(stream)?;
            heard = true;
        }
        Ok(heard)
    }

    /// Passes on one message; returns whether it is for what runs beside the workers.
    fn listen(&self, stream: &UnixStream) -> Result<bool, Stopped> {
        let frame = wire::receive(stream)?;
        match frame.kind {
            Kind::Cancel => {
                let CancelRequest { pid, secret } = wire::value(&frame)?;
                let worker = worker_of_cancel_pid(pid, self.mailboxes.workers());
                self.mailboxes.send(worker, WorkerMessage::CancelRequest { pid, secret });
                Ok(false)
            }
            Kind::Participant => {
                let said: Vec<u8> = wire::value(&frame)?;
                self.participant.get().iter().for_each(|participant| participant.received(&said));
                Ok(true)
            }
            Kind::Alive => Ok(false),
            Kind::Leaves => Err(Stopped::Leaves),
            _ => Err(ErrorKind::InvalidData.into()),
        }
    }

    /// Forwards what arrives until then.
    fn pass_on_until(&self, round: Instant, stream: &UnixStream) -> io::Result<()> {
        loop {
            match self.exported.recv_timeout(round.saturating_duration_since(Instant::now())) {
                Ok(exported) => drop(self.pass_on(stream, exported)?),
                Err(RecvTimeoutError::Disconnected) => return Err(ErrorKind::BrokenPipe.into()),
                Err(RecvTimeoutError::Timeout) => return Ok(()),
            }
        }
    }

    /// Sends what a worker has released to the other process. Returns the number of sockets.
    fn pass_on(&self, stream: &UnixStream, exported: ExportMessage) -> io::Result<usize> {
        let ExportMessage::Value { from, route, value, socket } = exported else { return Ok(0) };
        let Some(Handoff { socket, tls, held }) = socket else {
            let item = Item { route, value, held: Vec::new(), tls: None, is_tcp: false };
            return wire::send_value(stream, Kind::Item, &item, &[]).map(|()| 0);
        };
        let tls = match tls {
            None => None,
            Some(Tls::Open(session)) => match session.into_state() {
                Some(state) => Some(state),
                None => {
                    self.log
                        .line(Level::Warning, format_args!("an encrypted connection could not be handed over; closed"));
                    return Ok(1);
                }
            },
            // A connection is not released before its handshake is done.
            Some(Tls::Handshaking(_)) => return Ok(1),
        };
        let item = Item { route, value, held, tls, is_tcp: socket.is_tcp() };
        let sent = wire::send_value(stream, Kind::Item, &item, &[socket.fd()]);
        if sent.is_err()
            && let Ok(fd) = socket.fd().try_clone_to_owned()
            && let Some(handoff) = super::import::handoff(fd, item.is_tcp, item.held, item.tls)
        {
            self.mailboxes.send(from, WorkerMessage::Imported { value: item.value, socket: Some(handoff) });
        }
        sent.map(|()| 1)
    }

    /// Returns to the workers what they have released since then.
    fn keep_rest(&self) {
        // Workers release nothing more once they know that they keep their connections; what was under way arrives
        // soon.
        let by = Instant::now() + Duration::from_secs(1);
        while let Ok(exported) = self.exported.recv_timeout(by.saturating_duration_since(Instant::now())) {
            self.put_back(exported);
        }
    }

    fn put_back(&self, exported: ExportMessage) {
        if let ExportMessage::Value { from, value, socket, .. } = exported {
            self.mailboxes.send(from, WorkerMessage::Imported { value, socket });
        }
    }

    fn forget_answers(&self) {
        while let Ok(exported) = self.exported.try_recv() {
            self.put_back(exported);
        }
    }

    fn send_step(&self, step: UpgradeStep) {
        self.mailboxes.send_all(|| WorkerMessage::Upgrade(step));
    }

    /// The next expected message of a worker.
    fn next(&self, by: Instant, wanted: impl Fn(&ExportMessage) -> bool) -> io::Result<ExportMessage> {
        loop {
            match self.exported.recv_timeout(by.saturating_duration_since(Instant::now())) {
                Ok(exported) if wanted(&exported) => return Ok(exported),
                Ok(exported) => self.put_back(exported),
                Err(_) => return Err(io::Error::new(ErrorKind::TimedOut, "workers did not answer")),
            }
        }
    }
}
