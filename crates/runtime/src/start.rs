//! Starting and ending: everything is bound before anything runs, and everything ends together.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use mio::Poll;
use rand_core::{OsRng, RngCore};
use weir_admin::Control;
use weir_base::{Time, WorkerId};
use weir_config::{Listen, SocketIo};
use weir_engine::port::{Level, OfferedState, Signal};
use weir_uring::{Ring, RingError};

use crate::clock::Clock;
use crate::control_queue::ControlQueue;
use crate::descriptors::raise_descriptors;
use crate::handler::{Handler, WorkerSetup};
use crate::helpers::{AskPatroni, ChangeConfig, Configuring, Helpers, Record, Reload};
use crate::listen::{Bound, Inherited, Listening};
use crate::log::{Log, LogTarget, LogThread};
use crate::mailbox::{Inbox, Mailboxes, WorkerMessage};
use crate::port::{MakeRing, Port, RING_SIZE};
use crate::rounds::Rounds;
use crate::shared::{Ending, Shared};
use crate::signals::{CaughtSignals, SignalThread, Signals};
use crate::socket_file::FileUsers;
use crate::start_error::StartError;
use crate::tls::TlsFiles;
use crate::upgrade::{
    ControlPlane, ControlPlaneSlot, ExportSender, ExportThread, Exporter, OldProcess, OldProcessLink, ParticipantSlot,
    UpgradeParticipant, UpgradeSocket,
};
use crate::worker::Worker;

/// The exit status when a worker panicked.
const PANICKED: i32 = 101;

/// The runtime's configuration, for any handler.
pub struct RuntimeOptions {
    /// The listeners.
    pub listen: Listen,
    /// Worker threads; at least one runs.
    pub workers: u16,
    /// How workers wait for their sockets.
    pub io: SocketIo,
    /// Makes a worker's io_uring.
    pub ring: MakeRing,
    /// Reads the configuration again; called on a helper thread.
    pub reload: Reload,
    /// Changes the configuration, if that is possible; called on a helper thread.
    pub change: Option<ChangeConfig>,
    /// Adds a configuration to the history, if there is one; called on a helper thread.
    pub record: Option<Record>,
    /// Asks Patroni; called on helper threads. `None`: it is not asked.
    pub ask_patroni: Option<AskPatroni>,
    /// The target of the log.
    pub log: LogTarget,
    /// The settings of the log.
    pub logging: weir_config::Log,
    /// Listening sockets opened by another process: used instead of those of `listen`.
    pub inherited: Inherited,
    /// The process that this one takes over from.
    pub old_process: Option<OldProcess>,
    /// Where another process asks to take over from this one; `None`: nowhere.
    pub upgrade_socket: Option<PathBuf>,
    /// How names of servers are looked up, until a configuration is adopted that sets it.
    pub dns: weir_config::Dns,
    /// The beginning of the log's first line.
    pub greeting: String,
    /// Warnings for the log.
    pub warnings: Vec<String>,
    /// Whether to handle the process's signals.
    pub signals: Signals,
    /// The keys and certificates.
    pub tls: TlsFiles,
}

/// A running runtime, which ends when this value is dropped.
pub struct Running {
    bound: Bound,
    handle: Handle,
    workers: Vec<JoinHandle<()>>,
    signals: Option<SignalThread>,
    upgrade: Option<ExportThread>,
    control_plane: ControlPlaneSlot,
    /// The process that this one takes over from, until the take-over.
    old_process: Option<OldProcess>,
    old_process_link: OldProcessLink,
    participant: ParticipantSlot,
    /// Set when another process has taken over.
    gone: Arc<AtomicBool>,
    file_users: FileUsers,
    /// The log, for a take-over; dropped with the end, since the log's thread ends after its last sender.
    plain_log: Option<Log>,
    log: Option<LogThread>,
}

/// A handle to a runtime, for other threads; cheap to clone.
#[derive(Clone)]
pub struct Handle {
    ending: Ending,
    control_queue: ControlQueue,
    mailboxes: Mailboxes,
    clock: Clock,
}

impl Handle {
    /// The present time, by the workers' clock.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Ends the process's pooling at once, with this exit status. Later calls have no effect.
    pub fn stop(&self, status: i32) {
        self.ending.end(status);
    }

    /// The workers' interface for a control plane.
    pub fn control(&self) -> Arc<dyn Control> {
        Arc::new(self.control_queue.clone())
    }

    /// Has worker 0's handler handle this signal, as if the process had received it.
    pub fn signal(&self, signal: Signal) {
        self.mailboxes.send(WorkerId(0), WorkerMessage::Signal(signal));
    }
}

/// Binds all listeners, then starts the workers, each with a handler of its own. After an error nothing is left
/// running.
pub fn start<B: Handler>(plan: RuntimeOptions, handler: impl FnMut(WorkerSetup) -> B) -> Result<Running, StartError> {
    raise_descriptors();
    let signals = (plan.signals == Signals::Handle).then(CaughtSignals::catch).transpose();
    let signals = signals.map_err(StartError::because("can't wait for signals"))?;
    let keepalive = plan.listen.keepalive.of_servers();
    let (mut old_process, gone) = (plan.old_process, Arc::<AtomicBool>::default());
    let (file_users, old_process_link) = (FileUsers::default(), OldProcessLink::default());
    if old_process.is_some() {
        // Until everything has arrived: it continues to serve if this process fails.
        file_users.add();
        old_process_link.begin();
    }
    let (inherited, upgrade) = match old_process.as_mut() {
        Some(old) => Inherited::from_process(old.take_listeners(), &file_users)
            .map_err(StartError::because("can't take over the listening sockets"))?,
        None => (plan.inherited, None),
    };
    let mut listening = Listening::bind(plan.listen, inherited, &file_users)?;
    let bound = listening.bound().clone();
    let polls = (0..plan.workers.max(1)).map(|_| Poll::new()).collect::<Result<Vec<_>, _>>();
    let polls = polls.map_err(StartError::because("can't make an event queue"))?;
    await_clients(&mut listening, &polls[0], old_process.is_some())?;
    let registries: Vec<_> = polls.iter().map(Poll::registry).collect();
    let (mailboxes, inboxes) = Mailboxes::open(&registries).map_err(StartError::because("can't make a mailbox"))?;
    let (log, log_thread) = Log::start(plan.log, &plan.logging).map_err(StartError::because("can't open the log"))?;
    let by_ring = choose_io(plan.io, &plan.greeting, &log);
    plan.warnings.iter().for_each(|text| log.line(Level::Warning, format_args!("{text}")));
    log_places(&listening, &log);
    let upgrade = upgrade.or_else(|| bind_upgrade_socket(plan.upgrade_socket.as_deref()?, &file_users, &log));
    let process_key = old_process.as_ref().map_or_else(random, OldProcess::process_key);
    let prepared = old_process.as_ref().map(OldProcess::prepared).cloned();
    let (exports, exported) = ExportSender::new();
    let tls_contexts = plan.tls.0.clone();
    tls_contexts.process_key.set(process_key);
    let configuring = Configuring { reload: plan.reload, change: plan.change, record: plan.record, tls: plan.tls };
    let recent = log.recent();
    let clock = old_process.as_ref().map_or_else(Clock::start, |old| Clock::continuing(old.clock()));
    let rounds = Rounds::new(inboxes.len());
    let shared = Shared {
        clock,
        exports,
        old_process_link,
        log,
        helpers: Helpers::start(&mailboxes, &configuring, plan.ask_patroni)
            .map_err(StartError::because("can't start a thread"))?,
        starved: Arc::new(AtomicBool::new(false)),
        ending: Ending::new(mailboxes.clone()),
        control_queue: ControlQueue::new(mailboxes.clone(), recent, (clock, rounds.clone())),
        rounds,
        tls_contexts,
    };
    let mut running = Running {
        bound,
        handle: Handle {
            ending: shared.ending.clone(),
            control_queue: shared.control_queue.clone(),
            mailboxes: mailboxes.clone(),
            clock: shared.clock,
        },
        workers: Vec::new(),
        signals: None,
        upgrade: None,
        control_plane: ControlPlaneSlot::default(),
        old_process_link: shared.old_process_link.clone(),
        participant: ParticipantSlot::default(),
        old_process,
        gone,
        file_users,
        plain_log: Some(shared.log.clone()),
        log: Some(log_thread),
    };
    if let Some(socket) = upgrade {
        let exporter = Exporter {
            socket,
            exported,
            mailboxes: mailboxes.clone(),
            log: shared.log.clone(),
            clock: shared.clock,
            process_key,
            ending: shared.ending.clone(),
            control_plane: running.control_plane.clone(),
            gone: running.gone.clone(),
            file_users: running.file_users.clone(),
            old_process_link: running.old_process_link.clone(),
            participant: running.participant.clone(),
            drain_callers: Mutex::default(),
        };
        running.upgrade = Some(ExportThread::start(exporter).map_err(StartError::because("can't start a thread"))?);
    }
    if let Some(kept) = signals {
        let thread = SignalThread::start(kept, mailboxes.clone(), shared.log.clone());
        running.signals = Some(thread.map_err(StartError::because("can't wait for signals"))?);
    }
    let mut listening = Some(listening);
    let ports = polls.into_iter().zip(inboxes).enumerate().map(|(i, (poll, messages))| {
        let inbox = Inbox::new(WorkerId(i as u16), mailboxes.clone(), messages);
        // The first worker gets the listeners.
        let mut port = Port::new(shared.clone(), poll, inbox, listening.take(), keepalive);
        port.connects.apply_config(&plan.dns);
        port
    });
    running.workers = spawn(ports.collect(), handler, (process_key, prepared), by_ring.then_some(plan.ring))?;
    Ok(running)
}

/// Waits for clients, unless another process accepts them until this one serves.
fn await_clients(listening: &mut Listening, poll: &Poll, takes_over: bool) -> Result<(), StartError> {
    let registered = if takes_over { Ok(()) } else { listening.register(poll.registry()) };
    registered.map_err(StartError::because("can't wait for clients"))
}

/// Logs the addresses where clients can connect, and why others could not be bound.
fn log_places(listening: &Listening, log: &Log) {
    let bound = listening.bound();
    listening.skipped().iter().for_each(|error| log.line(Level::Warning, format_args!("{error}")));
    let places = bound.tcp.iter().map(ToString::to_string);
    for place in places.chain(bound.unix.iter().map(|path| format!("unix:{}", path.display()))) {
        log.line(Level::Info, format_args!("listening on {place}"));
    }
}

/// The socket where another process asks to take over. Clients are served without it, too.
fn bind_upgrade_socket(path: &Path, users: &FileUsers, log: &Log) -> Option<UpgradeSocket> {
    match UpgradeSocket::bind(path, users) {
        Ok(socket) => Some(socket),
        Err(error) => {
            let place = path.display();
            log.line(Level::Warning, format_args!("no other process can take over from this one: {place}: {error}"));
            None
        }
    }
}

/// Whether workers use io_uring. Writes the log's first line, which reports it, with the reason where io_uring is not
/// available.
fn choose_io(io: SocketIo, greeting: &str, log: &Log) -> bool {
    let refused = match io {
        SocketIo::Epoll => None,
        SocketIo::Auto | SocketIo::IoUring => probe(),
    };
    if io != SocketIo::Epoll && refused.is_none() {
        log.line(Level::Info, format_args!("{greeting}, io: io_uring"));
        return true;
    }
    match (io, refused) {
        (SocketIo::Auto, Some(refused)) => {
            log.line(Level::Info, format_args!("{greeting}, io: epoll ({refused})"));
        }
        (_, refused) => {
            log.line(Level::Info, format_args!("{greeting}, io: epoll"));
            if let Some(refused) = refused {
                let text = format_args!("io = \"io_uring\" is not available, sockets use epoll: {refused}");
                log.line(Level::Warning, text);
            }
        }
    }
    false
}

/// Why io_uring is not available; on a thread of its own, since the end of a ring interrupts calls of the thread that
/// made it.
fn probe() -> Option<RingError> {
    let thread = thread::Builder::new().spawn(|| Ring::new(RING_SIZE).err()).ok()?;
    thread.join().ok()?
}

fn spawn<B: Handler>(
    ports: Vec<Port>,
    mut handler: impl FnMut(WorkerSetup) -> B,
    (process_key, old_process): ([u8; 32], Option<OfferedState>),
    ring: Option<MakeRing>,
) -> Result<Vec<JoinHandle<()>>, StartError> {
    let workers = ports.len() as u16;
    // All handlers exist before the first thread does, so that the first message finds its reader.
    let made: Vec<Worker<B>> = ports
        .into_iter()
        .map(|port| {
            let wall_at_start = port.shared.clock.wall_at_start();
            let (worker, seed, old_process) = (port.me, random(), old_process.clone());
            let setup = WorkerSetup { worker, workers, wall_at_start, seed, process_key, old_process };
            Worker::new(handler(setup), port, ring)
        })
        .collect();
    let (begun, begins) = channel();
    let start = |(i, worker): (usize, Worker<B>)| {
        let begun = begun.clone();
        thread::Builder::new().name(format!("weir-{i}")).spawn(move || {
            let _ends_all = EndsAll(worker.ending());
            // The receiver is gone if a thread could not be started.
            worker.run(move || {
                let _ = begun.send(());
            });
        })
    };
    let threads: Result<Vec<_>, _> = made.into_iter().enumerate().map(start).collect();
    let threads = threads.map_err(StartError::because("can't start a thread"))?;
    drop(begun);
    // A thread that ended before it began has dropped its sender, too.
    begins.iter().take(threads.len()).for_each(drop);
    Ok(threads)
}

fn random() -> [u8; 32] {
    let mut bytes = [0; 32];
    OsRng.fill_bytes(&mut bytes);
    bytes
}

/// Ends the whole process when a worker panics: its clients would hang otherwise.
struct EndsAll(Ending);

impl Drop for EndsAll {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.end(PANICKED);
        }
    }
}

impl Running {
    /// The bound addresses.
    pub fn bound(&self) -> &Bound {
        &self.bound
    }

    /// A handle for other threads.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// The control plane's listening sockets of the process that this one takes over from.
    pub fn take_web(&mut self) -> Vec<TcpListener> {
        self.old_process.as_mut().map(OldProcess::take_web).unwrap_or_default()
    }

    /// Sets what accepts connections beside the workers. In a process that takes over it accepts on request only.
    pub fn set_control_plane(&self, plane: Option<Arc<dyn ControlPlane>>) {
        self.control_plane.set(plane);
    }

    /// The process that this one takes over from, soon.
    pub fn old_process(&self) -> Option<u32> {
        self.old_process.as_ref().map(OldProcess::pid)
    }

    /// Sets what has a part, beside the workers, in take-overs by this process and from it; `None`: nothing.
    pub fn set_participant(&self, participant: Option<Arc<dyn UpgradeParticipant>>) {
        self.participant.set(participant);
    }

    /// Returns a function that sends bytes to what runs beside the other process's workers, as long as this process
    /// takes over.
    pub fn send_to_old_process(&self) -> impl Fn(&[u8]) + Send + use<> {
        let old_process_link = self.old_process_link.clone();
        move |said| old_process_link.say(said)
    }

    /// Everything serves: takes over from the other process, if there is one, and returns whether there is.
    ///
    /// # Errors
    /// The other process is gone, or gave up waiting.
    pub(crate) fn import_from_old_process(&mut self) -> Result<bool, StartError> {
        let (Some(old), Some(log)) = (self.old_process.take(), self.plain_log.clone()) else { return Ok(false) };
        let file_users = self.file_users.clone();
        let taken = move || file_users.remove();
        let (mailboxes, participant) = (self.handle.mailboxes.clone(), self.participant.clone());
        let beside = (self.old_process_link.clone(), participant, self.control_plane.clone());
        old.import_all(mailboxes, log, beside, taken).map_err(StartError::because("can't take over"))?;
        Ok(true)
    }

    /// Whether another process has taken over.
    pub fn is_gone(&self) -> Arc<AtomicBool> {
        self.gone.clone()
    }

    /// Whether the servers of pools that nodes share have ended all their connections; set at the end.
    pub fn shared_servers_ended(&self) -> Arc<AtomicBool> {
        self.handle.ending.shared_servers_ended().clone()
    }

    /// Waits for the end of the runtime, and returns the exit status.
    pub fn wait(mut self) -> i32 {
        self.join();
        self.handle.ending.status().unwrap_or_default()
    }

    fn join(&mut self) {
        for worker in self.workers.drain(..) {
            // A panic has been printed, and has become the exit status.
            let _ = worker.join();
        }
        if self.handle.ending.status() == Some(0) {
            self.old_process_link.leaves();
        }
        if let Some(signals) = self.signals.take() {
            signals.finish();
        }
        if let Some(upgrade) = self.upgrade.take() {
            upgrade.finish();
        }
        drop(self.plain_log.take());
        if let Some(log) = self.log.take() {
            log.finish();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.stop(0);
        self.join();
    }
}
