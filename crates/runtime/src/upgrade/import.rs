//! The new process's side: asks the old one, begins with its listening sockets, then takes in what it sends.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Duration;

use weir_base::{WorkerId, plural};
use weir_engine::UPGRADE_FORMAT;
use weir_engine::port::{Level, OfferedState, OldProcessState, Signal};

use super::control_plane::ControlPlaneSlot;
use super::listeners::{ListenerKind, Offered};
use super::old_process_link::OldProcessLink;
use super::participant::ParticipantSlot;
use super::process::OtherProcess;
use super::socket::{is_trusted, server_user};
use super::wire::{self, Item, Kind, Offer, Serving};
use crate::log::Log;
use crate::mailbox::{Handoff, Mailboxes, WorkerMessage};
use crate::socket::Socket;
use crate::tls::{Session, Tls};

/// How long the old process may take to answer.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an old process that ends may take until it is gone.
const ENDING: Duration = Duration::from_secs(5);
/// The time between two signs of life.
const ALIVE: Duration = Duration::from_millis(200);
/// After this many signs of life, pools open servers though the old process has not sent how many it has: it hangs.
const HANGS_AFTER: u32 = 10;

/// A process that offers to be taken over from, with its listening sockets.
pub struct OldProcess {
    stream: UnixStream,
    process: OtherProcess,
    offer: Offer,
    listeners: Offered,
}

/// Why no process is taken over from.
#[derive(Debug)]
pub enum NoOldProcess {
    /// No process was found.
    Absent,
    /// A process was found, and can't be taken over from.
    Refused(String),
}

impl fmt::Display for NoOldProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoOldProcess::Absent => f.write_str("no process serves there"),
            NoOldProcess::Refused(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for NoOldProcess {}

/// Connects to the process that serves at this socket, if that is believed; `user`: the one that it may have switched to.
pub(super) fn connect(path: &Path, user: Option<&str>) -> Result<UnixStream, NoOldProcess> {
    let stream = UnixStream::connect(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => NoOldProcess::Absent,
        _ => NoOldProcess::Refused(format!("{}: {error}", path.display())),
    })?;
    if !is_trusted(&stream, Some(server_user(user))) {
        return Err(NoOldProcess::Refused(format!("{} is another user's", path.display())));
    }
    Ok(stream)
}

impl OldProcess {
    /// Asks the process that serves at this socket. Nothing changes for that process, whatever the result, before
    /// `import_all`. `user`: the user under which this process will serve, if root has started it; the
    /// other process may run as that user already.
    ///
    /// # Errors
    /// There is no such process, or it refuses.
    pub fn ask(path: &Path, user: Option<&str>) -> Result<OldProcess, NoOldProcess> {
        let stream = connect(path, user)?;
        OldProcess::agree(stream).map_err(|error| {
            let why = match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                    let seconds = ANSWER_TIMEOUT.as_secs();
                    format!("no answer within {seconds} s; if another upgrade is under way, try again after it")
                }
                ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => "the process has just ended".to_owned(),
                _ => error.to_string(),
            };
            NoOldProcess::Refused(format!("{}: {why}", path.display()))
        })
    }

    fn agree(stream: UnixStream) -> io::Result<OldProcess> {
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        let hello = [&UPGRADE_FORMAT.to_be_bytes()[..], env!("CARGO_PKG_VERSION").as_bytes()].concat();
        wire::send(&stream, Kind::Hello, &hello, &[])?;
        let frame = wire::receive(&stream)?;
        match frame.kind {
            Kind::Offer => {
                let offer: Offer = wire::value(&frame)?;
                let listeners = offer.listeners.iter().cloned().zip(frame.descriptors).collect();
                let process = OtherProcess::of(offer.pid, offer.namespace.as_deref());
                Ok(OldProcess { stream, process, offer, listeners })
            }
            Kind::Refused => Err(io::Error::other(String::from_utf8_lossy(&frame.bytes).into_owned())),
            _ => Err(ErrorKind::InvalidData.into()),
        }
    }

    /// The old process's id.
    pub fn pid(&self) -> u32 {
        self.offer.pid
    }

    pub(crate) fn process_key(&self) -> [u8; 32] {
        self.offer.process_key
    }

    /// The wall clock at the beginning of the old process's clock, and what that clock shows, in microseconds.
    pub(crate) fn clock(&self) -> (u64, u64) {
        (self.offer.wall_at_start, self.offer.now)
    }

    pub(crate) fn prepared(&self) -> &OfferedState {
        &self.offer.prepared
    }

    /// The settings that SET has changed in the old process, and that have the file's values in this one.
    pub fn lost_settings(&self) -> impl Iterator<Item = &str> {
        self.offer.prepared.set.iter().map(String::as_str)
    }

    /// Where the old process's standard error goes.
    pub fn take_errors(&mut self) -> Option<OwnedFd> {
        let at = self.listeners.iter().position(|(kind, _)| *kind == ListenerKind::Errors)?;
        Some(self.listeners.remove(at).1)
    }

    /// The old process's listening sockets for clients and for the next take-over.
    pub(crate) fn take_listeners(&mut self) -> Offered {
        let (web, others) = self.listeners.drain(..).partition(|(kind, _)| *kind == ListenerKind::Web);
        self.listeners = web;
        others
    }

    /// The old process's listening sockets for HTTP.
    pub(crate) fn take_web(&mut self) -> Vec<TcpListener> {
        let web = self.listeners.extract_if(.., |(kind, _)| *kind == ListenerKind::Web);
        web.map(|(_, fd)| TcpListener::from(fd)).collect()
    }

    /// Called when this process serves: informs the old one, accepts, and takes in, on a thread, everything that the old process
    /// sends; then calls `taken`, unless the old process serves on and keeps the files of the sockets.
    pub(crate) fn import_all(
        self,
        mailboxes: Mailboxes,
        log: Log,
        (old_process_link, participant, control_plane): (OldProcessLink, ParticipantSlot, ControlPlaneSlot),
        taken: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        self.stream.set_read_timeout(None)?;
        let said = wire::send_value(&self.stream, Kind::Serving, &Serving { pid: std::process::id() }, &[]);
        if let Err(error) = said
            && !self.process.certainly_ends_within(ENDING)
        {
            return Err(error);
        }
        // If the old process has ended, this one has the listening sockets, and nobody else does.
        old_process_link.serves(self.stream.try_clone().ok());
        mailboxes.send(WorkerId(0), WorkerMessage::Listen(true));
        control_plane.accept(true);
        let (lives, workers) = (old_process_link.clone(), mailboxes.clone());
        thread::Builder::new().name("weir-alive".into()).spawn(move || {
            let mut rounds = 0;
            while lives.lasts() {
                lives.alive();
                thread::sleep(ALIVE);
                rounds += 1;
                if rounds == HANGS_AFTER {
                    send_state(&workers, OldProcessState::Reported);
                    lives.known();
                }
            }
        })?;
        thread::Builder::new().name("weir-import".into()).spawn(move || {
            let (mut clients, began) = (0_u64, std::time::Instant::now());
            let ended = import(&self.stream, &mailboxes, (&old_process_link, &participant), &mut clients);
            old_process_link.end();
            participant
                .get()
                .iter()
                .for_each(|participant| if ended.is_ok() { participant.imported() } else { participant.lost() });
            let serves_on = ended.is_err() && !self.process.ends_within(ENDING);
            if !serves_on {
                send_state(&mailboxes, OldProcessState::Ended);
                taken();
            }
            match ended {
                Ok(()) => {
                    let took = began.elapsed().as_secs_f64();
                    log.line(
                        Level::Info,
                        format_args!(
                            "took over {} in {took:.3} s; the old process has ended",
                            plural(clients, "connection", "connections")
                        ),
                    );
                }
                Err(error) if serves_on => {
                    log.line(
                        Level::Error,
                        format_args!("the old process has given up waiting, and serves on: {error}; ending"),
                    );
                    // One of the two accepts.
                    mailboxes.send(WorkerId(0), WorkerMessage::Listen(false));
                    control_plane.accept(false);
                    mailboxes.send(WorkerId(0), WorkerMessage::Signal(Signal::ShutdownClients));
                }
                Err(error) => {
                    log.line(
                        Level::Warning,
                        format_args!("the old process ended early: {error}; its remaining clients were lost"),
                    );
                }
            }
        })?;
        Ok(())
    }
}

fn send_state(mailboxes: &Mailboxes, state: OldProcessState) {
    mailboxes.send_all(|| WorkerMessage::OldProcess(state));
}

fn import(
    stream: &UnixStream,
    mailboxes: &Mailboxes,
    (old_process_link, participant): (&OldProcessLink, &ParticipantSlot),
    count: &mut u64,
) -> io::Result<()> {
    loop {
        let mut frame = wire::receive(stream)?;
        match frame.kind {
            Kind::Item => {
                let item: Item = wire::value(&frame)?;
                let worker = WorkerId((item.route % u64::from(mailboxes.workers())) as u16);
                let socket = frame.descriptors.pop();
                *count += u64::from(socket.is_some());
                let handoff = match socket {
                    Some(fd) => match handoff(fd, item.is_tcp, item.held, item.tls) {
                        Some(handoff) => Some(handoff),
                        None => continue,
                    },
                    None => None,
                };
                mailboxes.send(worker, WorkerMessage::Imported { value: item.value, socket: handoff });
            }
            Kind::Participant => {
                let said: Vec<u8> = wire::value(&frame)?;
                old_process_link
                    .say(&participant.get().map(|participant| participant.import(&said)).unwrap_or_default());
            }
            Kind::Known => {
                send_state(mailboxes, OldProcessState::Reported);
                old_process_link.known();
            }
            Kind::Done => return wire::send(stream, Kind::Bye, b"", &[]),
            _ => return Err(ErrorKind::InvalidData.into()),
        }
    }
}

/// A socket with the data that accompanied it.
pub(super) fn handoff(
    fd: OwnedFd,
    is_tcp: bool,
    held: Vec<u8>,
    tls: Option<crate::tls::SealedState>,
) -> Option<Handoff> {
    rustix::io::ioctl_fionbio(fd.as_fd(), true).ok()?;
    let tls = match tls {
        Some(state) => Some(Tls::Open(Box::new(Session::moved(state)?))),
        None => None,
    };
    let socket = if is_tcp {
        Socket::Tcp(mio::net::TcpStream::from_std(fd.into()))
    } else {
        Socket::Unix(mio::net::UnixStream::from_std(fd.into()))
    };
    Some(Handoff { socket, tls, held })
}
