//! Starting and ending: everything is bound before anything runs, and everything ends together.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};

use mio::Poll;
use rand_core::{OsRng, RngCore};
use weir_admin::Control;
use weir_base::WorkerId;
use weir_config::{Listen, SocketIo};
use weir_engine::port::{Level, Signal};
use weir_uring::{Ring, RingError};

use crate::clock::Clock;
use crate::control_queue::ControlQueue;
use crate::descriptors::raise_descriptors;
use crate::handler::{Handler, WorkerSetup};
use crate::helpers::{Change, Configuring, Helpers, Reload};
use crate::listen::{Bound, Inherited, Listening};
use crate::log::{Log, LogTarget, LogThread};
use crate::mailbox::{Inbox, Mailboxes, WorkerMessage};
use crate::port::{MakeRing, Port, RING_SIZE};
use crate::shared::{Ending, Shared};
use crate::signals::{CaughtSignals, SignalThread, Signals};
use crate::start_error::StartError;
use crate::tls::TlsFiles;
use crate::worker::Worker;

/// The exit status when a worker died of a broken invariant.
const PANICKED: i32 = 101;

/// What the runtime itself has to know, whatever its handlers do.
pub struct Plan {
    /// Where clients connect.
    pub listen: Listen,
    /// Worker threads; at min_level one runs.
    pub workers: u16,
    /// What they wait for their sockets with.
    pub io: SocketIo,
    /// How a worker makes its io_uring, if it waits with one.
    pub ring: MakeRing,
    /// Reads the configuration again, on a helper thread.
    pub reload: Reload,
    /// Changes the configuration, on a helper thread, where it can be changed.
    pub change: Option<Change>,
    /// Where the log goes.
    pub log: LogTarget,
    /// What is logged, how, and where else.
    pub logging: weir_config::Log,
    /// Listening sockets that somebody opened for us: used instead of those of `listen`.
    pub inherited: Inherited,
    /// How names of servers are looked up, until a configuration is adopted that says otherwise.
    pub dns: weir_config::Dns,
    /// The first words of the log.
    pub greeting: String,
    /// What is warned of next.
    pub warnings: Vec<String>,
    /// Whether the process's signals are ours.
    pub signals: Signals,
    /// What handshakes go by.
    pub tls: TlsFiles,
}

/// A runtime that serves. Dropping it ends it.
pub struct Running {
    bound: Bound,
    handle: Handle,
    workers: Vec<JoinHandle<()>>,
    signals: Option<SignalThread>,
    log: Option<LogThread>,
}

/// Reaches a running runtime from outside; cheap to clone.
#[derive(Clone)]
pub struct Handle {
    ending: Ending,
    control_queue: ControlQueue,
    mailboxes: Mailboxes,
}

impl Handle {
    /// Ends it at once, with this exit status. The first one counts.
    pub fn stop(&self, status: i32) {
        self.ending.end(status);
    }

    /// The workers, for a control plane to ask.
    pub fn control(&self) -> Arc<dyn Control> {
        Arc::new(self.control_queue.clone())
    }

    /// Has worker 0's handler handle this signal, as if the process had received it.
    pub fn signal(&self, signal: Signal) {
        self.mailboxes.send(WorkerId(0), WorkerMessage::Signal(signal));
    }
}

/// Binds everything, then starts the workers, each with a handler of its own. Nothing runs if this fails.
pub fn start<B: Handler>(plan: Plan, handler: impl FnMut(WorkerSetup) -> B) -> Result<Running, StartError> {
    raise_descriptors();
    let signals = (plan.signals == Signals::Handle).then(CaughtSignals::catch).transpose();
    let signals = signals.map_err(StartError::because("can't wait for signals"))?;
    let keepalive = plan.listen.keepalive;
    let mut listening = Listening::bind(plan.listen, plan.inherited)?;
    let bound = listening.bound().clone();
    let count = plan.workers.max(1);
    let polls = (0..count).map(|_| Poll::new()).collect::<Result<Vec<_>, _>>();
    let polls = polls.map_err(StartError::because("can't make an event queue"))?;
    listening.register(polls[0].registry()).map_err(StartError::because("can't wait for clients"))?;
    let registries: Vec<_> = polls.iter().map(Poll::registry).collect();
    let (mailboxes, inboxes) = Mailboxes::open(&registries).map_err(StartError::because("can't make a mailbox"))?;
    let (log, log_thread) = Log::start(plan.log, &plan.logging).map_err(StartError::because("can't open the log"))?;
    let by_ring = choose_io(plan.io, &plan.greeting, &log);
    plan.warnings.iter().for_each(|text| log.line(Level::Warning, format_args!("{text}")));
    let places = bound.tcp.iter().map(ToString::to_string);
    for place in places.chain(bound.unix.iter().map(|path| format!("unix:{}", path.display()))) {
        log.line(Level::Info, format_args!("listening on {place}"));
    }
    let tls_contexts = plan.tls.0.clone();
    let configuring = Configuring { reload: plan.reload, change: plan.change, tls: plan.tls };
    let shared = Shared {
        clock: Clock::start(),
        log,
        helpers: Helpers::start(&mailboxes, &configuring).map_err(StartError::because("can't start a thread"))?,
        starved: Arc::new(AtomicBool::new(false)),
        ending: Ending::new(mailboxes.clone()),
        control_queue: ControlQueue::new(mailboxes.clone()),
        tls_contexts,
    };
    let mut running = Running {
        bound,
        handle: Handle {
            ending: shared.ending.clone(),
            control_queue: shared.control_queue.clone(),
            mailboxes: mailboxes.clone(),
        },
        workers: Vec::new(),
        signals: None,
        log: Some(log_thread),
    };
    if let Some(kept) = signals {
        let thread = SignalThread::start(kept, mailboxes.clone(), shared.log.clone());
        running.signals = Some(thread.map_err(StartError::because("can't wait for signals"))?);
    }
    let mut listening = Some(listening);
    let ports = polls.into_iter().zip(inboxes).enumerate().map(|(i, (poll, messages))| {
        let inbox = Inbox::new(WorkerId(i as u16), mailboxes.clone(), messages);
        // The first worker takes the listeners.
        let mut port = Port::new(shared.clone(), poll, inbox, listening.take(), keepalive);
        port.connects.adopt(&plan.dns);
        port
    });
    running.workers = spawn(ports.collect(), handler, by_ring.then_some(plan.ring))?;
    Ok(running)
}

/// Whether workers wait with an io_uring. Writes the log's first line, which says so, and why not where there is none.
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
            log.line(Level::Info, format_args!("{greeting}, io: epoll, for {refused}"));
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

/// Why there can't be a ring; on a thread of its own, because the end of a ring interrupts calls of the thread that
/// made it.
fn probe() -> Option<RingError> {
    let thread = thread::Builder::new().spawn(|| Ring::new(RING_SIZE).err()).ok()?;
    thread.join().ok()?
}

fn spawn<B: Handler>(
    ports: Vec<Port>,
    mut handler: impl FnMut(WorkerSetup) -> B,
    ring: Option<MakeRing>,
) -> Result<Vec<JoinHandle<()>>, StartError> {
    let workers = ports.len() as u16;
    // All handlers exist before the first thread does, so that the first message finds its reader.
    let process_key = random();
    let made: Vec<Worker<B>> = ports
        .into_iter()
        .map(|port| {
            let wall_at_start = port.shared.clock.wall_at_start();
            let setup = WorkerSetup { worker: port.me, workers, wall_at_start, seed: random(), process_key };
            Worker::new(handler(setup), port, ring)
        })
        .collect();
    let (begun, begins) = channel();
    let start = |(i, worker): (usize, Worker<B>)| {
        let begun = begun.clone();
        thread::Builder::new().name(format!("weir-{i}")).spawn(move || {
            let _ends_all = EndsAll(worker.ending());
            // Nobody listens any more if a thread could not be started.
            worker.run(move || {
                let _ = begun.send(());
            });
        })
    };
    let threads: Result<Vec<_>, _> = made.into_iter().enumerate().map(start).collect();
    let threads = threads.map_err(StartError::because("can't start a thread"))?;
    drop(begun);
    // One that died before it began has let go of its end, too.
    begins.iter().take(threads.len()).for_each(drop);
    Ok(threads)
}

fn random() -> [u8; 32] {
    let mut bytes = [0; 32];
    OsRng.fill_bytes(&mut bytes);
    bytes
}

/// Ends the whole process's pooling when a worker dies: half a pooler would leave its clients hanging.
struct EndsAll(Ending);

impl Drop for EndsAll {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.end(PANICKED);
        }
    }
}

impl Running {
    /// Where it listens.
    pub fn bound(&self) -> &Bound {
        &self.bound
    }

    /// A way to reach it while somebody waits for its end.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Waits for its end and returns its exit status.
    pub fn wait(mut self) -> i32 {
        self.join();
        self.handle.ending.status().unwrap_or_default()
    }

    fn join(&mut self) {
        for worker in self.workers.drain(..) {
            // A panic has been printed, and has become the exit status.
            let _ = worker.join();
        }
        if let Some(signals) = self.signals.take() {
            signals.finish();
        }
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
